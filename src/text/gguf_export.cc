#include "text/gguf_export.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "base/mapped_file.h"
#include "formats/json.h"
#include "text/tokenizer.h"

namespace deepinfer::text {
namespace {

using PlainJson = nlohmann::json;

// tokenizer.json of the largest vocabularies has some 35 MB.
constexpr formats::JsonLimits kLimits = {.max_bytes = 256u << 20, .max_depth = 32, .max_values = 16u << 20};

// One of each way of cutting in pre_tokenizer_table.h, the common ones first.
constexpr const char* kPreTokenizers[] = {"llama-bpe",      "qwen2",  "smollm",    "gpt-2",       "tekken",
                                          "gpt-4o",         "qwen35", "smaug-bpe", "deepseek-v3", "deepseek-llm",
                                          "deepseek-coder", "falcon", "default"};

// Contractions, words with and without capitals, runs of digits, marks, spaces and line breaks, scripts, emoji.
constexpr char kProbe[] =
    "I'll say: it's DON'T, we've 1 12 123 1234 12345 tokens;  two   spaces\tand tabs\t\n\n \n  end. "
    "fooBar FOOBar snake_case x=y+z; #include <a.h> $5.00 100% ~`^|\\ ... ?! ((a)) [b] {c}\r\n"
    "Über Straße naïve Ελληνικά Привет мир こんにちは世界 你好，世界。 한국어 العربية עברית हिन्दी "
    "😀👩‍👩‍👧 "
    "—dash… ９９ ²³ ½ done";

struct Vocabulary {
  VocabKind kind = VocabKind::kByteLevelBpe;
  std::vector<std::string> tokens;
  std::vector<TokenType> types;
  std::vector<std::string> merges;
  std::vector<float> scores;
  bool normalises = false;  // the text first, to a form of Unicode's: GGUF files cannot say so
};

tl::unexpected<Error> Bad(const std::string& where, const char* what) {
  return MakeError(ErrorCode::kUnsupported, where, "{}", what);
}

Status AddToken(const std::string& where, const PlainJson& id, const std::string& text, TokenType type,
                Vocabulary* vocabulary) {
  constexpr int64_t kMaxId = 1 << 24;
  if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() >= kMaxId) {
    return Bad(where, "a token's id is no number from 0 to 2^24");
  }
  const auto at = id.get<size_t>();
  if (vocabulary->tokens.size() <= at) {
    vocabulary->tokens.resize(at + 1);
    vocabulary->types.resize(at + 1, TokenType::kUnused);
  }
  vocabulary->tokens[at] = text;
  vocabulary->types[at] = type;
  return {};
}

Status ReadTokens(const PlainJson& json, const std::string& where, Vocabulary* v) {
  const PlainJson& model = json["model"];
  const bool fallback = model.value("byte_fallback", false);
  v->kind = fallback ? VocabKind::kSentencePiece : VocabKind::kByteLevelBpe;
  const std::string unknown = model.contains("unk_token") && model["unk_token"].is_string() ? model["unk_token"] : "";
  for (const auto& [text, id] : model["vocab"].items()) {
    const bool is_byte = fallback && text.size() == 6 && text.starts_with("<0x") && text.ends_with('>');
    const TokenType type = is_byte ? TokenType::kByte : text == unknown ? TokenType::kUnknown : TokenType::kNormal;
    DI_RETURN_IF_ERROR(AddToken(where, id, text, type, v));
  }
  if (!json.contains("added_tokens") || !json["added_tokens"].is_array()) return {};
  for (const PlainJson& added : json["added_tokens"]) {
    if (!added.is_object() || !added.contains("id") || !added.contains("content") || !added["content"].is_string()) {
      return Bad(where, "an added token has no id or no content");
    }
    const std::string text = added["content"];
    const TokenType type = text == unknown && fallback     ? TokenType::kUnknown
                           : added.value("special", false) ? TokenType::kControl
                                                           : TokenType::kUserDefined;
    DI_RETURN_IF_ERROR(AddToken(where, added["id"], text, type, v));
  }
  return {};
}

// "left right", best first; older files write them so, newer ones as pairs.
Status ReadMerges(const PlainJson& model, const std::string& where, std::vector<std::string>* merges) {
  if (!model.contains("merges") || !model["merges"].is_array()) return Bad(where, "model.merges is missing");
  for (const PlainJson& merge : model["merges"]) {
    if (merge.is_string()) {
      merges->push_back(merge);
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      merges->push_back(merge[0].get<std::string>() + ' ' + merge[1].get<std::string>());
    } else {
      return Bad(where, "an entry of model.merges is neither a text nor a pair");
    }
  }
  return {};
}

// SentencePiece merges the pair whose token has the best score: the rank of the first merge that makes it, negated.
void ScoreByMerges(Vocabulary* v) {
  std::map<std::string, size_t> rank;
  for (size_t i = 0; i < v->merges.size(); ++i) {
    std::string made = v->merges[i];
    made.erase(made.find(' '), 1);
    rank.emplace(std::move(made), i);
  }
  for (const std::string& token : v->tokens) {
    const auto it = rank.find(token);
    v->scores.push_back(it == rank.end() ? 0.0f : -static_cast<float>(it->second + 1));
  }
}

bool Normalises(const PlainJson& normalizer) {
  const bool is_list = normalizer.is_object() && normalizer.contains("normalizers");
  return !normalizer.is_null() && !(is_list && normalizer["normalizers"].empty());
}

Result<Vocabulary> ReadVocabulary(const std::string& folder) {
  const std::string where = (std::filesystem::path(folder) / "tokenizer.json").string();
  DI_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(where));
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
  DI_ASSIGN_OR_RETURN(const PlainJson json, formats::ParseJson(text, where, kLimits));
  if (!json.is_object() || !json.contains("model") || !json["model"].is_object()) return Bad(where, "has no model");
  const PlainJson& model = json["model"];
  if (model.value("type", "BPE") != "BPE" || !model.contains("vocab") || !model["vocab"].is_object()) {
    return Bad(where, "its model is not BPE with a vocabulary; GGUF files are written for such only");
  }
  Vocabulary vocabulary;
  DI_RETURN_IF_ERROR(ReadTokens(json, where, &vocabulary));
  DI_RETURN_IF_ERROR(ReadMerges(model, where, &vocabulary.merges));
  if (vocabulary.kind == VocabKind::kSentencePiece) {
    ScoreByMerges(&vocabulary);
  } else {
    vocabulary.normalises = json.contains("normalizer") && Normalises(json["normalizer"]);
  }
  for (size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (vocabulary.tokens[id].empty()) vocabulary.tokens[id] = fmt::format("[UNUSED{}]", id);
  }
  return vocabulary;
}

std::optional<int32_t> SpecialId(const Tokenizer& tokenizer, const char* variable) {
  const std::string text = tokenizer.SpecialText(variable);
  const int32_t id = text.empty() ? -1 : tokenizer.TokenId(text);
  return id < 0 ? std::nullopt : std::optional<int32_t>(id);
}

VocabSpec SpecOf(const Tokenizer& tokenizer, const Vocabulary& vocabulary, const std::vector<int32_t>& around) {
  VocabSpec spec;
  spec.kind = vocabulary.kind;
  spec.tokens.assign(vocabulary.tokens.begin(), vocabulary.tokens.end());
  spec.types = vocabulary.types;
  spec.scores = vocabulary.scores;
  if (spec.kind == VocabKind::kByteLevelBpe) spec.merges.assign(vocabulary.merges.begin(), vocabulary.merges.end());
  spec.bos = tokenizer.bos_id();
  spec.eos = SpecialId(tokenizer, "eos_token");
  spec.unknown = SpecialId(tokenizer, "unk_token");
  spec.pad = SpecialId(tokenizer, "pad_token");
  spec.add_bos = spec.bos && !around.empty() && around.front() == *spec.bos;
  spec.add_eos = spec.eos && !around.empty() && around.back() == *spec.eos;
  return spec;
}

// Sets what decides on how text is cut, so that the probe gets `wanted`; false if nothing does.
Result<bool> FindCut(const std::vector<int32_t>& wanted, VocabSpec* spec) {
  const auto fits = [&]() -> Result<bool> {
    DI_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::FromVocab(*spec));
    DI_ASSIGN_OR_RETURN(const std::vector<int32_t> ids, tokenizer.Encode(kProbe, {.parse_special = false}));
    return ids == wanted;
  };
  if (spec->kind == VocabKind::kSentencePiece) {
    for (const bool add : {true, false}) {
      spec->add_space_prefix = add;
      DI_ASSIGN_OR_RETURN(const bool found, fits());
      if (found) return true;
    }
    return false;
  }
  for (const char* name : kPreTokenizers) {
    spec->pre_tokenizer = name;
    DI_ASSIGN_OR_RETURN(const bool found, fits());
    if (found) return true;
  }
  return false;
}

void AddIds(const VocabSpec& spec, formats::GgufWriter* writer) {
  const std::pair<const char*, std::optional<int32_t>> ids[] = {
      {"bos", spec.bos}, {"eos", spec.eos}, {"eot", spec.eot}, {"unknown", spec.unknown}, {"padding", spec.pad}};
  for (const auto& [name, id] : ids) {
    if (id) writer->AddMetadata(fmt::format("tokenizer.ggml.{}_token_id", name), static_cast<uint32_t>(*id));
  }
  writer->AddMetadata("tokenizer.ggml.add_bos_token", *spec.add_bos);
  writer->AddMetadata("tokenizer.ggml.add_eos_token", *spec.add_eos);
  if (spec.add_space_prefix) writer->AddMetadata("tokenizer.ggml.add_space_prefix", *spec.add_space_prefix);
}

void AddVocabulary(const Vocabulary& vocabulary, const VocabSpec& spec, formats::GgufWriter* writer) {
  const bool byte_level = spec.kind == VocabKind::kByteLevelBpe;
  writer->AddMetadata("tokenizer.ggml.model", byte_level ? "gpt2" : "llama");
  writer->AddMetadata("tokenizer.ggml.pre", byte_level ? spec.pre_tokenizer : "default");
  writer->AddMetadata("tokenizer.ggml.tokens", vocabulary.tokens);
  std::vector<int32_t> types;
  for (const TokenType type : vocabulary.types) types.push_back(static_cast<int32_t>(type));
  writer->AddMetadata("tokenizer.ggml.token_type", types);
  if (byte_level) {
    writer->AddMetadata("tokenizer.ggml.merges", vocabulary.merges);
  } else {
    writer->AddMetadata("tokenizer.ggml.scores", vocabulary.scores);
  }
}

}  // namespace

Result<std::string> AddGgufTokenizer(const std::string& folder, int64_t vocab, const std::vector<int32_t>& eos,
                                     formats::GgufWriter* writer) {
  DI_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::FromHuggingFaceFolder(folder));
  DI_ASSIGN_OR_RETURN(Vocabulary vocabulary, ReadVocabulary(folder));
  for (auto id = static_cast<int64_t>(vocabulary.tokens.size()); id < vocab; ++id) {
    vocabulary.tokens.push_back(fmt::format("[PAD{}]", id));
    vocabulary.types.push_back(TokenType::kUnused);
    if (vocabulary.kind == VocabKind::kSentencePiece) vocabulary.scores.push_back(0.0f);
  }
  DI_ASSIGN_OR_RETURN(const std::vector<int32_t> wanted, tokenizer.Encode(kProbe, {.parse_special = false}));
  DI_ASSIGN_OR_RETURN(const std::vector<int32_t> around, tokenizer.Encode("", {.add_special = true}));
  VocabSpec spec = SpecOf(tokenizer, vocabulary, around);
  DI_ASSIGN_OR_RETURN(const bool found, FindCut(wanted, &spec));
  if (!found) {
    return Bad(folder + "/tokenizer.json", "no pre-tokenizer that GGUF files can name gives this tokenizer's ids");
  }
  // Ends that neither the tokenizer's files nor their well-known texts say have two places of their own.
  std::vector<int32_t> unsaid;
  for (const int32_t id : eos) {
    const std::vector<int32_t>& known = tokenizer.eos_ids();
    if (std::find(known.begin(), known.end(), id) == known.end()) unsaid.push_back(id);
  }
  for (std::optional<int32_t>* place : {&spec.eos, &spec.eot}) {
    if (*place || unsaid.empty()) continue;
    *place = unsaid.front();
    unsaid.erase(unsaid.begin());
  }
  AddVocabulary(vocabulary, spec, writer);
  AddIds(spec, writer);
  if (tokenizer.has_chat_template()) writer->AddMetadata("tokenizer.chat_template", tokenizer.chat_template_source());
  if (!tokenizer.tool_use_template_source().empty()) {
    writer->AddMetadata("tokenizer.chat_template.tool_use", tokenizer.tool_use_template_source());
  }
  std::string warning;
  if (vocabulary.normalises) {
    warning = fmt::format(
        "{}: its tokenizer normalises text, which a GGUF file cannot say: text in another form gets other ids", folder);
  }
  if (!unsaid.empty()) {
    warning += fmt::format("{}{}: the GGUF file has no place for the end tokens {}", warning.empty() ? "" : "\n",
                           folder, fmt::join(unsaid, ", "));
  }
  return warning;
}

}  // namespace deepinfer::text
