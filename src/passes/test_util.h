// For tests of passes: text in, text out. A pass must give exactly the expected canonical text, leave a module that
// verifies, and change nothing when it runs again.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "ir/builder.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "passes/pass.h"

namespace deepinfer::passes {

inline ir::Module ParseOrDie(const std::string& text) {
  auto module = ir::Parse(text);
  if (!module) {
    ADD_FAILURE() << module.error().ToString() << "\n" << text;
    return ir::ModuleBuilder().module();
  }
  return *std::move(module);
}

inline void ExpectPass(PassFunction pass, const std::string& before, const std::string& after,
                       const PassContext& context = {}) {
  ir::Module module = ParseOrDie(before);
  ASSERT_FALSE(module.functions.empty());
  const auto changed = pass(&module, context);
  ASSERT_TRUE(changed.has_value()) << changed.error().ToString();
  EXPECT_EQ(*changed, before != after);
  const Status verified = ir::Verify(module);
  EXPECT_TRUE(verified.has_value()) << verified.error().ToString();
  EXPECT_EQ(ir::Print(module), after);
  const auto again = pass(&module, context);
  ASSERT_TRUE(again.has_value()) << again.error().ToString();
  EXPECT_FALSE(*again) << "the second run says that it changed something";
  EXPECT_EQ(ir::Print(module), after) << "the second run changed the module";
}

inline void ExpectUnchanged(PassFunction pass, const std::string& text, const PassContext& context = {}) {
  ExpectPass(pass, text, text, context);
}

inline void ExpectPassError(PassFunction pass, const std::string& before, ErrorCode code, const std::string& message) {
  ir::Module module = ParseOrDie(before);
  ASSERT_FALSE(module.functions.empty());
  const auto changed = pass(&module, {});
  ASSERT_FALSE(changed.has_value());
  EXPECT_EQ(changed.error().code, code);
  EXPECT_NE(changed.error().ToString().find(message), std::string::npos) << changed.error().ToString();
}

}  // namespace deepinfer::passes
