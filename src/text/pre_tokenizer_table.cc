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
#define DI_WORDS(end) \
  R"([^\r\n\p{L}\p{N}]?)" DI_UPPER "*" DI_LOWER "+" end R"(|[^\r\n\p{L}\p{N}]?)" DI_UPPER "+" DI_LOWER "*" end
constexpr std::string_view kGpt4o = DI_WORDS(DI_CONTRACTION "?") R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" DI_SPACES;
constexpr std::string_view kTekken = DI_WORDS("") R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|)" DI_SPACES;

constexpr std::string_view kLineBreak = R"([\r\n])";
// DeepSeek LLM's own list of letters: cased ones, as of the Unicode version it was trained with.
constexpr std::string_view kDeepSeekLetters =
    R"(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF})"
    R"(\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1})"
    R"(\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5}\x{13A0}-\x{13F5})"
    R"(\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF}\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-)"
    R"(\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57})"
    R"(\x{1F59}\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4})"
    R"(\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-)"
    R"(\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128}\x{212A}-)"
    R"(\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-)"
    R"(\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722})"
    R"(-\x{A76F}\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17})"
    R"(\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80})"
    R"(-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+)";
constexpr std::string_view kDeepSeekMarks =
    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)";
constexpr std::string_view kSpacesAtEnd = R"(\s+$)";
constexpr std::string_view kDeepSeekHan = R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";
constexpr std::string_view kDigits = R"(\p{N}+)";
constexpr std::string_view kDeepSeek3Han = R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";
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
