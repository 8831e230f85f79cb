#include "models/decoder_model.h"

#include <algorithm>
#include <set>

#include "ir/collective.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "models/test_models.h"

namespace deepinfer::models {
namespace {

const char* const kFamilies[] = {"LlamaForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM", "Gemma3ForCausalLM"};

std::unique_ptr<Model> Small(const std::string& architecture, const nlohmann::json& extra = {}) {
  auto model = CreateFromJson(SmallConfig(architecture, extra));
  EXPECT_TRUE(model) << model.error().ToString();
  return model ? std::move(*model) : nullptr;
}

ir::Module RecordOrFail(const Model& model, const StepShape& shape, const WeightTable& weights) {
  auto module = model.Record(shape, weights);
  EXPECT_TRUE(module) << model.info().architecture << ": " << module.error().ToString();
  return module ? std::move(*module) : ir::Module{};
}

std::vector<std::string> InputNames(const ir::Function& function, ir::InputKind kind) {
  std::vector<std::string> names;
  for (const ir::Input& input : function.inputs) {
    if (input.kind == kind) names.push_back(input.name);
  }
  return names;
}

int Count(const ir::Function& function, ir::Op op) {
  return static_cast<int>(
      std::count_if(function.nodes.begin(), function.nodes.end(), [op](const ir::Node& n) { return n.op == op; }));
}

const ir::Node* FindNode(const ir::Function& function, ir::Op op) {
  const auto it =
      std::find_if(function.nodes.begin(), function.nodes.end(), [op](const ir::Node& n) { return n.op == op; });
  return it == function.nodes.end() ? nullptr : &*it;
}

TEST(DecoderModelTest, RecordsEveryFamilyInBothPhases) {
  for (const char* family : kFamilies) {
    const auto model = Small(family);
    ASSERT_NE(model, nullptr);
    for (const Phase phase : {Phase::kPrefill, Phase::kDecode}) {
      const ir::Module module = RecordOrFail(*model, SmallShape(phase), PlainWeights(*model));
      ASSERT_FALSE(module.functions.empty());
      EXPECT_TRUE(ir::Verify(module));
      const std::string text = ir::Print(module);
      EXPECT_EQ(text, ir::Print(RecordOrFail(*model, SmallShape(phase), PlainWeights(*model))));
      auto parsed = ir::Parse(text);
      ASSERT_TRUE(parsed) << parsed.error().ToString();
      EXPECT_EQ(ir::Print(*parsed), text);
      EXPECT_EQ(module.entry().name, "step");
      EXPECT_EQ(Count(module.entry(), ir::Op::kCall), 3);
      EXPECT_EQ(InputNames(module.entry(), ir::InputKind::kWeight), model->WeightNames());
    }
  }
}

TEST(DecoderModelTest, MetadataAndStatesInOrder) {
  const auto model = Small("LlamaForCausalLM");
  const ir::Module prefill = RecordOrFail(*model, SmallShape(Phase::kPrefill), PlainWeights(*model));
  EXPECT_EQ(InputNames(prefill.entry(), ir::InputKind::kMetadata),
            (std::vector<std::string>{
                "live_counts",  "token_ids",          "token_slots",     "positions",     "slots",    "block_tables",
                "query_start",  "sampling_positions", "row_to_slot",     "temperature",   "top_k",    "top_p",
                "min_p",        "typical_p",          "xtc_probability", "xtc_threshold", "uniforms", "xtc_uniforms",
                "has_mask",     "token_mask",         "num_adjustments", "adjust_ids",    "bias",     "repetition",
                "penalty",      "logprob_ids",        "want_logprobs"}));
  const ir::Module decode = RecordOrFail(*model, SmallShape(Phase::kDecode), PlainWeights(*model));
  EXPECT_EQ(InputNames(decode.entry(), ir::InputKind::kMetadata),
            (std::vector<std::string>{
                "live_counts", "token_ids",       "token_slots",   "positions", "slots",        "block_tables",
                "query_start", "row_to_slot",     "temperature",   "top_k",     "top_p",        "min_p",
                "typical_p",   "xtc_probability", "xtc_threshold", "uniforms",  "xtc_uniforms", "has_mask",
                "token_mask",  "num_adjustments", "adjust_ids",    "bias",      "repetition",   "penalty",
                "logprob_ids", "want_logprobs"}));
  std::vector<std::string> states;
  for (const StateSpec& state : model->States(DType::kBF16, 1)) states.push_back(state.name);
  states.push_back(kTokenStore);
  EXPECT_EQ(InputNames(decode.entry(), ir::InputKind::kState), states);
  ASSERT_EQ(decode.live_counts, decode.entry().inputs[0].value);
  std::vector<std::string> outputs;
  for (const ir::Output& output : decode.entry().outputs) outputs.push_back(output.name);
  EXPECT_EQ(outputs, (std::vector<std::string>{"sampled", "logits", "logprob", "top_ids", "top_logprobs"}));
}

TEST(DecoderModelTest, KvViewsShareABuffer) {
  const auto model = Small("LlamaForCausalLM");
  const ir::Module module = RecordOrFail(*model, SmallShape(Phase::kDecode), PlainWeights(*model));
  for (const ir::Input& input : module.entry().inputs) {
    if (input.name == "kv.1.k" || input.name == "kv.1.v") {
      EXPECT_EQ(input.offset, input.name == "kv.1.k" ? 0 : 9 * 2 * 8 * 16);
      EXPECT_EQ(input.buffer, "kv.1");
      EXPECT_EQ(input.pool, "kv");
      EXPECT_EQ(ir::ToString(module.entry().TypeOf(input.value)), "bf16[9,2,8,16]");
    }
  }
}

TEST(DecoderModelTest, LayersAreOutlinedOncePerKind) {
  const auto llama = Small("LlamaForCausalLM");
  EXPECT_EQ(RecordOrFail(*llama, SmallShape(Phase::kDecode), PlainWeights(*llama)).functions.size(), 2u);
  const auto gemma = Small("Gemma3ForCausalLM", {{"num_hidden_layers", 7}});
  const ir::Module module = RecordOrFail(*gemma, SmallShape(Phase::kDecode), PlainWeights(*gemma));
  ASSERT_EQ(module.functions.size(), 3u);
  EXPECT_EQ(FindNode(*module.Find("layer_0"), ir::Op::kPagedAttention)->Int("window"), 16);
  EXPECT_EQ(FindNode(*module.Find("layer_1"), ir::Op::kPagedAttention)->Int("window"), 0);
  EXPECT_EQ(Count(module.entry(), ir::Op::kRopeTable), 2);
  EXPECT_EQ(Count(*module.Find("layer_0"), ir::Op::kRmsNorm), 6);
  EXPECT_EQ(FindNode(*module.Find("layer_0"), ir::Op::kRmsNorm)->Float("offset"), 1.0);
}

TEST(DecoderModelTest, MixedEncodingsGetTheirOwnFunctions) {
  const auto model = Small("LlamaForCausalLM", {{"num_hidden_layers", 4}});
  WeightTable weights = PlainWeights(*model, Encoding::kQ8_0);
  for (const int layer : {1, 3}) {
    weights.Add(LayerWeightName(layer, "mlp.down_proj.weight"), ir::Type::Weight(Encoding::kQ4_0, {64, 128}));
  }
  const ir::Module module = RecordOrFail(*model, SmallShape(Phase::kPrefill), weights);
  ASSERT_EQ(module.functions.size(), 3u);
  std::vector<std::string> callees;
  for (const ir::Node& node : module.entry().nodes) {
    if (node.op == ir::Op::kCall) callees.push_back(node.Str("callee"));
  }
  EXPECT_EQ(callees, (std::vector<std::string>{"layer_0", "layer_1", "layer_0", "layer_1"}));
}

TEST(DecoderModelTest, HeadReadsWhatTheConfigSays) {
  for (const bool tied : {true, false}) {
    const auto model = Small("LlamaForCausalLM", {{"tie_word_embeddings", tied}});
    const std::vector<std::string> names = model->WeightNames();
    EXPECT_EQ(std::count(names.begin(), names.end(), "lm_head.weight"), tied ? 0 : 1);
    const ir::Module module = RecordOrFail(*model, SmallShape(Phase::kDecode), PlainWeights(*model));
    const ir::Node* head = FindNode(module.entry(), ir::Op::kLinear);
    ASSERT_NE(head, nullptr);
    EXPECT_EQ(module.entry().FindInput(head->operands[1])->name, tied ? "model.embed_tokens.weight" : "lm_head.weight");
    EXPECT_EQ(module.entry().TypeOf(head->results[0]).dtype, DType::kF32);
  }
}

TEST(DecoderModelTest, BiasesAndQkNorms) {
  const auto names = [](const char* family, const nlohmann::json& extra = {}) {
    const std::vector<std::string> all = Small(family, extra)->WeightNames();
    return std::set<std::string>(all.begin(), all.end());
  };
  const std::string layer = "model.layers.2.";
  EXPECT_TRUE(names("Qwen2ForCausalLM").count(layer + "self_attn.k_proj.bias"));
  EXPECT_FALSE(names("Qwen2ForCausalLM").count(layer + "self_attn.o_proj.bias"));
  EXPECT_TRUE(names("Qwen3ForCausalLM").count(layer + "self_attn.q_norm.weight"));
  EXPECT_TRUE(names("Gemma3ForCausalLM").count(layer + "post_feedforward_layernorm.weight"));
  EXPECT_TRUE(names("LlamaForCausalLM", {{"mlp_bias", true}}).count(layer + "mlp.down_proj.bias"));
  EXPECT_FALSE(names("LlamaForCausalLM").count(layer + "mlp.down_proj.bias"));
}

TEST(DecoderModelTest, MissingOrMisshapenWeightIsNamed) {
  const auto model = Small("LlamaForCausalLM");
  const WeightTable all = PlainWeights(*model);
  WeightTable missing;
  for (const auto& [name, type] : all.all()) {
    if (name != "model.layers.1.self_attn.v_proj.weight") missing.Add(name, type);
  }
  auto module = model->Record(SmallShape(Phase::kDecode), missing);
  ASSERT_FALSE(module);
  EXPECT_NE(module.error().ToString().find("model.layers.1.self_attn.v_proj.weight"), std::string::npos);
  WeightTable misshapen = PlainWeights(*model);
  misshapen.Add("model.norm.weight", ir::Type::Weight(Encoding::kF32, {63}));
  module = model->Record(SmallShape(Phase::kDecode), misshapen);
  ASSERT_FALSE(module);
  EXPECT_NE(module.error().ToString().find("[63]; the config wants [64]"), std::string::npos);
}

// What one of `ranks` holds.
WeightTable WeightsOfRank(const Model& model, int64_t ranks) {
  const auto shards = model.Shards(ranks);
  EXPECT_TRUE(shards) << shards.error().ToString();
  WeightTable table;
  for (size_t i = 0; shards && i < shards->size(); ++i) {
    const WeightSpec& weight = model.Weights()[i];
    table.Add(weight.name, ir::Type::Weight(Encoding::kF32, (*shards)[i].ShapeOf(weight.shape)));
  }
  return table;
}

TEST(DecoderModelTest, RanksRecordANarrowerModelWithCollectives) {
  for (const char* family : kFamilies) {
    const auto model = Small(family);
    StepShape shape = SmallShape(Phase::kDecode);
    shape.ranks = 4;
    const ir::Module module = RecordOrFail(*model, shape, WeightsOfRank(*model, 4));
    ASSERT_FALSE(module.functions.empty());
    EXPECT_EQ(ir::WorldSize(module), 4);
    EXPECT_EQ(InputNames(module.entry(), ir::InputKind::kMetadata).back(), ir::kRankInput);
    EXPECT_EQ(Count(module.entry(), ir::Op::kAllReduce), 1) << "the embedding";
    EXPECT_EQ(Count(module.entry(), ir::Op::kAllGather), 1) << "the head";
    EXPECT_EQ(Count(*module.Find("layer_0"), ir::Op::kAllReduce), 2) << "o_proj and down_proj";
    const ir::Input* k_cache = nullptr;
    for (const ir::Input& input : module.entry().inputs) {
      if (input.name == "kv.1.k") k_cache = &input;
    }
    ASSERT_NE(k_cache, nullptr);
    EXPECT_EQ(ir::ToString(module.entry().TypeOf(k_cache->value)), "bf16[9,1,8,16]") << "two ranks share a head";
    EXPECT_EQ(model->States(DType::kBF16, 4)[0].row, (std::vector<int64_t>{1, 16}));
  }
}

TEST(DecoderModelTest, OneRankHasNoCollectives) {
  const auto model = Small("LlamaForCausalLM");
  const ir::Module module = RecordOrFail(*model, SmallShape(Phase::kPrefill), WeightsOfRank(*model, 1));
  EXPECT_EQ(ir::WorldSize(module), 1);
  EXPECT_EQ(InputNames(module.entry(), ir::InputKind::kMetadata).back(), "want_logprobs");
}

TEST(DecoderModelTest, WeightsAreDividedAsTheirUseAsks) {
  const auto model = Small("LlamaForCausalLM", {{"attention_bias", true}, {"mlp_bias", true}});
  const auto shapes = [&](const std::string& name) {
    std::string text;
    for (const int64_t ranks : {1, 2, 4}) {
      const WeightTable weights = WeightsOfRank(*model, ranks);
      const ir::Type* type = weights.Find(name);
      text += type == nullptr ? "?" : ir::ToString(*type).substr(3);
    }
    return text;
  };
  EXPECT_EQ(shapes("model.embed_tokens.weight"), "[320,64][160,64][80,64]");
  EXPECT_EQ(shapes("model.norm.weight"), "[64][64][64]");
  const std::string layer = "model.layers.2.";
  EXPECT_EQ(shapes(layer + "self_attn.q_proj.weight"), "[64,64][32,64][16,64]");
  EXPECT_EQ(shapes(layer + "self_attn.q_proj.bias"), "[64][32][16]");
  EXPECT_EQ(shapes(layer + "self_attn.k_proj.weight"), "[32,64][16,64][16,64]");
  EXPECT_EQ(shapes(layer + "self_attn.k_proj.bias"), "[32][16][16]");
  EXPECT_EQ(shapes(layer + "self_attn.o_proj.weight"), "[64,64][64,32][64,16]");
  EXPECT_EQ(shapes(layer + "self_attn.o_proj.bias"), "[64][64][64]");
  EXPECT_EQ(shapes(layer + "mlp.up_proj.weight"), "[128,64][64,64][32,64]");
  EXPECT_EQ(shapes(layer + "mlp.down_proj.weight"), "[64,128][64,64][64,32]");
  EXPECT_EQ(shapes(layer + "mlp.down_proj.bias"), "[64][64][64]");
}

// Rank r of four holds key/value head r * 2 / 4 of two.
TEST(DecoderModelTest, NeighboursShareAKeyValueHead) {
  const WeightShard shard{0, 2};
  std::vector<int64_t> pieces;
  for (int64_t rank = 0; rank < 4; ++rank) pieces.push_back(shard.PieceOf(rank, 4));
  EXPECT_EQ(pieces, (std::vector<int64_t>{0, 0, 1, 1}));
}

TEST(DecoderModelTest, WhatDoesNotDivideAmongRanks) {
  const auto problem = [](const nlohmann::json& extra, int64_t ranks) {
    const auto shards = Small("LlamaForCausalLM", extra)->Shards(ranks);
    return shards ? "" : shards.error().ToString();
  };
  EXPECT_EQ(problem({}, 3), "--tensor-parallel-size: the model's 4 attention heads do not divide by 3");
  EXPECT_EQ(problem({{"intermediate_size", 126}}, 4),
            "--tensor-parallel-size: the model's 126 feed-forward channels do not divide by 4");
  EXPECT_EQ(problem({{"num_attention_heads", 6}, {"num_key_value_heads", 3}}, 2),
            "--tensor-parallel-size: the model's 3 key/value heads do not divide by 2");
  EXPECT_EQ(problem({}, 0), "--tensor-parallel-size: must be positive, got 0");
  // The vocabulary may: then every rank has all of it.
  const auto model = Small("LlamaForCausalLM", {{"vocab_size", 321}});
  StepShape shape = SmallShape(Phase::kDecode);
  shape.ranks = 2;
  const ir::Module module = RecordOrFail(*model, shape, WeightsOfRank(*model, 2));
  EXPECT_EQ(Count(module.entry(), ir::Op::kAllGather), 0);
  EXPECT_EQ(Count(module.entry(), ir::Op::kAllReduce), 0);
}

TEST(DecoderModelTest, ImpossibleShapesAreErrors) {
  const auto model = Small("LlamaForCausalLM");
  StepShape shape = SmallShape(Phase::kDecode);
  shape.rows = 3;
  EXPECT_FALSE(model->Record(shape, PlainWeights(*model)));
  shape = SmallShape(Phase::kPrefill);
  shape.blocks = 0;
  EXPECT_FALSE(model->Record(shape, PlainWeights(*model)));
  shape.blocks = int64_t{1} << 26;  // V would start past element 2^32
  auto module = model->Record(shape, PlainWeights(*model));
  ASSERT_FALSE(module);
  EXPECT_NE(module.error().ToString().find("2^32"), std::string::npos);
}

}  // namespace
}  // namespace deepinfer::models
