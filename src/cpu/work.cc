#include "cpu/work.h"

#include <algorithm>

namespace deepinfer::cpu {
namespace {

int64_t LiveOf(const ir::Type& type, const ir::LiveCounts& live) {
  return type.dims.empty() ? 1 : live.Of(type.dims[0].tag, type.dims[0].size);
}

double LiveBytes(const ir::Type& type, const ir::LiveCounts& live) {
  const double bytes = static_cast<double>(type.Bytes());
  if (type.dims.empty() || type.dims[0].size == 0) return bytes;
  return bytes / static_cast<double>(type.dims[0].size) * static_cast<double>(LiveOf(type, live));
}

// Of every request the context that its last token sees, of K and of V; every token's products with what it sees.
Work AttentionWork(const ir::Function& f, const ir::Node& node, const ir::LiveCounts& live, const Addresses& a) {
  const ir::Type& q = f.TypeOf(node.operands[0]);
  const ir::Type& cache = f.TypeOf(node.operands[1]);
  const int32_t* start = a.As<const int32_t>(node.operands[4]);
  const int32_t* positions = a.As<const int32_t>(node.operands[5]);
  const int64_t window = node.Int("window");
  const auto seen = [&](int64_t token) {
    const int64_t all = int64_t{positions[token]} + 1;
    return static_cast<double>(window > 0 ? std::min(all, window) : all);
  };
  double tokens = 0, context = 0;
  for (int64_t request = 0; request < LiveOf(f.TypeOf(node.operands[3]), live); ++request) {
    if (start[request] == start[request + 1]) continue;
    for (int64_t token = start[request]; token < start[request + 1]; ++token) tokens += seen(token);
    context += seen(start[request + 1] - 1);
  }
  const double entry =
      static_cast<double>(cache.Bytes() / cache.NumElements() * cache.dims[1].size * cache.dims[3].size);
  Work work;
  work.bytes = LiveBytes(q, live) * 2 + context * entry * 2;
  work.flops = tokens * static_cast<double>(q.dims[1].size * q.dims[2].size) * 4;
  return work;
}

// Every token passes top_k experts; together they reach no more than there are. x and logits, the weights of the
// experts reached, and the result.
Work MoeWork(const ir::Function& f, const ir::Node& node, const ir::LiveCounts& live) {
  const auto type = [&](size_t operand) -> const ir::Type& { return f.TypeOf(node.operands[operand]); };
  const double experts = static_cast<double>(type(1).dims[1].size);
  const double visits = static_cast<double>(LiveOf(type(0), live) * node.Int("top_k"));
  Work work;
  work.bytes = 2 * LiveBytes(type(0), live) + LiveBytes(type(1), live);
  for (size_t weight = 2; weight < 5; ++weight) {
    work.bytes += static_cast<double>(type(weight).Bytes()) * std::min(1.0, visits / experts);
    work.flops += 2 * visits * static_cast<double>(type(weight).NumElements()) / experts;
  }
  return work;
}

}  // namespace

Work WorkOf(const FlatStep& step, const ir::Node& node, const ir::LiveCounts& live, const Addresses& addresses) {
  const ir::Function& f = step.f;
  if (node.op == ir::Op::kPagedAttention) return AttentionWork(f, node, live, addresses);
  if (node.op == ir::Op::kMoe) return MoeWork(f, node, live);
  Work work;
  for (const ir::ValueId value : node.results) {
    const ir::Input* state = f.FindInput(step.roots[value]);
    if (state == nullptr) work.bytes += LiveBytes(f.TypeOf(value), live);
  }
  const double written = work.bytes;
  const bool gathers = node.op == ir::Op::kEmbedding || node.op == ir::Op::kTake;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const ir::Type& type = f.TypeOf(node.operands[i]);
    const ir::Input* input = f.FindInput(step.roots[node.operands[i]]);
    if (gathers && i == 0) {
      work.bytes += written;
    } else if (input == nullptr || input->kind != ir::InputKind::kState) {
      work.bytes += LiveBytes(type, live);
    }
    if (!gathers && input != nullptr && input->kind == ir::InputKind::kWeight && type.rank() == 2) {
      const double rows = static_cast<double>(LiveOf(f.TypeOf(node.operands[0]), live));
      work.flops += 2 * rows * static_cast<double>(type.NumElements());
    }
  }
  return work;
}

}  // namespace deepinfer::cpu
