#include "formats/gguf_metadata.h"

#include <limits>

namespace deepinfer::formats {
namespace {

// The format's value types, by number.
enum class ValueType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};
constexpr uint32_t kLastValueType = 12;

constexpr uint64_t kMaxKeyBytes = 65535;          // the format's own limit
constexpr uint64_t kMaxStringBytes = 16u << 20;   // chat templates, the longest strings met, have some 20 KiB
constexpr uint64_t kMaxArrayElements = 1u << 24;  // of all arrays together; the largest vocabularies have some 2^20
constexpr uint64_t kMinPairBytes = 8 + 1 + 4 + 1;
constexpr uint64_t kMaxPairs = 1u << 16;
constexpr std::string_view kAlignmentKey = "general.alignment";

size_t BytesOf(ValueType type) {
  switch (type) {
    case ValueType::kU8:
    case ValueType::kI8:
    case ValueType::kBool:
      return 1;
    case ValueType::kU16:
    case ValueType::kI16:
      return 2;
    case ValueType::kU32:
    case ValueType::kI32:
    case ValueType::kF32:
      return 4;
    case ValueType::kU64:
    case ValueType::kI64:
    case ValueType::kF64:
      return 8;
    case ValueType::kString:
    case ValueType::kArray:
      break;
  }
  return 8;  // both start with a 64-bit length, the least they take
}

class MetadataReader {
 public:
  explicit MetadataReader(ByteCursor& cursor) : cursor_(cursor) {}

  Status ReadPair(GgufMetadata& metadata) {
    DI_ASSIGN_OR_RETURN(const std::string_view key, cursor_.ReadString("metadata key", kMaxKeyBytes));
    if (key.empty()) return MakeError(ErrorCode::kDataLoss, cursor_.file(), "a metadata key is empty");
    for (char c : key) {
      if (c <= 0x20 || c >= 0x7f) return Fail(Where(key), "the key holds something else than printable ASCII");
    }
    field_ = fmt::format("key {}", Printable(key));
    const std::string where = Where(key);
    DI_ASSIGN_OR_RETURN(const ValueType type, ReadType(where));
    const size_t begin = cursor_.position();
    if (metadata.values.contains(key)) return Fail(where, "the key occurs twice");
    DI_ASSIGN_OR_RETURN(GgufValue value, type == ValueType::kArray ? ReadArray(where) : ReadScalar(type, where));
    if (key == kAlignmentKey) DI_RETURN_IF_ERROR(CheckAlignment(type, value, where));
    metadata.values.emplace(std::string(key), std::move(value));
    metadata.raw.push_back({key, static_cast<uint32_t>(type), cursor_.Since(begin)});
    return {};
  }

 private:
  std::string Where(std::string_view key) const { return fmt::format("{}: key {}", cursor_.file(), Printable(key)); }

  template <class... Args>
  static tl::unexpected<Error> Fail(const std::string& where, fmt::format_string<Args...> format, Args&&... args) {
    return MakeError(ErrorCode::kDataLoss, where, format, std::forward<Args>(args)...);
  }

  Result<ValueType> ReadType(const std::string& where) {
    DI_ASSIGN_OR_RETURN(const uint32_t type, cursor_.Read<uint32_t>(field_));
    if (type > kLastValueType) return Fail(where, "unknown value type {}", type);
    return static_cast<ValueType>(type);
  }

  static Status CheckAlignment(ValueType type, const GgufValue& value, const std::string& where) {
    if (type != ValueType::kU32) return Fail(where, "the alignment must be a 32-bit unsigned integer");
    const int64_t alignment = std::get<int64_t>(value);
    constexpr int64_t kMaxAlignment = 1 << 20;
    if (alignment < 8 || alignment > kMaxAlignment || (alignment & (alignment - 1)) != 0) {
      return Fail(where, "the alignment must be a power of two from 8 to {}, not {}", kMaxAlignment, alignment);
    }
    return {};
  }

  template <class File, class Held>
  Result<Held> ReadAs() {
    DI_ASSIGN_OR_RETURN(const File value, cursor_.Read<File>(field_));
    return static_cast<Held>(value);
  }

  Result<bool> ReadBool(const std::string& where) {
    DI_ASSIGN_OR_RETURN(const uint8_t value, cursor_.Read<uint8_t>(field_));
    if (value > 1) return Fail(where, "a boolean is {}, neither 0 nor 1", value);
    return value == 1;
  }

  Result<int64_t> ReadInteger(ValueType type, const std::string& where) {
    switch (type) {
      case ValueType::kU8:
        return ReadAs<uint8_t, int64_t>();
      case ValueType::kI8:
        return ReadAs<int8_t, int64_t>();
      case ValueType::kU16:
        return ReadAs<uint16_t, int64_t>();
      case ValueType::kI16:
        return ReadAs<int16_t, int64_t>();
      case ValueType::kU32:
        return ReadAs<uint32_t, int64_t>();
      case ValueType::kI32:
        return ReadAs<int32_t, int64_t>();
      case ValueType::kI64:
        return ReadAs<int64_t, int64_t>();
      default:
        break;
    }
    DI_ASSIGN_OR_RETURN(const uint64_t value, cursor_.Read<uint64_t>(field_));
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return Fail(where, "an array element of {} is too large", value);
    }
    return static_cast<int64_t>(value);
  }

  Result<double> ReadFloat(ValueType type) {
    return type == ValueType::kF32 ? ReadAs<float, double>() : ReadAs<double, double>();
  }

  Result<GgufValue> ReadScalar(ValueType type, const std::string& where) {
    switch (type) {
      case ValueType::kBool:
        return ReadBool(where);
      case ValueType::kF32:
      case ValueType::kF64:
        return ReadFloat(type);
      case ValueType::kU64:
        return cursor_.Read<uint64_t>(field_);
      case ValueType::kString: {
        DI_ASSIGN_OR_RETURN(const std::string_view view, cursor_.ReadString(field_, kMaxStringBytes));
        return GgufValue(std::string(view));
      }
      default:
        return ReadInteger(type, where);
    }
  }

  template <class T, class ReadElement>
  static Result<GgufValue> ReadElements(uint64_t count, ReadElement read_element) {
    std::vector<T> values;
    values.reserve(count);
    for (uint64_t i = 0; i < count; ++i) {
      DI_ASSIGN_OR_RETURN(T value, read_element());
      values.push_back(value);
    }
    return GgufValue(std::move(values));
  }

  Result<GgufValue> ReadArray(const std::string& where) {
    DI_ASSIGN_OR_RETURN(const ValueType type, ReadType(where));
    DI_ASSIGN_OR_RETURN(const uint64_t count, cursor_.Read<uint64_t>(field_));
    if (type == ValueType::kArray) {
      return MakeError(ErrorCode::kUnsupported, where, "arrays of arrays are not supported");
    }
    // Each element takes at least its own bytes of the file, so this bounds what the vectors below may take.
    if (count > cursor_.remaining() / BytesOf(type)) {
      return Fail(where, "an array of {} elements is longer than the {} bytes left in the file", count,
                  cursor_.remaining());
    }
    array_elements_ += count;
    if (array_elements_ > kMaxArrayElements) {
      return Fail(where, "the arrays of this file have over {} elements", kMaxArrayElements);
    }
    switch (type) {
      case ValueType::kBool:
        return ReadElements<bool>(count, [&] { return ReadBool(where); });
      case ValueType::kF32:
      case ValueType::kF64:
        return ReadElements<double>(count, [&] { return ReadFloat(type); });
      case ValueType::kString:
        return ReadElements<std::string_view>(count, [&] { return cursor_.ReadString(field_, kMaxStringBytes); });
      default:
        return ReadElements<int64_t>(count, [&] { return ReadInteger(type, where); });
    }
  }

  ByteCursor& cursor_;
  std::string field_;
  uint64_t array_elements_ = 0;
};

}  // namespace

Result<GgufMetadata> ReadGgufMetadata(ByteCursor& cursor, uint64_t count) {
  const std::string where = fmt::format("{}: metadata count", cursor.file());
  if (count > cursor.remaining() / kMinPairBytes) {
    return MakeError(ErrorCode::kDataLoss, where, "{} pairs do not fit in the {} bytes left in the file", count,
                     cursor.remaining());
  }
  if (count > kMaxPairs) return MakeError(ErrorCode::kDataLoss, where, "{} is over the limit of {}", count, kMaxPairs);
  GgufMetadata metadata;
  MetadataReader reader(cursor);
  for (uint64_t i = 0; i < count; ++i) DI_RETURN_IF_ERROR(reader.ReadPair(metadata));
  return metadata;
}

uint64_t AlignmentOf(const GgufMetadata& metadata) {
  const auto it = metadata.values.find(kAlignmentKey);
  return it == metadata.values.end() ? 32 : static_cast<uint64_t>(std::get<int64_t>(it->second));
}

}  // namespace deepinfer::formats
