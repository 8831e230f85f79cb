// The step of a synthetic model, in primitives. R rows, L the longest script, S scripts, N blocks, B block size.
#include <limits>

#include "models/layers/step_io.h"
#include "models/synthetic.h"
#include "models/synthetic_tables.h"

namespace deepinfer::models {

using ir::Builder;
using ir::Dim;
using ir::InputKind;
using ir::Op;
using ir::Type;
using ir::Value;

class SyntheticRecorder {
 public:
  SyntheticRecorder(const SyntheticModel& model, const StepShape& shape)
      : model_(model), shape_(shape), longest_(model.longest_), b_(module_.Entry()) {}

  Result<ir::Module> Record() {
    in_ = DeclareMetadata(module_, b_, shape_, model_.info_.vocab_size);
    for (const WeightSpec& weight : model_.specs_) {
      weights_.push_back(b_.Input(weight.name, InputKind::kWeight, Type::Weight(Encoding::kF32, weight.shape)));
    }
    kv_ = DeclareKv(b_, shape_, 0, 1, synthetic::kWidth);
    DeclareTokenStore(b_, shape_, &in_);
    Store(TokenIds(b_, in_, shape_));
    const Value context = Context();
    const Value script = ScriptOf(b_.Slice(context, 1, longest_, longest_ + 1));
    const Value place = Matched(b_.Slice(context, 1, 0, longest_), script);
    SampleAndCommit(b_, in_, shape_, Logits(script, place));
    return module_.Finish();
  }

 private:
  std::vector<Dim> RowsBy(int64_t width) const { return {Rows(shape_), width}; }
  Type RowType(int64_t width) const { return Type(DType::kI32, RowsBy(width)); }
  Value Clamp(Value x, double low, double high) {
    return b_.WithScalar(Op::kMin, b_.WithScalar(Op::kMax, x, low), high);
  }
  // i32 [R] or [R,1] as [R,width].
  Value Widen(Value x, int64_t width) { return b_.Broadcast(b_.Reshape(x, RowsBy(1)), RowsBy(width), {0, 1}); }
  Value Integers(Value x) { return b_.Convert(x, DType::kI32); }
  Value At(size_t weight, Value index) { return Integers(b_.Emit(Op::kTake, {weights_[weight], index})); }

  // Writes the ids' digits into both caches.
  void Store(Value ids) {
    const Value known = b_.WithScalar(Op::kMax, ids, 0);
    const std::vector<Value> slot =
        b_.EmitAll(Op::kPagedSlotIndices, {in_.slots}, {{"block_size", shape_.block_size}, {"blocks", shape_.blocks}});
    if (slot.size() != 2) return;
    const double half = static_cast<double>(synthetic::kHalf);
    StoreHalf(kv_.k, b_.WithScalar(Op::kRem, known, half), slot);
    StoreHalf(kv_.v, b_.WithScalar(Op::kDiv, known, half), slot);
  }

  void StoreHalf(Value cache, Value number, const std::vector<Value>& slot) {
    const std::vector<Dim> dims = {Tokens(shape_), synthetic::kWidth};
    // Past the digits, dividing by 4096 leaves 0.
    std::vector<int32_t> places(synthetic::kWidth, static_cast<int32_t>(synthetic::kHalf));
    for (int64_t i = 0, place = 1; i < synthetic::kDigits; ++i, place *= 16) places[i] = static_cast<int32_t>(place);
    const Value divisor = b_.Broadcast(b_.ConstantI32(places), dims, {1});
    const Value shifted = b_.Emit(Op::kDiv, {b_.Broadcast(number, dims, {0}), divisor});
    const Value digits = b_.Convert(b_.Convert(b_.WithScalar(Op::kRem, shifted, 16), DType::kF32), shape_.kv);
    b_.IndexPut(cache, slot, b_.Reshape(digits, {Tokens(shape_), 1, synthetic::kWidth}), {0, 2});
  }

  // i32 [R,M]: the block table of each row's request. A prefill row's request is the one whose tokens it lies among.
  Value Tables() {
    if (shape_.phase == Phase::kDecode) return b_.Reshape(in_.block_tables, RowsBy(shape_.max_blocks));
    const std::vector<Dim> dims = {Rows(shape_), Requests(shape_)};
    const Value ends = b_.Reshape(b_.Slice(in_.query_start, 0, 1, shape_.requests + 1), {Requests(shape_)});
    const Value done = b_.Compare(b_.Broadcast(in_.sampling_positions, dims, {0}), b_.Broadcast(ends, dims, {1}), "ge");
    const Value request = b_.Reduce(Integers(done), "sum", {1});
    return b_.Emit(Op::kTake, {in_.block_tables, Clamp(request, 0, static_cast<double>(shape_.requests - 1))});
  }

  // i32 [R,L+1]: the tokens of the window, each plus 1 (0 before the start), and in the last column the first token.
  Value Context() {
    const int64_t width = longest_ + 1;
    const Type type = RowType(width);
    const Value column = b_.Iota(type, 1);
    const Value own = Widen(SampledRows(b_, in_, shape_, in_.positions), width);
    const Value back = b_.WithScalar(Op::kSub, b_.Emit(Op::kAdd, {own, column}), static_cast<double>(longest_ - 1));
    const Value is_first = b_.Compare(column, b_.Splat(type, static_cast<double>(longest_)), "eq");
    const Value zero = b_.Splat(type, 0);
    const Value position = b_.Emit(Op::kSelect, {is_first, zero, back});
    const Value inside = b_.Compare(position, zero, "ge");
    const Value at = b_.Emit(Op::kMax, {position, zero});
    const double block_size = static_cast<double>(shape_.block_size);
    const double last_entry = static_cast<double>(shape_.max_blocks - 1);
    const Value entry = b_.WithScalar(Op::kMin, b_.WithScalar(Op::kDiv, at, block_size), last_entry);
    const Value row = b_.WithScalar(Op::kMul, b_.Iota(type, 0), static_cast<double>(shape_.max_blocks));
    const Value tables = b_.Reshape(Tables(), {shape_.rows * shape_.max_blocks});
    const Value block =
        Clamp(b_.Emit(Op::kTake, {tables, b_.Emit(Op::kAdd, {row, entry})}), 0, static_cast<double>(shape_.blocks - 1));
    const Value slot =
        b_.Emit(Op::kAdd, {b_.WithScalar(Op::kMul, block, block_size), b_.WithScalar(Op::kRem, at, block_size)});
    const Value high = b_.WithScalar(Op::kMul, Number(kv_.v, slot), static_cast<double>(synthetic::kHalf));
    const Value id = b_.Emit(Op::kAdd, {Number(kv_.k, slot), high});
    return b_.Emit(Op::kSelect, {inside, b_.WithScalar(Op::kAdd, id, 1), zero});
  }

  // i32 [R,L+1]: the number whose digits a cache holds at each slot.
  Value Number(Value cache, Value slot) {
    std::vector<float> places(synthetic::kWidth, 0.0f);
    for (int64_t i = 0, place = 1; i < synthetic::kDigits; ++i, place *= 16) places[i] = static_cast<float>(place);
    const Value flat = b_.Reshape(cache, {shape_.blocks * shape_.block_size, synthetic::kWidth});
    const Value digits = b_.Convert(b_.Emit(Op::kTake, {flat, slot}), DType::kF32);
    const Value scale = b_.Broadcast(b_.ConstantF32(places), b_.TypeOf(digits).dims, {2});
    return Integers(b_.Reduce(b_.Emit(Op::kMul, {digits, scale}), "sum", {2}));
  }

  // i32 [R]: (first token) mod S.
  Value ScriptOf(Value first) {
    const Value id = b_.WithScalar(Op::kMax, b_.WithScalar(Op::kSub, b_.Reshape(first, {Rows(shape_)}), 1), 0);
    return b_.WithScalar(Op::kRem, id, static_cast<double>(model_.scripts_));
  }

  // i32 [R]: the largest n such that the window ends with the script's first n tokens.
  Value Matched(Value window, Value script) {
    const Type type = RowType(longest_);
    const Value column = b_.Iota(type, 1);
    const Value start = b_.WithScalar(Op::kMul, Widen(script, longest_), static_cast<double>(longest_));
    const Value place = b_.Emit(Op::kAdd, {start, column});
    Value match;
    for (size_t h = 0; h < std::size(synthetic::kHashes); ++h) {
      const Value equal = b_.Compare(TailHashes(window, synthetic::kHashes[h]), At(2 + h, place), "eq");
      match = h == 0 ? equal : b_.Emit(Op::kAnd, {match, equal});
    }
    const Value length = b_.Emit(Op::kSub, {b_.Splat(type, static_cast<double>(longest_)), column});
    return b_.Reduce(b_.Emit(Op::kSelect, {match, length, b_.Splat(type, 0)}), "max", {1});
  }

  // i32 [R,L]: at k, the hash of the window from k on.
  Value TailHashes(Value window, const synthetic::Hash& hash) {
    const double modulus = static_cast<double>(hash.modulus);
    const std::vector<int64_t> powers = synthetic::Powers(hash, longest_);
    const Value power = b_.Broadcast(b_.ConstantI32({powers.begin(), powers.end()}), RowsBy(longest_), {1});
    const Value term =
        b_.WithScalar(Op::kRem, b_.Emit(Op::kMul, {b_.WithScalar(Op::kRem, window, modulus), power}), modulus);
    const Value up_to = b_.Emit(Op::kCumsum, {term}, {{"dim", int64_t{1}}});
    const Value total = Widen(b_.Slice(up_to, 1, longest_ - 1, longest_), longest_);
    const Value tail = b_.Emit(Op::kAdd, {b_.Emit(Op::kSub, {total, up_to}), term});
    return b_.WithScalar(Op::kRem, tail, modulus);
  }

  // f32 [R,V].
  Value Logits(Value script, Value place) {
    const int64_t vocab = model_.info_.vocab_size;
    const Value index = b_.Emit(Op::kAdd, {b_.WithScalar(Op::kMul, script, static_cast<double>(longest_ + 1)), place});
    const Value next = Widen(At(0, index), vocab);
    const Value poison = Widen(At(1, index), vocab);
    const Value chosen = b_.Compare(b_.Iota(RowType(vocab), 1), next, "eq");
    const Type type(DType::kF32, RowsBy(vocab));
    const Value logits = b_.Emit(Op::kSelect, {chosen, b_.Splat(type, 40), b_.Splat(type, 0)});
    const Value bad = b_.Compare(poison, b_.Splat(RowType(vocab), 0), "ne");
    return b_.Emit(Op::kSelect, {bad, b_.Splat(type, std::numeric_limits<double>::quiet_NaN()), logits});
  }

  const SyntheticModel& model_;
  const StepShape& shape_;
  const int64_t longest_;
  ir::ModuleBuilder module_;
  Builder b_;
  StepInputs in_;
  std::vector<Value> weights_;  // in the order of SyntheticModel::Weights()
  KvViews kv_;
};

Result<ir::Module> SyntheticModel::Record(const StepShape& shape, const WeightTable& weights) const {
  DI_RETURN_IF_ERROR(CheckShape(shape));
  if (shape.rows > std::numeric_limits<int32_t>::max() / shape.max_blocks) {
    return MakeError(ErrorCode::kInvalidArgument, "step shape", "{} rows of {} blocks do not fit 31 bits", shape.rows,
                     shape.max_blocks);
  }
  for (const WeightSpec& weight : specs_) {
    const ir::Type* type = weights.Find(weight.name);
    if (type == nullptr || *type != ir::Type::Weight(Encoding::kF32, weight.shape)) {
      return MakeError(ErrorCode::kNotFound, "weight " + weight.name, "is missing or not the one that was generated");
    }
  }
  return SyntheticRecorder(*this, shape).Record();
}

}  // namespace deepinfer::models
