// What is known of a function before its inputs have addresses: a prepared node per primitive, which values share
// memory, where each value lies in the function's frame, and the contents of its constants. For src/reference only.
//
// Functions do not recurse, so each has one frame and every call of it uses the same one (with several ranks: one per
// rank). What a node reads and what it writes lie apart, but for states. Immutable once made.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "interp/collective.h"
#include "interp/interp.h"
#include "ir/callees.h"
#include "ir/graph.h"

namespace deepinfer::reference {

struct FunctionPlan {
  const ir::Function* function = nullptr;
  // By node: one of them, or none for structure, constants and views. Collectives of one rank alone are nodes.
  std::vector<std::unique_ptr<interp::PreparedNode>> nodes;
  std::vector<std::unique_ptr<interp::PreparedCollective>> collectives;
  std::vector<ir::ValueId> root;                            // the value whose memory a value uses
  std::vector<int64_t> offset;                              // by root: bytes into the frame, or -1
  std::map<ir::ValueId, std::vector<std::byte>> constants;  // only those that some node reads
  int64_t frame_bytes = 0;
  int64_t frame_base = 0;  // of this frame in the executable's arena

  bool IsState(ir::ValueId value) const;  // lies in a state input's memory
};

// Aliases of a call, break or case, as pairs of result and operand; callees are named by the node (ir/callees.h).
size_t FirstCallOperand(const ir::Node& node);
std::vector<ir::Alias> AliasesOf(const ir::Module& module, const ir::Node& node);

// kUnsupported for what only passes can remove (composites, index_put_) and for custom_call.
Result<FunctionPlan> PlanFunction(const ir::Module& module, const ir::Function& function,
                                  const std::shared_ptr<interp::Workspace>& workspace);

}  // namespace deepinfer::reference
