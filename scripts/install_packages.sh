#!/usr/bin/env bash
# Installs the Debian packages that are missing, from the sections of scripts/packages.txt that are named:
#   install_packages.sh [--dry-run] build rust test node fuzz lint
# A section whose header names a program (and a version) is skipped where PATH has that program (in that version or a
# newer one). With nothing missing it changes nothing and needs no privileges; otherwise it must run as root.
set -euo pipefail
list="$(dirname "${BASH_SOURCE[0]}")/packages.txt"
dry_run=0
if [[ "${1:-}" == --dry-run ]]; then dry_run=1; shift; fi
[[ $# -gt 0 ]] || { echo "usage: install_packages.sh [--dry-run] SECTION..." >&2; exit 2; }

# Whether PATH has program $1, at least in version $2 (empty: any).
have() {
  command -v "$1" >/dev/null || return 1
  [[ -n "$2" ]] || return 0
  local found
  found="$("$1" --version 2>/dev/null | grep -oE '[0-9]+(\.[0-9]+)+' | head -n 1)" || return 1
  [[ "$(printf '%s\n%s\n' "$2" "$found" | sort -V | head -n 1)" == "$2" ]]
}

wanted=()
for section in "$@"; do
  header="$(grep -E "^\[$section\]" "$list")" || { echo "install_packages: no section [$section] in $list" >&2; exit 2; }
  read -r _ program version <<<"$header"
  if [[ -n "${program:-}" ]] && have "$program" "${version:-}"; then continue; fi
  mapfile -t names < <(awk -v want="[$section]" '/^\[/ { inside = ($1 == want); next } inside && NF && !/^#/' "$list")
  wanted+=("${names[@]}")
done

missing=()
for name in "${wanted[@]}"; do
  state="$(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null || true)"
  [[ "$state" == installed || " ${missing[*]-} " == *" $name "* ]] || missing+=("$name")
done
[[ ${#missing[@]} -gt 0 ]] || exit 0

echo "install_packages: missing: ${missing[*]}" >&2
if [[ $dry_run == 1 ]]; then exit 0; fi
if ! command -v apt-get >/dev/null; then
  echo "install_packages: this is not a Debian system; install what corresponds to these packages and try again" >&2
  exit 1
fi
if [[ $EUID -ne 0 ]]; then
  echo "install_packages: not root; as root run: apt-get install --no-install-recommends ${missing[*]}" >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get -o Acquire::Retries=3 -o DPkg::Lock::Timeout=120 update -qq
apt-get -o Acquire::Retries=3 -o DPkg::Lock::Timeout=120 install -y -qq --no-install-recommends "${missing[@]}" >&2
