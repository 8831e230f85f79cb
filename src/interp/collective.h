// What each rank gets from a collective, from the operands of all ranks: how ranks are simulated in one process.
//
// Like a PreparedNode, but with one operand per rank. Sums and maxima run over the group's members in ascending place,
// in f32 for floats, rounded once: every member gets the same bits. Nothing is skipped: rows past a live count are
// computed like the others, from whatever they hold. Run allocates nothing; ranks may run at the same time.
#pragma once

#include <memory>

#include "base/error.h"
#include "ir/graph.h"

namespace deepinfer::interp {

class PreparedCollective {
 public:
  virtual ~PreparedCollective() = default;
  // The result of `rank`. operands: by rank, dense row-major; none may be changed before every rank has run.
  virtual void Run(int64_t rank, const void* const* operands, void* result) const = 0;
};

// kInvalidArgument: not a collective, or its groups make no sense.
Result<std::unique_ptr<PreparedCollective>> PrepareCollective(const ir::Function& function, const ir::Node& node);

}  // namespace deepinfer::interp
