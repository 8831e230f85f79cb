#include <chrono>

#include "ir/verify.h"
#include "passes/pass.h"

namespace deepinfer::passes {

const std::vector<Pass>& AllPasses() {
  static const std::vector<Pass> kPasses = {
      {"functionalize", Functionalize, "mutation becomes new values; mutated states become aliased outputs"},
      {"expose_calls", ExposeCalls, "debugging: what every call of the step returns becomes an output"},
      {"break_after_calls", BreakAfterCalls, "debugging: every call of the step becomes a break"},
      {"inline_breaks", InlineBreaks, "bodies of breaks become part of the graph"},
      {"inline_calls", InlineCalls, "outlined layers become part of the graph"},
      {"fuse_add_norm", FuseAddNorm, "add + rms_norm becomes add_rms_norm"},
      {"fuse_glu", FuseGlu, "gate and up projections and their glu become gated_linear"},
      {"fuse_rope_kv", FuseRopeKv, "rotations and the writes of K and V become rope_kv_write"},
      {"fuse_linears", FuseLinears, "projections of one input become multi_linear"},
      {"decompose", DecomposeUnclaimed, "composites without a kernel become primitives"},
      {"narrow_dots", NarrowDots, "a dot of two values widened from bf16 reads them as bf16"},
      {"constant_fold", ConstantFold, "nodes of constants become constants"},
      {"cse", EliminateCommonSubexpressions, "equal pure nodes are computed once"},
      {"dce", EliminateDeadCode, "values nobody reads are not computed"},
  };
  return kPasses;
}

namespace {

const Pass* FindPass(const std::string& name) {
  for (const Pass& pass : AllPasses()) {
    if (name == pass.name) return &pass;
  }
  return nullptr;
}

}  // namespace

Result<std::vector<PassReport>> RunPipeline(ir::Module* module, const PassContext& context,
                                            const PipelineOptions& options) {
  std::vector<PassReport> reports;
  for (const std::string& name : options.passes) {
    const Pass* pass = FindPass(name);
    if (pass == nullptr) return MakeError(ErrorCode::kInvalidArgument, "passes", "no pass named '{}'", name);
    if (options.skip.count(name) != 0) continue;
    const auto start = std::chrono::steady_clock::now();
    auto changed = pass->run(module, context);
    if (!changed) {
      Error error = changed.error();
      error.where = "pass " + name + (error.where.empty() ? "" : ", " + error.where);
      return tl::unexpected(std::move(error));
    }
    if (auto verified = ir::Verify(*module); !verified) {
      return MakeError(ErrorCode::kInternal, "after pass " + name, "{}", verified.error().ToString());
    }
    const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - start;
    reports.push_back({name, *changed, elapsed.count()});
    if (*changed && options.after) options.after(name, *module);
  }
  return reports;
}

}  // namespace deepinfer::passes
