#include "runner/load.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "base/mapped_file.h"
#include "base/parallel.h"
#include "models/registry.h"
#include "models/synthetic.h"
#include "runner/quantised_type.h"

namespace deepinfer::runner {
namespace {

constexpr char kSyntheticPrefix[] = "synthetic:";

constexpr size_t kAlignment = 64;

// A weight as the checkpoint has it, and how ranks share it.
struct Source {
  backend::WeightData whole;
  models::WeightShard shard;
};

// A model and where the bytes of its weights are.
struct OpenedModel {
  LoadedModel loaded;  // without weights and types
  std::vector<Source> sources;
};

Result<OpenedModel> OpenSynthetic(const std::string& path) {
  DI_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  DI_ASSIGN_OR_RETURN(std::unique_ptr<models::SyntheticModel> model, models::SyntheticModel::Open(path));
  OpenedModel opened;
  opened.loaded.fingerprint = fmt::format("synthetic-{:016x}", XXH3_64bits(file.bytes().data(), file.bytes().size()));
  for (const models::GeneratedWeight& weight : model->GeneratedWeights()) {
    const auto* data = reinterpret_cast<const std::byte*>(weight.values.data());
    opened.sources.push_back({{weight.spec.name, Encoding::kF32, weight.spec.shape, data, {}, {}, {}}, {}});
  }
  opened.loaded.model = std::move(model);
  return opened;
}

Result<OpenedModel> OpenCheckpoint(const std::string& path) {
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
    opened.sources.push_back(
        {{spec.name, *tensor->encoding, spec.shape, tensor->data.data(), {}, tensor->rows, tensor->order}, {}});
  }
  return opened;
}

// Rows of plain floats, quantised when they are asked for.
RowReader QuantisedRows(Encoding from, const std::byte* data, int64_t columns, Encoding to) {
  return [=](int64_t begin, int64_t end, std::byte* out) {
    std::vector<float> values(static_cast<size_t>(columns));
    const size_t from_bytes = RowBytes(from, columns), to_bytes = RowBytes(to, columns);
    for (int64_t row = begin; row < end; ++row, out += to_bytes) {
      DecodeRow(from, data + static_cast<size_t>(row) * from_bytes, values.data(), columns);
      EncodeRow(to, values.data(), out, columns);
    }
  };
}

void Quantise(Encoding type, OpenedModel* opened) {
  const auto is_head = [](const Source& source) { return source.whole.name == "lm_head.weight"; };
  const bool tied = std::none_of(opened->sources.begin(), opened->sources.end(), is_head);
  bool any = false;
  for (Source& source : opened->sources) {
    backend::WeightData& whole = source.whole;
    if (whole.shape.size() < 2 || IsQuantised(whole.encoding) || whole.rows) continue;
    const bool head = is_head(source) || (tied && whole.name == "model.embed_tokens.weight");
    const Encoding to = QuantisedType(type, whole.shape, head);
    if (!IsQuantised(to)) continue;
    whole.rows = QuantisedRows(whole.encoding, whole.data, whole.shape.back(), to);
    whole.encoding = to;
    whole.data = nullptr;
    any = true;
  }
  opened->loaded.fingerprint += fmt::format("-{}", ToString(type));
  if (!any) opened->loaded.warnings.push_back("no matrix is quantised: none is of plain floats with whole blocks");
}

Result<OpenedModel> OpenModel(const std::string& path, int64_t ranks, const LoadOptions& options) {
  const bool synthetic = path.rfind(kSyntheticPrefix, 0) == 0;
  DI_ASSIGN_OR_RETURN(OpenedModel opened,
                      synthetic ? OpenSynthetic(path.substr(sizeof(kSyntheticPrefix) - 1)) : OpenCheckpoint(path));
  DI_ASSIGN_OR_RETURN(const std::vector<models::WeightShard> shards, opened.loaded.model->Shards(ranks));
  for (size_t i = 0; i < opened.sources.size(); ++i) opened.sources[i].shard = shards[i];
  if (options.weights) Quantise(*options.weights, &opened);
  return opened;
}

Encoding TargetEncoding(const Source& source, const backend::Caps& caps, DType activations) {
  const auto reads = [&caps](Encoding encoding) {
    return std::find(caps.encodings.begin(), caps.encodings.end(), encoding) != caps.encodings.end();
  };
  const backend::WeightData& whole = source.whole;
  if (whole.shape.size() < 2) return Encoding::kF32;
  const int64_t unit = HasRuns(whole.encoding) ? kRunElements : InfoOf(whole.encoding).block_elements;
  const bool cut = source.shard.dim > 0 && source.shard.ShapeOf(whole.shape).back() % unit != 0;
  const bool reordered = whole.order != nullptr && (!caps.reads_rows || source.shard.dim >= 0);
  if (reads(whole.encoding) && !cut && !reordered) return whole.encoding;
  return activations == DType::kBF16 && reads(Encoding::kBF16) ? Encoding::kBF16 : Encoding::kF32;
}

// Rows to be copied, piece by piece of their columns, in another encoding or in the same one.
struct Conversion {
  Encoding from;
  Encoding to;  // f32 or bf16, or the same
  int64_t rows;
  int64_t columns;
  const std::byte* source;
  RowReader make_rows;  // in place of the source
  InputOrder order;     // that the source's columns have and the pieces' do not
  std::vector<std::byte*> pieces;
};

struct Scratch {
  std::vector<std::byte> made;
  std::vector<float> decoded;
  std::vector<float> ordered;
};

// Decodes a row with its columns in the weight's own order.
void DecodeInOrder(const Conversion& c, const std::byte* source, float* values, std::vector<float>* ordered) {
  if (c.order == nullptr) return DecodeRow(c.from, source, values, c.columns);
  ordered->resize(static_cast<size_t>(c.columns));
  DecodeRow(c.from, source, ordered->data(), c.columns);
  for (size_t i = 0; i < ordered->size(); ++i) values[(*c.order)[i]] = (*ordered)[i];
}

void ConvertRow(const Conversion& c, int64_t row, const std::byte* source, Scratch* scratch) {
  const auto pieces = static_cast<int64_t>(c.pieces.size());
  const int64_t width = c.columns / pieces;
  const size_t bytes = RowBytes(c.to, width);
  if (c.to == Encoding::kF32 && pieces == 1) {
    DecodeInOrder(c, source, reinterpret_cast<float*>(c.pieces[0] + row * bytes), &scratch->ordered);
    return;
  }
  if (c.from != c.to) {
    scratch->decoded.resize(static_cast<size_t>(c.columns));
    DecodeInOrder(c, source, scratch->decoded.data(), &scratch->ordered);
  }
  for (int64_t piece = 0; piece < pieces; ++piece) {
    std::byte* to = c.pieces[piece] + row * bytes;
    if (c.from == c.to) {
      std::memcpy(to, source + piece * bytes, bytes);
    } else {
      EncodeRow(c.to, scratch->decoded.data() + piece * width, to, width);
    }
  }
}

void ConvertRows(const Conversion& c, int64_t begin, int64_t end, Scratch* scratch) {
  constexpr int64_t kMadeAtOnce = 32;
  const size_t row_bytes = RowBytes(c.from, c.columns);
  if (!c.make_rows) {
    for (int64_t row = begin; row < end; ++row) ConvertRow(c, row, c.source + row * row_bytes, scratch);
    return;
  }
  scratch->made.resize(kMadeAtOnce * row_bytes);
  for (int64_t first = begin; first < end; first += kMadeAtOnce) {
    const int64_t last = std::min(first + kMadeAtOnce, end);
    c.make_rows(first, last, scratch->made.data());
    for (int64_t row = first; row < last; ++row) {
      ConvertRow(c, row, scratch->made.data() + (row - first) * row_bytes, scratch);
    }
  }
}

class Loader {
 public:
  Loader(LoadedModel* loaded, const backend::Caps& caps) : loaded_(loaded), caps_(caps) {}

  Status Add(const Source& source, Encoding target) {
    const backend::WeightData& whole = source.whole;
    const models::WeightShard& shard = source.shard;
    backend::WeightData weight = whole;
    weight.encoding = target;
    weight.shape = shard.ShapeOf(whole.shape);
    const int64_t piece_bytes = ir::Type::Weight(target, weight.shape).Bytes();
    std::vector<const std::byte*> pieces = {whole.data};
    const bool made = whole.rows && (!caps_.reads_rows || shard.dim >= 0);
    // Vectors are copied even if they are f32: mapped bytes need not be aligned.
    if (whole.shape.size() < 2 || target != whole.encoding || shard.dim > 0 || made) {
      DI_ASSIGN_OR_RETURN(pieces, Copy(source, target, piece_bytes));
      weight.rows = nullptr;
      weight.order = nullptr;
    }
    if (shard.dim == 0) {  // one piece follows the other
      for (int64_t piece = 1; piece < shard.pieces; ++piece) pieces.push_back(pieces[0] + piece * piece_bytes);
    }
    weight.data = pieces[0];
    if (pieces.size() > 1) {
      for (int64_t rank = 0; rank < caps_.ranks; ++rank) {
        weight.shards.push_back(pieces[shard.PieceOf(rank, caps_.ranks)]);
      }
    }
    loaded_->weights[whole.name] = std::move(weight);
    return {};
  }

  void Convert(int threads) {
    const auto part = [&](int thread) {
      Scratch scratch;
      for (const Conversion& each : conversions_) {
        ConvertRows(each, each.rows * thread / threads, each.rows * (thread + 1) / threads, &scratch);
      }
    };
    ParallelFor(threads, part);
  }

 private:
  // Memory for all pieces: one part for each where columns are divided, else one for all.
  Result<std::vector<const std::byte*>> Copy(const Source& source, Encoding target, int64_t piece_bytes) {
    const backend::WeightData& whole = source.whole;
    const bool by_columns = source.shard.dim > 0;
    const int64_t columns = whole.shape.empty() ? 1 : whole.shape.back();
    const int64_t elements = ir::Type::Weight(Encoding::kF32, whole.shape).NumElements();
    Conversion conversion{whole.encoding, target,     columns == 0 ? 0 : elements / columns,
                          columns,        whole.data, whole.rows,
                          whole.order,    {}};
    std::vector<const std::byte*> pieces;
    for (int64_t i = 0; i < (by_columns ? source.shard.pieces : 1); ++i) {
      DI_ASSIGN_OR_RETURN(std::byte * memory,
                          Allocate(whole.name, by_columns ? piece_bytes : piece_bytes * source.shard.pieces));
      conversion.pieces.push_back(memory);
      pieces.push_back(memory);
    }
    conversions_.push_back(std::move(conversion));
    return pieces;
  }

  Result<std::byte*> Allocate(const std::string& name, int64_t bytes) {
    const size_t rounded = std::max<size_t>((static_cast<size_t>(bytes) + kAlignment - 1) / kAlignment, 1) * kAlignment;
    OwnedBytes memory(static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded)));
    if (memory == nullptr) {
      return MakeError(ErrorCode::kResourceExhausted, "weight " + name, "no memory for a copy of {} bytes", bytes);
    }
    loaded_->converted.push_back(std::move(memory));
    return loaded_->converted.back().get();
  }

  LoadedModel* loaded_;
  const backend::Caps& caps_;
  std::vector<Conversion> conversions_;
};

// Of every rank.
std::vector<models::WeightTable> TypesOf(const std::vector<Source>& sources, const backend::Caps& caps,
                                         DType activations) {
  models::WeightTable types;
  for (const Source& source : sources) {
    const Encoding encoding = TargetEncoding(source, caps, activations);
    types.Add(source.whole.name, ir::Type::Weight(encoding, source.shard.ShapeOf(source.whole.shape)));
  }
  return std::vector<models::WeightTable>(static_cast<size_t>(caps.ranks), types);
}

}  // namespace

Result<LoadedModel> DescribeModel(const std::string& path, const backend::Caps& caps, const LoadOptions& options) {
  DI_ASSIGN_OR_RETURN(OpenedModel opened, OpenModel(path, caps.ranks, options));
  opened.loaded.types = TypesOf(opened.sources, caps, options.activations);
  return std::move(opened.loaded);
}

Result<LoadedModel> LoadModel(const std::string& path, const backend::Caps& caps, const LoadOptions& options) {
  DI_ASSIGN_OR_RETURN(OpenedModel opened, OpenModel(path, caps.ranks, options));
  opened.loaded.types = TypesOf(opened.sources, caps, options.activations);
  Loader loader(&opened.loaded, caps);
  for (const Source& source : opened.sources) {
    DI_RETURN_IF_ERROR(loader.Add(source, TargetEncoding(source, caps, options.activations)));
  }
  loader.Convert(std::max(1, options.threads));
  return std::move(opened.loaded);
}

}  // namespace deepinfer::runner
