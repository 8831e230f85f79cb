// Tokenizer::FromVocab and FromGguf: arrays straight into the bridge, no JSON in between.
#include <algorithm>
#include <cmath>
#include <utility>

#include "text/pre_tokenizer_table.h"
#include "text/tokenizer.h"
#include "text/tokenizer_builder.h"

namespace deepinfer::text {
namespace {

constexpr size_t kMaxVocab = 16u << 20;
constexpr size_t kMaxTextBytes = 1u << 30;

Status CheckShape(const VocabSpec& spec) {
  const size_t count = spec.tokens.size();
  if (count == 0) return MakeError(ErrorCode::kInvalidArgument, spec.where + ": tokens", "the vocabulary is empty");
  if (count > kMaxVocab) return MakeError(ErrorCode::kInvalidArgument, spec.where + ": tokens", "{} tokens", count);
  if (!spec.types.empty() && spec.types.size() != count) {
    return MakeError(ErrorCode::kInvalidArgument, spec.where + ": token_type", "{} types for {} tokens",
                     spec.types.size(), count);
  }
  if (spec.kind == VocabKind::kSentencePiece && spec.scores.size() != count) {
    return MakeError(ErrorCode::kInvalidArgument, spec.where + ": scores", "{} scores for {} tokens",
                     spec.scores.size(), count);
  }
  size_t bytes = 0;
  for (std::string_view token : spec.tokens) bytes += token.size();
  if (bytes > kMaxTextBytes) {
    return MakeError(ErrorCode::kInvalidArgument, spec.where + ": tokens", "{} bytes of token texts", bytes);
  }
  const std::pair<const char*, std::optional<int32_t>> ids[] = {{"bos", spec.bos},         {"eos", spec.eos},
                                                                {"eot", spec.eot},         {"eom", spec.eom},
                                                                {"unknown", spec.unknown}, {"padding", spec.pad}};
  for (const auto& [name, id] : ids) {
    if (id && (*id < 0 || static_cast<size_t>(*id) >= count)) {
      return MakeError(ErrorCode::kInvalidArgument, fmt::format("{}: {}_token_id", spec.where, name),
                       "{} lies outside the vocabulary of {}", *id, count);
    }
  }
  return {};
}

// Types as used: the file's, with ids that the file names as BOS and so on, and well-known ends of a turn, as control.
Result<std::vector<TokenType>> EffectiveTypes(const VocabSpec& spec) {
  std::vector<TokenType> types = spec.types;
  if (types.empty()) {
    types.assign(spec.tokens.size(), TokenType::kNormal);
    for (std::optional<int32_t> id : {spec.bos, spec.eos, spec.eot, spec.eom, spec.unknown, spec.pad}) {
      if (id) types[*id] = TokenType::kControl;
    }
    for (size_t id = 0; id < types.size(); ++id) {
      const bool byte = spec.kind == VocabKind::kSentencePiece && IsByteToken(spec.tokens[id]);
      if (byte) types[id] = TokenType::kByte;
    }
  }
  for (size_t id = 0; id < types.size(); ++id) {
    const std::string_view text = spec.tokens[id];
    if (types[id] < TokenType::kNormal || types[id] > TokenType::kByte) {
      return MakeError(ErrorCode::kInvalidArgument, spec.where + ": token_type", "token {} has type {}", id,
                       static_cast<int>(types[id]));
    }
    if (types[id] == TokenType::kByte && !IsByteToken(text)) {
      return MakeError(ErrorCode::kInvalidArgument, spec.where + ": token_type",
                       "token {} has type byte but not the form <0xNN>", id);
    }
    if (types[id] != TokenType::kUnused && text.starts_with('<') && IsEndText(text)) types[id] = TokenType::kControl;
  }
  return types;
}

uint8_t BridgeFlags(TokenType type) {
  switch (type) {
    case TokenType::kControl:
    case TokenType::kUnknown:
      return DI_TOKEN_ADDED | DI_TOKEN_SPECIAL | DI_TOKEN_HIDDEN;
    case TokenType::kUserDefined:
      return DI_TOKEN_ADDED;
    case TokenType::kUnused:
    case TokenType::kByte:
      return DI_TOKEN_HIDDEN;
    case TokenType::kNormal:
      break;
  }
  return 0;
}

void FillTable(const VocabSpec& spec, const std::vector<TokenType>& types, TokenTable& table) {
  const bool byte_level = spec.kind == VocabKind::kByteLevelBpe;
  table.form = byte_level ? TokenTable::Form::kByteLevel : TokenTable::Form::kMetaspace;
  table.replacement = byte_level ? "" : "▁";
  table.offsets.reserve(spec.tokens.size() + 1);
  table.flags.reserve(spec.tokens.size());
  for (size_t id = 0; id < spec.tokens.size(); ++id) {
    table.texts.append(spec.tokens[id]);
    table.offsets.push_back(static_cast<uint32_t>(table.texts.size()));
    const uint8_t byte = types[id] == TokenType::kByte ? TokenTable::kByte : 0;
    table.flags.push_back((BridgeFlags(types[id]) & (DI_TOKEN_ADDED | DI_TOKEN_SPECIAL)) | byte);
  }
}

std::vector<di_slice> Slices(const std::vector<std::string_view>& texts) {
  std::vector<di_slice> out;
  out.reserve(texts.size());
  for (std::string_view text : texts) out.push_back(Slice(text));
  return out;
}

Result<BridgeTokenizer> MakeHandle(const VocabSpec& spec, const std::vector<TokenType>& types,
                                   const PreTokenizer& pre) {
  const std::vector<di_slice> tokens = Slices(spec.tokens);
  const std::vector<di_slice> merges = Slices(spec.merges);
  const std::vector<di_slice> splits = Slices(pre.splits);
  std::vector<uint8_t> flags;
  flags.reserve(types.size());
  for (TokenType type : types) flags.push_back(BridgeFlags(type));
  di_vocab vocab{};
  vocab.kind = spec.kind == VocabKind::kByteLevelBpe ? DI_VOCAB_BYTE_LEVEL : DI_VOCAB_SENTENCEPIECE;
  vocab.tokens = tokens.data();
  vocab.flags = flags.data();
  vocab.token_count = tokens.size();
  vocab.scores = spec.scores.empty() ? nullptr : spec.scores.data();
  vocab.merges = merges.data();
  vocab.merge_count = merges.size();
  vocab.splits = splits.data();
  vocab.split_count = splits.size();
  vocab.ignore_merges = pre.ignore_merges;
  vocab.add_space_prefix = spec.add_space_prefix.value_or(true);
  vocab.unknown_id = spec.unknown.value_or(-1);
  di_tokenizer* handle = nullptr;
  di_bytes error{};
  DI_RETURN_IF_ERROR(ToStatus(di_tokenizer_from_vocab(&vocab, &handle, &error), error, spec.where));
  return BridgeTokenizer(handle);
}

Result<std::optional<int32_t>> OptionalId(const formats::GgufFile& file, const char* key) {
  if (!file.Has(key)) return std::optional<int32_t>();
  DI_ASSIGN_OR_RETURN(const int64_t id, file.RequiredInt(key));
  if (id < 0 || id > INT32_MAX) {
    // Files write 2^32-1 (or -1) for "there is none".
    if (id == -1 || id == int64_t{0xffffffff}) return std::optional<int32_t>();
    return MakeError(ErrorCode::kInvalidArgument, file.path() + ": " + key, "{} is no token id", id);
  }
  return std::optional<int32_t>(static_cast<int32_t>(id));
}

Result<std::optional<bool>> OptionalFlag(const formats::GgufFile& file, const char* key) {
  if (!file.Has(key)) return std::optional<bool>();
  DI_ASSIGN_OR_RETURN(const bool value, file.OptionalBool(key, false));
  return std::optional<bool>(value);
}

Status ReadIds(const formats::GgufFile& file, VocabSpec& spec) {
  DI_ASSIGN_OR_RETURN(spec.bos, OptionalId(file, "tokenizer.ggml.bos_token_id"));
  DI_ASSIGN_OR_RETURN(spec.eos, OptionalId(file, "tokenizer.ggml.eos_token_id"));
  DI_ASSIGN_OR_RETURN(spec.eot, OptionalId(file, "tokenizer.ggml.eot_token_id"));
  DI_ASSIGN_OR_RETURN(spec.eom, OptionalId(file, "tokenizer.ggml.eom_token_id"));
  DI_ASSIGN_OR_RETURN(spec.unknown, OptionalId(file, "tokenizer.ggml.unknown_token_id"));
  DI_ASSIGN_OR_RETURN(spec.pad, OptionalId(file, "tokenizer.ggml.padding_token_id"));
  DI_ASSIGN_OR_RETURN(spec.add_bos, OptionalFlag(file, "tokenizer.ggml.add_bos_token"));
  DI_ASSIGN_OR_RETURN(spec.add_eos, OptionalFlag(file, "tokenizer.ggml.add_eos_token"));
  DI_ASSIGN_OR_RETURN(spec.add_space_prefix, OptionalFlag(file, "tokenizer.ggml.add_space_prefix"));
  return {};
}

}  // namespace

Result<Tokenizer> Tokenizer::FromVocab(const VocabSpec& spec) {
  DI_RETURN_IF_ERROR(CheckShape(spec));
  PreTokenizer pre;
  if (spec.kind == VocabKind::kByteLevelBpe) {
    DI_ASSIGN_OR_RETURN(pre, FindPreTokenizer(spec.pre_tokenizer, spec.where));
  }
  DI_ASSIGN_OR_RETURN(const std::vector<TokenType> types, EffectiveTypes(spec));
  auto state = std::make_unique<State>();
  state->where = spec.where;
  FillTable(spec, types, state->table);
  DI_ASSIGN_OR_RETURN(state->handle, MakeHandle(spec, types, pre));
  const bool sentencepiece = spec.kind == VocabKind::kSentencePiece;
  state->strip_left = sentencepiece && spec.add_space_prefix.value_or(true) ? 1 : 0;
  state->bos = spec.bos;
  if (spec.add_bos.value_or(sentencepiece || pre.add_bos) && spec.bos) state->prefix = {*spec.bos};
  if (spec.add_eos.value_or(false) && spec.eos) state->suffix = {*spec.eos};
  const std::pair<const char*, std::optional<int32_t>> variables[] = {
      {"bos_token", spec.bos}, {"eos_token", spec.eos}, {"unk_token", spec.unknown}, {"pad_token", spec.pad}};
  for (const auto& [name, id] : variables) {
    if (id) state->special_variables[name] = state->table.Text(*id);
  }
  std::vector<int32_t> ends;
  for (std::optional<int32_t> id : {spec.eos, spec.eot, spec.eom}) {
    if (id) ends.push_back(*id);
  }
  return TokenizerBuilder::Finish(std::move(state), std::move(ends), spec.chat_template, spec.tool_use_template);
}

Result<Tokenizer> Tokenizer::FromGguf(const formats::GgufFile& file) {
  VocabSpec spec;
  spec.where = file.path();
  DI_ASSIGN_OR_RETURN(const std::string model, file.RequiredString("tokenizer.ggml.model"));
  if (model == "gpt2") {
    spec.kind = VocabKind::kByteLevelBpe;
    DI_ASSIGN_OR_RETURN(spec.pre_tokenizer, file.OptionalString("tokenizer.ggml.pre", ""));
  } else if (model == "llama") {
    spec.kind = VocabKind::kSentencePiece;
  } else {
    return MakeError(ErrorCode::kUnsupported, spec.where + ": tokenizer.ggml.model",
                     "unknown tokenizer \"{}\"; known: gpt2, llama", model);
  }
  DI_ASSIGN_OR_RETURN(const std::vector<std::string_view>* tokens, file.Strings("tokenizer.ggml.tokens"));
  if (tokens) spec.tokens = *tokens;
  DI_ASSIGN_OR_RETURN(const std::vector<int64_t>* types, file.Ints("tokenizer.ggml.token_type"));
  if (types) {
    for (int64_t type : *types) spec.types.push_back(static_cast<TokenType>(type >= 1 && type <= 6 ? type : 0));
  }
  if (spec.kind == VocabKind::kSentencePiece) {
    DI_ASSIGN_OR_RETURN(const std::vector<double>* scores, file.Floats("tokenizer.ggml.scores"));
    if (scores) spec.scores.assign(scores->begin(), scores->end());
  } else {
    DI_ASSIGN_OR_RETURN(const std::vector<std::string_view>* merges, file.Strings("tokenizer.ggml.merges"));
    if (!merges) return MakeError(ErrorCode::kInvalidArgument, spec.where + ": tokenizer.ggml.merges", "missing");
    spec.merges = *merges;
  }
  DI_RETURN_IF_ERROR(ReadIds(file, spec));
  DI_ASSIGN_OR_RETURN(spec.chat_template, file.OptionalString("tokenizer.chat_template", ""));
  DI_ASSIGN_OR_RETURN(spec.tool_use_template, file.OptionalString("tokenizer.chat_template.tool_use", ""));
  return FromVocab(spec);
}

}  // namespace deepinfer::text
