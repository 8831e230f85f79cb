// How a backend may round and order sums: the mode of a whole run. Pure values, thread-safe.
//
//   native    the machine's best order of each sum, and its best form of bf16 activations in matrix products; bits may
//             differ between instruction sets
//   portable  one order everywhere: bits are equal on every machine
//   int8      native, but activations of matrix products are rounded to blocks of 8-bit integers where kernels have
//   that
// In each of them a row's bits depend on nothing else in its batch, nor on the number of threads.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace deepinfer {

enum class Numerics : uint8_t { kNative, kPortable, kInt8 };
inline constexpr std::array<Numerics, 3> kAllNumerics = {Numerics::kNative, Numerics::kPortable, Numerics::kInt8};

const char* ToString(Numerics numerics);  // "native" "portable" "int8"
std::optional<Numerics> ParseNumerics(std::string_view name);

}  // namespace deepinfer
