#include "ir/type.h"

#include <fmt/format.h>

#include <algorithm>

namespace deepinfer::ir {

char TagLetter(DimTag tag) {
  return " TRQ"[static_cast<size_t>(tag)];
}

Type Type::Weight(Encoding encoding, const std::vector<int64_t>& shape) {
  Type type;
  switch (encoding) {
    case Encoding::kF32:
      type.dtype = DType::kF32;
      break;
    case Encoding::kF16:
      type.dtype = DType::kF16;
      break;
    case Encoding::kBF16:
      type.dtype = DType::kBF16;
      break;
    default:
      type.encoding = encoding;
  }
  for (const int64_t size : shape) type.dims.emplace_back(size);
  return type;
}

int64_t Type::NumElements() const {
  int64_t count = 1;
  for (const Dim& dim : dims) count *= dim.size;
  return count;
}

bool Type::Addressable() const {
  constexpr int64_t kMax = int64_t{1} << 46;
  int64_t count = 1;
  for (const Dim& dim : dims) {
    if (dim.size < 0 || dim.size > kMax) return false;
    if (dim.size > 0 && count > kMax / dim.size) return false;
    count *= std::max<int64_t>(dim.size, 1);
  }
  return true;
}

int64_t Type::Bytes() const {
  if (!encoding) return NumElements() * static_cast<int64_t>(SizeOf(dtype));
  if (dims.empty() || dims.back().size == 0) return 0;
  const int64_t columns = dims.back().size;
  return NumElements() / columns * static_cast<int64_t>(RowBytes(*encoding, columns));
}

std::vector<int64_t> Type::Shape() const {
  std::vector<int64_t> shape;
  for (const Dim& dim : dims) shape.push_back(dim.size);
  return shape;
}

Type Type::WithDType(DType new_dtype) const {
  Type type = *this;
  type.dtype = new_dtype;
  type.encoding.reset();
  return type;
}

bool SameShape(const Type& a, const Type& b) {
  return a.Shape() == b.Shape();
}

std::string ToString(const Type& type) {
  std::string text = type.encoding ? ToString(*type.encoding) : ToString(type.dtype);
  text += '[';
  for (size_t i = 0; i < type.dims.size(); ++i) {
    if (i > 0) text += ',';
    if (type.dims[i].tag != DimTag::kNone) text += fmt::format("{}:", TagLetter(type.dims[i].tag));
    text += fmt::format("{}", type.dims[i].size);
  }
  return text + ']';
}

}  // namespace deepinfer::ir
