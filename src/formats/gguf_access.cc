// Typed access to the metadata of a GgufFile.
#include <limits>
#include <optional>

#include "formats/byte_cursor.h"
#include "formats/gguf.h"

namespace deepinfer::formats {
namespace {

constexpr const char* kKindNames[] = {
    "a boolean",          "an integer",           "an unsigned integer", "a float", "a string", "an array of integers",
    "an array of floats", "an array of booleans", "an array of strings"};
static_assert(std::size(kKindNames) == std::variant_size_v<GgufValue>);

std::string Where(const GgufFile& file, std::string_view key) {
  return fmt::format("{}: key {}", file.path(), Printable(key));
}

tl::unexpected<Error> WrongKind(const GgufFile& file, std::string_view key, const GgufValue& value,
                                const char* wanted) {
  return MakeError(ErrorCode::kInvalidArgument, Where(file, key), "is {} where {} is expected",
                   kKindNames[value.index()], wanted);
}

tl::unexpected<Error> Missing(const GgufFile& file, std::string_view key) {
  return MakeError(ErrorCode::kNotFound, Where(file, key), "the key is missing");
}

const GgufValue* Find(const GgufFile& file, std::string_view key) {
  const auto it = file.metadata().find(key);
  return it == file.metadata().end() ? nullptr : &it->second;
}

Result<int64_t> AsInt(const GgufFile& file, std::string_view key, const GgufValue& value) {
  if (const auto* integer = std::get_if<int64_t>(&value)) return *integer;
  if (const auto* large = std::get_if<uint64_t>(&value)) {
    if (*large <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) return static_cast<int64_t>(*large);
    return MakeError(ErrorCode::kInvalidArgument, Where(file, key), "{} is too large", *large);
  }
  return WrongKind(file, key, value, "an integer");
}

Result<double> AsFloat(const GgufFile& file, std::string_view key, const GgufValue& value) {
  if (const auto* number = std::get_if<double>(&value)) return *number;
  if (const auto* integer = std::get_if<int64_t>(&value)) return static_cast<double>(*integer);
  if (const auto* large = std::get_if<uint64_t>(&value)) return static_cast<double>(*large);
  return WrongKind(file, key, value, "a number");
}

template <class T>
Result<T> As(const GgufFile& file, std::string_view key, const GgufValue& value, const char* wanted) {
  if (const auto* held = std::get_if<T>(&value)) return *held;
  return WrongKind(file, key, value, wanted);
}

template <class T>
Result<const std::vector<T>*> Array(const GgufFile& file, std::string_view key, const char* wanted) {
  const GgufValue* value = Find(file, key);
  if (value == nullptr) return nullptr;
  if (const auto* held = std::get_if<std::vector<T>>(value)) return held;
  return WrongKind(file, key, *value, wanted);
}

}  // namespace

bool GgufFile::Has(std::string_view key) const {
  return Find(*this, key) != nullptr;
}

Result<int64_t> GgufFile::RequiredInt(std::string_view key) const {
  const GgufValue* value = Find(*this, key);
  if (value == nullptr) return Missing(*this, key);
  return AsInt(*this, key, *value);
}

Result<double> GgufFile::RequiredFloat(std::string_view key) const {
  const GgufValue* value = Find(*this, key);
  if (value == nullptr) return Missing(*this, key);
  return AsFloat(*this, key, *value);
}

Result<std::string> GgufFile::RequiredString(std::string_view key) const {
  const GgufValue* value = Find(*this, key);
  if (value == nullptr) return Missing(*this, key);
  return As<std::string>(*this, key, *value, "a string");
}

Result<int64_t> GgufFile::OptionalInt(std::string_view key, int64_t fallback) const {
  const GgufValue* value = Find(*this, key);
  if (value == nullptr) return fallback;
  return AsInt(*this, key, *value);
}

Result<double> GgufFile::OptionalFloat(std::string_view key, double fallback) const {
  const GgufValue* value = Find(*this, key);
  if (value == nullptr) return fallback;
  return AsFloat(*this, key, *value);
}

Result<bool> GgufFile::OptionalBool(std::string_view key, bool fallback) const {
  const GgufValue* value = Find(*this, key);
  if (value == nullptr) return fallback;
  return As<bool>(*this, key, *value, "a boolean");
}

Result<std::string> GgufFile::OptionalString(std::string_view key, std::string fallback) const {
  const GgufValue* value = Find(*this, key);
  if (value == nullptr) return fallback;
  return As<std::string>(*this, key, *value, "a string");
}

Result<const std::vector<std::string_view>*> GgufFile::Strings(std::string_view key) const {
  return Array<std::string_view>(*this, key, "an array of strings");
}

Result<const std::vector<int64_t>*> GgufFile::Ints(std::string_view key) const {
  return Array<int64_t>(*this, key, "an array of integers");
}

Result<const std::vector<double>*> GgufFile::Floats(std::string_view key) const {
  return Array<double>(*this, key, "an array of floats");
}

}  // namespace deepinfer::formats
