// inspect: what a model became: graphs, buckets, memory, aliases, kernels; one graph as text or as a drawing.
#include <algorithm>
#include <charconv>
#include <map>

#include "cli/command.h"
#include "cli/graph_svg.h"
#include "cli/output.h"
#include "ir/text.h"

namespace deepinfer::cli {
namespace {

struct InspectFlags {
  ModelFlags model;
  std::string graph;
  bool raw = false;
  std::string svg;
  bool kernels = false;
  bool memory = false;
  bool json = false;
};

using Rows = std::vector<std::vector<std::string>>;

std::string NameOf(const models::StepShape& shape) {
  return fmt::format("{}:{}", ToString(shape.phase), shape.tokens);
}

// "prefill:128"; empty: the first one, which is the smallest decode graph.
Result<const runner::CompiledGraph*> FindGraph(const runner::ModelRunner& runner, const std::string& name) {
  std::vector<std::string> known;
  for (const runner::CompiledGraph& graph : runner.graphs()) {
    known.push_back(NameOf(graph.shape));
    if (name.empty() || known.back() == name) return &graph;
  }
  return MakeError(ErrorCode::kInvalidArgument, "--graph", "there is no graph '{}'; there are {}", name,
                   fmt::join(known, ", "));
}

Json ModelJson(const Session& session) {
  const models::ModelInfo& info = session.runner->model().info();
  const runner::RunnerOptions& options = session.runner->options();
  return {{"path", session.path},
          {"architecture", info.architecture},
          {"layers", info.num_layers},
          {"vocab_size", info.vocab_size},
          {"max_positions", info.max_positions},
          {"eos_ids", session.stop_ids},
          {"tokenizer", session.tokenizer.has_value()},
          {"chat_template", session.tokenizer && session.tokenizer->has_chat_template()},
          {"backend", session.runner->backend().name()},
          {"target", session.runner->backend().target()},
          {"threads", options.threads},
          {"tensor_parallel_size", session.runner->ranks()},
          {"dtype", ToString(options.activations)},
          {"kv_cache_dtype", ToString(*options.kv)},
          {"max_model_len", options.max_model_len},
          {"max_num_seqs", options.max_num_seqs},
          {"max_num_batched_tokens", options.max_num_batched_tokens},
          {"passes", session.runner->backend().passes()}};
}

int64_t BufferBytes(const std::vector<backend::HostSlot>& slots) {
  int64_t bytes = 0;
  for (const backend::HostSlot& slot : slots) bytes += slot.bytes;
  return bytes;
}

Json MemoryJson(runner::ModelRunner& runner) {
  Json buffers = Json::array();
  for (const auto* slots : {&runner.buffers().metadata(), &runner.buffers().outputs()}) {
    for (const backend::HostSlot& slot : *slots) {
      buffers.push_back({{"name", slot.name},
                         {"kind", slots == &runner.buffers().outputs() ? "output" : "metadata"},
                         {"bytes", slot.bytes}});
    }
  }
  const int64_t block = runner.options().block_size;
  return {{"weight_bytes", runner.backend().weight_bytes()},
          {"state_bytes", runner.state_bytes()},
          {"arena_bytes", runner.backend().arena_bytes()},
          {"metadata_bytes", BufferBytes(runner.buffers().metadata())},
          {"output_bytes", BufferBytes(runner.buffers().outputs())},
          {"kv_blocks", runner.num_blocks()},
          {"block_size", block},
          {"kv_tokens", (runner.num_blocks() - 1) * block},
          {"buffers", std::move(buffers)}};
}

Json GraphsJson(const runner::ModelRunner& runner) {
  Json graphs = Json::array();
  for (const runner::CompiledGraph& graph : runner.graphs()) {
    graphs.push_back({{"graph", NameOf(graph.shape)},
                      {"tokens", graph.shape.tokens},
                      {"rows", graph.shape.rows},
                      {"requests", graph.shape.requests},
                      {"arena_bytes", graph.executable->scratch_bytes()},
                      {"launches", graph.executable->Describe().size()}});
  }
  return graphs;
}

// Which output of the step is which input, written in place.
Json AliasJson(const ir::Module& module) {
  Json list = Json::array();
  const ir::Function& step = module.entry();
  const auto aliases = module.io_map.find(step.name);
  if (aliases == module.io_map.end()) return list;
  for (const ir::Alias& alias : aliases->second) {
    const ir::Input& input = step.inputs[static_cast<size_t>(alias.input)];
    list.push_back({{"output", step.outputs[static_cast<size_t>(alias.output)].name},
                    {"output_index", alias.output},
                    {"input", input.name},
                    {"input_index", alias.input},
                    {"buffer", input.buffer.empty() ? input.name : input.buffer},
                    {"offset", input.offset}});
  }
  return list;
}

// A launch line without its place: "[3] name (reason)" -> "name (reason)".
std::string WithoutPlace(const std::string& line) {
  const size_t end = line.find("] ");
  return line.rfind('[', 0) == 0 && end != std::string::npos ? line.substr(end + 2) : line;
}

// How often each kernel was chosen, most often first.
Rows KernelCounts(const runner::CompiledGraph& graph) {
  std::map<std::string, int> counts;
  for (const std::string& line : graph.executable->Describe()) ++counts[WithoutPlace(line)];
  std::vector<std::pair<int, std::string>> order;
  for (const auto& [kernel, count] : counts) order.emplace_back(count, kernel);
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  Rows rows = {{"kernel (reason), " + NameOf(graph.shape), "launches"}};
  for (const auto& [count, kernel] : order) rows.push_back({kernel, fmt::format("{}", count)});
  return rows;
}

Rows ModelRows(const Json& model) {
  Rows rows = {{"model", ""}};
  for (const auto& [key, value] : model.items()) {
    rows.push_back({key, value.is_string() ? value.get<std::string>()
                                           : value.dump(-1, ' ', false, Json::error_handler_t::replace)});
  }
  return rows;
}

Rows MemoryRows(const Json& memory, bool all) {
  const auto bytes = [](const Json& value) { return FormatBytes(value.get<int64_t>()); };
  Rows rows = {
      {"memory", ""},
      {"weights, packed", bytes(memory["weight_bytes"])},
      {fmt::format("states, KV of {} tokens in {} blocks of {} and a null block", memory["kv_tokens"].get<int64_t>(),
                   memory["kv_blocks"].get<int64_t>() - 1, memory["block_size"].get<int64_t>()),
       bytes(memory["state_bytes"])},
      {"arena of all graphs", bytes(memory["arena_bytes"])},
      {"metadata", bytes(memory["metadata_bytes"])},
      {"outputs", bytes(memory["output_bytes"])}};
  if (!all) return rows;
  for (const Json& buffer : memory["buffers"]) {
    rows.push_back({fmt::format("  {} {}", buffer["kind"].get<std::string>(), buffer["name"].get<std::string>()),
                    bytes(buffer["bytes"])});
  }
  return rows;
}

Rows GraphRows(const Json& graphs) {
  Rows rows = {{fmt::format("{} graphs", graphs.size()), "tokens", "rows", "requests", "arena", "launches"}};
  for (const Json& graph : graphs) {
    rows.push_back({graph["graph"], graph["tokens"].dump(), graph["rows"].dump(), graph["requests"].dump(),
                    FormatBytes(graph["arena_bytes"].get<int64_t>()), graph["launches"].dump()});
  }
  return rows;
}

std::string AliasText(const Json& aliases) {
  std::string text = fmt::format("alias map: {} outputs are written in place\n", aliases.size());
  for (const Json& alias : aliases) {
    text += fmt::format("  output {} {} -> input {} {} (buffer {} + {})\n", alias["output_index"].get<int64_t>(),
                        alias["output"].get<std::string>(), alias["input_index"].get<int64_t>(),
                        alias["input"].get<std::string>(), alias["buffer"].get<std::string>(),
                        alias["offset"].get<int64_t>());
  }
  return text;
}

Status DumpGraph(const InspectFlags& flags, const Session& session, const runner::CompiledGraph& graph) {
  DI_ASSIGN_OR_RETURN(const ir::Module module,
                      flags.raw ? session.runner->RecordRaw(graph.shape) : session.runner->RecordGraph(graph.shape));
  if (flags.svg.empty()) return WriteOut(ir::Print(module));
  const std::string title = fmt::format("{} {}, {}", session.runner->model().info().architecture, NameOf(graph.shape),
                                        flags.raw ? "as recorded" : "after passes");
  DI_RETURN_IF_ERROR(WriteFile(flags.svg, DrawSvg(module, title)));
  return WriteOut(fmt::format("{}: {}\n", flags.svg, title));
}

Status PrintJson(const InspectFlags& flags, const Session& session, const runner::CompiledGraph& graph,
                 const ir::Module& module) {
  Json json = {{"model", ModelJson(session)},
               {"graphs", GraphsJson(*session.runner)},
               {"memory", MemoryJson(*session.runner)},
               {"aliases", AliasJson(module)}};
  json["kernels"] = {{"graph", NameOf(graph.shape)}, {"launches", graph.executable->Describe()}};
  if (!flags.graph.empty()) json["text"] = ir::Print(module);
  return WriteJson(json);
}

Status Inspect(const InspectFlags& flags, const BackendFactory& backends) {
  DI_ASSIGN_OR_RETURN(std::unique_ptr<Session> session, OpenSession(flags.model, backends));
  DI_ASSIGN_OR_RETURN(const runner::CompiledGraph* graph, FindGraph(*session->runner, flags.graph));
  if (!flags.json && flags.kernels && !flags.graph.empty()) {
    std::string text;
    for (const std::string& line : graph->executable->Describe()) text += line + "\n";
    return WriteOut(text);
  }
  if (!flags.json && (!flags.graph.empty() || !flags.svg.empty())) return DumpGraph(flags, *session, *graph);
  DI_ASSIGN_OR_RETURN(const ir::Module module, flags.raw ? session->runner->RecordRaw(graph->shape)
                                                         : session->runner->RecordGraph(graph->shape));
  if (flags.json) return PrintJson(flags, *session, *graph, module);
  const bool everything = !flags.kernels && !flags.memory;
  std::string text;
  if (everything) {
    text += FormatTable(ModelRows(ModelJson(*session))) + "\n" + FormatTable(GraphRows(GraphsJson(*session->runner))) +
            "\n";
  }
  if (everything || flags.memory) text += FormatTable(MemoryRows(MemoryJson(*session->runner), flags.memory)) + "\n";
  if (everything) text += AliasText(AliasJson(module)) + "\n";
  if (everything) text += FormatTable(KernelCounts(*graph));
  if (flags.kernels) {
    for (const runner::CompiledGraph& each : session->runner->graphs()) text += FormatTable(KernelCounts(each)) + "\n";
  }
  return WriteOut(text);
}

}  // namespace

void AddInspect(CLI::App* app, CommandContext* context) {
  auto flags = std::make_shared<InspectFlags>();
  CLI::App* command = app->add_subcommand("inspect", "what a model became: graphs, memory, aliases, kernels");
  AddModelFlags(command, &flags->model);
  command->add_option("--graph", flags->graph, "print one graph as text: prefill:128, decode:1, ...")
      ->type_name("GRAPH");
  command->add_flag("--raw", flags->raw, "the graph as the model recorded it, before the passes");
  command->add_option("--svg", flags->svg, "draw the graph into this file instead")->type_name("FILE");
  command->add_flag("--kernels", flags->kernels, "kernels of every graph with reasons; with --graph its launch list");
  command->add_flag("--memory", flags->memory, "the memory plan with every buffer");
  command->add_flag("--json", flags->json,
                    "one JSON object: model, graphs, memory, aliases, kernels; with --graph also text");
  command->callback([flags, context] { context->status = Inspect(*flags, context->backends); });
}

}  // namespace deepinfer::cli
