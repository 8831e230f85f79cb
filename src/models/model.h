// A model: one architecture with one config. It declares its states and records its step for any shape; nothing else.
//
// Recording is pure: the same config, shape and weight types give the same canonical text. A model is immutable after
// creation: thread-safe. Weight names are those of Hugging Face checkpoints ("model.layers.0.self_attn.q_proj.weight").
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "ir/graph.h"
#include "models/state_spec.h"
#include "models/step.h"

namespace deepinfer::models {

// The weights at hand, as the backend will hold them. Asking for a missing one is an error that names it.
class WeightTable {
 public:
  void Add(const std::string& name, ir::Type type) { types_[name] = std::move(type); }
  const ir::Type* Find(const std::string& name) const;
  const std::map<std::string, ir::Type>& all() const { return types_; }

 private:
  std::map<std::string, ir::Type> types_;
};

// How a weight is divided among ranks.
enum class Split : uint8_t {
  kNone,        // every rank has all of it
  kOutputs,     // dimension 0
  kKvOutputs,   // dimension 0, by key/value heads: ranks share one where there are fewer heads than ranks
  kInputs,      // dimension 1: what a rank computes is one term of a sum
  kVocabulary,  // dimension 0 if the vocabulary divides by the ranks, else none
};

// A weight that a model reads: matrices are [outputs, inputs]. Vectors (norms, biases) are expected as f32.
struct WeightSpec {
  std::string name;
  std::vector<int64_t> shape;
  Split split = Split::kNone;
  bool operator==(const WeightSpec&) const = default;
};

// What a rank holds of a weight: one of `pieces` equal parts of dimension `dim`, or all of it (dim < 0, one piece).
struct WeightShard {
  int dim = -1;
  int64_t pieces = 1;
  // Neighbours share a piece where there are fewer pieces than ranks.
  int64_t PieceOf(int64_t rank, int64_t ranks) const { return rank * pieces / ranks; }
  std::vector<int64_t> ShapeOf(std::vector<int64_t> whole) const;
};

struct ModelInfo {
  std::string architecture;  // "llama", "gemma3", ...
  int64_t vocab_size = 0;
  int64_t max_positions = 0;
  int64_t num_layers = 0;
  std::vector<int32_t> eos_ids;  // from the config; the tokenizer may add more
};

class Model {
 public:
  virtual ~Model() = default;
  virtual const ModelInfo& info() const = 0;
  // Every weight the model reads, in the order of the graph's inputs. With a tied head the head's own name is not
  // there.
  virtual const std::vector<WeightSpec>& Weights() const = 0;
  std::vector<std::string> WeightNames() const;
  // What each of `ranks` holds of Weights(), in the same order. Fails, naming it, if something does not divide. Here:
  // all of everything.
  virtual Result<std::vector<WeightShard>> Shards(int64_t ranks) const;
  // Of one rank. `ranks` must be one that Shards accepts.
  virtual std::vector<StateSpec> States(DType kv, int64_t ranks) const = 0;
  // The step of one of shape.ranks, from the types of what it holds. Ranks with equal types have equal text.
  virtual Result<ir::Module> Record(const StepShape& shape, const WeightTable& weights) const = 0;
};

}  // namespace deepinfer::models
