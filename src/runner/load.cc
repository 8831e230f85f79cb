#include "runner/load.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "base/mapped_file.h"
#include "base/parallel.h"
#include "models/registry.h"
#include "models/synthetic.h"

namespace deepinfer::runner {
namespace {

constexpr char kSyntheticPrefix[] = "synthetic:";

struct Pending {  // a weight that must be converted to f32
  std::string name;
  Encoding encoding;
  int64_t rows;
  int64_t columns;
  const std::byte* source;
  std::byte* destination;
};

void Convert(const Pending& weight, int64_t row_begin, int64_t row_end) {
  const size_t source_row = RowBytes(weight.encoding, weight.columns);
  for (int64_t row = row_begin; row < row_end; ++row) {
    DecodeRow(weight.encoding, weight.source + row * source_row,
              reinterpret_cast<float*>(weight.destination) + row * weight.columns, weight.columns);
  }
}

void ConvertAll(const std::vector<Pending>& pending, int threads) {
  const auto part = [&](int thread) {
    for (const Pending& weight : pending) {
      Convert(weight, weight.rows * thread / threads, weight.rows * (thread + 1) / threads);
    }
  };
  ParallelFor(threads, part);
}

class Loader {
 public:
  Loader(LoadedModel* loaded, const backend::Caps& caps) : loaded_(loaded), caps_(caps) {}

  void Add(const std::string& name, Encoding encoding, const std::vector<int64_t>& shape, const std::byte* data) {
    backend::WeightData weight{name, encoding, shape, data};
    const bool readable = std::find(caps_.encodings.begin(), caps_.encodings.end(), encoding) != caps_.encodings.end();
    // Vectors are copied even if they are f32: mapped bytes need not be aligned.
    if (shape.size() < 2 || !readable) {
      int64_t elements = 1;
      for (const int64_t size : shape) elements *= size;
      const int64_t columns = shape.empty() ? 1 : shape.back();
      auto memory = std::make_unique<std::vector<std::byte>>(static_cast<size_t>(elements) * sizeof(float));
      pending_.push_back({name, encoding, columns == 0 ? 0 : elements / columns, columns, data, memory->data()});
      weight.encoding = Encoding::kF32;
      weight.data = memory->data();
      loaded_->converted.push_back(std::move(memory));
    }
    loaded_->types.Add(name, ir::Type::Weight(weight.encoding, shape));
    loaded_->weights[name] = std::move(weight);
  }

  void Finish(int threads) { ConvertAll(pending_, std::max(1, threads)); }

 private:
  LoadedModel* loaded_;
  const backend::Caps& caps_;
  std::vector<Pending> pending_;
};

Result<LoadedModel> LoadSynthetic(const std::string& path, const backend::Caps& caps) {
  DI_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  DI_ASSIGN_OR_RETURN(std::unique_ptr<models::SyntheticModel> model, models::SyntheticModel::Open(path));
  LoadedModel loaded;
  loaded.fingerprint = fmt::format("synthetic-{:016x}", XXH3_64bits(file.bytes().data(), file.bytes().size()));
  Loader loader(&loaded, caps);
  for (const models::GeneratedWeight& weight : model->GeneratedWeights()) {
    const auto* data = reinterpret_cast<const std::byte*>(weight.values.data());
    loader.Add(weight.spec.name, Encoding::kF32, weight.spec.shape, data);
  }
  loader.Finish(1);
  loaded.model = std::move(model);
  return loaded;
}

}  // namespace

Result<LoadedModel> LoadModel(const std::string& path, const backend::Caps& caps, int threads) {
  if (path.rfind(kSyntheticPrefix, 0) == 0) return LoadSynthetic(path.substr(sizeof(kSyntheticPrefix) - 1), caps);
  DI_ASSIGN_OR_RETURN(formats::Checkpoint opened, formats::Checkpoint::Open(path));
  LoadedModel loaded;
  loaded.checkpoint = std::make_unique<formats::Checkpoint>(std::move(opened));
  DI_ASSIGN_OR_RETURN(models::LoadedModel described, models::LoadModel(*loaded.checkpoint));
  loaded.model = std::move(described.model);
  loaded.warnings = std::move(described.warnings);
  loaded.fingerprint = loaded.checkpoint->fingerprint();
  Loader loader(&loaded, caps);
  for (const models::WeightSpec& spec : loaded.model->Weights()) {
    DI_ASSIGN_OR_RETURN(const formats::CheckpointTensor* tensor,
                        loaded.checkpoint->Get(described.tensors.at(spec.name)));
    loader.Add(spec.name, *tensor->encoding, spec.shape, tensor->data.data());
  }
  loader.Finish(threads);
  return loaded;
}

}  // namespace deepinfer::runner
