// conformance_bench [--backend cpu|reference|pjrt] [--plugin NAME_OR_PATH] [--isa avx2] [--threads 2] [WORD or LINE]...
//
// Nanoseconds per run of the problems whose line contains every word, or of the one line given in full ("linear bf16
// w=q4_k t=1 k=4096 n=4096").
#include <CLI/CLI.hpp>
#include <cstdio>

#include "base/cpu_features.h"
#include "cpu/cpu_backend.h"
#include "execute.h"
#ifdef DI_HAVE_PJRT
#include "pjrt/pjrt_backend.h"
#endif
#include "reference/reference.h"

namespace deepinfer::conformance {
namespace {

struct Flags {
  std::string backend = "cpu";
  std::string plugin;
  std::string isa;
  int threads = 1;
  std::vector<std::string> words;
};

Result<std::unique_ptr<backend::Backend>> Create(const Flags& flags) {
  if (flags.backend == "reference") return reference::CreateReferenceBackend({.threads = flags.threads});
  if (flags.backend == "pjrt") {
#ifdef DI_HAVE_PJRT
    return pjrt::CreatePjrtBackend({.plugin = flags.plugin});
#else
    return MakeError(ErrorCode::kUnsupported, "--backend", "pjrt was not built: its header is missing");
#endif
  }
  DI_ASSIGN_OR_RETURN(const Isa isa, SelectIsa(flags.isa));
  return std::make_unique<cpu::CpuBackend>(cpu::CpuOptions{.threads = flags.threads, .isa = isa});
}

Status Run(const std::string& line, const Flags& flags) {
  DI_ASSIGN_OR_RETURN(const Problem problem, ParseProblem(line));
  if (problem.Has("refused")) return {};
  DI_ASSIGN_OR_RETURN(const auto backend, Create(flags));
  DI_ASSIGN_OR_RETURN(const Outcome outcome, Execute(problem, backend.get(), /*measure=*/true));
  printf("%12.0f ns  %s  %s\n", outcome.ns, line.c_str(), outcome.launches.empty() ? "" : outcome.launches[0].c_str());
  return {};
}

std::vector<std::string> Chosen(const std::vector<std::string>& words) {
  if (words.size() == 1 && words[0].find(' ') != std::string::npos) return words;
  std::vector<std::string> lines;
  for (const std::string& line : AllProblems()) {
    bool all = true;
    for (const std::string& word : words) all = all && line.find(word) != std::string::npos;
    if (all) lines.push_back(line);
  }
  return lines;
}

int Main(int argc, char** argv) {
  Flags flags;
  CLI::App app("Times one op at a time on one backend.");
  app.add_option("--backend", flags.backend)->check(CLI::IsMember({"cpu", "reference", "pjrt"}));
  app.add_option("--plugin", flags.plugin, "of pjrt: a library's path or a plugin's name");
  app.add_option("--isa", flags.isa, "of cpu: the instruction set");
  app.add_option("--threads", flags.threads, "of cpu and reference")->check(CLI::PositiveNumber);
  app.add_option("words", flags.words, "words that a problem's line must contain, or one whole line");
  CLI11_PARSE(app, argc, argv);
  int failures = 0;
  for (const std::string& line : Chosen(flags.words)) {
    const Status done = Run(line, flags);
    if (done) continue;
    fprintf(stderr, "%s: %s\n", line.c_str(), done.error().ToString().c_str());
    ++failures;
  }
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace deepinfer::conformance

int main(int argc, char** argv) {
  return deepinfer::conformance::Main(argc, argv);
}
