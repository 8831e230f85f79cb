// The flags of the commands that schedule many requests (serve, throughput). One list; docs/cli.md has them all.
#pragma once

#include <CLI/CLI.hpp>

#include "engine/engine_options.h"

namespace deepinfer::cli {

// What `options` holds is the default. The options object lives as long as the command.
void AddEngineFlags(CLI::App* command, engine::EngineOptions* options);

}  // namespace deepinfer::cli
