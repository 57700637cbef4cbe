# The commands of the project. `make demo` and `make test` do all their own set-up.

SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
export PATH := $(PATH):/usr/sbin:/sbin

# Facts and recordings of real drives; tests that need them skip with a message where the folder is absent.
HEADTIME_DRIVES ?= $(realpath ../shared/drives)
ifneq ($(HEADTIME_DRIVES),)
export HEADTIME_DRIVES
endif

# Nobody builds twice here, and what a second build would need takes time and room.
export CARGO_INCREMENTAL ?= 0

# A newer compiler may warn of things this one does not know: warnings fail the gate in CI, elsewhere they are shown.
CLIPPY_FLAGS := $(if $(CI),-D warnings)
TOOLS := $(if $(CARGO_TARGET_DIR),$(CARGO_TARGET_DIR),target)/tools/bin

.PHONY: help demo test check fmt lint doc licenses unit properties instructions bench bench-nbd fuzz realtime setup-build clean

help: ## lists the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup-build:
	@scripts/setup.sh build

demo: setup-build ## serves an emulated drive to three clients for a minute, under fcfs and under the best policy; writes target/demo/report.html
	@scripts/setup.sh demo
	cargo run --locked --release --quiet -p headtime -- demo --out target/demo

test: setup-build ## formatting, lints, documentation, licenses, and every test; closes with a line that counts the tests
	@scripts/setup.sh test
	@$(MAKE) --no-print-directory check instructions unit

check: fmt lint doc licenses ## everything but the tests

fmt: ## checks the formatting
	@if cargo fmt --version >/dev/null 2>&1; then cargo fmt --all --check; else echo "skipped: formatting, since rustfmt is not installed"; fi

lint: ## clippy over everything
	@if cargo clippy --version >/dev/null 2>&1; then cargo clippy --locked --quiet --workspace --all-targets -- $(CLIPPY_FLAGS); else echo "skipped: lints, since clippy is not installed"; fi

doc: ## builds the documentation
	RUSTDOCFLAGS="$(CLIPPY_FLAGS)" cargo doc --locked --quiet --workspace --no-deps

licenses: ## checks the licenses of everything that is linked in
	@scripts/setup.sh deny
	@PATH="$(TOOLS):$$PATH"; if command -v cargo-deny >/dev/null; then cargo deny --locked --log-level warn check licenses bans sources; else echo "skipped: licenses, since cargo-deny is not installed"; fi

# Every machine tries the same random cases, so that a change is refused for what it changes; `make properties` tries others.
PROPTEST_RNG_SEED ?= 1
export PROPTEST_RNG_SEED

unit: ## every test, without the checks around them
	cargo test --locked --workspace --no-fail-fast -- --show-output 2>&1 | awk -f scripts/count-tests.awk

properties: setup-build ## every test with random cases that were not tried before; prints their seed, with which `make unit PROPTEST_RNG_SEED=…` tries them again
	@scripts/setup.sh test
	$(MAKE) --no-print-directory unit PROPTEST_RNG_SEED=$$(date +%s)

instructions: setup-build ## counts instructions under valgrind and compares them with the committed counts
	@scripts/setup.sh instructions
	@scripts/instructions.sh

bench: setup-build ## nanoseconds per decision of every policy, simulated requests per second
	cargo bench --locked --quiet -p headtime-sim --bench decide --bench simulate

bench-nbd: setup-build ## 4 KiB requests over NBD beside nbdkit and qemu-nbd, interleaved
	@scripts/setup.sh test
	cargo bench --locked --quiet -p headtime --bench nbd

fuzz: setup-build ## a minute of every fuzz target; needs a nightly compiler and cargo-fuzz
	for target in $$(ls fuzz/fuzz_targets | sed 's/\.rs$$//'); do mkdir -p fuzz/found/$$target; cargo +nightly fuzz run $$target fuzz/found/$$target fuzz/corpus/$$target -- -max_total_time=60 -rss_limit_mb=2048 || exit 1; done

realtime: setup-build ## proofs of timing that need an idle machine
	cargo run --locked --release -p headtime-io --example lateness
	cargo build --locked --release -p headtime
	scripts/realtime-characterize.sh atlas10k deskstar34gxp@nocache
	scripts/realtime-scan.sh atlas10k
	scripts/realtime-shares.sh

clean: ## removes what was built
	cargo clean
