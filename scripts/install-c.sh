#!/bin/sh
# Installs the C library, its header and its pkg-config file.
#
#   install-c.sh BUILD PREFIX   BUILD has libheadtime_c.so and libheadtime_c.a, such as target/release
#
# With DESTDIR in the environment, the files go there, for a package that is installed under PREFIX.
set -eu

[ $# = 2 ] || { echo "usage: install-c.sh BUILD PREFIX" >&2; exit 2; }
build=$1
prefix=$(realpath -m "$2")
root=${DESTDIR:-}$prefix
source=$(dirname "$0")/..
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' "$source/Cargo.toml")

install -d "$root/include" "$root/lib/pkgconfig"
install -m 644 "$source/crates/c/include/headtime.h" "$root/include/headtime.h"
install -m 644 "$build/libheadtime_c.a" "$root/lib/libheadtime_c.a"
install -m 755 "$build/libheadtime_c.so" "$root/lib/libheadtime_c.so.0"
ln -sf libheadtime_c.so.0 "$root/lib/libheadtime_c.so"
sed -e "s|@prefix@|$prefix|" -e "s|@version@|$version|" "$source/crates/c/headtime.pc.in" \
    > "$root/lib/pkgconfig/headtime.pc"
