// For tests on machines without AMX: runs the tile instructions of a compiled kernel in software.
//
// A handler of SIGILL decodes the instruction that the CPU refused (LDTILECFG, STTILECFG, TILERELEASE, TILEZERO,
// TILELOADD, TILELOADDT1, TILESTORED, TDPBF16PS), does its work on tiles of the thread, and goes on behind it; anything
// else ends the process as before. TDPBF16PS sums in the order measured on hardware, written in tile_order.inc, with
// AVX-512. About 2 microseconds an instruction. Source: Intel Architecture Instruction Set Extensions, chapter on AMX.
#pragma once

namespace deepinfer::cpu {

// True if tile instructions can be run from now on by any thread of the process: by the CPU, or by this emulator if the
// CPU has AVX-512 with BF16 (which kernels for AMX use besides). Once; not thread-safe.
bool EnableAmxForTests();

}  // namespace deepinfer::cpu
