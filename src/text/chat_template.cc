#include "text/chat_template.h"

#include <utility>

#include "text/bridge_handle.h"

namespace deepinfer::text {
namespace {

constexpr int kMaxNesting = 100;

bool NestsWithin(const Json& value, int levels) {
  if (!value.is_structured()) return true;
  if (levels == 0) return false;
  for (const Json& item : value) {
    if (!NestsWithin(item, levels - 1)) return false;
  }
  return true;
}

// Such a template drops or refuses what a "developer" says: to it that is the system.
void RenameDevelopers(Json* messages) {
  for (Json& message : *messages) {
    if (message.is_object() && message.contains("role") && message["role"] == "developer") message["role"] = "system";
  }
}

}  // namespace

struct ChatTemplate::Impl {
  BridgeTemplate handle;
};

Status CheckNesting(const Json& value, const std::string& where) {
  if (NestsWithin(value, kMaxNesting)) return {};
  return MakeError(ErrorCode::kInvalidArgument, where, "nested deeper than {} levels", kMaxNesting);
}

Result<ChatTemplate> ChatTemplate::Compile(std::string_view source, const std::string& where) {
  di_template* handle = nullptr;
  di_bytes error{};
  DI_RETURN_IF_ERROR(ToStatus(di_template_new(Slice(source), &handle, &error), error, where));
  ChatTemplate out;
  out.impl_ = std::make_shared<Impl>(Impl{BridgeTemplate(handle)});
  out.source_ = source;
  out.where_ = where;
  return out;
}

Result<std::string> ChatTemplate::Render(const ChatInput& input, const Json& special_tokens) const {
  if (!input.messages.is_array()) return MakeError(ErrorCode::kInvalidArgument, "messages", "must be an array");
  if (!input.tools.is_null() && !input.tools.is_array()) {
    return MakeError(ErrorCode::kInvalidArgument, "tools", "must be an array");
  }
  if (!input.kwargs.is_null() && !input.kwargs.is_object()) {
    return MakeError(ErrorCode::kInvalidArgument, "chat_template_kwargs", "must be an object");
  }
  DI_RETURN_IF_ERROR(CheckNesting(input.messages, "messages"));
  DI_RETURN_IF_ERROR(CheckNesting(input.tools, "tools"));
  DI_RETURN_IF_ERROR(CheckNesting(input.kwargs, "chat_template_kwargs"));
  Json context = special_tokens.is_object() ? special_tokens : Json::object();
  for (const auto& [key, value] : input.kwargs.items()) context[key] = value;
  context["messages"] = input.messages;
  if (source_.find("developer") == std::string::npos) RenameDevelopers(&context["messages"]);
  context["tools"] = input.tools;
  context["documents"] = nullptr;
  context["add_generation_prompt"] = input.add_generation_prompt;
  const std::string json = context.dump(-1, ' ', false, Json::error_handler_t::replace);
  di_bytes text{};
  di_bytes error{};
  DI_RETURN_IF_ERROR(ToStatus(di_template_render(impl_->handle.get(), Slice(json), &text, &error), error, where_));
  return TakeBytes(text);
}

}  // namespace deepinfer::text
