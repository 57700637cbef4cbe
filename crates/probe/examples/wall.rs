//! The accuracy of characterization on random and catalog drives, and the requirements not met.
//! Takes minutes for all of them: `cargo run --release -p headtime-probe --example wall` for
//! random drives 1 to 24, each without and with noise, and the catalog; `cargo run --release -p
//! headtime-probe --example wall -- random-7:drawn:7 atlas10k:nominal:1` for some.
#![allow(clippy::unwrap_used)] // A table for developers; any error ends it.

#[path = "../tests/common/mod.rs"]
mod common;

use common::wall::run_all;
use headtime_mechanics::catalog::CATALOG;

fn main() {
    let mut names: Vec<String> = std::env::args().skip(1).collect();
    if names.is_empty() {
        for number in 1..=24 {
            names.extend(
                ["nominal", "drawn"].map(|kind| format!("random-{number}:{kind}:{number}")),
            );
        }
        for entry in CATALOG {
            names.extend(["nominal", "drawn"].map(|kind| format!("{}:{kind}:1", entry.name)));
        }
    }
    let mut short = 0;
    for some in names.chunks(2) {
        for row in run_all(some) {
            println!("{}", row.line());
            let shortfalls = row.shortfalls();
            short += usize::from(!shortfalls.is_empty());
            for shortfall in shortfalls {
                println!("    falls short: {shortfall}");
            }
        }
    }
    println!("{short} of {} fall short", names.len());
}
