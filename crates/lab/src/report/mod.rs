//! The report of a demo: the loads, and the service of each volume under each policy.
//!
//! [`DemoReport`] holds all numbers. `report.json` is its JSON, and `report.html` shows nothing
//! else. The page is one file with inline SVG, which can be mailed, archived and read without a
//! network.

mod html;
pub(crate) mod page;
pub(crate) mod plots;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use headtime_io::files::{Existing, write_atomically};
use serde::Serialize;

pub use html::page;

use headtime_console::figures::{
    BeliefFigures, DiskTimeShares, LatenessFigures, Times, VolumeSample, VolumeTotals,
};
use headtime_console::monitor::Heat;

/// Everything that one demo measured.
#[derive(Clone, Debug, Serialize)]
pub struct DemoReport {
    /// The version of the program.
    pub version: String,
    /// The profile of the emulated drive.
    pub drive: String,
    /// A one-line description of the drive.
    pub drive_summary: String,
    /// The seed the emulated drive's truth was drawn from, the same for each policy.
    pub seed: u64,
    /// Requested seconds of load per policy.
    pub seconds_per_policy: f64,
    /// The load generator.
    pub load: LoadSource,
    /// The volumes and their loads.
    pub volumes: Vec<VolumePlan>,
    /// One entry per policy, in the order they ran.
    pub runs: Vec<PolicyRun>,
    /// The machine the demo ran on.
    pub machine: String,
    /// The end of the demo, in seconds since 1970 (UTC).
    pub ended_unix_seconds: u64,
    /// True if the demo was interrupted, so that the last run is shorter.
    pub interrupted: bool,
}

/// The load generator.
#[derive(Clone, Debug, Serialize)]
pub struct LoadSource {
    /// `fio` or `built-in`.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The reason for not using fio; `None` for fio.
    pub reason: Option<String>,
}

/// One volume of the demo and the load on it.
#[derive(Clone, Debug, Serialize)]
pub struct VolumePlan {
    /// Its name.
    pub name: String,
    /// The purpose of the load in one line.
    pub load: String,
    /// Its size in bytes.
    pub size_bytes: u64,
    /// The start on the drive in bytes; `None` if the server does not report it.
    pub start_bytes: Option<u64>,
    /// The deadline of each of its requests, if it has one.
    pub deadline_ms: Option<f64>,
    /// The share of disk time that it reserves in runs with shares, 0 to 1.
    pub reserve: f64,
}

/// The demo under one policy.
#[derive(Clone, Debug, Serialize)]
pub struct PolicyRun {
    /// The policy with its settings.
    pub policy: String,
    /// The summary from the table of policies.
    pub summary: String,
    /// The maximum number of commands at the drive; `None` leaves it to the policy.
    pub outstanding_limit: Option<usize>,
    /// Commands at the drive, the mean over the run's seconds.
    pub outstanding_mean: f64,
    /// Seconds from the first to the last moment measured.
    pub seconds: f64,
    /// Share of the time in which the drive had something to do.
    pub utilization: f64,
    /// The shares of the emulated drive's time.
    pub disk_time: Option<DiskTimeShares>,
    /// The lateness of the emulation.
    pub lateness: Option<LatenessFigures>,
    /// The errors of the drive model.
    pub belief: Option<BeliefFigures>,
    /// The volumes, in the order of [`DemoReport::volumes`].
    pub volumes: Vec<VolumeRun>,
}

/// One volume under one policy.
#[derive(Clone, Debug, Serialize)]
pub struct VolumeRun {
    /// Its name.
    pub name: String,
    /// The figures measured at the server.
    pub totals: VolumeTotals,
    /// The figures measured by the client, if it measures.
    pub client: Option<ClientFigures>,
    /// The figures of each second.
    pub samples: Vec<VolumeSample>,
    /// The response times of each second: the number of each bin of an eighth of a decade, from
    /// 100 µs up, and the count.
    pub heat: Vec<Heat>,
    /// Distribution of response times: pairs of milliseconds and the share of requests that took no
    /// longer, both rising.
    pub response_cdf: Vec<(f64, f64)>,
}

/// One volume's run as its client measured it. Includes the way through the socket, which the
/// server does not see.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct ClientFigures {
    /// Requests completed.
    pub requests: u64,
    /// Requests completed per second.
    pub iops: f64,
    /// Throughput.
    pub mib_per_second: f64,
    /// Response times.
    pub response_ms: Times,
    /// Requests that ended in an error.
    pub errors: u64,
}

impl DemoReport {
    /// Warnings about the figures, each a sentence without its full stop.
    pub fn warnings(&self) -> Vec<String> {
        let late = self
            .runs
            .iter()
            .filter_map(|run| Some((run, run.lateness.filter(|late| late.p99_us > TOO_LATE_US)?)));
        let busy = late.map(|(run, late)| {
            format!(
                "The machine was busy under {}: one in a hundred completions came {:.1} ms or more \
                    after the emulated drive had it ready, which the \
                 scheduler takes for the drive's own doing",
                run.policy,
                late.p99_us / 1e3
            )
        });
        busy.collect()
    }
}

/// The lateness from which on the drive model is disturbed: a tenth of a revolution and more.
const TOO_LATE_US: f64 = 1_000.0;

/// The files of a written report.
#[derive(Clone, Debug)]
pub struct Written {
    /// The page.
    pub html: PathBuf,
    /// The numbers.
    pub json: PathBuf,
}

/// Writes `report.html` and `report.json` into `folder`, which is created if it is missing. A file
/// there is replaced as a whole.
///
/// # Errors
/// The folder cannot be made or a file cannot be written.
pub fn write(report: &DemoReport, folder: &Path) -> anyhow::Result<Written> {
    std::fs::create_dir_all(folder).with_context(|| {
        format!("cannot make the folder {}; choose another with --out", folder.display())
    })?;
    let written = Written { html: folder.join("report.html"), json: folder.join("report.json") };
    let mut json = serde_json::to_string_pretty(report)
        .context("the report's numbers cannot be written as JSON")?;
    json.push('\n');
    for (path, text) in [(&written.json, json), (&written.html, page(report))] {
        write_atomically(path, Existing::Replace, |mut file| file.write_all(text.as_bytes()))
            .with_context(|| {
                format!("cannot write {}; choose another folder with --out", path.display())
            })?;
    }
    Ok(written)
}
