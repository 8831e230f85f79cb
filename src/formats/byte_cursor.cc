#include "formats/byte_cursor.h"

namespace deepinfer::formats {

std::string Printable(std::string_view text, size_t max_bytes) {
  std::string shown;
  for (char c : text.substr(0, max_bytes)) {
    if (c >= 0x20 && c < 0x7f && c != '\\') {
      shown += c;
    } else {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  if (text.size() > max_bytes) shown += "...";
  return shown;
}

std::optional<int64_t> CheckedMultiply(int64_t a, int64_t b) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return std::nullopt;
  return product;
}

tl::unexpected<Error> ByteCursor::Truncated(std::string_view field, uint64_t wanted) const {
  return MakeError(ErrorCode::kDataLoss, fmt::format("{}: {}", file_, field),
                   "needs {} bytes at offset {}, but only {} are left in the file", wanted, position_, remaining());
}

Result<std::string_view> ByteCursor::ReadString(std::string_view field, uint64_t max_bytes) {
  DI_ASSIGN_OR_RETURN(const uint64_t length, Read<uint64_t>(field));
  if (length > remaining()) return Truncated(field, length);
  if (length > max_bytes) {
    return MakeError(ErrorCode::kDataLoss, fmt::format("{}: {}", file_, field),
                     "a string of {} bytes is over the limit of {}", length, max_bytes);
  }
  std::string_view view(reinterpret_cast<const char*>(bytes_.data()) + position_, length);
  position_ += length;
  return view;
}

Result<std::span<const std::byte>> ByteCursor::ReadBytes(std::string_view field, uint64_t size) {
  if (size > remaining()) return Truncated(field, size);
  auto view = bytes_.subspan(position_, size);
  position_ += size;
  return view;
}

}  // namespace deepinfer::formats
