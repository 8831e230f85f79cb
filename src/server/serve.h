// The server's life: the port opens, the model loads, requests are answered, a signal comes, what runs may end.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "base/error.h"
#include "server/api.h"
#include "server/http_server.h"

namespace deepinfer::server {

struct ServeOptions {
  HttpOptions http;
  ApiOptions api;
  std::chrono::seconds shutdown_timeout{30};  // for requests that run when the signal comes
};

// A model, with what it lives on. `owner` dies after the engine.
struct LoadedService {
  std::shared_ptr<void> owner;
  std::unique_ptr<engine::AsyncEngine> engine;
  ServedModel model;                  // its engine is the one above
  std::function<void()> after_ready;  // what can wait until requests are answered; may be empty
};

// on_step belongs to the engine that is made.
using Loader = std::function<Result<LoadedService>(std::function<void(const engine::EngineStats&)> on_step)>;

// Returns after SIGTERM or SIGINT, when everything has ended; a second signal ends it at once. Fails if the port cannot
// be opened or the model cannot be loaded. A signal while the model loads ends the process.
Status Serve(const ServeOptions& options, const Loader& load);

}  // namespace deepinfer::server
