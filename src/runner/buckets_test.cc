#include "runner/buckets.h"

#include <gtest/gtest.h>

namespace deepinfer::runner {
namespace {

using Sizes = std::vector<int64_t>;

TEST(BucketsTest, DefaultsDoubleUpToTheLimit) {
  EXPECT_EQ(DefaultPrefillBuckets(100), Sizes({100}));
  EXPECT_EQ(DefaultPrefillBuckets(128), Sizes({128}));
  EXPECT_EQ(DefaultPrefillBuckets(129), Sizes({128, 129}));
  EXPECT_EQ(DefaultPrefillBuckets(5000), Sizes({128, 256, 512, 1024, 2048, 4096, 5000}));
  EXPECT_EQ(DefaultDecodeBuckets(1), Sizes({1}));
  EXPECT_EQ(DefaultDecodeBuckets(6), Sizes({1, 2, 4, 6}));
  EXPECT_EQ(DefaultDecodeBuckets(8), Sizes({1, 2, 4, 8}));
}

TEST(BucketsTest, DefaultsAreValid) {
  for (int64_t limit = 1; limit < 600; ++limit) {
    EXPECT_TRUE(ValidateBuckets("b", DefaultPrefillBuckets(limit), "limit", limit)) << limit;
    EXPECT_TRUE(ValidateBuckets("b", DefaultDecodeBuckets(limit), "limit", limit)) << limit;
  }
}

TEST(BucketsTest, TheSmallestThatFitsIsTaken) {
  const Sizes prefill = {128, 256, 512};
  EXPECT_EQ(SelectBucket(prefill, 0), 128);
  EXPECT_EQ(SelectBucket(prefill, 1), 128);
  EXPECT_EQ(SelectBucket(prefill, 128), 128);
  EXPECT_EQ(SelectBucket(prefill, 129), 256);
  EXPECT_EQ(SelectBucket(prefill, 512), 512);
  EXPECT_EQ(SelectBucket(prefill, 513), -1) << "the scheduler never makes such a step";
  EXPECT_EQ(SelectBucket({1, 2, 4, 8}, 5), 8);
}

std::string Problem(const Sizes& buckets, int64_t limit) {
  const Status status = ValidateBuckets("prefill_buckets", buckets, "max_num_batched_tokens", limit);
  if (status) return "";
  EXPECT_EQ(status.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(status.error().where, "prefill_buckets");
  return status.error().message;
}

TEST(BucketsTest, BadListsAreRefusedWithTheReason) {
  EXPECT_EQ(Problem({}, 128), "cannot be empty");
  EXPECT_EQ(Problem({0, 128}, 128), "entry 0 must be positive, got 0");
  EXPECT_EQ(Problem({128, -1}, 128), "entry 1 must be positive, got -1");
  EXPECT_EQ(Problem({128, 128}, 128), "must be in strictly ascending order, got [128, 128]");
  EXPECT_EQ(Problem({128, 64}, 64), "must be in strictly ascending order, got [128, 64]");
  EXPECT_EQ(Problem({128, 256}, 512), "the last bucket must equal max_num_batched_tokens (512), got 256");
  EXPECT_EQ(Problem({128, 256}, 256), "");
}

}  // namespace
}  // namespace deepinfer::runner
