// The weights and settings of a model, from a GGUF file (or the first part of a split one) or a Hugging Face folder, as
// one list of tensors.
//
// Names and shapes are the file's own. A tensor that this program cannot read is an error only when it is asked for.
// Which tensors were asked for is recorded, so that a loader can refuse a file with tensors left over. Tensor data is
// mapped, not read, and has no alignment. The codes and scales that a quantised folder keeps in tensors of their own
// are one tensor here, under the name of the weight they stand for (quantised_tensors.h), and so are the matrices of a
// layer's experts (expert_tensors.h). Move-only. Thread-safe after Open, Get and MarkUsed included.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "formats/checkpoint_tensor.h"
#include "formats/gguf.h"
#include "formats/hf_config.h"
#include "formats/safetensors.h"

namespace deepinfer::formats {

enum class CheckpointKind { kGguf, kHf };
const char* ToString(CheckpointKind kind);  // "gguf" "hf"

class Checkpoint {
 public:
  static Result<Checkpoint> Open(const std::string& path);

  CheckpointKind kind() const { return kind_; }
  const std::string& path() const { return path_; }
  // The weight files, in order.
  const std::vector<std::string>& files() const { return files_; }
  // Hash, as 32 hex digits, over every weight file's name, header, size, time of change and inode, and over the
  // configs.
  const std::string& fingerprint() const { return fingerprint_; }

  // The GGUF file with the metadata (null for a folder), and the folder's config (null for a GGUF file).
  const GgufFile* gguf() const { return gguf_parts_.empty() ? nullptr : &gguf_parts_.front(); }
  const HfConfig* config() const { return config_ ? &*config_ : nullptr; }

  const std::vector<CheckpointTensor>& tensors() const { return tensors_; }
  // Marks nothing; null if missing.
  const CheckpointTensor* Find(std::string_view name) const;
  // The tensor, marked as used. Fails if it is missing, of a type that cannot be read, or empty.
  Result<const CheckpointTensor*> Get(std::string_view name) const;
  // For tensors that a loader knows and rightly leaves out. False if there is no such tensor.
  bool MarkUsed(std::string_view name) const;
  std::vector<std::string> UnusedTensors() const;

 private:
  Status OpenGguf();
  Status OpenFolder();
  Status AddTensor(CheckpointTensor tensor);
  Status ComputeFingerprint();

  CheckpointKind kind_ = CheckpointKind::kGguf;
  std::string path_;
  std::vector<std::string> files_;
  std::string fingerprint_;
  std::vector<GgufFile> gguf_parts_;
  std::optional<SafetensorsFolder> folder_;
  std::optional<HfConfig> config_;
  std::vector<CheckpointTensor> tensors_;
  std::map<std::string, size_t, std::less<>> index_;
  std::unique_ptr<std::atomic<bool>[]> used_;  // by place in tensors_
};

}  // namespace deepinfer::formats
