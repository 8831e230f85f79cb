// One op on one set of types and shapes, described in one line: "linear bf16 w=q4_k t=17 live=13 k=256 n=100 bias".
//
// The first word is the op, a word without '=' a type or a flag, the rest parameters. The same lines are tests (every
// backend against the reference) and benchmarks. `t` counts rows of the bucket, `live` those that hold data; what lies
// past them is poison. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/encoding.h"
#include "base/error.h"
#include "ir/op.h"

namespace deepinfer::conformance {

struct Problem {
  std::string line;
  ir::Op op = ir::Op::kNeg;
  DType dtype = DType::kF32;
  std::map<std::string, std::string> params;  // flags have an empty value

  bool Has(const std::string& key) const { return params.count(key) != 0; }
  std::string Str(const std::string& key, const std::string& fallback) const;
  int64_t Int(const std::string& key, int64_t fallback) const;
  double Float(const std::string& key, double fallback) const;
  std::vector<std::string> List(const std::string& key) const;  // "a,b"
  DType Type(const std::string& key, DType fallback) const;
};

Result<Problem> ParseProblem(const std::string& line);
const std::vector<std::string>& AllProblems();  // at least one line for every op of ir/ops.inc

}  // namespace deepinfer::conformance
