// quantize: a model as a GGUF file with its matrices in another encoding.
#include <filesystem>
#include <map>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "runner/quantise.h"
#include "text/gguf_export.h"

namespace deepinfer::cli {
namespace {

struct QuantizeFlags {
  ModelFlags model;
  std::string out;
  std::string type;
  bool json = false;
};

// Tensors and bytes by encoding.
struct Share {
  int64_t tensors = 0;
  int64_t bytes = 0;
};

Status Report(const QuantizeFlags& flags, const runner::QuantiseReport& report) {
  std::map<std::string, Share> shares;
  int64_t bytes = 0;
  for (const runner::QuantiseReport::Tensor& tensor : report.tensors) {
    Share& share = shares[ToString(tensor.to)];
    ++share.tensors;
    share.bytes += tensor.bytes;
    bytes += tensor.bytes;
  }
  if (flags.json) {
    Json tensors = Json::array();
    for (const runner::QuantiseReport::Tensor& tensor : report.tensors) {
      tensors.push_back(
          {{"name", tensor.name}, {"from", tensor.from}, {"to", ToString(tensor.to)}, {"bytes", tensor.bytes}});
    }
    return WriteJson({{"out", flags.out}, {"bytes", bytes}, {"tensors", tensors}, {"warnings", report.warnings}});
  }
  std::vector<std::vector<std::string>> rows = {{"encoding", "tensors", "size"}};
  for (const auto& [name, share] : shares) {
    rows.push_back({name, fmt::format("{}", share.tensors), FormatBytes(share.bytes)});
  }
  return WriteOut(FormatTable(rows) + fmt::format("{}: {} of weights\n", flags.out, FormatBytes(bytes)));
}

Result<std::string> AddTokenizer(const std::string& folder, int64_t vocab, const std::vector<int32_t>& eos,
                                 formats::GgufWriter* writer) {
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::path(folder) / "tokenizer.json", ignored)) {
    return text::AddGgufTokenizer(folder, vocab, eos, writer);
  }
  return folder + ": there is no tokenizer.json: the GGUF file gets no tokenizer";
}

Status Quantize(const QuantizeFlags& flags) {
  DI_ASSIGN_OR_RETURN(const std::string in, ResolveModel(flags.model.model));
  runner::QuantiseOptions options;
  options.type = *ParseEncoding(flags.type);
  options.threads = PlanTeam(flags.model).threads;
  options.add_tokenizer = [&](int64_t vocab, const std::vector<int32_t>& eos, formats::GgufWriter* writer) {
    return AddTokenizer(in, vocab, eos, writer);
  };
  Result<runner::QuantiseReport> report;
  {
    Progress progress("writing " + flags.out);
    options.progress = [&](int64_t bytes) { progress.Advance(bytes); };
    report = runner::QuantiseModel(in, flags.out, options);
  }
  if (!report) return tl::unexpected(report.error());
  for (const std::string& warning : report->warnings) SayErr(warning);
  return Report(flags, *report);
}

}  // namespace

void AddQuantize(CLI::App* app, CommandContext* context) {
  auto flags = std::make_shared<QuantizeFlags>();
  CLI::App* command = app->add_subcommand("quantize", "write a model as a GGUF file in another encoding");
  AddSomeModelFlags(command, {"--threads"}, &flags->model);
  command->add_option("OUT", flags->out, "the GGUF file to write")->required();
  std::vector<std::string> names;
  for (const Encoding type : runner::QuantiseTypes()) names.emplace_back(ToString(type));
  command->add_option("--type", flags->type, "of the matrices; vectors stay f32, the head has at least 6 bits")
      ->required()
      ->check(CLI::IsMember(names));
  command->add_flag("--json", flags->json, "one JSON object: out, bytes, tensors (name, from, to, bytes), warnings");
  command->callback([flags, context] { context->status = Quantize(*flags); });
}

}  // namespace deepinfer::cli
