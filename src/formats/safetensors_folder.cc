#include <filesystem>
#include <set>

#include "formats/byte_cursor.h"
#include "formats/json.h"
#include "formats/safetensors.h"

namespace deepinfer::formats {
namespace {

using nlohmann::json;

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";
constexpr JsonLimits kIndexLimits = {.max_bytes = 64u << 20, .max_depth = 8, .max_values = 1u << 20};
constexpr size_t kMaxShards = 4096;

// A plain name: no separators, so that it cannot leave the folder.
bool IsPlainName(std::string_view name) {
  constexpr std::string_view kEnding = ".safetensors";
  if (!name.ends_with(kEnding) || name.size() == kEnding.size() || name.size() > 255) return false;
  for (char c : name) {
    if (c == '/' || c == '\\' || c < 0x20 || c == 0x7f) return false;
  }
  return true;
}

using WeightMap = std::map<std::string, std::string>;  // tensor to shard

Result<WeightMap> ReadIndex(const std::string& path) {
  DI_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  DI_ASSIGN_OR_RETURN(const json index, ParseJson(text, path, kIndexLimits));
  const std::string where = fmt::format("{}: weight_map", path);
  const auto it = index.is_object() ? index.find("weight_map") : index.end();
  if (it == index.end() || !it->is_object() || it->empty()) {
    return MakeError(ErrorCode::kDataLoss, where, "is missing, empty or no object");
  }
  WeightMap weight_map;
  for (const auto& [tensor, shard] : it->items()) {
    if (!shard.is_string()) return MakeError(ErrorCode::kDataLoss, where, "{} names no file", Printable(tensor));
    const auto& name = shard.get_ref<const std::string&>();
    if (!IsPlainName(name)) {
      return MakeError(ErrorCode::kDataLoss, where, "\"{}\" is not a plain name of a .safetensors file in the folder",
                       Printable(name));
    }
    weight_map.emplace(tensor, name);
  }
  return weight_map;
}

// Every tensor of the shard must be one that the index puts there.
Status CheckShard(const SafetensorsFile& file, const std::string& shard, const WeightMap& weight_map) {
  for (const SafetensorsTensor& tensor : file.tensors()) {
    const std::string where = fmt::format("{}: tensor {}", file.path(), Printable(tensor.name));
    const auto it = weight_map.find(tensor.name);
    if (it == weight_map.end()) return MakeError(ErrorCode::kDataLoss, where, "the index does not list it");
    if (it->second != shard) {
      return MakeError(ErrorCode::kDataLoss, where, "the index puts it into {}", Printable(it->second));
    }
  }
  return {};
}

}  // namespace

Result<SafetensorsFolder> SafetensorsFolder::Open(const std::string& folder) {
  const std::filesystem::path base(folder);
  SafetensorsFolder result;
  std::error_code ignored;
  if (std::filesystem::exists(base / kSingle, ignored)) {
    DI_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open((base / kSingle).string()));
    result.files_.push_back(std::move(file));
    return result;
  }
  const std::string index_path = (base / kIndex).string();
  if (!std::filesystem::exists(index_path, ignored)) {
    return MakeError(ErrorCode::kNotFound, folder, "the folder has neither {} nor {}", kSingle, kIndex);
  }
  DI_ASSIGN_OR_RETURN(const WeightMap weight_map, ReadIndex(index_path));
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : weight_map) shards.insert(shard);
  if (shards.size() > kMaxShards) {
    return MakeError(ErrorCode::kDataLoss, index_path, "{} shards are over the limit of {}", shards.size(), kMaxShards);
  }
  size_t found = 0;
  for (const std::string& shard : shards) {
    DI_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open((base / shard).string()));
    DI_RETURN_IF_ERROR(CheckShard(file, shard, weight_map));
    found += file.tensors().size();
    result.files_.push_back(std::move(file));
  }
  if (found == weight_map.size()) return result;
  for (const auto& [tensor, shard] : weight_map) {
    for (const SafetensorsFile& file : result.files_) {
      if (file.path() == (base / shard).string() && file.FindTensor(tensor) == nullptr) {
        return MakeError(ErrorCode::kDataLoss, fmt::format("{}: tensor {}", file.path(), Printable(tensor)),
                         "the index puts it here, but the file does not have it");
      }
    }
  }
  return MakeError(ErrorCode::kInternal, index_path, "the shards hold {} tensors for {} in the index", found,
                   weight_map.size());
}

}  // namespace deepinfer::formats
