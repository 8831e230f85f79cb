// Masks and penalties that reach a step while it runs: the same answers as one step after the other, whatever ends,
// fails or is cancelled while they are still on their way.
#include <gtest/gtest.h>

#include <thread>

#include "engine/counting_grammar.h"
#include "engine/scripted.h"

namespace deepinfer::engine {
namespace {

constexpr char kLlama[] = DI_SOURCE_DIR "/tests/data/oracle/llama_f32";

// Gets its late inputs before the step, as a backend does that cannot stop within one.
class EarlyBackend : public cpu::CpuBackend {
 public:
  using CpuBackend::CpuBackend;
  backend::Caps caps() const override {
    backend::Caps caps = CpuBackend::caps();
    caps.late_inputs = false;
    return caps;
  }
};

std::unique_ptr<runner::ModelRunner> OpenEarly(const runner::RunnerOptions& options) {
  auto backend = std::make_unique<EarlyBackend>(cpu::CpuOptions{1, *SelectIsa(""), ""});
  auto loaded = runner::LoadModel(kLlama, backend->caps(), {options.activations, 1});
  EXPECT_TRUE(loaded) << loaded.error().ToString();
  auto runner = runner::ModelRunner::Create(std::move(*loaded), std::move(backend), options);
  EXPECT_TRUE(runner) << runner.error().ToString();
  return std::move(*runner);
}

class LateRowsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    runner_ = MustOpenOnCpu(kLlama, SmallOptions(6, 32), /*threads=*/2);
    ASSERT_NE(runner_, nullptr);
  }
  std::unique_ptr<runner::ModelRunner> runner_;
};

// Everything that follows from tokens, beside what does not.
std::vector<GenerationRequest> Mixed() {
  std::vector<GenerationRequest> requests;
  for (int32_t i = 0; i < 18; ++i) {
    GenerationRequest request = Request({}, 5 + i * 7 % 31, i % 3 == 0 ? 0 : 0.9);
    for (int32_t k = 0; k < 1 + (i * 29) % 60; ++k) request.prompt.push_back((i * 31 + k * 7) % 300);
    SamplingParams& p = request.params;
    p.seed = static_cast<uint64_t>(i);
    p.logprobs = i % 4 == 0 ? 5 : -1;
    request.stop_ids = {2, 40 + i};
    request.n = 1 + i % 3;
    if (i % 6 == 0) request.grammar = std::make_shared<CountingGrammar>(10 + i, 2 + i % 5);
    if (i % 6 == 1) p.repetition_penalty = 1.3;
    if (i % 6 == 2) p.dry_multiplier = 0.8;
    if (i % 6 == 3) p.min_tokens = 4;
    if (i % 6 == 4) p.frequency_penalty = 0.5;
    if (i == 12) request.grammar = std::make_shared<CountingGrammar>(11, 9);  // fails on its way
    requests.push_back(request);
  }
  return requests;
}

void ExpectSameAnswers(const std::vector<GenerationRequest>& requests, std::vector<Recorder>* left,
                       std::vector<Recorder>* right) {
  for (size_t i = 0; i < requests.size(); ++i) {
    for (uint32_t choice = 0; choice < static_cast<uint32_t>(requests[i].n); ++choice) {
      SCOPED_TRACE(fmt::format("request {}, choice {}", i, choice));
      ExpectSameAnswer((*left)[i].Of(choice), (*right)[i].Of(choice));
    }
  }
}

EngineStats RunMixed(runner::ModelRunner* runner, bool async, std::vector<Recorder>* recorders) {
  const std::vector<GenerationRequest> requests = Mixed();
  *recorders = std::vector<Recorder>(requests.size());
  Engine engine(runner, Checked(async));
  for (size_t i = 0; i < requests.size(); ++i) EXPECT_TRUE(engine.Add(requests[i], &(*recorders)[i]));
  RunChecked(&engine);
  return engine.stats();
}

TEST_F(LateRowsTest, TheSameBitsAsOneStepAfterTheOther) {
  std::vector<Recorder> plain, overlapped, early;
  EXPECT_EQ(RunMixed(runner_.get(), false, &plain).overlapped_steps, 0);
  const EngineStats stats = RunMixed(runner_.get(), true, &overlapped);
  EXPECT_GT(stats.overlapped_steps, (stats.prefill_steps + stats.decode_steps) / 2);
  ExpectSameAnswers(Mixed(), &overlapped, &plain);
  const auto runner = OpenEarly(SmallOptions(6, 32));
  RunMixed(runner.get(), true, &early);
  ExpectSameAnswers(Mixed(), &early, &plain);
  EXPECT_EQ(plain[12].answer.reason, FinishReason::kError);
}

// The mask of the step that is already on its way, at every length of it, even if it takes longer than all layers.
TEST_F(LateRowsTest, AStepWaitsForItsMasks) {
  Engine engine(runner_.get(), Checked());
  int64_t launched = 0;
  CountingOptions slow{20, 6, false, [&] {
                         launched = std::max(launched, engine.stats().overlapped_steps);
                         std::this_thread::sleep_for(std::chrono::milliseconds(3));
                       }};
  GenerationRequest request = Request({7, 3}, 30);
  const auto grammar = std::make_shared<CountingGrammar>(slow);
  request.grammar = grammar;
  Recorder recorder;
  ASSERT_TRUE(engine.Add(request, &recorder));
  RunChecked(&engine);
  EXPECT_EQ(recorder.answer.tokens, grammar->Tokens());
  EXPECT_EQ(recorder.answer.reason, FinishReason::kStop);
  EXPECT_EQ(engine.stats().overlapped_steps, 6) << "every step but the first, and the one behind the end";
  EXPECT_EQ(launched, 5) << "the last mask was made beside the step it is for";
  EXPECT_EQ(engine.stats().overrun_tokens, 1);
}

TEST_F(LateRowsTest, AFailureConcernsItsRequestAlone) {
  GenerationRequest failing = Request({7}, 30), steered = Request({7, 8}, 30), free = Request({9, 3}, 25, 0.8);
  failing.grammar = std::make_shared<CountingGrammar>(5, 20);  // 7 tokens, then an error
  const auto healthy = std::make_shared<CountingGrammar>(45, 6);
  steered.grammar = healthy;
  GenerationRequest penalised = Request({11}, 25);
  penalised.params.repetition_penalty = 1.4;
  const std::vector<Answer> answers = RunAll(runner_.get(), {failing, steered, free, penalised});
  EXPECT_EQ(answers[0].reason, FinishReason::kError);
  ASSERT_TRUE(answers[0].error);
  EXPECT_EQ(answers[0].error->code, ErrorCode::kResourceExhausted);
  EXPECT_EQ(answers[0].tokens, (Ids{5, 10, 15, 20, 25, 30, 35}));
  EXPECT_EQ(answers[1].tokens, healthy->Tokens());
  for (const auto& [request, answer] : {std::pair(free, answers[2]), std::pair(penalised, answers[3])}) {
    ExpectSameAnswer(answer, RunAll(runner_.get(), {request}, Checked(false))[0]);
  }
}

// Cancelled by its own observer or by another's, between a token and the mask that the next step waits for.
TEST_F(LateRowsTest, CancelledWhileAMaskIsPending) {
  Engine engine(runner_.get(), Checked());
  GenerationRequest request = Request({7, 3}, 30);
  const auto grammar = std::make_shared<CountingGrammar>(40, 6);
  request.grammar = grammar;
  Recorder own, other, stays;
  const auto own_id = engine.Add(request, &own);
  const auto other_id = engine.Add(request, &other);
  ASSERT_TRUE(own_id && other_id);
  ASSERT_TRUE(engine.Add(request, &stays));
  own.on_token = [&](const TokenEvent&) {
    if (own.answer.tokens.size() == 2) engine.Cancel(*own_id);
    if (own.answer.tokens.size() == 2) engine.Cancel(*other_id);
    return true;
  };
  RunChecked(&engine);
  EXPECT_EQ(own.answer.reason, FinishReason::kCancelled);
  EXPECT_EQ(other.answer.reason, FinishReason::kCancelled);
  EXPECT_EQ(own.answer.tokens, (Ids{40, 80}));
  EXPECT_EQ(stays.answer.tokens, grammar->Tokens());
}

TEST_F(LateRowsTest, AnEngineMayGoWithMasksOnTheirWay) {
  const auto grammar = std::make_shared<CountingGrammar>(40, 6);
  GenerationRequest request = Request({7, 3}, 30);
  request.grammar = grammar;
  for (int steps = 0; steps < 8; ++steps) {
    std::vector<Recorder> recorders(4);
    Engine engine(runner_.get(), Checked());
    for (Recorder& recorder : recorders) ASSERT_TRUE(engine.Add(request, &recorder));
    for (int i = 0; i < steps; ++i) ASSERT_TRUE(engine.Step());
  }
  EXPECT_EQ(RunAll(runner_.get(), {request})[0].tokens, grammar->Tokens()) << "the runner is whole";
}

TEST(LateRowsScriptedTest, ANanEndsARowWhoseMaskIsPending) {
  nlohmann::json json = FiveScripts();
  json["nan_at"] = {{4, 5}};
  const auto runner = OpenScripted(json, SmallOptions(6, 32));
  ASSERT_NE(runner, nullptr);
  GenerationRequest bad = ScriptRequest(4, 9), good = ScriptRequest(3, 9);
  bad.params.frequency_penalty = good.params.frequency_penalty = 0.01;
  const std::vector<Answer> answers = RunAll(runner.get(), {bad, good});
  EXPECT_EQ(answers[0].reason, FinishReason::kError);
  EXPECT_EQ(answers[0].tokens.size(), 5u);
  EXPECT_EQ(answers[1].tokens, Expected(json, good.prompt, -1));
}

// With blocks for hardly one of them: rows that were pushed out come back with what follows from all their tokens.
TEST(LateRowsScriptedTest, PreemptedInBetween) {
  const auto runner = OpenScripted(FiveScripts(), TightOptions(SmallOptions(4, 64)));
  ASSERT_NE(runner, nullptr);
  std::vector<GenerationRequest> requests;
  for (int32_t i = 0; i < 6; ++i) {
    requests.push_back(ScriptRequest(4, 60 + i));
    requests.back().params.presence_penalty = 0.1;
    requests.back().params.min_tokens = 1 + i;
  }
  Engine engine(runner.get(), Checked());
  std::vector<Recorder> recorders(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) ASSERT_TRUE(engine.Add(requests[i], &recorders[i]));
  RunChecked(&engine);
  EXPECT_GT(engine.stats().preemptions, 0);
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(recorders[i].answer.tokens, Expected(FiveScripts(), requests[i].prompt, -1)) << i;
  }
}

}  // namespace
}  // namespace deepinfer::engine
