// Elementwise nodes share one loop: blocks of the live elements, cut among the team. Operands that are the same
// everywhere (splat constants) are expanded once to a block and not read again. For src/interp only.
#pragma once

#include <cstddef>
#include <vector>

#include "interp/prepare.h"

namespace deepinfer::interp {

inline constexpr int64_t kBlock = 1024;

// Computes n <= kBlock elements.
using BlockFunction = void (*)(const void* const* operands, void* result, int64_t n);

class ElementwiseNode final : public PreparedNode {
 public:
  ElementwiseNode(const PrepareContext& c, BlockFunction function);
  void Run(const void* const* operands, void* const* results, const ir::LiveCounts& live, ThreadTeam* team) override;
  bool Reads(size_t operand) const override { return inputs_[operand].splat.empty(); }

 private:
  struct Operand {
    int64_t bytes = 0;             // per element
    std::vector<std::byte> splat;  // one block of it
  };
  static constexpr size_t kMaxOperands = 3;

  Rows rows_;
  BlockFunction function_;
  std::vector<Operand> inputs_;
  int64_t result_bytes_;
};

inline Prepared MakeElementwise(const PrepareContext& c, BlockFunction function) {
  return std::make_unique<ElementwiseNode>(c, function);
}

}  // namespace deepinfer::interp
