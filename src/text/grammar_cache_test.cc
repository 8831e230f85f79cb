#include "text/grammar_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace deepinfer::text {
namespace {

using Compiled = GrammarCache::Compiled;

class NamedGrammar : public TokenGrammar {
 public:
  explicit NamedGrammar(std::string source) : name(std::move(source)) {}
  Result<std::unique_ptr<TokenConstraint>> Start() const override { return nullptr; }
  const std::string name;
};

class GrammarCacheTest : public ::testing::Test {
 protected:
  // The grammar's own name; compilations are counted. A source that starts with '!' cannot be compiled.
  std::string Get(GrammarCache* cache, const std::string& source) {
    const Compiled compiled = cache->Get(source, [&]() -> Compiled {
      ++compiled_;
      if (source[0] == '!') return MakeError(ErrorCode::kInvalidArgument, "grammar", "{}", source);
      return std::make_shared<const NamedGrammar>(source);
    });
    return compiled ? dynamic_cast<const NamedGrammar&>(**compiled).name : compiled.error().message;
  }
  // Of those gets, how many were compiled.
  int Compiles(GrammarCache* cache, const std::vector<std::string>& sources) {
    const int before = compiled_;
    for (const std::string& source : sources) EXPECT_EQ(Get(cache, source), source);
    return compiled_ - before;
  }
  std::atomic<int> compiled_{0};
};

TEST_F(GrammarCacheTest, EachSourceIsCompiledOnce) {
  GrammarCache cache({.grammars = 3, .source_bytes = 100});
  EXPECT_EQ(Compiles(&cache, {"a", "b", "a", "c", "b", "a"}), 3);
  const GrammarCacheStats stats = cache.stats();
  EXPECT_EQ(stats.misses, 3);
  EXPECT_EQ(stats.hits, 3);
  EXPECT_EQ(stats.grammars, 3);
  EXPECT_EQ(stats.source_bytes, 3);
}

TEST_F(GrammarCacheTest, TheLeastRecentlyUsedGo) {
  GrammarCache cache({.grammars = 2, .source_bytes = 100});
  EXPECT_EQ(Compiles(&cache, {"a", "b", "a", "c"}), 3);  // b goes
  EXPECT_EQ(Compiles(&cache, {"a", "c"}), 0);
  EXPECT_EQ(Compiles(&cache, {"b"}), 1);  // a goes
  EXPECT_EQ(Compiles(&cache, {"c"}), 0);
  EXPECT_EQ(Compiles(&cache, {"a"}), 1);
  EXPECT_EQ(cache.stats().grammars, 2);
  EXPECT_EQ(cache.stats().source_bytes, 2);
}

TEST_F(GrammarCacheTest, LongSourcesTakeTheirRoom) {
  GrammarCache cache({.grammars = 10, .source_bytes = 10});
  const std::string four = "4444", five = "55555", long_one(11, 'x');
  EXPECT_EQ(Compiles(&cache, {four, five}), 2);
  EXPECT_EQ(Compiles(&cache, {"ab", five}), 1);  // four goes
  EXPECT_EQ(cache.stats().source_bytes, 7);
  EXPECT_EQ(Compiles(&cache, {long_one, long_one}), 2) << "never kept";
  EXPECT_EQ(Compiles(&cache, {"ab", five}), 0) << "nor does it push others out";
  EXPECT_EQ(Compiles(&cache, {four}), 1);
}

TEST_F(GrammarCacheTest, FailuresAreNotKept) {
  GrammarCache cache({.grammars = 2, .source_bytes = 100});
  EXPECT_EQ(Compiles(&cache, {"!a", "!a", "b"}), 3);
  EXPECT_EQ(cache.stats().grammars, 1);
  EXPECT_EQ(Compiles(&cache, {"b"}), 0);
}

// While one compiles, those who want the same wait for it, and others do not.
TEST_F(GrammarCacheTest, AskedForAtOnceIsCompiledOnce) {
  for (const std::string source : {"slow", "!slow"}) {
    GrammarCache cache({.grammars = 1, .source_bytes = 100});
    std::atomic<int> compiles{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 6; ++i) {
      threads.emplace_back([&] {
        const Compiled compiled = cache.Get(source, [&]() -> Compiled {
          ++compiles;
          while (cache.stats().hits < 5) std::this_thread::yield();  // until all others wait
          EXPECT_EQ(Get(&cache, "other"), "other") << "which does not push out what is being compiled";
          EXPECT_EQ(Get(&cache, "another"), "another");
          if (source[0] == '!') return MakeError(ErrorCode::kInvalidArgument, "grammar", "{}", source);
          return std::make_shared<const NamedGrammar>(source);
        });
        EXPECT_EQ(compiled.has_value(), source[0] != '!');
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(compiles, 1);
    EXPECT_EQ(cache.stats().grammars, 1);
    EXPECT_EQ(cache.stats().misses, 3);
  }
}

TEST_F(GrammarCacheTest, ManyThreads) {
  GrammarCache cache({.grammars = 5, .source_bytes = 1000});
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        const std::string source = (i % 11 == 3 ? "!" : "") + std::to_string((i * (t + 3)) % 9);
        EXPECT_EQ(Get(&cache, source), source);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const GrammarCacheStats stats = cache.stats();
  EXPECT_EQ(stats.hits + stats.misses, 8000);
  EXPECT_EQ(stats.misses, compiled_);
  EXPECT_EQ(stats.grammars, 5);
  EXPECT_EQ(stats.source_bytes, 5);
}

}  // namespace
}  // namespace deepinfer::text
