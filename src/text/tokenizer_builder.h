// What the two ways of loading (Hugging Face files, vocabularies) fill in to make a Tokenizer. For text/*.cc only.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/bridge_handle.h"
#include "text/special_guard.h"
#include "text/token_table.h"
#include "text/tokenizer.h"

namespace deepinfer::text {

struct Tokenizer::State {
  BridgeTokenizer handle;
  std::string where;
  TokenTable table;
  int strip_left = 0;
  std::optional<int32_t> bos;
  std::vector<int32_t> eos_ids;
  std::vector<int32_t> prefix, suffix;  // what add_special puts around a text
  std::optional<ChatTemplate> chat, tool_use;
  Json special_variables = Json::object();        // bos_token and so on, for templates
  std::unique_ptr<SpecialGuard> guard;            // for a client's strings
  std::unique_ptr<SpecialGuard> assistant_guard;  // for an assistant's, null: the same
};

class TokenizerBuilder {
 public:
  // Takes handle, where, table, prefix and suffix as they are; finds the ends of text, compiles the templates and
  // builds the guards. `named_ends`: ids that the files name as ends.
  static Result<Tokenizer> Finish(std::unique_ptr<Tokenizer::State> state, std::vector<int32_t> named_ends,
                                  const std::string& chat_template, const std::string& tool_use_template);
};

// Texts that end a turn wherever they are a token split off before the model (control or added).
bool IsEndText(std::string_view text);

}  // namespace deepinfer::text
