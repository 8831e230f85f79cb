// For tests: graphs of one model on any backend, with weights, states and host slots of their own.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "ir/graph.h"

namespace deepinfer::pjrt {

using HostBuffer = std::vector<std::byte>;

class TestSession {
 public:
  explicit TestSession(std::unique_ptr<backend::Backend> backend) : backend_(std::move(backend)) {}

  // Slots start as zeros: no token is live, whatever is written goes to the null block.
  void Add(const std::string& name, const ir::Module& module) {
    Graph& graph = graphs_[name];
    graph.module = module;
    const ir::Function& f = graph.module.entry();
    for (const ir::Input& input : f.inputs) {
      const ir::Type& type = f.TypeOf(input.value);
      if (input.kind == ir::InputKind::kMetadata) graph.inputs[input.name].resize(static_cast<size_t>(type.Bytes()));
      if (input.kind != ir::InputKind::kState) continue;
      int64_t& bytes = state_bytes_[input.buffer.empty() ? input.name : input.buffer];
      bytes = std::max(bytes, input.offset * static_cast<int64_t>(SizeOf(type.dtype)) + type.Bytes());
    }
    for (const ir::Output& output : f.outputs) {
      graph.outputs[output.name].resize(static_cast<size_t>(f.TypeOf(output.value).Bytes()));
    }
    if (const auto it = graph.module.io_map.find(f.name); it != graph.module.io_map.end()) {
      for (const ir::Alias& alias : it->second) graph.outputs.erase(f.outputs[alias.output].name);
    }
  }

  Status Start(const backend::WeightMap& weights = {}) {
    DI_RETURN_IF_ERROR(backend_->SetWeights(weights, "test"));
    DI_ASSIGN_OR_RETURN(states_, backend_->AllocateStates(state_bytes_));
    for (auto& [name, graph] : graphs_) {
      DI_ASSIGN_OR_RETURN(graph.executable, backend_->Compile(graph.module, {}));
    }
    DI_RETURN_IF_ERROR(backend_->Finalize());
    for (auto& [name, graph] : graphs_) DI_RETURN_IF_ERROR(graph.executable->Capture(Io(name)));
    return {};
  }
  Status Run(const std::string& name) { return graphs_.at(name).executable->Run(Io(name)); }

  template <class T>
  void Set(const std::string& graph, const std::string& input, const std::vector<T>& values) {
    HostBuffer& buffer = graphs_.at(graph).inputs.at(input);
    ASSERT_LE(values.size() * sizeof(T), buffer.size()) << input;
    std::memcpy(buffer.data(), values.data(), values.size() * sizeof(T));
  }
  template <class T>
  std::vector<T> Get(const std::string& graph, const std::string& output) {
    const HostBuffer& buffer = graphs_.at(graph).outputs.at(output);
    std::vector<T> values(buffer.size() / sizeof(T));
    std::memcpy(values.data(), buffer.data(), buffer.size());
    return values;
  }
  backend::Executable& executable(const std::string& graph) { return *graphs_.at(graph).executable; }
  backend::Backend& backend() { return *backend_; }

  backend::StepIo Io(const std::string& name) {
    backend::StepIo io;
    Graph& graph = graphs_.at(name);
    for (auto* slots : {&graph.inputs, &graph.outputs}) {
      for (auto& [slot, bytes] : *slots) bytes.reserve(1);  // an empty one needs an address, too
    }
    for (auto& [slot, bytes] : graph.inputs) io.metadata.push_back({slot, bytes.data(), Size(bytes)});
    for (auto& [slot, bytes] : graph.outputs) io.outputs.push_back({slot, bytes.data(), Size(bytes)});
    io.states = states_.get();
    return io;
  }

 private:
  struct Graph {
    ir::Module module;
    std::map<std::string, HostBuffer> inputs;
    std::map<std::string, HostBuffer> outputs;
    std::unique_ptr<backend::Executable> executable;
  };
  static int64_t Size(const HostBuffer& bytes) { return static_cast<int64_t>(bytes.size()); }

  std::unique_ptr<backend::Backend> backend_;  // outlives states and executables
  std::map<std::string, int64_t> state_bytes_;
  std::unique_ptr<backend::StateSet> states_;
  std::map<std::string, Graph> graphs_;
};

}  // namespace deepinfer::pjrt
