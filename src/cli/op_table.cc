#include "cli/op_table.h"

#include <algorithm>

#include "cli/prompt_flags.h"

namespace deepinfer::cli {
namespace {

double Total(const std::vector<backend::LaunchProfile>& ops) {
  double seconds = 0;
  for (const backend::LaunchProfile& op : ops) seconds += op.seconds;
  return seconds;
}

// Blocks of each request follow each other; block 0 is nobody's.
std::vector<std::vector<int32_t>> BlockTables(const ProfiledStep& step, int64_t block_size) {
  const int64_t per_request = (step.context + step.tokens + block_size - 1) / block_size;
  std::vector<std::vector<int32_t>> tables(static_cast<size_t>(step.rows));
  int32_t next = 1;
  for (std::vector<int32_t>& table : tables) {
    for (int64_t i = 0; i < per_request; ++i) table.push_back(next++);
  }
  return tables;
}

runner::StepPlan PlanOf(const ProfiledStep& step, const std::vector<std::vector<int32_t>>& tables, int64_t block_size,
                        int64_t vocab) {
  runner::StepPlan plan;
  plan.Clear();
  plan.phase = step.phase;
  for (size_t request = 0; request < tables.size(); ++request) {
    const std::vector<int32_t> ids = FixedPrompt(step.tokens, vocab, static_cast<int64_t>(request));
    for (int64_t i = 0; i < step.tokens; ++i) {
      const int64_t position = step.context + i;
      plan.tokens.push_back(ids[static_cast<size_t>(i)]);
      plan.positions.push_back(static_cast<int32_t>(position));
      const int64_t block = tables[request][static_cast<size_t>(position / block_size)];
      plan.slots.push_back(static_cast<int32_t>(block * block_size + position % block_size));
    }
    plan.query_start.push_back(static_cast<int32_t>(plan.tokens.size()));
    plan.block_tables.push_back(&tables[request]);
    runner::PlannedRow row;
    row.token = static_cast<int32_t>(plan.tokens.size()) - 1;
    plan.rows.push_back(row);
  }
  return plan;
}

std::string Percent(double part, double whole) {
  return whole > 0 ? fmt::format("{:.0f} %", part * 100 / whole) : "";
}

}  // namespace

Status ProfileStep(runner::ModelRunner* runner, int rounds, ProfiledStep* step) {
  const int64_t block_size = runner->options().block_size;
  const std::vector<std::vector<int32_t>> tables = BlockTables(*step, block_size);
  const int64_t needed = step->rows * static_cast<int64_t>(tables[0].size());
  if (needed >= runner->num_blocks() || static_cast<int64_t>(tables[0].size()) > runner->max_blocks()) {
    return MakeError(ErrorCode::kInvalidArgument, "bench", "{} rows of {} tokens do not fit the KV cache", step->rows,
                     step->context + step->tokens);
  }
  const runner::StepPlan plan = PlanOf(*step, tables, block_size, runner->model().info().vocab_size);
  std::vector<std::vector<backend::LaunchProfile>> all;
  for (int round = 0; round < rounds; ++round) {
    DI_ASSIGN_OR_RETURN(std::vector<backend::LaunchProfile> ops, runner->Profile(plan));
    all.push_back(std::move(ops));
  }
  const auto middle = all.begin() + rounds / 2;
  std::nth_element(all.begin(), middle, all.end(), [](const auto& a, const auto& b) { return Total(a) < Total(b); });
  step->ops = std::move(*middle);
  std::stable_sort(step->ops.begin(), step->ops.end(),
                   [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  return {};
}

std::string OpTable(const ProfiledStep& step, double bandwidth, double peak) {
  const double total = Total(step.ops);
  std::vector<std::vector<std::string>> rows = {
      {"op", "kernel", "launches", "ms", "of the step", "GB/s", "of bandwidth", "GF/s", "of peak"}};
  for (const backend::LaunchProfile& op : step.ops) {
    rows.push_back({op.op, op.kernel, fmt::format("{}", op.launches), fmt::format("{:.3f}", op.seconds * 1e3),
                    Percent(op.seconds, total), fmt::format("{:.1f}", op.bytes / op.seconds / 1e9),
                    Percent(op.bytes / op.seconds, bandwidth),
                    op.flops > 0 ? fmt::format("{:.1f}", op.flops / op.seconds / 1e9) : "",
                    op.flops > 0 ? Percent(op.flops / op.seconds, peak) : ""});
  }
  return fmt::format("{}, {} row{} x {} tokens after {}: {:.3f} ms, every launch on its own\n", ToString(step.phase),
                     step.rows, step.rows == 1 ? "" : "s", step.tokens, step.context, total * 1e3) +
         FormatTable(rows);
}

Json OpTableJson(const ProfiledStep& step, double bandwidth, double peak) {
  Json ops = Json::array();
  for (const backend::LaunchProfile& op : step.ops) {
    ops.push_back({{"op", op.op},
                   {"kernel", op.kernel},
                   {"launches", op.launches},
                   {"ms", op.seconds * 1e3},
                   {"bytes", op.bytes},
                   {"flops", op.flops},
                   {"of_bandwidth", bandwidth > 0 ? op.bytes / op.seconds / bandwidth : 0},
                   {"of_peak", peak > 0 ? op.flops / op.seconds / peak : 0}});
  }
  return {{"phase", ToString(step.phase)}, {"rows", step.rows},           {"tokens", step.tokens},
          {"context", step.context},       {"ms", Total(step.ops) * 1e3}, {"ops", std::move(ops)}};
}

}  // namespace deepinfer::cli
