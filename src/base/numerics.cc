#include "base/numerics.h"

namespace deepinfer {

const char* ToString(Numerics numerics) {
  switch (numerics) {
    case Numerics::kNative:
      return "native";
    case Numerics::kPortable:
      return "portable";
    case Numerics::kInt8:
      return "int8";
  }
  return "?";
}

std::optional<Numerics> ParseNumerics(std::string_view name) {
  for (const Numerics numerics : kAllNumerics) {
    if (name == ToString(numerics)) return numerics;
  }
  return std::nullopt;
}

}  // namespace deepinfer
