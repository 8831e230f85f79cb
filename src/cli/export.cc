// export: one graph of a model as a file that another compiler reads. Nothing is compiled and no weight is read.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>

#include "cli/command.h"
#include "cli/output.h"

namespace deepinfer::cli {
namespace fs = std::filesystem;
namespace {

struct ExportFlags {
  ModelFlags model;
  std::string format = "stablehlo";
  std::string phase;
  int64_t bucket = 0;
  std::string output = ".";
  bool json = false;

  models::Phase Phase() const { return phase == "prefill" ? models::Phase::kPrefill : models::Phase::kDecode; }
};

const ExportFormat& FindFormat(const std::vector<ExportFormat>& formats, const std::string& name) {
  return *std::find_if(formats.begin(), formats.end(), [&](const ExportFormat& each) { return each.name == name; });
}

// What files are called after: a folder's name, or a file's without its ending.
std::string NameOfModel(const std::string& path) {
  const bool scripted = path.rfind("synthetic:", 0) == 0;
  fs::path file = fs::absolute(scripted ? path.substr(path.find(':') + 1) : path).lexically_normal();
  if (!file.has_filename()) file = file.parent_path();
  const std::string extension = file.extension().string();
  return extension == ".gguf" || scripted ? file.stem().string() : file.filename().string();
}

Status MakeFolder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) return {};
  return MakeError(ErrorCode::kInvalidArgument, "--output", "cannot make the folder {}: {}", folder, error.message());
}

Result<ir::Module> Record(const ExportFlags& flags, const ExportFormat& format, const std::string& path) {
  backend::Caps caps = format.caps;
  caps.ranks = flags.model.tensor_parallel_size;
  DI_ASSIGN_OR_RETURN(runner::RunnerOptions options, ToRunnerOptions(flags.model));
  DI_ASSIGN_OR_RETURN(const runner::LoadedModel described,
                      runner::DescribeModel(path, caps, ToLoadOptions(flags.model, 1)));
  for (const std::string& warning : described.warnings) spdlog::warn("{}", warning);
  DI_ASSIGN_OR_RETURN(const runner::StepConfig steps,
                      runner::ResolveSteps(*described.model, format.name, caps, std::move(options)));
  const int64_t largest = steps.buckets(flags.Phase()).back();
  if (flags.bucket > largest) {
    return MakeError(
        ErrorCode::kInvalidArgument, "--bucket", "a {} graph has at most {} tokens here, got {}; see {}", flags.phase,
        largest, flags.bucket,
        flags.Phase() == models::Phase::kPrefill ? "--max-num-batched-tokens and --max-model-len" : "--max-num-seqs");
  }
  return runner::RecordGraph(*described.model, steps.sizes.ShapeFor(flags.Phase(), flags.bucket), described.types,
                             format.target);
}

Status Export(const ExportFlags& flags, const std::vector<ExportFormat>& formats) {
  const ExportFormat& format = FindFormat(formats, flags.format);
  DI_ASSIGN_OR_RETURN(const std::string path, ResolveModel(flags.model.model));
  DI_RETURN_IF_ERROR(MakeFolder(flags.output));
  DI_ASSIGN_OR_RETURN(const ir::Module module, Record(flags, format, path));
  DI_ASSIGN_OR_RETURN(const std::string text, format.print(module));
  const fs::path stem =
      fs::path(flags.output) / fmt::format("{}.{}.{}.{}", NameOfModel(path), flags.phase, flags.bucket, format.name);
  const std::string graph = stem.string() + format.extension;
  const std::string description = stem.string() + ".json";
  DI_RETURN_IF_ERROR(ReplaceFile(description, format.describe(module)));
  DI_RETURN_IF_ERROR(ReplaceFile(graph, text));
  const ir::Function& step = module.entry();
  const auto aliases = module.io_map.find(step.name);
  const size_t in_place = aliases == module.io_map.end() ? 0 : aliases->second.size();
  if (flags.json) {
    return WriteJson({{"model", path},
                      {"format", format.name},
                      {"phase", flags.phase},
                      {"bucket", flags.bucket},
                      {"graph", graph},
                      {"description", description},
                      {"bytes", text.size()},
                      {"inputs", step.inputs.size()},
                      {"outputs", step.outputs.size()},
                      {"in_place", in_place}});
  }
  return WriteOut(fmt::format("{}: {}, {} inputs, {} outputs, {} of them in place\n{}: what they are\n", graph,
                              FormatBytes(static_cast<int64_t>(text.size())), step.inputs.size(), step.outputs.size(),
                              in_place, description));
}

}  // namespace

void AddExport(CLI::App* app, CommandContext* context) {
  auto flags = std::make_shared<ExportFlags>();
  CLI::App* command =
      app->add_subcommand("export", "write one graph for another compiler: StableHLO and a description");
  // Nothing runs: the flags of threads, caches and backends would mean nothing.
  AddSomeModelFlags(command,
                    {"--dtype", "--kv-cache-dtype", "--tensor-parallel-size", "--max-model-len", "--max-num-seqs",
                     "--max-num-batched-tokens", "--kv-cache-memory"},
                    &flags->model);
  std::vector<std::string> names;
  std::string help;
  for (const ExportFormat& format : context->formats) {
    names.push_back(format.name);
    help += fmt::format("{}{}: {}", help.empty() ? "" : "; ", format.name, format.what);
  }
  command->add_option("--format", flags->format, help)->check(CLI::IsMember(names))->capture_default_str();
  command->add_option("--phase", flags->phase, "of the step")->check(CLI::IsMember({"prefill", "decode"}))->required();
  command->add_option("--bucket", flags->bucket, "tokens of the step: prefill positions, or decoded sequences")
      ->check(CLI::PositiveNumber)
      ->required();
  command->add_option("--output", flags->output, "folder for the two files; made if need be")
      ->type_name("DIR")
      ->capture_default_str();
  command->add_flag(
      "--json", flags->json,
      "one JSON object: model, format, phase, bucket, graph, description, bytes, inputs, outputs, in_place");
  command->callback([flags, context] { context->status = Export(*flags, context->formats); });
}

}  // namespace deepinfer::cli
