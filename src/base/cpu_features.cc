#include "base/cpu_features.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace deepinfer {
namespace {

constexpr std::array<Isa, 5> kAllIsas = {Isa::kPortable, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16, Isa::kAmx};

#if defined(__x86_64__)

struct CpuidRegisters {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

// All zero where the leaf does not exist.
CpuidRegisters Cpuid(uint32_t leaf, uint32_t subleaf) {
  CpuidRegisters r;
  __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);
  return r;
}

bool Has(uint32_t value, std::initializer_list<int> bits) {
  for (int bit : bits) {
    if ((value >> bit & 1) == 0) return false;
  }
  return true;
}

// Which register states the operating system saves (XCR0); 0 without XSAVE.
uint64_t EnabledStates(const CpuidRegisters& leaf1) {
  if (!Has(leaf1.ecx, {27})) return 0;
  uint32_t low, high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t{high} << 32 | low;
}

// Asks the operating system for the tile data's place in every thread's saved state: without it tiles fault. A grant
// holds for the process and all its threads.
bool RequestTileData() {
  constexpr int kArchReqXcompPerm = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kArchReqXcompPerm, kTileData) == 0;
}

Isa DetectBest() {
  const CpuidRegisters leaf1 = Cpuid(1, 0);
  const CpuidRegisters leaf7 = Cpuid(7, 0);
  const CpuidRegisters leaf7_1 = Cpuid(7, 1);
  const uint64_t states = EnabledStates(leaf1);

  constexpr uint64_t kYmm = 0x6, kZmm = 0xe6, kTiles = 0x60000;
  const bool avx2 =
      (states & kYmm) == kYmm && Has(leaf1.ecx, {12, 28, 29}) && Has(leaf7.ebx, {5});  // FMA AVX F16C AVX2
  if (!avx2) return Isa::kPortable;
  const bool avx512 = (states & kZmm) == kZmm && Has(leaf7.ebx, {16, 17, 30, 31}) && Has(leaf7.ecx, {1, 11});
  if (!avx512) return Isa::kAvx2;  // F DQ BW VL, VBMI VNNI
  if (leaf7.eax < 1 || !Has(leaf7_1.eax, {5})) return Isa::kAvx512;
  // AMX-BF16 and AMX-TILE.
  const bool amx = (states & kTiles) == kTiles && Has(leaf7.edx, {22, 24}) && RequestTileData();
  return amx ? Isa::kAmx : Isa::kAvx512Bf16;
}

std::string ReadCpuName() {
  if (Cpuid(0x80000000, 0).eax < 0x80000004) return "unknown x86-64 CPU";
  char text[49] = {};
  for (uint32_t i = 0; i < 3; ++i) {
    const CpuidRegisters r = Cpuid(0x80000002 + i, 0);
    std::memcpy(text + 16 * i, &r, 16);
  }
  std::string name(text);
  const size_t begin = name.find_first_not_of(' ');
  if (begin == std::string::npos) return "unknown x86-64 CPU";
  return name.substr(begin, name.find_last_not_of(' ') - begin + 1);
}

#else

Isa DetectBest() {
  return Isa::kPortable;
}
std::string ReadCpuName() {
  return "unknown CPU";
}

#endif

Isa BestIsa() {
  static const Isa best = DetectBest();
  return best;
}

// What may be forced on this machine.
std::string Choices() {
  std::string list;
  for (Isa isa : MachineIsas()) {
    if (!list.empty()) list += ", ";
    list += ToString(isa);
  }
  return list;
}

}  // namespace

const char* ToString(Isa isa) {
  switch (isa) {
    case Isa::kPortable:
      return "portable";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx512Bf16:
      return "avx512_bf16";
    case Isa::kAmx:
      return "amx";
  }
  return "?";
}

bool MachineHas(Isa isa) {
  return isa <= BestIsa();
}

std::vector<Isa> MachineIsas() {
  std::vector<Isa> isas;
  for (Isa isa : kAllIsas) {
    if (MachineHas(isa)) isas.push_back(isa);
  }
  return isas;
}

Result<Isa> SelectIsa(std::string_view forced) {
  if (forced.empty()) return BestIsa();
  std::optional<Isa> wanted;
  for (Isa isa : kAllIsas) {
    if (forced == ToString(isa)) wanted = isa;
  }
  if (!wanted) {
    return MakeError(ErrorCode::kInvalidArgument, "DEEPINFER_CPU_ISA",
                     "unknown instruction set \"{}\"; this machine has {}", forced, Choices());
  }
  if (!MachineHas(*wanted)) {
    return MakeError(ErrorCode::kInvalidArgument, "DEEPINFER_CPU_ISA", "this machine lacks {}; it has {}", forced,
                     Choices());
  }
  return *wanted;
}

std::string CpuName() {
  static const std::string name = ReadCpuName();
  return name;
}

}  // namespace deepinfer
