#include "models/architectures.h"

namespace deepinfer::models {

Status RequireFullLayers(const formats::ConfigNode& node) {
  DI_ASSIGN_OR_RETURN(const std::vector<std::string> types, node.Strings("layer_types"));
  for (const std::string& type : types) {
    if (type != "full_attention") {
      return MakeError(ErrorCode::kUnsupported, node.Where("layer_types"),
                       "'{}' is not supported for this architecture; supported is: full_attention", type);
    }
  }
  return {};
}

Status RequireFullLayers(const formats::GgufFile& file, const std::string& architecture) {
  const std::string key = architecture + ".attention.sliding_window";
  DI_ASSIGN_OR_RETURN(const int64_t window, file.OptionalInt(key, 0));
  if (window == 0) return {};
  return MakeError(ErrorCode::kUnsupported, fmt::format("{}: {}", file.path(), key),
                   "sliding windows are not supported for this architecture");
}

ir::Value PreNormLayer(LayerRecorder& layer, bool qk_norm) {
  const ir::Value x = layer.Add(layer.x(), layer.Attention(layer.Norm(layer.x(), "input_layernorm"), qk_norm));
  return layer.Add(x, layer.Mlp(layer.Norm(x, "post_attention_layernorm")));
}

}  // namespace deepinfer::models
