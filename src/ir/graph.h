// The graph: a module of functions in SSA form with static shapes. functions[0] is the step.
//
// Graph inputs have three kinds and no others: weights (bound once), states (mutated by the step; each mutated one is
// an output aliased to its input after functionalize), metadata (host-built, fixed shape and address). Inputs of other
// functions are weights, states or plain arguments. io_map is the only source of every aliasing spelling.
// Plain data; thread-safe to read.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "ir/op.h"
#include "ir/type.h"

namespace deepinfer::ir {

using ValueId = int32_t;
inline constexpr ValueId kNoValue = -1;

using Bytes = std::vector<uint8_t>;
using Attr = std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<std::string>, Bytes>;
using AttrMap = std::map<std::string, Attr>;

enum class InputKind : uint8_t { kWeight, kState, kMetadata, kArgument };
const char* ToString(InputKind kind);

struct Input {
  std::string name;
  InputKind kind = InputKind::kArgument;
  ValueId value = kNoValue;
  // States only: where the bytes lie. Empty buffer: an allocation of its own. K and V of a layer are two disjoint views
  // of one buffer. States of one pool share block ids, so they must agree on everything but the block count.
  std::string buffer;
  int64_t offset = 0;  // in elements
  std::string pool;
};

struct Node {
  Op op = Op::kConstant;
  std::vector<ValueId> operands;
  std::vector<ValueId> results;
  AttrMap attrs;

  // Attribute access; the verifier has checked presence and kind before anyone else looks.
  int64_t Int(const std::string& key, int64_t fallback = 0) const;
  double Float(const std::string& key, double fallback = 0) const;
  std::string Str(const std::string& key, const std::string& fallback = "") const;
  std::vector<int64_t> Ints(const std::string& key) const;
  std::vector<std::string> Strs(const std::string& key) const;
};

struct Output {
  std::string name;
  ValueId value = kNoValue;
};

struct Function {
  std::string name;
  std::vector<Input> inputs;
  std::vector<Type> types;  // by ValueId
  std::vector<Node> nodes;  // in execution order
  std::vector<Output> outputs;

  ValueId AddValue(Type type);
  const Type& TypeOf(ValueId value) const { return types[static_cast<size_t>(value)]; }
  const Input* FindInput(ValueId value) const;
};

// Output `output` of a function is the new content of its state input `input`.
struct Alias {
  int output = 0;
  int input = 0;
  bool operator==(const Alias&) const = default;
};

struct Module {
  std::vector<Function> functions;
  std::map<std::string, std::vector<Alias>> io_map;  // by function name
  ValueId live_counts = kNoValue;                    // of functions[0]: metadata i32[3], live tokens, rows, requests

  Function& entry() { return functions[0]; }
  const Function& entry() const { return functions[0]; }
  const Function* Find(const std::string& name) const;
  Function* Find(const std::string& name);
};

}  // namespace deepinfer::ir
