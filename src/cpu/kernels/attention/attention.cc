#include "cpu/kernels/attention/attention.h"

#include <algorithm>

#include "cpu/kernels/attention/attention_internal.h"
#include "cpu/kernels/pick_isa.h"

namespace deepinfer {

DI_DECLARE_FIXED_TABLE(AttentionTable, kAttention);

namespace {

int64_t PaddedHead(int64_t head_size) {
  return (head_size + 15) / 16 * 16;
}

struct TokenRange {
  int64_t begin, end;
};
TokenRange TokensOf(const PagedAttentionArgs& args, int64_t request) {
  const int64_t begin = std::clamp<int64_t>(args.query_start[request], 0, args.live_tokens);
  return {begin, std::clamp<int64_t>(args.query_start[request + 1], begin, args.live_tokens)};
}

// Calls visit(unit, cost) for every unit, always in the same order.
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
        const int64_t last_token = tokens.begin + (unit.first_row + unit.rows - 1) / group;
        const VisibleRange visible = VisibleAt(args, args.positions[last_token]);
        // Reading and converting a position costs about as much as scoring it for a few rows; the 16 is the set-up.
        visit(unit, (unit.rows + 4) * (visible.hi - visible.lo + 16));
      }
    }
  }
}

// Large units read K and V less often; small ones keep every member busy.
int64_t ChooseUnitRows(const PagedAttentionArgs& args, int members) {
  // Wider heads take fewer rows, so that queries, sums and the staged tile stay within a 512 KB cache.
  const int64_t largest = args.head_size > 128 ? kAttentionMaxRows / 2 : kAttentionMaxRows;
  const int64_t group = args.query_heads / args.kv_heads;
  for (int64_t unit_rows = largest; unit_rows > 1; unit_rows /= 2) {
    const int64_t wanted = unit_rows > 4 ? 2 * members : members;
    int64_t units = 0;
    for (int64_t request = 0; request < args.live_requests && units < wanted; ++request) {
      const TokenRange tokens = TokensOf(args, request);
      units += args.kv_heads * (((tokens.end - tokens.begin) * group + unit_rows - 1) / unit_rows);
    }
    if (units >= wanted) return unit_rows;
  }
  return 1;
}

AttentionScratch ScratchOf(const PagedAttentionArgs& args, int member) {
  char* base = static_cast<char*>(args.scratch) + member * PagedAttentionScratchBytes(args.head_size);
  const int64_t padded = PaddedHead(args.head_size);
  AttentionScratch scratch;
  scratch.q = reinterpret_cast<float*>(base);
  scratch.out = scratch.q + kAttentionMaxRows * padded;
  scratch.k_stage = scratch.out + kAttentionMaxRows * padded;
  scratch.v_stage = scratch.k_stage + kAttentionTile * padded;
  scratch.scores = scratch.v_stage + kAttentionTile * padded;
  return scratch;
}

void RunUnits(AttentionUnitFn run_unit, const PagedAttentionArgs& args, int member, int members) {
  const int64_t unit_rows = ChooseUnitRows(args, members);
  int64_t total = 0;
  ForEachUnit(args, unit_rows, [&](const AttentionUnit&, int64_t cost) { total += cost; });
  const AttentionScratch scratch = ScratchOf(args, member);
  int64_t before = 0;
  ForEachUnit(args, unit_rows, [&](const AttentionUnit& unit, int64_t cost) {
    // A unit belongs to the member in whose share of the total cost its middle lies.
    const double middle = static_cast<double>(before) + 0.5 * static_cast<double>(cost);
    const int owner = static_cast<int>(middle * members / static_cast<double>(total));
    if (std::clamp(owner, 0, members - 1) == member) run_unit(args, unit, scratch);
    before += cost;
  });
}

const AttentionTable& TableOf(int isa_class) {
#if defined(__x86_64__)
  if (isa_class == 2) return kAttentionAvx512;
  if (isa_class == 1) return kAttentionAvx2;
  if (isa_class == 4) return kAttentionAvx2Fixed;
#endif
  if (isa_class == 3) return kAttentionPortableFixed;
  return kAttentionPortable;
}

template <int isa_class, int activation, int cache>
void Run(const PagedAttentionArgs& args, int member, int members) {
  RunUnits(TableOf(isa_class).by_type[activation][cache].unit, args, member, members);
}

template <int isa_class>
AttentionKernels Choose(int activation, int cache) {
  using Fn = void (*)(const PagedAttentionArgs&, int, int);
  static constexpr Fn kRun[2][3] = {
      {Run<isa_class, 0, 0>, Run<isa_class, 0, 1>, Run<isa_class, 0, 2>},
      {Run<isa_class, 1, 0>, Run<isa_class, 1, 1>, Run<isa_class, 1, 2>},
  };
  return {TableOf(isa_class).by_type[activation][cache].name, kRun[activation][cache]};
}

}  // namespace

size_t PagedAttentionScratchBytes(int64_t head_size) {
  const size_t padded = static_cast<size_t>(PaddedHead(head_size));
  const size_t floats = padded * 2 * (kAttentionMaxRows + kAttentionTile) + kAttentionMaxRows * kAttentionTile;
  return floats * sizeof(float);
}

AttentionKernels ChoosePagedAttention(Isa isa, DType activation, DType cache, Numerics numerics) {
  const int from = activation == DType::kF32 ? 0 : activation == DType::kBF16 ? 1 : -1;
  const int kv = cache == DType::kF32 ? 0 : cache == DType::kBF16 ? 1 : cache == DType::kF16 ? 2 : -1;
  if (from < 0 || kv < 0) return {};
  if (isa >= Isa::kAvx512) return Choose<2>(from, kv);
  if (numerics == Numerics::kPortable) return isa >= Isa::kAvx2 ? Choose<4>(from, kv) : Choose<3>(from, kv);
  if (isa >= Isa::kAvx2) return Choose<1>(from, kv);
  return Choose<0>(from, kv);
}

}  // namespace deepinfer
