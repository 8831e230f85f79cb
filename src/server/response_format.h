// How an answer looks on the wire: chat.completion and text_completion, whole or in chunks. One object per response;
// one thread at a time. Source: OpenAI's API reference.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/choice.h"
#include "server/served_model.h"

namespace deepinfer::server {

struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t cached_tokens = 0;  // of the prompt
  Json ToJson() const;
};

class ResponseFormat {
 public:
  virtual ~ResponseFormat() = default;

  // The chunk that opens a choice, or null.
  virtual Json Opening(size_t index) = 0;
  virtual Json Chunk(size_t index, const ChoiceDelta& delta) = 0;
  virtual Json Whole(const std::vector<ChoiceDelta>& choices, const Usage& usage) = 0;
  // The last chunk of a stream whose client asked for the usage.
  Json UsageChunk(const Usage& usage);

 protected:
  ResponseFormat(std::string id, const ApiRequest& request, const ServedModel& model);
  Json Envelope(const char* object, Json choices) const;
  std::string TokenText(int32_t id) const;
  // "stop" or "length"; null while it goes on.
  static Json FinishReasonOf(const ChoiceDelta& delta);
  // stop_reason, and token_ids if they were asked for.
  void AddExtras(const ChoiceDelta& delta, Json* choice) const;
  // vLLM's prompt_logprobs: an array with an entry for each token of the prompt, {"token id": {"logprob", "rank",
  // "decoded_token"}} of the token itself and then the best ones; null for the first.
  Json PromptLogprobs(const std::vector<LogprobEntry>& prompt) const;

  const text::Tokenizer* tokenizer_;
  bool logprobs_;
  bool token_ids_;
  bool usage_in_chunks_;

 private:
  Json TokenReport(int32_t id, float logprob, int64_t rank) const;
  virtual const char* ChunkObject() const = 0;

  std::string id_;
  std::string model_;
  int32_t prompt_logprobs_;
  int64_t created_;
};

// id: of the HTTP request; the response's own is made of it.
std::unique_ptr<ResponseFormat> ChatFormat(const std::string& id, const ApiRequest& request, const ServedModel& model);
// prompts: for echo's offsets and return_token_ids.
std::unique_ptr<ResponseFormat> CompletionFormat(const std::string& id, const ApiRequest& request,
                                                 const ServedModel& model, std::vector<Prompt> prompts);

// A number JSON can hold: minus infinity becomes -9999.
double JsonLogprob(float logprob);

}  // namespace deepinfer::server
