#!/usr/bin/env bash
# Builds and runs the libFuzzer targets, one for each tests/fuzz/fuzz_<what>.cc, under ASan and UBSan.
#   fuzz.sh build
#   fuzz.sh run SECONDS      each target for SECONDS, starting from tests/fuzz/corpus/<what>
# `run` exits 77 (skipped, to ctest) where nothing was built. What a fuzzer finds stays in build/fuzz/<what>, with the
# command that shows it again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

targets=()
for source in tests/fuzz/fuzz_*.cc; do
  if [[ -f "$source" ]]; then targets+=("$(basename "$source" .cc)"); fi
done

case "${1:-}" in
  build)
    if [[ ${#targets[@]} -gt 0 ]]; then scripts/build.sh asan "${targets[@]}"; fi
    ;;
  run)
    seconds="$2"
    source scripts/sanitizer_env.sh
    [[ -d build/asan && ${#targets[@]} -gt 0 ]] || { echo "fuzz: nothing built; run scripts/fuzz.sh build"; exit 77; }
    failed=0
    for target in "${targets[@]}"; do
      program="$(find build/asan -type f -name "$target" -perm -u+x | head -n 1)"
      [[ -n "$program" ]] || { echo "fuzz: $target is not built; run scripts/fuzz.sh build"; exit 77; }
      name="${target#fuzz_}"
      found="build/fuzz/$name"
      corpora=("$found/corpus")
      mkdir -p "$found/corpus"
      if [[ -d "tests/fuzz/corpus/$name" ]]; then corpora+=("tests/fuzz/corpus/$name"); fi
      echo "fuzz: $name for $seconds s from $(find "${corpora[@]}" -type f | wc -l) saved inputs"
      # New inputs go to the first folder, the saved corpus is only read. -seed makes a run repeatable.
      if ! "$program" -seed=1 -max_total_time="$seconds" -rss_limit_mb=2048 -timeout=20 -malloc_limit_mb=1024 \
        -print_final_stats=1 -artifact_prefix="$found/" "${corpora[@]}" >"$found/log" 2>&1; then
        failed=1
        tail -n 60 "$found/log"
        echo "fuzz: $name FAILED; again with: $program $(find "$found" -maxdepth 1 -type f ! -name log | tail -n 1)"
      else
        grep -E 'stat::number_of_executed_units' "$found/log" || true
      fi
    done
    exit $failed
    ;;
  *)
    echo "usage: fuzz.sh build | run SECONDS" >&2
    exit 2
    ;;
esac
