// The fields that constrain an answer's text: response_format (OpenAI), structured_outputs and guided_* (vLLM).
#include "server/structured_output.h"

#include "server/json_values.h"

namespace deepinfer::server {
namespace {

using text::GrammarKind;

// One constraint of an answer, named by the field that asks for it.
ApiStatus Put(const std::string& name, GrammarKind kind, std::string source, std::vector<std::string> choices,
              std::optional<AskedGrammar>* grammar) {
  if (*grammar) return InvalidValue(name, fmt::format("{} constrains the answer already", (*grammar)->param));
  *grammar = {name, {kind, std::move(source), std::move(choices)}};
  return {};
}

ApiStatus PutText(const Json& value, const std::string& name, GrammarKind kind, std::optional<AskedGrammar>* grammar) {
  std::string text;
  DI_RETURN_IF_ERROR(Read(value, name, &text));
  if (text.empty()) return InvalidValue(name, "must not be empty");
  return Put(name, kind, std::move(text), {}, grammar);
}

// A schema is an object or a boolean; vLLM also takes its text.
ApiStatus PutSchema(const Json& value, const std::string& name, std::optional<AskedGrammar>* grammar) {
  if (value.is_string()) return PutText(value, name, GrammarKind::kJsonSchema, grammar);
  if (!value.is_object() && !value.is_boolean()) return InvalidType(name, "a JSON schema", value);
  return Put(name, GrammarKind::kJsonSchema, Dump(value), {}, grammar);
}

ApiStatus PutChoices(const Json& value, const std::string& name, std::optional<AskedGrammar>* grammar) {
  DI_RETURN_IF_ERROR(RequireArray(value, name));
  if (value.empty()) return InvalidValue(name, "is empty");
  std::vector<std::string> choices;
  for (size_t i = 0; i < value.size(); ++i) {
    const std::string place = fmt::format("{}[{}]", name, i);
    DI_RETURN_IF_ERROR(Read(value[i], place, &choices.emplace_back()));
    if (choices.back().empty()) return InvalidValue(place, "must not be empty");
  }
  return Put(name, GrammarKind::kChoice, "", std::move(choices), grammar);
}

ApiStatus PutObject(const Json& value, const std::string& name, std::optional<AskedGrammar>* grammar) {
  bool wanted = false;
  DI_RETURN_IF_ERROR(Read(value, name, &wanted));
  return wanted ? Put(name, GrammarKind::kJsonObject, "", {}, grammar) : ApiStatus();
}

// {"name": ..., "schema": ..., "strict": ..., "description": ...}. Every schema is kept to, strict or not.
ApiStatus PutNamedSchema(const Json& value, const std::string& name, std::optional<AskedGrammar>* grammar) {
  DI_RETURN_IF_ERROR(RequireObject(value, name));
  DI_RETURN_IF_ERROR(OnlyMembers(value, name, {"name", "schema", "strict", "description"}));
  bool strict = false;
  std::string text;
  if (value.contains("strict") && !value["strict"].is_null())
    DI_RETURN_IF_ERROR(Read(value["strict"], name + ".strict", &strict));
  for (const char* note : {"name", "description"}) {
    if (value.contains(note)) DI_RETURN_IF_ERROR(Read(value[note], name + "." + note, &text));
  }
  if (!value.contains("schema")) {
    return tl::unexpected(ApiError(400, "missing_required_parameter", name + ".schema", name + ".schema: is missing"));
  }
  return PutSchema(value["schema"], name + ".schema", grammar);
}

}  // namespace

ApiStatus ReadResponseFormat(const Json& value, const std::string& name, std::optional<AskedGrammar>* grammar) {
  DI_RETURN_IF_ERROR(RequireObject(value, name));
  DI_RETURN_IF_ERROR(OnlyMembers(value, name, {"type", "json_schema"}));
  std::string type;
  if (value.contains("type")) DI_RETURN_IF_ERROR(Read(value["type"], name + ".type", &type));
  if (type != "json_schema" && value.contains("json_schema")) {
    return InvalidValue(name + ".json_schema", "is only allowed together with \"type\": \"json_schema\"");
  }
  if (type == "text") return {};
  if (type == "json_object") return Put(name, GrammarKind::kJsonObject, "", {}, grammar);
  if (type != "json_schema") {
    return InvalidValue(name + ".type", fmt::format("must be text, json_object or json_schema, got '{}'", type));
  }
  if (!value.contains("json_schema")) {
    const std::string place = name + ".json_schema";
    return tl::unexpected(ApiError(400, "missing_required_parameter", place, place + ": is missing"));
  }
  return PutNamedSchema(value["json_schema"], name + ".json_schema", grammar);
}

ApiStatus ReadStructuredOutputs(const Json& value, const std::string& name, std::optional<AskedGrammar>* grammar) {
  DI_RETURN_IF_ERROR(RequireObject(value, name));
  DI_RETURN_IF_ERROR(OnlyMembers(value, name, {"json", "json_object", "regex", "choice", "grammar"}));
  for (const auto& [key, member] : value.items()) {
    if (!member.is_null()) DI_RETURN_IF_ERROR(ReadGuided(member, name + "." + key, key, grammar));
  }
  return {};
}

ApiStatus ReadGuided(const Json& value, const std::string& name, const std::string& kind,
                     std::optional<AskedGrammar>* grammar) {
  if (kind == "json") return PutSchema(value, name, grammar);
  if (kind == "json_object") return PutObject(value, name, grammar);
  if (kind == "choice") return PutChoices(value, name, grammar);
  return PutText(value, name, kind == "regex" ? GrammarKind::kRegex : GrammarKind::kLark, grammar);
}

}  // namespace deepinfer::server
