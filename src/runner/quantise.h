// Writes a model as a GGUF file with its matrices in another encoding.
//
// Matrices become `type`, or what their rows can be cut into where they are no whole number of its blocks; the head (a
// tied embedding too) gets at least 6 bits. Vectors become f32. Metadata and tokenizer are the input's. The file is
// made beside its place and read back as a model before it is renamed. Memory: a piece of one tensor at a time.
// Deterministic: any number of threads gives the same bytes. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/encoding.h"
#include "base/error.h"
#include "formats/gguf_writer.h"

namespace deepinfer::runner {

struct QuantiseOptions {
  Encoding type = Encoding::kQ8_0;
  int threads = 1;
  std::function<void(int64_t bytes)> progress;  // bytes read since the last call; may be empty
  // Adds the tokenizer of a Hugging Face folder whose embedding has `vocab` rows; the result is a warning or "". Empty:
  // the file gets none. A GGUF input brings its own.
  std::function<Result<std::string>(int64_t vocab, const std::vector<int32_t>& eos, formats::GgufWriter* writer)>
      add_tokenizer;
};

struct QuantiseReport {
  struct Tensor {
    std::string name;
    std::string from;
    Encoding to = Encoding::kF32;
    int64_t bytes = 0;  // written
  };
  std::vector<Tensor> tensors;
  std::vector<std::string> warnings;
};

// in: a GGUF file or a Hugging Face folder; out: the file to write, which may be there already but must not be `in`.
Result<QuantiseReport> QuantiseModel(const std::string& in, const std::string& out, const QuantiseOptions& options);

// Whether GGUF files can hold the encoding; the choices of QuantiseOptions::type.
std::vector<Encoding> QuantiseTypes();

}  // namespace deepinfer::runner
