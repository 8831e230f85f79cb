#include <charconv>
#include <cstdlib>
#include <limits>

#include "ir/text.h"
#include "ir/verify.h"

namespace deepinfer::ir {
namespace {

// A cursor over the text; every Expect* fails with the line and what was found.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Module> Run() {
    DI_RETURN_IF_ERROR(ExpectWord("module"));
    int64_t live = kNoValue;
    if (TryWord("live")) {
      DI_RETURN_IF_ERROR(Expect('('));
      DI_ASSIGN_OR_RETURN(live, Ref());
      DI_RETURN_IF_ERROR(Expect(')'));
    }
    Module module;
    while (TryWord("func")) DI_RETURN_IF_ERROR(ParseFunction(&module));
    Skip();
    if (at_ != text_.size()) return Fail("a function or the end");
    module.live_counts = static_cast<ValueId>(live);
    DI_RETURN_IF_ERROR(Verify(module));
    return module;
  }

 private:
  tl::unexpected<Error> Fail(std::string_view wanted) {
    Skip();
    int line = 1;
    for (size_t i = 0; i < at_ && i < text_.size(); ++i) line += text_[i] == '\n';
    const std::string found(text_.substr(std::min(at_, text_.size()), 20));
    return MakeError(ErrorCode::kInvalidArgument, fmt::format("graph text, line {}", line), "expected {}, found '{}'",
                     wanted, found.substr(0, found.find('\n')));
  }

  void Skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }

  bool Try(std::string_view symbol) {
    Skip();
    if (text_.substr(at_, symbol.size()) != symbol) return false;
    at_ += symbol.size();
    return true;
  }

  Status Expect(char symbol) {
    if (Try(std::string_view(&symbol, 1))) return {};
    return Fail(fmt::format("'{}'", symbol));
  }

  static bool IsWord(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-';
  }

  std::string Word() {
    Skip();
    size_t end = at_;
    while (end < text_.size() && IsWord(text_[end])) ++end;
    const std::string word(text_.substr(at_, end - at_));
    at_ = end;
    return word;
  }

  bool TryWord(std::string_view word) {
    Skip();
    const size_t start = at_;
    if (Word() == word) return true;
    at_ = start;
    return false;
  }

  Status ExpectWord(std::string_view word) {
    if (TryWord(word)) return {};
    return Fail(fmt::format("'{}'", word));
  }

  Result<int64_t> Integer() {
    Skip();
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) return Fail("an integer");
    at_ = end - text_.data();
    return value;
  }

  Result<int64_t> Ref() {
    DI_RETURN_IF_ERROR(Expect('%'));
    DI_ASSIGN_OR_RETURN(const int64_t value, Integer());
    if (value < 0 || value > (int64_t{1} << 30)) return Fail("a value number");
    return value;
  }

  Result<std::string> String() {
    DI_RETURN_IF_ERROR(Expect('"'));
    std::string out;
    while (at_ < text_.size() && text_[at_] != '"') {
      char c = text_[at_++];
      if (c == '\\' && at_ < text_.size()) {
        c = text_[at_++];
        if (c == 'x' && at_ + 2 <= text_.size()) {
          unsigned value = 0;
          std::from_chars(text_.data() + at_, text_.data() + at_ + 2, value, 16);
          c = static_cast<char>(value);
          at_ += 2;
        }
      }
      out += c;
    }
    DI_RETURN_IF_ERROR(Expect('"'));
    return out;
  }

  Result<Type> ParseType() {
    Type type;
    const std::string name = Word();
    if (const auto dtype = ParseDType(name)) {
      type.dtype = *dtype;
    } else if (const auto encoding = ParseEncoding(name)) {
      type.encoding = *encoding;
    } else {
      return Fail("a type");
    }
    DI_RETURN_IF_ERROR(Expect('['));
    while (!Try("]")) {
      if (!type.dims.empty()) DI_RETURN_IF_ERROR(Expect(','));
      DimTag tag = DimTag::kNone;
      if (Try("T:")) tag = DimTag::kTokens;
      if (Try("R:")) tag = DimTag::kRows;
      if (Try("Q:")) tag = DimTag::kRequests;
      DI_ASSIGN_OR_RETURN(const int64_t size, Integer());
      if (size < 0 || size > (int64_t{1} << 40)) return Fail("a dimension");
      type.dims.emplace_back(size, tag);
    }
    return type;
  }

  Result<Attr> ParseAttr() {
    Skip();
    if (Try("\"")) {
      --at_;
      DI_ASSIGN_OR_RETURN(std::string value, String());
      return Attr(std::move(value));
    }
    if (Try("[")) return ParseInts();
    if (Try("(")) return ParseStrings();
    if (Try("0x")) return ParseBytes();
    std::string word = Word();
    if (Try("+")) word += "+" + Word();  // 1e+20
    if (word.find_first_of(".en") == std::string::npos) {
      int64_t value = 0;
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
      if (error != std::errc() || end != word.data() + word.size()) return Fail("an attribute value");
      return Attr(value);
    }
    char* end = nullptr;
    const double value = std::strtod(word.c_str(), &end);
    if (end == word.c_str() || *end != '\0') return Fail("a number");
    return Attr(value);
  }

  Result<Attr> ParseInts() {
    std::vector<int64_t> values;
    while (!Try("]")) {
      if (!values.empty()) DI_RETURN_IF_ERROR(Expect(','));
      DI_ASSIGN_OR_RETURN(const int64_t value, Integer());
      values.push_back(value);
    }
    return Attr(std::move(values));
  }

  Result<Attr> ParseStrings() {
    std::vector<std::string> values;
    while (!Try(")")) {
      if (!values.empty()) DI_RETURN_IF_ERROR(Expect(','));
      DI_ASSIGN_OR_RETURN(std::string value, String());
      values.push_back(std::move(value));
    }
    return Attr(std::move(values));
  }

  Result<Attr> ParseBytes() {
    Bytes bytes;
    while (at_ + 2 <= text_.size() && std::isxdigit(static_cast<unsigned char>(text_[at_])) != 0) {
      unsigned value = 0;
      const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + at_ + 2, value, 16);
      if (error != std::errc() || end != text_.data() + at_ + 2) return Fail("hexadecimal bytes");
      bytes.push_back(static_cast<uint8_t>(value));
      at_ += 2;
    }
    return Attr(std::move(bytes));
  }

  Status ParseInput(Function* function) {
    Input input;
    DI_ASSIGN_OR_RETURN(const int64_t number, Ref());
    DI_RETURN_IF_ERROR(Expect(':'));
    const std::string kind = Word();
    bool known = false;
    for (const InputKind each : {InputKind::kWeight, InputKind::kState, InputKind::kMetadata, InputKind::kArgument}) {
      if (kind == ToString(each)) {
        input.kind = each;
        known = true;
      }
    }
    if (!known) return Fail("weight, state, metadata or argument");
    DI_ASSIGN_OR_RETURN(input.name, String());
    DI_ASSIGN_OR_RETURN(Type type, ParseType());
    if (TryWord("in")) {
      DI_ASSIGN_OR_RETURN(input.buffer, String());
      DI_RETURN_IF_ERROR(Expect('+'));
      DI_ASSIGN_OR_RETURN(input.offset, Integer());
    }
    if (TryWord("pool")) {
      DI_ASSIGN_OR_RETURN(input.pool, String());
    }
    input.value = function->AddValue(std::move(type));
    if (input.value != number) return Fail(fmt::format("input %{}", input.value));
    function->inputs.push_back(std::move(input));
    return {};
  }

  Status ParseNode(Function* function, size_t results) {
    Node node;
    const auto op = ParseOp(Word());
    if (!op) return Fail("an op");
    node.op = *op;
    DI_RETURN_IF_ERROR(Expect('('));
    while (!Try(")")) {
      if (!node.operands.empty()) DI_RETURN_IF_ERROR(Expect(','));
      DI_ASSIGN_OR_RETURN(const int64_t operand, Ref());
      node.operands.push_back(static_cast<ValueId>(operand));
    }
    if (Try("{")) {
      while (!Try("}")) {
        if (!node.attrs.empty()) DI_RETURN_IF_ERROR(Expect(','));
        const std::string key = Word();
        DI_RETURN_IF_ERROR(Expect('='));
        DI_ASSIGN_OR_RETURN(Attr value, ParseAttr());
        if (key.empty() || !node.attrs.emplace(key, std::move(value)).second) return Fail("a new attribute name");
      }
    }
    for (size_t i = 0; i < results; ++i) {
      DI_RETURN_IF_ERROR(Expect(i == 0 ? ':' : ','));
      DI_ASSIGN_OR_RETURN(Type type, ParseType());
      node.results.push_back(function->AddValue(std::move(type)));
    }
    function->nodes.push_back(std::move(node));
    return {};
  }

  Status ParseBody(Function* function) {
    while (!TryWord("return")) {
      size_t results = 0;
      while (Try("%")) {
        --at_;
        DI_ASSIGN_OR_RETURN(const int64_t result, Ref());
        const size_t next = function->types.size() + results;
        if (result != static_cast<int64_t>(next)) return Fail(fmt::format("value %{}", next));
        ++results;
        if (!Try(",")) DI_RETURN_IF_ERROR(Expect('='));
      }
      DI_RETURN_IF_ERROR(ParseNode(function, results));
    }
    while (!Try("}")) {
      if (!function->outputs.empty()) DI_RETURN_IF_ERROR(Expect(','));
      Output output;
      DI_ASSIGN_OR_RETURN(output.name, String());
      DI_ASSIGN_OR_RETURN(const int64_t value, Ref());
      output.value = static_cast<ValueId>(value);
      function->outputs.push_back(std::move(output));
    }
    return {};
  }

  Status ParseFunction(Module* module) {
    Function function;
    DI_RETURN_IF_ERROR(Expect('@'));
    function.name = Word();
    DI_RETURN_IF_ERROR(Expect('('));
    while (!Try(")")) {
      if (!function.inputs.empty()) DI_RETURN_IF_ERROR(Expect(','));
      DI_RETURN_IF_ERROR(ParseInput(&function));
    }
    DI_RETURN_IF_ERROR(Expect('{'));
    DI_RETURN_IF_ERROR(ParseBody(&function));
    if (TryWord("alias")) {
      std::vector<Alias>& aliases = module->io_map[function.name];
      do {
        DI_ASSIGN_OR_RETURN(const int64_t output, Integer());
        if (!Try("->")) return Fail("'->'");
        DI_ASSIGN_OR_RETURN(const int64_t input, Integer());
        aliases.push_back({static_cast<int>(output), static_cast<int>(input)});
      } while (Try(","));
    }
    module->functions.push_back(std::move(function));
    return {};
  }

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace

Result<Module> Parse(std::string_view text) {
  return Parser(text).Run();
}

}  // namespace deepinfer::ir
