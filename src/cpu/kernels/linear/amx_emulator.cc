#include "cpu/kernels/linear/amx_emulator.h"

#include "base/cpu_features.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <signal.h>
#include <ucontext.h>

#include <cstdint>
#include <cstring>

namespace deepinfer::cpu {
namespace {

constexpr int kTiles = 8, kMaxRows = 16, kRowBytes = 64;

struct TileState {
  uint8_t config[64];  // as LDTILECFG read it
  alignas(64) uint8_t data[kTiles][kMaxRows][kRowBytes];

  int Rows(int tile) const { return config[48 + tile]; }
  int Columns(int tile) const {  // bytes
    uint16_t bytes;
    std::memcpy(&bytes, config + 16 + 2 * tile, 2);
    return bytes;
  }
};
thread_local TileState tiles;

// A VEX instruction of map 0F38, as far as tiles need it.
struct Instruction {
  int prefix;  // 0: none, 1: 66, 2: F3, 3: F2
  int opcode;
  int reg;      // ModRM.reg
  int rm;       // ModRM.rm, if a register
  int vvvv;     // third operand
  bool memory;  // ModRM.mod != 3
  uint64_t address = 0;
  int64_t stride = 0;  // index register times scale
  int length = 0;
};

int64_t Register(const ucontext_t& context, int number) {
  constexpr int kPlaces[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                               REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
  return context.uc_mcontext.gregs[kPlaces[number]];
}

// Base, index and displacement; *next is behind ModRM and ends behind what was read.
void DecodeMemory(const ucontext_t& context, int mod, int rm, int extend_base, int extend_index, const uint8_t** next,
                  Instruction* out) {
  int base = rm;
  bool has_base = true;
  if (rm == 4) {
    const uint8_t sib = *(*next)++;
    const int index = (sib >> 3 & 7) | extend_index;
    if (index != 4) out->stride = Register(context, index) << (sib >> 6);
    base = sib & 7;
    has_base = !(base == 5 && mod == 0);
  } else if (rm == 5 && mod == 0) {
    has_base = false;  // relative to the next instruction, below
  }
  int64_t displacement = 0;
  if (mod == 1) {
    displacement = static_cast<int8_t>(*(*next)++);
  } else if (mod == 2 || !has_base) {
    int32_t wide;
    std::memcpy(&wide, *next, 4);
    *next += 4;
    displacement = wide;
  }
  int64_t address = displacement;
  if (has_base) address += Register(context, base | extend_base);
  if (!has_base && rm == 5) address += static_cast<int64_t>(reinterpret_cast<uintptr_t>(*next));
  out->address = static_cast<uint64_t>(address);
}

bool Decode(const ucontext_t& context, const uint8_t* code, Instruction* out) {
  if (code[0] != 0xc4 || (code[1] & 0x1f) != 2 || (code[2] & 0x84) != 0) return false;  // map 0F38, W 0, L 0
  const int extend_index = (code[1] & 0x40) != 0 ? 0 : 8, extend_base = (code[1] & 0x20) != 0 ? 0 : 8;
  const int modrm = code[4];
  out->prefix = code[2] & 3;
  out->vvvv = ~(code[2] >> 3) & 15;
  out->opcode = code[3];
  out->reg = modrm >> 3 & 7;
  out->rm = modrm & 7;
  out->memory = modrm >> 6 != 3;
  const uint8_t* next = code + 5;
  if (out->memory) DecodeMemory(context, modrm >> 6, out->rm, extend_base, extend_index, &next, out);
  out->length = static_cast<int>(next - code);
  return true;
}

void Load(const Instruction& i) {
  for (int row = 0; row < kMaxRows; ++row) {
    std::memset(tiles.data[i.reg][row], 0, kRowBytes);
    if (row >= tiles.Rows(i.reg)) continue;
    std::memcpy(tiles.data[i.reg][row], reinterpret_cast<const uint8_t*>(i.address) + row * i.stride,
                static_cast<size_t>(tiles.Columns(i.reg)));
  }
}

void Store(const Instruction& i) {
  for (int row = 0; row < tiles.Rows(i.reg); ++row) {
    std::memcpy(reinterpret_cast<uint8_t*>(i.address) + row * i.stride, tiles.data[i.reg][row],
                static_cast<size_t>(tiles.Columns(i.reg)));
  }
}

// Lanes are the columns of the result.
__attribute__((target("avx512f"))) void MultiplyBf16(const Instruction& i) {
  const unsigned saved = _mm_getcsr();
  _mm_setcsr(0x1f80u | 0x8040u);  // denormals are zeros, to nearest, nothing traps
  const int pairs = tiles.Columns(i.rm) / 4;
  const __m512i upper = _mm512_set1_epi32(static_cast<int>(0xffff0000u));
  for (int row = 0; row < tiles.Rows(i.reg); ++row) {
    __m512 even = _mm512_setzero_ps(), odd = even;
    for (int k = 0; k < pairs; ++k) {
      uint32_t pair;
      std::memcpy(&pair, &tiles.data[i.rm][row][4 * k], 4);
      const __m512i w = _mm512_load_si512(tiles.data[i.vvvv][k]);
      const __m512i x = _mm512_set1_epi32(static_cast<int>(pair));
      even = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_slli_epi32(x, 16)),
                             _mm512_castsi512_ps(_mm512_slli_epi32(w, 16)), even);
      odd = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_and_si512(x, upper)),
                            _mm512_castsi512_ps(_mm512_and_si512(w, upper)), odd);
    }
    auto* sum = reinterpret_cast<float*>(tiles.data[i.reg][row]);
    _mm512_store_ps(sum, _mm512_add_ps(_mm512_load_ps(sum), _mm512_add_ps(even, odd)));
  }
  _mm_setcsr(saved);
}

bool Run(const Instruction& i) {
  constexpr int kNone = 0, k66 = 1, kF3 = 2, kF2 = 3;
  if (i.opcode == 0x49 && i.memory && i.prefix == kNone) {  // LDTILECFG
    std::memcpy(tiles.config, reinterpret_cast<const void*>(i.address), 64);
    std::memset(tiles.data, 0, sizeof(tiles.data));
    return tiles.config[0] == 1;
  }
  if (i.opcode == 0x49 && i.memory && i.prefix == k66) {  // STTILECFG
    std::memcpy(reinterpret_cast<void*>(i.address), tiles.config, 64);
    return true;
  }
  if (i.opcode == 0x49 && !i.memory && i.prefix == kNone) {  // TILERELEASE
    std::memset(&tiles, 0, sizeof(tiles));
    return true;
  }
  if (tiles.config[0] != 1) return false;  // as on the CPU: no configuration, no tiles
  if (i.opcode == 0x49 && !i.memory && i.prefix == kF2) {
    std::memset(tiles.data[i.reg], 0, sizeof(tiles.data[i.reg]));  // TILEZERO
  } else if (i.opcode == 0x4b && i.memory && (i.prefix == kF2 || i.prefix == k66)) {
    Load(i);  // TILELOADD, TILELOADDT1
  } else if (i.opcode == 0x4b && i.memory && i.prefix == kF3) {
    Store(i);
  } else if (i.opcode == 0x5c && !i.memory && i.prefix == kF3 && i.vvvv < kTiles) {
    MultiplyBf16(i);
  } else {
    return false;
  }
  return true;
}

void OnIllegalInstruction(int /*signal*/, siginfo_t* /*info*/, void* context) {
  auto* machine = static_cast<ucontext_t*>(context);
  greg_t& at = machine->uc_mcontext.gregs[REG_RIP];
  Instruction instruction;
  if (Decode(*machine, reinterpret_cast<const uint8_t*>(at), &instruction) && Run(instruction)) {
    at += instruction.length;
    return;
  }
  ::signal(SIGILL, SIG_DFL);  // the instruction runs again, and ends the process
}

}  // namespace

bool EnableAmxForTests() {
  if (MachineHas(Isa::kAmx)) return true;
  if (!MachineHas(Isa::kAvx512Bf16)) return false;
  struct sigaction action = {};
  action.sa_sigaction = OnIllegalInstruction;
  action.sa_flags = SA_SIGINFO;
  return ::sigaction(SIGILL, &action, nullptr) == 0;
}

}  // namespace deepinfer::cpu

#else

namespace deepinfer::cpu {
bool EnableAmxForTests() {
  return false;
}
}  // namespace deepinfer::cpu

#endif
