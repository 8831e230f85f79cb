// Every op, in every type, on every instruction set of this machine, against the reference backend.
#include <gtest/gtest.h>

#include <set>

#include "base/cpu_features.h"
#include "cpu/cpu_backend.h"
#include "cpu/kernels/linear/amx_emulator.h"
#include "execute.h"
#include "reference/reference.h"

namespace deepinfer::conformance {
namespace {

std::vector<std::string> OpNames() {
  std::vector<std::string> names;
  for (int i = 0; i < ir::kNumOps; ++i) names.push_back(ToString(static_cast<ir::Op>(i)));
  return names;
}

std::vector<Problem> ProblemsOf(const std::string& op) {
  std::vector<Problem> problems;
  for (const std::string& line : AllProblems()) {
    const auto problem = ParseProblem(line);
    EXPECT_TRUE(problem.has_value()) << (problem ? "" : problem.error().ToString());
    if (problem && ToString(problem->op) == op) problems.push_back(*problem);
  }
  return problems;
}

Result<Outcome> OnReference(const Problem& problem) {
  const auto backend = reference::CreateReferenceBackend({.threads = 1, .poison_padding = true});
  return Execute(problem, backend.get());
}

Result<Outcome> OnCpu(const Problem& problem, Isa isa, int threads, Numerics numerics = Numerics::kNative) {
  cpu::CpuBackend backend({.threads = threads, .isa = isa, .numerics = numerics});
  return Execute(problem, &backend);
}

// A composite runs as a kernel, not as its decomposition, unless the line says so: else the kernel was not tested.
void ExpectLowered(const Problem& problem, const Outcome& outcome) {
  if (InfoOf(problem.op).kind != ir::OpKind::kComposite) return;
  EXPECT_EQ(outcome.launches.size() != 1, problem.Has("decomposed"))
      << fmt::format("{}", fmt::join(outcome.launches, "\n"));
}

class ConformanceTest : public testing::TestWithParam<std::string> {};

TEST_P(ConformanceTest, CpuAgreesWithTheReference) {
  const std::vector<Problem> problems = ProblemsOf(GetParam());
  ASSERT_FALSE(problems.empty()) << "problem.cc lists no problem of " << GetParam();
  for (const Problem& problem : problems) {
    SCOPED_TRACE(problem.line);
    const auto want = OnReference(problem);
    if (problem.Has("refused")) {
      ASSERT_FALSE(want.has_value());
      EXPECT_EQ(want.error().code, ErrorCode::kUnsupported);
    } else {
      ASSERT_TRUE(want.has_value()) << want.error().ToString();
    }
    for (const Isa isa : MachineIsas()) {
      // Its products round weights to bf16, beyond the slack. They are those of portable numerics, below; how far they
      // may be off is tested with the kernels.
      if (isa == Isa::kAmx) continue;
      SCOPED_TRACE(ToString(isa));
      const auto got = OnCpu(problem, isa, /*threads=*/1);
      if (problem.Has("refused")) {
        ASSERT_FALSE(got.has_value());
        EXPECT_EQ(got.error().code, ErrorCode::kUnsupported);
        continue;
      }
      ASSERT_TRUE(got.has_value()) << got.error().ToString();
      EXPECT_EQ(Difference(*want, *got, Nearness::kSlack), "") << fmt::format("{}", fmt::join(got->launches, "\n"));
      ExpectLowered(problem, *got);
      const auto threaded = OnCpu(problem, isa, /*threads=*/3);
      ASSERT_TRUE(threaded.has_value()) << threaded.error().ToString();
      EXPECT_EQ(Difference(*got, *threaded, Nearness::kBits), "") << "three threads differ from one";
    }
  }
}

TEST_P(ConformanceTest, PortableNumericsHaveTheSameBitsOnEveryInstructionSet) {
  std::vector<Isa> isas = MachineIsas();
  if (isas.back() == Isa::kAvx512Bf16 && cpu::EnableAmxForTests()) isas.push_back(Isa::kAmx);
  for (const Problem& problem : ProblemsOf(GetParam())) {
    if (problem.Has("refused")) continue;
    SCOPED_TRACE(problem.line);
    const auto floor = OnCpu(problem, Isa::kPortable, /*threads=*/1, Numerics::kPortable);
    ASSERT_TRUE(floor.has_value()) << floor.error().ToString();
    for (const Isa isa : isas) {
      SCOPED_TRACE(ToString(isa));
      const auto got = OnCpu(problem, isa, /*threads=*/2, Numerics::kPortable);
      ASSERT_TRUE(got.has_value()) << got.error().ToString();
      EXPECT_EQ(Difference(*floor, *got, Nearness::kBits), "") << fmt::format("{}", fmt::join(got->launches, "\n"));
    }
  }
}

std::string TestName(const testing::TestParamInfo<std::string>& info) {
  return info.param;
}

INSTANTIATE_TEST_SUITE_P(Ops, ConformanceTest, testing::ValuesIn(OpNames()), TestName);

TEST(ConformanceListTest, LinesAreDistinctAndEveryInstructionSetIsNamed) {
  std::set<std::string> lines;
  for (const std::string& line : AllProblems()) EXPECT_TRUE(lines.insert(line).second) << line;
  std::string have, lack;
  for (const Isa isa : {Isa::kPortable, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16, Isa::kAmx}) {
    (MachineHas(isa) ? have : lack) += std::string(" ") + ToString(isa);
  }
  printf("instruction sets tested:%s; not on this machine:%s\n", have.c_str(), lack.empty() ? " none" : lack.c_str());
}

// The comparison itself must be able to fail.
TEST(ConformanceListTest, AWrongElementIsFound) {
  const Problem problem = *ParseProblem("linear f32 w=q8_0 t=5 live=4 k=64 n=33");
  const auto want = OnReference(problem);
  ASSERT_TRUE(want.has_value()) << want.error().ToString();
  EXPECT_EQ(Difference(*want, *want, Nearness::kBits), "");
  Outcome wrong = *want;
  auto* y = reinterpret_cast<float*>(wrong.outputs.at("out0").data());
  y[3 * 33 + 32] += 1e-3f;
  EXPECT_NE(Difference(*want, wrong, Nearness::kSlack).find("element 131"), std::string::npos);
  wrong = *want;
  reinterpret_cast<float*>(wrong.outputs.at("out0").data())[4 * 33] = 7;  // padding
  EXPECT_EQ(Difference(*want, wrong, Nearness::kSlack), "");
}

}  // namespace
}  // namespace deepinfer::conformance
