#include "problem.h"

#include <cstdlib>
#include <sstream>

namespace deepinfer::conformance {

std::string Problem::Str(const std::string& key, const std::string& fallback) const {
  const auto it = params.find(key);
  return it == params.end() ? fallback : it->second;
}

int64_t Problem::Int(const std::string& key, int64_t fallback) const {
  return Has(key) ? std::strtoll(params.at(key).c_str(), nullptr, 10) : fallback;
}

double Problem::Float(const std::string& key, double fallback) const {
  return Has(key) ? std::strtod(params.at(key).c_str(), nullptr) : fallback;
}

std::vector<std::string> Problem::List(const std::string& key) const {
  std::vector<std::string> items;
  std::istringstream words(Str(key, ""));
  for (std::string item; std::getline(words, item, ',');) items.push_back(item);
  return items;
}

DType Problem::Type(const std::string& key, DType fallback) const {
  const auto dtype = ParseDType(Str(key, ""));
  return dtype ? *dtype : fallback;
}

Result<Problem> ParseProblem(const std::string& line) {
  Problem problem;
  problem.line = line;
  std::istringstream words(line);
  std::string word;
  words >> word;
  const auto op = ir::ParseOp(word);
  if (!op) return MakeError(ErrorCode::kInvalidArgument, line, "no op is named '{}'", word);
  problem.op = *op;
  while (words >> word) {
    const size_t equals = word.find('=');
    if (equals != std::string::npos) {
      problem.params[word.substr(0, equals)] = word.substr(equals + 1);
    } else if (const auto dtype = ParseDType(word)) {
      problem.dtype = *dtype;
    } else {
      problem.params[word] = "";
    }
  }
  return problem;
}

namespace {

const char* const kFloats[] = {"f32", "bf16"};
const char* const kAllFloats[] = {"f32", "bf16", "f16", "f8e4m3fn"};
const char* const kIntegers[] = {"i8", "u8", "i32", "u32", "i64"};
const char* const kNumbers[] = {"i8", "u8", "i32", "u32", "i64", "f32", "bf16", "f16", "f8e4m3fn"};
const char* const kAllTypes[] = {"i1", "i8", "u8", "i32", "u32", "i64", "f32", "bf16", "f16", "f8e4m3fn"};

class List {
 public:
  // `{}` stands for one of the words.
  template <class Words>
  void Each(const Words& words, const std::string& line) {
    for (const std::string& word : std::vector<std::string>(std::begin(words), std::end(words))) {
      std::string text = line;
      for (size_t at = text.find("{}"); at != std::string::npos; at = text.find("{}")) text.replace(at, 2, word);
      lines.push_back(text);
    }
  }
  std::vector<std::string> lines;
};

std::vector<std::string> EncodingNames() {
  std::vector<std::string> names;
  for (int i = 0; i < kNumEncodings; ++i) names.push_back(ToString(static_cast<Encoding>(i)));
  return names;
}

void AddLinears(List* list) {
  for (const std::string act : kFloats) {
    list->Each(EncodingNames(), "linear " + act + " w={} t=17 live=13 k=256 n=100 bias");
    list->Each(EncodingNames(), "linear " + act + " w={} t=1 k=512 n=33");
    list->Each(EncodingNames(), "embedding w={} out=" + act + " t=9 live=7 v=40 k=512 scale=1.7");
    list->lines.push_back("linear " + act + " w=f32 t=5 live=5 k=40 n=7");
    list->lines.push_back("linear " + act + " w=bf16 t=40 live=37 k=72 n=65 bias out=f32");
    list->lines.push_back("linear " + act + " w=q8_0 t=70 live=66 k=96 n=64 out=f32");
    list->lines.push_back("linear " + act + " w=q8_0 t=4 live=0 k=32 n=32");
    list->lines.push_back("multi_linear " + act + " w=q4_k,q4_k,q6_k n=96,40,40 t=17 live=16 k=256 bias");
    list->lines.push_back("multi_linear " + act + " w=bf16,bf16 n=33,31 t=1 k=64");
    list->lines.push_back("multi_linear " + act + " w=q4_1,f32,q4_1 n=64,7,32 t=6 live=5 k=32 out=f32");
  }
  for (const char* activation : {"silu", "gelu_tanh"}) {
    const std::string tail = std::string(" activation=") + activation;
    list->Each(kFloats, "gated_linear {} w=q4_k,q6_k t=17 live=13 k=256 n=100 bias" + tail);
    list->Each(kFloats, "gated_linear {} w=q4_1,q4_1 t=1 k=96 n=33" + tail);
  }
  list->Each(kFloats, "gated_linear {} w=bf16,bf16 t=300 live=290 k=40 n=70");
  list->Each(kFloats, "gated_linear {} w=q8_0,q8_0 t=4 live=0 k=32 n=32 out=f32");
  list->Each(kFloats, "moe {} w=q4_k,q4_k,q8_0 t=9 live=7 k=256 n=32 experts=6 top_k=2 normalise");
  list->Each(kFloats, "moe {} w=q8_0,q4_1,bf16 t=1 k=96 n=64 experts=9 top_k=3 activation=gelu_tanh");
  list->Each(kFloats, "moe {} w=bf16,bf16,f32 t=600 live=530 k=32 n=32 experts=2 top_k=1 normalise");
  list->Each(kFloats, "moe {} w=bf16,bf16,bf16 t=2 k=24 n=20 experts=3 top_k=3 activation=gelu_tanh decomposed");
  list->lines.push_back("linear f16 w=f16 t=5 live=4 k=64 n=9 decomposed");
  list->lines.push_back("embedding w=f32 out=f16 t=5 live=4 v=9 k=8 decomposed");
}

void AddLayers(List* list) {
  list->Each(kFloats, "rms_norm {} t=9 live=7 d=64");
  list->Each(kFloats, "rms_norm {} t=5 live=4 heads=3 d=80 offset=1");
  list->Each(kFloats, "rms_norm {} t=1 d=1");
  list->Each(kFloats, "rms_norm {} row d=48");
  list->Each(kFloats, "add_rms_norm {} t=9 live=7 d=576");
  list->Each(kFloats, "add_rms_norm {} t=3 heads=2 d=33 offset=1");
  list->lines.push_back("rms_norm f16 t=4 live=3 d=16 decomposed");
  list->lines.push_back("rope_table t=9 live=7 half=32 mscale=1.1");
  list->lines.push_back("rope_table t=2 half=5");
  for (const char* style : {"", " interleaved"}) {
    list->Each(kFloats, std::string("rope {} t=9 live=7 heads=3 d=64 half=32") + style);
    list->Each(kFloats, std::string("rope {} t=2 heads=1 d=27 half=5") + style);
  }
  for (const char* activation : {"silu", "gelu_tanh"}) {
    list->Each(kFloats, std::string("glu {} t=9 live=7 n=96 activation=") + activation);
    list->Each(kFloats, std::string("glu {} t=1 n=13 activation=") + activation);
  }
  for (const char* kv : {"f32", "bf16", "f16"}) {
    const std::string cache = std::string(" kv=") + kv;
    list->Each(kFloats, "rope_kv_write {} t=9 live=7 heads=2 group=3 d=64 half=32" + cache);
    list->Each(kFloats, "rope_kv_write {} t=1 heads=1 group=1 d=21 half=5 interleaved" + cache);
    list->Each(kFloats, "rope_kv_write {} t=5 live=4 heads=2 group=2 d=32 half=16 norm shift=1" + cache);
  }
  for (const char* kv : {"f8e4m3fn", "i8"}) {
    const std::string cache = std::string(" kv=") + kv;
    list->Each(kFloats, "rope_kv_write {} t=9 live=7 heads=2 group=3 d=64 half=32" + cache);
    list->Each(kFloats, "rope_kv_write {} t=3 live=2 heads=3 group=1 d=21 half=5 interleaved" + cache);
  }
  list->lines.push_back("rope_kv_write f16 t=3 live=2 decomposed");
  list->lines.push_back("paged_slot_indices t=40 live=33 block_size=16 blocks=9");
  list->lines.push_back("paged_slot_indices t=3 block_size=1 blocks=3");
}

void AddQuantise(List* list) {
  for (const std::string act : kFloats) {
    for (const std::string to : {"i8", "f8e4m3fn"}) {
      list->lines.push_back("quantise_rows " + act + " to=" + to + " t=9 live=7 heads=3 d=64");
      list->lines.push_back("quantise_rows " + act + " to=" + to + " t=4 d=27");
    }
    list->lines.push_back("quantise_rows " + act + " to=f8e4m3fn scale=0.25 t=5 live=4 heads=2 d=16");
  }
  list->lines.push_back("quantise_rows f16 to=i8 t=3 live=2 d=16 decomposed");
}

// requests: positions written : new tokens.
void AddAttention(List* list) {
  const std::vector<std::string> caches = {"f32", "bf16", "f16", "f8e4m3fn", "i8"};
  for (const std::string act : kFloats) {
    list->Each(caches, "paged_attention " + act +
                           " kv={} heads=2 group=3 d=64 block=16 requests=9:4,3:3,70:1,130:20 pad=5 padreq=2");
    list->Each(caches, "paged_attention " + act +
                           " kv={} heads=1 group=1 d=40 block=4 requests=5:1,1:1,33:1 pad=2 padreq=2 uniform");
    list->Each(caches, "paged_attention " + act +
                           " kv={} heads=2 group=2 d=24 block=8 requests=30:9,20:1 window=7 pad=1 padreq=1");
    list->Each(caches, "paged_attention " + act +
                           " kv={} heads=1 group=4 d=16 block=8 requests=30:1,20:1 window=5 softcap=2.5 uniform");
    list->Each(caches, "paged_attention " + act +
                           " kv={} heads=2 group=2 d=16 block=32 requests=600:3,30:2 window=400 sinks pad=1 padreq=1");
    list->Each(caches, "paged_attention " + act +
                           " kv={} heads=1 group=3 d=64 block=16 requests=900:1,7:1 sinks pad=1 padreq=1 uniform");
    list->lines.push_back("paged_attention " + act +
                          " kv=f8e4m3fn heads=1 group=2 d=8 block=4 requests=9:3 k_scale=0.5 v_scale=3 padreq=1");
    list->lines.push_back("paged_attention " + act + " kv=" + act +
                          " heads=2 group=1 d=8 block=4 requests=6:6 softcap=1 padreq=1");
  }
  list->lines.push_back(
      "paged_attention f16 kv=f16 heads=1 group=2 d=8 block=4 requests=6:2,9:3 pad=1 padreq=1 decomposed");
}

void AddSampling(List* list) {
  list->lines.push_back("sample t=24 live=21 v=300");
  list->lines.push_back("sample t=3 v=5003");
  list->lines.push_back("sample t=1 v=1");
  list->lines.push_back("sample t=32 live=29 v=300 full");
  list->lines.push_back("sample t=18 v=5003 full");
  list->lines.push_back("sample t=7 v=33 full");
  list->lines.push_back("sample t=2 v=1 full");
  list->lines.push_back("top_logprobs t=7 live=6 v=300 k=20");
  list->lines.push_back("top_logprobs t=2 v=4001 k=1");
}

void AddElementwise(List* list) {
  for (const char* op : {"neg", "abs", "exp", "log", "tanh", "sqrt", "rsqrt", "sin", "cos", "logistic", "floor", "add",
                         "sub", "mul", "div", "rem", "pow", "max", "min"}) {
    list->Each(kAllFloats, std::string(op) + " {} t=7 live=5 n=13 special");
  }
  for (const char* op : {"add", "sub", "mul", "div", "rem", "pow", "max", "min", "log", "sqrt", "convert"}) {
    list->Each(kFloats, std::string(op) + " {} t=7 live=5 n=13 special denormals to=bf16");
  }
  for (const char* op : {"add", "mul"}) list->Each(kFloats, std::string(op) + " {} t=37 live=29 n=1023");
  for (const char* op : {"neg", "abs", "add", "sub", "mul", "div", "rem", "max", "min", "and", "or", "xor", "not",
                         "shift_left", "shift_right"}) {
    list->Each(kIntegers, std::string(op) + " {} t=7 live=5 n=13 special");
  }
  for (const char* op : {"and", "or", "xor", "not"}) list->lines.push_back(std::string(op) + " i1 t=7 live=5 n=13");
  list->lines.push_back("add f32 scalar");
  list->Each(kAllTypes, "compare {} t=5 live=4 n=9 special");
  list->Each(kAllTypes, "select {} t=5 live=4 n=9 special");
  list->Each(kAllTypes, "convert {} to=i1,i8,u8,i32,u32,i64,f8e4m3fn,f16,bf16,f32 t=5 live=4 n=9 special");
  list->Each(kFloats, "convert {} to=bf16 t=33 live=31 n=517");
  const std::vector<std::string> bytes = {"i8", "u8", "f8e4m3fn"};
  list->Each(bytes, "bitcast_convert {} to=i8,u8,f8e4m3fn t=5 live=4 n=9 special");
  list->Each(bytes, "bitcast_convert {} to=i1 t=5 live=4 n=9 bits");
  list->lines.push_back("bitcast_convert i1 to=i1,i8,u8,f8e4m3fn t=5 live=4 n=9");
  list->Each(std::vector<std::string>{"f16", "bf16"}, "bitcast_convert {} to=f16,bf16 t=5 live=4 n=9 special");
  list->Each(std::vector<std::string>{"i32", "u32", "f32"}, "bitcast_convert {} to=i32,u32,f32 t=5 live=4 n=9 special");
  list->lines.push_back("bitcast_convert i64 to=i64 t=5 live=4 n=9 special");
}

void AddMoves(List* list) {
  for (const char* op : {"constant", "reshape", "broadcast_in_dim", "transpose", "slice", "concatenate", "pad",
                         "dynamic_slice", "dynamic_update_slice", "take", "index_put", "index_put_"}) {
    list->Each(kAllTypes, std::string(op) + " {} t=6 live=5 n=8");
  }
  list->Each(kNumbers, "iota {} t=6 live=5 n=8");
  list->Each(kAllTypes, "take {} t=6 live=5 n=3 rows=0");
  list->lines.push_back("take bf16 t=6 live=5 n=8 rank=2");
  list->lines.push_back("take f32 t=6 live=5 n=1 vector");
  for (const std::string op : {"index_put", "index_put_"}) {
    list->Each(kAllTypes, op + " {} paged t=9 live=7 n=24");
    list->Each(kAllTypes, op + " {} paged t=1 live=0,1 n=24");
  }
}

void AddContractions(List* list) {
  list->Each(kAllFloats, "dot_general {} t=9 live=7 k=33 n=10");
  list->Each(kAllFloats, "dot_general {} t=1 k=33 n=10 out=f32");
  list->Each(kAllFloats, "dot_general {} t=4 live=3 k=16 n=10 batch=3 out=f32");
  list->Each(kAllFloats, "dot_general {} t=5 live=3 k=4 n=3 over_tokens");
  list->Each(kAllFloats, "dot_general {} t=4 n=3 outer");
  list->Each(kNumbers, "reduce {} t=7 live=5 n=9 kind=sum,max,min");
  list->Each(kAllFloats, "reduce {} t=7 live=5 n=9 kind=max,min special");
  list->lines.push_back("reduce i1 t=7 live=5 n=9 kind=and,or");
  list->Each(kNumbers, "cumsum {} t=7 live=5 n=9");
  list->Each(kAllFloats, "cumsum {} t=2 n=300");
  for (const char* order : {"", " descending"}) {
    list->Each(kAllTypes, std::string("sort {} t=7 live=5 n=19 special") + order);
    list->Each(kAllTypes, std::string("sort {} t=7 live=5 n=3 dim=0 special") + order);
  }
  list->Each(kAllTypes, "top_k {} t=7 live=5 n=19 k=4");
}

// Of a world of one rank, which every backend can run.
void AddCollectives(List* list) {
  for (const char* kind : {"sum", "max"}) {
    for (const char* op : {"all_reduce", "reduce_scatter"}) {
      list->Each(kNumbers, std::string(op) + " {} t=7 live=5 n=9 kind=" + kind);
    }
  }
  for (const char* op : {"all_gather", "all_to_all"}) list->Each(kAllTypes, std::string(op) + " {} t=7 live=5 n=9");
}

void AddStructure(List* list) {
  list->Each(kFloats, "call {} t=5 live=4 n=8");
  list->Each(kFloats, "break {} t=5 live=4 n=8");
  for (const char* index : {"0", "1", "2", "3", "-1"})
    list->lines.push_back(std::string("case f32 t=5 live=4 n=8 index=") + index);
  list->lines.push_back("custom_call f32 t=5 n=8 refused");
}

}  // namespace

const std::vector<std::string>& AllProblems() {
  static const std::vector<std::string> kLines = [] {
    List list;
    AddLinears(&list);
    AddLayers(&list);
    AddQuantise(&list);
    AddAttention(&list);
    AddSampling(&list);
    AddElementwise(&list);
    AddMoves(&list);
    AddContractions(&list);
    AddCollectives(&list);
    AddStructure(&list);
    return list.lines;
  }();
  return kLines;
}

}  // namespace deepinfer::conformance
