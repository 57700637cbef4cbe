//! `headtime demo` through the real program, with the built-in load on a small drive.

#[path = "common/markup.rs"]
mod markup;
#[path = "common/program.rs"]
mod program;

use headtime_lab::demo::DEFAULT_POLICIES;
use headtime_testkit::programs::installed;
use program::{Program, headtime, text, words};
use rustix::process::Signal;
use serde_json::Value;

#[test]
fn a_short_demo_serves_loads_and_reports_both_policies() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("demo");
    let output = headtime(&words(&format!(
        "demo --seconds 2 --drive atlas10k --load built-in --out {} --json",
        text(&out)
    )));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout)
        .expect("standard output is the report and nothing else");
    let written: Value =
        serde_json::from_slice(&std::fs::read(out.join("report.json")).expect("written"))
            .expect("JSON");
    assert_eq!(report, written);
    let policies: Vec<&str> = report["runs"]
        .as_array()
        .expect("runs")
        .iter()
        .filter_map(|run| run["policy"].as_str())
        .collect();
    assert_eq!(policies.join(","), DEFAULT_POLICIES);
    for run in report["runs"].as_array().expect("runs") {
        let names: Vec<&str> = run["volumes"]
            .as_array()
            .expect("volumes")
            .iter()
            .filter_map(|volume| volume["name"].as_str())
            .collect();
        assert_eq!(names, ["recorder", "database", "backup"]);
        for volume in run["volumes"].as_array().expect("volumes") {
            let name = format!("{} under {}", volume["name"], run["policy"]);
            let totals = &volume["totals"];
            assert!(totals["requests"].as_u64() > Some(0), "{name} was served nothing: {totals}");
            assert_eq!(totals["errors"], 0, "{name}");
            let cdf = volume["response_cdf"].as_array().expect("a distribution");
            assert_eq!(
                cdf.last().map(|point| point[1].as_f64()),
                Some(Some(1.0)),
                "{name}: the distribution ends at the whole"
            );
            // The client waits for what is under way at the end; the server's figures end before.
            let client = volume["client"]["requests"].as_u64().expect("the built-in client counts");
            assert!(
                client >= totals["requests"].as_u64().unwrap_or(0),
                "{name}: the server answered more than the client heard"
            );
            let split = &run["disk_time"];
            let shares: f64 = split
                .as_object()
                .expect("an emulated drive knows")
                .values()
                .filter_map(Value::as_f64)
                .sum();
            assert!((shares - 1.0).abs() < 1e-9, "{name}: disk time adds up to {shares}");
        }
        assert!(run["lateness"]["count"].as_u64() > Some(0));
        assert_eq!(
            run["volumes"][0]["totals"]["deadline_requests"],
            run["volumes"][0]["totals"]["requests"]
        );
        assert_eq!(run["volumes"][1]["totals"]["deadline_requests"], 0);
    }
    assert!(report["load"]["reason"].is_string(), "the report says why it is not fio");
    let page = std::fs::read_to_string(out.join("report.html")).expect("written");
    markup::check_well_formed(&page);
    assert!(page.contains("built-in generator"), "the page says who made the load");
    let left: Vec<_> = std::fs::read_dir(&out)
        .expect("the folder is there")
        .map(|entry| entry.expect("readable").file_name())
        .collect();
    assert_eq!(left.len(), 2, "something beside the report was left: {left:?}");
    assert!(
        said.contains("  recorder ") && !said.contains('\u{1b}'),
        "lines without escape codes: {said}"
    );
}

#[test]
fn ctrl_c_ends_a_demo_with_what_was_measured() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut demo = Program::start(&words(&format!(
        "demo --seconds 600 --drive atlas10k --load built-in --policies sptf --plain --web \
            127.0.0.1:0 --out {}",
        text(folder.path())
    )));
    while !demo.line().starts_with("live web page: http://127.0.0.1:") {}
    while !demo.line().contains("IOPS") {}
    demo.signal(Signal::INT);
    let (status, rest, said) = demo.end();
    assert!(status.success(), "{status}: {said}");
    assert!(rest.contains("interrupted") && rest.contains("report.html"), "{rest}");
    let report: Value =
        serde_json::from_slice(&std::fs::read(folder.path().join("report.json")).expect("written"))
            .expect("JSON");
    assert_eq!(
        (&report["interrupted"], report["runs"].as_array().map(Vec::len)),
        (&Value::from(true), Some(1))
    );
    assert!(
        std::fs::read_dir(folder.path()).expect("readable").count() == 2,
        "the drive's bytes were left"
    );
}

#[test]
fn fio_makes_the_load_where_it_is_installed() {
    if !installed(&["fio"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = headtime(&words(&format!(
        "demo --seconds 2 --drive atlas10k --load fio --policies clook --out {} --json",
        text(folder.path())
    )));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout)
        .expect("standard output is the report and nothing else");
    assert_eq!(
        (&report["load"]["name"], &report["load"]["reason"]),
        (&Value::from("fio"), &Value::Null)
    );
    for volume in report["runs"][0]["volumes"].as_array().expect("volumes") {
        assert!(
            volume["client"]["requests"].as_u64() > Some(0),
            "fio told nothing of {}",
            volume["name"]
        );
    }
}

#[test]
fn nonsense_is_refused_before_anything_is_made() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("demo");
    let cases: &[(&[&str], &str)] = &[
        (&["--policies", "fastest"], "known are fcfs"),
        (&["--policies", "sptf-oracle"], "headtime sim"),
        (&["--policies", ","], "such as fcfs"),
        (&["--drive", "wd40"], "atlas10k"),
        (&["--seconds", "0"], "0.5 to 86400"),
        (&["--load", "dd"], "built-in"),
    ];
    for (arguments, expected) in cases {
        let output = headtime(&[&["demo", "--out", text(&out)], *arguments].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(expected), "{arguments:?} says `{said}`, without `{expected}`");
    }
    assert!(!out.exists(), "a refused demo made its folder");
}
