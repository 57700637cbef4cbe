#!/bin/sh
# Installs the C library, its header and its pkg-config file.
#
#   install-c.sh BUILD PREFIX   BUILD has libheadtime_c.so and libheadtime_c.a, such as target/release
set -eu

[ $# = 2 ] || { echo "usage: install-c.sh BUILD PREFIX" >&2; exit 2; }
build=$1
prefix=$2
source=$(dirname "$0")/..
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' "$source/Cargo.toml")

install -d "$prefix/include" "$prefix/lib/pkgconfig"
install -m 644 "$source/crates/c/include/headtime.h" "$prefix/include/headtime.h"
install -m 644 "$build/libheadtime_c.a" "$prefix/lib/libheadtime_c.a"
install -m 755 "$build/libheadtime_c.so" "$prefix/lib/libheadtime_c.so.0"
ln -sf libheadtime_c.so.0 "$prefix/lib/libheadtime_c.so"
sed -e "s|@prefix@|$prefix|" -e "s|@version@|$version|" "$source/crates/c/headtime.pc.in" > "$prefix/lib/pkgconfig/headtime.pc"
