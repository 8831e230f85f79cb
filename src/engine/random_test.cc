// Many requests of every kind, arriving, ending and being cut off at random, on a model whose answers are known: every
// plan and every state is checked after every step, and every token. The seed is printed where something fails.
#include <gtest/gtest.h>

#include <random>

#include "engine/scripted.h"

namespace deepinfer::engine {
namespace {

struct Live {
  GenerationRequest request;
  Recorder recorder;
  int64_t id = 0;
  bool cancelled = false;
  size_t stop_after = 0;  // tokens of choice 0; 0: never
};

class RandomTraffic {
 public:
  RandomTraffic(uint64_t seed, runner::ModelRunner* runner) : random_(seed), runner_(runner) {
    EngineOptions options = Checked(/*async_stepping=*/Chance(3, 4));
    options.prefix_caching = Chance(3, 4);
    options.chunked_prefill_size = Number(1, 64);
    engine_ = std::make_unique<Engine>(runner, options);
  }

  void Run(int requests) {
    int added = 0;
    for (int step = 0; added < requests || engine_->HasWork(); ++step) {
      while (added < requests && Chance(1, 3)) {
        AddOne();
        ++added;
      }
      if (!live_.empty() && Chance(1, 20)) CancelOne();
      const Status status = engine_->Step();
      ASSERT_TRUE(status) << status.error().ToString();
      ASSERT_LT(step, 20000) << "no end";
    }
    CheckAll();
  }
  const Engine& engine() const { return *engine_; }

 private:
  bool Chance(int of, int among) { return Number(1, among) <= of; }
  int64_t Number(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }

  // Prompts of a few families, so that they share beginnings of any length.
  GenerationRequest Draw() {
    const auto script = static_cast<int32_t>(Number(0, 4));
    GenerationRequest request = ScriptRequest(script, Number(1, 150));
    if (Chance(1, 3)) {
      const size_t changed = static_cast<size_t>(Number(0, static_cast<int64_t>(request.prompt.size()) - 1));
      if (changed > 0) request.prompt[changed] = static_cast<int32_t>(Number(300, 303));
    }
    if (Chance(1, 2)) request.params.max_tokens = Number(1, 60);
    if (Chance(1, 4)) request.n = static_cast<int32_t>(Number(2, 4));
    if (Chance(1, 3)) request.priority = static_cast<int32_t>(Number(-2, 2));
    if (Chance(1, 8)) request.params.frequency_penalty = 0.01;  // not enough to change a token
    if (Chance(1, 8)) request.params.min_tokens = 1;
    if (Chance(1, 8)) request.cache_salt = "other";
    if (Chance(1, 10)) request.prompt_logits = true;
    if (Chance(1, 10)) request.prompt_logprobs = 2;
    // Banned words the scripts do not say: the tokens stay, the steps are not overlapped.
    if (Chance(1, 8)) request.params.bad_words = {{5, 300}, {20, 21, 300}, {301}};
    if (Chance(1, 10)) request.deadline = Clock::now() + std::chrono::microseconds(Number(-10, 20000));
    return request;
  }

  void AddOne() {
    auto live = std::make_unique<Live>();
    live->request = Draw();
    if (Chance(1, 8)) live->stop_after = static_cast<size_t>(Number(1, 10));
    live->recorder.on_token = [this, raw = live.get()](const TokenEvent& event) {
      if (Chance(1, 400)) CancelOne();  // from within a step
      return raw->stop_after == 0 || event.choice > 0 || raw->recorder.answer.tokens.size() < raw->stop_after;
    };
    const auto id = engine_->Add(live->request, &live->recorder);
    ASSERT_TRUE(id) << id.error().ToString();
    live->id = *id;
    live_.push_back(std::move(live));
  }

  void CancelOne() {
    Live& live = *live_[static_cast<size_t>(Number(0, static_cast<int64_t>(live_.size()) - 1))];
    live.cancelled = live.cancelled || !live.recorder.finished();
    engine_->Cancel(live.id);
  }

  void CheckAll() {
    for (const std::unique_ptr<Live>& live : live_) {
      EXPECT_TRUE(live->recorder.finished());
      for (uint32_t choice = 0; choice < static_cast<uint32_t>(live->request.n); ++choice) {
        SCOPED_TRACE(fmt::format("request {}, choice {}", live->id, choice));
        CheckOne(*live, live->recorder.Of(choice), choice == 0 ? live->stop_after : 0);
      }
    }
    const EngineStats stats = engine_->stats();
    EXPECT_EQ(stats.kv_blocks_used, 0);
    EXPECT_EQ(stats.waiting, 0);
    EXPECT_EQ(stats.nan_rows, 0);
    EXPECT_EQ(stats.failed_steps, 0);
    EXPECT_EQ(stats.compiles_after_ready, 0);
  }

  void CheckOne(const Live& live, const Answer& answer, size_t stop_after) {
    Ids right = Expected(FiveScripts(), live.request.prompt, live.request.params.max_tokens);
    const auto context = static_cast<size_t>(runner_->options().max_model_len);
    right.resize(std::min(right.size(), context - live.request.prompt.size()));
    if (live.request.prompt_logits && live.request.params.max_tokens == -1) right.clear();
    if (stop_after > 0) right.resize(std::min(right.size(), stop_after));
    ASSERT_TRUE(answer.reason);
    const bool cut = answer.reason == FinishReason::kCancelled || answer.reason == FinishReason::kDeadline;
    if (cut) {
      EXPECT_TRUE(live.cancelled || live.request.deadline);
      ASSERT_LE(answer.tokens.size(), right.size());
      right.resize(answer.tokens.size());
    }
    EXPECT_EQ(answer.tokens, right);
    EXPECT_FALSE(answer.error);
  }

  std::mt19937_64 random_;
  runner::ModelRunner* runner_;
  std::unique_ptr<Engine> engine_;
  std::vector<std::unique_ptr<Live>> live_;
};

TEST(RandomTest, TrafficOfEveryKind) {
  int64_t preemptions = 0, hits = 0, overrun = 0, overlapped = 0, deadlines = 0;
  for (uint64_t config = 0; config < 4; ++config) {
    runner::RunnerOptions options = SmallOptions(config % 2 == 0 ? 3 : 8, config < 2 ? 16 : 80);
    options = config == 3 ? options : TightOptions(options, config == 1 ? 2 : 1);
    const auto runner = OpenScripted(FiveScripts(), options);
    ASSERT_NE(runner, nullptr);
    for (uint64_t seed = 100 * config; seed < 100 * config + 8; ++seed) {
      SCOPED_TRACE(fmt::format("config {}, seed {}", config, seed));
      RandomTraffic traffic(seed, runner.get());
      traffic.Run(60);
      if (HasFailure()) return;
      const EngineStats stats = traffic.engine().stats();
      preemptions += stats.preemptions;
      hits += stats.prefix_hits;
      overrun += stats.overrun_tokens;
      overlapped += stats.overlapped_steps;
      deadlines += stats.finished[static_cast<size_t>(FinishReason::kDeadline)];
    }
  }
  // Everything that should meet did.
  EXPECT_GT(preemptions, 100);
  EXPECT_GT(hits, 1000);
  EXPECT_GT(overrun, 100);
  EXPECT_GT(overlapped, 1000);
  EXPECT_GT(deadlines, 0);
}

}  // namespace
}  // namespace deepinfer::engine
