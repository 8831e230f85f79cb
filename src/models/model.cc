#include "models/model.h"

namespace deepinfer::models {

const ir::Type* WeightTable::Find(const std::string& name) const {
  const auto it = types_.find(name);
  return it == types_.end() ? nullptr : &it->second;
}

std::vector<int64_t> WeightShard::ShapeOf(std::vector<int64_t> whole) const {
  if (dim >= 0) whole[static_cast<size_t>(dim)] /= pieces;
  return whole;
}

Result<std::vector<WeightShard>> Model::Shards(int64_t /*ranks*/) const {
  return std::vector<WeightShard>(Weights().size());
}

std::vector<std::string> Model::WeightNames() const {
  std::vector<std::string> names;
  for (const WeightSpec& weight : Weights()) names.push_back(weight.name);
  return names;
}

const char* ToString(Phase phase) {
  return phase == Phase::kPrefill ? "prefill" : "decode";
}

}  // namespace deepinfer::models
