// Graph-to-graph rewrites and the pipeline that runs them.
//
// A pass is one function in one file and one line in AllPasses(). It says whether it changed anything; after it the
// module is verified. The pipeline times each, can skip by name and can hand the text after a pass to a sink. Passes
// know no backend: what a backend has kernels for comes in through PassContext. Pure; thread-safe on distinct modules.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "ir/graph.h"

namespace deepinfer::passes {

struct PassContext {
  // Does the backend have a kernel for this composite? Default: none.
  std::function<bool(const ir::Function&, const ir::Node&)> claims;
};

using PassFunction = Result<bool> (*)(ir::Module* module, const PassContext& context);

struct Pass {
  const char* name;
  PassFunction run;
  const char* what;  // one line for people
};

const std::vector<Pass>& AllPasses();

Result<bool> Functionalize(ir::Module* module, const PassContext& context);
Result<bool> InlineCalls(ir::Module* module, const PassContext& context);
Result<bool> InlineBreaks(ir::Module* module, const PassContext& context);
Result<bool> DecomposeUnclaimed(ir::Module* module, const PassContext& context);
Result<bool> FuseAddNorm(ir::Module* module, const PassContext& context);
Result<bool> FuseGlu(ir::Module* module, const PassContext& context);
Result<bool> FuseRopeKv(ir::Module* module, const PassContext& context);
Result<bool> FuseLinears(ir::Module* module, const PassContext& context);
Result<bool> NarrowDots(ir::Module* module, const PassContext& context);
Result<bool> ConstantFold(ir::Module* module, const PassContext& context);
Result<bool> EliminateCommonSubexpressions(ir::Module* module, const PassContext& context);
Result<bool> EliminateDeadCode(ir::Module* module, const PassContext& context);
Result<bool> BreakAfterCalls(ir::Module* module, const PassContext& context);

// Outputs that expose_calls adds: "call.3", the call's place in the step ("call.3.1" where there are several results).
// The callee is no part of the name: it depends on the weights' encodings, which differ between backends.
inline constexpr char kExposedPrefix[] = "call.";
Result<bool> ExposeCalls(ir::Module* module, const PassContext& context);

struct PassReport {
  std::string name;
  bool changed = false;
  double ms = 0;
};

struct PipelineOptions {
  std::vector<std::string> passes;  // in order; an unknown name is an error
  std::set<std::string> skip;
  // Called after every pass that changed something, with the pass's name; may be null.
  std::function<void(const std::string&, const ir::Module&)> after;
};

Result<std::vector<PassReport>> RunPipeline(ir::Module* module, const PassContext& context,
                                            const PipelineOptions& options);

}  // namespace deepinfer::passes
