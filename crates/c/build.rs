//! Gives the shared library its name for the dynamic linker, with the version of the interface.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libheadtime_c.so.0");
    println!("cargo::rerun-if-changed=build.rs");
}
