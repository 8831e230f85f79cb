// Rotation of q and k (after their norms, where a model has them) and the writes of K and V that an attention reads,
// converted or quantised on the way, become rope_kv_write, where the backend has a kernel for that.
#include <algorithm>
#include <optional>

#include "ir/in_place.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace deepinfer::passes {
namespace {

class RopeKvFuser {
 public:
  RopeKvFuser(ir::Function* f, const PassContext& context)
      : f_(*f), context_(context), definition_(DefiningNode(*f)), uses_(CountUses(*f)), dead_(f->nodes.size(), false) {}

  bool Run() {
    bool changed = false;
    for (size_t i = 0; i < f_.nodes.size(); ++i) {
      changed = (f_.nodes[i].op == ir::Op::kPagedAttention && Fuse(f_.nodes[i])) || changed;
    }
    RemoveNodes(dead_, &f_);
    return changed;
  }

 private:
  // The node of `op` that defines `value`, and joins the others that are fused; null if another one does.
  const ir::Node* Take(ir::ValueId value, ir::Op op) {
    const int at = definition_[value];
    if (at < 0 || f_.nodes[at].op != op) return nullptr;
    parts_.push_back(at);
    return &f_.nodes[at];
  }

  // The same, but only where nobody else reads the value.
  const ir::Node* TakeOnly(ir::ValueId value, ir::Op op) { return uses_[value] == 1 ? Take(value, op) : nullptr; }

  // What is written into a cache, before it was converted or quantised to the cache's type; `scales`: the write of what
  // the rows of a cache of i8 are multiplied by.
  std::optional<ir::ValueId> RowsOf(const ir::Node& write, const ir::Node* scales) {
    if (SizeOf(f_.TypeOf(write.results[0]).dtype) > 1) {
      const ir::Node* convert = TakeOnly(write.operands.back(), ir::Op::kConvert);
      return convert == nullptr ? write.operands.back() : convert->operands[0];
    }
    const ir::Node* quantise = TakeOnly(write.operands.back(), ir::Op::kQuantiseRows);
    if (quantise == nullptr || quantise->results[0] != write.operands.back()) return std::nullopt;
    if (quantise->Float("scale", 1) != 1) return std::nullopt;
    if (scales != nullptr && (quantise->results[1] != scales->operands.back() || uses_[quantise->results[1]] != 1)) {
      return std::nullopt;
    }
    return quantise->operands[0];
  }

  // The writes of K and V, and of their scales, into the same places of their caches; empty if they are not that.
  std::vector<const ir::Node*> TakeWrites(const ir::Node& attention) {
    std::vector<ir::ValueId> states = {attention.operands[1], attention.operands[2]};
    if (f_.TypeOf(states[0]).dtype == DType::kI8) {
      states.insert(states.end(), {attention.operands[6], attention.operands[7]});
    }
    std::vector<const ir::Node*> writes;
    for (const ir::ValueId state : states) {
      writes.push_back(Take(state, ir::Op::kIndexPut));
      if (writes.back() == nullptr || !SamePlaces(*writes[0], *writes.back())) return {};
    }
    return writes;
  }

  bool Fuse(const ir::Node& attention) {
    parts_.clear();
    const ir::Node* q = TakeOnly(attention.operands[0], ir::Op::kRope);
    const std::vector<const ir::Node*> writes = TakeWrites(attention);
    if (q == nullptr || writes.empty()) return false;
    const bool scaled = writes.size() == 4;
    const std::optional<ir::ValueId> keys = RowsOf(*writes[0], scaled ? writes[2] : nullptr);
    const std::optional<ir::ValueId> values = RowsOf(*writes[1], scaled ? writes[3] : nullptr);
    if (!keys || !values) return false;
    const ir::Node* k = TakeOnly(*keys, ir::Op::kRope);
    if (k == nullptr || !SameRotation(*q, *k)) return false;
    ir::Node fused;
    fused.op = ir::Op::kRopeKvWrite;
    fused.operands = {q->operands[0],         k->operands[0],        *values, q->operands[1], q->operands[2],
                      writes[0]->operands[1], writes[0]->operands[2]};
    fused.attrs = q->attrs;
    fused.results = {q->results[0]};
    for (const ir::Node* write : writes) {
      fused.operands.push_back(write->operands[0]);
      fused.results.push_back(write->results[0]);
    }
    TakeNorms(&fused);
    const int last = *std::max_element(parts_.begin(), parts_.end());
    if (!MayMove(fused, last) || !context_.claims || !context_.claims(f_, fused)) return false;
    for (const int part : parts_) dead_[part] = true;
    dead_[last] = false;
    f_.nodes[last] = std::move(fused);
    return true;
  }

  static bool SamePlaces(const ir::Node& a, const ir::Node& b) {
    const auto indices = [](const ir::Node& write) {
      return std::vector<ir::ValueId>(write.operands.begin() + 1, write.operands.end() - 1);
    };
    return a.Ints("dims") == std::vector<int64_t>{0, 2} && a.attrs == b.attrs && indices(a) == indices(b);
  }

  static bool SameRotation(const ir::Node& a, const ir::Node& b) {
    return a.operands[1] == b.operands[1] && a.operands[2] == b.operands[2] && a.attrs == b.attrs;
  }

  // Norms of q and k that nobody else reads join where they agree.
  void TakeNorms(ir::Node* fused) {
    const size_t before = parts_.size();
    const ir::Node* q = TakeOnly(fused->operands[0], ir::Op::kRmsNorm);
    const ir::Node* k = TakeOnly(fused->operands[1], ir::Op::kRmsNorm);
    if (q == nullptr || k == nullptr || q->attrs != k->attrs) {
      parts_.resize(before);
      return;
    }
    fused->operands[0] = q->operands[0];
    fused->operands[1] = k->operands[0];
    fused->operands.push_back(q->operands[1]);
    fused->operands.push_back(k->operands[1]);
    fused->attrs.insert(q->attrs.begin(), q->attrs.end());
  }

  // Everything happens where the last part stood: until then nothing else may read what the parts give, or overwrite
  // what they read.
  bool MayMove(const ir::Node& fused, int last) const {
    for (int i = *std::min_element(parts_.begin(), parts_.end()); i < last; ++i) {
      if (std::find(parts_.begin(), parts_.end(), i) != parts_.end()) continue;
      const ir::Node& between = f_.nodes[i];
      const bool structural = InfoOf(between.op).kind == ir::OpKind::kStructural;
      if (structural || !ir::InPlaceOf(between).empty()) return false;
      for (const ir::ValueId operand : between.operands) {
        if (std::find(fused.results.begin(), fused.results.end(), operand) != fused.results.end()) return false;
      }
    }
    return true;
  }

  ir::Function& f_;
  const PassContext& context_;
  std::vector<int> definition_;
  std::vector<int> uses_;
  std::vector<bool> dead_;
  std::vector<int> parts_;  // nodes that become one
};

}  // namespace

Result<bool> FuseRopeKv(ir::Module* module, const PassContext& context) {
  return RewriteFunctions(module, [&context](ir::Function* f) { return RopeKvFuser(f, context).Run(); });
}

}  // namespace deepinfer::passes
