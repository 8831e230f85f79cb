#include "backend/graph_key.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <iterator>
#include <string_view>

namespace deepinfer::backend {
namespace {

using nlohmann::json;
using KeyBuffer = fmt::basic_memory_buffer<char, 2048>;

void Append(KeyBuffer& out, std::string_view text) {
  out.append(text.data(), text.data() + text.size());
}

// Keeps lines and list items apart whatever a string holds.
void AppendEscaped(KeyBuffer& out, std::string_view text) {
  for (const char c : text) {
    if (c == '\n') {
      Append(out, "\\n");
    } else {
      if (c == '\\' || c == ',') out.push_back('\\');
      out.push_back(c);
    }
  }
}

void AppendValue(KeyBuffer& out, const std::string& value) {
  AppendEscaped(out, value);
}
void AppendValue(KeyBuffer& out, int64_t value) {
  fmt::format_to(std::back_inserter(out), "{}", value);
}
void AppendValue(KeyBuffer& out, DType value) {
  Append(out, ToString(value));
}
void AppendValue(KeyBuffer& out, GraphMode value) {
  Append(out, ToString(value));
}
void AppendValue(KeyBuffer& out, const std::vector<std::string>& values) {
  for (const std::string& value : values) {
    AppendEscaped(out, value);
    out.push_back(',');
  }
}

void AppendText(KeyBuffer& out, const GraphKey& key) {
  GraphKey::ForEachField([&](const char* name, auto member) {
    Append(out, name);
    out.push_back('=');
    AppendValue(out, key.*member);
    out.push_back('\n');
  });
}

json JsonValue(const std::string& value) {
  return value;
}
json JsonValue(int64_t value) {
  return value;
}
json JsonValue(DType value) {
  return std::string(ToString(value));
}
json JsonValue(GraphMode value) {
  return ToString(value);
}
json JsonValue(const std::vector<std::string>& values) {
  return values;
}

// Each says whether the JSON value had the field's type.
bool ReadValue(const json& in, std::string& out) {
  if (!in.is_string()) return false;
  out = in.get<std::string>();
  return true;
}

bool ReadValue(const json& in, int64_t& out) {
  if (!in.is_number_integer()) return false;
  out = in.get<int64_t>();
  return true;
}

bool ReadValue(const json& in, DType& out) {
  if (!in.is_string()) return false;
  const auto parsed = ParseDType(in.get<std::string>());
  if (!parsed) return false;
  out = *parsed;
  return true;
}

bool ReadValue(const json& in, GraphMode& out) {
  for (const GraphMode mode : {GraphMode::kFull, GraphMode::kBreakable}) {
    if (in == ToString(mode)) {
      out = mode;
      return true;
    }
  }
  return false;
}

bool ReadValue(const json& in, std::vector<std::string>& out) {
  if (!in.is_array()) return false;
  for (const json& item : in) {
    if (!ReadValue(item, out.emplace_back())) return false;
  }
  return true;
}

}  // namespace

const char* ToString(GraphMode mode) {
  return mode == GraphMode::kFull ? "full" : "breakable";
}

uint64_t GraphKey::Hash() const {
  KeyBuffer text;
  AppendText(text, *this);
  return XXH3_64bits(text.data(), text.size());
}

std::string GraphKey::Text() const {
  KeyBuffer text;
  AppendText(text, *this);
  return std::string(text.data(), text.size());
}

json GraphKey::ToJson() const {
  json out = json::object();
  ForEachField([&](const char* name, auto member) { out[name] = JsonValue(this->*member); });
  return out;
}

Result<GraphKey> GraphKey::FromJson(const json& in) {
  if (!in.is_object()) return MakeError(ErrorCode::kDataLoss, "graph key", "is not an object");
  GraphKey key;
  std::string bad;
  size_t fields = 0;
  ForEachField([&](const char* name, auto member) {
    ++fields;
    const auto found = in.find(name);
    if (bad.empty() && (found == in.end() || !ReadValue(*found, key.*member))) bad = name;
  });
  if (!bad.empty())
    return MakeError(ErrorCode::kDataLoss, "graph key", "the field {} is missing or of another type", bad);
  if (in.size() != fields)
    return MakeError(ErrorCode::kDataLoss, "graph key", "has {} fields, not {}", in.size(), fields);
  return key;
}

std::vector<FieldDiff> Diff(const GraphKey& left, const GraphKey& right) {
  std::vector<FieldDiff> diff;
  GraphKey::ForEachField([&](const char* name, auto member) {
    if (left.*member == right.*member) return;
    KeyBuffer a, b;
    AppendValue(a, left.*member);
    AppendValue(b, right.*member);
    diff.push_back({name, std::string(a.data(), a.size()), std::string(b.data(), b.size())});
  });
  return diff;
}

std::string DescribeDiff(const std::vector<FieldDiff>& diff) {
  std::string out;
  for (const FieldDiff& field : diff) {
    out += fmt::format("{}{} is {}, there {}", out.empty() ? "" : "; ", field.name,
                       field.left.empty() ? "empty" : field.left, field.right.empty() ? "empty" : field.right);
  }
  return out;
}

}  // namespace deepinfer::backend
