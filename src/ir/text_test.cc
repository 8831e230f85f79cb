#include "ir/text.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "ir/builder.h"
#include "ir/collective.h"

namespace deepinfer::ir {
namespace {

using Ints = std::vector<int64_t>;
constexpr double kInf = std::numeric_limits<double>::infinity();

// Records every op there is, and notes which.
class EveryOp {
 public:
  Result<Module> Record() {
    Builder entry = module_.Entry();
    b_ = &entry;
    metadata_ = In("live", Type(DType::kI32, {3}));
    module_.SetLiveCounts(metadata_);
    RecordCallees();
    RecordElementwise();
    RecordShapes();
    RecordIndexing();
    RecordCollectives();
    RecordComposites();
    RecordStructure();
    return module_.Finish();
  }
  const std::set<Op>& seen() const { return seen_; }

 private:
  Value In(const std::string& name, Type type, InputKind kind = InputKind::kMetadata) {
    return b_->Input(name, kind, std::move(type));
  }
  std::vector<Value> All(Op op, const std::vector<Value>& operands, AttrMap attrs = {},
                         std::vector<Type> declared = {}) {
    seen_.insert(op);
    auto values = b_->EmitAll(op, operands, std::move(attrs), std::move(declared));
    for (const Value value : values) b_->Output("out" + std::to_string(next_++), value);
    return values;
  }
  Value One(Op op, const std::vector<Value>& operands, AttrMap attrs = {}, std::vector<Type> declared = {}) {
    const auto values = All(op, operands, std::move(attrs), std::move(declared));
    return values.empty() ? Value{} : values[0];
  }

  void RecordCallees() {
    for (const char* name : {"layer", "other"}) {
      Builder f = module_.Function(name);
      const Value x = f.Input("x", InputKind::kArgument, Type(DType::kF32, {{4, DimTag::kTokens}, 8}));
      f.Output("y", f.Emit(name[0] == 'l' ? Op::kExp : Op::kNeg, {x}));
    }
  }

  void RecordElementwise() {
    x_ = In("x", Type(DType::kF32, {{4, DimTag::kTokens}, 8}));
    const Value i = In("i", Type(DType::kI32, {4, 8}));
    for (const Op op : {Op::kNeg, Op::kAbs, Op::kExp, Op::kLog, Op::kTanh, Op::kSqrt, Op::kRsqrt, Op::kSin, Op::kCos,
                        Op::kLogistic, Op::kFloor}) {
      One(op, {x_});
    }
    for (const Op op : {Op::kAdd, Op::kSub, Op::kMul, Op::kDiv, Op::kRem, Op::kPow, Op::kMax, Op::kMin})
      One(op, {x_, x_});
    One(Op::kNot, {i});
    for (const Op op : {Op::kAnd, Op::kOr, Op::kXor, Op::kShiftLeft, Op::kShiftRight}) One(op, {i, i});
    const Value mask = One(Op::kCompare, {x_, x_}, {{"direction", std::string("lt")}});
    One(Op::kSelect, {mask, x_, x_});
  }

  void RecordShapes() {
    One(Op::kConvert, {x_}, {}, {b_->TypeOf(x_).WithDType(DType::kBF16)});
    One(Op::kBitcastConvert, {x_}, {}, {b_->TypeOf(x_).WithDType(DType::kU32)});
    const Value zero = One(Op::kConstant, {}, {{"value", Bytes{0, 0, 0, 0}}}, {Type(DType::kF32, {})});
    One(Op::kIota, {}, {{"dim", int64_t{1}}}, {Type(DType::kI64, {2, 3})});
    One(Op::kReshape, {x_}, {}, {Type(DType::kF32, {2, {16, DimTag::kRows}})});
    One(Op::kBroadcastInDim, {x_}, {{"dims", Ints{0, 2}}}, {Type(DType::kF32, {4, 3, 8})});
    One(Op::kTranspose, {x_}, {{"perm", Ints{1, 0}}});
    One(Op::kSlice, {x_}, {{"start", Ints{1, 0}}, {"limit", Ints{3, 8}}, {"stride", Ints{1, 2}}});
    One(Op::kConcatenate, {x_, x_}, {{"dim", int64_t{1}}});
    One(Op::kPad, {x_, zero}, {{"low", Ints{0, 1}}, {"high", Ints{0, 2}}});
    const Value start = In("start", Type(DType::kI32, {}));
    const Value part = One(Op::kDynamicSlice, {x_, start, start}, {{"sizes", Ints{2, 8}}});
    One(Op::kDynamicUpdateSlice, {x_, part, start, start});
  }

  void RecordIndexing() {
    weight_ = In("w", Type(DType::kF32, {6, 8}), InputKind::kWeight);
    seen_.insert(Op::kDotGeneral);
    b_->Output("dot", b_->Dot(x_, weight_, {}, {}, {1}, {1}, DType::kBF16));
    One(Op::kReduce, {x_}, {{"kind", std::string("max")}, {"dims", Ints{1}}});
    One(Op::kCumsum, {x_}, {{"dim", int64_t{1}}});
    ids_ = In("ids", Type(DType::kI32, {{4, DimTag::kTokens}}));
    One(Op::kTake, {weight_, ids_});
    const Value state = b_->StateView("s", Type(DType::kF32, {6, 8}), "kv", 48, "pool");
    const Value other = b_->StateView("t", Type(DType::kF32, {7, 8}), "kv", 96, "pool");
    seen_.insert(Op::kIndexPut);
    b_->Output("s", b_->Emit(Op::kIndexPut, {state, ids_, x_}, {{"dims", Ints{0}}}));
    seen_.insert(Op::kIndexPutInplace);
    b_->IndexPut(other, {ids_}, x_, {0});
    All(Op::kSort, {x_, x_}, {{"dim", int64_t{1}}, {"descending", int64_t{1}}});
    All(Op::kTopK, {x_}, {{"k", int64_t{3}}});
  }

  void RecordCollectives() {
    One(Op::kAllReduce, {x_}, OverAllRanks(2, {{"kind", std::string("sum")}}));
    One(Op::kAllGather, {x_}, OverAllRanks(2, {{"dim", int64_t{1}}}));
    One(Op::kReduceScatter, {x_}, OverAllRanks(2, {{"dim", int64_t{1}}, {"kind", std::string("max")}}));
    One(Op::kAllToAll, {x_}, OverAllRanks(2, {{"split_dim", int64_t{1}}, {"concat_dim", int64_t{1}}}));
  }

  void RecordComposites() {
    const Value encoded = In("q", Type::Weight(Encoding::kQ8_0, {64, 32}), InputKind::kWeight);
    const Value h = One(Op::kEmbedding, {encoded, ids_}, {{"dtype", std::string("bf16")}, {"scale", 1e20}});
    const Value gain = In("gain", Type(DType::kF32, {32}), InputKind::kWeight);
    One(Op::kRmsNorm, {h, gain}, {{"eps", 1e-6}, {"offset", 0.0}});
    All(Op::kAddRmsNorm, {h, h, gain}, {{"eps", -0.1}});
    const Value freq = b_->ConstantF32({1.0f, 0.5f, 0.25f, 0.125f});
    const auto table = All(Op::kRopeTable, {ids_, freq}, {{"mscale", kInf}});
    const Value heads = In("heads", Type(DType::kF32, {{4, DimTag::kTokens}, 2, 8}));
    One(Op::kRope, {heads, table[0], table[1]}, {{"interleaved", int64_t{1}}});
    const Value y = One(Op::kLinear, {h, encoded}, {{"dtype", std::string("f32")}});
    All(Op::kMultiLinear, {h, encoded, encoded}, {{"weights", int64_t{2}}});
    One(Op::kGlu, {y, y}, {{"activation", std::string("silu")}});
    One(Op::kGatedLinear, {h, encoded, encoded}, {{"activation", std::string("gelu_tanh")}});
    const Value experts = In("down", Type::Weight(Encoding::kQ8_0, {64, 32}), InputKind::kWeight);
    One(Op::kMoe, {h, In("router", Type(DType::kF32, {{4, DimTag::kTokens}, 2})), encoded, encoded, experts},
        {{"activation", std::string("silu")}, {"top_k", int64_t{1}}, {"normalise", int64_t{1}}});
    const Value state = b_->Input("k_state", InputKind::kState, Type(DType::kF32, {5, 2, 4, 8}));
    const Value other = b_->Input("v_state", InputKind::kState, Type(DType::kF32, {5, 2, 4, 8}));
    All(Op::kRopeKvWrite, {heads, heads, heads, table[0], table[1], ids_, ids_, state, other});
    All(Op::kPagedSlotIndices, {ids_}, {{"block_size", int64_t{4}}, {"blocks", int64_t{5}}});
    const Value cache = In("cache", Type(DType::kF32, {5, 1, 4, 8}));
    const Value tables = In("tables", Type(DType::kI32, {{2, DimTag::kRequests}, 3}));
    const Value starts = In("starts", Type(DType::kI32, {3}));
    All(Op::kQuantiseRows, {heads}, {{"dtype", std::string("i8")}});
    One(Op::kPagedAttention, {heads, cache, cache, tables, starts, ids_}, {{"scale", 0.5}, {"softcap", -kInf}});
    const Value f = In("f", Type(DType::kF32, {{4, DimTag::kTokens}}));
    const Value words = In("words", Type(DType::kI32, {{4, DimTag::kTokens}, 1}));
    const Value places = In("places", Type(DType::kF32, {{4, DimTag::kTokens}, 1}));
    const Value sampled =
        One(Op::kSample, {x_, f, ids_, f, f, f, f, f, f, f, ids_, words, ids_, words, places, places, places});
    All(Op::kTopLogprobs, {x_, sampled, ids_}, {{"k", int64_t{2}}});
  }

  void RecordStructure() {
    One(Op::kCall, {x_}, {{"callee", std::string("layer")}});
    One(Op::kBreak, {x_}, {{"name", std::string("odd \"name\"\\\n")}, {"body", std::string("layer")}});
    const Value index = In("index", Type(DType::kI32, {}));
    One(Op::kCase, {index, x_}, {{"branches", std::vector<std::string>{"layer", "other"}}});
    const Value state = b_->Input("u", InputKind::kState, Type(DType::kF8E4M3, {3}));
    All(Op::kCustomCall, {x_, state}, {{"target", std::string("kernel")}, {"alias_outputs", Ints{1, 1}}},
        {Type(DType::kI1, {4}), Type(DType::kF8E4M3, {3})});
  }

  ModuleBuilder module_;
  Builder* b_ = nullptr;
  std::set<Op> seen_;
  Value metadata_, x_, ids_, weight_;
  int next_ = 0;
};

TEST(TextTest, PrintParsePrintIsIdentityOnEveryOp) {
  EveryOp recorder;
  auto module = recorder.Record();
  ASSERT_TRUE(module.has_value()) << module.error().ToString();
  for (int i = 0; i < kNumOps; ++i) {
    EXPECT_EQ(recorder.seen().count(static_cast<Op>(i)), 1u) << ToString(static_cast<Op>(i)) << " is not covered";
  }
  const Function& f = module->entry();
  for (int i = 0; i < static_cast<int>(f.outputs.size()); ++i) {
    if (f.outputs[i].name != "s") continue;
    for (int j = 0; j < static_cast<int>(f.inputs.size()); ++j) {
      if (f.inputs[j].name == "s") module->io_map["step"].push_back({i, j});
    }
  }
  const std::string text = Print(*module);
  const auto parsed = Parse(text);
  ASSERT_TRUE(parsed.has_value()) << parsed.error().ToString() << "\n" << text;
  EXPECT_EQ(Print(*parsed), text);
  EXPECT_EQ(parsed->io_map, module->io_map);
  EXPECT_EQ(parsed->live_counts, module->live_counts);
  EXPECT_EQ(CanonicalHash(*parsed), CanonicalHash(*module));
  ASSERT_EQ(parsed->entry().inputs.size(), f.inputs.size());
  for (size_t i = 0; i < f.inputs.size(); ++i) {
    EXPECT_EQ(parsed->entry().inputs[i].buffer, f.inputs[i].buffer);
    EXPECT_EQ(parsed->entry().inputs[i].offset, f.inputs[i].offset);
    EXPECT_EQ(parsed->entry().inputs[i].pool, f.inputs[i].pool);
    EXPECT_EQ(parsed->entry().inputs[i].kind, f.inputs[i].kind);
  }
}

TEST(TextTest, TheHashIsThatOfTheGraphAndOfNothingElse) {
  const auto record = [](double eps) {
    ModuleBuilder module;
    Builder b = module.Entry();
    const Value x = b.Input("x", InputKind::kMetadata, Type(DType::kF32, {4, 8}));
    const Value w = b.Input("w", InputKind::kWeight, Type(DType::kF32, {8}));
    b.Output("y", b.Emit(Op::kRmsNorm, {x, w}, {{"eps", eps}}));
    return *module.Finish();
  };
  EXPECT_EQ(CanonicalHash(record(1e-5)), CanonicalHash(record(1e-5)));
  EXPECT_NE(CanonicalHash(record(1e-5)), CanonicalHash(record(1e-6)));
  // Value numbers are an accident of recording.
  Module gaps = record(1e-5);
  Function& f = gaps.entry();
  const ValueId moved = f.AddValue(f.TypeOf(f.nodes[0].results[0]));
  f.nodes[0].results[0] = moved;
  f.outputs[0].value = moved;
  EXPECT_EQ(CanonicalHash(gaps), CanonicalHash(record(1e-5)));
}

TEST(TextTest, ErrorsNameTheLineAndWhatWasExpected) {
  const std::string good =
      "module\nfunc @step(%0: metadata \"x\" f32[2]) {\n  %1 = neg(%0) : f32[2]\n  return \"y\" %1\n}\n";
  ASSERT_TRUE(Parse(good).has_value());
  struct Case {
    std::string from, to, where, message;
  };
  const std::vector<Case> cases = {
      {"module", "modul", "line 1", "'module'"},
      {"func", "fun", "line 2", "a function or the end"},
      {"metadata", "meta", "line 2", "weight, state, metadata or argument"},
      {"f32[2])", "f33[2])", "line 2", "a type"},
      {"f32[2])", "f32[-2])", "line 2", "a dimension"},
      {"f32[2])", "f32[x])", "line 2", "an integer"},
      {"%0:", "%1:", "line 2", "input %0"},
      {"neg", "negg", "line 3", "an op"},
      {"%1 = neg", "%7 = neg", "line 3", "value %1"},
      {" : f32[2]\n", " f32[2]\n", "line 3", "':'"},
      {"(%0) :", "(%0) {a = 1, a = 2} :", "line 3", "a new attribute name"},
      {"(%0) :", "(%0) {a = 1x} :", "line 3", "an attribute value"},
      {"(%0) :", "(%0) {a = 0x123} :", "line 3", "hexadecimal bytes"},
      {"(%0) :", "(%0) {a = \"b} :", "line 4", "','"},
      {"\"y\" %1", "\"y\" 1", "line 4", "'%'"},
      {"}\n", "} alias 0 > 0\n", "line 5", "'->'"},
      {"}\n", "} more", "line 5", "a function or the end"},
  };
  for (const Case& c : cases) {
    std::string text = good;
    text.replace(text.find(c.from), c.from.size(), c.to);
    const auto parsed = Parse(text);
    ASSERT_FALSE(parsed.has_value()) << text;
    EXPECT_EQ(parsed.error().where, "graph text, " + c.where) << c.to << ": " << parsed.error().message;
    EXPECT_NE(parsed.error().message.find("expected " + c.message), std::string::npos) << parsed.error().message;
  }
}

TEST(TextTest, WhatTheVerifierRefusesDoesNotParse) {
  const auto parsed =
      Parse("module\nfunc @step(%0: metadata \"x\" f32[2]) {\n  %1 = neg(%0) : f32[3]\n  return \"y\" %1\n}\n");
  ASSERT_FALSE(parsed.has_value());
  EXPECT_NE(parsed.error().message.find("has result types that do not follow"), std::string::npos);
  EXPECT_FALSE(Parse("").has_value());
  EXPECT_FALSE(Parse("module\n").has_value());
}

TEST(TextTest, EveryTruncationIsAnErrorAndNeverACrash) {
  EveryOp recorder;
  const std::string text = Print(*recorder.Record());
  for (size_t n = 0; n < text.size(); n += 7) Parse(text.substr(0, n));
  for (size_t n = 0; n < text.size(); n += 13) {
    std::string changed = text;
    changed[n] = static_cast<char>('0' + n % 75);
    Parse(changed);
  }
}

}  // namespace
}  // namespace deepinfer::ir
