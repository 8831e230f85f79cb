#include "pjrt/single_ops.h"

#include <cstring>
#include <functional>
#include <limits>
#include <random>

#include "base/half.h"
#include "ir/builder.h"
#include "ir/collective.h"
#include "passes/pass.h"

namespace deepinfer::pjrt {
namespace {

using ir::AttrMap;
using ir::Builder;
using ir::Dim;
using ir::Op;
using ir::Type;
using ir::Value;

constexpr DType kFloats[] = {DType::kF8E4M3, DType::kF16, DType::kBF16, DType::kF32};
constexpr DType kIntegers[] = {DType::kI8, DType::kU8, DType::kI32, DType::kU32, DType::kI64};
constexpr DType kAll[] = {DType::kI1,  DType::kI8,     DType::kU8,  DType::kI32,  DType::kU32,
                          DType::kI64, DType::kF8E4M3, DType::kF16, DType::kBF16, DType::kF32};
using Ints = std::vector<int64_t>;

class List {
 public:
  using Record = std::function<std::vector<Value>(Builder&)>;

  void Add(const std::string& name, Op op, const Record& record, bool live = false) {
    ir::ModuleBuilder module;
    Builder b = module.Entry();
    if (live) module.SetLiveCounts(b.Input("live_counts", ir::InputKind::kMetadata, Type(DType::kI32, {3})));
    const std::vector<Value> results = record(b);
    for (size_t i = 0; i < results.size(); ++i) b.Output("y" + std::to_string(i), results[i]);
    Finish(name, op, &module);
  }
  void Finish(const std::string& name, Op op, ir::ModuleBuilder* module) {
    SingleOp item;
    item.name = name;
    item.op = op;
    if (auto built = module->Finish()) {
      item.module = *std::move(built);
      const auto done = passes::Functionalize(&item.module, {});
      if (!done) item.error = done.error().ToString();
    } else {
      item.error = built.error().ToString();
    }
    items.push_back(std::move(item));
  }
  // Inputs of the given types, then the op.
  void Plain(Op op, const std::string& what, const std::vector<Type>& inputs, const AttrMap& attrs = {},
             const std::vector<Type>& declared = {}, bool live = false) {
    Add(
        std::string(ToString(op)) + "." + what, op,
        [&](Builder& b) {
          std::vector<Value> values;
          for (size_t i = 0; i < inputs.size(); ++i) {
            values.push_back(b.Input("x" + std::to_string(i), ir::InputKind::kMetadata, inputs[i]));
          }
          return b.EmitAll(op, values, attrs, declared);
        },
        live);
  }

  std::vector<SingleOp> items;
};

void AddElementwise(List* list) {
  const std::vector<Dim> dims = {4, 5};
  for (const DType dtype : kFloats) {
    const Type type(dtype, dims);
    for (const Op op : {Op::kNeg, Op::kAbs, Op::kExp, Op::kLog, Op::kTanh, Op::kSqrt, Op::kRsqrt, Op::kSin, Op::kCos,
                        Op::kLogistic, Op::kFloor}) {
      list->Plain(op, ToString(dtype), {type});
    }
    for (const Op op : {Op::kAdd, Op::kSub, Op::kMul, Op::kDiv, Op::kRem, Op::kPow, Op::kMax, Op::kMin}) {
      list->Plain(op, ToString(dtype), {type, type});
    }
  }
  for (const DType dtype : kIntegers) {
    const Type type(dtype, dims);
    for (const Op op : {Op::kNeg, Op::kAbs, Op::kNot}) list->Plain(op, ToString(dtype), {type});
    for (const Op op : {Op::kAdd, Op::kSub, Op::kMul, Op::kDiv, Op::kRem, Op::kMax, Op::kMin, Op::kAnd, Op::kOr,
                        Op::kXor, Op::kShiftLeft, Op::kShiftRight}) {
      list->Plain(op, ToString(dtype), {type, type});
    }
  }
  const Type bits(DType::kI1, dims);
  list->Plain(Op::kNot, "i1", {bits});
  for (const Op op : {Op::kAnd, Op::kOr, Op::kXor}) list->Plain(op, "i1", {bits, bits});
  for (const DType dtype : kAll) {
    const Type type(dtype, dims);
    for (const char* direction : {"eq", "ne", "lt", "le", "gt", "ge"}) {
      list->Plain(Op::kCompare, std::string(direction) + "." + ToString(dtype), {type, type},
                  {{"direction", std::string(direction)}});
    }
    list->Plain(Op::kSelect, ToString(dtype), {bits, type, type});
    for (const DType to : kAll) {
      const std::string what = std::string(ToString(dtype)) + "_to_" + ToString(to);
      list->Plain(Op::kConvert, what, {type}, {}, {type.WithDType(to)});
      if (SizeOf(dtype) == SizeOf(to)) list->Plain(Op::kBitcastConvert, what, {type}, {}, {type.WithDType(to)});
    }
  }
}

void AddShape(List* list) {
  for (const DType dtype : kAll) {
    const std::string name = ToString(dtype);
    const Type type(dtype, {4, 5});
    ir::Bytes bytes(static_cast<size_t>(type.Bytes()));
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = dtype == DType::kI1 ? i % 3 == 0 : static_cast<uint8_t>(i);
    list->Plain(Op::kConstant, name, {}, {{"value", bytes}}, {type});
    bytes.resize(SizeOf(dtype));
    list->Plain(Op::kConstant, "splat." + name, {}, {{"value", bytes}}, {type});
    list->Plain(Op::kConstant, "scalar." + name, {}, {{"value", bytes}}, {Type(dtype, {})});
    list->Plain(Op::kConstant, "empty." + name, {}, {{"value", ir::Bytes()}}, {Type(dtype, {0, 3})});
    if (dtype != DType::kI1) list->Plain(Op::kIota, name, {}, {{"dim", int64_t{1}}}, {type});
    list->Plain(Op::kReshape, name, {type}, {}, {Type(dtype, {2, 10})});
    list->Plain(Op::kBroadcastInDim, name, {Type(dtype, {4, 1})}, {{"dims", Ints{0, 2}}}, {Type(dtype, {4, 3, 5})});
    list->Plain(Op::kTranspose, name, {Type(dtype, {4, 5, 2})}, {{"perm", Ints{2, 0, 1}}});
    list->Plain(Op::kSlice, name, {type}, {{"start", Ints{1, 0}}, {"limit", Ints{4, 5}}, {"stride", Ints{1, 2}}});
    list->Plain(Op::kConcatenate, name, {type, Type(dtype, {4, 2})}, {{"dim", int64_t{1}}});
    list->Plain(Op::kPad, name, {type, Type(dtype, {})}, {{"low", Ints{1, 0}}, {"high", Ints{0, 2}}});
    const Type at(DType::kI32, {});
    list->Plain(Op::kDynamicSlice, name, {type, at, at}, {{"sizes", Ints{2, 3}}});
    list->Plain(Op::kDynamicUpdateSlice, name, {type, Type(dtype, {2, 3}), at, at});
  }
  list->Plain(Op::kBroadcastInDim, "scalar", {Type(DType::kF32, {})}, {{"dims", Ints{}}}, {Type(DType::kF32, {2, 3})});
}

// Of a world of one rank, which any backend runs.
void AddCollectives(List* list) {
  for (const DType dtype : kAll) {
    const std::string name = ToString(dtype);
    const Type type(dtype, {4, 6});
    if (dtype != DType::kI1) {
      for (const char* kind : {"sum", "max"}) {
        const AttrMap attrs = {{"kind", std::string(kind)}, {"dim", int64_t{1}}};
        list->Plain(Op::kReduceScatter, kind + ("." + name), {type}, ir::OverAllRanks(1, attrs));
        list->Plain(Op::kAllReduce, kind + ("." + name), {type}, ir::OverAllRanks(1, {{"kind", std::string(kind)}}));
      }
    }
    list->Plain(Op::kAllGather, name, {type}, ir::OverAllRanks(1, {{"dim", int64_t{0}}}));
    list->Plain(Op::kAllToAll, name, {type},
                ir::OverAllRanks(1, {{"split_dim", int64_t{0}}, {"concat_dim", int64_t{1}}}));
  }
}

AttrMap DotAttrs(Ints lhs_batch, Ints rhs_batch, Ints lhs_contract, Ints rhs_contract, const std::string& dtype) {
  AttrMap attrs = {{"lhs_batch", std::move(lhs_batch)},
                   {"rhs_batch", std::move(rhs_batch)},
                   {"lhs_contract", std::move(lhs_contract)},
                   {"rhs_contract", std::move(rhs_contract)}};
  if (!dtype.empty()) attrs["dtype"] = dtype;
  return attrs;
}

void AddContractions(List* list) {
  const Dim tokens(5, ir::DimTag::kTokens);
  for (const DType dtype : kFloats) {
    const std::string name = ToString(dtype);
    list->Plain(Op::kDotGeneral, name, {Type(dtype, {4, 7}), Type(dtype, {3, 7})}, DotAttrs({}, {}, {1}, {1}, ""));
    list->Plain(Op::kDotGeneral, "batch." + name, {Type(dtype, {2, 4, 7}), Type(dtype, {7, 2, 3})},
                DotAttrs({0}, {1}, {2}, {0}, "f32"));
    list->Plain(Op::kDotGeneral, "outer." + name, {Type(dtype, {4}), Type(dtype, {3})}, DotAttrs({}, {}, {}, {}, ""));
    list->Plain(Op::kDotGeneral, "live." + name, {Type(dtype, {4, tokens}), Type(dtype, {3, tokens})},
                DotAttrs({}, {}, {1}, {1}, ""), {}, true);
  }
  for (const DType dtype : kAll) {
    const std::string name = ToString(dtype);
    const bool logical = dtype == DType::kI1;
    for (const char* kind : {"sum", "max", "min", "and", "or"}) {
      if (logical != (kind[0] == 'a' || kind[0] == 'o')) continue;
      const AttrMap attrs = {{"kind", std::string(kind)}, {"dims", Ints{1}}};
      list->Plain(Op::kReduce, std::string(kind) + "." + name, {Type(dtype, {4, 5, 2})}, attrs);
      list->Plain(Op::kReduce, std::string(kind) + ".live." + name, {Type(dtype, {4, tokens, 2})}, attrs, {}, true);
    }
    if (!logical) {
      list->Plain(Op::kCumsum, name, {Type(dtype, {4, 5, 2})}, {{"dim", int64_t{1}}});
      list->Plain(Op::kCumsum, "long." + name, {Type(dtype, {2, 300})}, {{"dim", int64_t{1}}});
    }
  }
}

void AddIndexing(List* list) {
  const Dim tokens(4, ir::DimTag::kTokens);
  for (const DType dtype : kAll) {
    const std::string name = ToString(dtype);
    list->Plain(Op::kTake, name, {Type(dtype, {5, 3}), Type(DType::kI32, {2, 4})});
    list->Plain(Op::kTake, "vector." + name, {Type(dtype, {5}), Type(DType::kI32, {})});
    list->Plain(Op::kTake, "empty." + name, {Type(dtype, {0, 3}), Type(DType::kI32, {4})});
    for (const int64_t descending : {0, 1}) {
      const std::string way = descending != 0 ? "down." : "up.";
      const AttrMap attrs = {{"dim", int64_t{1}}, {"descending", descending}};
      list->Plain(Op::kSort, way + name, {Type(dtype, {3, 9}), Type(DType::kI32, {3, 9})}, attrs);
      const AttrMap first = {{"dim", int64_t{0}}, {"descending", descending}};
      list->Plain(Op::kSort, way + "live." + name, {Type(dtype, {tokens, 2}), Type(DType::kI32, {tokens, 2})}, first,
                  {}, true);
    }
    list->Plain(Op::kTopK, name, {Type(dtype, {3, 9})}, {{"k", int64_t{4}}});
    for (const bool live : {false, true}) {
      const Dim count = live ? tokens : Dim(4);
      const std::string what = "index_put." + std::string(live ? "live." : "") + name;
      list->Add(
          what, Op::kIndexPut,
          [&](Builder& b) {
            const Value s = b.Input("s." + what, ir::InputKind::kState, Type(dtype, {5, 2, 5}));
            const Value i = b.Input("x0", ir::InputKind::kMetadata, Type(DType::kI32, {count}));
            const Value j = b.Input("x1", ir::InputKind::kMetadata, Type(DType::kI32, {count}));
            const Value rows = b.Input("x2", ir::InputKind::kMetadata, Type(dtype, {count, 2}));
            b.IndexPut(s, {i, j}, rows, {0, 2});
            return std::vector<Value>{b.Transpose(s, {1, 0, 2})};
          },
          live);
    }
  }
}

void AddStructure(List* list) {
  const Type type(DType::kF32, {4, Dim(5, ir::DimTag::kTokens)});
  const auto function = [&](ir::ModuleBuilder* module, const std::string& name, const char* kind) {
    Builder b = module->Function(name);
    const Value x = b.Input("x", ir::InputKind::kArgument, type);
    b.Output("y", b.Reduce(x, kind, {1}));
  };
  for (const Op op : {Op::kCall, Op::kBreak, Op::kCase}) {
    ir::ModuleBuilder module;
    Builder b = module.Entry();
    const Value live = b.Input("live_counts", ir::InputKind::kMetadata, Type(DType::kI32, {3}));
    module.SetLiveCounts(live);
    function(&module, "main", "sum");
    function(&module, "odd \"name\"", "max");
    const Value x = b.Input("x0", ir::InputKind::kMetadata, type);
    std::vector<Value> results;
    if (op == Op::kCall) {
      results = b.Call("main", {x});
    } else if (op == Op::kBreak) {
      results = b.EagerBreak("host", "odd \"name\"", {x});
    } else {
      const Value index = b.Input("x1", ir::InputKind::kMetadata, Type(DType::kI32, {}));
      results = b.EmitAll(op, {index, x}, {{"branches", std::vector<std::string>{"main", "odd \"name\""}}});
    }
    b.Output("y0", results.empty() ? Value() : results[0]);
    list->Finish(ToString(op), op, &module);
  }
}

}  // namespace

std::vector<SingleOp> SingleOps() {
  List list;
  AddElementwise(&list);
  AddShape(&list);
  AddContractions(&list);
  AddIndexing(&list);
  AddCollectives(&list);
  AddStructure(&list);
  return std::move(list.items);
}

SingleOp CustomCallOp() {
  List list;
  list.Add("custom_call", Op::kCustomCall, [](Builder& b) {
    const Type type(DType::kBF16, {4, 5});
    const Value x = b.Input("x0", ir::InputKind::kMetadata, Type(DType::kF32, {4}));
    const Value s = b.Input("s", ir::InputKind::kState, type);
    return b.EmitAll(Op::kCustomCall, {x, s}, {{"target", std::string("kernel")}, {"alias_outputs", Ints{1, 1}}},
                     {Type(DType::kI32, {2}), type});
  });
  return list.items[0];
}

std::vector<std::byte> InputData(const ir::Input& input, const ir::Type& type, uint32_t seed, bool corners) {
  std::vector<std::byte> data(static_cast<size_t>(type.Bytes()));
  std::mt19937 random(seed);
  const size_t width = SizeOf(type.dtype);
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const float special[] = {0.0f, -0.0f, kInf, -kInf, std::numeric_limits<float>::quiet_NaN(), 500.0f, -7e4f, 3e9f};
  for (int64_t i = 0; i < type.NumElements(); ++i) {
    std::byte* at = data.data() + static_cast<size_t>(i) * width;
    float value = std::uniform_real_distribution<float>(-3, 3)(random);
    if (corners && random() % 3 == 0) value = special[random() % std::size(special)];
    int64_t integer = static_cast<int64_t>(random() % 10) - 3;
    if (corners && random() % 4 == 0) integer = static_cast<int64_t>(random()) << (random() % 33);
    if (corners && random() % 16 == 0) integer = std::numeric_limits<int64_t>::min();
    if (input.name == "live_counts") integer = i == 0 ? 3 : 2;
    const auto put = [&](auto raw) { std::memcpy(at, &raw, sizeof(raw)); };
    switch (type.dtype) {
      case DType::kI1:
        put(static_cast<uint8_t>(integer & 1));
        break;
      case DType::kI8:
      case DType::kU8:
        put(static_cast<int8_t>(integer));
        break;
      case DType::kI32:
      case DType::kU32:
        put(static_cast<int32_t>(integer));
        break;
      case DType::kI64:
        put(integer);
        break;
      case DType::kF8E4M3:
        put(F32ToF8E4M3(value));
        break;
      case DType::kF16:
        put(F32ToF16(value));
        break;
      case DType::kBF16:
        put(F32ToBF16(value));
        break;
      case DType::kF32:
        put(value);
        break;
    }
  }
  return data;
}

}  // namespace deepinfer::pjrt
