#include "models/registry.h"

#include <algorithm>
#include <cstring>

#include "models/architectures.h"
#include "models/decoder_model.h"
#include "models/tensor_names.h"

namespace deepinfer::models {
namespace {

// One row per architecture.
const Architecture* const kArchitectures[] = {&kLlama, &kQwen2, &kQwen3, &kQwen3Moe, &kGemma3};

constexpr size_t kNamesShown = 4;

bool Contains(const std::vector<std::string_view>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

tl::unexpected<Error> Unsupported(std::string where, const std::string& name) {
  return MakeError(ErrorCode::kUnsupported, std::move(where), "architecture '{}' is not supported; supported are: {}",
                   name, SupportedArchitectures());
}

Result<const Architecture*> FindHf(const formats::HfConfig& config) {
  const std::string& name = config.architecture();
  for (const Architecture* row : kArchitectures) {
    if (name.empty() ? Contains(row->hf_model_types, config.model_type()) : Contains(row->hf_architectures, name)) {
      return row;
    }
  }
  return Unsupported(config.root().where(), name.empty() ? config.model_type() : name);
}

Result<const Architecture*> FindGguf(const formats::GgufFile& file) {
  DI_ASSIGN_OR_RETURN(const std::string name, file.RequiredString("general.architecture"));
  for (const Architecture* row : kArchitectures) {
    if (name == row->name) return row;
  }
  return Unsupported(file.path(), name);
}

// Canonical names to the checkpoint's own.
Result<std::map<std::string, std::string>> NameTensors(const formats::Checkpoint& checkpoint,
                                                       const std::string& architecture) {
  std::map<std::string, std::string> names;
  for (const formats::CheckpointTensor& tensor : checkpoint.tensors()) {
    std::string name = checkpoint.kind() == formats::CheckpointKind::kGguf ? CanonicalName(architecture, tensor.name)
                                                                           : CanonicalHfName(tensor.name);
    const auto [it, is_new] = names.emplace(std::move(name), tensor.name);
    if (!is_new) {
      return MakeError(ErrorCode::kInvalidArgument, fmt::format("{}: tensor {}", tensor.file, tensor.name),
                       "is the same weight as {}", it->second);
    }
  }
  return names;
}

// What people find in the file, then the canonical name where that is another one.
std::string FullName(const formats::Checkpoint& checkpoint, const Model& model, const std::string& weight) {
  if (checkpoint.kind() != formats::CheckpointKind::kGguf) return weight;
  const std::string own = GgufName(model.info().architecture, weight);
  return own == weight ? weight : fmt::format("{} ({})", own, weight);
}

// The matrices of a layer's experts, one after the other, are one matrix of the graph.
std::vector<int64_t> ShapeInGraph(const formats::CheckpointTensor& tensor, const WeightSpec& weight) {
  const std::vector<int64_t>& own = tensor.shape;
  const bool experts = weight.name.find(".experts.") != std::string::npos;
  return experts && own.size() == 3 ? std::vector<int64_t>{own[0] * own[1], own[2]} : own;
}

Status BindWeights(const formats::Checkpoint& checkpoint, const std::map<std::string, std::string>& names,
                   LoadedModel* loaded) {
  for (const WeightSpec& weight : loaded->model->Weights()) {
    const auto it = names.find(weight.name);
    if (it == names.end()) {
      return MakeError(
          ErrorCode::kNotFound,
          fmt::format("{}: tensor {}", checkpoint.path(), FullName(checkpoint, *loaded->model, weight.name)),
          "the model needs it; the checkpoint does not have it");
    }
    DI_ASSIGN_OR_RETURN(const formats::CheckpointTensor* tensor, checkpoint.Get(it->second));
    if (ShapeInGraph(*tensor, weight) != weight.shape) {
      return MakeError(ErrorCode::kInvalidArgument, fmt::format("{}: tensor {}", tensor->file, tensor->name),
                       "its shape is [{}]; the config wants [{}]", fmt::join(tensor->shape, ","),
                       fmt::join(weight.shape, ","));
    }
    loaded->tensors[weight.name] = it->second;
  }
  return {};
}

// A head that is stored although the config ties it: the config's word counts.
void CheckTiedHead(const formats::Checkpoint& checkpoint, const std::map<std::string, std::string>& names,
                   LoadedModel* loaded) {
  const auto head = names.find("lm_head.weight");
  if (head == names.end() || loaded->tensors.count("lm_head.weight") != 0) return;
  checkpoint.MarkUsed(head->second);
  const formats::CheckpointTensor* a = checkpoint.Find(head->second);
  const formats::CheckpointTensor* b = checkpoint.Find(loaded->tensors.at("model.embed_tokens.weight"));
  const bool equal = !a->rows && !b->rows && a->encoding == b->encoding && a->shape == b->shape &&
                     a->data.size() == b->data.size() &&
                     std::memcmp(a->data.data(), b->data.data(), a->data.size()) == 0;
  if (equal) return;
  loaded->warnings.push_back(fmt::format(
      "{}: tensor {}: differs from the embeddings, but the config ties the two: it is not used", a->file, a->name));
}

// Writers of quantised checkpoints give projections biases that the model does not have.
bool IsBiasOfZeros(const formats::Checkpoint& checkpoint, const std::string& name) {
  if (!name.ends_with(".bias")) return false;
  const formats::CheckpointTensor* weight = checkpoint.Find(name.substr(0, name.size() - 4) + "weight");
  if (weight == nullptr || !weight->rows) return false;
  const std::span<const std::byte> data = checkpoint.Find(name)->data;
  return std::all_of(data.begin(), data.end(), [](std::byte byte) { return byte == std::byte{0}; });
}

Status CheckLeftovers(const formats::Checkpoint& checkpoint, LoadedModel* loaded) {
  const formats::HfConfig* config = checkpoint.config();
  const bool multimodal = config != nullptr && config->architecture() == "Gemma3ForConditionalGeneration";
  std::vector<std::string> unread;
  size_t vision = 0;
  for (const std::string& name : checkpoint.UnusedTensors()) {
    const bool is_vision = multimodal && IsVisionTensor(name);
    if (is_vision) ++vision;
    if (is_vision || IsIgnorable(name) || IsBiasOfZeros(checkpoint, name)) {
      checkpoint.MarkUsed(name);
    } else {
      unread.push_back(name);
    }
  }
  if (vision > 0) {
    loaded->warnings.push_back(fmt::format("{}: {} tensors of the image part are not used: the model takes text only",
                                           checkpoint.path(), vision));
  }
  if (unread.empty()) return {};
  const size_t shown = std::min(unread.size(), kNamesShown);
  return MakeError(ErrorCode::kUnsupported, checkpoint.path(), "the model does not read {} of the file's tensors: {}{}",
                   unread.size(), fmt::join(unread.begin(), unread.begin() + shown, ", "),
                   unread.size() > shown ? ", ..." : "");
}

}  // namespace

std::string SupportedArchitectures() {
  std::vector<std::string> names;
  for (const Architecture* row : kArchitectures) names.push_back(row->name);
  return fmt::format("{}", fmt::join(names, ", "));
}

Result<std::unique_ptr<Model>> CreateModel(const formats::HfConfig& config) {
  DI_ASSIGN_OR_RETURN(const Architecture* row, FindHf(config));
  DI_ASSIGN_OR_RETURN(DecoderConfig decoder, row->from_hf(config));
  return DecoderModel::Create(std::move(decoder), row->layer, config.root().where());
}

Result<std::unique_ptr<Model>> CreateModel(const formats::Checkpoint& checkpoint) {
  if (checkpoint.config() != nullptr) return CreateModel(*checkpoint.config());
  DI_ASSIGN_OR_RETURN(const Architecture* row, FindGguf(*checkpoint.gguf()));
  DI_ASSIGN_OR_RETURN(DecoderConfig decoder, row->from_gguf(checkpoint));
  return DecoderModel::Create(std::move(decoder), row->layer, checkpoint.path());
}

Result<LoadedModel> LoadModel(const formats::Checkpoint& checkpoint) {
  LoadedModel loaded;
  DI_ASSIGN_OR_RETURN(loaded.model, CreateModel(checkpoint));
  DI_ASSIGN_OR_RETURN(const auto names, NameTensors(checkpoint, loaded.model->info().architecture));
  DI_RETURN_IF_ERROR(BindWeights(checkpoint, names, &loaded));
  CheckTiedHead(checkpoint, names, &loaded);
  DI_RETURN_IF_ERROR(CheckLeftovers(checkpoint, &loaded));
  return loaded;
}

}  // namespace deepinfer::models
