#include "backend/build_id.h"

#include <fmt/format.h>
#include <link.h>
#include <sys/stat.h>

#include <cstdint>
#include <cstring>

namespace deepinfer::backend {
namespace {

constexpr size_t RoundUp4(size_t size) {
  return (size + 3) & ~size_t{3};
}

// Walks one note segment of the mapped program for the GNU build id.
std::string FindInNotes(const unsigned char* notes, size_t size) {
  while (size >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) header;
    std::memcpy(&header, notes, sizeof(header));
    const size_t name_at = sizeof(header);
    const size_t desc_at = name_at + RoundUp4(header.n_namesz);
    const size_t next = desc_at + RoundUp4(header.n_descsz);
    if (next > size) break;
    if (header.n_type == NT_GNU_BUILD_ID && header.n_namesz == 4 && std::memcmp(notes + name_at, "GNU", 4) == 0) {
      std::string hex = "gnu-";
      for (size_t i = 0; i < header.n_descsz; ++i) hex += fmt::format("{:02x}", notes[desc_at + i]);
      return hex;
    }
    notes += next;
    size -= next;
  }
  return "";
}

// The loader reports the program itself first; a non-zero answer ends the walk.
int VisitProgram(dl_phdr_info* info, size_t, void* result) {
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const auto* notes = reinterpret_cast<const unsigned char*>(info->dlpi_addr + segment.p_vaddr);
    std::string found = FindInNotes(notes, segment.p_memsz);
    if (!found.empty()) {
      *static_cast<std::string*>(result) = std::move(found);
      break;
    }
  }
  return 1;
}

}  // namespace

std::string BuildId() {
  std::string id;
  ::dl_iterate_phdr(VisitProgram, &id);
  if (!id.empty()) return id;
  struct stat info{};
  if (::stat("/proc/self/exe", &info) != 0) return "unknown";
  return fmt::format("file-{}-{}.{:09}", info.st_size, info.st_mtim.tv_sec, info.st_mtim.tv_nsec);
}

}  // namespace deepinfer::backend
