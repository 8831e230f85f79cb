#include "interp/elementwise.h"

#include <array>
#include <cstring>

namespace deepinfer::interp {

ElementwiseNode::ElementwiseNode(const PrepareContext& c, BlockFunction function)
    : rows_(c.ResultType()),
      function_(function),
      inputs_(c.node.operands.size()),
      result_bytes_(static_cast<int64_t>(SizeOf(c.ResultType().dtype))) {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    inputs_[i].bytes = static_cast<int64_t>(SizeOf(c.OperandType(i).dtype));
    const auto splat = c.Splat(i);
    if (!splat) continue;
    inputs_[i].splat.resize(static_cast<size_t>(kBlock * inputs_[i].bytes));
    for (int64_t j = 0; j < kBlock; ++j) {
      std::memcpy(inputs_[i].splat.data() + j * inputs_[i].bytes, splat->data(), splat->size());
    }
  }
}

void ElementwiseNode::Run(const void* const* operands, void* const* results, const ir::LiveCounts& live,
                          ThreadTeam* team) {
  auto* out = static_cast<std::byte*>(results[0]);
  ParallelFor(team, rows_.LiveElements(live), 1, [&](int64_t begin, int64_t end, int) {
    std::array<const void*, kMaxOperands> at{};
    for (int64_t i = begin; i < end; i += kBlock) {
      for (size_t j = 0; j < inputs_.size(); ++j) {
        at[j] = inputs_[j].splat.empty() ? static_cast<const std::byte*>(operands[j]) + i * inputs_[j].bytes
                                         : inputs_[j].splat.data();
      }
      function_(at.data(), out + i * result_bytes_, std::min(kBlock, end - i));
    }
  });
}

}  // namespace deepinfer::interp
