#include "runner/quantise.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "base/parallel.h"
#include "formats/checkpoint.h"
#include "formats/gguf_writer.h"
#include "models/gguf_export.h"
#include "models/registry.h"
#include "runner/quantised_type.h"

namespace deepinfer::runner {
namespace {

constexpr int64_t kPieceElements = int64_t{4} << 20;  // decoded at once: 16 MB

// A tensor of the new file. Vectors are columns of one value.
struct Plan {
  const formats::CheckpointTensor* source;
  models::GgufTensorForm form;
  Encoding to;

  int64_t columns() const { return source->shape.size() < 2 ? 1 : source->shape.back(); }
  int64_t rows() const {
    int64_t rows = 1;
    for (const int64_t size : source->shape) rows *= size;
    return rows / columns();
  }
  bool IsCopy() const {
    return *source->encoding == to && !source->rows && form.interleaved_heads == 0 && form.offset == 0;
  }
  // The source's row that becomes `row`.
  int64_t SourceRow(int64_t row) const {
    if (form.interleaved_heads == 0) return row;
    const int64_t within = row % (rows() / form.interleaved_heads);
    if (within >= form.rotated) return row;
    return row - within + within % 2 * (form.rotated / 2) + within / 2;
  }
};

// Decodes rows [begin, end) of the new tensor and encodes them again.
void ConvertRows(const Plan& plan, int64_t begin, int64_t end, std::byte* out) {
  const formats::CheckpointTensor& source = *plan.source;
  const Encoding from = *source.encoding;
  const int64_t columns = plan.columns();
  const size_t from_bytes = RowBytes(from, columns), to_bytes = RowBytes(plan.to, columns);
  std::vector<std::byte> made(source.rows ? from_bytes : 0);
  std::vector<float> values(static_cast<size_t>(columns));
  for (int64_t row = begin; row < end; ++row, out += to_bytes) {
    const int64_t source_row = plan.SourceRow(row);
    if (source.rows) source.rows(source_row, source_row + 1, made.data());
    const std::byte* bytes = source.rows ? made.data() : source.data.data() + source_row * from_bytes;
    DecodeRow(from, bytes, values.data(), columns);
    if (source.order != nullptr) {
      const std::vector<float> ordered = values;
      for (size_t i = 0; i < ordered.size(); ++i) values[static_cast<size_t>((*source.order)[i])] = ordered[i];
    }
    for (float& value : values) value += plan.form.offset;
    EncodeRow(plan.to, values.data(), out, columns);
  }
}

Status WriteTensor(const Plan& plan, const QuantiseOptions& options, const formats::GgufWriter::Sink& sink) {
  const formats::CheckpointTensor& source = *plan.source;
  const auto note = [&](size_t bytes) {
    if (options.progress) options.progress(static_cast<int64_t>(bytes));
  };
  if (plan.IsCopy()) {
    DI_RETURN_IF_ERROR(sink(source.data));
    note(source.data.size());
    return {};
  }
  const int64_t rows = plan.rows();
  const int64_t step = std::max<int64_t>(kPieceElements / plan.columns(), 1);
  const size_t from_bytes = RowBytes(*source.encoding, plan.columns()), to_bytes = RowBytes(plan.to, plan.columns());
  std::vector<std::byte> piece;
  for (int64_t row = 0; row < rows; row += step) {
    const int64_t count = std::min(step, rows - row);
    piece.resize(static_cast<size_t>(count) * to_bytes);
    const int threads = std::max(options.threads, 1);
    ParallelFor(threads, [&](int part) {
      const int64_t begin = count * part / threads, end = count * (part + 1) / threads;
      ConvertRows(plan, row + begin, row + end, piece.data() + static_cast<size_t>(begin) * to_bytes);
    });
    DI_RETURN_IF_ERROR(sink(piece));
    note(static_cast<size_t>(count) * from_bytes);
  }
  return {};
}

// The numbers of general.file_type, by what most matrices are.
uint32_t FileTypeOf(Encoding type) {
  constexpr std::pair<Encoding, uint32_t> kNumbers[] = {
      {Encoding::kF32, 0},     {Encoding::kF16, 1},     {Encoding::kQ4_0, 2},  {Encoding::kQ4_1, 3},
      {Encoding::kQ8_0, 7},    {Encoding::kQ5_0, 8},    {Encoding::kQ5_1, 9},  {Encoding::kQ2_K, 10},
      {Encoding::kQ3_K, 11},   {Encoding::kQ4_K, 14},   {Encoding::kQ5_K, 16}, {Encoding::kQ6_K, 18},
      {Encoding::kIQ4_NL, 25}, {Encoding::kIQ4_XS, 30}, {Encoding::kBF16, 32}, {Encoding::kMXFP4, 38}};
  for (const auto& [encoding, number] : kNumbers) {
    if (encoding == type) return number;
  }
  return 0;
}

// What a new file says itself, and what only parts of a split file have.
bool IsCopied(std::string_view key) {
  return key != "general.alignment" && key != "general.file_type" && key != "general.quantization_version" &&
         !key.starts_with("split.");
}

// What the file is made from.
struct Input {
  formats::Checkpoint checkpoint;
  models::LoadedModel model;
  formats::CheckpointTensor rope_factors;  // not of the checkpoint
  std::vector<float> rope_values;
};

Result<std::vector<Plan>> PlanGguf(const Input& input, Encoding type) {
  const formats::Checkpoint& checkpoint = input.checkpoint;
  const std::string head = checkpoint.Find("output.weight") != nullptr ? "output.weight" : "token_embd.weight";
  std::vector<Plan> plans;
  for (const formats::CheckpointTensor& tensor : checkpoint.tensors()) {
    DI_RETURN_IF_ERROR(checkpoint.Get(tensor.name));
    models::GgufTensorForm form;
    form.name = tensor.name;
    plans.push_back({&tensor, std::move(form), QuantisedType(type, tensor.shape, tensor.name == head)});
  }
  return plans;
}

Result<std::vector<Plan>> PlanHf(Input* input, Encoding type) {
  const models::Model& model = *input->model.model;
  const bool tied = input->model.tensors.count("lm_head.weight") == 0;
  const std::string head = tied ? "model.embed_tokens.weight" : "lm_head.weight";
  std::vector<Plan> plans;
  for (const models::WeightSpec& weight : model.Weights()) {
    DI_ASSIGN_OR_RETURN(const formats::CheckpointTensor* tensor,
                        input->checkpoint.Get(input->model.tensors.at(weight.name)));
    DI_ASSIGN_OR_RETURN(models::GgufTensorForm form, models::GgufFormOf(model, weight.name));
    plans.push_back({tensor, std::move(form), QuantisedType(type, weight.shape, weight.name == head)});
  }
  DI_ASSIGN_OR_RETURN(input->rope_values, models::GgufRopeFactors(model));
  if (input->rope_values.empty()) return plans;
  input->rope_factors.encoding = Encoding::kF32;
  input->rope_factors.type_name = "f32";
  input->rope_factors.shape = {static_cast<int64_t>(input->rope_values.size())};
  input->rope_factors.data = std::as_bytes(std::span(input->rope_values));
  models::GgufTensorForm form;
  form.name = "rope_freqs.weight";
  plans.push_back({&input->rope_factors, std::move(form), Encoding::kF32});
  return plans;
}

Status AddMetadata(const Input& input, const QuantiseOptions& options, formats::GgufWriter* writer,
                   QuantiseReport* report) {
  const formats::Checkpoint& checkpoint = input.checkpoint;
  if (checkpoint.gguf() != nullptr) {
    for (const formats::GgufRawPair& pair : checkpoint.gguf()->raw_metadata()) {
      if (IsCopied(pair.key)) writer->AddRawMetadata(pair.key, pair.type, pair.bytes);
    }
  } else {
    const models::Model& model = *input.model.model;
    DI_RETURN_IF_ERROR(models::AddGgufMetadata(model, writer));
    if (options.add_tokenizer) {
      DI_ASSIGN_OR_RETURN(const std::string warning,
                          options.add_tokenizer(model.info().vocab_size, model.info().eos_ids, writer));
      if (!warning.empty()) report->warnings.push_back(warning);
    }
  }
  writer->AddMetadata("general.file_type", FileTypeOf(options.type));
  writer->AddMetadata("general.quantization_version", uint32_t{2});
  return {};
}

Status CheckReadsBack(const Input& input, const std::string& path, const std::string& out) {
  DI_ASSIGN_OR_RETURN(const formats::Checkpoint written, formats::Checkpoint::Open(path));
  DI_ASSIGN_OR_RETURN(const models::LoadedModel read_back, models::LoadModel(written));
  return models::CheckGgufSaysTheSame(*input.model.model, *read_back.model, out);
}

}  // namespace

std::vector<Encoding> QuantiseTypes() {
  std::vector<Encoding> types;
  for (int i = 0; i < kNumEncodings; ++i) {
    if (formats::HasGgufType(static_cast<Encoding>(i))) types.push_back(static_cast<Encoding>(i));
  }
  return types;
}

Result<QuantiseReport> QuantiseModel(const std::string& in, const std::string& out, const QuantiseOptions& options) {
  if (!formats::HasGgufType(options.type)) {
    return MakeError(ErrorCode::kInvalidArgument, out, "GGUF files have no {}", ToString(options.type));
  }
  std::error_code ignored;
  if (std::filesystem::equivalent(in, out, ignored)) {
    return MakeError(ErrorCode::kInvalidArgument, out, "is the input itself");
  }
  Input input;
  DI_ASSIGN_OR_RETURN(input.checkpoint, formats::Checkpoint::Open(in));
  DI_ASSIGN_OR_RETURN(input.model, models::LoadModel(input.checkpoint));
  QuantiseReport report;
  report.warnings = input.model.warnings;
  formats::GgufWriter writer;
  DI_RETURN_IF_ERROR(AddMetadata(input, options, &writer, &report));
  DI_ASSIGN_OR_RETURN(const std::vector<Plan> plans, input.checkpoint.gguf() != nullptr ? PlanGguf(input, options.type)
                                                                                        : PlanHf(&input, options.type));
  for (const Plan& plan : plans) {
    writer.AddTensorFrom(plan.form.name, plan.to, plan.source->shape,
                         [&plan, &options](const auto& sink) { return WriteTensor(plan, options, sink); });
    const int64_t bytes = plan.rows() * static_cast<int64_t>(RowBytes(plan.to, plan.columns()));
    report.tensors.push_back({plan.form.name, plan.source->type_name, plan.to, bytes});
  }
  DI_ASSIGN_OR_RETURN(formats::FileWriter file, formats::FileWriter::Create(out));
  DI_RETURN_IF_ERROR(writer.WriteTo(&file));
  DI_RETURN_IF_ERROR(file.Close());
  DI_RETURN_IF_ERROR(CheckReadsBack(input, file.temporary_path(), out));
  DI_RETURN_IF_ERROR(file.Commit());
  return report;
}

}  // namespace deepinfer::runner
