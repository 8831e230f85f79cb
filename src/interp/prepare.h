// Shared by the files of the interpreter: one Prepare function per family, and small helpers. For src/interp only.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "interp/interp.h"

namespace deepinfer::interp {

struct PrepareContext {
  const ir::Function& function;
  const ir::Node& node;
  std::shared_ptr<Workspace> workspace;

  const ir::Type& OperandType(size_t i) const { return function.TypeOf(node.operands[i]); }
  const ir::Type& ResultType(size_t i = 0) const { return function.TypeOf(node.results[i]); }
  // The bytes of one element if the operand is a constant that is the same everywhere.
  std::optional<ir::Bytes> Splat(size_t operand) const;
};

using Prepared = Result<std::unique_ptr<PreparedNode>>;

Prepared PrepareUnary(const PrepareContext& c);
Prepared PrepareBinary(const PrepareContext& c);
Prepared PrepareCompare(const PrepareContext& c);
Prepared PrepareSelect(const PrepareContext& c);
Prepared PrepareConvert(const PrepareContext& c);
Prepared PrepareCopy(const PrepareContext& c);  // reshape, bitcast_convert
Prepared PrepareConstant(const PrepareContext& c);
Prepared PrepareIota(const PrepareContext& c);
Prepared PrepareMove(const PrepareContext& c);  // broadcast_in_dim, transpose, slice, concatenate, pad
Prepared PrepareDynamicSlice(const PrepareContext& c);
Prepared PrepareDynamicUpdateSlice(const PrepareContext& c);
Prepared PrepareTake(const PrepareContext& c);
Prepared PrepareIndexPut(const PrepareContext& c);
Prepared PrepareReduce(const PrepareContext& c);
Prepared PrepareCumsum(const PrepareContext& c);
Prepared PrepareDot(const PrepareContext& c);
Prepared PrepareSort(const PrepareContext& c);
Prepared PrepareTopK(const PrepareContext& c);

inline constexpr int kMaxRank = 16;

inline int64_t LiveSize(const ir::Dim& dim, const ir::LiveCounts& live) {
  return std::clamp<int64_t>(live.Of(dim.tag, dim.size), 0, dim.size);
}

// The extent of a leading dimension in a step: a scalar has one row.
struct Rows {
  ir::Dim first = 1;
  int64_t per_row = 1;  // elements

  Rows() = default;
  explicit Rows(const ir::Type& type) {
    if (type.dims.empty()) return;
    first = type.dims[0];
    for (size_t i = 1; i < type.dims.size(); ++i) per_row *= type.dims[i].size;
  }
  int64_t Live(const ir::LiveCounts& live) const { return LiveSize(first, live); }
  int64_t LiveElements(const ir::LiveCounts& live) const { return Live(live) * per_row; }
};

inline std::vector<int64_t> RowMajorStrides(const ir::Type& type) {
  std::vector<int64_t> strides(type.dims.size(), 1);
  for (size_t i = strides.size(); i-- > 1;) strides[i - 1] = strides[i] * type.dims[i].size;
  return strides;
}

// Work below this many elements is not worth waking a team for.
inline constexpr int64_t kParallelElements = 1 << 15;

// body(begin, end, member) over parts of [0, units); `cost` is the elements of one unit.
template <class F>
void ParallelFor(ThreadTeam* team, int64_t units, int64_t cost, F&& body) {
  if (units <= 0) return;
  if (team == nullptr || team->members() == 1 || units == 1 || units * cost < kParallelElements) {
    body(int64_t{0}, units, 0);
    return;
  }
  auto part = [&](int member, int members) {
    const Range range = SplitRange(units, 1, member, members);
    if (range.begin < range.end) body(range.begin, range.end, member);
  };
  team->Run(part);
}

}  // namespace deepinfer::interp
