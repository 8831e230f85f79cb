#include "base/encoding.h"

#include <algorithm>
#include <cstring>

#include "base/encoding_blocks.h"
#include "base/error.h"
#include "base/half.h"

namespace deepinfer {
namespace {

constexpr EncodingInfo kInfo[kNumEncodings] = {
#define DI_ENCODING(enumerator, name, elements, bytes) {name, elements, bytes},
#include "base/encodings.inc"
#undef DI_ENCODING
};

}  // namespace

const EncodingInfo& InfoOf(Encoding encoding) {
  return kInfo[static_cast<size_t>(encoding)];
}

std::optional<Encoding> ParseEncoding(std::string_view name) {
  for (int i = 0; i < kNumEncodings; ++i) {
    if (name == kInfo[i].name) return static_cast<Encoding>(i);
  }
  return std::nullopt;
}

size_t RowBytes(Encoding encoding, int64_t elements) {
  const EncodingInfo& info = InfoOf(encoding);
  DI_CHECK(elements >= 0 && elements % info.block_elements == 0);
  return static_cast<size_t>(elements / info.block_elements) * static_cast<size_t>(info.block_bytes);
}

void DecodeRow(Encoding encoding, const void* src, float* dst, int64_t elements) {
  const EncodingInfo& info = InfoOf(encoding);
  DI_CHECK(elements >= 0 && elements % info.block_elements == 0);
  const auto* bytes = static_cast<const uint8_t*>(src);
  switch (encoding) {
    case Encoding::kF32:
      if (elements > 0) std::memcpy(dst, src, static_cast<size_t>(elements) * sizeof(float));
      return;
    case Encoding::kF16:
      for (int64_t i = 0; i < elements; ++i) dst[i] = F16ToF32(LoadBits16(bytes + 2 * i));
      return;
    case Encoding::kBF16:
      for (int64_t i = 0; i < elements; ++i) dst[i] = BF16ToF32(LoadBits16(bytes + 2 * i));
      return;
    default:
      break;
  }
  for (int64_t i = 0; i < elements; i += info.block_elements, bytes += info.block_bytes) {
    DecodeBlock(encoding, bytes, dst + i);
  }
}

void EncodeRow(Encoding encoding, const float* src, void* dst, int64_t elements) {
  const EncodingInfo& info = InfoOf(encoding);
  DI_CHECK(elements >= 0 && elements % info.block_elements == 0);
  auto* bytes = static_cast<uint8_t*>(dst);
  switch (encoding) {
    case Encoding::kF32:
      if (elements > 0) std::memcpy(dst, src, static_cast<size_t>(elements) * sizeof(float));
      return;
    case Encoding::kF16:
      for (int64_t i = 0; i < elements; ++i) StoreBits16(bytes + 2 * i, F32ToF16(src[i]));
      return;
    case Encoding::kBF16:
      for (int64_t i = 0; i < elements; ++i) StoreBits16(bytes + 2 * i, F32ToBF16(src[i]));
      return;
    default:
      break;
  }
  if (encoding >= Encoding::kFP8) {
    const int64_t run = HasRuns(encoding) ? kRunElements : info.block_elements;
    for (int64_t i = 0; i < elements; i += run) {
      EncodeRun(encoding, src + i, std::min(run, elements - i), bytes + RowBytes(encoding, i));
    }
    return;
  }
  for (int64_t i = 0; i < elements; i += info.block_elements, bytes += info.block_bytes) {
    EncodeBlock(encoding, src + i, bytes);
  }
}

}  // namespace deepinfer
