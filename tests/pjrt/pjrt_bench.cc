// Measures the pjrt backend on a llama with the sizes of SmolLM2-135M and made-up weights:
//
//   pjrt_bench PLUGIN CACHE_DIR [--layers N] [--weights f32|bf16] [--activations f32|bf16] [--blocks N] [--steps N]
//              [--graph NAME]... [--small]
//
// Per graph: the StableHLO's size, compile time cold and from the cache, and where the time of a step goes: the plugin
// (in its call, until it is done) and this backend (before the call, while the plugin computes, after it). Each step
// gets new token ids and positions, as in decoding. CACHE_DIR must be empty for the cold numbers to be cold.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>

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

struct Flags {
  PjrtOptions backend;
  int layers = 30;
  int steps = 20;
  int64_t blocks = 65;
  std::string weights = "f32";
  std::string activations = "f32";
  std::vector<std::string> graphs;
  bool small = false;
};

bool Wanted(const Flags& flags, const std::string& graph) {
  return flags.graphs.empty() || std::find(flags.graphs.begin(), flags.graphs.end(), graph) != flags.graphs.end();
}

Encoding WeightEncoding(const Flags& flags) {
  return flags.weights == "bf16" ? Encoding::kBF16 : Encoding::kF32;
}

Result<ir::Module> Record(const models::Model& model, const Flags& flags, const Bucket& bucket) {
  models::StepShape shape;
  shape.phase = bucket.phase;
  shape.tokens = bucket.tokens;
  shape.requests = bucket.phase == models::Phase::kDecode ? bucket.tokens : 1;
  shape.rows = shape.requests;
  shape.blocks = flags.blocks;
  shape.max_blocks = 8;
  shape.slots = 4;
  shape.activations = flags.activations == "bf16" ? DType::kBF16 : DType::kF32;
  shape.kv = shape.activations;
  DI_ASSIGN_OR_RETURN(ir::Module module, model.Record(shape, models::PlainWeights(model, WeightEncoding(flags))));
  DI_RETURN_IF_ERROR(passes::RunPipeline(&module, {}, {StableHloPasses(), {}, {}}));
  return module;
}

// Microseconds of one step.
struct Sample {
  StepTimes times;
  double total_us = 0;
};

double Median(const std::vector<Sample>& samples, const std::function<double(const Sample&)>& of) {
  std::vector<double> values;
  for (const Sample& sample : samples) values.push_back(of(sample));
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

Result<Sample> TimeStep(TestSession* session, const std::string& graph, int step) {
  auto& executable = dynamic_cast<TimedExecutable&>(session->executable(graph));
  const backend::StepIo io = session->Io(graph);
  session->Set<int32_t>(graph, models::input::kTokenIds, {step % 300});
  session->Set<int32_t>(graph, models::input::kPositions, {step % 256});
  session->Set<int32_t>(graph, models::input::kSlots, {32 + step % 256});
  session->Set<float>(graph, models::input::kUniforms, {static_cast<float>(step % 100) / 100});
  const StepTimes before = executable.times();
  const auto start = std::chrono::steady_clock::now();
  DI_RETURN_IF_ERROR(executable.Run(io));
  const std::chrono::duration<double, std::micro> total = std::chrono::steady_clock::now() - start;
  const StepTimes after = executable.times();
  return Sample{{1, after.before_us - before.before_us, after.call_us - before.call_us,
                 after.during_us - before.during_us, after.wait_us - before.wait_us, after.after_us - before.after_us},
                total.count()};
}

Status MeasureSteps(TestSession* session, const std::string& graph, int steps) {
  std::vector<Sample> samples;
  for (int i = 0; i < steps; ++i) {
    DI_ASSIGN_OR_RETURN(const Sample sample, TimeStep(session, graph, i));
    samples.push_back(sample);
  }
  const auto median = [&](double StepTimes::* part) {
    return Median(samples, [&](const Sample& s) { return s.times.*part; });
  };
  const auto beyond = [](const Sample& s) {
    return s.total_us - s.times.call_us - s.times.during_us - s.times.wait_us;
  };
  const auto total = [](const Sample& s) { return s.total_us; };
  const auto least = [&](const auto& of) {
    double value = of(samples[0]);
    for (const Sample& sample : samples) value = std::min(value, of(sample));
    return value;
  };
  fmt::print(
      "{:11} median of {} steps: {:.3f} ms (least {:.3f}); plugin: {:.0f} us in its call, then {:.0f} us until "
      "done; ours: {:.0f} us before, {:.0f} us meanwhile, {:.0f} us after; beyond the execution {:.0f} us (least "
      "{:.0f})\n",
      graph, steps, Median(samples, total) / 1000, least(total) / 1000, median(&StepTimes::call_us),
      median(&StepTimes::wait_us), median(&StepTimes::before_us), median(&StepTimes::during_us),
      median(&StepTimes::after_us), Median(samples, beyond), least(beyond));
  return {};
}

Status Measure(const models::Model& model, const backend::WeightMap& weights, const Flags& flags, bool steps) {
  DI_ASSIGN_OR_RETURN(auto backend, CreatePjrtBackend(flags.backend));
  TestSession session(std::move(backend));
  for (const Bucket& bucket : kBuckets) {
    if (!Wanted(flags, bucket.name)) continue;
    DI_ASSIGN_OR_RETURN(const ir::Module module, Record(model, flags, bucket));
    session.Add(bucket.name, module);
  }
  DI_RETURN_IF_ERROR(session.Start(weights));
  for (const Bucket& bucket : kBuckets) {
    if (!Wanted(flags, bucket.name)) continue;
    fmt::print("{:11} {}\n", bucket.name, session.executable(bucket.name).Describe()[0]);
    if (steps) DI_RETURN_IF_ERROR(MeasureSteps(&session, bucket.name, flags.steps));
  }
  return {};
}

nlohmann::json Config(const Flags& flags) {
  if (flags.small) return models::SmallConfig("LlamaForCausalLM", {{"num_hidden_layers", flags.layers}});
  return models::SmallConfig("LlamaForCausalLM", {{"hidden_size", 576},
                                                  {"intermediate_size", 1536},
                                                  {"num_hidden_layers", flags.layers},
                                                  {"num_attention_heads", 9},
                                                  {"num_key_value_heads", 3},
                                                  {"vocab_size", 49152},
                                                  {"head_dim", 64},
                                                  {"tie_word_embeddings", true}});
}

Status Run(const Flags& flags) {
  DI_ASSIGN_OR_RETURN(const auto model, models::CreateFromJson(Config(flags)));
  std::map<std::string, std::vector<std::byte>> values;
  backend::WeightMap weights;
  for (const models::WeightSpec& weight : model->Weights()) {
    const Encoding encoding = weight.shape.size() == 1 ? Encoding::kF32 : WeightEncoding(flags);
    const ir::Type type = ir::Type::Weight(encoding, weight.shape);
    std::vector<std::byte>& data = values[weight.name];
    data.resize(static_cast<size_t>(type.Bytes()));
    // 0.0078: its upper half is it, as bf16.
    const uint16_t pattern[2] = {static_cast<uint16_t>(encoding == Encoding::kBF16 ? 0x3C00 : 0), 0x3C00};
    for (size_t i = 0; i + sizeof(pattern) <= data.size(); i += sizeof(pattern)) {
      std::memcpy(data.data() + i, pattern, sizeof(pattern));
    }
    weights[weight.name] = {weight.name, encoding, weight.shape, data.data()};
  }
  for (const bool steps : {false, true}) DI_RETURN_IF_ERROR(Measure(*model, weights, flags, steps));
  return {};
}

}  // namespace
}  // namespace deepinfer::pjrt

int main(int argc, char** argv) {
  deepinfer::pjrt::Flags flags;
  CLI::App app("Measures the pjrt backend");
  const CLI::IsMember dtypes({"f32", "bf16"});
  app.add_option("plugin", flags.backend.plugin, "path or name")->required();
  app.add_option("cache_dir", flags.backend.cache_dir, "where compiled executables are kept")->required();
  app.add_option("--layers", flags.layers)->capture_default_str();
  app.add_option("--weights", flags.weights)->check(dtypes)->capture_default_str();
  app.add_option("--activations", flags.activations, "and KV cache")->check(dtypes)->capture_default_str();
  app.add_option("--blocks", flags.blocks, "of the KV cache")->capture_default_str();
  app.add_option("--steps", flags.steps)->capture_default_str();
  app.add_option("--graph", flags.graphs, "only these: 'decode 1', 'decode 4', 'prefill 64'");
  app.add_flag("--small", flags.small, "a llama of 64 channels");
  CLI11_PARSE(app, argc, argv);
  const auto status = deepinfer::pjrt::Run(flags);
  if (!status) fmt::print(stderr, "error: {}\n", status.error().ToString());
  return status ? 0 : 1;
}
