#include "engine/async_engine.h"

namespace deepinfer::engine {

// Between the engine and a request's observer: keeps it alive and notes the end.
class AsyncEngine::Relay : public RequestObserver {
 public:
  Relay(int64_t id, int32_t choices, std::shared_ptr<RequestObserver> observer, std::vector<int64_t>* ended)
      : id_(id), choices_(choices), observer_(std::move(observer)), ended_(ended) {}

  bool OnToken(const TokenEvent& event) override { return observer_->OnToken(event); }
  void OnPromptLogits(int64_t position, const float* logits, int64_t vocab) override {
    observer_->OnPromptLogits(position, logits, vocab);
  }
  void OnPromptLogprob(int64_t position, const TokenEvent& event) override {
    observer_->OnPromptLogprob(position, event);
  }
  void OnFinish(const FinishEvent& event) override {
    if (event.last) ended_->push_back(id_);
    observer_->OnFinish(event);
  }

  int32_t choices() const { return choices_; }
  int64_t engine_id = 0;

 private:
  int64_t id_;
  int32_t choices_;
  std::shared_ptr<RequestObserver> observer_;
  std::vector<int64_t>* ended_;
};

AsyncEngine::AsyncEngine(std::unique_ptr<Engine> engine, int64_t max_waiting,
                         std::function<void(const EngineStats&)> on_step)
    : engine_(std::move(engine)),
      max_choices_(max_waiting > 0 ? engine_->max_running() + max_waiting : 0),
      on_step_(std::move(on_step)),
      stats_(engine_->stats()),
      thread_([this] { Loop(); }) {}

AsyncEngine::~AsyncEngine() {
  Stop();
}

Result<int64_t> AsyncEngine::Submit(CheckedRequest request, std::shared_ptr<RequestObserver> observer) {
  const int32_t n = request.request().n;
  int64_t id = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!accepting_) return MakeError(ErrorCode::kFailedPrecondition, "", "the server is shutting down");
    if (max_choices_ > 0 && choices_ + n > max_choices_) {
      return MakeError(ErrorCode::kResourceExhausted, "", "the queue is full: {} answers are being made or wait",
                       choices_);
    }
    id = next_id_++;
    choices_ += n;
    relays_[id] = std::make_shared<Relay>(id, n, std::move(observer), &ended_);
    submitted_.push_back({id, std::move(request)});
  }
  changed_.notify_all();
  return id;
}

void AsyncEngine::Cancel(int64_t id) {
  {
    const std::lock_guard lock(mutex_);
    if (relays_.count(id) == 0) return;
    cancelled_.push_back(id);
  }
  changed_.notify_all();
}

EngineStats AsyncEngine::stats() const {
  const std::lock_guard lock(mutex_);
  EngineStats stats = stats_;
  for (const Submission& submission : submitted_) stats.waiting += submission.request.request().n;
  return stats;
}

int64_t AsyncEngine::live() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(relays_.size());
}

bool AsyncEngine::Drain(std::chrono::steady_clock::time_point until) {
  std::unique_lock lock(mutex_);
  accepting_ = false;
  return changed_.wait_until(lock, until, [this] { return relays_.empty(); });
}

void AsyncEngine::Stop() {
  {
    const std::lock_guard lock(mutex_);
    accepting_ = false;
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void AsyncEngine::Loop() {
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] {
        return engine_->HasWork() || !submitted_.empty() || !cancelled_.empty() || (stopping_ && relays_.empty());
      });
      if (stopping_ && relays_.empty()) return;
      if (stopping_) {
        for (const auto& [id, relay] : relays_) cancelled_.push_back(id);
      }
    }
    Take();
    // An error of a step has reached the observers of those it concerns.
    if (engine_->HasWork()) (void)engine_->Step();
    Publish();  // first: whoever has seen Drain end finds the numbers of that moment
    Forget();
  }
}

// Hands what came in to the engine.
void AsyncEngine::Take() {
  std::vector<std::pair<std::shared_ptr<Relay>, Submission>> fresh;
  std::vector<std::shared_ptr<Relay>> cancelled;
  {
    const std::lock_guard lock(mutex_);
    for (Submission& submission : submitted_) fresh.emplace_back(relays_[submission.id], std::move(submission));
    submitted_.clear();
    for (const int64_t id : cancelled_) {
      if (const auto relay = relays_.find(id); relay != relays_.end()) cancelled.push_back(relay->second);
    }
    cancelled_.clear();
  }
  for (auto& [relay, submission] : fresh) {
    const Result<int64_t> added = engine_->Add(std::move(submission.request), relay.get());
    if (added) {
      relay->engine_id = *added;
    } else {
      FinishEvent event;
      event.error = added.error();
      relay->OnFinish(event);
    }
  }
  for (const auto& relay : cancelled) engine_->Cancel(relay->engine_id);
}

// Observers die outside the lock: what they hold may come back here.
void AsyncEngine::Forget() {
  std::vector<std::shared_ptr<Relay>> forgotten;
  {
    const std::lock_guard lock(mutex_);
    for (const int64_t id : ended_) {
      const auto relay = relays_.find(id);
      choices_ -= relay->second->choices();
      forgotten.push_back(std::move(relay->second));
      relays_.erase(relay);
    }
    ended_.clear();
  }
  if (!forgotten.empty()) changed_.notify_all();
}

void AsyncEngine::Publish() {
  {
    const std::lock_guard lock(mutex_);
    stats_ = engine_->stats();
  }
  if (on_step_) on_step_(stats());
}

}  // namespace deepinfer::engine
