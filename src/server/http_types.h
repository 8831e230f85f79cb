// What the HTTP layer (http_server.h) and the endpoints (api.h) hand each other: requests and responses as plain data,
// and responses that take time. No library's types, so that files of endpoints compile without Boost.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace deepinfer::server {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;  // "GET", as it was sent
  std::string path;    // up to a question mark
  Headers headers;
  std::string body;
  std::string remote;  // "127.0.0.1:4711"
  std::string id;      // the client's X-Request-Id where it is fit to be repeated, else made here

  // "" if there is none; names compare without case.
  std::string_view Header(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "application/json";
  Headers headers = {};
  std::string body = "";
};

// A response that is made over time. Used from one thread at a time. Its destruction, which is also what a client that
// went away causes, gives up whatever still works for it.
class PendingResponse {
 public:
  struct Nothing {};  // come back after the next wake
  struct Head {       // of a stream; chunks follow
    std::string content_type;
    Headers headers = {};
  };
  struct Chunk {
    std::string data;
  };
  struct End {};
  // HttpResponse: all of it at once, in place of Head, Chunks and End.
  using Piece = std::variant<Nothing, HttpResponse, Head, Chunk, End>;

  virtual ~PendingResponse() = default;
  // Once, before the first Next. `wake` may be called from any thread and at any time; it may destroy this object.
  virtual void Start(std::function<void()> wake) = 0;
  // Never blocks.
  virtual Piece Next() = 0;
  // What may be sent on an idle stream so that nothing on the way closes it.
  virtual std::string Ping() const { return ""; }
};

using Answer = std::variant<HttpResponse, std::unique_ptr<PendingResponse>>;

// What is known of a request once it is over.
struct AccessRecord {
  const HttpRequest& request;
  int status = 0;  // kClientGone: the client went away before the end
  int64_t bytes = 0;
  std::chrono::microseconds took{0};
};
inline constexpr int kClientGone = 499;

// The endpoints, as the HTTP layer sees them. Called from several threads at once.
class HttpHandler {
 public:
  virtual ~HttpHandler() = default;
  // Before the body is read: a response that refuses the request, or nothing.
  virtual std::optional<HttpResponse> Screen(const HttpRequest& request) = 0;
  virtual Answer Handle(const HttpRequest& request) = 0;
  // The response to what is no acceptable HTTP: status 400, 413 or 431.
  virtual HttpResponse Refuse(int status, const std::string& reason) = 0;
  // Headers that every response gets.
  virtual Headers CommonHeaders(const HttpRequest& request) = 0;
  virtual void Done(const AccessRecord& record) = 0;
};

}  // namespace deepinfer::server
