#include "server/http_server.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <thread>

#include "server/connection.h"

namespace deepinfer::server {
namespace {

namespace asio = boost::asio;
using Tcp = asio::ip::tcp;
using BoostError = boost::system::error_code;

constexpr std::chrono::milliseconds kAcceptPause{
    50};  // when the process has no file descriptor left, or enough clients

}  // namespace

struct HttpServer::State {
  State(HttpOptions the_options, HttpHandler* handler) : options(std::move(the_options)), context{options, handler} {}

  void Accept();
  void AcceptLater();
  void AwaitSignal();
  void Signal();

  HttpOptions options;
  ConnectionContext context;
  asio::io_context io;
  Tcp::acceptor acceptor{io};
  asio::steady_timer pause{io};
  asio::signal_set signal_set{io};
  std::vector<std::thread> threads;
  int port = 0;

  std::mutex mutex;
  std::condition_variable changed;
  int signals = 0;
  int waited_for = 0;
};

void HttpServer::State::Accept() {
  if (context.connections >= options.max_connections) return AcceptLater();
  acceptor.async_accept(asio::make_strand(io), [this](BoostError error, Tcp::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (error) return AcceptLater();
    std::make_shared<Connection>(std::move(socket), &context)->Start();
    Accept();
  });
}

void HttpServer::State::AcceptLater() {
  pause.expires_after(kAcceptPause);
  pause.async_wait([this](BoostError error) {
    if (!error) Accept();
  });
}

void HttpServer::State::Signal() {
  {
    const std::lock_guard lock(mutex);
    ++signals;
  }
  changed.notify_all();
}

void HttpServer::State::AwaitSignal() {
  signal_set.async_wait([this](BoostError error, int) {
    if (error) return;
    Signal();
    AwaitSignal();
  });
}

HttpServer::HttpServer(HttpOptions options, HttpHandler* handler)
    : state_(std::make_unique<State>(std::move(options), handler)) {}

HttpServer::~HttpServer() {
  Stop();
}

Status HttpServer::Start() {
  State& state = *state_;
  const HttpOptions& options = state.options;
  const auto fail = [&](const char* flag, const BoostError& error) {
    return MakeError(ErrorCode::kInvalidArgument, flag, "cannot listen on {}:{}: {}", options.host, options.port,
                     error.message());
  };
  BoostError error;
  Tcp::resolver resolver(state.io);
  const auto found = resolver.resolve(options.host, std::to_string(options.port), Tcp::resolver::passive, error);
  if (error || found.empty()) return fail("--host", error);
  const Tcp::endpoint endpoint = found.begin()->endpoint();
  state.acceptor.open(endpoint.protocol(), error);
  if (error) return fail("--host", error);
  state.acceptor.set_option(Tcp::acceptor::reuse_address(true), error);
  state.acceptor.bind(endpoint, error);
  if (error) return fail("--port", error);
  state.acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return fail("--port", error);
  state.port = state.acceptor.local_endpoint(error).port();
  state.signal_set.add(SIGINT, error);
  state.signal_set.add(SIGTERM, error);
  state.AwaitSignal();
  state.Accept();
  for (int i = 0; i < std::max(1, options.threads); ++i) state.threads.emplace_back([&state] { state.io.run(); });
  return {};
}

int HttpServer::port() const {
  return state_->port;
}

void HttpServer::WaitForSignal() {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [&] { return state_->signals > state_->waited_for; });
  ++state_->waited_for;
}

void HttpServer::Wake() {
  state_->Signal();
}

int HttpServer::signals() const {
  const std::lock_guard lock(state_->mutex);
  return state_->signals;
}

int64_t HttpServer::in_flight() const {
  return state_->context.in_flight;
}

int64_t HttpServer::connections() const {
  return state_->context.connections;
}

void HttpServer::Stop() {
  state_->io.stop();
  for (std::thread& thread : state_->threads) thread.join();
  state_->threads.clear();
}

}  // namespace deepinfer::server
