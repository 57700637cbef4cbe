//! The layers of the workspace: the crates that each crate may import, the modules that layers 0 to
//! 2 may not use, and the crates that may name a simulated drive's truth.
//!
//! ARCHITECTURE.md gives the reasons. A change needs a reason there and a changed line here, in
//! that order.

use std::collections::{BTreeMap, BTreeSet};

use headtime_tidy::{SourceFile, files, library_files, rust_lines};

/// A crate: its folder, its layer, and the crates that its library may import.
struct Crate(&'static str, u8, &'static str);

/// All crates. Each imports only crates above it in this table.
const CRATES: &[Crate] = &[
    Crate("units", 0, ""),
    Crate("config", 1, "units"),
    Crate("mechanics", 1, "units"),
    Crate("sched", 1, "units"),
    Crate("workload", 1, "units config"),
    Crate("nbd", 1, ""),
    Crate("tasks", 1, "units"),
    Crate("belief", 2, "units mechanics sched"),
    Crate("sim", 2, "units mechanics sched workload nbd"),
    Crate("probe", 2, "units mechanics"),
    Crate("io", 3, "units mechanics sched nbd belief sim probe"),
    Crate("serve", 4, "units config mechanics sched workload nbd belief sim probe tasks io"),
    Crate("headtime", 4, "units sched io"),
    Crate("console", 5, "units mechanics sched belief io serve"),
    Crate("lab", 5, "units mechanics sched workload nbd belief sim probe tasks io serve console"),
    Crate("cli", 5, "units mechanics sched belief probe tasks io serve console lab"),
    Crate("c", 5, "headtime"),
    Crate("python", 5, "headtime units mechanics sched sim io serve console lab"),
    Crate("fuzz", 5, "units mechanics sched workload nbd tasks probe io serve"),
    Crate("testkit", 5, "units mechanics sched workload belief sim probe io"),
    Crate("tidy", 5, ""),
];

/// Crates that only tests import.
const FOR_TESTS: &[&str] = &["testkit", "tidy"];

/// The words that layers 0 to 2 may not use, and their replacements.
const FORBIDDEN: &[(&str, &str)] = &[
    ("std::time", "take `now: headtime_units::Instant` as a parameter"),
    ("SystemTime", "take `now: headtime_units::Instant` as a parameter"),
    ("std::fs", "take the text or bytes as a parameter; layer 3 and above open files"),
    ("std::net", "take bytes and return events; sockets belong to layer 4"),
    ("std::thread", "write a state machine that layer 3 drives"),
    ("std::process", "return an error"),
    ("std::env", "take the setting as a parameter"),
    ("std::io", "take bytes or text as a parameter"),
    ("thread_rng", "take `&mut impl rand::Rng` or a seed as a parameter"),
    ("rand::rng()", "take `&mut impl rand::Rng` or a seed as a parameter"),
    ("OsRng", "take `&mut impl rand::Rng` or a seed as a parameter"),
    ("println!", "return the text"),
    ("eprintln!", "return the text"),
    ("HashMap", "use BTreeMap: iteration order must not depend on a hash"),
    ("HashSet", "use BTreeSet: iteration order must not depend on a hash"),
];

const SEE_POSITIONING: &str =
    "see positions through `trait Positioning` and times through completions";

/// Names that reveal a simulated drive's truth.
const TRUTH: &[(&str, &str)] =
    &[("DriveTruth", SEE_POSITIONING), ("OraclePositioning", SEE_POSITIONING)];

/// Paths that may name truth: the simulator, the emulated drive, the experiments that compare the
/// drive model with perfect knowledge ("oracle" in their rows), and tests.
const MAY_NAME_TRUTH: &[&str] =
    &["crates/sim/", "crates/io/", "crates/lab/src/papers/", "crates/testkit/"];

#[test]
fn every_crate_imports_only_what_the_table_allows() {
    let faults: Vec<String> =
        manifests().iter().flat_map(|(folder, manifest)| wrong_imports(folder, manifest)).collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let planted = "[dependencies]\nheadtime-units = 1\nheadtime-serve = 1\n\
        [target.unix.dependencies]\nheadtime = 1\n[dev-dependencies]\nheadtime-testkit = 1\n";
    let planted = planted.parse().expect("TOML");
    assert_eq!(
        wrong_imports("sched", &planted),
        ["headtime", "serve"].map(|of| format!("crates/sched imports {of}; it may import: units"))
    );
    assert!(wrong_imports("new", &planted)[0].contains("crates/new is not in the table"));
}

fn wrong_imports(folder: &str, manifest: &toml::Table) -> Vec<String> {
    let Some(Crate(_, _, allowed)) = CRATES.iter().find(|row| row.0 == folder) else {
        return vec![format!(
            "crates/{folder} is not in the table: give it a layer in ARCHITECTURE.md and a row in \
             CRATES of crates/tidy/tests/layering.rs"
        )];
    };
    let imports = imports(manifest).into_iter();
    let wrong = imports.filter(|import| !allowed.split(' ').any(|name| name == import));
    wrong
        .map(|import| format!("crates/{folder} imports {import}; it may import: {allowed}"))
        .collect()
}

#[test]
fn the_table_never_points_upwards_and_the_architecture_describes_each_crate() {
    let page = files("md").into_iter().find(|file| file.path.ends_with("ARCHITECTURE.md"));
    let page = page.expect("ARCHITECTURE.md is at the root").text;
    assert_eq!(wrong_rows(CRATES, &page), Vec::<String>::new());
    let planted = [
        Crate("low", 0, "high"),
        Crate("high", 1, ""),
        Crate("testkit", 0, ""),
        Crate("mid", 0, "high testkit"),
    ];
    assert_eq!(
        wrong_rows(&planted, "| `crates/low` | | `crates/high` | | `crates/mid` |"),
        [
            "low may not import high",
            "ARCHITECTURE.md lacks testkit",
            "mid may not import high",
            "mid may not import testkit"
        ]
    );
}

fn wrong_rows(crates: &[Crate], page: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for (index, Crate(name, layer, imports)) in crates.iter().enumerate() {
        let described = page.contains(&format!("| `crates/{name}` |"));
        faults.extend((!described).then(|| format!("ARCHITECTURE.md lacks {name}")));
        for import in imports.split_whitespace() {
            let below = crates[..index].iter().find(|row| row.0 == import);
            if below.is_none_or(|row| row.1 > *layer || FOR_TESTS.contains(&row.0)) {
                faults.push(format!("{name} may not import {import}"));
            }
        }
    }
    faults
}

#[test]
fn a_program_without_features_depends_on_the_crates_that_serve_a_drive_only() {
    let tree = std::process::Command::new(env!("CARGO"))
        .args([
            "tree",
            "--locked",
            "--offline",
            "--package",
            "headtime-cli",
            "--no-default-features",
        ])
        .args(["--edges", "normal", "--prefix", "none", "--format", "{p}"])
        .output()
        .expect("cargo is installed");
    let (printed, errors) =
        (String::from_utf8_lossy(&tree.stdout), String::from_utf8_lossy(&tree.stderr));
    assert!(tree.status.success(), "cargo tree failed:\n{errors}");
    assert!(printed.contains("headtime-serve"), "no server in:\n{printed}");
    let found = excess(&printed);
    assert!(found.is_empty(), "a server does not need {found:?}: make them features");
    assert_eq!(excess("headtime-serve v1\nzstd v0.13\nzstd-sys v2\n"), ["zstd"]);
}

/// The packages of a printed dependency tree that a server does not need.
fn excess(tree: &str) -> Vec<&str> {
    let packages = tree.lines().filter_map(|line| line.split_whitespace().next());
    packages.filter(|package| NOT_IN_A_SERVER.contains(package)).collect()
}

/// The crates that a build without features leaves out, and the libraries that only they use.
const NOT_IN_A_SERVER: [&str; 11] = [
    "csv",
    "flate2",
    "headtime-lab",
    "headtime-probe",
    "headtime-sim",
    "headtime-testkit",
    "headtime-workload",
    "maud",
    "parquet",
    "rand_chacha",
    "zstd",
];

#[test]
fn layers_0_to_2_use_no_clock_file_socket_thread_or_unseeded_randomness() {
    let faults =
        report(FORBIDDEN, |file| CRATES.iter().any(|row| row.0 == file.crate_name() && row.1 <= 2));
    assert!(faults.is_empty(), "not for layers 0 to 2:\n{}", faults.join("\n"));
}

#[test]
fn the_truth_of_a_simulated_drive_is_named_only_where_it_may_be() {
    let faults = report(TRUTH, |file| {
        !MAY_NAME_TRUTH.iter().any(|allowed| file.path.to_string_lossy().starts_with(allowed))
    });
    assert!(faults.is_empty(), "no truth outside {MAY_NAME_TRUTH:?}:\n{}", faults.join("\n"));
}

#[test]
fn planted_uses_are_found_and_comments_are_ignored() {
    let planted = "use core::fmt;\n// HashMap\nlet now = std::time::Instant::now();\n/* x */";
    assert_eq!(uses_of(planted, FORBIDDEN), [(3, "std::time")]);
    let grouped = "use std::{\n    fs,\n    time::Duration,\n};\n";
    assert_eq!(uses_of(grouped, FORBIDDEN).len(), 2, "in grouped imports");
    assert!(uses_of("let MyHashMapping = 1;", FORBIDDEN).is_empty(), "only whole words count");
    assert_eq!(uses_of("fn peek(of: &DriveTruth) {}", TRUTH), [(1, "DriveTruth")]);
}

/// The uses of `words` in the library files that `is_checked` selects, as lines of a message.
fn report(words: &[(&str, &str)], is_checked: impl Fn(&SourceFile) -> bool) -> Vec<String> {
    let mut faults = Vec::new();
    for file in library_files().iter().filter(|file| is_checked(file)) {
        for (line, word) in uses_of(&file.text, words) {
            let instead = words.iter().find(|(listed, _)| *listed == word).map_or("", |row| row.1);
            faults.push(format!("{}:{line}: `{word}`: {instead}", file.path.display()));
        }
    }
    faults
}

/// The uses of `words` outside comments and strings: line and word.
fn uses_of<'w>(text: &str, words: &[(&'w str, &str)]) -> Vec<(usize, &'w str)> {
    let mut found = Vec::new();
    let mut in_std_group = false;
    for (index, line) in rust_lines(text).into_iter().enumerate() {
        in_std_group |= line.code.contains("std::{");
        // Inside `use std::{…}` a module has no `std::` before it.
        let code = line.code.replace("std::{", " ").replace([',', '{'], " ");
        for (word, _) in words {
            let bare = word.strip_prefix("std::").filter(|_| in_std_group).unwrap_or(word);
            if has_word(&code, bare) {
                found.push((index + 1, *word));
            }
        }
        in_std_group &= !line.code.contains('}');
    }
    found
}

fn has_word(code: &str, word: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    code.match_indices(word).any(|(at, _)| {
        let before = code[..at].chars().next_back().is_some_and(is_name);
        let after = code[at + word.len()..].chars().next().is_some_and(is_name);
        !(before || after && word.ends_with(is_name))
    })
}

/// Every crate's manifest, by the crate's folder.
fn manifests() -> BTreeMap<String, toml::Table> {
    let mut found = BTreeMap::new();
    for file in files("toml").iter().filter(|file| file.path.ends_with("Cargo.toml")) {
        let parts: Vec<_> = file.path.components().collect();
        if parts.len() == 3 && file.path.starts_with("crates") {
            let manifest = file
                .text
                .parse()
                .unwrap_or_else(|error| panic!("{}: {error}", file.path.display()));
            found.insert(file.crate_name().to_owned(), manifest);
        }
    }
    assert!(found.len() >= 10, "only {} crates were found", found.len());
    found
}

/// The workspace's crates that a manifest imports for its library and its build script, by folder;
/// tests may import more.
fn imports(manifest: &toml::Table) -> BTreeSet<String> {
    let sections = ["dependencies", "build-dependencies"];
    let mut tables: Vec<&toml::Table> =
        sections.iter().filter_map(|key| manifest.get(*key)?.as_table()).collect();
    if let Some(targets) = manifest.get("target").and_then(toml::Value::as_table) {
        let of_target = targets.values().filter_map(|t| t.get("dependencies")?.as_table());
        tables.extend(of_target);
    }
    let names = tables.iter().flat_map(|table| table.keys());
    let folder = |name: &str| match name {
        "headtime" => Some("headtime".to_owned()),
        other => other.strip_prefix("headtime-").map(str::to_owned),
    };
    names.filter_map(|name| folder(name)).collect()
}
