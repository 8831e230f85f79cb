#include "engine/async_engine.h"

#include <atomic>
#include <future>

#include "engine/scripted.h"

namespace deepinfer::engine {
namespace {

using std::chrono::seconds;
using std::chrono::steady_clock;

// Keeps what comes; may hold the engine's thread in its first token.
class Watcher : public RequestObserver {
 public:
  bool OnToken(const TokenEvent& event) override {
    ids.push_back(event.id);
    if (ids.size() == 1) {
      started.set_value();
      if (gate.valid()) gate.wait();
    }
    return true;
  }
  void OnPromptLogits(int64_t position, const float* /*logits*/, int64_t /*vocab*/) override {
    logits_at.push_back(position);
  }
  void OnPromptLogprob(int64_t position, const TokenEvent& event) override {
    logprob_at.push_back(position);
    prompt_ids.push_back(event.id);
  }
  void OnFinish(const FinishEvent& event) override {
    if (event.last) finished.set_value(event);
  }

  Ids ids, prompt_ids;  // to be read after `finished`
  std::vector<int64_t> logits_at, logprob_at;
  std::promise<void> started;
  std::promise<FinishEvent> finished;
  std::shared_future<void> gate;
};

Result<int64_t> Submit(AsyncEngine* engine, GenerationRequest request, std::shared_ptr<RequestObserver> observer) {
  DI_ASSIGN_OR_RETURN(CheckedRequest checked, engine->Check(std::move(request)));
  return engine->Submit(std::move(checked), std::move(observer));
}

class AsyncEngineTest : public testing::Test {
 protected:
  std::unique_ptr<AsyncEngine> Make(int64_t max_waiting = 0) {
    runner_ = OpenScripted(FiveScripts(), SmallOptions(/*max_num_seqs=*/2, /*max_num_batched_tokens=*/128));
    return std::make_unique<AsyncEngine>(std::make_unique<Engine>(runner_.get()), max_waiting,
                                         [this](const EngineStats& stats) { last_running_ = stats.running; });
  }

  std::unique_ptr<runner::ModelRunner> runner_;
  std::atomic<int64_t> last_running_{0};
};

TEST_F(AsyncEngineTest, WhatIsSaidOfThePromptArrives) {
  const auto engine = Make();
  GenerationRequest request = ScriptRequest(1, 4, 2);
  request.prompt_logits = true;
  request.prompt_logprobs = 0;
  const Ids prompt = request.prompt;
  auto watcher = std::make_shared<Watcher>();
  auto finished = watcher->finished.get_future();
  ASSERT_TRUE(Submit(engine.get(), std::move(request), watcher));
  EXPECT_EQ(finished.get().reason, FinishReason::kLength);
  EXPECT_EQ(watcher->logits_at, (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(watcher->logprob_at, (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(watcher->prompt_ids, Ids(prompt.begin() + 1, prompt.end()));
}

TEST_F(AsyncEngineTest, RequestsFromManyThreads) {
  const auto engine = Make();
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&engine, i] {
      auto watcher = std::make_shared<Watcher>();
      auto finished = watcher->finished.get_future();
      ASSERT_TRUE(Submit(engine.get(), ScriptRequest(i % 5, 3 + i, 20), watcher));
      EXPECT_NE(finished.get().reason, FinishReason::kError);
      EXPECT_EQ(watcher->ids, Expected(FiveScripts(), Prompt(i % 5, 1), 20));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(engine->Drain(steady_clock::now() + seconds(60)));
  EXPECT_EQ(engine->live(), 0);
  EXPECT_EQ(engine->stats().running, 0);
  EXPECT_EQ(last_running_, 0);
}

TEST_F(AsyncEngineTest, WhatCanNeverRunIsRefusedAtOnce) {
  const auto engine = Make();
  const auto refused = engine->Check(Request({}));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().where, "prompt");
  EXPECT_EQ(engine->live(), 0);
}

TEST_F(AsyncEngineTest, TheQueueIsBounded) {
  const auto engine = Make(/*max_waiting=*/1);
  std::promise<void> open;
  std::vector<std::shared_ptr<Watcher>> watchers;
  std::vector<std::future<FinishEvent>> finished;
  for (int i = 0; i < 3; ++i) {
    auto watcher = std::make_shared<Watcher>();
    if (i == 0) watcher->gate = open.get_future().share();
    finished.push_back(watcher->finished.get_future());
    ASSERT_TRUE(Submit(engine.get(), ScriptRequest(4, 5, 30), watcher)) << i;
    if (i == 0) watcher->started.get_future().wait();
    watchers.push_back(std::move(watcher));
  }
  EXPECT_EQ(engine->stats().waiting, 2);  // the engine's thread is held: nothing was taken yet
  const auto refused = Submit(engine.get(), ScriptRequest(4, 5, 30), std::make_shared<Watcher>());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(refused.error().message, "the queue is full: 3 answers are being made or wait");
  open.set_value();
  for (auto& each : finished) EXPECT_EQ(each.get().reason, FinishReason::kLength);
  EXPECT_TRUE(engine->Drain(steady_clock::now() + seconds(60)));
  const auto late = Submit(engine.get(), ScriptRequest(4, 5, 30), std::make_shared<Watcher>());
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::kFailedPrecondition);
}

TEST_F(AsyncEngineTest, EachChoiceTakesAPlaceInTheQueue) {
  const auto engine = Make(/*max_waiting=*/1);
  GenerationRequest request = ScriptRequest(4, 5, 30);
  request.n = 4;
  EXPECT_EQ(Submit(engine.get(), request, std::make_shared<Watcher>()).error().code, ErrorCode::kResourceExhausted);
  request.n = 3;
  auto watcher = std::make_shared<Watcher>();
  auto finished = watcher->finished.get_future();
  ASSERT_TRUE(Submit(engine.get(), request, watcher));
  finished.get();
}

TEST_F(AsyncEngineTest, CancelWhileRunningAndWhileWaiting) {
  const auto engine = Make();
  std::promise<void> open;
  auto running = std::make_shared<Watcher>();
  running->gate = open.get_future().share();
  auto first = running->finished.get_future();
  const auto id = Submit(engine.get(), ScriptRequest(4, 5), running);
  ASSERT_TRUE(id);
  running->started.get_future().wait();
  auto waiting = std::make_shared<Watcher>();
  auto second = waiting->finished.get_future();
  const auto next = Submit(engine.get(), ScriptRequest(4, 5), waiting);
  ASSERT_TRUE(next);
  engine->Cancel(*id);
  engine->Cancel(*next);
  engine->Cancel(4711);
  open.set_value();
  EXPECT_EQ(first.get().reason, FinishReason::kCancelled);
  EXPECT_EQ(second.get().reason, FinishReason::kCancelled);
  EXPECT_LT(running->ids.size(), 90u);
  EXPECT_TRUE(waiting->ids.empty());
}

TEST_F(AsyncEngineTest, StopEndsWhatIsLeft) {
  auto engine = Make();
  auto watcher = std::make_shared<Watcher>();
  std::promise<void> open;
  watcher->gate = open.get_future().share();
  auto finished = watcher->finished.get_future();
  ASSERT_TRUE(Submit(engine.get(), ScriptRequest(4, 5), watcher));
  watcher->started.get_future().wait();
  EXPECT_FALSE(engine->Drain(steady_clock::now()));
  open.set_value();
  engine->Stop();
  const FinishReason reason = finished.get().reason;
  EXPECT_TRUE(reason == FinishReason::kCancelled || reason == FinishReason::kStop) << ToString(reason);
  engine->Cancel(1);
  engine.reset();
}

}  // namespace
}  // namespace deepinfer::engine
