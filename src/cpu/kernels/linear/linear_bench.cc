// Times the linear kernels on the layers of a SmolLM2-135M-shaped model, weights streamed from memory, and prints the
// machine's own limits beside them: linear_bench [threads [isa [rounds [modes [encodings]]]]], modes and encodings
// being lists such as native,portable and q8_0,q4_k; default: native, all. All cases are interleaved round by round and
// medians are printed, so that a noisy neighbour harms all alike.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "base/half.h"
#include "base/thread_team.h"
#include "cpu/kernels/linear/linear.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace deepinfer::cpu {
namespace {

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Free {
  void operator()(void* p) const { std::free(p); }
};
std::unique_ptr<uint8_t, Free> Allocate(size_t bytes) {
  return std::unique_ptr<uint8_t, Free>(static_cast<uint8_t*>(std::aligned_alloc(64, (bytes + 63) / 64 * 64)));
}

#if defined(__x86_64__)
// Instructions a second of one thread with 12 independent sums.
__attribute__((target("avx512f,avx512bw,avx512bf16"))) double Bf16DotPeak() {
  __m512 a[12] = {};
  auto x = reinterpret_cast<__m512bh>(_mm512_set1_epi32(0x3f803f90));
  const int64_t count = 4000000;
  const double start = Now();
  for (int64_t i = 0; i < count; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < 12; ++j) a[j] = _mm512_dpbf16_ps(a[j], x, x);
#pragma GCC unroll 12
    for (int j = 0; j < 12; ++j) asm volatile("" : "+v"(a[j]));
  }
  return static_cast<double>(count) * 12 / (Now() - start);
}

__attribute__((target("avx512f"))) double FmaPeak512() {
  __m512 a[12] = {};
  const __m512 x = _mm512_set1_ps(1.5f);
  const int64_t count = 4000000;
  const double start = Now();
  for (int64_t i = 0; i < count; ++i) {
#pragma GCC unroll 12
    for (int j = 0; j < 12; ++j) a[j] = _mm512_fmadd_ps(x, x, a[j]);
#pragma GCC unroll 12
    for (int j = 0; j < 12; ++j) asm volatile("" : "+v"(a[j]));
  }
  return static_cast<double>(count) * 12 / (Now() - start);
}
#endif

struct Layer {
  Encoding encoding;
  int64_t n, k;
  std::unique_ptr<uint8_t, Free> packed;
  const LinearKernel* kernel;
};

// A model of one encoding for its layers and another for its head, with buffers for `m` rows.
class Case {
 public:
  Case(Encoding encoding, Encoding head, DType act, Isa isa, int64_t m, int layers, bool with_head, int threads,
       Numerics numerics)
      : act_(act), numerics_(numerics), m_(m) {
    name_ = std::string(ToString(encoding)) + (with_head ? std::string("+") + ToString(head) : "") + " " +
            ToString(act) + " m " + std::to_string(m) +
            (numerics == Numerics::kNative ? "" : std::string(" ") + ToString(numerics));
    for (int i = 0; i < layers; ++i) {
      Add(encoding, 960, 576, isa);
      Add(encoding, 576, 576, isa);
      Add(encoding, 3072, 576, isa);
      Add(encoding, 576, 1536, isa);
    }
    if (with_head) Add(head, 49152, 576, isa);
    std::mt19937 rng(1);
    std::normal_distribution<float> normal;
    x_.resize(static_cast<size_t>(m * 1536) * 4);
    for (int64_t i = 0; i < m * 1536; ++i) {
      const float value = normal(rng);
      const uint16_t bits = F32ToBF16(value);
      std::memcpy(x_.data() + i * (act == DType::kBF16 ? 2 : 4),
                  act == DType::kBF16 ? static_cast<const void*>(&bits) : &value, act == DType::kBF16 ? 2 : 4);
    }
    y_.resize(static_cast<size_t>(m * (with_head ? 49152 : 3072)) * 4);
    for (int i = 0; i < threads; ++i) scratch_.push_back(Allocate(1 << 22));
  }

  double Time(ThreadTeam& team) {
    const double start = Now();
    auto body = [&](int member, int members) {
      for (const Layer& layer : layers_) {
        const LinearOutput output{0, layer.n, y_.data(), layer.n};
        const LinearArgs args{x_.data(), layer.k,
                              m_,        layer.packed.get(),
                              layer.n,   layer.k,
                              act_,      &output,
                              1,         scratch_[static_cast<size_t>(member)].get()};
        const Range range = SplitRange(layer.n, kLinearGrain, member, members);
        RunLinear(*layer.kernel, args, range.begin, range.end);
        team.Barrier();
      }
    };
    team.Run(body);
    return Now() - start;
  }

  const std::string& name() const { return name_; }
  double bytes() const { return bytes_; }
  double flops() const { return flops_ * static_cast<double>(m_); }
  double pack_seconds() const { return pack_seconds_; }
  std::vector<double> times;

 private:
  void Add(Encoding encoding, int64_t n, int64_t k, Isa isa) {
    const int64_t block = InfoOf(encoding).block_elements;
    k = (k + block - 1) / block * block;
    const size_t row = RowBytes(encoding, k);
    if (source_.size() < row * static_cast<size_t>(n)) {
      source_.resize(row * static_cast<size_t>(n));
      std::mt19937 rng(2);
      for (uint8_t& byte : source_) byte = static_cast<uint8_t>(rng() % 0x38);  // finite whatever field it lands in
    }
    Layer layer{encoding, n, k, Allocate(PackedLinearBytes(encoding, n, k)),
                ChooseLinear(encoding, act_, isa, numerics_).kernel};
    const PackSegment segment{source_.data(), n, static_cast<int64_t>(row)};
    const double start = Now();
    PackPanels(encoding, {&segment, 1}, k, layer.packed.get(), 0, NumPanels(n));
    pack_seconds_ += Now() - start;
    bytes_ += static_cast<double>(PackedLinearBytes(encoding, n, k));
    flops_ += 2.0 * static_cast<double>(n * k);
    layers_.push_back(std::move(layer));
  }

  std::string name_;
  DType act_;
  Numerics numerics_;
  int64_t m_;
  std::vector<Layer> layers_;
  std::vector<uint8_t> source_, x_, y_;
  std::vector<std::unique_ptr<uint8_t, Free>> scratch_;
  double bytes_ = 0, flops_ = 0, pack_seconds_ = 0;
};

// Whether a comma-separated list names it; an empty list names all.
bool Names(const std::string& list, const char* name) {
  return list.empty() || ("," + list + ",").find("," + std::string(name) + ",") != std::string::npos;
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double ReadBandwidth(ThreadTeam& team, const std::vector<uint64_t>& memory) {
  const double start = Now();
  auto body = [&](int member, int members) {
    const Range range = SplitRange(static_cast<int64_t>(memory.size()), 512, member, members);
    uint64_t sum[8] = {};
    for (int64_t i = range.begin; i + 8 <= range.end; i += 8) {
      for (int j = 0; j < 8; ++j) sum[j] ^= memory[static_cast<size_t>(i + j)];
    }
    asm volatile("" : : "r"(sum) : "memory");
  };
  team.Run(body);
  return static_cast<double>(memory.size() * 8) / (Now() - start);
}

int Main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  const auto isa = SelectIsa(argc > 2 ? argv[2] : "");
  const int rounds = argc > 3 ? std::atoi(argv[3]) : 7;
  const std::string modes = argc > 4 ? argv[4] : "native", encodings = argc > 5 ? argv[5] : "";
  if (!isa || threads < 1 || rounds < 1) return 2;
  ThreadTeam team(threads);
  const std::vector<uint64_t> memory(12u << 20, 1);
  const Encoding q4 = Encoding::kQ4_1, q8 = Encoding::kQ8_0;
  std::vector<std::unique_ptr<Case>> decode, prefill;
  for (const DType act : {DType::kBF16, DType::kF32}) {
    for (const Numerics mode : kAllNumerics) {
      if (!Names(modes, ToString(mode))) continue;
      for (const int64_t m : {1, 2, 4, 8, 16, 32}) {
        if (!Names(encodings, ToString(q4))) break;
        decode.push_back(std::make_unique<Case>(q4, q8, act, *isa, m, 30, true, threads, mode));
      }
      for (int i = 0; i < kNumEncodings; ++i) {
        const auto e = static_cast<Encoding>(i);
        if (e == Encoding::kF32 || e == Encoding::kF16 || !Names(encodings, ToString(e))) continue;
        if (e != q4) decode.push_back(std::make_unique<Case>(e, e, act, *isa, 1, 30, true, threads, mode));
        prefill.push_back(std::make_unique<Case>(e, e, act, *isa, 512, 2, false, threads, mode));
      }
    }
  }
  std::vector<double> bandwidth, dot, fma;
  for (int i = 0; i < rounds; ++i) {
    bandwidth.push_back(ReadBandwidth(team, memory));
#if defined(__x86_64__)
    std::vector<double> rate(static_cast<size_t>(threads), 0);
    auto run_fma = [&](int member, int) { rate[static_cast<size_t>(member)] = FmaPeak512() * 32; };
    auto run_dot = [&](int member, int) { rate[static_cast<size_t>(member)] = Bf16DotPeak() * 64; };
    const auto total = [&] {
      double sum = 0;
      for (const double r : rate) sum += r;
      return sum;
    };
    if (MachineHas(Isa::kAvx512)) team.Run(run_fma), fma.push_back(total());
    if (MachineHas(Isa::kAvx512Bf16)) team.Run(run_dot), dot.push_back(total());
#endif
    for (auto* cases : {&decode, &prefill}) {
      for (auto& one : *cases) one->times.push_back(one->Time(team));
    }
  }
  const auto best = [](const std::vector<double>& v) {
    return v.empty() ? 0.0 : *std::max_element(v.begin(), v.end());
  };
  std::printf(
      "%s, %d threads, isa %s: read %.1f GB/s (median; best %.1f), f32 FMA %.0f GF/s, bf16 dot %.0f GF/s (best)\n",
      CpuName().c_str(), threads, ToString(*isa), Median(bandwidth) * 1e-9, best(bandwidth) * 1e-9, best(fma) * 1e-9,
      best(dot) * 1e-9);
  for (auto* cases : {&decode, &prefill}) {
    std::printf(cases == &decode ? "decode, whole model cold\n" : "prefill, 2 layers, m 512\n");
    for (const auto& one : *cases) {
      const double median = Median(one->times), least = *std::min_element(one->times.begin(), one->times.end());
      std::printf("  %-27s %7.1f GF   %8.2f ms (best %8.2f)  %6.1f (%6.1f) GB/s  %7.1f (%7.1f) GF/s  pack %.0f ms\n",
                  one->name().c_str(), one->flops() * 1e-9, median * 1e3, least * 1e3, one->bytes() / median * 1e-9,
                  one->bytes() / least * 1e-9, one->flops() / median * 1e-9, one->flops() / least * 1e-9,
                  one->pack_seconds() * 1e3);
    }
  }
  return 0;
}

}  // namespace
}  // namespace deepinfer::cpu

int main(int argc, char** argv) {
  return deepinfer::cpu::Main(argc, argv);
}
