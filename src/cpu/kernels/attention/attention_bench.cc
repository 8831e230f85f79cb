// Times paged attention: decode by context and KV type, as bytes of K and V a second beside plain reads of the same
// bytes, in order and head by head, and prefill in GF/s. attention_bench [threads [isa [rounds [heads kv_heads
// head_size [type]]]]]; the default shape is that of SmolLM2-135M. Each case walks over as many layers as fill 256 MiB,
// so that K and V come from memory; cases are interleaved round by round and medians are printed.
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/cpu_features.h"
#include "base/half.h"
#include "base/team_plan.h"
#include "base/thread_team.h"
#include "cpu/kernels/attention/attention.h"

namespace deepinfer {
namespace {

constexpr int64_t kBlock = 32;
constexpr int64_t kWalk = int64_t{256} << 20;

// With one thread, the time that it ran: neighbours on the machine then harm less.
bool one_thread = false;
double Now() {
  timespec now;
  ::clock_gettime(one_thread ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

struct Shape {
  int64_t heads = 9, kv_heads = 3, head_size = 64;
};

// Memory on huge pages, as a backend's states have it, full of small numbers of the type.
class Cache {
 public:
  Cache(int64_t bytes, DType dtype) : bytes_(static_cast<size_t>((bytes + (2 << 20) - 1) >> 21 << 21)) {
    data_ = static_cast<uint8_t*>(
        ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    ::madvise(data_, bytes_, MADV_HUGEPAGE);
    uint32_t random = 1;
    const size_t piece = size_t{2} << 20;
    for (size_t i = 0; i < piece; i += SizeOf(dtype)) {
      random = random * 1664525 + 1013904223;
      const float value = static_cast<float>(random >> 8) / (1 << 23) - 1;
      const uint16_t half = dtype == DType::kBF16 ? F32ToBF16(value) : F32ToF16(value);
      if (dtype == DType::kF32) std::memcpy(data_ + i, &value, 4);
      if (SizeOf(dtype) == 2) std::memcpy(data_ + i, &half, 2);
      if (dtype == DType::kF8E4M3) data_[i] = F32ToF8E4M3(value);
      if (dtype == DType::kI8) data_[i] = static_cast<uint8_t>(random >> 24);
    }
    for (size_t i = piece; i < bytes_; i += piece) std::memcpy(data_ + i, data_, piece);
  }
  ~Cache() { ::munmap(data_, bytes_); }
  Cache(const Cache&) = delete;
  uint8_t* data() const { return data_; }

 private:
  size_t bytes_;
  uint8_t* data_;
};

class Case {
 public:
  Case(const Shape& shape, DType kv, Isa isa, int64_t context, int64_t tokens, int threads)
      : shape_(shape), kv_(kv), context_(context), tokens_(tokens) {
    kernels_ = ChoosePagedAttention(isa, DType::kBF16, kv);
    blocks_ = (context + kBlock - 1) / kBlock;
    const int64_t rows = blocks_ * kBlock * shape.kv_heads;
    layer_bytes_ = 2 * rows * shape.head_size * static_cast<int64_t>(SizeOf(kv));
    layers_ = tokens > 1 ? 1 : std::max<int64_t>(1, kWalk / layer_bytes_);
    cache_ = std::make_unique<Cache>(layers_ * layer_bytes_, kv);
    if (kv == DType::kI8) scales_ = std::make_unique<Cache>(layers_ * 2 * rows * 4, DType::kF32);
    for (int64_t b = 0; b < blocks_; ++b) table_.push_back(static_cast<int32_t>(b));
    for (int64_t t = 0; t < tokens; ++t) positions_.push_back(static_cast<int32_t>(context - tokens + t));
    start_ = {0, static_cast<int32_t>(tokens)};
    q_.assign(static_cast<size_t>(tokens * shape.heads * shape.head_size), F32ToBF16(0.05f));
    out_ = q_;
    scratch_.resize(PagedAttentionScratchBytes(shape.head_size, blocks_ * kBlock, threads) / 4 + 16);
    done_ = std::make_unique<std::atomic<int32_t>[]>(static_cast<size_t>(threads));
  }

  // Seconds of all layers.
  double Time(ThreadTeam& team) {
    const double start = Now();
    auto body = [&](int member, int members) {
      for (int64_t layer = 0; layer < layers_; ++layer) {
        kernels_.run(ArgsOf(layer), member, members);
        team.Barrier();
      }
    };
    team.Run(body);
    return Now() - start;
  }

  // Seconds of reading the same bytes in order; or `by_head` in the order of attention, whose pieces are one head's
  // rows of one block, with those of the other heads between them.
  double TimeRead(ThreadTeam& team, bool by_head) {
    const int64_t piece = kBlock * shape_.head_size * static_cast<int64_t>(SizeOf(kv_));
    const int64_t pieces = layers_ * layer_bytes_ / piece;
    const auto place = [&](int64_t i) {
      const int64_t half = blocks_ * shape_.kv_heads, head = i % half / blocks_, block = i % blocks_;
      return cache_->data() + (by_head ? i / half * half + block * shape_.kv_heads + head : i) * piece;
    };
    std::atomic<uint64_t> total{0};
    const double start = Now();
    auto body = [&](int member, int members) {
      uint64_t sums[8] = {};
      const Range part = SplitRange(pieces, 1, member, members);
      for (int64_t i = part.begin; i < part.end; ++i) {
        const uint8_t* at = place(i);
        const uint8_t* ahead = place(std::min(i + 2, pieces - 1));
        for (int64_t offset = 0; offset < piece; offset += 64) {
          __builtin_prefetch(ahead + offset, 0, 2);
          uint64_t line[8];
          std::memcpy(line, at + offset, 64);
          for (int j = 0; j < 8; ++j) sums[j] += line[j];
        }
      }
      for (const uint64_t sum : sums) total += sum;
    };
    team.Run(body);
    const double seconds = Now() - start;
    return total.load() == 1 ? 0 : seconds;
  }

  double Bytes() const { return static_cast<double>(layers_ * layer_bytes_); }
  double Flops() const {  // of positions that are seen
    const double pairs = static_cast<double>(tokens_) * (static_cast<double>(2 * context_ - tokens_ + 1) / 2);
    return 4.0 * pairs * static_cast<double>(shape_.heads * shape_.head_size);
  }
  double layers() const { return static_cast<double>(layers_); }
  DType kv() const { return kv_; }
  int64_t context() const { return context_; }
  int64_t tokens() const { return tokens_; }
  std::vector<double> times, reads, reads_by_head;

 private:
  PagedAttentionArgs ArgsOf(int64_t layer) {
    PagedAttentionArgs args;
    const int64_t rows = blocks_ * kBlock * shape_.kv_heads;
    args.q = q_.data();
    args.out = out_.data();
    args.q_stride = args.out_stride = shape_.heads * shape_.head_size;
    args.k_cache = cache_->data() + layer * layer_bytes_;
    args.v_cache = cache_->data() + layer * layer_bytes_ + layer_bytes_ / 2;
    if (scales_ != nullptr) {
      args.k_scales = reinterpret_cast<const float*>(scales_->data()) + layer * 2 * rows;
      args.v_scales = args.k_scales + rows;
    }
    args.num_blocks = args.max_blocks = blocks_;
    args.kv_heads = shape_.kv_heads;
    args.block_size = kBlock;
    args.head_size = shape_.head_size;
    args.query_heads = shape_.heads;
    args.block_tables = table_.data();
    args.query_start = start_.data();
    args.positions = positions_.data();
    args.scale = 0.125f;
    args.live_tokens = tokens_;
    args.live_requests = 1;
    args.scratch = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(scratch_.data()) + 63) / 64 * 64);
    args.done = done_.get();
    return args;
  }

  Shape shape_;
  DType kv_;
  int64_t context_, tokens_, blocks_ = 0, layer_bytes_ = 0, layers_ = 1;
  AttentionKernels kernels_;
  std::unique_ptr<Cache> cache_, scales_;
  std::vector<int32_t> table_, positions_, start_;
  std::vector<uint16_t> q_, out_;
  std::vector<float> scratch_;
  std::unique_ptr<std::atomic<int32_t>[]> done_;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

int Main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : PlanTeam({}).threads;
  const auto isa_or = SelectIsa(argc > 2 ? argv[2] : "");
  if (!isa_or) {
    std::fprintf(stderr, "%s\n", isa_or.error().ToString().c_str());
    return 1;
  }
  const Isa isa = *isa_or;
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 7;
  Shape shape;
  if (argc > 6) shape = {std::atoi(argv[4]), std::atoi(argv[5]), std::atoi(argv[6])};
  one_thread = threads == 1;
  ThreadTeam team(threads);
  std::vector<DType> types = {DType::kF32, DType::kBF16, DType::kF16, DType::kF8E4M3, DType::kI8};
  if (argc > 7) types = {*ParseDType(argv[7])};
  std::printf("%d threads, %s, %ld query heads, %ld kv heads of %ld\n", threads, ToString(isa), shape.heads,
              shape.kv_heads, shape.head_size);
  for (const int64_t context : {128, 512, 2048, 8192}) {
    std::vector<std::unique_ptr<Case>> cases;
    for (const DType kv : types) cases.push_back(std::make_unique<Case>(shape, kv, isa, context, 1, threads));
    for (int round = 0; round < rounds; ++round) {
      for (auto& each : cases) {
        each->times.push_back(each->Time(team));
        each->reads.push_back(each->TimeRead(team, false));
        each->reads_by_head.push_back(each->TimeRead(team, true));
      }
    }
    for (const auto& each : cases) {
      const double time = Median(each->times), read = Median(each->reads), by_head = Median(each->reads_by_head);
      std::printf(
          "decode  context %5ld %-9s %8.1f us  %5.1f GB/s  read %5.1f GB/s, head by head %5.1f  %3.0f, %3.0f %%\n",
          context, ToString(each->kv()), time / each->layers() * 1e6, each->Bytes() / time * 1e-9,
          each->Bytes() / read * 1e-9, each->Bytes() / by_head * 1e-9, 100 * read / time, 100 * by_head / time);
    }
  }
  for (const int64_t tokens : {128, 512, 2048}) {
    for (const DType kv : types) {
      Case prefill(shape, kv, isa, tokens, tokens, threads);
      for (int round = 0; round < rounds; ++round) prefill.times.push_back(prefill.Time(team));
      const double time = Median(prefill.times);
      std::printf("prefill tokens  %5ld %-9s %8.1f us  %5.1f GF/s\n", tokens, ToString(kv), time * 1e6,
                  prefill.Flops() / time * 1e-9);
    }
  }
  return 0;
}

}  // namespace
}  // namespace deepinfer

int main(int argc, char** argv) {
  return deepinfer::Main(argc, argv);
}
