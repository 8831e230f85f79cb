#include "cli/model_flags.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <type_traits>
#include <variant>

#include "base/env.h"

namespace deepinfer::cli {
namespace {

struct Field {
  std::string flag;
  std::variant<std::string ModelFlags::*, int ModelFlags::*, int64_t ModelFlags::*, bool ModelFlags::*> member;
  std::string help;
  std::optional<CLI::Validator> check = std::nullopt;
  std::string type_name = "";  // in the help text; empty: CLI11's
};

CLI::Validator Size(const std::string& flag) {
  return CLI::Validator(
      [flag](const std::string& text) {
        const auto bytes = ParseBytes(flag, text);
        return bytes ? std::string() : bytes.error().message;
      },
      "");
}

std::vector<std::string> QuantisedEncodings() {
  std::vector<std::string> names;
  for (int i = 0; i < kNumEncodings; ++i) {
    const auto encoding = static_cast<Encoding>(i);
    if (IsQuantised(encoding)) names.emplace_back(ToString(encoding));
  }
  return names;
}

std::vector<std::string> NumericsNames() {
  std::vector<std::string> names;
  for (const Numerics numerics : kAllNumerics) names.emplace_back(ToString(numerics));
  return names;
}

struct KvDTypeName {
  const char* name;
  std::optional<DType> dtype;
};
constexpr KvDTypeName kKvDTypes[] = {{"auto", std::nullopt}, {"f32", DType::kF32},    {"bf16", DType::kBF16},
                                     {"f16", DType::kF16},   {"fp8", DType::kF8E4M3}, {"fp8_e4m3", DType::kF8E4M3},
                                     {"int8", DType::kI8}};

std::vector<std::string> KvDTypeNames() {
  std::vector<std::string> names;
  for (const KvDTypeName& each : kKvDTypes) names.emplace_back(each.name);
  return names;
}

// The one list: what is parsed and what is handed on to another process.
std::vector<Field> Fields() {
  using F = ModelFlags;
  return {
      {"--backend", &F::backend, "cpu: fused kernels; reference: the interpreter, slow and plain; pjrt: a plugin",
       CLI::IsMember({"cpu", "reference", "pjrt"})},
      {"--plugin", &F::plugin, "of pjrt: a library's path or a plugin's name; default: the only one installed"},
      {"--threads", &F::threads, "0: affinity, CPU quota and physical cores decide", CLI::Range(0, 1024)},
      {"--pin-threads", &F::pin_threads,
       "of cpu: each thread stays on a CPU core of its own; auto: if the threads take all cores that they may",
       CLI::IsMember({"auto", "always", "never"})},
      {"--numa", &F::numa,
       "of cpu, on machines with several memory nodes: auto: memory lies near the threads that read it, or is spread "
       "over their nodes; off: the system decides",
       CLI::IsMember({"auto", "off"})},
      {"--dtype", &F::dtype, "activations; weights keep their encoding", CLI::IsMember({"bf16", "f32"})},
      {"--numerics", &F::numerics,
       "of cpu: native: the fastest sums; portable: the same bits on every machine; int8: matrix products of 8-bit "
       "activations",
       CLI::IsMember(NumericsNames())},
      {"--strict-kernels", &F::strict_kernels,
       "of cpu: an op on floats that no kernel takes is an error, where otherwise the reference kernel runs it with a "
       "warning"},
      {"--kv-cache-dtype", &F::kv_cache_dtype,
       "what K and V are kept in; auto: as --dtype says; int8: with a scale for each token and head",
       CLI::IsMember(KvDTypeNames())},
      {"--weights", &F::weights, "quantise matrices of plain floats to this while they are loaded",
       CLI::IsMember(QuantisedEncodings()), "TYPE"},
      {"--tensor-parallel-size", &F::tensor_parallel_size,
       "ranks that run each step together, each with its part of the weights; more than 1: reference and pjrt",
       CLI::Range(1, 1024)},
      {"--max-model-len", &F::max_model_len, "context in tokens; 0: the model's, at most 8192", CLI::NonNegativeNumber},
      {"--max-num-seqs", &F::max_num_seqs, "sequences that run at once", CLI::PositiveNumber},
      {"--max-num-batched-tokens", &F::max_num_batched_tokens, "tokens of one prefill step; 0: 2048",
       CLI::NonNegativeNumber},
      {"--kv-cache-memory", &F::kv_cache_memory,
       "for example 512M or 2G; default: 1024 tokens per sequence, or one full context", Size("--kv-cache-memory"),
       "SIZE"},
      {"--cache-dir", &F::cache_dir, "compiled plans and packed weights; none: keep nothing"},
      {"--warm-start", &F::warm_start,
       "trust: what is cached is used as it is; verified: graphs are recorded again and compared, packed weights read "
       "and checked",
       CLI::IsMember({"trust", "verified"})},
      {"--verbose", &F::verbose, "say on stderr what is loaded, compiled and chosen"},
  };
}

void AddField(CLI::App* command, const Field& field, ModelFlags* flags) {
  const auto add = [&](auto member) {
    auto& value = flags->*member;
    if constexpr (std::is_same_v<decltype(member), bool ModelFlags::*>) {
      command->add_flag(field.flag, value, field.help);
    } else {
      CLI::Option* option = command->add_option(field.flag, value, field.help)->capture_default_str();
      if (field.check) option->check(*field.check);
      if (!field.type_name.empty()) option->type_name(field.type_name);
    }
  };
  std::visit(add, field.member);
}

}  // namespace

void AddModelArgument(CLI::App* command, std::string* model) {
  command
      ->add_option("model", *model,
                   "a GGUF file, a Hugging Face folder, synthetic:FILE.json, or a package's name (smollm2)")
      ->required();
}

void AddModelFlags(CLI::App* command, ModelFlags* flags) {
  AddModelArgument(command, &flags->model);
  for (const Field& field : Fields()) AddField(command, field, flags);
}

void AddSomeModelFlags(CLI::App* command, const std::vector<std::string>& names, ModelFlags* flags) {
  AddModelArgument(command, &flags->model);
  for (const Field& field : Fields()) {
    if (std::find(names.begin(), names.end(), field.flag) != names.end()) AddField(command, field, flags);
  }
}

std::vector<std::string> ToArguments(const ModelFlags& flags) {
  std::vector<std::string> arguments = {flags.model};
  for (const Field& field : Fields()) {
    const auto append = [&](auto member) {
      const auto& value = flags.*member;
      if constexpr (std::is_same_v<decltype(member), bool ModelFlags::*>) {
        if (value) arguments.push_back(field.flag);
      } else if (const std::string text = fmt::format("{}", value); !text.empty()) {
        arguments.insert(arguments.end(), {field.flag, text});
      }
    };
    std::visit(append, field.member);
  }
  return arguments;
}

TeamPlan PlanTeam(const ModelFlags& flags) {
  TeamOptions options;
  options.threads = flags.threads;
  options.pinning = flags.pin_threads == "always"  ? Pinning::kAlways
                    : flags.pin_threads == "never" ? Pinning::kNever
                                                   : Pinning::kAuto;
  options.place_memory = flags.numa != "off";
  if (flags.backend != "cpu") {
    options.pinning = Pinning::kNever;
    options.place_memory = false;
  }
  return deepinfer::PlanTeam(options);
}

Result<int64_t> ParseBytes(const std::string& flag, const std::string& text) {
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  int shift = 0;
  if (rest != end) {
    const std::string_view unit(rest, static_cast<size_t>(end - rest));
    shift = unit == "K" || unit == "KiB"   ? 10
            : unit == "M" || unit == "MiB" ? 20
            : unit == "G" || unit == "GiB" ? 30
                                           : -1;
  }
  if (error != std::errc() || shift < 0 || value <= 0 || value > (int64_t{1} << (50 - shift))) {
    return MakeError(ErrorCode::kInvalidArgument, flag, "must be a size such as 536870912, 512M or 2G, got '{}'", text);
  }
  return value << shift;
}

std::string DefaultCacheDir() {
  if (const std::string dir = GetEnv("DEEPINFER_CACHE_DIR"); !dir.empty()) return dir;
  if (const std::string dir = GetEnv("XDG_CACHE_HOME"); !dir.empty()) return dir + "/deepinfer";
  if (const std::string home = GetEnv("HOME"); !home.empty()) return home + "/.cache/deepinfer";
  return "";
}

runner::LoadOptions ToLoadOptions(const ModelFlags& flags, int threads) {
  return {*ParseDType(flags.dtype), threads, ParseEncoding(flags.weights)};
}

std::optional<DType> KvDType(const ModelFlags& flags) {
  for (const KvDTypeName& each : kKvDTypes) {
    if (flags.kv_cache_dtype == each.name) return each.dtype;
  }
  return std::nullopt;
}

Result<runner::RunnerOptions> ToRunnerOptions(const ModelFlags& flags) {
  runner::RunnerOptions options;
  options.activations = *ParseDType(flags.dtype);
  options.numerics = *ParseNumerics(flags.numerics);
  options.kv = KvDType(flags);
  options.max_model_len = flags.max_model_len;
  options.max_num_seqs = flags.max_num_seqs;
  options.max_num_batched_tokens = flags.max_num_batched_tokens;
  if (!flags.kv_cache_memory.empty()) {
    DI_ASSIGN_OR_RETURN(options.kv_cache_memory, ParseBytes("--kv-cache-memory", flags.kv_cache_memory));
  }
  options.cache_dir = flags.cache_dir.empty() ? DefaultCacheDir() : flags.cache_dir == "none" ? "" : flags.cache_dir;
  options.warm_start = flags.warm_start == "trust" ? backend::WarmStart::kTrust : backend::WarmStart::kVerified;
  return options;
}

}  // namespace deepinfer::cli
