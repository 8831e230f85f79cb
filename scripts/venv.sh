#!/usr/bin/env bash
# Makes build/venv once, with the packages of scripts/requirements.txt; again only when that list or Python changes.
# Prints the path of its Python. pip takes its index and its settings from the environment and its own configuration.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
venv="$root/build/venv"
requirements="$root/scripts/requirements.txt"
key="$( (python3 --version; cat "$requirements") | sha256sum | cut -c1-16)"
if [[ ! -f "$venv/.made-$key" ]]; then
  rm -rf "$venv"
  mkdir -p "$root/build"
  python3 -m venv "$venv" >&2
  if grep -qvE '^\s*(#|$)' "$requirements"; then
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check -r "$requirements" >&2
  fi
  touch "$venv/.made-$key"
fi
echo "$venv/bin/python"
