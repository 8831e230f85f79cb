// What launches of matrix products share: the encoding of a weight, and inputs brought into the order of its rows.
// Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "base/encoding.h"
#include "base/row_reader.h"
#include "ir/type.h"

namespace deepinfer::cpu {

Encoding EncodingOf(const ir::Type& weight);

bool SameOrder(const InputOrder& a, const InputOrder& b);

// Rows of x, each of order.size() elements of f32 or bf16, with element order[i] at place i.
void OrderInputs(const std::vector<int32_t>& order, DType dtype, const void* x, int64_t rows, void* out);

// Bytes of `rows` such rows, rounded up to cache lines.
int64_t OrderedBytes(DType dtype, int64_t rows, int64_t k);

}  // namespace deepinfer::cpu
