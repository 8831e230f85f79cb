// A copy between two strided views of equal shape: what broadcast, transpose, slice, concatenate, pad and the dynamic
// slices come down to. Built once; Run allocates nothing. Strides and offsets in elements; a source stride of 0
// repeats.
#pragma once

#include <cstdint>
#include <vector>

#include "base/thread_team.h"

namespace deepinfer::interp {

class StridedCopy {
 public:
  // keep_first: the extent of dimension 0 is given at each Run.
  StridedCopy(int64_t element_bytes, const std::vector<int64_t>& sizes, const std::vector<int64_t>& src_strides,
              const std::vector<int64_t>& dst_strides, bool keep_first);

  // first: the extent of dimension 0 if keep_first, else ignored.
  void Run(const std::byte* src, std::byte* dst, int64_t first, ThreadTeam* team) const;

 private:
  struct Dim {
    int64_t size;
    int64_t src;
    int64_t dst;
  };

  int64_t element_bytes_;
  bool keep_first_;
  bool empty_ = false;
  std::vector<Dim> dims_;  // merged; at least one
};

}  // namespace deepinfer::interp
