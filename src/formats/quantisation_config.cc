#include "formats/quantisation_config.h"

#include "base/encoding.h"
#include "formats/byte_cursor.h"

namespace deepinfer::formats {
namespace {

template <class... Args>
tl::unexpected<Error> Unsupported(const ConfigNode& node, const char* field, fmt::format_string<Args...> format,
                                  Args&&... args) {
  return MakeError(ErrorCode::kUnsupported, node.Where(field), format, std::forward<Args>(args)...);
}

Status RequireInt(const ConfigNode& node, const char* field, int64_t wanted) {
  DI_ASSIGN_OR_RETURN(const int64_t value, node.RequiredInt(field));
  if (value == wanted) return {};
  return Unsupported(node, field, "is {}; only {} is supported", value, wanted);
}

Status RequireString(const ConfigNode& node, const char* field, std::initializer_list<const char*> wanted,
                     const char* fallback) {
  DI_ASSIGN_OR_RETURN(const std::string value, node.OptionalString(field, fallback));
  for (const char* each : wanted) {
    if (value == each) return {};
  }
  return Unsupported(node, field, "is '{}'; supported are: {}", Printable(value), fmt::join(wanted, ", "));
}

// Settings by module would need a rule for every name.
Status RequireEmpty(const ConfigNode& node, const char* field) {
  if (!node.Has(field) || node.object()[field].empty()) return {};
  return Unsupported(node, field, "settings by module are not supported");
}

Status ReadGroupSize(const ConfigNode& node, QuantisationConfig* config) {
  DI_ASSIGN_OR_RETURN(config->group_size, node.RequiredInt("group_size"));
  if (config->group_size == -1 || (config->group_size >= 32 && config->group_size % 32 == 0)) return {};
  return Unsupported(node, "group_size", "is {}; supported are -1 and multiples of 32", config->group_size);
}

Status ReadGptq(const ConfigNode& node, QuantisationConfig* config) {
  config->method = QuantisationMethod::kGptq;
  DI_RETURN_IF_ERROR(RequireInt(node, "bits", 4));
  DI_RETURN_IF_ERROR(ReadGroupSize(node, config));
  DI_RETURN_IF_ERROR(RequireEmpty(node, "dynamic"));
  DI_RETURN_IF_ERROR(RequireString(node, "checkpoint_format", {"gptq", "gptq_v2"}, "gptq"));
  DI_ASSIGN_OR_RETURN(const std::string format, node.OptionalString("checkpoint_format", "gptq"));
  config->zero_offset = format == "gptq" ? 1 : 0;
  return {};
}

Status ReadAwq(const ConfigNode& node, QuantisationConfig* config) {
  config->method = QuantisationMethod::kAwq;
  DI_RETURN_IF_ERROR(RequireInt(node, node.Has("w_bit") ? "w_bit" : "bits", 4));
  DI_RETURN_IF_ERROR(RequireString(node, "version", {"gemm", "GEMM"}, "gemm"));
  DI_ASSIGN_OR_RETURN(const bool zero_point, node.OptionalBool("zero_point", true));
  if (!zero_point) return Unsupported(node, "zero_point", "only weights with zero points are supported");
  return ReadGroupSize(node, config);
}

Status SetBlocks(const ConfigNode& node, const char* field, const std::vector<int64_t>& sizes,
                 QuantisationConfig* config) {
  if (sizes.empty()) return {};
  constexpr int64_t kMost = 1 << 24;
  if (sizes.size() != 2 || sizes[0] < 1 || sizes[0] > kMost || sizes[1] < kRunElements || sizes[1] > kMost ||
      sizes[1] % kRunElements != 0) {
    return Unsupported(node, field, "is [{}]; supported are blocks of any rows and a multiple of {} columns",
                       fmt::join(sizes, ", "), kRunElements);
  }
  config->block_rows = sizes[0];
  config->block_columns = sizes[1];
  return {};
}

Status ReadFp8(const ConfigNode& node, QuantisationConfig* config) {
  config->method = QuantisationMethod::kFp8;
  DI_RETURN_IF_ERROR(RequireString(node, "fmt", {"e4m3"}, "e4m3"));
  DI_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, node.Ints("weight_block_size"));
  return SetBlocks(node, "weight_block_size", sizes, config);
}

Status ReadCompressedWeights(const ConfigNode& weights, QuantisationConfig* config) {
  DI_RETURN_IF_ERROR(RequireString(weights, "type", {"int", "float"}, "int"));
  DI_ASSIGN_OR_RETURN(const std::string type, weights.OptionalString("type", "int"));
  DI_ASSIGN_OR_RETURN(const int64_t bits, weights.RequiredInt("num_bits"));
  if (bits != 8 && !(bits == 4 && type == "int")) {
    return Unsupported(weights, "num_bits", "is {} ({}); supported are 8 and 4 (int)", bits, type);
  }
  DI_ASSIGN_OR_RETURN(const bool symmetric, weights.OptionalBool("symmetric", true));
  if (!symmetric) return Unsupported(weights, "symmetric", "only symmetric weights are supported");
  DI_RETURN_IF_ERROR(RequireString(weights, "strategy", {"tensor", "channel", "group", "block"}, "tensor"));
  if (weights.Has("actorder") && !weights.object()["actorder"].is_boolean()) {
    DI_RETURN_IF_ERROR(RequireString(weights, "actorder", {"weight", "static"}, "weight"));
  }
  if (!weights.Has("block_structure")) return {};
  DI_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes, weights.Ints("block_structure"));
  return SetBlocks(weights, "block_structure", sizes, config);
}

Status ReadCompressed(const ConfigNode& node, QuantisationConfig* config) {
  config->method = QuantisationMethod::kCompressed;
  DI_RETURN_IF_ERROR(RequireString(
      node, "format", {"float-quantized", "int-quantized", "naive-quantized", "pack-quantized"}, "naive-quantized"));
  if (node.Has("sparsity_config") && !node.object()["sparsity_config"].empty()) {
    DI_ASSIGN_OR_RETURN(const auto sparsity, node.Child("sparsity_config"));
    DI_RETURN_IF_ERROR(RequireString(*sparsity, "format", {"dense"}, "dense"));
  }
  DI_ASSIGN_OR_RETURN(const auto groups, node.Child("config_groups"));
  if (!groups) return MakeError(ErrorCode::kNotFound, node.Where("config_groups"), "the field is missing");
  for (const auto& [name, value] : groups->object().items()) {
    DI_ASSIGN_OR_RETURN(const auto group, groups->Child(name));
    if (!group) continue;
    DI_ASSIGN_OR_RETURN(const auto weights, group->Child("weights"));
    if (weights) DI_RETURN_IF_ERROR(ReadCompressedWeights(*weights, config));
  }
  return {};
}

}  // namespace

Result<QuantisationConfig> ReadQuantisation(const HfConfig& config) {
  QuantisationConfig result;
  for (const ConfigNode& parent : {config.root(), config.text()}) {
    DI_ASSIGN_OR_RETURN(const auto node, parent.Child("quantization_config"));
    if (!node) continue;
    DI_ASSIGN_OR_RETURN(const std::string method, node->RequiredString("quant_method"));
    Status read;
    if (method == "gptq") {
      read = ReadGptq(*node, &result);
    } else if (method == "awq") {
      read = ReadAwq(*node, &result);
    } else if (method == "fp8" || method == "fbgemm_fp8") {
      read = ReadFp8(*node, &result);
    } else if (method == "compressed-tensors") {
      read = ReadCompressed(*node, &result);
    } else {
      return Unsupported(*node, "quant_method",
                         "'{}' is not supported; supported are: fp8, fbgemm_fp8, compressed-tensors, gptq, awq",
                         Printable(method));
    }
    DI_RETURN_IF_ERROR(read);
    return result;
  }
  return result;
}

}  // namespace deepinfer::formats
