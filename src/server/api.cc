#include "server/api.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <ctime>

#include "server/chat_page.h"
#include "server/generation.h"
#include "server/json_values.h"

namespace deepinfer::server {
namespace {

constexpr int kRetryAfterLoading = 5;  // seconds
const char* const kModels = "/v1/models";

// Takes the same time for every key that is as long.
bool SameSecret(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b.empty() ? 0 : b[i % b.size()]);
  }
  return difference == 0;
}

HttpResponse Text(std::string content_type, std::string body) {
  HttpResponse response;
  response.content_type = std::move(content_type);
  response.body = std::move(body);
  return response;
}

HttpResponse NoContent() {
  HttpResponse response = Text("", "");
  response.status = 204;
  return response;
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  return lower;
}

bool IsJson(std::string_view content_type) {
  std::string type = Lower(content_type.substr(0, content_type.find(';')));
  while (!type.empty() && (type.back() == ' ' || type.back() == '\t')) type.pop_back();
  return type == "application/json";
}

ApiError UnsupportedMedia(const std::string& message) {
  return ApiError(415, "unsupported_media_type", "", message);
}

}  // namespace

struct Api::Route {
  const char* method;
  std::string path;
  bool open = false;  // no key needed
  Method answer;
};

// Responses, messages and embeddings would be rows of their own here.
const std::vector<Api::Route>& Api::Routes() {
  static const std::vector<Route> routes = {
      {"GET", "/", true, &Api::ChatPage},
      {"GET", "/health", true, &Api::Health},
      {"GET", "/version", true, &Api::Version},
      {"GET", "/metrics", true, &Api::MetricsText},
      {"GET", kModels, false, &Api::ListModels},
      {"GET", "/v1/models/*", false, &Api::OneModel},
      {"POST", "/v1/chat/completions", false, &Api::Chat},
      {"POST", "/v1/completions", false, &Api::Completions},
      {"POST", "/tokenize", false, &Api::Tokenize},
      {"POST", "/detokenize", false, &Api::Detokenize},
      {"POST", "/apply-template", false, &Api::ApplyTemplate},
  };
  return routes;
}

Api::Api(ApiOptions options)
    : options_(std::move(options)),
      metrics_(options_.model_names.front()),
      created_(static_cast<int64_t>(std::time(nullptr))) {}

void Api::SetReady(const ServedModel* model) {
  metrics_.OnReady(model->block_size, model->engine->stats().kv_blocks);
  model_ = model;
}

void Api::SetDraining() {
  draining_ = true;
}

ApiResult<const Api::Route*> Api::FindRoute(const HttpRequest& request) const {
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  std::string allowed;
  for (const Route& route : Routes()) {
    const bool wild = route.path.back() == '*';
    const std::string stem = route.path.substr(0, route.path.size() - 1);
    const bool same =
        wild ? request.path.size() > stem.size() && request.path.rfind(stem, 0) == 0 : request.path == route.path;
    if (!same) continue;
    if (route.method == method) return &route;
    allowed = route.method;
  }
  if (allowed.empty()) {
    return tl::unexpected(
        ApiError(404, "not_found", "", fmt::format("there is no {} {}", request.method, request.path)));
  }
  return tl::unexpected(ApiError(405, "method_not_allowed", "",
                                 fmt::format("{} takes {}, not {}", request.path, allowed, request.method)));
}

ApiStatus Api::CheckKey(const HttpRequest& request) const {
  if (options_.api_keys.empty()) return {};
  const std::string_view header = request.Header("Authorization");
  const std::string_view scheme = "bearer ";
  const bool bearer = Lower(header.substr(0, scheme.size())) == scheme;
  const std::string_view key = bearer ? header.substr(scheme.size()) : "";
  bool known = false;
  for (const std::string& each : options_.api_keys) known |= SameSecret(each, key);
  if (known) return {};
  return tl::unexpected(ApiError(401, "invalid_api_key", "",
                                 bearer ? "the API key is not one of this server's"
                                        : "this server wants an API key: send 'Authorization: Bearer KEY'"));
}

bool Api::OriginAllowed(std::string_view origin) const {
  const auto& allowed = options_.allowed_origins;
  return !origin.empty() && (std::find(allowed.begin(), allowed.end(), "*") != allowed.end() ||
                             std::find(allowed.begin(), allowed.end(), origin) != allowed.end());
}

// What a browser asks before it lets a page of another origin call.
std::optional<HttpResponse> Api::Preflight(const HttpRequest& request) const {
  if (request.method != "OPTIONS" || request.Header("Access-Control-Request-Method").empty()) return std::nullopt;
  HttpResponse response = NoContent();
  if (OriginAllowed(request.Header("Origin"))) {
    response.headers = {{"Access-Control-Allow-Methods", "GET, POST, OPTIONS"},
                        {"Access-Control-Allow-Headers", "Authorization, Content-Type, X-Request-Id"},
                        {"Access-Control-Max-Age", "600"}};
  }
  return response;
}

std::optional<HttpResponse> Api::Screen(const HttpRequest& request) {
  if (auto preflight = Preflight(request)) return preflight;
  const ApiResult<const Route*> route = FindRoute(request);
  if (!route) {
    HttpResponse response = route.error().ToResponse();
    if (response.status == 405) {
      if (request.method == "OPTIONS") response = NoContent();
      std::string allowed;
      for (const Route& each : Routes()) {
        if (each.path == request.path) allowed += (allowed.empty() ? "" : ", ") + std::string(each.method);
      }
      response.headers.emplace_back("Allow", allowed.empty() ? "GET" : allowed);
    }
    return response;
  }
  if (!(*route)->open) {
    if (const ApiStatus key = CheckKey(request); !key) return key.error().ToResponse();
  }
  if (request.method != "POST") return std::nullopt;
  if (!IsJson(request.Header("Content-Type"))) {
    return UnsupportedMedia("the Content-Type must be application/json").ToResponse();
  }
  const std::string coding = Lower(request.Header("Content-Encoding"));
  if (!coding.empty() && coding != "identity") {
    return UnsupportedMedia(fmt::format("bodies must not be compressed, this one's Content-Encoding is {}", coding))
        .ToResponse();
  }
  return std::nullopt;
}

Answer Api::Handle(const HttpRequest& request) {
  if (options_.log_requests && !request.body.empty()) spdlog::info("{} {}", request.id, request.body);
  const ApiResult<const Route*> route = FindRoute(request);
  if (!route) return route.error().ToResponse();
  ApiResult<Answer> answer = (this->*(*route)->answer)(request);
  if (!answer) return answer.error().ToResponse();
  return std::move(*answer);
}

HttpResponse Api::Refuse(int status, const std::string& reason) {
  const char* code = status == 413 ? "request_too_large" : status == 431 ? "header_too_large" : "invalid_request";
  return ApiError(status, code, "", reason).ToResponse();
}

Headers Api::CommonHeaders(const HttpRequest& request) {
  Headers headers = {{"X-Request-Id", request.id}};
  const std::string_view origin = request.Header("Origin");
  if (OriginAllowed(origin)) {
    headers.emplace_back("Access-Control-Allow-Origin", origin);
    headers.emplace_back("Access-Control-Expose-Headers", "X-Request-Id, Retry-After");
  }
  if (!options_.allowed_origins.empty()) headers.emplace_back("Vary", "Origin");
  return headers;
}

void Api::Done(const AccessRecord& record) {
  metrics_.OnResponse(record.status);
  if (!options_.access_log) return;
  spdlog::info("{} {} {} {} {} B {:.1f} ms {}", record.request.remote, record.request.method, record.request.path,
               record.status, record.bytes, static_cast<double>(record.took.count()) / 1000, record.request.id);
}

ApiResult<const ServedModel*> Api::Model() const {
  ApiError error(503, "", "", "");
  error.retry_after_s = kRetryAfterLoading;
  const ServedModel* model = model_;
  if (model != nullptr && !draining_) return model;
  error.code = draining_ ? "server_draining" : "model_loading";
  error.message = draining_ ? "the server is shutting down" : "the model is still being loaded";
  return tl::unexpected(std::move(error));
}

ApiStatus Api::CheckModelName(const std::string& name) const {
  const auto& names = options_.model_names;
  if (name.empty() || std::find(names.begin(), names.end(), name) != names.end()) return {};
  return tl::unexpected(
      ApiError(404, "model_not_found", "model",
               fmt::format("model: there is no '{}'; this server has {}", name, fmt::join(names, ", "))));
}

ApiResult<Answer> Api::Health(const HttpRequest&) const {
  const char* status = draining_ ? "draining" : model_ == nullptr ? "loading" : "ok";
  const bool ok = !draining_ && model_ != nullptr;
  HttpResponse response = JsonResponse({{"status", status}}, ok ? 200 : 503);
  if (!ok) response.headers.emplace_back("Retry-After", std::to_string(kRetryAfterLoading));
  return response;
}

ApiResult<Answer> Api::Version(const HttpRequest&) const {
  return JsonResponse({{"version", options_.version}, {"build", options_.build}});
}

ApiResult<Answer> Api::MetricsText(const HttpRequest&) const {
  const ServedModel* model = model_;
  if (model != nullptr && model->grammars != nullptr) metrics_.OnGrammars(model->grammars->cache_stats());
  return Text("text/plain; version=0.0.4; charset=utf-8", metrics_.Expose());
}

ApiResult<Answer> Api::ChatPage(const HttpRequest&) const {
  HttpResponse page = Text("text/html; charset=utf-8", std::string(ChatPageHtml()));
  // Everything the page needs is in it, and nothing else may run there.
  page.headers = {{"Content-Security-Policy",
                   "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; connect-src 'self'; "
                   "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
                  {"X-Content-Type-Options", "nosniff"}};
  return page;
}

Json Api::ModelCard(const std::string& name, const ServedModel& model) const {
  return {{"id", name},
          {"object", "model"},
          {"created", created_},
          {"owned_by", "deepinfer"},
          {"root", options_.model_names.front()},
          {"parent", nullptr},
          {"max_model_len", model.context}};
}

ApiResult<Answer> Api::ListModels(const HttpRequest&) const {
  DI_ASSIGN_OR_RETURN(const ServedModel* model, Model());
  Json list = Json::array();
  for (const std::string& name : options_.model_names) list.push_back(ModelCard(name, *model));
  return JsonResponse({{"object", "list"}, {"data", std::move(list)}});
}

ApiResult<Answer> Api::OneModel(const HttpRequest& request) const {
  DI_ASSIGN_OR_RETURN(const ServedModel* model, Model());
  const std::string name = request.path.substr(std::string(kModels).size() + 1);
  DI_RETURN_IF_ERROR(CheckModelName(name));
  return JsonResponse(ModelCard(name, *model));
}

ApiResult<Answer> Api::Chat(const HttpRequest& request) const {
  return Generate(request, Endpoint::kChat);
}

ApiResult<Answer> Api::Completions(const HttpRequest& request) const {
  return Generate(request, Endpoint::kCompletions);
}

ApiResult<Answer> Api::Generate(const HttpRequest& request, Endpoint endpoint) const {
  DI_ASSIGN_OR_RETURN(const ServedModel* model, Model());
  DI_ASSIGN_OR_RETURN(const Json body, ParseBody(request.body));
  DI_ASSIGN_OR_RETURN(ApiRequest parsed, ParseApiRequest(body, endpoint));
  DI_RETURN_IF_ERROR(CheckModelName(parsed.model));
  DI_ASSIGN_OR_RETURN(std::unique_ptr<PendingResponse> answer,
                      Generation::Create(std::move(parsed), request.id, *model, &metrics_));
  return answer;
}

}  // namespace deepinfer::server
