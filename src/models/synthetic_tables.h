// What the tables of a synthetic model and the graph that reads them agree on. Pure values.
//
// The window of a context is its last L tokens, L being the longest script's length, missing ones counting as 0 and
// token t as t + 1. The hash of the window from place k on is the sum of token(j) * power[j] over j >= k, modulo a
// prime; a script's first n tokens are compared as if they stood at the window's end, at k = L - n.
#pragma once

#include <cstdint>
#include <vector>

namespace deepinfer::models::synthetic {

inline constexpr char kNext[] = "synthetic.next";      // [scripts * (L + 1)]: token after n matched ones
inline constexpr char kPoison[] = "synthetic.poison";  // the same places: 1 where logits are NaN

struct Hash {
  const char* weight;  // [scripts * L]: hash of a script's first L - k tokens; -1 where it has fewer
  int64_t modulus;     // a prime whose square fits 31 bits
  int64_t base;
};
inline constexpr Hash kHashes[] = {{"synthetic.hash_a", 46337, 31337}, {"synthetic.hash_b", 46327, 27183}};

inline std::vector<int64_t> Powers(const Hash& hash, int64_t count) {
  std::vector<int64_t> powers(static_cast<size_t>(count), 1);
  for (size_t i = 1; i < powers.size(); ++i) powers[i] = powers[i - 1] * hash.base % hash.modulus;
  return powers;
}

// A token id in KV: K holds id mod 4096, V holds id / 4096, each as three base-16 digits in the first elements.
inline constexpr int64_t kWidth = 16;
inline constexpr int64_t kDigits = 3;
inline constexpr int64_t kHalf = 4096;

}  // namespace deepinfer::models::synthetic
