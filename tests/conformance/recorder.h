// Builds the graph and the data of a problem.
//
// Recorded once for each backend, with the same data: weights as they are stored where the backend reads that encoding,
// decoded to f32 where it does not. Rows past the live counts hold NaN, or indices out of every range. Deterministic:
// all data follow from the problem's line. Not thread-safe.
#pragma once

#include <map>
#include <random>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "problem.h"

namespace deepinfer::conformance {

using Bytes = std::vector<std::byte>;

// How far a result may be from the reference's, beyond one unit in the last place of its type. Both sides make
// rounding errors of at most 2^-24 of each intermediate, so a slack is a count of such errors times a norm of what is
// summed; the problems say which. No slack: bit-equal.
struct Slack {
  bool exact = true;
  double relative = 0;           // of the value
  std::vector<double> absolute;  // by element, or one for all; infinite: undefined there, not compared
  bool any_zero = false;         // where exact: but a zero may have either sign
};
inline constexpr double kHalfUlp = 0x1p-24;  // of f32

inline Slack Within(double relative, std::vector<double> absolute = {}) {
  return {/*exact=*/false, relative, std::move(absolute)};
}
inline Slack AnyZero() {
  return {/*exact=*/true, 0, {}, /*any_zero=*/true};
}

struct Expected {
  std::string name;
  ir::Type type;
  Slack slack;     // of a backend that shares the reference's elementary functions and its order of sums in primitives
  Slack compiled;  // of one whose functions and orders are another compiler's
};

struct Tensor {
  std::string name;
  ir::Type type;
  Bytes bytes;
  Encoding encoding = Encoding::kF32;  // of a weight
  Slack slack, compiled;               // of a state, after the step
};

class Recorder {
 public:
  // readable: the encodings of weights that stay as they are.
  Recorder(const Problem& problem, std::vector<Encoding> readable);

  ir::Builder& b() { return b_; }
  ir::ModuleBuilder& module() { return module_; }
  std::mt19937& random() { return random_; }

  // Declares live_counts; call it first.
  void Live(int64_t tokens, int64_t rows, int64_t requests);
  // Random metadata: floats are normal times `scale`, integers in [-9, 9].
  ir::Value Random(const std::string& name, ir::Type type, double scale = 1);
  ir::Value Metadata(const std::string& name, ir::Type type, Bytes bytes);
  ir::Value Floats(const std::string& name, std::vector<ir::Dim> dims, const std::vector<float>& values);
  ir::Value Ints(const std::string& name, std::vector<ir::Dim> dims, const std::vector<int32_t>& values);
  // compiled, slack: of what the step leaves there.
  ir::Value State(const std::string& name, ir::Type type, Bytes bytes, Slack compiled = {}, Slack slack = {});
  ir::Value Weight(const std::string& name, const std::vector<int64_t>& shape, Encoding encoding);
  // `value` is the new content of a state.
  void Mutated(ir::Value value, ir::Value state);
  // A result to compare.
  void Out(ir::Value value, Slack slack = {}) { Out(value, slack, slack); }
  void Out(ir::Value value, Slack slack, Slack compiled);

  // The values of an input as f32 (of a weight: decoded), padding included.
  const std::vector<float>& ValuesOf(ir::Value value) const { return values_.at(value.id); }

  std::vector<Tensor> metadata, weights, states;
  std::vector<Expected> outputs;
  ir::LiveCounts live;

 private:
  void Poison(const ir::Type& type, Bytes* bytes) const;

  ir::ModuleBuilder module_;
  ir::Builder b_;
  std::mt19937 random_;
  std::vector<Encoding> readable_;
  std::map<ir::ValueId, std::vector<float>> values_;
};

Bytes RandomBytes(const ir::Type& type, double scale, std::mt19937* random);
std::vector<float> Decode(DType dtype, const Bytes& bytes);
Bytes Encode(DType dtype, const std::vector<float>& values);
double MaxAbs(const std::vector<float>& values);  // of the finite ones
double UlpOf(DType dtype);                        // one unit in the last place, relative to the value

// Records the problem's op.
Status Record(const Problem& problem, Recorder* r);

// The same by family; false if it is of another.
bool RecordComposite(const Problem& problem, Recorder* r);
bool RecordElementwise(const Problem& problem, Recorder* r);
bool RecordPrimitive(const Problem& problem, Recorder* r);
bool RecordStructure(const Problem& problem, Recorder* r);

}  // namespace deepinfer::conformance
