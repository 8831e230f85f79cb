// Pieces of MLIR text: types, symbols, attribute lists and constants, each with one canonical spelling.
//
// Everything is printed in MLIR's generic form, which does not change with the pretty printers of a dialect. Floats of
// constants are written as their bits, so no value is lost in printing. Pure; thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace deepinfer::pjrt {

const char* MlirName(DType dtype);                // "i1" "i8" "ui8" "i32" "ui32" "i64" "f8E4M3FN" "f16" "bf16" "f32"
std::string MlirType(const ir::Type& type);       // "tensor<2x3xf32>"
std::string MlirSymbol(const std::string& name);  // "@layer", or "@\"a b\"" where the name is no identifier
std::string MlirString(const std::string& text);  // quoted and escaped

std::string I64Array(const std::vector<int64_t>& values);  // "array<i64: 1, 2>"
std::string List(const std::vector<int64_t>& values);      // "[1, 2]"

// A dense attribute with its type: one element everywhere if `bytes` hold one element, else all of them.
std::string MlirDense(const ir::Type& type, std::span<const uint8_t> bytes);

}  // namespace deepinfer::pjrt
