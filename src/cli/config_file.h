// Flags from other places than the command line: each from an environment variable DEEPINFER_<FLAG>, and from a TOML
// file with one key per flag. The command line wins over the environment, that over the file.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace deepinfer::cli {

// "DEEPINFER_MAX_MODEL_LEN" of "--max-model-len".
std::string VariableOf(const std::string& flag);
// Every flag of the command that is there by now may come from its variable.
void AddVariables(CLI::App* command);
// Adds --config FILE. ApplyConfig reads it, after the command line was parsed: values of flags that were not given.
// Throws CLI11's error naming file and key for what is no flag of the command or no value of it.
void AddConfig(CLI::App* command, std::string* path);
void ApplyConfig(CLI::App* command, const std::string& path);

}  // namespace deepinfer::cli
