#include "backend/address_guard.h"

#include <gtest/gtest.h>

#include <map>

namespace deepinfer::backend {
namespace {

class FixedStates : public StateSet {
 public:
  void* Address(const std::string& buffer) const override {
    const auto found = addresses.find(buffer);
    return found == addresses.end() ? nullptr : found->second;
  }
  Status Read(const std::string&, int64_t, void*, int64_t) const override { return {}; }
  Status Write(const std::string&, int64_t, const void*, int64_t) override { return {}; }
  std::map<std::string, void*> addresses;
};

class AddressGuardTest : public testing::Test {
 protected:
  void SetUp() override {
    states_.addresses = {{"kv.0", &memory_[0]}, {"kv.1", &memory_[1]}};
    io_.metadata = {{"token_ids", &memory_[2], 4}, {"slots", &memory_[3], 4}};
    io_.outputs = {{"sampled", &memory_[4], 4}};
    io_.states = &states_;
    guard_.Record(io_, {"kv.0", "kv.1"});
  }
  std::string Culprit() const {
    const Status status = guard_.CheckAddresses(io_);
    if (status) return "none";
    EXPECT_EQ(status.error().code, ErrorCode::kFailedPrecondition);
    return status.error().where;
  }

  int memory_[6] = {};
  FixedStates states_;
  StepIo io_;
  AddressGuard guard_;
};

TEST_F(AddressGuardTest, TheSameAddressesPass) {
  EXPECT_EQ(Culprit(), "none");
}

TEST_F(AddressGuardTest, NamesWhatMoved) {
  io_.metadata[1].data = &memory_[5];
  EXPECT_EQ(Culprit(), "slots");
  io_.metadata[1].data = &memory_[3];
  io_.outputs[0].data = nullptr;
  EXPECT_EQ(Culprit(), "sampled");
  io_.outputs[0].data = &memory_[4];
  states_.addresses["kv.1"] = &memory_[5];
  EXPECT_EQ(Culprit(), "kv.1");
  io_.states = nullptr;
  EXPECT_EQ(Culprit(), "kv.0");
}

TEST_F(AddressGuardTest, NamesTheFirstOfSeveral) {
  io_.metadata[0].data = &memory_[5];
  io_.metadata[1].data = &memory_[5];
  EXPECT_EQ(Culprit(), "token_ids");
}

TEST_F(AddressGuardTest, SizeOrderAndNumberCount) {
  io_.metadata[0].bytes = 8;
  EXPECT_EQ(Culprit(), "token_ids");
  io_.metadata[0].bytes = 4;
  std::swap(io_.metadata[0], io_.metadata[1]);
  EXPECT_EQ(Culprit(), "slots");
  io_.metadata.pop_back();
  EXPECT_EQ(Culprit(), "captured graph");
}

TEST_F(AddressGuardTest, ListsOfPairs) {
  AddressGuard guard;
  const std::vector<NamedAddress> now = {{"a", &memory_[0]}, {"b", &memory_[1]}};
  guard.Record(now);
  EXPECT_TRUE(guard.CheckAddresses(now));
  const std::vector<NamedAddress> moved = {{"a", &memory_[0]}, {"b", &memory_[2]}};
  EXPECT_FALSE(guard.CheckAddresses(moved));
  EXPECT_FALSE(guard.CheckAddresses(std::span(now).first(1)));
}

}  // namespace
}  // namespace deepinfer::backend
