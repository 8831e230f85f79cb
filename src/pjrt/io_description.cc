#include <nlohmann/json.hpp>

#include "pjrt/stablehlo.h"

namespace deepinfer::pjrt {
namespace {

using Json = nlohmann::ordered_json;

Json TypeFields(const std::string& name, const ir::Type& type) {
  Json json;
  json["name"] = name;
  json["dtype"] = type.encoding ? ToString(*type.encoding) : ToString(type.dtype);
  json["shape"] = type.Shape();
  return json;
}

}  // namespace

std::string PrintIoDescription(const ir::Module& module) {
  Json json;
  json["function"] = module.functions.empty() ? "" : module.entry().name;
  json["inputs"] = Json::array();
  json["outputs"] = Json::array();
  json["io_map"] = Json::array();
  if (!module.functions.empty()) {
    const ir::Function& f = module.entry();
    for (const ir::Input& input : f.inputs) {
      Json entry = TypeFields(input.name, f.TypeOf(input.value));
      entry["kind"] = ToString(input.kind);
      entry["aliased_output"] = nullptr;
      if (input.kind == ir::InputKind::kState) {
        entry["buffer"] = input.buffer.empty() ? input.name : input.buffer;
        entry["offset"] = input.offset;
        entry["pool"] = input.pool;
      }
      json["inputs"].push_back(entry);
    }
    for (const ir::Output& output : f.outputs) {
      Json entry = TypeFields(output.name, f.TypeOf(output.value));
      entry["aliased_input"] = nullptr;
      json["outputs"].push_back(entry);
    }
    if (const auto it = module.io_map.find(f.name); it != module.io_map.end()) {
      for (const ir::Alias& alias : it->second) {
        json["inputs"][alias.input]["aliased_output"] = alias.output;
        json["outputs"][alias.output]["aliased_input"] = alias.input;
        json["io_map"].push_back({{"output", alias.output}, {"input", alias.input}});
      }
    }
  }
  // Names may hold any bytes: bad UTF-8 is replaced, not thrown at.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace deepinfer::pjrt
