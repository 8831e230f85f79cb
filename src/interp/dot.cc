// dot_general: any batch, contracting and free dimensions, blocked for the cache and cut among the team.
//
// The result is [batch][m][n] (lhs free dimensions, then rhs free ones), each element one f32 chain over the contracted
// index in ascending order. Work is cut into tasks of one batch entry, kRowsPerTask rows and some panels of columns;
// a panel of the rhs is brought into the tile's layout, kDepth of k at a time, unless it lies so already.
#include <cstring>

#include "base/cpu_features.h"
#include "interp/dot_kernel.h"
#include "interp/prepare.h"
#include "interp/storage.h"

namespace deepinfer::interp {
namespace {

constexpr int64_t kDepth = 512;        // k per pass: a panel of 512 x 32 floats is 64 KiB, half of a small L2
constexpr int64_t kRowsPerTask = 256;  // rows of lhs reused by every panel of a task: 512 KiB at kDepth
constexpr int64_t kMaxPanels = 8;      // per task: bounds the scratch for sums
constexpr int64_t kTasksPerMember = 4;

// Offsets of the elements of some dimensions, flattened in their order.
struct Axis {
  int64_t size = 1;
  int64_t stride = 0;          // if linear
  std::vector<int64_t> table;  // else

  int64_t At(int64_t i) const { return table.empty() ? i * stride : table[static_cast<size_t>(i)]; }
  bool linear() const { return table.empty(); }
};

Axis MakeAxis(const ir::Type& type, const std::vector<int64_t>& dims) {
  const std::vector<int64_t> strides = RowMajorStrides(type);
  std::vector<std::pair<int64_t, int64_t>> merged;  // size, stride
  Axis axis;
  for (const int64_t dim : dims) {
    const int64_t size = type.dims[dim].size;
    axis.size *= size;
    if (size == 1) continue;
    if (!merged.empty() && merged.back().second == strides[dim] * size) {
      merged.back() = {merged.back().first * size, strides[dim]};
    } else {
      merged.emplace_back(size, strides[dim]);
    }
  }
  if (merged.size() <= 1 || axis.size == 0) {
    axis.stride = merged.empty() ? 1 : merged[0].second;
    return axis;
  }
  axis.table = {0};
  for (const auto& [size, stride] : merged) {
    std::vector<int64_t> next;
    next.reserve(axis.table.size() * static_cast<size_t>(size));
    for (const int64_t base : axis.table) {
      for (int64_t i = 0; i < size; ++i) next.push_back(base + i * stride);
    }
    axis.table = std::move(next);
  }
  return axis;
}

std::vector<int64_t> FreeDims(const ir::Type& type, const std::vector<int64_t>& batch,
                              const std::vector<int64_t>& contract) {
  std::vector<int64_t> free;
  for (int64_t i = 0; i < type.rank(); ++i) {
    const bool used = std::find(batch.begin(), batch.end(), i) != batch.end() ||
                      std::find(contract.begin(), contract.end(), i) != contract.end();
    if (!used) free.push_back(i);
  }
  return free;
}

DotKernel ChooseKernel() {
#if defined(__x86_64__)
  if (MachineHas(Isa::kAvx512)) return DotAvx512();
  if (MachineHas(Isa::kAvx2)) return DotAvx2();
#endif
  return DotPortable();
}

using Four = float __attribute__((vector_size(16)));

// to[j * width + c] = columns[c][k0 + j] for j in [begin, end) and four c, by 4 x 4 blocks in registers.
void TransposeFour(const float* const* columns, int64_t k0, int64_t begin, int64_t end, float* to, int64_t width) {
  int64_t j = begin;
  for (; j + 4 <= end; j += 4) {
    Four in[4];
    for (int c = 0; c < 4; ++c) std::memcpy(&in[c], columns[c] + k0 + j, sizeof(Four));
    const Four low01 = __builtin_shufflevector(in[0], in[1], 0, 4, 1, 5);
    const Four high01 = __builtin_shufflevector(in[0], in[1], 2, 6, 3, 7);
    const Four low23 = __builtin_shufflevector(in[2], in[3], 0, 4, 1, 5);
    const Four high23 = __builtin_shufflevector(in[2], in[3], 2, 6, 3, 7);
    const Four out[4] = {
        __builtin_shufflevector(low01, low23, 0, 1, 4, 5), __builtin_shufflevector(low01, low23, 2, 3, 6, 7),
        __builtin_shufflevector(high01, high23, 0, 1, 4, 5), __builtin_shufflevector(high01, high23, 2, 3, 6, 7)};
    for (int r = 0; r < 4; ++r) std::memcpy(to + (j + r) * width, &out[r], sizeof(Four));
  }
  for (; j < end; ++j) {
    for (int c = 0; c < 4; ++c) to[j * width + c] = columns[c][k0 + j];
  }
}

class DotNode final : public PreparedNode {
 public:
  explicit DotNode(const PrepareContext& c)
      : in_(c.OperandType(0).dtype), out_(c.ResultType().dtype), kernel_(ChooseKernel()), workspace_(c.workspace) {
    const ir::Type& lhs = c.OperandType(0);
    const ir::Type& rhs = c.OperandType(1);
    const auto lhs_batch = c.node.Ints("lhs_batch");
    const auto rhs_batch = c.node.Ints("rhs_batch");
    const auto lhs_contract = c.node.Ints("lhs_contract");
    const auto rhs_contract = c.node.Ints("rhs_contract");
    lhs_b_ = MakeAxis(lhs, lhs_batch);
    rhs_b_ = MakeAxis(rhs, rhs_batch);
    lhs_k_ = MakeAxis(lhs, lhs_contract);
    rhs_k_ = MakeAxis(rhs, rhs_contract);
    const std::vector<int64_t> m_dims = FreeDims(lhs, lhs_batch, lhs_contract);
    m_ = MakeAxis(lhs, m_dims);
    n_ = MakeAxis(rhs, FreeDims(rhs, rhs_batch, rhs_contract));
    if (!c.ResultType().dims.empty()) first_ = c.ResultType().dims[0];
    if (!lhs_batch.empty()) {
      first_of_ = First::kBatch;
    } else {
      first_of_ = m_dims.empty() ? First::kColumns : First::kRows;
    }
    if (lhs_contract.size() == 1) depth_ = lhs.dims[lhs_contract[0]];
    workspace_->Reserve(sizeof(float) * static_cast<size_t>(kDepth * kMaxDotColumns + kRowsPerTask * kDepth +
                                                            kRowsPerTask * kMaxPanels * kMaxDotColumns));
  }

  void Run(const void* const* operands, void* const* results, const ir::LiveCounts& live, ThreadTeam* team) override {
    Problem p;
    p.lhs = static_cast<const std::byte*>(operands[0]);
    p.rhs = static_cast<const std::byte*>(operands[1]);
    p.out = static_cast<std::byte*>(results[0]);
    p.batch = lhs_b_.size;
    p.m = m_.size;
    p.n = n_.size;
    p.k = lhs_k_.size;
    if (depth_.tag != ir::DimTag::kNone) p.k = LiveSize(depth_, live);
    if (first_.tag != ir::DimTag::kNone && first_.size > 0) {
      int64_t& size = first_of_ == First::kBatch ? p.batch : first_of_ == First::kRows ? p.m : p.n;
      size = size / first_.size * LiveSize(first_, live);
    }
    if (p.batch == 0 || p.m == 0 || p.n == 0) return;
    const int64_t wanted = kTasksPerMember * (team == nullptr ? 1 : team->members());
    p.rows = std::min(kRowsPerTask, p.m);
    p.row_blocks = (p.m + p.rows - 1) / p.rows;
    const int64_t all_panels = (p.n + kernel_.columns - 1) / kernel_.columns;
    const int64_t per_panel_group = (wanted + p.batch * p.row_blocks - 1) / (p.batch * p.row_blocks);
    p.panels = std::clamp<int64_t>(all_panels / std::max<int64_t>(per_panel_group, 1), 1, kMaxPanels);
    p.column_blocks = (all_panels + p.panels - 1) / p.panels;
    const int64_t tasks = p.batch * p.row_blocks * p.column_blocks;
    ParallelFor(team, tasks, p.rows * p.panels * kernel_.columns * std::max<int64_t>(p.k, 1) / 4,
                [&](int64_t begin, int64_t end, int member) {
                  for (int64_t task = begin; task < end; ++task) RunTask(p, task, member);
                });
  }

 private:
  enum class First { kBatch, kRows, kColumns };  // what the result's first dimension belongs to

  struct Problem {
    const std::byte* lhs;
    const std::byte* rhs;
    std::byte* out;
    int64_t batch, m, n, k;
    int64_t rows, row_blocks;       // per task, and their number
    int64_t panels, column_blocks;  // per task, and their number
  };

  void RunTask(const Problem& p, int64_t task, int member) const {
    const int64_t column_block = task % p.column_blocks;
    const int64_t row_block = task / p.column_blocks % p.row_blocks;
    const int64_t b = task / p.column_blocks / p.row_blocks;
    const int64_t width = kernel_.columns;
    const int64_t m0 = row_block * p.rows;
    const int64_t m = std::min(p.rows, p.m - m0);
    const int64_t n_begin = column_block * p.panels * width;
    const int64_t n_end = std::min(n_begin + p.panels * width, p.n);
    float* panel = reinterpret_cast<float*>(workspace_->Of(member));
    float* packed_lhs = panel + kDepth * kMaxDotColumns;
    float* sums = packed_lhs + kRowsPerTask * kDepth;
    const int64_t sums_ld = p.panels * width;
    // k = 0 still runs one pass, which writes zeros.
    for (int64_t k0 = 0; k0 == 0 || k0 < p.k; k0 += kDepth) {
      const int64_t k = std::min(kDepth, p.k - k0);
      int64_t lda = kDepth;
      const float* a = Rows(p, b, m0, m, k0, k, packed_lhs, &lda);
      for (int64_t n = n_begin; n < n_end; n += width) {
        int64_t ldb = width;
        const float* rhs = Panel(p, b, n, std::min(width, p.n - n), k0, k, panel, &ldb);
        float* c = sums + (n - n_begin);
        int64_t ldc = sums_ld;
        if (Direct(p, n)) {
          c = reinterpret_cast<float*>(p.out) + (b * p.m + m0) * p.n + n;
          ldc = p.n;
        }
        kernel_.tile(a, lda, rhs, ldb, c, ldc, m, k, k0 == 0);
      }
    }
    for (int64_t n = n_begin; n < n_end; n += width) {
      if (!Direct(p, n)) Round(p, b, m0, m, n, std::min(width, p.n - n), sums + (n - n_begin), sums_ld);
    }
  }

  // The tile can write whole panels of an f32 result in place.
  bool Direct(const Problem& p, int64_t n) const { return out_ == DType::kF32 && n + kernel_.columns <= p.n; }

  // Lines of the lhs, k contiguous: in place if they lie so, else packed.
  const float* Rows(const Problem& p, int64_t b, int64_t m0, int64_t m, int64_t k0, int64_t k, float* packed,
                    int64_t* ld) const {
    if (in_ == DType::kF32 && m_.linear() && lhs_k_.linear() && (lhs_k_.stride == 1 || lhs_k_.size <= 1)) {
      *ld = m_.stride;
      return reinterpret_cast<const float*>(p.lhs) + lhs_b_.At(b) + m0 * m_.stride + k0;
    }
    DispatchFloat(in_, [&](auto tag) {
      using S = Storage<decltype(tag)::value>;
      const auto* x = reinterpret_cast<const typename S::T*>(p.lhs) + lhs_b_.At(b);
      for (int64_t i = 0; i < m; ++i) {
        const auto* row = x + m_.At(m0 + i);
        for (int64_t j = 0; j < k; ++j) packed[i * kDepth + j] = S::Load(row[lhs_k_.At(k0 + j)]);
      }
    });
    return packed;
  }

  // Columns n.. of the rhs as [k][columns]: in place if they lie so, else packed, with zeros past the last one.
  const float* Panel(const Problem& p, int64_t b, int64_t n, int64_t count, int64_t k0, int64_t k, float* packed,
                     int64_t* ld) const {
    const int64_t width = kernel_.columns;
    const bool whole = count == width;
    if (in_ == DType::kF32 && whole && rhs_k_.linear() && n_.linear() && n_.stride == 1) {
      *ld = rhs_k_.stride;
      return reinterpret_cast<const float*>(p.rhs) + rhs_b_.At(b) + k0 * rhs_k_.stride + n;
    }
    if (!whole) std::fill_n(packed, k * width, 0.0f);
    DispatchFloat(in_, [&](auto tag) {
      using S = Storage<decltype(tag)::value>;
      const auto* x = reinterpret_cast<const typename S::T*>(p.rhs) + rhs_b_.At(b);
      const bool lines = rhs_k_.linear() && rhs_k_.stride == 1;
      // Blocks of 64 k keep the lines being written in L1 while the columns are read along k.
      for (int64_t j0 = 0; j0 < k; j0 += 64) {
        const int64_t j1 = std::min(j0 + 64, k);
        int64_t i = 0;
        if constexpr (decltype(tag)::value == DType::kF32) {
          for (; lines && i + 4 <= count; i += 4) {
            const float* columns[4] = {x + n_.At(n + i), x + n_.At(n + i + 1), x + n_.At(n + i + 2),
                                       x + n_.At(n + i + 3)};
            TransposeFour(columns, k0, j0, j1, packed + i, width);
          }
        }
        for (; i < count; ++i) {
          const auto* column = x + n_.At(n + i);
          for (int64_t j = j0; j < j1; ++j) packed[j * width + i] = S::Load(column[lines ? k0 + j : rhs_k_.At(k0 + j)]);
        }
      }
    });
    return packed;
  }

  void Round(const Problem& p, int64_t b, int64_t m0, int64_t m, int64_t n, int64_t count, const float* sums,
             int64_t ld) const {
    DispatchFloat(out_, [&](auto tag) {
      using S = Storage<decltype(tag)::value>;
      auto* out = reinterpret_cast<typename S::T*>(p.out) + (b * p.m + m0) * p.n + n;
      for (int64_t i = 0; i < m; ++i) {
        for (int64_t j = 0; j < count; ++j) out[i * p.n + j] = S::Store(sums[i * ld + j]);
      }
    });
  }

  DType in_;
  DType out_;
  DotKernel kernel_;
  std::shared_ptr<Workspace> workspace_;
  Axis lhs_b_, rhs_b_, lhs_k_, rhs_k_, m_, n_;
  ir::Dim first_ = 1;
  First first_of_ = First::kRows;
  ir::Dim depth_ = 1;  // the contracted dimension, if there is exactly one
};

}  // namespace

Prepared PrepareDot(const PrepareContext& c) {
  return std::make_unique<DotNode>(c);
}

}  // namespace deepinfer::interp
