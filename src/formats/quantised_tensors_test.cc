// Tiny quantised checkpoints, written by each format's own rules, against the values those rules stand for.
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <random>

#include "base/half.h"
#include "formats/checkpoint.h"
#include "formats/test_files.h"

namespace deepinfer::formats {
namespace {

constexpr char kPrefix[] = "model.layers.0.mlp.up_proj";

// The tensors of one weight and what it must decode to.
struct Written {
  struct Tensor {
    DType dtype;
    std::vector<int64_t> shape;
    std::vector<std::byte> bytes;
  };
  std::string config;
  std::map<std::string, Tensor> tensors;  // names after kPrefix
  int64_t n = 0, k = 0;
  std::vector<float> values;  // [n, k]

  template <class T>
  void Add(const std::string& name, DType dtype, std::vector<int64_t> shape, const std::vector<T>& data) {
    const auto bytes = std::as_bytes(std::span(data));
    tensors[name] = {dtype, std::move(shape), {bytes.begin(), bytes.end()}};
  }
};

Result<Checkpoint> OpenWritten(const TempFolder& folder, const Written& written) {
  std::vector<SafetensorsOutput> outputs;
  std::vector<std::string> names;
  for (const auto& [name, tensor] : written.tensors) {
    outputs.push_back({kPrefix + name, tensor.dtype, tensor.shape, tensor.bytes});
  }
  folder.Write("config.json", written.config);
  EXPECT_TRUE(WriteSafetensors(folder.File("model.safetensors"), outputs));
  return Checkpoint::Open(folder.path());
}

void ExpectWeight(const Written& written, Encoding encoding) {
  const TempFolder folder;
  const auto checkpoint = OpenWritten(folder, written);
  ASSERT_TRUE(checkpoint) << checkpoint.error().ToString();
  ASSERT_EQ(checkpoint->tensors().size(), 1u);  // all parts are in it
  const auto got = checkpoint->Get(std::string(kPrefix) + ".weight");
  ASSERT_TRUE(got) << got.error().ToString();
  const CheckpointTensor& weight = **got;
  EXPECT_EQ(weight.encoding, encoding);
  EXPECT_EQ(weight.shape, (std::vector<int64_t>{written.n, written.k}));
  ASSERT_TRUE(weight.rows);
  const size_t row_bytes = RowBytes(encoding, written.k);
  std::vector<std::byte> bytes(row_bytes * static_cast<size_t>(written.n));
  weight.rows(3, written.n, bytes.data() + 3 * row_bytes);
  weight.rows(0, 3, bytes.data());
  std::vector<float> values(written.values.size());
  DecodeRow(encoding, bytes.data(), values.data(), written.n * written.k);
  if (weight.order != nullptr) {
    const std::vector<float> ordered = values;
    for (size_t i = 0; i < values.size(); ++i) {
      const size_t row = i / static_cast<size_t>(written.k) * static_cast<size_t>(written.k);
      values[row + static_cast<size_t>((*weight.order)[i - row])] = ordered[i];
    }
  }
  for (size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], written.values[i]) << i;
}

std::vector<uint16_t> RandomHalves(int64_t count, std::mt19937* random) {
  std::vector<uint16_t> halves;
  for (int64_t i = 0; i < count; ++i) halves.push_back(F32ToF16(0.001f * static_cast<float>(1 + (*random)() % 1000)));
  return halves;
}

// groups[k]: the group of each input.
Written Gptq(int64_t n, int64_t k, const std::vector<int32_t>& groups, int64_t num_groups, const std::string& more,
             int stored_less) {
  std::mt19937 random(static_cast<uint32_t>(n + k));
  Written w;
  w.n = n;
  w.k = k;
  w.config = R"({"quantization_config": {"quant_method": "gptq", "bits": 4, )" + more + "}}";
  const std::vector<uint16_t> scales = RandomHalves(num_groups * n, &random);
  std::vector<uint32_t> zeros(static_cast<size_t>(num_groups * n / 8)), codes(static_cast<size_t>(k / 8 * n));
  std::vector<int> zero(static_cast<size_t>(num_groups * n));
  for (int64_t g = 0; g < num_groups; ++g) {
    for (int64_t i = 0; i < n; ++i) {
      const uint32_t stored = random() % 16;
      zero[static_cast<size_t>(g * n + i)] = static_cast<int>(stored) + stored_less;
      zeros[static_cast<size_t>(g * n / 8 + i / 8)] |= stored << (4 * (i % 8));
    }
  }
  w.values.resize(static_cast<size_t>(n * k));
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < k; ++j) {
      const uint32_t code = random() % 16;
      codes[static_cast<size_t>(j / 8 * n + i)] |= code << (4 * (j % 8));
      const auto at = static_cast<size_t>(groups[static_cast<size_t>(j)] * n + i);
      w.values[static_cast<size_t>(i * k + j)] = F16ToF32(scales[at]) * static_cast<float>(int(code) - zero[at]);
    }
  }
  w.Add(".qweight", DType::kI32, {k / 8, n}, codes);
  w.Add(".qzeros", DType::kI32, {num_groups, n / 8}, zeros);
  w.Add(".scales", DType::kF16, {num_groups, n}, scales);
  w.Add(".g_idx", DType::kI32, {k}, groups);
  return w;
}

std::vector<int32_t> InOrder(int64_t k, int64_t group_size) {
  std::vector<int32_t> groups;
  for (int64_t j = 0; j < k; ++j) groups.push_back(static_cast<int32_t>(j / group_size));
  return groups;
}

TEST(QuantisedTensorsTest, Gptq) {
  ExpectWeight(Gptq(24, 256, InOrder(256, 128), 2, R"("group_size": 128)", 1), Encoding::kInt4);
  ExpectWeight(Gptq(8, 256, InOrder(256, 64), 4, R"("group_size": 64, "desc_act": false)", 1), Encoding::kInt4G32);
  ExpectWeight(Gptq(8, 96, InOrder(96, 32), 3, R"("group_size": 32, "sym": true)", 1), Encoding::kInt4G32);
  ExpectWeight(Gptq(8, 96, InOrder(96, 96), 1, R"("group_size": -1)", 1), Encoding::kInt4);
  ExpectWeight(Gptq(8, 128, InOrder(128, 128), 1, R"("group_size": 128, "checkpoint_format": "gptq_v2")", 0),
               Encoding::kInt4);
  Written without_index = Gptq(8, 128, InOrder(128, 128), 1, R"("group_size": 128)", 1);
  without_index.tensors.erase(".g_idx");
  ExpectWeight(without_index, Encoding::kInt4);
}

TEST(QuantisedTensorsTest, GptqInAnyOrderOfInputs) {
  std::vector<int32_t> groups = InOrder(128, 32);
  std::shuffle(groups.begin(), groups.end(), std::mt19937(1));
  ExpectWeight(Gptq(16, 128, groups, 4, R"("group_size": 32, "desc_act": true)", 1), Encoding::kInt4G32);
  groups = InOrder(384, 128);
  std::shuffle(groups.begin(), groups.end(), std::mt19937(2));
  ExpectWeight(Gptq(8, 384, groups, 3, R"("group_size": 128, "desc_act": true)", 1), Encoding::kInt4);
}

Written Awq(int64_t n, int64_t k, int64_t group_size) {
  std::mt19937 random(9);
  Written w;
  w.n = n;
  w.k = k;
  w.config = fmt::format(
      R"({{"quantization_config": {{"quant_method": "awq", "bits": 4, "group_size": {}, "version": "gemm"}}}})",
      group_size);
  const int64_t groups = k / group_size;
  const int order[8] = {0, 2, 4, 6, 1, 3, 5, 7};  // of columns, from the low nibble up
  const auto pack = [&](int64_t rows, std::vector<int>* plain) {
    std::vector<uint32_t> words;
    plain->resize(static_cast<size_t>(rows * n));
    for (int& value : *plain) value = static_cast<int>(random() % 16);
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t c = 0; c < n; c += 8) {
        uint32_t word = 0;
        for (int i = 0; i < 8; ++i) {
          word |= static_cast<uint32_t>((*plain)[static_cast<size_t>(row * n + c + order[i])]) << (4 * i);
        }
        words.push_back(word);
      }
    }
    return words;
  };
  std::vector<int> codes, zeros;
  w.Add(".qweight", DType::kI32, {k, n / 8}, pack(k, &codes));
  w.Add(".qzeros", DType::kI32, {groups, n / 8}, pack(groups, &zeros));
  const std::vector<uint16_t> scales = RandomHalves(groups * n, &random);
  w.Add(".scales", DType::kF16, {groups, n}, scales);
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < k; ++j) {
      const auto at = static_cast<size_t>(j / group_size * n + i);
      w.values.push_back(F16ToF32(scales[at]) * static_cast<float>(codes[static_cast<size_t>(j * n + i)] - zeros[at]));
    }
  }
  return w;
}

TEST(QuantisedTensorsTest, Awq) {
  ExpectWeight(Awq(16, 256, 128), Encoding::kInt4);
  ExpectWeight(Awq(40, 128, 32), Encoding::kInt4G32);
}

constexpr char kCompressed[] = R"({"quantization_config": {"quant_method": "compressed-tensors", "format": "%",
  "ignore": ["lm_head"], "config_groups": {"group_0": {"targets": ["Linear"], "input_activations": {"num_bits": 8},
  "weights": {"num_bits": #, "type": "$", "symmetric": true, "strategy": "channel", "dynamic": false}}}}})";

std::string Compressed(const std::string& format, int bits, const std::string& type) {
  std::string text = kCompressed;
  text.replace(text.find('%'), 1, format);
  text.replace(text.find('#'), 1, std::to_string(bits));
  return text.replace(text.find('$'), 1, type);
}

// A scale for each rows_per_scale rows and columns_per_scale columns.
Written Scaled(bool fp8, int64_t n, int64_t k, int64_t rows_per_scale, int64_t columns_per_scale, DType scale_type,
               std::vector<int64_t> scale_shape, const std::string& scale_name, const std::string& config) {
  std::mt19937 random(4);
  Written w;
  w.n = n;
  w.k = k;
  w.config = config;
  std::vector<uint8_t> codes(static_cast<size_t>(n * k));
  for (uint8_t& code : codes) {
    do code = static_cast<uint8_t>(random());
    while (fp8 && (code & 0x7f) == 0x7f);
  }
  const int64_t scale_columns = (k + columns_per_scale - 1) / columns_per_scale;
  std::vector<float> scales(static_cast<size_t>((n + rows_per_scale - 1) / rows_per_scale * scale_columns));
  std::vector<uint16_t> short_scales;
  for (float& scale : scales) {
    scale = 0.001f * static_cast<float>(1 + random() % 1000);
    if (scale_type == DType::kF32) continue;
    short_scales.push_back(F32ToBF16(scale));
    scale = BF16ToF32(short_scales.back());
  }
  w.Add(".weight", fp8 ? DType::kF8E4M3 : DType::kI8, {n, k}, codes);
  if (scale_type == DType::kF32) {
    w.Add(scale_name, scale_type, std::move(scale_shape), scales);
  } else {
    w.Add(scale_name, scale_type, std::move(scale_shape), short_scales);
  }
  for (int64_t i = 0; i < n; ++i) {
    for (int64_t j = 0; j < k; ++j) {
      const uint8_t code = codes[static_cast<size_t>(i * k + j)];
      const float value = fp8 ? F8E4M3ToF32(code) : static_cast<float>(static_cast<int8_t>(code));
      w.values.push_back(scales[static_cast<size_t>(i / rows_per_scale * scale_columns + j / columns_per_scale)] *
                         value);
    }
  }
  return w;
}

constexpr char kFp8Blocks[] =
    R"({"quantization_config": {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic",
        "weight_block_size": [128, 128]}})";
constexpr char kFp8[] = R"({"quantization_config": {"quant_method": "fp8", "activation_scheme": "static"}})";

TEST(QuantisedTensorsTest, Fp8) {
  ExpectWeight(Scaled(true, 130, 288, 128, 128, DType::kF32, {2, 3}, ".weight_scale_inv", kFp8Blocks), Encoding::kFP8);
  ExpectWeight(
      Scaled(true, 5, 64, 1, 64, DType::kF32, {5, 1}, ".weight_scale", Compressed("float-quantized", 8, "float")),
      Encoding::kFP8);
  Written per_tensor = Scaled(true, 5, 64, 5, 64, DType::kBF16, {}, ".weight_scale", kFp8);
  per_tensor.Add(".input_scale", DType::kF32, {1}, std::vector<float>{2.0f});
  ExpectWeight(per_tensor, Encoding::kFP8);
}

TEST(QuantisedTensorsTest, Int8) {
  const std::string config = Compressed("int-quantized", 8, "int");
  ExpectWeight(Scaled(false, 7, 96, 1, 96, DType::kBF16, {7, 1}, ".weight_scale", config), Encoding::kInt8);
  ExpectWeight(Scaled(false, 7, 256, 1, 128, DType::kF32, {7, 2}, ".weight_scale", config), Encoding::kInt8);
  Written with_zeros = Scaled(false, 4, 32, 1, 32, DType::kF32, {4}, ".weight_scale", config);
  with_zeros.Add(".weight_zero_point", DType::kI8, {4, 1}, std::vector<int8_t>(4, 0));
  ExpectWeight(with_zeros, Encoding::kInt8);
}

Written Packed() {
  std::mt19937 random(2);
  Written w;
  w.n = 6;
  w.k = 128;
  w.config = Compressed("pack-quantized", 4, "int");
  std::vector<uint32_t> words(static_cast<size_t>(w.n * w.k / 8));
  for (uint32_t& word : words) word = static_cast<uint32_t>(random());
  std::vector<uint16_t> scales;
  for (int64_t i = 0; i < w.n * 2; ++i) scales.push_back(F32ToBF16(0.01f * static_cast<float>(1 + random() % 100)));
  for (int64_t i = 0; i < w.n; ++i) {
    for (int64_t j = 0; j < w.k; ++j) {
      const int code = static_cast<int>(words[static_cast<size_t>(i * w.k / 8 + j / 8)] >> (4 * (j % 8))) & 15;
      w.values.push_back(BF16ToF32(scales[static_cast<size_t>(2 * i + j / 64)]) * static_cast<float>(code - 8));
    }
  }
  w.Add(".weight_packed", DType::kI32, {w.n, w.k / 8}, words);
  w.Add(".weight_scale", DType::kBF16, {w.n, 2}, scales);
  w.Add(".weight_shape", DType::kI64, {2}, std::vector<int64_t>{w.n, w.k});
  return w;
}

TEST(QuantisedTensorsTest, PackedInt4) {
  ExpectWeight(Packed(), Encoding::kInt4G32);
}

TEST(QuantisedTensorsTest, OddCheckpointsAreRefusedByName) {
  struct Case {
    Written written;
    std::function<void(Written&)> change;
    std::string message;
  };
  const Written gptq = Gptq(8, 128, InOrder(128, 64), 2, R"("group_size": 64)", 1);
  const Written fp8 = Scaled(true, 8, 64, 1, 64, DType::kF32, {8, 1}, ".weight_scale", kFp8);
  const auto config = [](const char* text) {
    return [text](Written& w) { w.config = fmt::format(R"({{"quantization_config": {{{}}}}})", text); };
  };
  const std::vector<Case> cases = {
      {gptq, config(R"("quant_method": "hqq")"), "quant_method: 'hqq' is not supported; supported are: fp8"},
      {gptq, config(R"("bits": 4)"), "quant_method: the field is missing"},
      {gptq, config(R"("quant_method": "gptq", "bits": 3, "group_size": 64)"), "bits: is 3; only 4 is supported"},
      {gptq, config(R"("quant_method": "gptq", "bits": 4, "group_size": 16)"), "group_size: is 16; supported are -1"},
      {gptq, config(R"("quant_method": "gptq", "bits": 4, "group_size": 64, "dynamic": {"+:up": {}})"),
       "dynamic: settings by module"},
      {gptq, config(R"("quant_method": "gptq", "bits": 4, "group_size": 64, "checkpoint_format": "marlin")"),
       "checkpoint_format: is 'marlin'"},
      {gptq, config(R"("quant_method": "awq", "bits": 4, "group_size": 64, "version": "gemv")"), "version: is 'gemv'"},
      {gptq, config(R"("quant_method": "fp8", "weight_block_size": [64, 64])"), "weight_block_size: is [64, 64]"},
      {gptq, config(R"("quant_method": "compressed-tensors", "format": "marlin-24")"), "format: is 'marlin-24'"},
      {gptq, config(R"("quant_method": "compressed-tensors", "config_groups": {"a": {"weights": {"num_bits": 8,
              "symmetric": false}}})"),
       "config_groups: a: weights: symmetric: only symmetric"},
      {gptq, [](Written& w) { w.config = "{}"; }, "up_proj.qweight: config.json has no quantization_config of gptq"},
      {gptq, [](Written& w) { w.tensors.erase(".scales"); },
       "up_proj.qweight: belongs with model.layers.0.mlp.up_proj.scales"},
      {gptq, [](Written& w) { w.tensors[".qzeros"].shape = {1, 2}; }, "up_proj.qzeros: its shape is [1,2]; [2,1] is"},
      {gptq, [](Written& w) { w.tensors[".qweight"].dtype = DType::kU32; }, "up_proj.qweight: is U32; I32 is expected"},
      {gptq, [](Written& w) { w.Add(".g_idx", DType::kI32, {128}, std::vector<int32_t>(128, 2)); },
       "up_proj.g_idx: its groups are not 0 to 1 with 64 inputs each: input 0 is in group 2"},
      {gptq, [](Written& w) { w.Add(".scales", DType::kF32, {2, 8}, std::vector<float>(16, 0.1f)); },
       "up_proj.scales: its F32 value 0.1 is not representable as f16"},
      {gptq, [](Written& w) { w.Add(".weight", DType::kF32, {1}, std::vector<float>(1)); },
       "up_proj.qweight: is the same weight as"},
      {fp8, [](Written& w) { w.tensors[".weight_scale"].shape = {2, 4}; }, "weight_scale: its shape [2,4] is not one"},
      {fp8, [](Written& w) { w.tensors[".weight_scale"].dtype = DType::kI32; }, "weight_scale: is I32; a float"},
      {fp8, [](Written& w) { w.Add(".weight_zero_point", DType::kI8, {1}, std::vector<int8_t>(1, 1)); },
       "weight_zero_point: only symmetric"},
      {Packed(), [](Written& w) { w.Add(".weight_g_idx", DType::kI32, {1}, std::vector<int32_t>(1)); },
       "up_proj.weight_g_idx: such weights are not supported"},
      {Packed(), [](Written& w) { w.tensors[".weight_scale"].shape = {12}; }, "its shape [12] gives no groups"},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.message);
    const TempFolder folder;
    Written written = each.written;
    each.change(written);
    const auto checkpoint = OpenWritten(folder, written);
    ASSERT_FALSE(checkpoint);
    EXPECT_NE(checkpoint.error().ToString().find(each.message), std::string::npos) << checkpoint.error().ToString();
  }
  // Without scales, bytes are a type like any other that cannot be read.
  Written bare = fp8;
  bare.tensors.erase(".weight_scale");
  const TempFolder folder;
  const auto checkpoint = OpenWritten(folder, bare);
  ASSERT_TRUE(checkpoint);
  EXPECT_NE(checkpoint->Get(std::string(kPrefix) + ".weight").error().ToString().find("its type F8_E4M3 is not"),
            std::string::npos);
}

}  // namespace
}  // namespace deepinfer::formats
