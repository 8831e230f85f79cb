#include "formats/expert_tensors.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <memory>
#include <string_view>

namespace deepinfer::formats {
namespace {

constexpr std::string_view kExperts = ".experts.";
constexpr size_t kMaxDigits = 6;

struct ExpertName {
  std::string joined;
  int64_t expert = 0;
};

std::optional<ExpertName> ParseExpertName(const std::string& name) {
  const size_t at = name.find(kExperts);
  if (at == std::string::npos || !name.ends_with(".weight")) return std::nullopt;
  const size_t first = at + kExperts.size(), dot = name.find('.', first);
  if (dot == std::string::npos || dot == first || dot - first > kMaxDigits) return std::nullopt;
  ExpertName parsed;
  const auto [end, error] = std::from_chars(name.data() + first, name.data() + dot, parsed.expert);
  if (error != std::errc() || end != name.data() + dot || parsed.expert < 0) return std::nullopt;
  parsed.joined = name.substr(0, first) + name.substr(dot + 1);
  return parsed;
}

using Experts = std::map<int64_t, CheckpointTensor>;

tl::unexpected<Error> Bad(const CheckpointTensor& tensor, std::string message) {
  return MakeError(ErrorCode::kInvalidArgument, tensor.file + ": tensor " + tensor.name, "{}", message);
}

// Reads row r of expert r / rows.
RowReader RowsOfAll(std::shared_ptr<const std::vector<CheckpointTensor>> experts) {
  const CheckpointTensor& first = experts->front();
  const int64_t rows = first.shape[0];
  const size_t row_bytes = RowBytes(*first.encoding, first.shape[1]);
  return [experts = std::move(experts), rows, row_bytes](int64_t begin, int64_t end, std::byte* out) {
    while (begin < end) {
      const CheckpointTensor& expert = (*experts)[static_cast<size_t>(begin / rows)];
      const int64_t from = begin % rows, count = std::min(rows - from, end - begin);
      const size_t bytes = static_cast<size_t>(count) * row_bytes;
      if (expert.rows) {
        expert.rows(from, from + count, out);
      } else {
        std::memcpy(out, expert.data.data() + static_cast<size_t>(from) * row_bytes, bytes);
      }
      begin += count;
      out += bytes;
    }
  };
}

Result<CheckpointTensor> Join(const std::string& name, Experts* experts) {
  const CheckpointTensor& first = experts->begin()->second;
  auto all = std::make_shared<std::vector<CheckpointTensor>>();
  CheckpointTensor joined;
  joined.name = name;
  joined.encoding = first.encoding;
  joined.type_name = first.type_name;
  joined.file = first.file;
  joined.shape = {static_cast<int64_t>(experts->size()), first.shape[0], first.shape[1]};
  int64_t expected = 0;
  for (const auto& [number, expert] : *experts) {
    if (number != expected++) return Bad(expert, fmt::format("there is no expert {} before it", expected - 1));
    if (expert.shape != first.shape || expert.encoding != first.encoding || expert.type_name != first.type_name) {
      return Bad(expert, fmt::format("its shape or type differs from that of {}", first.name));
    }
    if (expert.order != nullptr) return Bad(expert, "experts with inputs in another order are not supported");
  }
  for (auto& [number, expert] : *experts) all->push_back(std::move(expert));
  const bool readable = joined.encoding && joined.shape[1] > 0 && joined.shape[2] > 0;
  if (readable) joined.rows = RowsOfAll(std::move(all));
  return joined;
}

}  // namespace

Result<std::vector<CheckpointTensor>> JoinExperts(std::vector<CheckpointTensor> tensors) {
  std::map<std::string, Experts> groups;
  std::vector<CheckpointTensor> result;
  for (CheckpointTensor& tensor : tensors) {
    const auto parsed = ParseExpertName(tensor.name);
    if (!parsed || tensor.shape.size() != 2) {
      result.push_back(std::move(tensor));
      continue;
    }
    const std::string file = tensor.file, name = tensor.name;
    if (!groups[parsed->joined].emplace(parsed->expert, std::move(tensor)).second) {
      return MakeError(ErrorCode::kDataLoss, fmt::format("{}: tensor {}", file, name), "the expert is there twice");
    }
  }
  for (auto& [name, experts] : groups) {
    DI_ASSIGN_OR_RETURN(CheckpointTensor joined, Join(name, &experts));
    result.push_back(std::move(joined));
  }
  return result;
}

}  // namespace deepinfer::formats
