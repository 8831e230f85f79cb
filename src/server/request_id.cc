#include "server/request_id.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <random>

namespace deepinfer::server {

std::string RandomId() {
  thread_local std::mt19937_64 engine{[] {
    std::random_device device;
    std::seed_seq seeds{device(), device(), device(), device()};
    return std::mt19937_64(seeds);
  }()};
  const uint64_t high = engine();
  return fmt::format("{:016x}{:016x}", high, engine());
}

std::string RequestId(std::string_view from_client) {
  const auto fit = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("-_.:/").find(c) != std::string_view::npos;
  };
  const bool usable =
      !from_client.empty() && from_client.size() <= 128 && std::all_of(from_client.begin(), from_client.end(), fit);
  return usable ? std::string(from_client) : RandomId();
}

}  // namespace deepinfer::server
