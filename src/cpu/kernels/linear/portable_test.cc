// Portable numerics: every kernel against the portable one, bit for bit, and that against the order written out.
#include <bit>

#include "base/thread_team.h"
#include "cpu/kernels/linear/linear_test_util.h"

namespace deepinfer::cpu {
namespace {

// The order of portable numerics, step by step; on a team thread, which flushes denormals.
std::vector<float> InPortableOrder(const Weight& w, const Activations& x, int64_t m) {
  std::vector<float> y(static_cast<size_t>(m * w.n));
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < w.n; ++j) {
      float sum = 0;
      for (int64_t block = 0; block < w.k; block += 32) {
        float chains[2] = {0, 0};
        for (int64_t c = block; c < block + 32; ++c) {
          float& chain = chains[c % 2];
          if (c >= w.k) {
            chain = std::fma(0.0f, 0.0f, chain);  // padding turns -0 into +0
            continue;
          }
          const float value = w.values[static_cast<size_t>(j * w.k + c)];
          const bool normal = (std::bit_cast<uint32_t>(value) & 0x7f800000u) != 0;
          const float weight = normal ? BF16ToF32(F32ToBF16(value)) : std::copysign(0.0f, value);
          chain = std::fma(x.values[static_cast<size_t>(i * w.k + c)], weight, chain);
        }
        sum = sum + (chains[0] + chains[1]);
      }
      y[static_cast<size_t>(i * w.n + j)] = sum;
    }
  }
  return y;
}

void ExpectPortable(const Weight& w, DType act, const Activations& x, const std::vector<int64_t>& rows) {
  ThreadTeam team(1);
  for (const int64_t m : rows) {
    std::vector<float> expected;
    auto body = [&](int, int) {
      const LinearChoice floor = ChooseLinear(w.encoding, act, Isa::kPortable, Numerics::kPortable);
      expected = Multiply(*floor.kernel, w, x, 0, m);
      if (m < 4 && act == DType::kBF16) {
        const std::vector<float> by_steps = InPortableOrder(w, x, m);
        EXPECT_TRUE(BitEqual(expected.data(), by_steps.data(), m * w.n)) << floor.kernel->name << " m " << m;
      }
      for (const Isa isa : IsasOfThisMachine()) {
        const LinearChoice choice = ChooseLinear(w.encoding, act, isa, Numerics::kPortable);
        EXPECT_TRUE(BitEqual(Multiply(*choice.kernel, w, x, 0, m, 288).data(), expected.data(), m * w.n))
            << choice.kernel->name << " m " << m << " k " << w.k << " n " << w.n;
      }
    };
    team.Run(body);
  }
}

TEST(PortableTest, EveryIsaHasTheSameBits) {
  std::vector<int64_t> rows;
  for (int64_t m = 1; m <= 17; ++m) rows.push_back(m);
  rows.insert(rows.end(), {33, 70});
  for (const Encoding encoding : AllEncodings()) {
    for (const DType act : {DType::kF32, DType::kBF16}) {
      for (const int64_t wanted : {71, 330}) {
        const Weight w(encoding, 137, MultipleOfBlock(encoding, wanted), 41);
        ExpectPortable(w, act, Activations(act, 70, w.k, 42), rows);
      }
    }
  }
}

// More than a group of panels, a chunk of K and a part of the rows of the AMX kernels.
TEST(PortableTest, LargeProductsHaveTheSameBits) {
  for (const Encoding encoding : {Encoding::kBF16, Encoding::kQ8_0, Encoding::kQ4_K}) {
    const Weight w(encoding, 600, 1280, 43);
    ExpectPortable(w, DType::kBF16, Activations(DType::kBF16, 150, w.k, 44), {130, 150});
  }
  const Weight w(Encoding::kQ4_0, 40, 576, 45);
  ExpectPortable(w, DType::kBF16, Activations(DType::kBF16, 600, w.k, 46), {600});
}

// Products and sums around the smallest normal number, and denormal operands, which count as zeros.
TEST(PortableTest, DenormalsHaveTheSameBits) {
  std::mt19937 rng(47);
  const int64_t n = 50, k = 330, m = 20;
  for (const Encoding encoding : {Encoding::kBF16, Encoding::kF32}) {
    for (const int exponent : {-126, -80, -63, -60}) {
      Weight w(encoding, n, k, 48);
      Activations x(DType::kBF16, m, k, 49);
      const auto tiny = [&] {
        return std::ldexp(static_cast<float>(static_cast<int>(rng() % 511) - 255) / 128,
                          exponent - static_cast<int>(rng() % 6));
      };
      for (float& value : w.values) value = tiny();
      EncodeRow(encoding, w.values.data(), w.rows.data(), n * k);
      DecodeRow(encoding, w.rows.data(), w.values.data(), n * k);
      const PackSegment segment{w.rows.data(), n, static_cast<int64_t>(RowBytes(encoding, k))};
      PackPanels(encoding, {&segment, 1}, k, w.packed->get(), 0, NumPanels(n));
      for (int64_t i = 0; i < m * k; ++i) {
        const uint16_t bits = F32ToBF16(exponent == -126 ? static_cast<float>(rng() % 64) : tiny());
        std::memcpy(x.bytes.data() + static_cast<size_t>(i / k * x.ld + i % k) * 2, &bits, 2);
        x.values[static_cast<size_t>(i)] = BF16ToF32(bits);
      }
      ExpectPortable(w, DType::kBF16, x, {1, 3, m});
    }
  }
}

}  // namespace
}  // namespace deepinfer::cpu
