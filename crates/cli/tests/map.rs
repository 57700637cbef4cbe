//! `headtime map`: what it learns, shows, keeps and merges, what it refuses, and how far it goes on
//! the recording of a real drive where that is at hand.

#[path = "common/program.rs"]
mod program;

#[path = "common/markup.rs"]
mod markup;

use std::path::{Path, PathBuf};
use std::process::Output;

use program::{stderr, stdout, text, words};
use serde_json::Value;

/// Runs the real program.
fn headtime(arguments: &[&str]) -> Output {
    program::headtime(&[&["map"], arguments].concat())
}

fn json(arguments: &[&str]) -> Value {
    let output = headtime(&[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("exactly one JSON object")
}

/// The message of a refusal: nothing was done, exit code 2.
fn refusal(arguments: &[&str]) -> String {
    let output = headtime(arguments);
    assert_eq!((output.status.code(), stdout(&output)), (Some(2), ""), "{}", stderr(&output));
    stderr(&output).to_string()
}

/// A folder with a recording of made-up reads, all among twelve places of an Atlas 10K.
fn recording() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("some.trace");
    let line = |number: u64| {
        // Any order that meets most of the pairs.
        let place = ((number * 2_654_435_761) >> 7) % 12;
        format!(
            "R Hit {} 8 {}.0 0.0\n",
            place * 1_400_000,
            3_000 + (place * 997 + number * 31) % 9_000
        )
    };
    std::fs::write(&path, (0..400).map(line).collect::<String>())
        .expect("the folder can be written");
    (folder, path)
}

/// A folder with a recording and a matrix learned from its first half.
fn matrix() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let (folder, trace) = recording();
    let map = folder.path().join("atlas.map");
    let answer = json(&words(&format!(
        "learn --profile atlas10k {} --kind matrix -o {}",
        text(&trace),
        text(&map)
    )));
    assert_eq!(
        (answer["learned_from"].as_u64(), answer["predicted"].as_u64()),
        (Some(200), Some(200))
    );
    assert!(answer["exceedance"].as_array().is_some_and(|rows| !rows.is_empty()), "{answer}");
    (folder, trace, map)
}

#[test]
fn a_matrix_is_learned_shown_and_drawn() {
    let (folder, _, map) = matrix();
    let known = json(&["show", text(&map)]);
    assert_eq!(
        (known["kind"].as_str(), known["cell_sectors"].as_u64(), known["cells_covered"].as_u64()),
        (Some("matrix"), Some(256), Some(12))
    );
    assert_eq!(known["observations"].as_u64(), Some(199), "the first request has none before it");
    assert!(
        known["pairs_known"].as_u64() > Some(10)
            && known["pairs_known"].as_u64() <= known["pairs_covered"].as_u64()
    );
    let rows = known["exceedance"].as_array().expect("samples were counted");
    assert!(
        rows.iter().all(|row| row["low"].as_f64() <= row["rate"].as_f64()
            && row["rate"].as_f64() <= row["high"].as_f64()),
        "{rows:?}"
    );

    let svg = folder.path().join("map.svg");
    let output = headtime(&["show", text(&map), "--svg", text(&svg), "--region", "0..8000000"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(
        stdout(&output).contains("12 of 70075 cells covered")
            && stdout(&output).contains("95 % interval"),
        "{}",
        stdout(&output)
    );
    let drawn = std::fs::read_to_string(&svg).expect("it was drawn");
    let elements = markup::check_well_formed(&drawn);
    let squares = elements.iter().filter(|element| *element == "rect").count();
    assert_eq!(squares, 10, "five pairs are known there, each in both directions");
    assert!(
        elements.iter().any(|element| element == "circle") && drawn.contains("distance in sectors")
    );
    // What the shades mean stands above the squares, not on them.
    let line = |text: &str| {
        drawn
            .lines()
            .position(|line| line.contains(text))
            .unwrap_or_else(|| panic!("no `{text}` in {drawn}"))
    };
    assert!(line("white unknown") < line("from LBA"));
    let nothing = refusal(&[
        "show",
        text(&map),
        "--svg",
        text(&folder.path().join("no.svg")),
        "--region",
        "100..200",
    ]);
    assert!(nothing.contains("no pair is known") && nothing.contains("100..200"), "{nothing}");
    assert!(!folder.path().join("no.svg").exists());
    // The default is from the first observed cell to the last, which lies between 15.4 million
    // sectors and the drive's 17.9 million.
    assert!(headtime(&["show", text(&map), "--svg", text(&svg)]).status.success());
    let drawn = std::fs::read_to_string(&svg).expect("it was drawn");
    assert!(
        drawn.contains(">15M</text>") && drawn.contains("<rect x=\"867.5\""),
        "the last of the 96 columns is known: the axis ends where knowledge does"
    );
}

#[test]
fn learning_goes_on_with_a_map_that_was_kept_and_maps_are_merged() {
    let (folder, trace, map) = matrix();
    let on = |name: &str| folder.path().join(name);
    let more = on("more.map");
    let learned = json(&words(&format!(
        "learn --profile atlas10k {} --train 1 --map {} -o {}",
        text(&trace),
        text(&map),
        text(&more)
    )));
    assert!(learned["map"]["observations"].as_u64() > Some(500), "{learned}");
    let merged = on("merged.map");
    let output = headtime(&["merge", text(&map), text(&more), "-o", text(&merged)]);
    assert!(output.status.success(), "{}", stderr(&output));
    let pairs = |path: &Path| json(&["show", text(path)])["pairs_known"].as_u64();
    assert_eq!(pairs(&merged), pairs(&more), "the second holds all of the first");
}

#[test]
fn a_kept_copy_is_the_same_and_what_is_there_is_replaced_only_when_asked() {
    let (folder, _, map) = matrix();
    let copy = folder.path().join("copy.map");
    assert!(headtime(&["save", text(&map), text(&copy)]).status.success());
    assert_eq!(std::fs::read(&map).unwrap(), std::fs::read(&copy).unwrap());
    assert!(refusal(&["save", text(&map), text(&copy)]).contains("with --force"));
    assert!(headtime(&["save", text(&map), text(&copy), "--force"]).status.success());
    // What is no map is never replaced.
    let other = folder.path().join("other.txt");
    std::fs::write(&other, "dear diary").unwrap();
    assert!(refusal(&["save", text(&map), text(&other), "--force"]).contains("no latency map"));
    assert_eq!(std::fs::read_to_string(&other).unwrap(), "dear diary");
    assert_eq!(
        std::fs::read_dir(folder.path()).unwrap().count(),
        4,
        "nothing else was left behind"
    );
    assert!(
        stdout(&headtime(&["load", text(&map), "--profile", "atlas10k"]))
            .contains("valid for atlas10k")
    );
}

#[test]
fn damaged_truncated_foreign_and_newer_files_are_refused_and_change_nothing() {
    let (folder, trace, map) = matrix();
    let whole = std::fs::read(&map).unwrap();
    let bad = folder.path().join("bad.map");
    let out = folder.path().join("out.map");
    std::fs::copy(&map, &out).unwrap();
    let refused = |bytes: &[u8], says: &str| {
        std::fs::write(&bad, bytes).unwrap();
        for arguments in [
            vec!["show", text(&bad)],
            vec!["load", text(&bad), "--profile", "atlas10k"],
            vec!["save", text(&bad), text(&out), "--force"],
            vec!["merge", text(&map), text(&bad), "-o", text(&out), "--force"],
            vec![
                "learn",
                "--profile",
                "atlas10k",
                text(&trace),
                "--map",
                text(&bad),
                "-o",
                text(&out),
                "--force",
            ],
        ] {
            let message = refusal(&arguments);
            assert!(
                message.contains(says) && message.contains("bad.map"),
                "{arguments:?}: {message}"
            );
            assert_eq!(std::fs::read(&out).unwrap(), whole, "{arguments:?} changed the file");
        }
    };
    refused(&whole[..whole.len() - 9], "was cut off");
    refused(b"something else", "no latency map");
    refused(b"HTCOMPCT", "was cut off");
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 4;
    refused(&damaged, "damaged");
    let mut newer = whole.clone();
    newer[8] = 9;
    let header = u32::from_le_bytes([newer[12], newer[13], newer[14], newer[15]]) as usize;
    let checksum = crc32c::crc32c(&newer[..header - 4]).to_le_bytes();
    newer[header - 4..header].copy_from_slice(&checksum);
    refused(&newer, "use a newer program");
    // Whole, and of another drive.
    assert!(refusal(&["load", text(&map), "--profile", "cheetah10k7"]).contains("expected is '"));
    assert!(
        refusal(&["learn", "--profile", "nearline-20tb", text(&trace), "--map", text(&map)])
            .contains("use a map of the same model")
    );
}

#[test]
fn a_compact_map_is_learned_kept_and_goes_on_and_is_not_merged() {
    let (folder, trace) = recording();
    let map = folder.path().join("compact.map");
    for from in ["profile", "no-slips", "nothing"] {
        let answer = json(&words(&format!(
            "learn --profile atlas10k {} --from {from} -o {} --force",
            text(&trace),
            text(&map)
        )));
        assert_eq!(
            (answer["kind"].as_str(), answer["map"]["from_profile"].as_bool()),
            (Some("compact"), Some(from != "nothing"))
        );
        let known = json(&["show", text(&map)]);
        assert_eq!(known["angles_known"], answer["map"]["angles_known"]);
        let again = json(&words(&format!(
            "learn --profile atlas10k {} --map {} --train 0",
            text(&trace),
            text(&map)
        )));
        assert_eq!(again["predicted"].as_u64(), Some(400));
    }
    let svg = folder.path().join("map.svg");
    assert!(
        headtime(&["learn", "--profile", "atlas10k", text(&trace), "-o", text(&map), "--force"])
            .status
            .success()
    );
    assert!(headtime(&["show", text(&map), "--svg", text(&svg)]).status.success());
    markup::check_well_formed(&std::fs::read_to_string(&svg).unwrap());
    let out = folder.path().join("out.map");
    assert!(refusal(&["merge", text(&map), text(&map), "-o", text(&out)]).contains("compact map"));
    assert!(!out.exists());
}

#[test]
fn what_makes_no_sense_is_refused_with_what_would() {
    let (folder, trace) = recording();
    let learn = |more: &[&str]| {
        refusal(&[&["learn", "--profile", "atlas10k", text(&trace)], more].concat())
    };
    assert!(
        learn(&["--train", "1.5"]).contains("from 0 to 1")
            && learn(&["--train", "150%"]).contains("such as 50%")
    );
    assert!(learn(&["--kind", "matrix", "--bits", "5"]).contains("4, 8 or 16"));
    assert!(learn(&["--kind", "matrix", "--cell", "1000"]).contains("whole number"));
    assert!(learn(&["--memory", "1MiB"]).contains("allow more"));
    let past = folder.path().join("past.trace");
    std::fs::write(&past, "R Hit 99999999999 8 4000.0 0.0\n").unwrap();
    assert!(
        refusal(&["learn", "--profile", "atlas10k", text(&past)])
            .contains("past the end of atlas10k")
    );
    assert!(refusal(&["show", "/nowhere/at.map"]).contains("cannot be read"));
    assert!(
        refusal(&["show", "/nowhere/at.map", "--region", "0..9"]).contains("--svg"),
        "a region is for the picture"
    );
    assert!(
        refusal(&["learn", "--profile", "atlas11k", text(&trace)])
            .starts_with("headtime: no profile is called `atlas11k`")
    );
}

/// The folder of recordings of real drives; `None`, with a message, where there is none.
fn drives() -> Option<PathBuf> {
    let folder =
        std::env::var_os("HEADTIME_DRIVES").map(PathBuf::from).filter(|folder| folder.is_dir());
    if folder.is_none() {
        eprintln!("skipped: HEADTIME_DRIVES names no folder with recordings of real drives");
    }
    folder
}

/// The slips of this drive are learned from the first half of its recording; nothing of the second
/// half is used, neither the profile's slips nor a fit. The figures are those of docs/map.md.
#[test]
fn later_reads_of_a_real_drive_are_predicted_as_well_as_the_docs_say() {
    let Some(folder) = drives() else { return };
    let trace = folder.join("cheetah15k5.trace");
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/map.md");
    let page = std::fs::read_to_string(page).expect("docs/map.md is there");
    for (started, from) in
        [("the profile without its slips", "no-slips"), ("the profile as it ships", "profile")]
    {
        let arguments = ["learn", "--profile", "cheetah15k5", "--from", from, text(&trace)];
        let answer = json(&[&arguments[..], &["--train", "0.5"]].concat());
        assert_eq!(answer["predicted"].as_u64(), Some(5_000));
        let share = |figures: &str, key: &str| answer[figures][key].as_f64().expect("a share");
        let [reads, at_once, writes] = ["reads", "reads_at_once", "writes"]
            .map(|figures| 100.0 * share(figures, "within_0_2_ms"));
        let off = 100.0 * share("reads", "revolution_off");
        let row = format!(
            "| {started} (`--from {from}`) | {reads:.1} % | {at_once:.1} % | {writes:.1} % | \
                {off:.1} % |"
        );
        assert!(page.contains(&row), "docs/map.md should have:\n{row}");
        assert!(
            answer["reads_by_region"].as_array().is_some_and(|regions| regions
                .iter()
                .all(|region| region["within_0_2_ms"].as_f64() > Some(0.5))),
            "{answer}"
        );
    }
}
