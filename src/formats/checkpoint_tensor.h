// One tensor of a checkpoint (checkpoint.h).
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/encoding.h"
#include "base/row_reader.h"

namespace deepinfer::formats {

struct CheckpointTensor {
  std::string name;
  std::optional<Encoding> encoding;  // none if this program cannot read the type; Get() never returns such a tensor
  std::string type_name;             // the file's own name of the type
  std::vector<int64_t> shape;        // outermost first
  std::span<const std::byte> data;   // as long as shape and encoding say; empty if the rows must be made
  std::string file;                  // where it lies
  RowReader rows;                    // set if codes and scales lie apart: makes rows of `encoding`
  InputOrder order;                  // of the columns of those rows
};

}  // namespace deepinfer::formats
