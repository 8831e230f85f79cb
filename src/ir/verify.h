// The verifier: what makes a module well formed, and the legality rules of states. Run after recording, after parsing
// and after every pass. Each message names both parties. Pure; thread-safe.
//
// Well formed: names unique; every operand is defined before its use in the same function; every value has one
// definition; types are what inference says; callees exist and do not recurse; io_map pairs a state with an output of
// its type, once each.
// Legal: no two states overlap partially, and identical regions are one input; no view starts at element 2^32 or later;
// states of one pool agree on dtype and on all but the first dimension; only states are mutated; a value that was
// overwritten (aliased) is not read afterwards.
#pragma once

#include "base/error.h"
#include "ir/graph.h"

namespace deepinfer::ir {

Status Verify(const Module& module);
Status CheckStateViews(const Function& entry);  // part of Verify: overlap, offset and pool rules

}  // namespace deepinfer::ir
