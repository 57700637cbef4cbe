//! `headtime papers`: experiments that reproduce published figures.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Mutex;
use std::thread;

use crate::papers::{
    Context, EXPERIMENTS, PaperExperiment, Progress, Report, RowVerdict, output, select,
};
use anyhow::{Context as _, anyhow};
use clap::Args;
use headtime_console::progress;
use indicatif::ProgressBar;

use headtime_console::Failure;
use headtime_console::output::{columns, print, print_json};

/// PapersArguments of `headtime papers`.
#[derive(Debug, Args)]
#[command(
    after_help = "Same seed and scale, same bytes, however many threads. Results are written as \
        DIR/ID.svg, .csv, .json and .html."
)]
pub struct PapersArguments {
    /// Experiments: ids, patterns such as 'a.*', or all
    #[arg(value_name = "ID")]
    pub ids: Vec<String>,
    /// List the experiments
    #[arg(long, conflicts_with = "ids")]
    pub list: bool,
    /// Print JSON instead of tables: an object for one id, an array for patterns and several ids
    #[arg(long)]
    pub json: bool,
    /// Seed of drive instances, noise and workloads
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Share of the full number of requests; smaller is faster and less precise
    #[arg(long, value_name = "SHARE", default_value_t = 1.0, value_parser = scale)]
    pub scale: f64,
    /// Number of threads [default: number of processors]
    #[arg(long, value_name = "N")]
    pub threads: Option<NonZeroUsize>,
    /// Directory for the results [default: headtime-papers/ID]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

/// Lists or runs them.
pub fn run(arguments: &PapersArguments) -> Result<(), Failure> {
    if arguments.list {
        return list(arguments.json);
    }
    if arguments.ids.is_empty() {
        return Err(Failure::Usage(anyhow!(
            "name an experiment such as a.depth, a pattern such as 'a.*', or all; --list says what \
                there is"
        )));
    }
    let chosen = select(&arguments.ids).map_err(Failure::usage)?;
    let folder = |experiment: &PaperExperiment| {
        arguments
            .out
            .clone()
            .unwrap_or_else(|| PathBuf::from("headtime-papers").join(experiment.id))
    };
    // Before the long run, not after it.
    for experiment in &chosen {
        output::check_folder(&folder(experiment)).map_err(|error| Failure::Failed(error.into()))?;
    }
    let threads = arguments
        .threads
        .or_else(|| thread::available_parallelism().ok())
        .map_or(1, NonZeroUsize::get);
    let mut reports = Vec::new();
    for experiment in chosen {
        let bar = Bar::new(experiment.id);
        let report = experiment.run(&Context::new(arguments.seed, arguments.scale, threads, &bar));
        bar.end();
        let report = report.with_context(|| format!("experiment {}", experiment.id))?;
        let written = output::write(&report, &folder(experiment))
            .map_err(|error| Failure::Failed(error.into()))?;
        if !arguments.json {
            let files: Vec<String> =
                written.iter().map(|path| path.display().to_string()).collect();
            print(&format!("{}\nwritten: {}\n", table(&report), files.join(", ")))?;
        }
        reports.push(report);
    }
    if !arguments.json {
        return Ok(());
    }
    // A single named experiment gives one object and not an array.
    let one = arguments.ids.len() == 1
        && EXPERIMENTS.iter().any(|experiment| experiment.id == arguments.ids[0]);
    match reports.as_slice() {
        [report] if one => print_json(report),
        reports => print_json(&reports),
    }
}

fn list(json: bool) -> Result<(), Failure> {
    if json {
        return print_json(&EXPERIMENTS.iter().map(|experiment| experiment.id).collect::<Vec<_>>());
    }
    let mut rows =
        vec![["id", "what it is about", "reproduces", "takes about"].map(str::to_string).to_vec()];
    rows.extend(EXPERIMENTS.iter().map(|experiment| {
        [experiment.id, experiment.title, experiment.source, experiment.takes]
            .map(str::to_string)
            .to_vec()
    }));
    print(&columns(&rows, &[false; 4]))
}

/// The report for people: figures in columns, each sentence once below.
fn table(report: &Report) -> String {
    let mut sentences: Vec<&str> = Vec::new();
    let mut rows = vec![
        ["what", "published", "measured", "unit", "verdict", "tolerance", "why"]
            .map(str::to_string)
            .to_vec(),
    ];
    for row in &report.rows {
        let why = row
            .reason
            .as_deref()
            .filter(|_| row.holds() != Some(true))
            .map_or_else(String::new, |reason| mark(reason, &mut sentences));
        // The width beside the row, its reason once below.
        let tolerance = row.tolerance.as_deref().map_or_else(String::new, |tolerance| {
            match tolerance.split_once(" (") {
                Some((width, reason)) => {
                    let number = number(reason.strip_suffix(')').unwrap_or(reason), &mut sentences);
                    format!("{width} [{number}]")
                }
                None => tolerance.to_string(),
            }
        });
        rows.push(vec![
            row.what.clone(),
            row.published.text(),
            row.measured_text(),
            row.unit.to_string(),
            row.verdict_text().to_string(),
            tolerance,
            why,
        ]);
    }
    let mut text = format!(
        "{}: {}\nreproduces {}; seed {}, scale {}\n\n",
        report.id, report.title, report.source, report.seed, report.scale
    );
    text.push_str(&columns(&rows, &[false, true, true, false, false, false, false]));
    text.push('\n');
    for (number, sentence) in sentences.iter().enumerate() {
        text.push_str(&format!("[{}] {sentence}\n", number + 1));
    }
    let count = |verdict| report.rows.iter().filter(|row| row.verdict == verdict).count();
    text.push_str(&format!(
        "\n{} reproduced, {} not reproduced, {} inconclusive, {} have nothing to compare\n",
        count(Some(RowVerdict::Reproduced)),
        count(Some(RowVerdict::NotReproduced)),
        count(Some(RowVerdict::Inconclusive)),
        count(None)
    ));
    for note in &report.notes {
        text.push_str(&format!("- {note}\n"));
    }
    text
}

/// The text of the column *why*: the deviation, if the sentence begins with one, and the number of
/// the sentence, which many rows share.
fn mark<'a>(reason: &'a str, sentences: &mut Vec<&'a str>) -> String {
    let (before, sentence) =
        reason.split_once(": ").map_or(("", reason), |(before, after)| (before, after));
    let off = before.split_once(" off the published").map_or("", |(off, _)| off);
    let number = number(if off.is_empty() { reason } else { sentence }, sentences);
    format!("{off}{}[{number}]", if off.is_empty() { "" } else { " " })
}

/// The number of a sentence that many rows share, from 1.
fn number<'a>(sentence: &'a str, sentences: &mut Vec<&'a str>) -> usize {
    let known = sentences.iter().position(|other| *other == sentence);
    1 + known.unwrap_or_else(|| {
        sentences.push(sentence);
        sentences.len() - 1
    })
}

/// The progress bar of an experiment.
pub(super) struct Bar {
    bar: Option<ProgressBar>,
    expected: Mutex<u64>,
}

impl Bar {
    pub(super) fn new(id: &'static str) -> Self {
        let bar = progress::bar(0, progress::Remaining::Shown).map(|bar| bar.with_prefix(id));
        Self { bar, expected: Mutex::new(0) }
    }

    pub(super) fn end(&self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }
}

impl Progress for Bar {
    fn expect(&self, work: u64) {
        let mut expected = self.expected.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        *expected += work;
        self.bar.iter().for_each(|bar| bar.set_length(*expected));
    }

    fn done(&self, work: u64, point: &str) {
        if let Some(bar) = &self.bar {
            bar.inc(work);
            bar.set_message(point.to_string());
        }
    }
}

/// A share of the requests of a run at full length.
pub(super) fn scale(text: &str) -> Result<f64, String> {
    let fits = |scale: &f64| (0.000_1..=100.0).contains(scale);
    text.parse().ok().filter(fits).ok_or_else(|| {
        "expected a share of the full number of requests, from 0.0001 to 100, such as 0.1"
            .to_string()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_that_many_rows_share_is_written_once() {
        let mut sentences = Vec::new();
        let marks = [
            "-5.9 % off the published value, 5 % allowed: another arm.",
            "+9.0 % off the published value, 5 % allowed: another arm.",
            "Not built.",
        ]
        .map(|reason| mark(reason, &mut sentences));
        assert_eq!(marks, ["-5.9 % [1]", "+9.0 % [1]", "[2]"]);
        assert_eq!(sentences, ["another arm.", "Not built."]);
    }

    #[test]
    fn a_scale_is_a_share_that_makes_sense() {
        assert_eq!(scale("0.1"), Ok(0.1));
        for text in ["0", "-1", "NaN", "1000", "much"] {
            assert!(scale(text).is_err_and(|message| message.contains("such as 0.1")), "{text}");
        }
    }
}
