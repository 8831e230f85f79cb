#include "ir/in_place.h"

namespace deepinfer::ir {

std::vector<InPlace> InPlaceOf(const Node& node) {
  switch (node.op) {
    case Op::kIndexPut:
      return {{0, 0}};
    case Op::kRopeKvWrite:
      if (node.results.size() == 5) return {{7, 1}, {8, 2}, {9, 3}, {10, 4}};
      return {{7, 1}, {8, 2}};
    case Op::kCustomCall: {
      std::vector<InPlace> all;
      const std::vector<int64_t> pairs = node.Ints("alias_outputs");
      for (size_t i = 1; i < pairs.size(); i += 2) {
        all.push_back({static_cast<size_t>(pairs[i]), static_cast<size_t>(pairs[i - 1])});
      }
      return all;
    }
    default:
      return {};
  }
}

}  // namespace deepinfer::ir
