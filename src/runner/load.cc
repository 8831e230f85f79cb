#include "runner/load.h"

#include <xxhash.h>

#include <algorithm>

#include "base/mapped_file.h"
#include "base/parallel.h"
#include "models/registry.h"
#include "models/synthetic.h"

namespace deepinfer::runner {
namespace {

constexpr char kSyntheticPrefix[] = "synthetic:";

constexpr size_t kAlignment = 64;

// A model and where the bytes of its weights are, as the checkpoint has them.
struct OpenedModel {
  LoadedModel loaded;  // without weights and types
  std::vector<backend::WeightData> sources;
};

Result<OpenedModel> OpenSynthetic(const std::string& path) {
  DI_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  DI_ASSIGN_OR_RETURN(std::unique_ptr<models::SyntheticModel> model, models::SyntheticModel::Open(path));
  OpenedModel opened;
  opened.loaded.fingerprint = fmt::format("synthetic-{:016x}", XXH3_64bits(file.bytes().data(), file.bytes().size()));
  for (const models::GeneratedWeight& weight : model->GeneratedWeights()) {
    const auto* data = reinterpret_cast<const std::byte*>(weight.values.data());
    opened.sources.push_back({weight.spec.name, Encoding::kF32, weight.spec.shape, data});
  }
  opened.loaded.model = std::move(model);
  return opened;
}

Result<OpenedModel> OpenModel(const std::string& path) {
  if (path.rfind(kSyntheticPrefix, 0) == 0) return OpenSynthetic(path.substr(sizeof(kSyntheticPrefix) - 1));
  DI_ASSIGN_OR_RETURN(formats::Checkpoint checkpoint, formats::Checkpoint::Open(path));
  OpenedModel opened;
  LoadedModel& loaded = opened.loaded;
  loaded.checkpoint = std::make_unique<formats::Checkpoint>(std::move(checkpoint));
  DI_ASSIGN_OR_RETURN(models::LoadedModel described, models::LoadModel(*loaded.checkpoint));
  loaded.model = std::move(described.model);
  loaded.warnings = std::move(described.warnings);
  loaded.fingerprint = loaded.checkpoint->fingerprint();
  for (const models::WeightSpec& spec : loaded.model->Weights()) {
    DI_ASSIGN_OR_RETURN(const formats::CheckpointTensor* tensor,
                        loaded.checkpoint->Get(described.tensors.at(spec.name)));
    opened.sources.push_back({spec.name, *tensor->encoding, spec.shape, tensor->data.data()});
  }
  return opened;
}

Encoding TargetEncoding(const backend::WeightData& source, const backend::Caps& caps, DType activations) {
  const auto reads = [&caps](Encoding encoding) {
    return std::find(caps.encodings.begin(), caps.encodings.end(), encoding) != caps.encodings.end();
  };
  if (source.shape.size() < 2) return Encoding::kF32;
  if (reads(source.encoding)) return source.encoding;
  return activations == DType::kBF16 && reads(Encoding::kBF16) ? Encoding::kBF16 : Encoding::kF32;
}

struct Conversion {
  Encoding from;
  Encoding to;  // f32 or bf16
  int64_t rows;
  int64_t columns;
  const std::byte* source;
  std::byte* destination;
};

void ConvertRows(const Conversion& weight, int64_t begin, int64_t end, std::vector<float>* scratch) {
  const size_t from = RowBytes(weight.from, weight.columns);
  const size_t to = RowBytes(weight.to, weight.columns);
  if (weight.to != Encoding::kF32) scratch->resize(static_cast<size_t>(weight.columns));
  for (int64_t row = begin; row < end; ++row) {
    std::byte* destination = weight.destination + row * to;
    const bool direct = weight.to == Encoding::kF32;
    float* decoded = direct ? reinterpret_cast<float*>(destination) : scratch->data();
    DecodeRow(weight.from, weight.source + row * from, decoded, weight.columns);
    if (!direct) EncodeRow(weight.to, decoded, destination, weight.columns);
  }
}

class Loader {
 public:
  explicit Loader(LoadedModel* loaded) : loaded_(loaded) {}

  Status Add(const backend::WeightData& source, Encoding target) {
    backend::WeightData weight = source;
    // Vectors are copied even if they are f32: mapped bytes need not be aligned.
    if (source.shape.size() < 2 || target != source.encoding) {
      const ir::Type type = ir::Type::Weight(target, source.shape);
      const int64_t columns = source.shape.empty() ? 1 : source.shape.back();
      DI_ASSIGN_OR_RETURN(std::byte * memory, Allocate(source.name, static_cast<size_t>(type.Bytes())));
      conversions_.push_back(
          {source.encoding, target, columns == 0 ? 0 : type.NumElements() / columns, columns, source.data, memory});
      weight.encoding = target;
      weight.data = memory;
    }
    loaded_->weights[source.name] = std::move(weight);
    return {};
  }

  void Convert(int threads) {
    const auto part = [&](int thread) {
      std::vector<float> scratch;
      for (const Conversion& each : conversions_) {
        ConvertRows(each, each.rows * thread / threads, each.rows * (thread + 1) / threads, &scratch);
      }
    };
    ParallelFor(threads, part);
  }

 private:
  Result<std::byte*> Allocate(const std::string& name, size_t bytes) {
    const size_t rounded = std::max<size_t>((bytes + kAlignment - 1) / kAlignment, 1) * kAlignment;
    OwnedBytes memory(static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded)));
    if (memory == nullptr) {
      return MakeError(ErrorCode::kResourceExhausted, "weight " + name, "no memory for {} bytes of it converted",
                       bytes);
    }
    loaded_->converted.push_back(std::move(memory));
    return loaded_->converted.back().get();
  }

  LoadedModel* loaded_;
  std::vector<Conversion> conversions_;
};

void AddTypes(const std::vector<backend::WeightData>& sources, const backend::Caps& caps, DType activations,
              models::WeightTable* types) {
  for (const backend::WeightData& source : sources) {
    types->Add(source.name, ir::Type::Weight(TargetEncoding(source, caps, activations), source.shape));
  }
}

}  // namespace

Result<LoadedModel> DescribeModel(const std::string& path, const backend::Caps& caps, DType activations) {
  DI_ASSIGN_OR_RETURN(OpenedModel opened, OpenModel(path));
  AddTypes(opened.sources, caps, activations, &opened.loaded.types);
  return std::move(opened.loaded);
}

Result<LoadedModel> LoadModel(const std::string& path, const backend::Caps& caps, const LoadOptions& options) {
  DI_ASSIGN_OR_RETURN(OpenedModel opened, OpenModel(path));
  AddTypes(opened.sources, caps, options.activations, &opened.loaded.types);
  Loader loader(&opened.loaded);
  for (const backend::WeightData& source : opened.sources) {
    DI_RETURN_IF_ERROR(loader.Add(source, TargetEncoding(source, caps, options.activations)));
  }
  loader.Convert(std::max(1, options.threads));
  return std::move(opened.loaded);
}

}  // namespace deepinfer::runner
