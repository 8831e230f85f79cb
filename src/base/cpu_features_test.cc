#include "base/cpu_features.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace deepinfer {
namespace {

TEST(CpuFeatures, IsasAreAscendingFromPortable) {
  const std::vector<Isa> isas = MachineIsas();
  ASSERT_FALSE(isas.empty());
  EXPECT_EQ(isas.front(), Isa::kPortable);
  for (size_t i = 0; i < isas.size(); ++i) {
    EXPECT_EQ(static_cast<int>(isas[i]), static_cast<int>(i));  // one that is there has all before it
    EXPECT_TRUE(MachineHas(isas[i]));
  }
}

TEST(CpuFeatures, AgreesWithTheCompilersDetection) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  EXPECT_EQ(MachineHas(Isa::kAvx2), avx2);
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vnni");
  EXPECT_EQ(MachineHas(Isa::kAvx512), avx512);
#else
  EXPECT_FALSE(MachineHas(Isa::kAvx2));
#endif
}

TEST(CpuFeatures, EmptyChoiceIsTheBest) {
  const Result<Isa> isa = SelectIsa("");
  ASSERT_TRUE(isa.has_value());
  EXPECT_EQ(*isa, MachineIsas().back());
}

TEST(CpuFeatures, ForcedIsTakenOrRefusedWithTheList) {
  for (const char* name : {"portable", "avx2", "avx512", "avx512_bf16", "amx"}) {
    const Result<Isa> isa = SelectIsa(name);
    if (isa.has_value()) {
      EXPECT_STREQ(ToString(*isa), name);
      EXPECT_TRUE(MachineHas(*isa));
    } else {
      EXPECT_NE(isa.error().message.find("it has portable"), std::string::npos);
    }
  }
  EXPECT_TRUE(SelectIsa("portable").has_value());
}

TEST(CpuFeatures, UnknownNamesAreErrors) {
  for (const char* name : {"sse9", "AVX2", " "}) {
    const Result<Isa> isa = SelectIsa(name);
    ASSERT_FALSE(isa.has_value()) << name;
    EXPECT_EQ(isa.error().code, ErrorCode::kInvalidArgument);
    EXPECT_EQ(isa.error().where, "DEEPINFER_CPU_ISA");
    EXPECT_NE(isa.error().message.find("portable"), std::string::npos);
  }
}

TEST(CpuFeatures, CpuNameIsOneLine) {
  EXPECT_FALSE(CpuName().empty());
  EXPECT_EQ(CpuName().find('\n'), std::string::npos);
}

}  // namespace
}  // namespace deepinfer
