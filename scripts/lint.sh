#!/usr/bin/env bash
# The format of every C++ file and the syntax of every script; clang-tidy only on a part of src, since a file takes 10 to
# 15 s and all of it too long:
#   lint.sh            the .cc files that differ from HEAD (or from LINT_BASE) or are new, the first 8 by name; where
#                      nothing differs, two files of base, which shows that clang-tidy works and no more
#   lint.sh FILE...    these files
# Headers are checked through the files that include them. `git ls-files 'src/*.cc' | xargs scripts/lint.sh` is all of it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mapfile -t sources < <(git ls-files -co --exclude-standard '*.cc' '*.h')
[[ ${#sources[@]} -eq 0 ]] || clang-format-19 --dry-run -Werror "${sources[@]}"
for script in scripts/*.sh .ci/run; do bash -n "$script"; done

files=("$@")
if [[ ${#files[@]} -eq 0 ]]; then
  mapfile -t files < <({
    git diff --name-only --diff-filter=d "${LINT_BASE:-HEAD}" -- 'src/*.cc'
    git ls-files -o --exclude-standard 'src/*.cc'
  } | sort -u | sed -n 1,8p)
fi
if [[ ${#files[@]} -eq 0 ]]; then files=(src/base/error.cc src/base/mapped_file.cc); fi
if [[ ! -f build/release/compile_commands.json ]]; then
  log="$(mktemp)"
  cmake --preset release >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
fi
printf '%s\n' "${files[@]}" | xargs -P "$(nproc)" -n 2 clang-tidy-19 -p build/release --quiet --extra-arg=-Wno-unknown-warning-option
echo "lint: ${#sources[@]} files formatted as they should be, ${#files[@]} through clang-tidy" >&2
