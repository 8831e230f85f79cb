// Every collective moves a box of each member's operand to a box of the result: all of it or the rank's share, one
// member's beside the other's or all on the same place, where they are combined.
#include "interp/collective.h"

#include <cstring>

#include "interp/combine.h"
#include "interp/prepare.h"
#include "interp/storage.h"
#include "ir/collective.h"

namespace deepinfer::interp {
namespace {

using ir::Op;

// A box within two arrays, in elements.
struct Boxes {
  std::vector<int64_t> sizes;
  std::vector<int64_t> from_strides;
  std::vector<int64_t> to_strides;

  // run(from, to, count) for each row of the box, offsets in elements; all rows are contiguous.
  template <class F>
  void ForEachRow(int64_t from, int64_t to, size_t dim, const F& run) const {
    if (sizes.empty()) return run(from, to, int64_t{1});
    if (dim + 1 == sizes.size()) return run(from, to, sizes[dim]);
    for (int64_t i = 0; i < sizes[dim]; ++i) {
      ForEachRow(from + i * from_strides[dim], to + i * to_strides[dim], dim + 1, run);
    }
  }
};

template <DType D, class Op>
void Combine(std::span<const int64_t> group, const void* const* operands, int64_t from, void* to, int64_t count) {
  using S = Storage<D>;
  auto* y = static_cast<typename S::T*>(to);
  const auto at = [&](int64_t member, int64_t i) {
    return S::Load(static_cast<const typename S::T*>(operands[member])[from + i]);
  };
  for (int64_t i = 0; i < count; ++i) {
    typename S::C total = at(group[0], i);
    for (size_t m = 1; m < group.size(); ++m) total = Op::Apply(total, at(group[m], i));
    y[i] = S::Store(total);
  }
}

class Collective final : public PreparedCollective {
 public:
  Collective(const ir::Type& from, const ir::Type& to, const ir::Node& node, ir::ReplicaGroups groups)
      : groups_(std::move(groups)), dtype_(from.dtype), sum_(node.Str("kind") == "sum") {
    combines_ = node.op == Op::kAllReduce || node.op == Op::kReduceScatter;
    boxes_.sizes = from.Shape();
    boxes_.from_strides = RowMajorStrides(from);
    boxes_.to_strides = RowMajorStrides(to);
    if (node.op == Op::kReduceScatter || node.op == Op::kAllToAll) {
      const auto dim = static_cast<size_t>(node.Int(node.op == Op::kAllToAll ? "split_dim" : "dim"));
      boxes_.sizes[dim] /= groups_.group_size;
      share_ = boxes_.sizes[dim] * boxes_.from_strides[dim];
    }
    if (!combines_) {
      const auto dim = static_cast<size_t>(node.Int(node.op == Op::kAllToAll ? "concat_dim" : "dim"));
      place_ = boxes_.sizes[dim] * boxes_.to_strides[dim];
    }
    empty_ = from.NumElements() == 0;
  }

  void Run(int64_t rank, const void* const* operands, void* result) const override {
    if (empty_) return;
    const int64_t from = share_ * groups_.PositionOf(rank);
    const std::span<const int64_t> group = groups_.GroupOf(rank);
    combines_ ? RunCombined(group, from, operands, result) : RunJoined(group, from, operands, result);
  }

 private:
  void RunCombined(std::span<const int64_t> group, int64_t from, const void* const* operands, void* result) const {
    const auto run = [&](auto tag) {
      constexpr DType kType = decltype(tag)::value;
      auto* y = static_cast<typename Storage<kType>::T*>(result);
      boxes_.ForEachRow(from, 0, 0, [&](int64_t at, int64_t to, int64_t count) {
        sum_ ? Combine<kType, Sum>(group, operands, at, y + to, count)
             : Combine<kType, Max>(group, operands, at, y + to, count);
      });
    };
    IsFloat(dtype_) ? DispatchFloat(dtype_, run) : DispatchInteger(dtype_, run);
  }

  void RunJoined(std::span<const int64_t> group, int64_t from, const void* const* operands, void* result) const {
    const auto size = static_cast<int64_t>(SizeOf(dtype_));
    auto* y = static_cast<std::byte*>(result);
    for (size_t m = 0; m < group.size(); ++m) {
      const auto* x = static_cast<const std::byte*>(operands[group[m]]);
      boxes_.ForEachRow(from, place_ * static_cast<int64_t>(m), 0, [&](int64_t at, int64_t to, int64_t count) {
        std::memcpy(y + to * size, x + at * size, static_cast<size_t>(count * size));
      });
    }
  }

  const ir::ReplicaGroups groups_;
  const DType dtype_;
  const bool sum_;
  bool combines_ = false;
  bool empty_ = false;
  Boxes boxes_;
  int64_t share_ = 0;  // between the boxes that two places of a group read
  int64_t place_ = 0;  // between the boxes that two members' data go to
};

}  // namespace

Result<std::unique_ptr<PreparedCollective>> PrepareCollective(const ir::Function& function, const ir::Node& node) {
  if (!ir::IsCollective(node.op)) {
    return MakeError(ErrorCode::kInvalidArgument, ToString(node.op), "is not a collective");
  }
  DI_ASSIGN_OR_RETURN(ir::ReplicaGroups groups, ir::ReplicaGroupsOf(node));
  return std::make_unique<Collective>(function.TypeOf(node.operands[0]), function.TypeOf(node.results[0]), node,
                                      std::move(groups));
}

}  // namespace deepinfer::interp
