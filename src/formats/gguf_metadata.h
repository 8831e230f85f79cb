// Reads the key-value section of a GGUF file. Internal to this room; see gguf.h for the contract.
#pragma once

#include <map>
#include <string>

#include "formats/byte_cursor.h"
#include "formats/gguf.h"

namespace deepinfer::formats {

struct GgufMetadata {
  std::map<std::string, GgufValue, std::less<>> values;
  std::vector<GgufRawPair> raw;
};

// Reads `count` pairs at the cursor. Refused: empty, duplicate or non-ASCII keys, unknown types, nested arrays, lengths
// beyond the file, an alignment that is not a u32 power of two from 8 up. Memory is bounded by the file's size and by
// fixed limits far above real files (2^24 array elements in all).
Result<GgufMetadata> ReadGgufMetadata(ByteCursor& cursor, uint64_t count);

// `general.alignment`, 32 if not given. ReadGgufMetadata has checked it.
uint64_t AlignmentOf(const GgufMetadata& metadata);

}  // namespace deepinfer::formats
