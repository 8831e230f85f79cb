# Sourced in the repository root by the scripts that run all tests: where the assets are, and that all of them must be.
export DEEPINFER_MODELS_DIR="$(realpath -m "${DEEPINFER_MODELS_DIR:-build/assets}")"
export DEEPINFER_REQUIRE_ASSETS=1
