// logits: the logits after every position of one prompt, as a safetensors file.
#include <filesystem>
#include <new>

#include "cli/command.h"
#include "cli/output.h"
#include "cli/prompt_flags.h"
#include "cli/prompt_logits.h"
#include "formats/safetensors.h"

namespace deepinfer::cli {
namespace {

struct LogitsFlags {
  ModelFlags model;
  PromptFlags prompts;
  std::string out;
  bool json = false;
};

Status CheckFolder(const std::string& out) {
  const std::filesystem::path folder = std::filesystem::absolute(out).parent_path();
  std::error_code error;
  if (std::filesystem::is_directory(folder, error)) return {};
  return MakeError(ErrorCode::kNotFound, "--out", "there is no folder {}", folder.string());
}

Status Logits(const LogitsFlags& flags, const BackendFactory& backends) {
  DI_RETURN_IF_ERROR(CheckFolder(flags.out));  // before the work, not after it
  DI_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, OpenSession(flags.model, backends));
  DI_ASSIGN_OR_RETURN(const std::vector<std::vector<int32_t>> prompts, EncodePrompts(flags.prompts, *session));
  const std::vector<int32_t>& prompt = prompts[0];
  const int64_t tokens = static_cast<int64_t>(prompt.size());
  const int64_t vocab = session->runner->model().info().vocab_size;
  std::vector<float> logits;
  {
    Progress progress("computing logits", tokens);
    const auto keep = [&](int64_t position, const float* row, int64_t width) {
      // The request was accepted, so its length is sound: now memory for all of it.
      if (logits.empty()) logits.resize(static_cast<size_t>(tokens * vocab));
      std::copy(row, row + width, logits.begin() + position * vocab);
    };
    try {
      DI_RETURN_IF_ERROR(ForEachPromptLogits(*session, prompt, keep, &progress));
    } catch (const std::bad_alloc&) {
      return MakeError(ErrorCode::kResourceExhausted, "logits", "no memory for [{}, {}] floats", tokens, vocab);
    }
  }
  const formats::SafetensorsOutput tensor{"logits", DType::kF32, {tokens, vocab}, std::as_bytes(std::span(logits))};
  DI_RETURN_IF_ERROR(formats::WriteSafetensors(flags.out, std::span(&tensor, 1)));
  if (flags.json) {
    DI_RETURN_IF_ERROR(WriteJson({{"prompt_ids", prompt}, {"shape", {tokens, vocab}}, {"out", flags.out}}));
  } else {
    DI_RETURN_IF_ERROR(WriteOut(fmt::format("{}: logits [{}, {}] f32\n", flags.out, tokens, vocab)));
  }
  KeepForNextStart(*session);
  return {};
}

}  // namespace

void AddLogits(CLI::App* app, CommandContext* context) {
  auto flags = std::make_shared<LogitsFlags>();
  flags->model.max_num_seqs = kPromptLogitsRows;
  CLI::App* command = app->add_subcommand("logits", "logits after every position of one prompt");
  AddModelFlags(command, &flags->model);
  AddPromptFlags(command, &flags->prompts, /*many=*/false);
  command->add_option("--out", flags->out, "file to write: tensor logits [T, vocab], f32")
      ->required()
      ->type_name("FILE");
  command->add_flag("--json", flags->json, "one JSON object: prompt_ids, shape, out");
  command->callback([flags, context] {
    if (flags->prompts.texts.size() + flags->prompts.ids.size() > 1) {
      throw CLI::ValidationError("logits", "takes one prompt");
    }
    RequirePrompt(flags->prompts);
    context->status = Logits(*flags, context->backends);
  });
}

}  // namespace deepinfer::cli
