//! `headtime validate`: what it prints and writes, what it refuses, and what it says of real
//! recordings where they are at hand.

#[path = "common/program.rs"]
mod program;

use std::path::PathBuf;

use program::{headtime, stderr, stdout, text, words};
use serde_json::Value;

/// A recording in a folder of its own.
fn recording(lines: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("some.trace");
    std::fs::write(&path, lines).expect("the folder can be written");
    (folder, path)
}

/// Sixty made-up accesses: reads and writes all over an Atlas 10K, none longer than 12 ms.
fn sixty_accesses() -> String {
    let line = |number: u64| {
        let direction = if number.is_multiple_of(3) { 'W' } else { 'R' };
        let (lba, sectors) = ((number * 7_777_777) % 17_900_000, 4 + number % 5);
        format!(
            "{direction} Hit {lba} {sectors} {}.0 {}.0\n",
            2_000 + (number * 997) % 10_000,
            (number * 613) % 5_000
        )
    };
    (0..60).map(line).collect()
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

fn json(arguments: &[&str]) -> Value {
    let output = headtime(&[&["validate"], arguments, &["--json"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).expect("exactly one JSON object")
}

#[test]
fn the_json_has_the_keys_that_were_promised() {
    let (_folder, path) = recording(&sixty_accesses());
    let answer = json(&["atlas10k@recorded", text(&path)]);
    for key in [
        "demerit_ms",
        "per_request_rms_ms",
        "median_abs_ms",
        "within_0_2_ms",
        "demerit_recorded_ms",
        "demerit_closed_ms",
    ] {
        assert!(answer[key].as_f64().is_some_and(|value| value >= 0.0), "{key}: {}", answer[key]);
    }
    assert!(answer["within_0_2_ms"].as_f64().is_some_and(|share| share <= 1.0));
    assert_eq!(
        (answer["requests"].as_u64(), answer["reads"].as_u64(), answer["writes"].as_u64()),
        (Some(60), Some(40), Some(20))
    );
    assert_eq!(
        (answer["issue"].as_str(), answer["demerit_ms"].as_f64()),
        (Some("recorded"), answer["demerit_recorded_ms"].as_f64())
    );
    assert_eq!(answer["held_out"]["requests"].as_u64(), Some(30));
    let spindle = &answer["spindle"];
    // These times were made up, so no platter ever turned under them.
    assert_eq!(
        (spindle["coherent"].as_bool(), spindle["fit"].as_str()),
        (Some(false), Some("none"))
    );
    assert_eq!(spindle["period_us"], spindle["nominal_period_us"]);

    let closed = json(&["atlas10k@recorded", text(&path), "--closed"]);
    assert_eq!(
        (closed["issue"].as_str(), closed["demerit_ms"].as_f64()),
        (Some("closed"), answer["demerit_closed_ms"].as_f64())
    );
}

#[test]
fn tables_plot_and_csv_tell_of_every_request() {
    let (folder, path) = recording(&sixty_accesses());
    let (plot, csv) = (folder.path().join("plot.svg"), folder.path().join("requests.csv"));
    let output = headtime(&words(&format!(
        "validate atlas10k@recorded {} --plot {} --csv {}",
        text(&path),
        text(&plot),
        text(&csv)
    )));
    assert!(output.status.success(), "{}", stderr(&output));
    for words in [
        "60 requests (40 reads, 20 writes)",
        "demerit",
        "closed",
        "reads",
        "writes",
        "what remains unexplained",
        "keeps no rotational phase",
    ] {
        assert!(stdout(&output).contains(words), "{words}: {}", stdout(&output));
    }

    let drawn = std::fs::read_to_string(&plot).expect("the plot was written");
    assert!(
        drawn.starts_with("<svg ")
            && drawn.contains("xmlns")
            && drawn.trim_end().ends_with("</svg>")
    );
    assert!(
        drawn.contains("recorded") && drawn.contains("simulated less recorded"),
        "both plots are labeled"
    );

    let table = std::fs::read_to_string(&csv).expect("the table was written");
    let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 61);
    for (row, cells) in rows.iter().enumerate().skip(1) {
        assert_eq!(cells.len(), rows[0].len());
        let number = |name: &str| -> f64 {
            let column =
                rows[0].iter().position(|head| *head == name).expect("the column is there");
            cells[column].parse().unwrap_or_else(|error| panic!("row {row}, {name}: {error}"))
        };
        assert_eq!(number("line") as usize, row);
        assert!(
            (number("predicted_us") - number("recorded_us") - number("error_us")).abs() < 0.002,
            "row {row}"
        );
        let parts: f64 = ["overhead_us", "waited_us", "seek_us", "rotate_us", "transfer_us"]
            .into_iter()
            .map(number)
            .sum();
        assert!(
            (parts - number("predicted_us")).abs() < 0.01,
            "row {row}: the parts are {parts} us"
        );
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_place_and_remedy() {
    let refused = |lines: &str, profile: &str| {
        let (_folder, path) = recording(lines);
        let output = headtime(&["validate", profile, text(&path)]);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(output.stdout.is_empty());
        stderr(&output).to_string()
    };
    let bad = refused("R Hit 10 8 100.0 0.0\nR Hit ten 8 100.0 0.0\n", "atlas10k");
    assert!(bad.contains("some.trace:2:7: the LBA is `ten`"), "{bad}");
    let past = refused("R Hit 17938980 8 100.0 0.0\n", "atlas10k");
    assert!(
        past.contains("some.trace")
            && past.contains("line 1")
            && past.contains("17938986")
            && past.contains("drive that was recorded"),
        "{past}"
    );
    let empty = refused("# nothing\n", "atlas10k");
    assert!(empty.contains("contains no access"), "{empty}");
    let unknown = refused("R Hit 10 8 100.0 0.0\n", "no-such-drive");
    assert!(
        unknown.contains("no-such-drive") && unknown.contains("headtime profiles"),
        "{unknown}"
    );
    let missing = headtime(&["validate", "atlas10k", "/no/such/recording"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(stderr(&missing).contains("/no/such/recording cannot be read"), "{}", stderr(&missing));
}

#[test]
fn the_atlas_recording_keeps_no_phase_and_its_distribution_is_nearer_than_disksims() {
    let Some(drives) = drives() else { return };
    let trace = drives.join("atlas10k.trace");
    let answer = json(&["atlas10k", text(&trace)]);
    assert_eq!(answer["profile"], "atlas10k@recorded", "without a setup the recorded one is taken");
    assert_eq!(
        (answer["spindle"]["coherent"].as_bool(), answer["spindle"]["phase_turns"].is_null()),
        (Some(false), true)
    );
    assert!(
        answer["recorded_mean_ms"].as_f64().is_some_and(|mean| (mean - 3.893).abs() < 0.001),
        "{}",
        answer["recorded_mean_ms"]
    );
    // DiskSim 4.0 with the description it ships: demerit 0.268 ms.
    assert!(
        answer["demerit_ms"].as_f64().is_some_and(|demerit| demerit <= 0.268),
        "{}",
        answer["demerit_ms"]
    );
    let named = json(&["atlas10k@recorded", text(&trace)]);
    assert_eq!(named["demerit_ms"], answer["demerit_ms"]);
}

#[test]
fn the_cheetah_recording_keeps_its_phase_and_is_predicted_better_than_by_disksim() {
    let Some(folder) = drives() else { return };
    let answer = json(&["cheetah15k5", text(&folder.join("cheetah15k5.trace"))]);
    let number = |value: &Value| value.as_f64().expect("a number");
    assert_eq!(
        (answer["requests"].as_u64(), answer["spindle"]["coherent"].as_bool()),
        (Some(10_000), Some(true))
    );
    assert!(
        (number(&answer["spindle"]["period_us"]) - 3_995.344).abs() < 0.01,
        "{}",
        answer["spindle"]
    );
    // DiskSim 4.0 with the description it ships: demerit 0.297 ms, median error 1.19 ms, 17.6 % of
    // the reads within 0.2 ms.
    assert!(number(&answer["demerit_ms"]) <= 0.297, "{}", answer["demerit_ms"]);
    for half in [&answer, &answer["held_out"]] {
        assert!(
            number(&half["median_abs_ms"]) < 0.1 && number(&half["within_0_2_ms"]) > 0.8,
            "{half}"
        );
    }
}
