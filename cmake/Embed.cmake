# A text file as a C++ string: cmake -DIN=FILE -DOUT=FILE.cc -DHEADER=room/file.h -DFUNCTION=Name -P Embed.cmake
# The function returns a std::string_view and lives in the room's namespace. Bytes go in as numbers: the file may hold
# anything, and no compiler's limit on literals applies.
file(READ ${IN} hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
file(WRITE ${OUT} "#include \"${HEADER}\"
namespace deepinfer::server {
std::string_view ${FUNCTION}() {
  static const unsigned char kBytes[] = {${bytes}};
  return {reinterpret_cast<const char*>(kBytes), sizeof(kBytes)};
}
}  // namespace deepinfer::server
")
