// config.json (and generation_config.json) of a Hugging Face folder, with typed getters whose errors name file and
// field.
//
// A JSON null counts as missing. Required* fail if the field is missing; all fail on another type: nothing is converted
// but integers to floats. Immutable after Open: thread-safe. A ConfigNode refers into its HfConfig and must not outlive
// it.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace deepinfer::formats {

// One JSON object of a file.
class ConfigNode {
 public:
  // `where` names the file and the path of the object in it: "dir/config.json" or "dir/config.json: rope_scaling".
  ConfigNode(const nlohmann::json& object, std::string where) : object_(&object), where_(std::move(where)) {}

  const nlohmann::json& object() const { return *object_; }
  const std::string& where() const { return where_; }
  // "dir/config.json: field", for the caller's own errors.
  std::string Where(std::string_view field) const;

  bool Has(std::string_view field) const;
  Result<int64_t> RequiredInt(std::string_view field) const;
  Result<double> RequiredFloat(std::string_view field) const;
  Result<bool> RequiredBool(std::string_view field) const;
  Result<std::string> RequiredString(std::string_view field) const;
  Result<int64_t> OptionalInt(std::string_view field, int64_t fallback) const;
  Result<double> OptionalFloat(std::string_view field, double fallback) const;
  Result<bool> OptionalBool(std::string_view field, bool fallback) const;
  Result<std::string> OptionalString(std::string_view field, std::string fallback) const;
  // Empty if missing.
  Result<std::vector<int64_t>> Ints(std::string_view field) const;
  Result<std::vector<double>> Floats(std::string_view field) const;
  Result<std::vector<std::string>> Strings(std::string_view field) const;
  // An object inside this one, or nullopt if missing.
  Result<std::optional<ConfigNode>> Child(std::string_view field) const;

 private:
  const nlohmann::json* Find(std::string_view field) const;

  const nlohmann::json* object_;
  std::string where_;
};

class HfConfig {
 public:
  // Reads folder/config.json, and folder/generation_config.json if it is there.
  static Result<HfConfig> Open(const std::string& folder);
  // From texts; an empty `generation` means that there is no such file. `folder` names them in errors.
  static Result<HfConfig> Parse(std::string_view config, std::string_view generation, const std::string& folder);

  ConfigNode root() const;
  // The language model's part: `text_config` if the file nests one, else the root.
  ConfigNode text() const;

  // The first of `architectures`, or "" if there is none.
  const std::string& architecture() const { return architecture_; }
  // `model_type` of the root, or "".
  const std::string& model_type() const { return model_type_; }
  // Ends of generation: those of generation_config.json, else of the config, nested part first. Ascending, may be
  // empty.
  const std::vector<int64_t>& eos_ids() const { return eos_ids_; }
  // From the nested part, else the root; nullopt if neither says.
  std::optional<bool> tie_word_embeddings() const { return tie_word_embeddings_; }

 private:
  Status ReadCommon();

  std::string config_path_;
  std::string generation_path_;
  // On the heap, so that nodes stay valid when the object moves.
  std::unique_ptr<const nlohmann::json> config_;
  std::unique_ptr<const nlohmann::json> generation_;  // null without the file
  std::string architecture_;
  std::string model_type_;
  std::vector<int64_t> eos_ids_;
  std::optional<bool> tie_word_embeddings_;
};

}  // namespace deepinfer::formats
