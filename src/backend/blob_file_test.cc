#include "backend/blob_file.h"

#include <gtest/gtest.h>

#include "backend/test_util.h"

namespace deepinfer::backend {
namespace {

std::span<const std::byte> BytesOf(const std::string& text) {
  return std::as_bytes(std::span(text));
}

std::string TextOf(std::span<const std::byte> bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

class BlobFileTest : public testing::Test {
 protected:
  void SetUp() override {
    path_ = dir_.path() + "/weights.blobs";
    ASSERT_TRUE(WriteBlobFile(path_, "model avx2", {{"b", BytesOf(big_)}, {"empty", {}}, {"a", BytesOf(small_)}}));
  }
  ErrorCode OpenError(const std::string& identity = "model avx2") {
    const auto file = BlobFile::Open(path_, identity);
    EXPECT_FALSE(file);
    return file ? ErrorCode::kInternal : file.error().code;
  }

  const TempDir dir_;
  std::string path_;
  const std::string big_ = std::string(5000, 'b');
  const std::string small_ = "short";
};

TEST_F(BlobFileTest, BlobsComeBackAlignedAndWhole) {
  const auto file = BlobFile::Open(path_, "model avx2");
  ASSERT_TRUE(file) << file.error().ToString();
  EXPECT_EQ(file->Names(), (std::vector<std::string>{"a", "b", "empty"}));
  EXPECT_EQ(TextOf(*file->Get("a")), small_);
  EXPECT_EQ(TextOf(*file->Get("b")), big_);
  EXPECT_EQ(file->Get("empty")->size(), 0u);
  for (const char* name : {"a", "b"}) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(file->Get(name)->data()) % kBlobAlignment, 0u);
  }
  ASSERT_FALSE(file->Get("c"));
  EXPECT_EQ(file->Get("c").error().code, ErrorCode::kNotFound);
  EXPECT_TRUE(file->Verify());
}

TEST_F(BlobFileTest, NoBlobsAtAll) {
  ASSERT_TRUE(WriteBlobFile(path_, "", {}));
  const auto file = BlobFile::Open(path_, "");
  ASSERT_TRUE(file) << file.error().ToString();
  EXPECT_EQ(file->size(), 0u);
  ASSERT_TRUE(WriteBlobFile(path_, "", {{"last is empty", {}}}));
  EXPECT_TRUE(BlobFile::Open(path_, ""));
}

TEST_F(BlobFileTest, AnotherIdentityIsRefusedByName) {
  const auto file = BlobFile::Open(path_, "model amx");
  ASSERT_FALSE(file);
  EXPECT_EQ(file.error().code, ErrorCode::kFailedPrecondition);
  EXPECT_NE(file.error().message.find("model avx2"), std::string::npos);
  EXPECT_NE(file.error().message.find("model amx"), std::string::npos);
}

TEST_F(BlobFileTest, MissingIsNotFound) {
  std::filesystem::remove(path_);
  EXPECT_EQ(OpenError(), ErrorCode::kNotFound);
}

TEST_F(BlobFileTest, TwoBlobsOfOneNameAreRefused) {
  EXPECT_FALSE(WriteBlobFile(path_, "x", {{"a", {}}, {"a", {}}}));
  EXPECT_TRUE(BlobFile::Open(path_, "model avx2"));
}

TEST_F(BlobFileTest, EveryChangedByteOfHeaderIndexAndBlobsIsFound) {
  const std::string good = ReadFile(path_);
  const size_t index_end = good.find(std::string(100, '\0'));
  for (size_t i = 0; i < good.size(); ++i) {
    const bool is_data = good[i] == 'b' || i >= good.size() - small_.size();
    if (i > index_end && !(is_data && i % 97 == 0) && i < good.size() - small_.size()) continue;
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 0x10);
    WriteFile(path_, bad);
    const auto file = BlobFile::Open(path_, "model avx2");
    const Status status = file ? file->Verify() : Status(tl::unexpected(file.error()));
    const bool is_padding = i >= index_end && !is_data;
    EXPECT_EQ(status.has_value(), is_padding) << "byte " << i;
    if (!status) {
      EXPECT_EQ(status.error().code, ErrorCode::kDataLoss);
    }
  }
}

TEST_F(BlobFileTest, EveryTruncationIsFoundAtOpen) {
  const std::string good = ReadFile(path_);
  for (size_t size = 0; size < good.size(); size += size < 400 ? 1 : 501) {
    WriteFile(path_, good.substr(0, size));
    EXPECT_EQ(OpenError(), ErrorCode::kDataLoss) << size;
  }
  WriteFile(path_, good + "x");
  EXPECT_EQ(OpenError(), ErrorCode::kDataLoss);
}

}  // namespace
}  // namespace deepinfer::backend
