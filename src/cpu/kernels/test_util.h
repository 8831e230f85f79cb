// What the kernel tests share: seeded values, buffers of any float type, and a loop over the machine's instruction
// sets.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <vector>

#include "base/cpu_features.h"
#include "base/dtype.h"
#include "base/half.h"

namespace deepinfer {

inline std::vector<float> RandomFloats(int64_t count, uint32_t seed, float scale = 1) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

// A contiguous array of floats of any type, or of codes of 8 bits.
class Array {
 public:
  Array(DType dtype, const std::vector<float>& values) : dtype_(dtype), bytes_(values.size() * SizeOf(dtype)) {
    for (size_t i = 0; i < values.size(); ++i) Set(i, values[i]);
  }
  Array(DType dtype, int64_t count, float value = 0) : Array(dtype, std::vector<float>(count, value)) {}

  void Set(int64_t i, float value) {
    if (dtype_ == DType::kF32) {
      std::memcpy(&bytes_[4 * i], &value, 4);
    } else if (dtype_ == DType::kF8E4M3) {
      bytes_[i] = F32ToF8E4M3(value);
    } else if (dtype_ == DType::kI8) {
      bytes_[i] = static_cast<uint8_t>(std::isnan(value) ? 0 : static_cast<int8_t>(std::clamp(value, -128.0f, 127.0f)));
    } else {
      const uint16_t bits = dtype_ == DType::kBF16 ? F32ToBF16(value) : F32ToF16(value);
      std::memcpy(&bytes_[2 * i], &bits, 2);
    }
  }
  float operator[](int64_t i) const {
    if (dtype_ == DType::kF32) {
      float value;
      std::memcpy(&value, &bytes_[4 * i], 4);
      return value;
    }
    if (dtype_ == DType::kF8E4M3) return F8E4M3ToF32(bytes_[i]);
    if (dtype_ == DType::kI8) return static_cast<int8_t>(bytes_[i]);
    uint16_t bits;
    std::memcpy(&bits, &bytes_[2 * i], 2);
    return dtype_ == DType::kBF16 ? BF16ToF32(bits) : F16ToF32(bits);
  }
  int64_t size() const { return static_cast<int64_t>(bytes_.size() / SizeOf(dtype_)); }
  void* data() { return bytes_.data(); }
  const void* data() const { return bytes_.data(); }
  const std::vector<uint8_t>& bytes() const { return bytes_; }
  // From element i on.
  const void* At(int64_t i) const { return bytes_.data() + i * SizeOf(dtype_); }
  void* At(int64_t i) { return bytes_.data() + i * SizeOf(dtype_); }

 private:
  DType dtype_;
  std::vector<uint8_t> bytes_;
};

// Largest relative error of one rounding to the type.
inline double Epsilon(DType dtype) {
  return dtype == DType::kF32 ? 1.0 / (1 << 24) : dtype == DType::kBF16 ? 1.0 / (1 << 8) : 1.0 / (1 << 11);
}

template <class Function>
void ForEachIsa(Function function) {
  for (Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16}) {
    if (!MachineHas(isa)) {
      std::printf("skipped: this machine lacks %s\n", ToString(isa));
      continue;
    }
    SCOPED_TRACE(ToString(isa));
    function(isa);
  }
}

template <class Function>
void ForEachIsaAndActivation(Function function) {
  ForEachIsa([&](Isa isa) {
    for (DType dtype : {DType::kF32, DType::kBF16}) {
      SCOPED_TRACE(ToString(dtype));
      function(isa, dtype);
    }
  });
}

}  // namespace deepinfer
