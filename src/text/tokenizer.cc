#include "text/tokenizer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "text/tokenizer_builder.h"
#include "text/utf8_detokenizer.h"

namespace deepinfer::text {
namespace {

constexpr std::array<std::string_view, 13> kEndTexts = {
    "<|im_end|>",
    "<end_of_turn>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|eot|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<EOT>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<｜end▁of▁sentence｜>",
    "<|END_OF_TURN_TOKEN|>",
};

Result<std::vector<int32_t>> EncodeWith(const Tokenizer::State& state, std::string_view text, int32_t mode) {
  di_ids ids{};
  di_bytes error{};
  DI_RETURN_IF_ERROR(
      ToStatus(di_tokenizer_encode(state.handle.get(), Slice(text), mode, &ids, &error), error, state.where));
  std::vector<int32_t> out(ids.data, ids.data + ids.size);
  di_ids_free(ids);
  return out;
}

bool StartsWith(const std::vector<int32_t>& ids, const std::vector<int32_t>& prefix) {
  return ids.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), ids.begin());
}

bool EndsWith(const std::vector<int32_t>& ids, const std::vector<int32_t>& suffix) {
  return ids.size() >= suffix.size() && std::equal(suffix.rbegin(), suffix.rend(), ids.rbegin());
}

// A copy with every string and key guarded. A message's role and a part's type are words of the API, not text.
Json Guarded(const Json& value, const SpecialGuard& guard) {
  if (value.is_string()) return guard.Guard(value.get_ref<const std::string&>());
  if (value.is_array()) {
    Json out = Json::array();
    for (const Json& item : value) out.push_back(Guarded(item, guard));
    return out;
  }
  if (value.is_object()) {
    Json out = Json::object();
    for (const auto& [key, item] : value.items()) out[guard.Guard(key)] = Guarded(item, guard);
    return out;
  }
  return value;
}

Json GuardedMessages(const Json& messages, const Tokenizer::State& state) {
  Json out = Json::array();
  for (const Json& message : messages) {
    const bool assistant = message.is_object() && message.contains("role") && message["role"] == "assistant";
    out.push_back(Guarded(message, assistant && state.assistant_guard ? *state.assistant_guard : *state.guard));
  }
  return out;
}

const std::string& SourceOf(const std::optional<ChatTemplate>& chat_template) {
  static const std::string kNone;
  return chat_template ? chat_template->source() : kNone;
}

// Tokens that a template looks for in an assistant's text are left visible there.
void GuardAssistant(std::vector<std::string> specials, Tokenizer::State* state) {
  state->assistant_guard = nullptr;
  std::vector<std::string> looked_for;
  for (const auto* each : {&state->chat, &state->tool_use}) {
    if (!each->has_value()) continue;
    for (std::string& token : TokensLookedForBy((*each)->source(), specials)) looked_for.push_back(std::move(token));
  }
  if (looked_for.empty()) return;
  std::erase_if(specials, [&](const std::string& token) {
    return std::find(looked_for.begin(), looked_for.end(), token) != looked_for.end();
  });
  state->assistant_guard = std::make_unique<SpecialGuard>(specials);
}

}  // namespace

bool IsEndText(std::string_view text) {
  return std::find(kEndTexts.begin(), kEndTexts.end(), text) != kEndTexts.end();
}

Tokenizer::Tokenizer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

Result<std::vector<int32_t>> Tokenizer::Encode(std::string_view text, const EncodeOptions& options) const {
  const int32_t mode = options.parse_special ? DI_ENCODE_SPECIAL : DI_ENCODE_PLAIN;
  DI_ASSIGN_OR_RETURN(std::vector<int32_t> ids, EncodeWith(*state_, text, mode));
  if (options.add_special) {
    const State& state = *state_;
    if (!StartsWith(ids, state.prefix)) ids.insert(ids.begin(), state.prefix.begin(), state.prefix.end());
    if (!EndsWith(ids, state.suffix)) ids.insert(ids.end(), state.suffix.begin(), state.suffix.end());
  }
  return ids;
}

std::string Tokenizer::TokenBytes(int32_t id) const {
  return state_->table.Bytes(id);
}

std::string Tokenizer::Decode(const std::vector<int32_t>& ids, bool skip_special) const {
  std::string bytes;
  for (int32_t id : ids) {
    if (skip_special && IsSpecial(id)) continue;
    bytes += state_->table.Bytes(id);
  }
  size_t spaces = 0;
  while (spaces < bytes.size() && spaces < static_cast<size_t>(state_->strip_left) && bytes[spaces] == ' ') ++spaces;
  return ReplaceInvalidUtf8(std::string_view(bytes).substr(spaces));
}

int32_t Tokenizer::TokenId(std::string_view text) const {
  return state_->table.Find(text);
}
int32_t Tokenizer::vocab_size() const {
  return state_->table.size();
}
std::optional<int32_t> Tokenizer::bos_id() const {
  return state_->bos;
}
const std::vector<int32_t>& Tokenizer::eos_ids() const {
  return state_->eos_ids;
}
bool Tokenizer::IsSpecial(int32_t id) const {
  return state_->table.Has(id, TokenTable::kSpecial);
}
bool Tokenizer::has_chat_template() const {
  return state_->chat.has_value();
}

Status Tokenizer::UseChatTemplate(const std::string& source, const std::string& where) {
  DI_ASSIGN_OR_RETURN(state_->chat, ChatTemplate::Compile(source, where));
  state_->tool_use = std::nullopt;
  std::vector<std::string> specials;
  for (const auto& [text, id] : state_->table.added) {
    if (state_->table.Has(id, TokenTable::kSpecial)) specials.push_back(text);
  }
  GuardAssistant(std::move(specials), state_.get());
  return {};
}

const std::string& Tokenizer::chat_template_source() const {
  return SourceOf(state_->chat);
}
const std::string& Tokenizer::tool_use_template_source() const {
  return SourceOf(state_->tool_use);
}
std::string Tokenizer::SpecialText(const std::string& variable) const {
  return state_->special_variables.value(variable, "");
}

Result<std::string> Tokenizer::RenderChat(const ChatInput& input) const {
  if (!state_->chat) {
    return MakeError(ErrorCode::kFailedPrecondition, state_->where, "this model has no chat template");
  }
  const bool tools = state_->tool_use.has_value() && input.tools.is_array() && !input.tools.empty();
  return (tools ? *state_->tool_use : *state_->chat).Render(input, state_->special_variables);
}

Result<std::vector<int32_t>> Tokenizer::EncodeChat(const ChatInput& input) const {
  DI_RETURN_IF_ERROR(CheckNesting(input.messages, "messages"));
  DI_RETURN_IF_ERROR(CheckNesting(input.tools, "tools"));
  DI_RETURN_IF_ERROR(CheckNesting(input.kwargs, "chat_template_kwargs"));
  ChatInput guarded = input;
  if (input.messages.is_array()) guarded.messages = GuardedMessages(input.messages, *state_);
  guarded.tools = Guarded(input.tools, *state_->guard);
  guarded.kwargs = Guarded(input.kwargs, *state_->guard);
  DI_ASSIGN_OR_RETURN(const std::string text, RenderChat(guarded));
  DI_ASSIGN_OR_RETURN(std::vector<int32_t> ids, EncodeWith(*state_, text, DI_ENCODE_GUARDED));
  if (!StartsWith(ids, state_->prefix)) ids.insert(ids.begin(), state_->prefix.begin(), state_->prefix.end());
  return ids;
}

Result<Tokenizer> TokenizerBuilder::Finish(std::unique_ptr<Tokenizer::State> state, std::vector<int32_t> ends,
                                           const std::string& chat_template, const std::string& tool_use_template) {
  TokenTable& table = state->table;
  table.IndexAdded();
  const bool harmony = table.added.contains("<|return|>");  // there <|end|> ends a message, not the turn
  std::vector<std::string> specials;
  for (const auto& [text, id] : table.added) {
    if (IsEndText(text) && !(harmony && text == "<|end|>")) ends.push_back(id);
    if (table.Has(id, TokenTable::kSpecial)) specials.push_back(text);
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  state->eos_ids = std::move(ends);

  state->guard = std::make_unique<SpecialGuard>(specials);
  if (!chat_template.empty()) {
    DI_ASSIGN_OR_RETURN(state->chat, ChatTemplate::Compile(chat_template, state->where + ": chat template"));
  }
  if (!tool_use_template.empty()) {
    DI_ASSIGN_OR_RETURN(state->tool_use,
                        ChatTemplate::Compile(tool_use_template, state->where + ": tool_use template"));
  }
  GuardAssistant(std::move(specials), state.get());
  return Tokenizer(std::move(state));
}

}  // namespace deepinfer::text
