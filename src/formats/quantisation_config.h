// How the weights of a Hugging Face folder are quantised: `quantization_config` of config.json. Internal to this room.
//
// Methods: fp8 and fbgemm_fp8 (e4m3), compressed-tensors (fp8, int8, packed int4), gptq and awq (int4). Every setting
// that would change what the stored bytes mean is either read here or an error that names the field. Settings for
// activations are not needed: activations stay as they are. Thread-safe.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "formats/hf_config.h"

namespace deepinfer::formats {

enum class QuantisationMethod { kNone, kFp8, kCompressed, kGptq, kAwq };

struct QuantisationConfig {
  QuantisationMethod method = QuantisationMethod::kNone;
  std::string where;       // "dir/config.json: quantization_config"
  int64_t group_size = 0;  // gptq, awq: inputs that share a scale; -1: all of a row
  int zero_offset = 0;     // gptq: added to stored zero points
  int64_t block_rows = 0;  // scales in blocks: their size; 0 if there are none
  int64_t block_columns = 0;
};

Result<QuantisationConfig> ReadQuantisation(const HfConfig& config);

}  // namespace deepinfer::formats
