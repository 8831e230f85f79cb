#include "cli/engine_flags.h"

namespace deepinfer::cli {

void AddEngineFlags(CLI::App* command, engine::EngineOptions* options) {
  command
      ->add_option("--chunked-prefill-size", options->chunked_prefill_size,
                   "tokens of prompts, at most, in one step that others decode in or wait for")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command
      ->add_option("--prefill-step-ms", options->prefill_step_ms,
                   "time of those tokens, at most: how many they are follows from the speed of the last steps; 0: any")
      ->check(CLI::Range(0, 60000))
      ->capture_default_str();
  command->add_flag("--enable-prefix-caching,!--no-enable-prefix-caching", options->prefix_caching,
                    "reuse the KV cache of equal beginnings of prompts (on by default)");
  command->add_flag("--async-scheduling,!--no-async-scheduling", options->async_stepping,
                    "launch the next step before the last one's tokens are read (on by default)");
}

}  // namespace deepinfer::cli
