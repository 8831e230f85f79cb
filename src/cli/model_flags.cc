#include "cli/model_flags.h"

#include <charconv>

#include "base/env.h"

namespace deepinfer::cli {

void AddModelArgument(CLI::App* command, std::string* model) {
  command
      ->add_option("model", *model,
                   "a GGUF file, a Hugging Face folder, synthetic:FILE.json, or a package's name (smollm2)")
      ->required();
}

void AddModelFlags(CLI::App* command, ModelFlags* f) {
  AddModelArgument(command, &f->model);
  command->add_option("--backend", f->backend, "cpu: fused kernels; reference: the interpreter, slow and plain")
      ->check(CLI::IsMember({"cpu", "reference"}))
      ->capture_default_str();
  command->add_option("--threads", f->threads, "0: affinity, CPU quota and physical cores decide")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  command->add_option("--dtype", f->dtype, "activations and KV cache; weights keep their encoding")
      ->check(CLI::IsMember({"bf16", "f32"}))
      ->capture_default_str();
  command->add_option("--max-model-len", f->max_model_len, "context in tokens; 0: the model's, at most 8192")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command->add_option("--max-num-seqs", f->max_num_seqs, "sequences that run at once")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("--max-num-batched-tokens", f->max_num_batched_tokens, "tokens of one prefill step; 0: 2048")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command
      ->add_option("--kv-cache-memory", f->kv_cache_memory,
                   "for example 512M or 2G; default: 1024 tokens per sequence, or one full context")
      ->type_name("SIZE")
      ->check([](const std::string& text) {
        const auto bytes = ParseBytes("--kv-cache-memory", text);
        return bytes ? std::string() : bytes.error().message;
      });
  command->add_option("--cache-dir", f->cache_dir, "compiled plans and packed weights; none: keep nothing");
  command
      ->add_option("--warm-start", f->warm_start,
                   "trust: cached plans are used as they are; verified: recorded again and compared")
      ->check(CLI::IsMember({"trust", "verified"}))
      ->capture_default_str();
  command->add_flag("--verbose", f->verbose, "say on stderr what is loaded, compiled and chosen");
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

Result<runner::RunnerOptions> ToRunnerOptions(const ModelFlags& flags) {
  runner::RunnerOptions options;
  options.activations = *ParseDType(flags.dtype);
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
