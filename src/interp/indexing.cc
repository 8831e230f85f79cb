// Primitives whose addresses depend on data: take, index_put, dynamic slices.
#include <algorithm>
#include <cstring>

#include "interp/prepare.h"
#include "interp/strided.h"

namespace deepinfer::interp {
namespace {

class TakeNode final : public PreparedNode {
 public:
  explicit TakeNode(const PrepareContext& c) : indices_(c.OperandType(1)) {
    const ir::Type& table = c.OperandType(0);
    entries_ = table.dims[0].size;
    row_bytes_ = static_cast<int64_t>(SizeOf(table.dtype)) * Rows(table).per_row;
  }
  void Run(const void* const* operands, void* const* results, const ir::LiveCounts& live, ThreadTeam* team) override {
    const auto* table = static_cast<const std::byte*>(operands[0]);
    const auto* index = static_cast<const int32_t*>(operands[1]);
    auto* out = static_cast<std::byte*>(results[0]);
    const size_t bytes = static_cast<size_t>(row_bytes_);
    ParallelFor(team, indices_.LiveElements(live), row_bytes_, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) {
        if (entries_ == 0) {
          std::memset(out + i * row_bytes_, 0, bytes);
          continue;
        }
        const int64_t entry = std::clamp<int64_t>(index[i], 0, entries_ - 1);
        std::memcpy(out + i * row_bytes_, table + entry * row_bytes_, bytes);
      }
    });
  }

 private:
  Rows indices_;
  int64_t entries_ = 0;
  int64_t row_bytes_ = 0;
};

class IndexPutNode final : public PreparedNode {
 public:
  explicit IndexPutNode(const PrepareContext& c) : operand_(c.OperandType(0)), count_(c.OperandType(1).dims[0]) {
    const ir::Type& type = c.OperandType(0);
    const std::vector<int64_t> strides = RowMajorStrides(type);
    const std::vector<int64_t> dims = c.node.Ints("dims");
    bytes_ = static_cast<int64_t>(SizeOf(type.dtype));
    std::vector<int64_t> sizes;
    std::vector<int64_t> dst;
    for (int64_t i = 0; i < type.rank(); ++i) {
      if (std::find(dims.begin(), dims.end(), i) != dims.end()) {
        indexed_.push_back({type.dims[i].size, strides[i]});
      } else {
        sizes.push_back(type.dims[i].size);
        dst.push_back(strides[i]);
      }
    }
    std::vector<int64_t> src(sizes.size(), 1);
    for (size_t i = sizes.size(); i-- > 1;) src[i - 1] = src[i] * sizes[i];
    row_ = sizes.empty() ? 1 : src[0] * sizes[0];
    copy_ = std::make_unique<StridedCopy>(bytes_, sizes, src, dst, /*keep_first=*/false);
  }

  void Run(const void* const* operands, void* const* results, const ir::LiveCounts& live, ThreadTeam*) override {
    auto* out = static_cast<std::byte*>(results[0]);
    if (results[0] != operands[0]) {
      std::memcpy(out, operands[0], static_cast<size_t>(operand_.LiveElements(live) * bytes_));
    }
    const auto* rows = static_cast<const std::byte*>(operands[indexed_.size() + 1]);
    const int64_t count = LiveSize(count_, live);
    for (int64_t t = 0; t < count; ++t) {
      int64_t base = 0;
      bool inside = true;
      for (size_t i = 0; i < indexed_.size(); ++i) {
        const int64_t at = static_cast<const int32_t*>(operands[i + 1])[t];
        inside = inside && at >= 0 && at < indexed_[i].size;
        base += at * indexed_[i].stride;
      }
      if (inside) copy_->Run(rows + t * row_ * bytes_, out + base * bytes_, 0, nullptr);
    }
  }

 private:
  struct Indexed {
    int64_t size;
    int64_t stride;
  };

  Rows operand_;
  ir::Dim count_;
  int64_t bytes_ = 0;
  int64_t row_ = 0;  // elements
  std::vector<Indexed> indexed_;
  std::unique_ptr<StridedCopy> copy_;
};

// Both dynamic slices: starts are clamped so that the slice lies within.
class DynamicSliceNode final : public PreparedNode {
 public:
  explicit DynamicSliceNode(const PrepareContext& c)
      : update_(c.node.op == ir::Op::kDynamicUpdateSlice), result_(c.ResultType()) {
    const ir::Type& whole = c.OperandType(0);
    const ir::Type& part = update_ ? c.OperandType(1) : c.ResultType();
    bytes_ = static_cast<int64_t>(SizeOf(whole.dtype));
    strides_ = RowMajorStrides(whole);
    for (int i = 0; i < whole.rank(); ++i) room_.push_back(whole.dims[i].size - part.dims[i].size);
    part_rows_ = part.rank() > 0 ? part.dims[0].size : 1;
    const std::vector<int64_t> dense = RowMajorStrides(part);
    const bool live = result_.first.tag != ir::DimTag::kNone;
    copy_ = std::make_unique<StridedCopy>(bytes_, part.Shape(), update_ ? dense : strides_, update_ ? strides_ : dense,
                                          live);
  }

  void Run(const void* const* operands, void* const* results, const ir::LiveCounts& live, ThreadTeam* team) override {
    const size_t starts = update_ ? 2 : 1;
    int64_t base = 0;
    int64_t first_start = 0;
    for (size_t i = 0; i < room_.size(); ++i) {
      const int64_t start = std::clamp<int64_t>(*static_cast<const int32_t*>(operands[starts + i]), 0, room_[i]);
      if (i == 0) first_start = start;
      base += start * strides_[i];
    }
    const auto* from = static_cast<const std::byte*>(operands[0]);
    auto* to = static_cast<std::byte*>(results[0]);
    if (!update_) {
      copy_->Run(from + base * bytes_, to, result_.Live(live), team);
      return;
    }
    if (from != to) std::memcpy(to, from, static_cast<size_t>(result_.LiveElements(live) * bytes_));
    const int64_t rows = std::clamp<int64_t>(result_.Live(live) - first_start, 0, part_rows_);
    copy_->Run(static_cast<const std::byte*>(operands[1]), to + base * bytes_, rows, team);
  }

 private:
  bool update_;
  Rows result_;
  int64_t bytes_ = 0;
  int64_t part_rows_ = 1;
  std::vector<int64_t> strides_;
  std::vector<int64_t> room_;  // largest start per dimension
  std::unique_ptr<StridedCopy> copy_;
};

}  // namespace

Prepared PrepareTake(const PrepareContext& c) {
  return std::make_unique<TakeNode>(c);
}
Prepared PrepareIndexPut(const PrepareContext& c) {
  return std::make_unique<IndexPutNode>(c);
}
Prepared PrepareDynamicSlice(const PrepareContext& c) {
  return std::make_unique<DynamicSliceNode>(c);
}
Prepared PrepareDynamicUpdateSlice(const PrepareContext& c) {
  return std::make_unique<DynamicSliceNode>(c);
}

}  // namespace deepinfer::interp
