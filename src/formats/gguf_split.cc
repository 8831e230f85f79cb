#include "formats/gguf_split.h"

namespace deepinfer::formats {
namespace {

constexpr int64_t kMaxParts = 4096;
constexpr const char* kCount = "split.count";
constexpr const char* kNumber = "split.no";
constexpr const char* kTensors = "split.tensors.count";

Status CheckPart(const GgufFile& part, int64_t number, int64_t count) {
  DI_ASSIGN_OR_RETURN(const int64_t said_count, part.RequiredInt(kCount));
  DI_ASSIGN_OR_RETURN(const int64_t said_number, part.RequiredInt(kNumber));
  if (said_count != count) {
    return MakeError(ErrorCode::kDataLoss, fmt::format("{}: key {}", part.path(), kCount),
                     "says {} parts where the first part says {}", said_count, count);
  }
  if (said_number != number) {
    return MakeError(ErrorCode::kDataLoss, fmt::format("{}: key {}", part.path(), kNumber),
                     "is {} where {} is expected; open the first part of a split model", said_number, number);
  }
  return {};
}

}  // namespace

Result<std::vector<GgufFile>> OpenGgufParts(const std::string& path) {
  std::vector<GgufFile> parts;
  DI_ASSIGN_OR_RETURN(GgufFile first, GgufFile::Open(path));
  DI_ASSIGN_OR_RETURN(const int64_t count, first.OptionalInt(kCount, 1));
  if (count < 0 || count > kMaxParts) {
    return MakeError(ErrorCode::kDataLoss, fmt::format("{}: key {}", path, kCount), "{} parts are not possible", count);
  }
  parts.push_back(std::move(first));
  if (count <= 1) return parts;

  DI_RETURN_IF_ERROR(CheckPart(parts[0], 0, count));
  const std::string ending = fmt::format("-{:05}-of-{:05}.gguf", 1, count);
  if (!path.ends_with(ending)) {
    return MakeError(ErrorCode::kInvalidArgument, path, "is the first of {} parts, but its name does not end in {}",
                     count, ending);
  }
  const std::string prefix = path.substr(0, path.size() - ending.size());
  size_t tensors = parts[0].tensors().size();
  for (int64_t number = 1; number < count; ++number) {
    DI_ASSIGN_OR_RETURN(GgufFile part,
                        GgufFile::Open(fmt::format("{}-{:05}-of-{:05}.gguf", prefix, number + 1, count)));
    DI_RETURN_IF_ERROR(CheckPart(part, number, count));
    tensors += part.tensors().size();
    parts.push_back(std::move(part));
  }
  DI_ASSIGN_OR_RETURN(const int64_t said_tensors, parts[0].OptionalInt(kTensors, static_cast<int64_t>(tensors)));
  if (said_tensors != static_cast<int64_t>(tensors)) {
    return MakeError(ErrorCode::kDataLoss, fmt::format("{}: key {}", path, kTensors),
                     "says {} tensors, but the {} parts hold {}", said_tensors, count, tensors);
  }
  return parts;
}

}  // namespace deepinfer::formats
