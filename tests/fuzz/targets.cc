#include "fuzz/targets.h"

#include <algorithm>
#include <string>
#include <vector>

#include "formats/gguf.h"
#include "formats/gguf_check.h"
#include "formats/hf_config.h"
#include "formats/quantised_tensors.h"
#include "formats/safetensors.h"

namespace deepinfer::fuzz {
namespace {

// Reads the first and the last byte, which a sanitizer checks.
void Touch(std::span<const std::byte> data) {
  if (data.empty()) return;
  [[maybe_unused]] volatile std::byte byte = data.front();
  byte = data.back();
}

// The file as a quantised checkpoint of every kind, and the first rows of what that makes.
void FuzzQuantised(const formats::SafetensorsFile& file) {
  std::vector<formats::CheckpointTensor> tensors;
  for (const formats::SafetensorsTensor& tensor : file.tensors()) {
    tensors.push_back({tensor.name, tensor.encoding, tensor.dtype_name, tensor.shape, tensor.data, "fuzz", {}, {}});
  }
  using Method = formats::QuantisationMethod;
  for (const Method method : {Method::kNone, Method::kFp8, Method::kCompressed, Method::kGptq, Method::kAwq}) {
    for (const int64_t group_size : {-1, 32, 64}) {
      formats::QuantisationConfig config;
      config.method = method;
      config.group_size = group_size;
      config.block_rows = method == Method::kFp8 ? 2 : 0;
      config.block_columns = method == Method::kFp8 ? kRunElements : 0;
      const auto weights = formats::AssembleQuantised(config, tensors);
      if (!weights) continue;
      for (const formats::CheckpointTensor& weight : *weights) {
        if (!weight.rows) continue;
        const int64_t rows = std::min<int64_t>(weight.shape[0], 3);
        std::vector<std::byte> bytes(static_cast<size_t>(rows) * RowBytes(*weight.encoding, weight.shape[1]));
        weight.rows(weight.shape[0] - rows, weight.shape[0], bytes.data());
        std::vector<float> values(static_cast<size_t>(rows * weight.shape[1]));
        DecodeRow(*weight.encoding, bytes.data(), values.data(), rows * weight.shape[1]);
      }
    }
  }
}

}  // namespace

void FuzzGguf(Bytes bytes) {
  const auto file = formats::GgufFile::Parse(bytes, "fuzz.gguf");
  if (!file) return;
  (void)formats::CheckGgufVocabulary(*file);
  for (const auto& [key, value] : file->metadata()) {
    (void)file->RequiredInt(key);
    (void)file->RequiredFloat(key);
    (void)file->RequiredString(key);
    (void)file->OptionalBool(key, false);
    (void)file->Ints(key);
    (void)file->Floats(key);
    if (const auto strings = file->Strings(key); strings && *strings != nullptr) {
      for (std::string_view text : **strings) Touch(std::as_bytes(std::span(text)));
    }
  }
  for (const formats::GgufTensor& tensor : file->tensors()) {
    Touch(tensor.data);
    if (file->FindTensor(tensor.name) != &tensor) __builtin_trap();
    if (tensor.unsupported_type != nullptr) continue;
    std::vector<float> row(static_cast<size_t>(tensor.shape.back()));
    DecodeRow(tensor.encoding, tensor.data.data(), row.data(), tensor.shape.back());
  }
}

void FuzzSafetensors(Bytes bytes) {
  const auto file = formats::SafetensorsFile::Parse(bytes, "fuzz.safetensors");
  if (!file) return;
  FuzzQuantised(*file);
  for (const formats::SafetensorsTensor& tensor : file->tensors()) {
    Touch(tensor.data);
    if (file->FindTensor(tensor.name) != &tensor) __builtin_trap();
    if (!tensor.encoding || tensor.shape.empty() || tensor.data.empty()) continue;
    std::vector<float> row(static_cast<size_t>(tensor.shape.back()));
    DecodeRow(*tensor.encoding, tensor.data.data(), row.data(), tensor.shape.back());
  }
}

void FuzzHfConfig(Bytes bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const size_t split = text.find('\0');
  const std::string_view generation = split == std::string_view::npos ? "" : text.substr(split + 1);
  const auto config = formats::HfConfig::Parse(text.substr(0, split), generation, "fuzz");
  if (!config) return;
  (void)formats::ReadQuantisation(*config);
  for (const formats::ConfigNode& node : {config->root(), config->text()}) {
    for (const auto& [field, value] : node.object().items()) {
      (void)node.RequiredInt(field);
      (void)node.RequiredFloat(field);
      (void)node.RequiredBool(field);
      (void)node.RequiredString(field);
      (void)node.Ints(field);
      (void)node.Floats(field);
      (void)node.Strings(field);
      (void)node.Child(field);
    }
  }
}

}  // namespace deepinfer::fuzz
