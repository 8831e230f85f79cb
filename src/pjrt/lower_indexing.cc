// Primitives whose addresses depend on data, and order.
#include <fmt/format.h>

#include <algorithm>

#include "pjrt/lower.h"
#include "pjrt/mlir_text.h"

namespace deepinfer::pjrt {
namespace {

std::vector<int64_t> Range(int64_t begin, int64_t end) {
  std::vector<int64_t> values;
  for (int64_t i = begin; i < end; ++i) values.push_back(i);
  return values;
}

// Does `a` come before `b`? NaN is last in both directions.
Val Before(Emitter& e, const Val& a, const Val& b, bool descending) {
  Val first = e.Compare(a, b, descending ? "gt" : "lt");
  if (!IsFloat(a.type.dtype)) return first;
  const Val nan_last = e.Same("stablehlo.and", {e.Compare(a, a, "eq"), e.Compare(b, b, "ne")});
  return e.Same("stablehlo.or", {first, nan_last});
}

// Sorts by the first operand. A last operand `dead`, if asked for, keeps what is past the live count at the end.
Vals StableSort(Emitter& e, const Vals& v, int64_t dim, bool descending, bool has_dead) {
  std::vector<ir::Type> arguments;
  std::vector<ir::Type> results;
  for (const Val& value : v) {
    arguments.insert(arguments.end(), 2, ir::Type(value.type.dtype, {}));
    results.push_back(value.type);
  }
  const std::string comparator = e.Region(arguments, [&](const Vals& a) {
    const Val before = Before(e, a[0], a[1], descending);
    if (!has_dead) return Vals{before};
    const Val& left = a[a.size() - 2];
    const Val& right = a[a.size() - 1];
    return Vals{e.Select(e.Compare(left, right, "eq"), before, e.Compare(left, right, "lt"))};
  });
  return e.EmitAll("stablehlo.sort", v, results, fmt::format("dimension = {} : i64, is_stable = true", dim),
                   {comparator});
}

Val FirstOf(Emitter& e, const Val& x, int64_t k) {
  ir::Type type = x.type;
  type.dims.pop_back();
  type.dims.emplace_back(k);
  const size_t rank = type.dims.size();
  return e.Emit(
      "stablehlo.slice", {x}, type,
      fmt::format("start_indices = {}, limit_indices = {}, strides = {}", I64Array(std::vector<int64_t>(rank, 0)),
                  I64Array(type.Shape()), I64Array(std::vector<int64_t>(rank, 1))));
}

}  // namespace

Val LowerTake(const LowerContext& c) {
  Emitter& e = c.e;
  const Val& table = c.v[0];
  const Val& indices = c.v[1];
  const int64_t entries = table.type.dims[0].size;
  if (entries == 0) return e.Splat(c.types[0], 0);
  const ir::Type scalar(DType::kI32, {});
  const Val inside =
      e.Emit("stablehlo.clamp", {e.SplatInt(scalar, 0), indices, e.SplatInt(scalar, entries - 1)}, indices.type);
  std::vector<int64_t> sizes = table.type.Shape();
  sizes[0] = 1;
  const int64_t rank = indices.type.rank();
  return e.Emit(
      "stablehlo.gather", {table, inside}, c.types[0],
      fmt::format("dimension_numbers = #stablehlo.gather<offset_dims = {}, collapsed_slice_dims = [0], "
                  "start_index_map = [0], index_vector_dim = {}>, indices_are_sorted = false, slice_sizes = {}",
                  List(Range(rank, c.types[0].rank())), rank, I64Array(sizes)));
}

// A row whose index is out of range is dropped: that is what scatter does. Every dimension up to the last indexed one
// gets an index, a whole dimension between two indexed ones its own: compilers move the indexed dimensions to the
// front, and where they are not there already, that copies the state twice a step.
Val LowerIndexPut(const LowerContext& c) {
  Emitter& e = c.e;
  const Val& operand = c.v[0];
  const Val& rows = c.v.back();
  const std::vector<int64_t> dims = c.node.Ints("dims");
  const int64_t width = *std::max_element(dims.begin(), dims.end()) + 1;
  const int64_t whole = width - static_cast<int64_t>(dims.size());
  const ir::Dim count = c.v[1].type.dims[0];
  ir::Type column(DType::kI32, {rows.type.dims.begin(), rows.type.dims.begin() + 1 + whole});
  column.dims[0] = count;
  column.dims.emplace_back(1);
  Vals columns;
  int64_t iota_dim = 1;
  for (int64_t dim = 0; dim < width; ++dim) {
    const auto operand_index = std::find(dims.begin(), dims.end(), dim) - dims.begin();
    if (operand_index == static_cast<int64_t>(dims.size())) {
      columns.push_back(e.Iota(column, iota_dim++));
      continue;
    }
    Val index = c.v[1 + static_cast<size_t>(operand_index)];
    index.type.dims[0] = count;
    if (e.NeedsMask(count)) index = e.Select(e.LiveMask(index.type, 0), index, e.SplatInt(index.type, -1));
    columns.push_back(e.Emit("stablehlo.broadcast_in_dim", {index}, column, "broadcast_dimensions = array<i64: 0>"));
  }
  ir::Type table = column;
  table.dims.back() = width;
  const Val indices =
      width == 1 ? columns[0]
                 : e.Emit("stablehlo.concatenate", columns, table, fmt::format("dimension = {} : i64", whole + 1));
  const ir::Type scalar(operand.type.dtype, {});
  const std::string replace = e.Region({scalar, scalar}, [](const Vals& v) { return Vals{v[1]}; });
  const std::string indexed = List(Range(0, width));
  return e.Emit("stablehlo.scatter", {operand, indices, rows}, operand.type,
                fmt::format("indices_are_sorted = false, scatter_dimension_numbers = "
                            "#stablehlo.scatter<update_window_dims = {}, inserted_window_dims = {}, "
                            "scatter_dims_to_operand_dims = {}, index_vector_dim = {}>, unique_indices = false",
                            List(Range(1 + whole, rows.type.rank())), indexed, indexed, 1 + whole),
                {replace});
}

Val LowerDynamicSlice(const LowerContext& c) {
  if (c.node.op == ir::Op::kDynamicUpdateSlice) {
    return c.e.Emit("stablehlo.dynamic_update_slice", c.v, c.types[0]);
  }
  return c.e.Emit("stablehlo.dynamic_slice", c.v, c.types[0], "slice_sizes = " + I64Array(c.node.Ints("sizes")));
}

Vals LowerSort(const LowerContext& c) {
  Emitter& e = c.e;
  const int64_t dim = c.node.Int("dim");
  const bool masked = dim == 0 && e.NeedsMask(c.v[0].type.dims[0]);
  Vals operands = c.v;
  if (masked) {
    // Sorted as i32: 0 is live, 1 is not.
    const Val live = e.LiveMask(c.v[0].type, 0);
    operands.push_back(e.Convert(e.Same("stablehlo.not", {live}), DType::kI32));
  }
  Vals sorted = StableSort(e, operands, dim, c.node.Int("descending") != 0, masked);
  sorted.resize(c.v.size());
  return sorted;
}

Vals LowerTopK(const LowerContext& c) {
  Emitter& e = c.e;
  const Val& x = c.v[0];
  const int64_t dim = x.type.rank() - 1;
  const Val ids = e.Iota(x.type.WithDType(DType::kI32), dim);
  const Vals sorted = StableSort(e, {x, ids}, dim, /*descending=*/true, /*has_dead=*/false);
  return {FirstOf(e, sorted[0], c.node.Int("k")), FirstOf(e, sorted[1], c.node.Int("k"))};
}

}  // namespace deepinfer::pjrt
