// Every encoding x activation type x ISA of this machine, against DecodeRow.
#include "cpu/kernels/linear/linear.h"

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

namespace deepinfer::cpu {
namespace {

// 64-byte aligned bytes, filled with 0xff so that reads of unwritten places show up as NaN.
class Buffer {
 public:
  explicit Buffer(size_t bytes) : data_(static_cast<uint8_t*>(::operator new(bytes + 64, std::align_val_t{64}))) {
    std::memset(data_, 0xff, bytes + 64);
  }
  ~Buffer() { ::operator delete(data_, std::align_val_t{64}); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  uint8_t* get() const { return data_; }

 private:
  uint8_t* data_;
};

std::vector<Encoding> AllEncodings() {
  std::vector<Encoding> all;
  for (int i = 0; i < kNumEncodings; ++i) all.push_back(static_cast<Encoding>(i));
  return all;
}

// Where the f16 scales and minima of a block lie.
std::vector<int> HalvesOf(Encoding encoding) {
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
void SetScales(Encoding encoding, std::mt19937* rng, uint8_t* block) {
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
std::vector<uint8_t> RandomRows(Encoding encoding, int64_t n, int64_t k, uint32_t seed) {
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
std::vector<float> Multiply(const LinearKernel& kernel, const Weight& w, const Activations& x, int64_t row, int64_t m,
                            int64_t step = 0, bool prepare = false) {
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
  return y;
}

bool BitEqual(const float* a, const float* b, int64_t count) {
  return std::memcmp(a, b, static_cast<size_t>(count) * 4) == 0;
}

std::vector<const LinearKernel*> KernelsOfThisMachine() {
  std::vector<const LinearKernel*> kernels;
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16}) {
    if (!MachineHas(isa)) {
      std::cout << "skipped: " << ToString(isa) << " (not on this machine)\n";
      continue;
    }
    for (const LinearKernel& kernel : LinearKernels(isa)) kernels.push_back(&kernel);
  }
  return kernels;
}

int64_t MultipleOfBlock(Encoding encoding, int64_t k) {
  const int64_t block = InfoOf(encoding).block_elements;
  return (k + block - 1) / block * block;
}

TEST(PackTest, DecodesToTheBitsOfDecodeRow) {
  for (const Encoding encoding : AllEncodings()) {
    for (const int64_t n : {1, 17, 32, 100}) {
      for (const int64_t k : {1, 32, 70, 288, 512}) {
        const Weight w(encoding, n, MultipleOfBlock(encoding, k), 7);
        std::vector<float> row(static_cast<size_t>(w.k));
        for (int64_t i = 0; i < n; ++i) {
          DecodePackedRow(encoding, w.packed->get(), n, w.k, i, row.data());
          ASSERT_TRUE(BitEqual(row.data(), &w.values[static_cast<size_t>(i * w.k)], w.k))
              << ToString(encoding) << " n " << n << " k " << w.k << " row " << i;
        }
      }
    }
  }
}

// A NaN makes NaN of every sum it is part of, and of no other.
TEST(LinearTest, Fp8NanReachesItsColumn) {
  const int64_t n = 40, k = 288;
  Weight w(Encoding::kFP8, n, k, 5);
  for (const int64_t block : {4, 7, 8}) {  // the first and the last of a run, and one of the part run
    const int64_t column = 30 + block % 3;
    w.rows[static_cast<size_t>(column) * RowBytes(w.encoding, k) + static_cast<size_t>(block * 36 + 9)] = 0xff;
  }
  const PackSegment segment{w.rows.data(), n, static_cast<int64_t>(RowBytes(w.encoding, k))};
  PackPanels(w.encoding, {&segment, 1}, k, w.packed->get(), 0, NumPanels(n));
  for (const LinearKernel* kernel : KernelsOfThisMachine()) {
    if (kernel->encoding != w.encoding) continue;
    const Activations x(kernel->act, 9, k, 6);
    const std::vector<float> y = Multiply(*kernel, w, x, 0, 9);
    for (int64_t i = 0; i < 9 * n; ++i) {
      EXPECT_EQ(std::isnan(y[static_cast<size_t>(i)]), i % n == 31 || i % n == 32) << kernel->name << " " << i;
    }
  }
}

TEST(PackTest, StackedSegmentsAndPartsEqualOneTensor) {
  for (const Encoding encoding : AllEncodings()) {
    const Weight w(encoding, 75, 256, 3);
    const auto stride = static_cast<int64_t>(RowBytes(encoding, w.k));
    std::vector<PackSegment> segments;
    for (const auto& [first, count] : {std::pair<int64_t, int64_t>{0, 5}, {5, 40}, {45, 0}, {45, 30}}) {
      segments.push_back({w.rows.data() + first * stride, count, stride});
    }
    const size_t bytes = PackedLinearBytes(encoding, w.n, w.k);
    Buffer packed(bytes);
    PackPanels(encoding, segments, w.k, packed.get(), 1, 3);
    PackPanels(encoding, segments, w.k, packed.get(), 0, 1);
    EXPECT_EQ(std::memcmp(packed.get(), w.packed->get(), bytes), 0) << ToString(encoding);
  }
}

TEST(LinearTest, ChoiceWalksTheOrderedListToPortable) {
  for (const Encoding encoding : AllEncodings()) {
    for (const DType act : {DType::kF32, DType::kBF16}) {
      const LinearChoice portable = ChooseLinear(encoding, act, Isa::kPortable, Numerics::kNative);
      ASSERT_NE(portable.kernel, nullptr);
      EXPECT_EQ(portable.kernel->isa, Isa::kPortable);
      EXPECT_NE(portable.reason.find("amx: no kernel"), std::string::npos) << portable.reason;
      const LinearChoice best = ChooseLinear(encoding, act, Isa::kAmx, Numerics::kNative);
      const bool exact_in_bf16 = encoding != Encoding::kF32 && encoding != Encoding::kF16;
      EXPECT_EQ(best.kernel->isa, act == DType::kBF16 && exact_in_bf16 ? Isa::kAvx512Bf16 : Isa::kAvx512);
      EXPECT_EQ(best.reason.rfind(best.kernel->name, 0), 0u) << best.reason;
    }
  }
}

// Row k of the identity gives weight column k itself: every decoded weight must come out exactly, also on team threads,
// which flush denormals (some scales are subnormal halves).
void ExpectIdentityReturnsTheExactWeights() {
  for (const LinearKernel* kernel : KernelsOfThisMachine()) {
    const int64_t k = MultipleOfBlock(kernel->encoding, 70);
    const Weight w(kernel->encoding, 45, k, 11);
    const Activations x(kernel->act, k, k, 0, /*identity=*/true);
    const std::vector<float> y = Multiply(*kernel, w, x, 0, k);
    for (int64_t i = 0; i < k; ++i) {
      for (int64_t j = 0; j < w.n; ++j) {
        ASSERT_EQ(y[static_cast<size_t>(i * w.n + j)], w.values[static_cast<size_t>(j * k + i)])
            << kernel->name << " k " << i << " column " << j;
      }
    }
  }
}

TEST(LinearTest, IdentityReturnsTheExactWeights) {
  ExpectIdentityReturnsTheExactWeights();
}

TEST(LinearTest, IdentityReturnsTheExactWeightsOnATeamThread) {
  ThreadTeam team(1);
  auto body = [](int, int) { ExpectIdentityReturnsTheExactWeights(); };
  team.Run(body);
}

TEST(LinearTest, MatchesTheDoubleReference) {
  for (const LinearKernel* kernel : KernelsOfThisMachine()) {
    for (const int64_t k_wanted : {32, 70, 576, 1536}) {
      for (const int64_t n : {1, 17, 100}) {
        const int64_t k = MultipleOfBlock(kernel->encoding, k_wanted), m = 9;
        const Weight w(kernel->encoding, n, k, static_cast<uint32_t>(k + n));
        const Activations x(kernel->act, m, k, 5);
        const std::vector<float> y = Multiply(*kernel, w, x, 0, m);
        for (int64_t i = 0; i < m; ++i) {
          for (int64_t j = 0; j < n; ++j) {
            double expected = 0, x_norm = 0, w_max = 0;
            for (int64_t c = 0; c < k; ++c) {
              const double xv = x.values[static_cast<size_t>(i * k + c)], wv = w.values[static_cast<size_t>(j * k + c)];
              expected += xv * wv;
              x_norm += std::fabs(xv);
              w_max = std::max(w_max, std::fabs(wv));
            }
            const double tolerance = std::numeric_limits<float>::epsilon() * static_cast<double>(k) * x_norm * w_max;
            ASSERT_NEAR(y[static_cast<size_t>(i * n + j)], expected, tolerance)
                << kernel->name << " k " << k << " n " << n;
          }
        }
      }
    }
  }
}

TEST(LinearTest, RowsAreBitEqualForEveryBatchSplitAndPreparation) {
  for (const LinearKernel* kernel : KernelsOfThisMachine()) {
    const int64_t k = MultipleOfBlock(kernel->encoding, 544), n = 137, most = 300;
    const Weight w(kernel->encoding, n, k, 21);
    const Activations x(kernel->act, most, k, 22);
    std::vector<float> alone;
    for (int64_t i = 0; i < most; ++i) {
      const std::vector<float> row = Multiply(*kernel, w, x, i, 1);
      alone.insert(alone.end(), row.begin(), row.end());
    }
    for (const int64_t m : {2, 3, 4, 5, 8, 16, 17, 33, 128, 300}) {
      const int64_t row = most - m;
      EXPECT_TRUE(BitEqual(Multiply(*kernel, w, x, row, m).data(), &alone[static_cast<size_t>(row * n)], m * n))
          << kernel->name << " m " << m;
      EXPECT_TRUE(
          BitEqual(Multiply(*kernel, w, x, row, m, 32, true).data(), &alone[static_cast<size_t>(row * n)], m * n))
          << kernel->name << " m " << m << " split and prepared";
    }
    EXPECT_TRUE(BitEqual(Multiply(*kernel, w, x, 0, 1, 96).data(), alone.data(), n)) << kernel->name;
  }
}

TEST(LinearTest, BiasResidualAndStackedOutputsEqualSeparateSteps) {
  for (const LinearKernel* kernel : KernelsOfThisMachine()) {
    const int64_t k = 256, n = 109;
    const Weight w(kernel->encoding, n, k, 31);
    for (const int64_t m : {1, 4, 7}) {
      const Activations x(kernel->act, m, k, 32);
      const Activations bias(DType::kF32, 1, 50, 33);
      const Activations residual_f32(DType::kF32, m, 50, 34), residual_bf16(DType::kBF16, m, 50, 34);
      const std::vector<float> plain = Multiply(*kernel, w, x, 0, m);
      for (const DType y_dtype : {DType::kF32, DType::kBF16}) {
        const auto round = [&](float v) { return y_dtype == DType::kF32 ? v : BF16ToF32(F32ToBF16(v)); };
        const Activations& residual = y_dtype == DType::kF32 ? residual_f32 : residual_bf16;
        const size_t size = SizeOf(y_dtype);
        // Columns 0-49 with bias and residual, 50-99 plain, 100-104 dropped, 105-108 with bias.
        std::vector<uint8_t> first(static_cast<size_t>(m) * 60 * size, 0x11), second = first, third = first;
        const LinearOutput outputs[] = {
            {0, 50, first.data(), 60, bias.values.data(), residual.bytes.data(), residual.ld},
            {50, 100, second.data(), 60},
            {105, 109, third.data(), 60, bias.values.data()},
        };
        Buffer scratch(LinearScratchBytes(*kernel, m, k));
        const LinearArgs args{x.Row(0), x.ld, m, w.packed->get(), n, k, y_dtype, outputs, 3, scratch.get()};
        RunLinear(*kernel, args, 0, 64);
        RunLinear(*kernel, args, 64, n);
        const auto at = [&](const std::vector<uint8_t>& y, int64_t row, int64_t column) {
          float value = 0;
          uint16_t bits = 0;
          std::memcpy(y_dtype == DType::kF32 ? static_cast<void*>(&value) : &bits,
                      y.data() + static_cast<size_t>(row * 60 + column) * size, size);
          return y_dtype == DType::kF32 ? value : BF16ToF32(bits);
        };
        for (int64_t i = 0; i < m; ++i) {
          const float* sums = &plain[static_cast<size_t>(i * n)];
          for (int64_t c = 0; c < 50; ++c) {
            const float own = round(sums[c] + bias.values[static_cast<size_t>(c)]);
            const float expected = round(residual.values[static_cast<size_t>(i * 50 + c)] + own);
            ASSERT_EQ(at(first, i, c), expected) << kernel->name << " row " << i << " column " << c;
            ASSERT_EQ(at(second, i, c), round(sums[50 + c])) << kernel->name;
          }
          for (int64_t c = 0; c < 4; ++c) {
            ASSERT_EQ(at(third, i, c), round(sums[105 + c] + bias.values[static_cast<size_t>(c)])) << kernel->name;
          }
          for (size_t b = 50 * size; b < 60 * size; ++b) {  // nothing written past a row
            ASSERT_EQ(first[static_cast<size_t>(i) * 60 * size + b], 0x11) << kernel->name;
          }
        }
      }
    }
  }
}

TEST(LinearTest, RoundingKeepsInfinityAndNan) {
  for (const LinearKernel* kernel : KernelsOfThisMachine()) {
    if (kernel->encoding != Encoding::kF32) continue;
    const float weights[3] = {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(), 1.0f};
    const PackSegment segment{weights, 3, 4};
    Buffer packed(PackedLinearBytes(Encoding::kF32, 3, 1)), scratch(LinearScratchBytes(*kernel, 1, 1));
    PackPanels(Encoding::kF32, {&segment, 1}, 1, packed.get(), 0, 1);
    const Activations x(kernel->act, 1, 1, 0, /*identity=*/true);
    uint16_t y[3] = {};
    const LinearOutput output{0, 3, y, 3};
    RunLinear(*kernel, {x.Row(0), 1, 1, packed.get(), 3, 1, DType::kBF16, &output, 1, scratch.get()}, 0, 3);
    EXPECT_EQ(y[0], 0x7f80) << kernel->name;
    EXPECT_TRUE(std::isnan(BF16ToF32(y[1]))) << kernel->name;
    EXPECT_EQ(y[2], 0x3f80) << kernel->name;
  }
}

}  // namespace
}  // namespace deepinfer::cpu
