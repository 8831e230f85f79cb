# Sourced by the scripts that run instrumented programs: options that a caller has not set already. The symbolizer is
# in the package llvm-19 under a versioned name, which the runtimes do not look for by themselves.
symbolizer="$(command -v llvm-symbolizer-19 || command -v llvm-symbolizer || true)"
export ASAN_OPTIONS="${ASAN_OPTIONS:-detect_leaks=1:allocator_may_return_null=1:strict_string_checks=1${symbolizer:+:external_symbolizer_path=$symbolizer}}"
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-print_stacktrace=1:halt_on_error=1${symbolizer:+:external_symbolizer_path=$symbolizer}}"
export TSAN_OPTIONS="${TSAN_OPTIONS:-halt_on_error=1:second_deadlock_stack=1${symbolizer:+:external_symbolizer_path=$symbolizer}}"
