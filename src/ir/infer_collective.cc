// Collectives: the types are those of one rank.
#include "ir/collective.h"
#include "ir/infer_internal.h"

namespace deepinfer::ir::internal {
namespace {

Status RequireKind(const InferContext& c) {
  const std::string kind = c.node.Str("kind");
  const DType dtype = c.operands[0].dtype;
  if (dtype == DType::kI1 || (kind != "sum" && kind != "max")) {
    return TypeError(c, "kind '{}' does not fit {}", kind, ToString(c.operands[0]));
  }
  return {};
}

// A dimension that is cut or joined: one that no live count counts, since ranks would disagree on what is live.
Result<int64_t> RequireDim(const InferContext& c, const char* key) {
  const Type& type = c.operands[0];
  const int64_t dim = c.node.Int(key, -1);
  if (dim < 0 || dim >= type.rank()) return TypeError(c, "{} {} of {}", key, dim, ToString(type));
  if (type.dims[dim].tag != DimTag::kNone) {
    return TypeError(c, "{} {} of {} is counted by a live count", key, dim, ToString(type));
  }
  return dim;
}

Status Split(const InferContext& c, int64_t dim, int64_t parts, Type* type) {
  int64_t& size = type->dims[dim].size;
  if (size % parts != 0) return TypeError(c, "dimension {} of {} does not divide by {}", dim, ToString(*type), parts);
  size /= parts;
  return {};
}

}  // namespace

Result<Types> InferCollective(const InferContext& c) {
  DI_ASSIGN_OR_RETURN(const ReplicaGroups groups, ReplicaGroupsOf(c.node));
  Type type = c.operands[0];
  if (c.node.op == Op::kAllReduce || c.node.op == Op::kReduceScatter) DI_RETURN_IF_ERROR(RequireKind(c));
  if (c.node.op == Op::kAllGather) {
    DI_ASSIGN_OR_RETURN(const int64_t dim, RequireDim(c, "dim"));
    type.dims[dim].size *= groups.group_size;
  } else if (c.node.op == Op::kReduceScatter) {
    DI_ASSIGN_OR_RETURN(const int64_t dim, RequireDim(c, "dim"));
    DI_RETURN_IF_ERROR(Split(c, dim, groups.group_size, &type));
  } else if (c.node.op == Op::kAllToAll) {
    DI_ASSIGN_OR_RETURN(const int64_t split, RequireDim(c, "split_dim"));
    DI_ASSIGN_OR_RETURN(const int64_t concat, RequireDim(c, "concat_dim"));
    DI_RETURN_IF_ERROR(Split(c, split, groups.group_size, &type));
    type.dims[concat].size *= groups.group_size;
  }
  return Types{type};
}

}  // namespace deepinfer::ir::internal
