#include "formats/safetensors_dtype.h"

namespace deepinfer::formats {
namespace {

constexpr SafetensorsDType kDTypes[] = {
    {"F32", 32, DType::kF32, Encoding::kF32},    {"F16", 16, DType::kF16, Encoding::kF16},
    {"BF16", 16, DType::kBF16, Encoding::kBF16}, {"BOOL", 8, DType::kI1, std::nullopt},
    {"I8", 8, DType::kI8, std::nullopt},         {"U8", 8, DType::kU8, std::nullopt},
    {"I32", 32, DType::kI32, std::nullopt},      {"U32", 32, DType::kU32, std::nullopt},
    {"I64", 64, DType::kI64, std::nullopt},      {"F8_E4M3", 8, DType::kF8E4M3, std::nullopt},
    {"F8_E5M2", 8, std::nullopt, std::nullopt},  {"F8_E8M0", 8, std::nullopt, std::nullopt},
    {"F6_E2M3", 6, std::nullopt, std::nullopt},  {"F6_E3M2", 6, std::nullopt, std::nullopt},
    {"F4", 4, std::nullopt, std::nullopt},       {"I16", 16, std::nullopt, std::nullopt},
    {"U16", 16, std::nullopt, std::nullopt},     {"U64", 64, std::nullopt, std::nullopt},
    {"F64", 64, std::nullopt, std::nullopt},     {"C64", 64, std::nullopt, std::nullopt},
};

}  // namespace

const SafetensorsDType* FindSafetensorsDType(std::string_view name) {
  for (const SafetensorsDType& dtype : kDTypes) {
    if (name == dtype.name) return &dtype;
  }
  return nullptr;
}

const SafetensorsDType* FindSafetensorsDType(DType wanted) {
  for (const SafetensorsDType& dtype : kDTypes) {
    if (dtype.dtype == wanted) return &dtype;
  }
  return nullptr;
}

}  // namespace deepinfer::formats
