// Text to token ids and back, and conversations to token ids, from a GGUF file or a Hugging Face folder.
//
// Added tokens are split off first and each piece between them is encoded apart. Control tokens in a text become their
// ids only with parse_special; user-defined tokens (runs of spaces, say) always do. Ids of a vocabulary are [0,
// vocab_size). Input text must be valid UTF-8 (kInvalidArgument otherwise). Immutable once made: thread-safe. Errors
// name the file and the field. Everything unknown (models, decoders, pre-tokenizer names) is refused, never replaced by
// a default.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "formats/gguf.h"
#include "text/chat_template.h"
#include "text/vocab_spec.h"

namespace deepinfer::text {

struct EncodeOptions {
  bool parse_special = true;
  bool add_special = false;  // BOS (and EOS) as the model wants them, unless the text brings them itself
};

// What a Hugging Face folder holds about text; the files' contents, "" where a file is missing.
struct HuggingFaceFiles {
  std::string tokenizer_json;
  std::string tokenizer_config_json;
  std::string chat_template_jinja;
  std::string chat_template_json;
};

class Tokenizer {
 public:
  static Result<Tokenizer> FromHuggingFaceFolder(const std::string& folder);
  static Result<Tokenizer> FromHuggingFaceFiles(const HuggingFaceFiles& files, const std::string& where);
  static Result<Tokenizer> FromGguf(const formats::GgufFile& file);
  static Result<Tokenizer> FromVocab(const VocabSpec& spec);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  Result<std::vector<int32_t>> Encode(std::string_view text, const EncodeOptions& options = {}) const;

  // The bytes a token stands for, possibly part of a character: what Utf8Detokenizer wants. "" outside the vocabulary.
  std::string TokenBytes(int32_t id) const;
  // Valid UTF-8. A leading space that only the encoding had put there is taken off again.
  std::string Decode(const std::vector<int32_t>& ids, bool skip_special = true) const;
  // The id of a token's text, -1 if there is none.
  int32_t TokenId(std::string_view text) const;

  int32_t vocab_size() const;
  std::optional<int32_t> bos_id() const;
  // The text of a template variable ("bos_token", "unk_token"); "" if the files do not name it.
  std::string SpecialText(const std::string& variable) const;
  // End of text and end of turn, as named by the files or by their well-known texts. Sorted.
  const std::vector<int32_t>& eos_ids() const;
  bool IsSpecial(int32_t id) const;

  // Conversations are rendered by this template from now on, tools or not. Not while another thread uses the object.
  Status UseChatTemplate(const std::string& source, const std::string& where);

  struct State;  // tokenizer_builder.h

  bool has_chat_template() const;
  // The template's source; "" if there is none.
  const std::string& chat_template_source() const;
  // That of the template for conversations with tools, where it is one of its own.
  const std::string& tool_use_template_source() const;
  // kFailedPrecondition if the model has no template.
  Result<std::string> RenderChat(const ChatInput& input) const;
  // The ids of the rendered conversation, with exactly one BOS if the model uses one. Special tokens inside the
  // client's strings (messages, tools, kwargs) stay plain text.
  Result<std::vector<int32_t>> EncodeChat(const ChatInput& input) const;

 private:
  friend class TokenizerBuilder;
  explicit Tokenizer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace deepinfer::text
