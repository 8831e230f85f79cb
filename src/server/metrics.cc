#include "server/metrics.h"

#include <fmt/format.h>
#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <mutex>

namespace deepinfer::server {
namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;
using Buckets = Histogram::BucketBoundaries;

const Buckets kFirstToken = {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
                             1,     2.5,   5,    7.5,  10,   20,   40,   80,  160,  640, 2560};
const Buckets kTokenGap = {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5,
                           0.75, 1,     2.5,  5,     7.5, 10,   20,  40,  80};
const Buckets kRequest = {0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
const Buckets kTokens = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000};
const Buckets kHost = {1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1};
const Buckets kFill = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1};

double Seconds(engine::Clock::time_point from, engine::Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

void Grow(Counter& counter, int64_t now, int64_t before) {
  if (now > before) counter.Increment(static_cast<double>(now - before));
}

// vLLM's word for how a request ended.
const char* FinishedReason(engine::FinishReason reason) {
  switch (reason) {
    case engine::FinishReason::kStop:
      return "stop";
    case engine::FinishReason::kLength:
      return "length";
    case engine::FinishReason::kCancelled:
    case engine::FinishReason::kDeadline:
      return "abort";
    case engine::FinishReason::kError:
      break;
  }
  return "error";
}

}  // namespace

struct Metrics::State {
  explicit State(const std::string& model) : labels{{"engine", "0"}, {"model_name", model}} {}

  prometheus::Labels With(const std::string& name, const std::string& value) const {
    prometheus::Labels all = labels;
    all[name] = value;
    return all;
  }
  Gauge& AddGauge(const char* name, const char* help) {
    return prometheus::BuildGauge().Name(name).Help(help).Register(registry).Add(labels);
  }
  prometheus::Family<Counter>& AddFamily(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry);
  }
  Counter& AddCounter(const char* name, const char* help) { return AddFamily(name, help).Add(labels); }
  Histogram& AddHistogram(const char* name, const char* help, const Buckets& buckets) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add(labels, buckets);
  }

  prometheus::Registry registry;
  prometheus::Labels labels;

  Gauge& running = AddGauge("vllm:num_requests_running", "Choices that take part in steps.");
  Gauge& waiting = AddGauge("vllm:num_requests_waiting", "Choices that wait for a place.");
  Gauge& kv_usage = AddGauge("vllm:kv_cache_usage_perc", "Share of the KV blocks in use, 0 to 1.");
  Gauge& gpu_usage = AddGauge("vllm:gpu_cache_usage_perc", "The same, under the name older dashboards use.");
  Counter& prefix_queries =
      AddCounter("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.");
  Counter& prefix_hits = AddCounter("vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache.");
  Counter& preemptions = AddCounter("vllm:num_preemptions_total", "Choices that gave their KV blocks back for others.");
  Counter& prompt_tokens = AddCounter("vllm:prompt_tokens_total", "Prompt tokens of accepted requests.");
  Counter& generation_tokens = AddCounter("vllm:generation_tokens_total", "Tokens generated.");
  prometheus::Family<Counter>& success = AddFamily("vllm:request_success_total", "Choices that ended, by reason.");
  Histogram& first_token =
      AddHistogram("vllm:time_to_first_token_seconds", "From arrival to the first token.", kFirstToken);
  Histogram& token_gap = AddHistogram("vllm:inter_token_latency_seconds", "Between two tokens of a choice.", kTokenGap);
  Histogram& old_token_gap =
      AddHistogram("vllm:time_per_output_token_seconds", "The same, under the name older dashboards use.", kTokenGap);
  Histogram& mean_gap = AddHistogram("vllm:request_time_per_output_token_seconds",
                                     "Mean time between the tokens of a choice.", kTokenGap);
  Histogram& whole = AddHistogram("vllm:e2e_request_latency_seconds", "From arrival to the last token.", kRequest);
  Histogram& queued = AddHistogram("vllm:request_queue_time_seconds", "From arrival to the first step.", kRequest);
  Histogram& prefill =
      AddHistogram("vllm:request_prefill_time_seconds", "From the first step to the first token.", kRequest);
  Histogram& decode = AddHistogram("vllm:request_decode_time_seconds", "From the first to the last token.", kRequest);
  Histogram& inference =
      AddHistogram("vllm:request_inference_time_seconds", "From the first step to the last token.", kRequest);
  Histogram& request_prompt = AddHistogram("vllm:request_prompt_tokens", "Prompt tokens of a choice.", kTokens);
  Histogram& request_generation =
      AddHistogram("vllm:request_generation_tokens", "Tokens generated for a choice.", kTokens);
  Histogram& step_tokens = AddHistogram("vllm:iteration_tokens_total", "Tokens of a step.", kTokens);

  Gauge& compiles =
      AddGauge("deepinfer:compiles_after_ready", "Graphs asked for after warm-up that were not there; must stay 0.");
  Histogram& host = AddHistogram("deepinfer:step_host_overhead_seconds",
                                 "Time of a step outside the model: planning and delivering.", kHost);
  Histogram& fill = AddHistogram("deepinfer:bucket_fill", "Live tokens of a step as a share of its bucket.", kFill);
  Counter& nan_rows = AddCounter("deepinfer:nan_rows_total", "Requests that ended because their logits held a NaN.");
  Counter& grammar_hits =
      AddCounter("deepinfer:grammar_cache_hits_total", "Grammars of requests that were compiled already.");
  Counter& grammar_misses =
      AddCounter("deepinfer:grammar_cache_misses_total", "Grammars of requests that had to be compiled.");
  prometheus::Family<Counter>& responses = AddFamily("deepinfer:http_responses_total", "HTTP responses by status.");

  std::mutex mutex;  // of what was seen last
  engine::EngineStats last;
  text::GrammarCacheStats last_grammars;
};

Metrics::Metrics(const std::string& model_name) : state_(std::make_unique<State>(model_name)) {
  for (const char* reason : {"stop", "length", "abort", "error"}) {
    state_->success.Add(state_->With("finished_reason", reason));
  }
}

Metrics::~Metrics() = default;

void Metrics::OnReady(int64_t block_size, int64_t kv_blocks) {
  prometheus::Labels labels = state_->With("block_size", std::to_string(block_size));
  labels["num_gpu_blocks"] = std::to_string(kv_blocks);
  prometheus::BuildGauge()
      .Name("vllm:cache_config_info")
      .Help("The KV cache.")
      .Register(state_->registry)
      .Add(labels)
      .Set(1);
}

void Metrics::OnStep(const engine::EngineStats& stats) {
  State& state = *state_;
  const std::lock_guard lock(state.mutex);
  state.running.Set(static_cast<double>(stats.running));
  state.waiting.Set(static_cast<double>(stats.waiting));
  const double usage =
      stats.kv_blocks > 0 ? static_cast<double>(stats.kv_blocks_used) / static_cast<double>(stats.kv_blocks) : 0;
  state.kv_usage.Set(usage);
  state.gpu_usage.Set(usage);
  Grow(state.prefix_queries, stats.prefix_queries, state.last.prefix_queries);
  Grow(state.prefix_hits, stats.prefix_hits, state.last.prefix_hits);
  Grow(state.preemptions, stats.preemptions, state.last.preemptions);
  Grow(state.prompt_tokens, stats.prompt_tokens, state.last.prompt_tokens);
  Grow(state.generation_tokens, stats.generated_tokens, state.last.generated_tokens);
  Grow(state.nan_rows, stats.nan_rows, state.last.nan_rows);
  state.compiles.Set(static_cast<double>(stats.compiles_after_ready));
  if (stats.bucket_tokens > state.last.bucket_tokens) {
    state.step_tokens.Observe(static_cast<double>(stats.last_live_tokens));
    state.host.Observe(static_cast<double>(stats.last_host_ns) * 1e-9);
    state.fill.Observe(static_cast<double>(stats.last_live_tokens) /
                       static_cast<double>(std::max<int64_t>(1, stats.last_bucket_tokens)));
  }
  state.last = stats;
}

void Metrics::OnTokenGap(double seconds) {
  state_->token_gap.Observe(seconds);
  state_->old_token_gap.Observe(seconds);
}

void Metrics::OnFinish(const engine::FinishEvent& event) {
  State& state = *state_;
  state.success.Add(state.With("finished_reason", FinishedReason(event.reason))).Increment();
  state.request_prompt.Observe(static_cast<double>(event.prompt_tokens));
  state.request_generation.Observe(static_cast<double>(event.generated_tokens));
  const engine::ChoiceTimes& times = event.times;
  const engine::Clock::time_point never;
  if (times.queued != never) state.whole.Observe(Seconds(times.queued, times.finished));
  if (times.first_scheduled == never) return;
  state.queued.Observe(Seconds(times.queued, times.first_scheduled));
  state.inference.Observe(Seconds(times.first_scheduled, times.finished));
  if (times.first_token == never) return;
  state.first_token.Observe(Seconds(times.queued, times.first_token));
  state.prefill.Observe(Seconds(times.first_scheduled, times.first_token));
  const double decode = Seconds(times.first_token, times.finished);
  state.decode.Observe(decode);
  if (event.generated_tokens > 1) state.mean_gap.Observe(decode / static_cast<double>(event.generated_tokens - 1));
}

void Metrics::OnResponse(int status) {
  state_->responses.Add(state_->With("status", std::to_string(status))).Increment();
}

void Metrics::OnGrammars(const text::GrammarCacheStats& stats) {
  const std::lock_guard lock(state_->mutex);
  text::GrammarCacheStats& last = state_->last_grammars;
  Grow(state_->grammar_hits, stats.hits, last.hits);
  Grow(state_->grammar_misses, stats.misses, last.misses);
  // Two that ask at once may come here in another order.
  last.hits = std::max(last.hits, stats.hits);
  last.misses = std::max(last.misses, stats.misses);
}

std::string Metrics::Expose() const {
  return prometheus::TextSerializer().Serialize(state_->registry.Collect());
}

}  // namespace deepinfer::server
