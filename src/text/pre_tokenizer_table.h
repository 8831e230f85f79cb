// The names of tokenizer.ggml.pre and the regexes they stand for. An unknown name is an error that lists the known
// ones: a wrong pre-tokenizer gives plausible text and wrong ids. Thread-safe (constant data). Sources: the
// tokenizer.json files of the named model families.
#pragma once

#include <string_view>
#include <vector>

#include "base/error.h"

namespace deepinfer::text {

struct PreTokenizer {
  std::vector<std::string_view> splits;  // applied one after the other; matches and gaps both become pieces
  bool ignore_merges = false;            // a piece that is a token is taken whole
  bool add_bos = false;                  // when the file does not say
};

Result<PreTokenizer> FindPreTokenizer(std::string_view name, const std::string& where);

}  // namespace deepinfer::text
