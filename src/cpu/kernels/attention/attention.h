// Causal attention over a paged KV cache, prefill and decode alike, with grouped queries, window and softcap.
//
// Token t of request r (query_start[r] <= t < query_start[r + 1]) at position p = positions[t] attends to the positions
// j <= p (and j > p - window if window > 0) of its request: score = dot(q, k_j) * scale, softcap * tanh(score /
// softcap) if softcap > 0, softmax, sum of v_j. Position j lives in block block_tables[r][j / B] at offset j % B; an
// entry outside [0, N) reads as block 0. Query head h uses kv head h / (query_heads / kv_heads). Positions that are not
// attended to never reach a result, whatever bits they hold. A token that attends to nothing gets zeros; tokens outside
// every live request are not written. f32 math, one rounding of the output. Online softmax over tiles of 64 positions
// that start at multiples of 64: the bits of a (token, head) depend on that row and the cache alone, not on the batch,
// the chunking or the thread count. Every thread calls run(args, member, members); work is cut into (request, kv head,
// rows) units, balanced by cost. Thread-safe with distinct members; allocates nothing. Sources: Milakov and Gimelshein
// 2018 (online softmax), Kwon et al. 2023 (paged KV), Dao 2023 (tiling).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "base/numerics.h"

namespace deepinfer {

enum class Isa : int;

// Scratch of one member.
size_t PagedAttentionScratchBytes(int64_t head_size);

struct PagedAttentionArgs {
  const void* q = nullptr;  // query_heads * head_size contiguous elements, tokens q_stride elements apart
  int64_t q_stride = 0;
  void* out = nullptr;
  int64_t out_stride = 0;
  const void* k_cache = nullptr;  // [num_blocks, kv_heads, block_size, head_size]
  const void* v_cache = nullptr;
  int64_t num_blocks = 0;
  int64_t kv_heads = 0;
  int64_t block_size = 0;
  int64_t head_size = 0;
  int64_t query_heads = 0;                // a multiple of kv_heads
  const int32_t* block_tables = nullptr;  // [requests, max_blocks]
  int64_t max_blocks = 0;
  const int32_t* query_start = nullptr;  // [requests + 1]
  const int32_t* positions = nullptr;    // [tokens]
  float scale = 1;
  int32_t window = 0;
  float softcap = 0;
  int64_t live_tokens = 0;
  int64_t live_requests = 0;
  void* scratch = nullptr;  // members * PagedAttentionScratchBytes, 64-byte aligned
};

struct AttentionKernels {
  const char* name = nullptr;  // "paged_attention_bf16_f16_Avx512"; nullptr: no such kernel
  void (*run)(const PagedAttentionArgs& args, int member, int members) = nullptr;
};

// Activations f32 or bf16; cache f32, bf16 or f16.
AttentionKernels ChoosePagedAttention(Isa isa, DType activation, DType cache, Numerics numerics = Numerics::kNative);

}  // namespace deepinfer
