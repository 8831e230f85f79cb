// The legality of state views: overlap, offsets, pools.
#include <vector>

#include "ir/verify.h"

namespace deepinfer::ir {
namespace {

struct Region {
  const Input* input;
  const Type* type;
  int64_t begin;  // bytes
  int64_t end;
};

template <class... Args>
tl::unexpected<Error> Illegal(fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(ErrorCode::kInvalidArgument, "state views", format, std::forward<Args>(args)...);
}

Status CheckPair(const Region& a, const Region& b) {
  if (a.begin == b.begin && a.end == b.end) {
    return Illegal("'{}' and '{}' are the same region of buffer '{}': make them one input", a.input->name,
                   b.input->name, a.input->buffer);
  }
  if (a.begin < b.end && b.begin < a.end) {
    return Illegal("'{}' and '{}' overlap partially in buffer '{}' (bytes {}..{} and {}..{})", a.input->name,
                   b.input->name, a.input->buffer, a.begin, a.end, b.begin, b.end);
  }
  return {};
}

Status CheckPool(const Region& a, const Region& b) {
  std::vector<Dim> left = a.type->dims;
  std::vector<Dim> right = b.type->dims;
  if (!left.empty() && !right.empty()) right[0] = left[0];
  if (a.type->dtype != b.type->dtype || left != right) {
    return Illegal("pool '{}' holds '{}' as {} and '{}' as {}: they must agree on dtype, heads, block and head size",
                   a.input->pool, a.input->name, ToString(*a.type), b.input->name, ToString(*b.type));
  }
  return {};
}

}  // namespace

Status CheckStateViews(const Function& entry) {
  std::vector<Region> regions;
  for (const Input& input : entry.inputs) {
    if (input.kind != InputKind::kState) continue;
    const Type& type = entry.TypeOf(input.value);
    if (input.offset < 0 || input.offset >= (int64_t{1} << 32)) {
      return Illegal("'{}' starts at element {} of buffer '{}': offsets must be below 2^32", input.name, input.offset,
                     input.buffer);
    }
    const int64_t begin = input.offset * static_cast<int64_t>(SizeOf(type.dtype));
    regions.push_back({&input, &type, begin, begin + type.Bytes()});
  }
  for (size_t i = 0; i < regions.size(); ++i) {
    for (size_t j = i + 1; j < regions.size(); ++j) {
      const Input& a = *regions[i].input;
      const Input& b = *regions[j].input;
      if (!a.buffer.empty() && a.buffer == b.buffer) DI_RETURN_IF_ERROR(CheckPair(regions[i], regions[j]));
      if (!a.pool.empty() && a.pool == b.pool) DI_RETURN_IF_ERROR(CheckPool(regions[i], regions[j]));
    }
  }
  return {};
}

}  // namespace deepinfer::ir
