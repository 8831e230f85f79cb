#include "server/api_error.h"

namespace deepinfer::server {
namespace {

struct Meaning {
  int status;
  const char* code;
};

Meaning MeaningOf(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return {400, "invalid_value"};
    case ErrorCode::kUnsupported:
      return {400, "unsupported_value"};
    case ErrorCode::kNotFound:
      return {404, "not_found"};
    case ErrorCode::kResourceExhausted:
      return {429, "rate_limit_exceeded"};
    case ErrorCode::kFailedPrecondition:
    case ErrorCode::kCancelled:
      return {503, "server_unavailable"};
    case ErrorCode::kDataLoss:
    case ErrorCode::kInternal:
      break;
  }
  return {500, "internal_error"};
}

}  // namespace

ApiError::ApiError(const Error& error)
    : ApiError(MeaningOf(error.code).status, MeaningOf(error.code).code, error.where, error.ToString()) {
  if (status == 429 || status == 503) retry_after_s = 1;
}

const char* ApiError::Type() const {
  switch (status) {
    case 401:
      return "authentication_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "service_unavailable_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

Json ApiError::ToJson() const {
  Json error = {{"message", message},
                {"type", Type()},
                {"param", param.empty() ? Json() : Json(param)},
                {"code", code.empty() ? Json() : Json(code)}};
  if (more.is_object()) error.update(more);
  return {{"error", std::move(error)}};
}

HttpResponse ApiError::ToResponse() const {
  HttpResponse response = JsonResponse(ToJson(), status);
  if (retry_after_s > 0) response.headers.emplace_back("Retry-After", std::to_string(retry_after_s));
  if (status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

ApiError InWordsOfApi(const Error& error) {
  constexpr std::pair<const char*, const char*> kNames[] = {{"allowed_ids", "allowed_token_ids"},
                                                            {"banned_ids", "banned_token_ids"},
                                                            {"dry_range", "dry_penalty_last_n"},
                                                            {"grammar", "structured_outputs"}};
  Error named = error;
  for (const auto& [ours, theirs] : kNames) {
    if (error.where == ours) named.where = theirs;
  }
  return ApiError(named);
}

tl::unexpected<ApiError> InvalidValue(const std::string& param, const std::string& reason) {
  return tl::unexpected(ApiError(400, "invalid_value", param, fmt::format("{}: {}", param, reason)));
}

tl::unexpected<ApiError> InvalidType(const std::string& param, const std::string& expected, const Json& got) {
  return tl::unexpected(
      ApiError(400, "invalid_type", param,
               fmt::format("{}: must be {}, got {}", param, expected,
                           got.is_null() ? "null" : std::string("a value of type ") + got.type_name())));
}

tl::unexpected<ApiError> Unsupported(const std::string& param, const std::string& reason) {
  return tl::unexpected(ApiError(400, "unsupported_parameter", param, fmt::format("{}: {}", param, reason)));
}

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

HttpResponse JsonResponse(const Json& json, int status) {
  HttpResponse response;
  response.status = status;
  response.body = Dump(json);
  return response;
}

}  // namespace deepinfer::server
