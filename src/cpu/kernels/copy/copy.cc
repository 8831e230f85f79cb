#include <algorithm>
#include <cstring>

#include "cpu/kernels/copy/copy_tables.h"
#include "cpu/kernels/pick_isa.h"

namespace deepinfer {

DI_DECLARE_ISA_TABLE(IndexPutTable, kIndexPut);
DI_DECLARE_ISA_TABLE(QuantiseTable, kQuantise);

namespace {

// Rows whose element is `bytes` wide, as they are.
template <int bytes>
void PutSameRows(const IndexPutRowsArgs& args, int64_t begin, int64_t end) {
  for (int64_t token = begin; token < end; ++token) {
    const int64_t index = args.index[token];
    if (index < 0 || index >= args.num_rows) continue;
    std::memcpy(static_cast<char*>(args.destination) + index * args.width * bytes,
                static_cast<const char*>(args.rows) + token * args.rows_stride * bytes,
                static_cast<size_t>(args.width) * bytes);
  }
}

template <int bytes>
void PutSamePaged(const IndexPutPagedArgs& args, int64_t begin, int64_t end) {
  const int64_t row_bytes = args.head_size * bytes;
  for (int64_t token = begin; token < end; ++token) {
    const int64_t block = args.block[token], offset = args.offset[token];
    if (block < 0 || block >= args.num_blocks || offset < 0 || offset >= args.block_size) continue;
    const char* row = static_cast<const char*>(args.rows) + token * args.rows_stride * bytes;
    for (int64_t head = 0; head < args.heads; ++head) {
      const int64_t place = (block * args.heads + head) * args.block_size + offset;
      std::memcpy(static_cast<char*>(args.destination) + place * row_bytes, row + head * row_bytes,
                  static_cast<size_t>(row_bytes));
    }
  }
}

}  // namespace

void PagedSlotIndices(const PagedSlotArgs& args, int64_t begin, int64_t end) {
  const int64_t limit = args.num_blocks * args.block_size;
  for (int64_t token = begin; token < end; ++token) {
    int64_t slot = args.slots[token];
    if (slot < 0 || slot >= limit) slot = 0;
    args.block[token] = static_cast<int32_t>(slot / args.block_size);
    args.offset[token] = static_cast<int32_t>(slot % args.block_size);
  }
}

IndexPutKernels ChooseIndexPut(Isa isa, DType rows, DType destination) {
  const IndexPutTable& table = DI_PICK_ISA(isa, kIndexPut);
  const int from = rows == DType::kF32 ? 0 : rows == DType::kBF16 ? 1 : -1;
  const int to = destination == DType::kF32 ? 0 : destination == DType::kBF16 ? 1 : destination == DType::kF16 ? 2 : -1;
  if (from >= 0 && to >= 0) return table.by_type[from][to];
  if (rows != destination) return {};
  switch (SizeOf(rows)) {
    case 1:
      return {"index_put_8", PutSamePaged<1>, PutSameRows<1>};
    case 2:
      return {"index_put_16", PutSamePaged<2>, PutSameRows<2>};
    case 4:
      return {"index_put_32", PutSamePaged<4>, PutSameRows<4>};
    default:
      return {"index_put_64", PutSamePaged<8>, PutSameRows<8>};
  }
}

QuantiseRowsKernel ChooseQuantiseRows(Isa isa, DType rows, DType codes) {
  const QuantiseTable& table = DI_PICK_ISA(isa, kQuantise);
  const int from = rows == DType::kF32 ? 0 : rows == DType::kBF16 ? 1 : -1;
  const int to = codes == DType::kF8E4M3 ? 0 : codes == DType::kI8 ? 1 : -1;
  return from < 0 || to < 0 ? QuantiseRowsKernel() : table.by_type[from][to];
}

void GatherRows(const GatherRowsArgs& args, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const int64_t index = std::clamp<int64_t>(args.index[row], 0, args.num_rows - 1);
    std::memcpy(static_cast<char*>(args.out) + row * args.out_stride_bytes,
                static_cast<const char*>(args.x) + index * args.x_stride_bytes, static_cast<size_t>(args.row_bytes));
  }
}

}  // namespace deepinfer
