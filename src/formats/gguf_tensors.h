// Reads the tensor table of a GGUF file. Internal to this room; see gguf.h for the contract.
#pragma once

#include <optional>
#include <vector>

#include "formats/byte_cursor.h"
#include "formats/gguf.h"

namespace deepinfer::formats {

struct GgufTensorTable {
  std::vector<GgufTensor> tensors;
  size_t data_begin = 0;  // where the data section starts in the file
};

// Reads `count` tensor entries at the cursor and places each one's data in `file`. Refused: 0 or more than 4
// dimensions, a zero or overflowing size, rows that are not whole blocks, unknown type numbers, duplicate or empty
// names, and regions that are unaligned, overlap or leave the file.
Result<GgufTensorTable> ReadGgufTensors(ByteCursor& cursor, uint64_t count, uint64_t alignment,
                                        std::span<const std::byte> file);

// The format's number for an encoding (its writers need it); none for this program's own encodings.
std::optional<uint32_t> GgufTypeOf(Encoding encoding);

}  // namespace deepinfer::formats
