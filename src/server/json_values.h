// Values of a request's JSON, read strictly: each function refuses with the parameter's name what is not of its kind.
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "server/api_error.h"

namespace deepinfer::server {

ApiStatus Read(const Json& value, const std::string& name, double* out);
ApiStatus Read(const Json& value, const std::string& name, int64_t* out);  // also 3.0
ApiStatus Read(const Json& value, const std::string& name, int32_t* out);
ApiStatus Read(const Json& value, const std::string& name, bool* out);
ApiStatus Read(const Json& value, const std::string& name, std::string* out);           // valid UTF-8
ApiStatus Read(const Json& value, const std::string& name, std::vector<int32_t>* out);  // token ids in [0, 2^31)

ApiStatus RequireObject(const Json& value, const std::string& name);
ApiStatus RequireArray(const Json& value, const std::string& name);
// Refuses members whose names are not in `known`.
ApiStatus OnlyMembers(const Json& object, const std::string& name, const std::vector<std::string>& known);

// The body of a POST: one JSON object. 400 with the code invalid_json and the place for what is malformed, nested too
// deep, too long or not UTF-8.
ApiResult<Json> ParseBody(std::string_view body);

}  // namespace deepinfer::server
