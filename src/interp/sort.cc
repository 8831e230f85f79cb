// sort and top_k. Keys are mapped to unsigned integers whose order is the wanted one (NaN last in both directions, the
// two zeros equal), so that one stable radix sort serves every dtype.
#include <algorithm>
#include <bit>
#include <cstring>

#include "interp/prepare.h"
#include "interp/storage.h"

namespace deepinfer::interp {
namespace {

// Ascending order of the result is the order of the values, descending if asked. Float keys use the low 32 bits.
template <DType D>
uint64_t SortKey(typename Storage<D>::T raw, bool descending) {
  const auto value = Storage<D>::Load(raw);
  if constexpr (std::is_same_v<decltype(value), const float>) {
    if (value != value) return 0xffffffffu;
    uint32_t bits = std::bit_cast<uint32_t>(value == 0.0f ? 0.0f : value);
    bits = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
    return descending ? ~bits & 0xffffffffu : bits;
  } else if constexpr (sizeof(typename Storage<D>::T) == 8) {
    const uint64_t bits = static_cast<uint64_t>(value) ^ (uint64_t{1} << 63);
    return descending ? ~bits : bits;
  } else {
    const uint32_t bits =
        static_cast<uint32_t>(static_cast<int64_t>(value) + (std::is_signed_v<decltype(value)> ? int64_t{1} << 31 : 0));
    return descending ? ~bits & 0xffffffffu : bits;
  }
}

struct Item {
  uint64_t key;
  uint32_t index;
};

// Stable, least significant digit first; a digit that is the same everywhere costs only its count.
// Sorted items end up in `items`; `spare` has the same size.
void RadixSort(Item* items, Item* spare, int64_t n, int key_bits) {
  constexpr int kDigit = 11;
  constexpr int kBuckets = 1 << kDigit;
  Item* from = items;
  Item* to = spare;
  for (int shift = 0; shift < key_bits; shift += kDigit) {
    uint32_t start[kBuckets] = {};
    for (int64_t i = 0; i < n; ++i) ++start[(from[i].key >> shift) & (kBuckets - 1)];
    if (start[(from[0].key >> shift) & (kBuckets - 1)] == static_cast<uint32_t>(n)) continue;
    uint32_t sum = 0;
    for (uint32_t& bucket : start) {
      const uint32_t count = bucket;
      bucket = sum;
      sum += count;
    }
    for (int64_t i = 0; i < n; ++i) to[start[(from[i].key >> shift) & (kBuckets - 1)]++] = from[i];
    std::swap(from, to);
  }
  if (from != items) std::memcpy(items, from, static_cast<size_t>(n) * sizeof(Item));
}

bool Before(const Item& a, const Item& b) {
  return a.key != b.key ? a.key < b.key : a.index < b.index;
}

constexpr int64_t kSmall = 512;  // below this a comparison sort is faster than clearing the histograms

class SortNode final : public PreparedNode {
 public:
  explicit SortNode(const PrepareContext& c)
      : key_(c.OperandType(0)),
        dim_(c.node.Int("dim")),
        descending_(c.node.Int("descending") != 0),
        stride_(RowMajorStrides(key_)[static_cast<size_t>(dim_)]),
        workspace_(c.workspace) {
    for (size_t i = 0; i < c.node.operands.size(); ++i) widths_.push_back(SizeOf(c.OperandType(i).dtype));
    workspace_->Reserve(2 * sizeof(Item) * static_cast<size_t>(key_.dims[dim_].size));
  }

  void Run(const void* const* operands, void* const* results, const ir::LiveCounts& live, ThreadTeam* team) override {
    const int64_t size = key_.dims[dim_].size;
    const int64_t n = dim_ == 0 ? LiveSize(key_.dims[0], live) : size;
    const int64_t lines = size == 0 ? 0 : dim_ == 0 ? stride_ : Rows(key_).LiveElements(live) / size;
    if (n == 0) return;
    ParallelFor(team, lines, n * 16, [&](int64_t begin, int64_t end, int member) {
      Item* items = reinterpret_cast<Item*>(workspace_->Of(member));
      for (int64_t i = begin; i < end; ++i) {
        const int64_t base = i / stride_ * size * stride_ + i % stride_;
        Order(operands[0], base, n, items);
        for (size_t j = 0; j < widths_.size(); ++j) Gather(operands[j], results[j], widths_[j], base, n, items);
      }
    });
  }

 private:
  void Order(const void* keys, int64_t base, int64_t n, Item* items) const {
    DispatchAny(key_.dtype, [&](auto tag) {
      using S = Storage<decltype(tag)::value>;
      const auto* x = static_cast<const typename S::T*>(keys) + base;
      for (int64_t i = 0; i < n; ++i) {
        items[i] = {SortKey<decltype(tag)::value>(x[i * stride_], descending_), static_cast<uint32_t>(i)};
      }
    });
    if (n < kSmall) {
      std::sort(items, items + n, Before);
    } else {
      RadixSort(items, items + n, n, SizeOf(key_.dtype) == 8 ? 64 : 32);
    }
  }

  void Gather(const void* from, void* to, size_t width, int64_t base, int64_t n, const Item* items) const {
    const auto gather = [&](auto type) {
      using T = decltype(type);
      const T* x = static_cast<const T*>(from) + base;
      T* y = static_cast<T*>(to) + base;
      for (int64_t i = 0; i < n; ++i) y[i * stride_] = x[items[i].index * stride_];
    };
    switch (width) {
      case 1:
        return gather(uint8_t());
      case 2:
        return gather(uint16_t());
      case 4:
        return gather(uint32_t());
      default:
        return gather(uint64_t());
    }
  }

  ir::Type key_;
  int64_t dim_;
  bool descending_;
  int64_t stride_;
  std::vector<size_t> widths_;
  std::shared_ptr<Workspace> workspace_;
};

class TopKNode final : public PreparedNode {
 public:
  explicit TopKNode(const PrepareContext& c) : type_(c.OperandType(0)), k_(c.node.Int("k")), workspace_(c.workspace) {
    workspace_->Reserve(sizeof(Item) * static_cast<size_t>(k_));
  }

  void Run(const void* const* operands, void* const* results, const ir::LiveCounts& live, ThreadTeam* team) override {
    const int64_t n = type_.dims.back().size;
    const int64_t lines = type_.rank() == 1 ? 1 : Rows(type_).LiveElements(live) / n;
    ParallelFor(team, lines, n, [&](int64_t begin, int64_t end, int member) {
      Item* best = reinterpret_cast<Item*>(workspace_->Of(member));
      DispatchAny(type_.dtype, [&](auto tag) {
        using S = Storage<decltype(tag)::value>;
        for (int64_t i = begin; i < end; ++i) {
          const auto* x = static_cast<const typename S::T*>(operands[0]) + i * n;
          Best<decltype(tag)::value>(x, n, best);
          for (int64_t j = 0; j < k_; ++j) {
            static_cast<typename S::T*>(results[0])[i * k_ + j] = x[best[j].index];
            static_cast<int32_t*>(results[1])[i * k_ + j] = static_cast<int32_t>(best[j].index);
          }
        }
      });
    });
  }

 private:
  // A heap of the best so far, its worst on top; then in order.
  template <DType D>
  void Best(const typename Storage<D>::T* x, int64_t n, Item* best) const {
    int64_t held = 0;
    for (int64_t i = 0; i < n; ++i) {
      const Item item = {SortKey<D>(x[i], true), static_cast<uint32_t>(i)};
      if (held < k_) {
        best[held++] = item;
        std::push_heap(best, best + held, Before);
      } else if (Before(item, best[0])) {
        std::pop_heap(best, best + k_, Before);
        best[k_ - 1] = item;
        std::push_heap(best, best + k_, Before);
      }
    }
    std::sort_heap(best, best + k_, Before);
  }

  ir::Type type_;
  int64_t k_;
  std::shared_ptr<Workspace> workspace_;
};

}  // namespace

Prepared PrepareSort(const PrepareContext& c) {
  if (c.OperandType(0).dims[c.node.Int("dim")].size >= int64_t{1} << 31) {
    return MakeError(ErrorCode::kUnsupported, "sort", "{} is too long", ToString(c.OperandType(0)));
  }
  return std::make_unique<SortNode>(c);
}

Prepared PrepareTopK(const PrepareContext& c) {
  if (c.OperandType(0).dims.back().size >= int64_t{1} << 31) {
    return MakeError(ErrorCode::kUnsupported, "top_k", "{} is too long", ToString(c.OperandType(0)));
  }
  return std::make_unique<TopKNode>(c);
}

}  // namespace deepinfer::interp
