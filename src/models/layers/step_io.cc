#include "models/layers/step_io.h"

#include <algorithm>
#include <limits>

#include "ir/collective.h"

namespace deepinfer::models {

using ir::Builder;
using ir::InputKind;
using ir::Op;
using ir::Type;
using ir::Value;

namespace {

// In the order of ir::SampleOperand.
std::vector<Value> DeclareSampling(Builder& b, ir::Dim rows, int64_t vocab, int64_t places) {
  const auto declare = [&b](const char* name, DType dtype, std::vector<ir::Dim> dims) {
    return b.Input(name, InputKind::kMetadata, Type(dtype, std::move(dims)));
  };
  return {declare(input::kTemperature, DType::kF32, {rows}),
          declare(input::kTopK, DType::kI32, {rows}),
          declare(input::kTopP, DType::kF32, {rows}),
          declare(input::kMinP, DType::kF32, {rows}),
          declare(input::kTypicalP, DType::kF32, {rows}),
          declare(input::kXtcProbability, DType::kF32, {rows}),
          declare(input::kXtcThreshold, DType::kF32, {rows}),
          declare(input::kUniforms, DType::kF32, {rows}),
          declare(input::kXtcUniforms, DType::kF32, {rows}),
          declare(input::kHasMask, DType::kI32, {rows}),
          declare(input::kTokenMask, DType::kI32, {rows, MaskWords(vocab)}),
          declare(input::kNumAdjustments, DType::kI32, {rows}),
          declare(input::kAdjustIds, DType::kI32, {rows, places}),
          declare(input::kBias, DType::kF32, {rows, places}),
          declare(input::kRepetition, DType::kF32, {rows, places}),
          declare(input::kPenalty, DType::kF32, {rows, places})};
}

}  // namespace

Status CheckShape(const StepShape& shape) {
  const int64_t smallest = std::min(
      {shape.tokens, shape.rows, shape.requests, shape.block_size, shape.blocks, shape.max_blocks, shape.slots});
  const int64_t largest = std::max(
      {shape.tokens, shape.rows, shape.requests, shape.block_size, shape.blocks, shape.max_blocks, shape.slots});
  if (smallest < 1 || largest >= std::numeric_limits<int32_t>::max() ||
      shape.blocks > std::numeric_limits<int32_t>::max() / shape.block_size) {
    return MakeError(ErrorCode::kInvalidArgument, "step shape",
                     "every count must be positive and slots must fit 31 bits");
  }
  if (shape.phase == Phase::kDecode && (shape.tokens != shape.rows || shape.tokens != shape.requests)) {
    return MakeError(ErrorCode::kInvalidArgument, "step shape",
                     "decode needs one token and one row per request, got {}, {}, {}", shape.tokens, shape.rows,
                     shape.requests);
  }
  if (shape.ranks < 1) return MakeError(ErrorCode::kInvalidArgument, "step shape", "{} ranks", shape.ranks);
  if (!IsFloat(shape.activations) || (!IsFloat(shape.kv) && shape.kv != DType::kI8)) {
    return MakeError(ErrorCode::kUnsupported, "step shape",
                     "activations must be floats and KV floats or i8, got {} and {}", ToString(shape.activations),
                     ToString(shape.kv));
  }
  return {};
}

StepInputs DeclareMetadata(ir::ModuleBuilder& module, Builder& b, const StepShape& shape, int64_t vocab) {
  const auto declare = [&b](const char* name, DType dtype, std::vector<ir::Dim> dims) {
    return b.Input(name, InputKind::kMetadata, Type(dtype, std::move(dims)));
  };
  const bool decode = shape.phase == Phase::kDecode;
  const ir::Dim tokens = Tokens(shape);
  const ir::Dim rows = Rows(shape);
  StepInputs in;
  in.live_counts = declare(input::kLiveCounts, DType::kI32, {ir::kNumTags});
  module.SetLiveCounts(in.live_counts);
  in.token_ids = declare(input::kTokenIds, DType::kI32, {tokens});
  in.token_slots = declare(input::kTokenSlots, DType::kI32, {tokens});
  in.positions = declare(input::kPositions, DType::kI32, {tokens});
  in.slots = declare(input::kSlots, DType::kI32, {tokens});
  in.block_tables = declare(input::kBlockTables, DType::kI32, {Requests(shape), shape.max_blocks});
  in.query_start = declare(input::kQueryStart, DType::kI32, {shape.requests + 1});
  if (!decode) in.sampling_positions = declare(input::kSamplingPositions, DType::kI32, {rows});
  in.row_to_slot = declare(input::kRowToSlot, DType::kI32, {rows});
  in.sampling = DeclareSampling(b, rows, vocab, AdjustmentsPerRow(shape, vocab));
  in.logprob_ids = declare(input::kLogprobIds, DType::kI32, {rows});
  in.want_logprobs = declare(input::kWantLogprobs, DType::kI32, {rows});
  if (shape.ranks > 1) in.rank = declare(ir::kRankInput, DType::kI32, {});
  return in;
}

void DeclareTokenStore(Builder& b, const StepShape& shape, StepInputs* in) {
  in->token_store = b.StateView(kTokenStore, Type(DType::kI32, {shape.slots + 1}), kTokenStore, 0, "");
}

Value TokenIds(Builder& b, const StepInputs& in, const StepShape& shape) {
  const double last = static_cast<double>(shape.slots);
  const Value slots = b.WithScalar(Op::kMin, b.WithScalar(Op::kMax, in.token_slots, 0), last);
  const Value stored = b.Emit(Op::kTake, {in.token_store, slots});
  const Value absent = b.Compare(in.token_ids, b.Splat(b.TypeOf(in.token_ids), 0), "lt");
  return b.Emit(Op::kSelect, {absent, stored, in.token_ids});
}

Value SampledRows(Builder& b, const StepInputs& in, const StepShape& shape, Value x) {
  if (shape.phase == Phase::kPrefill) return b.Emit(Op::kTake, {x, in.sampling_positions});
  std::vector<ir::Dim> dims = b.TypeOf(x).dims;
  if (!dims.empty()) dims[0] = Rows(shape);
  return b.Reshape(x, std::move(dims));
}

void SampleAndCommit(Builder& b, const StepInputs& in, const StepShape& shape, Value logits) {
  std::vector<Value> operands = {logits};
  operands.insert(operands.end(), in.sampling.begin(), in.sampling.end());
  const Value sampled = b.Emit(Op::kSample, operands);
  const Type row_type = b.TypeOf(in.row_to_slot);
  const Value nowhere = b.Compare(in.row_to_slot, b.Splat(row_type, 0), "lt");
  const Value dummy = b.Splat(row_type, static_cast<double>(shape.slots));
  const Value target = b.Emit(Op::kSelect, {nowhere, dummy, in.row_to_slot});
  b.IndexPut(in.token_store, {target}, sampled, {0});
  const int64_t vocab = logits.valid() ? b.TypeOf(logits).dims[1].size : 1;
  const Value unnamed = b.Compare(in.logprob_ids, b.Splat(row_type, 0), "lt");
  const Value whose = b.Emit(Op::kSelect, {unnamed, sampled, in.logprob_ids});
  const std::vector<Value> best =
      b.EmitAll(Op::kTopLogprobs, {logits, whose, in.want_logprobs}, {{"k", std::min(kMaxTopLogprobs, vocab)}});
  b.Output(output::kSampled, sampled);
  b.Output(output::kLogits, logits);
  const char* names[] = {output::kLogprob, output::kTopIds, output::kTopLogprobs};
  for (size_t i = 0; i < best.size(); ++i) b.Output(names[i], best[i]);
}

Type KvType(const StepShape& shape, int64_t heads, int64_t width) {
  return Type(shape.kv, {shape.blocks, heads, shape.block_size, width});
}

ir::Type KvScalesType(const StepShape& shape, int64_t heads) {
  return Type(*KvScales(shape.kv), {shape.blocks, heads, shape.block_size, 1});
}

std::optional<DType> KvScales(DType kv) {
  return kv == DType::kI8 ? std::optional(DType::kF32) : std::nullopt;
}

KvViews DeclareKv(Builder& b, const StepShape& shape, int64_t layer, int64_t heads, int64_t width) {
  const std::string buffer = fmt::format("kv.{}", layer);
  const Type type = KvType(shape, heads, width);
  KvViews views;
  views.k = b.StateView(buffer + ".k", type, buffer, 0, "kv");
  views.v = b.StateView(buffer + ".v", type, buffer, type.NumElements(), "kv");
  if (!KvScales(shape.kv)) return views;
  const std::string scales = fmt::format("kv_scales.{}", layer);
  const Type scales_type = KvScalesType(shape, heads);
  views.k_scales = b.StateView(scales + ".k", scales_type, scales, 0, "kv_scales");
  views.v_scales = b.StateView(scales + ".v", scales_type, scales, scales_type.NumElements(), "kv_scales");
  return views;
}

}  // namespace deepinfer::models
