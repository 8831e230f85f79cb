// Parses JSON that may be hostile: size, nesting and value count are limited, duplicate keys are refused, nothing
// throws.
//
// nlohmann's own parse keeps the last of two equal keys and has no limits. Thread-safe (no state).
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

namespace deepinfer::formats {

struct JsonLimits {
  size_t max_bytes = 16u << 20;
  size_t max_depth = 64;
  size_t max_values = 1u << 20;  // some 50 bytes each once parsed
  size_t max_keys = 1u << 20;    // of one object
};

// `where` names the file (and the place in it) in errors.
Result<nlohmann::json> ParseJson(std::string_view text, const std::string& where, const JsonLimits& limits = {});
// Objects keep the order of their keys; looking for one takes time in proportion to their number, so limit max_keys.
Result<nlohmann::ordered_json> ParseOrderedJson(std::string_view text, const std::string& where,
                                                const JsonLimits& limits = {});

}  // namespace deepinfer::formats
