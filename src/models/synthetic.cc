#include "models/synthetic.h"

#include <algorithm>
#include <limits>

#include "base/mapped_file.h"
#include "formats/hf_config.h"
#include "formats/json.h"
#include "models/synthetic_tables.h"

namespace deepinfer::models {
namespace {

using formats::ConfigNode;

constexpr int64_t kMaxVocab = int64_t{1} << 24;  // ids are exact in f32 tables
constexpr int64_t kMaxScript = 4096;             // sums of hashes stay below 2^31
constexpr int64_t kMaxTable = int64_t{1} << 22;  // entries
constexpr int64_t kDefaultPositions = 4096;

using Lists = std::vector<std::vector<int64_t>>;

Result<Lists> ReadLists(const ConfigNode& node, const char* field) {
  Lists lists;
  if (!node.Has(field)) return lists;
  const nlohmann::json& value = node.object()[field];
  if (!value.is_array()) return MakeError(ErrorCode::kInvalidArgument, node.Where(field), "must be a list of lists");
  for (const nlohmann::json& element : value) {
    std::vector<int64_t>& list = lists.emplace_back();
    if (!element.is_array())
      return MakeError(ErrorCode::kInvalidArgument, node.Where(field), "must be a list of lists");
    for (const nlohmann::json& number : element) {
      if (!number.is_number_integer()) {
        return MakeError(ErrorCode::kInvalidArgument, node.Where(field), "must hold integers only");
      }
      list.push_back(number.get<int64_t>());
    }
  }
  return lists;
}

Status CheckIds(const std::vector<int64_t>& ids, int64_t vocab, const std::string& where) {
  for (const int64_t id : ids) {
    if (id < 0 || id >= vocab)
      return MakeError(ErrorCode::kInvalidArgument, where, "{} is not in the vocabulary of {}", id, vocab);
  }
  return {};
}

Status CheckScripts(const ConfigNode& node, const Lists& scripts, int64_t vocab) {
  const std::string where = node.Where("scripts");
  if (scripts.empty()) return MakeError(ErrorCode::kInvalidArgument, where, "needs at least one script");
  int64_t longest = 0;
  for (const std::vector<int64_t>& script : scripts) {
    if (script.empty() || static_cast<int64_t>(script.size()) > kMaxScript) {
      return MakeError(ErrorCode::kInvalidArgument, where, "a script has {} tokens; it must have 1..{}", script.size(),
                       kMaxScript);
    }
    longest = std::max(longest, static_cast<int64_t>(script.size()));
    DI_RETURN_IF_ERROR(CheckIds(script, vocab, where));
  }
  if (static_cast<int64_t>(scripts.size()) * (longest + 1) > kMaxTable) {
    return MakeError(ErrorCode::kInvalidArgument, where, "{} scripts of up to {} tokens are too many", scripts.size(),
                     longest);
  }
  return {};
}

Status CheckNanAt(const ConfigNode& node, const Lists& nan_at, const Lists& scripts) {
  for (const std::vector<int64_t>& place : nan_at) {
    const bool fits = place.size() == 2 && place[0] >= 0 && place[0] < static_cast<int64_t>(scripts.size()) &&
                      place[1] >= 0 && place[1] <= static_cast<int64_t>(scripts[place[0]].size());
    if (!fits)
      return MakeError(ErrorCode::kInvalidArgument, node.Where("nan_at"),
                       "must list places [script, n] of the scripts");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<SyntheticModel>> SyntheticModel::Open(const std::string& path) {
  DI_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  return Parse({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path);
}

Result<std::unique_ptr<SyntheticModel>> SyntheticModel::Parse(std::string_view text, const std::string& where) {
  DI_ASSIGN_OR_RETURN(const nlohmann::json json, formats::ParseJson(text, where));
  if (!json.is_object()) return MakeError(ErrorCode::kInvalidArgument, where, "is not a JSON object");
  for (const auto& [key, value] : json.items()) {
    constexpr std::string_view kFields[] = {"vocab_size", "scripts", "eos_ids", "max_positions", "nan_at"};
    if (std::find(std::begin(kFields), std::end(kFields), key) == std::end(kFields)) {
      return MakeError(ErrorCode::kInvalidArgument, where, "unknown field '{}'; known are: {}", key,
                       fmt::join(kFields, ", "));
    }
  }
  const ConfigNode node(json, where);
  std::unique_ptr<SyntheticModel> model(new SyntheticModel());
  ModelInfo& info = model->info_;
  info.architecture = "synthetic";
  info.num_layers = 1;
  DI_ASSIGN_OR_RETURN(info.vocab_size, node.RequiredInt("vocab_size"));
  DI_ASSIGN_OR_RETURN(info.max_positions, node.OptionalInt("max_positions", kDefaultPositions));
  if (info.vocab_size < 1 || info.vocab_size > kMaxVocab) {
    return MakeError(ErrorCode::kInvalidArgument, node.Where("vocab_size"), "must lie in 1..{}", kMaxVocab);
  }
  if (info.max_positions < 1 || info.max_positions > (int64_t{1} << 30)) {
    return MakeError(ErrorCode::kInvalidArgument, node.Where("max_positions"), "must lie in 1..{}", int64_t{1} << 30);
  }
  DI_ASSIGN_OR_RETURN(const std::vector<int64_t> eos, node.Ints("eos_ids"));
  DI_RETURN_IF_ERROR(CheckIds(eos, info.vocab_size, node.Where("eos_ids")));
  info.eos_ids.assign(eos.begin(), eos.end());
  DI_ASSIGN_OR_RETURN(const Lists scripts, ReadLists(node, "scripts"));
  DI_RETURN_IF_ERROR(CheckScripts(node, scripts, info.vocab_size));
  DI_ASSIGN_OR_RETURN(const Lists nan_at, ReadLists(node, "nan_at"));
  DI_RETURN_IF_ERROR(CheckNanAt(node, nan_at, scripts));
  model->BuildTables(scripts, nan_at);
  return model;
}

void SyntheticModel::BuildTables(const Lists& scripts, const Lists& nan_at) {
  using namespace synthetic;
  scripts_ = static_cast<int64_t>(scripts.size());
  for (const std::vector<int64_t>& script : scripts) longest_ = std::max(longest_, static_cast<int64_t>(script.size()));
  const int64_t width = longest_ + 1;
  std::vector<float> next(static_cast<size_t>(scripts_ * width));
  std::vector<float> poison(next.size());
  for (int64_t s = 0; s < scripts_; ++s) {
    const std::vector<int64_t>& script = scripts[s];
    const int64_t end = info_.eos_ids.empty() ? script[0] : info_.eos_ids[0];
    for (int64_t n = 0; n < width; ++n) {
      next[s * width + n] = static_cast<float>(n < static_cast<int64_t>(script.size()) ? script[n] : end);
    }
  }
  for (const std::vector<int64_t>& place : nan_at) poison[place[0] * width + place[1]] = 1;
  weights_.push_back({{kNext, {scripts_ * width}}, std::move(next)});
  weights_.push_back({{kPoison, {scripts_ * width}}, std::move(poison)});
  for (const Hash& hash : kHashes) {
    const std::vector<int64_t> powers = Powers(hash, longest_);
    std::vector<float> targets(static_cast<size_t>(scripts_ * longest_), -1.0f);
    for (int64_t s = 0; s < scripts_; ++s) {
      int64_t head = 0;  // hash of the first n tokens at place 0; at place k it is power[k] times that
      for (int64_t n = 1; n <= static_cast<int64_t>(scripts[s].size()); ++n) {
        head = (head + (scripts[s][n - 1] + 1) % hash.modulus * powers[n - 1]) % hash.modulus;
        targets[s * longest_ + longest_ - n] = static_cast<float>(head * powers[longest_ - n] % hash.modulus);
      }
    }
    weights_.push_back({{hash.weight, {scripts_ * longest_}}, std::move(targets)});
  }
  for (const GeneratedWeight& weight : weights_) specs_.push_back(weight.spec);
}

std::vector<StateSpec> SyntheticModel::States(DType kv, int64_t /*ranks*/) const {
  std::vector<StateSpec> states;
  for (const char* name : {"kv.0.k", "kv.0.v"}) {
    StateSpec state;
    state.name = name;
    state.buffer = "kv.0";
    state.pool = "kv";
    state.row = {1, synthetic::kWidth};
    state.dtype = kv;
    states.push_back(std::move(state));
  }
  return states;
}

}  // namespace deepinfer::models
