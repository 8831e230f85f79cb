#include "server/json_values.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "formats/json.h"

namespace deepinfer::server {
namespace {

constexpr double kExactIntegers = 9007199254740992.0;  // 2^53

// A body's own length is limited by the connection.
constexpr formats::JsonLimits kBodyLimits = {
    .max_bytes = std::numeric_limits<size_t>::max(), .max_depth = 64, .max_values = 1u << 20, .max_keys = 1u << 14};

}  // namespace

ApiStatus Read(const Json& value, const std::string& name, double* out) {
  if (!value.is_number()) return InvalidType(name, "a number", value);
  *out = value.get<double>();
  return {};
}

ApiStatus Read(const Json& value, const std::string& name, int64_t* out) {
  if (!value.is_number()) return InvalidType(name, "an integer", value);
  if (value.is_number_float()) {
    const double number = value.get<double>();
    if (number != std::floor(number) || std::abs(number) > kExactIntegers) {
      return InvalidValue(name, fmt::format("must be an integer, got {}", Dump(value)));
    }
    *out = static_cast<int64_t>(number);
    return {};
  }
  if (value.is_number_unsigned() &&
      value.get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return InvalidValue(name, fmt::format("{} is too large", Dump(value)));
  }
  *out = value.get<int64_t>();
  return {};
}

ApiStatus Read(const Json& value, const std::string& name, int32_t* out) {
  int64_t wide = 0;
  DI_RETURN_IF_ERROR(Read(value, name, &wide));
  if (wide < std::numeric_limits<int32_t>::min() || wide > std::numeric_limits<int32_t>::max()) {
    return InvalidValue(name, fmt::format("{} is out of range", wide));
  }
  *out = static_cast<int32_t>(wide);
  return {};
}

ApiStatus Read(const Json& value, const std::string& name, bool* out) {
  if (!value.is_boolean()) return InvalidType(name, "true or false", value);
  *out = value.get<bool>();
  return {};
}

ApiStatus Read(const Json& value, const std::string& name, std::string* out) {
  if (!value.is_string()) return InvalidType(name, "a string", value);
  *out = value.get<std::string>();
  return {};
}

ApiStatus Read(const Json& value, const std::string& name, std::vector<int32_t>* out) {
  DI_RETURN_IF_ERROR(RequireArray(value, name));
  out->clear();
  out->reserve(value.size());
  for (const Json& element : value) {
    int32_t id = 0;
    const std::string place = fmt::format("{}[{}]", name, out->size());
    DI_RETURN_IF_ERROR(Read(element, place, &id));
    if (id < 0) return InvalidValue(place, fmt::format("{} is not a token id", id));
    out->push_back(id);
  }
  return {};
}

ApiStatus RequireObject(const Json& value, const std::string& name) {
  if (!value.is_object()) return InvalidType(name, "an object", value);
  return {};
}

ApiStatus RequireArray(const Json& value, const std::string& name) {
  if (!value.is_array()) return InvalidType(name, "an array", value);
  return {};
}

ApiStatus OnlyMembers(const Json& object, const std::string& name, const std::vector<std::string>& known) {
  DI_RETURN_IF_ERROR(RequireObject(object, name));
  for (const auto& [key, value] : object.items()) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      const std::string place = name + "." + key;
      return tl::unexpected(ApiError(400, "unknown_parameter", place, place + ": is not a known parameter"));
    }
  }
  return {};
}

ApiResult<Json> ParseBody(std::string_view body) {
  Result<Json> parsed = formats::ParseOrderedJson(body, "body", kBodyLimits);
  if (!parsed) return tl::unexpected(ApiError(400, "invalid_json", "", parsed.error().ToString()));
  if (!parsed->is_object()) return tl::unexpected(ApiError(400, "invalid_json", "", "body: must be a JSON object"));
  return std::move(*parsed);
}

}  // namespace deepinfer::server
