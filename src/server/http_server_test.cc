#include "server/http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <thread>

namespace deepinfer::server {
namespace {

// Counts to a number on a thread of its own, one chunk at a time. The thread shares nothing but `Shared`: the response
// may be destroyed by the wake it calls.
class Counting final : public PendingResponse {
 public:
  Counting(int chunks, std::atomic<int>* alive, std::atomic<int>* threads)
      : chunks_(chunks), alive_(alive), threads_(threads) {
    ++*alive_;
  }
  ~Counting() override {
    shared_->stop = true;
    --*alive_;
  }

  void Start(std::function<void()> wake) override {
    ++*threads_;
    std::thread([shared = shared_, chunks = chunks_, threads = threads_, wake = std::move(wake)] {
      for (int i = 0; i < chunks && !shared->stop; ++i) {
        {
          const std::lock_guard lock(shared->mutex);
          shared->ready += std::to_string(i) + "\n";
          shared->done = i + 1 == chunks;
        }
        wake();
      }
      --*threads;
    }).detach();
  }

  Piece Next() override {
    const std::lock_guard lock(shared_->mutex);
    if (!std::exchange(head_, true)) return Head{"text/plain"};
    if (!shared_->ready.empty()) return Chunk{std::exchange(shared_->ready, {})};
    if (!shared_->done || std::exchange(ended_, true)) return Nothing{};
    return End{};
  }

 private:
  struct Shared {
    std::atomic<bool> stop{false};
    std::mutex mutex;
    std::string ready;
    bool done = false;
  };

  const int chunks_;
  std::atomic<int>* alive_;
  std::atomic<int>* threads_;
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
  bool head_ = false, ended_ = false;
};

// Says nothing until it was asked for three pings.
class Waiting final : public PendingResponse {
 public:
  void Start(std::function<void()> wake) override { wake_ = std::move(wake); }
  Piece Next() override {
    if (!std::exchange(head_, true)) return Head{"text/plain"};
    if (pings_ < 3 || ended_) return Nothing{};
    if (!std::exchange(said_, true)) return Chunk{"said"};
    ended_ = true;
    return End{};
  }
  std::string Ping() const override {
    if (++pings_ == 3) wake_();
    return "-";
  }

 private:
  std::function<void()> wake_;
  mutable std::atomic<int> pings_{0};
  bool head_ = false, said_ = false, ended_ = false;
};

// /echo gives the body back, /count counts, /wait waits.
class Handler final : public HttpHandler {
 public:
  std::optional<HttpResponse> Screen(const HttpRequest& request) override {
    if (request.path == "/refused") return HttpResponse{403, "text/plain", {}, "no"};
    return std::nullopt;
  }
  Answer Handle(const HttpRequest& request) override {
    if (request.path == "/wait") return std::make_unique<Waiting>();
    if (request.path == "/count") return std::make_unique<Counting>(std::stoi(request.body), &alive, &threads);
    return HttpResponse{200, "text/plain", {{"X-Method", request.method}}, request.body};
  }
  HttpResponse Refuse(int status, const std::string& reason) override { return {status, "text/plain", {}, reason}; }
  Headers CommonHeaders(const HttpRequest& request) override { return {{"X-Request-Id", request.id}}; }
  void Done(const AccessRecord& record) override {
    ++done;
    if (record.status == kClientGone) ++gone;
  }

  std::atomic<int> alive{0}, threads{0}, done{0}, gone{0};
};

int ConnectTo(const HttpServer& server) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(server.port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  return fd;
}

std::string ReadAll(int fd) {
  std::string all;
  char buffer[4096];
  ssize_t got = 0;
  while ((got = ::recv(fd, buffer, sizeof(buffer), 0)) > 0) all.append(buffer, static_cast<size_t>(got));
  ::close(fd);
  return all;
}

class HttpServerTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(server_.Start()); }
  void TearDown() override {
    while (handler_.threads > 0) std::this_thread::yield();
  }

  int Connect() const { return ConnectTo(server_); }
  int Send(const std::string& path, const std::string& body, const std::string& headers = "") const {
    const int fd = Connect();
    const std::string request = "POST " + path + " HTTP/1.1\r\nContent-Length: " + std::to_string(body.size()) +
                                "\r\n" + headers + "\r\n" + body;
    EXPECT_EQ(::send(fd, request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
    return fd;
  }
  std::string Ask(const std::string& path, const std::string& body) const {
    return ReadAll(Send(path, body, "Connection: close\r\n"));
  }

  Handler handler_;
  HttpServer server_{HttpOptions{.max_body_bytes = 1000}, &handler_};
};

TEST_F(HttpServerTest, WholeResponses) {
  const std::string answer = Ask("/echo", "hello");
  EXPECT_EQ(answer.rfind("HTTP/1.1 200 OK\r\n", 0), 0u) << answer;
  EXPECT_NE(answer.find("X-Method: POST\r\n"), std::string::npos);
  EXPECT_EQ(answer.substr(answer.size() - 9), "\r\n\r\nhello");
  EXPECT_NE(Ask("/refused", "x").find("403 Forbidden"), std::string::npos);
  EXPECT_NE(Ask("/echo", std::string(1001, 'x')).find("413 Payload Too Large"), std::string::npos);
}

TEST(HttpPingTest, AnIdleStreamIsKeptOpen) {
  Handler handler;
  HttpServer server(HttpOptions{.ping_interval = std::chrono::milliseconds(1)}, &handler);
  ASSERT_TRUE(server.Start());
  const int fd = ConnectTo(server);
  const std::string request = "POST /wait HTTP/1.0\r\nContent-Length: 0\r\n\r\n";
  ASSERT_EQ(::send(fd, request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
  const std::string answer = ReadAll(fd);
  EXPECT_EQ(answer.substr(answer.find("\r\n\r\n") + 4), "---said");
}

TEST_F(HttpServerTest, StreamsFromOtherThreads) {
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([this] {
      const std::string answer = Ask("/count", "500");
      EXPECT_NE(answer.find("Transfer-Encoding: chunked"), std::string::npos);
      EXPECT_NE(answer.find("499\n"), std::string::npos);
      EXPECT_EQ(answer.substr(answer.size() - 5), "0\r\n\r\n");
    });
  }
  for (std::thread& client : clients) client.join();
  while (server_.in_flight() > 0) std::this_thread::yield();
  EXPECT_EQ(handler_.alive, 0);
  EXPECT_EQ(handler_.gone, 0);
}

TEST_F(HttpServerTest, ClientsThatLeave) {
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([this, i] {
      const int fd = Send("/count", "100000000");
      char byte = 0;
      if (i % 2 == 0) {
        EXPECT_EQ(::recv(fd, &byte, 1, 0), 1);
      }
      if (i % 3 == 0) {
        ::shutdown(fd, SHUT_WR);
        ReadAll(fd);
      } else {
        ::close(fd);
      }
    });
  }
  for (std::thread& client : clients) client.join();
  while (handler_.gone < 8 || handler_.alive > 0) std::this_thread::yield();
  EXPECT_EQ(server_.in_flight(), 0);
}

TEST_F(HttpServerTest, StopEndsStreams) {
  const int fd = Send("/count", "200000");
  char byte = 0;
  EXPECT_EQ(::recv(fd, &byte, 1, 0), 1);
  server_.Stop();
  while (handler_.threads > 0) std::this_thread::yield();  // wakes end before the server is destroyed
  ::close(fd);
}

TEST_F(HttpServerTest, WakesWhoWaitsForASignal) {
  std::thread waker([this] { server_.Wake(); });
  server_.WaitForSignal();
  waker.join();
  EXPECT_EQ(server_.signals(), 1);
}

TEST(HttpServerStartTest, APortThatIsTaken) {
  Handler handler;
  HttpServer first(HttpOptions{}, &handler);
  ASSERT_TRUE(first.Start());
  HttpServer second(HttpOptions{.port = first.port()}, &handler);
  const Status started = second.Start();
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().where, "--port");
}

}  // namespace
}  // namespace deepinfer::server
