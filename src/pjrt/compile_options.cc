#include "pjrt/compile_options.h"

#include <cstdint>

namespace deepinfer::pjrt {
namespace {

// Protocol buffer wire format: a key (field number, wire type), then a varint or a length and bytes.
void Varint(std::string* out, uint64_t value) {
  while (value >= 0x80) {
    out->push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out->push_back(static_cast<char>(value));
}

void Int(std::string* out, uint32_t field, int64_t value) {
  Varint(out, field << 3);
  Varint(out, static_cast<uint64_t>(value));
}

void Message(std::string* out, uint32_t field, const std::string& bytes) {
  Varint(out, field << 3 | 2);
  Varint(out, bytes.size());
  out->append(bytes);
}

// OptionOverrideProto: string_field 1, bool_field 2, int_field 3.
std::string Override(const OptionValue& value) {
  std::string out;
  if (const auto* text = std::get_if<std::string>(&value)) Message(&out, 1, *text);
  if (const auto* flag = std::get_if<bool>(&value)) Int(&out, 2, *flag ? 1 : 0);
  if (const auto* number = std::get_if<int64_t>(&value)) Int(&out, 3, *number);
  return out;
}

}  // namespace

std::string EncodeCompileOptions(const CompileOptionsSpec& options) {
  std::string build;   // ExecutableBuildOptionsProto
  Int(&build, 1, -1);  // device_ordinal: the plugin's choice
  Int(&build, 4, options.num_replicas);
  Int(&build, 5, options.num_partitions);
  std::string out;
  Message(&out, 3, build);
  for (const auto& [name, value] : options.overrides) {  // a map is a list of (key 1, value 2)
    std::string entry;
    Message(&entry, 1, name);
    Message(&entry, 2, Override(value));
    Message(&out, 7, entry);
  }
  return out;
}

}  // namespace deepinfer::pjrt
