// Records functions of a module, op by op, inferring types as it goes.
//
// Errors are sticky: the first one is kept (with the op and the function), later calls return invalid values, and
// ModuleBuilder::Finish reports it. So a model file with impossible shapes ends in an error, never in a crash, and
// recording code needs no checks of its own. Not thread-safe; one builder per recording.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "ir/graph.h"

namespace deepinfer::ir {

class ModuleBuilder;

// A value of the function being recorded.
struct Value {
  ValueId id = kNoValue;
  bool valid() const { return id != kNoValue; }
};

class Builder {
 public:
  Builder(ModuleBuilder* module, std::string name);

  // Inputs, in order.
  Value Input(std::string name, InputKind kind, Type type);
  // A state that is a view of `buffer` at `offset` elements; pool: see ir::Input.
  Value StateView(std::string name, Type type, std::string buffer, int64_t offset, std::string pool);
  void Output(std::string name, Value value);

  const Type& TypeOf(Value value) const;

  // Any op. Declared types are needed only by the ops that infer.h lists.
  std::vector<Value> EmitAll(Op op, const std::vector<Value>& operands, AttrMap attrs = {},
                             std::vector<Type> declared = {});
  Value Emit(Op op, const std::vector<Value>& operands, AttrMap attrs = {}, std::vector<Type> declared = {});

  // Constants. Splat: one value everywhere.
  Value Splat(Type type, double value);
  Value Scalar(DType dtype, double value) { return Splat(Type(dtype, {}), value); }
  Value ConstantF32(const std::vector<float>& values);  // f32[n]
  Value ConstantI32(const std::vector<int32_t>& values);

  // Shorthands used by decompositions and models.
  Value Convert(Value x, DType dtype);  // x itself if it has the type
  Value Reshape(Value x, std::vector<Dim> dims);
  Value Broadcast(Value x, std::vector<Dim> dims, std::vector<int64_t> mapped);
  Value Transpose(Value x, std::vector<int64_t> perm) { return Emit(Op::kTranspose, {x}, {{"perm", std::move(perm)}}); }
  Value Slice(Value x, int dim, int64_t start, int64_t limit);
  Value Iota(Type type, int64_t dim) { return Emit(Op::kIota, {}, {{"dim", dim}}, {std::move(type)}); }
  Value Compare(Value a, Value b, const char* direction) {
    return Emit(Op::kCompare, {a, b}, {{"direction", std::string(direction)}});
  }
  Value Reduce(Value x, const char* kind, std::vector<int64_t> dims) {
    return Emit(Op::kReduce, {x}, {{"kind", std::string(kind)}, {"dims", std::move(dims)}});
  }
  // a op constant, elementwise.
  Value WithScalar(Op op, Value a, double constant) { return Emit(op, {a, Splat(TypeOf(a), constant)}); }
  // x[T,K] . w[N,K]^T and its batched forms.
  Value Dot(Value lhs, Value rhs, std::vector<int64_t> lhs_batch, std::vector<int64_t> rhs_batch,
            std::vector<int64_t> lhs_contract, std::vector<int64_t> rhs_contract, DType dtype);

  void IndexPut(Value state, const std::vector<Value>& indices, Value rows, std::vector<int64_t> dims);
  std::vector<Value> Call(const std::string& callee, const std::vector<Value>& operands) {
    return EmitAll(Op::kCall, operands, {{"callee", callee}});
  }
  // A break: `body` is a recorded function; a host function registered under `name` may stand in for it.
  std::vector<Value> EagerBreak(const std::string& name, const std::string& body, const std::vector<Value>& operands) {
    return EmitAll(Op::kBreak, operands, {{"name", name}, {"body", body}});
  }

  // Reports an error of the recording code itself (a config that cannot be expressed).
  void Fail(Error error);

 private:
  friend class ModuleBuilder;
  Function& function();

  ModuleBuilder* module_;
  size_t index_;
  Type invalid_type_;
};

class ModuleBuilder {
 public:
  ModuleBuilder() = default;
  ModuleBuilder(const ModuleBuilder&) = delete;

  // The first function recorded with Entry() becomes functions[0]. Callees must be recorded before they are called.
  Builder Entry(std::string name = "step");
  Builder Function(std::string name);
  bool HasFunction(const std::string& name) const { return module_.Find(name) != nullptr; }
  void SetLiveCounts(Value metadata) { module_.live_counts = metadata.id; }
  // For graphs that are recorded with mutation as values: an output is the new content of a state.
  void AddAlias(const std::string& function, Alias alias) { module_.io_map[function].push_back(alias); }

  const Module& module() const { return module_; }
  Result<Module> Finish();  // verified (ir/verify.h); the builder is empty afterwards

 private:
  friend class Builder;
  Module module_;
  std::unique_ptr<Error> error_;
};

}  // namespace deepinfer::ir
