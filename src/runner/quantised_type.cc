#include "runner/quantised_type.h"

namespace deepinfer::runner {
namespace {

Encoding WithSmallBlocks(Encoding type) {
  switch (type) {
    case Encoding::kQ2_K:
    case Encoding::kQ3_K:
    case Encoding::kIQ4_XS:
      return Encoding::kIQ4_NL;
    case Encoding::kQ4_K:
      return Encoding::kQ5_0;
    case Encoding::kQ5_K:
      return Encoding::kQ5_1;
    default:
      return Encoding::kQ8_0;
  }
}

double BitsOf(Encoding encoding) {
  return 8.0 * InfoOf(encoding).block_bytes / InfoOf(encoding).block_elements;
}

}  // namespace

Encoding QuantisedType(Encoding type, const std::vector<int64_t>& shape, bool is_head) {
  if (shape.size() < 2) return Encoding::kF32;
  if (is_head && BitsOf(type) < BitsOf(Encoding::kQ6_K)) type = Encoding::kQ6_K;
  if (shape.back() % InfoOf(type).block_elements != 0) type = WithSmallBlocks(type);
  return shape.back() % InfoOf(type).block_elements == 0 ? type : Encoding::kF32;
}

}  // namespace deepinfer::runner
