// For tests: one small module per primitive and dtype, with inputs that reach its corners. Fixed seeds.
//
// Each is a functionalized, decomposed step whose inputs are metadata (index_put's first operand is a state "s.NAME")
// and whose outputs are "y0", "y1", ... Printing, verification by MLIR and conformance all walk this one list.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"

namespace deepinfer::pjrt {

struct SingleOp {
  std::string name;  // "add.bf16"
  ir::Op op = ir::Op::kNeg;
  ir::Module module;
  std::string error;  // of recording it; a test fails on any
};

std::vector<SingleOp> SingleOps();
// A structural op, printed but not run: custom_call has no target here.
SingleOp CustomCallOp();

// Values for one input: floats in [-3, 3] with zeros, infinities and NaNs where `corners`; i32 near the edges of a
// dimension of 5; live counts are {3, 2, 2}.
std::vector<std::byte> InputData(const ir::Input& input, const ir::Type& type, uint32_t seed, bool corners);

}  // namespace deepinfer::pjrt
