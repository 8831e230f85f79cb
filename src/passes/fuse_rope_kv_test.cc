#include "passes/test_util.h"

namespace deepinfer::passes {
namespace {

const PassContext kClaimsAll = {.claims = [](const ir::Function&, const ir::Node&) { return true; }};

// A step around `body`, whose values start at %14: q, k, v of two tokens, the tables, and a cache of `cache` type.
std::string Step(const std::string& cache, const std::string& body, const std::string& outputs) {
  const std::string inputs = R"(module
func @step(%0: metadata "q" bf16[T:2,4,8], %1: metadata "k" bf16[T:2,2,8], %2: metadata "v" bf16[T:2,2,8], )"
                             R"(%3: metadata "cos" f32[T:2,4], %4: metadata "sin" f32[T:2,4], )"
                             R"(%5: metadata "block" i32[T:2], %6: metadata "offset" i32[T:2], )"
                             R"(%7: metadata "tables" i32[Q:1,2], %8: metadata "start" i32[2], )"
                             R"(%9: metadata "positions" i32[T:2], %10: weight "qn" f32[8], %11: weight "kn" f32[8], )";
  const std::string states = "%12: state \"kc\" " + cache + "[3,2,4,8], %13: state \"vc\" " + cache + "[3,2,4,8]) {\n";
  return inputs + states + body + "  return " + outputs + "\n} alias 1 -> 12, 2 -> 13\n";
}

TEST(FuseRopeKvTest, RotationsAndWritesBecomeOneWhereTheLastWriteStood) {
  ExpectPass(
      FuseRopeKv,
      Step("bf16", R"(  %14 = rope(%0, %3, %4) {interleaved = 0} : bf16[T:2,4,8]
  %15 = rope(%1, %3, %4) {interleaved = 0} : bf16[T:2,2,8]
  %16 = index_put(%12, %5, %6, %15) {dims = [0, 2]} : bf16[3,2,4,8]
  %17 = index_put(%13, %5, %6, %2) {dims = [0, 2]} : bf16[3,2,4,8]
  %18 = paged_attention(%14, %16, %17, %7, %8, %9) {scale = 1.0} : bf16[T:2,4,8]
)",
           R"("y" %18, "kc" %16, "vc" %17)"),
      Step(
          "bf16",
          R"(  %14, %15, %16 = rope_kv_write(%0, %1, %2, %3, %4, %5, %6, %12, %13) {interleaved = 0} : bf16[T:2,4,8], bf16[3,2,4,8], bf16[3,2,4,8]
  %17 = paged_attention(%14, %15, %16, %7, %8, %9) {scale = 1.0} : bf16[T:2,4,8]
)",
          R"("y" %17, "kc" %15, "vc" %16)"),
      kClaimsAll);
}

// As qwen3 and gemma3 have it, into a cache of another type.
TEST(FuseRopeKvTest, NormsAndConversionsJoin) {
  ExpectPass(
      FuseRopeKv,
      Step("f32", R"(  %14 = rms_norm(%0, %10) {eps = 1e-06, offset = 1.0} : bf16[T:2,4,8]
  %15 = rms_norm(%1, %11) {eps = 1e-06, offset = 1.0} : bf16[T:2,2,8]
  %16 = rope(%14, %3, %4) {interleaved = 1} : bf16[T:2,4,8]
  %17 = rope(%15, %3, %4) {interleaved = 1} : bf16[T:2,2,8]
  %18 = convert(%17) : f32[T:2,2,8]
  %19 = index_put(%12, %5, %6, %18) {dims = [0, 2]} : f32[3,2,4,8]
  %20 = convert(%2) : f32[T:2,2,8]
  %21 = index_put(%13, %5, %6, %20) {dims = [0, 2]} : f32[3,2,4,8]
  %22 = paged_attention(%16, %19, %21, %7, %8, %9) {scale = 1.0} : bf16[T:2,4,8]
)",
           R"("y" %22, "kc" %19, "vc" %21)"),
      Step(
          "f32",
          R"(  %14, %15, %16 = rope_kv_write(%0, %1, %2, %3, %4, %5, %6, %12, %13, %10, %11) {eps = 1e-06, interleaved = 1, offset = 1.0} : bf16[T:2,4,8], f32[3,2,4,8], f32[3,2,4,8]
  %17 = paged_attention(%14, %15, %16, %7, %8, %9) {scale = 1.0} : bf16[T:2,4,8]
)",
          R"("y" %17, "kc" %15, "vc" %16)"),
      kClaimsAll);
}

// Codes of 8 bits: quantise_rows joins where its scale is the only one, and with a cache of i8 the scales' writes too.
TEST(FuseRopeKvTest, QuantisedRowsJoin) {
  const std::string rotations = R"(  %14 = rope(%0, %3, %4) : bf16[T:2,4,8]
  %15 = rope(%1, %3, %4) : bf16[T:2,2,8]
)";
  const auto f8 = [&](const std::string& attrs) {
    return rotations + "  %16 = quantise_rows(%15) {" + attrs + R"(} : f8e4m3fn[T:2,2,8]
  %17 = index_put(%12, %5, %6, %16) {dims = [0, 2]} : f8e4m3fn[3,2,4,8]
  %18 = quantise_rows(%2) {dtype = "f8e4m3fn"} : f8e4m3fn[T:2,2,8]
  %19 = index_put(%13, %5, %6, %18) {dims = [0, 2]} : f8e4m3fn[3,2,4,8]
  %20 = paged_attention(%14, %17, %19, %7, %8, %9) {scale = 1.0} : bf16[T:2,4,8]
)";
  };
  const std::string outputs = R"("y" %20, "kc" %17, "vc" %19)";
  ExpectPass(
      FuseRopeKv, Step("f8e4m3fn", f8("dtype = \"f8e4m3fn\""), outputs),
      Step(
          "f8e4m3fn",
          R"(  %14, %15, %16 = rope_kv_write(%0, %1, %2, %3, %4, %5, %6, %12, %13) : bf16[T:2,4,8], f8e4m3fn[3,2,4,8], f8e4m3fn[3,2,4,8]
  %17 = paged_attention(%14, %15, %16, %7, %8, %9) {scale = 1.0} : bf16[T:2,4,8]
)",
          R"("y" %17, "kc" %15, "vc" %16)"),
      kClaimsAll);
  ExpectUnchanged(FuseRopeKv, Step("f8e4m3fn", f8("dtype = \"f8e4m3fn\", scale = 0.5"), outputs), kClaimsAll);
}

// As `Step`, with the scales %14 and %15 of a cache of i8; values of the body start at %16.
std::string I8Step(const std::string& body, const std::string& outputs) {
  std::string step = Step("i8", body, outputs);
  const std::string caches = "%13: state \"vc\" i8[3,2,4,8]", aliases = "alias 1 -> 12, 2 -> 13";
  step.insert(step.find(caches) + caches.size(), ", %14: state \"ks\" f32[3,2,4,1], %15: state \"vs\" f32[3,2,4,1]");
  step.insert(step.find(aliases) + aliases.size(), ", 3 -> 14, 4 -> 15");
  return step;
}

TEST(FuseRopeKvTest, ACacheOfI8BringsItsScales) {
  const auto unfused = [](const std::string& k_scales) {
    return I8Step(R"(  %16 = rms_norm(%0, %10) {eps = 1e-06} : bf16[T:2,4,8]
  %17 = rms_norm(%1, %11) {eps = 1e-06} : bf16[T:2,2,8]
  %18 = rope(%16, %3, %4) : bf16[T:2,4,8]
  %19 = rope(%17, %3, %4) : bf16[T:2,2,8]
  %20, %21 = quantise_rows(%19) {dtype = "i8"} : i8[T:2,2,8], f32[T:2,2,1]
  %22 = index_put(%12, %5, %6, %20) {dims = [0, 2]} : i8[3,2,4,8]
  %23, %24 = quantise_rows(%2) {dtype = "i8"} : i8[T:2,2,8], f32[T:2,2,1]
  %25 = index_put(%14, %5, %6, )" +
                      k_scales +
                      R"() {dims = [0, 2]} : f32[3,2,4,1]
  %26 = index_put(%13, %5, %6, %23) {dims = [0, 2]} : i8[3,2,4,8]
  %27 = index_put(%15, %5, %6, %24) {dims = [0, 2]} : f32[3,2,4,1]
  %28 = paged_attention(%18, %22, %26, %7, %8, %9, %25, %27) {scale = 1.0} : bf16[T:2,4,8]
)",
                  R"("y" %28, "kc" %22, "vc" %26, "ks" %25, "vs" %27)");
  };
  ExpectPass(
      FuseRopeKv, unfused("%21"),
      I8Step(
          R"(  %16, %17, %18, %19, %20 = rope_kv_write(%0, %1, %2, %3, %4, %5, %6, %12, %13, %14, %15, %10, %11) {eps = 1e-06} : bf16[T:2,4,8], i8[3,2,4,8], i8[3,2,4,8], f32[3,2,4,1], f32[3,2,4,1]
  %21 = paged_attention(%16, %17, %18, %7, %8, %9, %19, %20) {scale = 1.0} : bf16[T:2,4,8]
)",
          R"("y" %21, "kc" %17, "vc" %18, "ks" %19, "vs" %20)"),
      kClaimsAll);
  ExpectUnchanged(FuseRopeKv, unfused("%24"), kClaimsAll);  // the scales of other rows
}

TEST(FuseRopeKvTest, ANormOfQAloneStaysBeforeIt) {
  const std::string norm = "  %14 = rms_norm(%0, %10) {eps = 1e-06} : bf16[T:2,4,8]\n";
  ExpectPass(
      FuseRopeKv,
      Step("bf16", norm + R"(  %15 = rope(%14, %3, %4) : bf16[T:2,4,8]
  %16 = rope(%1, %3, %4) : bf16[T:2,2,8]
  %17 = index_put(%12, %5, %6, %16) {dims = [0, 2]} : bf16[3,2,4,8]
  %18 = index_put(%13, %5, %6, %2) {dims = [0, 2]} : bf16[3,2,4,8]
  %19 = paged_attention(%15, %17, %18, %7, %8, %9) {scale = 1.0} : bf16[T:2,4,8]
)",
           R"("y" %19, "kc" %17, "vc" %18)"),
      Step(
          "bf16",
          norm +
              R"(  %15, %16, %17 = rope_kv_write(%14, %1, %2, %3, %4, %5, %6, %12, %13) : bf16[T:2,4,8], bf16[3,2,4,8], bf16[3,2,4,8]
  %18 = paged_attention(%15, %16, %17, %7, %8, %9) {scale = 1.0} : bf16[T:2,4,8]
)",
          R"("y" %18, "kc" %16, "vc" %17)"),
      kClaimsAll);
}

// Other places for K and V; another rotation; a turned k or q with other readers; a write of k that is read before v's.
TEST(FuseRopeKvTest, WhatDoesNotBelongTogetherStaysApart) {
  const auto unchanged = [](const std::string& q_rope, const std::string& v_write, const std::string& between,
                            const std::string& y) {
    ExpectUnchanged(FuseRopeKv,
                    Step("bf16", "  %14 = " + q_rope + R"( : bf16[T:2,4,8]
  %15 = rope(%1, %3, %4) : bf16[T:2,2,8]
  %16 = index_put(%12, %5, %6, %15) {dims = [0, 2]} : bf16[3,2,4,8]
  %17 = )" + between + R"(
  %18 = index_put(%13, )" + v_write + R"(, %2) {dims = [0, 2]} : bf16[3,2,4,8]
  %19 = paged_attention(%14, %16, %18, %7, %8, %9) {scale = 1.0} : bf16[T:2,4,8]
)",
                         "\"y\" " + y + R"(, "kc" %16, "vc" %18)"),
                    kClaimsAll);
  };
  const std::string harmless = "neg(%1) : bf16[T:2,2,8]";
  unchanged("rope(%0, %3, %4)", "%6, %5", harmless, "%19");
  unchanged("rope(%0, %4, %3)", "%5, %6", harmless, "%19");
  unchanged("rope(%0, %3, %4) {interleaved = 1}", "%5, %6", harmless, "%19");
  unchanged("rope(%0, %3, %4)", "%5, %6", "neg(%15) : bf16[T:2,2,8]", "%17");
  unchanged("rope(%0, %3, %4)", "%5, %6", "neg(%14) : bf16[T:2,4,8]", "%17");
  unchanged("rope(%0, %3, %4)", "%5, %6", "neg(%16) : bf16[3,2,4,8]", "%17");
}

TEST(FuseRopeKvTest, NothingHappensWithoutAKernel) {
  ExpectUnchanged(FuseRopeKv, Step("bf16", R"(  %14 = rope(%0, %3, %4) : bf16[T:2,4,8]
  %15 = rope(%1, %3, %4) : bf16[T:2,2,8]
  %16 = index_put(%12, %5, %6, %15) {dims = [0, 2]} : bf16[3,2,4,8]
  %17 = index_put(%13, %5, %6, %2) {dims = [0, 2]} : bf16[3,2,4,8]
  %18 = paged_attention(%14, %16, %17, %7, %8, %9) {scale = 1.0} : bf16[T:2,4,8]
)",
                                   R"("y" %18, "kc" %16, "vc" %17)"));
}

}  // namespace
}  // namespace deepinfer::passes
