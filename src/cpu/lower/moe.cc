// moe: tokens are routed, their rows sorted by expert, and the experts' products run over those rows, the team sharing
// out (expert, columns). Four steps with barriers between, in chunks of tokens, which bounds the memory. A row's
// products do not depend on the rows beside it, nor the sum of a token's experts on other tokens.
#include "cpu/kernels/moe/moe.h"

#include <algorithm>
#include <cstring>

#include "base/thread_team.h"
#include "cpu/lower/gated_product.h"
#include "cpu/lower/linear_inputs.h"
#include "cpu/lower/scratch.h"

namespace deepinfer::cpu {
namespace {

constexpr int64_t kChunkTokens = 512;

class MoeLaunch : public Launch {
 public:
  Status Init(const LowerContext& c, const ir::Node& node) {
    node_ = node;
    const ir::Type& x = c.f.TypeOf(node.operands[0]);
    tokens_ = LiveExtent(x);
    dtype_ = x.dtype;
    element_ = static_cast<int64_t>(SizeOf(dtype_));
    width_ = x.dims[1].size;
    experts_ = c.f.TypeOf(node.operands[1]).dims[1].size;
    top_k_ = node.Int("top_k");
    normalise_ = node.Int("normalise") != 0;
    const ir::Type& down = c.f.TypeOf(node.operands[4]);
    inner_ = down.dims[1].size;
    DI_RETURN_IF_ERROR(
        gated_.Init(c, node.operands[2], node.operands[3], inner_, width_, dtype_, dtype_, node.Str("activation")));
    const std::string& name = c.f.FindInput(node.operands[4])->name;
    DI_ASSIGN_OR_RETURN(const backend::WeightData* source, c.weights->Source(name));
    const LinearChoice choice = ChooseLinear(EncodingOf(down), dtype_, c.isa, c.numerics);
    if (choice.kernel == nullptr || source->order != nullptr) {
      return MakeError(ErrorCode::kUnsupported, name, "no kernel for experts in {} with activations in {}{}",
                       ToString(down), ToString(dtype_),
                       source->order != nullptr ? " and inputs in another order" : "");
    }
    down_ = choice.kernel;
    DI_ASSIGN_OR_RETURN(const void* packed, c.weights->Packed({name}, Share::kMoving));
    down_packed_ = static_cast<const std::byte*>(packed);
    kernel = "moe." + gated_.kernel + " + " + down_->name;
    reason = gated_.reason + " + " + choice.reason;
    return {};
  }

  void Bind(const Addresses& a) override {
    x_ = a.As<const std::byte>(node_.operands[0]);
    logits_ = a.As<const float>(node_.operands[1]);
    out_ = a.As<std::byte>(node_.results[0]);
  }

  void Run(const TeamContext& team) const override {
    const int64_t tokens = tokens_.Of(team);
    for (int64_t token = 0; token < tokens; token += kChunkTokens) {
      if (token > 0) team.team->Barrier();  // the last chunk's sums are done
      RunChunk(team, token, std::min(kChunkTokens, tokens - token));
    }
  }

  int64_t ScratchBytes() const override { return OwnLayout(nullptr).bytes; }
  int64_t SharedScratchBytes(int /*members*/) const override { return SharedLayout(nullptr).bytes; }

 private:
  struct Own {  // of a member
    float* exponentials = nullptr;
    int32_t* place = nullptr;
    int32_t* first = nullptr;
    std::byte* kernel = nullptr;
    int64_t bytes = 0;
  };
  struct Shared {
    int32_t* ids = nullptr;
    float* weights = nullptr;
    std::byte* rows = nullptr;    // x by place
    std::byte* hidden = nullptr;  // by place
    float* y = nullptr;           // by place
    int64_t bytes = 0;
  };

  int64_t Pairs() const { return std::min(kChunkTokens, tokens_.size) * top_k_; }
  // An expert has at most one row of each token.
  int64_t MostRows() const { return std::min(kChunkTokens, tokens_.size); }

  Own OwnLayout(std::byte* start) const {
    Own own;
    own.exponentials = reinterpret_cast<float*>(TakeScratch(start, experts_ * 4, &own.bytes));
    own.place = reinterpret_cast<int32_t*>(TakeScratch(start, Pairs() * 4, &own.bytes));
    own.first = reinterpret_cast<int32_t*>(TakeScratch(start, (experts_ + 1) * 4, &own.bytes));
    const auto down = static_cast<int64_t>(LinearScratchBytes(*down_, MostRows(), inner_));
    own.kernel = TakeScratch(start, std::max(down, gated_.ScratchBytes(MostRows())), &own.bytes);
    return own;
  }

  Shared SharedLayout(std::byte* start) const {
    Shared shared;
    shared.ids = reinterpret_cast<int32_t*>(TakeScratch(start, Pairs() * 4, &shared.bytes));
    shared.weights = reinterpret_cast<float*>(TakeScratch(start, Pairs() * 4, &shared.bytes));
    shared.rows = TakeScratch(start, Pairs() * width_ * element_, &shared.bytes);
    shared.hidden = TakeScratch(start, Pairs() * inner_ * element_, &shared.bytes);
    shared.y = reinterpret_cast<float*>(TakeScratch(start, Pairs() * width_ * 4, &shared.bytes));
    return shared;
  }

  void RunChunk(const TeamContext& team, int64_t token, int64_t tokens) const {
    const Own own = OwnLayout(team.scratch);
    const Shared shared = SharedLayout(team.shared_scratch);
    const Range mine = SplitRange(tokens, 1, team.member, team.members);
    RouteTokens({logits_ + token * experts_, experts_, top_k_, normalise_, shared.ids, shared.weights}, mine.begin,
                mine.end, own.exponentials);
    team.team->Barrier();
    const int64_t pairs = tokens * top_k_;
    SortByExpert(shared.ids, pairs, experts_, own.place, own.first);
    const Range moved = SplitRange(pairs, 1, team.member, team.members);
    for (int64_t pair = moved.begin; pair < moved.end; ++pair) {
      const int64_t bytes = width_ * element_;
      std::memcpy(shared.rows + own.place[pair] * bytes, x_ + (token + pair / top_k_) * bytes,
                  static_cast<size_t>(bytes));
    }
    team.team->Barrier();
    ForOwnColumns(team, own, inner_, [&](int64_t expert, int64_t row, int64_t rows, int64_t begin, int64_t end) {
      GatedProduct::Args args;
      args.x = shared.rows + row * width_ * element_;
      args.y = shared.hidden + row * inner_ * element_;
      args.rows = rows;
      args.part = expert;
      args.scratch = own.kernel;
      gated_.Run(args, begin, end);
    });
    team.team->Barrier();
    ForOwnColumns(team, own, width_, [&](int64_t expert, int64_t row, int64_t rows, int64_t begin, int64_t end) {
      const LinearOutput output{0, width_, shared.y + row * width_, width_};
      LinearArgs args;
      args.x = shared.hidden + row * inner_ * element_;
      args.ldx = args.k = inner_;
      args.m = rows;
      args.packed = down_packed_ + expert * static_cast<int64_t>(PackedLinearBytes(down_->encoding, width_, inner_));
      args.n = width_;
      args.outputs = &output;
      args.num_outputs = 1;
      args.scratch = own.kernel;
      RunLinear(*down_, args, begin, end);
    });
    team.team->Barrier();
    CombineExperts({shared.y, own.place, shared.weights, top_k_, width_, out_ + token * width_ * element_, dtype_},
                   mine.begin, mine.end);
  }

  // This member's share of the columns of all experts that have rows: visit(expert, first row, rows, begin, end).
  template <class Visit>
  void ForOwnColumns(const TeamContext& team, const Own& own, int64_t columns, const Visit& visit) const {
    int64_t active = 0;
    for (int64_t e = 0; e < experts_; ++e) active += own.first[e + 1] > own.first[e];
    const Range share = SplitRange(active * columns, kLinearGrain, team.member, team.members);
    int64_t start = 0;  // of the expert's columns among those of all
    for (int64_t e = 0; e < experts_; ++e) {
      const int64_t rows = own.first[e + 1] - own.first[e];
      if (rows == 0) continue;
      const int64_t begin = std::max(share.begin - start, int64_t{0}), end = std::min(share.end - start, columns);
      if (begin < end) visit(e, own.first[e], rows, begin, end);
      start += columns;
    }
  }

  ir::Node node_;
  LiveExtent tokens_;
  DType dtype_ = DType::kF32;
  int64_t element_ = 0;  // bytes
  int64_t width_ = 0, inner_ = 0, experts_ = 0, top_k_ = 0;
  bool normalise_ = false;
  GatedProduct gated_;
  const LinearKernel* down_ = nullptr;
  const std::byte* down_packed_ = nullptr;
  const std::byte* x_ = nullptr;
  const float* logits_ = nullptr;
  std::byte* out_ = nullptr;
};

}  // namespace

LaunchResult LowerMoe(const LowerContext& c, const ir::Node& node) {
  auto launch = std::make_unique<MoeLaunch>();
  DI_RETURN_IF_ERROR(launch->Init(c, node));
  return launch;
}

}  // namespace deepinfer::cpu
