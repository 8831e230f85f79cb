#include "ir/verify.h"

#include <gtest/gtest.h>

#include "ir/builder.h"
#include "ir/text.h"

namespace deepinfer::ir {
namespace {

using Ints = std::vector<int64_t>;

void ExpectError(const Status& status, const std::string& where, const std::string& message) {
  ASSERT_FALSE(status.has_value()) << "expected: " << message;
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(status.error().where, where);
  EXPECT_NE(status.error().message.find(message), std::string::npos) << status.error().message;
}

void ExpectTextError(const std::string& text, const std::string& where, const std::string& message) {
  const auto parsed = Parse(text);
  ExpectError(parsed ? Status() : Status(tl::unexpected(parsed.error())), where, message);
}

// x -> neg -> y, to be broken.
Module Simple() {
  ModuleBuilder module;
  Builder b = module.Entry();
  const Value x = b.Input("x", InputKind::kMetadata, Type(DType::kF32, {2}));
  b.Output("y", b.Emit(Op::kNeg, {x}));
  return *module.Finish();
}

TEST(VerifyTest, AModuleNeedsAFunctionAndDistinctNames) {
  ExpectError(Verify(Module()), "module", "has no function");
  Module module = Simple();
  module.functions.push_back(module.functions[0]);
  ExpectError(Verify(module), "function 'step'", "is defined twice");
}

TEST(VerifyTest, OperandsComeBeforeTheirUse) {
  for (const ValueId operand : {1, 99, -1}) {
    Module module = Simple();
    module.entry().nodes[0].operands[0] = operand;
    ExpectError(Verify(module), "function 'step'",
                fmt::format("%1 neg reads %{}, which is not defined before it", operand));
  }
}

TEST(VerifyTest, EveryValueHasOneDefinition) {
  Module module = Simple();
  module.entry().nodes.push_back(module.entry().nodes[0]);
  ExpectError(Verify(module), "function 'step'", "%1 neg defines %1 a second time");
  module = Simple();
  module.entry().nodes[0].results[0] = 0;
  ExpectError(Verify(module), "function 'step'", "%0 neg defines %0 a second time");
}

TEST(VerifyTest, TypesAreWhatInferenceSays) {
  Module module = Simple();
  module.entry().types[1].dims[0].size = 3;
  ExpectError(Verify(module), "function 'step'", "%1 neg has result types that do not follow");
  module = Simple();
  module.entry().types[0].dtype = DType::kI1;
  ExpectError(Verify(module), "function 'step'", "neg: needs numbers, got i1");
}

TEST(VerifyTest, InputsHaveValuesAndNamesOfTheirOwn) {
  Module module = Simple();
  module.entry().inputs.push_back(module.entry().inputs[0]);
  ExpectError(Verify(module), "function 'step'", "input 'x' has no value of its own");
  module.entry().inputs[1].value = module.entry().AddValue(Type(DType::kF32, {}));
  ExpectError(Verify(module), "function 'step'", "two inputs are named 'x'");
  module = Simple();
  module.entry().types[0].dims[0].size = -1;
  ExpectError(Verify(module), "function 'step'", "input 'x' is f32[-1], no possible size");
}

TEST(VerifyTest, OutputsAreDefined) {
  Module module = Simple();
  module.entry().outputs.push_back({"z", 9});
  ExpectError(Verify(module), "function 'step'", "output 'z' is not defined");
}

TEST(VerifyTest, LiveCountsAreMetadataOfTheRightShape) {
  Module module = Simple();
  module.live_counts = 0;
  ExpectError(Verify(module), "function 'step'", "live counts must be a metadata input i32[3]");
  module.live_counts = 1;
  ExpectError(Verify(module), "function 'step'", "live counts must be a metadata input i32[3]");
  module.live_counts = 77;
  ExpectError(Verify(module), "function 'step'", "live counts must be a metadata input i32[3]");
}

TEST(VerifyTest, CallsDoNotRecurse) {
  const std::string text =
      "module\nfunc @a(%0: metadata \"x\" f32[2]) {\n %1 = call(%0) {callee = \"b\"} : f32[2]\n return \"y\" %1\n}\n"
      "func @b(%0: argument \"x\" f32[2]) {\n %1 = call(%0) {callee = \"a\"} : f32[2]\n return \"y\" %1\n}\n";
  ExpectTextError(text, "function 'a'", "calls itself");
  std::string chain = "module\n";
  for (int i = 0; i < 100; ++i) {
    chain += fmt::format(
        "func @f{}(%0: argument \"x\" f32[2]) {{\n %1 = call(%0) {{callee = \"f{}\"}} : f32[2]\n return \"y\" %1\n}}\n",
        i, i + 1);
  }
  ExpectTextError(chain + "func @f100(%0: argument \"x\" f32[2]) {\n return \"y\" %0\n}\n", "function 'f64'",
                  "more than 64 calls deep");
}

// A state, two tokens' rows and their indices; `body` is the rest.
std::string WithState(const std::string& body) {
  return "module\nfunc @step(%0: state \"s\" f32[4,2], %1: metadata \"i\" i32[2], %2: metadata \"r\" f32[2,2]) {\n" +
         body;
}
const char kPut[] = " %3 = index_put(%0, %1, %2) {dims = [0]} : f32[4,2]\n";

TEST(VerifyTest, WhatWasOverwrittenIsNotReadAgain) {
  ASSERT_TRUE(Parse(WithState(std::string(kPut) + " return \"s\" %3\n} alias 0 -> 0\n")).has_value());
  ExpectTextError(WithState(std::string(kPut) + " %4 = neg(%0) : f32[4,2]\n return \"s\" %3\n}\n"), "function 'step'",
                  "%4 neg reads %0, which %3 index_put has overwritten");
  ExpectTextError(WithState(std::string(kPut) + " return \"s\" %3, \"old\" %0\n}\n"), "function 'step'",
                  "output 'old' is %0, which %3 index_put has overwritten");
}

TEST(VerifyTest, CallsAndCasesOverwriteWhatTheirCalleesAlias) {
  const std::string callee =
      "func @put(%0: state \"s\" f32[4,2], %1: argument \"i\" i32[2], %2: argument \"r\" f32[2,2]) {\n" +
      std::string(kPut) + " return \"s\" %3\n} alias 0 -> 0\n";
  ExpectTextError(
      WithState(" %3 = call(%0, %1, %2) {callee = \"put\"} : f32[4,2]\n return \"s\" %3, \"old\" %0\n}\n") + callee,
      "function 'step'", "output 'old' is %0, which %3 call has overwritten");
  ExpectTextError(
      WithState(" %3 = break(%0, %1, %2) {body = \"put\", name = \"n\"} : f32[4,2]\n return \"old\" %0\n}\n") + callee,
      "function 'step'", "output 'old' is %0, which %3 break has overwritten");
  ExpectTextError(
      "module\nfunc @step(%0: state \"s\" f32[4,2], %1: metadata \"i\" i32[2], %2: metadata \"r\" f32[2,2], %3: "
      "metadata "
      "\"c\" i32[]) {\n %4 = case(%3, %0, %1, %2) {branches = (\"put\")} : f32[4,2]\n return \"old\" %0\n}\n" +
          callee,
      "function 'step'", "output 'old' is %0, which %4 case has overwritten");
  ExpectTextError(
      WithState(" %3 = custom_call(%0) {alias_outputs = [0, 0], target = \"k\"} : f32[4,2]\n return \"old\" %0\n}\n"),
      "function 'step'", "output 'old' is %0, which %3 custom_call has overwritten");
}

TEST(VerifyTest, OnlyStatesAreMutated) {
  for (const char* kind : {"weight", "metadata", "argument"}) {
    std::string text = WithState(std::string(kPut) + " return \"s\" %3\n}\n");
    text.replace(text.find("state"), 5, kind);
    ExpectTextError(text, "function 'step'",
                    fmt::format("%3 index_put overwrites the {} input 's'; only states are mutated", kind));
    text = WithState(" index_put_(%0, %1, %2) {dims = [0]}\n return\n}\n");
    text.replace(text.find("state"), 5, kind);
    ExpectTextError(text, "function 'step'", "index_put_ writes %0, which is not a state input");
  }
}

TEST(VerifyTest, IoMapPairsStatesWithOutputsOnceEach) {
  const std::string body = std::string(kPut) + " return \"s\" %3, \"r\" %2, \"t\" %3\n} alias ";
  ExpectTextError(WithState(body + "9 -> 0\n"), "function 'step'", "io_map pairs output 9 with input 0: out of range");
  ExpectTextError(WithState(body + "0 -> 7\n"), "function 'step'", "io_map pairs output 0 with input 7: out of range");
  ExpectTextError(WithState(body + "1 -> 2\n"), "function 'step'",
                  "output 'r' aliases 'r', which is a metadata, not a state");
  ExpectTextError(WithState(body + "1 -> 0\n"), "function 'step'",
                  "output 'r' is f32[2,2] but aliases 's', which is f32[4,2]");
  ExpectTextError(WithState(body + "0 -> 0, 2 -> 0\n"), "function 'step'", "io_map names 's' and 't' twice");
}

TEST(VerifyTest, ACalleesIoMapIsCheckedBeforeItIsUsed) {
  ExpectTextError(
      "module\nfunc @step(%0: state \"s\" f32[2]) {\n %1 = call(%0) {callee = \"f\"} : f32[2]\n return \"s\" %1\n}\n"
      "func @f(%0: state \"s\" f32[2]) {\n return \"s\" %0\n} alias 0 -> 99\n",
      "function 'f'", "io_map pairs output 0 with input 99: out of range");
}

Status Views(const std::vector<std::tuple<std::string, std::vector<int64_t>, DType, int64_t, std::string>>& views) {
  ModuleBuilder module;
  Builder b = module.Entry();
  for (const auto& [name, shape, dtype, offset, pool] : views) {
    Type type(dtype, {});
    for (const int64_t size : shape) type.dims.emplace_back(size);
    b.StateView(name, type, "kv", offset, pool);
  }
  const auto built = module.Finish();
  if (built) return {};
  return tl::unexpected(built.error());
}

TEST(VerifyTest, StatesDoNotOverlap) {
  EXPECT_TRUE(Views({{"k", {4, 2}, DType::kF32, 0, "p"}, {"v", {4, 2}, DType::kF32, 8, "p"}}).has_value());
  ExpectError(Views({{"k", {4, 2}, DType::kF32, 0, "p"}, {"v", {4, 2}, DType::kF32, 0, "p"}}), "state views",
              "'k' and 'v' are the same region of buffer 'kv': make them one input");
  ExpectError(Views({{"k", {4, 2}, DType::kF32, 0, "p"}, {"v", {4, 2}, DType::kF32, 7, "p"}}), "state views",
              "'k' and 'v' overlap partially in buffer 'kv' (bytes 0..32 and 28..60)");
  // The same element offset is not the same byte.
  ExpectError(Views({{"k", {8}, DType::kF32, 0, ""}, {"v", {8}, DType::kBF16, 8, ""}}), "state views",
              "overlap partially");
}

TEST(VerifyTest, OffsetsStayBelowTwoToThe32) {
  EXPECT_TRUE(Views({{"k", {2}, DType::kI8, (int64_t{1} << 32) - 1, ""}}).has_value());
  ExpectError(Views({{"k", {2}, DType::kI8, int64_t{1} << 32, ""}}), "state views",
              "'k' starts at element 4294967296 of buffer 'kv': offsets must be below 2^32");
  ExpectError(Views({{"k", {2}, DType::kI8, -1, ""}}), "state views", "'k' starts at element -1");
}

TEST(VerifyTest, StatesOfOnePoolAgreeOnAllButTheBlockCount) {
  EXPECT_TRUE(Views({{"a", {4, 2}, DType::kF32, 0, "p"}, {"b", {9, 2}, DType::kF32, 100, "p"}}).has_value());
  const std::string rule = "they must agree on dtype, heads, block and head size";
  ExpectError(Views({{"a", {4, 2}, DType::kF32, 0, "p"}, {"b", {4, 3}, DType::kF32, 100, "p"}}), "state views",
              "pool 'p' holds 'a' as f32[4,2] and 'b' as f32[4,3]: " + rule);
  ExpectError(Views({{"a", {4, 2}, DType::kF32, 0, "p"}, {"b", {4, 2}, DType::kBF16, 100, "p"}}), "state views",
              "'b' as bf16[4,2]: " + rule);
}

}  // namespace
}  // namespace deepinfer::ir
