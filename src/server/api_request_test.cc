#include "server/api_request.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "server/json_values.h"

namespace deepinfer::server {
namespace {

ApiResult<ApiRequest> Parse(const std::string& body, Endpoint endpoint = Endpoint::kChat) {
  const ApiResult<Json> json = ParseBody(body);
  if (!json) return tl::unexpected(json.error());
  return ParseApiRequest(*json, endpoint);
}

std::string Chat(const std::string& fields) {
  return R"({"messages": [{"role": "user", "content": "hi"}])" + (fields.empty() ? "" : ", " + fields) + "}";
}

TEST(ApiRequestTest, Defaults) {
  const auto request = Parse(Chat(""));
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->params.temperature, 1.0);
  EXPECT_EQ(request->params.max_tokens, -1);
  EXPECT_EQ(request->params.logprobs, -1);
  EXPECT_EQ(request->n, 1);
  EXPECT_FALSE(request->stream || request->include_usage || request->seed || request->max_tokens);
  EXPECT_TRUE(request->chat.add_generation_prompt);
  EXPECT_EQ(request->chat.messages.dump(), R"([{"role":"user","content":"hi"}])");
}

TEST(ApiRequestTest, EveryFieldOfAChat) {
  const auto request = Parse(Chat(
      R"("model": "m", "max_tokens": 9, "max_completion_tokens": 5.0, "temperature": 0.5, "top_p": 0.9, "top_k": 7,
         "min_p": 0.1, "seed": -3, "n": 2, "stop": ["a", "b"], "stop_token_ids": [4], "ignore_eos": true, "stream": true,
         "stream_options": {"include_usage": true}, "logprobs": true, "top_logprobs": 4, "priority": -2,
         "cache_salt": "s", "chat_template_kwargs": {"x": [1]}, "add_generation_prompt": false,
         "return_token_ids": true)"));
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->model, "m");
  EXPECT_EQ(request->params.max_tokens, 5);
  EXPECT_EQ(request->params.temperature, 0.5);
  EXPECT_EQ(request->params.top_p, 0.9);
  EXPECT_EQ(request->params.top_k, 7);
  EXPECT_EQ(request->params.min_p, 0.1);
  EXPECT_EQ(request->seed, -3);
  EXPECT_EQ(request->n, 2);
  EXPECT_EQ(request->stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(request->stop_token_ids, std::vector<int32_t>{4});
  EXPECT_TRUE(request->params.ignore_eos && request->stream && request->include_usage && request->return_token_ids);
  EXPECT_EQ(request->params.logprobs, 4);
  EXPECT_EQ(request->priority, -2);
  EXPECT_EQ(request->cache_salt, "s");
  EXPECT_EQ(request->chat.kwargs.dump(), R"({"x":[1]})");
  EXPECT_FALSE(request->chat.add_generation_prompt);
}

TEST(ApiRequestTest, LogprobsOfAChat) {
  const auto logprobs = [](const std::string& fields) { return Parse(Chat(fields))->params.logprobs; };
  EXPECT_EQ(logprobs(R"("logprobs": false)"), -1);
  EXPECT_EQ(logprobs(R"("logprobs": true)"), 0);
  EXPECT_EQ(logprobs(R"("top_logprobs": 3, "logprobs": true)"), 3);
  EXPECT_EQ(logprobs(R"("logprobs": true, "top_logprobs": null)"), 0);
  EXPECT_EQ(logprobs(R"("logprobs": false, "top_logprobs": 0)"), -1);
}

TEST(ApiRequestTest, Prompts) {
  const auto prompts = [](const std::string& value) {
    auto request = Parse("{\"prompt\": " + value + "}", Endpoint::kCompletions);
    EXPECT_TRUE(request) << request.error().message;
    return request ? request->prompts : decltype(request->prompts)();
  };
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(std::get<std::string>(prompts(R"("a")").at(0)), "a");
  EXPECT_EQ(std::get<Ids>(prompts("[1, 2]").at(0)), (Ids{1, 2}));
  const auto mixed = prompts(R"(["a", [3], "b"])");
  ASSERT_EQ(mixed.size(), 3u);
  EXPECT_EQ(std::get<Ids>(mixed[1]), Ids{3});
  EXPECT_EQ(std::get<std::string>(mixed[2]), "b");
}

TEST(ApiRequestTest, MessagesKeepWhatTemplatesNeed) {
  const auto messages = ParseMessages(Json::parse(
      R"([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "name": "n"},
          {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": "{\"b\":1,\"a\":2}"}}]},
          {"content": "r", "role": "tool", "tool_call_id": "1"}])"));
  ASSERT_TRUE(messages) << messages.error().message;
  EXPECT_EQ(messages->dump(),
            R"([{"role":"user","content":"a\nb","name":"n"},)"
            R"({"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{"b":1,"a":2}}}]},)"
            R"({"role":"tool","content":"r","tool_call_id":"1"}])");
}

TEST(ApiRequestTest, ErrorsNameTheirPlace) {
  const auto error = [](const std::string& fields) {
    const auto request = Parse(Chat(fields));
    return request ? "accepted" : request.error().code + " " + request.error().param;
  };
  EXPECT_EQ(error(R"("temperature": "hot")"), "invalid_type temperature");
  EXPECT_EQ(error(R"("nothing": 1)"), "unknown_parameter nothing");
  EXPECT_EQ(error(R"("nothing": null)"), "unknown_parameter nothing");
  EXPECT_EQ(error(R"("n": 1.5)"), "invalid_value n");
  EXPECT_EQ(error(R"("stop": ["x", 1])"), "invalid_type stop[1]");
  EXPECT_EQ(error(R"("tools": [{}])"), "unsupported_parameter tools");
  EXPECT_EQ(error(R"("tools": [])"), "accepted");
  EXPECT_EQ(error(R"("frequency_penalty": 0)"), "accepted");
}

TEST(ApiRequestTest, ControlsOfSampling) {
  const auto request = Parse(Chat(
      R"("logit_bias": {"5": -100, "7": 2.5}, "allowed_token_ids": [1, 2], "banned_token_ids": [2], "min_tokens": 3,
         "frequency_penalty": 0.5, "presence_penalty": -1, "repetition_penalty": 1.1, "typical_p": 0.9,
         "xtc_probability": 0.5, "xtc_threshold": 0.2, "dry_multiplier": 0.8, "dry_penalty_last_n": 64,
         "dry_sequence_breakers": ["."])"));
  ASSERT_TRUE(request) << request.error().message;
  const engine::SamplingParams& p = request->params;
  ASSERT_EQ(p.logit_bias.size(), 2u);
  EXPECT_EQ(p.logit_bias[1].id, 7);
  EXPECT_EQ(p.logit_bias[1].bias, 2.5);
  EXPECT_EQ(p.allowed_ids, (std::vector<int32_t>{1, 2}));
  EXPECT_EQ(p.banned_ids, std::vector<int32_t>{2});
  EXPECT_EQ(p.min_tokens, 3);
  EXPECT_EQ(p.frequency_penalty, 0.5);
  EXPECT_EQ(p.presence_penalty, -1);
  EXPECT_EQ(p.repetition_penalty, 1.1);
  EXPECT_EQ(p.typical_p, 0.9);
  EXPECT_EQ(p.xtc_probability, 0.5);
  EXPECT_EQ(p.dry_range, 64);
  EXPECT_EQ(request->dry_breakers, std::vector<std::string>{"."});
  EXPECT_EQ(Parse(Chat(R"("n": 1)"))->dry_breakers.size(), 4u);
}

TEST(ApiRequestTest, StructuredOutput) {
  const auto asked = [](const std::string& fields) { return Parse(Chat(fields))->grammar; };
  EXPECT_FALSE(asked(R"("response_format": {"type": "text"})"));
  EXPECT_EQ(asked(R"("response_format": {"type": "json_object"})")->spec.kind, text::GrammarKind::kJsonObject);
  const auto schema = asked(
      R"("response_format": {"type": "json_schema", "json_schema": {"name": "x", "strict": true, "schema": {"type": "integer"}}})");
  EXPECT_EQ(schema->param, "response_format.json_schema.schema");
  EXPECT_EQ(schema->spec.kind, text::GrammarKind::kJsonSchema);
  EXPECT_EQ(schema->spec.source, R"({"type":"integer"})");
  EXPECT_EQ(asked(R"("structured_outputs": {"choice": ["a", "b"]})")->spec.choices.size(), 2u);
  EXPECT_EQ(asked(R"("structured_outputs": {"regex": "[ab]+"})")->spec.kind, text::GrammarKind::kRegex);
  EXPECT_EQ(asked(R"("guided_json": "{}")")->spec.source, "{}");
  EXPECT_EQ(asked(R"("guided_grammar": "start: \"a\"")")->spec.kind, text::GrammarKind::kLark);
}

TEST(ApiRequestTest, BodiesAreLimited) {
  EXPECT_EQ(ParseBody("{\"a\": tru}").error().code, "invalid_json");
  EXPECT_NE(ParseBody("{\"a\": tru}").error().message.find("byte 10"), std::string::npos);
  EXPECT_FALSE(ParseBody(std::string(65, '[') + std::string(65, ']')));
  EXPECT_FALSE(ParseBody("{\"a\":" + std::string(64, '[') + std::string(64, ']') + "}"));
  EXPECT_TRUE(ParseBody("{\"a\":" + std::string(63, '[') + std::string(63, ']') + "}"));
}

// The manual names every field of the table.
TEST(ApiRequestTest, EveryFieldIsInTheManual) {
  std::ifstream file(DI_SOURCE_DIR "/docs/server.md");
  std::stringstream manual;
  manual << file.rdbuf();
  for (const auto& [name, endpoint] : GenerationFieldNames()) {
    EXPECT_NE(manual.str().find("`" + name + "`"), std::string::npos) << name << " of " << endpoint;
  }
}

}  // namespace
}  // namespace deepinfer::server
