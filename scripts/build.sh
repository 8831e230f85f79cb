#!/usr/bin/env bash
# Configures a CMake preset once and builds it, or only the targets that are named:
#   build.sh PRESET [TARGET...]
# Later runs are ninja's to decide: with nothing changed, nothing is compiled. Configured without the PJRT header, a
# preset is configured again: the header may have been fetched since. The sanitizer presets use clang.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
preset="$1"
shift
options=()
case "$preset" in
  asan) options=(-DCMAKE_C_COMPILER=clang-19 -DCMAKE_CXX_COMPILER=clang++-19 -DDEEPINFER_FUZZ=ON) ;;
  tsan) options=(-DCMAKE_C_COMPILER=clang-19 -DCMAKE_CXX_COMPILER=clang++-19) ;;
esac
if [[ ! -f "build/$preset/build.ninja" ]] || grep -q '^DI_PJRT_INCLUDE:.*-NOTFOUND$' "build/$preset/CMakeCache.txt"; then
  echo "build: configuring $preset" >&2
  log="$(mktemp)"
  cmake --preset "$preset" "${options[@]}" >"$log" 2>&1 || { cat "$log" >&2; rm -f "$log"; exit 1; }
  rm -f "$log"
fi
if [[ $# -gt 0 ]]; then set -- --target "$@"; fi
cmake --build --preset "$preset" "$@" >&2
