#include <fmt/format.h>
#include <xxhash.h>

#include <cmath>

#include "ir/text.h"

namespace deepinfer::ir {
namespace {

std::string Quote(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string PrintFloat(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

struct AttrPrinter {
  std::string operator()(int64_t value) const { return fmt::format("{}", value); }
  std::string operator()(double value) const { return PrintFloat(value); }
  std::string operator()(const std::string& value) const { return Quote(value); }
  std::string operator()(const std::vector<int64_t>& values) const {
    return fmt::format("[{}]", fmt::join(values, ", "));
  }
  std::string operator()(const std::vector<std::string>& values) const {
    std::string out = "(";
    for (size_t i = 0; i < values.size(); ++i) out += (i > 0 ? ", " : "") + Quote(values[i]);
    return out + ")";
  }
  std::string operator()(const Bytes& bytes) const {
    std::string out = "0x";
    for (const uint8_t byte : bytes) out += fmt::format("{:02x}", byte);
    return out;
  }
};

// Numbers values in order of definition: inputs, then results.
class FunctionPrinter {
 public:
  explicit FunctionPrinter(const Function& function) : f_(function), number_(function.types.size(), -1) {
    for (const Input& input : f_.inputs) number_[input.value] = next_++;
    for (const Node& node : f_.nodes) {
      for (const ValueId result : node.results) number_[result] = next_++;
    }
  }

  std::string Ref(ValueId value) const { return fmt::format("%{}", number_[value]); }

  std::string Print(const Module& module) const {
    std::string out = fmt::format("func @{}(", f_.name);
    for (size_t i = 0; i < f_.inputs.size(); ++i) out += (i > 0 ? ", " : "") + PrintInput(f_.inputs[i]);
    out += ") {\n";
    for (const Node& node : f_.nodes) out += "  " + PrintNode(node) + "\n";
    out += "  return";
    for (size_t i = 0; i < f_.outputs.size(); ++i) {
      out += fmt::format("{} {} {}", i > 0 ? "," : "", Quote(f_.outputs[i].name), Ref(f_.outputs[i].value));
    }
    out += "\n}";
    if (const auto it = module.io_map.find(f_.name); it != module.io_map.end() && !it->second.empty()) {
      out += " alias";
      for (size_t i = 0; i < it->second.size(); ++i) {
        out += fmt::format("{} {} -> {}", i > 0 ? "," : "", it->second[i].output, it->second[i].input);
      }
    }
    return out + "\n";
  }

 private:
  std::string PrintInput(const Input& input) const {
    std::string out = fmt::format("{}: {} {} {}", Ref(input.value), ToString(input.kind), Quote(input.name),
                                  ToString(f_.TypeOf(input.value)));
    if (!input.buffer.empty()) out += fmt::format(" in {}+{}", Quote(input.buffer), input.offset);
    if (!input.pool.empty()) out += " pool " + Quote(input.pool);
    return out;
  }

  std::string PrintNode(const Node& node) const {
    std::string out;
    for (size_t i = 0; i < node.results.size(); ++i) out += (i > 0 ? ", " : "") + Ref(node.results[i]);
    if (!node.results.empty()) out += " = ";
    out += ToString(node.op);
    out += '(';
    for (size_t i = 0; i < node.operands.size(); ++i) out += (i > 0 ? ", " : "") + Ref(node.operands[i]);
    out += ')';
    if (!node.attrs.empty()) {
      out += " {";
      bool first = true;
      for (const auto& [key, value] : node.attrs) {
        out += fmt::format("{}{} = {}", first ? "" : ", ", key, std::visit(AttrPrinter(), value));
        first = false;
      }
      out += '}';
    }
    for (size_t i = 0; i < node.results.size(); ++i) {
      out += (i > 0 ? ", " : " : ") + ToString(f_.TypeOf(node.results[i]));
    }
    return out;
  }

  const Function& f_;
  std::vector<int> number_;
  int next_ = 0;
};

}  // namespace

std::string Print(const Module& module) {
  std::string out = "module";
  if (module.live_counts != kNoValue && !module.functions.empty()) {
    out += fmt::format(" live({})", FunctionPrinter(module.entry()).Ref(module.live_counts));
  }
  out += '\n';
  for (const Function& function : module.functions) out += FunctionPrinter(function).Print(module);
  return out;
}

uint64_t CanonicalHash(const Module& module) {
  const std::string text = Print(module);
  return XXH3_64bits(text.data(), text.size());
}

}  // namespace deepinfer::ir
