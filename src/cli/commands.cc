// The list of commands, and what --version says.
#include "backend/build_id.h"
#include "base/cpu_features.h"
#include "base/env.h"
#include "cli/command.h"

namespace deepinfer::cli {

void AddCommands(CLI::App* app, CommandContext* context) {
  app->require_subcommand(1);
  app->set_version_flag("--version", [] { return VersionText(); }, "program, build, CPU and instruction set");
  AddServe(app, context);
  AddGenerate(app, context);
  AddChat(app, context);
  AddLogits(app, context);
  AddPerplexity(app, context);
  AddTokenize(app, context);
  AddDetokenize(app, context);
  AddCompile(app, context);
  AddExport(app, context);
  AddQuantize(app, context);
  AddInspect(app, context);
  AddVerify(app, context);
  AddBench(app, context);
  AddThroughput(app, context);
}

std::string VersionText() {
  std::vector<std::string> isas;
  for (const Isa isa : MachineIsas()) isas.emplace_back(ToString(isa));
  const auto isa = SelectIsa(GetEnv("DEEPINFER_CPU_ISA"));
  return fmt::format("deepinfer {} (build {})\nCPU: {}\nkernels: {} (this machine has {})", DEEPINFER_VERSION,
                     backend::BuildId(), CpuName(), isa ? ToString(*isa) : isa.error().ToString(),
                     fmt::join(isas, ", "));
}

}  // namespace deepinfer::cli
