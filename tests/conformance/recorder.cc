#include "recorder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/half.h"

namespace deepinfer::conformance {

using ir::Type;
using ir::Value;

namespace {

template <class T>
void Store(T value, std::byte* at) {
  std::memcpy(at, &value, sizeof(T));
}

template <class T>
T Load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

void StoreAs(DType dtype, double value, std::byte* at) {
  const float f = static_cast<float>(value);
  switch (dtype) {
    case DType::kI1:
      return Store<uint8_t>(value != 0, at);
    case DType::kI8:
      return Store(static_cast<int8_t>(value), at);
    case DType::kU8:
      return Store(static_cast<uint8_t>(std::fabs(value)), at);
    case DType::kI32:
      return Store(static_cast<int32_t>(value), at);
    case DType::kU32:
      return Store(static_cast<uint32_t>(std::fabs(value)), at);
    case DType::kI64:
      return Store(static_cast<int64_t>(value), at);
    case DType::kF8E4M3:
      return Store(F32ToF8E4M3(f), at);
    case DType::kF16:
      return Store(F32ToF16(f), at);
    case DType::kBF16:
      return Store(F32ToBF16(f), at);
    case DType::kF32:
      return Store(f, at);
  }
}

float LoadAs(DType dtype, const std::byte* at) {
  switch (dtype) {
    case DType::kI1:
    case DType::kU8:
      return Load<uint8_t>(at);
    case DType::kI8:
      return Load<int8_t>(at);
    case DType::kI32:
      return static_cast<float>(Load<int32_t>(at));
    case DType::kU32:
      return static_cast<float>(Load<uint32_t>(at));
    case DType::kI64:
      return static_cast<float>(Load<int64_t>(at));
    case DType::kF8E4M3:
      return F8E4M3ToF32(Load<uint8_t>(at));
    case DType::kF16:
      return F16ToF32(Load<uint16_t>(at));
    case DType::kBF16:
      return BF16ToF32(Load<uint16_t>(at));
    case DType::kF32:
      return Load<float>(at);
  }
  return 0;
}

double RandomValue(DType dtype, double scale, std::mt19937* random) {
  if (IsFloat(dtype)) return scale * std::normal_distribution<float>()(*random);
  if (dtype == DType::kI1) return static_cast<double>((*random)() % 2);
  return static_cast<double>((*random)() % 19) - 9;
}

// The seed is the line's own, whatever the standard library's hash is.
uint32_t SeedOf(const std::string& line) {
  uint32_t seed = 2166136261u;
  for (const char c : line) seed = (seed ^ static_cast<uint8_t>(c)) * 16777619u;
  return seed;
}

// Rows of values of about 1.
Bytes RandomRows(Encoding encoding, int64_t rows, int64_t columns, std::mt19937* random) {
  const size_t row_bytes = RowBytes(encoding, columns);
  Bytes bytes(row_bytes * static_cast<size_t>(rows));
  std::normal_distribution<float> normal;
  std::vector<float> row(static_cast<size_t>(columns));
  for (int64_t r = 0; r < rows; ++r) {
    for (float& value : row) value = normal(*random);
    EncodeRow(encoding, row.data(), bytes.data() + static_cast<size_t>(r) * row_bytes, columns);
  }
  return bytes;
}

}  // namespace

Bytes RandomBytes(const Type& type, double scale, std::mt19937* random) {
  Bytes bytes(static_cast<size_t>(type.Bytes()));
  const size_t size = SizeOf(type.dtype);
  for (size_t at = 0; at < bytes.size(); at += size)
    StoreAs(type.dtype, RandomValue(type.dtype, scale, random), &bytes[at]);
  return bytes;
}

std::vector<float> Decode(DType dtype, const Bytes& bytes) {
  std::vector<float> values(bytes.size() / SizeOf(dtype));
  for (size_t i = 0; i < values.size(); ++i) values[i] = LoadAs(dtype, &bytes[i * SizeOf(dtype)]);
  return values;
}

Bytes Encode(DType dtype, const std::vector<float>& values) {
  Bytes bytes(values.size() * SizeOf(dtype));
  for (size_t i = 0; i < values.size(); ++i) StoreAs(dtype, values[i], &bytes[i * SizeOf(dtype)]);
  return bytes;
}

double MaxAbs(const std::vector<float>& values) {
  double max = 0;
  for (const float v : values) max = std::isfinite(v) ? std::max<double>(max, std::fabs(v)) : max;
  return max;
}

double UlpOf(DType dtype) {
  switch (dtype) {
    case DType::kBF16:
      return 0x1p-7;
    case DType::kF16:
      return 0x1p-10;
    case DType::kF8E4M3:
      return 0x1p-3;
    default:
      return 0x1p-23;
  }
}

Status Record(const Problem& problem, Recorder* r) {
  if (RecordComposite(problem, r) || RecordElementwise(problem, r) || RecordPrimitive(problem, r) ||
      RecordStructure(problem, r)) {
    return {};
  }
  return MakeError(ErrorCode::kInternal, problem.line, "no problem of this op can be recorded");
}

Recorder::Recorder(const Problem& problem, std::vector<Encoding> readable)
    : b_(module_.Entry()), random_(SeedOf(problem.line)), readable_(std::move(readable)) {}

void Recorder::Live(int64_t tokens, int64_t rows, int64_t requests) {
  live.count = {tokens, rows, requests};
  const std::vector<int32_t> counts(live.count.begin(), live.count.end());
  module_.SetLiveCounts(Ints("live_counts", {ir::kNumTags}, counts));
}

void Recorder::Poison(const Type& type, Bytes* bytes) const {
  if (type.LeadingTag() == ir::DimTag::kNone) return;
  const int64_t rows = type.dims[0].size;
  const size_t row = static_cast<size_t>(type.Bytes() / std::max<int64_t>(1, rows));
  const size_t begin = static_cast<size_t>(live.Of(type.LeadingTag(), rows)) * row;
  for (size_t at = begin; at < bytes->size(); at += SizeOf(type.dtype)) {
    StoreAs(type.dtype, IsFloat(type.dtype) ? std::nan("") : 0, &(*bytes)[at]);
    if (type.dtype == DType::kI32) Store(std::numeric_limits<int32_t>::max() - 1, &(*bytes)[at]);
  }
}

Value Recorder::Metadata(const std::string& name, Type type, Bytes bytes) {
  Poison(type, &bytes);
  const Value value = b_.Input(name, ir::InputKind::kMetadata, type);
  values_[value.id] = Decode(type.dtype, bytes);
  metadata.push_back({name, std::move(type), std::move(bytes)});
  return value;
}

Value Recorder::Random(const std::string& name, Type type, double scale) {
  Bytes bytes = RandomBytes(type, scale, &random_);
  return Metadata(name, std::move(type), std::move(bytes));
}

Value Recorder::Floats(const std::string& name, std::vector<ir::Dim> dims, const std::vector<float>& values) {
  return Metadata(name, Type(DType::kF32, std::move(dims)), Encode(DType::kF32, values));
}

Value Recorder::Ints(const std::string& name, std::vector<ir::Dim> dims, const std::vector<int32_t>& values) {
  Bytes bytes(values.size() * sizeof(int32_t));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return Metadata(name, Type(DType::kI32, std::move(dims)), std::move(bytes));
}

Value Recorder::State(const std::string& name, Type type, Bytes bytes, Slack compiled, Slack slack) {
  const Value value = b_.Input(name, ir::InputKind::kState, type);
  values_[value.id] = Decode(type.dtype, bytes);
  states.push_back({name, std::move(type), std::move(bytes), Encoding::kF32, std::move(slack), std::move(compiled)});
  return value;
}

Value Recorder::Weight(const std::string& name, const std::vector<int64_t>& shape, Encoding encoding) {
  const int64_t columns = shape.back();
  const int64_t rows = shape.size() == 1 ? 1 : shape[0];
  Bytes bytes = RandomRows(encoding, rows, columns, &random_);
  std::vector<float> decoded(static_cast<size_t>(rows * columns));
  const size_t row_bytes = RowBytes(encoding, columns);
  for (int64_t r = 0; r < rows; ++r) DecodeRow(encoding, bytes.data() + r * row_bytes, &decoded[r * columns], columns);
  if (std::find(readable_.begin(), readable_.end(), encoding) == readable_.end()) {
    bytes = Encode(DType::kF32, decoded);
    encoding = Encoding::kF32;
  }
  Type type = Type::Weight(encoding, shape);
  const Value value = b_.Input(name, ir::InputKind::kWeight, type);
  values_[value.id] = std::move(decoded);
  weights.push_back({name, std::move(type), std::move(bytes), encoding});
  return value;
}

void Recorder::Mutated(Value value, Value state) {
  const ir::Function& f = module_.module().entry();
  int input = 0;
  while (f.inputs[static_cast<size_t>(input)].value != state.id) ++input;
  const std::string name = f.inputs[static_cast<size_t>(input)].name;
  module_.AddAlias(f.name, {static_cast<int>(f.outputs.size()), input});
  b_.Output(name, value);
}

void Recorder::Out(Value value, Slack slack, Slack compiled) {
  const std::string name = "out" + std::to_string(outputs.size());
  b_.Output(name, value);
  outputs.push_back({name, b_.TypeOf(value), std::move(slack), std::move(compiled)});
}

}  // namespace deepinfer::conformance
