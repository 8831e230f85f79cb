// rope_kv_write into caches of every type leaves the bits of the ops that it is made of.
#include <cmath>

#include "cpu/test_util.h"

namespace deepinfer::cpu {
namespace {

constexpr int64_t kRows = 3 * 2 * 4, kWidth = 8;  // of a cache: [blocks, heads, block size] and head size

// Three tokens with two heads of K and V. Where the turned keys are an output too, nothing is fused.
std::string StepText(const std::string& cache, bool fused) {
  const bool coded = cache == "i8" || cache == "f8e4m3fn", scaled = cache == "i8";
  std::string text =
      R"(module
func @step(%0: metadata "q" f32[T:3,4,8], %1: metadata "k" f32[T:3,2,8], %2: metadata "v" f32[T:3,2,8], )"
      R"(%3: metadata "cos" f32[T:3,4], %4: metadata "sin" f32[T:3,4], %5: metadata "block" i32[T:3], )"
      R"(%6: metadata "offset" i32[T:3], %7: metadata "tables" i32[Q:1,2], %8: metadata "start" i32[2], )"
      R"(%9: metadata "positions" i32[T:3], %10: weight "qn" f32[8], %11: weight "kn" f32[8], )";
  const std::string type = cache + "[3,2,4,8]";
  text += "%12: state \"kc\" " + type + " in \"kc\"+0, %13: state \"vc\" " + type + " in \"vc\"+0, " +
          "%14: state \"ks\" f32[3,2,4,1] in \"ks\"+0, %15: state \"vs\" f32[3,2,4,1] in \"vs\"+0) {\n";
  text += R"(  %16 = rms_norm(%0, %10) {eps = 1e-06} : f32[T:3,4,8]
  %17 = rms_norm(%1, %11) {eps = 1e-06} : f32[T:3,2,8]
  %18 = rope(%16, %3, %4) : f32[T:3,4,8]
  %19 = rope(%17, %3, %4) : f32[T:3,2,8]
)";
  int next = 20;
  std::string puts[2], scales[2];
  for (const int i : {0, 1}) {
    const std::string rows = i == 0 ? "%19" : "%2";
    const std::string codes = "%" + std::to_string(next++);
    if (scaled) scales[i] = "%" + std::to_string(next++);
    text += "  " + codes + (scaled ? ", " + scales[i] : "") + " = " +
            (coded ? "quantise_rows(" + rows + ") {dtype = \"" + cache + "\"}" : "convert(" + rows + ")") + " : " +
            cache + "[T:3,2,8]" + (scaled ? ", f32[T:3,2,1]" : "") + "\n";
    puts[i] = codes;
  }
  const auto put = [&](const std::string& state, const std::string& rows, const std::string& result_type) {
    const std::string result = "%" + std::to_string(next++);
    text += "  " + result + " = index_put(" + state + ", %5, %6, " + rows + ") {dims = [0, 2]} : " + result_type + "\n";
    return result;
  };
  const std::string k = put("%12", puts[0], type), v = put("%13", puts[1], type);
  std::string extras, outputs, aliases = "alias 1 -> 12, 2 -> 13";
  if (scaled) {
    const std::string ks = put("%14", scales[0], "f32[3,2,4,1]"), vs = put("%15", scales[1], "f32[3,2,4,1]");
    extras = ", " + ks + ", " + vs;
    outputs = ", \"ks\" " + ks + ", \"vs\" " + vs;
    aliases += ", 3 -> 14, 4 -> 15";
  }
  text += "  %" + std::to_string(next) + " = paged_attention(%18, " + k + ", " + v + ", %7, %8, %9" + extras +
          ") {scale = 1.0} : f32[T:3,4,8]\n";
  text += "  return \"y\" %" + std::to_string(next) + ", \"kc\" " + k + ", \"vc\" " + v + outputs +
          (fused ? "" : ", \"turned\" %19") + "\n} " + aliases + "\n";
  return text;
}

// What the step leaves in the buffers, and its result.
std::vector<std::string> BytesAfter(const std::string& cache, int64_t element, bool fused, int threads) {
  Step step(StepText(cache, fused), {.threads = threads, .isa = MachineIsas().back()});
  step.states = {
      {"kc", kRows * kWidth * element}, {"vc", kRows * kWidth * element}, {"ks", kRows * 4}, {"vs", kRows * 4}};
  step.weights = {{"qn", {}}, {"kn", {}}};
  for (int i = 0; i < 8; ++i) {
    step.weights["qn"].push_back(1 + 0.1f * static_cast<float>(i));
    step.weights["kn"].push_back(1 - 0.1f * static_cast<float>(i));
  }
  const auto numbers = [](size_t count, float by) {
    std::vector<float> values;
    for (size_t i = 0; i < count; ++i) values.push_back(3 * std::sin(by * static_cast<float>(i + 1)));
    return values;
  };
  step.floats = {{"q", numbers(96, 0.7f)},
                 {"k", numbers(48, 1.3f)},
                 {"v", numbers(48, 2.1f)},
                 {"cos", numbers(12, 0.3f)},
                 {"sin", numbers(12, 0.9f)}};
  step.ints = {
      {"block", {1, 2, 1}}, {"offset", {0, 3, 2}}, {"tables", {1, 2}}, {"start", {0, 3}}, {"positions", {0, 1, 2}}};
  step.outputs["y"] = std::vector<float>(96);
  if (!fused) step.outputs["turned"] = std::vector<float>(48);
  const Status started = step.Start();
  EXPECT_TRUE(started.has_value()) << started.error().ToString();
  if (!started) return {};
  EXPECT_EQ(ir::Print(step.module).find("rope_kv_write") != std::string::npos, fused);
  EXPECT_TRUE(step.Run().has_value());
  std::vector<std::string> bytes;
  for (const auto& [name, size] : step.states) {
    bytes.emplace_back(static_cast<const char*>(step.state_set->Address(name)), static_cast<size_t>(size));
  }
  bytes.emplace_back(reinterpret_cast<const char*>(step.outputs["y"].data()), 96 * sizeof(float));
  return bytes;
}

TEST(RopeKvWriteTest, LeavesTheBitsOfItsParts) {
  for (const auto& [cache, element] :
       std::vector<std::pair<std::string, int64_t>>{{"f16", 2}, {"bf16", 2}, {"f8e4m3fn", 1}, {"i8", 1}}) {
    SCOPED_TRACE(cache);
    const std::vector<std::string> parts = BytesAfter(cache, element, /*fused=*/false, 1);
    ASSERT_EQ(parts.size(), 5);
    EXPECT_NE(parts[0], std::string(parts[0].size(), '\0'));
    for (const int threads : {1, 2}) EXPECT_EQ(BytesAfter(cache, element, /*fused=*/true, threads), parts) << threads;
  }
}

}  // namespace
}  // namespace deepinfer::cpu
