// What every model's step has in common: the metadata inputs, the ids, the sampled rows, sampling and the commit.
//
// A step is recorded in this order: DeclareMetadata, the model's weights, its states, DeclareTokenStore, then ops.
// Errors are kept by the builder (ir/builder.h). Shapes: T tokens, R rows, Q requests (models/step.h). Not thread-safe.
#pragma once

#include <optional>
#include <vector>

#include "ir/builder.h"
#include "models/step.h"

namespace deepinfer::models {

struct StepInputs {
  ir::Value live_counts, token_ids, token_slots, positions, slots, block_tables, query_start, sampling_positions;
  ir::Value row_to_slot;
  std::vector<ir::Value> sampling;  // the operands of ir/sampling.h after the logits
  ir::Value logprob_ids, want_logprobs;
  ir::Value rank;  // of several
  ir::Value token_store;
};

inline ir::Dim Tokens(const StepShape& shape) {
  return {shape.tokens, ir::DimTag::kTokens};
}
inline ir::Dim Rows(const StepShape& shape) {
  return {shape.rows, ir::DimTag::kRows};
}
inline ir::Dim Requests(const StepShape& shape) {
  return {shape.requests, ir::DimTag::kRequests};
}

// Fails on counts that cannot be, such as a decode step whose tokens are not its rows.
Status CheckShape(const StepShape& shape);

// The inputs that the phase has, in the order of models/step.h. Sets the module's live counts. vocab: of the logits.
StepInputs DeclareMetadata(ir::ModuleBuilder& module, ir::Builder& b, const StepShape& shape, int64_t vocab);
// The store of sampled tokens, i32 [slots + 1], in a buffer of its own name.
void DeclareTokenStore(ir::Builder& b, const StepShape& shape, StepInputs* in);

// i32 [T]. Ids below 0 are taken from the token store.
ir::Value TokenIds(ir::Builder& b, const StepInputs& in, const StepShape& shape);
// x [T, ...] to [R, ...]: the rows that are sampled.
ir::Value SampledRows(ir::Builder& b, const StepInputs& in, const StepShape& shape, ir::Value x);
// Samples from logits f32 [R,V], commits the tokens to the store, records the outputs.
void SampleAndCommit(ir::Builder& b, const StepInputs& in, const StepShape& shape, ir::Value logits);

// The two views of layer `layer`'s buffer, [N, heads, B, width] each.
struct KvViews {
  ir::Value k, v;
  ir::Value k_scales, v_scales;  // [N, heads, B, 1], of the layer's own buffer; only where KV is i8
};
KvViews DeclareKv(ir::Builder& b, const StepShape& shape, int64_t layer, int64_t heads, int64_t width);
ir::Type KvType(const StepShape& shape, int64_t heads, int64_t width);
ir::Type KvScalesType(const StepShape& shape, int64_t heads);
// The dtype of the scales that lie beside K and V of this dtype, one for each row of a token and head; none if it has
// none.
std::optional<DType> KvScales(DType kv);

}  // namespace deepinfer::models
