// What a decoder-only transformer's files say about it, brought to one form: the settings that its step is recorded
// from.
//
// Read from a Hugging Face config.json or from GGUF metadata. A field that would change results and that is not
// implemented is refused by name; so is an unknown rope type or activation. Every number is checked before use, so that
// products of them cannot overflow. Plain data; the functions are pure and thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/checkpoint.h"
#include "formats/hf_config.h"
#include "models/layers/rope.h"

namespace deepinfer::models {

enum class LayerKind : uint8_t { kFull, kSliding };

// Feed-forward layers of experts, of which each token passes some. No experts: layers are dense.
struct ExpertConfig {
  int64_t count = 0;
  int64_t used = 0;        // by each token
  int64_t ffn = 0;         // of one expert
  bool normalise = false;  // the weights of a token's experts sum to 1

  bool operator==(const ExpertConfig&) const = default;
};

struct DecoderConfig {
  std::string architecture;
  int64_t hidden = 0;
  int64_t layers = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t ffn = 0;
  int64_t vocab = 0;
  int64_t max_positions = 0;
  double eps = 1e-6;
  double norm_offset = 0;  // norms multiply by weight + offset: 1 for Gemma's checkpoints, 0 where a file has it added
  double embedding_scale = 1;
  double attention_scale = 0;  // of q . k
  std::string activation;      // of glu: "silu" or "gelu_tanh"
  bool qkv_bias = false;
  bool o_bias = false;
  bool mlp_bias = false;
  bool tied = false;              // the head is the embedding
  bool rope_interleaved = false;  // pairs are (2i, 2i+1): GGUF's llama, whose q and k rows are permuted for it
  bool rope_factors = false;      // a tensor divides the inverse frequencies (rope_freqs.weight of GGUF files)
  ExpertConfig experts;
  int64_t window = 0;  // of sliding layers: how many positions back, the token's own included
  std::vector<LayerKind> layer_kinds;
  RopeConfig rope;          // of full layers
  RopeConfig rope_sliding;  // of sliding layers
  std::vector<int32_t> eos_ids;

  int64_t q_width() const { return heads * head_dim; }
  int64_t kv_width() const { return kv_heads * head_dim; }
};

// Values for fields that a config.json may leave out; 0: it may not (kv_heads: as many as heads, head_dim: hidden /
// heads).
struct HfDefaults {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t vocab = 0;
  int64_t max_positions = 0;
  const char* activation = "silu";
  bool tied = false;
  bool experts = false;  // the architecture has them
};

// Everything that the architectures share. The caller sets what is its own, then calls Validate.
Result<DecoderConfig> ReadHf(const formats::HfConfig& config, const char* architecture, const HfDefaults& defaults);
Result<DecoderConfig> ReadGguf(const formats::Checkpoint& checkpoint, const char* architecture, bool experts = false);

// Fails if the node has the field with another value than `neutral` (null, false and 0 are one; an empty list is
// neutral).
Status RefuseField(const formats::ConfigNode& node, const char* field, double neutral);
// The rope of config.json's rope_parameters, or of the older rope_scaling and rope_theta.
Result<RopeConfig> ReadHfRope(const formats::ConfigNode& node, const DecoderConfig& config, double default_theta);
// The rope that `scaling` (may be null) describes, with `theta` where it gives none.
Result<RopeConfig> ReadHfRopeNode(const formats::ConfigNode& node, const formats::ConfigNode* scaling,
                                  const DecoderConfig& config, double theta);
Result<RopeConfig> ReadGgufRope(const formats::GgufFile& file, const std::string& architecture,
                                const DecoderConfig& config);
// Every layer full.
void SetFullLayers(DecoderConfig* config);
// Ranges and divisibility. `where` names the file.
Status Validate(const DecoderConfig& config, const std::string& where);
Status ValidateRope(const RopeConfig& rope, int64_t head_dim, const std::string& where);

}  // namespace deepinfer::models
