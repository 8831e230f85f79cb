#include "base/dtype.h"

#include <array>

namespace deepinfer {
namespace {

struct Info {
  const char* name;
  size_t size;
};
constexpr std::array<Info, kNumDTypes> kInfo = {{{"i1", 1},
                                                 {"i8", 1},
                                                 {"u8", 1},
                                                 {"i32", 4},
                                                 {"u32", 4},
                                                 {"i64", 8},
                                                 {"f8e4m3fn", 1},
                                                 {"f16", 2},
                                                 {"bf16", 2},
                                                 {"f32", 4}}};

}  // namespace

size_t SizeOf(DType dtype) {
  return kInfo[static_cast<size_t>(dtype)].size;
}
const char* ToString(DType dtype) {
  return kInfo[static_cast<size_t>(dtype)].name;
}

std::optional<DType> ParseDType(std::string_view name) {
  for (int i = 0; i < kNumDTypes; ++i) {
    if (name == kInfo[i].name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

bool IsFloat(DType dtype) {
  return dtype >= DType::kF8E4M3;
}
bool IsInteger(DType dtype) {
  return dtype >= DType::kI8 && dtype <= DType::kI64;
}

}  // namespace deepinfer
