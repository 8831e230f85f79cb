// The messages of a conversation.
#include <algorithm>

#include "server/api_request.h"
#include "server/json_values.h"

namespace deepinfer::server {
namespace {

constexpr const char* kRoles[] = {"system", "developer", "user", "assistant", "tool", "function"};

ApiResult<std::string> PartText(const Json& part, const std::string& place) {
  DI_RETURN_IF_ERROR(RequireObject(part, place));
  const std::string where = place + ".type";
  if (!part.contains("type")) {
    return tl::unexpected(ApiError(400, "missing_required_parameter", where, where + ": is missing"));
  }
  std::string type;
  DI_RETURN_IF_ERROR(Read(part["type"], where, &type));
  const char* member = type == "refusal" ? "refusal" : "text";
  if (type != "text" && type != "refusal") {
    return Unsupported(where, fmt::format("'{}' is not supported by this model; only text is", type));
  }
  const std::string text_place = place + "." + member;
  if (!part.contains(member)) {
    return tl::unexpected(ApiError(400, "missing_required_parameter", text_place, text_place + ": is missing"));
  }
  std::string text;
  DI_RETURN_IF_ERROR(Read(part[member], text_place, &text));
  return text;
}

ApiResult<Json> ParseContent(const Json& content, const std::string& place) {
  if (content.is_string()) return content;
  if (!content.is_array()) return InvalidType(place, "a string or an array of parts", content);
  std::string joined;
  for (size_t i = 0; i < content.size(); ++i) {
    DI_ASSIGN_OR_RETURN(const std::string text, PartText(content[i], fmt::format("{}[{}]", place, i)));
    joined += (i == 0 ? "" : "\n") + text;
  }
  return Json(joined);
}

// Calls an assistant made earlier. Templates want the arguments as an object; on the wire they are its text.
ApiResult<Json> ParseToolCalls(const Json& calls, const std::string& place) {
  DI_RETURN_IF_ERROR(RequireArray(calls, place));
  Json parsed = calls;
  for (size_t i = 0; i < parsed.size(); ++i) {
    const std::string function_place = fmt::format("{}[{}].function", place, i);
    DI_RETURN_IF_ERROR(RequireObject(parsed[i], fmt::format("{}[{}]", place, i)));
    if (!parsed[i].contains("function")) {
      return tl::unexpected(
          ApiError(400, "missing_required_parameter", function_place, function_place + ": is missing"));
    }
    DI_RETURN_IF_ERROR(RequireObject(parsed[i]["function"], function_place));
    Json& function = parsed[i]["function"];
    if (!function.contains("arguments") || !function["arguments"].is_string()) continue;
    auto arguments = ParseBody(function["arguments"].get_ref<const std::string&>());
    if (!arguments) {
      return InvalidValue(function_place + ".arguments",
                          "is not the text of a JSON object: " + arguments.error().message);
    }
    function["arguments"] = std::move(*arguments);
  }
  return parsed;
}

ApiResult<Json> ParseMessage(const Json& message, const std::string& place) {
  DI_RETURN_IF_ERROR(RequireObject(message, place));
  DI_RETURN_IF_ERROR(OnlyMembers(message, place,
                                 {"role", "content", "name", "tool_calls", "tool_call_id", "refusal", "reasoning",
                                  "reasoning_content", "function_call", "audio", "annotations"}));
  const std::string role_place = place + ".role";
  if (!message.contains("role")) {
    return tl::unexpected(ApiError(400, "missing_required_parameter", role_place, role_place + ": is missing"));
  }
  std::string role;
  DI_RETURN_IF_ERROR(Read(message["role"], role_place, &role));
  if (std::find(std::begin(kRoles), std::end(kRoles), role) == std::end(kRoles)) {
    return InvalidValue(role_place, fmt::format("'{}' is not one of {}", role, fmt::join(kRoles, ", ")));
  }
  Json parsed = {{"role", role}};
  const auto has = [&message](const char* name) { return message.contains(name) && !message[name].is_null(); };
  const bool has_calls = has("tool_calls");
  const bool refused = role == "assistant" && !has("content") && has("refusal");
  if (!has("content") && !refused && !(role == "assistant" && has_calls)) {
    const std::string where = place + ".content";
    return tl::unexpected(ApiError(400, "missing_required_parameter", where, where + ": is missing"));
  }
  if (has("content") || refused) {
    const char* said = refused ? "refusal" : "content";
    DI_ASSIGN_OR_RETURN(parsed["content"], ParseContent(message[said], place + "." + said));
  } else {
    parsed["content"] = "";
  }
  for (const char* name : {"function_call", "audio", "annotations"}) {
    if (has(name) && message[name] != Json::array()) return Unsupported(place + "." + name, "is not supported");
  }
  for (const char* name : {"name", "tool_call_id", "refusal", "reasoning", "reasoning_content"}) {
    if (!has(name)) continue;
    std::string text;
    DI_RETURN_IF_ERROR(Read(message[name], place + "." + name, &text));
    parsed[name] = text;
  }
  if (has_calls) {
    DI_ASSIGN_OR_RETURN(parsed["tool_calls"], ParseToolCalls(message["tool_calls"], place + ".tool_calls"));
  }
  return parsed;
}

}  // namespace

ApiResult<Json> ParseMessages(const Json& value) {
  DI_RETURN_IF_ERROR(RequireArray(value, "messages"));
  if (value.empty()) return InvalidValue("messages", "is empty");
  Json messages = Json::array();
  for (size_t i = 0; i < value.size(); ++i) {
    DI_ASSIGN_OR_RETURN(Json message, ParseMessage(value[i], fmt::format("messages[{}]", i)));
    messages.push_back(std::move(message));
  }
  return messages;
}

}  // namespace deepinfer::server
