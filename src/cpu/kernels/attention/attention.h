// Causal attention over a paged KV cache, prefill, decode and verify alike, with grouped queries, window, softcap and
// sinks.
//
// Token t of request r (query_start[r] <= t < query_start[r + 1]) at position p = positions[t] attends to the positions
// j <= p (and j > p - window if window > 0) of its request: score = dot(q, k_j) * scale, softcap * tanh(score /
// softcap) if softcap > 0, softmax, sum of v_j. A sink is one more logit of its head, without a value. Position j lives
// in block block_tables[r][j / B] at offset j % B; an entry outside [0, N) reads as block 0. Query head h uses kv head
// h / (query_heads / kv_heads). Positions that are not attended to never reach a result, whatever bits they hold. A
// token that attends to nothing gets zeros; tokens outside every live request are not written. f32 math, one rounding
// of the output.
//
// The order of every sum is fixed, and the same on all instruction sets with FMA: a score is one chain along the head
// (d = 0, 1, 2, ...; bf16 queries with a cache of bf16 or 8 bits d = 1, 0, 3, 2, ..., as VDPBF16PS has it); spans of
// 256 positions that start at multiples of 256 have a softmax each (weights added up in 16 lanes, values in one chain
// by position), and are put together in order. So the bits of a (token, head) depend on that row and the cache alone:
// not on the batch, the chunking, the number of threads, or the instruction set. Only the portable build, which has no
// FMA, differs.
//
// Every thread calls run(args, member, members); work is cut into (request, kv head, rows) units, and those of few rows
// also at spans, balanced by cost; members that share a unit leave what they have in the scratch, and the last one to
// finish puts it together. Thread-safe with distinct members; allocates nothing. Sources: Milakov and Gimelshein 2018
// (online softmax), Kwon et al. 2023 (paged KV), Dao 2023 (tiling), Dao et al. 2023 (Flash-Decoding).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "base/numerics.h"

namespace deepinfer {

enum class Isa : int;

// Scratch of the team. positions: max_blocks * block_size.
size_t PagedAttentionScratchBytes(int64_t head_size, int64_t positions, int members);

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
  // K and V are what the caches hold times these, or of i8 times the scale of the row.
  float k_scale = 1;
  float v_scale = 1;
  const float* k_scales = nullptr;  // [num_blocks, kv_heads, block_size], of i8
  const float* v_scales = nullptr;
  const float* sinks = nullptr;  // [query_heads] or nullptr
  int64_t live_tokens = 0;
  int64_t live_requests = 0;
  void* scratch = nullptr;               // PagedAttentionScratchBytes, 64-byte aligned; for nobody else meanwhile
  std::atomic<int32_t>* done = nullptr;  // [members], zeros before and after
};

struct AttentionKernels {
  const char* name = nullptr;  // "paged_attention_bf16_f16_Avx512"; nullptr: no such kernel
  void (*run)(const PagedAttentionArgs& args, int member, int members) = nullptr;
};

// Activations f32 or bf16; cache f32, bf16, f16, f8e4m3fn or i8.
AttentionKernels ChoosePagedAttention(Isa isa, DType activation, DType cache, Numerics numerics = Numerics::kNative);

}  // namespace deepinfer
