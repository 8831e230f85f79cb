#include "text/grammar.h"

#include <nlohmann/json.hpp>

#include "text/bridge_handle.h"

namespace deepinfer::text {
namespace {

constexpr char kWhere[] = "grammar";

Status Check(int32_t status, di_bytes error) {
  return ToStatus(status, error, kWhere);
}

// The ends are answered with the state: both are known after each step.
class BridgeConstraint : public TokenConstraint {
 public:
  explicit BridgeConstraint(BridgeSequence sequence) : sequence_(std::move(sequence)) {}

  Status ReadState() {
    di_bytes error = {};
    int32_t accepting = 0;
    int32_t finished = 0;
    DI_RETURN_IF_ERROR(Check(di_sequence_state(sequence_.get(), &accepting, &finished, &error), error));
    accepting_ = accepting != 0;
    finished_ = finished != 0;
    return {};
  }

  Status ComputeMask(uint32_t* words, int64_t num_words) override {
    di_bytes error = {};
    return Check(di_sequence_mask(sequence_.get(), words, static_cast<size_t>(num_words), &error), error);
  }

  Status Accept(int32_t token) override {
    di_bytes error = {};
    DI_RETURN_IF_ERROR(Check(di_sequence_accept(sequence_.get(), static_cast<uint32_t>(token), &error), error));
    return ReadState();
  }

  bool IsAccepting() override { return accepting_; }
  bool IsFinished() override { return finished_; }

  std::unique_ptr<TokenConstraint> Clone() const override {
    di_bytes error = {};
    di_sequence* copy = nullptr;
    DI_CHECK(Check(di_sequence_clone(sequence_.get(), &copy, &error), error).has_value());
    auto clone = std::make_unique<BridgeConstraint>(BridgeSequence(copy));
    clone->accepting_ = accepting_;
    clone->finished_ = finished_;
    return clone;
  }

 private:
  BridgeSequence sequence_;
  bool accepting_ = false;
  bool finished_ = false;
};

class CompiledGrammar : public TokenGrammar {
 public:
  explicit CompiledGrammar(BridgeGrammar grammar) : grammar_(std::move(grammar)) {}

  Result<std::unique_ptr<TokenConstraint>> Start() const override {
    di_bytes error = {};
    di_sequence* sequence = nullptr;
    DI_RETURN_IF_ERROR(Check(di_grammar_begin(grammar_.get(), &sequence, &error), error));
    auto constraint = std::make_unique<BridgeConstraint>(BridgeSequence(sequence));
    DI_RETURN_IF_ERROR(constraint->ReadState());
    return constraint;
  }

 private:
  BridgeGrammar grammar_;
};

int32_t BridgeKind(GrammarKind kind) {
  switch (kind) {
    case GrammarKind::kJsonObject:
      return DI_GRAMMAR_JSON_OBJECT;
    case GrammarKind::kJsonSchema:
      return DI_GRAMMAR_JSON_SCHEMA;
    case GrammarKind::kRegex:
      return DI_GRAMMAR_REGEX;
    case GrammarKind::kChoice:
      return DI_GRAMMAR_CHOICE;
    case GrammarKind::kLark:
      return DI_GRAMMAR_LARK;
  }
  return -1;
}

// What errors call it: the field of a request.
const char* NameOf(GrammarKind kind) {
  switch (kind) {
    case GrammarKind::kJsonObject:
      return "json_object";
    case GrammarKind::kJsonSchema:
      return "json_schema";
    case GrammarKind::kRegex:
      return "regex";
    case GrammarKind::kChoice:
      return "choice";
    case GrammarKind::kLark:
      return kWhere;
  }
  return kWhere;
}

}  // namespace

struct GrammarCompiler::State {
  State(BridgeVocabulary of_tokenizer, GrammarCacheLimits limits)
      : vocabulary(std::move(of_tokenizer)), cache(limits) {}

  Result<std::shared_ptr<const TokenGrammar>> Compile(GrammarKind kind, const std::string& source) const {
    di_bytes error = {};
    di_grammar* grammar = nullptr;
    const int32_t status = di_grammar_compile(vocabulary.get(), BridgeKind(kind), Slice(source), &grammar, &error);
    DI_RETURN_IF_ERROR(ToStatus(status, error, NameOf(kind)));
    return std::make_shared<const CompiledGrammar>(BridgeGrammar(grammar));
  }

  BridgeVocabulary vocabulary;
  GrammarCache cache;
};

GrammarCompiler::GrammarCompiler(std::unique_ptr<State> state) : state_(std::move(state)) {}
GrammarCompiler::GrammarCompiler(GrammarCompiler&&) noexcept = default;
GrammarCompiler& GrammarCompiler::operator=(GrammarCompiler&&) noexcept = default;
GrammarCompiler::~GrammarCompiler() = default;

Result<GrammarCompiler> GrammarCompiler::Create(const Tokenizer& tokenizer, int64_t vocab, GrammarCacheLimits limits) {
  const auto count = static_cast<int32_t>(std::min<int64_t>(vocab, tokenizer.vocab_size()));
  std::vector<uint32_t> ends;
  for (const int32_t id : tokenizer.eos_ids()) {
    if (id < count) ends.push_back(static_cast<uint32_t>(id));
  }
  if (ends.empty()) {
    return MakeError(ErrorCode::kFailedPrecondition, kWhere, "the tokenizer has no end-of-text token");
  }
  std::vector<std::string> bytes;
  std::vector<di_slice> slices;
  std::vector<uint8_t> special;
  for (int32_t id = 0; id < count; ++id) {
    bytes.push_back(tokenizer.TokenBytes(id));
    special.push_back(tokenizer.IsSpecial(id) ? 1 : 0);
  }
  for (const std::string& each : bytes) slices.push_back(Slice(each));
  di_bytes error = {};
  di_grammar_vocabulary* vocabulary = nullptr;
  DI_RETURN_IF_ERROR(Check(di_grammar_vocabulary_new(slices.data(), special.data(), slices.size(), ends.data(),
                                                     ends.size(), &vocabulary, &error),
                           error));
  return GrammarCompiler(std::make_unique<State>(BridgeVocabulary(vocabulary), limits));
}

Result<std::shared_ptr<const TokenGrammar>> GrammarCompiler::Compile(const GrammarSpec& spec) const {
  std::string source = spec.source;
  if (spec.kind == GrammarKind::kChoice) {
    source = nlohmann::json(spec.choices).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  const std::string key = std::string(NameOf(spec.kind)) + ":" + source;
  return state_->cache.Get(key, [&] { return state_->Compile(spec.kind, source); });
}

GrammarCacheStats GrammarCompiler::cache_stats() const {
  return state_->cache.stats();
}

}  // namespace deepinfer::text
