// The text form of a module: printable, parsable, and canonical (values numbered in order of definition, attributes
// sorted, floats in their shortest exact form). Print(Parse(Print(m))) == Print(m); the canonical text is what cache
// keys hash. Parsing checks everything the verifier checks. Errors name the line. Pure; thread-safe.
//
//   module live(%4)
//   func @step(%0: weight "embed" q4_1[320,64], %1: state "kv.0.k" bf16[9,2,32,16] in "kv.0"+0 pool "kv", ...) {
//     %5 = embedding(%0, %3) {dtype = "bf16", scale = 1.0} : bf16[T:128,64]
//     index_put_(%1, %6, %7, %8) {dims = [0, 2]}
//     return "sampled" %9, "kv.0.k" %10
//   } alias 1 -> 1
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "ir/graph.h"

namespace deepinfer::ir {

std::string Print(const Module& module);
Result<Module> Parse(std::string_view text);
uint64_t CanonicalHash(const Module& module);  // XXH3 of the canonical text

}  // namespace deepinfer::ir
