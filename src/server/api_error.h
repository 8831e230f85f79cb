// Errors as clients of OpenAI's API know them: an HTTP status and {"error": {message, type, param, code}}. Every
// refusal of this room is one of these. Plain data.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "server/http_types.h"

namespace deepinfer::server {

using Json = nlohmann::ordered_json;

struct ApiError {
  ApiError(int the_status, std::string the_code, std::string the_param, std::string the_message)
      : status(the_status), code(std::move(the_code)), param(std::move(the_param)), message(std::move(the_message)) {}
  // The status and code that correspond to the error's; `where` becomes the parameter.
  ApiError(const Error& error);  // NOLINT(google-explicit-constructor): so that results pass through DI_RETURN_IF_ERROR

  int status = 500;
  std::string code;
  std::string param;  // "messages[0].role"; may be empty
  std::string message;
  int retry_after_s = 0;  // 0: no such header
  Json more = nullptr;    // further fields of the error object, or null

  // "invalid_request_error", "authentication_error", ...: what the status stands for.
  const char* Type() const;
  Json ToJson() const;  // {"error": {...}}
  HttpResponse ToResponse() const;
};

template <class T>
using ApiResult = tl::expected<T, ApiError>;
using ApiStatus = tl::expected<void, ApiError>;

// An error of the engine's checks of a request, its parameters under the names that the API has for them.
ApiError InWordsOfApi(const Error& error);
// 400 with the code invalid_value; the message names the parameter.
tl::unexpected<ApiError> InvalidValue(const std::string& param, const std::string& reason);
tl::unexpected<ApiError> InvalidType(const std::string& param, const std::string& expected, const Json& got);
// 400, unsupported_parameter: known, but nothing here can honour it.
tl::unexpected<ApiError> Unsupported(const std::string& param, const std::string& reason);

// Text of a JSON value, bytes that are not UTF-8 replaced.
std::string Dump(const Json& json);
HttpResponse JsonResponse(const Json& json, int status = 200);

}  // namespace deepinfer::server
