// Types of values: an element type, static dimensions, and a tag on dimensions whose live extent varies per step.
//
// A weight may be stored in an encoding (q4_k, ...): its type then names the encoding in place of the dtype, and only
// composites that read weights (linear, multi_linear, embedding) accept it. Pure values.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/encoding.h"

namespace deepinfer::ir {

// What a dimension counts. What lies past the live count of a tag is undefined and never read.
enum class DimTag : uint8_t { kNone, kTokens, kRows, kRequests };
inline constexpr int kNumTags = 3;  // tags with a live count; live_counts[tag - 1]
char TagLetter(DimTag tag);         // 'T', 'R', 'Q'; kNone has none

// Live extents of one step, indexed by tag.
struct LiveCounts {
  std::array<int64_t, kNumTags> count{};
  int64_t Of(DimTag tag, int64_t size) const {
    return tag == DimTag::kNone ? size : count[static_cast<size_t>(tag) - 1];
  }
};

struct Dim {
  int64_t size = 0;
  DimTag tag = DimTag::kNone;
  Dim() = default;
  Dim(int64_t size, DimTag tag = DimTag::kNone) : size(size), tag(tag) {}  // NOLINT: implicit on purpose
  bool operator==(const Dim&) const = default;
};

struct Type {
  DType dtype = DType::kF32;         // f32 where an encoding is set: what the bytes decode to
  std::optional<Encoding> encoding;  // set only for quantised weights
  std::vector<Dim> dims;

  Type() = default;
  Type(DType dtype, std::vector<Dim> dims) : dtype(dtype), dims(std::move(dims)) {}
  static Type Weight(Encoding encoding, const std::vector<int64_t>& shape);

  bool operator==(const Type&) const = default;
  int rank() const { return static_cast<int>(dims.size()); }
  int64_t NumElements() const;
  int64_t Bytes() const;
  std::vector<int64_t> Shape() const;
  // No dimension is negative and the elements can be counted and addressed (at most 2^46): true of every type in a
  // verified module, so that sizes may be multiplied without checks.
  bool Addressable() const;
  DimTag LeadingTag() const { return dims.empty() ? DimTag::kNone : dims[0].tag; }
  Type WithDType(DType new_dtype) const;
};

bool SameShape(const Type& a, const Type& b);  // sizes only
std::string ToString(const Type& type);        // "bf16[T:128,576]", "q4_1[49152,576]", "i32[]"

}  // namespace deepinfer::ir
