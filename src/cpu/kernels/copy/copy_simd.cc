// Compiled once per instruction set; see simd.h.
#include "cpu/kernels/copy/copy_tables.h"
#include "cpu/kernels/simd.h"

namespace deepinfer {
namespace {

template <class From, class To>
DI_INLINE void ConvertRow(const From* in, To* out, int64_t count) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) Store(out + i, Load(in + i));
  if (i < count) StorePart(out + i, LoadPart(in + i, count - i, 0.0f), count - i);
}
template <class T>
DI_INLINE void ConvertRow(const T* in, T* out, int64_t count) {
  memcpy(out, in, count * sizeof(T));
}

template <class From, class To>
void PutPaged(const IndexPutPagedArgs& args, int64_t begin, int64_t end) {
  for (int64_t token = begin; token < end; ++token) {
    const int64_t block = args.block[token], offset = args.offset[token];
    if (block < 0 || block >= args.num_blocks || offset < 0 || offset >= args.block_size) continue;
    const From* row = static_cast<const From*>(args.rows) + token * args.rows_stride;
    To* base = static_cast<To*>(args.destination) + (block * args.heads * args.block_size + offset) * args.head_size;
    for (int64_t head = 0; head < args.heads; ++head) {
      ConvertRow(row + head * args.head_size, base + head * args.block_size * args.head_size, args.head_size);
    }
  }
}

template <class From, class To>
void PutRows(const IndexPutRowsArgs& args, int64_t begin, int64_t end) {
  for (int64_t token = begin; token < end; ++token) {
    const int64_t index = args.index[token];
    if (index < 0 || index >= args.num_rows) continue;
    ConvertRow(static_cast<const From*>(args.rows) + token * args.rows_stride,
               static_cast<To*>(args.destination) + index * args.width, args.width);
  }
}

}  // namespace

#define DI_PUT(From, To, types) {DI_ISA_NAME("index_put_" types), PutPaged<From, To>, PutRows<From, To>}

extern const IndexPutTable DI_ISA_SYMBOL(kIndexPut);
const IndexPutTable DI_ISA_SYMBOL(kIndexPut) = {{
    {DI_PUT(float, float, "f32_f32"), DI_PUT(float, Bf16, "f32_bf16"), DI_PUT(float, F16, "f32_f16")},
    {DI_PUT(Bf16, float, "bf16_f32"), DI_PUT(Bf16, Bf16, "bf16_bf16"), DI_PUT(Bf16, F16, "bf16_f16")},
}};

}  // namespace deepinfer
