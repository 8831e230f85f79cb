#include "base/encoding.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "base/half.h"

namespace deepinfer {
namespace {

TEST(EncodingTest, NamesAndSizes) {
  for (int i = 0; i < kNumEncodings; ++i) {
    const auto encoding = static_cast<Encoding>(i);
    EXPECT_EQ(ParseEncoding(ToString(encoding)), encoding);
    EXPECT_EQ(RowBytes(encoding, 512), size_t(512 / InfoOf(encoding).block_elements) * InfoOf(encoding).block_bytes);
  }
  EXPECT_EQ(ParseEncoding("q9_9"), std::nullopt);
  EXPECT_FALSE(IsQuantised(Encoding::kBF16));
  EXPECT_TRUE(IsQuantised(Encoding::kQ6_K));
}

// Two blocks of noise from a linear congruential generator, with sane f16 scales. The expected values and the FNV-1a
// hash over the bits of all values come from the NumPy dequantiser of the `gguf` Python package, which is the format's
// own.
struct Golden {
  Encoding encoding;
  std::vector<int> index;
  std::vector<float> value;
  uint64_t hash;
};

std::vector<uint8_t> NoiseBlocks(Encoding encoding) {
  const int bytes = InfoOf(encoding).block_bytes;
  std::vector<uint8_t> blocks(size_t(bytes) * 2);
  uint32_t state = 12345;
  for (uint8_t& byte : blocks) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<uint8_t>(state >> 24);
  }
  std::vector<int> scale_offsets = {0};
  if (encoding == Encoding::kQ6_K) scale_offsets = {208};
  if (encoding == Encoding::kQ2_K) scale_offsets = {80, 82};
  if (encoding == Encoding::kQ3_K) scale_offsets = {108};
  if (encoding == Encoding::kMXFP4) scale_offsets.clear();
  if (encoding == Encoding::kQ4_1 || encoding == Encoding::kQ5_1 || encoding == Encoding::kQ4_K ||
      encoding == Encoding::kQ5_K) {
    scale_offsets.push_back(2);
  }
  for (int block = 0; block < 2; ++block) {
    for (size_t k = 0; k < scale_offsets.size(); ++k) {
      const auto bits = static_cast<uint16_t>(0x2c00 + k * 0x123 + block * 0x31);
      std::memcpy(&blocks[size_t(block) * bytes + scale_offsets[k]], &bits, sizeof(bits));
    }
    if (encoding == Encoding::kMXFP4) blocks[size_t(block) * bytes] = static_cast<uint8_t>(0x7c + block);
  }
  return blocks;
}

TEST(EncodingTest, DecodesBlocksAsTheFormatDefinesThem) {
  const std::vector<Golden> goldens = {
      {Encoding::kQ8_0,
       {0, 1, 21, 31, 63},
       {-0x1.d4p+2f, -0x1.78p+2f, 0x1.fcp+2f, 0x1.28p+2f, -0x1.bc4ap+1f},
       0x56bac5de70b2c543ull},
      {Encoding::kQ4_0,
       {0, 1, 21, 31, 63},
       {0x1.8p-3f, -0x1.8p-2f, 0.0f, 0x1.cp-2f, 0x1.d57p-2f},
       0x3c5dbf0a6c43ee83ull},
      {Encoding::kQ4_1,
       {0, 1, 21, 31, 63},
       {0x1.2918p-1f, 0x1.a918p-1f, 0x1.a918p-1f, 0x1.048cp+0f, 0x1.a49p-2f},
       0xb3285b918e39ec83ull},
      {Encoding::kQ5_0,
       {0, 1, 21, 31, 63},
       {0x1.cp-1f, 0x1.8p-1f, 0x1.6p-1f, -0x1.8p-2f, -0x1.926p-2f},
       0xb9c0af5be633e683ull},
      {Encoding::kQ5_1,
       {0, 1, 21, 31, 63},
       {0x1.2918p-1f, 0x1.2918p-1f, 0x1.248cp+0f, 0x1.848cp+0f, 0x1.bdp-1f},
       0x53d0e69fdfbcff83ull},
      {Encoding::kQ4_K,
       {0, 1, 133, 255, 511},
       {0x1.525cp+3f, 0x1.525cp+3f, 0x1.10526p+5f, 0x1.57d58p+3f, 0x1.10d98p+4f},
       0x7201ad35ac97ff43ull},
      {Encoding::kQ5_K,
       {0, 1, 133, 255, 511},
       {0x1.9497p+5f, 0x1.e497p+5f, -0x1.e2dap+1f, 0x1.46756p+5f, -0x1.55p-1f},
       0xf057808ff3ddf343ull},
      {Encoding::kQ6_K,
       {0, 1, 133, 255, 511},
       {0x1.a94p+6f, 0x1.95p+6f, 0x1.ba4p+6f, 0x1.88p+5f, -0x1.ea65p+3f},
       0xd5eb400d769a6667ull},
      {Encoding::kQ2_K,
       {0, 1, 133, 255, 511},
       {0x1.4p-2f, 0x1.4p-2f, 0x1.1c5p-2f, -0x1.feap-3f, -0x1.ff8p-2f},
       0x9fd8920855946883ull},
      {Encoding::kQ3_K,
       {0, 1, 133, 255, 511},
       {0x1.8p-1f, -0x1.8p-1f, -0x1.cp+0f, -0x1.8p+0f, -0x1.926p-1f},
       0x71f3b3b18a715503ull},
      {Encoding::kIQ4_NL,
       {0, 1, 21, 31, 63},
       {0x1.3p+1f, -0x1.4cp+2f, 0x1.0p-4f, 0x1.c4p+2f, 0x1.d9a1p+2f},
       0xe01dfd449f807a43ull},
      {Encoding::kIQ4_XS,
       {0, 1, 133, 255, 511},
       {0x1.8p+0f, 0x1.8p+0f, 0x1.378p+6f, 0x1.a8p+4f, -0x1.69824p+5f},
       0x8fd9e37f23f5593ull},
      {Encoding::kMXFP4,
       {0, 1, 21, 31, 63},
       {0x1.0p-2f, -0x1.8p-3f, 0x1.8p-1f, 0x1.0p-1f, 0x1.0p-1f},
       0xc1953640bac6c683ull},
  };
  for (const Golden& golden : goldens) {
    SCOPED_TRACE(ToString(golden.encoding));
    const std::vector<uint8_t> blocks = NoiseBlocks(golden.encoding);
    // One byte off any alignment: rows of a file need none.
    std::vector<uint8_t> shifted(blocks.size() + 1);
    std::copy(blocks.begin(), blocks.end(), shifted.begin() + 1);
    std::vector<float> values(size_t(InfoOf(golden.encoding).block_elements) * 2);
    DecodeRow(golden.encoding, shifted.data() + 1, values.data(), static_cast<int64_t>(values.size()));
    for (size_t i = 0; i < golden.index.size(); ++i)
      EXPECT_EQ(values[golden.index[i]], golden.value[i]) << golden.index[i];
    uint64_t hash = 1469598103934665603ull;
    for (float value : values) hash = (hash ^ std::bit_cast<uint32_t>(value)) * 1099511628211ull;
    EXPECT_EQ(hash, golden.hash);
  }
}

// Blocks of zeros but for the bytes given, and what some of their values must then be.
struct HandMade {
  Encoding encoding;
  std::vector<std::pair<int, int>> bytes;     // place, value
  std::vector<std::pair<int, float>> values;  // place, value
};

TEST(EncodingTest, DecodesBlocksWorkedOutByHand) {
  const std::vector<HandMade> blocks = {
      // Values 144-159 have scale 5 and minimum 3; value 146 is 2; d 0.5, dmin 0.25.
      {Encoding::kQ2_K,
       {{9, 0x35}, {16 + 32 + 16 + 2, 2}, {81, 0x38}, {83, 0x34}},
       {{143, 0.0f}, {144, -0.75f}, {146, 0.5f * 5 * 2 - 0.75f}, {160, 0.0f}}},
      // Values 144-159 have the 6-bit scale 0b100101 = 37, less 32: 5; the others 0 - 32. Value 146, in run 4, is 2
      // with
      // its third bit clear, value 147 is 3 with it set; d 0.5.
      {Encoding::kQ3_K,
       {{96 + 1, 0x50}, {96 + 9, 2 << 4}, {32 + 50, 2}, {32 + 51, 3}, {19, 1 << 4}, {109, 0x38}},
       {{0, 0.5f * -32 * -4}, {144, 0.5f * 5 * -4}, {146, 0.5f * 5 * -2}, {147, 0.5f * 5 * 3}}},
      {Encoding::kIQ4_NL, {{1, 0x38}, {2 + 3, 0xf8}}, {{0, 0.5f * -127}, {3, 0.5f * 1}, {19, 0.5f * 113}}},
      // Group 5 has the scale 0b110011 = 51, less 32: 19.
      {Encoding::kIQ4_XS,
       {{1, 0x38}, {3, 3 << 2}, {4 + 2, 0x30}, {8 + 5 * 16 + 3, 0xf8}},
       {{0, 0.5f * -32 * -127}, {163, 0.5f * 19 * 1}, {179, 0.5f * 19 * 113}}},
      // 2^(130 - 127) times 0.5, 6 and -1.5.
      {Encoding::kMXFP4, {{0, 130}, {1, 0x71}, {2, 0xb0}}, {{0, 4.0f}, {16, 48.0f}, {17, -12.0f}, {1, 0.0f}}},
      {Encoding::kMXFP4, {{0, 2}, {1, 0x01}}, {{0, 0x1p-126f}}},
      {Encoding::kMXFP4, {{0, 1}, {1, 0x07}}, {{0, 0.0f}}},
      {Encoding::kMXFP4, {{0, 0}, {1, 0x07}}, {{0, 0.0f}}},
  };
  for (const HandMade& block : blocks) {
    SCOPED_TRACE(ToString(block.encoding));
    std::vector<uint8_t> bytes(size_t(InfoOf(block.encoding).block_bytes));
    for (const auto& [place, value] : block.bytes) bytes[size_t(place)] = static_cast<uint8_t>(value);
    std::vector<float> values(size_t(InfoOf(block.encoding).block_elements));
    DecodeRow(block.encoding, bytes.data(), values.data(), static_cast<int64_t>(values.size()));
    for (const auto& [place, value] : block.values) EXPECT_EQ(values[size_t(place)], value) << place;
  }
}

TEST(EncodingTest, PlainEncodingsDecode) {
  const std::vector<float> values = {1.0f, -2.5f, 0.0f, 65504.0f};
  for (Encoding encoding : {Encoding::kF32, Encoding::kF16}) {
    std::vector<uint8_t> bytes(RowBytes(encoding, 4));
    EncodeRow(encoding, values.data(), bytes.data(), 4);
    std::vector<float> back(4);
    DecodeRow(encoding, bytes.data(), back.data(), 4);
    EXPECT_EQ(back, values);
  }
  const uint16_t bf16[2] = {0x3f80, 0xc020};
  float back[2];
  DecodeRow(Encoding::kBF16, bf16, back, 2);
  EXPECT_EQ(back[0], 1.0f);
  EXPECT_EQ(back[1], -2.5f);
}

TEST(EncodingTest, EncodingIsWithinHalfAStep) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  // Largest error in parts of the largest magnitude that shares the scale: half a step, plus the clipped end of the
  // symmetric forms. fp8 keeps four significant bits.
  const std::pair<Encoding, float> cases[] = {
      {Encoding::kQ8_0, 0.5f / 127},    {Encoding::kQ4_0, 1.01f / 8},  {Encoding::kQ4_1, 1.02f / 15},
      {Encoding::kQ5_0, 1.01f / 16},    {Encoding::kQ5_1, 1.02f / 31}, {Encoding::kInt4, 1.02f / 15},
      {Encoding::kInt4G32, 1.02f / 15}, {Encoding::kFP8, 1.0f / 16},   {Encoding::kInt8, 0.5f / 127}};
  for (const auto& [encoding, bound] : cases) {
    SCOPED_TRACE(ToString(encoding));
    std::vector<float> values(32 * 64);
    for (float& value : values) value = normal(random);
    std::vector<uint8_t> bytes(RowBytes(encoding, static_cast<int64_t>(values.size())));
    EncodeRow(encoding, values.data(), bytes.data(), static_cast<int64_t>(values.size()));
    std::vector<float> back(values.size());
    DecodeRow(encoding, bytes.data(), back.data(), static_cast<int64_t>(values.size()));
    const size_t run = HasRuns(encoding) ? size_t{kRunElements} : 32;
    for (size_t block = 0; block < values.size(); block += run) {
      float largest = 0;
      for (size_t j = 0; j < run; ++j) largest = std::max(largest, std::fabs(values[block + j]));
      for (size_t j = 0; j < run; ++j) {
        ASSERT_LE(std::fabs(values[block + j] - back[block + j]), bound * largest * 1.01f) << block + j;
      }
    }
    // Encoding what was decoded changes no value.
    std::vector<uint8_t> again(bytes.size());
    EncodeRow(encoding, back.data(), again.data(), static_cast<int64_t>(back.size()));
    std::vector<float> twice(back.size());
    DecodeRow(encoding, again.data(), twice.data(), static_cast<int64_t>(twice.size()));
    for (size_t i = 0; i < back.size(); ++i) ASSERT_NEAR(twice[i], back[i], 1e-2f * std::fabs(back[i]) + 2e-3f) << i;
  }
}

// Root of the mean squared error over noise of variance one.
double NoiseError(Encoding encoding) {
  std::mt19937 random(11);
  std::normal_distribution<float> normal;
  std::vector<float> values(256 * 64), back(values.size());
  for (float& value : values) value = normal(random);
  std::vector<uint8_t> bytes(RowBytes(encoding, static_cast<int64_t>(values.size())));
  EncodeRow(encoding, values.data(), bytes.data(), static_cast<int64_t>(values.size()));
  DecodeRow(encoding, bytes.data(), back.data(), static_cast<int64_t>(back.size()));
  double sum = 0;
  for (size_t i = 0; i < values.size(); ++i) sum += double(values[i] - back[i]) * double(values[i] - back[i]);
  return std::sqrt(sum / static_cast<double>(values.size()));
}

// A search must beat, rounded scales included, steps that just cover the mean range of a group, whose error is step /
// sqrt(12). For noise of variance one the mean range of 16 and 32 values is 3.53 and 4.07, the mean largest magnitude
// 2.2 and 2.5 (tables of normal order statistics).
TEST(EncodingTest, SearchedScalesBeatTheRangeOfTheGroup) {
  const double step = 1 / std::sqrt(12.0);
  EXPECT_LT(NoiseError(Encoding::kQ2_K), 3.53 / 3 * step);
  EXPECT_LT(NoiseError(Encoding::kQ3_K), 2.2 / 4 * step);
  EXPECT_LT(NoiseError(Encoding::kQ4_K), 4.07 / 15 * step);
  EXPECT_LT(NoiseError(Encoding::kQ5_K), 4.07 / 31 * step);
  EXPECT_LT(NoiseError(Encoding::kQ6_K), 2.2 / 32 * step);
  // The codebook is finer near zero, where most values are, than sixteen even steps.
  EXPECT_LT(NoiseError(Encoding::kIQ4_NL), 2.5 / 8 * step);
  EXPECT_LT(NoiseError(Encoding::kIQ4_XS), 2.5 / 8 * step);
  // At scale 0.5 (up to 3) the steps are 0.25 for 68 % of the values, 0.5 for 27 % and 1 for 5 %.
  EXPECT_LT(NoiseError(Encoding::kMXFP4), std::sqrt(0.68 * 0.0625 + 0.27 * 0.25 + 0.05) * step);
}

// What every code can reach: values made of codes come back as they were.
TEST(EncodingTest, SearchedEncodingsKeepValuesThatCodesReach) {
  std::mt19937 random(3);
  const int mxfp4[] = {0, 1, 2, 3, 4, 6, 8, 12, -1, -2, -3, -4, -6, -8, -12};
  const int iq4[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
  std::vector<float> values(256);
  const auto expect_kept = [&](Encoding encoding) {
    std::vector<uint8_t> bytes(RowBytes(encoding, 256));
    std::vector<float> back(256);
    EncodeRow(encoding, values.data(), bytes.data(), 256);
    DecodeRow(encoding, bytes.data(), back.data(), 256);
    EXPECT_EQ(back, values) << ToString(encoding);
  };
  for (size_t i = 0; i < 256; ++i) values[i] = i % 16 == 0 ? -32.0f : static_cast<float>(int(random() % 64) - 32);
  for (float& value : values) value *= 0.25f;
  expect_kept(Encoding::kQ6_K);
  for (size_t i = 0; i < 256; ++i) values[i] = 0.5f * static_cast<float>(i % 32 == 0 ? 12 : mxfp4[random() % 15]);
  expect_kept(Encoding::kMXFP4);
  for (size_t i = 0; i < 256; ++i) values[i] = 0.5f * static_cast<float>(iq4[i % 32 == 0 ? 0 : random() % 16]);
  expect_kept(Encoding::kIQ4_NL);
  for (size_t i = 0; i < 256; ++i) values[i] = F8E4M3ToF32(static_cast<uint8_t>(i % 128 == 0 ? 0x7e : random() % 0x7f));
  expect_kept(Encoding::kFP8);
  for (size_t i = 0; i < 256; ++i) values[i] = static_cast<float>(int(i % 128 == 0 ? 127 : random() % 255) - 127);
  values[0] = values[128] = 127.0f;
  expect_kept(Encoding::kInt8);
  for (size_t i = 0; i < 256; ++i) values[i] = static_cast<float>(int(random() % 16) - 5);
  values[0] = values[128] = -5.0f;
  values[1] = values[129] = 10.0f;
  expect_kept(Encoding::kInt4);
}

TEST(EncodingTest, RunsShareTheirScale) {
  std::vector<float> values(224);  // a run of 128 and a part of one
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  for (const Encoding encoding : {Encoding::kFP8, Encoding::kInt8, Encoding::kInt4}) {
    ASSERT_TRUE(HasRuns(encoding));
    std::vector<uint8_t> bytes(RowBytes(encoding, 224));
    EncodeRow(encoding, values.data(), bytes.data(), 224);
    const size_t block = size_t(InfoOf(encoding).block_bytes);
    const size_t head = encoding == Encoding::kInt4 ? 3 : 4;
    for (size_t i = 0; i < 7; ++i) {
      const bool same = std::memcmp(&bytes[i * block], &bytes[i / 4 * 4 * block], head) == 0;
      EXPECT_TRUE(same) << ToString(encoding) << " block " << i;
    }
    EXPECT_NE(std::memcmp(bytes.data(), &bytes[4 * block], head), 0) << ToString(encoding);
  }
}

TEST(EncodingTest, EncodingOddInputsStaysDefined) {
  for (int i = 0; i < kNumEncodings; ++i) {
    const auto encoding = static_cast<Encoding>(i);
    if (!IsQuantised(encoding)) continue;
    SCOPED_TRACE(ToString(encoding));
    std::vector<float> values(256, 0.0f), back(256, 1.0f);
    std::vector<uint8_t> bytes(RowBytes(encoding, 256));
    EncodeRow(encoding, values.data(), bytes.data(), 256);
    DecodeRow(encoding, bytes.data(), back.data(), 256);
    for (const float value : back) ASSERT_EQ(value, 0.0f);
    values[3] = NAN;
    values[5] = 1e30f;
    values[6] = -INFINITY;
    values[200] = 1e-42f;
    EncodeRow(encoding, values.data(), bytes.data(), 256);
  }
}

}  // namespace
}  // namespace deepinfer
