// Where the time of a step goes, by op: for `bench`. One thread at a time.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "cli/output.h"
#include "runner/model_runner.h"

namespace deepinfer::cli {

// A step to look into: `rows` requests of `tokens` tokens each, after `context` others whose KV is what the cache
// holds.
struct ProfiledStep {
  models::Phase phase = models::Phase::kDecode;
  int64_t rows = 1;
  int64_t tokens = 1;
  int64_t context = 0;
  std::vector<backend::LaunchProfile> ops;  // of the round that took the median time
};

// Runs it `rounds` times, every launch on its own. The engine must be idle: blocks of the KV cache are overwritten.
Status ProfileStep(runner::ModelRunner* runner, int rounds, ProfiledStep* step);

// bandwidth in bytes and peak in flops per second: the best measured on this machine.
std::string OpTable(const ProfiledStep& step, double bandwidth, double peak);
Json OpTableJson(const ProfiledStep& step, double bandwidth, double peak);

}  // namespace deepinfer::cli
