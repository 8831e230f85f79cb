// The endpoints: who may call what, and what answers. One table of routes (api.cc); OpenAI's shapes, and vLLM's and
// llama.cpp's for what OpenAI has not. Thread-safe.
//
// Until SetReady everything that needs the model answers 503; from SetDraining on nothing new is begun.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "server/http_types.h"
#include "server/metrics.h"
#include "server/served_model.h"

namespace deepinfer::server {

struct ApiOptions {
  std::vector<std::string> model_names;      // at least one; each is accepted as "model"
  std::vector<std::string> api_keys;         // empty: everybody may
  std::vector<std::string> allowed_origins;  // of browsers; "*": all
  std::string version;
  std::string build;
  bool access_log = true;
  bool log_requests = false;  // bodies too
};

class Api final : public HttpHandler {
 public:
  explicit Api(ApiOptions options);

  // model must outlive every response.
  void SetReady(const ServedModel* model);
  void SetDraining();
  Metrics& metrics() { return metrics_; }

  std::optional<HttpResponse> Screen(const HttpRequest& request) override;
  Answer Handle(const HttpRequest& request) override;
  HttpResponse Refuse(int status, const std::string& reason) override;
  Headers CommonHeaders(const HttpRequest& request) override;
  void Done(const AccessRecord& record) override;

 private:
  using Method = ApiResult<Answer> (Api::*)(const HttpRequest& request) const;
  struct Route;
  static const std::vector<Route>& Routes();

  ApiResult<const Route*> FindRoute(const HttpRequest& request) const;
  ApiStatus CheckKey(const HttpRequest& request) const;
  bool OriginAllowed(std::string_view origin) const;
  std::optional<HttpResponse> Preflight(const HttpRequest& request) const;
  // 503 while there is none, or no longer.
  ApiResult<const ServedModel*> Model() const;
  ApiStatus CheckModelName(const std::string& name) const;
  Json ModelCard(const std::string& name, const ServedModel& model) const;

  ApiResult<Answer> Health(const HttpRequest& request) const;
  ApiResult<Answer> Version(const HttpRequest& request) const;
  ApiResult<Answer> MetricsText(const HttpRequest& request) const;
  ApiResult<Answer> ChatPage(const HttpRequest& request) const;
  ApiResult<Answer> ListModels(const HttpRequest& request) const;
  ApiResult<Answer> OneModel(const HttpRequest& request) const;
  ApiResult<Answer> Chat(const HttpRequest& request) const;
  ApiResult<Answer> Completions(const HttpRequest& request) const;
  ApiResult<Answer> Tokenize(const HttpRequest& request) const;
  ApiResult<Answer> Detokenize(const HttpRequest& request) const;
  ApiResult<Answer> ApplyTemplate(const HttpRequest& request) const;
  ApiResult<Answer> Generate(const HttpRequest& request, Endpoint endpoint) const;

  ApiOptions options_;
  mutable Metrics metrics_;
  std::atomic<const ServedModel*> model_{nullptr};
  std::atomic<bool> draining_{false};
  int64_t created_;
};

}  // namespace deepinfer::server
