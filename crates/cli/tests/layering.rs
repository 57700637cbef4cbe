//! The layers of the workspace: the crates that each crate may import, the modules that layers 0 to
//! 2 may not use, and the crates that may name a simulated drive's truth.
//!
//! ARCHITECTURE.md gives the reasons. A change needs a reason there and a changed line here, in
//! that order.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// One room of the workspace.
struct Room {
    /// The package.
    package: &'static str,
    /// Its layer. A crate imports only crates of lower layers, or of its own layer where the table
    /// allows it.
    floor: u8,
    /// The packages of the workspace it may import.
    imports: &'static [&'static str],
    /// True if it may name `DriveTruth` and types made from it.
    may_name_truth: bool,
}

const HOUSE: &[Room] = &[
    Room { package: "headtime-units", floor: 0, imports: &[], may_name_truth: false },
    Room {
        package: "headtime-config",
        floor: 0,
        imports: &["headtime-units"],
        may_name_truth: false,
    },
    Room {
        package: "headtime-mechanics",
        floor: 1,
        imports: &["headtime-units"],
        may_name_truth: false,
    },
    Room {
        package: "headtime-sched",
        floor: 1,
        imports: &["headtime-units"],
        may_name_truth: false,
    },
    Room {
        package: "headtime-workload",
        floor: 1,
        imports: &["headtime-units", "headtime-config"],
        may_name_truth: false,
    },
    Room { package: "headtime-nbd", floor: 1, imports: &[], may_name_truth: false },
    Room {
        package: "headtime-tasks",
        floor: 1,
        imports: &["headtime-units"],
        may_name_truth: false,
    },
    Room {
        package: "headtime-belief",
        floor: 2,
        imports: &["headtime-units", "headtime-mechanics", "headtime-sched"],
        may_name_truth: false,
    },
    Room {
        package: "headtime-sim",
        floor: 2,
        imports: &[
            "headtime-units",
            "headtime-mechanics",
            "headtime-sched",
            "headtime-workload",
            "headtime-nbd",
        ],
        may_name_truth: true,
    },
    Room {
        package: "headtime-probe",
        floor: 2,
        imports: &["headtime-units", "headtime-mechanics"],
        may_name_truth: false,
    },
    Room {
        package: "headtime-io",
        floor: 3,
        imports: &[
            "headtime-units",
            "headtime-mechanics",
            "headtime-sched",
            "headtime-workload",
            "headtime-nbd",
            "headtime-belief",
            "headtime-sim",
            "headtime-probe",
        ],
        // It owns the emulated drive, which is a truth run in real time.
        may_name_truth: true,
    },
    Room {
        package: "headtime-serve",
        floor: 4,
        imports: &[
            "headtime-units",
            "headtime-config",
            "headtime-mechanics",
            "headtime-sched",
            "headtime-workload",
            "headtime-nbd",
            "headtime-belief",
            "headtime-sim",
            "headtime-probe",
            "headtime-tasks",
            "headtime-io",
        ],
        may_name_truth: false,
    },
    Room {
        package: "headtime-console",
        floor: 5,
        imports: &[
            "headtime-units",
            "headtime-mechanics",
            "headtime-sched",
            "headtime-belief",
            "headtime-io",
            "headtime-serve",
        ],
        may_name_truth: false,
    },
    Room {
        package: "headtime-lab",
        floor: 6,
        imports: &[
            "headtime-units",
            "headtime-mechanics",
            "headtime-sched",
            "headtime-workload",
            "headtime-nbd",
            "headtime-belief",
            "headtime-sim",
            "headtime-probe",
            "headtime-tasks",
            "headtime-io",
            "headtime-serve",
            "headtime-console",
        ],
        // It compares the drive model with perfect knowledge, or knowledge with a stated error;
        // such rows contain "oracle".
        may_name_truth: true,
    },
    Room {
        package: "headtime-fuzz",
        floor: 5,
        imports: &[
            "headtime-units",
            "headtime-mechanics",
            "headtime-sched",
            "headtime-workload",
            "headtime-nbd",
            "headtime-tasks",
            "headtime-probe",
            "headtime-io",
            "headtime-serve",
        ],
        may_name_truth: false,
    },
    Room {
        // The `dependencies` of no other crate name it: it is for tests.
        package: "headtime-testkit",
        floor: 5,
        imports: &[
            "headtime-units",
            "headtime-mechanics",
            "headtime-sched",
            "headtime-workload",
            "headtime-belief",
            "headtime-sim",
            "headtime-probe",
            "headtime-io",
        ],
        may_name_truth: true,
    },
    Room {
        package: "headtime",
        floor: 7,
        imports: &[
            "headtime-units",
            "headtime-mechanics",
            "headtime-sched",
            "headtime-belief",
            "headtime-probe",
            "headtime-tasks",
            "headtime-io",
            "headtime-serve",
            "headtime-console",
            "headtime-lab",
        ],
        may_name_truth: false,
    },
];

/// The words that layers 0 to 2 may not use, and their replacements.
const FORBIDDEN: &[(&str, &str)] = &[
    ("std::time", "take `now: headtime_units::Instant` as a parameter"),
    ("SystemTime", "take `now: headtime_units::Instant` as a parameter"),
    ("std::fs", "take the text or bytes as a parameter; files are opened on floor 3 and above"),
    ("std::net", "take bytes in and give events out; sockets are floor 4's"),
    ("std::thread", "be a state machine that floor 3 drives"),
    ("std::process", "return an error"),
    ("std::env", "take the setting as a parameter"),
    ("std::io", "take bytes or text as a parameter"),
    ("thread_rng", "take `&mut impl rand::Rng` or a seed as a parameter"),
    ("rand::rng()", "take `&mut impl rand::Rng` or a seed as a parameter"),
    ("OsRng", "take `&mut impl rand::Rng` or a seed as a parameter"),
    ("println!", "return what is to be said"),
    ("eprintln!", "return what is to be said"),
    ("HashMap", "use BTreeMap: iteration order must not depend on a hash"),
    ("HashSet", "use BTreeSet: iteration order must not depend on a hash"),
];

/// Names that only rooms with `may_name_truth` may use.
const TRUTH: &[&str] = &["DriveTruth", "OraclePositioning"];

/// The only part of `headtime-lab` that may name truth.
const EXPERIMENTS: &str = "crates/lab/src/papers";

struct Source {
    package: String,
    path: PathBuf,
    text: String,
}

#[test]
fn every_crate_imports_only_what_its_room_allows() {
    let mut faults = Vec::new();
    for (package, manifest) in manifests() {
        let Some(room) = HOUSE.iter().find(|room| room.package == package) else {
            faults.push(format!(
                "{package} is no room of the workspace: give it a floor in \
                ARCHITECTURE.md and a line in HOUSE of tests/layering.rs"
            ));
            continue;
        };
        for import in imports(&manifest) {
            if !room.imports.contains(&import.as_str()) {
                faults.push(format!(
                    "{package} (floor {}) imports {import}; it may import only {:?}",
                    room.floor, room.imports
                ));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_table_itself_never_points_upwards() {
    for room in HOUSE {
        for import in room.imports {
            let other = HOUSE
                .iter()
                .find(|other| other.package == *import)
                .expect("every import of the table is a room of the table");
            assert!(
                other.floor < room.floor || *import == "headtime-units",
                "{} may not import {import}",
                room.package
            );
        }
    }
}

#[test]
fn floors_0_to_2_touch_no_clock_file_socket_thread_or_chance() {
    let mut faults = Vec::new();
    for source in sources()
        .iter()
        .filter(|source| HOUSE.iter().any(|room| room.package == source.package && room.floor <= 2))
    {
        faults.extend(uses_of(&source.text, FORBIDDEN).into_iter().map(|(line, word, instead)| {
            format!(
                "{}:{line}: `{word}` is not for floors 0 to 2; {instead}",
                source.path.display()
            )
        }));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_truth_of_a_simulated_drive_is_named_only_where_it_may_be() {
    let words: Vec<(&str, &str)> = TRUTH
        .iter()
        .map(|word| {
            (*word, "see positions through `trait Positioning` and times through completions")
        })
        .collect();
    let mut faults = Vec::new();
    for source in sources().iter().filter(|source| {
        !HOUSE.iter().any(|room| room.package == source.package && room.may_name_truth)
            || source.path.starts_with("crates/lab/src") && !source.path.starts_with(EXPERIMENTS)
    }) {
        faults.extend(uses_of(&source.text, &words).into_iter().map(|(line, word, instead)| {
            format!(
                "{}:{line}: {} may not name `{word}`; {instead}",
                source.path.display(),
                source.package
            )
        }));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn the_scan_finds_what_is_planted_and_overlooks_comments_and_tests() {
    let planted = "use core::fmt;\n// HashMap is not used\nlet now = \
        std::time::Instant::now();\n/* println! */\n#[cfg(test)]\nmod tests {\n    use \
        std::fs;\n}\n";
    let found = uses_of(planted, FORBIDDEN);
    assert_eq!(
        found.iter().map(|(line, word, _)| (*line, *word)).collect::<Vec<_>>(),
        [(3, "std::time")]
    );
    assert_eq!(
        uses_of("use std::{\n    fs,\n    time::Duration,\n};\n", FORBIDDEN).len(),
        2,
        "grouped imports are seen through"
    );
    assert!(uses_of("let MyHashMapping = 1;", FORBIDDEN).is_empty(), "only whole words count");
}

/// Places outside comments and tests where one of `words` stands: line, word, what to use instead.
fn uses_of<'w>(text: &str, words: &[(&'w str, &'w str)]) -> Vec<(usize, &'w str, &'w str)> {
    let mut found = Vec::new();
    let mut in_comment = false;
    let mut in_std_group = false;
    let lines: Vec<&str> = text.lines().collect();
    for (index, raw) in lines.iter().enumerate() {
        let opens_tests = raw.trim() == "#[cfg(test)]"
            && lines
                .get(index + 1)
                .is_some_and(|next| next.trim_start().starts_with("mod ") && next.ends_with('{'));
        if opens_tests {
            // Tests stand last in a file, so the rest of it is tests.
            break;
        }
        let mut line = raw.split("//").next().unwrap_or("").to_string();
        if let (Some(start), Some(end)) = (line.find("/*"), line.find("*/")) {
            line.replace_range(start..end + 2, "");
        } else if line.contains("/*") {
            in_comment = true;
        } else if line.contains("*/") {
            in_comment = false;
            continue;
        }
        if in_comment {
            continue;
        }
        in_std_group |= line.contains("std::{");
        // Inside `use std::{…}` a module stands without its `std::`.
        let looked_at = if in_std_group {
            line.replace("std::{", "").replace([',', '{'], " ")
        } else {
            line.clone()
        };
        for (word, instead) in words {
            let bare = word.strip_prefix("std::").filter(|_| in_std_group).unwrap_or(word);
            if has_word(&looked_at, bare) {
                found.push((index + 1, *word, *instead));
            }
        }
        if line.contains('}') {
            in_std_group = false;
        }
    }
    found
}

fn has_word(line: &str, word: &str) -> bool {
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back().is_some_and(is_name);
        let after =
            line[at + word.len()..].chars().next().is_some_and(is_name) && word.ends_with(is_name);
        !before && !after
    })
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the crate stands in crates/ of the workspace")
        .to_path_buf()
}

/// Every package of the workspace and its manifest.
fn manifests() -> BTreeMap<String, toml::Table> {
    let folder = workspace().join("crates");
    let entries =
        std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut found = BTreeMap::new();
    for entry in entries {
        let path = entry.expect("the folder can be read").path().join("Cargo.toml");
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let manifest: toml::Table =
            text.parse().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let package =
            manifest["package"]["name"].as_str().expect("a package has a name").to_string();
        found.insert(package, manifest);
    }
    assert!(found.len() >= 10, "only {} crates were found in {}", found.len(), folder.display());
    found
}

/// The packages of the workspace that a manifest imports, for its library as well as for its build
/// script; tests may import more.
fn imports(manifest: &toml::Table) -> BTreeSet<String> {
    let mut tables: Vec<&toml::Table> = ["dependencies", "build-dependencies"]
        .iter()
        .filter_map(|key| manifest.get(*key)?.as_table())
        .collect();
    if let Some(targets) = manifest.get("target").and_then(toml::Value::as_table) {
        tables.extend(targets.values().filter_map(|target| target.get("dependencies")?.as_table()));
    }
    tables
        .iter()
        .flat_map(|table| table.keys())
        .filter(|name| name.starts_with("headtime"))
        .cloned()
        .collect()
}

fn sources() -> Vec<Source> {
    let mut found = Vec::new();
    for package in manifests().into_keys() {
        let room = package.strip_prefix("headtime-").unwrap_or("cli");
        collect(&package, &workspace().join("crates").join(room).join("src"), &mut found);
    }
    assert!(found.len() > 30, "only {} sources were found", found.len());
    found
}

fn collect(package: &str, folder: &Path, found: &mut Vec<Source>) {
    let entries =
        std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for entry in entries {
        let path = entry.expect("the folder can be read").path();
        let is_tests = path.file_stem().is_some_and(|stem| stem == "tests");
        if path.is_dir() && !is_tests {
            collect(package, &path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !is_tests {
            let text = std::fs::read_to_string(&path)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let path = path.strip_prefix(workspace()).map_or(path.clone(), Path::to_path_buf);
            found.push(Source { package: package.to_string(), path, text });
        }
    }
}
