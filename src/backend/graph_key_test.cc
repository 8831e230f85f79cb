#include "backend/graph_key.h"

#include <gtest/gtest.h>

#include "backend/build_id.h"
#include "backend/test_util.h"

namespace deepinfer::backend {
namespace {

void Change(std::string& value) {
  value += "x";
}
void Change(int64_t& value) {
  value += 1;
}
void Change(DType& value) {
  value = value == DType::kF32 ? DType::kBF16 : DType::kF32;
}
void Change(GraphMode& value) {
  value = value == GraphMode::kFull ? GraphMode::kBreakable : GraphMode::kFull;
}
void Change(std::vector<std::string>& value) {
  value.push_back("dce");
}

TEST(GraphKeyTest, EveryFieldCountsInEqualityHashDiffAndJson) {
  const GraphKey key = SmallKey();
  size_t fields = 0;
  GraphKey::ForEachField([&](const char* name, auto member) {
    ++fields;
    GraphKey other = key;
    Change(other.*member);
    EXPECT_NE(key, other) << name;
    EXPECT_NE(key.Hash(), other.Hash()) << name;
    const auto diff = Diff(key, other);
    ASSERT_EQ(diff.size(), 1u) << name;
    EXPECT_EQ(diff[0].name, name);
    EXPECT_NE(diff[0].left, diff[0].right);
    const auto back = GraphKey::FromJson(other.ToJson());
    ASSERT_TRUE(back) << name;
    EXPECT_EQ(*back, other) << name;
  });
  EXPECT_EQ(fields, 20u);
  EXPECT_EQ(key.ToJson().size(), fields);
}

TEST(GraphKeyTest, TheFieldListIsComplete) {
  // Two keys that differ in bytes no listed field covers would be equal in text and unequal by ==.
  GraphKey a = SmallKey(1), b = SmallKey(2);
  GraphKey::ForEachField([&](const char*, auto member) { b.*member = a.*member; });
  EXPECT_EQ(a, b);
  EXPECT_EQ(a.Text(), b.Text());
}

TEST(GraphKeyTest, TextKeepsFieldsAndItemsApart) {
  GraphKey a = SmallKey(), b = SmallKey();
  a.target = "x\ntarget_options=y";
  b.target = "x";
  b.target_options = "y";
  EXPECT_NE(a.Text(), b.Text());
  a = b = SmallKey();
  a.passes = {"a,b"};
  b.passes = {"a", "b"};
  EXPECT_NE(a.Text(), b.Text());
  b.passes = {"a,", "b"};
  EXPECT_NE(a.Text(), b.Text());
  a.passes = {};
  b.passes = {""};
  EXPECT_NE(a.Text(), b.Text());
}

TEST(GraphKeyTest, DiffIsReadable) {
  GraphKey other = SmallKey();
  other.tokens = 2;
  other.target_options = "-O1";
  EXPECT_EQ(DescribeDiff(Diff(SmallKey(), other)), "target_options is empty, there -O1; tokens is 1, there 2");
  EXPECT_EQ(DescribeDiff({}), "");
}

TEST(GraphKeyTest, WrongJsonIsAnErrorThatNamesTheField) {
  const nlohmann::json good = SmallKey().ToJson();
  for (const auto& [name, value] : good.items()) {
    nlohmann::json missing = good;
    missing.erase(name);
    auto result = GraphKey::FromJson(missing);
    ASSERT_FALSE(result) << name;
    EXPECT_NE(result.error().message.find(name), std::string::npos);
    for (const nlohmann::json& wrong : {nlohmann::json(nullptr), nlohmann::json(1.5), nlohmann::json::object()}) {
      nlohmann::json typed = good;
      typed[name] = wrong;
      EXPECT_FALSE(GraphKey::FromJson(typed)) << name << " " << wrong;
    }
  }
  nlohmann::json more = good;
  more["threads"] = 2;
  EXPECT_FALSE(GraphKey::FromJson(more));
  nlohmann::json unknown = good;
  unknown["kv"] = "f7";
  EXPECT_FALSE(GraphKey::FromJson(unknown));
  EXPECT_FALSE(GraphKey::FromJson(nlohmann::json::array()));
}

TEST(GraphKeyTest, TheBuildIdIsTheLinkers) {
  const std::string id = BuildId();
  EXPECT_EQ(id.rfind("gnu-", 0), 0u) << id;
  EXPECT_GE(id.size(), 20u);
  EXPECT_EQ(id, BuildId());
}

}  // namespace
}  // namespace deepinfer::backend
