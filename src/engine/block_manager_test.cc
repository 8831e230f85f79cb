#include "engine/block_manager.h"

#include <gtest/gtest.h>

#include <set>

namespace deepinfer::engine {
namespace {

using Table = BlockTable;

TEST(BlockManagerTest, TheNullBlockIsNeverHandedOut) {
  BlockManager blocks(9, 4);
  EXPECT_EQ(blocks.usable_blocks(), 8);
  Table table;
  ASSERT_TRUE(blocks.Grow(&table, 8));
  EXPECT_EQ(std::set<int32_t>(table.begin(), table.end()), std::set<int32_t>({1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(blocks.free_blocks(), 0);
  EXPECT_TRUE(blocks.CheckInvariants({&table}));
}

TEST(BlockManagerTest, TooFewFreeBlocksChangeNothing) {
  BlockManager blocks(5, 4);
  Table first;
  Table second;
  ASSERT_TRUE(blocks.Grow(&first, 3));
  EXPECT_FALSE(blocks.Grow(&second, 2));
  EXPECT_TRUE(second.empty());
  EXPECT_EQ(blocks.free_blocks(), 1);
  EXPECT_TRUE(blocks.Grow(&first, 2)) << "already as large";
  EXPECT_EQ(first.size(), 3u);
  EXPECT_TRUE(blocks.CheckInvariants({&first, &second}));
}

TEST(BlockManagerTest, TheSameRequestGetsTheSameBlocksAgain) {
  BlockManager blocks(9, 4);
  Table table;
  ASSERT_TRUE(blocks.Grow(&table, 5));
  const Table before = table;
  blocks.Release(&table);
  EXPECT_TRUE(table.empty());
  ASSERT_TRUE(blocks.Grow(&table, 5));
  EXPECT_EQ(table, before);
}

TEST(BlockManagerTest, InvariantsFindSharedLostAndNullBlocks) {
  BlockManager blocks(5, 4);
  Table table;
  ASSERT_TRUE(blocks.Grow(&table, 2));
  EXPECT_TRUE(blocks.CheckInvariants({&table}));
  EXPECT_FALSE(blocks.CheckInvariants({}));
  EXPECT_FALSE(blocks.CheckInvariants({&table, &table}));
  Table with_null = table;
  with_null.push_back(0);
  EXPECT_FALSE(blocks.CheckInvariants({&with_null}));
  with_null.back() = 5;
  EXPECT_FALSE(blocks.CheckInvariants({&with_null}));
}

}  // namespace
}  // namespace deepinfer::engine
