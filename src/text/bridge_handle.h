// Owners for what the Rust bridge hands out, and its statuses as Errors. Only text/*.cc includes this. Thread-safe as
// the bridge's own functions are (bridge/deepinfer_bridge.h).
#pragma once

#include <deepinfer_bridge.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"

namespace deepinfer::text {

struct BridgeDeleter {
  void operator()(di_tokenizer* tokenizer) const { di_tokenizer_free(tokenizer); }
  void operator()(di_template* tmpl) const { di_template_free(tmpl); }
  void operator()(di_grammar_vocabulary* vocabulary) const { di_grammar_vocabulary_free(vocabulary); }
  void operator()(di_grammar* grammar) const { di_grammar_free(grammar); }
  void operator()(di_sequence* sequence) const { di_sequence_free(sequence); }
};
using BridgeTokenizer = std::unique_ptr<di_tokenizer, BridgeDeleter>;
using BridgeTemplate = std::unique_ptr<di_template, BridgeDeleter>;
using BridgeVocabulary = std::unique_ptr<di_grammar_vocabulary, BridgeDeleter>;
using BridgeGrammar = std::unique_ptr<di_grammar, BridgeDeleter>;
using BridgeSequence = std::unique_ptr<di_sequence, BridgeDeleter>;

inline di_slice Slice(std::string_view text) {
  return {text.data(), text.size()};
}

// Copies and frees.
inline std::string TakeBytes(di_bytes bytes) {
  std::string out(reinterpret_cast<const char*>(bytes.data), bytes.size);
  di_bytes_free(bytes);
  return out;
}

inline Status ToStatus(int32_t status, di_bytes error, std::string where) {
  if (status == DI_OK) return {};
  std::string message = TakeBytes(error);
  ErrorCode code = ErrorCode::kInvalidArgument;
  if (status == DI_UNSUPPORTED) code = ErrorCode::kUnsupported;
  if (status == DI_PANIC) code = ErrorCode::kInternal;
  return tl::unexpected(Error{code, std::move(message), std::move(where)});
}

}  // namespace deepinfer::text
