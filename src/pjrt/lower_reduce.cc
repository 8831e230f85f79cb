// Contractions and reductions. Narrow floats are summed in f32; what is past a live count is masked away.
#include <fmt/format.h>

#include <limits>

#include "pjrt/lower.h"
#include "pjrt/mlir_text.h"

namespace deepinfer::pjrt {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

Val MaskWith(Emitter& e, const Val& x, int64_t dim, const Val& scalar) {
  return e.Select(e.LiveMask(x.type, dim), x, e.Broadcast(scalar, x.type));
}

Val Extreme(Emitter& e, DType dtype, bool lowest) {
  const ir::Type type(dtype, {});
  if (IsFloat(dtype)) return e.Splat(type, lowest ? -kInf : kInf);
  const bool is_signed = dtype != DType::kU8 && dtype != DType::kU32;
  const int bits = 8 * static_cast<int>(SizeOf(dtype));
  if (!is_signed) return e.SplatInt(type, lowest ? 0 : -1);  // -1: all bits set
  const auto low = static_cast<int64_t>(~uint64_t{0} << (bits - 1));
  return e.SplatInt(type, lowest ? low : ~low);
}

// A row of bf16 against a matrix.
bool IsNarrowRow(const LowerContext& c, const Val& lhs) {
  return lhs.type.dtype == DType::kBF16 && lhs.type.rank() == 2 && lhs.type.dims[0].size == 1 &&
         c.node.Ints("lhs_contract") == std::vector<int64_t>{1} && c.types[0].rank() == 2;
}

Val FirstRow(Emitter& e, const Val& x) {
  ir::Type row = x.type;
  row.dims[0].size = 1;
  return e.Emit("stablehlo.slice", {x}, row,
                fmt::format("start_indices = {}, limit_indices = {}, strides = {}", I64Array({0, 0}),
                            I64Array(row.Shape()), I64Array({1, 1})));
}

}  // namespace

Val LowerDot(const LowerContext& c) {
  Emitter& e = c.e;
  const ir::Node& n = c.node;
  Vals v = c.v;
  const std::vector<int64_t> lhs_contract = n.Ints("lhs_contract");
  const std::vector<int64_t> rhs_contract = n.Ints("rhs_contract");
  if (v[0].type.dtype == DType::kF8E4M3) v = {e.Widen(v[0]), e.Widen(v[1])};
  // Both sides: zero times the other side's NaN is NaN.
  if (lhs_contract.size() == 1 && e.NeedsMask(v[0].type.dims[lhs_contract[0]])) {
    const ir::DimTag tag = v[0].type.dims[lhs_contract[0]].tag;
    const Val zero = e.Splat(ir::Type(v[0].type.dtype, {}), 0);
    v[0] = MaskWith(e, v[0], lhs_contract[0], zero);
    v[1].type.dims[rhs_contract[0]].tag = tag;
    v[1] = MaskWith(e, v[1], rhs_contract[0], zero);
  }
  const char* precision = v[0].type.dtype == DType::kF32 ? "HIGHEST" : "DEFAULT";
  const std::string attrs = fmt::format(
      "dot_dimension_numbers = #stablehlo.dot<lhs_batching_dimensions = {}, rhs_batching_dimensions = {}, "
      "lhs_contracting_dimensions = {}, rhs_contracting_dimensions = {}>, precision_config = "
      "[#stablehlo<precision {}>, #stablehlo<precision {}>]",
      List(n.Ints("lhs_batch")), List(n.Ints("rhs_batch")), List(lhs_contract), List(rhs_contract), precision,
      precision);
  ir::Type type = c.types[0].WithDType(DType::kF32);
  const bool narrow_row = c.options.pair_single_rows && IsNarrowRow(c, v[0]);
  if (narrow_row) {
    ir::Type two_rows = v[0].type;
    two_rows.dims[0].size = type.dims[0].size = 2;
    v[0] = e.Emit("stablehlo.broadcast_in_dim", {v[0]}, two_rows, "broadcast_dimensions = array<i64: 0, 1>");
  }
  const Val sum = e.Emit("stablehlo.dot_general", v, type, attrs);
  return e.Convert(narrow_row ? FirstRow(e, sum) : sum, c.types[0].dtype);
}

Val LowerReduce(const LowerContext& c) {
  Emitter& e = c.e;
  const std::string kind = c.node.Str("kind");
  const std::vector<int64_t> dims = c.node.Ints("dims");
  Val x = e.Widen(c.v[0]);
  const DType dtype = x.type.dtype;
  const ir::Type scalar(dtype, {});
  const char* op = "stablehlo.add";
  Val init;
  if (kind == "max" || kind == "min") {
    op = kind == "max" ? "stablehlo.maximum" : "stablehlo.minimum";
    init = Extreme(e, dtype, kind == "max");
  } else if (kind == "and" || kind == "or") {
    op = kind == "and" ? "stablehlo.and" : "stablehlo.or";
    init = e.SplatInt(scalar, kind == "and" ? 1 : 0);
  } else {
    init = e.Splat(scalar, 0);
  }
  for (const int64_t dim : dims) {
    if (e.NeedsMask(x.type.dims[dim])) x = MaskWith(e, x, dim, init);
  }
  const Val result = e.Emit("stablehlo.reduce", {x, init}, c.types[0].WithDType(dtype),
                            "dimensions = " + I64Array(dims), {e.BinaryRegion(dtype, op)});
  return e.Convert(result, c.types[0].dtype);
}

// A window that ends at each element. Elements past the live count come after all live ones and need no mask.
Val LowerCumsum(const LowerContext& c) {
  Emitter& e = c.e;
  const Val x = e.Widen(c.v[0]);
  const int64_t dim = c.node.Int("dim");
  if (x.type.NumElements() == 0) return c.v[0];
  const int64_t size = x.type.dims[dim].size;
  const std::vector<int64_t> ones(x.type.dims.size(), 1);
  std::vector<int64_t> window = ones;
  window[dim] = size;
  std::string padding;
  for (int64_t i = 0; i < x.type.rank(); ++i) {
    padding += fmt::format("{}[{}, 0]", i > 0 ? ", " : "", i == dim ? size - 1 : 0);
  }
  const std::string attrs = fmt::format(
      "window_dimensions = {}, window_strides = {}, base_dilations = {}, window_dilations = {}, padding = dense<[{}]> "
      ": "
      "tensor<{}x2xi64>",
      I64Array(window), I64Array(ones), I64Array(ones), I64Array(ones), padding, x.type.rank());
  const Val zero = e.Splat(ir::Type(x.type.dtype, {}), 0);
  const Val sums =
      e.Emit("stablehlo.reduce_window", {x, zero}, x.type, attrs, {e.BinaryRegion(x.type.dtype, "stablehlo.add")});
  return e.Convert(sums, c.types[0].dtype);
}

}  // namespace deepinfer::pjrt
