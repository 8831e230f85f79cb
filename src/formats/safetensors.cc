#include "formats/safetensors.h"

#include <algorithm>
#include <limits>

#include "formats/byte_cursor.h"
#include "formats/json.h"
#include "formats/safetensors_dtype.h"

namespace deepinfer::formats {
namespace {

using nlohmann::json;

// Headers of the largest shards met have well under 2 MiB.
constexpr JsonLimits kHeaderLimits = {.max_bytes = 32u << 20, .max_depth = 8, .max_values = 1u << 20};
constexpr size_t kMaxDimensions = 16;

struct Placed {
  SafetensorsTensor tensor;
  int64_t begin = 0;
  int64_t end = 0;
};

std::string TensorWhere(const std::string& file, std::string_view name) {
  return fmt::format("{}: tensor {}", file, Printable(name));
}

class EntryReader {
 public:
  EntryReader(std::string where, const json& entry) : where_(std::move(where)), entry_(entry) {}

  Result<Placed> Read(const std::string& name) {
    if (!entry_.is_object()) return Fail("its entry is not an object");
    for (const auto& [field, value] : entry_.items()) {
      if (field != "dtype" && field != "shape" && field != "data_offsets") {
        return Fail("unknown field \"{}\"", Printable(field));
      }
    }
    Placed placed;
    placed.tensor.name = name;
    DI_ASSIGN_OR_RETURN(const SafetensorsDType dtype, ReadDType());
    placed.tensor.dtype_name = dtype.name;
    placed.tensor.dtype = dtype.dtype;
    placed.tensor.encoding = dtype.encoding;
    DI_ASSIGN_OR_RETURN(placed.tensor.shape, ReadIntegers("shape", kMaxDimensions));
    DI_ASSIGN_OR_RETURN(const std::vector<int64_t> offsets, ReadIntegers("data_offsets", 2));
    if (offsets.size() != 2 || offsets[0] > offsets[1]) return Fail("data_offsets must be [begin, end]");
    placed.begin = offsets[0];
    placed.end = offsets[1];
    DI_RETURN_IF_ERROR(CheckSize(placed, dtype.bits));
    return placed;
  }

 private:
  template <class... Args>
  tl::unexpected<Error> Fail(fmt::format_string<Args...> format, Args&&... args) const {
    return MakeError(ErrorCode::kDataLoss, where_, format, std::forward<Args>(args)...);
  }

  Result<SafetensorsDType> ReadDType() const {
    const auto it = entry_.find("dtype");
    if (it == entry_.end() || !it->is_string()) return Fail("dtype is missing or no string");
    const auto& name = it->get_ref<const std::string&>();
    const SafetensorsDType* dtype = FindSafetensorsDType(name);
    if (dtype == nullptr) return Fail("unknown dtype \"{}\"", Printable(name));
    return *dtype;
  }

  Result<std::vector<int64_t>> ReadIntegers(const char* field, size_t most) const {
    const auto it = entry_.find(field);
    if (it == entry_.end() || !it->is_array()) return Fail("{} is missing or no array", field);
    if (it->size() > most) return Fail("{} has {} elements; at most {} are possible", field, it->size(), most);
    std::vector<int64_t> values;
    for (const json& element : *it) {
      if (!element.is_number_unsigned() ||
          element.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
        return Fail("{} holds something else than a non-negative 64-bit integer", field);
      }
      values.push_back(element.get<int64_t>());
    }
    return values;
  }

  Status CheckSize(const Placed& placed, int bits) const {
    std::optional<int64_t> total = bits;
    for (int64_t size : placed.tensor.shape) {
      if (total) total = CheckedMultiply(*total, size);
    }
    if (!total) return Fail("the shape's size overflows 64 bits");
    if (*total % 8 != 0) return Fail("the shape is not a whole number of bytes");
    if (*total / 8 != placed.end - placed.begin) {
      return Fail("shape and dtype take {} bytes, but data_offsets give {}", *total / 8, placed.end - placed.begin);
    }
    return {};
  }

  std::string where_;
  const json& entry_;
};

// Sorts by place and checks that the regions follow each other from the first byte of the data to the last.
Status CheckCoverage(std::vector<Placed>& placed, const std::string& file, size_t data_bytes) {
  std::sort(placed.begin(), placed.end(),
            [](const Placed& a, const Placed& b) { return std::pair(a.begin, a.end) < std::pair(b.begin, b.end); });
  int64_t end = 0;
  for (const Placed& entry : placed) {
    const std::string where = TensorWhere(file, entry.tensor.name);
    if (static_cast<uint64_t>(entry.end) > data_bytes) {
      return MakeError(ErrorCode::kDataLoss, where, "its data ends at {}, past the file's {} bytes of data", entry.end,
                       data_bytes);
    }
    if (entry.begin < end) {
      return MakeError(ErrorCode::kDataLoss, where, "its data at {} overlaps the tensor before it", entry.begin);
    }
    if (entry.begin > end) {
      return MakeError(ErrorCode::kDataLoss, where, "there is a hole of {} bytes before its data", entry.begin - end);
    }
    end = entry.end;
  }
  if (static_cast<uint64_t>(end) != data_bytes) {
    return MakeError(ErrorCode::kDataLoss, file, "{} bytes after the last tensor belong to none",
                     data_bytes - static_cast<uint64_t>(end));
  }
  return {};
}

Status ReadFileMetadata(const json& value, const std::string& file, std::map<std::string, std::string>& metadata) {
  const std::string where = fmt::format("{}: __metadata__", file);
  if (!value.is_object()) return MakeError(ErrorCode::kDataLoss, where, "is not an object");
  for (const auto& [key, text] : value.items()) {
    if (!text.is_string()) return MakeError(ErrorCode::kDataLoss, where, "{} is not a string", Printable(key));
    metadata.emplace(key, text.get<std::string>());
  }
  return {};
}

}  // namespace

Result<SafetensorsFile> SafetensorsFile::Parse(std::span<const std::byte> bytes, const std::string& name) {
  ByteCursor cursor(bytes, name);
  const std::string where = fmt::format("{}: header", name);
  DI_ASSIGN_OR_RETURN(const uint64_t length, cursor.Read<uint64_t>("header length"));
  DI_ASSIGN_OR_RETURN(const std::span<const std::byte> text, cursor.ReadBytes("header", length));
  const std::string_view view(reinterpret_cast<const char*>(text.data()), text.size());
  if (!view.starts_with('{')) return MakeError(ErrorCode::kDataLoss, where, "does not start with '{{'");
  DI_ASSIGN_OR_RETURN(const json header, ParseJson(view, where, kHeaderLimits));

  SafetensorsFile file;
  file.path_ = name;
  file.header_ = bytes.first(cursor.position());
  const std::span<const std::byte> data = bytes.subspan(cursor.position());
  std::vector<Placed> placed;
  for (const auto& [key, entry] : header.items()) {
    if (key == "__metadata__") {
      DI_RETURN_IF_ERROR(ReadFileMetadata(entry, name, file.metadata_));
      continue;
    }
    if (key.empty()) return MakeError(ErrorCode::kDataLoss, where, "a tensor has an empty name");
    DI_ASSIGN_OR_RETURN(Placed read, EntryReader(TensorWhere(name, key), entry).Read(key));
    placed.push_back(std::move(read));
  }
  DI_RETURN_IF_ERROR(CheckCoverage(placed, name, data.size()));
  for (Placed& entry : placed) {
    entry.tensor.data = data.subspan(static_cast<size_t>(entry.begin), static_cast<size_t>(entry.end - entry.begin));
    file.index_.emplace(entry.tensor.name, file.tensors_.size());
    file.tensors_.push_back(std::move(entry.tensor));
  }
  return file;
}

Result<SafetensorsFile> SafetensorsFile::Open(const std::string& path) {
  DI_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::Open(path));
  DI_ASSIGN_OR_RETURN(SafetensorsFile file, Parse(mapped.bytes(), path));
  file.file_ = std::move(mapped);
  return file;
}

const SafetensorsTensor* SafetensorsFile::FindTensor(std::string_view name) const {
  const auto it = index_.find(name);
  return it == index_.end() ? nullptr : &tensors_[it->second];
}

}  // namespace deepinfer::formats
