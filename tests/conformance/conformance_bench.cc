// conformance_bench [--isa=avx2] [--threads=2] [word or line]... : nanoseconds per run of the problems whose line
// contains every word, or of the one line given in full ("linear bf16 w=q4_k t=1 k=4096 n=4096").
#include <cstdio>
#include <cstdlib>

#include "base/cpu_features.h"
#include "cpu/cpu_backend.h"
#include "execute.h"

namespace deepinfer::conformance {
namespace {

int Run(const std::vector<std::string>& lines, const cpu::CpuOptions& options) {
  int failures = 0;
  for (const std::string& line : lines) {
    const auto problem = ParseProblem(line);
    if (!problem) {
      fprintf(stderr, "%s\n", problem.error().ToString().c_str());
      return 2;
    }
    if (problem->Has("refused")) continue;
    cpu::CpuBackend backend(options);
    const auto outcome = Execute(*problem, /*decoded=*/false, &backend, /*measure=*/true);
    if (!outcome) {
      fprintf(stderr, "%s: %s\n", line.c_str(), outcome.error().ToString().c_str());
      ++failures;
      continue;
    }
    printf("%12.0f ns  %s  %s\n", outcome->ns, line.c_str(),
           outcome->launches.empty() ? "" : outcome->launches[0].c_str());
  }
  return failures == 0 ? 0 : 1;
}

int Main(int argc, char** argv) {
  cpu::CpuOptions options;
  std::string forced;
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.rfind("--isa=", 0) == 0) {
      forced = word.substr(6);
    } else if (word.rfind("--threads=", 0) == 0) {
      options.threads = std::max(1, std::atoi(word.c_str() + 10));
    } else {
      words.push_back(word);
    }
  }
  const auto isa = SelectIsa(forced);
  if (!isa) {
    fprintf(stderr, "%s\n", isa.error().ToString().c_str());
    return 2;
  }
  options.isa = *isa;
  if (words.size() == 1 && words[0].find(' ') != std::string::npos) return Run(words, options);
  std::vector<std::string> chosen;
  for (const std::string& line : AllProblems()) {
    bool all = true;
    for (const std::string& word : words) all = all && line.find(word) != std::string::npos;
    if (all) chosen.push_back(line);
  }
  return Run(chosen, options);
}

}  // namespace
}  // namespace deepinfer::conformance

int main(int argc, char** argv) {
  return deepinfer::conformance::Main(argc, argv);
}
