#include "engine/block_manager.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace deepinfer::engine {
namespace {

using Table = BlockTable;
using Ids = std::vector<int32_t>;

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

// Tokens that are all `value`, and the name they have behind `parent`.
const Ids& Tokens(int32_t value) {
  static std::map<int32_t, Ids> made;
  return made.try_emplace(value, Ids(4, value)).first->second;
}
BlockHash Name(int32_t value) {
  return ChainHash(RootHash("", 1), Tokens(value));
}

TEST(BlockManagerTest, APublishedBlockIsFoundSharedAndKept) {
  BlockManager blocks(9, 4);
  Table first, second;
  ASSERT_TRUE(blocks.Grow(&first, 3));
  blocks.Publish(first[0], Name(7), Tokens(7));
  EXPECT_EQ(blocks.Find(Name(7), Tokens(7)), first[0]);
  EXPECT_EQ(blocks.Find(Name(8), Tokens(8)), -1);
  EXPECT_EQ(blocks.Find(Name(7), Tokens(8)), -1) << "the name alone is not believed";
  blocks.Share(&second, first[0]);
  EXPECT_EQ(blocks.owners(first[0]), 2);
  EXPECT_TRUE(blocks.CheckInvariants({&first, &second}));
  EXPECT_FALSE(blocks.CheckInvariants({&first}));
  const int32_t block = first[0];
  blocks.Release(&first);
  EXPECT_EQ(blocks.free_blocks(), 7);
  EXPECT_EQ(blocks.cached_blocks(), 0);
  blocks.Release(&second);
  EXPECT_EQ(blocks.free_blocks(), 8);
  EXPECT_EQ(blocks.cached_blocks(), 1);
  EXPECT_TRUE(blocks.CheckInvariants({}));
  EXPECT_EQ(blocks.Find(Name(7), Tokens(7)), block);
  blocks.Share(&second, block);
  EXPECT_EQ(blocks.free_blocks(), 7);
  EXPECT_TRUE(blocks.CheckInvariants({&second}));
}

TEST(BlockManagerTest, TheLongestUnusedIsForgottenFirstAndOnlyWhenNeeded) {
  BlockManager blocks(5, 4);
  Table tables[2];
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(blocks.Grow(&tables[i], 1));
    blocks.Publish(tables[i][0], Name(i), Tokens(i));
  }
  blocks.Release(&tables[0]);
  blocks.Release(&tables[1]);
  Table use;
  blocks.Share(&use, blocks.Find(Name(0), Tokens(0)));  // now 1 is the one left longest ago
  blocks.Release(&use);
  Table other;
  ASSERT_TRUE(blocks.Grow(&other, 2));
  EXPECT_GE(blocks.Find(Name(0), Tokens(0)), 0);
  EXPECT_GE(blocks.Find(Name(1), Tokens(1)), 0);
  ASSERT_TRUE(blocks.Grow(&other, 3));
  EXPECT_GE(blocks.Find(Name(0), Tokens(0)), 0);
  EXPECT_EQ(blocks.Find(Name(1), Tokens(1)), -1);
  EXPECT_TRUE(blocks.CheckInvariants({&other}));
  ASSERT_TRUE(blocks.Grow(&other, 4));
  EXPECT_EQ(blocks.Find(Name(0), Tokens(0)), -1);
  EXPECT_EQ(blocks.free_blocks(), 0);
  EXPECT_TRUE(blocks.CheckInvariants({&other}));
}

TEST(BlockManagerTest, OfOneTableTheLastBlockGoesFirst) {
  BlockManager blocks(4, 4);
  Table table;
  ASSERT_TRUE(blocks.Grow(&table, 3));
  for (int i = 0; i < 3; ++i) blocks.Publish(table[i], Name(i), Tokens(i));
  blocks.Release(&table);
  for (int taken = 1; taken <= 3; ++taken) {
    ASSERT_TRUE(blocks.Grow(&table, taken));
    for (int i = 0; i < 3; ++i) EXPECT_EQ(blocks.Find(Name(i), Tokens(i)) >= 0, i < 3 - taken) << taken << i;
    EXPECT_TRUE(blocks.CheckInvariants({&table}));
  }
}

TEST(BlockManagerTest, TheFirstOfANameStaysAndForgottenOnesStayOwned) {
  BlockManager blocks(9, 4);
  Table first, second;
  ASSERT_TRUE(blocks.Grow(&first, 1));
  ASSERT_TRUE(blocks.Grow(&second, 1));
  blocks.Publish(first[0], Name(3), Tokens(3));
  blocks.Publish(second[0], Name(3), Tokens(3));
  EXPECT_EQ(blocks.Find(Name(3), Tokens(3)), first[0]);
  EXPECT_FALSE(blocks.published(second[0]));
  blocks.Forget(first[0]);
  blocks.Forget(first[0]);
  EXPECT_EQ(blocks.Find(Name(3), Tokens(3)), -1);
  EXPECT_TRUE(blocks.CheckInvariants({&first, &second}));
  blocks.Release(&first);
  blocks.Release(&second);
  EXPECT_EQ(blocks.cached_blocks(), 0);
  EXPECT_TRUE(blocks.CheckInvariants({}));
}

TEST(BlockHashTest, EverythingThatMattersIsInTheName) {
  const BlockHash root = RootHash("", 5);
  EXPECT_EQ(root, RootHash("", 5));
  EXPECT_FALSE(root == RootHash("", 6));
  EXPECT_FALSE(root == RootHash("a", 5));
  const BlockHash name = ChainHash(root, Tokens(1));
  EXPECT_EQ(name, ChainHash(root, Tokens(1)));
  EXPECT_FALSE(name == ChainHash(root, Tokens(2)));
  EXPECT_FALSE(name == ChainHash(RootHash("a", 5), Tokens(1)));
  EXPECT_FALSE(name == ChainHash(name, Tokens(1)));
}

}  // namespace
}  // namespace deepinfer::engine
