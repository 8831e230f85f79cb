#!/usr/bin/env bash
# Everything `make test` does: packages (Debian's and Python's), assets, build, then ctest, whose summary is the last thing
# printed. After the assets nothing needs a network. Each part has a budget in minutes on two cores, 30 together; a part
# that took longer is reported, never stopped. A test whose asset is missing fails here instead of skipping
# (DEEPINFER_REQUIRE_ASSETS).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/test_env.sh

part() { # NAME BUDGET_MINUTES COMMAND...
  local name="$1" budget="$2" start=$SECONDS took note=""
  shift 2
  echo "== $name (budget $budget min)" >&2
  "$@"
  took=$((SECONDS - start))
  [[ $took -le $((budget * 60)) ]] || note="  OVER BUDGET"
  report+=("$(printf '%-10s %5d s of %4d s%s' "$name" "$took" "$((budget * 60))" "$note")")
}

packages() {
  scripts/install_packages.sh build rust test node fuzz
  scripts/venv.sh tests >/dev/null
}

report=()
part packages 4 packages
part assets 2 scripts/fetch_assets.sh all
part build 9 scripts/build.sh release
part fuzzers 3 scripts/fuzz.sh build
printf '%s\n' "${report[@]}" >&2
echo "== ctest (budget 12 min)" >&2
exec ctest --test-dir build/release --output-on-failure -j 2
