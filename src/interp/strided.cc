#include "interp/strided.h"

#include <algorithm>
#include <cstring>

#include "interp/prepare.h"

namespace deepinfer::interp {
namespace {

template <class T>
void CopyLine(const std::byte* src, std::byte* dst, int64_t n, int64_t src_stride, int64_t dst_stride) {
  const T* from = reinterpret_cast<const T*>(src);
  T* to = reinterpret_cast<T*>(dst);
  if (dst_stride == 1 && src_stride == 1) {
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(T));
  } else if (dst_stride == 1 && src_stride == 0) {
    std::fill_n(to, n, *from);
  } else {
    for (int64_t i = 0; i < n; ++i) to[i * dst_stride] = from[i * src_stride];
  }
}

using LineFunction = void (*)(const std::byte*, std::byte*, int64_t, int64_t, int64_t);

LineFunction ForWidth(int64_t bytes) {
  switch (bytes) {
    case 1:
      return CopyLine<uint8_t>;
    case 2:
      return CopyLine<uint16_t>;
    case 4:
      return CopyLine<uint32_t>;
    default:
      return CopyLine<uint64_t>;
  }
}

}  // namespace

StridedCopy::StridedCopy(int64_t element_bytes, const std::vector<int64_t>& sizes,
                         const std::vector<int64_t>& src_strides, const std::vector<int64_t>& dst_strides,
                         bool keep_first)
    : element_bytes_(element_bytes), keep_first_(keep_first && !sizes.empty()) {
  for (size_t i = 0; i < sizes.size(); ++i) {
    const bool kept = keep_first_ && i == 0;
    empty_ = empty_ || (sizes[i] == 0 && !kept);
    if (sizes[i] == 1 && !kept) continue;
    const size_t fixed = keep_first_ ? 1 : 0;
    Dim* outer = dims_.size() > fixed ? &dims_.back() : nullptr;
    const Dim dim = {sizes[i], src_strides[i], dst_strides[i]};
    if (outer != nullptr && outer->src == dim.src * dim.size && outer->dst == dim.dst * dim.size) {
      *outer = {outer->size * dim.size, dim.src, dim.dst};
    } else {
      dims_.push_back(dim);
    }
  }
  if (dims_.empty()) dims_.push_back({1, 1, 1});
}

void StridedCopy::Run(const std::byte* src, std::byte* dst, int64_t first, ThreadTeam* team) const {
  if (empty_) return;
  const LineFunction line = ForWidth(element_bytes_);
  const Dim inner = dims_.back();
  const size_t outer_rank = dims_.size() - 1;
  if (outer_rank == 0) {
    ParallelFor(team, keep_first_ ? first : inner.size, 1, [&](int64_t begin, int64_t end, int) {
      line(src + begin * inner.src * element_bytes_, dst + begin * inner.dst * element_bytes_, end - begin, inner.src,
           inner.dst);
    });
    return;
  }
  int64_t lines = keep_first_ ? first : dims_[0].size;
  for (size_t i = 1; i < outer_rank; ++i) lines *= dims_[i].size;
  ParallelFor(team, lines, inner.size, [&](int64_t begin, int64_t end, int) {
    int64_t index[kMaxRank] = {};
    int64_t from = 0;
    int64_t to = 0;
    int64_t rest = begin;
    for (size_t i = outer_rank; i-- > 0;) {
      index[i] = i == 0 ? rest : rest % dims_[i].size;
      rest /= std::max<int64_t>(dims_[i].size, 1);
      from += index[i] * dims_[i].src;
      to += index[i] * dims_[i].dst;
    }
    for (int64_t n = begin; n < end; ++n) {
      line(src + from * element_bytes_, dst + to * element_bytes_, inner.size, inner.src, inner.dst);
      for (size_t i = outer_rank; i-- > 0;) {
        from += dims_[i].src;
        to += dims_[i].dst;
        if (++index[i] < dims_[i].size || i == 0) break;
        from -= index[i] * dims_[i].src;
        to -= index[i] * dims_[i].dst;
        index[i] = 0;
      }
    }
  });
}

}  // namespace deepinfer::interp
