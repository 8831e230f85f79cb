// For tests of matrix products: random weights and activations, packed and plain, and calls of single kernels.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iostream>
#include <limits>
#include <memory>
#include <new>
#include <random>
#include <vector>

#include "base/half.h"
#include "base/thread_team.h"
#include "cpu/kernels/linear/amx_emulator.h"
#include "cpu/kernels/linear/linear.h"

namespace deepinfer::cpu {

// 64-byte aligned bytes, filled with 0xff so that reads of unwritten places show up as NaN; 64 more show writes past
// them.
class Buffer {
 public:
  explicit Buffer(size_t bytes)
      : data_(static_cast<uint8_t*>(::operator new(bytes + 64, std::align_val_t{64}))), bytes_(bytes) {
    std::memset(data_, 0xff, bytes + 64);
  }
  ~Buffer() { ::operator delete(data_, std::align_val_t{64}); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  uint8_t* get() const { return data_; }
  bool IsWhole() const {
    return std::all_of(data_ + bytes_, data_ + bytes_ + 64, [](uint8_t byte) { return byte == 0xff; });
  }

 private:
  uint8_t* data_;
  size_t bytes_;
};

inline std::vector<Encoding> AllEncodings() {
  std::vector<Encoding> all;
  for (int i = 0; i < kNumEncodings; ++i) all.push_back(static_cast<Encoding>(i));
  return all;
}

// Where the f16 scales and minima of a block lie.
inline std::vector<int> HalvesOf(Encoding encoding) {
  switch (encoding) {
    case Encoding::kQ2_K:
      return {80, 82};
    case Encoding::kQ3_K:
      return {108};
    case Encoding::kQ6_K:
      return {208};
    case Encoding::kQ4_1:
    case Encoding::kQ5_1:
    case Encoding::kQ4_K:
    case Encoding::kQ5_K:
      return {0, 2};
    case Encoding::kMXFP4:
    case Encoding::kFP8:
    case Encoding::kInt8:
      return {};
    default:
      return {0};
  }
}

// Makes a block of noise sane: finite scales of both signs, some of them subnormal halves; no NaN.
inline void SetScales(Encoding encoding, std::mt19937* rng, uint8_t* block) {
  std::normal_distribution<float> normal(0.0f, 0.02f);
  const std::vector<int> halves = HalvesOf(encoding);
  for (size_t i = 0; i < halves.size(); ++i) {
    const float value = i == 0 ? ((*rng)() % 16 == 0 ? 3e-7f : normal(*rng) / 8) : normal(*rng);
    const uint16_t bits = F32ToF16(value);
    std::memcpy(block + halves[i], &bits, 2);
  }
  if (encoding == Encoding::kMXFP4) block[0] = static_cast<uint8_t>(114 + (*rng)() % 8);
  if (encoding == Encoding::kFP8 || encoding == Encoding::kInt8) {
    const float scale = normal(*rng) / 100;
    std::memcpy(block, &scale, 4);
  }
  if (encoding == Encoding::kInt4 || encoding == Encoding::kInt4G32) block[2] %= 17;
  if (encoding == Encoding::kFP8) {
    for (int j = 0; j < 32; ++j) {
      if ((block[4 + j] & 0x7f) == 0x7f) block[4 + j] ^= 1;
    }
  }
}

// Random rows: any codes.
inline std::vector<uint8_t> RandomRows(Encoding encoding, int64_t n, int64_t k, uint32_t seed) {
  std::mt19937 rng(seed);
  std::vector<uint8_t> bytes(static_cast<size_t>(n) * RowBytes(encoding, k));
  const EncodingInfo& info = InfoOf(encoding);
  if (!IsQuantised(encoding)) {
    std::normal_distribution<float> normal(0.0f, 0.02f);
    std::vector<float> values(static_cast<size_t>(n * k));
    for (float& value : values) value = normal(rng);
    EncodeRow(encoding, values.data(), bytes.data(), n * k);
    return bytes;
  }
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng());
  const int64_t blocks = k / info.block_elements;  // of a row
  const int64_t run = HasRuns(encoding) ? kRunElements / info.block_elements : 1;
  const int head = encoding == Encoding::kInt4 ? 3 : 4;
  for (int64_t i = 0; i < n * blocks; ++i) {
    uint8_t* block = bytes.data() + i * info.block_bytes;
    SetScales(encoding, &rng, block);
    const int64_t first = i % blocks % run;  // the blocks of a run share their scale
    if (first != 0) std::memcpy(block, block - first * info.block_bytes, static_cast<size_t>(head));
  }
  return bytes;
}

struct Weight {
  Encoding encoding;
  int64_t n, k;
  std::vector<uint8_t> rows;
  std::vector<float> values;  // DecodeRow
  std::unique_ptr<Buffer> packed;

  Weight(Encoding e, int64_t n_in, int64_t k_in, uint32_t seed)
      : encoding(e), n(n_in), k(k_in), rows(RandomRows(e, n, k, seed)), values(static_cast<size_t>(n * k)) {
    DecodeRow(e, rows.data(), values.data(), n * k);
    packed = std::make_unique<Buffer>(PackedLinearBytes(e, n, k));
    const PackSegment segment{rows.data(), n, static_cast<int64_t>(RowBytes(e, k))};
    PackPanels(e, {&segment, 1}, k, packed->get(), 0, NumPanels(n));
  }
};

// Activations as stored, and as f32.
struct Activations {
  DType dtype;
  int64_t m, k, ld;
  std::vector<float> values;
  std::vector<uint8_t> bytes;

  Activations(DType t, int64_t m_in, int64_t k_in, uint32_t seed, bool identity = false)
      : dtype(t), m(m_in), k(k_in), ld(k_in + 3), values(static_cast<size_t>(m * k)) {
    std::mt19937 rng(seed);
    std::normal_distribution<float> normal;
    bytes.assign(static_cast<size_t>(m * ld) * SizeOf(t), 0xff);
    for (int64_t i = 0; i < m * k; ++i) {
      float value = identity ? (i / k == i % k ? 1.0f : 0.0f) : normal(rng);
      const size_t at = static_cast<size_t>(i / k * ld + i % k);
      if (t == DType::kBF16) {
        const uint16_t bits = F32ToBF16(value);
        value = BF16ToF32(bits);
        std::memcpy(bytes.data() + at * 2, &bits, 2);
      } else {
        std::memcpy(bytes.data() + at * 4, &value, 4);
      }
      values[static_cast<size_t>(i)] = value;
    }
  }
  const void* Row(int64_t row) const { return bytes.data() + static_cast<size_t>(row * ld) * SizeOf(dtype); }
};

// Runs rows [row, row + m) into f32 y [m, n], in column steps of `step` (0: all at once).
inline std::vector<float> Multiply(const LinearKernel& kernel, const Weight& w, const Activations& x, int64_t row,
                                   int64_t m, int64_t step = 0, bool prepare = false) {
  std::vector<float> y(static_cast<size_t>(m * w.n), std::numeric_limits<float>::quiet_NaN());
  const LinearOutput output{0, w.n, y.data(), w.n};
  Buffer scratch(LinearScratchBytes(kernel, m, w.k));
  Buffer prepared(PreparedLinearBytes(kernel, m, w.k));
  LinearArgs args{x.Row(row), x.ld, m, w.packed->get(), w.n, w.k, DType::kF32, &output, 1, scratch.get()};
  if (prepare) {
    PrepareLinear(kernel, args.x, args.ldx, 0, m / 2, w.k, prepared.get());
    PrepareLinear(kernel, args.x, args.ldx, m / 2, m, w.k, prepared.get());
    args.prepared = prepared.get();
  }
  if (step == 0) step = w.n;
  for (int64_t column = 0; column < w.n; column += step) {
    RunLinear(kernel, args, column, std::min(column + step, w.n));
  }
  EXPECT_TRUE(scratch.IsWhole() && prepared.IsWhole()) << kernel.name << " wrote past its memory, m " << m;
  return y;
}

inline bool BitEqual(const float* a, const float* b, int64_t count) {
  return std::memcmp(a, b, static_cast<size_t>(count) * 4) == 0;
}

// Those whose kernels this machine can run, AMX by the emulator if need be.
inline std::vector<Isa> IsasOfThisMachine() {
  static const bool amx = EnableAmxForTests();
  std::vector<Isa> isas;
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16, Isa::kAmx}) {
    if (MachineHas(isa) || (isa == Isa::kAmx && amx)) {
      isas.push_back(isa);
    } else {
      std::cout << "skipped: " << ToString(isa) << " (not on this machine)\n";
    }
  }
  return isas;
}

inline std::vector<const LinearKernel*> KernelsOfThisMachine() {
  std::vector<const LinearKernel*> kernels;
  for (const Isa isa : IsasOfThisMachine()) {
    for (const LinearKernel& kernel : LinearKernels(isa)) kernels.push_back(&kernel);
  }
  return kernels;
}

// A weight as the kernel multiplies it: portable numerics round to bf16.
inline float Multiplied(const LinearKernel& kernel, float weight) {
  const bool rounds = kernel.act == DType::kBF16 && kernel.Serves(Numerics::kPortable);
  return rounds ? BF16ToF32(F32ToBF16(weight)) : weight;
}

inline int64_t MultipleOfBlock(Encoding encoding, int64_t k) {
  const int64_t block = InfoOf(encoding).block_elements;
  return (k + block - 1) / block * block;
}

// What a kernel multiplies by: x, or in an integer core integers times the scale of their block of 32.
inline std::vector<double> ValuesFor(const LinearKernel& kernel, const Activations& x) {
  std::vector<double> values(x.values.begin(), x.values.end());
  if (kernel.integer_bits == 0) return values;
  for (int64_t row = 0; row < x.m; ++row) {
    for (int64_t block = 0; block < x.k; block += 32) {
      const float* in = &x.values[static_cast<size_t>(row * x.k + block)];
      float largest = 0;
      for (int i = 0; i < 32; ++i) largest = std::max(largest, std::fabs(in[i]));
      const float power = largest == 0 ? 0 : std::ldexp(1.0f, std::ilogb(largest) - 14);
      const float scale = kernel.Serves(Numerics::kInt8) ? largest / 127.0f : power;
      const float inverse = largest == 0 ? 0 : kernel.Serves(Numerics::kInt8) ? 127.0f / largest : 1 / power;
      for (int i = 0; i < 32; ++i) {
        values[static_cast<size_t>(row * x.k + block + i)] = std::nearbyint(in[i] * inverse) * double{scale};
      }
    }
  }
  return values;
}

}  // namespace deepinfer::cpu
