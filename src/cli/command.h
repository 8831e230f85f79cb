// What a command needs from the program, and how it reports: each command is one file with one Add function that declares
// its flags; its callback leaves a Status. Results go to stdout, everything else to stderr.
#pragma once

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "cli/session.h"

namespace deepinfer::cli {

struct CommandContext {
  BackendFactory backends;
  Status status;  // of the command that ran
};

void AddGenerate(CLI::App* app, CommandContext* context);

// "1,2,3". Fails naming the flag and the part.
Result<std::vector<int32_t>> ParseIds(const std::string& flag, const std::string& text);

}  // namespace deepinfer::cli
