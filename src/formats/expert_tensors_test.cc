#include "formats/expert_tensors.h"

#include <gtest/gtest.h>

#include <cstring>

namespace deepinfer::formats {
namespace {

CheckpointTensor Matrix(const std::string& name, const std::vector<float>& values, std::vector<int64_t> shape) {
  return {name, Encoding::kF32, "F32", std::move(shape), std::as_bytes(std::span(values)), "file", {}, {}};
}

TEST(JoinExpertsTest, MatricesOfAllExpertsBecomeOneTensorInTheOrderOfTheirNumbers) {
  const std::vector<float> a = {1, 2, 3, 4}, b = {5, 6, 7, 8}, norm = {9, 9};
  CheckpointTensor made = Matrix("m.1.mlp.experts.1.up_proj.weight", b, {2, 2});
  made.data = {};
  made.rows = [&b](int64_t begin, int64_t end, std::byte* out) {
    std::memcpy(out, b.data() + 2 * begin, static_cast<size_t>(end - begin) * 8);
  };
  const auto joined =
      JoinExperts({made, Matrix("m.1.norm.weight", norm, {2}), Matrix("m.1.mlp.experts.0.up_proj.weight", a, {2, 2}),
                   Matrix("m.1.mlp.experts.0.down_proj.weight", b, {2, 2})});
  ASSERT_TRUE(joined.has_value()) << joined.error().ToString();
  ASSERT_EQ(joined->size(), 3u);
  EXPECT_EQ((*joined)[0].name, "m.1.norm.weight");
  EXPECT_EQ((*joined)[1].name, "m.1.mlp.experts.down_proj.weight");
  EXPECT_EQ((*joined)[1].shape, (std::vector<int64_t>{1, 2, 2}));
  const CheckpointTensor& up = (*joined)[2];
  EXPECT_EQ(up.name, "m.1.mlp.experts.up_proj.weight");
  EXPECT_EQ(up.shape, (std::vector<int64_t>{2, 2, 2}));
  std::vector<float> rows(6);
  up.rows(1, 4, reinterpret_cast<std::byte*>(rows.data()));
  EXPECT_EQ(rows, (std::vector<float>{3, 4, 5, 6, 7, 8}));
}

TEST(JoinExpertsTest, GapsAndExpertsThatDifferAreNamed) {
  const std::vector<float> a(8);
  const auto expect = [](const Result<std::vector<CheckpointTensor>>& joined, const std::string& message) {
    ASSERT_FALSE(joined.has_value()) << message;
    EXPECT_NE(joined.error().ToString().find(message), std::string::npos) << joined.error().ToString();
  };
  expect(JoinExperts({Matrix("l.experts.1.w.weight", a, {2, 2})}), "tensor l.experts.1.w.weight: there is no expert 0");
  expect(JoinExperts({Matrix("l.experts.0.w.weight", a, {2, 2}), Matrix("l.experts.2.w.weight", a, {2, 2})}),
         "there is no expert 1 before it");
  expect(JoinExperts({Matrix("l.experts.0.w.weight", a, {2, 2}), Matrix("l.experts.1.w.weight", a, {2, 4})}),
         "l.experts.1.w.weight: its shape or type differs");
  expect(JoinExperts({Matrix("l.experts.0.w.weight", a, {2, 2}), Matrix("l.experts.00.w.weight", a, {2, 2})}),
         "the expert is there twice");
}

TEST(JoinExpertsTest, OtherNamesStayAsTheyAre) {
  const std::vector<float> a(4);
  for (const char* name : {"l.experts.weight", "l.experts.x.w.weight", "l.experts.0.w.bias", "l.experts..w.weight",
                           "l.experts.99999999999999999999.w.weight", "l.experts.-1.w.weight"}) {
    const auto joined = JoinExperts({Matrix(name, a, {2, 2})});
    ASSERT_TRUE(joined.has_value()) << name;
    EXPECT_EQ(joined->front().name, name);
  }
}

}  // namespace
}  // namespace deepinfer::formats
