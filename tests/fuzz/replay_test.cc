// Runs every file of the saved corpus through its fuzz target, as it is, cut at every length, and with seeded
// mutations. A crash is the failure; under the sanitizer presets it also sees reads out of bounds.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "fuzz/targets.h"

namespace deepinfer::fuzz {
namespace {

std::vector<std::string> Corpus(std::string_view target) {
  std::vector<std::string> files;
  const std::filesystem::path folder = std::filesystem::path(DI_SOURCE_DIR) / "tests/fuzz/corpus" / target;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    std::ifstream stream(entry.path(), std::ios::binary);
    files.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
  }
  std::sort(files.begin(), files.end());  // the order of a folder is not fixed, that of the mutations must be
  return files;
}

// A copy of exactly this size on the heap, so that a sanitizer sees a read past it.
void Replay(const Target& target, std::string_view text) {
  const std::vector<char> exact(text.begin(), text.end());
  target.run(std::as_bytes(std::span(exact)));
}

std::string Mutated(std::string file, std::mt19937& random) {
  static constexpr uint8_t kEdges[] = {0x00, 0x01, 0x7f, 0x80, 0xff, '{', '[', '"', '9', '-'};
  const int changes = 1 + static_cast<int>(random() % 4);
  for (int i = 0; i < changes && !file.empty(); ++i) {
    const size_t at = random() % file.size();
    switch (random() % 4) {
      case 0:
        file[at] = static_cast<char>(kEdges[random() % std::size(kEdges)]);
        break;
      case 1:
        file[at] = static_cast<char>(file[at] ^ (1 << (random() % 8)));
        break;
      case 2:
        file.erase(at, 1 + random() % 8);
        break;
      default:
        file.insert(at, file.substr(random() % file.size(), 1 + random() % 16));
        break;
    }
  }
  return file;
}

class ReplayTest : public testing::TestWithParam<Target> {};

TEST_P(ReplayTest, CorpusCutsAndMutations) {
  const std::vector<std::string> corpus = Corpus(GetParam().name);
  ASSERT_GE(corpus.size(), 3u);
  std::mt19937 random(20240607);
  for (const std::string& file : corpus) {
    Replay(GetParam(), file);
    for (size_t size = 0; size < file.size(); ++size) Replay(GetParam(), std::string_view(file).substr(0, size));
    for (int i = 0; i < 500; ++i) Replay(GetParam(), Mutated(file, random));
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, ReplayTest, testing::ValuesIn(kTargets),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace deepinfer::fuzz
