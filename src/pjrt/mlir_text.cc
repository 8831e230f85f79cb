#include "pjrt/mlir_text.h"

#include <fmt/format.h>

#include <cstring>

namespace deepinfer::pjrt {
namespace {

bool IsIdentifier(const std::string& name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  if (name.empty() || !letter(name[0])) return false;
  for (const char c : name) {
    if (!letter(c) && (c < '0' || c > '9') && c != '$' && c != '.') return false;
  }
  return true;
}

template <class T>
T Read(const uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(value));
  return value;
}

std::string Element(DType dtype, const uint8_t* bytes) {
  switch (dtype) {
    case DType::kI1:
      return *bytes != 0 ? "true" : "false";
    case DType::kI8:
      return fmt::format("{}", static_cast<int>(Read<int8_t>(bytes)));
    case DType::kU8:
      return fmt::format("{}", static_cast<int>(*bytes));
    case DType::kI32:
      return fmt::format("{}", Read<int32_t>(bytes));
    case DType::kU32:
      return fmt::format("{}", Read<uint32_t>(bytes));
    case DType::kI64:
      return fmt::format("{}", Read<int64_t>(bytes));
    case DType::kF8E4M3:
      return fmt::format("0x{:02X}", *bytes);
    case DType::kF16:
    case DType::kBF16:
      return fmt::format("0x{:04X}", Read<uint16_t>(bytes));
    case DType::kF32:
      return fmt::format("0x{:08X}", Read<uint32_t>(bytes));
  }
  return "";
}

// All elements of a tensor, as nested lists: the only form of i1 constants that every MLIR version reads alike.
std::string Nested(const ir::Type& type, size_t dim, const uint8_t* bytes, int64_t count) {
  if (dim == type.dims.size()) return Element(type.dtype, bytes);
  std::string out = "[";
  const int64_t part = count / type.dims[dim].size;
  for (int64_t i = 0; i < type.dims[dim].size; ++i) {
    if (i > 0) out += ", ";
    out += Nested(type, dim + 1, bytes + i * part * static_cast<int64_t>(SizeOf(type.dtype)), part);
  }
  return out + "]";
}

std::string Hex(std::span<const uint8_t> bytes) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  std::string out = "\"0x";
  out.reserve(bytes.size() * 2 + 4);
  for (const uint8_t byte : bytes) {
    out += kDigits[byte >> 4];
    out += kDigits[byte & 15];
  }
  return out + '"';
}

}  // namespace

const char* MlirName(DType dtype) {
  switch (dtype) {
    case DType::kI1:
      return "i1";
    case DType::kI8:
      return "i8";
    case DType::kU8:
      return "ui8";
    case DType::kI32:
      return "i32";
    case DType::kU32:
      return "ui32";
    case DType::kI64:
      return "i64";
    case DType::kF8E4M3:
      return "f8E4M3FN";
    case DType::kF16:
      return "f16";
    case DType::kBF16:
      return "bf16";
    case DType::kF32:
      return "f32";
  }
  return "";
}

std::string MlirType(const ir::Type& type) {
  std::string out = "tensor<";
  for (const ir::Dim& dim : type.dims) out += fmt::format("{}x", dim.size);
  return out + MlirName(type.dtype) + ">";
}

std::string MlirString(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\' || byte < 0x20 || byte >= 0x7f) {
      out += fmt::format("\\{:02X}", byte);
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string MlirSymbol(const std::string& name) {
  return "@" + (IsIdentifier(name) ? name : MlirString(name));
}

std::string I64Array(const std::vector<int64_t>& values) {
  return values.empty() ? "array<i64>" : fmt::format("array<i64: {}>", fmt::join(values, ", "));
}

std::string List(const std::vector<int64_t>& values) {
  return fmt::format("[{}]", fmt::join(values, ", "));
}

std::string MlirDense(const ir::Type& type, std::span<const uint8_t> bytes) {
  const std::string tensor = MlirType(type);
  const int64_t count = type.NumElements();
  if (count == 0) return "dense<> : " + tensor;
  const size_t width = SizeOf(type.dtype);
  if (bytes.size() == width) return fmt::format("dense<{}> : {}", Element(type.dtype, bytes.data()), tensor);
  if (type.dtype == DType::kI1) return fmt::format("dense<{}> : {}", Nested(type, 0, bytes.data(), count), tensor);
  return fmt::format("dense<{}> : {}", Hex(bytes), tensor);
}

}  // namespace deepinfer::pjrt
