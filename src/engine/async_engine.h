// The step loop on a thread of its own: requests come in from any thread and end there, the engine belongs to the loop.
//
// Observers are called on the engine's thread and must not block it: whoever reads slowly keeps what waits for it
// elsewhere (at most what its request may generate). The number of requests that run or wait is bounded. Thread-safe,
// except that the destructor is called once, by one thread, after which no observer is called.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/error.h"
#include "engine/engine.h"

namespace deepinfer::engine {

class AsyncEngine {
 public:
  // max_waiting: choices that may be submitted beyond those that run at once; 0: no bound.
  // on_step: on the engine's thread after each step, with that moment's numbers; may be empty.
  AsyncEngine(std::unique_ptr<Engine> engine, int64_t max_waiting, std::function<void(const EngineStats&)> on_step);
  ~AsyncEngine();  // Stop

  // Fails naming the parameter if the request can never run. Pure.
  Result<CheckedRequest> Check(GenerationRequest request) const { return engine_->Check(std::move(request)); }
  // Fails at once: kResourceExhausted: the queue is full; kFailedPrecondition: Drain or Stop was called. The observer
  // is kept until its last OnFinish.
  Result<int64_t> Submit(CheckedRequest request, std::shared_ptr<RequestObserver> observer);
  // Takes effect before the next step; unknown ids are ignored. May be called by an observer.
  void Cancel(int64_t id);

  // As of the end of the last step; waiting counts what was submitted since.
  EngineStats stats() const;
  // Requests that have not ended.
  int64_t live() const;
  // No further request is accepted. Returns when every request has ended or the time is over: whether all have.
  bool Drain(std::chrono::steady_clock::time_point until);
  // Cancels what is left and ends the thread.
  void Stop();

 private:
  class Relay;
  struct Submission {
    int64_t id = 0;
    CheckedRequest request;
  };

  void Loop();
  void Take();
  void Forget();
  void Publish();

  std::unique_ptr<Engine> engine_;
  const int64_t max_choices_;  // that have not ended; 0: no bound
  std::function<void(const EngineStats&)> on_step_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Submission> submitted_;
  std::vector<int64_t> cancelled_;
  std::map<int64_t, std::shared_ptr<Relay>> relays_;  // by id; of requests that have not ended
  int64_t choices_ = 0;                               // of these
  int64_t next_id_ = 1;
  bool accepting_ = true;
  bool stopping_ = false;
  EngineStats stats_;

  std::vector<int64_t> ended_;  // of the engine's thread
  std::thread thread_;
};

}  // namespace deepinfer::engine
