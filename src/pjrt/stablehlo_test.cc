#include "pjrt/stablehlo.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ir/text.h"
#include "pjrt/keep_module.h"
#include "pjrt/mlir_text.h"
#include "pjrt/test_models.h"

namespace deepinfer::pjrt {
namespace {

std::string PrintOrFail(const ir::Module& module) {
  const auto text = PrintStableHlo(module);
  EXPECT_TRUE(text.has_value()) << (text ? "" : text.error().ToString());
  return text.value_or("");
}

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

ir::Module ParseOrFail(const std::string& text) {
  auto module = ir::Parse(text);
  EXPECT_TRUE(module.has_value()) << (module ? "" : module.error().ToString());
  return module ? *std::move(module) : ir::Module{};
}

TEST(StableHloTest, WhatPassesShouldHaveRemovedIsNamed) {
  const auto error = [](const std::string& text) {
    const auto printed = PrintStableHlo(ParseOrFail(text));
    EXPECT_FALSE(printed.has_value());
    return printed ? "" : printed.error().ToString();
  };
  EXPECT_TRUE(
      Has(error("module\nfunc @step(%0: metadata \"x\" f32[2]) {\n  %1 = rms_norm(%0, %0) {eps = 0.1} : f32[2]\n"
                "  return \"y\" %1\n}\n"),
          "rms_norm"));
  EXPECT_TRUE(Has(error("module\nfunc @step(%0: state \"s\" f32[2], %1: metadata \"i\" i32[2], %2: metadata \"x\" "
                        "f32[2]) {\n  index_put_(%0, %1, %2) {dims = [0]}\n  return\n}\n"),
                  "index_put_"));
  EXPECT_TRUE(Has(error("module\nfunc @step(%0: weight \"w\" q8_0[2,32]) {\n  return\n}\n"), "input 'w'"));
  EXPECT_FALSE(PrintStableHlo(ir::Module{}).has_value());
}

// Only where it is asked for: what leaves as a file is for compilers that need no such thing.
TEST(StableHloTest, ASingleRowIsPairedForThePlatformThatNeedsIt) {
  const ir::Module module = ParseOrFail(
      "module\nfunc @step(%0: metadata \"x\" bf16[1,8], %1: weight \"w\" bf16[3,8]) {\n"
      "  %2 = dot_general(%0, %1) {dtype = \"f32\", lhs_batch = [], lhs_contract = [1], rhs_batch = [], rhs_contract = "
      "[1]} : f32[1,3]\n  return \"y\" %2\n}\n");
  EXPECT_FALSE(Has(PrintOrFail(module), "tensor<2x8xbf16>"));
  const auto paired = PrintStableHlo(module, {.pair_single_rows = true});
  ASSERT_TRUE(paired.has_value()) << paired.error().ToString();
  EXPECT_TRUE(Has(*paired, "(tensor<2x8xbf16>, tensor<3x8xbf16>) -> tensor<2x3xf32>")) << *paired;
  EXPECT_TRUE(Has(*paired, "(tensor<2x3xf32>) -> tensor<1x3xf32>")) << *paired;
}

TEST(StableHloTest, AMutatedStateIsAliasedToItsOutput) {
  const std::string text = PrintOrFail(ParseOrFail(
      "module\nfunc @step(%0: state \"s\" f32[4], %1: metadata \"x\" f32[2], %2: metadata \"at\" i32[]) {\n"
      "  %3 = neg(%1) : f32[2]\n  %4 = dynamic_update_slice(%0, %3, %2) : f32[4]\n  return \"y\" %3, \"s\" %4\n"
      "} alias 1 -> 0\n"));
  EXPECT_EQ(text,
            "module @step attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {\n"
            "  func.func public @main(%arg0: tensor<4xf32> {tf.aliasing_output = 1 : i32}, %arg1: tensor<2xf32>, "
            "%arg2: tensor<i32>) -> (tensor<2xf32>, tensor<4xf32>) {\n"
            "    %0 = \"stablehlo.negate\"(%arg1) : (tensor<2xf32>) -> tensor<2xf32>\n"
            "    %1 = \"stablehlo.dynamic_update_slice\"(%arg0, %0, %arg2) : (tensor<4xf32>, tensor<2xf32>, "
            "tensor<i32>) -> tensor<4xf32>\n"
            "    \"func.return\"(%0, %1) : (tensor<2xf32>, tensor<4xf32>) -> ()\n"
            "  }\n}\n");
}

TEST(StableHloTest, CustomCallKeepsItsAliases) {
  const std::string text = PrintOrFail(
      ParseOrFail("module\nfunc @step(%0: metadata \"x\" f32[4], %1: state \"s\" bf16[4,5]) {\n"
                  "  %2, %3 = custom_call(%0, %1) {alias_outputs = [1, 1], target = \"kernel\"} : i32[2], bf16[4,5]\n"
                  "  return \"y\" %2, \"z\" %3\n}\n"));
  KeepModule("custom_call", text);
  EXPECT_TRUE(Has(text, "call_target_name = \"kernel\"")) << text;
  EXPECT_TRUE(Has(text, "output_tuple_indices = [1], operand_index = 1")) << text;
}

TEST(StableHloTest, ConversionsToFloat8ClampFirst) {
  const std::string text = PrintOrFail(ParseOrFail(
      "module\nfunc @step(%0: metadata \"x\" f32[2]) {\n  %1 = convert(%0) : f8e4m3fn[2]\n  return \"y\" %1\n}\n"));
  const size_t clamp = text.find("stablehlo.clamp");
  ASSERT_NE(clamp, std::string::npos) << text;
  EXPECT_LT(clamp, text.find("stablehlo.convert"));
  EXPECT_TRUE(Has(text, "dense<0x43E00000>")) << text;  // 448
}

TEST(StableHloTest, AReductionOverCountedElementsMasksTheRest) {
  const auto print = [](const std::string& live) {
    return PrintOrFail(
        ParseOrFail("module" + live +
                    "\nfunc @step(%0: metadata \"live\" i32[3], %1: metadata \"x\" f32[T:4]) "
                    "{\n  %2 = reduce(%1) {dims = [0], kind = \"max\"} : f32[]\n  return \"y\" %2\n}\n"));
  };
  EXPECT_TRUE(Has(print(" live(%0)"), "stablehlo.select"));
  EXPECT_FALSE(Has(print(""), "stablehlo.select"));
}

TEST(StableHloTest, SmallModels) {
  for (const char* family : {"LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM", "Gemma3ForCausalLM"}) {
    for (const models::Phase phase : {models::Phase::kPrefill, models::Phase::kDecode}) {
      for (const DType dtype : {DType::kF32, DType::kBF16}) {
        const auto module = SmallStep(family, phase, dtype);
        ASSERT_TRUE(module.has_value()) << module.error().ToString();
        const std::string text = PrintOrFail(*module);
        size_t aliased = 0;
        for (size_t at = text.find("tf.aliasing_output"); at != std::string::npos;
             at = text.find("tf.aliasing_output", at + 1)) {
          ++aliased;
        }
        EXPECT_EQ(aliased, module->io_map.at("step").size());
        EXPECT_EQ(aliased, 7u);  // K and V of three layers, and the token store
        KeepModule(fmt::format("{}.{}.{}", family, ToString(phase), ToString(dtype)), text);
      }
    }
  }
}

TEST(StableHloTest, TheIoDescriptionListsEveryInputAndOutput) {
  const auto module = SmallStep("LlamaForCausalLM", models::Phase::kDecode);
  ASSERT_TRUE(module.has_value());
  const auto json = nlohmann::json::parse(PrintIoDescription(*module));
  const ir::Function& f = module->entry();
  ASSERT_EQ(json["inputs"].size(), f.inputs.size());
  ASSERT_EQ(json["outputs"].size(), f.outputs.size());
  ASSERT_EQ(json["io_map"].size(), 7u);
  for (size_t i = 0; i < f.inputs.size(); ++i) {
    EXPECT_EQ(json["inputs"][i]["name"], f.inputs[i].name);
    EXPECT_EQ(json["inputs"][i]["kind"], ToString(f.inputs[i].kind));
    EXPECT_EQ(json["inputs"][i]["shape"], f.TypeOf(f.inputs[i].value).Shape());
  }
  for (const auto& pair : json["io_map"]) {
    EXPECT_EQ(json["inputs"][pair["input"].get<size_t>()]["aliased_output"], pair["output"]);
    EXPECT_EQ(json["outputs"][pair["output"].get<size_t>()]["aliased_input"], pair["input"]);
  }
}

TEST(MlirTextTest, ConstantsKeepEveryBit) {
  const auto dense = [](ir::Type type, ir::Bytes bytes) { return MlirDense(type, bytes); };
  EXPECT_EQ(dense(ir::Type(DType::kF32, {2}), {1, 0, 0xC0, 0x7F, 0, 0, 0, 0x80}),
            "dense<\"0x0100C07F00000080\"> : tensor<2xf32>");
  EXPECT_EQ(dense(ir::Type(DType::kF32, {2}), {1, 0, 0xC0, 0x7F}), "dense<0x7FC00001> : tensor<2xf32>");
  EXPECT_EQ(dense(ir::Type(DType::kI8, {3}), {0xFF}), "dense<-1> : tensor<3xi8>");
  EXPECT_EQ(dense(ir::Type(DType::kI1, {1, 2}), {1, 0}), "dense<[[true, false]]> : tensor<1x2xi1>");
  EXPECT_EQ(dense(ir::Type(DType::kI64, {0, 2}), {}), "dense<> : tensor<0x2xi64>");
  EXPECT_EQ(MlirSymbol("a b\""), "@\"a b\\22\"");
  EXPECT_EQ(MlirSymbol("f.layer_0"), "@f.layer_0");
}

}  // namespace
}  // namespace deepinfer::pjrt
