// Results on stdout. A write that fails (a closed pipe, a full disk) is an error like any other, never a signal or an
// exception. One thread at a time.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace deepinfer::cli {

using Json = nlohmann::ordered_json;

// Writes and flushes.
Status WriteOut(std::string_view text);
// One object, one line. Bytes that are not UTF-8 become U+FFFD.
Status WriteJson(const Json& json);
// All of stdin, byte for byte.
Result<std::string> ReadStdin();
Result<std::string> ReadFile(const std::string& path);
Status WriteFile(const std::string& path, std::string_view text);

// Rows of cells in aligned columns; the first row is the heading. Columns of numbers are aligned to the right.
std::string FormatTable(const std::vector<std::vector<std::string>>& rows);
std::string FormatBytes(int64_t bytes);  // "105.3 MiB"

}  // namespace deepinfer::cli
