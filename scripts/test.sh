#!/usr/bin/env bash
# Everything `make test` does: packages, build, assets, then ctest, whose summary is the last thing printed. Each part
# has a budget in minutes on two cores, 30 together; a part that took longer is reported, never stopped.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

part() { # NAME BUDGET_MINUTES COMMAND...
  local name="$1" budget="$2" start=$SECONDS took note=""
  shift 2
  echo "== $name (budget $budget min)" >&2
  "$@"
  took=$((SECONDS - start))
  [[ $took -le $((budget * 60)) ]] || note="  OVER BUDGET"
  report+=("$(printf '%-10s %5d s of %4d s%s' "$name" "$took" "$((budget * 60))" "$note")")
}

report=()
part packages 4 scripts/install_packages.sh build rust test node fuzz
part build 9 scripts/build.sh release
part fuzzers 3 scripts/fuzz.sh build
part assets 2 scripts/fetch_assets.sh all
scripts/venv.sh >/dev/null
printf '%s\n' "${report[@]}" >&2
echo "== ctest (budget 12 min)" >&2
export DEEPINFER_MODELS_DIR="${DEEPINFER_MODELS_DIR:-$PWD/build/assets}"
exec ctest --test-dir build/release --output-on-failure -j 2
