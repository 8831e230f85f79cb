// Compiled once per instruction set; see simd.h.
#include "cpu/kernels/sample/sample_internal.h"
#include "cpu/kernels/simd.h"

namespace deepinfer {
namespace {

bool BlockMaxima(const float* logits, int64_t vocabulary, float* maxima) {
  I nan = {};
  for (int64_t first = 0, block = 0; first < vocabulary; first += kSampleBlock, ++block) {
    const int64_t count = Smaller(kSampleBlock, vocabulary - first);
    F max = Set1(-__builtin_inff());
    for (int64_t i = 0; i < count; i += kLanes) {
      const float* p = logits + first + i;
      const F v = i + kLanes <= count ? Load(p) : LoadPart(p, count - i, -__builtin_inff());
      nan |= (v != v);
      max = Max(v, max);
    }
    maxima[block] = ReduceMax(max);
  }
  int32_t any = 0;
  for (int i = 0; i < kLanes; ++i) any |= nan[i];
  return any == 0;
}

float BlockWeights(const float* logits, int64_t first_id, int64_t count, const Cut& cut, float best, float temperature,
                   float* weights) {
  I id;
  for (int i = 0; i < kLanes; ++i) id[i] = static_cast<int32_t>(first_id) + i;
  F sum = {};
  for (int64_t i = 0; i < kSampleBlock; i += kLanes) {
    F v = Set1(-__builtin_inff());
    if (i + kLanes <= count) {
      v = Load(logits + i);
    } else if (i < count) {
      v = LoadPart(logits + i, count - i, -__builtin_inff());
    }
    const I not_below = (v > cut.value) | ((v == cut.value) & (id <= cut.last_id));
    const I kept = not_below & ((v < cut.top) | ((v == cut.top) & (id >= cut.first_id)));
    // The difference first: it is 0 at the best however large that is, and dividing it by a tiny number is then
    // harmless.
    const F shifted = (v == best) ? Set1(0.0f) : v - best;
    const F weight = (F)((I)Exp(shifted / temperature) & kept);
    Store(weights + i, weight);
    sum += weight;
    id += kLanes;
  }
  return ReduceAdd(sum);
}

}  // namespace

extern const SampleSimd DI_ISA_SYMBOL(kSample);
const SampleSimd DI_ISA_SYMBOL(kSample) = {DI_ISA_NAME("sample_f32"), BlockMaxima, BlockWeights};

}  // namespace deepinfer
