#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "formats/byte_cursor.h"
#include "formats/safetensors.h"
#include "formats/safetensors_dtype.h"

namespace deepinfer::formats {
namespace {

Result<std::string> BuildHeader(const std::string& path, std::span<const SafetensorsOutput> tensors) {
  nlohmann::json header = nlohmann::json::object();
  uint64_t offset = 0;
  for (const SafetensorsOutput& tensor : tensors) {
    const std::string where = fmt::format("{}: tensor {}", path, Printable(tensor.name));
    const SafetensorsDType* dtype = FindSafetensorsDType(tensor.dtype);
    if (dtype == nullptr) {
      return MakeError(ErrorCode::kUnsupported, where, "the format has no {}", ToString(tensor.dtype));
    }
    std::optional<int64_t> bytes = static_cast<int64_t>(SizeOf(tensor.dtype));
    for (int64_t size : tensor.shape) {
      if (bytes) bytes = CheckedMultiply(*bytes, size);
    }
    if (!bytes || static_cast<uint64_t>(*bytes) != tensor.data.size()) {
      return MakeError(ErrorCode::kInvalidArgument, where, "its shape does not match its {} bytes", tensor.data.size());
    }
    if (tensor.name.empty() || tensor.name == "__metadata__" || header.contains(tensor.name)) {
      return MakeError(ErrorCode::kInvalidArgument, where, "the name is empty, reserved or used twice");
    }
    const uint64_t end = offset + tensor.data.size();
    header[tensor.name] = {{"dtype", dtype->name}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data starts aligned
  return text;
}

Status WriteAll(int fd, const void* data, size_t size, const std::string& path) {
  const auto* bytes = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = ::write(fd, bytes, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      return MakeError(ErrorCode::kResourceExhausted, path, "writing failed: {}", std::strerror(errno));
    }
    bytes += written;
    size -= static_cast<size_t>(written);
  }
  return {};
}

Status WriteTo(int fd, const std::string& path, const std::string& header, std::span<const SafetensorsOutput> tensors) {
  const uint64_t length = header.size();
  DI_RETURN_IF_ERROR(WriteAll(fd, &length, sizeof(length), path));
  DI_RETURN_IF_ERROR(WriteAll(fd, header.data(), header.size(), path));
  for (const SafetensorsOutput& tensor : tensors) {
    DI_RETURN_IF_ERROR(WriteAll(fd, tensor.data.data(), tensor.data.size(), path));
  }
  return {};
}

}  // namespace

Status WriteSafetensors(const std::string& path, std::span<const SafetensorsOutput> tensors) {
  DI_ASSIGN_OR_RETURN(const std::string header, BuildHeader(path, tensors));
  const std::string temporary = fmt::format("{}.tmp.{}", path, ::getpid());
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return MakeError(ErrorCode::kInvalidArgument, path, "cannot write: {}", std::strerror(errno));
  Status status = WriteTo(fd, path, header, tensors);
  if (::close(fd) != 0 && status) {
    status = MakeError(ErrorCode::kResourceExhausted, path, "writing failed: {}", std::strerror(errno));
  }
  if (status && ::rename(temporary.c_str(), path.c_str()) != 0) {
    status = MakeError(ErrorCode::kInvalidArgument, path, "cannot rename: {}", std::strerror(errno));
  }
  if (!status) ::unlink(temporary.c_str());
  return status;
}

}  // namespace deepinfer::formats
