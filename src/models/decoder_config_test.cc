#include "models/decoder_config.h"

#include <cmath>
#include <filesystem>

#include "models/test_models.h"

namespace deepinfer::models {
namespace {

using nlohmann::json;

constexpr char kLlama[] = "LlamaForCausalLM";
constexpr char kQwen2[] = "Qwen2ForCausalLM";
constexpr char kQwen3[] = "Qwen3ForCausalLM";
constexpr char kGemma3[] = "Gemma3ForCausalLM";

void ExpectRefused(const char* architecture, const json& extra, const std::string& part) {
  const std::string error = ErrorOf(SmallConfig(architecture, extra));
  EXPECT_NE(error.find(part), std::string::npos) << extra.dump() << " gave: '" << error << "'";
}

TEST(DecoderConfigTest, Llama) {
  const DecoderConfig c = ConfigOf(SmallConfig(kLlama, {{"attention_bias", true}, {"eos_token_id", {2, 7}}}));
  EXPECT_EQ(c.architecture, "llama");
  EXPECT_EQ(c.q_width(), 64);
  EXPECT_EQ(c.kv_width(), 32);
  EXPECT_TRUE(c.qkv_bias && c.o_bias);
  EXPECT_FALSE(c.mlp_bias || c.tied || c.rope_interleaved);
  EXPECT_EQ(c.attention_scale, 0.25);
  EXPECT_EQ(c.activation, "silu");
  EXPECT_EQ(c.embedding_scale, 1.0);
  EXPECT_EQ(c.norm_offset, 0.0);
  EXPECT_EQ(c.eos_ids, (std::vector<int32_t>{2, 7}));
  EXPECT_EQ(c.rope.theta, 10000);
  EXPECT_EQ(c.rope.dim, 16);
}

TEST(DecoderConfigTest, HeadsDefaults) {
  const DecoderConfig c = ConfigOf(SmallConfig(kLlama, {{"head_dim", nullptr}, {"num_key_value_heads", nullptr}}));
  EXPECT_EQ(c.head_dim, 16);
  EXPECT_EQ(c.kv_heads, 4);
  EXPECT_EQ(ConfigOf(SmallConfig(kQwen3, {{"head_dim", nullptr}})).head_dim, 128);
}

TEST(DecoderConfigTest, Qwen) {
  const DecoderConfig qwen2 = ConfigOf(SmallConfig(kQwen2, {{"sliding_window", 4096}, {"use_sliding_window", false}}));
  EXPECT_TRUE(qwen2.qkv_bias);
  EXPECT_FALSE(qwen2.o_bias);
  EXPECT_EQ(qwen2.layer_kinds, std::vector<LayerKind>(3, LayerKind::kFull));
  const DecoderConfig qwen3 = ConfigOf(SmallConfig(kQwen3));
  EXPECT_FALSE(qwen3.qkv_bias || qwen3.o_bias);
}

// rope_scaling with `type` or `rope_type`, and rope_parameters, say the same.
TEST(DecoderConfigTest, RopeSpellings) {
  const json values = {
      {"factor", 4.0}, {"original_max_position_embeddings", 128}, {"beta_fast", 16}, {"truncate", false}};
  json typed = values;
  typed["type"] = "yarn";
  json rope_typed = values;
  rope_typed["rope_type"] = "yarn";
  json parameters = rope_typed;
  parameters["rope_theta"] = 5e5;
  const RopeConfig a = ConfigOf(SmallConfig(kQwen3, {{"rope_scaling", typed}, {"rope_theta", 5e5}})).rope;
  const RopeConfig b = ConfigOf(SmallConfig(kQwen3, {{"rope_scaling", rope_typed}, {"rope_theta", 5e5}})).rope;
  const RopeConfig c = ConfigOf(SmallConfig(kQwen3, {{"rope_parameters", parameters}})).rope;
  EXPECT_EQ(a.type, RopeType::kYarn);
  EXPECT_EQ(a.theta, 5e5);
  EXPECT_EQ(a.factor, 4.0);
  EXPECT_EQ(a.original_max_positions, 128);
  EXPECT_EQ(a.beta_fast, 16);
  EXPECT_FALSE(a.truncate);
  EXPECT_EQ(a, b);
  EXPECT_EQ(a, c);
}

TEST(DecoderConfigTest, RopeDefaultsAndPartial) {
  const json llama3 = {{"rope_type", "llama3"}, {"factor", 8.0}, {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0}};
  const RopeConfig rope = ConfigOf(SmallConfig(kLlama, {{"rope_scaling", llama3}})).rope;
  EXPECT_EQ(rope.original_max_positions, 512);
  EXPECT_EQ(rope.high_freq_factor, 4.0);
  EXPECT_EQ(ConfigOf(SmallConfig(kLlama, {{"partial_rotary_factor", 0.5}})).rope.dim, 8);
}

TEST(DecoderConfigTest, RopeRefusals) {
  ExpectRefused(kLlama, {{"rope_scaling", {{"rope_type", "dynamic"}, {"factor", 2.0}}}},
                "'dynamic' is not supported; supported are: default");
  ExpectRefused(kLlama, {{"rope_scaling", {{"type", "longrope"}}}}, "rope_scaling: type");
  ExpectRefused(kLlama, {{"rope_scaling", {{"type", "linear"}}}}, "factor");
  ExpectRefused(kLlama, {{"rope_scaling", {{"type", "linear"}, {"factor", 0}}}}, "rope factor");
  ExpectRefused(kLlama, {{"rope_scaling", {{"type", "default"}, {"mrope_section", {1, 2}}}}}, "mrope_section");
  ExpectRefused(kLlama, {{"rope_parameters", {{"rope_type", "llama3"}, {"factor", 8.0}}}}, "low_freq_factor");
  ExpectRefused(kLlama, {{"rope_theta", -1.0}}, "rope base");
  ExpectRefused(kLlama, {{"partial_rotary_factor", 1.5}}, "partial_rotary_factor");
  ExpectRefused(kLlama, {{"head_dim", 15}}, "15 rotated dimensions");
}

TEST(DecoderConfigTest, Gemma3Old) {
  const DecoderConfig c =
      ConfigOf(SmallConfig(kGemma3, {{"num_hidden_layers", 7},
                                     {"rope_theta", 1e6},
                                     {"rope_local_base_freq", 9000.0},
                                     {"query_pre_attn_scalar", 64},
                                     {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}}}));
  EXPECT_EQ(c.layer_kinds[5], LayerKind::kFull);
  for (const int i : {0, 4, 6}) EXPECT_EQ(c.layer_kinds[i], LayerKind::kSliding) << i;
  EXPECT_EQ(c.rope.type, RopeType::kLinear);
  EXPECT_EQ(c.rope.factor, 8.0);
  EXPECT_EQ(c.rope.theta, 1e6);
  EXPECT_EQ(c.rope_sliding.type, RopeType::kDefault);
  EXPECT_EQ(c.rope_sliding.theta, 9000);
  EXPECT_EQ(c.window, 16);
  EXPECT_EQ(c.norm_offset, 1.0);
  EXPECT_EQ(c.embedding_scale, 8.0);
  EXPECT_EQ(c.attention_scale, 0.125);
  EXPECT_EQ(c.activation, "gelu_tanh");
  EXPECT_TRUE(c.tied);
}

TEST(DecoderConfigTest, Gemma3New) {
  const json ropes = {{"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 2e6}}},
                      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 5000.0}}}};
  const DecoderConfig c =
      ConfigOf(SmallConfig(kGemma3, {{"rope_parameters", ropes},
                                     {"layer_types", {"full_attention", "sliding_attention", "full_attention"}}}));
  EXPECT_EQ(c.rope.theta, 2e6);
  EXPECT_EQ(c.rope.factor, 8.0);
  EXPECT_EQ(c.rope_sliding.theta, 5000);
  EXPECT_EQ(c.layer_kinds, (std::vector<LayerKind>{LayerKind::kFull, LayerKind::kSliding, LayerKind::kFull}));
}

// The multimodal configs give little more than sizes.
TEST(DecoderConfigTest, Gemma3Nested) {
  const json config = {{"architectures", {"Gemma3ForConditionalGeneration"}},
                       {"model_type", "gemma3"},
                       {"text_config",
                        {{"hidden_size", 2560},
                         {"intermediate_size", 10240},
                         {"num_hidden_layers", 34},
                         {"sliding_window", 1024},
                         {"tie_word_embeddings", false}}}};
  const DecoderConfig c = ConfigOf(config);
  EXPECT_EQ(c.heads, 8);
  EXPECT_EQ(c.kv_heads, 4);
  EXPECT_EQ(c.head_dim, 256);
  EXPECT_EQ(c.vocab, 262208);
  EXPECT_FALSE(c.tied);
}

TEST(DecoderConfigTest, TiedHead) {
  EXPECT_FALSE(ConfigOf(SmallConfig(kLlama)).tied);
  EXPECT_TRUE(ConfigOf(SmallConfig(kLlama, {{"tie_word_embeddings", true}})).tied);
  EXPECT_TRUE(ConfigOf(SmallConfig(kGemma3)).tied);
  EXPECT_FALSE(ConfigOf(SmallConfig(kGemma3, {{"tie_word_embeddings", false}})).tied);
}

TEST(DecoderConfigTest, RefusedFields) {
  ExpectRefused(kQwen2, {{"use_sliding_window", true}}, "use_sliding_window");
  ExpectRefused(kQwen2, {{"layer_types", {"sliding_attention", "full_attention", "full_attention"}}}, "layer_types");
  ExpectRefused(kGemma3, {{"attn_logit_softcapping", 50.0}}, "attn_logit_softcapping");
  ExpectRefused(kGemma3, {{"final_logit_softcapping", 30.0}}, "final_logit_softcapping");
  ExpectRefused(kGemma3, {{"use_bidirectional_attention", true}}, "use_bidirectional_attention");
  ExpectRefused(kGemma3, {{"layer_types", {"chunked_attention"}}}, "chunked_attention");
  ExpectRefused(kGemma3, {{"layer_types", {"full_attention"}}}, "1 layer types for 3 layers");
  ExpectRefused(kLlama, {{"attention_multiplier", 1.0}}, "attention_multiplier");
  ExpectRefused(kLlama, {{"logits_scaling", 8.0}}, "logits_scaling");
  ExpectRefused(kLlama, {{"quantization", {{"bits", 4}}}}, "quantization");
  ExpectRefused(kLlama, {{"sliding_window", 4096}}, "sliding_window");
  ExpectRefused(kLlama, {{"hidden_act", "relu"}}, "'relu' is not supported");
  ExpectRefused(kGemma3, {{"hidden_activation", "gelu"}}, "'gelu' is not supported");
  EXPECT_EQ(ErrorOf(SmallConfig(kLlama, {{"logits_scaling", 1.0}, {"num_experts", 0}, {"use_mrope", false}})), "");
}

TEST(DecoderConfigTest, BadNumbers) {
  ExpectRefused(kLlama, {{"hidden_size", nullptr}}, "hidden_size");
  ExpectRefused(kLlama, {{"hidden_size", "64"}}, "hidden_size");
  ExpectRefused(kLlama, {{"num_attention_heads", 0}}, "num_attention_heads");
  ExpectRefused(kLlama, {{"num_key_value_heads", 3}}, "cannot share 3");
  ExpectRefused(kLlama, {{"num_key_value_heads", -2}}, "key/value heads");
  ExpectRefused(kLlama, {{"num_hidden_layers", int64_t{1} << 40}}, "number of layers");
  ExpectRefused(kLlama, {{"vocab_size", int64_t{1} << 62}}, "vocabulary");
  ExpectRefused(kLlama, {{"head_dim", int64_t{1} << 62}}, "head_dim");
  ExpectRefused(kLlama, {{"intermediate_size", -5}}, "feed-forward");
  ExpectRefused(kLlama, {{"rms_norm_eps", 0.0}}, "epsilon");
  ExpectRefused(kLlama, {{"eos_token_id", 320}}, "320 is not in the vocabulary");
  ExpectRefused(kGemma3, {{"query_pre_attn_scalar", -1}}, "attention scale");
  ExpectRefused(kGemma3, {{"sliding_window", 0}}, "sliding window");
}

TEST(DecoderConfigTest, UnknownArchitecture) {
  ExpectRefused("MambaForCausalLM", {},
                "'MambaForCausalLM' is not supported; supported are: llama, qwen2, qwen3, qwen3moe, gemma3");
  json nameless = SmallConfig(kLlama, {{"architectures", nullptr}, {"model_type", "qwen3"}});
  EXPECT_EQ(ConfigOf(nameless).architecture, "qwen3");
}

TEST(DecoderConfigTest, OracleConfigs) {
  const std::filesystem::path root = std::string(DI_SOURCE_DIR) + "/tests/data/oracle";
  for (const char* family : {"llama", "llama_tied", "qwen2", "qwen3", "qwen3_yarn", "gemma3", "qwen3_moe"}) {
    for (const char* dtype : {"f32", "bf16"}) {
      const std::string folder = (root / (std::string(family) + "_" + dtype)).string();
      auto checkpoint = formats::Checkpoint::Open(folder);
      ASSERT_TRUE(checkpoint) << checkpoint.error().ToString();
      auto loaded = LoadModel(*checkpoint);
      ASSERT_TRUE(loaded) << loaded.error().ToString();
      EXPECT_TRUE(loaded->warnings.empty());
      EXPECT_EQ(loaded->model->info().eos_ids, std::vector<int32_t>{2});
      for (const Phase phase : {Phase::kPrefill, Phase::kDecode}) {
        auto module = loaded->model->Record(SmallShape(phase), PlainWeights(*loaded->model));
        ASSERT_TRUE(module) << folder << ": " << module.error().ToString();
      }
    }
  }
}

}  // namespace
}  // namespace deepinfer::models
