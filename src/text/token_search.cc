#include "text/token_search.h"

#include <algorithm>
#include <set>

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

Result<std::vector<std::vector<int32_t>>> SpellingsOf(const Tokenizer& tokenizer,
                                                      const std::vector<std::string>& words) {
  std::vector<std::vector<int32_t>> spellings;
  std::set<std::vector<int32_t>> known;
  for (size_t i = 0; i < words.size(); ++i) {
    const size_t spaces = std::min(words[i].find_first_not_of(' '), words[i].size());
    const std::string stem = words[i].substr(spaces);
    const std::vector<std::string> texts = stem.empty() ? std::vector{words[i]} : std::vector{stem, " " + stem};
    for (const std::string& text : texts) {
      DI_ASSIGN_OR_RETURN(std::vector<int32_t> ids,
                          tokenizer.Encode(text, {.parse_special = true, .add_special = false}));
      if (ids.empty()) {
        return MakeError(ErrorCode::kInvalidArgument, fmt::format("[{}]", i), "'{}' has no tokens", text);
      }
      if (known.insert(ids).second) spellings.push_back(std::move(ids));
    }
  }
  return spellings;
}

}  // namespace deepinfer::text
