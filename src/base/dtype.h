// Element types of values in a graph. Pure values, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace deepinfer {

enum class DType : uint8_t { kI1, kI8, kU8, kI32, kU32, kI64, kF8E4M3, kF16, kBF16, kF32 };
inline constexpr int kNumDTypes = 10;

size_t SizeOf(DType dtype);         // bytes per element; i1 is stored as one byte
const char* ToString(DType dtype);  // "i1" "i8" "u8" "i32" "u32" "i64" "f8e4m3fn" "f16" "bf16" "f32"
std::optional<DType> ParseDType(std::string_view name);
bool IsFloat(DType dtype);
bool IsInteger(DType dtype);  // i8 u8 i32 u32 i64; not i1

}  // namespace deepinfer
