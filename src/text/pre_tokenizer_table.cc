#include "text/pre_tokenizer_table.h"

#include <array>
#include <string>

namespace deepinfer::text {
namespace {

constexpr std::string_view kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kOneDigit = R"(\p{N})";
constexpr std::string_view kThreeDigits = R"(\p{N}{1,3})";
constexpr std::string_view kPunctuation = R"([\p{P}\$\+<=>\^~\|`]+)";
constexpr std::string_view kDefaultPunctuation = R"([\p{P}\$\+<=>\^~\|]+)";
constexpr std::string_view kThreeAsciiDigits = "[0-9][0-9][0-9]";

#define DI_CONTRACTION R"((?i:'s|'t|'re|'ve|'m|'ll|'d))"
#define DI_SPACES R"(\s*[\r\n]+|\s+(?!\S)|\s+)"
constexpr std::string_view kLlama3 =
    DI_CONTRACTION R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)" DI_SPACES;
constexpr std::string_view kQwen2 =
    DI_CONTRACTION R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|)" DI_SPACES;
constexpr std::string_view kQwen35 =
    DI_CONTRACTION R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|)" DI_SPACES;

// Words with a capital or without, as o200k and Tekken cut them.
#define DI_UPPER R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])"
#define DI_LOWER R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])"
#define DI_WORDS(end)                                                \
  R"([^\r\n\p{L}\p{N}]?)" DI_UPPER "*" DI_LOWER "+" end              \
  R"(|[^\r\n\p{L}\p{N}]?)" DI_UPPER "+" DI_LOWER "*" end
constexpr std::string_view kGpt4o =
    DI_WORDS(DI_CONTRACTION "?") R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" DI_SPACES;
constexpr std::string_view kTekken = DI_WORDS("") R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" DI_SPACES;

constexpr std::string_view kLineBreak = R"([\r\n])";
// DeepSeek LLM's own list of letters: cased ones, as of the Unicode version it was trained with.
constexpr std::string_view kDeepSeekLetters =
    R"(\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+)";
constexpr std::string_view kDeepSeekMarks = R"(\s?[!-/:-~！-／：-～‘-‟　-。]+)";
constexpr std::string_view kSpacesAtEnd = R"(\s+$)";
constexpr std::string_view kDeepSeekHan = "[一-龥ࠀ-一가-퟿]+";
constexpr std::string_view kDigits = R"(\p{N}+)";
constexpr std::string_view kDeepSeek3Han = "[一-龥぀-ゟ゠-ヿ]+";
constexpr std::string_view kDeepSeek3 =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|)" DI_SPACES;
#undef DI_CONTRACTION
#undef DI_SPACES
#undef DI_UPPER
#undef DI_LOWER
#undef DI_WORDS

struct Row {
  std::string_view name;
  std::array<std::string_view, 6> splits;  // empty from the first unused one on
  bool ignore_merges = false;
  bool add_bos = false;
};

constexpr Row kRows[] = {
    {"default", {kDefaultPunctuation, kGpt2, kDigits, kThreeAsciiDigits}},
    {"gpt-2", {kGpt2}},
    {"phi-2", {kGpt2}},
    {"mpt", {kGpt2}},
    {"olmo", {kGpt2}},
    {"llama-bpe", {kLlama3}, true, true},
    {"llama3", {kLlama3}, true, true},
    {"llama-v3", {kLlama3}, true, true},
    {"falcon3", {kLlama3}, true, true},
    {"pixtral", {kLlama3}, true, true},
    {"smaug-bpe", {kLlama3}},
    {"dbrx", {kLlama3}},
    {"glm4", {kLlama3}},
    {"chatglm-bpe", {kLlama3}},
    {"qwen2", {kQwen2}},
    {"deepseek-r1-qwen", {kQwen2}},
    {"stablelm2", {kQwen2}},
    {"hunyuan", {kQwen2}},
    {"qwen35", {kQwen35}},
    {"smollm", {kOneDigit, kGpt2}},
    {"starcoder", {kOneDigit, kGpt2}},
    {"refact", {kOneDigit, kGpt2}},
    {"command-r", {kOneDigit, kGpt2}},
    {"codeshell", {kOneDigit, kGpt2}},
    {"exaone", {kOneDigit, kGpt2}},
    {"minerva-7b", {kOneDigit, kGpt2}},
    {"falcon", {kPunctuation, kGpt2, kThreeAsciiDigits}},
    {"deepseek-llm", {kLineBreak, kDeepSeekLetters, kDeepSeekMarks, kSpacesAtEnd, kDeepSeekHan, kDigits}},
    {"deepseek-coder", {kLineBreak, R"(\s?\p{L}+)", R"(\s?\p{P}+)", kDeepSeekHan, kOneDigit}},
    {"deepseek-v3", {kThreeDigits, kDeepSeek3Han, kDeepSeek3}},
    {"hunyuan-dense", {kThreeDigits, kDeepSeek3Han, kDeepSeek3}},
    {"gpt-4o", {kGpt4o}},
    {"llama4", {kGpt4o}},
    {"tekken", {kTekken}, true, true},
};

}  // namespace

Result<PreTokenizer> FindPreTokenizer(std::string_view name, const std::string& where) {
  std::string known;
  for (const Row& row : kRows) {
    if (row.name == name) {
      PreTokenizer out{{}, row.ignore_merges, row.add_bos};
      for (std::string_view split : row.splits) {
        if (!split.empty()) out.splits.push_back(split);
      }
      return out;
    }
    known += known.empty() ? "" : ", ";
    known += row.name;
  }
  if (name.empty()) {
    return MakeError(ErrorCode::kUnsupported, where + ": tokenizer.ggml.pre",
                     "missing: the file does not say how text is cut; known: {}", known);
  }
  return MakeError(ErrorCode::kUnsupported, where + ": tokenizer.ggml.pre", "unknown pre-tokenizer \"{}\"; known: {}",
                   name, known);
}

}  // namespace deepinfer::text
