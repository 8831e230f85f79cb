// For tests: a module given as text on a fresh reference backend, with f32 and i32 buffers by name.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "ir/text.h"
#include "passes/pass.h"
#include "reference/reference.h"

namespace deepinfer::reference {

class Step {
 public:
  explicit Step(const std::string& text, ReferenceOptions options = {.threads = 2, .poison_padding = true})
      : options_(options) {
    auto module = ir::Parse(text);
    EXPECT_TRUE(module.has_value()) << (module ? "" : module.error().ToString());
    if (module) module_ = *std::move(module);
  }

  std::map<std::string, std::vector<float>> weights, outputs;
  std::map<std::string, std::vector<std::vector<float>>> shards;  // weights by rank
  std::map<std::string, std::vector<float>> floats;               // metadata
  std::map<std::string, std::vector<int32_t>> ints;               // metadata
  std::map<std::string, int64_t> states;                          // bytes by buffer
  backend::BreakRegistry breaks;
  backend::GraphMode mode = backend::GraphMode::kFull;

  Status Compile() {
    backend_ = CreateReferenceBackend(options_);
    const passes::PipelineOptions pipeline{.passes = backend_->passes()};
    DI_RETURN_IF_ERROR(passes::RunPipeline(&module_, {}, pipeline));
    DI_RETURN_IF_ERROR(backend_->SetWeights(Weights(), ""));
    DI_ASSIGN_OR_RETURN(states_, backend_->AllocateStates(states));
    DI_ASSIGN_OR_RETURN(executable_, backend_->Compile(module_, {mode, &breaks}));
    return backend_->Finalize();
  }
  Status Capture() { return executable_->Capture(io()); }
  Status Run() { return executable_->Run(io()); }
  Status Start() {
    DI_RETURN_IF_ERROR(Compile());
    return Capture();
  }

  backend::StepIo io() {
    backend::StepIo io;
    for (auto& [name, v] : floats) io.metadata.push_back({name, v.data(), static_cast<int64_t>(v.size() * 4)});
    for (auto& [name, v] : ints) io.metadata.push_back({name, v.data(), static_cast<int64_t>(v.size() * 4)});
    for (auto& [name, v] : outputs) io.outputs.push_back({name, v.data(), static_cast<int64_t>(v.size() * 4)});
    io.states = states_.get();
    return io;
  }
  float* State(const std::string& buffer) { return static_cast<float*>(states_->Address(buffer)); }
  backend::Executable& executable() { return *executable_; }
  backend::Backend& backend() { return *backend_; }

 private:
  backend::WeightMap Weights() const {
    backend::WeightMap map;
    for (const ir::Input& input : module_.entry().inputs) {
      if (input.kind != ir::InputKind::kWeight) continue;
      backend::WeightData data{input.name, Encoding::kF32, module_.entry().TypeOf(input.value).Shape()};
      const auto bytes = [](const std::vector<float>& v) { return reinterpret_cast<const std::byte*>(v.data()); };
      if (const auto it = weights.find(input.name); it != weights.end()) data.data = bytes(it->second);
      if (const auto it = shards.find(input.name); it != shards.end()) {
        for (const std::vector<float>& shard : it->second) data.shards.push_back(bytes(shard));
      }
      if (data.data != nullptr || !data.shards.empty()) map[input.name] = std::move(data);
    }
    return map;
  }

  ReferenceOptions options_;
  ir::Module module_;
  std::unique_ptr<backend::Backend> backend_;
  std::unique_ptr<backend::StateSet> states_;
  std::unique_ptr<backend::Executable> executable_;
};

inline void ExpectError(const Status& status, ErrorCode code, const std::string& text) {
  ASSERT_FALSE(status.has_value()) << text;
  EXPECT_EQ(status.error().code, code) << status.error().ToString();
  EXPECT_NE(status.error().ToString().find(text), std::string::npos) << status.error().ToString();
}

}  // namespace deepinfer::reference
