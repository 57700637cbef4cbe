//! The demo's report, made from invented figures.

#[path = "common/markup.rs"]
mod markup;

use headtime_console::figures::{
    BeliefFigures, DiskTimeShares, LatenessFigures, Times, VolumeSample, VolumeTotals,
};
use headtime_lab::report::{
    self, ClientFigures, DemoReport, LoadSource, PolicyRun, VolumePlan, VolumeRun,
};

/// Figures of one volume whose response times spread around `center_ms`.
fn volume(
    name: &str,
    center_ms: f64,
    mib_per_second: f64,
    misses_per_second: u64,
    has_deadline: bool,
) -> VolumeRun {
    let samples = (1..=30)
        .map(|second| VolumeSample {
            at_seconds: f64::from(second),
            mib_per_second: mib_per_second * (1.0 + 0.1 * f64::from(second % 5)),
            iops: 40.0,
            p50_ms: center_ms,
            p99_ms: center_ms * 4.0,
            max_ms: center_ms * 6.0,
            deadline_misses: misses_per_second * u64::from(second % 3 == 0),
            in_flight: 8,
            disk_time_share: 0.3,
        })
        .collect();
    let response_cdf = (0..=100)
        .map(|step| {
            (center_ms * 10_f64.powf(f64::from(step) / 50.0 - 1.0), f64::from(step) / 100.0)
        })
        .collect();
    let response_ms = Times {
        count: 1_200,
        mean: center_ms,
        p50: center_ms,
        p95: center_ms * 3.0,
        p99: center_ms * 4.0,
        p999: center_ms * 5.0,
        max: center_ms * 6.0,
    };
    let deadline_requests = if has_deadline { 1_200 } else { 0 };
    let totals = VolumeTotals {
        requests: 1_200,
        iops: 40.0,
        mib_per_second,
        response_ms,
        deadline_requests,
        deadline_misses: misses_per_second * 10,
        errors: 0,
        unanswered: 8,
        disk_time_share: 0.3,
    };
    let client =
        Some(ClientFigures { requests: 1_200, iops: 39.9, mib_per_second, response_ms, errors: 0 });
    let heat = (0..30).map(|second| vec![(16 + second % 3, 30), (20, 10)]).collect();
    VolumeRun { name: name.to_string(), totals, client, samples, heat, response_cdf }
}

fn run(policy: &str, factor: f64, misses: u64) -> PolicyRun {
    PolicyRun {
        policy: policy.to_string(),
        summary: "what the table says of it".to_string(),
        outstanding_limit: None,
        outstanding_mean: 1.7,
        seconds: 30.0,
        utilization: 0.99,
        disk_time: Some(DiskTimeShares {
            seek: 0.38 / factor,
            rotate: 0.30,
            transfer: 0.2,
            overhead: 0.01,
            idle: 0.01,
            background: 0.0,
        }),
        lateness: Some(LatenessFigures { count: 4_000, p50_us: 12.0, p99_us: 88.0, max_us: 400.0 }),
        belief: Some(BeliefFigures { completions: 4_000, rms_error_us: 61.0 }),
        volumes: vec![
            volume("recorder", 60.0 / factor, 20.0, misses, true),
            volume("database", 120.0 / factor, 0.6 * factor, 0, false),
            volume("backup", 90.0, 40.0 * factor, 0, false),
        ],
    }
}

fn synthetic(load_reason: Option<&str>) -> DemoReport {
    let plan = |name: &str, load: &str, deadline_ms| VolumePlan {
        name: name.to_string(),
        load: load.to_string(),
        size_bytes: 500_000_000_000,
        start_bytes: Some(1_000_000_000_000),
        deadline_ms,
        reserve: 0.0,
    };
    DemoReport {
        version: "0.1.0".to_string(),
        drive: "nearline-20tb".to_string(),
        drive_summary: "20 TB, 7,200 rpm <& more>".to_string(),
        seed: 1,
        seconds_per_policy: 30.0,
        load: LoadSource {
            name: "fio".to_string(),
            version: "3.33".to_string(),
            reason: load_reason.map(str::to_string),
        },
        volumes: vec![
            plan("recorder", "sequential writes of 512 KiB at 20 MiB/s", Some(100.0)),
            plan("database", "random 8 KiB, 70 % reads, 32 at once", None),
            plan("backup", "sequential reads of 1 MiB, 8 at once", None),
        ],
        runs: vec![run("fcfs", 1.0, 7), run("sptf-expected", 1.7, 0)],
        machine: "Linux, 2 processors".to_string(),
        ended_unix_seconds: 1_795_262_121,
        interrupted: false,
    }
}

#[test]
fn the_page_is_well_formed_and_fetches_nothing() {
    let page = report::page(&synthetic(Some("fio is not installed")));
    let elements = markup::check_well_formed(&page);
    // Three distributions, three shares, three throughputs, one of misses, one split, and a map of
    // response times for each volume under both policies.
    assert_eq!(elements.iter().filter(|name| *name == "svg").count(), 17);
    for outside in ["http:", "https:", "src=", "href=", "url(", "@import", "<script", "<link"] {
        assert!(!page.contains(outside), "the page reaches outside itself with {outside}");
    }
}

#[test]
fn the_page_says_what_the_numbers_are_and_how_they_were_made() {
    let page = report::page(&synthetic(Some("fio is not installed")));
    for expected in [
        "fcfs",
        "sptf-expected",
        "fio is not installed",
        "seed 1",
        "headtime 0.1.0",
        "12 / 88 / 400",
        "2026-11-21",
        "deadline 100 ms",
        "&lt;&amp; more&gt;",
    ] {
        assert!(page.contains(expected), "the page does not say {expected}");
    }
    assert!(page.contains(
        "sptf-expected against fcfs: the recorder missed 0 % of its deadlines \
            instead of 5.8 %, the database got 1.00 times as much"
    ));
    assert!(!page.contains("The machine was busy"), "88 us late at the 99th percentile is fine");
    let mut late = synthetic(None);
    late.runs[1].lateness =
        Some(LatenessFigures { count: 4_000, p50_us: 12.0, p99_us: 2_500.0, max_us: 9_000.0 });
    assert!(report::page(&late).contains(
        "The machine was busy under sptf-expected: one in a hundred completions came 2.5 ms"
    ));
    let with_fio = report::page(&synthetic(None));
    assert!(!with_fio.contains("built-in"), "the page excuses a load that was fio's");
}

#[test]
fn a_run_in_which_nothing_completed_still_makes_a_page() {
    let mut empty = synthetic(None);
    for run in &mut empty.runs {
        (run.disk_time, run.lateness, run.belief) = (None, None, None);
        for volume in &mut run.volumes {
            *volume = VolumeRun {
                name: volume.name.clone(),
                totals: VolumeTotals::default(),
                client: None,
                samples: Vec::new(),
                heat: Vec::new(),
                response_cdf: Vec::new(),
            };
        }
    }
    markup::check_well_formed(&report::page(&empty));
}

#[test]
fn both_files_are_written_and_the_numbers_are_the_report() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let written = report::write(&synthetic(None), &folder.path().join("new/folder"))
        .expect("the folder is ours");
    let numbers: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&written.json).expect("written")).expect("JSON");
    assert_eq!(numbers["runs"][1]["volumes"][0]["totals"]["deadline_misses"], 0);
    assert_eq!(
        numbers["runs"][0]["volumes"][0]["response_cdf"].as_array().map(Vec::len),
        Some(101)
    );
    let page = std::fs::read(&written.html).expect("written");
    assert!(page.len() > 20_000);
    // The file of before is replaced and not written to.
    let before = folder.path().join("before.html");
    std::fs::hard_link(&written.html, &before).expect("the folder is ours");
    let other = DemoReport { seed: 77, ..synthetic(None) };
    report::write(&other, &folder.path().join("new/folder")).expect("the folder is ours");
    assert!(std::fs::read(&written.html).expect("written") != page);
    assert!(std::fs::read(&before).expect("written") == page);
    if let Some(copy) = std::env::var_os("HEADTIME_KEEP_REPORT") {
        std::fs::copy(&written.html, copy).expect("the place given can be written");
    }
}
