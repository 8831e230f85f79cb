// Random graphs: their plans keep the rules of groups and of memory, and their runs give the reference's bits.
#include "cpu/plan.h"

#include <random>
#include <set>

#include "cpu/test_util.h"
#include "interp/interp.h"
#include "ir/builder.h"
#include "passes/memory_plan.h"

namespace deepinfer::cpu {
namespace {

using ir::Op;
using ir::Type;
using ir::Value;
using ir::ValueId;

// Elementwise work, views, reductions, reads and writes of two states, calls, cases and breaks, in any order.
class RandomModule {
 public:
  explicit RandomModule(uint32_t seed) : random_(seed) {}

  Result<ir::Module> Record(int nodes) {
    ir::Builder b = module_.Entry();
    const Type type(DType::kF32, {4, 8});
    std::vector<Value> values = {b.Input("x", ir::InputKind::kMetadata, type)};
    index_ = b.Input("i", ir::InputKind::kMetadata, Type(DType::kI32, {4}));
    const Value which = b.Input("c", ir::InputKind::kMetadata, Type(DType::kI32, {}));
    const Value states[] = {b.StateView("s", Type(DType::kF32, {6, 8}), "buffer", 0, ""),
                            b.StateView("t", Type(DType::kF32, {6, 8}), "buffer", 48, "")};
    RecordCallee("up", Op::kAdd);
    RecordCallee("down", Op::kSub);
    for (int i = 0; i < nodes; ++i) {
      const Value a = Pick(values);
      const Value c = Pick(values);
      const Value state = states[random_() % 2];
      switch (random_() % 12) {
        case 0:
          values.push_back(b.Emit(Op::kAdd, {a, c}));
          break;
        case 1:
          values.push_back(b.Emit(Op::kMax, {a, c}));
          break;
        case 2:
          values.push_back(b.Emit(Op::kTanh, {a}));
          break;
        case 3:
          values.push_back(b.Reshape(b.Emit(Op::kNeg, {b.Reshape(a, {8, 4})}), type.dims));
          break;
        case 4:
          values.push_back(b.Reshape(b.Reshape(a, {32}), type.dims));
          break;
        case 5:
          values.push_back(b.Broadcast(b.Reduce(a, "max", {1}), type.dims, {0}));
          break;
        case 6:
          values.push_back(b.Emit(Op::kMul, {a, b.Splat(type, 0.5)}));
          break;
        case 7:
          values.push_back(b.Emit(Op::kTake, {state, index_}));
          break;
        case 8:
          b.IndexPut(state, {index_}, a, {0});
          break;
        case 9:
          values.push_back(b.Call("up", {a, state, index_})[0]);
          break;
        case 10:
          // The index is computed right before it is needed.
          values.push_back(b.Emit(Op::kCase, {b.WithScalar(Op::kMin, which, 1), a, state, index_},
                                  {{"branches", std::vector<std::string>{"up", "down"}}}));
          break;
        default:
          values.push_back(b.EagerBreak("b", "down", {a, state, index_})[0]);
      }
    }
    for (int i = 0; i < 3; ++i) b.Output("y" + std::to_string(i), Pick(values));
    return module_.Finish();
  }

 private:
  Value Pick(const std::vector<Value>& values) {
    // Mostly late ones, so that chains grow.
    const size_t back = random_() % std::min<size_t>(values.size(), random_() % 4 == 0 ? values.size() : 4);
    return values[values.size() - 1 - back];
  }

  void RecordCallee(const std::string& name, Op op) {
    ir::Builder f = module_.Function(name);
    const Value x = f.Input("x", ir::InputKind::kArgument, Type(DType::kF32, {4, 8}));
    const Value s = f.Input("s", ir::InputKind::kState, Type(DType::kF32, {6, 8}));
    const Value i = f.Input("i", ir::InputKind::kArgument, Type(DType::kI32, {4}));
    const Value y = f.Emit(op, {f.Emit(Op::kTake, {s, i}), x});
    f.IndexPut(s, {i}, f.Emit(Op::kTanh, {y}), {0});
    f.Output("y", y);
  }

  std::mt19937 random_;
  ir::ModuleBuilder module_;
  Value index_;
};

// No launch of a group touches what another one of the group writes, and memory is shared only between values whose
// lives, counted in groups, are apart.
void CheckGroups(const StepPlan& plan) {
  std::map<ValueId, std::pair<int, int>> life;  // by root: first and last group
  const auto touch = [&](ValueId root, int group) {
    const auto [it, inserted] = life.emplace(root, std::make_pair(group, group));
    if (!inserted) it->second.second = std::max(it->second.second, group);
  };
  std::set<ValueId> written, read;
  int group = -1;
  ASSERT_EQ(plan.parts.size(), plan.step.parts.size());
  for (size_t p = 0; p < plan.parts.size(); ++p) {
    size_t next = 0;
    bool first = true;
    for (const FlatNode& flat : plan.step.parts[p].nodes) {
      if (flat.node.op == Op::kConstant) continue;
      ASSERT_LT(next, plan.parts[p].launches.size());
      const PlacedLaunch& placed = plan.parts[p].launches[next++];
      if (first) {
        EXPECT_GT(placed.group, group) << "a part continues the group of the one before";
      }
      first = false;
      ASSERT_GE(placed.group, group);
      if (placed.group != group) {
        written.clear();
        read.clear();
        group = placed.group;
      }
      std::vector<ValueId> reads = flat.node.operands;
      if (flat.predicate != ir::kNoValue) reads.push_back(flat.predicate);
      for (const ValueId value : reads) {
        const ValueId root = plan.step.roots[value];
        EXPECT_EQ(written.count(root), 0u)
            << ToString(flat.node.op) << " reads %" << value << " in the group that writes it";
        touch(root, group);
      }
      for (const ValueId value : flat.node.results) {
        const ValueId root = plan.step.roots[value];
        EXPECT_EQ(written.count(root) + read.count(root), 0u)
            << ToString(flat.node.op) << " overwrites what its group uses";
        touch(root, group);
        written.insert(root);
      }
      for (const ValueId value : reads) read.insert(plan.step.roots[value]);
    }
    EXPECT_EQ(next, plan.parts[p].launches.size());
  }
  EXPECT_EQ(plan.groups, group + 1);
  for (size_t i = 0; i < plan.lifetimes.size(); ++i) {
    const auto& [first, last] = life.at(plan.lifetime_of[i]);
    EXPECT_LE(plan.lifetimes[i].first, first);
    EXPECT_GE(plan.lifetimes[i].last, last);
  }
  EXPECT_TRUE(passes::CheckPlan(plan.lifetimes, plan.memory));
}

struct Buffers {
  std::vector<float> x = std::vector<float>(32);
  std::vector<int32_t> i = {5, 0, 7, 2};  // 7 is out of range
  std::vector<int32_t> c = {0};
  std::vector<float> y[3];
  std::unique_ptr<backend::StateSet> states;
  std::unique_ptr<backend::Executable> executable;
  backend::StepIo io;

  Status Start(const ir::Module& recorded, backend::GraphMode mode, CpuBackend* backend) {
    ir::Module module = recorded;
    passes::PipelineOptions pipeline;
    pipeline.passes = backend->passes();
    DI_RETURN_IF_ERROR(passes::RunPipeline(&module, {}, pipeline));
    DI_ASSIGN_OR_RETURN(states, backend->AllocateStates({{"buffer", 2 * 48 * 4}}));
    DI_ASSIGN_OR_RETURN(executable, backend->Compile(module, {mode, nullptr}));
    DI_RETURN_IF_ERROR(backend->Finalize());
    io.metadata = {{"x", x.data(), 128}, {"i", i.data(), 16}, {"c", c.data(), 4}};
    for (int k = 0; k < 3; ++k) {
      y[k].assign(32, 0);
      io.outputs.push_back({"y" + std::to_string(k), y[k].data(), 128});
    }
    io.states = states.get();
    DI_RETURN_IF_ERROR(executable->Capture(io));
    std::memset(states->Address("buffer"), 0, 2 * 48 * 4);
    return {};
  }

  // The bits of two runs, one for each branch; states live on between them.
  Result<std::vector<float>> TwoRuns() {
    std::vector<float> all;
    for (const int32_t branch : {0, 1}) {
      c[0] = branch;
      for (size_t k = 0; k < x.size(); ++k) x[k] = 0.1f * static_cast<float>(k) - static_cast<float>(branch);
      DI_RETURN_IF_ERROR(executable->Run(io));
      for (const auto& output : y) all.insert(all.end(), output.begin(), output.end());
      const auto* state = static_cast<const float*>(states->Address("buffer"));
      all.insert(all.end(), state, state + 96);
    }
    return all;
  }
};

// Every node in order, each value in memory of its own: what the module means.
class Meaning {
 public:
  explicit Meaning(const ir::Module& module) : module_(module) {}

  using Values = std::vector<std::vector<std::byte>>;

  // Inputs are copied; the new contents of aliased states come back among the outputs.
  Values Run(const ir::Function& f, const Values& inputs) const {
    Values at(f.types.size());
    for (size_t i = 0; i < inputs.size(); ++i) at[f.inputs[i].value] = inputs[i];
    for (const ir::Node& node : f.nodes) {
      Values operands;
      for (const ValueId operand : node.operands) operands.push_back(at[operand]);
      const std::string callee = Callee(node, operands);
      Values results = callee.empty() ? Primitive(f, node, operands) : Values();
      if (!callee.empty()) {
        if (node.op == Op::kCase) operands.erase(operands.begin());
        results = Run(*module_.Find(callee), operands);
      }
      for (size_t i = 0; i < results.size(); ++i) at[node.results[i]] = results[i];
    }
    Values outputs;
    for (const ir::Output& output : f.outputs) outputs.push_back(at[output.value]);
    return outputs;
  }

 private:
  static std::string Callee(const ir::Node& node, const Values& operands) {
    if (node.op == Op::kCall) return node.Str("callee");
    if (node.op == Op::kBreak) return node.Str("body");
    if (node.op != Op::kCase) return "";
    int32_t index = 0;
    std::memcpy(&index, operands[0].data(), 4);
    return node.Strs("branches")[static_cast<size_t>(index)];
  }

  static Values Primitive(const ir::Function& f, const ir::Node& node, const Values& operands) {
    const auto prepared = interp::PrepareNode(f, node);
    Values results;
    std::vector<const void*> in;
    std::vector<void*> out;
    for (const auto& operand : operands) in.push_back(operand.data());
    for (const ValueId result : node.results) results.emplace_back(static_cast<size_t>(f.TypeOf(result).Bytes()));
    for (auto& result : results) out.push_back(result.data());
    EXPECT_TRUE(prepared.has_value());
    if (prepared) (*prepared)->Run(in.data(), out.data(), {}, nullptr);
    return results;
  }

  const ir::Module& module_;
};

std::vector<std::byte> BytesOf(const void* data, size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(data);
  return {begin, begin + bytes};
}

std::vector<float> Expected(const ir::Module& recorded) {
  ir::Module module = recorded;
  EXPECT_TRUE(passes::Functionalize(&module, {}));
  std::vector<float> buffer(96, 0);
  std::vector<float> all;
  Buffers in;
  for (const int32_t branch : {0, 1}) {
    for (size_t k = 0; k < in.x.size(); ++k) in.x[k] = 0.1f * static_cast<float>(k) - static_cast<float>(branch);
    const Meaning::Values inputs = {BytesOf(in.x.data(), 128), BytesOf(in.i.data(), 16), BytesOf(&branch, 4),
                                    BytesOf(buffer.data(), 192), BytesOf(buffer.data() + 48, 192)};
    const Meaning::Values outputs = Meaning(module).Run(module.entry(), inputs);
    for (int k = 0; k < 3; ++k) {
      const auto* y = reinterpret_cast<const float*>(outputs[k].data());
      all.insert(all.end(), y, y + 32);
    }
    for (const ir::Alias& alias : module.io_map[module.entry().name]) {
      std::memcpy(buffer.data() + (module.entry().inputs[alias.input].name == "s" ? 0 : 48),
                  outputs[alias.output].data(), 192);
    }
    all.insert(all.end(), buffer.begin(), buffer.end());
  }
  return all;
}

TEST(PlanTest, RandomGraphsKeepTheRulesAndMeanWhatTheySay) {
  int shared = 0;
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    const auto module = RandomModule(seed).Record(5 + static_cast<int>(seed));
    ASSERT_TRUE(module.has_value()) << module.error().ToString();
    const std::vector<float> want = Expected(*module);
    for (const auto mode : {backend::GraphMode::kFull, backend::GraphMode::kBreakable}) {
      for (const int threads : {1, 2, 3}) {
        CpuBackend backend({.threads = threads, .isa = MachineIsas().back()});
        ASSERT_TRUE(backend.SetWeights({}, ""));
        Buffers buffers;
        const Status started = buffers.Start(*module, mode, &backend);
        ASSERT_TRUE(started.has_value()) << started.error().ToString() << ir::Print(*module);
        const auto& plan = dynamic_cast<const CpuExecutable&>(*buffers.executable).plan();
        CheckGroups(plan);
        int64_t sum = 0;
        for (const auto& life : plan.lifetimes) sum += life.bytes;
        shared += plan.memory.bytes < sum ? 1 : 0;
        const auto got = buffers.TwoRuns();
        ASSERT_TRUE(got.has_value()) << got.error().ToString();
        ASSERT_EQ(std::memcmp(got->data(), want.data(), want.size() * sizeof(float)), 0) << ir::Print(*module);
      }
    }
  }
  EXPECT_GT(shared, 100) << "memory is hardly ever reused";
}

}  // namespace
}  // namespace deepinfer::cpu
