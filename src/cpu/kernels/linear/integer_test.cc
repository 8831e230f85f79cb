// The integer cores, beside what linear_test.cc says of every kernel: equal bits of int8 numerics on every ISA, the
// largest sums, odd inputs, the choice.
#include "cpu/kernels/linear/linear_test_util.h"

namespace deepinfer::cpu {
namespace {

std::vector<const LinearKernel*> Int8Kernels(Isa isa) {
  std::vector<const LinearKernel*> kernels;
  for (const LinearKernel& kernel : LinearKernels(isa)) {
    if (kernel.Serves(Numerics::kInt8)) kernels.push_back(&kernel);
  }
  return kernels;
}

const LinearKernel* Choose(const LinearKernel& like, Isa isa) {
  return ChooseLinear(like.encoding, like.act, isa, Numerics::kInt8).kernel;
}

TEST(IntegerTest, EveryInstructionSetGivesTheSameBits) {
  ASSERT_EQ(Int8Kernels(Isa::kPortable).size(), 32u);
  for (const LinearKernel* portable : Int8Kernels(Isa::kPortable)) {
    const int64_t k = MultipleOfBlock(portable->encoding, 800), n = 77, most = 37;
    const Weight w(portable->encoding, n, k, 3);
    const Activations x(portable->act, most, k, 4);
    for (const int64_t m : {int64_t{1}, int64_t{2}, int64_t{7}, most}) {
      const std::vector<float> expected = Multiply(*portable, w, x, most - m, m);
      for (const Isa isa : MachineIsas()) {
        const LinearKernel* kernel = Choose(*portable, isa);
        ASSERT_TRUE(kernel->Serves(Numerics::kInt8)) << kernel->name;
        ASSERT_EQ(kernel->isa, std::min(isa, Isa::kAvx512)) << kernel->name;
        EXPECT_TRUE(BitEqual(Multiply(*kernel, w, x, most - m, m).data(), expected.data(), m * n))
            << kernel->name << " m " << m;
      }
    }
  }
}

// On team threads, where denormals are zero, as on others.
TEST(IntegerTest, ATeamThreadGivesTheSameBits) {
  ThreadTeam team(1);
  for (const LinearKernel* kernel : Int8Kernels(Isa::kPortable)) {
    const Weight w(kernel->encoding, 40, 512, 5);
    Activations x(kernel->act, 3, 512, 6);
    const std::vector<float> expected = Multiply(*kernel, w, x, 0, 3);
    std::vector<float> got;
    auto body = [&](int, int) { got = Multiply(*kernel, w, x, 0, 3); };
    team.Run(body);
    EXPECT_TRUE(BitEqual(got.data(), expected.data(), 3 * w.n)) << kernel->name;
  }
}

// A weight of `byte` wherever codes are stored, with sane scales: among 0x00, 0xff, 0x77 and 0x88 are the extreme codes
// of every encoding.
Weight Extreme(Encoding encoding, int64_t n, int64_t k, uint8_t byte) {
  Weight w(encoding, n, k, 9);
  std::mt19937 rng(10);
  const auto block = static_cast<size_t>(InfoOf(encoding).block_bytes);
  std::fill(w.rows.begin(), w.rows.end(), byte);
  SetScales(encoding, &rng, w.rows.data());  // of the first block, which all others repeat
  for (size_t at = block; at < w.rows.size(); at += block) std::memcpy(&w.rows[at], w.rows.data(), block);
  DecodeRow(encoding, w.rows.data(), w.values.data(), n * k);
  const PackSegment segment{w.rows.data(), n, static_cast<int64_t>(RowBytes(encoding, k))};
  PackPanels(encoding, {&segment, 1}, k, w.packed->get(), 0, NumPanels(n));
  return w;
}

constexpr uint8_t kExtremeBytes[] = {0x00, 0xff, 0x77, 0x88};

// x is `size` throughout, of one sign or with signs that make every product positive: the largest sums that there are.
// `largest`: of the weights of all extreme bytes, so that products and minima that cancel count, too.
void ExpectLargestSums(const LinearKernel& kernel, const Weight& w, float size, float largest) {
  for (const bool follow : {false, true}) {
    Activations x(kernel.act, 5, w.k, 1);
    double expected = 0;
    for (int64_t i = 0; i < w.k; ++i) {
      const float weight = w.values[static_cast<size_t>(i)], value = follow && weight < 0 ? -size : size;
      const uint16_t half = F32ToBF16(value);
      for (int64_t row = 0; row < 5; ++row) {
        std::memcpy(&x.bytes[static_cast<size_t>(row * x.ld + i) * SizeOf(kernel.act)],
                    kernel.act == DType::kF32 ? static_cast<const void*>(&value) : &half, SizeOf(kernel.act));
      }
      expected += double{value} * weight;
    }
    // As in MatchesTheDoubleReference.
    const double x_norm = std::fabs(double{size}) * static_cast<double>(w.k);
    const double tolerance = std::numeric_limits<float>::epsilon() * static_cast<double>(w.k) * x_norm * largest;
    for (const int64_t m : {1, 4, 5}) {
      for (const float y : Multiply(kernel, w, x, 0, m)) {
        ASSERT_NEAR(y, expected, tolerance) << kernel.name << " size " << size << " m " << m;
      }
    }
  }
}

TEST(IntegerTest, NoEncodingSaturates) {
  for (const LinearKernel* kernel : KernelsOfThisMachine()) {
    if (kernel->integer_bits == 0) continue;
    std::vector<Weight> weights;
    float largest = 0;
    for (const uint8_t byte : kExtremeBytes) {
      weights.push_back(Extreme(kernel->encoding, 33, MultipleOfBlock(kernel->encoding, 64), byte));
      for (const float value : weights.back().values) largest = std::max(largest, std::fabs(value));
    }
    for (const Weight& w : weights) {
      for (const float size : {127.0f, -127.0f, 1.9921875f, -1.9921875f}) ExpectLargestSums(*kernel, w, size, largest);
    }
  }
}

// q8_0 with a scale of 1 and `code` throughout: sums come out exactly.
void ExpectExactSums(const LinearKernel& kernel, int code, float x) {
  const int64_t n = 32, k = 64;
  std::vector<uint8_t> rows(n * RowBytes(Encoding::kQ8_0, k));
  const uint16_t one = F32ToF16(1.0f);
  for (size_t block = 0; block < rows.size(); block += 34) {
    std::memcpy(&rows[block], &one, 2);
    std::memset(&rows[block + 2], code, 32);
  }
  const PackSegment segment{rows.data(), n, static_cast<int64_t>(RowBytes(Encoding::kQ8_0, k))};
  Buffer packed(PackedLinearBytes(Encoding::kQ8_0, n, k));
  PackPanels(Encoding::kQ8_0, {&segment, 1}, k, packed.get(), 0, 1);
  const std::vector<float> f32(k, x);
  const std::vector<uint16_t> bf16(k, F32ToBF16(x));
  const void* in = kernel.act == DType::kF32 ? static_cast<const void*>(f32.data()) : bf16.data();
  std::vector<float> y(n);
  const LinearOutput output{0, n, y.data(), n};
  Buffer scratch(LinearScratchBytes(kernel, 1, k));
  RunLinear(kernel, {in, k, 1, packed.get(), n, k, DType::kF32, &output, 1, scratch.get()}, 0, n);
  for (const float value : y) EXPECT_EQ(value, x * static_cast<float>(code) * k) << kernel.name;
}

// Signed codes reach -128, and x reaches 127 both ways, or has all the bits of a bf16: the largest products there are.
TEST(IntegerTest, NothingSaturates) {
  for (const Isa isa : MachineIsas()) {
    for (const int code : {-128, 127}) {
      for (const float sign : {-1.0f, 1.0f}) {
        const auto choose = [&](DType act, Numerics numerics) -> const LinearKernel& {
          return *ChooseLinear(Encoding::kQ8_0, act, isa, numerics).kernel;
        };
        ExpectExactSums(choose(DType::kF32, Numerics::kInt8), code, sign * 127.0f);
        ExpectExactSums(choose(DType::kBF16, Numerics::kNative), code, sign * 1.9921875f);
      }
    }
  }
}

void ExpectNanInItsRowAlone(const LinearKernel& kernel) {
  const int64_t n = 33, k = 512, m = 9;
  const Weight w(kernel.encoding, n, k, 7);
  Activations x(kernel.act, m, k, 8);
  const std::vector<float> plain = Multiply(kernel, w, x, 0, m);
  const auto set = [&](int64_t row, int64_t at, float value) {
    const uint16_t half = F32ToBF16(value);
    const void* from = kernel.act == DType::kF32 ? static_cast<const void*>(&value) : &half;
    const size_t size = SizeOf(kernel.act);
    std::memcpy(&x.bytes[static_cast<size_t>(row * x.ld + at) * size], from, size);
  };
  set(2, 100, std::numeric_limits<float>::infinity());
  set(5, 511, std::numeric_limits<float>::quiet_NaN());
  for (int64_t i = 0; i < k; ++i) set(7, i, i % 2 == 0 ? 0.0f : 1e-40f);  // as good as zero
  const std::vector<float> y = Multiply(kernel, w, x, 0, m);
  for (int64_t i = 0; i < m * n; ++i) {
    const int64_t row = i / n;
    const float got = y[static_cast<size_t>(i)];
    if (row == 2 || row == 5) {
      EXPECT_TRUE(std::isnan(got)) << kernel.name << " row " << row;
    } else {
      EXPECT_EQ(got, row == 7 ? 0.0f : plain[static_cast<size_t>(i)]) << kernel.name << " row " << row;
    }
  }
}

TEST(IntegerTest, ARowThatIsNotFiniteIsNanAndItsNeighboursAreUnharmed) {
  for (const LinearKernel* kernel : KernelsOfThisMachine()) {
    if (kernel->encoding == Encoding::kQ4_K && kernel->integer_bits > 0) ExpectNanInItsRowAlone(*kernel);
  }
}

TEST(IntegerTest, PlainFloatsKeepTheNativeKernelAndSayWhy) {
  for (const Encoding encoding : {Encoding::kF32, Encoding::kF16, Encoding::kBF16, Encoding::kFP8}) {
    const LinearChoice choice = ChooseLinear(encoding, DType::kBF16, Isa::kPortable, Numerics::kInt8);
    ASSERT_NE(choice.kernel, nullptr);
    EXPECT_FALSE(choice.kernel->Serves(Numerics::kInt8));
    EXPECT_NE(choice.reason.find("none for int8"), std::string::npos) << choice.reason;
  }
  EXPECT_EQ(ChooseLinear(Encoding::kQ8_0, DType::kF32, Isa::kPortable, Numerics::kNative).kernel->integer_bits, 0);
}

}  // namespace
}  // namespace deepinfer::cpu
