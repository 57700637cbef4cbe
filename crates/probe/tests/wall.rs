//! What is demanded of a characterization, tried on a small fixed set of drives; what the demands
//! are stands in `common/wall.rs`.
//!
//! The larger set is an example: `cargo run --release -p headtime-probe --example wall`. One case
//! by its name: `cargo run --release -p headtime-probe --example wall -- random-3:drawn:3`.
//!
//! Cases that fall short are listed with the reason and kept exact: one that falls short and is not
//! on the list fails this test, and so does one on the list that does not fall short any more.

mod common;

use common::wall::{Row, run_all};

/// The cases, all of them quick.
const CASES: &[&str] = &[
    "random-1:nominal:1",
    "random-3:nominal:3",
    "random-3:drawn:3",
    "random-5:nominal:5",
    "random-6:nominal:6",
    "random-6@nocache:drawn:6",
    "random-8@nocache:drawn:8",
    "random-9:nominal:9",
    "random-10@nocache:drawn:10",
    "random-19:nominal:19",
    "random-20@nocache:drawn:20",
    "random-23:nominal:23",
    "random-27:nominal:27",
    "random-29:nominal:29",
    "random-34:nominal:34",
    "atlas10k:nominal:1",
    "atlas10k:drawn:1",
    "deskstar34gxp:nominal:1",
    "maxtor-20gb@nocache:nominal:1",
    "nearline-20tb@nocache:nominal:1",
    "cheetah10k7:nominal:1",
    "atlas10k@p2:nominal:1",
];

/// Cases that are known to fall short, and why; none at present.
const KNOWN_SHORT: &[(&str, &str)] = &[];

#[test]
fn drives_with_drawn_truth_are_found_out_but_for_those_known_to_fall_short() {
    let names: Vec<String> = CASES.iter().map(ToString::to_string).collect();
    let rows = run_all(&names);
    let mut shortfalls = Vec::new();
    for row in &rows {
        println!("{}", row.line());
        let (short, known) =
            (row.shortfalls(), KNOWN_SHORT.iter().find(|(name, _)| *name == row.name));
        match (short.is_empty(), known) {
            (false, None) => shortfalls.push(format!("{}: {}", row.name, short.join("; "))),
            (true, Some((name, reason))) => shortfalls.push(format!(
                "{name} does not fall short any more ({reason}): take it off the list"
            )),
            _ => {}
        }
    }
    assert!(
        KNOWN_SHORT.iter().all(|(name, _)| CASES.contains(name)),
        "the list names a case that is not tried"
    );
    let table: Vec<String> = rows.iter().map(Row::line).collect();
    assert!(
        shortfalls.is_empty(),
        "{}\n\n{}\n\nreplay one: cargo run --release -p headtime-probe --example wall -- NAME",
        shortfalls.join("\n"),
        table.join("\n")
    );
}

#[test]
fn the_oracle_predicts_every_read_of_a_unit_without_noise() {
    // A canary of the wall itself: what it compares with has to be right.
    for row in run_all(&["random-1:nominal:1".to_string()]) {
        assert!(row.oracle_within_50 > 0.999 && row.means_within_50 > 0.999, "{}", row.line());
    }
}
