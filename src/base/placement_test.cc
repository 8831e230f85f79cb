#include "base/placement.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "base/page_memory.h"
#include "base/thread_team.h"

namespace deepinfer {
namespace {

TeamPlacement Members(const std::vector<int>& node_of) {
  TeamPlacement placement;
  placement.node_of = node_of;
  for (const int node : node_of) {
    if (placement.nodes.empty() || placement.nodes.back().id != node) placement.nodes.push_back({node, {}});
  }
  return placement;
}

bool Same(const std::vector<PlacedRange>& a, const std::vector<PlacedRange>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const PlacedRange& x, const PlacedRange& y) {
    return x.begin == y.begin && x.end == y.end && x.nodes == y.nodes;
  });
}

TEST(Placement, OfNothingIsNothing) {
  EXPECT_TRUE(PlaceSpread({}, 1 << 20).empty());
  EXPECT_TRUE(PlaceByMember({}, 1 << 20, 4096).empty());
  EXPECT_TRUE(PlaceByMember(Members({0, 1}), 0, 4096).empty());
  EXPECT_TRUE(PlacePages(nullptr, {}).has_value());
}

TEST(Placement, NeighboursOnANodeAreOneRange) {
  const int64_t page = PageSize();
  EXPECT_TRUE(
      Same(PlaceByMember(Members({0, 0, 1, 1}), 40 * page, page), {{0, 20 * page, {0}}, {20 * page, 40 * page, {1}}}));
  EXPECT_TRUE(Same(PlaceByMember(Members({3, 3}), 40 * page + 7, page), {{0, 40 * page + 7, {3}}}));
}

TEST(Placement, ThreadsThatMoveReadFromAll) {
  TeamPlacement placement = Members({0, 2});
  placement.node_of.clear();
  EXPECT_TRUE(Same(PlaceByMember(placement, 100, 10), {{0, 100, {0, 2}}}));
  EXPECT_TRUE(Same(PlaceSpread(Members({0, 2}), 100), {{0, 100, {0, 2}}}));
}

// Whatever the sizes: ranges cover all in order, begin at pages, and are at most half a page off their members' parts.
TEST(Placement, RangesFollowThePartsOfTheMembers) {
  const int64_t page = PageSize();
  for (const int64_t grain : {int64_t{640}, page, 3 * page + 64}) {
    for (const int64_t grains : {1, 2, 3, 7, 50}) {
      const TeamPlacement placement = Members({0, 1, 2, 3, 4});
      const int64_t bytes = grain * grains;
      const std::vector<PlacedRange> ranges = PlaceByMember(placement, bytes, grain);
      ASSERT_FALSE(ranges.empty());
      int64_t next = 0;
      for (const PlacedRange& range : ranges) {
        EXPECT_EQ(range.begin, next);
        EXPECT_EQ(range.begin % page, 0);
        EXPECT_LT(range.begin, range.end);
        ASSERT_EQ(range.nodes.size(), 1u);
        const Range part = SplitRange(bytes, grain, range.nodes[0], 5);
        EXPECT_LE(std::abs(part.begin - range.begin), page / 2);
        EXPECT_LE(std::abs(part.end - range.end), page / 2);
        next = range.end;
      }
      EXPECT_EQ(next, bytes);
    }
  }
}

TEST(PageMemory, IsZeroAlignedAndRefusesWhatCannotBe) {
  for (const int64_t bytes : {int64_t{0}, int64_t{1}, int64_t{5000}, int64_t{2} << 20, (int64_t{5} << 20) + 1}) {
    const auto memory = PageMemory::Allocate("x", bytes);
    ASSERT_TRUE(memory.has_value());
    const int64_t alignment = bytes >= int64_t{2} << 20 ? int64_t{2} << 20 : PageSize();
    EXPECT_EQ(reinterpret_cast<intptr_t>(memory->data()) % alignment, 0);
    EXPECT_TRUE(std::all_of(memory->data(), memory->data() + bytes, [](std::byte b) { return b == std::byte{0}; }));
    std::memset(memory->data(), 1, static_cast<size_t>(bytes));
  }
  for (const int64_t bytes : {int64_t{-1}, INT64_MAX, int64_t{1} << 62}) {
    const auto memory = PageMemory::Allocate("x", bytes);
    ASSERT_FALSE(memory.has_value());
    EXPECT_EQ(memory.error().code, ErrorCode::kResourceExhausted);
    EXPECT_EQ(memory.error().where, "x");
  }
}

// A team over all memory nodes of this machine, one member each. On a machine with one node everything is there, but
// the system calls are the same.
TeamPlacement OfThisMachine() {
  const Machine machine = ReadMachine("", AffinityCpus());
  TeamPlacement placement;
  for (const Cpu& cpu : machine.cpus) {
    if (cpu.node < 0) continue;
    if (placement.nodes.empty() || placement.nodes.back().id < cpu.node) placement.nodes.push_back({cpu.node, {}});
    for (MemoryNode& node : placement.nodes) {
      if (node.id == cpu.node) node.cpus.push_back(cpu.id);
    }
  }
  for (const MemoryNode& node : placement.nodes) placement.node_of.push_back(node.id);
  return placement;
}

std::vector<int> Wanted(const std::vector<PlacedRange>& ranges, int64_t pages, int64_t turn) {
  std::vector<int> nodes;
  for (int64_t i = 0; i < pages; ++i) {
    for (const PlacedRange& range : ranges) {
      const int64_t at = i * PageSize();
      if (at < range.begin || at >= range.end) continue;
      nodes.push_back(range.nodes[static_cast<size_t>((at - range.begin) / turn) % range.nodes.size()]);
    }
  }
  return nodes;
}

class PlacedPages : public ::testing::Test {
 protected:
  void SetUp() override {
    if (placement_.nodes.empty()) GTEST_SKIP() << "this system does not say which node a CPU is near";
    ASSERT_TRUE(memory_.has_value());
    if (!NodesOfPages(memory_->data(), 1)) GTEST_SKIP() << NodesOfPages(memory_->data(), 1).error().ToString();
  }
  const TeamPlacement placement_ = OfThisMachine();
  const int64_t pages_ = (int64_t{6} << 20) / PageSize();
  const int64_t bytes_ = pages_ * PageSize();
  Result<PageMemory> memory_ = PageMemory::Allocate("x", bytes_);
};

TEST_F(PlacedPages, LieWhereTheyWerePut) {
  const std::vector<PlacedRange> ranges = PlaceByMember(placement_, bytes_, PageSize());
  if (const Status placed = PlacePages(memory_->data(), ranges); !placed) GTEST_SKIP() << placed.error().ToString();
  EXPECT_EQ(*NodesOfPages(memory_->data(), bytes_), std::vector<int>(static_cast<size_t>(pages_), -1)) << "untouched";
  std::memset(memory_->data(), 1, static_cast<size_t>(bytes_));  // all by this thread
  EXPECT_EQ(*NodesOfPages(memory_->data(), bytes_), Wanted(ranges, pages_, bytes_));
}

TEST_F(PlacedPages, SpreadPagesAreOnEveryNodeAlike) {
  const std::vector<PlacedRange> ranges = PlaceSpread(placement_, bytes_);
  if (const Status placed = PlacePages(memory_->data(), ranges); !placed) GTEST_SKIP() << placed.error().ToString();
  std::memset(memory_->data(), 1, static_cast<size_t>(bytes_));
  const std::vector<int> nodes = *NodesOfPages(memory_->data(), bytes_);
  for (const MemoryNode& node : placement_.nodes) {
    const int64_t share = std::count(nodes.begin(), nodes.end(), node.id);
    EXPECT_LE(std::abs(share - pages_ / static_cast<int64_t>(placement_.nodes.size())),
              (int64_t{2} << 20) / PageSize());
  }
}

// What stands in where a container may not place memory.
TEST_F(PlacedPages, TouchedFromNearbyTheyLieThereToo) {
  const std::vector<int> before = AffinityCpus();
  for (const bool spread : {false, true}) {
    const Result<PageMemory> memory = PageMemory::Allocate("x", bytes_);
    const auto ranges = spread ? PlaceSpread(placement_, bytes_) : PlaceByMember(placement_, bytes_, PageSize());
    TouchNear(placement_, memory->data(), ranges);
    EXPECT_EQ(*NodesOfPages(memory->data(), bytes_), Wanted(ranges, pages_, spread ? int64_t{2} << 20 : bytes_));
    EXPECT_EQ(AffinityCpus(), before);
  }
}

TEST_F(PlacedPages, ANodeThatIsNotThereIsAnErrorWithTheSystemsReason) {
  const std::vector<PlacedRange> ranges = {{0, bytes_, {63}}};
  const Status placed = PlacePages(memory_->data(), ranges);
  ASSERT_FALSE(placed.has_value());
  EXPECT_EQ(placed.error().code, ErrorCode::kUnsupported);
  EXPECT_EQ(placed.error().where, "mbind");
}

}  // namespace
}  // namespace deepinfer
