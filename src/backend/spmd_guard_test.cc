#include "backend/spmd_guard.h"

#include <gtest/gtest.h>

namespace deepinfer::backend {
namespace {

std::string Problem(const std::vector<std::string>& texts) {
  const Status status = CheckSameProgram("decode:4", texts);
  return status ? "" : status.error().ToString();
}

TEST(SpmdGuardTest, EqualTextsPass) {
  EXPECT_EQ(Problem({}), "");
  EXPECT_EQ(Problem({"a\n"}), "");
  EXPECT_EQ(Problem({"a\nb\n", "a\nb\n", "a\nb\n"}), "");
}

TEST(SpmdGuardTest, TheFirstDifferingLineIsShownAsBothRanksHaveIt) {
  EXPECT_EQ(Problem({"module\n  %1 = f32[2]\nend\n", "module\n  %1 = f32[2]\nend\n", "module\n  %1 = f32[4]\nends\n"}),
            "decode:4: rank 2 would run another program than rank 0; line 2 is '  %1 = f32[2]' on rank 0 and "
            "'  %1 = f32[4]' on rank 2");
  EXPECT_EQ(Problem({"ab", "b"}),
            "decode:4: rank 1 would run another program than rank 0; line 1 is 'ab' on rank 0 and 'b' on rank 1");
}

// One text is the beginning of the other, or a line is.
TEST(SpmdGuardTest, EndsAreShown) {
  EXPECT_EQ(
      Problem({"a\nb\n", "a\n"}),
      "decode:4: rank 1 would run another program than rank 0; line 2 is 'b' on rank 0 and '(the end)' on rank 1");
  EXPECT_EQ(Problem({"a\nb\n", "a\nbc\n"}),
            "decode:4: rank 1 would run another program than rank 0; line 2 is 'b' on rank 0 and 'bc' on rank 1");
  EXPECT_EQ(
      Problem({"", "a\n"}),
      "decode:4: rank 1 would run another program than rank 0; line 1 is '(the end)' on rank 0 and 'a' on rank 1");
}

}  // namespace
}  // namespace deepinfer::backend
