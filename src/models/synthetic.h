// A model without weights that says what a JSON file tells it to: for tests of the engine, the text layer and the
// server.
//
//   {"vocab_size": 320, "scripts": [[5, 6, 7], [8, 9]], "eos_ids": [2], "max_positions": 4096, "nan_at": [[0, 1]]}
//
// The script of a request is (its first token) mod (number of scripts). The next token after a context is the script's
// token n, where n is the largest number such that the context ends with the script's first n tokens. So a prompt is
// followed by the script from its start, whatever the prompt, however it is cut into chunks, recomputed or shared;
// after the last token comes the first of eos_ids, or the script again if there are none. The scripted token's logit is
// 40, all others are 0; nan_at lists [script, n] where the row is NaN instead. The context is read back from a paged KV
// state of one head (each token's id in base-16 digits, exact in every KV type), so wrong block tables or slots give
// wrong tokens. Contexts are compared by two hashes of 15 bits each; chances of a false match are below 1e-8 per
// comparison. Immutable after creation: thread-safe.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "models/model.h"

namespace deepinfer::models {

// A weight made here: f32.
struct GeneratedWeight {
  WeightSpec spec;
  std::vector<float> values;
};

class SyntheticModel final : public Model {
 public:
  static Result<std::unique_ptr<SyntheticModel>> Open(const std::string& path);
  static Result<std::unique_ptr<SyntheticModel>> Parse(std::string_view text, const std::string& where);

  const ModelInfo& info() const override { return info_; }
  const std::vector<WeightSpec>& Weights() const override { return specs_; }
  // The data of Weights(), in the same order.
  const std::vector<GeneratedWeight>& GeneratedWeights() const { return weights_; }
  std::vector<StateSpec> States(DType kv, int64_t ranks) const override;
  Result<ir::Module> Record(const StepShape& shape, const WeightTable& weights) const override;

 private:
  SyntheticModel() = default;
  void BuildTables(const std::vector<std::vector<int64_t>>& scripts, const std::vector<std::vector<int64_t>>& nan_at);

  friend class SyntheticRecorder;
  ModelInfo info_;
  int64_t scripts_ = 0;
  int64_t longest_ = 0;  // tokens of the longest script
  std::vector<GeneratedWeight> weights_;
  std::vector<WeightSpec> specs_;
};

}  // namespace deepinfer::models
