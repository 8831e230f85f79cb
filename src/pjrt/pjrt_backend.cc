#include "pjrt/pjrt_backend.h"

#include <xxhash.h>

#include <map>
#include <mutex>

#include "ir/collective.h"
#include "pjrt/executable.h"
#include "pjrt/executable_store.h"
#include "pjrt/stablehlo.h"
#include "pjrt/target.h"

namespace deepinfer::pjrt {
namespace {

struct Weight {
  ir::Type type;
  std::vector<Buffer> buffers;  // by rank
};

// Bits are those that were written down: no f32 kept where bf16 is asked for, and NaN survives min and max.
CompileOptionsSpec OptionsFor(const Client& client, int64_t ranks) {
  CompileOptionsSpec options;
  options.num_replicas = ranks;
  const std::string& platform = client.platform();
  if (platform == "cpu" || platform == "cuda" || platform == "rocm") {
    options.overrides["xla_allow_excess_precision"] = false;
  }
  if (platform == "cpu") options.overrides["xla_cpu_enable_fast_min_max"] = false;
  return options;
}

class PjrtBackend final : public backend::Backend {
 public:
  PjrtBackend(std::shared_ptr<const Client> client, const PjrtOptions& options)
      : client_(std::move(client)),
        ranks_(static_cast<size_t>(options.ranks)),
        store_(client_, options.cache_dir),
        options_(OptionsFor(*client_, options.ranks)) {}

  const char* name() const override { return "pjrt"; }
  backend::Caps caps() const override {
    backend::Caps caps = StableHloCaps();
    caps.ranks = options_.num_replicas;
    return caps;
  }
  std::string target() const override {
    const std::string& identity = store_.identity();
    return fmt::format("pjrt-{}-{}-{:016x}-{}", client_->platform(), client_->plugin().version(),
                       XXH3_64bits(identity.data(), identity.size()), ranks_);
  }
  std::vector<std::string> passes() const override { return StableHloPasses(); }
  bool Claims(const ir::Function& /*function*/, const ir::Node& /*node*/) const override { return false; }

  Status SetWeights(backend::WeightMap weights, const std::string& /*identity*/) override {
    for (const auto& [name, weight] : weights) DI_RETURN_IF_ERROR(SetWeight(name, weight));
    return {};
  }

  Result<std::unique_ptr<backend::StateSet>> AllocateStates(
      const std::map<std::string, int64_t>& bytes_by_buffer) override {
    return std::make_unique<PjrtStates>(client_, ranks_, bytes_by_buffer);
  }

  Result<std::unique_ptr<backend::Executable>> Compile(const ir::Module& module,
                                                       const backend::CompileOptions& options) override {
    DI_RETURN_IF_ERROR(CheckRanks(module));
    DI_RETURN_IF_ERROR(CheckBreaks(module, options));
    DI_ASSIGN_OR_RETURN(
        const std::string text,
        PrintStableHlo(module, {.ranks = options_.num_replicas, .pair_single_rows = client_->platform() == "cpu"}));
    DI_ASSIGN_OR_RETURN(Binding binding, Bind(module));
    DI_ASSIGN_OR_RETURN(Compiled compiled, store_.Get(text, options_));
    std::string description =
        fmt::format("{}: one executable of {} ({}), {} KiB of StableHLO, {} in {:.0f} ms", module.entry().name,
                    client_->plugin().Label(), client_->platform(), text.size() / 1024,
                    compiled.from_cache ? "from the cache" : "compiled", compiled.ms);
    if (!compiled.note.empty()) {
      const std::lock_guard<std::mutex> lock(mutex_);
      notes_.push_back(compiled.note);
    }
    return MakePjrtExecutable(client_, ranks_, std::move(binding), std::move(compiled.executable),
                              std::move(description));
  }

  Status Finalize() override { return {}; }
  int64_t weight_bytes() const override { return weight_bytes_; }
  std::vector<std::string> notes() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return notes_;
  }

 private:
  Status SetWeight(const std::string& name, const backend::WeightData& weight) {
    if (weight.encoding != Encoding::kF32 && weight.encoding != Encoding::kBF16) {
      return MakeError(ErrorCode::kUnsupported, "weight '" + name + "'", "is {}; the pjrt backend reads f32 and bf16",
                       ToString(weight.encoding));
    }
    if (!weight.shards.empty() && weight.shards.size() != ranks_) {
      return MakeError(ErrorCode::kInvalidArgument, "weight '" + name + "'", "is of {} ranks, this backend runs {}",
                       weight.shards.size(), ranks_);
    }
    const ir::Type type = ir::Type::Weight(weight.encoding, weight.shape);
    std::vector<Buffer> buffers;
    for (size_t rank = 0; rank < ranks_; ++rank) {
      auto buffer = client_->Upload(weight.DataOf(rank), type, HostBytes::kForever, rank);
      if (!buffer) return About(fmt::format("weight '{}' {}", name, ToString(type)), buffer.error());
      buffers.push_back(*std::move(buffer));
      weight_bytes_ += type.Bytes();
    }
    weights_[name] = {type, std::move(buffers)};
    return {};
  }

  // A module without collectives is run by every rank for itself.
  Status CheckRanks(const ir::Module& module) const {
    const int64_t world = ir::WorldSize(module);
    if (world == 1 || world == options_.num_replicas) return {};
    return MakeError(ErrorCode::kInvalidArgument, "module", "the step is of {} ranks, this backend runs {}", world,
                     ranks_);
  }

  static Status CheckBreaks(const ir::Module& module, const backend::CompileOptions& options) {
    if (options.mode == backend::GraphMode::kFull || options.breaks == nullptr) return {};
    for (const ir::Function& function : module.functions) {
      for (const ir::Node& node : function.nodes) {
        if (node.op == ir::Op::kBreak && options.breaks->count(node.Str("name")) != 0) {
          return MakeError(ErrorCode::kUnsupported, "break '" + node.Str("name") + "'",
                           "the pjrt backend runs whole graphs only");
        }
      }
    }
    return {};
  }

  Result<Binding> Bind(const ir::Module& module) const {
    const ir::Function& entry = module.entry();
    Binding binding;
    for (const ir::Input& input : entry.inputs) {
      Binding::Argument argument{input, entry.TypeOf(input.value)};
      if (input.kind == ir::InputKind::kArgument) {
        return MakeError(ErrorCode::kInvalidArgument, "input '" + input.name + "'", "a step has no plain arguments");
      }
      if (input.kind == ir::InputKind::kWeight) {
        DI_ASSIGN_OR_RETURN(argument.weights, FindWeight(input.name, argument.type));
      }
      binding.arguments.push_back(std::move(argument));
    }
    for (const ir::Output& output : entry.outputs) binding.results.push_back({output.name, entry.TypeOf(output.value)});
    if (const auto it = module.io_map.find(entry.name); it != module.io_map.end()) {
      for (const ir::Alias& alias : it->second) {
        binding.arguments[alias.input].output = alias.output;
        binding.results[alias.output].is_state = true;
      }
    }
    return binding;
  }

  Result<std::vector<PJRT_Buffer*>> FindWeight(const std::string& name, const ir::Type& type) const {
    const auto weight = weights_.find(name);
    if (weight == weights_.end()) return MakeError(ErrorCode::kNotFound, "weight '" + name + "'", "is not loaded");
    const ir::Type& have = weight->second.type;
    if (have.dtype != type.dtype || !SameShape(have, type)) {
      return MakeError(ErrorCode::kInvalidArgument, "weight '" + name + "'", "is {} where the graph wants {}",
                       ToString(have), ToString(type));
    }
    std::vector<PJRT_Buffer*> buffers;
    for (const Buffer& buffer : weight->second.buffers) buffers.push_back(buffer.get());
    return buffers;
  }

  const std::shared_ptr<const Client> client_;
  const size_t ranks_;
  const ExecutableStore store_;
  const CompileOptionsSpec options_;
  std::map<std::string, Weight> weights_;
  int64_t weight_bytes_ = 0;
  mutable std::mutex mutex_;  // of notes_: graphs are compiled on several threads
  std::vector<std::string> notes_;
};

}  // namespace

Result<std::unique_ptr<backend::Backend>> CreatePjrtBackend(const PjrtOptions& options) {
  DI_ASSIGN_OR_RETURN(const PluginFile file, FindPlugin(options.plugin));
  DI_ASSIGN_OR_RETURN(std::shared_ptr<const Plugin> plugin, Plugin::Load(file));
  DI_ASSIGN_OR_RETURN(Client client, Client::Create(std::move(plugin)));
  if (options.ranks < 1 || options.ranks > static_cast<int64_t>(client.num_devices())) {
    return MakeError(ErrorCode::kInvalidArgument, client.plugin().Label(), "has {} devices, {} are needed",
                     client.num_devices(), options.ranks);
  }
  return std::make_unique<PjrtBackend>(std::make_shared<const Client>(std::move(client)), options);
}

}  // namespace deepinfer::pjrt
