#include "formats/hf_config.h"

#include <algorithm>
#include <filesystem>
#include <limits>

#include "base/mapped_file.h"
#include "formats/byte_cursor.h"
#include "formats/json.h"

namespace deepinfer::formats {
namespace {

using nlohmann::json;

// Real files have a few KiB; those with per-layer lists some hundred.
constexpr JsonLimits kConfigLimits = {.max_bytes = 4u << 20, .max_depth = 32, .max_values = 1u << 18};

tl::unexpected<Error> WrongKind(std::string where, const json& value, const char* wanted) {
  return MakeError(ErrorCode::kInvalidArgument, std::move(where), "is {} ({}) where {} is expected",
                   Printable(value.dump(-1, ' ', false, json::error_handler_t::replace), 40), value.type_name(),
                   wanted);
}

Result<int64_t> AsInt(const json& value, const std::string& where) {
  if (value.is_number_unsigned() &&
      value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return WrongKind(where, value, "a 64-bit integer");
  }
  if (value.is_number_integer()) return value.get<int64_t>();
  return WrongKind(where, value, "an integer");
}

Result<double> AsFloat(const json& value, const std::string& where) {
  if (value.is_number()) return value.get<double>();
  return WrongKind(where, value, "a number");
}

Result<bool> AsBool(const json& value, const std::string& where) {
  if (value.is_boolean()) return value.get<bool>();
  return WrongKind(where, value, "a boolean");
}

Result<std::string> AsString(const json& value, const std::string& where) {
  if (value.is_string()) return value.get<std::string>();
  return WrongKind(where, value, "a string");
}

template <class T>
Result<T> Required(const json* value, const std::string& where, Result<T> (*convert)(const json&, const std::string&)) {
  if (value == nullptr) return MakeError(ErrorCode::kNotFound, where, "the field is missing");
  return convert(*value, where);
}

template <class T>
Result<T> Optional(const json* value, const std::string& where, T fallback,
                   Result<T> (*convert)(const json&, const std::string&)) {
  if (value == nullptr) return fallback;
  return convert(*value, where);
}

template <class T>
Result<std::vector<T>> List(const json* value, const std::string& where,
                            Result<T> (*convert)(const json&, const std::string&)) {
  std::vector<T> list;
  if (value == nullptr) return list;
  if (!value->is_array()) return WrongKind(where, *value, "an array");
  for (const json& element : *value) {
    DI_ASSIGN_OR_RETURN(T converted, convert(element, where));
    list.push_back(std::move(converted));
  }
  return list;
}

// `eos_token_id` is one id or a list of ids.
Result<std::vector<int64_t>> EosIds(const ConfigNode& node) {
  if (!node.Has("eos_token_id")) return std::vector<int64_t>();
  if (node.object()["eos_token_id"].is_array()) return node.Ints("eos_token_id");
  DI_ASSIGN_OR_RETURN(const int64_t id, node.RequiredInt("eos_token_id"));
  return std::vector<int64_t>{id};
}

Result<std::unique_ptr<const json>> ParseObject(std::string_view text, const std::string& path) {
  DI_ASSIGN_OR_RETURN(json parsed, ParseJson(text, path, kConfigLimits));
  if (!parsed.is_object()) return MakeError(ErrorCode::kInvalidArgument, path, "is not a JSON object");
  return std::make_unique<const json>(std::move(parsed));
}

std::string_view TextOf(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

}  // namespace

std::string ConfigNode::Where(std::string_view field) const {
  return fmt::format("{}: {}", where_, field);
}

const json* ConfigNode::Find(std::string_view field) const {
  const auto it = object_->find(std::string(field));
  return it == object_->end() || it->is_null() ? nullptr : &*it;
}

bool ConfigNode::Has(std::string_view field) const {
  return Find(field) != nullptr;
}

Result<int64_t> ConfigNode::RequiredInt(std::string_view field) const {
  return Required<int64_t>(Find(field), Where(field), AsInt);
}
Result<double> ConfigNode::RequiredFloat(std::string_view field) const {
  return Required<double>(Find(field), Where(field), AsFloat);
}
Result<bool> ConfigNode::RequiredBool(std::string_view field) const {
  return Required<bool>(Find(field), Where(field), AsBool);
}
Result<std::string> ConfigNode::RequiredString(std::string_view field) const {
  return Required<std::string>(Find(field), Where(field), AsString);
}
Result<int64_t> ConfigNode::OptionalInt(std::string_view field, int64_t fallback) const {
  return Optional<int64_t>(Find(field), Where(field), fallback, AsInt);
}
Result<double> ConfigNode::OptionalFloat(std::string_view field, double fallback) const {
  return Optional<double>(Find(field), Where(field), fallback, AsFloat);
}
Result<bool> ConfigNode::OptionalBool(std::string_view field, bool fallback) const {
  return Optional<bool>(Find(field), Where(field), fallback, AsBool);
}
Result<std::string> ConfigNode::OptionalString(std::string_view field, std::string fallback) const {
  return Optional<std::string>(Find(field), Where(field), std::move(fallback), AsString);
}
Result<std::vector<int64_t>> ConfigNode::Ints(std::string_view field) const {
  return List<int64_t>(Find(field), Where(field), AsInt);
}
Result<std::vector<double>> ConfigNode::Floats(std::string_view field) const {
  return List<double>(Find(field), Where(field), AsFloat);
}
Result<std::vector<std::string>> ConfigNode::Strings(std::string_view field) const {
  return List<std::string>(Find(field), Where(field), AsString);
}

Result<std::optional<ConfigNode>> ConfigNode::Child(std::string_view field) const {
  const json* value = Find(field);
  if (value == nullptr) return std::optional<ConfigNode>();
  if (!value->is_object()) return WrongKind(Where(field), *value, "an object");
  return std::optional<ConfigNode>(ConfigNode(*value, Where(field)));
}

ConfigNode HfConfig::root() const {
  return ConfigNode(*config_, config_path_);
}

ConfigNode HfConfig::text() const {
  const auto child = root().Child("text_config");
  return child && child->has_value() ? **child : root();
}

Status HfConfig::ReadCommon() {
  DI_RETURN_IF_ERROR(root().Child("text_config"));
  DI_ASSIGN_OR_RETURN(const std::vector<std::string> architectures, root().Strings("architectures"));
  if (!architectures.empty()) architecture_ = architectures.front();
  DI_ASSIGN_OR_RETURN(model_type_, root().OptionalString("model_type", ""));

  const ConfigNode nested = text();
  constexpr const char* kTie = "tie_word_embeddings";
  for (const ConfigNode& node : {nested, root()}) {
    if (tie_word_embeddings_ || !node.Has(kTie)) continue;
    DI_ASSIGN_OR_RETURN(tie_word_embeddings_, node.RequiredBool(kTie));
  }

  if (generation_ != nullptr) {
    DI_ASSIGN_OR_RETURN(eos_ids_, EosIds(ConfigNode(*generation_, generation_path_)));
  }
  for (const ConfigNode& node : {nested, root()}) {
    if (eos_ids_.empty()) {
      DI_ASSIGN_OR_RETURN(eos_ids_, EosIds(node));
    }
  }
  std::sort(eos_ids_.begin(), eos_ids_.end());
  eos_ids_.erase(std::unique(eos_ids_.begin(), eos_ids_.end()), eos_ids_.end());
  return {};
}

Result<HfConfig> HfConfig::Parse(std::string_view config, std::string_view generation, const std::string& folder) {
  HfConfig result;
  result.config_path_ = (std::filesystem::path(folder) / "config.json").string();
  result.generation_path_ = (std::filesystem::path(folder) / "generation_config.json").string();
  DI_ASSIGN_OR_RETURN(result.config_, ParseObject(config, result.config_path_));
  if (!generation.empty()) {
    DI_ASSIGN_OR_RETURN(result.generation_, ParseObject(generation, result.generation_path_));
  }
  DI_RETURN_IF_ERROR(result.ReadCommon());
  return result;
}

Result<HfConfig> HfConfig::Open(const std::string& folder) {
  const std::filesystem::path base(folder);
  DI_ASSIGN_OR_RETURN(const MappedFile config, MappedFile::Open((base / "config.json").string()));
  const std::string generation_path = (base / "generation_config.json").string();
  std::error_code ignored;
  if (!std::filesystem::exists(generation_path, ignored)) return Parse(TextOf(config), "", folder);
  DI_ASSIGN_OR_RETURN(const MappedFile generation, MappedFile::Open(generation_path));
  if (generation.bytes().empty()) return MakeError(ErrorCode::kDataLoss, generation_path, "the file is empty");
  return Parse(TextOf(config), TextOf(generation), folder);
}

}  // namespace deepinfer::formats
