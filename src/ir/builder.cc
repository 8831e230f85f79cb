#include "ir/builder.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "base/half.h"
#include "ir/infer.h"
#include "ir/verify.h"

namespace deepinfer::ir {
namespace {

template <class T>
Bytes BytesOf(T value) {
  Bytes bytes(sizeof(T));
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

Bytes EncodeScalar(DType dtype, double value) {
  switch (dtype) {
    case DType::kI1:
      return {static_cast<uint8_t>(value != 0)};
    case DType::kI8:
      return BytesOf(static_cast<int8_t>(value));
    case DType::kU8:
      return BytesOf(static_cast<uint8_t>(value));
    case DType::kI32:
      return BytesOf(static_cast<int32_t>(value));
    case DType::kU32:
      return BytesOf(static_cast<uint32_t>(value));
    case DType::kI64:
      return BytesOf(static_cast<int64_t>(value));
    case DType::kF8E4M3:
      return BytesOf(F32ToF8E4M3(static_cast<float>(value)));
    case DType::kF16:
      return BytesOf(F32ToF16(static_cast<float>(value)));
    case DType::kBF16:
      return BytesOf(F32ToBF16(static_cast<float>(value)));
    case DType::kF32:
      return BytesOf(static_cast<float>(value));
  }
  return {};
}

template <class T>
Bytes BytesOfAll(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

}  // namespace

Builder::Builder(ModuleBuilder* module, std::string name) : module_(module), index_(module->module_.functions.size()) {
  module->module_.functions.emplace_back().name = std::move(name);
}

Function& Builder::function() {
  return module_->module_.functions[index_];
}

void Builder::Fail(Error error) {
  if (module_->error_ == nullptr) {
    error.where = "function '" + function().name + "'" + (error.where.empty() ? "" : ", op " + error.where);
    module_->error_ = std::make_unique<Error>(std::move(error));
  }
}

Value Builder::Input(std::string name, InputKind kind, Type type) {
  if (!type.Addressable()) {
    Fail({ErrorCode::kInvalidArgument, ToString(type) + " is no possible size", "input '" + name + "'"});
    type = Type(type.dtype, {});
  }
  Function& f = function();
  const ValueId id = f.AddValue(std::move(type));
  ir::Input input;
  input.name = std::move(name);
  input.kind = kind;
  input.value = id;
  f.inputs.push_back(std::move(input));
  return {id};
}

Value Builder::StateView(std::string name, Type type, std::string buffer, int64_t offset, std::string pool) {
  const Value value = Input(std::move(name), InputKind::kState, std::move(type));
  ir::Input& input = function().inputs.back();
  input.buffer = std::move(buffer);
  input.offset = offset;
  input.pool = std::move(pool);
  return value;
}

void Builder::Output(std::string name, Value value) {
  if (value.valid()) {
    function().outputs.push_back({std::move(name), value.id});
  } else {
    Fail({ErrorCode::kInternal, "output '" + name + "' has no value", ""});
  }
}

const Type& Builder::TypeOf(Value value) const {
  if (!value.valid()) return invalid_type_;
  return module_->module_.functions[index_].TypeOf(value.id);
}

std::vector<Value> Builder::EmitAll(Op op, const std::vector<Value>& operands, AttrMap attrs,
                                    std::vector<Type> declared) {
  Function& f = function();
  Node node;
  node.op = op;
  node.attrs = std::move(attrs);
  std::vector<Type> types;
  for (const Value operand : operands) {
    if (!operand.valid()) {
      Fail({ErrorCode::kInternal, "an operand has no value", ToString(op)});
      return {};
    }
    node.operands.push_back(operand.id);
    types.push_back(f.TypeOf(operand.id));
  }
  auto inferred = InferTypes(module_->module_, node, types, declared);
  if (!inferred) {
    Fail(inferred.error());
    return {};
  }
  std::vector<Value> results;
  for (Type& type : *inferred) {
    node.results.push_back(f.AddValue(std::move(type)));
    results.push_back({node.results.back()});
  }
  f.nodes.push_back(std::move(node));
  return results;
}

Value Builder::Emit(Op op, const std::vector<Value>& operands, AttrMap attrs, std::vector<Type> declared) {
  const std::vector<Value> results = EmitAll(op, operands, std::move(attrs), std::move(declared));
  return results.empty() ? Value{} : results[0];
}

Value Builder::Splat(Type type, double value) {
  Bytes bytes = EncodeScalar(type.dtype, value);
  return Emit(Op::kConstant, {}, {{"value", std::move(bytes)}}, {std::move(type)});
}

Value Builder::ConstantF32(const std::vector<float>& values) {
  return Emit(Op::kConstant, {}, {{"value", BytesOfAll(values)}},
              {Type(DType::kF32, {static_cast<int64_t>(values.size())})});
}

Value Builder::ConstantI32(const std::vector<int32_t>& values) {
  return Emit(Op::kConstant, {}, {{"value", BytesOfAll(values)}},
              {Type(DType::kI32, {static_cast<int64_t>(values.size())})});
}

Value Builder::Convert(Value x, DType dtype) {
  if (!x.valid() || (TypeOf(x).dtype == dtype && !TypeOf(x).encoding)) return x;
  return Emit(Op::kConvert, {x}, {}, {TypeOf(x).WithDType(dtype)});
}

Value Builder::Reshape(Value x, std::vector<Dim> dims) {
  return Emit(Op::kReshape, {x}, {}, {Type(TypeOf(x).dtype, std::move(dims))});
}

Value Builder::Broadcast(Value x, std::vector<Dim> dims, std::vector<int64_t> mapped) {
  return Emit(Op::kBroadcastInDim, {x}, {{"dims", std::move(mapped)}}, {Type(TypeOf(x).dtype, std::move(dims))});
}

Value Builder::Slice(Value x, int dim, int64_t start, int64_t limit) {
  std::vector<int64_t> starts(TypeOf(x).dims.size(), 0);
  std::vector<int64_t> limits = TypeOf(x).Shape();
  std::vector<int64_t> strides(starts.size(), 1);
  if (dim >= 0 && dim < static_cast<int>(starts.size())) {
    starts[dim] = start;
    limits[dim] = limit;
  }
  return Emit(Op::kSlice, {x}, {{"start", starts}, {"limit", limits}, {"stride", strides}});
}

Value Builder::Dot(Value lhs, Value rhs, std::vector<int64_t> lhs_batch, std::vector<int64_t> rhs_batch,
                   std::vector<int64_t> lhs_contract, std::vector<int64_t> rhs_contract, DType dtype) {
  return Emit(Op::kDotGeneral, {lhs, rhs},
              {{"lhs_batch", std::move(lhs_batch)},
               {"rhs_batch", std::move(rhs_batch)},
               {"lhs_contract", std::move(lhs_contract)},
               {"rhs_contract", std::move(rhs_contract)},
               {"dtype", std::string(ToString(dtype))}});
}

void Builder::IndexPut(Value state, const std::vector<Value>& indices, Value rows, std::vector<int64_t> dims) {
  std::vector<Value> operands = {state};
  operands.insert(operands.end(), indices.begin(), indices.end());
  operands.push_back(rows);
  EmitAll(Op::kIndexPutInplace, operands, {{"dims", std::move(dims)}});
}

Builder ModuleBuilder::Entry(std::string name) {
  DI_CHECK(module_.functions.empty());
  return Builder(this, std::move(name));
}

Builder ModuleBuilder::Function(std::string name) {
  DI_CHECK(!module_.functions.empty());
  return Builder(this, std::move(name));
}

Result<Module> ModuleBuilder::Finish() {
  if (error_ != nullptr) return tl::unexpected(*error_);
  DI_RETURN_IF_ERROR(Verify(module_));
  return std::move(module_);
}

}  // namespace deepinfer::ir
