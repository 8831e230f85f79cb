#include "formats/gguf_check.h"

#include <optional>

#include "formats/byte_cursor.h"

namespace deepinfer::formats {
namespace {

Status CheckLength(const GgufFile& file, const char* key, std::optional<size_t> length, size_t tokens) {
  if (!length || *length == tokens) return {};
  return MakeError(ErrorCode::kDataLoss, fmt::format("{}: key {}", file.path(), key),
                   "has {} elements for a vocabulary of {} tokens", *length, tokens);
}

}  // namespace

Status CheckGgufVocabulary(const GgufFile& file) {
  constexpr const char* kScores = "tokenizer.ggml.scores";
  constexpr const char* kTypes = "tokenizer.ggml.token_type";
  constexpr const char* kEmbedding = "token_embd.weight";
  DI_ASSIGN_OR_RETURN(const auto* tokens, file.Strings("tokenizer.ggml.tokens"));
  const GgufTensor* embedding = file.FindTensor(kEmbedding);
  const std::string embedding_where = fmt::format("{}: tensor {}", file.path(), kEmbedding);
  if (tokens != nullptr) {
    DI_ASSIGN_OR_RETURN(const auto* scores, file.Floats(kScores));
    DI_ASSIGN_OR_RETURN(const auto* types, file.Ints(kTypes));
    DI_RETURN_IF_ERROR(
        CheckLength(file, kScores, scores ? std::optional(scores->size()) : std::nullopt, tokens->size()));
    DI_RETURN_IF_ERROR(CheckLength(file, kTypes, types ? std::optional(types->size()) : std::nullopt, tokens->size()));
    if (embedding != nullptr && embedding->shape.front() != static_cast<int64_t>(tokens->size())) {
      return MakeError(ErrorCode::kDataLoss, embedding_where, "has {} rows for a vocabulary of {} tokens",
                       embedding->shape.front(), tokens->size());
    }
  }
  DI_ASSIGN_OR_RETURN(const std::string architecture, file.OptionalString("general.architecture", ""));
  const std::string width_key = architecture + ".embedding_length";
  if (embedding != nullptr && file.Has(width_key)) {
    DI_ASSIGN_OR_RETURN(const int64_t width, file.RequiredInt(width_key));
    if (embedding->shape.back() != width) {
      return MakeError(ErrorCode::kDataLoss, embedding_where, "has {} columns, but {} is {}", embedding->shape.back(),
                       Printable(width_key), width);
    }
  }
  return {};
}

}  // namespace deepinfer::formats
