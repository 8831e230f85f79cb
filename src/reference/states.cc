#include "reference/states.h"

#include "backend/host_states.h"

namespace deepinfer::reference {

Result<std::unique_ptr<backend::StateSet>> RankStates::Allocate(const std::map<std::string, int64_t>& bytes_by_buffer,
                                                                int64_t ranks) {
  if (ranks <= 1) return backend::AllocateHostStates(bytes_by_buffer);
  auto states = std::make_unique<RankStates>();
  for (int64_t rank = 0; rank < ranks; ++rank) {
    DI_ASSIGN_OR_RETURN(auto own, backend::AllocateHostStates(bytes_by_buffer));
    states->ranks_.push_back(std::move(own));
  }
  return states;
}

Result<std::vector<backend::StateSet*>> StatesByRank(backend::StateSet* states, int64_t ranks) {
  const auto count = static_cast<size_t>(ranks);
  if (count == 1 || states == nullptr) return std::vector<backend::StateSet*>(count, states);
  const auto* all = dynamic_cast<const RankStates*>(states);
  if (all == nullptr || all->ranks().size() != count) {
    return MakeError(ErrorCode::kInvalidArgument, "states", "are not those of {} ranks that this backend allocates",
                     ranks);
  }
  std::vector<backend::StateSet*> by_rank;
  for (const auto& own : all->ranks()) by_rank.push_back(own.get());
  return by_rank;
}

}  // namespace deepinfer::reference
