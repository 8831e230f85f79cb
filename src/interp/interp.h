// Evaluates primitives, one node at a time: the definition of what each primitive computes.
//
// PrepareNode checks and precomputes everything (strides, index maps) once; PreparedNode::Run reads operand buffers and
// writes result buffers and allocates nothing. Values are stored in their own dtype; floats are computed in f32 and
// rounded once; integers wrap. Only the live part is computed: where the first dimension of a result carries a tag,
// rows past its live count are left as they are, and a reduction or contraction over a tagged dimension stops at its
// live count. Sums run in ascending index order, so a row's bits never depend on what else is there. Details that
// StableHLO leaves open: take clamps indices; index_put drops rows whose index is out of range; sort is stable and puts
// NaN last in both directions; top_k breaks ties by the lower index; shift_right is arithmetic for signed types;
// integer division by zero gives -1 and its remainder the dividend; float to integer saturates, NaN is 0. A collective
// runs here only in a world of one rank (interp/collective.h has the others). A PreparedNode is used by one thread at a
// time; nodes of one Workspace are never run at the same time.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/thread_team.h"
#include "ir/graph.h"

namespace deepinfer::interp {

// Scratch shared by the nodes of one executable: one region per team member, as large as the hungriest node asks.
// Grows only while nodes are prepared.
class Workspace {
 public:
  explicit Workspace(int members) : regions_(static_cast<size_t>(members)) {}
  void Reserve(size_t bytes_per_member);
  int members() const { return static_cast<int>(regions_.size()); }
  std::byte* Of(int member) { return regions_[static_cast<size_t>(member)].get(); }  // 64-byte aligned
  size_t bytes() const { return capacity_ * regions_.size(); }

 private:
  struct Free {
    void operator()(std::byte* p) const;
  };
  std::vector<std::unique_ptr<std::byte, Free>> regions_;
  size_t capacity_ = 0;
};

class PreparedNode {
 public:
  virtual ~PreparedNode() = default;
  // One pointer per operand and result, to dense row-major data. index_put and dynamic_update_slice may run in place
  // (results[0] == operands[0]). `team` may be null; it has no more members than the node's workspace.
  virtual void Run(const void* const* operands, void* const* results, const ir::LiveCounts& live, ThreadTeam* team) = 0;
  // False where the operand is a constant whose value the node took at preparation: its pointer may be null.
  virtual bool Reads(size_t operand) const {
    (void)operand;
    return true;
  }
};

// Any primitive. Structural ops, mutations and composites are refused with kUnsupported. Without a workspace the node
// has one of its own, for one thread.
Result<std::unique_ptr<PreparedNode>> PrepareNode(const ir::Function& function, const ir::Node& node,
                                                  std::shared_ptr<Workspace> workspace = nullptr);

}  // namespace deepinfer::interp
