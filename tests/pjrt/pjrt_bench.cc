// Measures the pjrt backend on a llama with the sizes of SmolLM2-135M and made-up weights:
//
//   pjrt_bench PLUGIN CACHE_DIR [LAYERS]
//
// Per graph: the StableHLO's size, compile time cold and from the cache, time per step and the part of it that is not
// the plugin's execution. CACHE_DIR must be empty for the cold numbers to be cold.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "pjrt/executable.h"
#include "pjrt/pjrt_backend.h"
#include "pjrt/test_models.h"
#include "pjrt/test_session.h"

namespace deepinfer::pjrt {
namespace {

struct Bucket {
  const char* name;
  models::Phase phase;
  int64_t tokens;
};

constexpr Bucket kBuckets[] = {{"decode 1", models::Phase::kDecode, 1},
                               {"decode 4", models::Phase::kDecode, 4},
                               {"prefill 64", models::Phase::kPrefill, 64}};

constexpr int kSteps = 20;

Result<ir::Module> Record(const models::Model& model, const Bucket& bucket) {
  models::StepShape shape;
  shape.phase = bucket.phase;
  shape.tokens = bucket.tokens;
  shape.requests = bucket.phase == models::Phase::kDecode ? bucket.tokens : 1;
  shape.rows = shape.requests;
  shape.blocks = 65;
  shape.max_blocks = 8;
  shape.slots = 4;
  shape.activations = DType::kF32;
  shape.kv = DType::kF32;
  DI_ASSIGN_OR_RETURN(ir::Module module, model.Record(shape, models::PlainWeights(model)));
  DI_RETURN_IF_ERROR(
      passes::RunPipeline(&module, {}, {{"functionalize", "decompose", "constant_fold", "cse", "dce"}, {}, {}}));
  return module;
}

Status Measure(const models::Model& model, const backend::WeightMap& weights, const PjrtOptions& options, bool steps) {
  DI_ASSIGN_OR_RETURN(auto backend, CreatePjrtBackend(options));
  TestSession session(std::move(backend));
  for (const Bucket& bucket : kBuckets) {
    DI_ASSIGN_OR_RETURN(const ir::Module module, Record(model, bucket));
    session.Add(bucket.name, module);
  }
  DI_RETURN_IF_ERROR(session.Start(weights));
  for (const Bucket& bucket : kBuckets) {
    auto& executable = dynamic_cast<TimedExecutable&>(session.executable(bucket.name));
    fmt::print("{:11} {}\n", bucket.name, executable.Describe()[0]);
    if (!steps) continue;
    std::vector<double> execute;
    std::vector<double> host;
    for (int i = 0; i < kSteps; ++i) {
      const StepTimes before = executable.times();
      DI_RETURN_IF_ERROR(session.Run(bucket.name));
      const StepTimes after = executable.times();
      execute.push_back(after.execute_us - before.execute_us);
      host.push_back(after.host_us - before.host_us);
    }
    std::sort(execute.begin(), execute.end());
    std::sort(host.begin(), host.end());
    fmt::print("{:11} per step: {:.2f} ms in the plugin, host work {:.0f} us (median), {:.0f} us (least)\n",
               bucket.name, execute[kSteps / 2] / 1000, host[kSteps / 2], host[0]);
  }
  return {};
}

Status Run(const PjrtOptions& options, int layers) {
  DI_ASSIGN_OR_RETURN(const auto model,
                      models::CreateFromJson(models::SmallConfig("LlamaForCausalLM", {{"hidden_size", 576},
                                                                                      {"intermediate_size", 1536},
                                                                                      {"num_hidden_layers", layers},
                                                                                      {"num_attention_heads", 9},
                                                                                      {"num_key_value_heads", 3},
                                                                                      {"vocab_size", 49152},
                                                                                      {"head_dim", 64},
                                                                                      {"tie_word_embeddings", true}})));
  std::map<std::string, std::vector<float>> values;
  backend::WeightMap weights;
  for (const models::WeightSpec& weight : model->Weights()) {
    std::vector<float>& data = values[weight.name];
    data.assign(static_cast<size_t>(ir::Type(DType::kF32, {weight.shape.begin(), weight.shape.end()}).NumElements()),
                0.01f);
    weights[weight.name] = {weight.name, Encoding::kF32, weight.shape, reinterpret_cast<const std::byte*>(data.data())};
  }
  for (const bool steps : {false, true}) DI_RETURN_IF_ERROR(Measure(*model, weights, options, steps));
  return {};
}

}  // namespace
}  // namespace deepinfer::pjrt

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: pjrt_bench PLUGIN CACHE_DIR [LAYERS]\n");
    return 2;
  }
  const auto status = deepinfer::pjrt::Run({argv[1], argv[2]}, argc > 3 ? std::atoi(argv[3]) : 30);
  if (!status) fmt::print(stderr, "error: {}\n", status.error().ToString());
  return status ? 0 : 1;
}
