#include "formats/quantised_tensors.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <set>
#include <string_view>

#include "base/half.h"
#include "formats/byte_cursor.h"
#include "formats/quantised_rows.h"

namespace deepinfer::formats {
namespace {

// Of activations and KV caches, at the end of names; weight_shape repeats what shapes say.
constexpr std::string_view kUnneeded[] = {".input_scale",  ".input_scale_ub", ".activation_scale",
                                          ".output_scale", ".q_scale",        ".k_scale",
                                          ".v_scale",      ".kv_scale",       ".weight_shape"};

using Shape = std::vector<int64_t>;

template <class... Args>
tl::unexpected<Error> Fail(ErrorCode code, const CheckpointTensor& tensor, fmt::format_string<Args...> format,
                           Args&&... args) {
  return MakeError(code, fmt::format("{}: tensor {}", tensor.file, Printable(tensor.name)), format,
                   std::forward<Args>(args)...);
}

std::string Text(const Shape& shape) {
  return fmt::format("[{}]", fmt::join(shape, ","));
}

bool IsFloatTensor(const CheckpointTensor& tensor) {
  return tensor.encoding && !IsQuantised(*tensor.encoding);
}

int64_t Elements(const CheckpointTensor& tensor) {
  int64_t count = 1;
  for (const int64_t size : tensor.shape) count *= size;
  return count;
}

class Assembler {
 public:
  Assembler(const QuantisationConfig& config, const std::vector<CheckpointTensor>& tensors) : config_(config) {
    for (const CheckpointTensor& tensor : tensors) parts_.emplace(tensor.name, &tensor);
  }

  // The weight that `tensor` is the main part of; none if it is not such a part.
  Result<std::optional<CheckpointTensor>> WeightOf(const CheckpointTensor& tensor) {
    const auto prefix = [&](std::string_view ending) {
      return tensor.name.substr(0, tensor.name.size() - ending.size());
    };
    if (tensor.name.ends_with(".qweight")) return Int4Weight(prefix(".qweight"), tensor);
    if (tensor.name.ends_with(".weight_packed")) return PackedWeight(prefix(".weight_packed"), tensor);
    const bool is_bytes = tensor.type_name == "F8_E4M3" || tensor.type_name == "I8";
    if (tensor.name.ends_with(".weight") && is_bytes) return ScaledWeight(prefix(".weight"), tensor);
    return std::optional<CheckpointTensor>();
  }

  // Whether another tensor's weight holds it, or nothing needs it.
  bool IsPart(const std::string& name) const { return used_.count(name) != 0; }

 private:
  // Null if missing.
  const CheckpointTensor* Take(const std::string& name) {
    const auto it = parts_.find(name);
    if (it == parts_.end()) return nullptr;
    used_.insert(name);
    return it->second;
  }

  Result<const CheckpointTensor*> Require(const std::string& name, const CheckpointTensor& main) {
    const CheckpointTensor* part = Take(name);
    if (part == nullptr) return Fail(ErrorCode::kNotFound, main, "belongs with {}, which is missing", Printable(name));
    return part;
  }

  static Status CheckPart(const CheckpointTensor& part, const char* type, const Shape& shape) {
    if (part.type_name != type)
      return Fail(ErrorCode::kUnsupported, part, "is {}; {} is expected", part.type_name, type);
    if (part.shape == shape) return {};
    return Fail(ErrorCode::kInvalidArgument, part, "its shape is {}; {} is expected", Text(part.shape), Text(shape));
  }

  Result<CheckpointTensor> NewWeight(const std::string& prefix, const CheckpointTensor& main, Encoding encoding,
                                     int64_t outputs, int64_t inputs) {
    used_.insert(main.name);
    const std::string name = prefix + ".weight";
    if (name != main.name && parts_.count(name) != 0) {
      return Fail(ErrorCode::kInvalidArgument, main, "is the same weight as {}", Printable(name));
    }
    if (outputs < 1 || inputs < 1) return Fail(ErrorCode::kDataLoss, main, "it has no elements");
    if (inputs % 32 != 0) return Fail(ErrorCode::kUnsupported, main, "{} inputs are not a multiple of 32", inputs);
    return CheckpointTensor{name, encoding, ToString(encoding), {outputs, inputs}, {}, main.file, {}};
  }

  // Scales as f16: kept so in files, or of another type and none of them rounded by the conversion.
  Status CheckScales(const CheckpointTensor& part, const Shape& shape, Floats* scales) {
    if (!IsFloatTensor(part)) return Fail(ErrorCode::kUnsupported, part, "is {}; a float is expected", part.type_name);
    DI_RETURN_IF_ERROR(CheckPart(part, part.type_name.c_str(), shape));
    *scales = {part.data, *part.encoding};
    if (*part.encoding == Encoding::kF16) return {};
    for (int64_t i = 0; i < Elements(part); ++i) {
      const float value = scales->At(i);
      if (F16ToF32(F32ToF16(value)) == value) continue;
      return Fail(ErrorCode::kUnsupported, part, "its {} value {} is not representable as f16", part.type_name, value);
    }
    return {};
  }

  static Encoding EncodingOfGroups(int64_t group_size, int64_t inputs) {
    return group_size % kRunElements == 0 || group_size == inputs ? Encoding::kInt4 : Encoding::kInt4G32;
  }

  Result<std::optional<CheckpointTensor>> Int4Weight(const std::string& prefix, const CheckpointTensor& codes) {
    const bool gptq = config_.method == QuantisationMethod::kGptq;
    if (!gptq && config_.method != QuantisationMethod::kAwq) {
      return Fail(ErrorCode::kUnsupported, codes,
                  "config.json has no quantization_config of gptq or awq to read it with");
    }
    if (codes.shape.size() != 2) return Fail(ErrorCode::kInvalidArgument, codes, "its shape is {}", Text(codes.shape));
    Int4Source source;
    source.layout = gptq ? Int4Layout::kGptq : Int4Layout::kAwq;
    source.codes = codes.data;
    source.k = codes.shape[0] * (gptq ? 8 : 1);
    source.n = codes.shape[1] * (gptq ? 1 : 8);
    source.zero_offset = config_.zero_offset;
    source.group_size = config_.group_size == -1 ? source.k : config_.group_size;
    DI_RETURN_IF_ERROR(CheckPart(codes, "I32", codes.shape));
    DI_ASSIGN_OR_RETURN(CheckpointTensor weight,
                        NewWeight(prefix, codes, EncodingOfGroups(source.group_size, source.k), source.n, source.k));
    if (source.n % 8 != 0 || source.k % source.group_size != 0) {
      return Fail(ErrorCode::kUnsupported, codes, "a weight {} is not whole groups of {} inputs and 8 outputs",
                  Text(weight.shape), source.group_size);
    }
    const int64_t groups = source.k / source.group_size;
    DI_ASSIGN_OR_RETURN(const CheckpointTensor* zeros, Require(prefix + ".qzeros", codes));
    DI_RETURN_IF_ERROR(CheckPart(*zeros, "I32", {groups, source.n / 8}));
    source.zeros = zeros->data;
    DI_ASSIGN_OR_RETURN(const CheckpointTensor* scales, Require(prefix + ".scales", codes));
    DI_RETURN_IF_ERROR(CheckScales(*scales, {groups, source.n}, &source.scales));
    DI_ASSIGN_OR_RETURN(source.order, OrderOfInputs(prefix, source));
    weight.order = source.order;
    weight.rows = Int4Rows(source);
    return std::optional<CheckpointTensor>(std::move(weight));
  }

  // The inputs by their groups, if g_idx is there and says something else than that groups follow each other.
  Result<InputOrder> OrderOfInputs(const std::string& prefix, const Int4Source& source) {
    const CheckpointTensor* part = Take(prefix + ".g_idx");
    if (part == nullptr) return InputOrder();
    DI_RETURN_IF_ERROR(CheckPart(*part, "I32", {source.k}));
    std::vector<int32_t> groups(static_cast<size_t>(source.k));
    std::memcpy(groups.data(), part->data.data(), part->data.size());
    std::vector<int32_t> order(groups.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return groups[static_cast<size_t>(a)] < groups[static_cast<size_t>(b)];
    });
    for (int64_t k = 0; k < source.k; ++k) {
      const int32_t input = order[static_cast<size_t>(k)], group = groups[static_cast<size_t>(input)];
      if (group == k / source.group_size) continue;
      return Fail(ErrorCode::kUnsupported, *part,
                  "its groups are not 0 to {} with {} inputs each: input {} is in group {}",
                  source.k / source.group_size - 1, source.group_size, input, group);
    }
    if (std::is_sorted(order.begin(), order.end())) return InputOrder();
    return std::make_shared<const std::vector<int32_t>>(std::move(order));
  }

  Result<std::optional<CheckpointTensor>> PackedWeight(const std::string& prefix, const CheckpointTensor& codes) {
    if (config_.method != QuantisationMethod::kCompressed) {
      return Fail(ErrorCode::kUnsupported, codes,
                  "config.json has no quantization_config of compressed-tensors to read it with");
    }
    for (const char* name : {".weight_g_idx", ".weight_zero_point"}) {
      const auto it = parts_.find(prefix + name);
      if (it != parts_.end()) return Fail(ErrorCode::kUnsupported, *it->second, "such weights are not supported");
    }
    if (codes.shape.size() != 2) return Fail(ErrorCode::kInvalidArgument, codes, "its shape is {}", Text(codes.shape));
    DI_RETURN_IF_ERROR(CheckPart(codes, "I32", codes.shape));
    DI_ASSIGN_OR_RETURN(const CheckpointTensor* scales, Require(prefix + ".weight_scale", codes));
    Int4Source source;
    source.layout = Int4Layout::kPacked;
    source.codes = codes.data;
    source.n = codes.shape[0];
    source.k = codes.shape[1] * 8;
    const int64_t groups = scales->shape.size() == 2 ? scales->shape[1] : 0;
    if (groups < 1 || source.k % groups != 0 || source.k / groups % 32 != 0) {
      return Fail(ErrorCode::kUnsupported, *scales, "its shape {} gives no groups of whole 32s of {} inputs",
                  Text(scales->shape), source.k);
    }
    source.group_size = source.k / groups;
    DI_RETURN_IF_ERROR(CheckScales(*scales, {source.n, groups}, &source.scales));
    DI_ASSIGN_OR_RETURN(CheckpointTensor weight,
                        NewWeight(prefix, codes, EncodingOfGroups(source.group_size, source.k), source.n, source.k));
    weight.rows = Int4Rows(source);
    return std::optional<CheckpointTensor>(std::move(weight));
  }

  Result<std::optional<CheckpointTensor>> ScaledWeight(const std::string& prefix, const CheckpointTensor& codes) {
    const CheckpointTensor* scales = Take(prefix + ".weight_scale");
    if (scales == nullptr) scales = Take(prefix + ".weight_scale_inv");
    if (scales == nullptr) return std::optional<CheckpointTensor>();  // refused when it is asked for
    if (codes.shape.size() != 2) return Fail(ErrorCode::kUnsupported, codes, "its shape is {}", Text(codes.shape));
    if (!IsFloatTensor(*scales)) {
      return Fail(ErrorCode::kUnsupported, *scales, "is {}; a float is expected", scales->type_name);
    }
    DI_RETURN_IF_ERROR(CheckZeroPoint(prefix));
    const int64_t n = codes.shape[0], k = codes.shape[1];
    ScaledBytes source;
    source.encoding = codes.type_name == "I8" ? Encoding::kInt8 : Encoding::kFP8;
    source.codes = codes.data;
    source.k = k;
    source.scales = {scales->data, *scales->encoding};
    DI_ASSIGN_OR_RETURN(CheckpointTensor weight, NewWeight(prefix, codes, source.encoding, n, k));
    DI_RETURN_IF_ERROR(SetScaleShape(*scales, n, k, &source));
    weight.rows = ScaledByteRows(source);
    return std::optional<CheckpointTensor>(std::move(weight));
  }

  // Some files give symmetric weights zero points all the same.
  Status CheckZeroPoint(const std::string& prefix) {
    const CheckpointTensor* part = Take(prefix + ".weight_zero_point");
    if (part == nullptr) return {};
    const auto is_zero = [](std::byte byte) { return byte == std::byte{0}; };
    if (std::all_of(part->data.begin(), part->data.end(), is_zero)) return {};
    return Fail(ErrorCode::kUnsupported, *part, "only symmetric weights are supported");
  }

  // One scale for the tensor, for each output, or for blocks of the configured size.
  Status SetScaleShape(const CheckpointTensor& scales, int64_t n, int64_t k, ScaledBytes* source) const {
    const Shape& shape = scales.shape;
    source->rows_per_scale = 1;
    source->columns_per_scale = k;
    if (config_.block_rows > 0 && shape.size() == 2 && shape[0] == (n + config_.block_rows - 1) / config_.block_rows &&
        shape[1] == (k + config_.block_columns - 1) / config_.block_columns) {
      source->scale_columns = shape[1];
      source->rows_per_scale = config_.block_rows;
      source->columns_per_scale = config_.block_columns;
    } else if (Elements(scales) == 1) {
      source->rows_per_scale = n;
    } else if (shape == Shape{n} || shape == Shape{n, 1}) {
      source->scale_columns = 1;
    } else if (shape.size() == 2 && shape[0] == n && shape[1] > 0 && k % shape[1] == 0 &&
               k / shape[1] % kRunElements == 0) {
      source->scale_columns = shape[1];
      source->columns_per_scale = k / shape[1];
    } else {
      return Fail(ErrorCode::kUnsupported, scales,
                  "its shape {} is not one scale for a weight {}, for each output, or for blocks of weight_block_size",
                  Text(shape), Text({n, k}));
    }
    return {};
  }

  const QuantisationConfig& config_;
  std::map<std::string, const CheckpointTensor*, std::less<>> parts_;
  std::set<std::string, std::less<>> used_;
};

bool IsUnneeded(std::string_view name) {
  return std::any_of(std::begin(kUnneeded), std::end(kUnneeded),
                     [&](std::string_view ending) { return name.ends_with(ending); });
}

}  // namespace

Result<std::vector<CheckpointTensor>> AssembleQuantised(const QuantisationConfig& config,
                                                        std::vector<CheckpointTensor> tensors) {
  Assembler assembler(config, tensors);
  std::vector<std::optional<CheckpointTensor>> weights;
  for (const CheckpointTensor& tensor : tensors) {
    DI_ASSIGN_OR_RETURN(std::optional<CheckpointTensor> weight, assembler.WeightOf(tensor));
    weights.push_back(std::move(weight));
  }
  std::vector<CheckpointTensor> result;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const bool unneeded = config.method != QuantisationMethod::kNone && IsUnneeded(tensors[i].name);
    if (weights[i]) {
      result.push_back(std::move(*weights[i]));
    } else if (!assembler.IsPart(tensors[i].name) && !unneeded) {
      result.push_back(std::move(tensors[i]));
    }
  }
  return result;
}

}  // namespace deepinfer::formats
