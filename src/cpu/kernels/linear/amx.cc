// AMX: bf16 tile products. A tile instruction sums 32 k of 16 x 16 outputs in the order that portable numerics has
// everywhere (tile_order.inc), so native and portable share these kernels. Weights are decoded to f32 and rounded to
// bf16 pairs; f16 and f32 weights, which lose bits by that, are served in portable mode only.
//
// Numbers are of a Sapphire Rapids with 2 threads (Llama-3.2-1B's layers, weights streamed from memory: 33 GB/s).
// Up to 16 rows: full K in tile registers, tiles of as many rows as there are (one row: 10 cycles a product instead of
// 18), three panels at once: one stream of weights brings q8_0 22 GB/s, three 30; prefetching 1 KB ahead (4 KB or more
// is slower). More rows: 2 x 2 tiles; 32 columns x 512 k of decoded weights stay in L1 (256 k up to 128 rows), the next
// ones are decoded between the products (4 to 25 % over decoding first), x and sums are read past L1 so that weights
// stay there (20 to 35 %), and the next sums and rows of x are fetched ahead (8 to 18 %). x is packed into tiles once;
// 32 rows of it are never a multiple of 64 KB apart, which would collide in L2 (15 to 20 %).
#include <immintrin.h>

#include "cpu/kernels/linear/linear_internal.h"

namespace deepinfer::cpu {
namespace {

#include "cpu/kernels/linear/epilogue.inc"
#include "cpu/kernels/linear/lanes_avx512.inc"
#define DI_DECODING_ONLY
#include "cpu/kernels/linear/f32_core.inc"
#include "cpu/kernels/linear/flush_denormals.inc"

constexpr int64_t kTileBytes = 1024;            // 16 rows of 64 bytes
constexpr int64_t kPairBytes = 2 * kTileBytes;  // weights of a block of 32 k and 32 columns, or x of 32 rows
constexpr int64_t kMaxFewRows = 16;
constexpr int kStreams = 3;
constexpr int64_t kAhead = 1024;
constexpr int64_t kManyRows = 512;    // at a time
constexpr int64_t kGroupPanels = 16;  // whose sums (1 MB for 512 rows) stay in L2
constexpr int64_t kMaxChunk = 16;     // blocks of weights decoded into L1

constexpr int64_t ChunkBlocks(int64_t rows) {
  return rows > 128 ? kMaxChunk : kMaxChunk / 2;
}

// Stores before a tile is loaded: GCC 12's intrinsics do not say that they read memory.
DI_INLINE void Fence() {
  asm volatile("" ::: "memory");
}

// The thread's tiles: 0 to 5 and 6 have `rows` rows (all of them 16 where many rows are computed), 7 has 16.
class Tiles {
 public:
  explicit Tiles(int64_t rows) {
    struct alignas(64) Config {
      uint8_t palette = 1;
      uint8_t start_row = 0;
      uint8_t reserved[14] = {};
      uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      uint8_t rows[16] = {};
    } config;
    for (int i = 0; i < 8; ++i) config.rows[i] = static_cast<uint8_t>(i < 7 ? rows : 16);
    asm volatile("" : : "r"(&config) : "memory");  // GCC 12 does not see that the struct is read
    _tile_loadconfig(&config);
  }
  ~Tiles() { _tile_release(); }
  Tiles(const Tiles&) = delete;
  Tiles& operator=(const Tiles&) = delete;
};

DI_INLINE void PrefetchLines(const uint8_t* start, int64_t bytes) {
  for (int64_t line = 0; line < bytes; line += 64)
    _mm_prefetch(reinterpret_cast<const char*>(start + line), _MM_HINT_T0);
}

// The two tiles of a block of weights: 16 rows of {k even, k odd} of 16 columns.
template <Encoding kE>
__attribute__((noinline)) void DecodeTiles(const uint8_t* panel, int64_t block, uint8_t* out) {
  const Slot slots[2] = {{panel, 0}, {panel, kLanes}};
  typedef uint16_t Words __attribute__((vector_size(64)));
  Words interleaved;
  for (int i = 0; i < 32; ++i) interleaved[i] = static_cast<uint16_t>(i % 2 * 16 + i / 2);
  VF even[2];
  DecodeBlock<kE, 2>(slots, block, [&](int k, const VF* w) __attribute__((always_inline)) {
    for (int group = 0; group < 2; ++group) {
      if (k % 2 == 0) {
        even[group] = w[group];
      } else {
        const auto halves = reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(w[group], even[group]));
        _mm512_store_si512(out + group * kTileBytes + k / 2 * 64,
                           _mm512_permutexvar_epi16(reinterpret_cast<__m512i>(interleaved), halves));
      }
    }
  });
}

constexpr bool IsPlain(Encoding encoding) {
  return encoding == Encoding::kBF16;
}

// Where the tiles of a block lie and how far their rows are apart: packed bf16 is tiles already.
struct Weights {
  const uint8_t* first;
  const uint8_t* second;
  int64_t stride;
};
template <Encoding kE>
DI_INLINE Weights WeightsAt(const uint8_t* panel, int64_t block, const uint8_t* decoded) {
  if constexpr (IsPlain(kE)) {
    const uint8_t* start = panel + block * kPairBytes;
    return {start, start + 64, 128};
  }
  return {decoded, decoded + kTileBytes, 64};
}

// One block of a stream: sums (tiles kSum, kSum + 1) += x (tile 6) times its weights. Tiles are named by literals.
#define DI_STREAM(stream, sum0, sum1)                                                                 \
  if constexpr (kS > stream) {                                                                        \
    const Weights w = WeightsAt<kE>(panels[stream], block, ring + (slot * kS + stream) * kPairBytes); \
    if (IsPlain(kE)) PrefetchLines(w.first + kAhead, kPairBytes);                                     \
    _tile_loadd(7, w.first, w.stride);                                                                \
    _tile_dpbf16ps(sum0, 6, 7);                                                                       \
    _tile_loadd(7, w.second, w.stride);                                                               \
    _tile_dpbf16ps(sum1, 6, 7);                                                                       \
    if (!IsPlain(kE) && block + 1 < blocks) {                                                         \
      PrefetchLines(panels[stream] + block * kL.stride() + kAhead, kL.stride());                      \
      DecodeTiles<kE>(panels[stream], block + 1, ring + ((1 - slot) * kS + stream) * kPairBytes);     \
    }                                                                                                 \
  }
#define DI_STORE_STREAM(stream, sum0, sum1)                     \
  if constexpr (kS > stream) {                                  \
    float* out = sums + stream * kMaxFewRows * kPanelColumns;   \
    _tile_stored(sum0, out, kPanelColumns * 4);                 \
    _tile_stored(sum1, out + kGroupColumns, kPanelColumns * 4); \
  }

// kS panels times up to 16 rows; x: [block][rows][32]; sums: [kS][16][32].
template <Encoding kE, int kS>
void FewPanels(const uint16_t* x, int64_t rows, int64_t blocks, const uint8_t* const* panels, float* sums) {
  [[maybe_unused]] constexpr PanelLayout kL = LayoutOf(kE);
  alignas(64) uint8_t ring[IsPlain(kE) ? 1 : 2 * kS * kPairBytes];
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  if constexpr (!IsPlain(kE)) {
    for (int stream = 0; stream < kS; ++stream) DecodeTiles<kE>(panels[stream], 0, ring + stream * kPairBytes);
  }
  for (int64_t block = 0; block < blocks; ++block) {
    [[maybe_unused]] const int64_t slot = block % 2;
    Fence();
    _tile_loadd(6, x + block * rows * kBlockK, kBlockK * 2);
    DI_STREAM(0, 0, 1)
    DI_STREAM(1, 2, 3)
    DI_STREAM(2, 4, 5)
  }
  DI_STORE_STREAM(0, 0, 1)
  DI_STORE_STREAM(1, 2, 3)
  DI_STORE_STREAM(2, 4, 5)
}
#undef DI_STREAM
#undef DI_STORE_STREAM

// 32 k of a row of x, with zeros behind its end.
DI_INLINE __m512i LoadBlock(const uint16_t* row, int64_t block, int64_t k) {
  const int64_t left = k - block * kBlockK;
  const __mmask32 mask = left >= kBlockK ? ~__mmask32{0} : (__mmask32{1} << left) - 1;
  return _mm512_maskz_loadu_epi16(mask, row + block * kBlockK);
}

// Streams are a third of the columns apart, so that each has its own place in the hardware's prefetchers.
template <Encoding kE>
void FewRows(const LinearArgs& args, int64_t col_begin, int64_t col_end) {
  const int64_t blocks = BlocksOf(args.k), panel_bytes = PanelBytes(LayoutOf(kE), args.k);
  const auto* packed = static_cast<const uint8_t*>(args.packed);
  auto* x = static_cast<uint16_t*>(args.scratch);
  for (int64_t row = 0; row < args.m; ++row) {
    const uint16_t* in = static_cast<const uint16_t*>(args.x) + row * args.ldx;
    for (int64_t block = 0; block < blocks; ++block) {
      _mm512_store_si512(x + (block * args.m + row) * kBlockK, LoadBlock(in, block, args.k));
    }
  }
  alignas(64) float sums[kStreams * kMaxFewRows * kPanelColumns];
  const int64_t first = col_begin / kPanelColumns, count = (col_end + kPanelColumns - 1) / kPanelColumns - first;
  const int64_t each = count / kStreams;
  const Tiles tiles(args.m);
  const auto store = [&](int stream, int64_t panel) {
    StoreRows(args, sums + stream * kMaxFewRows * kPanelColumns, 0, args.m, panel * kPanelColumns, col_end);
  };
  for (int64_t i = 0; i < each; ++i) {
    const uint8_t* panels[kStreams];
    for (int s = 0; s < kStreams; ++s) panels[s] = packed + (first + s * each + i) * panel_bytes;
    FewPanels<kE, kStreams>(x, args.m, blocks, panels, sums);
    for (int s = 0; s < kStreams; ++s) store(s, first + s * each + i);
  }
  for (int64_t panel = first + kStreams * each; panel < first + count; ++panel) {
    const uint8_t* start = packed + panel * panel_bytes;
    FewPanels<kE, 1>(x, args.m, blocks, &start, sums);
    store(0, panel);
  }
}

// The scratch of many rows: {sums of a group of panels; two buffers of decoded weights; prepared x}.
constexpr int64_t RowBlocks(int64_t rows) {
  return (rows + 31) / 32;
}
constexpr int64_t SumBytes(int64_t rows) {
  return kGroupPanels * RowBlocks(rows) * 32 * kPanelColumns * 4;
}
// From one block of 32 rows of prepared x to the next.
constexpr int64_t RowBlockBytes(int64_t k) {
  const int64_t bytes = BlocksOf(k) * kPairBytes;
  return bytes % (64 << 10) == 0 ? bytes + (32 << 10) : bytes;
}

int64_t PreparedBytes(int64_t m, int64_t k) {
  return RowBlocks(m) * RowBlockBytes(k);
}

// [32 rows][block of 32 k][2 tiles][16 rows][32 k]. Missing k are zeros; what stands in missing rows does not matter.
void Prepare(const void* x, int64_t ldx, int64_t row_begin, int64_t row_end, int64_t k, void* prepared) {
  for (int64_t row = row_begin; row < row_end; ++row) {
    const uint16_t* in = static_cast<const uint16_t*>(x) + row * ldx;
    uint8_t* out = static_cast<uint8_t*>(prepared) + row / 32 * RowBlockBytes(k) + row % 32 * 64;
    for (int64_t block = 0; block < BlocksOf(k); ++block, out += kPairBytes) {
      _mm512_store_si512(out, LoadBlock(in, block, k));
    }
  }
}

// A chunk of one panel: where it is, and which comes next.
struct Step {
  int64_t panel;
  int64_t block;
};

template <Encoding kE>
class ManyRows {
 public:
  ManyRows(const LinearArgs& args, int64_t row, int64_t rows, int64_t col_begin, int64_t col_end)
      : args_(args),
        row_(row),
        rows_(rows),
        col_end_(col_end),
        blocks_(BlocksOf(args.k)),
        row_blocks_(RowBlocks(rows)),
        chunk_(ChunkBlocks(rows)),
        panel_end_((col_end + kPanelColumns - 1) / kPanelColumns),
        group_(col_begin / kPanelColumns),
        sums_(static_cast<uint8_t*>(args.scratch)),
        decoded_(sums_ + SumBytes(rows)),
        x_(decoded_ + 2 * kMaxChunk * kPairBytes) {}

  void Run() {
    if (args_.prepared != nullptr) {
      x_ = static_cast<const uint8_t*>(args_.prepared) + row_ / 32 * RowBlockBytes(args_.k);
    } else {
      auto* own = decoded_ + 2 * kMaxChunk * kPairBytes;
      Prepare(static_cast<const uint16_t*>(args_.x) + row_ * args_.ldx, args_.ldx, 0, rows_, args_.k, own);
      x_ = own;
    }
    Step step{group_, 0};
    DecodeAll(step, 0);
    for (int buffer = 0; step.panel < panel_end_; buffer ^= 1) {
      const Step next = After(step);
      RunStep(step, next, buffer);
      step = next;
    }
  }

 private:
  int64_t GroupEnd() const { return group_ + kGroupPanels < panel_end_ ? group_ + kGroupPanels : panel_end_; }
  int64_t BlocksAt(int64_t block) const { return blocks_ - block < chunk_ ? blocks_ - block : chunk_; }
  const uint8_t* PanelAt(int64_t panel) const {
    return static_cast<const uint8_t*>(args_.packed) + panel * PanelBytes(LayoutOf(kE), args_.k);
  }
  uint8_t* Decoded(int buffer) const { return decoded_ + buffer * kMaxChunk * kPairBytes; }

  // All panels of a group take a chunk of K before the next chunk: its part of x stays in L2.
  Step After(Step step) const {
    if (step.panel + 1 < GroupEnd()) return {step.panel + 1, step.block};
    if (step.block + chunk_ < blocks_) return {group_, step.block + chunk_};
    return {GroupEnd(), 0};
  }
  void DecodeAll(Step step, int buffer) const {
    if constexpr (IsPlain(kE)) return;
    for (int64_t i = 0; i < BlocksAt(step.block); ++i) {
      DecodeTiles<kE>(PanelAt(step.panel), step.block + i, Decoded(buffer) + i * kPairBytes);
    }
  }

  // Brings one block of the next chunk nearer: decodes it, or fetches what is tiles already.
  void Advance(Step next, int64_t i, int buffer) const {
    const uint8_t* panel = PanelAt(next.panel);
    if constexpr (IsPlain(kE)) {
      PrefetchLines(panel + (next.block + i) * kPairBytes, kPairBytes);
    } else {
      PrefetchLines(panel + (next.block + i) * LayoutOf(kE).stride() + kAhead, LayoutOf(kE).stride());
      DecodeTiles<kE>(panel, next.block + i, Decoded(buffer) + i * kPairBytes);
    }
  }

  void RunStep(Step step, Step next, int buffer) {
    const int64_t count = BlocksAt(step.block);
    const bool first = step.block == 0, last = step.block + count == blocks_;
    const bool has_next = next.panel < panel_end_;
    const int64_t next_count = has_next ? BlocksAt(next.block) : 0;
    int64_t done = 0, credit = 0;
    // The panels of a group share the fetching of the next chunk of x, a few lines at each product.
    const int64_t panels = GroupEnd() - group_, lines = first && last ? 0 : (32 + panels - 1) / panels;
    const int64_t next_x = (last ? 0 : step.block + count) * kPairBytes + (step.panel - group_) * count * lines * 64;
    for (int64_t row_block = 0; row_block < row_blocks_; ++row_block) {
      const uint8_t* x_row = x_ + row_block * RowBlockBytes(args_.k);
      const uint8_t* x = x_row + step.block * kPairBytes;
      const uint8_t* x_next = x_row + next_x;
      uint8_t* sums = sums_ + ((step.panel - group_) * row_blocks_ + row_block) * 4096;
      LoadSums(sums, first);
      for (int64_t i = 0; i < count; ++i, x += kPairBytes) {
        const Weights w = WeightsAt<kE>(PanelAt(step.panel), step.block + i, Decoded(buffer) + i * kPairBytes);
        Fence();
        _tile_stream_loadd(4, x, 64);
        _tile_loadd(6, w.first, w.stride);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, w.second, w.stride);
        _tile_dpbf16ps(1, 4, 7);
        _tile_stream_loadd(5, x + kTileBytes, 64);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
        if (!first && row_block + 1 < row_blocks_) PrefetchLines(sums + 4096 + i * 4096 / count, 4096 / count);
        for (int64_t line = 0; line < lines; ++line, x_next += 64) {
          _mm_prefetch(reinterpret_cast<const char*>(x_next), _MM_HINT_T1);
        }
        for (credit += next_count; credit >= row_blocks_ * count && done < next_count; ++done) {
          credit -= row_blocks_ * count;
          Advance(next, done, buffer ^ 1);
        }
      }
      StoreSums(sums);
      if (last) {
        const int64_t begin = row_block * 32, left = rows_ - begin;
        StoreRows(args_, reinterpret_cast<float*>(sums), row_ + begin, left < 32 ? left : 32,
                  step.panel * kPanelColumns, col_end_);
      }
    }
    for (; done < next_count; ++done) Advance(next, done, buffer ^ 1);
    if (next.panel == GroupEnd()) group_ = next.panel;
  }

  static void LoadSums(const uint8_t* sums, bool first) {
    if (first) {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
      return;
    }
    Fence();
    _tile_stream_loadd(0, sums, 128);
    _tile_stream_loadd(1, sums + 64, 128);
    _tile_stream_loadd(2, sums + 2048, 128);
    _tile_stream_loadd(3, sums + 2048 + 64, 128);
  }
  static void StoreSums(uint8_t* sums) {
    _tile_stored(0, sums, 128);
    _tile_stored(1, sums + 64, 128);
    _tile_stored(2, sums + 2048, 128);
    _tile_stored(3, sums + 2048 + 64, 128);
  }

  const LinearArgs& args_;
  int64_t row_, rows_;
  int64_t col_end_;
  int64_t blocks_;
  int64_t row_blocks_;
  int64_t chunk_;
  int64_t panel_end_;
  int64_t group_;  // its first panel
  uint8_t* sums_;  // [panel of the group][32 rows][32][32 columns]
  uint8_t* decoded_;
  const uint8_t* x_;
};

template <Encoding kE>
void AmxRun(const LinearArgs& args, int64_t col_begin, int64_t col_end) {
  const FlushDenormals flush;
  if (args.m <= kMaxFewRows) return FewRows<kE>(args, col_begin, col_end);
  const Tiles tiles(16);
  const int64_t parts = (args.m + kManyRows - 1) / kManyRows;
  for (int64_t part = 0; part < parts; ++part) {
    const int64_t begin = part * kManyRows, left = args.m - begin;
    ManyRows<kE>(args, begin, left < kManyRows ? left : kManyRows, col_begin, col_end).Run();
  }
}

int64_t AmxScratchBytes(int64_t max_m, int64_t k) {
  const int64_t rows = max_m < kManyRows ? max_m : kManyRows;
  const int64_t few = kMaxFewRows * BlocksOf(k) * kBlockK * 2;
  const int64_t many = SumBytes(rows) + 2 * kMaxChunk * kPairBytes + PreparedBytes(rows, k);
  return rows <= kMaxFewRows || few > many ? few : many;
}

constexpr uint8_t ModesOf(Encoding encoding) {
  const bool exact = encoding != Encoding::kF32 && encoding != Encoding::kF16;
  return exact ? Modes(Numerics::kNative, Numerics::kPortable) : Modes(Numerics::kPortable);
}

constexpr LinearKernel kRows[] = {
#define DI_ENCODING(enumerator, text, elements, bytes) \
  {"linear." text ".bf16.amx",                         \
   Isa::kAmx,                                          \
   Encoding::enumerator,                               \
   DType::kBF16,                                       \
   true,                                               \
   AmxRun<Encoding::enumerator>,                       \
   Prepare,                                            \
   ModesOf(Encoding::enumerator),                      \
   false,                                              \
   PreparedBytes,                                      \
   AmxScratchBytes},
#include "base/encodings.inc"
#undef DI_ENCODING
};

}  // namespace

KernelTable LinearTableAmx() {
  return {kRows, static_cast<int>(sizeof(kRows) / sizeof(kRows[0]))};
}

}  // namespace deepinfer::cpu
