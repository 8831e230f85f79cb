#!/usr/bin/env bash
# Makes build/venv, anew only when Python changes, and prints the path of its Python:
#   venv.sh [tests]     tests: also installs the packages of scripts/requirements.txt, again only when the list changes
# pip takes its index and its settings from the environment and its own configuration; wheels are checked against the
# hashes of the list.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
venv="$root/build/venv"
requirements="$root/scripts/requirements.txt"
hash_of() { sha256sum | cut -c1-16; }

made="$venv/.made-$(python3 --version | hash_of)"
if [[ ! -f "$made" ]]; then
  rm -rf "$venv"
  mkdir -p "$root/build"
  python3 -m venv "$venv" >&2
  touch "$made"
fi
if [[ "${1:-}" == tests ]]; then
  have="$venv/.have-$(hash_of <"$requirements")"
  if [[ ! -f "$have" ]]; then
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
      --require-hashes -r "$requirements" >&2
    rm -f "$venv"/.have-*
    touch "$have"
  fi
fi
echo "$venv/bin/python"
