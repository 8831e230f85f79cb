#!/usr/bin/env bash
# The tests under ASan and UBSan, the fuzzers for a minute each, then the threaded rooms under TSan.
# FUZZ_SECONDS sets the fuzzers' time.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/test_env.sh
scripts/install_packages.sh build rust test node fuzz
scripts/fetch_assets.sh all
scripts/venv.sh tests >/dev/null
scripts/build.sh asan
source scripts/sanitizer_env.sh
# Comparisons with the slow reference on real models say nothing new under a sanitizer.
ctest --test-dir build/asan --output-on-failure -j 2 -LE slow
scripts/fuzz.sh run "${FUZZ_SECONDS:-60}" || [[ $? == 77 ]]  # 77: there is no fuzzer to run

rooms=()
for room in base backend cpu engine server; do
  if [[ -f "src/$room/CMakeLists.txt" ]]; then rooms+=("$room"); fi
done
scripts/build.sh tsan "${rooms[@]/%/_tests}"
pattern="$(IFS='|'; echo "${rooms[*]}")"
exec ctest --test-dir build/tsan --output-on-failure -j 1 -R "^($pattern)/" -LE slow
