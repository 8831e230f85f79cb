// Results on stdout, everything else on stderr. A write to stdout that fails (a closed pipe, a full disk) is an error
// like any other, never a signal or an exception; one to stderr that fails is nothing at all. One thread at a time, but
// SayErr from any.
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
// One line on stderr; the newline is added. Where nobody can hear it, nothing happens.
void SayErr(std::string_view line);
// All of stdin, byte for byte.
Result<std::string> ReadStdin();
Result<std::string> ReadFile(const std::string& path);
Status WriteFile(const std::string& path, std::string_view text);
// The file appears whole or stays what it was: written beside its place, then renamed.
Status ReplaceFile(const std::string& path, std::string_view text);

// Rows of cells in aligned columns; the first row is the heading. Columns of numbers are aligned to the right.
std::string FormatTable(const std::vector<std::vector<std::string>>& rows);
std::string FormatBytes(int64_t bytes);  // "105.3 MiB"

}  // namespace deepinfer::cli
