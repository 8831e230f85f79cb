#include <nlohmann/json.hpp>

#include "formats/byte_cursor.h"
#include "formats/file_writer.h"
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

}  // namespace

Status WriteSafetensors(const std::string& path, std::span<const SafetensorsOutput> tensors) {
  DI_ASSIGN_OR_RETURN(const std::string header, BuildHeader(path, tensors));
  DI_ASSIGN_OR_RETURN(FileWriter file, FileWriter::Create(path));
  const uint64_t length = header.size();
  DI_RETURN_IF_ERROR(file.Write(std::as_bytes(std::span(&length, 1))));
  DI_RETURN_IF_ERROR(file.Write(std::as_bytes(std::span(header))));
  for (const SafetensorsOutput& tensor : tensors) DI_RETURN_IF_ERROR(file.Write(tensor.data));
  return file.Commit();
}

}  // namespace deepinfer::formats
