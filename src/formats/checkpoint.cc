#include "formats/checkpoint.h"

#include <sys/stat.h>
#include <xxhash.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "formats/byte_cursor.h"
#include "formats/expert_tensors.h"
#include "formats/gguf_check.h"
#include "formats/gguf_split.h"
#include "formats/quantised_tensors.h"

namespace deepinfer::formats {
namespace {

std::string SupportedEncodings() {
  std::string names;
  for (int i = 0; i < kNumEncodings; ++i) {
    names += fmt::format("{}{}", i == 0 ? "" : " ", ToString(static_cast<Encoding>(i)));
  }
  return names;
}

class Hasher {
 public:
  Hasher() : state_(XXH3_createState(), &XXH3_freeState) {
    DI_CHECK(state_ != nullptr);
    XXH3_128bits_reset(state_.get());
  }

  // The length goes in first, so that no two sequences of pieces hash the same bytes.
  void Add(const void* data, size_t size) {
    const uint64_t length = size;
    XXH3_128bits_update(state_.get(), &length, sizeof(length));
    if (size > 0) XXH3_128bits_update(state_.get(), data, size);
  }

  // The file's name and what the file system says of it.
  Status AddFile(const std::string& path, std::span<const std::byte> header) {
    struct stat info{};
    if (::stat(path.c_str(), &info) != 0) return MakeError(ErrorCode::kNotFound, path, "{}", std::strerror(errno));
    const std::string name = std::filesystem::path(path).filename().string();
    const int64_t numbers[] = {static_cast<int64_t>(info.st_size), static_cast<int64_t>(info.st_mtim.tv_sec),
                               static_cast<int64_t>(info.st_mtim.tv_nsec), static_cast<int64_t>(info.st_ino)};
    Add(name.data(), name.size());
    Add(numbers, sizeof(numbers));
    Add(header.data(), header.size());
    return {};
  }

  std::string Hex() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(state_.get());
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
  }

 private:
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state_;
};

}  // namespace

const char* ToString(CheckpointKind kind) {
  return kind == CheckpointKind::kGguf ? "gguf" : "hf";
}

Result<Checkpoint> Checkpoint::Open(const std::string& path) {
  Checkpoint checkpoint;
  checkpoint.path_ = path;
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    checkpoint.kind_ = CheckpointKind::kHf;
    DI_RETURN_IF_ERROR(checkpoint.OpenFolder());
  } else {
    DI_RETURN_IF_ERROR(checkpoint.OpenGguf());
  }
  checkpoint.used_ = std::make_unique<std::atomic<bool>[]>(checkpoint.tensors_.size());
  DI_RETURN_IF_ERROR(checkpoint.ComputeFingerprint());
  return checkpoint;
}

Status Checkpoint::OpenGguf() {
  if (path_.ends_with(".safetensors")) {
    return MakeError(ErrorCode::kInvalidArgument, path_, "give the folder with config.json, not its weight file");
  }
  DI_ASSIGN_OR_RETURN(gguf_parts_, OpenGgufParts(path_));
  DI_RETURN_IF_ERROR(CheckGgufVocabulary(gguf_parts_.front()));
  for (const GgufFile& part : gguf_parts_) {
    files_.push_back(part.path());
    for (const GgufTensor& tensor : part.tensors()) {
      CheckpointTensor added{tensor.name, tensor.encoding, "", tensor.shape, tensor.data, part.path(), {}};
      if (tensor.unsupported_type != nullptr) added.encoding = std::nullopt;
      added.type_name = tensor.unsupported_type != nullptr ? tensor.unsupported_type : ToString(tensor.encoding);
      DI_RETURN_IF_ERROR(AddTensor(std::move(added)));
    }
  }
  return {};
}

Status Checkpoint::OpenFolder() {
  DI_ASSIGN_OR_RETURN(config_, HfConfig::Open(path_));
  DI_ASSIGN_OR_RETURN(folder_, SafetensorsFolder::Open(path_));
  DI_ASSIGN_OR_RETURN(const QuantisationConfig quantisation, ReadQuantisation(*config_));
  std::vector<CheckpointTensor> tensors;
  for (const SafetensorsFile& file : folder_->files()) {
    files_.push_back(file.path());
    for (const SafetensorsTensor& tensor : file.tensors()) {
      tensors.push_back({tensor.name, tensor.encoding, tensor.dtype_name, tensor.shape, tensor.data, file.path(), {}});
    }
  }
  DI_ASSIGN_OR_RETURN(tensors, AssembleQuantised(quantisation, std::move(tensors)));
  DI_ASSIGN_OR_RETURN(tensors, JoinExperts(std::move(tensors)));
  for (CheckpointTensor& tensor : tensors) DI_RETURN_IF_ERROR(AddTensor(std::move(tensor)));
  return {};
}

Status Checkpoint::AddTensor(CheckpointTensor tensor) {
  if (!index_.emplace(tensor.name, tensors_.size()).second) {
    return MakeError(ErrorCode::kDataLoss, fmt::format("{}: tensor {}", tensor.file, Printable(tensor.name)),
                     "another file has a tensor of this name");
  }
  tensors_.push_back(std::move(tensor));
  return {};
}

Status Checkpoint::ComputeFingerprint() {
  Hasher hasher;
  for (const GgufFile& part : gguf_parts_) DI_RETURN_IF_ERROR(hasher.AddFile(part.path(), part.header_bytes()));
  if (folder_) {
    for (const SafetensorsFile& file : folder_->files()) {
      DI_RETURN_IF_ERROR(hasher.AddFile(file.path(), file.header_bytes()));
    }
  }
  if (config_) {
    const std::string text = config_->root().object().dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    hasher.Add(text.data(), text.size());
    hasher.Add(config_->eos_ids().data(), config_->eos_ids().size() * sizeof(int64_t));
  }
  fingerprint_ = hasher.Hex();
  return {};
}

const CheckpointTensor* Checkpoint::Find(std::string_view name) const {
  const auto it = index_.find(name);
  return it == index_.end() ? nullptr : &tensors_[it->second];
}

Result<const CheckpointTensor*> Checkpoint::Get(std::string_view name) const {
  const CheckpointTensor* tensor = Find(name);
  if (tensor == nullptr) {
    return MakeError(ErrorCode::kNotFound, fmt::format("{}: tensor {}", path_, Printable(name)),
                     "the checkpoint does not have it");
  }
  const std::string where = fmt::format("{}: tensor {}", tensor->file, Printable(name));
  if (!tensor->encoding) {
    return MakeError(ErrorCode::kUnsupported, where, "its type {} is not supported; supported are: {}",
                     tensor->type_name, SupportedEncodings());
  }
  if (tensor->data.empty() && !tensor->rows) return MakeError(ErrorCode::kDataLoss, where, "it has no elements");
  MarkUsed(name);
  return tensor;
}

bool Checkpoint::MarkUsed(std::string_view name) const {
  const auto it = index_.find(name);
  if (it == index_.end()) return false;
  used_[it->second].store(true, std::memory_order_relaxed);
  return true;
}

std::vector<std::string> Checkpoint::UnusedTensors() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (!used_[i].load(std::memory_order_relaxed)) names.push_back(tensors_[i].name);
  }
  return names;
}

}  // namespace deepinfer::formats
