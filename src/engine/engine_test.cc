// The step loop on a model whose answers are known: a wrong slot, block table, position or chunk gives wrong tokens.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <set>

#include "engine/scripted.h"

namespace deepinfer::engine {
namespace {

std::unique_ptr<runner::ModelRunner> Open(int64_t max_num_seqs = 4, int64_t max_num_batched_tokens = 64) {
  return OpenScripted(FiveScripts(), SmallOptions(max_num_seqs, max_num_batched_tokens));
}

// 32 requests of all scripts with prompts of 1 to 100 tokens.
std::vector<GenerationRequest> ManyRequests() {
  std::vector<GenerationRequest> requests;
  for (int i = 0; i < 32; ++i) requests.push_back(ScriptRequest(i % 5, 1 + (i * 37) % 100));
  return requests;
}

void ExpectScripts(const std::vector<GenerationRequest>& requests, const std::vector<Answer>& answers) {
  const nlohmann::json scripts = FiveScripts();
  ASSERT_EQ(requests.size(), answers.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    const Ids expected = Expected(scripts, requests[i].prompt, requests[i].params.max_tokens);
    EXPECT_EQ(answers[i].tokens, expected) << "request " << i;
    ASSERT_TRUE(answers[i].reason) << "request " << i;
    EXPECT_EQ(*answers[i].reason, expected.back() == 2 ? FinishReason::kStop : FinishReason::kLength)
        << "request " << i;
    EXPECT_FALSE(answers[i].error);
  }
}

TEST(EngineTest, ScriptsForceTokens) {
  const auto runner = Open();
  ASSERT_NE(runner, nullptr);
  for (int32_t script = 0; script < 5; ++script) {
    const std::vector<GenerationRequest> requests = {ScriptRequest(script, 3)};
    ExpectScripts(requests, RunAll(runner.get(), requests));
  }
}

TEST(EngineTest, ABatchOfMany) {
  const std::vector<GenerationRequest> requests = ManyRequests();
  for (const int64_t seqs : {1, 3, 8}) {
    const auto runner = Open(seqs);
    ASSERT_NE(runner, nullptr);
    ExpectScripts(requests, RunAll(runner.get(), requests));
    EXPECT_EQ(runner->cache().compiles_after_ready(), 0);
  }
}

TEST(EngineTest, ChunkedPrompts) {
  const std::vector<GenerationRequest> requests = ManyRequests();
  for (const int64_t tokens : {1, 7, 16, 33}) {
    const auto runner = Open(4, tokens);
    ASSERT_NE(runner, nullptr);
    ExpectScripts(requests, RunAll(runner.get(), requests));
  }
}

TEST(EngineTest, RequestsThatArriveWhileOthersRun) {
  const auto runner = Open(3, 16);
  ASSERT_NE(runner, nullptr);
  const std::vector<GenerationRequest> requests = ManyRequests();
  Engine engine(runner.get(), Checked());
  std::vector<Recorder> recorders(requests.size());
  size_t added = 0;
  while (added < requests.size() || engine.HasWork()) {
    if (added < requests.size() && engine.steps() % 3 == 0) {
      ASSERT_TRUE(engine.Add(requests[added], &recorders[added]));
      ++added;
    }
    ASSERT_TRUE(engine.Step());
    ASSERT_TRUE(engine.scheduler().CheckInvariants());
    ASSERT_LT(engine.steps(), 20000);
  }
  std::vector<Answer> answers;
  for (const Recorder& recorder : recorders) answers.push_back(recorder.answer);
  ExpectScripts(requests, answers);
}

TEST(EngineTest, PreemptionChangesNoToken) {
  std::vector<GenerationRequest> requests = ManyRequests();
  for (int i = 0; i < 6; ++i) requests.push_back(ScriptRequest(4, 90));  // 90 tokens more: the longest
  for (const int64_t tokens : {16, 64}) {
    const auto runner = OpenScripted(FiveScripts(), TightOptions(SmallOptions(6, tokens)));
    ASSERT_NE(runner, nullptr);
    ASSERT_EQ(runner->num_blocks(), runner->max_blocks() + 1);
    Engine engine(runner.get(), Checked());
    std::vector<Recorder> recorders(requests.size());
    for (size_t i = 0; i < requests.size(); ++i) ASSERT_TRUE(engine.Add(requests[i], &recorders[i]));
    RunChecked(&engine);
    EXPECT_GT(engine.scheduler().preemptions(), 0);
    std::vector<Answer> answers;
    for (const Recorder& recorder : recorders) answers.push_back(recorder.answer);
    ExpectScripts(requests, answers);
  }
}

// A long prompt waits for blocks while a younger, shorter one decodes and takes the last: the younger must give way.
TEST(EngineTest, ADecodingSequenceGivesWayToAnOlderPrompt) {
  runner::RunnerOptions options = TightOptions(SmallOptions(4, 96));
  const auto runner = OpenScripted(FiveScripts(), options);
  ASSERT_NE(runner, nullptr);
  for (int64_t first = 4; first < 12; ++first) {
    for (const int64_t second : {97, 130, 160, 200}) {
      const std::vector<GenerationRequest> requests = {ScriptRequest(4, 80, 20), ScriptRequest(3, second, 30),
                                                       ScriptRequest(4, first), ScriptRequest(3, 16 * first, 40)};
      ExpectScripts(requests, RunAll(runner.get(), requests));
    }
  }
}

TEST(EngineTest, PromptLogitsComeOnceForEveryPositionDespitePreemption) {
  const auto roomy = Open(4, 64);
  const auto tight = OpenScripted(FiveScripts(), TightOptions(SmallOptions(4, 16)));
  ASSERT_TRUE(roomy != nullptr && tight != nullptr);
  std::vector<GenerationRequest> requests;
  for (int i = 0; i < 6; ++i) {
    requests.push_back(ScriptRequest(4, 60 + 5 * i, 80));
    requests.back().prompt_logits = true;
  }
  const std::vector<Answer> expected = RunAll(roomy.get(), requests);
  const std::vector<Answer> answers = RunAll(tight.get(), requests);
  for (size_t i = 0; i < requests.size(); ++i) {
    EXPECT_EQ(expected[i].prompt_logits.size(), requests[i].prompt.size() * 320);
    EXPECT_EQ(answers[i].prompt_logits, expected[i].prompt_logits) << i;
  }
  ExpectScripts(requests, answers);
}

TEST(EngineTest, PromptLogitsAloneMayFillTheContext) {
  const auto runner = Open(4, 64);
  ASSERT_NE(runner, nullptr);
  GenerationRequest request = ScriptRequest(4, runner->options().max_model_len);
  request.prompt_logits = true;
  GenerationRequest none = request;
  none.params.max_tokens = 0;
  for (const Answer& answer : RunAll(runner.get(), {request, none})) {
    EXPECT_EQ(answer.prompt_logits.size(), request.prompt.size() * 320);
    EXPECT_TRUE(answer.tokens.empty());
    EXPECT_EQ(answer.reason, FinishReason::kLength);
  }
}

TEST(EngineTest, CancelBeforeDuringAndAfter) {
  const auto runner = Open(2, 16);
  ASSERT_NE(runner, nullptr);
  Engine engine(runner.get(), Checked());
  std::vector<Recorder> recorders(4);
  std::vector<int64_t> ids;
  for (int i = 0; i < 4; ++i) {
    auto id = engine.Add(ScriptRequest(4, 40), &recorders[i]);
    ASSERT_TRUE(id);
    ids.push_back(*id);
  }
  engine.Cancel(ids[3]);  // still waiting
  engine.Cancel(12345);
  recorders[0].on_token = [&](const TokenEvent& event) {
    if (event.id == 110) engine.Cancel(ids[0]);  // from within its own callback
    if (event.id == 105) engine.Cancel(ids[1]);  // a neighbour
    return true;
  };
  RunChecked(&engine);
  engine.Cancel(ids[0]);
  EXPECT_EQ(recorders[0].answer.reason, FinishReason::kCancelled);
  EXPECT_EQ(recorders[0].answer.tokens.back(), 110);
  EXPECT_EQ(recorders[1].answer.reason, FinishReason::kCancelled);
  EXPECT_LE(recorders[1].answer.tokens.size(), 7u);
  EXPECT_EQ(recorders[2].answer.reason, FinishReason::kStop);
  EXPECT_EQ(recorders[2].answer.tokens, Expected(FiveScripts(), Prompt(4, 40), -1));
  EXPECT_EQ(recorders[3].answer.reason, FinishReason::kCancelled);
  EXPECT_TRUE(recorders[3].answer.tokens.empty());
}

TEST(EngineTest, AnObserverMayEndItsRequest) {
  const auto runner = Open();
  ASSERT_NE(runner, nullptr);
  Engine engine(runner.get(), Checked());
  std::vector<Recorder> recorders(2);
  recorders[0].on_token = [](const TokenEvent& event) { return event.id != 103; };
  ASSERT_TRUE(engine.Add(ScriptRequest(4, 5), &recorders[0]));
  ASSERT_TRUE(engine.Add(ScriptRequest(4, 6), &recorders[1]));
  RunChecked(&engine);
  EXPECT_EQ(recorders[0].answer.tokens, Ids({100, 101, 102, 103}));
  EXPECT_EQ(recorders[0].answer.reason, FinishReason::kStop);
  EXPECT_EQ(recorders[1].answer.tokens.size(), 91u);
}

TEST(EngineTest, LimitsAndStopIds) {
  const auto runner = Open();
  ASSERT_NE(runner, nullptr);
  GenerationRequest limited = ScriptRequest(4, 5, 3);
  GenerationRequest one = ScriptRequest(4, 5, 1);
  GenerationRequest stopped = ScriptRequest(4, 5);
  stopped.stop_ids = {104, 102};
  GenerationRequest ignoring = ScriptRequest(1, 5, 8);
  ignoring.params.ignore_eos = true;
  GenerationRequest full = ScriptRequest(1, 200);
  full.params.ignore_eos = true;
  GenerationRequest exact = ScriptRequest(1, 5, 3);  // the end comes with the last token allowed
  const std::vector<Answer> answers = RunAll(runner.get(), {limited, one, stopped, ignoring, full, exact});
  EXPECT_EQ(answers[0].tokens, Ids({100, 101, 102}));
  EXPECT_EQ(answers[0].reason, FinishReason::kLength);
  EXPECT_EQ(answers[1].tokens, Ids({100}));
  EXPECT_EQ(answers[2].tokens, Ids({100, 101, 102}));
  EXPECT_EQ(answers[2].reason, FinishReason::kStop);
  EXPECT_EQ(answers[3].tokens, Ids({11, 12, 2, 11, 12, 2, 11, 12}));
  EXPECT_EQ(answers[3].reason, FinishReason::kLength);
  EXPECT_EQ(answers[4].tokens.size(), 56u) << "what the context of 256 leaves";
  EXPECT_EQ(answers[4].reason, FinishReason::kLength);
  EXPECT_EQ(answers[5].tokens, Ids({11, 12, 2}));
  EXPECT_EQ(answers[5].reason, FinishReason::kStop);
}

// A prompt whose logits are all that is wanted is checked like any other.
TEST(EngineTest, ANanInPromptLogitsIsAnErrorToo) {
  nlohmann::json json = FiveScripts();
  json["nan_at"] = {{0, 0}};
  const auto runner = OpenScripted(json, SmallOptions(6, 32));
  ASSERT_NE(runner, nullptr);
  Engine engine(runner.get(), Checked());
  Recorder bad, good;
  for (const auto& [script, recorder] : {std::pair(0, &bad), std::pair(3, &good)}) {
    GenerationRequest request = ScriptRequest(script, 9);
    request.prompt_logits = true;
    request.params.max_tokens = 0;
    ASSERT_TRUE(engine.Add(std::move(request), recorder));
  }
  RunChecked(&engine);
  EXPECT_EQ(bad.answer.reason, FinishReason::kError);
  ASSERT_TRUE(bad.answer.error);
  EXPECT_NE(bad.answer.error->message.find("nan_logits"), std::string::npos);
  EXPECT_EQ(good.answer.reason, FinishReason::kLength);
}

TEST(EngineTest, ANanEndsItsRequestAndNoOther) {
  nlohmann::json json = FiveScripts();
  json["nan_at"] = {{4, 5}, {0, 0}};
  const auto runner = OpenScripted(json, SmallOptions(6, 32));
  ASSERT_NE(runner, nullptr);
  Engine engine(runner.get(), Checked());
  std::vector<GenerationRequest> requests = {ScriptRequest(3, 20), ScriptRequest(4, 20), ScriptRequest(1, 9),
                                             ScriptRequest(0, 11), ScriptRequest(3, 2)};
  std::vector<Recorder> recorders(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) ASSERT_TRUE(engine.Add(requests[i], &recorders[i]));
  RunChecked(&engine);
  EXPECT_EQ(engine.nan_rows(), 2);
  for (const size_t i : {size_t{1}, size_t{3}}) {
    const Answer& answer = recorders[i].answer;
    EXPECT_EQ(answer.reason, FinishReason::kError);
    ASSERT_TRUE(answer.error);
    EXPECT_NE(answer.error->message.find("nan_logits"), std::string::npos);
    EXPECT_EQ(answer.tokens.size(), i == 1 ? 5u : 0u);
  }
  for (const size_t i : {size_t{0}, size_t{2}, size_t{4}}) {
    EXPECT_EQ(recorders[i].answer.tokens, Expected(json, requests[i].prompt, -1)) << i;
    EXPECT_EQ(recorders[i].answer.reason, FinishReason::kStop);
  }
}

std::string RefusedFor(Engine* engine, const GenerationRequest& request) {
  Recorder recorder;
  auto id = engine->Add(request, &recorder);
  if (id) {
    engine->Cancel(*id);
    EXPECT_TRUE(engine->RunUntilIdle());
    return "";
  }
  EXPECT_EQ(id.error().code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(engine->HasWork());
  return id.error().where;
}

TEST(EngineTest, InvalidRequestsNameTheParameter) {
  const auto runner = Open();
  ASSERT_NE(runner, nullptr);
  Engine engine(runner.get(), Checked());
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const auto with = [](auto change) {
    GenerationRequest request = ScriptRequest(1, 4, 4);
    change(&request);
    return request;
  };
  EXPECT_EQ(RefusedFor(&engine, with([](GenerationRequest*) {})), "");
  EXPECT_EQ(RefusedFor(&engine, with([](GenerationRequest* r) { r->prompt.clear(); })), "prompt");
  EXPECT_EQ(RefusedFor(&engine, with([](GenerationRequest* r) { r->prompt[1] = -1; })), "prompt");
  EXPECT_EQ(RefusedFor(&engine, with([](GenerationRequest* r) { r->prompt[1] = 320; })), "prompt");
  EXPECT_EQ(RefusedFor(&engine, with([](GenerationRequest* r) { r->prompt.assign(256, 1); })), "prompt");
  EXPECT_EQ(RefusedFor(&engine, with([](GenerationRequest* r) { r->prompt.assign(100000, 1); })), "prompt");
  for (const double bad : {-0.5, nan, infinity, -infinity}) {
    EXPECT_EQ(RefusedFor(&engine, with([&](GenerationRequest* r) { r->params.temperature = bad; })), "temperature");
  }
  for (const double bad : {-0.1, 1.1, nan}) {
    EXPECT_EQ(RefusedFor(&engine, with([&](GenerationRequest* r) { r->params.top_p = bad; })), "top_p");
    EXPECT_EQ(RefusedFor(&engine, with([&](GenerationRequest* r) { r->params.min_p = bad; })), "min_p");
  }
  EXPECT_EQ(RefusedFor(&engine, with([](GenerationRequest* r) { r->params.top_k = -1; })), "top_k");
  using Names = std::set<std::string>;
  const auto refused = [&](double SamplingParams::* field, std::vector<double> values) {
    Names names;
    for (const double special : {nan, infinity, -infinity}) values.push_back(special);
    for (const double bad : values) {
      names.insert(RefusedFor(&engine, with([&](GenerationRequest* r) { r->params.*field = bad; })));
    }
    return names;
  };
  EXPECT_EQ(refused(&SamplingParams::typical_p, {0, -1, 1.01}), Names{"typical_p"});
  EXPECT_EQ(refused(&SamplingParams::xtc_probability, {-0.1, 1.1}), Names{"xtc_probability"});
  EXPECT_EQ(refused(&SamplingParams::xtc_threshold, {0, -1, 1.1}), Names{"xtc_threshold"});
  EXPECT_EQ(refused(&SamplingParams::repetition_penalty, {0, -1, 101}), Names{"repetition_penalty"});
  EXPECT_EQ(refused(&SamplingParams::presence_penalty, {-2.1, 2.1}), Names{"presence_penalty"});
  EXPECT_EQ(refused(&SamplingParams::frequency_penalty, {-2.1, 2.1}), Names{"frequency_penalty"});
  EXPECT_EQ(refused(&SamplingParams::dry_multiplier, {-1, 101}), Names{"dry_multiplier"});
  EXPECT_EQ(refused(&SamplingParams::dry_base, {0.5, 11}), Names{"dry_base"});
  const auto refused_with = [&](auto change) {
    return RefusedFor(&engine, with([&](GenerationRequest* r) { change(&r->params); }));
  };
  using Params = SamplingParams;
  EXPECT_EQ(refused_with([](Params* p) { p->dry_allowed_length = 0; }), "dry_allowed_length");
  EXPECT_EQ(refused_with([](Params* p) { p->dry_range = -2; }), "dry_range");
  EXPECT_EQ(refused_with([](Params* p) { p->dry_breaker_ids = {320}; }), "dry_breaker_ids");
  EXPECT_EQ(refused_with([](Params* p) { p->min_tokens = -1; }), "min_tokens");
  EXPECT_EQ(refused_with([](Params* p) { p->min_tokens = 5; }), "min_tokens") << "max_tokens is 4";
  EXPECT_EQ(refused_with([](Params* p) { p->allowed_ids = {1, 320}; }), "allowed_ids");
  EXPECT_EQ(refused_with([](Params* p) { p->banned_ids = {-1}; }), "banned_ids");
  EXPECT_EQ(refused_with([](Params* p) { p->allowed_ids = p->banned_ids = {3, 4}; }), "banned_ids");
  EXPECT_EQ(refused_with([](Params* p) { p->bad_words = {{3, 4}, {5, 320}}; }), "bad_words");
  EXPECT_EQ(refused_with([](Params* p) { p->bad_words = {{3}, {}}; }), "bad_words");
  EXPECT_EQ(refused_with([](Params* p) { p->bad_words.assign(kMaxBadWords + 1, {3}); }), "bad_words");
  EXPECT_EQ(refused_with([](Params* p) {
              p->allowed_ids = {3, 4};
              p->bad_words = {{3}, {4}};
            }),
            "bad_words");
  for (const LogitBias& bad : {LogitBias{320, 1}, LogitBias{-1, 1}, LogitBias{191222, 1}, LogitBias{3, 101},
                               LogitBias{3, -1e9}, LogitBias{3, nan}, LogitBias{3, infinity}}) {
    EXPECT_EQ(refused_with([&](Params* p) { p->logit_bias = {{2, 1}, bad}; }), "logit_bias") << bad.id;
  }
  EXPECT_EQ(refused_with([](Params* p) { p->logit_bias = {{2, 1}, {2, 1}}; }), "logit_bias");
  EXPECT_EQ(refused_with([](Params* p) { p->logit_bias.resize(10000); }), "logit_bias");
  for (const int32_t bad : {-2, 21}) {
    EXPECT_EQ(RefusedFor(&engine, with([&](GenerationRequest* r) { r->prompt_logprobs = bad; })), "prompt_logprobs");
  }
  for (const int64_t bad : {int64_t{0}, int64_t{-2}, int64_t{253}, std::numeric_limits<int64_t>::max()}) {
    EXPECT_EQ(RefusedFor(&engine, with([&](GenerationRequest* r) { r->params.max_tokens = bad; })), "max_tokens");
    // Prompt logits make no room in the context.
    EXPECT_EQ(RefusedFor(&engine, with([&](GenerationRequest* r) {
                r->params.max_tokens = bad == 0 ? 254 : bad;
                r->prompt_logits = true;
              })),
              "max_tokens");
  }
  EXPECT_EQ(RefusedFor(&engine, with([](GenerationRequest* r) {
              r->params.max_tokens = 0;
              r->prompt_logits = true;
            })),
            "")
      << "nothing but the prompt's logits";
  for (const int32_t bad : {-2, 21}) {
    EXPECT_EQ(RefusedFor(&engine, with([&](GenerationRequest* r) { r->params.logprobs = bad; })), "logprobs");
  }
  EXPECT_EQ(RefusedFor(&engine, with([](GenerationRequest* r) { r->params.max_tokens = 252; })), "");
}

// Passes everything on, but for the steps it is told to fail.
class FailingExecutable : public backend::Executable {
 public:
  FailingExecutable(std::unique_ptr<backend::Executable> inner, const std::atomic<bool>* fail)
      : inner_(std::move(inner)), fail_(fail) {}
  Status Capture(const backend::StepIo& io) override { return inner_->Capture(io); }
  Status Run(const backend::StepIo& io) override {
    if (*fail_) return MakeError(ErrorCode::kInternal, "test", "this step fails");
    return inner_->Run(io);
  }
  std::vector<std::string> Describe() const override { return inner_->Describe(); }
  int64_t scratch_bytes() const override { return inner_->scratch_bytes(); }

 private:
  std::unique_ptr<backend::Executable> inner_;
  const std::atomic<bool>* fail_;
};

class FailingBackend : public cpu::CpuBackend {
 public:
  explicit FailingBackend(const std::atomic<bool>* fail) : CpuBackend({1, *SelectIsa(""), ""}), fail_(fail) {}
  Result<std::unique_ptr<backend::Executable>> Compile(const ir::Module& module,
                                                       const backend::CompileOptions& options) override {
    DI_ASSIGN_OR_RETURN(std::unique_ptr<backend::Executable> inner, CpuBackend::Compile(module, options));
    return std::make_unique<FailingExecutable>(std::move(inner), fail_);
  }

 private:
  const std::atomic<bool>* fail_;
};

TEST(EngineTest, AFailedStepEndsOnlyTheRequestsInIt) {
  std::atomic<bool> fail = false;
  const formats::TempFolder folder;
  auto backend = std::make_unique<FailingBackend>(&fail);
  auto loaded = runner::LoadModel("synthetic:" + folder.Write("s.json", FiveScripts().dump()), backend->caps(), {});
  ASSERT_TRUE(loaded);
  auto runner = runner::ModelRunner::Create(std::move(*loaded), std::move(backend), SmallOptions(1, 32));
  ASSERT_TRUE(runner) << runner.error().ToString();
  for (const bool async : {false, true}) {
    Engine engine(runner->get(), Checked(async));
    std::vector<Recorder> recorders(2);
    ASSERT_TRUE(engine.Add(ScriptRequest(4, 5), &recorders[0]));
    ASSERT_TRUE(engine.Add(ScriptRequest(3, 5), &recorders[1]));  // waits: there is one slot
    for (int i = 0; i < 5; ++i) ASSERT_TRUE(engine.Step());
    fail = true;
    ASSERT_TRUE(engine.Step());
    while (!recorders[0].finished()) ASSERT_TRUE(engine.Step());  // what had run before is handed out first
    fail = false;
    ASSERT_TRUE(recorders[0].finished());
    RunChecked(&engine);
    EXPECT_EQ(recorders[0].answer.reason, FinishReason::kError);
    ASSERT_TRUE(recorders[0].answer.error);
    EXPECT_EQ(recorders[0].answer.error->message, "this step fails");
    EXPECT_EQ(recorders[1].answer.tokens, Expected(FiveScripts(), Prompt(3, 5), -1));
    EXPECT_GE(engine.stats().failed_steps, 1);
  }
}

TEST(EngineTest, TwoThreads) {
  const formats::TempFolder folder;
  const std::string path = "synthetic:" + folder.Write("s.json", FiveScripts().dump());
  const std::vector<GenerationRequest> requests = ManyRequests();
  const auto runner = MustOpenOnCpu(path, SmallOptions(5, 48), /*threads=*/2);
  ASSERT_NE(runner, nullptr);
  ExpectScripts(requests, RunAll(runner.get(), requests));
}

TEST(EngineTest, Bf16KvHoldsEveryToken) {
  runner::RunnerOptions options = SmallOptions(4, 64);
  options.activations = DType::kBF16;
  const auto runner = OpenScripted(FiveScripts(), options);
  ASSERT_NE(runner, nullptr);
  const std::vector<GenerationRequest> requests = ManyRequests();
  ExpectScripts(requests, RunAll(runner.get(), requests));
}

}  // namespace
}  // namespace deepinfer::engine
