#include "cli/prompt_logits.h"

namespace deepinfer::cli {
namespace {

class Observer : public engine::RequestObserver {
 public:
  Observer(const LogitsSink& sink, Progress* progress) : sink_(sink), progress_(progress) {}
  bool OnToken(const engine::TokenEvent& /*event*/) override { return true; }
  void OnPromptLogits(int64_t position, const float* logits, int64_t vocab) override {
    sink_(position, logits, vocab);
    if (progress_ != nullptr) progress_->Advance(1);
  }
  void OnFinish(const engine::FinishEvent& event) override { error_ = event.error; }
  const std::optional<Error>& error() const { return error_; }

 private:
  const LogitsSink& sink_;
  Progress* progress_;
  std::optional<Error> error_;
};

}  // namespace

Status ForEachPromptLogits(const Session& session, std::vector<int32_t> prompt, const LogitsSink& sink,
                           Progress* progress) {
  Observer observer(sink, progress);
  engine::GenerationRequest request;
  request.prompt = std::move(prompt);
  request.prompt_logits = true;
  request.params.temperature = 0;
  DI_RETURN_IF_ERROR(session.engine->Add(std::move(request), &observer));
  DI_RETURN_IF_ERROR(session.engine->RunUntilIdle());
  if (observer.error()) return tl::unexpected(*observer.error());
  return {};
}

}  // namespace deepinfer::cli
