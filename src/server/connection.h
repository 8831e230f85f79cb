// One TCP connection: requests in, responses out, one at a time. Private to the HTTP layer. Everything happens on the
// connection's strand. It lives as long as an operation of its is pending.
#pragma once

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <memory>
#include <optional>
#include <string>

#include "server/http_server.h"

namespace deepinfer::server {

// What the connections of a server share.
struct ConnectionContext {
  const HttpOptions& options;
  HttpHandler* handler;
  std::atomic<int64_t> connections{0};
  std::atomic<int64_t> in_flight{0};
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Tcp = boost::asio::ip::tcp;

  // socket: its executor is a strand.
  Connection(Tcp::socket socket, ConnectionContext* context);
  ~Connection();
  void Start();

 private:
  using Parser = boost::beast::http::request_parser<boost::beast::http::string_body>;
  using ErrorCode = boost::system::error_code;
  enum class After { kKeepAlive, kClose };

  void ReadRequest();
  void OnHeader(ErrorCode error);
  void SendContinue();
  void ReadBody();
  void OnBody(ErrorCode error);
  void Refuse(ErrorCode error);
  void TakeHeader();
  void Run();

  void Watch();
  void OnWatched(ErrorCode error, size_t bytes);
  void Wake();
  void Pump();
  void Append(const PendingResponse::Head& head);
  void Append(std::string_view chunk);
  void ArmPing();
  void Respond(HttpResponse response, After after);
  void AppendHead(int status, const std::string& content_type, const Headers& headers, std::string_view framing);
  void Write();
  void OnWritten(ErrorCode error);
  void Finish();
  void Gone();
  void Linger();
  void Close();
  void Log(int status);
  void SetDeadline(std::chrono::milliseconds timeout);

  Tcp::socket socket_;
  ConnectionContext* context_;
  boost::asio::steady_timer deadline_;
  boost::asio::steady_timer ping_;
  boost::beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  HttpRequest request_;
  std::string remote_;
  std::chrono::steady_clock::time_point start_;

  std::unique_ptr<PendingResponse> pending_;
  std::atomic<bool> woken_{false};
  std::string out_;      // collected for the next write
  std::string sending_;  // must not move while it is written
  bool writing_ = false;
  bool streaming_ = false;  // the head of a stream is out
  bool ended_ = false;      // all of the response is in out_ or sent
  bool chunked_ = true;
  bool busy_ = false;  // a request is being answered
  After after_ = After::kKeepAlive;
  bool watching_ = false;
  bool resume_ = false;  // the next request is read when the watch has ended
  int status_ = 0;
  int64_t sent_ = 0;
  int64_t lingered_ = 0;
};

}  // namespace deepinfer::server
