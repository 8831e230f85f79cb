// Tokenizer::FromHuggingFaceFolder: tokenizer.json through the bridge, tokenizer_config.json and the template files
// here.
#include <filesystem>
#include <utility>

#include "base/mapped_file.h"
#include "formats/json.h"
#include "text/tokenizer.h"
#include "text/tokenizer_builder.h"

namespace deepinfer::text {
namespace {

using formats::ParseJson;
using PlainJson = nlohmann::json;

struct Config {
  std::optional<bool> add_bos, add_eos;
  Json special_variables = Json::object();
  std::string chat_template, tool_use_template;
};

// A special token is written as its text or as an object with `content`.
std::string TokenText(const PlainJson& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object() && value.contains("content") && value["content"].is_string()) return value["content"];
  return "";
}

// A template is text, or a list of named ones.
Status ReadTemplate(const PlainJson& value, const std::string& where, Config& config) {
  if (value.is_null()) return {};
  if (value.is_string()) {
    config.chat_template = value.get<std::string>();
    return {};
  }
  if (!value.is_array()) return MakeError(ErrorCode::kInvalidArgument, where, "neither a text nor a list of templates");
  for (const PlainJson& entry : value) {
    if (!entry.is_object() || !entry.contains("name") || !entry.contains("template") ||
        !entry["template"].is_string()) {
      return MakeError(ErrorCode::kInvalidArgument, where, "a list entry without name and template");
    }
    if (entry["name"] == "default") config.chat_template = entry["template"];
    if (entry["name"] == "tool_use") config.tool_use_template = entry["template"];
  }
  return {};
}

Result<std::optional<bool>> Flag(const PlainJson& json, const char* key, const std::string& where) {
  if (!json.contains(key) || json[key].is_null()) return std::optional<bool>();
  if (!json[key].is_boolean())
    return MakeError(ErrorCode::kInvalidArgument, where + ": " + key, "must be true or false");
  return std::optional<bool>(json[key].get<bool>());
}

Result<Config> ReadConfig(const HuggingFaceFiles& files, const std::string& folder) {
  Config config;
  if (!files.tokenizer_config_json.empty()) {
    const std::string where = folder + "/tokenizer_config.json";
    DI_ASSIGN_OR_RETURN(const PlainJson json, ParseJson(files.tokenizer_config_json, where));
    if (!json.is_object()) return MakeError(ErrorCode::kInvalidArgument, where, "must be an object");
    DI_ASSIGN_OR_RETURN(config.add_bos, Flag(json, "add_bos_token", where));
    DI_ASSIGN_OR_RETURN(config.add_eos, Flag(json, "add_eos_token", where));
    for (const char* key :
         {"bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token"}) {
      if (json.contains(key)) {
        if (std::string text = TokenText(json[key]); !text.empty()) config.special_variables[key] = std::move(text);
      }
    }
    if (json.contains("chat_template")) {
      DI_RETURN_IF_ERROR(ReadTemplate(json["chat_template"], where + ": chat_template", config));
    }
  }
  if (!files.chat_template_json.empty()) {
    const std::string where = folder + "/chat_template.json";
    DI_ASSIGN_OR_RETURN(const PlainJson json, ParseJson(files.chat_template_json, where));
    if (!json.is_object() || !json.contains("chat_template")) {
      return MakeError(ErrorCode::kInvalidArgument, where, "has no chat_template");
    }
    DI_RETURN_IF_ERROR(ReadTemplate(json["chat_template"], where, config));
  }
  if (!files.chat_template_jinja.empty()) config.chat_template = files.chat_template_jinja;
  return config;
}

Status ReadTable(Tokenizer::State& state) {
  di_bytes info_bytes{}, texts{}, flags{}, error{};
  di_ids offsets{};
  DI_RETURN_IF_ERROR(ToStatus(di_tokenizer_info(state.handle.get(), &info_bytes, &error), error, state.where));
  const PlainJson info = PlainJson::parse(TakeBytes(info_bytes));  // our own bridge wrote it
  DI_RETURN_IF_ERROR(
      ToStatus(di_tokenizer_tokens(state.handle.get(), &texts, &offsets, &flags, &error), error, state.where));
  TokenTable& table = state.table;
  table.texts = TakeBytes(texts);
  table.offsets.assign(offsets.data, offsets.data + offsets.size);
  di_ids_free(offsets);
  const std::string flag_bytes = TakeBytes(flags);
  table.flags.assign(flag_bytes.begin(), flag_bytes.end());
  const std::string kind = info["kind"];
  if (kind == "byte_level") table.form = TokenTable::Form::kByteLevel;
  if (kind == "metaspace") table.form = TokenTable::Form::kMetaspace;
  table.replacement = info["replacement"].get<std::string>();
  if (info["byte_fallback"].get<bool>()) {
    for (int32_t id = 0; id < table.size(); ++id) {
      if (!table.Has(id, TokenTable::kAdded) && IsByteToken(table.Text(id))) table.flags[id] |= TokenTable::kByte;
    }
  }
  state.strip_left = info["strip_left"];
  state.prefix = info["prefix"].get<std::vector<int32_t>>();
  state.suffix = info["suffix"].get<std::vector<int32_t>>();
  for (const auto* ids : {&state.prefix, &state.suffix}) {
    for (int32_t id : *ids) {
      if (id < 0 || id >= table.size()) {
        return MakeError(ErrorCode::kInvalidArgument, state.where + ": post_processor", "token id {} does not exist",
                         id);
      }
    }
  }
  return {};
}

// tokenizer_config.json may switch BOS and EOS on or off; it wins over the post-processor when it says anything.
void ApplyAddFlags(const Config& config, std::optional<int32_t> eos, Tokenizer::State& state) {
  if (config.add_bos) state.prefix.clear();
  if (config.add_bos.value_or(false) && state.bos) state.prefix = {*state.bos};
  if (config.add_eos) state.suffix.clear();
  if (config.add_eos.value_or(false) && eos) state.suffix = {*eos};
}

Result<std::string> ReadIfThere(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::string();
  DI_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path.string()));
  return std::string(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
}

}  // namespace

Result<Tokenizer> Tokenizer::FromHuggingFaceFiles(const HuggingFaceFiles& files, const std::string& where) {
  DI_ASSIGN_OR_RETURN(const Config config, ReadConfig(files, where));
  auto state = std::make_unique<State>();
  state->where = where + "/tokenizer.json";
  di_tokenizer* handle = nullptr;
  di_bytes error{};
  DI_RETURN_IF_ERROR(
      ToStatus(di_tokenizer_from_json(Slice(files.tokenizer_json), &handle, &error), error, state->where));
  state->handle.reset(handle);
  DI_RETURN_IF_ERROR(ReadTable(*state));
  std::vector<int32_t> ends;
  std::optional<int32_t> eos;
  for (const char* key : {"bos_token", "eos_token"}) {
    if (!config.special_variables.contains(key)) continue;
    const std::string text = config.special_variables[key];
    const int32_t id = state->table.Find(text);
    if (id < 0) {
      return MakeError(ErrorCode::kInvalidArgument, where + "/tokenizer_config.json: " + key,
                       "\"{}\" is not in the vocabulary", text);
    }
    if (std::string_view(key) == "bos_token") {
      state->bos = id;
    } else {
      eos = id;
      ends.push_back(id);
    }
  }
  ApplyAddFlags(config, eos, *state);
  state->special_variables = config.special_variables;
  return TokenizerBuilder::Finish(std::move(state), std::move(ends), config.chat_template, config.tool_use_template);
}

Result<Tokenizer> Tokenizer::FromHuggingFaceFolder(const std::string& folder) {
  const std::filesystem::path base(folder);
  HuggingFaceFiles files;
  DI_ASSIGN_OR_RETURN(files.tokenizer_json, ReadIfThere(base / "tokenizer.json"));
  if (files.tokenizer_json.empty()) {
    return MakeError(ErrorCode::kNotFound, folder, "no tokenizer.json in this folder");
  }
  DI_ASSIGN_OR_RETURN(files.tokenizer_config_json, ReadIfThere(base / "tokenizer_config.json"));
  DI_ASSIGN_OR_RETURN(files.chat_template_jinja, ReadIfThere(base / "chat_template.jinja"));
  DI_ASSIGN_OR_RETURN(files.chat_template_json, ReadIfThere(base / "chat_template.json"));
  return FromHuggingFaceFiles(files, folder);
}

}  // namespace deepinfer::text
