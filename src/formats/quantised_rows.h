// Rows of block encodings put together from the tensors that a quantised Hugging Face checkpoint keeps apart. Internal
// to this room.
//
// The readers hold spans of mapped files and are as long-lived as those; nothing is checked but by whoever builds them.
// Sources: the layouts that AutoGPTQ, AutoAWQ and compressed-tensors write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/encoding.h"
#include "base/row_reader.h"

namespace deepinfer::formats {

// Plain floats of a tensor, without alignment.
struct Floats {
  std::span<const std::byte> data;
  Encoding encoding = Encoding::kF32;  // f32, f16, bf16
  float At(int64_t index) const;
};

// w[n, k] = codes[n, k] * scales[n / rows_per_scale, k / columns_per_scale].
struct ScaledBytes {
  Encoding encoding = Encoding::kInt8;  // or fp8
  std::span<const std::byte> codes;     // [n, k]
  int64_t k = 0;
  Floats scales;
  int64_t scale_columns = 1;  // of the scales' rows
  int64_t rows_per_scale = 1;
  int64_t columns_per_scale = 1;  // a multiple of 128, or k
};
RowReader ScaledByteRows(const ScaledBytes& source);

enum class Int4Layout {
  kGptq,  // codes [k / 8, n]: nibble i is k = 8r + i; zeros [groups, n / 8]: nibble i is n = 8c + i; scales [groups, n]
  kAwq,   // codes [k, n / 8], zeros [groups, n / 8]: nibbles are n = 8c + 0, 2, 4, 6, 1, 3, 5, 7; scales [groups, n]
  kPacked,  // codes [n, k / 8]: nibble i is k = 8c + i; scales [n, groups]; every zero point is 8
};

// w[n, k] = scale * (code - zero), both of group k / group_size.
struct Int4Source {
  Int4Layout layout = Int4Layout::kGptq;
  std::span<const std::byte> codes;
  std::span<const std::byte> zeros;
  Floats scales;  // representable as f16
  int64_t n = 0;
  int64_t k = 0;
  int64_t group_size = 0;
  int zero_offset = 0;  // added to stored zero points
  InputOrder order;     // kGptq: of the inputs that make up groups; the rows have them in it
};
RowReader Int4Rows(const Int4Source& source);

}  // namespace deepinfer::formats
