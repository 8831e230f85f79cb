// reduce and cumsum. Every result element is one chain of operations in ascending index order; several chains run side
// by side only to hide the latency of the addition.
#include <algorithm>
#include <cmath>
#include <limits>

#include "interp/combine.h"
#include "interp/prepare.h"
#include "interp/storage.h"

namespace deepinfer::interp {
namespace {

struct And {
  static bool Init(bool) { return true; }
  static bool Apply(bool a, bool b) { return a && b; }
};
struct Or {
  static bool Init(bool) { return false; }
  static bool Apply(bool a, bool b) { return a || b; }
};

struct Axis {
  ir::Dim dim;
  int64_t stride;
};

// Offsets of consecutive elements of a box, in row-major order.
class Walk {
 public:
  Walk(const std::vector<Axis>& axes, const int64_t* sizes, int64_t start) : axes_(axes), sizes_(sizes) {
    for (size_t i = axes_.size(); i-- > 0;) {
      index_[i] = i == 0 ? start : start % sizes_[i];
      start /= std::max<int64_t>(sizes_[i], 1);
      offset_ += index_[i] * axes_[i].stride;
    }
  }
  int64_t offset() const { return offset_; }
  void Next() {
    for (size_t i = axes_.size(); i-- > 0;) {
      offset_ += axes_[i].stride;
      if (++index_[i] < sizes_[i] || i == 0) return;
      offset_ -= index_[i] * axes_[i].stride;
      index_[i] = 0;
    }
  }

 private:
  const std::vector<Axis>& axes_;
  const int64_t* sizes_;
  int64_t index_[kMaxRank] = {};
  int64_t offset_ = 0;
};

void Append(std::vector<Axis>* axes, ir::Dim dim, int64_t stride, bool mergeable) {
  if (dim.size == 1 && dim.tag == ir::DimTag::kNone) return;
  if (mergeable && !axes->empty() && axes->back().dim.tag == ir::DimTag::kNone && dim.tag == ir::DimTag::kNone &&
      axes->back().stride == stride * dim.size) {
    axes->back() = {axes->back().dim.size * dim.size, stride};
  } else {
    axes->push_back({dim, stride});
  }
}

constexpr int kChains = 8;

class ReduceNode final : public PreparedNode {
 public:
  explicit ReduceNode(const PrepareContext& c)
      : dtype_(c.OperandType(0).dtype), kind_(c.node.Str("kind")), rows_(c.ResultType()) {
    const ir::Type& from = c.OperandType(0);
    const std::vector<int64_t> strides = RowMajorStrides(from);
    const std::vector<int64_t> dims = c.node.Ints("dims");
    bool first_kept = true;
    for (int64_t i = 0; i < from.rank(); ++i) {
      if (std::find(dims.begin(), dims.end(), i) != dims.end()) {
        Append(&reduced_, from.dims[i], strides[i], true);
        continue;
      }
      // Beyond the leading one, a kept dimension is computed whole whatever its tag.
      Append(&kept_, first_kept ? from.dims[i] : ir::Dim(from.dims[i].size), strides[i], !first_kept);
      first_kept = false;
    }
  }

  void Run(const void* const* operands, void* const* results, const ir::LiveCounts& live, ThreadTeam* team) override {
    if (kind_ == "and") return Run<DType::kI1, And>(operands[0], results[0], live, team);
    if (kind_ == "or") return Run<DType::kI1, Or>(operands[0], results[0], live, team);
    const auto run = [&](auto tag) {
      constexpr DType kType = decltype(tag)::value;
      if (kind_ == "sum") return Run<kType, Sum>(operands[0], results[0], live, team);
      if (kind_ == "max") return Run<kType, Max>(operands[0], results[0], live, team);
      Run<kType, Min>(operands[0], results[0], live, team);
    };
    IsFloat(dtype_) ? DispatchFloat(dtype_, run) : DispatchInteger(dtype_, run);
  }

 private:
  template <DType D, class Op>
  void Run(const void* operand, void* result, const ir::LiveCounts& live, ThreadTeam* team) const {
    using S = Storage<D>;
    const auto* x = static_cast<const typename S::T*>(operand);
    auto* y = static_cast<typename S::T*>(result);
    int64_t kept_sizes[kMaxRank];
    int64_t reduced_sizes[kMaxRank];
    int64_t length = 1;
    for (size_t i = 0; i < kept_.size(); ++i) kept_sizes[i] = LiveSize(kept_[i].dim, live);
    for (size_t i = 0; i < reduced_.size(); ++i) length *= reduced_sizes[i] = LiveSize(reduced_[i].dim, live);
    ParallelFor(team, rows_.LiveElements(live), length, [&](int64_t begin, int64_t end, int) {
      Walk walk(kept_, kept_sizes, begin);
      int64_t i = begin;
      if constexpr (D == DType::kF32) {
        if (length > 0 && reduced_.size() == 1 && !kept_.empty() && kept_.back().stride == 1) {
          return Columns<Op>(x, y, begin, end, kept_sizes, length);
        }
      }
      for (; i + kChains <= end && reduced_.size() == 1; i += kChains) {
        Rows8<D, Op>(x, y + i, &walk, length, reduced_[0].stride);
      }
      for (; i < end; ++i, walk.Next()) {
        typename S::C acc = Op::Init(typename S::C());
        if (length > 0) {
          Walk inner(reduced_, reduced_sizes, 0);
          for (int64_t k = 0; k < length; ++k, inner.Next())
            acc = Op::Apply(acc, S::Load(x[walk.offset() + inner.offset()]));
        }
        y[i] = S::Store(acc);
      }
    });
  }

  // Eight chains at once.
  template <DType D, class Op>
  static void Rows8(const typename Storage<D>::T* x, typename Storage<D>::T* y, Walk* walk, int64_t length,
                    int64_t stride) {
    using S = Storage<D>;
    const typename S::T* row[kChains];
    typename S::C acc[kChains];
    for (int j = 0; j < kChains; ++j, walk->Next()) {
      row[j] = x + walk->offset();
      acc[j] = Op::Init(typename S::C());
    }
    for (int64_t k = 0; k < length; ++k) {
      for (int j = 0; j < kChains; ++j) acc[j] = Op::Apply(acc[j], S::Load(row[j][k * stride]));
    }
    for (int j = 0; j < kChains; ++j) y[j] = S::Store(acc[j]);
  }

  // The innermost kept dimension is contiguous: whole lines are added up, in place in the result.
  template <class Op>
  void Columns(const float* x, float* y, int64_t begin, int64_t end, const int64_t* kept_sizes, int64_t length) const {
    const int64_t line = kept_sizes[kept_.size() - 1];
    for (int64_t i = begin; i < end;) {
      const int64_t n = std::min(end - i, kept_.size() == 1 ? end - i : line - i % line);
      const Walk at(kept_, kept_sizes, i);
      for (int64_t j = 0; j < n; ++j) y[i + j] = Op::Init(0.0f);
      for (int64_t k = 0; k < length; ++k) {
        const float* from = x + at.offset() + k * reduced_[0].stride;
        for (int64_t j = 0; j < n; ++j) y[i + j] = Op::Apply(y[i + j], from[j]);
      }
      i += n;
    }
  }

  DType dtype_;
  std::string kind_;
  Rows rows_;
  std::vector<Axis> kept_;
  std::vector<Axis> reduced_;
};

class CumsumNode final : public PreparedNode {
 public:
  explicit CumsumNode(const PrepareContext& c) : type_(c.ResultType()), dim_(c.node.Int("dim")) {
    stride_ = RowMajorStrides(type_)[static_cast<size_t>(dim_)];
  }
  void Run(const void* const* operands, void* const* results, const ir::LiveCounts& live, ThreadTeam* team) override {
    const int64_t size = type_.dims[dim_].size;
    const int64_t n = dim_ == 0 ? LiveSize(type_.dims[0], live) : size;
    const int64_t lines = size == 0 ? 0 : dim_ == 0 ? stride_ : Rows(type_).LiveElements(live) / size;
    const auto run = [&](auto tag) {
      using S = Storage<decltype(tag)::value>;
      const auto* x = static_cast<const typename S::T*>(operands[0]);
      auto* y = static_cast<typename S::T*>(results[0]);
      ParallelFor(team, lines, n, [&](int64_t begin, int64_t end, int) {
        for (int64_t i = begin; i < end; ++i) {
          const int64_t base = i / stride_ * size * stride_ + i % stride_;
          typename S::C acc = 0;
          for (int64_t k = 0; k < n; ++k) {
            acc = Sum::Apply(acc, S::Load(x[base + k * stride_]));
            y[base + k * stride_] = S::Store(acc);
          }
        }
      });
    };
    IsFloat(type_.dtype) ? DispatchFloat(type_.dtype, run) : DispatchInteger(type_.dtype, run);
  }

 private:
  ir::Type type_;
  int64_t dim_;
  int64_t stride_ = 1;
};

}  // namespace

Prepared PrepareReduce(const PrepareContext& c) {
  return std::make_unique<ReduceNode>(c);
}

Prepared PrepareCumsum(const PrepareContext& c) {
  return std::make_unique<CumsumNode>(c);
}

}  // namespace deepinfer::interp
