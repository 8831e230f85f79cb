// Rotary position embedding: the inverse frequencies of each scaling type, and the factor that cos and sin are
// multiplied by.
//
// The formulas are those of Transformers (modeling_rope_utils): linear position interpolation; llama3's bands by
// wavelength; YaRN (arXiv:2309.00071). Computed in double and rounded once to f32. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace deepinfer::models {

enum class RopeType { kDefault, kLinear, kLlama3, kYarn };
std::optional<RopeType> ParseRopeType(std::string_view name);
inline constexpr char kSupportedRopeTypes[] = "default, linear, llama3, yarn";

struct RopeConfig {
  RopeType type = RopeType::kDefault;
  double theta = 10000;
  int64_t dim = 0;  // rotated dimensions of a head, even; there are dim / 2 frequencies
  double factor = 1;
  int64_t original_max_positions = 0;      // llama3, yarn
  double low_freq_factor = 1;              // llama3
  double high_freq_factor = 4;             // llama3
  double beta_fast = 32;                   // yarn
  double beta_slow = 1;                    // yarn
  std::optional<double> attention_factor;  // yarn: given, or computed from factor and mscale
  std::optional<double> mscale;            // yarn; used only together with mscale_all_dim
  std::optional<double> mscale_all_dim;    // yarn
  bool truncate = true;                    // yarn: the ramp's ends are whole pair indices
  bool operator==(const RopeConfig&) const = default;
};

struct RopeFrequencies {
  std::vector<float> inverse;   // [dim / 2]
  double attention_factor = 1;  // of cos and sin
};

RopeFrequencies ComputeRope(const RopeConfig& config);

}  // namespace deepinfer::models
