// Every encoding x activation type x ISA of this machine, against DecodeRow.
#include "cpu/kernels/linear/linear_test_util.h"

namespace deepinfer::cpu {
namespace {

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
      EXPECT_EQ(portable.reason.find("amx: no kernel") != std::string::npos,
                act == DType::kF32 || encoding == Encoding::kF32 || encoding == Encoding::kF16)
          << portable.reason;
      const LinearChoice avx2 = ChooseLinear(encoding, act, Isa::kAvx2, Numerics::kNative);
      EXPECT_EQ(avx2.kernel->isa, Isa::kAvx2) << avx2.reason;
      const bool integers = IsQuantised(encoding) && encoding != Encoding::kFP8;
      EXPECT_EQ(avx2.kernel->integer_bits, act == DType::kBF16 && integers ? 16 : 0) << avx2.reason;
      const LinearChoice best = ChooseLinear(encoding, act, Isa::kAmx, Numerics::kNative);
      const bool exact_in_bf16 = encoding != Encoding::kF32 && encoding != Encoding::kF16;
      EXPECT_EQ(best.kernel->isa, act == DType::kBF16 && exact_in_bf16 ? Isa::kAmx : Isa::kAvx512);
      EXPECT_EQ(best.reason.rfind(best.kernel->name, 0), 0u) << best.reason;
      for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512, Isa::kAmx}) {
        const LinearChoice fixed = ChooseLinear(encoding, act, isa, Numerics::kPortable);
        ASSERT_NE(fixed.kernel, nullptr) << ToString(encoding);
        EXPECT_EQ(fixed.kernel->isa, act == DType::kF32 ? std::min(isa, Isa::kAvx512) : isa) << fixed.reason;
      }
    }
  }
}

// Row k of the identity gives weight column k itself: every decoded weight must come out exactly, also on team threads,
// which flush denormals (some scales are subnormal halves).
void ExpectIdentityReturnsTheExactWeights() {
  for (const LinearKernel* kernel : KernelsOfThisMachine()) {
    if (kernel->Serves(Numerics::kInt8)) continue;  // 127 times the rounded 1/127 is not 1
    const int64_t k = MultipleOfBlock(kernel->encoding, 70);
    const Weight w(kernel->encoding, 45, k, 11);
    const Activations x(kernel->act, k, k, 0, /*identity=*/true);
    const std::vector<float> y = Multiply(*kernel, w, x, 0, k);
    for (int64_t i = 0; i < k; ++i) {
      for (int64_t j = 0; j < w.n; ++j) {
        ASSERT_EQ(y[static_cast<size_t>(i * w.n + j)], Multiplied(*kernel, w.values[static_cast<size_t>(j * k + i)]))
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
        const std::vector<double> xs = ValuesFor(*kernel, x);
        const std::vector<float> y = Multiply(*kernel, w, x, 0, m);
        for (int64_t i = 0; i < m; ++i) {
          for (int64_t j = 0; j < n; ++j) {
            double expected = 0, x_norm = 0, w_max = 0;
            for (int64_t c = 0; c < k; ++c) {
              const double xv = xs[static_cast<size_t>(i * k + c)];
              const double wv = Multiplied(*kernel, w.values[static_cast<size_t>(j * k + c)]);
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
    const bool emulated = !MachineHas(kernel->isa);  // a microsecond an instruction
    const int64_t k = MultipleOfBlock(kernel->encoding, 544), n = 137, most = emulated ? 40 : 300;
    const Weight w(kernel->encoding, n, k, 21);
    const Activations x(kernel->act, most, k, 22);
    std::vector<float> alone;
    for (int64_t i = 0; i < most; ++i) {
      const std::vector<float> row = Multiply(*kernel, w, x, i, 1);
      alone.insert(alone.end(), row.begin(), row.end());
    }
    for (const int64_t m : {2, 3, 4, 5, 8, 16, 17, 33, 128, 257, 300}) {
      if (m > most) break;
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
