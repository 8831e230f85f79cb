#include "cpu/kernels/linear/linear.h"

#include <algorithm>
#include <array>
#include <vector>

#include "base/error.h"
#include "cpu/kernels/linear/linear_internal.h"

namespace deepinfer::cpu {
namespace {

// Best first.
constexpr Isa kOrder[] = {Isa::kAmx, Isa::kAvx512Bf16, Isa::kAvx512, Isa::kAvx2, Isa::kPortable};

KernelTable TableOf(Isa isa) {
  switch (isa) {
    case Isa::kPortable:
      return LinearTablePortable();
#if defined(__x86_64__)
    case Isa::kAvx2:
      return LinearTableAvx2();
    case Isa::kAvx512:
      return LinearTableAvx512();
    case Isa::kAvx512Bf16:
      return LinearTableAvx512Bf16();
    case Isa::kAmx:
      return LinearTableAmx();
#endif
    default:
      return {nullptr, 0};
  }
}

KernelTable Int8TableOf(Isa isa) {
  switch (isa) {
    case Isa::kPortable:
      return Int8TablePortable();
#if defined(__x86_64__)
    case Isa::kAvx2:
      return Int8TableAvx2();
    case Isa::kAvx512:
      return Int8TableAvx512();
#endif
    default:
      return {nullptr, 0};
  }
}

KernelTable Int16TableOf(Isa isa) {
  switch (isa) {
#if defined(__x86_64__)
    case Isa::kAvx2:
      return Int16TableAvx2();
#endif
    default:
      return {nullptr, 0};
  }
}

KernelTable OrderedTableOf(Isa isa) {
  switch (isa) {
    case Isa::kPortable:
      return OrderedTablePortable();
#if defined(__x86_64__)
    case Isa::kAvx2:
      return OrderedTableAvx2();
    case Isa::kAvx512:
      return OrderedTableAvx512();
#endif
    default:
      return {nullptr, 0};
  }
}

constexpr int kNumIsas = static_cast<int>(Isa::kAmx) + 1;

// The rows of all tables of an ISA.
std::vector<LinearKernel> AllRows(Isa isa) {
  std::vector<LinearKernel> rows;
  for (const KernelTable& table : {TableOf(isa), OrderedTableOf(isa), Int8TableOf(isa), Int16TableOf(isa)}) {
    rows.insert(rows.end(), table.rows, table.rows + table.count);
  }
  return rows;
}

int64_t PreparedRow(const LinearKernel& kernel, int64_t k) {
  if (kernel.integer_bits > 0) {
    return BlocksOf(k) * IntegerRowBytesPerBlock(kernel.integer_bits, LayoutOf(kernel.encoding).scales_per_block());
  }
  return PreparedRowBytes(kernel.bf16_core, kernel.encoding, kernel.act, k);
}

// The integer cores prepare whole tiles of rows.
int64_t PreparedRows(const LinearKernel& kernel, int64_t rows) {
  return kernel.integer_bits > 0 ? (rows + kIntegerTileRows - 1) / kIntegerTileRows * kIntegerTileRows : rows;
}

}  // namespace

std::span<const LinearKernel> LinearKernels(Isa isa) {
  static const std::array<std::vector<LinearKernel>, kNumIsas> kTables = [] {
    std::array<std::vector<LinearKernel>, kNumIsas> tables;
    for (int i = 0; i < kNumIsas; ++i) tables[static_cast<size_t>(i)] = AllRows(static_cast<Isa>(i));
    return tables;
  }();
  return kTables[static_cast<size_t>(isa)];
}

LinearChoice ChooseLinear(Encoding encoding, DType act, Isa isa, Numerics numerics) {
  LinearChoice choice;
  for (const Isa candidate : kOrder) {
    choice.reason += choice.reason.empty() ? "" : "; ";
    choice.reason += ToString(candidate);
    const LinearKernel* found = nullptr;
    for (const LinearKernel& row : LinearKernels(candidate)) {
      if (row.encoding == encoding && row.act == act && row.Serves(numerics)) found = &row;
    }
    if (found == nullptr) {
      choice.reason += ": no kernel";
    } else if (candidate > isa) {
      choice.reason += ": above the selected ISA";
    } else {
      choice.reason = std::string(found->name) + ": " + choice.reason + ": taken";
      choice.kernel = found;
      return choice;
    }
  }
  if (numerics != Numerics::kInt8) return choice;
  choice = ChooseLinear(encoding, act, isa, Numerics::kNative);
  choice.reason += " (none for int8)";
  return choice;
}

bool HasLinear(Isa isa, Numerics numerics) {
  for (const Isa candidate : kOrder) {
    for (const LinearKernel& row : LinearKernels(candidate)) {
      if (candidate <= isa && row.Serves(numerics)) return true;
    }
  }
  return false;
}

size_t LinearScratchBytes(const LinearKernel& kernel, int64_t max_m, int64_t k) {
  if (kernel.scratch_bytes != nullptr) return static_cast<size_t>(kernel.scratch_bytes(std::max<int64_t>(max_m, 1), k));
  const int64_t rows = std::min(std::max<int64_t>(max_m, 1), kRowChunk);
  const int64_t bytes = PreparedOffset(kernel.bf16_core, rows) + PreparedRows(kernel, rows) * PreparedRow(kernel, k);
  return static_cast<size_t>((bytes + 63) / 64 * 64);
}

size_t PreparedLinearBytes(const LinearKernel& kernel, int64_t m, int64_t k) {
  if (kernel.prepared_bytes != nullptr) return static_cast<size_t>(kernel.prepared_bytes(m, k));
  return static_cast<size_t>(PreparedRows(kernel, m) * PreparedRow(kernel, k));
}

void PrepareLinear(const LinearKernel& kernel, const void* x, int64_t ldx, int64_t row_begin, int64_t row_end,
                   int64_t k, void* prepared) {
  if (PreparedLinearBytes(kernel, 1, k) > 0) kernel.prepare(x, ldx, row_begin, row_end, k, prepared);
}

void RunLinear(const LinearKernel& kernel, const LinearArgs& args, int64_t col_begin, int64_t col_end) {
  DI_CHECK(col_begin % kLinearGrain == 0 && (col_end % kLinearGrain == 0 || col_end == args.n));
  DI_CHECK(args.y_dtype == DType::kF32 || args.y_dtype == DType::kBF16);
  if (args.m > 0 && col_begin < col_end) kernel.run(args, col_begin, col_end);
}

}  // namespace deepinfer::cpu
