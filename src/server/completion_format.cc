// text_completion, whole and in chunks.
#include <algorithm>

#include "server/response_format.h"
#include "text/utf8_detokenizer.h"

namespace deepinfer::server {
namespace {

// Characters, as the offsets of this API count.
size_t Characters(const std::string& utf8) {
  return static_cast<size_t>(std::count_if(utf8.begin(), utf8.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

class Completion final : public ResponseFormat {
 public:
  Completion(const std::string& id, const ApiRequest& request, const ServedModel& model, std::vector<Prompt> prompts)
      : ResponseFormat("cmpl-" + id, request, model),
        prompts_(std::move(prompts)),
        per_prompt_(static_cast<size_t>(request.n)),
        offsets_(prompts_.size() * per_prompt_) {
    for (size_t i = 0; !request.echo && i < offsets_.size(); ++i) offsets_[i] = Characters(PromptOf(i).text);
  }

  Json Opening(size_t /*index*/) override { return nullptr; }

  Json Chunk(size_t index, const ChoiceDelta& delta) override {
    Json json = Envelope(ChunkObject(), Json::array({ChoiceOf(index, delta)}));
    if (usage_in_chunks_) json["usage"] = nullptr;
    return json;
  }

  Json Whole(const std::vector<ChoiceDelta>& choices, const Usage& usage) override {
    Json list = Json::array();
    for (size_t i = 0; i < choices.size(); ++i) list.push_back(ChoiceOf(i, choices[i]));
    Json json = Envelope(ChunkObject(), std::move(list));
    json["usage"] = usage.ToJson();
    return json;
  }

 private:
  const char* ChunkObject() const override { return "text_completion"; }
  const Prompt& PromptOf(size_t index) const { return prompts_[index / per_prompt_]; }

  Json ChoiceOf(size_t index, const ChoiceDelta& delta) {
    Json choice = {{"index", index},
                   {"text", delta.text},
                   {"logprobs", Logprobs(index, delta)},
                   {"finish_reason", FinishReasonOf(delta)}};
    AddExtras(delta, &choice);
    if (token_ids_ && delta.finish) choice["prompt_token_ids"] = PromptOf(index).ids;
    if (delta.prompt) choice["prompt_logprobs"] = PromptLogprobs(*delta.prompt);
    return choice;
  }

  // A token that is no text by itself is written as OpenAI does, "bytes:\xe8\xb5".
  std::string Spelling(int32_t id) const {
    const std::string bytes = TokenText(id);
    if (text::ReplaceInvalidUtf8(bytes) == bytes) return bytes;
    std::string spelling = "bytes:";
    for (const char c : bytes) spelling += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    return spelling;
  }

  Json Logprobs(size_t index, const ChoiceDelta& delta) {
    if (!logprobs_ || (delta.logprobs.empty() && !delta.finish)) return nullptr;
    Json tokens = Json::array();
    Json logprobs = Json::array();
    Json tops = Json::array();
    Json offsets = Json::array();
    for (const LogprobEntry& entry : delta.logprobs) {
      tokens.push_back(Spelling(entry.id));
      logprobs.push_back(entry.logprob ? Json(JsonLogprob(*entry.logprob)) : Json());
      Json top = entry.logprob ? Json::object() : Json();
      for (const engine::TokenLogprob& each : entry.top) top[Spelling(each.id)] = JsonLogprob(each.logprob);
      if (entry.logprob && !entry.top.empty()) top[Spelling(entry.id)] = JsonLogprob(*entry.logprob);
      tops.push_back(std::move(top));
      offsets.push_back(offsets_[index]);
      offsets_[index] += Characters(entry.bytes);
    }
    return {{"tokens", std::move(tokens)},
            {"token_logprobs", std::move(logprobs)},
            {"top_logprobs", std::move(tops)},
            {"text_offset", std::move(offsets)}};
  }

  std::vector<Prompt> prompts_;
  size_t per_prompt_;
  std::vector<size_t> offsets_;  // of each choice's next token in its text
};

}  // namespace

std::unique_ptr<ResponseFormat> CompletionFormat(const std::string& id, const ApiRequest& request,
                                                 const ServedModel& model, std::vector<Prompt> prompts) {
  return std::make_unique<Completion>(id, request, model, std::move(prompts));
}

}  // namespace deepinfer::server
