//! `headtime papers`: lists, runs, writes, and what it says to nonsense.

#[path = "common/program.rs"]
mod program;

use headtime_lab::papers::EXPERIMENTS;
use program::{check_refusal, headtime_in, json, stderr, stdout, words};
use serde_json::Value;

#[path = "common/markup.rs"]
mod markup;

/// So few requests that an experiment takes no time; its figures are worth as much.
const TINY: [&str; 2] = ["--scale", "0.002"];

fn tiny(arguments: &[&str]) -> Vec<String> {
    ["papers"].iter().chain(arguments).chain(&TINY).map(|text| (*text).to_string()).collect()
}

#[test]
fn the_list_is_the_table() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ids: Vec<&str> = EXPERIMENTS.iter().map(|experiment| experiment.id).collect();
    assert_eq!(
        json(&headtime_in(folder.path(), &["papers", "--list", "--json"])),
        Value::from(ids)
    );
    let list = headtime_in(folder.path(), &["papers", "--list"]);
    for experiment in EXPERIMENTS {
        for expected in [experiment.id, experiment.title, experiment.source] {
            assert!(
                stdout(&list).contains(expected),
                "{expected} is missing from\n{}",
                stdout(&list)
            );
        }
    }
}

#[test]
fn one_id_prints_one_object_with_the_promised_keys_and_writes_every_form() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let arguments = tiny(&["a.depth", "--json", "--seed", "3"]);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let answer = json(&headtime_in(folder.path(), &arguments));
    assert_eq!((&answer["id"], &answer["seed"]), (&Value::from("a.depth"), &Value::from(3)));
    for row in answer["rows"].as_array().expect("an array") {
        for key in
            ["what", "published", "measured", "unit", "verdict", "holds", "tolerance", "reason"]
        {
            assert!(row.get(key).is_some(), "a row without {key}: {row}");
        }
    }
    let read = |end: &str| {
        let path = folder.path().join(format!("headtime-papers/a.depth/a.depth.{end}"));
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    assert_eq!(
        serde_json::from_str::<Value>(&read("json")).expect("JSON"),
        answer,
        "the file and the answer differ"
    );
    assert!(read("csv").starts_with("id,seed,what,") && read("svg").starts_with("<svg "));
    let elements = markup::check_well_formed(&read("html"));
    assert!(
        elements.iter().any(|name| name == "svg")
            && elements.iter().filter(|name| *name == "tr").count() > 20
    );
}

#[test]
fn the_same_seed_gives_the_same_bytes_with_one_thread_and_with_two() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = |seed: &str, threads: &str| {
        let arguments = tiny(&words(&format!(
            "a.depth a.ageing --json --seed {seed} --threads {threads} --out here"
        )));
        let output =
            headtime_in(folder.path(), &arguments.iter().map(String::as_str).collect::<Vec<_>>());
        assert!(output.status.success(), "{}", stderr(&output));
        output.stdout
    };
    let once = run("7", "1");
    assert!(once.starts_with(b"["), "several ids are an array");
    assert_eq!(once, run("7", "2"));
    assert_ne!(once, run("8", "2"));
    assert!(
        folder.path().join("here/a.depth.html").is_file()
            && folder.path().join("here/a.ageing.html").is_file()
    );
    assert!(!folder.path().join("headtime-papers").exists(), "--out says where");
}

#[test]
fn people_get_a_table_with_reasons_below_and_no_bar_where_nobody_watches() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let arguments = tiny(&["a.gr*"]);
    let output =
        headtime_in(folder.path(), &arguments.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(output.status.success(), "{}", stderr(&output));
    for expected in [
        "published",
        "measured",
        "verdict",
        "tolerance",
        "inconclusive",
        "a.greedy: ",
        "beam of depth 8",
        "\"gives nothing\": a guess",
        "have nothing to compare",
        "written: ",
    ] {
        assert!(
            stdout(&output).contains(expected),
            "{expected} is missing from\n{}",
            stdout(&output)
        );
    }
    let reason = "Not published: how the gain grows with depth.";
    assert_eq!(stdout(&output).matches(reason).count(), 1, "a reason is written once");
    assert!(stderr(&output).is_empty(), "{}", stderr(&output));
}

#[test]
fn nonsense_is_refused_with_a_remedy_before_anything_runs() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    std::fs::write(folder.path().join("file"), "").expect("the folder is ours");
    let cases: &[(&[&str], i32, &str)] = &[
        (
            &["a.deph"],
            2,
            "there is no experiment `a.deph`; did you mean a.depth? Known are a.throughput, ",
        ),
        (&["P9.*"], 2, "no experiment fits `P9.*`; known are a.throughput, "),
        (&[], 2, "--list"),
        (&["--list", "a.depth"], 2, "cannot be used with"),
        (&["a.depth", "--scale", "0"], 2, "such as 0.1"),
        (&["a.depth", "--threads", "0"], 2, "--threads"),
        (&["a.throughput", "--out", "file/below"], 1, "file/below; choose another with --out"),
    ];
    for (arguments, code, expected) in cases {
        let output = headtime_in(folder.path(), &[&["papers"], *arguments].concat());
        check_refusal(&output, *code, expected, arguments);
    }
}
