// The bf16 core for AVX-512 with BF16: exact small integers in bf16, dot products into f32, scales in f32.
//
// vdpbf16ps adds two products per lane; a lane is a column. A block of 32 k is 16 of them from zero (8 where scales
// hold for 16 k), so the blocks of a column are independent until they are scaled, which hides the 6 cycles of latency
// even for one row. Zen 4 starts one zmm vdpbf16ps a cycle, twice the products of its f32 FMA. Plain bf16 weights are
// one chain over all of K.
#include <immintrin.h>

#include "cpu/kernels/linear/linear_internal.h"

namespace deepinfer::cpu {
namespace {

#include "cpu/kernels/linear/epilogue.inc"
#include "cpu/kernels/linear/prefetch.inc"

constexpr int64_t kGroupRows = 8;  // 16 block sums, 2 weights, 1 x, tables and masks: 24 of 32 registers
constexpr int64_t kPairs = kBlockK / 2;
// Zen 4, one thread, q8_0: 14.8 GB/s at 1 KB, 17 at 2 KB, 20 at 4 KB (a plain read loop: 21), no more at 8 KB.
constexpr int64_t kPrefetchBytes = 4096;

// bf16 of the values that a look-up index stands for, repeated to fill 64 entries. Codes of two and three bits have
// two tables: the second takes the low bits from places 2 and 3 of the index, so that one shift serves two pairs; in
// both the upper bit of three is at place 4.
struct Table {
  uint16_t value[64];
};
constexpr Table MakeTable(PanelLayout layout, int second) {
  Table table{};
  for (int i = 0; i < 64; ++i) {
    int code = i % (1 << layout.bits);
    if (layout.bits < 4) code = ((i >> (2 * second)) & 3) | (layout.bits == 3 ? (i >> 4 & 1) << 2 : 0);
    const auto value = static_cast<float>(layout.ValueOf(code));
    table.value[i] = static_cast<uint16_t>(__builtin_bit_cast(uint32_t, value) >> 16);
  }
  return table;
}
template <Encoding kE, int kSecond = 0>
alignas(64) constexpr Table kTable = MakeTable(LayoutOf(kE), kSecond);

DI_INLINE __m512i LoadLine(const void* p) {
  return _mm512_loadu_si512(p);
}
DI_INLINE __m512 Dot(__m512 sum, __m512i a, __m512i b) {
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
}
DI_INLINE __m512i BroadcastPair(const uint16_t* x) {
  int32_t pair;
  __builtin_memcpy(&pair, x, 4);
  return _mm512_set1_epi32(pair);
}

// Moves bits `at` of every 16-bit lane to bits kTo and up.
template <int kTo>
DI_INLINE __m512i MoveBit(__m512i word, int at) {
  return at < kTo ? _mm512_slli_epi16(word, kTo - at) : at > kTo ? _mm512_srli_epi16(word, at - kTo) : word;
}

// Bytes of e4m3 as bf16, but for NaN (packing leaves none that matters). A shift puts exponent and mantissa in place
// and an addition changes the bias from 7 to 127; zero and the subnormals, m / 8 * 2^-6, come from a table instead.
DI_INLINE __m512i ExpandE4m3(const uint8_t* bytes) {
  alignas(64) static constexpr uint16_t kSubnormal[32] = {0, 0x3b00, 0x3b80, 0x3bc0, 0x3c00, 0x3c20, 0x3c40, 0x3c60};
  const __m512i code = _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(bytes)));
  const __m512i shifted = _mm512_and_si512(_mm512_slli_epi16(code, 4), _mm512_set1_epi16(0x07f0));
  const __m512i normal = _mm512_add_epi16(shifted, _mm512_set1_epi16(120 << 7));
  const __mmask32 is_subnormal = _mm512_testn_epi16_mask(code, _mm512_set1_epi16(0x78));
  const __m512i magnitude = _mm512_mask_permutexvar_epi16(normal, is_subnormal, code, LoadLine(kSubnormal));
  return _mm512_ternarylogic_epi32(_mm512_set1_epi16(static_cast<int16_t>(0x8000)), code, magnitude, 0xca);
}

// Pair t of a group of 16 quantised columns as exact bf16. The table look-ups ignore the bits above the index.
template <Encoding kE>
DI_INLINE __m512i Expand(const uint8_t* group, int t) {
  constexpr PanelLayout kL = LayoutOf(kE);
  if constexpr (kL.codes == Codes::kE4m3) {
    return ExpandE4m3(group + t * 32);
  } else if constexpr (kL.bits == 8) {
    const __m512i low = _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(group + t * 32)));
    const __m512i high = _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(group + t * 32 + 16)));
    return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(_mm512_cvtepi32_ps(high), _mm512_cvtepi32_ps(low)));
  } else {
    // Where the upper bits go in the index, and how many pairs a shift of the low bits serves.
    constexpr int kLow = kL.low_bits(), kUpper = kL.upper_bits(), kLowPairs = 16 / kLow, kShared = 4 / kLow;
    __m512i index = LoadLine(group + t / kLowPairs * 64);
    const int shift = t % kLowPairs / kShared * 4;
    if (shift != 0) index = _mm512_srli_epi16(index, shift);
    if constexpr (kUpper > 0) {
      constexpr int kPairs = 16 / kUpper;
      const __m512i upper = MoveBit<4>(LoadLine(group + kL.low_bytes() + t / kPairs * 64), t % kPairs * kUpper);
      const __m512i mask = _mm512_set1_epi16(((1 << kUpper) - 1) << 4);
      index = _mm512_ternarylogic_epi32(mask, upper, index, 0xca);  // mask ? upper : index
    }
    if constexpr (kLow == 2) {
      return _mm512_permutexvar_epi16(index, LoadLine(t % 2 == 0 ? kTable<kE>.value : kTable<kE, 1>.value));
    }
    if constexpr (kL.bits <= 5) return _mm512_permutexvar_epi16(index, LoadLine(kTable<kE>.value));
    return _mm512_permutex2var_epi16(LoadLine(kTable<kE>.value), index, LoadLine(kTable<kE>.value + 32));
  }
}

struct Scales {
  __m512 scale[2];  // of the two halves of a block
  __m512 minimum;
};

DI_INLINE __m512 HalvesAt(const uint8_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
DI_INLINE __m128i BytesAt(const uint8_t* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
DI_INLINE __m512 Unsigned(const uint8_t* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(BytesAt(p)));
}
DI_INLINE __m512 Signed(const uint8_t* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(BytesAt(p)));
}

DI_INLINE __m512 NibblesToFloat(__m512i nibbles) {  // of the low nibble of every lane
  const __m512 values = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  return _mm512_permutexvar_ps(nibbles, values);
}

// Whether blocks of a super-block are summed with the integer factors of their scales alone, and the super-block's sums
// scaled once: d * (sc * q) is exact where d * sc * q is. For one row that is 15 % faster with q2_k and q3_k, whose few
// bytes leave the scales a large part of the work; encodings of more bits wait for memory anyway, and many rows take 3
// % longer.
constexpr bool HasFactors(const PanelLayout& layout) {
  return layout.bits < 4;
}

// Of the 16 columns of a group; of scales with factors only those, and no minimum. `within`: the block's place in its
// super-block.
template <Encoding kE>
DI_INLINE Scales LoadScales(const uint8_t* header, const uint8_t* super, int within, int group) {
  constexpr PanelLayout kL = LayoutOf(kE);
  Scales s;
  s.minimum = _mm512_setzero_ps();
  if constexpr (kL.scale == ScaleKind::kSuper) {
    s.scale[0] = s.scale[1] = _mm512_mul_ps(HalvesAt(super + group * 32), Unsigned(header + group * 16));
    s.minimum = -_mm512_mul_ps(HalvesAt(super + 64 + group * 32), Unsigned(header + 32 + group * 16));
  } else if constexpr (kL.scale == ScaleKind::kSuper16) {
    for (int half = 0; half < 2; ++half) {
      s.scale[half] = Signed(header + half * 32 + group * 16);
      if constexpr (!HasFactors(kL)) s.scale[half] = _mm512_mul_ps(HalvesAt(super + group * 32), s.scale[half]);
    }
  } else if constexpr (kL.scale == ScaleKind::kSuperMin16) {
    for (int half = 0; half < 2; ++half) {
      s.scale[half] = NibblesToFloat(_mm512_cvtepu8_epi32(BytesAt(header + half * 32 + group * 16)));
    }
  } else if constexpr (kL.scale == ScaleKind::kSuperScale) {
    const __m512 factor = Signed(super + 64 + within * 32 + group * 16);
    s.scale[0] = s.scale[1] = _mm512_mul_ps(HalvesAt(super + group * 32), factor);
  } else if constexpr (kL.scale == ScaleKind::kExponent) {
    const __m128i exponent = _mm_subs_epu8(BytesAt(super + within * 32 + group * 16), _mm_set1_epi8(1));
    s.scale[0] = s.scale[1] = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu8_epi32(exponent), 23));
  } else if constexpr (kL.scale == ScaleKind::kGroup) {
    s.scale[0] = s.scale[1] = _mm512_loadu_ps(super + group * 64);
  } else if constexpr (kL.scale == ScaleKind::kGroupZero) {
    s.scale[0] = s.scale[1] = HalvesAt(super + group * 32);
    s.minimum = -_mm512_mul_ps(s.scale[0], HalvesAt(super + 64 + group * 32));
  } else {
    s.scale[0] = s.scale[1] = HalvesAt(header + group * 32);
    if constexpr (kL.has_min()) s.minimum = HalvesAt(header + 64 + group * 32);
  }
  return s;
}

// The factors of a block's minima (q2_k).
DI_INLINE __m512 LoadMinimumFactor(const uint8_t* header, int half, int group) {
  return NibblesToFloat(_mm512_srli_epi32(_mm512_cvtepu8_epi32(BytesAt(header + half * 32 + group * 16)), 4));
}

// acc += d * scaled - dmin * (the factors of the super-block's minima times the sums of x); scaled = 0. `last`: its
// last block; the sums are those up to and with that block.
template <Encoding kE, int kM>
DI_INLINE void FoldSuper(const uint8_t* super, const uint8_t* last, const float* const* sums_end,
                         __m512 (&scaled)[kM][2], __m512 (&acc)[kM][2]) {
  constexpr PanelLayout kL = LayoutOf(kE);
  constexpr int kHalves = kL.scales_per_block(), kSums = kL.super_blocks * kHalves;
  __m512 minima[kM][2];
#pragma GCC unroll 16
  for (int m = 0; m < kM; ++m) minima[m][0] = minima[m][1] = _mm512_setzero_ps();
  if constexpr (kL.has_min()) {
#pragma GCC unroll 16
    for (int i = 0; i < kSums; ++i) {
      const uint8_t* header = last - (kL.super_blocks - 1 - i / kHalves) * kL.block_bytes();
#pragma GCC unroll 2
      for (int g = 0; g < 2; ++g) {
        const __m512 factor = LoadMinimumFactor(header, i % kHalves, g);
#pragma GCC unroll 16
        for (int m = 0; m < kM; ++m) {
          minima[m][g] = _mm512_fmadd_ps(factor, _mm512_set1_ps(sums_end[m][i - kSums]), minima[m][g]);
        }
      }
    }
  }
#pragma GCC unroll 2
  for (int g = 0; g < 2; ++g) {
    const __m512 d = HalvesAt(super + g * 32);
    const __m512 dmin = kL.has_min() ? HalvesAt(super + 64 + g * 32) : _mm512_setzero_ps();
#pragma GCC unroll 16
    for (int m = 0; m < kM; ++m) {
      acc[m][g] = _mm512_fmadd_ps(d, scaled[m][g], acc[m][g]);
      if constexpr (kL.has_min()) acc[m][g] = _mm512_fnmadd_ps(dmin, minima[m][g], acc[m][g]);
      scaled[m][g] = _mm512_setzero_ps();
    }
  }
}

// Pair t of group g of a block.
template <Encoding kE>
DI_INLINE __m512i ExpandAt(const uint8_t* block, int g, int t) {
  constexpr PanelLayout kL = LayoutOf(kE);
  if constexpr (kE == Encoding::kBF16) {
    return LoadLine(block + t * 128 + g * 64);
  } else {
    return Expand<kE>(block + kL.header_bytes + g * kL.group_bytes, t);
  }
}

// One panel times `rows` <= kM rows (the last is computed again for the missing ones, and dropped); x_sums:
// [rows][blocks][scales_per_block] where the encoding has minima; sums: [kM][32].
template <Encoding kE, int kM>
void GroupPanel(const uint16_t* x, int64_t ldx, const float* x_sums, int64_t rows, int64_t blocks, const uint8_t* panel,
                float* sums) {
  constexpr PanelLayout kL = LayoutOf(kE);
  constexpr bool kPlain = kL.scale == ScaleKind::kNone;
  constexpr int kHalves = kL.scales_per_block();
  constexpr bool kFactors = HasFactors(kL), kMin = kL.has_min();
  __m512 acc[kM][2];
  __m512 scaled[kM][2];  // sums of the super-block, by factors
  const uint16_t* x_rows[kM];
  const float* sum_rows[kM];
#pragma GCC unroll 16
  for (int m = 0; m < kM; ++m) {
    const int64_t row = m < rows ? m : rows - 1;
    x_rows[m] = x + row * ldx;
    sum_rows[m] = kMin ? x_sums + row * blocks * kHalves : nullptr;
    acc[m][0] = acc[m][1] = scaled[m][0] = scaled[m][1] = _mm512_setzero_ps();
  }
  for (int64_t block = 0; block < blocks; ++block) {
    const uint8_t* start = panel + BlockOffset(kL, block);
    const uint8_t* super = panel + SuperOffset(kL, block);
    const int within = static_cast<int>(block % kL.super_blocks);
    constexpr int kLines = (kL.stride() + 63) / 64;
    const uint8_t* ahead = panel + kPrefetchBytes + block * kL.stride();
#pragma GCC unroll 2
    for (int half = 0; half < kHalves; ++half) {
      __m512 part[kM][2];
#pragma GCC unroll 16
      for (int m = 0; m < kM; ++m) {
        part[m][0] = kPlain ? acc[m][0] : _mm512_setzero_ps();
        part[m][1] = kPlain ? acc[m][1] : _mm512_setzero_ps();
      }
#pragma GCC unroll 16
      for (int step = 0; step < kPairs / kHalves; ++step) {
        const int t = half * static_cast<int>(kPairs / kHalves) + step;
        PrefetchShare<16>(ahead, kLines, t);
        const __m512i w0 = ExpandAt<kE>(start, 0, t), w1 = ExpandAt<kE>(start, 1, t);
#pragma GCC unroll 16
        for (int m = 0; m < kM; ++m) {
          const __m512i pair = BroadcastPair(x_rows[m] + block * kBlockK + 2 * t);
          part[m][0] = Dot(part[m][0], w0, pair);
          part[m][1] = Dot(part[m][1], w1, pair);
        }
      }
#pragma GCC unroll 2
      for (int g = 0; g < 2; ++g) {
        Scales scales;
        if constexpr (!kPlain) scales = LoadScales<kE>(start, super, within, g);
#pragma GCC unroll 16
        for (int m = 0; m < kM; ++m) {
          if constexpr (kPlain) {
            acc[m][g] = part[m][g];
          } else {
            __m512& sum = kFactors ? scaled[m][g] : acc[m][g];
            sum = _mm512_fmadd_ps(scales.scale[half], part[m][g], sum);
          }
          if constexpr (kMin && !kFactors) {
            acc[m][g] = _mm512_fmadd_ps(scales.minimum, _mm512_set1_ps(sum_rows[m][block]), acc[m][g]);
          }
        }
      }
    }
    if constexpr (kFactors) {
      if (within == kL.super_blocks - 1) {
        const float* sums_end[kM];
#pragma GCC unroll 16
        for (int m = 0; m < kM; ++m) sums_end[m] = kMin ? sum_rows[m] + (block + 1) * kHalves : nullptr;
        FoldSuper<kE, kM>(super, start, sums_end, scaled, acc);
      }
    }
  }
#pragma GCC unroll 16
  for (int m = 0; m < kM; ++m) {
    _mm512_storeu_ps(sums + m * kPanelColumns, acc[m][0]);
    _mm512_storeu_ps(sums + m * kPanelColumns + 16, acc[m][1]);
  }
}

template <Encoding kE>
void GroupRows(const uint16_t* x, int64_t ldx, const float* x_sums, int64_t rows, int64_t blocks, const uint8_t* panel,
               float* sums) {
  if (rows == 1) return GroupPanel<kE, 1>(x, ldx, x_sums, rows, blocks, panel, sums);
  if (rows == 2) return GroupPanel<kE, 2>(x, ldx, x_sums, rows, blocks, panel, sums);
  if (rows <= 4) return GroupPanel<kE, 4>(x, ldx, x_sums, rows, blocks, panel, sums);
  if (rows <= 6) return GroupPanel<kE, 6>(x, ldx, x_sums, rows, blocks, panel, sums);
  GroupPanel<kE, 8>(x, ldx, x_sums, rows, blocks, panel, sums);
}

// Rows in groups of up to 8, each decoding the panel again in registers: the dot products of 8 rows hide it, since it
// uses other ports (q4_1 reaches 82 % of the dot product peak, against 80 % with a panel decoded once into L1 for 512
// rows and 60 % for 16). The panel comes from L1 or L2 for all groups but the first.
template <Encoding kE>
void RunRows(const LinearArgs& args, const uint16_t* x, int64_t ldx, const float* x_sums, int64_t row, int64_t rows,
             int64_t col_begin, int64_t col_end) {
  alignas(64) float sums[kGroupRows * kPanelColumns];
  const int64_t panel_bytes = PanelBytes(LayoutOf(kE), args.k), blocks = BlocksOf(args.k);
  const int64_t groups = (rows + kGroupRows - 1) / kGroupRows;
  for (int64_t column = col_begin; column < col_end; column += kPanelColumns) {
    const uint8_t* panel = static_cast<const uint8_t*>(args.packed) + column / kPanelColumns * panel_bytes;
    for (int64_t group = 0; group < groups; ++group) {  // as even as possible
      const int64_t begin = rows * group / groups, count = rows * (group + 1) / groups - begin;
      const float* group_sums =
          LayoutOf(kE).has_min() ? x_sums + begin * blocks * LayoutOf(kE).scales_per_block() : nullptr;
      GroupRows<kE>(x + begin * ldx, ldx, group_sums, count, blocks, panel, sums);
      StoreRows(args, sums, row + begin, count, column, col_end);
    }
  }
}

DI_INLINE float SumOfFour(__m128 four) {
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

// Sum of every block of 32 of x, or of its halves, in one fixed tree: pairs by the dot product with ones, then halves.
template <int kPerBlock>
void PrepareSums(const void* x, int64_t ldx, int64_t row_begin, int64_t row_end, int64_t k, void* prepared) {
  const int64_t blocks = BlocksOf(k);
  const __m512i ones = _mm512_set1_epi16(0x3f80);
  for (int64_t row = row_begin; row < row_end; ++row) {
    const uint16_t* in = static_cast<const uint16_t*>(x) + row * ldx;
    float* out = static_cast<float*>(prepared) + row * blocks * kPerBlock;
    for (int64_t block = 0; block < blocks; ++block) {
      const __m512 pairs = Dot(_mm512_setzero_ps(), LoadLine(in + block * kBlockK), ones);
      const __m256 first = _mm512_castps512_ps256(pairs), second = _mm512_extractf32x8_ps(pairs, 1);
      if constexpr (kPerBlock == 1) {
        const __m256 eight = _mm256_add_ps(first, second);
        out[block] = SumOfFour(_mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1)));
      } else {
        out[2 * block] = SumOfFour(_mm_add_ps(_mm256_castps256_ps128(first), _mm256_extractf128_ps(first, 1)));
        out[2 * block + 1] = SumOfFour(_mm_add_ps(_mm256_castps256_ps128(second), _mm256_extractf128_ps(second, 1)));
      }
    }
  }
}

// Plain weights whose K is not whole blocks: x padded with zeros.
void PreparePadded(const void* x, int64_t ldx, int64_t row_begin, int64_t row_end, int64_t k, void* prepared) {
  const int64_t padded = BlocksOf(k) * kBlockK;
  for (int64_t row = row_begin; row < row_end; ++row) {
    const uint16_t* in = static_cast<const uint16_t*>(x) + row * ldx;
    uint16_t* out = static_cast<uint16_t*>(prepared) + row * padded;
    __builtin_memcpy(out, in, static_cast<size_t>(k) * 2);
    for (int64_t i = k; i < padded; ++i) out[i] = 0;
  }
}

template <Encoding kE>
void PrepareFor(const void* x, int64_t ldx, int64_t row_begin, int64_t row_end, int64_t k, void* prepared) {
  if constexpr (LayoutOf(kE).has_min()) {
    PrepareSums<LayoutOf(kE).scales_per_block()>(x, ldx, row_begin, row_end, k, prepared);
  } else {
    PreparePadded(x, ldx, row_begin, row_end, k, prepared);
  }
}

template <Encoding kE>
void Run(const LinearArgs& args, int64_t col_begin, int64_t col_end) {
  const int64_t row_bytes = PreparedRowBytes(true, kE, DType::kBF16, args.k);
  for (int64_t row = 0; row < args.m; row += kRowChunk) {
    const int64_t rows = args.m - row < kRowChunk ? args.m - row : kRowChunk;
    const uint16_t* x = static_cast<const uint16_t*>(args.x) + row * args.ldx;
    const float* x_sums = nullptr;
    int64_t ldx = args.ldx;
    if (row_bytes > 0) {
      const auto* prepared = static_cast<const uint8_t*>(args.prepared);
      if (prepared != nullptr) {
        prepared += row * row_bytes;
      } else {
        auto* own = static_cast<uint8_t*>(args.scratch) + PreparedOffset(true, args.m);
        PrepareFor<kE>(x, ldx, 0, rows, args.k, own);
        prepared = own;
      }
      if constexpr (LayoutOf(kE).has_min()) {
        x_sums = reinterpret_cast<const float*>(prepared);
      } else {
        x = reinterpret_cast<const uint16_t*>(prepared);
        ldx = row_bytes / 2;
      }
    }
    RunRows<kE>(args, x, ldx, x_sums, row, rows, col_begin, col_end);
  }
}

#define DI_ROW(encoding, text)         \
  {"linear." text ".bf16.avx512_bf16", \
   Isa::kAvx512Bf16,                   \
   Encoding::encoding,                 \
   DType::kBF16,                       \
   true,                               \
   Run<Encoding::encoding>,            \
   PrepareFor<Encoding::encoding>}

// f16 and f32 weights are not exact in bf16: the f32 core has them.
constexpr LinearKernel kRows[] = {
    DI_ROW(kBF16, "bf16"),     DI_ROW(kQ8_0, "q8_0"),        DI_ROW(kQ4_0, "q4_0"), DI_ROW(kQ4_1, "q4_1"),
    DI_ROW(kQ5_0, "q5_0"),     DI_ROW(kQ5_1, "q5_1"),        DI_ROW(kQ2_K, "q2_k"), DI_ROW(kQ3_K, "q3_k"),
    DI_ROW(kQ4_K, "q4_k"),     DI_ROW(kQ5_K, "q5_k"),        DI_ROW(kQ6_K, "q6_k"), DI_ROW(kIQ4_NL, "iq4_nl"),
    DI_ROW(kIQ4_XS, "iq4_xs"), DI_ROW(kMXFP4, "mxfp4"),      DI_ROW(kFP8, "fp8"),   DI_ROW(kInt8, "int8"),
    DI_ROW(kInt4, "int4"),     DI_ROW(kInt4G32, "int4_g32"),
};
#undef DI_ROW

}  // namespace

KernelTable LinearTableAvx512Bf16() {
  return {kRows, static_cast<int>(sizeof(kRows) / sizeof(kRows[0]))};
}

}  // namespace deepinfer::cpu
