#include "models/registry.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/env.h"
#include "formats/gguf_writer.h"
#include "models/tensor_names.h"
#include "models/test_models.h"

namespace deepinfer::models {
namespace {

namespace fs = std::filesystem;

class RegistryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::path(::testing::TempDir()) / ::testing::UnitTest::GetInstance()->current_test_info()->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  // A folder with these f32 tensors; tensors are filled with `fill` + their index.
  std::string WriteFolder(const nlohmann::json& config, const std::vector<WeightSpec>& tensors, float fill = 0) {
    nlohmann::json header = nlohmann::json::object();
    std::string data;
    for (const WeightSpec& tensor : tensors) {
      int64_t count = 1;
      for (const int64_t size : tensor.shape) count *= size;
      const std::vector<float> values(static_cast<size_t>(count), tensor.name == "lm_head.weight" ? fill : 0);
      const size_t begin = data.size();
      data.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
      header[tensor.name] = {{"dtype", "F32"}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
    }
    const std::string text = header.dump();
    const uint64_t size = text.size();
    std::ofstream(folder_ / "config.json") << config.dump();
    std::ofstream file(folder_ / "model.safetensors", std::ios::binary);
    file.write(reinterpret_cast<const char*>(&size), sizeof(size));
    file << text << data;
    return folder_.string();
  }

  static std::vector<WeightSpec> WeightsOf(const nlohmann::json& config) {
    auto model = CreateFromJson(config);
    EXPECT_TRUE(model) << model.error().ToString();
    return model ? (*model)->Weights() : std::vector<WeightSpec>();
  }

  static Result<LoadedModel> Load(const std::string& path) {
    DI_ASSIGN_OR_RETURN(checkpoint_, formats::Checkpoint::Open(path));
    return LoadModel(checkpoint_);
  }

  static std::string LoadError(const std::string& path) {
    auto loaded = Load(path);
    return loaded ? "" : loaded.error().ToString();
  }

  fs::path folder_;
  static inline formats::Checkpoint checkpoint_;
};

nlohmann::json Tied(bool tied) {
  return SmallConfig("LlamaForCausalLM", {{"tie_word_embeddings", tied}});
}

const WeightSpec kHead = {"lm_head.weight", {320, 64}};

TEST_F(RegistryTest, TiedWithoutHead) {
  auto loaded = Load(WriteFolder(Tied(true), WeightsOf(Tied(true))));
  ASSERT_TRUE(loaded) << loaded.error().ToString();
  EXPECT_EQ(loaded->tensors.count("lm_head.weight"), 0u);
  EXPECT_EQ(loaded->tensors.size(), loaded->model->Weights().size());
  EXPECT_TRUE(loaded->warnings.empty());
  EXPECT_TRUE(checkpoint_.UnusedTensors().empty());
}

TEST_F(RegistryTest, TiedWithHead) {
  std::vector<WeightSpec> tensors = WeightsOf(Tied(true));
  tensors.push_back(kHead);
  auto equal = Load(WriteFolder(Tied(true), tensors, 0));
  ASSERT_TRUE(equal) << equal.error().ToString();
  EXPECT_TRUE(equal->warnings.empty());
  auto different = Load(WriteFolder(Tied(true), tensors, 1));
  ASSERT_TRUE(different) << different.error().ToString();
  ASSERT_EQ(different->warnings.size(), 1u);
  EXPECT_NE(different->warnings[0].find("lm_head.weight"), std::string::npos);
  EXPECT_EQ(different->tensors.count("lm_head.weight"), 0u);
}

TEST_F(RegistryTest, UntiedWithoutHeadIsRefused) {
  const std::string error = LoadError(WriteFolder(Tied(false), WeightsOf(Tied(true))));
  EXPECT_NE(error.find("tensor lm_head.weight"), std::string::npos) << error;
}

TEST_F(RegistryTest, TieFlagInNestedConfig) {
  nlohmann::json text = SmallConfig("Gemma3ForCausalLM", {{"architectures", nullptr}, {"tie_word_embeddings", true}});
  const nlohmann::json config = {{"architectures", {"Gemma3ForConditionalGeneration"}}, {"text_config", text}};
  std::vector<WeightSpec> tensors = WeightsOf(config);
  for (WeightSpec& tensor : tensors) tensor.name = "language_model." + tensor.name;
  tensors.push_back({"vision_tower.vision_model.head.weight", {4}});
  auto loaded = Load(WriteFolder(config, tensors));
  ASSERT_TRUE(loaded) << loaded.error().ToString();
  EXPECT_EQ(loaded->tensors.count("lm_head.weight"), 0u);
  EXPECT_EQ(loaded->tensors.at("model.norm.weight"), "language_model.model.norm.weight");
  ASSERT_EQ(loaded->warnings.size(), 1u);
  EXPECT_NE(loaded->warnings[0].find("1 tensors of the image part"), std::string::npos);
}

TEST_F(RegistryTest, UnreadTensorIsRefused) {
  std::vector<WeightSpec> tensors = WeightsOf(Tied(true));
  tensors.push_back({"model.layers.0.self_attn.rotary_emb.inv_freq", {8}});
  EXPECT_EQ(LoadError(WriteFolder(Tied(true), tensors)), "");
  tensors.push_back({"model.layers.0.self_attn.q_proj.bias", {64}});
  const std::string error = LoadError(WriteFolder(Tied(true), tensors));
  EXPECT_NE(error.find("does not read 1 of the file's tensors: model.layers.0.self_attn.q_proj.bias"),
            std::string::npos)
      << error;
}

TEST_F(RegistryTest, WrongShapeIsRefused) {
  std::vector<WeightSpec> tensors = WeightsOf(Tied(true));
  for (WeightSpec& tensor : tensors) {
    if (tensor.name == "model.layers.2.mlp.up_proj.weight") tensor.shape = {64, 64};
  }
  const std::string error = LoadError(WriteFolder(Tied(true), tensors));
  EXPECT_NE(error.find("model.layers.2.mlp.up_proj.weight: its shape is [64,64]; the config wants [128,64]"),
            std::string::npos)
      << error;
}

formats::GgufWriter SmallGguf(const std::string& arch) {
  formats::GgufWriter w;
  w.AddMetadata("general.architecture", arch);
  w.AddMetadata(arch + ".embedding_length", uint32_t{64});
  w.AddMetadata(arch + ".block_count", uint32_t{2});
  w.AddMetadata(arch + ".feed_forward_length", uint32_t{128});
  w.AddMetadata(arch + ".attention.head_count", uint32_t{4});
  w.AddMetadata(arch + ".attention.head_count_kv", uint32_t{2});
  w.AddMetadata(arch + ".context_length", uint32_t{512});
  w.AddMetadata(arch + ".attention.layer_norm_rms_epsilon", 1e-6f);
  w.AddMetadata("tokenizer.ggml.eos_token_id", uint32_t{2});
  return w;
}

void AddTensors(formats::GgufWriter* w, bool norm_after) {
  const auto add = [w](const std::string& name, std::vector<int64_t> shape) {
    int64_t count = 1;
    for (const int64_t size : shape) count *= size;
    w->AddTensor(name, shape.size() == 1 ? Encoding::kF32 : Encoding::kQ8_0, shape, std::vector<float>(count, 0.5f));
  };
  add("token_embd.weight", {320, 64});
  add("output_norm.weight", {64});
  for (const std::string block : {"blk.0.", "blk.1."}) {
    add(block + "attn_norm.weight", {64});
    add(block + "attn_q.weight", {64, 64});
    add(block + "attn_k.weight", {32, 64});
    add(block + "attn_v.weight", {32, 64});
    add(block + "attn_output.weight", {64, 64});
    add(block + "ffn_norm.weight", {64});
    add(block + "ffn_gate.weight", {128, 64});
    add(block + "ffn_up.weight", {128, 64});
    add(block + "ffn_down.weight", {64, 128});
    if (!norm_after) continue;
    add(block + "attn_q_norm.weight", {16});
    add(block + "attn_k_norm.weight", {16});
    add(block + "post_attention_norm.weight", {64});
    add(block + "post_ffw_norm.weight", {64});
  }
}

TEST_F(RegistryTest, GgufLlama) {
  formats::GgufWriter w = SmallGguf("llama");
  AddTensors(&w, false);
  w.AddTensor("rope_freqs.weight", Encoding::kF32, {8}, std::vector<float>(8, 2.0f));
  const std::string path = (folder_ / "m.gguf").string();
  ASSERT_TRUE(w.Write(path));
  auto loaded = Load(path);
  ASSERT_TRUE(loaded) << loaded.error().ToString();
  const DecoderConfig& c = dynamic_cast<DecoderModel&>(*loaded->model).config();
  EXPECT_TRUE(c.tied && c.rope_interleaved && c.rope_factors);
  EXPECT_FALSE(c.qkv_bias);
  EXPECT_EQ(c.vocab, 320);
  EXPECT_EQ(c.head_dim, 16);
  EXPECT_EQ(c.eos_ids, std::vector<int32_t>{2});
  EXPECT_EQ(loaded->tensors.at("model.layers.1.self_attn.q_proj.weight"), "blk.1.attn_q.weight");
  EXPECT_EQ(loaded->tensors.at("rope_freqs.weight"), "rope_freqs.weight");
  EXPECT_TRUE(loaded->model->Record(SmallShape(Phase::kDecode), PlainWeights(*loaded->model)));
}

TEST_F(RegistryTest, GgufGemma3) {
  formats::GgufWriter w = SmallGguf("gemma3");
  w.AddMetadata("gemma3.attention.sliding_window", uint32_t{32});
  w.AddMetadata("gemma3.attention.sliding_window_pattern", uint32_t{2});
  w.AddMetadata("gemma3.rope.freq_base", 1e6f);
  w.AddMetadata("gemma3.rope.scaling.type", "linear");
  w.AddMetadata("gemma3.rope.scaling.factor", 8.0f);
  AddTensors(&w, true);
  const std::string path = (folder_ / "m.gguf").string();
  ASSERT_TRUE(w.Write(path));
  auto loaded = Load(path);
  ASSERT_TRUE(loaded) << loaded.error().ToString();
  const DecoderConfig& c = dynamic_cast<DecoderModel&>(*loaded->model).config();
  EXPECT_EQ(c.layer_kinds, (std::vector<LayerKind>{LayerKind::kSliding, LayerKind::kFull}));
  EXPECT_EQ(c.rope.factor, 8.0);
  EXPECT_EQ(c.rope_sliding.factor, 1.0);
  EXPECT_EQ(c.rope_sliding.theta, 10000.0);
  EXPECT_EQ(c.norm_offset, 0.0);
  EXPECT_FALSE(c.rope_interleaved);
  EXPECT_EQ(loaded->tensors.at("model.layers.0.pre_feedforward_layernorm.weight"), "blk.0.ffn_norm.weight");
}

TEST_F(RegistryTest, GgufRefusals) {
  const auto error = [this](const std::function<void(formats::GgufWriter&)>& change,
                            const std::string& arch = "llama") {
    formats::GgufWriter w = SmallGguf(arch);
    change(w);
    AddTensors(&w, false);
    const std::string path = (folder_ / "m.gguf").string();
    EXPECT_TRUE(w.Write(path));
    return LoadError(path);
  };
  using Writer = formats::GgufWriter;
  const auto expect = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  EXPECT_EQ(error([](Writer&) {}), "");
  expect(error([](Writer&) {}, "mamba"), "architecture 'mamba' is not supported; supported are: llama");
  expect(error([](Writer& w) { w.AddMetadata("llama.expert_count", uint32_t{8}); }), "llama.expert_count");
  expect(error([](Writer& w) { w.AddMetadata("llama.new_setting", true); }), "llama.new_setting");
  expect(error([](Writer& w) { w.AddMetadata("llama.attention.sliding_window", uint32_t{8}); }), "sliding windows");
  expect(error([](Writer& w) { w.AddMetadata("llama.rope.scaling.type", "longrope"); }), "'longrope' is not supported");
  expect(error([](Writer& w) { w.AddMetadata("llama.vocab_size", uint32_t{321}); }), "token_embd.weight has 320 rows");
  expect(error([](Writer& w) { w.AddMetadata("tokenizer.ggml.eot_token_id", uint32_t{320}); }), "320 is no token id");
  expect(error([](Writer& w) { w.AddMetadata("llama.attention.value_length", uint32_t{8}); }), "value_length");
  expect(error([](Writer& w) { w.AddMetadata("llama.rope.dimension_count", uint32_t{32}); }), "32 rotated dimensions");
  expect(
      error([](Writer& w) { w.AddTensor("rope_factors_long.weight", Encoding::kF32, {8}, std::vector<float>(8, 1)); }),
      "rope_factors_long.weight");
  expect(error([](Writer&) {}, "qwen2"), "model.layers.0.self_attn.q_proj.bias");
}

TEST(TensorNamesTest, Canonical) {
  EXPECT_EQ(CanonicalName("llama", "blk.12.ffn_norm.weight"), "model.layers.12.post_attention_layernorm.weight");
  EXPECT_EQ(CanonicalName("gemma3", "blk.12.ffn_norm.weight"), "model.layers.12.pre_feedforward_layernorm.weight");
  EXPECT_EQ(CanonicalName("gemma3", "blk.0.post_attention_norm.weight"),
            "model.layers.0.post_attention_layernorm.weight");
  EXPECT_EQ(CanonicalName("qwen2", "blk.3.attn_q.bias"), "model.layers.3.self_attn.q_proj.bias");
  EXPECT_EQ(CanonicalName("llama", "output.weight"), "lm_head.weight");
  for (const char* unknown :
       {"blk.x.attn_q.weight", "blk.1.attn_sinks.weight", "blk.", "blk.1", "", "blk.1.attn_q.scale"}) {
    EXPECT_EQ(CanonicalName("llama", unknown), unknown);
  }
  for (const char* architecture : {"llama", "gemma3"}) {
    for (const char* name : {"output.weight", "blk.12.ffn_norm.weight", "blk.3.attn_q.bias", "blk.0.ffn_down.weight",
                             "blk.1.attn_sinks.weight"}) {
      EXPECT_EQ(GgufName(architecture, CanonicalName(architecture, name)), name);
    }
  }
  EXPECT_EQ(CanonicalHfName("model.language_model.layers.0.x"), "model.layers.0.x");
  EXPECT_FALSE(IsIgnorable("rope_factors_long.weight"));
}

// Every tensor of the real files has a place in the model.
TEST_F(RegistryTest, RealModels) {
  std::string assets = GetEnv("DEEPINFER_MODELS_DIR");
  if (assets.empty()) assets = DI_SOURCE_DIR "/build/assets";
  std::string missing;
  for (const char* package : {"smollm2", "gemma3"}) {
    std::string path;
    std::error_code error;
    for (const auto& entry : fs::directory_iterator(assets + "/" + package, error)) {
      if (entry.path().extension() == ".gguf") path = entry.path().string();
    }
    if (path.empty()) {
      missing += assets + "/" + package + "/*.gguf is missing; ";
      continue;
    }
    auto loaded = Load(path);
    ASSERT_TRUE(loaded) << loaded.error().ToString();
    EXPECT_TRUE(loaded->warnings.empty());
    WeightTable weights;
    for (const auto& [name, tensor] : loaded->tensors) {
      const formats::CheckpointTensor* data = checkpoint_.Find(tensor);
      weights.Add(name, ir::Type::Weight(*data->encoding, data->shape));
    }
    auto module = loaded->model->Record(SmallShape(Phase::kPrefill), weights);
    ASSERT_TRUE(module) << module.error().ToString();
    EXPECT_LE(module->functions.size(), 8u);
  }
  if (missing.empty()) return;
  if (GetEnv("DEEPINFER_REQUIRE_ASSETS") == "1") FAIL() << missing;
  GTEST_SKIP() << missing << "see scripts/fetch_assets.sh";
}

}  // namespace
}  // namespace deepinfer::models
