// Prints a module as StableHLO text: what any accelerator's compiler reads, through PJRT or from a file.
//
// The step becomes @main, other functions private ones; a state that the step mutates carries tf.aliasing_output from
// io_map. The module must have been functionalized and decomposed: kUnsupported names what is left, and an input whose
// type is encoded. A break is a call of its body. A rank is a replica, and mhlo.num_replicas their number; collectives
// are over replicas. Where the module has live counts, padding never reaches live elements. The text is canonical (same
// module, same text) and uses stable core ops in generic form. Numerics are the interpreter's (interp/interp.h) up to
// the order of sums and the error of elementary functions; an integer beyond 2^24 may be rounded twice on its way to
// bf16. Pure; thread-safe. Source: the StableHLO specification 1.x.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "ir/graph.h"

namespace deepinfer::pjrt {

struct PrintOptions {
  // 0: as many as the collectives are over. A module without any can be run by any number, each for itself.
  int64_t ranks = 0;
  // XLA:CPU makes a row of bf16 against a matrix a product with a vector, which it knows in f32 only, and widens the
  // whole matrix for it in every step (1.8 s a token where two rows take 0.1 s): print such a row as two.
  bool pair_single_rows = false;
};

Result<std::string> PrintStableHlo(const ir::Module& module, const PrintOptions& options = {});

// The symbol of a function other than the step: "@f.NAME", so that none is called @main.
std::string FunctionSymbol(const std::string& name);

// JSON: every input and output of the step (name, kind, dtype, shape, the place of states), and its io_map.
std::string PrintIoDescription(const ir::Module& module);

}  // namespace deepinfer::pjrt
