// Quantised forms of the oracle's checkpoints: as GGUF files, and as Hugging Face folders of every kind that is read.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "base/half.h"
#include "formats/safetensors.h"
#include "formats/test_files.h"
#include "harness.h"
#include "runner/quantise.h"

namespace deepinfer::golden {
namespace {

using formats::SafetensorsFile;
using formats::SafetensorsTensor;
using formats::TempFolder;

OpenConfig SmallConfig(DType activations) {
  OpenConfig config;
  config.options.activations = activations;
  config.options.max_model_len = 256;
  config.options.max_num_seqs = 4;
  config.options.max_num_batched_tokens = 128;
  return config;
}

std::vector<float> PromptLogits(const std::string& path, const OpenConfig& config, const Ids& ids) {
  const auto runner = MustOpen(path, config);
  if (runner == nullptr) return {};
  engine::GenerationRequest request = engine::Request(ids);
  request.prompt_logits = true;
  return engine::RunAll(runner.get(), {request})[0].prompt_logits;
}

float Largest(const float* values, int64_t count) {
  float largest = 0;
  for (int64_t i = 0; i < count; ++i) largest = std::max(largest, std::abs(values[i]));
  return largest;
}

void ExpectClose(const std::vector<float>& given, const std::vector<float>& wanted, float tolerance) {
  ASSERT_EQ(given.size(), wanted.size());
  float difference = 0;
  for (size_t i = 0; i < wanted.size(); ++i) difference = std::max(difference, std::abs(wanted[i] - given[i]));
  EXPECT_LE(difference, tolerance * Largest(wanted.data(), static_cast<int64_t>(wanted.size())));
}

// The format moves rows, adds offsets to norms and turns llama3's rope into factors: what comes out stays the same but
// for the rounding of those factors.
TEST(QuantisedTest, AGgufFileOfFloatsAnswersAsItsFolder) {
  std::vector<std::string> families(std::begin(kFamilies), std::end(kFamilies));
  families.push_back("qwen3_moe");
  for (const std::string& family : families) {
    SCOPED_TRACE(family);
    const std::string name = family + "_f32";
    const TempFolder folder;
    const auto report = runner::QuantiseModel(OracleFolder(name), folder.File("m.gguf"), {.type = Encoding::kF32});
    ASSERT_TRUE(report) << report.error().ToString();
    const OracleCase right = LoadOracle(name)[0];
    const std::vector<float> wanted = PromptLogits(OracleFolder(name), SmallConfig(DType::kF32), right.ids);
    const std::vector<float> given = PromptLogits(folder.File("m.gguf"), SmallConfig(DType::kF32), right.ids);
    ExpectClose(given, wanted, 2e-5f);
  }
}

// The projections of a stored checkpoint, quantised by `write` into tensors of another, and beside it a plain
// checkpoint of the values that those stand for.
struct Folders {
  TempFolder quantised, plain;
};

struct Made {
  std::string ending;  // in place of ".weight"
  DType dtype;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
};

// Fills `values` with what the tensors say.
using Method = std::function<std::vector<Made>(const std::vector<float>& weight, int64_t n, int64_t k,
                                               std::vector<float>* values)>;

template <class T>
Made Tensor(const std::string& ending, DType dtype, std::vector<int64_t> shape, const std::vector<T>& data) {
  const auto bytes = std::as_bytes(std::span(data));
  return {ending, dtype, std::move(shape), {bytes.begin(), bytes.end()}};
}

void WriteFolders(const Method& method, const std::string& quantisation, const Folders& folders) {
  const std::string source = OracleFolder("llama_f32");
  auto file = SafetensorsFile::Open(source + "/model.safetensors");
  ASSERT_TRUE(file);
  std::vector<formats::SafetensorsOutput> quantised, plain;
  std::vector<std::unique_ptr<std::vector<Made>>> kept;
  std::vector<std::unique_ptr<std::vector<float>>> values;
  for (const SafetensorsTensor& tensor : file->tensors()) {
    const formats::SafetensorsOutput as_is = {tensor.name, *tensor.dtype, tensor.shape, tensor.data};
    if (!tensor.name.ends_with("_proj.weight")) {
      quantised.push_back(as_is);
      plain.push_back(as_is);
      continue;
    }
    std::vector<float> weight(tensor.data.size() / sizeof(float));
    std::memcpy(weight.data(), tensor.data.data(), tensor.data.size());
    values.push_back(std::make_unique<std::vector<float>>(weight.size()));
    kept.push_back(
        std::make_unique<std::vector<Made>>(method(weight, tensor.shape[0], tensor.shape[1], values.back().get())));
    const std::string prefix = tensor.name.substr(0, tensor.name.size() - std::string(".weight").size());
    for (const Made& made : *kept.back()) {
      quantised.push_back({prefix + made.ending, made.dtype, made.shape, made.bytes});
    }
    plain.push_back({tensor.name, DType::kF32, tensor.shape, std::as_bytes(std::span(*values.back()))});
  }
  ASSERT_TRUE(formats::WriteSafetensors(folders.quantised.File("model.safetensors"), quantised));
  ASSERT_TRUE(formats::WriteSafetensors(folders.plain.File("model.safetensors"), plain));
  nlohmann::json config;
  std::ifstream(source + "/config.json") >> config;
  folders.plain.Write("config.json", config.dump());
  config["quantization_config"] = nlohmann::json::parse(quantisation);
  folders.quantised.Write("config.json", config.dump());
}

std::vector<Made> ToBytes(bool fp8, const std::vector<float>& weight, int64_t n, int64_t k,
                          std::vector<float>* values) {
  std::vector<uint8_t> codes;
  std::vector<float> scales;
  for (int64_t row = 0; row < n; ++row) {
    scales.push_back(Largest(&weight[static_cast<size_t>(row * k)], k) / (fp8 ? 448.0f : 127.0f));
    for (int64_t i = row * k; i < (row + 1) * k; ++i) {
      const float scaled = weight[static_cast<size_t>(i)] / scales.back();
      const auto integer = static_cast<int8_t>(std::lround(scaled));
      codes.push_back(fp8 ? F32ToF8E4M3(scaled) : static_cast<uint8_t>(integer));
      (*values)[static_cast<size_t>(i)] =
          scales.back() * (fp8 ? F8E4M3ToF32(codes.back()) : static_cast<float>(integer));
    }
  }
  return {Tensor(".weight", fp8 ? DType::kF8E4M3 : DType::kI8, {n, k}, codes),
          Tensor(".weight_scale", DType::kF32, {n, 1}, scales)};
}

// Groups of 32 inputs, in their order or shuffled.
std::vector<Made> ToGptq(bool shuffled, const std::vector<float>& weight, int64_t n, int64_t k,
                         std::vector<float>* values) {
  std::vector<int32_t> groups;
  for (int64_t i = 0; i < k; ++i) groups.push_back(static_cast<int32_t>(i / 32));
  if (shuffled) std::shuffle(groups.begin(), groups.end(), std::mt19937(static_cast<uint32_t>(n + k)));
  std::vector<uint32_t> codes(static_cast<size_t>(k / 8 * n)), zeros(static_cast<size_t>(k / 32 * n / 8), 0x88888888u);
  const uint16_t scale = F32ToF16(Largest(weight.data(), n * k) / 6);
  for (int64_t row = 0; row < n; ++row) {
    for (int64_t i = 0; i < k; ++i) {
      const auto at = static_cast<size_t>(row * k + i);
      const auto code = static_cast<uint32_t>(std::lround(weight[at] / F16ToF32(scale)) + 9);  // stored zero 8 means 9
      codes[static_cast<size_t>(i / 8 * n + row)] |= code << (4 * (i % 8));
      (*values)[at] = F16ToF32(scale) * static_cast<float>(static_cast<int>(code) - 9);
    }
  }
  return {Tensor(".qweight", DType::kI32, {k / 8, n}, codes), Tensor(".qzeros", DType::kI32, {k / 32, n / 8}, zeros),
          Tensor(".scales", DType::kF16, {k / 32, n}, std::vector<uint16_t>(static_cast<size_t>(k / 32 * n), scale)),
          Tensor(".g_idx", DType::kI32, {k}, groups)};
}

// The f32 kernels decode weights to exactly these values and multiply in one order, whatever the encoding: bit-equal.
// But inputs brought together by group are summed in another order.
TEST(QuantisedTest, QuantisedFoldersAnswerAsTheValuesTheyStandFor) {
  struct Case {
    const char* name;
    const char* config;
    Method method;
    bool any_order = false;
  };
  using std::placeholders::_1, std::placeholders::_2, std::placeholders::_3, std::placeholders::_4;
  const Case cases[] = {
      {"fp8", R"({"quant_method": "fp8"})", std::bind(ToBytes, true, _1, _2, _3, _4)},
      {"int8",
       R"({"quant_method": "compressed-tensors", "format": "int-quantized", "config_groups": {"group_0": {"weights":
           {"num_bits": 8, "type": "int", "strategy": "channel"}}}})",
       std::bind(ToBytes, false, _1, _2, _3, _4)},
      {"gptq", R"({"quant_method": "gptq", "bits": 4, "group_size": 32})", std::bind(ToGptq, false, _1, _2, _3, _4)},
      {"gptq by activation order", R"({"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": true})",
       std::bind(ToGptq, true, _1, _2, _3, _4), /*any_order=*/true},
  };
  const Ids ids = LoadOracle("llama_f32")[0].ids;
  for (const Case& each : cases) {
    SCOPED_TRACE(each.name);
    const Folders folders;
    WriteFolders(each.method, each.config, folders);
    for (const Isa isa : TestedIsas()) {
      OpenConfig config = SmallConfig(DType::kF32);
      config.isa = isa;
      const std::vector<float> wanted = PromptLogits(folders.plain.path(), config, ids);
      const std::vector<float> given = PromptLogits(folders.quantised.path(), config, ids);
      SCOPED_TRACE(ToString(isa));
      if (each.any_order) {
        ExpectClose(given, wanted, 2e-5f);
      } else {
        EXPECT_TRUE(SameBits(given, wanted));
      }
    }
    OpenConfig reference = SmallConfig(DType::kF32);
    reference.backend = "reference";
    EXPECT_TRUE(SameBits(PromptLogits(folders.quantised.path(), reference, ids),
                         PromptLogits(folders.plain.path(), reference, ids)));
    // bf16 kernels multiply codes, not values: as close as bf16 is to f32 at all.
    const std::vector<float> wanted = PromptLogits(folders.plain.path(), SmallConfig(DType::kF32), ids);
    const std::vector<float> given = PromptLogits(folders.quantised.path(), SmallConfig(DType::kBF16), ids);
    ASSERT_EQ(given.size(), wanted.size());
    double square = 0, error = 0;
    for (size_t i = 0; i < wanted.size(); ++i) {
      square += double{wanted[i]} * wanted[i];
      error += std::pow(double{wanted[i]} - given[i], 2);
    }
    EXPECT_LE(std::sqrt(error / square), 0.03);
  }
}

}  // namespace
}  // namespace deepinfer::golden
