// Primitives that only move data by a fixed pattern.
#include <cstring>

#include "interp/prepare.h"
#include "interp/storage.h"
#include "interp/strided.h"

namespace deepinfer::interp {
namespace {

// reshape and bitcast_convert: the same bytes.
class CopyNode final : public PreparedNode {
 public:
  explicit CopyNode(const PrepareContext& c)
      : rows_(c.ResultType()), bytes_(static_cast<int64_t>(SizeOf(c.ResultType().dtype))) {}
  void Run(const void* const* operands, void* const* results, const ir::LiveCounts& live, ThreadTeam* team) override {
    if (operands[0] == results[0]) return;
    ParallelFor(team, rows_.LiveElements(live), 1, [&](int64_t begin, int64_t end, int) {
      std::memcpy(static_cast<std::byte*>(results[0]) + begin * bytes_,
                  static_cast<const std::byte*>(operands[0]) + begin * bytes_,
                  static_cast<size_t>((end - begin) * bytes_));
    });
  }

 private:
  Rows rows_;
  int64_t bytes_;
};

class ConstantNode final : public PreparedNode {
 public:
  ConstantNode(const PrepareContext& c, const ir::Bytes& value)
      : rows_(c.ResultType()), bytes_(static_cast<int64_t>(SizeOf(c.ResultType().dtype))), value_(value) {}
  void Run(const void* const*, void* const* results, const ir::LiveCounts& live, ThreadTeam*) override {
    auto* out = static_cast<std::byte*>(results[0]);
    const int64_t bytes = rows_.LiveElements(live) * bytes_;
    if (static_cast<int64_t>(value_.size()) > bytes_) {
      std::memcpy(out, value_.data(), static_cast<size_t>(bytes));
      return;
    }
    for (int64_t i = 0; i < bytes; i += bytes_) std::memcpy(out + i, value_.data(), value_.size());
  }

 private:
  Rows rows_;
  int64_t bytes_;
  ir::Bytes value_;
};

class IotaNode final : public PreparedNode {
 public:
  explicit IotaNode(const PrepareContext& c) : rows_(c.ResultType()), dtype_(c.ResultType().dtype) {
    const int64_t dim = c.node.Int("dim");
    const std::vector<int64_t> strides = RowMajorStrides(c.ResultType());
    stride_ = strides[static_cast<size_t>(dim)];
    size_ = c.ResultType().dims[static_cast<size_t>(dim)].size;
  }
  void Run(const void* const*, void* const* results, const ir::LiveCounts& live, ThreadTeam* team) override {
    DispatchAny(dtype_, [&](auto tag) {
      using S = Storage<decltype(tag)::value>;
      auto* out = static_cast<typename S::T*>(results[0]);
      const int64_t runs = stride_ == 0 ? 0 : rows_.LiveElements(live) / stride_;
      ParallelFor(team, runs, stride_, [&](int64_t begin, int64_t end, int) {
        int64_t at = begin % size_;
        for (int64_t run = begin; run < end; ++run) {
          std::fill_n(out + run * stride_, stride_, S::Store(static_cast<typename S::C>(at)));
          if (++at == size_) at = 0;
        }
      });
    });
  }

 private:
  Rows rows_;
  DType dtype_;
  int64_t stride_ = 1;
  int64_t size_ = 1;
};

// One or more strided copies, each from an operand, after an optional fill of the result with a scalar operand.
class MoveNode final : public PreparedNode {
 public:
  explicit MoveNode(const PrepareContext& c)
      : rows_(c.ResultType()),
        bytes_(static_cast<int64_t>(SizeOf(c.ResultType().dtype))),
        dst_strides_(RowMajorStrides(c.ResultType())) {}

  bool live_first() const { return rows_.first.tag != ir::DimTag::kNone; }

  void Add(size_t operand, std::vector<int64_t> sizes, std::vector<int64_t> src, int64_t src_base, int64_t dst_base) {
    parts_.push_back(
        {operand, src_base * bytes_, dst_base * bytes_, StridedCopy(bytes_, sizes, src, dst_strides_, live_first())});
  }
  void FillFrom(int operand) { fill_ = operand; }
  const std::vector<int64_t>& dst_strides() const { return dst_strides_; }

  void Run(const void* const* operands, void* const* results, const ir::LiveCounts& live, ThreadTeam* team) override {
    auto* out = static_cast<std::byte*>(results[0]);
    if (fill_ >= 0) {
      ParallelFor(team, rows_.LiveElements(live), 1, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i)
          std::memcpy(out + i * bytes_, operands[fill_], static_cast<size_t>(bytes_));
      });
    }
    for (const Part& part : parts_) {
      part.copy.Run(static_cast<const std::byte*>(operands[part.operand]) + part.src_base, out + part.dst_base,
                    rows_.Live(live), team);
    }
  }

 private:
  struct Part {
    size_t operand;
    int64_t src_base;
    int64_t dst_base;
    StridedCopy copy;
  };

  Rows rows_;
  int64_t bytes_;
  std::vector<int64_t> dst_strides_;
  std::vector<Part> parts_;
  int fill_ = -1;
};

void AddBroadcast(const PrepareContext& c, MoveNode* node) {
  const ir::Type& from = c.OperandType(0);
  const std::vector<int64_t> strides = RowMajorStrides(from);
  const std::vector<int64_t> dims = c.node.Ints("dims");
  std::vector<int64_t> src(c.ResultType().dims.size(), 0);
  for (size_t i = 0; i < dims.size(); ++i) src[dims[i]] = from.dims[i].size == 1 ? 0 : strides[i];
  node->Add(0, c.ResultType().Shape(), src, 0, 0);
}

void AddTranspose(const PrepareContext& c, MoveNode* node) {
  const std::vector<int64_t> strides = RowMajorStrides(c.OperandType(0));
  std::vector<int64_t> src;
  for (const int64_t dim : c.node.Ints("perm")) src.push_back(strides[dim]);
  node->Add(0, c.ResultType().Shape(), src, 0, 0);
}

void AddSlice(const PrepareContext& c, MoveNode* node) {
  std::vector<int64_t> src = RowMajorStrides(c.OperandType(0));
  const std::vector<int64_t> start = c.node.Ints("start");
  const std::vector<int64_t> stride = c.node.Ints("stride");
  int64_t base = 0;
  for (size_t i = 0; i < src.size(); ++i) {
    base += start[i] * src[i];
    src[i] *= stride[i];
  }
  node->Add(0, c.ResultType().Shape(), src, base, 0);
}

void AddConcatenate(const PrepareContext& c, MoveNode* node) {
  const int64_t dim = c.node.Int("dim");
  int64_t base = 0;
  for (size_t i = 0; i < c.node.operands.size(); ++i) {
    const ir::Type& part = c.OperandType(i);
    node->Add(i, part.Shape(), RowMajorStrides(part), 0, base);
    base += part.dims[dim].size * node->dst_strides()[dim];
  }
}

void AddPad(const PrepareContext& c, MoveNode* node) {
  const std::vector<int64_t> low = c.node.Ints("low");
  int64_t base = 0;
  for (size_t i = 0; i < low.size(); ++i) base += low[i] * node->dst_strides()[i];
  node->FillFrom(1);
  node->Add(0, c.OperandType(0).Shape(), RowMajorStrides(c.OperandType(0)), 0, base);
}

}  // namespace

Prepared PrepareCopy(const PrepareContext& c) {
  return std::make_unique<CopyNode>(c);
}

Prepared PrepareConstant(const PrepareContext& c) {
  return std::make_unique<ConstantNode>(c, std::get<ir::Bytes>(c.node.attrs.at("value")));
}

Prepared PrepareIota(const PrepareContext& c) {
  return std::make_unique<IotaNode>(c);
}

Prepared PrepareMove(const PrepareContext& c) {
  auto node = std::make_unique<MoveNode>(c);
  switch (c.node.op) {
    case ir::Op::kBroadcastInDim:
      AddBroadcast(c, node.get());
      break;
    case ir::Op::kTranspose:
      AddTranspose(c, node.get());
      break;
    case ir::Op::kSlice:
      AddSlice(c, node.get());
      break;
    case ir::Op::kConcatenate:
      AddConcatenate(c, node.get());
      break;
    default:
      AddPad(c, node.get());
  }
  return node;
}

}  // namespace deepinfer::interp
