// Evaluates primitives, one node at a time: the definition of what each primitive computes.
//
// PrepareNode checks and precomputes everything (strides, index maps) once; PreparedNode::Run reads operand buffers and
// writes result buffers and allocates nothing (sort and top_k own their scratch). Values are stored in their own dtype;
// floats are computed in f32 and rounded once. Only the live part is computed: where the first dimension of a result
// carries a tag, rows past its live count are left as they are. Reductions run in ascending index order, so a row's bits
// never depend on what else is there.
// A PreparedNode is used by one thread at a time; a team may be given to dot_general.
#pragma once

#include <memory>
#include <vector>

#include "base/error.h"
#include "base/thread_team.h"
#include "ir/graph.h"

namespace deepinfer::interp {

class PreparedNode {
 public:
  virtual ~PreparedNode() = default;
  // One pointer per operand and result, to dense row-major data. index_put may run in place (results[0] == operands[0]).
  virtual void Run(const void* const* operands, void* const* results, const ir::LiveCounts& live, ThreadTeam* team) = 0;
};

// Any primitive. Structural ops and composites are refused with kUnsupported.
Result<std::unique_ptr<PreparedNode>> PrepareNode(const ir::Function& function, const ir::Node& node);

}  // namespace deepinfer::interp
