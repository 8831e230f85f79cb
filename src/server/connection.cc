#include "server/connection.h"

#include <fmt/format.h>

#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/status.hpp>

#include "server/request_id.h"

namespace deepinfer::server {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using Clock = std::chrono::steady_clock;

constexpr size_t kWatchBuffer = 64 << 10;             // of a pipelined request while the one before is answered
constexpr size_t kWriteTarget = 64 << 10;             // bytes collected for one write
constexpr int64_t kLingerBytes = 64 << 20;            // of a refused body that are read and dropped
constexpr std::chrono::milliseconds kLinger{10'000};  // so that the client reads the refusal before the reset

}  // namespace

Connection::Connection(Tcp::socket socket, ConnectionContext* context)
    : socket_(std::move(socket)),
      context_(context),
      deadline_(socket_.get_executor()),
      ping_(socket_.get_executor()),
      buffer_(static_cast<size_t>(context->options.max_header_bytes) + kWatchBuffer) {
  ++context_->connections;
  ErrorCode error;
  const auto peer = socket_.remote_endpoint(error);
  if (!error) remote_ = fmt::format("{}:{}", peer.address().to_string(), peer.port());
  socket_.set_option(Tcp::no_delay(true), error);
}

Connection::~Connection() {
  if (busy_) --context_->in_flight;
  --context_->connections;
}

void Connection::Start() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] { self->ReadRequest(); });
}

void Connection::SetDeadline(std::chrono::milliseconds timeout) {
  deadline_.expires_after(timeout);
  deadline_.async_wait([weak = weak_from_this()](ErrorCode error) {
    const auto self = weak.lock();
    // A deadline that was moved meanwhile is reported as cancelled, or lies in the future.
    if (!error && self && self->deadline_.expiry() <= Clock::now()) self->Close();
  });
}

void Connection::ReadRequest() {
  parser_.emplace();
  parser_->header_limit(static_cast<uint32_t>(context_->options.max_header_bytes));
  parser_->body_limit(static_cast<uint64_t>(context_->options.max_body_bytes));
  request_ = {};
  streaming_ = ended_ = resume_ = false;
  chunked_ = true;
  status_ = 0;
  sent_ = 0;
  SetDeadline(context_->options.header_timeout);
  http::async_read_header(socket_, buffer_, *parser_,
                          [self = shared_from_this()](ErrorCode error, size_t) { self->OnHeader(error); });
}

void Connection::OnHeader(ErrorCode error) {
  if (error == http::error::end_of_stream) return Close();
  start_ = Clock::now();
  if (!error || error == http::error::body_limit) TakeHeader();
  if (error) return Refuse(error);
  if (auto refusal = context_->handler->Screen(request_)) {
    return Respond(std::move(*refusal), parser_->is_done() ? after_ : After::kClose);
  }
  if (parser_->is_done()) return Run();
  if (boost::beast::iequals(request_.Header("Expect"), "100-continue")) return SendContinue();
  ReadBody();
}

// What the parser has of the request, the body apart.
void Connection::TakeHeader() {
  const auto& message = parser_->get();
  const auto text = [](boost::beast::string_view view) { return std::string(view.data(), view.size()); };
  request_.method = text(message.method_string());
  const std::string target = text(message.target());
  request_.path = target.substr(0, target.find('?'));
  for (const auto& field : message) request_.headers.emplace_back(text(field.name_string()), text(field.value()));
  request_.remote = remote_;
  request_.id = RequestId(request_.Header("X-Request-Id"));
  chunked_ = message.version() >= 11;
  after_ = message.keep_alive() ? After::kKeepAlive : After::kClose;
  busy_ = true;
  ++context_->in_flight;
}

void Connection::SendContinue() {
  sending_ = "HTTP/1.1 100 Continue\r\n\r\n";
  asio::async_write(socket_, asio::buffer(sending_),
                    [self = shared_from_this()](ErrorCode error, size_t) { error ? self->Gone() : self->ReadBody(); });
}

void Connection::ReadBody() {
  SetDeadline(context_->options.body_timeout);
  http::async_read(socket_, buffer_, *parser_,
                   [self = shared_from_this()](ErrorCode error, size_t) { self->OnBody(error); });
}

void Connection::OnBody(ErrorCode error) {
  if (error) return Refuse(error);
  request_.body = std::move(parser_->get().body());
  Run();
}

// What the parser or the socket did not accept.
void Connection::Refuse(ErrorCode error) {
  if (error.category() != http::make_error_code(http::error::bad_method).category()) return Gone();
  if (error == http::error::partial_message) return Gone();
  if (!busy_) {
    busy_ = true;
    ++context_->in_flight;
    request_.remote = remote_;
    request_.id = RequestId("");
  }
  const HttpOptions& options = context_->options;
  if (error == http::error::body_limit) {
    return Respond(context_->handler->Refuse(413, fmt::format("the body has over {} bytes", options.max_body_bytes)),
                   After::kClose);
  }
  if (error == http::error::header_limit || error == http::error::buffer_overflow) {
    return Respond(
        context_->handler->Refuse(431, fmt::format("the header has over {} bytes", options.max_header_bytes)),
        After::kClose);
  }
  Respond(context_->handler->Refuse(400, "not valid HTTP: " + error.message()), After::kClose);
}

void Connection::Run() {
  deadline_.cancel();
  Answer answer = context_->handler->Handle(request_);
  if (auto* response = std::get_if<HttpResponse>(&answer)) return Respond(std::move(*response), after_);
  pending_ = std::move(std::get<std::unique_ptr<PendingResponse>>(answer));
  Watch();
  woken_ = true;  // until Pump, below, asks for the first time
  pending_->Start([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->Wake();
  });
  Pump();
}

// Any thread.
void Connection::Wake() {
  if (woken_.exchange(true)) return;
  asio::post(socket_.get_executor(), [self = shared_from_this()] { self->Pump(); });
}

// Reads while a response is being made: the end of the stream means that nobody waits for it any more.
void Connection::Watch() {
  watching_ = true;
  socket_.async_read_some(buffer_.prepare(512), [self = shared_from_this()](ErrorCode error, size_t bytes) {
    self->OnWatched(error, bytes);
  });
}

void Connection::OnWatched(ErrorCode error, size_t bytes) {
  watching_ = false;
  buffer_.commit(bytes);
  if (resume_) {
    if (error && error != asio::error::operation_aborted) return Close();
    return ReadRequest();
  }
  // Its end, with all of the response on its way: the write tells whether that arrived.
  if (error && writing_ && ended_) return;
  if (error) return Gone();
  // Part of a next request. One that sends more than this ahead is not watched any longer; a failed write will tell.
  if (buffer_.size() + 512 <= kWatchBuffer) Watch();
}

void Connection::Pump() {
  if (writing_ || !pending_ || ended_) return;
  while (out_.size() < kWriteTarget && !ended_) {
    woken_ = false;
    PendingResponse::Piece piece = pending_->Next();
    if (auto* response = std::get_if<HttpResponse>(&piece)) return Respond(std::move(*response), after_);
    if (auto* head = std::get_if<PendingResponse::Head>(&piece)) {
      Append(*head);
    } else if (auto* chunk = std::get_if<PendingResponse::Chunk>(&piece)) {
      Append(chunk->data);
    } else if (std::holds_alternative<PendingResponse::End>(piece)) {
      if (chunked_) out_ += "0\r\n\r\n";
      ended_ = true;
    } else {
      break;
    }
  }
  if (!out_.empty()) return Write();
  if (ended_) return Finish();  // a stream without chunked framing that ends with nothing left to say
  if (streaming_) ArmPing();
}

void Connection::Append(const PendingResponse::Head& head) {
  streaming_ = true;
  if (!chunked_) after_ = After::kClose;  // HTTP/1.0: the end of the connection is the end of the body
  AppendHead(200, head.content_type, head.headers, chunked_ ? "Transfer-Encoding: chunked\r\n" : "");
}

void Connection::Append(std::string_view chunk) {
  if (chunk.empty()) return;
  if (chunked_) out_ += fmt::format("{:x}\r\n", chunk.size());
  out_ += chunk;
  if (chunked_) out_ += "\r\n";
}

void Connection::ArmPing() {
  ping_.expires_after(context_->options.ping_interval);
  ping_.async_wait([weak = weak_from_this()](ErrorCode error) {
    const auto self = weak.lock();
    if (error || !self || self->writing_ || !self->pending_ || self->ended_) return;
    self->Append(self->pending_->Ping());
    if (!self->out_.empty()) self->Write();
  });
}

void Connection::Respond(HttpResponse response, After after) {
  after_ = after;
  ended_ = true;
  const bool has_length = response.status != static_cast<int>(http::status::no_content);
  AppendHead(response.status, response.content_type, response.headers,
             has_length ? fmt::format("Content-Length: {}\r\n", response.body.size()) : "");
  if (request_.method != "HEAD") out_ += response.body;
  Write();
}

void Connection::AppendHead(int status, const std::string& content_type, const Headers& headers,
                            std::string_view framing) {
  status_ = status;
  const auto reason = http::obsolete_reason(static_cast<http::status>(status));
  out_ += fmt::format("HTTP/1.1 {} {}\r\n", status, std::string_view(reason.data(), reason.size()));
  if (!content_type.empty()) out_ += fmt::format("Content-Type: {}\r\n", content_type);
  for (const auto& [name, value] : headers) out_ += fmt::format("{}: {}\r\n", name, value);
  for (const auto& [name, value] : context_->handler->CommonHeaders(request_)) {
    out_ += fmt::format("{}: {}\r\n", name, value);
  }
  out_ += framing;
  out_ += after_ == After::kClose ? "Connection: close\r\n\r\n" : "Connection: keep-alive\r\n\r\n";
}

void Connection::Write() {
  ping_.cancel();
  writing_ = true;
  sending_ = std::exchange(out_, {});
  SetDeadline(context_->options.send_timeout);
  asio::async_write(
      socket_, asio::buffer(sending_),
      // Progress moves the deadline: a slow client is not a dead one.
      [self = shared_from_this()](ErrorCode error, size_t done) -> size_t {
        if (error) return 0;
        if (done > 0) self->SetDeadline(self->context_->options.send_timeout);
        return kWriteTarget;
      },
      [self = shared_from_this()](ErrorCode error, size_t bytes) {
        self->sent_ += static_cast<int64_t>(bytes);
        self->OnWritten(error);
      });
}

void Connection::OnWritten(ErrorCode error) {
  writing_ = false;
  deadline_.cancel();
  if (error) return Gone();
  if (!busy_) return;  // the client went away while this was written
  if (ended_) return Finish();
  Pump();
}

// The response is sent.
void Connection::Finish() {
  Log(status_);
  pending_.reset();
  if (after_ == After::kClose) return Linger();
  if (!watching_) return ReadRequest();
  resume_ = true;
  ErrorCode ignored;
  socket_.cancel(ignored);
}

void Connection::Gone() {
  if (busy_) Log(kClientGone);
  pending_.reset();
  Close();
}

// Closing with unread bytes would reset the connection, and the client might never see the response.
void Connection::Linger() {
  ErrorCode error;
  socket_.shutdown(Tcp::socket::shutdown_send, error);
  if (error || watching_) return Close();
  SetDeadline(kLinger);
  buffer_.clear();
  socket_.async_read_some(buffer_.prepare(16 << 10), [self = shared_from_this()](ErrorCode failed, size_t bytes) {
    self->lingered_ += static_cast<int64_t>(bytes);
    if (failed || self->lingered_ > kLingerBytes) return self->Close();
    self->Linger();
  });
}

void Connection::Close() {
  ping_.cancel();
  deadline_.cancel();
  ErrorCode ignored;
  socket_.close(ignored);
}

void Connection::Log(int status) {
  busy_ = false;
  --context_->in_flight;
  context_->handler->Done(
      {request_, status, sent_, std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - start_)});
}

}  // namespace deepinfer::server
