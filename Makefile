# The commands of the project. `make demo` and `make test` do all their own set-up.

SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
export PATH := $(PATH):/usr/sbin:/sbin

# Facts and recordings of real drives. Tests that need them print a message and skip if the folder is absent.
HEADTIME_DRIVES ?= $(realpath ../shared/drives)
ifneq ($(HEADTIME_DRIVES),)
export HEADTIME_DRIVES
endif

# The texts of the papers, which the published figures of `headtime papers` are compared with; tests skip without them.
HEADTIME_PAPERS ?= $(realpath ../shared/papers)
ifneq ($(HEADTIME_PAPERS),)
export HEADTIME_PAPERS
endif

# Incremental builds take time and disk space, and CI builds only once.
export CARGO_INCREMENTAL ?= 0

# A newer compiler may have new warnings: warnings fail the build in CI and are only shown elsewhere.
CLIPPY_FLAGS := $(if $(CI),-D warnings)
TARGET := $(if $(CARGO_TARGET_DIR),$(CARGO_TARGET_DIR),target)
TOOLS := $(TARGET)/tools/bin
# The checks build in a folder of their own, so that they and the build of the tests do not wait for each other's lock.
CHECKS := CARGO_TARGET_DIR=$(abspath $(TARGET))/checks

.PHONY: help demo web-test test check fmt lint doc licenses build-tests unit server-only properties instructions count-instructions bench bench-nbd install-c package package-test monitoring-test fuzz realtime setup-build clean

help: ## List the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

setup-build:
	@scripts/setup.sh build

demo: setup-build ## Serve an emulated drive to three clients in three runs; write target/demo/report.html
	@scripts/setup.sh demo
	cargo run --locked --release -p headtime-cli -- demo --out target/demo

test: setup-build ## Check formatting, lints, documentation and licenses, and run every test
	@scripts/setup.sh test
	@scripts/setup.sh instructions
	@$(MAKE) --no-print-directory -j2 --output-sync=target build-tests check count-instructions
	@$(MAKE) --no-print-directory unit

check: fmt lint server-only doc licenses ## Run all checks but the tests

fmt: ## Check the formatting
	@if cargo fmt --version >/dev/null 2>&1; then cargo fmt --all --check && rustfmt --check --edition 2024 crates/sched/src/policies/*.rs; else echo "skipped: formatting, since rustfmt is not installed"; fi

lint: ## Run clippy on all targets
	@if cargo clippy --version >/dev/null 2>&1; then $(CHECKS) cargo clippy --locked --quiet --workspace --all-targets -- $(CLIPPY_FLAGS); else echo "skipped: lints, since clippy is not installed"; fi

server-only: ## Check that the program compiles without simulated drives, characterization and the laboratory
	@$(CHECKS) cargo check --locked --quiet --package headtime-cli --no-default-features

doc: ## Build the documentation
	@RUSTDOCFLAGS="$(CLIPPY_FLAGS)" $(CHECKS) cargo doc --locked --quiet --workspace --no-deps

licenses: ## Check the licenses of all dependencies
	@scripts/setup.sh deny
	@PATH="$(TOOLS):$$PATH"; if command -v cargo-deny >/dev/null; then cargo deny --locked --log-level warn check licenses bans sources; else echo "skipped: licenses, since cargo-deny is not installed"; fi

# Every machine runs the same random cases, so that only a change can make a test fail. `make properties` runs new ones.
PROPTEST_RNG_SEED ?= 1
export PROPTEST_RNG_SEED

build-tests: setup-build
	@cargo test --locked --quiet --workspace --no-run

unit: ## Run every test, without the checks
	cargo test --locked --workspace --no-fail-fast -- --show-output 2>&1 | awk -f scripts/count-tests.awk

properties: setup-build ## Run every test with new random cases; repeat with `make unit PROPTEST_RNG_SEED=…`
	@scripts/setup.sh test
	$(MAKE) --no-print-directory unit PROPTEST_RNG_SEED=$$(date +%s)

instructions: setup-build ## Count instructions under valgrind and compare them with the committed counts
	@scripts/setup.sh instructions
	@$(MAKE) --no-print-directory count-instructions

count-instructions:
	@HEADTIME_TOOLS=$(abspath $(TOOLS)) $(CHECKS) scripts/instructions.sh

web-test: setup-build ## Test the live web page in a headless Chromium; screenshots in target/web
	@scripts/setup.sh web
	@cargo build --locked --quiet -p headtime-cli
	@python3 scripts/web-test.py $(TARGET)/debug/headtime $(TARGET)/web

bench: setup-build ## Measure the time per decision of every policy, per request, and simulated requests per second
	cargo bench --locked --quiet -p headtime-sim -p headtime-io --bench decide --bench requests --bench simulate

bench-nbd: setup-build ## Measure requests of 4 KiB and 1 MiB over NBD, interleaved with nbdkit and qemu-nbd
	@scripts/setup.sh test
	cargo bench --locked --quiet -p headtime-cli --bench nbd

PREFIX ?= /usr/local
install-c: setup-build ## Install the C library, its header and its pkg-config file under PREFIX
	cargo build --locked --release --quiet -p headtime-c
	scripts/install-c.sh $(if $(CARGO_TARGET_DIR),$(CARGO_TARGET_DIR),target)/release $(PREFIX)

package: setup-build ## Build the Debian package target/debian/headtime_*.deb
	@scripts/setup.sh package
	cargo build --locked --release --quiet -p headtime-cli
	cargo run --locked --quiet -p headtime-cli --example pages -- target/package
	PATH="$(TOOLS):$$PATH" cargo deb --quiet --locked --no-build -p headtime-cli

package-test: package ## Install, run and remove the package in a clean Debian; needs root
	@scripts/setup.sh package-test
	scripts/package-test.sh $$(ls -t $(TARGET)/debian/headtime_*.deb | head -n 1)

monitoring-test: setup-build ## Check alert rules and dashboard with a Prometheus that scrapes a served emulated drive
	@scripts/setup.sh monitoring
	cargo build --locked --quiet -p headtime-cli
	scripts/monitoring-test.sh $(TARGET)/debug/headtime

fuzz: setup-build ## Run every fuzz target for a minute; needs a nightly compiler and cargo-fuzz
	for target in $$(ls fuzz/fuzz_targets | sed 's/\.rs$$//'); do mkdir -p fuzz/found/$$target; cargo +nightly fuzz run $$target fuzz/found/$$target fuzz/corpus/$$target -- -max_total_time=60 -rss_limit_mb=2048 || exit 1; done

realtime: setup-build ## Measure timing in real time; needs an idle machine
	cargo run --locked --release -p headtime-io --example lateness
	cargo build --locked --release -p headtime-cli
	scripts/realtime-characterize.sh atlas10k deskstar34gxp@nocache
	scripts/realtime-scan.sh atlas10k
	scripts/realtime-shares.sh
	scripts/realtime-kernel.sh
	scripts/realtime-applications.sh

clean: ## Remove build output
	cargo clean
