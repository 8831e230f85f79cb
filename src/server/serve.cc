#include "server/serve.h"

#include <spdlog/spdlog.h>

#include <atomic>
#include <cstdlib>
#include <thread>

namespace deepinfer::server {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kPoll{20};
constexpr std::chrono::seconds kFlush{5};  // for responses that are complete and not yet sent

std::string Url(const HttpOptions& options, int port) {
  const bool v6 = options.host.find(':') != std::string::npos;
  return fmt::format("http://{}{}{}:{}", v6 ? "[" : "", options.host, v6 ? "]" : "", port);
}

// Requests that run may end; a second signal or the end of the time breaks them off.
void Shutdown(const ServeOptions& options, HttpServer* server, Api* api, engine::AsyncEngine* engine) {
  api->SetDraining();
  const int signals = server->signals();
  spdlog::info("shutting down: {} requests run, they have {} s", engine->live(), options.shutdown_timeout.count());
  const Clock::time_point until = Clock::now() + options.shutdown_timeout;
  while (!engine->Drain(Clock::now() + kPoll) && Clock::now() < until && server->signals() == signals) {
  }
  engine->Stop();
  const Clock::time_point flushed = Clock::now() + kFlush;
  while (server->in_flight() > 0 && Clock::now() < flushed && server->signals() <= signals + 1) {
    std::this_thread::sleep_for(kPoll);
  }
  server->Stop();
}

}  // namespace

Status Serve(const ServeOptions& options, const Loader& load) {
  Result<LoadedService> service = MakeError(ErrorCode::kInternal, "", "not loaded");
  Api api(options.api);
  HttpServer server(options.http, &api);
  DI_RETURN_IF_ERROR(server.Start());
  spdlog::info("listening on {}", Url(options.http, server.port()));
  std::atomic<bool> loaded{false};
  std::thread loader([&] {
    service = load([&api](const engine::EngineStats& stats) { api.metrics().OnStep(stats); });
    loaded = true;
    server.Wake();
  });
  server.WaitForSignal();
  if (!loaded) {
    // The loader cannot be interrupted; files it writes appear whole or not at all.
    spdlog::info("stopped while the model was being loaded");
    spdlog::shutdown();
    std::_Exit(EXIT_SUCCESS);
  }
  loader.join();
  if (!service) {
    server.Stop();
    return tl::unexpected(service.error());
  }
  service->model.engine = service->engine.get();
  api.SetReady(&service->model);
  spdlog::info("ready: {} on {}", fmt::join(options.api.model_names, ", "), Url(options.http, server.port()));
  if (service->after_ready) service->after_ready();
  server.WaitForSignal();
  Shutdown(options, &server, &api, service->engine.get());
  return {};
}

}  // namespace deepinfer::server
