// Inference: the message of each rule, and what becomes of dimension tags.
#include "ir/infer.h"

#include <gtest/gtest.h>

#include "ir/builder.h"

namespace deepinfer::ir {
namespace {

using Ints = std::vector<int64_t>;
using Str = std::string;
constexpr DType kF = DType::kF32;
constexpr DType kI = DType::kI32;

Result<std::vector<Type>> Infer(Op op, const std::vector<Type>& operands, AttrMap attrs = {},
                                const std::vector<Type>& declared = {}) {
  Node node;
  node.op = op;
  node.attrs = std::move(attrs);
  return InferTypes(Module(), node, operands, declared);
}

Type F(std::vector<Dim> dims) {
  return Type(kF, std::move(dims));
}
Type I(std::vector<Dim> dims) {
  return Type(kI, std::move(dims));
}
Type B(std::vector<Dim> dims) {
  return Type(DType::kI1, std::move(dims));
}

struct Case {
  Op op;
  std::vector<Type> operands;
  AttrMap attrs;
  std::vector<Type> declared;
  Str message;
};

void ExpectErrors(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    const auto types = Infer(c.op, c.operands, c.attrs, c.declared);
    ASSERT_FALSE(types.has_value()) << ToString(c.op) << ": " << c.message;
    EXPECT_EQ(types.error().where, ToString(c.op));
    EXPECT_NE(types.error().message.find(c.message), Str::npos) << ToString(c.op) << ": " << types.error().message;
  }
}

TEST(InferTest, OperandCountsAndEncodings) {
  ExpectErrors({{Op::kNeg, {}, {}, {}, "takes 1 operands, got 0"},
                {Op::kAdd, {F({2})}, {}, {}, "takes 2 operands, got 1"},
                {Op::kConcatenate, {}, {}, {}, "takes 1 or more operands, got 0"},
                {Op::kNeg,
                 {Type::Weight(Encoding::kQ8_0, {2, 32})},
                 {},
                 {},
                 "is an encoded weight (q8_0[2,32]); only composites read those"},
                {Op::kNeg, {F({int64_t{1} << 40, int64_t{1} << 40})}, {}, {}, "is no possible size"},
                {Op::kIota, {}, {{"dim", int64_t{0}}}, {I({int64_t{1} << 47})}, "is no possible size"}});
}

TEST(InferTest, ElementwiseRules) {
  ExpectErrors({{Op::kExp, {I({2})}, {}, {}, "needs a float operand, got i32[2]"},
                {Op::kNeg, {B({2})}, {}, {}, "needs numbers, got i1"},
                {Op::kNot, {F({2})}, {}, {}, "needs integers or i1, got f32[2]"},
                {Op::kShiftLeft, {B({2}), B({2})}, {}, {}, "cannot shift i1"},
                {Op::kAdd, {F({2}), I({2})}, {}, {}, "element types differ: f32[2] and i32[2]"},
                {Op::kAdd, {F({2}), F({3})}, {}, {}, "shapes differ: f32[2] and f32[3]"},
                {Op::kAdd,
                 {F({{2, DimTag::kTokens}}), F({{2, DimTag::kRows}})},
                 {},
                 {},
                 "dimension 0 counts different things: f32[T:2] and f32[R:2]"},
                {Op::kAdd, {B({2}), B({2})}, {}, {}, "needs numbers, got i1"},
                {Op::kPow, {I({2}), I({2})}, {}, {}, "needs a float operand"},
                {Op::kCompare,
                 {F({2}), F({2})},
                 {{"direction", Str("almost")}},
                 {},
                 "direction must be eq, ne, lt, le, gt or ge, got 'almost'"},
                {Op::kSelect, {F({2}), F({2}), F({2})}, {}, {}, "operand 0 must be i1, got f32[2]"},
                {Op::kSelect, {B({2}), F({2}), I({2})}, {}, {}, "element types differ"}});
}

TEST(InferTest, ShapeRules) {
  const auto slice = [](Ints start, Ints limit, Ints stride) {
    return AttrMap{{"start", start}, {"limit", limit}, {"stride", stride}};
  };
  ExpectErrors(
      {{Op::kConvert, {F({2})}, {}, {}, "needs one declared result type, got 0"},
       {Op::kConvert, {F({2})}, {}, {I({3})}, "result must be i32[2], declared i32[3]"},
       {Op::kConvert, {F({2})}, {}, {Type::Weight(Encoding::kQ8_0, {32})}, "cannot make an encoded weight"},
       {Op::kReshape, {F({2})}, {}, {F({-2, -1})}, "is no possible size"},
       {Op::kBitcastConvert, {F({2})}, {}, {Type(DType::kBF16, {2})}, "have different widths"},
       {Op::kConstant, {}, {}, {F({2})}, "needs 'value' bytes"},
       {Op::kConstant, {}, {{"value", Bytes{1, 2, 3}}}, {F({2})}, "3 bytes of value for f32[2]"},
       {Op::kIota, {}, {{"dim", int64_t{1}}}, {I({2})}, "dim 1 of i32[2] is not a countable dimension"},
       {Op::kReshape, {F({6})}, {}, {F({4})}, "cannot view f32[6] as f32[4]"},
       {Op::kBroadcastInDim, {F({2})}, {}, {F({2, 2})}, "needs the integer list attribute 'dims'"},
       {Op::kBroadcastInDim, {F({2})}, {{"dims", Ints{}}}, {F({2, 2})}, "0 mapped dimensions for f32[2] to f32[2,2]"},
       {Op::kBroadcastInDim,
        {F({2, 2})},
        {{"dims", Ints{1, 0}}},
        {F({2, 2})},
        "dims must ascend within the result's rank 2"},
       {Op::kBroadcastInDim, {F({3})}, {{"dims", Ints{0}}}, {F({2})}, "dimension 0 of f32[3] cannot become f32[2]"},
       {Op::kTranspose, {F({2, 3})}, {{"perm", Ints{0, 0}}}, {}, "perm is not a permutation of f32[2,3]'s dimensions"},
       {Op::kSlice, {F({4})}, slice({0, 0}, {4}, {1}), {}, "start, limit and stride must have 1 entries"},
       {Op::kSlice, {F({4})}, slice({3}, {2}, {1}), {}, "[3:2:1] is not within dimension 0 of f32[4]"},
       {Op::kSlice, {F({4})}, slice({0}, {4}, {0}), {}, "[0:4:0] is not within"},
       {Op::kConcatenate, {F({2}), F({2})}, {{"dim", int64_t{1}}}, {}, "dim 1 of f32[2]"},
       {Op::kConcatenate, {F({2, 3}), F({2, 4})}, {{"dim", int64_t{0}}}, {}, "f32[2,4] does not continue f32[2,3]"},
       {Op::kPad,
        {F({2}), F({1})},
        {{"low", Ints{0}}, {"high", Ints{0}}},
        {},
        "needs low and high per dimension and a scalar f32"},
       {Op::kPad, {F({2}), F({})}, {{"low", Ints{-1}}, {"high", Ints{0}}}, {}, "negative padding"},
       {Op::kPad, {F({2}), F({})}, {{"low", Ints{INT64_MAX}}, {"high", Ints{INT64_MAX}}}, {}, "is no possible size"}});
  EXPECT_EQ((*Infer(Op::kSlice, {F({4})}, slice({1}, {4}, {INT64_MAX})))[0], F({1}));
}

AttrMap Dot(Ints lb, Ints rb, Ints lc, Ints rc) {
  return {{"lhs_batch", lb}, {"rhs_batch", rb}, {"lhs_contract", lc}, {"rhs_contract", rc}};
}

TEST(InferTest, IndexingRules) {
  AttrMap typed = Dot({}, {}, {1}, {1});
  typed["dtype"] = Str("i32");
  ExpectErrors(
      {{Op::kDotGeneral,
        {F({2, 3}), F({2, 4})},
        Dot({}, {}, {1}, {1}),
        {},
        "dimension 1 of f32[2,3] and 1 of f32[2,4] differ"},
       {Op::kDotGeneral, {F({2, 3}), I({2, 3})}, Dot({}, {}, {1}, {1}), {}, "needs two floats of one element type"},
       {Op::kDotGeneral,
        {F({2, 3}), F({2, 3})},
        Dot({}, {}, {1}, {}),
        {},
        "batch and contracting dimensions do not pair up"},
       {Op::kDotGeneral, {F({2, 3}), F({2, 3})}, Dot({1}, {1}, {1}, {1}), {}, "do not pair up"},
       {Op::kDotGeneral, {F({2, 3}), F({2, 3})}, typed, {}, "dtype 'i32' is not a float type"},
       {Op::kReduce,
        {F({2})},
        {{"dims", Ints{0}}, {"kind", Str("mean")}},
        {},
        "kind must be sum, max, min, and or or, got 'mean'"},
       {Op::kReduce, {F({2})}, {{"dims", Ints{0}}, {"kind", Str("or")}}, {}, "kind 'or' does not fit f32[2]"},
       {Op::kReduce, {B({2})}, {{"dims", Ints{0}}, {"kind", Str("sum")}}, {}, "kind 'sum' does not fit i1[2]"},
       {Op::kReduce, {F({2})}, {{"dims", Ints{1}}, {"kind", Str("sum")}}, {}, "dims do not fit f32[2]"},
       {Op::kCumsum, {F({2})}, {{"dim", int64_t{1}}}, {}, "dim 1 of f32[2]"},
       {Op::kCumsum, {B({2})}, {{"dim", int64_t{0}}}, {}, "needs numbers, got i1"},
       {Op::kTake, {F({}), I({2})}, {}, {}, "cannot index a scalar"},
       {Op::kTake, {F({2}), F({2})}, {}, {}, "operand 1 must be i32 of rank 1, got f32[2]"},
       {Op::kIndexPut,
        {F({4, 2}), I({3}), F({3, 2})},
        {{"dims", Ints{0, 1}}},
        {},
        "dims must ascend within f32[4,2] and have one index operand each"},
       {Op::kIndexPut, {F({4, 2}), I({3}), F({2, 2})}, {{"dims", Ints{0}}}, {}, "rows must be f32[3,2], got f32[2,2]"},
       {Op::kIndexPut,
        {F({4, 2}), I({3}), I({2}), F({3})},
        {{"dims", Ints{0, 1}}},
        {},
        "index operands differ in length"},
       {Op::kSort, {F({2})}, {{"dim", int64_t{-1}}}, {}, "dim -1 of f32[2]"},
       {Op::kSort, {F({2}), I({3})}, {{"dim", int64_t{0}}}, {}, "shapes differ: f32[2] and i32[3]"},
       {Op::kTopK, {F({2})}, {{"k", int64_t{3}}}, {}, "k = 3 of f32[2]"},
       {Op::kDynamicSlice, {F({4}), I({})}, {{"sizes", Ints{5}}}, {}, "size 5 of f32[4]"},
       {Op::kDynamicSlice,
        {F({4, 4}), I({})},
        {{"sizes", Ints{2, 2}}},
        {},
        "needs one scalar start and one size per dimension of f32[4,4]"},
       {Op::kDynamicUpdateSlice, {F({4}), I({2}), I({})}, {}, {}, "element types differ"}});
}

TEST(InferTest, CompositeRules) {
  const Type x = F({{3, DimTag::kTokens}, 8});
  const Type q = F({3, 4, 8});
  const Type cache = F({5, 2, 4, 8});
  ExpectErrors(
      {{Op::kEmbedding, {F({4}), I({2})}, {}, {}, "operand 0 must have rank 2, got f32[4]"},
       {Op::kEmbedding, {F({4, 2}), F({2})}, {}, {}, "operand 1 must be i32 of rank 1"},
       {Op::kEmbedding, {F({4, 2}), I({2})}, {{"dtype", Str("i8")}}, {}, "dtype 'i8' is not a float type"},
       {Op::kRmsNorm, {x, F({7})}, {}, {}, "operand 1 must be f32[8], got f32[7]"},
       {Op::kRmsNorm, {I({2}), F({2})}, {}, {}, "operand 0 must be a plain float, got i32[2]"},
       {Op::kRmsNorm, {F({}), F({})}, {}, {}, "cannot normalise a scalar"},
       {Op::kAddRmsNorm, {x, F({3, 7}), F({8})}, {}, {}, "operand 1 must be f32[T:3,8], got f32[3,7]"},
       {Op::kRopeTable, {I({3}), Type(DType::kBF16, {4})}, {}, {}, "operand 1 must be f32[4]"},
       {Op::kRope, {q, F({3, 5}), F({3, 5})}, {}, {}, "5 rotated pairs do not fit in f32[3,4,8]"},
       {Op::kLinear, {x, F({5, 7})}, {}, {}, "f32[5,7] has 7 columns, the input f32[T:3,8]"},
       {Op::kLinear, {x, F({5, 8}), F({4})}, {}, {}, "operand 2 must be f32[5], got f32[4]"},
       {Op::kMultiLinear, {x, F({5, 8}), F({5, 8})}, {{"weights", int64_t{3}}}, {}, "3 operands for 3 weights"},
       {Op::kMultiLinear,
        {x, F({5, 8}), F({5, 8})},
        {{"weights", INT64_MIN + 1}, {"bias", int64_t{1}}},
        {},
        "3 operands for"},
       {Op::kGlu, {x, x}, {{"activation", Str("relu")}}, {}, "activation must be silu or gelu_tanh, got 'relu'"},
       {Op::kGatedLinear, {x, F({5, 8}), F({6, 8})}, {{"activation", Str("silu")}}, {}, "gate and up give f32[T:3,5]"},
       {Op::kGatedLinear, {x, F({5, 8}), F({5, 8}), F({5})}, {{"activation", Str("silu")}}, {}, "needs both biases"},
       {Op::kGatedLinear, {x, F({5, 8}), F({5, 8})}, {}, {}, "activation must be silu or gelu_tanh, got ''"},
       {Op::kMoe,
        {x, F({3, 4}), F({24, 8}), F({24, 8}), F({32, 5})},
        {{"activation", Str("silu")}, {"top_k", int64_t{2}}},
        {},
        "do not hold 4 experts for f32[T:3,8]"},
       {Op::kMoe,
        {x, F({3, 4}), F({24, 8}), F({24, 8}), F({32, 6})},
        {{"activation", Str("silu")}, {"top_k", int64_t{5}}},
        {},
        "top_k = 5 of 4 experts"},
       {Op::kMoe,
        {x, F({2, 4}), F({24, 8}), F({24, 8}), F({32, 6})},
        {{"activation", Str("silu")}, {"top_k", int64_t{2}}},
        {},
        "are not one row for each of"},
       {Op::kRopeKvWrite,
        {q, F({3, 2, 8}), F({3, 2, 8}), F({3, 5}), F({3, 5}), I({3}), I({3}), cache, cache},
        {},
        {},
        "5 rotated pairs and the cache f32[5,2,4,8] do not fit"},
       {Op::kRopeKvWrite,
        {q, F({3, 3, 8}), F({3, 2, 8}), F({3, 4}), F({3, 4}), I({3}), I({3}), cache, cache},
        {},
        {},
        "operand 1 must be f32[3,2,8], got f32[3,3,8]"},
       {Op::kRopeKvWrite,
        {q, F({3, 2, 8}), F({3, 2, 8}), F({3, 4}), F({3, 4}), I({3}), I({3}), cache, cache, F({8})},
        {},
        {},
        "needs the norms of both"},
       {Op::kRopeKvWrite,
        {q, F({3, 2, 8}), F({3, 2, 8}), F({3, 4}), F({3, 4}), I({3}), I({3}), Type(DType::kI8, {5, 2, 4, 8}),
         Type(DType::kI8, {5, 2, 4, 8})},
        {},
        {},
        "needs the scales of K and of V"},
       {Op::kRopeKvWrite,
        {q, F({3, 2, 8}), F({3, 2, 8}), F({3, 4}), F({3, 4}), I({3}), I({3}), Type(DType::kI8, {5, 2, 4, 8}),
         Type(DType::kI8, {5, 2, 4, 8}), F({5, 2, 4, 1}), F({5, 2, 4})},
        {},
        {},
        "operand 10 must be f32[5,2,4,1], got f32[5,2,4]"},
       {Op::kPagedSlotIndices, {I({3})}, {{"block_size", int64_t{4}}}, {}, "needs block_size and blocks >= 1"},
       {Op::kPagedSlotIndices,
        {I({3})},
        {{"block_size", int64_t{65536}}, {"blocks", int64_t{65536}}},
        {},
        "do not fit in i32"},
       {Op::kPagedAttention,
        {q, F({5, 3, 4, 8}), F({5, 3, 4, 8}), I({2, 6}), I({3}), I({3})},
        {},
        {},
        "do not fit the cache"},
       {Op::kPagedAttention,
        {q, cache, F({5, 2, 4, 9}), I({2, 6}), I({3}), I({3})},
        {},
        {},
        "operand 2 must be f32[5,2,4,8]"},
       {Op::kPagedAttention,
        {q, cache, cache, I({2, 6}), I({2}), I({3})},
        {},
        {},
        "operand 4 must be i32[3], got i32[2]"},
       {Op::kPagedAttention,
        {q, cache, cache, I({2, 6}), I({3}), I({3})},
        {{"uniform", int64_t{1}}},
        {},
        "uniform needs one token per request"},
       {Op::kSample,
        {F({2, 9}), F({2}), F({2}), F({2}), F({2}), F({2}), F({2}), F({2}), F({2}), F({2}), I({2}), I({2, 1}), I({2}),
         I({2, 3}), F({2, 3}), F({2, 3}), F({2, 3})},
        {},
        {},
        "operand 2 must be i32[2], got f32[2]"},
       {Op::kSample,
        {F({2, 33}), F({2}), I({2}), F({2}), F({2}), F({2}), F({2}), F({2}), F({2}), F({2}), I({2}), I({2, 1}), I({2}),
         I({2, 3}), F({2, 3}), F({2, 3}), F({2, 3})},
        {},
        {},
        "operand 11 must be i32[2,2], got i32[2,1]"},
       {Op::kTopLogprobs, {F({2, 9}), I({2}), I({2})}, {{"k", int64_t{10}}}, {}, "k = 10 of f32[2,9]"}});
}

TEST(InferTest, StructureRules) {
  ModuleBuilder module;
  Builder entry = module.Entry();
  const Value x = entry.Input("x", InputKind::kMetadata, F({2}));
  entry.Output("x", x);
  for (const char* name : {"f", "g"}) {
    Builder f = module.Function(name);
    const Value y = f.Input("y", InputKind::kArgument, F({2}));
    f.Output("y", name[0] == 'f' ? y : f.Convert(y, DType::kBF16));
  }
  const Module built = *module.Finish();
  const auto check = [&](Op op, const std::vector<Type>& operands, AttrMap attrs, const std::vector<Type>& declared,
                         const Str& message) {
    Node node;
    node.op = op;
    node.attrs = std::move(attrs);
    const auto types = InferTypes(built, node, operands, declared);
    ASSERT_FALSE(types.has_value()) << message;
    EXPECT_NE(types.error().message.find(message), Str::npos) << types.error().message;
  };
  const auto branches = [](std::vector<Str> names) { return AttrMap{{"branches", std::move(names)}}; };
  check(Op::kCall, {}, {{"callee", Str("nobody")}}, {}, "no function named 'nobody'");
  check(Op::kCall, {}, {{"callee", Str("f")}}, {}, "'f' takes 1 operands, got 0");
  check(Op::kCall, {F({3})}, {{"callee", Str("f")}}, {}, "operand 0 of 'f' must be f32[2], got f32[3]");
  check(Op::kBreak, {F({2})}, {{"body", Str("f")}}, {}, "needs a name");
  check(Op::kCase, {F({}), F({2})}, branches({"f"}), {}, "the index must be i32[], got f32[]");
  check(Op::kCase, {I({}), F({2})}, branches({}), {}, "needs at least one branch");
  check(Op::kCase, {I({}), F({2})}, branches({"f", "g"}), {}, "branches 'f' and 'g' return different types");
  check(Op::kCustomCall, {}, {}, {}, "needs a target");
  const auto call = [](Ints pairs) { return AttrMap{{"target", Str("k")}, {"alias_outputs", std::move(pairs)}}; };
  check(Op::kCustomCall, {F({2})}, call({0}), {F({2})}, "alias_outputs must list pairs of output and operand");
  check(Op::kCustomCall, {F({2})}, call({1, 0}), {F({2})}, "alias of output 1 and operand 0 is out of range");
  check(Op::kCustomCall, {F({2})}, call({0, 0}), {F({3})}, "output 0 is f32[3] but its aliased operand 0 is f32[2]");
}

TEST(InferTest, TagsFollowTheDimensions) {
  const Dim t(4, DimTag::kTokens);
  const Dim q(4, DimTag::kRequests);
  const auto one = [](Op op, const std::vector<Type>& operands, AttrMap attrs = {},
                      const std::vector<Type>& declared = {}) {
    const auto types = Infer(op, operands, std::move(attrs), declared);
    EXPECT_TRUE(types.has_value()) << (types ? "" : types.error().ToString());
    return types ? (*types)[0] : Type();
  };
  EXPECT_EQ(one(Op::kNeg, {F({t, 2})}), F({t, 2}));
  EXPECT_EQ(one(Op::kAdd, {F({4, 2}), F({t, 2})}), F({t, 2}));
  EXPECT_EQ(one(Op::kAdd, {F({t, 2}), F({4, 2})}), F({t, 2}));
  EXPECT_EQ(one(Op::kCompare, {F({t}), F({4})}, {{"direction", Str("lt")}}), B({t}));
  EXPECT_EQ(one(Op::kSelect, {B({t}), F({4}), F({4})}), F({t}));
  EXPECT_EQ(one(Op::kTranspose, {F({t, 2})}, {{"perm", Ints{1, 0}}}), F({2, t}));
  EXPECT_EQ(one(Op::kSlice, {F({t, 2})}, {{"start", Ints{0, 0}}, {"limit", Ints{4, 1}}, {"stride", Ints{1, 1}}}),
            F({t, 1}));
  EXPECT_EQ(one(Op::kSlice, {F({t})}, {{"start", Ints{1}}, {"limit", Ints{4}}, {"stride", Ints{1}}}), F({3}));
  EXPECT_EQ(one(Op::kConcatenate, {F({t, 2}), F({t, 2})}, {{"dim", int64_t{1}}}), F({t, 4}));
  EXPECT_EQ(one(Op::kConcatenate, {F({t}), F({t})}, {{"dim", int64_t{0}}}), F({8}));
  EXPECT_EQ(one(Op::kPad, {F({t}), F({})}, {{"low", Ints{1}}, {"high", Ints{0}}}), F({5}));
  EXPECT_EQ(one(Op::kReduce, {F({t, 2})}, {{"kind", Str("sum")}, {"dims", Ints{1}}}), F({t}));
  EXPECT_EQ(one(Op::kDotGeneral, {F({t, 8}), F({3, 8})}, Dot({}, {}, {1}, {1})), F({t, 3}));
  EXPECT_EQ(one(Op::kDotGeneral, {F({q, 2, 8}), F({4, 3, 8})}, Dot({0}, {0}, {2}, {2})), F({q, 2, 3}));
  EXPECT_EQ(one(Op::kTake, {F({9, 2}), I({t})}), F({t, 2}));
  EXPECT_EQ(one(Op::kTopK, {F({t, 9})}, {{"k", int64_t{2}}}), F({t, 2}));
  EXPECT_EQ(one(Op::kLinear, {F({t, 8}), F({3, 8})}), F({t, 3}));
  EXPECT_EQ(one(Op::kEmbedding, {F({9, 2}), I({t})}), F({t, 2}));
}

}  // namespace
}  // namespace deepinfer::ir
