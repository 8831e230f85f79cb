// Errors that cross rooms: tl::expected<T, Error>. An Error says what went wrong, and where: the parameter, file or op.
//
// CHECK is only for our own bugs: nothing that a request or a model file can contain may reach it.
// All types here are plain values; thread-safe as such.
#pragma once

#include <fmt/format.h>

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace deepinfer {

enum class ErrorCode {
  kInvalidArgument,     // a flag, request field or model file that cannot be accepted
  kNotFound,            // a file, tensor or name that does not exist
  kUnsupported,         // well formed, but not something this program can do
  kDataLoss,            // damaged bytes: truncated files, bad checksums
  kFailedPrecondition,  // the call came at the wrong time (a compile after the cache was locked)
  kResourceExhausted,   // memory, KV blocks, queue places
  kCancelled,
  kInternal,
};

const char* ToString(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;
  std::string where;  // "file.gguf: tensor blk.0.attn_q.weight", "--temperature", "op %12 dot_general"; may be empty

  // One line for people: "where: message".
  std::string ToString() const;
};

template <class T>
using Result = tl::expected<T, Error>;
using Status = tl::expected<void, Error>;

template <class... Args>
[[nodiscard]] tl::unexpected<Error> MakeError(ErrorCode code, std::string where, fmt::format_string<Args...> format,
                                              Args&&... args) {
  return tl::unexpected<Error>(Error{code, fmt::format(format, std::forward<Args>(args)...), std::move(where)});
}

namespace internal {
[[noreturn]] void CheckFailed(const char* file, int line, const char* condition);
}  // namespace internal

}  // namespace deepinfer

#define DI_CONCAT_INNER(a, b) a##b
#define DI_CONCAT(a, b) DI_CONCAT_INNER(a, b)

// Returns the error of a Status or Result expression from the enclosing function.
#define DI_RETURN_IF_ERROR(expr)                                            \
  do {                                                                      \
    auto&& di_status = (expr);                                              \
    if (!di_status.has_value()) return ::tl::unexpected(di_status.error()); \
  } while (false)

// DI_ASSIGN_OR_RETURN(auto value, MayFail());
#define DI_ASSIGN_OR_RETURN(lhs, expr) DI_ASSIGN_OR_RETURN_IMPL(DI_CONCAT(di_result_, __LINE__), lhs, expr)
#define DI_ASSIGN_OR_RETURN_IMPL(tmp, lhs, expr)                         \
  auto tmp = (expr);                                                     \
  if (!tmp.has_value()) return ::tl::unexpected(std::move(tmp.error())); \
  lhs = std::move(*tmp)

#define DI_CHECK(condition)                                                               \
  do {                                                                                    \
    if (!(condition)) ::deepinfer::internal::CheckFailed(__FILE__, __LINE__, #condition); \
  } while (false)
