#include "fuzz/targets.h"

#include <string>
#include <vector>

#include "formats/gguf.h"
#include "formats/gguf_check.h"
#include "formats/hf_config.h"
#include "formats/safetensors.h"

namespace deepinfer::fuzz {
namespace {

// Reads the first and the last byte, which a sanitizer checks.
void Touch(std::span<const std::byte> data) {
  if (data.empty()) return;
  [[maybe_unused]] volatile std::byte byte = data.front();
  byte = data.back();
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
