// Names for requests. Thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace deepinfer::server {

// 32 random hexadecimal digits.
std::string RandomId();
// The client's own, if it has 1 to 128 characters out of letters, digits, '-', '_', '.', ':' and '/'; else a new one.
std::string RequestId(std::string_view from_client);

}  // namespace deepinfer::server
