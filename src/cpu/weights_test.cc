#include "cpu/weights.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>

#include "backend/test_util.h"
#include "base/placement.h"
#include "cpu/kernels/linear/linear.h"
#include "cpu/test_util.h"

namespace deepinfer::cpu {
namespace {

using backend::TempDir;

constexpr int64_t kRows = 70;
constexpr int64_t kColumns = 64;

struct Source {
  std::vector<std::byte> bytes;
  backend::WeightMap map;

  explicit Source(uint32_t seed, int64_t rows = kRows) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    const size_t row = RowBytes(Encoding::kQ8_0, kColumns);
    bytes.resize(2 * rows * row);
    std::vector<float> values(kColumns);
    for (int64_t r = 0; r < 2 * rows; ++r) {
      for (float& v : values) v = normal(random);
      EncodeRow(Encoding::kQ8_0, values.data(), bytes.data() + r * row, kColumns);
    }
    map["a"] = {"a", Encoding::kQ8_0, {rows, kColumns}, bytes.data()};
    map["b"] = {"b", Encoding::kQ8_0, {rows, kColumns}, bytes.data() + rows * row};
  }
};

std::vector<std::byte> PackedBytes(Weights* weights) {
  const auto packed = weights->Packed({"a", "b"});
  EXPECT_TRUE(packed.has_value()) << (packed ? "" : packed.error().ToString());
  if (!packed) return {};
  const auto* data = static_cast<const std::byte*>(*packed);
  return {data, data + PackedLinearBytes(Encoding::kQ8_0, 2 * kRows, kColumns)};
}

std::vector<std::byte> Fresh(const Source& source) {
  Weights weights(1);
  weights.SetSource(source.map);
  return PackedBytes(&weights);
}

// Rows made on demand pack to the same bytes, alone and beside rows that are there.
TEST(WeightsTest, RowsMadeOnDemandPackLikeRowsThatAreThere) {
  const Source source(5);
  const size_t row = RowBytes(Encoding::kQ8_0, kColumns);
  std::atomic<int64_t> made{0};
  const auto on_demand = [&](const std::byte* rows) {
    return [rows, row, &made](int64_t begin, int64_t end, std::byte* out) {
      std::memcpy(out, rows + begin * row, (end - begin) * row);
      made += end - begin;
    };
  };
  for (const bool both : {false, true}) {
    Weights weights(2);
    backend::WeightMap map = source.map;
    for (const char* name : {"a", "b"}) {
      if (!both && name[0] == 'a') continue;
      map[name].rows = on_demand(map[name].data);
      map[name].data = nullptr;
    }
    weights.SetSource(map);
    made = 0;
    EXPECT_EQ(PackedBytes(&weights), Fresh(source));
    EXPECT_EQ(made, both ? 2 * kRows : kRows);
    EXPECT_EQ(*weights.Rows("b"), nullptr) << "nobody has asked for plain rows";
    ASSERT_TRUE(weights.MakeRows("b"));
    ASSERT_TRUE(weights.MakeRows("b"));
    EXPECT_EQ(made, both ? 3 * kRows : 2 * kRows) << "they are made once";
    EXPECT_EQ(std::memcmp(*weights.Rows("b"), source.map.at("b").data, kRows * row), 0);
    ASSERT_TRUE(weights.MakeRows("a"));
    EXPECT_EQ(*weights.Rows("a") == source.map.at("a").data, !both);
  }
}

// A second start maps the file: it gives the first one's bytes although the source it could pack from is another.
TEST(WeightsTest, ASecondStartMapsWhatTheFirstPacked) {
  TempDir dir;
  const std::string file = dir.path() + "/w";
  const Source one(1), other(2);
  const std::vector<std::byte> want = Fresh(one);
  ASSERT_NE(want, Fresh(other));
  {
    Weights weights(2);
    weights.SetSource(one.map);
    weights.OpenFile(file, "id");
    EXPECT_EQ(weights.file_problem(), "");
    EXPECT_EQ(PackedBytes(&weights), want);
    EXPECT_EQ(*weights.Packed({"a", "b"}), *weights.Packed({"a", "b"}));
    EXPECT_NE(*weights.Packed({"b", "a"}), *weights.Packed({"a", "b"}));
    EXPECT_EQ(weights.packed_bytes(), static_cast<int64_t>(2 * want.size()));
    ASSERT_TRUE(weights.Persist());
  }
  const std::string written = backend::ReadFile(file);
  Weights weights(2);
  weights.SetSource(other.map);
  weights.OpenFile(file, "id");
  EXPECT_EQ(PackedBytes(&weights), want);
  EXPECT_EQ(weights.file_problem(), "");
  std::filesystem::remove(file);
  ASSERT_TRUE(weights.Persist());
  EXPECT_FALSE(std::filesystem::exists(file)) << "nothing was packed, so nothing is written";
}

TEST(WeightsTest, ForeignTruncatedAndMisshapenFilesAreReplacedWithAReason) {
  TempDir dir;
  const std::string file = dir.path() + "/w";
  const Source one(1), other(2);
  const auto use = [&](const Source& source, const std::string& identity, const std::string& reason) {
    SCOPED_TRACE(reason);
    Weights weights(1);
    weights.SetSource(source.map);
    weights.OpenFile(file, identity);
    EXPECT_EQ(PackedBytes(&weights), Fresh(source));
    EXPECT_NE(weights.file_problem().find(reason), std::string::npos) << weights.file_problem();
    EXPECT_EQ(weights.file_problem().empty(), reason.empty());
    ASSERT_TRUE(weights.Persist());
  };
  use(one, "id", "");
  use(other, "another", "made for \"id\", not for \"another\"");
  use(other, "another", "");
  const std::string good = backend::ReadFile(file);
  backend::WriteFile(file, good.substr(0, good.size() - 1));
  use(other, "another", "its header names");
  backend::WriteFile(file, "not at all");
  use(other, "another", "truncated");
  std::string damaged = good;
  damaged[60] ^= 1;  // in the index
  backend::WriteFile(file, damaged);
  use(other, "another", "checksum");
  {
    Weights weights(1);
    const Source shorter(3, kRows - 40);
    weights.SetSource(shorter.map);
    weights.OpenFile(file, "another");
    ASSERT_TRUE(weights.Packed({"a", "b"}));
    EXPECT_NE(weights.file_problem().find("'q8_0 a|b' has"), std::string::npos) << weights.file_problem();
  }
}

// The header says nothing about the weights' bytes: only a check of them all finds this.
TEST(WeightsTest, ADamagedWeightIsFoundWhereBytesAreVerified) {
  TempDir dir;
  const std::string file = dir.path() + "/w";
  const Source one(1);
  {
    Weights weights(1);
    weights.SetSource(one.map);
    weights.OpenFile(file, "id");
    ASSERT_EQ(PackedBytes(&weights), Fresh(one));
    ASSERT_TRUE(weights.Persist());
  }
  const std::string good = backend::ReadFile(file);
  std::string damaged = good;
  damaged[backend::kBlobAlignment] ^= 1;
  backend::WriteFile(file, damaged);
  Weights trusting(1);
  trusting.SetSource(one.map);
  trusting.OpenFile(file, "id", /*verify=*/false);
  EXPECT_NE(PackedBytes(&trusting), Fresh(one));
  EXPECT_EQ(trusting.file_problem(), "");
  Weights verifying(1);
  verifying.SetSource(one.map);
  verifying.OpenFile(file, "id", /*verify=*/true);
  EXPECT_EQ(PackedBytes(&verifying), Fresh(one));
  EXPECT_NE(verifying.file_problem().find("checksum"), std::string::npos) << verifying.file_problem();
  ASSERT_TRUE(verifying.Persist());
  EXPECT_EQ(backend::ReadFile(file), good);
}

// Packing, writing and asking at once: each lock is taken alone or in one order (a thread sanitizer sees the others).
TEST(WeightsTest, PackingPersistingAndCountingMayMeet) {
  TempDir dir;
  const Source small(4, kRows - 40), source(1);
  {
    Weights weights(1);
    weights.SetSource(small.map);
    weights.OpenFile(dir.path() + "/w", "id");
    ASSERT_TRUE(weights.Packed({"a", "b"}));
    ASSERT_TRUE(weights.Persist());
  }
  Weights weights(1);
  weights.SetSource(source.map);
  weights.OpenFile(dir.path() + "/w", "id");
  std::vector<std::thread> threads;
  threads.emplace_back([&] { EXPECT_TRUE(weights.Packed({"a", "b"})); });  // sets the problem
  threads.emplace_back([&] { EXPECT_TRUE(weights.Packed({"b", "a"})); });
  threads.emplace_back([&] { EXPECT_TRUE(weights.Persist()); });
  threads.emplace_back([&] { EXPECT_GE(weights.packed_bytes(), 0); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_NE(weights.file_problem().find("has"), std::string::npos);
}

TEST(WeightsTest, ThreadsThatAskForOneWeightGetOnePacking) {
  const Source source(1);
  Weights weights(2);
  weights.SetSource(source.map);
  const void* seen[4] = {};
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&, i] { seen[i] = *weights.Packed({"a", "b"}); });
  for (std::thread& thread : threads) thread.join();
  for (const void* pointer : seen) EXPECT_EQ(pointer, seen[0]);
  EXPECT_EQ(weights.packed_bytes(), static_cast<int64_t>(Fresh(source).size()));
}

TEST(WeightsTest, AMissingTensorIsNamedAndCanBeAskedForAgain) {
  const Source source(1);
  Weights weights(1);
  weights.SetSource(source.map);
  for (int i = 0; i < 2; ++i) {
    const auto packed = weights.Packed({"a", "c"});
    ASSERT_FALSE(packed.has_value());
    EXPECT_EQ(packed.error().code, ErrorCode::kNotFound);
    EXPECT_EQ(packed.error().where, "c");
  }
  ASSERT_TRUE(weights.Persist()) << "without a file there is nothing to do";
}

// A team with a member on each memory node of this machine; where there is one node only, both are there.
TeamPlacement OneMemberPerNode() {
  TeamPlacement placement;
  const Machine machine = ReadMachine("", AffinityCpus());
  for (const int node : machine.memory_nodes) {
    MemoryNode& each = placement.nodes.emplace_back();
    each.id = node;
    for (const Cpu& cpu : machine.cpus) {
      if (cpu.node == node) each.cpus.push_back(cpu.id);
    }
    placement.node_of.push_back(node);
  }
  if (placement.nodes.size() == 1) placement.node_of.resize(2, placement.nodes[0].id);
  return placement;
}

// Packed and copied from a file alike: each page of a weight lies on the node of the member that reads it, the bytes
// are the same, and nothing is written to the file a second time.
TEST(WeightsTest, PlacedWeightsLieNearTheirReaders) {
  const TeamPlacement placement = OneMemberPerNode();
  if (placement.nodes.empty()) GTEST_SKIP() << "this system does not say which nodes it has";
  constexpr int64_t kManyRows = 16384;
  const Source source(1, kManyRows);
  TempDir dir;
  const std::string file = dir.path() + "/w";
  const int64_t bytes = static_cast<int64_t>(PackedLinearBytes(Encoding::kQ8_0, 2 * kManyRows, kColumns));
  const int64_t panel = static_cast<int64_t>(PackedLinearBytes(Encoding::kQ8_0, kLinearGrain, kColumns));
  Weights plain(2);
  plain.SetSource(source.map);
  const void* want = *plain.Packed({"a", "b"});
  for (const bool from_file : {false, true}) {
    SCOPED_TRACE(from_file ? "from a file" : "packed");
    Weights weights(2, placement);
    weights.SetSource(source.map);
    weights.OpenFile(file, "id");
    EXPECT_EQ(weights.file_problem(), "");
    const auto* packed = static_cast<const std::byte*>(*weights.Packed({"a", "b"}));
    EXPECT_EQ(std::memcmp(packed, want, static_cast<size_t>(bytes)), 0);
    const auto nodes = NodesOfPages(packed, bytes);
    if (!nodes) GTEST_SKIP() << nodes.error().ToString();
    for (const PlacedRange& range : PlaceByMember(placement, bytes, panel)) {
      for (int64_t at = range.begin; at < range.end; at += PageSize()) {
        ASSERT_EQ((*nodes)[static_cast<size_t>(at / PageSize())], range.nodes[0]) << at;
      }
    }
    std::filesystem::remove(file);
    ASSERT_TRUE(weights.Persist());
    EXPECT_EQ(std::filesystem::exists(file), !from_file);
  }
}

TEST(WeightsTest, WeightsWithoutFixedReadersAreSpread) {
  const TeamPlacement placement = OneMemberPerNode();
  if (placement.nodes.empty()) GTEST_SKIP() << "this system does not say which nodes it has";
  constexpr int64_t kManyRows = 32768;
  const Source source(1, kManyRows);
  const int64_t bytes = static_cast<int64_t>(PackedLinearBytes(Encoding::kQ8_0, 2 * kManyRows, kColumns));
  Weights weights(2, placement);
  weights.SetSource(source.map);
  const auto* packed = static_cast<const std::byte*>(*weights.Packed({"a", "b"}, Share::kMoving));
  const auto nodes = NodesOfPages(packed, bytes);
  if (!nodes) GTEST_SKIP() << nodes.error().ToString();
  const int64_t share = static_cast<int64_t>(nodes->size() / placement.nodes.size());
  for (const MemoryNode& node : placement.nodes) {
    const int64_t pages = std::count(nodes->begin(), nodes->end(), node.id);
    EXPECT_LE(std::abs(pages - share), (int64_t{2} << 20) / PageSize()) << node.id;
  }
}

// Two backends of different instruction sets: each packs what it needs, writes the shared file, and a third starts from
// it.
TEST(WeightsTest, BackendsShareAFile) {
  TempDir dir;
  const Source source(1);
  const auto module = ir::Parse(R"(module
func @step(%0: metadata "x" f32[2,64], %1: weight "a" q8_0[70,64], %2: weight "b" q8_0[70,64]) {
  %3, %4 = multi_linear(%0, %1, %2) {weights = 2} : f32[2,70], f32[2,70]
  return "y" %3, "z" %4
}
)");
  ASSERT_TRUE(module.has_value()) << module.error().ToString();
  CpuBackend first({.threads = 2, .isa = Isa::kPortable, .cache_dir = dir.path()});
  CpuBackend second({.threads = 1, .isa = MachineIsas().back(), .cache_dir = dir.path()});
  for (CpuBackend* backend : {&first, &second}) {
    ASSERT_TRUE(backend->SetWeights(source.map, "model"));
    ASSERT_TRUE(backend->Compile(*module, {}));
  }
  for (CpuBackend* backend : {&first, &second}) ASSERT_TRUE(backend->Persist());
  const std::string file = dir.path() + "/model.blobs";
  const std::string written = backend::ReadFile(file);
  EXPECT_FALSE(written.empty());
  CpuBackend third({.threads = 1, .isa = Isa::kPortable, .cache_dir = dir.path()});
  ASSERT_TRUE(third.SetWeights(source.map, "model"));
  ASSERT_TRUE(third.Compile(*module, {}));
  EXPECT_TRUE(third.notes().empty());
  EXPECT_EQ(third.weight_bytes(), first.weight_bytes());
  ASSERT_TRUE(third.Persist());
  EXPECT_EQ(backend::ReadFile(file), written);
}

}  // namespace
}  // namespace deepinfer::cpu
