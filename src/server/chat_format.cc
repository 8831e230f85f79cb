// chat.completion and chat.completion.chunk.
#include "server/response_format.h"

namespace deepinfer::server {
namespace {

Json Bytes(const std::string& text) {
  Json bytes = Json::array();
  for (const char c : text) bytes.push_back(static_cast<int>(static_cast<unsigned char>(c)));
  return bytes;
}

class Chat final : public ResponseFormat {
 public:
  Chat(const std::string& id, const ApiRequest& request, const ServedModel& model)
      : ResponseFormat("chatcmpl-" + id, request, model) {}

  Json Opening(size_t index) override {
    return ChunkOf(index, {{"role", "assistant"}, {"content", ""}}, ChoiceDelta{});
  }

  Json Chunk(size_t index, const ChoiceDelta& delta) override {
    Json message = Json::object();
    if (!delta.text.empty() || !delta.finish) message["content"] = delta.text;
    return ChunkOf(index, std::move(message), delta);
  }

  Json Whole(const std::vector<ChoiceDelta>& choices, const Usage& usage) override {
    Json list = Json::array();
    for (size_t i = 0; i < choices.size(); ++i) {
      Json choice = {{"index", i},
                     {"message", {{"role", "assistant"}, {"content", choices[i].text}, {"refusal", nullptr}}},
                     {"logprobs", Logprobs(choices[i])},
                     {"finish_reason", FinishReasonOf(choices[i])}};
      AddExtras(choices[i], &choice);
      list.push_back(std::move(choice));
    }
    Json json = Envelope("chat.completion", std::move(list));
    json["usage"] = usage.ToJson();
    if (choices[0].prompt) json["prompt_logprobs"] = PromptLogprobs(*choices[0].prompt);
    return json;
  }

 private:
  const char* ChunkObject() const override { return "chat.completion.chunk"; }

  Json ChunkOf(size_t index, Json message, const ChoiceDelta& delta) const {
    Json choice = {{"index", index},
                   {"delta", std::move(message)},
                   {"logprobs", delta.logprobs.empty() ? Json() : Logprobs(delta)},
                   {"finish_reason", FinishReasonOf(delta)}};
    AddExtras(delta, &choice);
    Json json = Envelope(ChunkObject(), Json::array({std::move(choice)}));
    if (usage_in_chunks_) json["usage"] = nullptr;
    return json;
  }

  Json Logprobs(const ChoiceDelta& delta) const {
    if (!logprobs_) return nullptr;
    Json content = Json::array();
    for (const LogprobEntry& entry : delta.logprobs) {
      Json top = Json::array();
      for (const engine::TokenLogprob& each : entry.top) {
        const std::string text = TokenText(each.id);
        top.push_back({{"token", text}, {"logprob", JsonLogprob(each.logprob)}, {"bytes", Bytes(text)}});
      }
      content.push_back({{"token", TokenText(entry.id)},
                         {"logprob", JsonLogprob(entry.logprob.value_or(0))},
                         {"bytes", Bytes(entry.bytes)},
                         {"top_logprobs", std::move(top)}});
    }
    return {{"content", std::move(content)}, {"refusal", nullptr}};
  }
};

}  // namespace

std::unique_ptr<ResponseFormat> ChatFormat(const std::string& id, const ApiRequest& request, const ServedModel& model) {
  return std::make_unique<Chat>(id, request, model);
}

}  // namespace deepinfer::server
