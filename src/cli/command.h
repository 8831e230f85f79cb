// What a command needs from the program, and how it reports: each command is one file with one Add function that
// declares its flags; its callback leaves a Status. Results go to stdout, everything else to stderr. What the command
// line alone shows to be wrong is thrown as a CLI11 error (exit status 2); what the model or the system refuses is an
// Error (1).
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/session.h"
#include "runner/record.h"

namespace deepinfer::cli {

// A form in which a step's graph leaves the program, and what the graph is made ready for before. No device is needed.
struct ExportFormat {
  std::string name;       // of --format
  std::string extension;  // of the file
  std::string what;       // for the help text
  backend::Caps caps;     // weights in other encodings are exported as what they would be converted to
  runner::GraphTarget target;
  std::function<Result<std::string>(const ir::Module&)> print;
  std::function<std::string(const ir::Module&)> describe;  // JSON: inputs, outputs, io_map
};

struct CommandContext {
  BackendFactory backends;
  std::vector<ExportFormat> formats;
  Status status;  // of the command that ran
};

void AddServe(CLI::App* app, CommandContext* context);
void AddGenerate(CLI::App* app, CommandContext* context);
void AddChat(CLI::App* app, CommandContext* context);
void AddLogits(CLI::App* app, CommandContext* context);
void AddPerplexity(CLI::App* app, CommandContext* context);
void AddTokenize(CLI::App* app, CommandContext* context);
void AddDetokenize(CLI::App* app, CommandContext* context);
void AddCompile(CLI::App* app, CommandContext* context);
void AddExport(CLI::App* app, CommandContext* context);
void AddQuantize(CLI::App* app, CommandContext* context);
void AddInspect(CLI::App* app, CommandContext* context);
void AddVerify(CLI::App* app, CommandContext* context);
void AddBench(CLI::App* app, CommandContext* context);
void AddThroughput(CLI::App* app, CommandContext* context);

// Everything, in the order of the help text, with --version.
void AddCommands(CLI::App* app, CommandContext* context);

// Program version and build on the first line, then the CPU and the instruction set its kernels use.
std::string VersionText();

}  // namespace deepinfer::cli
