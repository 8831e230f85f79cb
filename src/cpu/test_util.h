// For tests of executables: a module given as text on a fresh CPU backend, with its buffers by name.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cpu/cpu_backend.h"
#include "ir/text.h"
#include "passes/pass.h"

namespace deepinfer::cpu {

class Step {
 public:
  explicit Step(const std::string& text, CpuOptions options = {.threads = 2, .isa = MachineIsas().back()})
      : backend(std::move(options)) {
    auto parsed = ir::Parse(text);
    EXPECT_TRUE(parsed.has_value()) << (parsed ? "" : parsed.error().ToString());
    if (parsed) module = *std::move(parsed);
  }

  std::map<std::string, std::vector<float>> weights, floats, outputs;  // floats: metadata
  std::map<std::string, std::vector<int32_t>> ints;                    // metadata
  std::map<std::string, int64_t> states;                               // bytes by buffer
  backend::BreakRegistry breaks;
  backend::GraphMode mode = backend::GraphMode::kFull;
  ir::Module module;
  CpuBackend backend;

  Status Compile() {
    passes::PassContext context;
    context.claims = [this](const ir::Function& f, const ir::Node& node) { return backend.Claims(f, node); };
    passes::PipelineOptions pipeline;
    pipeline.passes = backend.passes();
    DI_RETURN_IF_ERROR(passes::RunPipeline(&module, context, pipeline));
    backend::WeightMap map;
    for (const auto& [name, values] : weights) {
      for (const ir::Input& input : module.entry().inputs) {
        if (input.name != name) continue;
        map[name] = {name, Encoding::kF32, module.entry().TypeOf(input.value).Shape(),
                     reinterpret_cast<const std::byte*>(values.data())};
      }
    }
    DI_RETURN_IF_ERROR(backend.SetWeights(std::move(map), "test"));
    DI_ASSIGN_OR_RETURN(state_set, backend.AllocateStates(states));
    DI_ASSIGN_OR_RETURN(executable, backend.Compile(module, {mode, &breaks}));
    return {};
  }
  Status Start() {
    DI_RETURN_IF_ERROR(Compile());
    DI_RETURN_IF_ERROR(backend.Finalize());
    return Capture();
  }
  Status Capture() { return executable->Capture(Io()); }
  Status Run() { return executable->Run(Io()); }

  backend::StepIo Io() {
    backend::StepIo io;
    for (auto& [name, v] : floats) io.metadata.push_back({name, v.data(), static_cast<int64_t>(v.size() * 4)});
    for (auto& [name, v] : ints) io.metadata.push_back({name, v.data(), static_cast<int64_t>(v.size() * 4)});
    for (auto& [name, v] : outputs) io.outputs.push_back({name, v.data(), static_cast<int64_t>(v.size() * 4)});
    io.states = state_set.get();
    return io;
  }
  std::vector<float> State(const std::string& buffer, size_t count) {
    const auto* data = static_cast<const float*>(state_set->Address(buffer));
    return {data, data + count};
  }
  const CpuExecutable& Executable() const { return dynamic_cast<const CpuExecutable&>(*executable); }

  std::unique_ptr<backend::StateSet> state_set;
  std::unique_ptr<backend::Executable> executable;
};

inline void ExpectError(const Status& status, ErrorCode code, const std::string& text) {
  ASSERT_FALSE(status.has_value()) << text;
  EXPECT_EQ(status.error().code, code) << status.error().ToString();
  EXPECT_NE(status.error().ToString().find(text), std::string::npos) << status.error().ToString();
}

}  // namespace deepinfer::cpu
