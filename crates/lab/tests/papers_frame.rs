//! The frame from outside: every experiment of the table runs, its rows keep their promises, and
//! its results are the same for any number of threads; its files are complete and agree with each
//! other.

mod published;

use std::fs;
use std::path::PathBuf;

use headtime_lab::papers::{
    Context, EXPERIMENTS, PaperExperiment, Published, Report, Silent, output,
};
use serde_json::Value;

/// So few requests that a whole experiment takes a second; figures are worth little, forms are all
/// there.
const TINY: f64 = 0.002;

fn run(experiment: &PaperExperiment, scale: f64, threads: usize) -> Report {
    experiment
        .run(&Context::new(7, scale, threads, &Silent))
        .unwrap_or_else(|error| panic!("{}: {error}", experiment.id))
}

#[test]
fn every_experiment_runs_and_its_rows_keep_their_promises() {
    for experiment in EXPERIMENTS {
        let report = run(experiment, TINY, 2);
        let json: Value = serde_json::from_str(&output::json(&report).expect("a report is JSON"))
            .expect("what is written is JSON");
        assert_eq!((&json["id"], &json["seed"]), (&Value::from(experiment.id), &Value::from(7)));
        let rows = json["rows"].as_array().expect("an array");
        assert!(
            !rows.is_empty() && !report.plot.panels.is_empty() && !report.parameters.is_empty(),
            "{} finds nothing",
            experiment.id
        );
        for row in rows {
            let object = row.as_object().expect("an object");
            for key in
                ["what", "published", "measured", "unit", "verdict", "holds", "tolerance", "reason"]
            {
                assert!(object.contains_key(key), "{}: a row without {key}: {row}", experiment.id);
            }
            assert!(row["what"].is_string() && row["unit"].is_string(), "{row}");
            assert!(
                row["published"].is_number()
                    || row["published"].is_string()
                    || row["published"].is_null(),
                "{row}"
            );
            assert!(row["measured"].is_number() || row["measured"].is_null(), "{row}");
            let holds = match row["verdict"].as_str() {
                Some("reproduced") => Value::Bool(true),
                Some("not reproduced" | "inconclusive") => Value::Bool(false),
                _ => Value::Null,
            };
            assert_eq!(row["holds"], holds, "{row}");
            assert_eq!(row["verdict"].is_null(), holds.is_null(), "{row}");
            assert!(
                row["holds"] == true
                    || row["reason"].as_str().is_some_and(|reason| reason.ends_with('.')),
                "no sentence says why: {row}"
            );
        }
        for row in report.rows.iter().filter(|row| row.published != Published::Nothing) {
            let figure = row.published.text();
            assert!(
                published::lists(published::TABLE, experiment.id, &figure),
                "{}: crates/lab/tests/published/figures.txt does not say where {figure} of `{}` \
                    stands",
                experiment.id,
                row.what
            );
        }
        let mut names: Vec<&str> = report.rows.iter().map(|row| row.what.as_str()).collect();
        names.sort_unstable();
        assert!(
            names.windows(2).all(|pair| pair[0] != pair[1]),
            "{}: two rows of one name",
            experiment.id
        );
        for what in names {
            let oracle =
                what.contains("oracle") || what.contains("exact") || what.contains("planner");
            assert!(
                !oracle || what.contains("oracle"),
                "`{what}` knows the truth and does not say oracle"
            );
            let noise = ["no noise", "no other noise", "with noise"]
                .iter()
                .any(|noise| what.contains(noise));
            assert!(noise, "`{what}` does not say which noise the drive had");
        }
    }
}

#[test]
fn the_number_of_threads_changes_no_byte() {
    for experiment in EXPERIMENTS
        .iter()
        .filter(|experiment| ["a.depth", "a.cells", "a.errors", "p2.f7"].contains(&experiment.id))
    {
        let [one, two] = [1, 2].map(|threads| run(experiment, TINY, threads));
        for form in output::FORMS {
            let text = |report| (form.text)(report).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(
                text(&one),
                text(&two),
                "{}.{} differs by the number of threads",
                experiment.id,
                form.extension
            );
        }
    }
}

#[test]
fn another_seed_is_another_run() {
    let experiment = &EXPERIMENTS[1];
    let figures =
        |seed| experiment.run(&Context::new(seed, TINY, 2, &Silent)).expect("it runs").rows;
    assert_ne!(figures(1), figures(2));
}

#[test]
fn the_files_are_whole_and_agree_with_each_other() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let report = run(&EXPERIMENTS[1], TINY, 2);
    let written =
        output::write(&report, &folder.path().join("deep/down")).expect("the folder can be made");
    let ends: Vec<String> = written
        .iter()
        .map(|path| path.file_name().expect("a file").to_string_lossy().into_owned())
        .collect();
    assert_eq!(ends, ["a.depth.svg", "a.depth.csv", "a.depth.json", "a.depth.html"]);
    let text = |place: usize| fs::read_to_string(&written[place]).expect("it was written");
    assert!(
        text(0).starts_with("<svg ")
            && text(0).trim_end().ends_with("</svg>")
            && text(0).contains("xmlns="),
        "a plot that stands alone"
    );
    assert!(
        text(0).contains("atlas10k") && text(0).contains("nearline-20tb"),
        "a panel for each drive"
    );

    let json: Value = serde_json::from_str(&text(2)).expect("it is JSON");
    let rows = json["rows"].as_array().expect("an array");
    let csv = text(1);
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(
        (lines.len(), lines[0]),
        (
            rows.len() + 1,
            "id,seed,what,published,measured,low,high,unit,verdict,holds,tolerance,reason"
        )
    );
    for (line, row) in lines[1..].iter().zip(rows) {
        assert!(line.contains(&format!(",{},", row["measured"])), "{line} and {row} disagree");
    }

    let html = text(3);
    for expected in [
        "Held fixed",
        "headtime papers a.depth --seed 7 --scale 0.002",
        env!("CARGO_PKG_VERSION"),
        "seed 7",
        "95 %",
        "<svg role=\"img\"",
        "±",
    ] {
        assert!(html.contains(expected), "the page does not say {expected}");
    }
    for outside in ["http", "src=", "href=", "@import", "url("] {
        assert!(!html.contains(outside), "the page fetches something: {outside}");
    }
}

/// A hundredth of the full scale: the obvious orders must come out.
#[test]
fn the_orders_stand_as_they_should_in_a_small_throughput_table() {
    let report = run(&EXPERIMENTS[0], 0.01, 2);
    for drive in ["atlas10k", "nearline-20tb"] {
        for queue in [16, 64, 256] {
            let iops = |name: &str| {
                let start = format!("{drive}, queue {queue}: {name}");
                let row = report
                    .rows
                    .iter()
                    .find(|row| row.what.starts_with(&start))
                    .unwrap_or_else(|| panic!("no row `{start}`"));
                row.measured.unwrap_or_else(|| panic!("{start} was not run"))
            };
            let order =
                ["FCFS, two", "C-LOOK, two", "SPTF exact, two (oracle)", "planner: beam"].map(iops);
            assert!(
                order[0] < order[1] && order[1] < order[2],
                "{drive} at queue {queue}: {order:?}"
            );
            // A tenth of the requests: the planner wins by less than its interval here.
            assert!(order[3] > 0.9 * order[2], "{drive} at queue {queue}: {order:?}");
            let firmware = iops("everything in the drive's queue");
            assert!(
                (firmware / order[2] - 1.0).abs() < 0.05,
                "{drive} at queue {queue}: {firmware} and {order:?}"
            );
        }
    }
    let inserted = report.rows.iter().filter(|row| row.what.contains("nearest insertion"));
    assert!(
        inserted.clone().count() == 12
            && inserted.clone().all(|row| row.measured.is_some() && row.verdict.is_some())
    );
}

#[test]
fn the_page_of_experiments_lists_the_table() {
    let path: PathBuf =
        [env!("CARGO_MANIFEST_DIR"), "..", "..", "docs", "papers.md"].iter().collect();
    let page =
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let expected: Vec<String> = EXPERIMENTS
        .iter()
        .map(|PaperExperiment { id, title, source, takes, .. }| {
            format!("| `{id}` | {title} | {source} | {takes} |")
        })
        .collect();
    assert_eq!(rows, expected, "the table in docs/papers.md should be\n{}\n", expected.join("\n"));
}

/// The text that an experiment quotes, if it is at hand.
fn quoted_text(id: &str) -> Option<String> {
    let limits: PathBuf =
        [env!("CARGO_MANIFEST_DIR"), "..", "..", "docs", "limits.md"].iter().collect();
    let (group, _) = id.split_once('.')?;
    let paper = match group.strip_prefix('p') {
        None => limits,
        Some(number) => {
            let folder = PathBuf::from(std::env::var_os("HEADTIME_PAPERS")?);
            let named = |path: &PathBuf| {
                path.file_name()
                    .is_some_and(|name| name.to_string_lossy().starts_with(&format!("{number}-")))
            };
            fs::read_dir(folder).ok()?.filter_map(|file| Some(file.ok()?.path())).find(named)?
        }
    };
    fs::read_to_string(paper).ok()
}

#[test]
fn published_figures_are_quoted_or_computed_from_quoted_ones() {
    let faults =
        published::faults(published::TABLE, |id| quoted_text(id).filter(|_| id.starts_with("a.")));
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn published_figures_stand_in_the_texts_of_the_papers() {
    let quoted = published::lines(published::TABLE);
    if let Some(line) = quoted.iter().find(|line| quoted_text(line.id).is_none()) {
        eprintln!(
            "skipped: HEADTIME_PAPERS names no folder with the text of the paper of {}",
            line.id
        );
        return;
    }
    let faults = published::faults(published::TABLE, quoted_text);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_planted_figure_is_found() {
    let found = |table: &str| !published::faults(table, quoted_text).is_empty();
    let quote = "by a factor of 1.42 (64 queued) and 1.54 (256) in the prototype";
    assert!(!found(&format!("a.greedy; 1.42, 1.54; {quote}\na.greedy; 0.42; = 1.42 / 1 - 1")));
    for wrong in [
        format!("a.greedy; 1.43; {quote}"),
        format!("a.greedy; 1.43; {}", quote.replace("1.42", "1.43")),
        format!("a.greedy; 1.42; {quote}\na.greedy; 0.43; = 1.42 / 1 - 1"),
        format!("a.greedy; 1.42; {quote}\na.greedy; 0.43; = 1.43 / 1 - 1"),
        format!("a.greedy; 1.42; {quote}\na.greedy; 1.4 to 1.6; = 1.42 / 1"),
    ] {
        assert!(found(&wrong), "{wrong}");
    }
    assert!(!published::lists(published::TABLE, "p1.map", "0.29"));
}
