// The steady state of a real model: nothing is allocated, nothing moves, nothing is compiled after the start.
#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <map>

#include "cpu/cpu_backend.h"
#include "harness.h"
#include "runner/load.h"

#ifdef DI_SANITIZED
#define DI_COUNTS_ALLOCATIONS 0
#else
#define DI_COUNTS_ALLOCATIONS 1
#endif

namespace {
std::atomic<int64_t> allocations{0};
}  // namespace

// Every way to memory in this program (operator new calls malloc), on every thread. The sanitizers have their own.
#if DI_COUNTS_ALLOCATIONS
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* old, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) {
  ++allocations;
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  ++allocations;
  return __libc_calloc(count, size);
}
void* realloc(void* old, size_t size) {
  ++allocations;
  return __libc_realloc(old, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  ++allocations;
  return __libc_memalign(alignment, size);
}
void* memalign(size_t alignment, size_t size) {
  ++allocations;
  return __libc_memalign(alignment, size);
}
int posix_memalign(void** out, size_t alignment, size_t size) {
  ++allocations;
  *out = __libc_memalign(alignment, size);
  return *out == nullptr ? 12 /* ENOMEM */ : 0;
}
}
#endif

namespace deepinfer::golden {
namespace {

OpenConfig SteadyConfig(DType dtype, int threads) {
  OpenConfig config;
  config.threads = threads;
  config.options.activations = dtype;
  config.options.max_model_len = 256;
  config.options.max_num_seqs = 4;
  config.options.max_num_batched_tokens = 128;
  return config;
}

// A row that uses everything a row can.
runner::PlannedRow FullRow() {
  runner::PlannedRow row;
  row.temperature = 0.8f;
  row.top_k = 40;
  row.top_p = 0.95f;
  row.min_p = 0.01f;
  row.typical_p = 0.99f;
  row.xtc_probability = 0.5f;
  row.xtc_threshold = 0.1f;
  row.xtc_uniform = 0.3f;
  static const std::vector<uint32_t> mask(10000, 0xfffffff7);
  static const std::vector<runner::Adjustment> adjustments = {{5, 1, 1.5f, 0.25f}, {9, -1, 1.0f, 0}};
  row.token_mask = mask.data();
  row.adjustments = &adjustments;
  row.logprob_id = 7;
  row.uniform = 0.4f;
  row.want_logprobs = 20;
  return row;
}

std::string AnyModel(std::string* skip) {
  const Asset asset = FindModel("smollm2");
  *skip = asset.missing;
  return asset.path;
}

TEST(SteadyTest, ADecodeStepAllocatesNothing) {
#if !DI_COUNTS_ALLOCATIONS
  GTEST_SKIP() << "sanitizers bring their own allocator";
#endif
  {
    const int64_t before = allocations;
    int* volatile number = new int(3);  // volatile: the compiler may leave out a pair it sees through
    void* volatile bytes = malloc(1);
    delete number;
    free(bytes);
    ASSERT_GE(allocations - before, 2) << "the counter does not count";
  }
  std::vector<std::string> models = {OracleFolder("gemma3_f32"), OracleFolder("llama_bf16")};
  std::string missing;
  if (const std::string real = AnyModel(&missing); !real.empty()) models.push_back(real);
  for (const std::string& path : models) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      for (const bool sampled : {false, true}) {
        const auto runner = MustOpen(path, SteadyConfig(dtype, path == models[0] ? 2 : 1));
        ASSERT_NE(runner, nullptr);
        Driver driver(runner.get(), 3, sampled ? FullRow() : runner::PlannedRow());
        for (int64_t request = 0; request < 3; ++request) {
          const Ids prompt = {3, 4, static_cast<int32_t>(5 + request)};
          ASSERT_TRUE(driver.Prefill(request, prompt, false));
        }
        ASSERT_TRUE(driver.Decode());
        for (int step = 0; step < 40; ++step) {  // over a block's end
          const int64_t before = allocations;
          const bool ran = driver.Decode().has_value();
          const int64_t after = allocations;
          ASSERT_TRUE(ran);
          ASSERT_EQ(after - before, 0) << path << ", step " << step;
        }
      }
    }
  }
}

class Silent : public engine::RequestObserver {
 public:
  bool OnToken(const engine::TokenEvent& /*event*/) override { return ++tokens > 0; }
  void OnFinish(const engine::FinishEvent& /*event*/) override {}
  int64_t tokens = 0;
};

// The engine around it neither: planning, publishing full blocks, handing tokens out, in both modes.
TEST(SteadyTest, AnEngineDecodesWithoutAllocating) {
#if !DI_COUNTS_ALLOCATIONS
  GTEST_SKIP() << "sanitizers bring their own allocator";
#endif
  const auto runner = MustOpen(OracleFolder("llama_bf16"), SteadyConfig(DType::kBF16, 1));
  ASSERT_NE(runner, nullptr);
  for (const bool async : {false, true}) {
    engine::EngineOptions options;
    options.async_stepping = async;
    engine::Engine engine(runner.get(), options);
    Silent observer;
    for (int32_t i = 0; i < 2; ++i) {
      engine::GenerationRequest request = engine::Request({3, 4, 5 + i}, 150, i);
      request.params.ignore_eos = true;
      request.n = 1 + i;
      ASSERT_TRUE(engine.Add(request, &observer));
    }
    while (observer.tokens < 20) ASSERT_TRUE(engine.Step());
    for (int step = 0; step < 100; ++step) {  // over the ends of three blocks
      const int64_t before = allocations;
      const bool ran = engine.Step().has_value();
      const int64_t after = allocations;
      ASSERT_TRUE(ran);
      ASSERT_EQ(after - before, 0) << (async ? "async" : "sync") << ", step " << step;
    }
    EXPECT_GE(observer.tokens, 320);
  }
}

using Addresses = std::map<std::string, const void*>;

// Looks at what every Run is given.
class WatchedExecutable : public backend::Executable {
 public:
  WatchedExecutable(std::unique_ptr<backend::Executable> inner, std::vector<std::string> states, Addresses* seen)
      : inner_(std::move(inner)), states_(std::move(states)), seen_(seen) {}
  Status Capture(const backend::StepIo& io) override { return inner_->Capture(io); }
  Status Run(const backend::StepIo& io) override {
    seen_->clear();
    for (const backend::HostSlot& slot : io.metadata) (*seen_)["metadata " + slot.name] = slot.data;
    for (const backend::HostSlot& slot : io.outputs) (*seen_)["output " + slot.name] = slot.data;
    for (const std::string& state : states_) (*seen_)["state " + state] = io.states->Address(state);
    return inner_->Run(io);
  }
  std::vector<std::string> Describe() const override { return inner_->Describe(); }
  int64_t scratch_bytes() const override { return inner_->scratch_bytes(); }

 private:
  std::unique_ptr<backend::Executable> inner_;
  std::vector<std::string> states_;
  Addresses* seen_;
};

class WatchedBackend : public cpu::CpuBackend {
 public:
  explicit WatchedBackend(Addresses* seen) : CpuBackend({2, *SelectIsa(""), ""}), seen_(seen) {}
  Result<std::unique_ptr<backend::StateSet>> AllocateStates(const std::map<std::string, int64_t>& bytes) override {
    for (const auto& [name, size] : bytes) states_.push_back(name);
    return CpuBackend::AllocateStates(bytes);
  }
  Result<std::unique_ptr<backend::Executable>> Compile(const ir::Module& module,
                                                       const backend::CompileOptions& options) override {
    DI_ASSIGN_OR_RETURN(std::unique_ptr<backend::Executable> inner, CpuBackend::Compile(module, options));
    return std::make_unique<WatchedExecutable>(std::move(inner), states_, seen_);
  }

 private:
  std::vector<std::string> states_;
  Addresses* seen_;
};

TEST(SteadyTest, AddressesNeverChange) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    Addresses seen;
    auto backend = std::make_unique<WatchedBackend>(&seen);
    auto loaded = runner::LoadModel(OracleFolder("gemma3_f32"), backend->caps(), {dtype});
    ASSERT_TRUE(loaded) << loaded.error().ToString();
    auto runner = runner::ModelRunner::Create(std::move(*loaded), std::move(backend), SteadyConfig(dtype, 2).options);
    ASSERT_TRUE(runner) << runner.error().ToString();
    Driver driver(runner->get(), 2);
    const Ids prompt(100, 7);
    ASSERT_TRUE(driver.Prefill(0, prompt, false));
    const Addresses first = seen;
    EXPECT_GT(first.size(), 27u) << "20 buffers, 7 layers, the token store";
    for (const auto& [name, address] : first) EXPECT_NE(address, nullptr) << name;
    ASSERT_TRUE(driver.Prefill(1, prompt, false));
    EXPECT_EQ(seen, first);
    for (int step = 0; step < 40; ++step) {
      ASSERT_TRUE(driver.Decode());
      ASSERT_EQ(seen, first) << step;
    }
  }
}

// A step that no graph fits is an error of that step, and the next one runs.
TEST(SteadyTest, AStepWithoutAGraphIsAnError) {
  const auto runner = MustOpen(OracleFolder("llama_f32"), SteadyConfig(DType::kF32, 1));
  ASSERT_NE(runner, nullptr);
  Driver driver(runner.get(), 5);
  const Ids prompt(20, 9);
  ASSERT_TRUE(driver.Prefill(0, prompt, false));
  const auto too_many_rows = driver.Prefill(1, prompt, true);
  ASSERT_FALSE(too_many_rows);
  EXPECT_NE(too_many_rows.error().message.find("20 rows"), std::string::npos) << too_many_rows.error().ToString();
  EXPECT_FALSE(driver.Decode()) << "five requests, four rows";
  Driver four(runner.get(), 4);
  ASSERT_TRUE(four.Prefill(0, prompt, false));
  EXPECT_TRUE(four.Decode());
}

}  // namespace
}  // namespace deepinfer::golden
