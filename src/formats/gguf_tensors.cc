#include "formats/gguf_tensors.h"

#include <algorithm>
#include <limits>
#include <unordered_set>

namespace deepinfer::formats {
namespace {

// Every tensor type the format knows. Those without an encoding here can be sized and skipped, but not loaded.
struct TypeInfo {
  uint32_t number;
  const char* name;
  int block_elements;
  int block_bytes;
  std::optional<Encoding> encoding;
};
constexpr TypeInfo kTypes[] = {
    {0, "F32", 1, 4, Encoding::kF32},
    {1, "F16", 1, 2, Encoding::kF16},
    {2, "Q4_0", 32, 18, Encoding::kQ4_0},
    {3, "Q4_1", 32, 20, Encoding::kQ4_1},
    {6, "Q5_0", 32, 22, Encoding::kQ5_0},
    {7, "Q5_1", 32, 24, Encoding::kQ5_1},
    {8, "Q8_0", 32, 34, Encoding::kQ8_0},
    {9, "Q8_1", 32, 36, std::nullopt},
    {10, "Q2_K", 256, 84, Encoding::kQ2_K},
    {11, "Q3_K", 256, 110, Encoding::kQ3_K},
    {12, "Q4_K", 256, 144, Encoding::kQ4_K},
    {13, "Q5_K", 256, 176, Encoding::kQ5_K},
    {14, "Q6_K", 256, 210, Encoding::kQ6_K},
    {15, "Q8_K", 256, 292, std::nullopt},
    {16, "IQ2_XXS", 256, 66, std::nullopt},
    {17, "IQ2_XS", 256, 74, std::nullopt},
    {18, "IQ3_XXS", 256, 98, std::nullopt},
    {19, "IQ1_S", 256, 50, std::nullopt},
    {20, "IQ4_NL", 32, 18, Encoding::kIQ4_NL},
    {21, "IQ3_S", 256, 110, std::nullopt},
    {22, "IQ2_S", 256, 82, std::nullopt},
    {23, "IQ4_XS", 256, 136, Encoding::kIQ4_XS},
    {24, "I8", 1, 1, std::nullopt},
    {25, "I16", 1, 2, std::nullopt},
    {26, "I32", 1, 4, std::nullopt},
    {27, "I64", 1, 8, std::nullopt},
    {28, "F64", 1, 8, std::nullopt},
    {29, "IQ1_M", 256, 56, std::nullopt},
    {30, "BF16", 1, 2, Encoding::kBF16},
    {34, "TQ1_0", 256, 54, std::nullopt},
    {35, "TQ2_0", 256, 66, std::nullopt},
    {39, "MXFP4", 32, 17, Encoding::kMXFP4},
};

constexpr uint64_t kMaxNameBytes = 256;  // the format says 64; some converters write more
constexpr uint64_t kMinEntryBytes = 8 + 1 + 4 + 8 + 4 + 8;
constexpr uint64_t kMaxTensors = 1u << 20;
constexpr uint32_t kMaxDimensions = 4;

const TypeInfo* FindType(uint32_t number) {
  const auto* it =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const TypeInfo& t) { return t.number == number; });
  return it == std::end(kTypes) ? nullptr : it;
}

struct Placed {
  GgufTensor tensor;
  uint64_t offset = 0;  // in the data section
  int64_t bytes = 0;
};

class TensorReader {
 public:
  explicit TensorReader(ByteCursor& cursor) : cursor_(cursor) {}

  Result<Placed> ReadEntry() {
    DI_ASSIGN_OR_RETURN(const std::string_view name, cursor_.ReadString("tensor name", kMaxNameBytes));
    if (name.empty()) return MakeError(ErrorCode::kDataLoss, cursor_.file(), "a tensor has an empty name");
    field_ = fmt::format("tensor {}", Printable(name));
    where_ = fmt::format("{}: {}", cursor_.file(), field_);
    if (!names_.insert(name).second) return Fail("the name occurs twice");
    Placed placed;
    placed.tensor.name = std::string(name);
    DI_RETURN_IF_ERROR(ReadShape(placed.tensor.shape));
    DI_RETURN_IF_ERROR(ReadType(placed));
    DI_ASSIGN_OR_RETURN(placed.offset, cursor_.Read<uint64_t>(field_));
    return placed;
  }

 private:
  template <class... Args>
  tl::unexpected<Error> Fail(fmt::format_string<Args...> format, Args&&... args) const {
    return MakeError(ErrorCode::kDataLoss, where_, format, std::forward<Args>(args)...);
  }

  Status ReadShape(std::vector<int64_t>& shape) {
    DI_ASSIGN_OR_RETURN(const uint32_t dimensions, cursor_.Read<uint32_t>(field_));
    if (dimensions < 1 || dimensions > kMaxDimensions) {
      return Fail("has {} dimensions; 1 to {} are possible", dimensions, kMaxDimensions);
    }
    shape.resize(dimensions);
    for (uint32_t i = 0; i < dimensions; ++i) {
      DI_ASSIGN_OR_RETURN(const uint64_t size, cursor_.Read<uint64_t>(field_));
      if (size == 0) return Fail("dimension {} is zero", i);
      if (size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        return Fail("dimension {} of {} is too large", i, size);
      }
      shape[dimensions - 1 - i] = static_cast<int64_t>(size);  // the file has the innermost first
    }
    return {};
  }

  Status ReadType(Placed& placed) {
    DI_ASSIGN_OR_RETURN(const uint32_t number, cursor_.Read<uint32_t>(field_));
    const TypeInfo* type = FindType(number);
    if (type == nullptr) return Fail("unknown tensor type {}", number);
    if (type->encoding) {
      placed.tensor.encoding = *type->encoding;
    } else {
      placed.tensor.unsupported_type = type->name;
    }
    const std::vector<int64_t>& shape = placed.tensor.shape;
    if (shape.back() % type->block_elements != 0) {
      return Fail("a row of {} elements is not a whole number of {} blocks of {}", shape.back(), type->name,
                  type->block_elements);
    }
    std::optional<int64_t> bytes = CheckedMultiply(shape.back() / type->block_elements, type->block_bytes);
    std::optional<int64_t> elements = shape.back();
    for (size_t i = 0; i + 1 < shape.size(); ++i) {
      if (bytes) bytes = CheckedMultiply(*bytes, shape[i]);
      if (elements) elements = CheckedMultiply(*elements, shape[i]);
    }
    // Four bytes an element is what the largest later use, a copy decoded to f32, takes.
    if (!bytes || !elements || !CheckedMultiply(*elements, 4)) return Fail("the shape's size overflows 64 bits");
    placed.bytes = *bytes;
    return {};
  }

  ByteCursor& cursor_;
  std::string field_;
  std::string where_;
  std::unordered_set<std::string_view> names_;
};

Status CheckNoOverlap(std::vector<const Placed*> order, const std::string& file) {
  std::sort(order.begin(), order.end(), [](const Placed* a, const Placed* b) { return a->offset < b->offset; });
  for (size_t i = 1; i < order.size(); ++i) {
    const Placed& before = *order[i - 1];
    if (before.offset + static_cast<uint64_t>(before.bytes) > order[i]->offset) {
      return MakeError(ErrorCode::kDataLoss, fmt::format("{}: tensor {}", file, Printable(order[i]->tensor.name)),
                       "its data at offset {} overlaps that of {}", order[i]->offset, Printable(before.tensor.name));
    }
  }
  return {};
}

}  // namespace

Result<GgufTensorTable> ReadGgufTensors(ByteCursor& cursor, uint64_t count, uint64_t alignment,
                                        std::span<const std::byte> file) {
  const std::string where = fmt::format("{}: tensor count", cursor.file());
  if (count > cursor.remaining() / kMinEntryBytes) {
    return MakeError(ErrorCode::kDataLoss, where, "{} tensors do not fit in the {} bytes left in the file", count,
                     cursor.remaining());
  }
  if (count > kMaxTensors)
    return MakeError(ErrorCode::kDataLoss, where, "{} is over the limit of {}", count, kMaxTensors);
  std::vector<Placed> placed;
  TensorReader reader(cursor);
  for (uint64_t i = 0; i < count; ++i) {
    DI_ASSIGN_OR_RETURN(Placed entry, reader.ReadEntry());
    placed.push_back(std::move(entry));
  }

  GgufTensorTable table;
  // A file without tensors may end right after its header, short of the padding.
  table.data_begin = std::min<size_t>((cursor.position() + alignment - 1) / alignment * alignment, file.size());
  const std::span<const std::byte> data = file.subspan(table.data_begin);
  std::vector<const Placed*> order;
  for (Placed& entry : placed) {
    const std::string tensor = fmt::format("{}: tensor {}", cursor.file(), Printable(entry.tensor.name));
    if (entry.offset % alignment != 0) {
      return MakeError(ErrorCode::kDataLoss, tensor, "its offset {} is not a multiple of the alignment {}",
                       entry.offset, alignment);
    }
    if (entry.offset > data.size() || static_cast<uint64_t>(entry.bytes) > data.size() - entry.offset) {
      return MakeError(ErrorCode::kDataLoss, tensor,
                       "its {} bytes at offset {} leave the file's data section of {} bytes", entry.bytes, entry.offset,
                       data.size());
    }
    entry.tensor.data = data.subspan(entry.offset, static_cast<size_t>(entry.bytes));
    order.push_back(&entry);
  }
  DI_RETURN_IF_ERROR(CheckNoOverlap(std::move(order), cursor.file()));
  table.tensors.reserve(placed.size());
  for (Placed& entry : placed) table.tensors.push_back(std::move(entry.tensor));
  return table;
}

std::optional<uint32_t> GgufTypeOf(Encoding encoding) {
  for (const TypeInfo& type : kTypes) {
    if (type.encoding == encoding) return type.number;
  }
  return std::nullopt;
}

}  // namespace deepinfer::formats
