#include "runner/load.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/half.h"
#include "formats/gguf_writer.h"
#include "formats/safetensors.h"
#include "formats/test_files.h"

namespace deepinfer::runner {
namespace {

using formats::TempFolder;

const std::string kOracle = std::string(DI_SOURCE_DIR) + "/tests/data/oracle/";

backend::Caps Caps(std::vector<Encoding> encodings) {
  backend::Caps caps;
  caps.encodings = std::move(encodings);
  return caps;
}

// One of the stored checkpoints, with its tensors at hand to be spoilt.
class SpoiltFolder {
 public:
  explicit SpoiltFolder(const std::string& source) {
    std::filesystem::copy_file(kOracle + source + "/config.json", folder_.File("config.json"));
    auto file = formats::SafetensorsFile::Open(kOracle + source + "/model.safetensors");
    EXPECT_TRUE(file) << file.error().ToString();
    file_.emplace(std::move(*file));
    for (const formats::SafetensorsTensor& tensor : file_->tensors()) {
      tensors_.push_back({tensor.name, *tensor.dtype, tensor.shape, tensor.data});
    }
  }
  formats::SafetensorsOutput& Get(const std::string& name) {
    for (formats::SafetensorsOutput& tensor : tensors_) {
      if (tensor.name == name) return tensor;
    }
    ADD_FAILURE() << "no tensor " << name;
    return tensors_.front();
  }
  void Remove(const std::string& name) {
    std::erase_if(tensors_, [&](const formats::SafetensorsOutput& tensor) { return tensor.name == name; });
  }
  void Add(const formats::SafetensorsOutput& tensor) { tensors_.push_back(tensor); }

  Result<LoadedModel> Load() {
    const Status written = formats::WriteSafetensors(folder_.File("model.safetensors"), tensors_);
    EXPECT_TRUE(written);
    return LoadModel(folder_.path(), Caps({Encoding::kF32, Encoding::kBF16}), {.threads = 2});
  }
  std::string Problem() {
    auto loaded = Load();
    return loaded ? "" : loaded.error().ToString();
  }

 private:
  TempFolder folder_;
  std::optional<formats::SafetensorsFile> file_;
  std::vector<formats::SafetensorsOutput> tensors_;
};

TEST(LoadTest, AnUnspoiltFolderLoads) {
  SpoiltFolder folder("llama_f32");
  auto loaded = folder.Load();
  ASSERT_TRUE(loaded) << loaded.error().ToString();
  EXPECT_EQ(loaded->weights.size(), loaded->model->Weights().size());
  for (const models::WeightSpec& spec : loaded->model->Weights()) {
    const backend::WeightData& weight = loaded->weights.at(spec.name);
    EXPECT_EQ(weight.shape, spec.shape) << spec.name;
    EXPECT_NE(weight.data, nullptr) << spec.name;
    ASSERT_NE(loaded->types[0].Find(spec.name), nullptr);
  }
}

TEST(LoadTest, AMissingTensorIsNamed) {
  SpoiltFolder folder("llama_f32");
  folder.Remove("model.layers.1.mlp.up_proj.weight");
  EXPECT_NE(folder.Problem().find("model.layers.1.mlp.up_proj.weight"), std::string::npos) << folder.Problem();
}

TEST(LoadTest, AWrongShapeIsNamed) {
  SpoiltFolder folder("llama_f32");
  formats::SafetensorsOutput& tensor = folder.Get("model.layers.2.self_attn.o_proj.weight");
  tensor.shape = {tensor.shape[0] / 2, tensor.shape[1] * 2};
  const std::string problem = folder.Problem();
  EXPECT_NE(problem.find("model.layers.2.self_attn.o_proj.weight"), std::string::npos) << problem;
  EXPECT_NE(problem.find("32"), std::string::npos) << problem;
}

TEST(LoadTest, ALeftoverTensorIsNamed) {
  SpoiltFolder folder("llama_f32");
  formats::SafetensorsOutput extra = folder.Get("model.norm.weight");
  extra.name = "model.layers.0.self_attn.q_proj.bias";
  folder.Add(extra);
  EXPECT_NE(folder.Problem().find("model.layers.0.self_attn.q_proj.bias"), std::string::npos) << folder.Problem();
}

TEST(LoadTest, AMissingFolderIsAnError) {
  auto loaded = LoadModel("/nonexistent/model", Caps({Encoding::kF32}), {});
  ASSERT_FALSE(loaded);
  EXPECT_NE(loaded.error().ToString().find("/nonexistent/model"), std::string::npos);
}

TEST(LoadTest, ABrokenSyntheticFileIsAnError) {
  const TempFolder folder;
  for (const char* text : {"", "{", "[]", "{\"vocab_size\": 0}", "{\"vocab_size\": 8, \"scripts\": [[9]]}"}) {
    auto loaded = LoadModel("synthetic:" + folder.Write("script.json", text), Caps({Encoding::kF32}), {});
    EXPECT_FALSE(loaded) << text;
  }
  EXPECT_FALSE(LoadModel("synthetic:" + folder.File("none.json"), Caps({Encoding::kF32}), {}));
}

// What the backend cannot read becomes f32, with the same values; what it can read stays where it is.
TEST(LoadTest, EncodingsAreConvertedOnlyWhereTheyMustBe) {
  auto kept = LoadModel(kOracle + "llama_bf16", Caps({Encoding::kF32, Encoding::kBF16}), {});
  auto converted = LoadModel(kOracle + "llama_bf16", Caps({Encoding::kF32}), {.threads = 2});
  ASSERT_TRUE(kept && converted);
  EXPECT_EQ(kept->fingerprint, converted->fingerprint);
  int matrices = 0;
  for (const auto& [name, weight] : kept->weights) {
    const backend::WeightData& other = converted->weights.at(name);
    EXPECT_EQ(other.encoding, Encoding::kF32) << name;
    EXPECT_EQ(*converted->types[0].Find(name), ir::Type::Weight(Encoding::kF32, weight.shape)) << name;
    int64_t elements = 1;
    for (const int64_t size : weight.shape) elements *= size;
    std::vector<float> expected(static_cast<size_t>(elements));
    DecodeRow(weight.encoding, weight.data, expected.data(), elements);
    EXPECT_EQ(std::memcmp(expected.data(), other.data, expected.size() * sizeof(float)), 0) << name;
    if (weight.shape.size() < 2) {
      EXPECT_EQ(weight.encoding, Encoding::kF32) << name;
    } else {
      EXPECT_EQ(weight.encoding, Encoding::kBF16) << name;
      ++matrices;
    }
  }
  EXPECT_GT(matrices, 0);
}

// The smallest llama in GGUF form: one layer, a tied head.
formats::GgufWriter SmallGguf(const std::string& without, const std::vector<int64_t>& ffn_shape, bool with_leftover) {
  formats::GgufWriter writer;
  writer.AddMetadata("general.architecture", "llama")
      .AddMetadata("llama.block_count", 1u)
      .AddMetadata("llama.context_length", 64u)
      .AddMetadata("llama.embedding_length", 32u)
      .AddMetadata("llama.feed_forward_length", 64u)
      .AddMetadata("llama.attention.head_count", 2u)
      .AddMetadata("llama.attention.head_count_kv", 1u)
      .AddMetadata("llama.attention.layer_norm_rms_epsilon", 1e-5f)
      .AddMetadata("llama.rope.dimension_count", 16u)
      .AddMetadata("llama.rope.freq_base", 10000.0f)
      .AddMetadata("llama.vocab_size", 8u);
  const auto add = [&](const std::string& name, std::vector<int64_t> shape) {
    if (name == without) return;
    int64_t elements = 1;
    for (const int64_t size : shape) elements *= size;
    std::vector<float> values(static_cast<size_t>(elements));
    for (size_t i = 0; i < values.size(); ++i) values[i] = 0.5f - static_cast<float>(i % 97) / 300;
    writer.AddTensor(name, shape.size() == 1 ? Encoding::kF32 : Encoding::kQ8_0, shape, values);
  };
  add("token_embd.weight", {8, 32});
  add("output_norm.weight", {32});
  add("blk.0.attn_norm.weight", {32});
  add("blk.0.attn_q.weight", {32, 32});
  add("blk.0.attn_k.weight", {16, 32});
  add("blk.0.attn_v.weight", {16, 32});
  add("blk.0.attn_output.weight", {32, 32});
  add("blk.0.ffn_norm.weight", {32});
  add("blk.0.ffn_gate.weight", ffn_shape);
  add("blk.0.ffn_up.weight", {64, 32});
  add("blk.0.ffn_down.weight", {32, 64});
  if (with_leftover) add("blk.0.attn_q.bias_of_something_else", {32});
  return writer;
}

std::string GgufProblem(const std::string& without, const std::vector<int64_t>& ffn_shape, bool with_leftover) {
  const TempFolder folder;
  EXPECT_TRUE(SmallGguf(without, ffn_shape, with_leftover).Write(folder.File("m.gguf")));
  auto loaded = LoadModel(folder.File("m.gguf"), Caps({Encoding::kF32, Encoding::kQ8_0}), {});
  return loaded ? "" : loaded.error().ToString();
}

TEST(LoadTest, GgufTensorsAreNamedInTheSameWay) {
  EXPECT_EQ(GgufProblem("", {64, 32}, false), "");
  EXPECT_NE(GgufProblem("blk.0.attn_k.weight", {64, 32}, false)
                .find("blk.0.attn_k.weight (model.layers.0.self_attn.k_proj.weight)"),
            std::string::npos);
  EXPECT_NE(GgufProblem("", {32, 64}, false).find("blk.0.ffn_gate.weight"), std::string::npos);
  EXPECT_NE(GgufProblem("", {64, 32}, true).find("bias_of_something_else"), std::string::npos);
}

// Quantised matrices become bf16 where both sides allow it; vectors stay f32. What is described is what is loaded.
TEST(LoadTest, TheActivationsAndTheBackendDecideTheTarget) {
  const TempFolder folder;
  ASSERT_TRUE(SmallGguf("", {64, 32}, false).Write(folder.File("m.gguf")));
  struct Case {
    std::vector<Encoding> readable;
    DType activations;
    Encoding matrices;
  };
  const Case cases[] = {{{Encoding::kF32, Encoding::kBF16}, DType::kBF16, Encoding::kBF16},
                        {{Encoding::kF32, Encoding::kBF16}, DType::kF32, Encoding::kF32},
                        {{Encoding::kF32}, DType::kBF16, Encoding::kF32},
                        {{Encoding::kF32, Encoding::kBF16, Encoding::kQ8_0}, DType::kBF16, Encoding::kQ8_0}};
  for (const Case& each : cases) {
    auto loaded = LoadModel(folder.File("m.gguf"), Caps(each.readable), {each.activations, 3});
    auto described = DescribeModel(folder.File("m.gguf"), Caps(each.readable), {each.activations});
    ASSERT_TRUE(loaded && described);
    EXPECT_EQ(loaded->types[0].all(), described->types[0].all());
    EXPECT_TRUE(described->weights.empty() && described->converted.empty());
    for (const auto& [name, weight] : loaded->weights) {
      EXPECT_EQ(weight.encoding, weight.shape.size() < 2 ? Encoding::kF32 : each.matrices) << name;
      EXPECT_EQ(*loaded->types[0].Find(name), ir::Type::Weight(weight.encoding, weight.shape)) << name;
    }
  }
}

// The rows of a converted matrix are the decoded rows, rounded to nearest with ties to even, whatever the threads.
TEST(LoadTest, ConversionToBf16Rounds) {
  const TempFolder folder;
  ASSERT_TRUE(SmallGguf("", {64, 32}, false).Write(folder.File("m.gguf")));
  auto plain = LoadModel(folder.File("m.gguf"), Caps({Encoding::kF32}), {DType::kF32, 1});
  auto halves = LoadModel(folder.File("m.gguf"), Caps({Encoding::kF32, Encoding::kBF16}), {DType::kBF16, 5});
  ASSERT_TRUE(plain && halves);
  int rounded = 0;
  for (const auto& [name, weight] : plain->weights) {
    if (weight.shape.size() < 2) continue;
    const auto* values = reinterpret_cast<const float*>(weight.data);
    const auto* bits = reinterpret_cast<const uint16_t*>(halves->weights.at(name).data);
    for (int64_t i = 0; i < weight.shape[0] * weight.shape[1]; ++i) {
      ASSERT_EQ(bits[i], F32ToBF16(values[i])) << name << " " << i;
      rounded += BF16ToF32(bits[i]) != values[i];
    }
  }
  EXPECT_GT(rounded, 0);
}

backend::Caps RankCaps(std::vector<Encoding> encodings, int64_t ranks) {
  backend::Caps caps = Caps(std::move(encodings));
  caps.ranks = ranks;
  return caps;
}

std::vector<float> Decoded(const backend::WeightData& weight, size_t rank) {
  int64_t elements = 1;
  for (const int64_t size : weight.shape) elements *= size;
  std::vector<float> values(static_cast<size_t>(elements));
  DecodeRow(weight.encoding, weight.DataOf(rank), values.data(), elements);
  return values;
}

// The part of a whole weight that a rank must hold.
std::vector<float> Part(const backend::WeightData& whole, const models::WeightShard& shard, int64_t piece) {
  const std::vector<float> values = Decoded(whole, 0);
  if (shard.dim < 0) return values;
  const std::vector<int64_t> shape = shard.ShapeOf(whole.shape);
  std::vector<float> part;
  const int64_t columns = whole.shape.back();
  for (int64_t i = 0; i < static_cast<int64_t>(values.size()); ++i) {
    const int64_t at = shard.dim == 1 || whole.shape.size() == 1 ? i % columns : i / columns;
    if (at / shape[static_cast<size_t>(shard.dim)] == piece) part.push_back(values[static_cast<size_t>(i)]);
  }
  return part;
}

void ExpectShards(const std::string& path, const backend::Caps& caps, DType activations) {
  backend::Caps alone = caps;
  alone.ranks = 1;
  // The values that a rank's part is cut from: those of its own encoding, or as the file has them.
  auto whole = LoadModel(path, alone, {activations});
  auto plain = LoadModel(path, Caps({Encoding::kF32}), {});
  auto loaded = LoadModel(path, caps, {activations, 3});
  ASSERT_TRUE(whole && plain && loaded) << loaded.error().ToString();
  const auto shards = loaded->model->Shards(caps.ranks);
  ASSERT_TRUE(shards);
  ASSERT_EQ(static_cast<int64_t>(loaded->types.size()), caps.ranks);
  for (size_t i = 0; i < shards->size(); ++i) {
    const std::string& name = loaded->model->Weights()[i].name;
    const models::WeightShard& shard = (*shards)[i];
    const backend::WeightData& weight = loaded->weights.at(name);
    EXPECT_EQ(weight.shards.empty(), shard.dim < 0) << name;
    for (int64_t rank = 0; rank < caps.ranks; ++rank) {
      EXPECT_EQ(*loaded->types[static_cast<size_t>(rank)].Find(name), ir::Type::Weight(weight.encoding, weight.shape));
      const bool same = weight.encoding == whole->weights.at(name).encoding;
      const backend::WeightData& from = (same ? *whole : *plain).weights.at(name);
      std::vector<float> right = Part(from, shard, shard.PieceOf(rank, caps.ranks));
      if (!same && weight.encoding == Encoding::kBF16) {
        for (float& value : right) value = BF16ToF32(F32ToBF16(value));
      }
      EXPECT_EQ(Decoded(weight, static_cast<size_t>(rank)), right) << name << " on rank " << rank;
    }
  }
}

TEST(LoadTest, RanksGetTheirPartsOfAFolder) {
  for (const char* folder : {"llama_f32", "llama_tied_bf16", "qwen2_f32", "qwen3_bf16", "gemma3_f32"}) {
    for (const int64_t ranks : {2, 4}) {
      SCOPED_TRACE(fmt::format("{} on {} ranks", folder, ranks));
      ExpectShards(kOracle + folder, RankCaps({Encoding::kF32, Encoding::kBF16}, ranks), DType::kF32);
      ExpectShards(kOracle + folder, RankCaps({Encoding::kF32}, ranks), DType::kBF16);
    }
  }
}

TEST(LoadTest, RanksGetTheirPartsOfQuantisedWeights) {
  const TempFolder folder;
  const std::string path = folder.File("m.gguf");
  ASSERT_TRUE(SmallGguf("", {64, 32}, false).Write(path));
  const std::vector<Encoding> all = {Encoding::kF32, Encoding::kBF16, Encoding::kQ8_0};
  ExpectShards(path, RankCaps(all, 2), DType::kBF16);
  ExpectShards(path, RankCaps({Encoding::kF32, Encoding::kBF16}, 2), DType::kBF16);
  auto loaded = LoadModel(path, RankCaps(all, 2), {});
  ASSERT_TRUE(loaded);
  const auto at = [&](const std::string& name) { return loaded->weights.at("model.layers.0." + name); };
  EXPECT_EQ(at("mlp.down_proj.weight").encoding, Encoding::kQ8_0) << "64 columns are two blocks";
  EXPECT_EQ(at("self_attn.o_proj.weight").encoding, Encoding::kBF16) << "32 columns are one";
  EXPECT_TRUE(at("self_attn.k_proj.weight").shards.empty()) << "the only head is everybody's";
}

// Rows are divided without a copy: the parts follow each other in the mapped file.
TEST(LoadTest, PartsByRowsAreViews) {
  auto loaded = LoadModel(kOracle + "llama_f32", RankCaps({Encoding::kF32}, 2), {});
  ASSERT_TRUE(loaded);
  const backend::WeightData& up = loaded->weights.at("model.layers.0.mlp.up_proj.weight");
  const auto tensor = loaded->checkpoint->Get("model.layers.0.mlp.up_proj.weight");
  ASSERT_TRUE(tensor);
  ASSERT_EQ(up.shards.size(), 2u);
  EXPECT_EQ(up.shards[0], (*tensor)->data.data());
  EXPECT_EQ(up.shards[1], (*tensor)->data.data() + 64 * 64 * sizeof(float));
}

TEST(LoadTest, RanksThatDoNotDivideTheModelAreAnError) {
  auto loaded = LoadModel(kOracle + "llama_f32", RankCaps({Encoding::kF32}, 3), {});
  ASSERT_FALSE(loaded);
  EXPECT_NE(loaded.error().ToString().find("attention heads do not divide by 3"), std::string::npos);
}

// llama_f32 with fp8 matrices in one layer, each row with a scale of its own: their rows must be made.
std::string WriteFp8Folder(const TempFolder& folder) {
  std::ifstream config_file(kOracle + "llama_f32/config.json");
  nlohmann::json config = nlohmann::json::parse(config_file);
  config["quantization_config"] = {{"quant_method", "fp8"}, {"activation_scheme", "static"}};
  folder.Write("config.json", config.dump());
  auto file = formats::SafetensorsFile::Open(kOracle + "llama_f32/model.safetensors");
  EXPECT_TRUE(file);
  std::vector<formats::SafetensorsOutput> tensors;
  std::vector<std::vector<uint8_t>> codes;
  std::vector<std::vector<float>> scales;
  codes.reserve(7);
  scales.reserve(7);
  for (const formats::SafetensorsTensor& tensor : file->tensors()) {
    if (tensor.name.find("layers.1.") == std::string::npos || tensor.shape.size() < 2) {
      tensors.push_back({tensor.name, *tensor.dtype, tensor.shape, tensor.data});
      continue;
    }
    codes.emplace_back();
    scales.emplace_back();
    for (int64_t row = 0; row < tensor.shape[0]; ++row) scales.back().push_back(0.5f + static_cast<float>(row) / 64);
    for (int64_t i = 0; i < tensor.shape[0] * tensor.shape[1]; ++i) {
      codes.back().push_back(static_cast<uint8_t>(i * 37 % 120));
    }
    tensors.push_back({tensor.name, DType::kF8E4M3, tensor.shape, std::as_bytes(std::span(codes.back()))});
    tensors.push_back(
        {tensor.name + "_scale", DType::kF32, {tensor.shape[0], 1}, std::as_bytes(std::span(scales.back()))});
  }
  EXPECT_TRUE(formats::WriteSafetensors(folder.File("model.safetensors"), tensors));
  return folder.path();
}

TEST(LoadTest, RowsAreMadeHereOrLeftToTheBackend) {
  const TempFolder folder;
  const std::string path = WriteFp8Folder(folder);
  backend::Caps reads_rows = Caps({Encoding::kF32, Encoding::kFP8});
  reads_rows.reads_rows = true;
  auto left = LoadModel(path, reads_rows, {});
  auto made = LoadModel(path, Caps({Encoding::kF32, Encoding::kFP8}), {.threads = 3});
  auto plain = LoadModel(path, Caps({Encoding::kF32}), {.threads = 2});
  ASSERT_TRUE(left && made && plain) << plain.error().ToString();
  const std::string name = "model.layers.1.mlp.down_proj.weight";
  const backend::WeightData& rows = left->weights.at(name);
  EXPECT_EQ(rows.data, nullptr);
  ASSERT_TRUE(rows.rows);
  std::vector<std::byte> bytes(64 * RowBytes(Encoding::kFP8, 128));
  rows.rows(0, 64, bytes.data());
  const backend::WeightData& copy = made->weights.at(name);
  EXPECT_FALSE(copy.rows);
  EXPECT_EQ(copy.encoding, Encoding::kFP8);
  EXPECT_EQ(std::memcmp(copy.data, bytes.data(), bytes.size()), 0);
  EXPECT_EQ(Decoded(plain->weights.at(name), 0), Decoded(copy, 0));
  EXPECT_FALSE(plain->weights.at(name).rows);
}

TEST(LoadTest, RanksGetTheirPartsOfRowsThatAreMade) {
  const TempFolder folder;
  const std::string path = WriteFp8Folder(folder);
  ExpectShards(path, RankCaps({Encoding::kF32}, 2), DType::kF32);
  ExpectShards(path, RankCaps({Encoding::kF32, Encoding::kBF16}, 4), DType::kBF16);
  auto loaded = LoadModel(path, RankCaps({Encoding::kF32, Encoding::kFP8}, 2), {});
  ASSERT_TRUE(loaded);
  EXPECT_EQ(loaded->weights.at("model.layers.1.mlp.up_proj.weight").encoding, Encoding::kFP8);
  EXPECT_EQ(loaded->weights.at("model.layers.1.mlp.down_proj.weight").encoding, Encoding::kF32)
      << "half of 128 columns would cut a run that shares its scale";
}

// Plain matrices are quantised when their rows are asked for; what a backend cannot read then becomes floats of the
// quantised values. What is quantised already stays.
TEST(LoadTest, WeightsAreQuantisedAtLoad) {
  const std::string path = kOracle + "llama_bf16";
  backend::Caps caps = Caps({Encoding::kF32, Encoding::kBF16, Encoding::kQ8_0, Encoding::kInt8});
  caps.reads_rows = true;
  auto as_is = LoadModel(path, caps, {});
  ASSERT_TRUE(as_is);
  for (const Encoding type : {Encoding::kQ8_0, Encoding::kInt8}) {
    const LoadOptions options = {.activations = DType::kF32, .weights = type};
    auto loaded = LoadModel(path, caps, options);
    auto decoded = LoadModel(path, Caps({Encoding::kF32}), options);
    auto described = DescribeModel(path, caps, options);
    ASSERT_TRUE(loaded && decoded && described);
    EXPECT_NE(loaded->fingerprint, as_is->fingerprint);
    EXPECT_TRUE(loaded->warnings.empty());
    EXPECT_EQ(loaded->types[0].all(), described->types[0].all());
    for (const auto& [name, weight] : loaded->weights) {
      if (weight.shape.size() < 2) continue;
      ASSERT_EQ(weight.encoding, type) << name;
      ASSERT_TRUE(weight.rows) << name;
      const int64_t rows = weight.shape[0], columns = weight.shape[1];
      std::vector<std::byte> bytes(static_cast<size_t>(rows) * RowBytes(type, columns)), expected = bytes;
      weight.rows(0, rows, bytes.data());
      const std::vector<float> values = Decoded(as_is->weights.at(name), 0);
      for (int64_t row = 0; row < rows; ++row) {
        EncodeRow(type, values.data() + row * columns, expected.data() + row * RowBytes(type, columns), columns);
      }
      EXPECT_EQ(bytes, expected) << name;
      std::vector<float> quantised(values.size());
      for (int64_t row = 0; row < rows; ++row) {
        DecodeRow(type, bytes.data() + row * RowBytes(type, columns), quantised.data() + row * columns, columns);
      }
      EXPECT_EQ(Decoded(decoded->weights.at(name), 0), quantised) << name;
    }
  }
  const TempFolder folder;
  ASSERT_TRUE(SmallGguf("", {64, 32}, false).Write(folder.File("m.gguf")));
  auto quantised_already = LoadModel(folder.File("m.gguf"), caps, {.weights = Encoding::kInt8});
  ASSERT_TRUE(quantised_already);
  ASSERT_EQ(quantised_already->warnings.size(), 1u);
  EXPECT_EQ(quantised_already->weights.at("model.embed_tokens.weight").encoding, Encoding::kQ8_0);
}

}  // namespace
}  // namespace deepinfer::runner
