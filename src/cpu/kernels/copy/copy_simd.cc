// Compiled once per instruction set; see simd.h.
#include "cpu/kernels/copy/copy_tables.h"
#include "cpu/kernels/kv_rows.h"

namespace deepinfer {
namespace {

template <class From, class To>
void PutPaged(const IndexPutPagedArgs& args, int64_t begin, int64_t end) {
  for (int64_t token = begin; token < end; ++token) {
    const int64_t block = args.block[token], offset = args.offset[token];
    if (block < 0 || block >= args.num_blocks || offset < 0 || offset >= args.block_size) continue;
    const From* row = static_cast<const From*>(args.rows) + token * args.rows_stride;
    To* base = static_cast<To*>(args.destination) + (block * args.heads * args.block_size + offset) * args.head_size;
    for (int64_t head = 0; head < args.heads; ++head) {
      StoreKvRow(row + head * args.head_size, base + head * args.block_size * args.head_size, args.head_size);
    }
  }
}

template <class From, class To>
void PutRows(const IndexPutRowsArgs& args, int64_t begin, int64_t end) {
  for (int64_t token = begin; token < end; ++token) {
    const int64_t index = args.index[token];
    if (index < 0 || index >= args.num_rows) continue;
    StoreKvRow(static_cast<const From*>(args.rows) + token * args.rows_stride,
               static_cast<To*>(args.destination) + index * args.width, args.width);
  }
}

template <class From>
void ToF8(const QuantiseRowsArgs& args, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    const From* in = static_cast<const From*>(args.rows) + row * args.width;
    F8* out = static_cast<F8*>(args.codes) + row * args.width;
    int64_t i = 0;
    for (; i + kLanes <= args.width; i += kLanes) Store(out + i, Load(in + i) * args.inverse_scale);
    if (i == args.width) continue;
    const F rest = LoadPart(in + i, args.width - i, 0.0f) * args.inverse_scale;
    StorePart(out + i, rest, args.width - i);
  }
}

template <class From>
void ToI8(const QuantiseRowsArgs& args, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    QuantiseKvRow(static_cast<const From*>(args.rows) + row * args.width,
                  static_cast<int8_t*>(args.codes) + row * args.width, args.scales + row, args.width);
  }
}

}  // namespace

#define DI_QUANTISE(From, To, types) {DI_ISA_NAME("quantise_rows_" types), To<From>}
#define DI_PUT(From, To, types) {DI_ISA_NAME("index_put_" types), PutPaged<From, To>, PutRows<From, To>}

extern const IndexPutTable DI_ISA_SYMBOL(kIndexPut);
const IndexPutTable DI_ISA_SYMBOL(kIndexPut) = {{
    {DI_PUT(float, float, "f32_f32"), DI_PUT(float, Bf16, "f32_bf16"), DI_PUT(float, F16, "f32_f16")},
    {DI_PUT(Bf16, float, "bf16_f32"), DI_PUT(Bf16, Bf16, "bf16_bf16"), DI_PUT(Bf16, F16, "bf16_f16")},
}};

extern const QuantiseTable DI_ISA_SYMBOL(kQuantise);
const QuantiseTable DI_ISA_SYMBOL(kQuantise) = {{
    {DI_QUANTISE(float, ToF8, "f32_f8"), DI_QUANTISE(float, ToI8, "f32_i8")},
    {DI_QUANTISE(Bf16, ToF8, "bf16_f8"), DI_QUANTISE(Bf16, ToI8, "bf16_i8")},
}};

}  // namespace deepinfer
