// The element types a safetensors file can name. Internal to this room. Thread-safe (constant table).
#pragma once

#include <optional>
#include <string_view>

#include "base/dtype.h"
#include "base/encoding.h"

namespace deepinfer::formats {

struct SafetensorsDType {
  const char* name;
  int bits;
  std::optional<DType> dtype;
  std::optional<Encoding> encoding;
};

// Null for a name the format does not have.
const SafetensorsDType* FindSafetensorsDType(std::string_view name);
// Null for an element type that this format cannot store.
const SafetensorsDType* FindSafetensorsDType(DType dtype);

}  // namespace deepinfer::formats
