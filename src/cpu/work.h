// What a node has to do in one step: the bytes it must move and the floating-point operations of its products.
//
// Bytes are those of its operands and results in their live extent, each once: weights whole (of a mixture the most
// experts that its tokens can reach), of a cache only what the tokens may see, and what is written into a state as the
// rows it comes from. Flops count matrix products and attention, a multiply-add as two. An estimate from the graph for
// `bench`, not a count of what a kernel did. Pure; reads metadata at its captured address.
#pragma once

#include "cpu/flatten.h"
#include "cpu/launch.h"

namespace deepinfer::cpu {

struct Work {
  double bytes = 0;
  double flops = 0;
};

Work WorkOf(const FlatStep& step, const ir::Node& node, const ir::LiveCounts& live, const Addresses& addresses);

}  // namespace deepinfer::cpu
