// Every op, in every type, is printed as StableHLO. tests/pjrt/check_stablehlo.py has MLIR verify what is printed.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "passes/pass.h"
#include "pjrt/keep_module.h"
#include "pjrt/stablehlo.h"
#include "recorder.h"

namespace deepinfer::conformance {
namespace {

Result<ir::Module> Decomposed(const Problem& problem) {
  Recorder r(problem, {Encoding::kF32, Encoding::kBF16});
  DI_RETURN_IF_ERROR(Record(problem, &r));
  DI_ASSIGN_OR_RETURN(ir::Module module, r.module().Finish());
  DI_RETURN_IF_ERROR(passes::RunPipeline(&module, {}, {{"functionalize", "decompose"}, {}, {}}));
  return module;
}

TEST(StableHloProblemsTest, EveryOpIsPrinted) {
  std::set<ir::Op> printed;
  for (const std::string& line : AllProblems()) {
    SCOPED_TRACE(line);
    const auto problem = ParseProblem(line);
    ASSERT_TRUE(problem.has_value()) << problem.error().ToString();
    const auto module = Decomposed(*problem);
    ASSERT_TRUE(module.has_value()) << module.error().ToString();
    const auto text = pjrt::PrintStableHlo(*module);
    ASSERT_TRUE(text.has_value()) << text.error().ToString();
    EXPECT_EQ(*text, *pjrt::PrintStableHlo(*module));
    std::string name = line;
    std::replace(name.begin(), name.end(), ' ', '.');
    pjrt::KeepModule(name, *text);
    for (const ir::Function& function : module->functions) {
      for (const ir::Node& node : function.nodes) printed.insert(node.op);
    }
  }
  for (int i = 0; i < ir::kNumOps; ++i) {
    const auto op = static_cast<ir::Op>(i);
    const ir::OpKind kind = InfoOf(op).kind;
    const bool remains = kind == ir::OpKind::kPrimitive || kind == ir::OpKind::kStructural;
    EXPECT_EQ(printed.count(op) != 0, remains) << ToString(op);
  }
}

}  // namespace
}  // namespace deepinfer::conformance
