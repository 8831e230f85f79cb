#include "formats/json.h"

#include <vector>

#include "formats/byte_cursor.h"

namespace deepinfer::formats {
namespace {

// Receives nlohmann's parse events and builds the document; returning false stops the parser.
template <class json>
class LimitedBuilder {
 public:
  explicit LimitedBuilder(const JsonLimits& limits) : limits_(limits) {}

  bool null() { return Add(nullptr) != nullptr; }
  bool boolean(bool value) { return Add(value) != nullptr; }
  bool number_integer(typename json::number_integer_t value) { return Add(value) != nullptr; }
  bool number_unsigned(typename json::number_unsigned_t value) { return Add(value) != nullptr; }
  bool number_float(typename json::number_float_t value, const std::string&) { return Add(value) != nullptr; }
  bool string(std::string& value) { return Add(std::move(value)) != nullptr; }
  bool binary(typename json::binary_t&) { return false; }
  bool start_object(size_t) { return Open(json::object()); }
  bool start_array(size_t) { return Open(json::array()); }
  bool end_object() { return Close(); }
  bool end_array() { return Close(); }
  bool key(std::string& name) {
    if (open_.back()->contains(name)) return Stop(fmt::format("the key \"{}\" occurs twice", Printable(name)));
    if (open_.back()->size() >= limits_.max_keys)
      return Stop(fmt::format("an object has over {} keys", limits_.max_keys));
    key_ = std::move(name);
    return true;
  }
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception& error) {
    return Stop(fmt::format("not valid JSON at byte {}: {}", position, Printable(error.what(), 200)));
  }

  json& root() { return root_; }
  const std::string& reason() const { return reason_; }

 private:
  bool Stop(std::string reason) {
    reason_ = std::move(reason);
    return false;
  }

  json* Add(json value) {
    if (++values_ > limits_.max_values) {
      Stop(fmt::format("has over {} values", limits_.max_values));
      return nullptr;
    }
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    json& parent = *open_.back();
    if (parent.is_array()) {
      parent.push_back(std::move(value));
      return &parent.back();
    }
    return &(parent[key_] = std::move(value));
  }

  bool Open(json container) {
    if (open_.size() >= limits_.max_depth) return Stop(fmt::format("is nested over {} levels deep", limits_.max_depth));
    json* added = Add(std::move(container));
    if (added == nullptr) return false;
    open_.push_back(added);  // stays valid: an open container's parent does not change
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  const JsonLimits& limits_;
  json root_;
  std::vector<json*> open_;
  std::string key_;
  std::string reason_;
  size_t values_ = 0;
};

template <class Json>
Result<Json> Parse(std::string_view text, const std::string& where, const JsonLimits& limits) {
  if (text.size() > limits.max_bytes) {
    return MakeError(ErrorCode::kInvalidArgument, where, "its {} bytes are over the limit of {}", text.size(),
                     limits.max_bytes);
  }
  LimitedBuilder<Json> builder(limits);
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) {
    return MakeError(ErrorCode::kInvalidArgument, where, "{}", builder.reason());
  }
  return std::move(builder.root());
}

}  // namespace

Result<nlohmann::json> ParseJson(std::string_view text, const std::string& where, const JsonLimits& limits) {
  return Parse<nlohmann::json>(text, where, limits);
}

Result<nlohmann::ordered_json> ParseOrderedJson(std::string_view text, const std::string& where,
                                                const JsonLimits& limits) {
  return Parse<nlohmann::ordered_json>(text, where, limits);
}

}  // namespace deepinfer::formats
