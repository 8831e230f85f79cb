// What /metrics shows, in Prometheus' text form: the names that vLLM's dashboards use, and our own under deepinfer:.
// Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "engine/engine_stats.h"
#include "engine/request.h"
#include "text/grammar_cache.h"

namespace deepinfer::server {

class Metrics {
 public:
  explicit Metrics(const std::string& model_name);
  ~Metrics();

  // Once, when the model is ready.
  void OnReady(int64_t block_size, int64_t kv_blocks);
  // After each step of the engine.
  void OnStep(const engine::EngineStats& stats);
  // Between two tokens of a choice.
  void OnTokenGap(double seconds);
  void OnFinish(const engine::FinishEvent& event);
  void OnResponse(int status);
  // Before they are shown: counters of the model's compiled grammars.
  void OnGrammars(const text::GrammarCacheStats& stats);

  std::string Expose() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace deepinfer::server
