// The second start of a model in the same cache folder: graphs and packed weights come from disk, bits stay the same.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <mutex>

#include "backend/cache_files.h"
#include "formats/test_files.h"
#include "harness.h"

namespace deepinfer::golden {
namespace {

namespace fs = std::filesystem;

class WarmStartTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    path_ = OracleFolder("gemma3_bf16");
    if (GetParam() == "oracle") return;
    const Asset asset = FindModel(GetParam());
    DI_NEED_ASSET(asset);
    path_ = asset.path;
  }

  OpenConfig Base() {
    OpenConfig config;
    config.threads = 2;
    config.options.max_model_len = 256;
    config.options.max_num_seqs = 4;
    config.options.max_num_batched_tokens = 128;
    config.options.cache_dir = cache_.path();
    config.options.log = [this](const std::string& line) {
      const std::lock_guard lock(log_mutex_);
      log_.push_back(line);
    };
    return config;
  }

  std::unique_ptr<runner::ModelRunner> Start(const OpenConfig& config) {
    log_.clear();
    return MustOpen(path_, config);
  }
  static std::vector<float> Bits(runner::ModelRunner* runner) {
    Driver driver(runner, 1);
    const Ids prompt = {9, 8, 7, 6};
    const int64_t vocab = runner->model().info().vocab_size;
    std::vector<float> bits;
    auto output = driver.Prefill(0, prompt, true);
    EXPECT_TRUE(output);
    if (output) bits.assign(output->logits, output->logits + 4 * vocab);
    for (int step = 0; step < 3; ++step) {
      output = driver.Decode();
      EXPECT_TRUE(output);
      if (output) bits.insert(bits.end(), output->logits, output->logits + vocab);
    }
    return bits;
  }
  bool LogNames(const std::string& text) const {
    for (const std::string& line : log_) {
      if (line.find(text) != std::string::npos) return true;
    }
    return false;
  }
  std::vector<std::string> Files(const std::string& extension) const {
    std::vector<std::string> files;
    for (const auto& entry : fs::recursive_directory_iterator(cache_.path())) {
      if (entry.path().extension() == extension) files.push_back(entry.path().string());
    }
    return files;
  }
  // Files are replaced, never written over.
  static uint64_t Inode(const std::string& file) {
    struct stat info = {};
    EXPECT_EQ(::stat(file.c_str(), &info), 0);
    return info.st_ino;
  }
  static bool IsMapped(const std::string& file) {
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);) {
      if (line.find(file) != std::string::npos) return true;
    }
    return false;
  }

  std::string path_;
  const formats::TempFolder cache_;
  std::mutex log_mutex_;
  std::vector<std::string> log_;
};

TEST_P(WarmStartTest, EverythingComesFromDisk) {
  std::vector<float> bits;
  int64_t graphs = 0;
  {
    const auto cold = Start(Base());
    ASSERT_NE(cold, nullptr);
    graphs = static_cast<int64_t>(cold->graphs().size());
    EXPECT_EQ(cold->cache().stats().misses, graphs);
    EXPECT_EQ(cold->cache().stats().disk_hits, 0);
    EXPECT_TRUE(LogNames("no entry yet"));
    bits = Bits(cold.get());
    ASSERT_TRUE(cold->backend().Persist());
  }
  const std::vector<std::string> packed = Files(backend::kBlobSuffix);
  ASSERT_EQ(packed.size(), 1u);
  EXPECT_FALSE(IsMapped(packed[0]));
  const uint64_t written = Inode(packed[0]);
  for (const backend::WarmStart mode : {backend::WarmStart::kTrust, backend::WarmStart::kVerified}) {
    OpenConfig config = Base();
    config.options.warm_start = mode;
    const auto warm = Start(config);
    ASSERT_NE(warm, nullptr);
    EXPECT_EQ(warm->cache().stats().disk_hits, graphs);
    EXPECT_EQ(warm->cache().stats().misses, 0);
    if (mode == backend::WarmStart::kTrust) {
      EXPECT_EQ(warm->cache().stats().record_ms, 0);
    }
    EXPECT_TRUE(log_.empty()) << log_.front();
    EXPECT_TRUE(IsMapped(packed[0]));
    EXPECT_TRUE(SameBits(Bits(warm.get()), bits));
    ASSERT_TRUE(warm->backend().Persist());
    EXPECT_EQ(Inode(packed[0]), written) << "nothing was packed, so nothing is to be written";
  }
}

TEST_P(WarmStartTest, AChangedOptionIsAMissThatNamesTheField) {
  ASSERT_NE(Start(Base()), nullptr);
  OpenConfig changed = Base();
  changed.options.max_num_seqs = 5;
  auto runner = Start(changed);
  ASSERT_NE(runner, nullptr);
  EXPECT_EQ(runner->cache().stats().disk_hits, 0);
  EXPECT_TRUE(LogNames("slots is 5, there 4"));
  changed = Base();
  changed.options.activations = DType::kF32;
  runner = Start(changed);
  ASSERT_NE(runner, nullptr);
  EXPECT_EQ(runner->cache().stats().disk_hits, 0);
  EXPECT_TRUE(LogNames("activations is f32, there bf16"));
  changed = Base();
  changed.isa = Isa::kPortable;
  if (Base().isa == changed.isa) return;
  runner = Start(changed);
  ASSERT_NE(runner, nullptr);
  EXPECT_EQ(runner->cache().stats().disk_hits, 0);
  EXPECT_TRUE(LogNames("target is cpu portable"));
}

TEST_P(WarmStartTest, ThreadsAreNoPartOfTheKey) {
  const auto cold = Start(Base());
  ASSERT_NE(cold, nullptr);
  OpenConfig changed = Base();
  changed.threads = 1;
  const auto warm = Start(changed);
  ASSERT_NE(warm, nullptr);
  EXPECT_EQ(warm->cache().stats().misses, 0);
  EXPECT_TRUE(SameBits(Bits(warm.get()), Bits(cold.get())));
}

TEST_P(WarmStartTest, DamagedFilesAreMadeAgain) {
  std::vector<float> bits;
  {
    const auto cold = Start(Base());
    ASSERT_NE(cold, nullptr);
    bits = Bits(cold.get());
    ASSERT_TRUE(cold->backend().Persist());
  }
  const std::vector<std::string> graphs = Files(backend::kGraphSuffix);
  ASSERT_GE(graphs.size(), 4u);
  fs::resize_file(graphs[0], fs::file_size(graphs[0]) / 2);
  fs::resize_file(graphs[1], 3);
  {
    std::fstream file(graphs[2], std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(fs::file_size(graphs[2]) - 100));
    file.put('\x7f');
  }
  for (const std::string& packed : Files(backend::kBlobSuffix)) fs::resize_file(packed, fs::file_size(packed) / 2);
  {
    const auto again = Start(Base());
    ASSERT_NE(again, nullptr);
    EXPECT_EQ(again->cache().stats().misses, 3);
    EXPECT_EQ(again->cache().stats().disk_hits, static_cast<int64_t>(again->graphs().size()) - 3);
    EXPECT_EQ(log_.size(), 3u);
    EXPECT_TRUE(SameBits(Bits(again.get()), bits));
    ASSERT_TRUE(again->backend().Persist());
  }
  const auto healed = Start(Base());
  ASSERT_NE(healed, nullptr);
  EXPECT_EQ(healed->cache().stats().misses, 0);
  for (const std::string& packed : Files(backend::kBlobSuffix)) EXPECT_TRUE(IsMapped(packed));
  EXPECT_TRUE(SameBits(Bits(healed.get()), bits));
}

INSTANTIATE_TEST_SUITE_P(Models, WarmStartTest, ::testing::Values("oracle", "smollm2"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace deepinfer::golden
