#include "passes/test_util.h"

namespace deepinfer::passes {
namespace {

TEST(FunctionalizeTest, ReadersBeforeAndAfterAWrite) {
  ExpectPass(Functionalize,
             R"(module
func @step(%0: state "s" f32[4,2], %1: metadata "i" i32[2], %2: metadata "r" f32[2,2]) {
  %3 = take(%0, %1) : f32[2,2]
  index_put_(%0, %1, %2) {dims = [0]}
  %4 = take(%0, %1) : f32[2,2]
  return "before" %3, "after" %4
}
)",
             R"(module
func @step(%0: state "s" f32[4,2], %1: metadata "i" i32[2], %2: metadata "r" f32[2,2]) {
  %3 = take(%0, %1) : f32[2,2]
  %4 = index_put(%0, %1, %2) {dims = [0]} : f32[4,2]
  %5 = take(%4, %1) : f32[2,2]
  return "before" %3, "after" %5, "s" %4
} alias 2 -> 0
)");
}

TEST(FunctionalizeTest, TwoWritesToOneStateFormAChain) {
  ExpectPass(Functionalize,
             R"(module
func @step(%0: metadata "i" i32[2], %1: state "s" f32[4,2], %2: metadata "r" f32[2,2]) {
  index_put_(%1, %0, %2) {dims = [0]}
  %3 = neg(%2) : f32[2,2]
  index_put_(%1, %0, %3) {dims = [0]}
  return "content" %1
}
)",
             R"(module
func @step(%0: metadata "i" i32[2], %1: state "s" f32[4,2], %2: metadata "r" f32[2,2]) {
  %3 = index_put(%1, %0, %2) {dims = [0]} : f32[4,2]
  %4 = neg(%2) : f32[2,2]
  %5 = index_put(%3, %0, %4) {dims = [0]} : f32[4,2]
  return "content" %5, "s" %5
} alias 1 -> 1
)");
}

TEST(FunctionalizeTest, CallsOfFunctionsThatCallWritersMutateTheirOperands) {
  ExpectPass(Functionalize,
             R"(module
func @step(%0: state "a" f32[4], %1: state "b" f32[4], %2: metadata "i" i32[2], %3: metadata "r" f32[2]) {
  %4 = call(%3, %0, %2) {callee = "outer"} : f32[2]
  %5 = call(%4, %1, %2) {callee = "outer"} : f32[2]
  %6 = take(%0, %2) : f32[2]
  return "y" %5, "a0" %6
}
func @outer(%0: argument "x" f32[2], %1: state "s" f32[4], %2: argument "i" i32[2]) {
  call(%1, %2, %0) {callee = "inner"}
  %3 = take(%1, %2) : f32[2]
  return "y" %3
}
func @inner(%0: state "t" f32[4], %1: argument "i" i32[2], %2: argument "r" f32[2]) {
  index_put_(%0, %1, %2) {dims = [0]}
  return
}
)",
             R"(module
func @step(%0: state "a" f32[4], %1: state "b" f32[4], %2: metadata "i" i32[2], %3: metadata "r" f32[2]) {
  %4, %5 = call(%3, %0, %2) {callee = "outer"} : f32[2], f32[4]
  %6, %7 = call(%4, %1, %2) {callee = "outer"} : f32[2], f32[4]
  %8 = take(%5, %2) : f32[2]
  return "y" %6, "a0" %8, "a" %5, "b" %7
} alias 2 -> 0, 3 -> 1
func @outer(%0: argument "x" f32[2], %1: state "s" f32[4], %2: argument "i" i32[2]) {
  %3 = call(%1, %2, %0) {callee = "inner"} : f32[4]
  %4 = take(%3, %2) : f32[2]
  return "y" %4, "s" %3
} alias 1 -> 1
func @inner(%0: state "t" f32[4], %1: argument "i" i32[2], %2: argument "r" f32[2]) {
  %3 = index_put(%0, %1, %2) {dims = [0]} : f32[4]
  return "t" %3
} alias 0 -> 0
)");
}

const char kCase[] = R"(module
func @step(%0: metadata "c" i32[], %1: state "a" f32[4], %2: state "b" f32[4], %3: metadata "i" i32[2], %4: metadata "r" f32[2]) {
  case(%0, %1, %2, %3, %4) {branches = ("first", "second")}
  return
}
func @first(%0: state "a" f32[4], %1: state "b" f32[4], %2: argument "i" i32[2], %3: argument "r" f32[2]) {
  index_put_(%0, %2, %3) {dims = [0]}
  return
}
func @second(%0: state "a" f32[4], %1: state "b" f32[4], %2: argument "i" i32[2], %3: argument "r" f32[2]) {
  index_put_(%WHICH, %2, %3) {dims = [0]}
  return
}
)";

std::string CaseWriting(const std::string& which) {
  std::string text = kCase;
  return text.replace(text.find("%WHICH"), 6, which);
}

TEST(FunctionalizeTest, BranchesThatWriteTheSameStateGiveTheCaseAResult) {
  ExpectPass(Functionalize, CaseWriting("%0"),
             R"(module
func @step(%0: metadata "c" i32[], %1: state "a" f32[4], %2: state "b" f32[4], %3: metadata "i" i32[2], %4: metadata "r" f32[2]) {
  %5 = case(%0, %1, %2, %3, %4) {branches = ("first", "second")} : f32[4]
  return "a" %5
} alias 0 -> 1
func @first(%0: state "a" f32[4], %1: state "b" f32[4], %2: argument "i" i32[2], %3: argument "r" f32[2]) {
  %4 = index_put(%0, %2, %3) {dims = [0]} : f32[4]
  return "a" %4
} alias 0 -> 0
func @second(%0: state "a" f32[4], %1: state "b" f32[4], %2: argument "i" i32[2], %3: argument "r" f32[2]) {
  %4 = index_put(%0, %2, %3) {dims = [0]} : f32[4]
  return "a" %4
} alias 0 -> 0
)");
}

TEST(FunctionalizeTest, BranchesThatWriteDifferentStatesAreRefusedByName) {
  ExpectPassError(Functionalize, CaseWriting("%1"), ErrorCode::kUnsupported,
                  "branch 'second' mutates other states than branch 'first'");
}

TEST(FunctionalizeTest, NothingToDo) {
  ExpectUnchanged(Functionalize, R"(module
func @step(%0: state "s" f32[4], %1: metadata "i" i32[2]) {
  %2 = take(%0, %1) : f32[2]
  return "y" %2
}
)");
}

}  // namespace
}  // namespace deepinfer::passes
