// A request's bits do not depend on what it shares a step with, on buckets, on how its prompt is cut, on threads.
#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "harness.h"

namespace deepinfer::golden {
namespace {

constexpr int64_t kVocab = 320;
constexpr int64_t kLongest = 128;  // a step of as many rows takes a whole prompt with its logits

struct Param {
  std::string checkpoint;
  DType dtype;
  std::optional<DType> kv = std::nullopt;
};

std::ostream& operator<<(std::ostream& out, const Param& param) {
  out << param.checkpoint << "_" << ToString(param.dtype);
  return param.kv ? out << "_kv_" << ToString(*param.kv) : out;
}

class InvarianceTest : public ::testing::TestWithParam<Param> {
 protected:
  OpenConfig Base() const {
    OpenConfig config;
    config.options.activations = GetParam().dtype;
    config.options.kv = GetParam().kv;
    config.options.max_model_len = 256;
    config.options.max_num_seqs = kLongest;
    config.options.max_num_batched_tokens = kLongest;
    config.options.prefill_buckets = {kLongest};
    config.options.decode_buckets = {1, kLongest};
    return config;
  }
  std::vector<engine::GenerationRequest> Requests() const {
    std::vector<engine::GenerationRequest> requests;
    for (const OracleCase& right : LoadOracle(GetParam().checkpoint)) {
      requests.push_back(engine::Request(right.ids, 24));
      requests.back().prompt_logits = true;
      requests.back().params.logprobs = 20;
    }
    return requests;
  }
  std::string Folder() const { return OracleFolder(GetParam().checkpoint); }

  static void ExpectSame(const engine::Answer& left, const engine::Answer& right) {
    engine::ExpectSameAnswer(left, right);
    EXPECT_TRUE(SameBits(left.prompt_logits, right.prompt_logits));
  }
};

TEST_P(InvarianceTest, BatchesBucketsChunksAndThreads) {
  for (const Isa isa : TestedIsas()) {
    OpenConfig base = Base();
    base.isa = isa;
    const std::vector<engine::GenerationRequest> requests = Requests();
    std::vector<engine::Answer> alone;
    {
      const auto runner = MustOpen(Folder(), base);
      ASSERT_NE(runner, nullptr);
      for (const auto& request : requests) alone.push_back(engine::RunAll(runner.get(), {request})[0]);
    }
    std::vector<OpenConfig> others;
    const auto add = [&](auto change) {
      others.push_back(base);
      change(&others.back());
    };
    add([](OpenConfig* s) { s->threads = 2; });
    add([](OpenConfig* s) { s->options.block_size = 16; });
    add([](OpenConfig* s) { s->options.prefill_buckets = {5, 32, 64, kLongest}; });
    for (const int64_t tokens : {1, 7, 16}) {
      add([&](OpenConfig* s) {
        s->options.max_num_batched_tokens = tokens;
        s->options.prefill_buckets = {tokens};
      });
    }
    for (const int64_t seqs : {1, 3, 5, 32}) {
      add([&](OpenConfig* s) {
        s->options.max_num_seqs = seqs;
        s->options.decode_buckets.clear();
        s->threads = seqs == 5 ? 2 : 1;
      });
    }
    for (const OpenConfig& other : others) {
      SCOPED_TRACE(other.Name());
      const auto runner = MustOpen(Folder(), other);
      ASSERT_NE(runner, nullptr);
      // All at once, in both orders, and with the same prompt twice.
      std::vector<engine::GenerationRequest> batch = requests;
      batch.insert(batch.end(), requests.rbegin(), requests.rend());
      const std::vector<engine::Answer> batched = engine::RunAll(runner.get(), batch);
      for (size_t i = 0; i < batch.size(); ++i) ExpectSame(batched[i], alone[std::min(i, batch.size() - 1 - i)]);
    }
  }
}

// Decoding writes and reads the same bits as prefilling the same tokens.
TEST_P(InvarianceTest, DecodeEqualsPrefill) {
  const auto runner = MustOpen(Folder(), Base());
  ASSERT_NE(runner, nullptr);
  for (const OracleCase& right : LoadOracle(GetParam().checkpoint)) {
    std::vector<float> decoded;
    Ids tokens = right.ids;
    Driver stepwise(runner.get(), 1);
    auto output = stepwise.Prefill(0, tokens, false);
    for (int n = 0; n < 24; ++n) {
      ASSERT_TRUE(output) << output.error().ToString();
      decoded.insert(decoded.end(), output->logits, output->logits + kVocab);
      tokens.push_back(output->sampled[0]);
      EXPECT_EQ(output->sampled[0], ArgMax(output->logits, kVocab));
      output = stepwise.Decode();
    }
    tokens.pop_back();
    Driver at_once(runner.get(), 1);
    auto prefilled = at_once.Prefill(0, tokens, true);
    ASSERT_TRUE(prefilled) << prefilled.error().ToString();
    EXPECT_TRUE(SameBits(decoded, {prefilled->logits + (right.ids.size() - 1) * kVocab, decoded.size()}));
  }
}

// The reference keeps to the same rule, in f32.
TEST_P(InvarianceTest, Reference) {
  OpenConfig base = Base();
  base.backend = "reference";
  base.options.activations = DType::kF32;
  base.options.max_num_seqs = 8;
  base.options.decode_buckets = {1, 8};
  std::vector<engine::GenerationRequest> requests = Requests();
  requests.pop_back();  // 7 and 40 tokens are enough here
  for (auto& request : requests) request.params.max_tokens = 6;
  const auto runner = MustOpen(Folder(), base);
  base.threads = 2;
  base.options.max_num_batched_tokens = 16;
  base.options.prefill_buckets = {16};
  base.options.max_num_seqs = 3;
  base.options.decode_buckets.clear();
  const auto other = MustOpen(Folder(), base);
  ASSERT_TRUE(runner != nullptr && other != nullptr);
  const std::vector<engine::Answer> batched = engine::RunAll(other.get(), requests);
  for (size_t i = 0; i < requests.size(); ++i) ExpectSame(engine::RunAll(runner.get(), {requests[i]})[0], batched[i]);
}

std::vector<Param> Params() {
  std::vector<Param> params;
  for (const char* family : kFamilies) {
    params.push_back({std::string(family) + "_f32", DType::kF32});
    params.push_back({std::string(family) + "_bf16", DType::kBF16});
  }
  params.push_back({"qwen3_moe_f32", DType::kF32});
  params.push_back({"qwen3_moe_bf16", DType::kBF16});
  for (const DType kv : {DType::kF16, DType::kF8E4M3, DType::kI8}) {
    params.push_back({"llama_f32", DType::kF32, kv});
    params.push_back({"gemma3_bf16", DType::kBF16, kv});
  }
  return params;
}

INSTANTIATE_TEST_SUITE_P(All, InvarianceTest, ::testing::ValuesIn(Params()),
                         [](const auto& info) { return ::testing::PrintToString(info.param); });

}  // namespace
}  // namespace deepinfer::golden
