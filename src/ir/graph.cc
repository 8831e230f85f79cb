#include "ir/graph.h"

namespace deepinfer::ir {
namespace {

template <class T>
T Get(const AttrMap& attrs, const std::string& key, T fallback) {
  const auto it = attrs.find(key);
  if (it == attrs.end()) return fallback;
  const T* value = std::get_if<T>(&it->second);
  return value == nullptr ? fallback : *value;
}

}  // namespace

const char* ToString(InputKind kind) {
  switch (kind) {
    case InputKind::kWeight:
      return "weight";
    case InputKind::kState:
      return "state";
    case InputKind::kMetadata:
      return "metadata";
    case InputKind::kArgument:
      return "argument";
  }
  return "?";
}

int64_t Node::Int(const std::string& key, int64_t fallback) const {
  return Get(attrs, key, fallback);
}
double Node::Float(const std::string& key, double fallback) const {
  return Get(attrs, key, fallback);
}
std::string Node::Str(const std::string& key, const std::string& fallback) const {
  return Get(attrs, key, fallback);
}
std::vector<int64_t> Node::Ints(const std::string& key) const {
  return Get(attrs, key, std::vector<int64_t>());
}
std::vector<std::string> Node::Strs(const std::string& key) const {
  return Get(attrs, key, std::vector<std::string>());
}

ValueId Function::AddValue(Type type) {
  types.push_back(std::move(type));
  return static_cast<ValueId>(types.size() - 1);
}

const Input* Function::FindInput(ValueId value) const {
  for (const Input& input : inputs) {
    if (input.value == value) return &input;
  }
  return nullptr;
}

const Function* Module::Find(const std::string& name) const {
  for (const Function& function : functions) {
    if (function.name == name) return &function;
  }
  return nullptr;
}

Function* Module::Find(const std::string& name) {
  return const_cast<Function*>(static_cast<const Module*>(this)->Find(name));
}

}  // namespace deepinfer::ir
