#include "cpu/kernels/attention/attention.h"

#include <algorithm>

#include "cpu/kernels/attention/attention_internal.h"
#include "cpu/kernels/pick_isa.h"

namespace deepinfer {

DI_DECLARE_ISA_TABLE(AttentionTable, kAttention);
extern const AttentionTable kAttentionPortableFixed;  // with FMA, as all others but the portable one
#if defined(__x86_64__)
extern const AttentionTable kAttentionAvx512Bf16;
#endif

namespace {

int64_t PaddedHead(int64_t head_size) {
  return (head_size + 15) / 16 * 16;
}

int64_t OwnFloats(int64_t head_size) {
  return PaddedHead(head_size) * (2 * kAttentionMaxRows + kAttentionTile + kAttentionSpan) +
         kAttentionMaxRows * kAttentionSpan;
}

int64_t RowPartialFloats(int64_t head_size) {
  return kPartialHeader + PaddedHead(head_size);
}

// Of one unit that members share.
int64_t SharedFloats(int64_t head_size, int64_t positions) {
  return (positions + kAttentionSpan - 1) / kAttentionSpan * kAttentionSplitRows * RowPartialFloats(head_size);
}

struct TokenRange {
  int64_t begin, end;
};
TokenRange TokensOf(const PagedAttentionArgs& args, int64_t request) {
  const int64_t begin = std::clamp<int64_t>(args.query_start[request], 0, args.live_tokens);
  return {begin, std::clamp<int64_t>(args.query_start[request + 1], begin, args.live_tokens)};
}

// Of all the unit's tokens.
VisibleRange VisibleTo(const PagedAttentionArgs& args, const AttentionUnit& unit) {
  const int64_t group = args.query_heads / args.kv_heads;
  VisibleRange any = {INT32_MAX, 0};
  const int64_t last = unit.first_token + (unit.first_row + unit.rows - 1) / group;
  for (int64_t token = unit.first_token + unit.first_row / group; token <= last; ++token) {
    const VisibleRange range = VisibleAt(args, args.positions[token]);
    if (range.lo < range.hi) any = {std::min(any.lo, range.lo), std::max(any.hi, range.hi)};
  }
  return any.lo < any.hi ? any : VisibleRange{0, 0};
}

// Calls visit(unit, positions that its rows see) for every unit, always in the same order.
template <class Visit>
void ForEachUnit(const PagedAttentionArgs& args, int64_t unit_rows, Visit visit) {
  const int64_t group = args.query_heads / args.kv_heads;
  for (int64_t request = 0; request < args.live_requests; ++request) {
    const TokenRange tokens = TokensOf(args, request);
    const int64_t rows = (tokens.end - tokens.begin) * group;
    AttentionUnit unit;
    unit.first_token = tokens.begin;
    unit.table = args.block_tables + request * args.max_blocks;
    for (unit.kv_head = 0; unit.kv_head < args.kv_heads; ++unit.kv_head) {
      for (unit.first_row = 0; unit.first_row < rows; unit.first_row += unit_rows) {
        unit.rows = std::min(unit_rows, rows - unit.first_row);
        visit(unit, VisibleTo(args, unit));
      }
    }
  }
}

// Reading and converting a position costs about as much as scoring it for a few rows; the 16 is the set-up.
int64_t CostOf(const AttentionUnit& unit, VisibleRange visible) {
  return (unit.rows + 4) * (visible.hi - visible.lo + 16);
}

// Large units read K and V less often; smaller ones keep every member busy.
int64_t ChooseUnitRows(const PagedAttentionArgs& args, int members) {
  // Wider heads take fewer rows, so that queries, sums and what is staged stay within a 512 KB cache.
  const int64_t largest = args.head_size > 128 ? kAttentionMaxRows / 2 : kAttentionMaxRows;
  const int64_t group = args.query_heads / args.kv_heads;
  for (int64_t unit_rows = largest; unit_rows > kAttentionSplitRows; unit_rows /= 2) {
    int64_t units = 0;
    for (int64_t request = 0; request < args.live_requests && units < 2 * members; ++request) {
      const TokenRange tokens = TokensOf(args, request);
      units += args.kv_heads * (((tokens.end - tokens.begin) * group + unit_rows - 1) / unit_rows);
    }
    if (units >= 2 * members) return unit_rows;
  }
  return kAttentionSplitRows;
}

AttentionScratch ScratchOf(const PagedAttentionArgs& args, int member) {
  const int64_t padded = PaddedHead(args.head_size);
  AttentionScratch scratch;
  scratch.q = static_cast<float*>(args.scratch) + member * OwnFloats(args.head_size);
  scratch.out = scratch.q + kAttentionMaxRows * padded;
  scratch.keys = scratch.out + kAttentionMaxRows * padded;
  scratch.values = scratch.keys + kAttentionTile * padded;
  scratch.scores = scratch.values + kAttentionSpan * padded;
  return scratch;
}

// One member's view of how the work is shared out.
class Share {
 public:
  Share(const AttentionTable::Entry& kernels, const PagedAttentionArgs& args, int member, int members)
      : kernels_(kernels), args_(args), member_(member), members_(members), scratch_(ScratchOf(args, member)) {}

  void Run() {
    const int64_t unit_rows = ChooseUnitRows(args_, members_);
    ForEachUnit(args_, unit_rows,
                [&](const AttentionUnit& unit, VisibleRange range) { total_ += CostOf(unit, range); });
    int64_t before = 0;
    ForEachUnit(args_, unit_rows, [&](const AttentionUnit& unit, VisibleRange range) {
      Take(unit, range, before);
      before += CostOf(unit, range);
    });
  }

 private:
  // A piece of work belongs to the member in whose share of the total cost its middle lies.
  int OwnerAt(double middle) const {
    return std::clamp(static_cast<int>(middle * members_ / static_cast<double>(total_)), 0, members_ - 1);
  }

  void Take(const AttentionUnit& unit, VisibleRange range, int64_t before) {
    const int64_t first = range.lo / kAttentionSpan;
    const int64_t spans =
        unit.rows > kAttentionSplitRows ? 1 : (range.hi + kAttentionSpan - 1) / kAttentionSpan - first;
    const double each = static_cast<double>(CostOf(unit, range)) / static_cast<double>(std::max<int64_t>(spans, 1));
    const auto owner = [&](int64_t span) {
      return OwnerAt(static_cast<double>(before) + (static_cast<double>(span) + 0.5) * each);
    };
    const int slot = owner(0);
    if (spans <= 1 || slot == owner(spans - 1)) {
      if (slot == member_) kernels_.whole(args_, unit, scratch_);
      return;
    }
    int64_t begin = 0, end = 0;
    while (begin < spans && owner(begin) < member_) ++begin;
    for (end = begin; end < spans && owner(end) == member_;) ++end;
    if (begin < end) TakePart(unit, slot, first, spans, begin, end);
  }

  // No other unit that is shared begins with the same member, so the slot is this unit's alone.
  void TakePart(const AttentionUnit& unit, int slot, int64_t first, int64_t spans, int64_t begin, int64_t end) {
    const int64_t head = args_.head_size;
    float* partials = static_cast<float*>(args_.scratch) + members_ * OwnFloats(head) +
                      slot * SharedFloats(head, args_.max_blocks * args_.block_size);
    const int64_t per_span = unit.rows * RowPartialFloats(head);
    kernels_.part(args_, unit, scratch_, first + begin, first + end, partials + begin * per_span);
    const int32_t mine = static_cast<int32_t>(end - begin);
    if (args_.done[slot].fetch_add(mine, std::memory_order_acq_rel) + mine < spans) return;
    args_.done[slot].store(0, std::memory_order_relaxed);
    kernels_.merge(args_, unit, scratch_, spans, partials);
  }

  const AttentionTable::Entry& kernels_;
  const PagedAttentionArgs& args_;
  int member_, members_;
  AttentionScratch scratch_;
  int64_t total_ = 0;
};

template <const AttentionTable& table, int activation, int cache>
void Run(const PagedAttentionArgs& args, int member, int members) {
  Share(table.by_type[activation][cache], args, member, members).Run();
}

template <const AttentionTable& table>
AttentionKernels Choose(int activation, int cache) {
  using Fn = void (*)(const PagedAttentionArgs&, int, int);
  static constexpr Fn kRun[2][5] = {
      {Run<table, 0, 0>, Run<table, 0, 1>, Run<table, 0, 2>, Run<table, 0, 3>, Run<table, 0, 4>},
      {Run<table, 1, 0>, Run<table, 1, 1>, Run<table, 1, 2>, Run<table, 1, 3>, Run<table, 1, 4>},
  };
  return {table.by_type[activation][cache].name, kRun[activation][cache]};
}

int CacheIndex(DType cache) {
  constexpr DType kCaches[] = {DType::kF32, DType::kBF16, DType::kF16, DType::kF8E4M3, DType::kI8};
  const auto* at = std::find(std::begin(kCaches), std::end(kCaches), cache);
  return at == std::end(kCaches) ? -1 : static_cast<int>(at - kCaches);
}

}  // namespace

size_t PagedAttentionScratchBytes(int64_t head_size, int64_t positions, int members) {
  return static_cast<size_t>(members * (OwnFloats(head_size) + SharedFloats(head_size, positions))) * sizeof(float);
}

AttentionKernels ChoosePagedAttention(Isa isa, DType activation, DType cache, Numerics numerics) {
  const int from = activation == DType::kF32 ? 0 : activation == DType::kBF16 ? 1 : -1;
  const int kv = CacheIndex(cache);
  if (from < 0 || kv < 0) return {};
  const bool portable = numerics == Numerics::kPortable;
#if defined(__x86_64__)
  // Only a dot product of two bf16, which codes of 8 bits are too, gains from what came with avx512_bf16.
  const bool products_of_bf16 = activation == DType::kBF16 && (cache == DType::kBF16 || SizeOf(cache) == 1);
  if (!portable && isa >= Isa::kAvx512Bf16 && products_of_bf16) return Choose<kAttentionAvx512Bf16>(from, kv);
  if (isa >= Isa::kAvx512) return Choose<kAttentionAvx512>(from, kv);
  if (isa >= Isa::kAvx2) return Choose<kAttentionAvx2>(from, kv);
#endif
  static_cast<void>(isa);
  return portable ? Choose<kAttentionPortableFixed>(from, kv) : Choose<kAttentionPortable>(from, kv);
}

}  // namespace deepinfer
