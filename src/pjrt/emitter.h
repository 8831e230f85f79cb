// Writes the body of one StableHLO function, op by op, and holds the idioms that several primitives share.
//
// Numbers are computed as the interpreter computes them: floats narrower than f32 are widened, computed in f32 and
// rounded once (f8e4m3fn saturates, so it is clamped first: XLA's own conversion gives NaN beyond 448); what StableHLO
// leaves to the implementation (float to integer out of range, integer division by zero) is written out. What lies past
// a tag's live count is garbage, so an op that would mix it into live elements masks it with LiveMask. For src/pjrt
// only; one emitter per function, not thread-safe.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace deepinfer::pjrt {

// A value of the printed function.
struct Val {
  std::string name;  // "%arg0", "%12"
  ir::Type type;
};
using Vals = std::vector<Val>;

class Emitter {
 public:
  explicit Emitter(int indent) : indent_(static_cast<size_t>(indent), ' ') {}

  // i32[3]; set before anything is emitted, if the module has live counts.
  void SetLiveCounts(Val live) { live_counts_ = std::move(live); }
  const Val* live_counts() const { return live_counts_.name.empty() ? nullptr : &live_counts_; }

  // "op"(operands) <{attrs}> (regions) : (types) -> (results). `attrs` may be empty.
  Vals EmitAll(const std::string& op, const Vals& operands, const std::vector<ir::Type>& results,
               const std::string& attrs = "", const std::vector<std::string>& regions = {});
  Val Emit(const std::string& op, const Vals& operands, const ir::Type& result, const std::string& attrs = "",
           const std::vector<std::string>& regions = {}) {
    return EmitAll(op, operands, {result}, attrs, regions)[0];
  }
  // The result has the type of the first operand.
  Val Same(const std::string& op, const Vals& operands) { return Emit(op, operands, operands[0].type); }
  // A region with one block: `body` gets its arguments and returns what the block returns, by "stablehlo.return".
  std::string Region(const std::vector<ir::Type>& arguments, const std::function<Vals(const Vals&)>& body);
  // Two scalars combined by one op.
  std::string BinaryRegion(DType dtype, const char* op);
  void Return(const char* op, const Vals& values);

  Val Constant(const ir::Type& type, const ir::Bytes& bytes);
  Val Splat(const ir::Type& type, double value);  // floats and small integers
  Val SplatInt(const ir::Type& type, int64_t value);
  Val Broadcast(const Val& scalar, const ir::Type& type);
  Val Iota(const ir::Type& type, int64_t dim);
  Val Reshape(const Val& x, std::vector<ir::Dim> dims);
  Val Select(const Val& condition, const Val& yes, const Val& no);
  Val Compare(const Val& a, const Val& b, const std::string& direction);  // "eq", "lt", ...
  Val Convert(const Val& x, DType to);
  // f32 (or an integer, which stays as it is) of a value that is computed with.
  Val Widen(const Val& x) { return IsFloat(x.type.dtype) ? Convert(x, DType::kF32) : x; }
  // i1 of the shape of `like`: is the index along `dim`, which has a tag, below the tag's live count?
  Val LiveMask(const ir::Type& like, int64_t dim);
  bool NeedsMask(const ir::Dim& dim) const { return live_counts() != nullptr && dim.tag != ir::DimTag::kNone; }

  std::string Take() { return std::move(out_); }

 private:
  std::string NewName() { return "%" + std::to_string(next_++); }
  Val LiveCount(ir::DimTag tag);
  Val FloatToInteger(const Val& x, DType to);

  std::string out_;
  std::string indent_;
  int next_ = 0;
  Val live_counts_;
  Val live_[ir::kNumTags];  // scalars, once made
};

}  // namespace deepinfer::pjrt
