// HTTP/1.1 over TCP: accepts, parses, keeps connections alive, streams, notices clients that go away, and enforces
// limits. Knows nothing about what is served: that is the HttpHandler.
//
// A client that ends its side of the connection while its answer is being made counts as gone, as in servers that run
// on asyncio; one that only reads slowly does not, until it takes nothing at all for `send_timeout`. Start and Stop
// belong to one thread; the handler is called on the I/O threads.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/error.h"
#include "server/http_types.h"

namespace deepinfer::server {

struct HttpOptions {
  std::string host = "127.0.0.1";
  int port = 0;  // 0: any free one
  int threads = 2;
  int64_t max_header_bytes = 32 << 10;
  int64_t max_body_bytes = 16 << 20;
  int64_t max_connections = 4096;
  std::chrono::milliseconds header_timeout{30'000};  // also of an idle connection
  std::chrono::milliseconds body_timeout{120'000};
  std::chrono::milliseconds send_timeout{300'000};  // without the client taking anything
  std::chrono::milliseconds ping_interval{15'000};  // of idle streams
};

class HttpServer {
 public:
  HttpServer(HttpOptions options, HttpHandler* handler);
  ~HttpServer();  // Stop

  // Opens the port and serves. Fails naming --host or --port.
  Status Start();
  int port() const;
  // Blocks until SIGTERM or SIGINT came, or Wake was called. Between Start and Stop those signals do nothing else.
  void WaitForSignal();
  // Any thread: as if a signal had come.
  void Wake();
  // Number of signals and Wakes so far.
  int signals() const;
  // Requests whose response is not wholly sent.
  int64_t in_flight() const;
  int64_t connections() const;
  // Closes everything. From then on no call reaches the handler. Responses that were still being made die with the
  // server: whatever wakes them has to have ended by then.
  void Stop();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace deepinfer::server
