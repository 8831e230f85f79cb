#include "models/layers/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/fixed_math.h"

namespace deepinfer::models {
namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;

double YarnScale(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * FixedLog(factor) + 1.0;
}

double YarnAttentionFactor(const RopeConfig& config) {
  if (config.attention_factor) return *config.attention_factor;
  const double mscale = config.mscale.value_or(0);
  const double all_dim = config.mscale_all_dim.value_or(0);
  if (mscale != 0 && all_dim != 0) return YarnScale(config.factor, mscale) / YarnScale(config.factor, all_dim);
  return YarnScale(config.factor, 1);
}

// The pair (a real number) that turns `rotations` times over the original context.
double YarnPair(const RopeConfig& config, double rotations) {
  const double length = static_cast<double>(config.original_max_positions);
  return static_cast<double>(config.dim) * FixedLog(length / (rotations * kTwoPi)) / (2 * FixedLog(config.theta));
}

// How much of the interpolated frequency each pair takes: 0 below the ramp, 1 above it.
std::vector<double> YarnRamp(const RopeConfig& config) {
  double low = YarnPair(config, config.beta_fast);
  double high = YarnPair(config, config.beta_slow);
  if (config.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(config.dim - 1));
  if (low == high) high += 0.001;  // Transformers' way around the division by zero
  std::vector<double> ramp(static_cast<size_t>(config.dim / 2));
  for (size_t i = 0; i < ramp.size(); ++i)
    ramp[i] = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
  return ramp;
}

double Llama3Frequency(const RopeConfig& config, double frequency) {
  const double length = static_cast<double>(config.original_max_positions);
  const double wavelength = kTwoPi / frequency;
  if (wavelength < length / config.high_freq_factor) return frequency;
  if (wavelength > length / config.low_freq_factor) return frequency / config.factor;
  const double smooth =
      (length / wavelength - config.low_freq_factor) / (config.high_freq_factor - config.low_freq_factor);
  return (1 - smooth) * frequency / config.factor + smooth * frequency;
}

}  // namespace

std::optional<RopeType> ParseRopeType(std::string_view name) {
  if (name == "default") return RopeType::kDefault;
  if (name == "linear") return RopeType::kLinear;
  if (name == "llama3") return RopeType::kLlama3;
  if (name == "yarn") return RopeType::kYarn;
  return std::nullopt;
}

RopeFrequencies ComputeRope(const RopeConfig& config) {
  RopeFrequencies result;
  const bool yarn = config.type == RopeType::kYarn;
  const std::vector<double> ramp = yarn ? YarnRamp(config) : std::vector<double>();
  if (yarn) result.attention_factor = YarnAttentionFactor(config);
  for (int64_t i = 0; i < config.dim / 2; ++i) {
    const double exponent = 2.0 * static_cast<double>(i) / static_cast<double>(config.dim);
    double frequency = FixedPow(config.theta, -exponent);
    switch (config.type) {
      case RopeType::kDefault:
        break;
      case RopeType::kLinear:
        frequency /= config.factor;
        break;
      case RopeType::kLlama3:
        frequency = Llama3Frequency(config, frequency);
        break;
      case RopeType::kYarn:
        frequency *= 1 - ramp[i] + ramp[i] / config.factor;
        break;
    }
    result.inverse.push_back(static_cast<float>(frequency));
  }
  return result;
}

}  // namespace deepinfer::models
