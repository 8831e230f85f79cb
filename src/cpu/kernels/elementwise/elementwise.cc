#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/half.h"
#include "cpu/kernels/elementwise/elementwise_tables.h"
#include "cpu/kernels/pick_isa.h"

namespace deepinfer {

DI_DECLARE_ISA_TABLE(ElementwiseTable, kElementwise);

namespace {

template <BinaryOp op>
void BinaryI32(const void* a_bytes, const void* b_bytes, void* out_bytes, int64_t begin, int64_t end) {
  const int32_t* a = static_cast<const int32_t*>(a_bytes);
  const int32_t* b = static_cast<const int32_t*>(b_bytes);
  int32_t* out = static_cast<int32_t*>(out_bytes);
  for (int64_t i = begin; i < end; ++i) {
    const uint32_t x = static_cast<uint32_t>(a[i]), y = static_cast<uint32_t>(b[i]);  // unsigned: overflow wraps
    if constexpr (op == BinaryOp::kAdd) out[i] = static_cast<int32_t>(x + y);
    if constexpr (op == BinaryOp::kSub) out[i] = static_cast<int32_t>(x - y);
    if constexpr (op == BinaryOp::kMul) out[i] = static_cast<int32_t>(x * y);
    if constexpr (op == BinaryOp::kMax) out[i] = std::max(a[i], b[i]);
    if constexpr (op == BinaryOp::kMin) out[i] = std::min(a[i], b[i]);
  }
}

template <int bytes>
void CopySame(const void* in, void* out, int64_t begin, int64_t end) {
  if (begin >= end) return;
  std::memmove(static_cast<char*>(out) + begin * bytes, static_cast<const char*>(in) + begin * bytes,
               static_cast<size_t>(end - begin) * bytes);
}

// i32 as f32 rounded to odd: rounding that to a narrower type equals rounding the integer once.
float I32ToF32Odd(int32_t value) {
  const double exact = value;
  float nearest = static_cast<float>(value);
  if (nearest == exact) return nearest;
  uint32_t bits = std::bit_cast<uint32_t>(nearest);
  if (std::fabs(static_cast<double>(nearest)) > std::fabs(exact)) --bits;
  return std::bit_cast<float>(bits | 1);
}

template <DType to>
void ConvertFromI32(const void* in_bytes, void* out_bytes, int64_t begin, int64_t end) {
  const int32_t* in = static_cast<const int32_t*>(in_bytes);
  for (int64_t i = begin; i < end; ++i) {
    if constexpr (to == DType::kF32) static_cast<float*>(out_bytes)[i] = static_cast<float>(in[i]);
    if constexpr (to == DType::kBF16) static_cast<uint16_t*>(out_bytes)[i] = F32ToBF16(I32ToF32Odd(in[i]));
    if constexpr (to == DType::kF16) static_cast<uint16_t*>(out_bytes)[i] = F32ToF16(I32ToF32Odd(in[i]));
  }
}

template <DType from>
void ConvertToI32(const void* in_bytes, void* out_bytes, int64_t begin, int64_t end) {
  int32_t* out = static_cast<int32_t*>(out_bytes);
  for (int64_t i = begin; i < end; ++i) {
    float value = 0;
    if constexpr (from == DType::kF32) value = static_cast<const float*>(in_bytes)[i];
    if constexpr (from == DType::kBF16) value = BF16ToF32(static_cast<const uint16_t*>(in_bytes)[i]);
    if constexpr (from == DType::kF16) value = F16ToF32(static_cast<const uint16_t*>(in_bytes)[i]);
    if (std::isnan(value)) {
      out[i] = 0;
    } else if (value >= 2147483648.0f) {
      out[i] = std::numeric_limits<int32_t>::max();
    } else if (value < -2147483648.0f) {
      out[i] = std::numeric_limits<int32_t>::min();
    } else {
      out[i] = static_cast<int32_t>(value);
    }
  }
}

int FloatIndex(DType dtype) {
  if (dtype == DType::kF32) return 0;
  if (dtype == DType::kBF16) return 1;
  if (dtype == DType::kF16) return 2;
  return -1;
}

}  // namespace

BinaryKernel ChooseBinary(Isa isa, BinaryOp op, DType dtype) {
  const ElementwiseTable& table = DI_PICK_ISA(isa, kElementwise);
  if (dtype == DType::kF32) return table.f32[static_cast<int>(op)];
  if (dtype == DType::kBF16) return table.bf16[static_cast<int>(op)];
  if (dtype != DType::kI32) return {};
  switch (op) {
    case BinaryOp::kAdd:
      return {"add_i32", BinaryI32<BinaryOp::kAdd>};
    case BinaryOp::kSub:
      return {"sub_i32", BinaryI32<BinaryOp::kSub>};
    case BinaryOp::kMul:
      return {"mul_i32", BinaryI32<BinaryOp::kMul>};
    case BinaryOp::kMax:
      return {"max_i32", BinaryI32<BinaryOp::kMax>};
    case BinaryOp::kMin:
      return {"min_i32", BinaryI32<BinaryOp::kMin>};
    case BinaryOp::kDiv:
      break;
  }
  return {};
}

ConvertKernel ChooseConvert(Isa isa, DType from, DType to) {
  if (from == to) {
    switch (SizeOf(from)) {
      case 1:
        return {"copy_8", CopySame<1>};
      case 2:
        return {"copy_16", CopySame<2>};
      case 4:
        return {"copy_32", CopySame<4>};
      default:
        return {"copy_64", CopySame<8>};
    }
  }
  const ElementwiseTable& table = DI_PICK_ISA(isa, kElementwise);
  const int from_float = FloatIndex(from), to_float = FloatIndex(to);
  if (from_float >= 0 && to_float >= 0) return table.float_convert[from_float][to_float];
  if (from == DType::kI32 && to == DType::kF32) return {"convert_i32_f32", ConvertFromI32<DType::kF32>};
  if (from == DType::kI32 && to == DType::kBF16) return {"convert_i32_bf16", ConvertFromI32<DType::kBF16>};
  if (from == DType::kI32 && to == DType::kF16) return {"convert_i32_f16", ConvertFromI32<DType::kF16>};
  if (from == DType::kF32 && to == DType::kI32) return {"convert_f32_i32", ConvertToI32<DType::kF32>};
  if (from == DType::kBF16 && to == DType::kI32) return {"convert_bf16_i32", ConvertToI32<DType::kBF16>};
  if (from == DType::kF16 && to == DType::kI32) return {"convert_f16_i32", ConvertToI32<DType::kF16>};
  return {};
}

}  // namespace deepinfer
