#include "text/token_search.h"

#include <algorithm>

namespace deepinfer::text {

std::vector<int32_t> TokensContaining(const Tokenizer& tokenizer, const std::vector<std::string>& parts,
                                      int64_t vocab) {
  std::vector<int32_t> ids;
  const auto count = static_cast<int32_t>(std::min<int64_t>(vocab, tokenizer.vocab_size()));
  for (int32_t id = 0; id < count; ++id) {
    if (tokenizer.IsSpecial(id)) continue;
    const std::string bytes = tokenizer.TokenBytes(id);
    const auto holds = [&bytes](const std::string& part) { return bytes.find(part) != std::string::npos; };
    if (std::any_of(parts.begin(), parts.end(), holds)) ids.push_back(id);
  }
  return ids;
}

}  // namespace deepinfer::text
