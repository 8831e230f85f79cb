// The int8 core, beside what linear_test.cc says of every kernel: equal bits on every ISA, odd inputs, the choice.
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

TEST(Int8Test, EveryInstructionSetGivesTheSameBits) {
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
        EXPECT_TRUE(BitEqual(Multiply(*kernel, w, x, most - m, m).data(), expected.data(), m * n))
            << kernel->name << " m " << m;
      }
    }
  }
}

// On team threads, where denormals are zero, as on others.
TEST(Int8Test, ATeamThreadGivesTheSameBits) {
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

// Signed codes reach -128, and x reaches 127 both ways: the largest products there are.
TEST(Int8Test, NothingSaturates) {
  const int64_t n = 32, k = 64;
  for (const Isa isa : MachineIsas()) {
    for (const int code : {-128, 127}) {
      for (const float sign : {-1.0f, 1.0f}) {
        std::vector<uint8_t> rows(n * RowBytes(Encoding::kQ8_0, k));
        const uint16_t one = F32ToF16(1.0f);
        for (size_t block = 0; block < rows.size(); block += 34) {
          std::memcpy(&rows[block], &one, 2);
          std::memset(&rows[block + 2], code, 32);
        }
        const PackSegment segment{rows.data(), n, static_cast<int64_t>(RowBytes(Encoding::kQ8_0, k))};
        Buffer packed(PackedLinearBytes(Encoding::kQ8_0, n, k));
        PackPanels(Encoding::kQ8_0, {&segment, 1}, k, packed.get(), 0, 1);
        const LinearKernel& kernel = *ChooseLinear(Encoding::kQ8_0, DType::kF32, isa, Numerics::kInt8).kernel;
        const std::vector<float> x(k, sign * 127.0f);
        std::vector<float> y(n);
        const LinearOutput output{0, n, y.data(), n};
        Buffer scratch(LinearScratchBytes(kernel, 1, k));
        RunLinear(kernel, {x.data(), k, 1, packed.get(), n, k, DType::kF32, &output, 1, scratch.get()}, 0, n);
        for (const float value : y) EXPECT_EQ(value, sign * 127.0f * static_cast<float>(code) * k) << kernel.name;
      }
    }
  }
}

TEST(Int8Test, ARowThatIsNotFiniteIsNanAndItsNeighboursAreUnharmed) {
  for (const Isa isa : MachineIsas()) {
    const LinearKernel& kernel = *ChooseLinear(Encoding::kQ4_K, DType::kF32, isa, Numerics::kInt8).kernel;
    const int64_t n = 33, k = 512, m = 9;
    const Weight w(kernel.encoding, n, k, 7);
    Activations x(kernel.act, m, k, 8);
    const std::vector<float> plain = Multiply(kernel, w, x, 0, m);
    const auto set = [&](int64_t row, int64_t at, float value) {
      std::memcpy(&x.bytes[static_cast<size_t>((row * x.ld + at) * 4)], &value, 4);
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
}

TEST(Int8Test, PlainFloatsKeepTheNativeKernelAndSayWhy) {
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
