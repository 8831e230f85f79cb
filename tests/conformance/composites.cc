// The composites, with bounds on what two right implementations may differ by.
#include <algorithm>
#include <cmath>
#include <limits>

#include "recorder.h"

namespace deepinfer::conformance {
namespace {

using ir::Dim;
using ir::DimTag;
using ir::Op;
using ir::Type;
using ir::Value;

constexpr double kUndefined = std::numeric_limits<double>::infinity();

struct Rows {
  int64_t all;
  int64_t live;
};

Rows TokenRows(const Problem& p, Recorder* r) {
  const int64_t t = p.Int("t", 4);
  const Rows rows{t, p.Int("live", t)};
  r->Live(rows.live, 0, 0);
  return rows;
}

// The roundings of a sum of K products are a random walk over partial sums that are one themselves: its deviation is
// about 2^-24 * |x| * |w| in norms, whatever K and the order. 16 deviations cover both sides and all elements. |w| is
// taken as sqrt(K) * max |w|, because d * q and the minimum of a block are summed apart and each may be as large as the
// largest weight.
Slack LinearSlack(Recorder* r, Value x, Value w, int64_t k, int64_t n) {
  const std::vector<float>& xs = r->ValuesOf(x);
  const std::vector<float>& ws = r->ValuesOf(w);
  std::vector<double> largest;
  for (int64_t j = 0; j < n; ++j) largest.push_back(MaxAbs({ws.begin() + j * k, ws.begin() + (j + 1) * k}));
  Slack slack;
  slack.exact = false;
  for (size_t row = 0; row < xs.size() / k; ++row) {
    double squares = 1e-30;
    for (int64_t i = 0; i < k; ++i) squares += static_cast<double>(xs[row * k + i]) * xs[row * k + i];
    const double norms = std::sqrt(squares * static_cast<double>(k));
    for (int64_t j = 0; j < n; ++j) slack.absolute.push_back(16 * kHalfUlp * norms * largest[j]);
  }
  return slack;
}

void RecordLinear(const Problem& p, Recorder* r) {
  const Rows rows = TokenRows(p, r);
  const int64_t k = p.Int("k", 64);
  const Value x = r->Random("x", Type(p.dtype, {Dim(rows.all, DimTag::kTokens), k}));
  std::vector<Value> operands = {x};
  std::vector<int64_t> ns;
  for (const std::string& n : p.List("n")) ns.push_back(std::stoll(n));
  const std::vector<std::string> encodings = p.List("w");
  for (size_t i = 0; i < encodings.size(); ++i) {
    operands.push_back(r->Weight("w" + std::to_string(i), {ns[i], k}, *ParseEncoding(encodings[i])));
  }
  for (size_t i = 0; p.Has("bias") && i < ns.size(); ++i) {
    operands.push_back(r->Weight("b" + std::to_string(i), {ns[i]}, Encoding::kF32));
  }
  ir::AttrMap attrs;
  if (p.Has("out")) attrs["dtype"] = p.Str("out", "");
  if (p.op == Op::kMultiLinear) {
    attrs["weights"] = static_cast<int64_t>(ns.size());
    attrs["bias"] = int64_t{p.Has("bias")};
  }
  const std::vector<Value> ys = r->b().EmitAll(p.op, operands, attrs);
  for (size_t i = 0; i < ys.size(); ++i) r->Out(ys[i], LinearSlack(r, x, operands[1 + i], k, ns[i]));
}

// Decoding, scaling and one rounding: exact.
void RecordEmbedding(const Problem& p, Recorder* r) {
  const Rows rows = TokenRows(p, r);
  const int64_t v = p.Int("v", 10);
  const Value table = r->Weight("table", {v, p.Int("k", 64)}, *ParseEncoding(p.Str("w", "f32")));
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < rows.all; ++i) ids.push_back(static_cast<int32_t>(r->random()() % v));
  ids[0] = -1;
  if (rows.live > 1) ids[1] = static_cast<int32_t>(v);
  const Value id = r->Ints("ids", {Dim(rows.all, DimTag::kTokens)}, ids);
  r->Out(r->b().Emit(Op::kEmbedding, {table, id}, {{"dtype", p.Str("out", "f32")}, {"scale", p.Float("scale", 1)}}));
}

// The mean of D squares is off by D * 2^-24 of itself at most, its root by half of that, and five roundings follow.
void RecordNorm(const Problem& p, Recorder* r) {
  const int64_t d = p.Int("d", 32);
  std::vector<Dim> dims = {d};
  if (!p.Has("row")) {
    const Rows rows = TokenRows(p, r);
    dims = {Dim(rows.all, DimTag::kTokens), d};
    if (p.Has("heads")) dims.insert(dims.begin() + 1, p.Int("heads", 1));
  }
  const Value x = r->Random("x", Type(p.dtype, dims));
  const Value residual = r->Random("residual", Type(p.dtype, dims));
  const Value weight = r->Weight("weight", {d}, Encoding::kF32);
  const ir::AttrMap attrs = {{"eps", 1e-5}, {"offset", p.Float("offset", 0)}};
  Slack slack;
  slack.exact = false;
  slack.relative = static_cast<double>(d + 10) * kHalfUlp;
  if (p.op == Op::kRmsNorm) {
    r->Out(r->b().Emit(p.op, {x, weight}, attrs), slack);
    return;
  }
  const std::vector<Value> both = r->b().EmitAll(p.op, {x, residual, weight}, attrs);
  r->Out(both[0]);
  r->Out(both[1], slack);
}

// cos and sin of one f32 angle: two libraries may differ by a unit in the last place of 1.
void RecordRopeTable(const Problem& p, Recorder* r) {
  const Rows rows = TokenRows(p, r);
  const int64_t half = p.Int("half", 8);
  std::vector<int32_t> positions;
  for (int64_t i = 0; i < rows.all; ++i) positions.push_back(static_cast<int32_t>(r->random()() % 40960));
  std::vector<float> freq;
  for (int64_t i = 0; i < half; ++i)
    freq.push_back(std::pow(10000.0f, -static_cast<float>(i) / static_cast<float>(half)));
  const Value position = r->Ints("positions", {Dim(rows.all, DimTag::kTokens)}, positions);
  const double mscale = p.Float("mscale", 1);
  Slack slack;
  slack.exact = false;
  slack.absolute = {4 * kHalfUlp * mscale};
  for (const Value table : r->b().EmitAll(p.op, {position, r->Floats("freq", {half}, freq)}, {{"mscale", mscale}})) {
    r->Out(table, slack);
  }
}

// Two products and a sum, fused or not.
void RecordRope(const Problem& p, Recorder* r) {
  const Rows rows = TokenRows(p, r);
  const Dim tokens(rows.all, DimTag::kTokens);
  const int64_t half = p.Int("half", 8);
  const Value x = r->Random("x", Type(p.dtype, {tokens, p.Int("heads", 1), p.Int("d", 16)}));
  const Value cos = r->Random("cos", Type(DType::kF32, {tokens, half}), 0.5);
  const Value sin = r->Random("sin", Type(DType::kF32, {tokens, half}), 0.5);
  Slack slack;
  slack.exact = false;
  const double rotation = std::max(MaxAbs(r->ValuesOf(cos)), MaxAbs(r->ValuesOf(sin)));
  slack.absolute = {4 * kHalfUlp * MaxAbs(r->ValuesOf(x)) * rotation};
  r->Out(r->b().Emit(p.op, {x, cos, sin}, {{"interleaved", int64_t{p.Has("interleaved")}}}), slack);
}

// An exponential good to a few units, and a handful of roundings, each relative to |gate * up|: 1 + tanh may cancel.
void RecordGlu(const Problem& p, Recorder* r) {
  const Rows rows = TokenRows(p, r);
  const Type type(p.dtype, {Dim(rows.all, DimTag::kTokens), p.Int("n", 8)});
  const Value gate = r->Random("gate", type, 3);
  const Value up = r->Random("up", type);
  Slack slack;
  slack.exact = false;
  for (size_t i = 0; i < r->ValuesOf(gate).size(); ++i) {
    slack.absolute.push_back(32 * kHalfUlp * std::fabs(r->ValuesOf(gate)[i] * r->ValuesOf(up)[i]));
  }
  r->Out(r->b().Emit(p.op, {gate, up}, {{"activation", p.Str("activation", "silu")}}), slack);
}

// Products of x [T,K] and the rows [n_begin, n_end) of w [N,K], and how far they may be off in f32.
struct Products {
  std::vector<double> value, slack;
};
Products ProductsOf(const std::vector<double>& x, const float* w, int64_t k, int64_t n) {
  Products products;
  for (size_t row = 0; row < x.size() / static_cast<size_t>(k); ++row) {
    double squares = 1e-30;
    for (int64_t i = 0; i < k; ++i) squares += x[row * k + i] * x[row * k + i];
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t i = 0; i < k; ++i) sum += x[row * k + i] * w[j * k + i];
      products.value.push_back(sum);
      const double largest = MaxAbs({w + j * k, w + (j + 1) * k});
      products.slack.push_back(16 * kHalfUlp * std::sqrt(squares * static_cast<double>(k)) * largest);
    }
  }
  return products;
}

double Activate(const std::string& activation, double g) {
  if (activation == "silu") return g / (1 + std::exp(-g));
  return 0.5 * g * (1 + std::tanh(0.7978845608028654 * (g + 0.044715 * g * g * g)));
}

// act(g) * u, where g and u are off by their slack and one rounding to `dtype`. An activation's slope is below 1.2, and
// what it rounds itself is as for glu.
Products Gate(const Products& gate, const Products& up, const std::string& activation, DType dtype) {
  Products hidden;
  for (size_t i = 0; i < gate.value.size(); ++i) {
    const double g = gate.value[i], u = up.value[i], active = Activate(activation, g);
    const double g_off = gate.slack[i] + UlpOf(dtype) * std::fabs(g), u_off = up.slack[i] + UlpOf(dtype) * std::fabs(u);
    hidden.value.push_back(active * u);
    hidden.slack.push_back(1.2 * g_off * (std::fabs(u) + u_off) + std::fabs(active) * u_off +
                           32 * kHalfUlp * std::fabs(g * u));
  }
  return hidden;
}

std::vector<double> Wide(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

void RecordGatedLinear(const Problem& p, Recorder* r) {
  const Rows rows = TokenRows(p, r);
  const int64_t k = p.Int("k", 64), n = p.Int("n", 32);
  const Value x = r->Random("x", Type(p.dtype, {Dim(rows.all, DimTag::kTokens), k}));
  std::vector<Value> operands = {x};
  for (const std::string& encoding : p.List("w")) {
    operands.push_back(r->Weight("w" + std::to_string(operands.size()), {n, k}, *ParseEncoding(encoding)));
  }
  for (int i = 0; p.Has("bias") && i < 2; ++i) {
    operands.push_back(r->Weight("b" + std::to_string(i), {n}, Encoding::kF32));
  }
  const std::string activation = p.Str("activation", "silu");
  Products factors[2];
  for (size_t i = 0; i < 2; ++i) {
    factors[i] = ProductsOf(Wide(r->ValuesOf(x)), r->ValuesOf(operands[1 + i]).data(), k, n);
    if (!p.Has("bias")) continue;
    const std::vector<float>& bias = r->ValuesOf(operands[3 + i]);
    for (size_t j = 0; j < factors[i].value.size(); ++j) factors[i].value[j] += bias[j % bias.size()];
  }
  const DType out = p.Type("out", p.dtype);
  Slack slack;
  slack.exact = false;
  slack.absolute = Gate(factors[0], factors[1], activation, out).slack;
  ir::AttrMap attrs = {{"activation", activation}, {"dtype", std::string(ToString(out))}};
  r->Out(r->b().Emit(p.op, operands, attrs), slack);
}

// The experts of a token are the most probable ones: random logits lie far enough apart.
void RecordMoe(const Problem& p, Recorder* r) {
  const Rows rows = TokenRows(p, r);
  const int64_t h = p.Int("k", 64), f = p.Int("n", 32), experts = p.Int("experts", 4), top_k = p.Int("top_k", 2);
  const Dim tokens(rows.all, DimTag::kTokens);
  const Value x = r->Random("x", Type(p.dtype, {tokens, h}));
  const Value logits = r->Random("logits", Type(DType::kF32, {tokens, experts}), 2);
  const std::vector<std::string> encodings = p.List("w");
  const Value gate = r->Weight("gate", {experts * f, h}, *ParseEncoding(encodings[0]));
  const Value up = r->Weight("up", {experts * f, h}, *ParseEncoding(encodings[1]));
  const Value down = r->Weight("down", {experts * h, f}, *ParseEncoding(encodings[2]));
  const std::string activation = p.Str("activation", "silu");
  const std::vector<double> xs = Wide(r->ValuesOf(x));
  // A weight is at most 1, an error of a hidden value reaches y by the down weight, and the terms' sum rounds too.
  std::vector<double> largest(xs.size(), 0);
  for (int64_t e = 0; e < experts; ++e) {
    const Products hidden = Gate(ProductsOf(xs, &r->ValuesOf(gate)[e * f * h], h, f),
                                 ProductsOf(xs, &r->ValuesOf(up)[e * f * h], h, f), activation, p.dtype);
    const float* w = &r->ValuesOf(down)[e * h * f];
    const Products y = ProductsOf(hidden.value, w, f, h);
    for (size_t i = 0; i < xs.size(); ++i) {
      double off = y.slack[i] + 32 * kHalfUlp * std::fabs(y.value[i]);
      for (int64_t j = 0; j < f; ++j) {
        const size_t at = i / static_cast<size_t>(h) * f + j;
        const double rounding = UlpOf(p.dtype) * std::fabs(hidden.value[at]);
        off += (hidden.slack[at] + rounding) * std::fabs(w[i % static_cast<size_t>(h) * f + j]);
      }
      largest[i] = std::max(largest[i], off);
    }
  }
  for (double& slack : largest) slack *= static_cast<double>(p.Has("normalise") ? 1 : top_k);
  Slack slack;
  slack.exact = false;
  slack.absolute = largest;
  r->Out(r->b().Emit(p.op, {x, logits, gate, up, down},
                     {{"activation", activation}, {"top_k", top_k}, {"normalise", int64_t{p.Has("normalise")}}}),
         slack);
}

// Slots are distinct; the cache keeps what nobody writes. Bounds are those of the norm and of the rotation; codes of 8
// bits, which jump, are compared exactly where norm and rotation are exact, and not where they are another compiler's.
void RecordRopeKvWrite(const Problem& p, Recorder* r) {
  const Rows rows = TokenRows(p, r);
  const Dim tokens(rows.all, DimTag::kTokens);
  const int64_t heads = p.Int("heads", 2), group = p.Int("group", 2), d = p.Int("d", 16), half = p.Int("half", 8);
  const int64_t block = p.Int("block", 4), blocks = 2 + rows.all / block;
  const DType kv = p.Type("kv", p.dtype);
  std::vector<int32_t> slots, block_of, offset;
  for (int64_t i = block; i < blocks * block; ++i) slots.push_back(static_cast<int32_t>(i));
  std::shuffle(slots.begin(), slots.end(), r->random());
  for (int64_t i = 0; i < rows.all; ++i) {
    block_of.push_back(static_cast<int32_t>(slots[static_cast<size_t>(i)] / block));
    offset.push_back(static_cast<int32_t>(slots[static_cast<size_t>(i)] % block));
  }
  const Value q = r->Random("q", Type(p.dtype, {tokens, heads * group, d}));
  const Value k = r->Random("k", Type(p.dtype, {tokens, heads, d}));
  const Value v = r->Random("v", Type(p.dtype, {tokens, heads, d}));
  const Value cos = r->Random("cos", Type(DType::kF32, {tokens, half}), 0.5);
  const Value sin = r->Random("sin", Type(DType::kF32, {tokens, half}), 0.5);
  const double rotation = std::max({1.0, MaxAbs(r->ValuesOf(cos)), MaxAbs(r->ValuesOf(sin))});
  double largest = std::max(MaxAbs(r->ValuesOf(q)), MaxAbs(r->ValuesOf(k)));
  double off = 0;
  std::vector<Value> norms;
  if (p.Has("norm")) {
    norms = {r->Weight("q_norm", {d}, Encoding::kF32), r->Weight("k_norm", {d}, Encoding::kF32)};
    // A normalised element is at most sqrt(D) times its gain.
    const double gain = 1 + std::max(MaxAbs(r->ValuesOf(norms[0])), MaxAbs(r->ValuesOf(norms[1])));
    largest = std::sqrt(static_cast<double>(d)) * gain;
    off = (static_cast<double>(d + 10) * kHalfUlp + UlpOf(p.dtype)) * largest;
  }
  Slack slack;
  slack.exact = false;
  slack.absolute = {2 * off * rotation + 4 * kHalfUlp * largest * rotation + UlpOf(p.dtype) * 2 * largest * rotation};
  const Type cache(kv, {blocks, heads, block, d});
  const bool coded = SizeOf(kv) == 1;
  const Slack compiled = coded ? Within(0, {std::numeric_limits<double>::infinity()}) : slack;
  const Slack exact_keys = coded ? Slack() : slack;
  const Value k_cache = r->State("k_cache", cache, RandomBytes(cache, 1, &r->random()), compiled, exact_keys);
  const Value v_cache = r->State("v_cache", cache, RandomBytes(cache, 1, &r->random()));
  std::vector<Value> operands = {
      q, k, v, cos, sin, r->Ints("block", {tokens}, block_of), r->Ints("offset", {tokens}, offset), k_cache, v_cache};
  std::vector<Value> states = {k_cache, v_cache};
  if (kv == DType::kI8) {
    Type scales = cache.WithDType(DType::kF32);
    scales.dims.back() = Dim(1);
    states.push_back(r->State("k_scales", scales, RandomBytes(scales, 1, &r->random()), compiled, exact_keys));
    states.push_back(r->State("v_scales", scales, RandomBytes(scales, 1, &r->random())));
    operands.insert(operands.end(), states.begin() + 2, states.end());
  }
  operands.insert(operands.end(), norms.begin(), norms.end());
  const std::vector<Value> results = r->b().EmitAll(
      p.op, operands, {{"interleaved", int64_t{p.Has("interleaved")}}, {"eps", 1e-5}, {"offset", p.Float("shift", 0)}});
  r->Out(results[0], slack);
  for (size_t i = 0; i < states.size(); ++i) r->Mutated(results[1 + i], states[i]);
}

void RecordSlots(const Problem& p, Recorder* r) {
  const Rows rows = TokenRows(p, r);
  const int64_t size = p.Int("block_size", 4);
  const int64_t blocks = p.Int("blocks", 4);
  std::vector<int32_t> slots = {-1, static_cast<int32_t>(size * blocks), std::numeric_limits<int32_t>::min()};
  while (static_cast<int64_t>(slots.size()) < rows.all)
    slots.push_back(static_cast<int32_t>(r->random()() % (size * blocks)));
  slots.resize(static_cast<size_t>(rows.all));
  const Value slot = r->Ints("slots", {Dim(rows.all, DimTag::kTokens)}, slots);
  for (const Value v : r->b().EmitAll(p.op, {slot}, {{"block_size", size}, {"blocks", blocks}})) r->Out(v);
}

// Codes and scales are exact. The first rows hold what is not a number, what is infinite, zeros, and what saturates.
void RecordQuantise(const Problem& p, Recorder* r) {
  const Rows rows = TokenRows(p, r);
  const int64_t d = p.Int("d", 8);
  const Type type(p.dtype, {Dim(rows.all, DimTag::kTokens), p.Int("heads", 1), d});
  std::vector<float> values = Decode(p.dtype, RandomBytes(type, 3, &r->random()));
  const float firsts[] = {std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity(), 0, 3000};
  for (size_t i = 0; i < std::size(firsts) && (i + 1) * d <= values.size(); ++i) {
    values[i * d + i % d] = firsts[i];
    if (firsts[i] == 0) std::fill_n(values.begin() + static_cast<int64_t>(i) * d, d, 0.0f);
  }
  ir::AttrMap attrs = {{"dtype", p.Str("to", "i8")}};
  if (p.Has("scale")) attrs["scale"] = p.Float("scale", 1);
  for (const Value v : r->b().EmitAll(p.op, {r->Metadata("x", type, Encode(p.dtype, values))}, attrs)) r->Out(v);
}

struct Request {
  int64_t context;
  int64_t fresh;
};

// The cache holds NaN wherever no request has written; blocks of requests are interleaved.
class AttentionProblem {
 public:
  AttentionProblem(const Problem& p, Recorder* r)
      : p_(p), r_(r), heads_(p.Int("heads", 1)), width_(p.Int("d", 8)), block_(p.Int("block", 4)) {
    for (const std::string& item : p.List("requests")) {
      requests_.push_back({std::stoll(item), std::stoll(item.substr(item.find(':') + 1))});
      table_ = std::max(table_, (requests_.back().context + block_ - 1) / block_);
      tokens_ += requests_.back().fresh;
    }
    ++table_;
  }

  void Record() {
    const int64_t live_requests = static_cast<int64_t>(requests_.size());
    const int64_t all_tokens = tokens_ + p_.Int("pad", 0);
    const int64_t all_requests = live_requests + p_.Int("padreq", 0);
    const bool uniform = p_.Has("uniform");
    r_->Live(tokens_, 0, live_requests);
    std::vector<int32_t> tables(all_requests * table_, -1);
    std::vector<int32_t> start(all_requests + 1, -1000);  // past the live requests' end: never read
    start[live_requests] = static_cast<int32_t>(tokens_);
    std::vector<int32_t> positions(all_tokens, 0);
    int64_t token = 0;
    for (int64_t q = 0; q < live_requests; ++q) {
      start[q] = static_cast<int32_t>(token);
      for (int64_t j = 0; j * block_ < requests_[q].context; ++j) {
        tables[q * table_ + j] = static_cast<int32_t>(1 + j * live_requests + q);
      }
      for (int64_t f = 0; f < requests_[q].fresh; ++f) {
        positions[token++] = static_cast<int32_t>(requests_[q].context - requests_[q].fresh + f);
      }
    }
    const Type cache(p_.Type("kv", p_.dtype), {1 + live_requests * table_, heads_, block_, width_});
    const Dim token_dim(all_tokens, DimTag::kTokens);
    const Value q = r_->Random("q", Type(p_.dtype, {token_dim, heads_ * p_.Int("group", 1), width_}));
    // Codes of i8 are some 40 steps large.
    const float size = cache.dtype == DType::kI8 ? 40 : 1;
    const Value k = r_->State("k", cache, Cache(cache, tables, size));
    const Value v = r_->State("v", cache, Cache(cache, tables, size));
    const Dim request_dim(all_requests, uniform ? DimTag::kTokens : DimTag::kRequests);
    const double scale = 1 / std::sqrt(static_cast<double>(width_));
    std::vector<Value> operands = {q,
                                   k,
                                   v,
                                   r_->Ints("tables", {request_dim, table_}, tables),
                                   r_->Ints("start", {all_requests + 1}, start),
                                   r_->Ints("positions", {token_dim}, positions)};
    double k_size = p_.Float("k_scale", 1), v_size = p_.Float("v_scale", 1);
    if (cache.dtype == DType::kI8) {
      Type scales(DType::kF32, cache.dims);
      scales.dims.back() = Dim(1);
      operands.push_back(r_->State("k_scales", scales, Cache(scales, tables, 0.03f)));
      operands.push_back(r_->State("v_scales", scales, Cache(scales, tables, 0.03f)));
      k_size = MaxAbs(r_->ValuesOf(operands[6]));
      v_size = MaxAbs(r_->ValuesOf(operands[7]));
    }
    if (p_.Has("sinks")) operands.push_back(r_->Random("sinks", Type(DType::kF32, {heads_ * p_.Int("group", 1)}), 2));
    ir::AttrMap attrs = {{"scale", scale},
                         {"window", p_.Int("window", 0)},
                         {"softcap", p_.Float("softcap", 0)},
                         {"uniform", int64_t{uniform}}};
    if (p_.Has("k_scale")) attrs["k_scale"] = k_size;
    if (p_.Has("v_scale")) attrs["v_scale"] = v_size;
    const Value out = r_->b().Emit(Op::kPagedAttention, operands, attrs);
    r_->Out(out, SlackOf(q, k, v, scale * k_size, v_size));
  }

 private:
  // [N,heads,B,width], normal times `size` where a request has written.
  Bytes Cache(const Type& type, const std::vector<int32_t>& tables, float size) {
    const int64_t width = type.dims.back().size;
    std::vector<float> values(static_cast<size_t>(type.NumElements()), NAN);
    std::normal_distribution<float> normal;
    for (size_t q = 0; q < requests_.size(); ++q) {
      for (int64_t p = 0; p < requests_[q].context; ++p) {
        const int64_t block = tables[q * table_ + p / block_];
        for (int64_t h = 0; h < heads_; ++h) {
          float* row = &values[(((block * heads_) + h) * block_ + p % block_) * width];
          for (int64_t d = 0; d < width; ++d) row[d] = size * normal(r_->random());
        }
      }
    }
    if (type.dtype == DType::kI8) {
      for (float& value : values) value = std::isnan(value) ? 99.0f : std::clamp(value, -127.0f, 127.0f);
    }
    return Encode(type.dtype, values);
  }

  // A score is off by (D + 8) * 2^-24 * scale * sum |q||k|, on either side; softcap only shrinks that, and adds a few
  // roundings of its own size. A weight is off by as much, relatively, and by the rounding of the exponential (whose
  // argument is as large as the scores differ); the output is a mean of V with such weights.
  Slack SlackOf(Value q, Value k, Value v, double scale, double v_scale) const {
    const double bound = static_cast<double>(width_) * scale * MaxAbs(r_->ValuesOf(q)) * MaxAbs(r_->ValuesOf(k));
    const double score = static_cast<double>(width_ + 8) * kHalfUlp * bound + 16 * kHalfUlp * (bound + 1);
    int64_t longest = 0;
    for (const Request& request : requests_) longest = std::max(longest, request.context);
    Slack slack;
    slack.exact = false;
    slack.absolute = {2 * v_scale * MaxAbs(r_->ValuesOf(v)) * (score + static_cast<double>(longest + 16) * kHalfUlp)};
    return slack;
  }

  const Problem& p_;
  Recorder* r_;
  int64_t heads_, width_, block_;
  int64_t table_ = 0;
  int64_t tokens_ = 0;
  std::vector<Request> requests_;
};

// What RecordSample gives each row, in the order of ir::SampleOperand. "full": every row uses some of the rarer
// features.
struct SampleRows {
  std::vector<float> temperature, top_p, min_p, typical_p, xtc_probability, xtc_threshold, uniform, xtc_uniform;
  std::vector<int32_t> top_k, has_mask, mask, num_adjustments, adjust_ids;
  std::vector<float> bias, repetition, penalty;

  void Add(int64_t i, bool full, std::mt19937& random) {
    const float temperatures[] = {0, 1, 0.6f, 1.5f};
    const float top_ps[] = {1, 0.9f, 0.3f};
    temperature.push_back(temperatures[i % 4]);
    top_k.push_back(i % 5 < 2 ? 0 : static_cast<int32_t>(1 + random() % 50));
    top_p.push_back(top_ps[i % 3]);
    min_p.push_back(i % 7 == 3 ? 0.05f : 0.0f);
    typical_p.push_back(full && i % 3 != 1 ? 0.4f + 0.05f * static_cast<float>(i % 9) : 1.0f);
    xtc_probability.push_back(full && i % 2 == 1 ? 0.75f : 0.0f);
    xtc_threshold.push_back(0.02f * static_cast<float>(1 + i % 4));
    uniform.push_back(static_cast<float>(random() % 65536) / 65536);
    xtc_uniform.push_back(static_cast<float>(random() % 65536) / 65536);
  }

  // A mask over `words` words on every other row, up to `places` adjustments of distinct ids on two of three.
  void AddLists(int64_t i, bool full, int64_t vocab, int64_t words, int64_t places, std::mt19937& random) {
    has_mask.push_back(full && i % 2 == 0);
    for (int64_t word = 0; word < words; ++word) mask.push_back(static_cast<int32_t>(random()));
    num_adjustments.push_back(full ? static_cast<int32_t>(i % 3 * places / 2) : 0);
    for (int64_t place = 0; place < places; ++place) {
      adjust_ids.push_back(static_cast<int32_t>((place * (vocab / places) + i) % vocab));
      bias.push_back(static_cast<float>(random() % 9) - 4);
      repetition.push_back(1 + static_cast<float>(random() % 4) / 4);
      penalty.push_back(static_cast<float>(random() % 5) / 2 - 1);
    }
  }
};

// The chosen id is exact: a fixed seed makes no draw so close to a boundary that summation order decides.
void RecordSample(const Problem& p, Recorder* r) {
  const int64_t t = p.Int("t", 4);
  const int64_t v = p.Int("v", 10);
  r->Live(0, p.Int("live", t), 0);
  const Dim rows(t, DimTag::kRows);
  const Value logits = r->Random("logits", Type(DType::kF32, {rows, v}), 2);
  const int64_t words = (v + 31) / 32;
  const int64_t places = std::min<int64_t>(v, 18);
  SampleRows row;
  for (int64_t i = 0; i < t; ++i) {
    row.Add(i, p.Has("full"), r->random());
    row.AddLists(i, p.Has("full"), v, words, places, r->random());
  }
  r->Out(r->b().Emit(
      p.op,
      {logits, r->Floats("temperature", {rows}, row.temperature), r->Ints("top_k", {rows}, row.top_k),
       r->Floats("top_p", {rows}, row.top_p), r->Floats("min_p", {rows}, row.min_p),
       r->Floats("typical_p", {rows}, row.typical_p), r->Floats("xtc_probability", {rows}, row.xtc_probability),
       r->Floats("xtc_threshold", {rows}, row.xtc_threshold), r->Floats("uniform", {rows}, row.uniform),
       r->Floats("xtc_uniform", {rows}, row.xtc_uniform), r->Ints("has_mask", {rows}, row.has_mask),
       r->Ints("mask", {rows, words}, row.mask), r->Ints("num_adjustments", {rows}, row.num_adjustments),
       r->Ints("adjust_ids", {rows, places}, row.adjust_ids), r->Floats("bias", {rows, places}, row.bias),
       r->Floats("repetition", {rows, places}, row.repetition), r->Floats("penalty", {rows, places}, row.penalty)}));
}

// The sum over V of exponentials, its logarithm, and differences of values as large as the logits.
void RecordTopLogprobs(const Problem& p, Recorder* r) {
  const int64_t t = p.Int("t", 4);
  const int64_t v = p.Int("v", 10);
  const int64_t k = p.Int("k", 1);
  r->Live(0, p.Int("live", t), 0);
  const Dim rows(t, DimTag::kRows);
  const Value logits = r->Random("logits", Type(DType::kF32, {rows, v}), 2);
  std::vector<int32_t> ids, want;
  Slack chosen, best_ids, best;
  chosen.exact = best.exact = false;
  for (int64_t i = 0; i < t; ++i) {
    ids.push_back(static_cast<int32_t>(r->random()() % v));
    want.push_back(i % 4 == 3 ? -1 : i % 4 == 2 ? 0 : static_cast<int32_t>(k - (i % 4)));
    const double slack = static_cast<double>(v + 16) * kHalfUlp + 8 * kHalfUlp * MaxAbs(r->ValuesOf(logits));
    chosen.absolute.push_back(want.back() < 0 ? kUndefined : slack);
    for (int64_t j = 0; j < k; ++j) {
      best.absolute.push_back(j >= want.back() ? kUndefined : slack);
      best_ids.absolute.push_back(j >= want.back() ? kUndefined : 0);
    }
  }
  const auto results =
      r->b().EmitAll(p.op, {logits, r->Ints("ids", {rows}, ids), r->Ints("want", {rows}, want)}, {{"k", k}});
  r->Out(results[0], chosen);
  r->Out(results[1], best_ids);
  r->Out(results[2], best);
}

}  // namespace

bool RecordComposite(const Problem& p, Recorder* r) {
  switch (p.op) {
    case Op::kLinear:
    case Op::kMultiLinear:
      RecordLinear(p, r);
      return true;
    case Op::kEmbedding:
      RecordEmbedding(p, r);
      return true;
    case Op::kRmsNorm:
    case Op::kAddRmsNorm:
      RecordNorm(p, r);
      return true;
    case Op::kRopeTable:
      RecordRopeTable(p, r);
      return true;
    case Op::kRope:
      RecordRope(p, r);
      return true;
    case Op::kGlu:
      RecordGlu(p, r);
      return true;
    case Op::kGatedLinear:
      RecordGatedLinear(p, r);
      return true;
    case Op::kMoe:
      RecordMoe(p, r);
      return true;
    case Op::kRopeKvWrite:
      RecordRopeKvWrite(p, r);
      return true;
    case Op::kPagedSlotIndices:
      RecordSlots(p, r);
      return true;
    case Op::kQuantiseRows:
      RecordQuantise(p, r);
      return true;
    case Op::kPagedAttention:
      AttentionProblem(p, r).Record();
      return true;
    case Op::kSample:
      RecordSample(p, r);
      return true;
    case Op::kTopLogprobs:
      RecordTopLogprobs(p, r);
      return true;
    default:
      return false;
  }
}

}  // namespace deepinfer::conformance
