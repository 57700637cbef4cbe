//! `headtime demo`: the same load on an emulated drive under several policies, seen live and
//! compared in a report.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, anyhow, bail};
use clap::{Args, ValueEnum};

use crate::demo::{DEFAULT_POLICIES, DemoPolicy, Plan, session};
use crate::load::Generator;
use crate::report::{self, DemoReport, Written};
use headtime_console::figures::{show_bytes, show_ms, show_percent};
use headtime_console::logs::{self, Level};
use headtime_console::output::{columns, print, print_json};
use headtime_console::stop::Stop;
use headtime_console::view::Viewer;
use headtime_console::{Failure, drive_model};

/// Arguments of `headtime demo`.
#[derive(Debug, Args)]
#[command(
    after_help = "A drive is emulated in real time, its bytes in sparse files that are removed \
        afterwards. It is served over NBD as three volumes: a \
                        recorder with a deadline, a random database, a sequential backup. fio \
                        loads them, or the built-in generator where fio is missing."
)]
pub struct DemoArguments {
    /// Seconds of load under each policy
    #[arg(long, value_name = "N", default_value_t = 30.0, value_parser = seconds)]
    pub seconds: f64,
    /// Policies to compare, in the order they run; NAME+shares reserves disk time for the recorder
    /// and the database; a policy with parameters, as in `headtime sim`, ends with `;`
    #[arg(long, value_name = "NAME,…", default_value = DEFAULT_POLICIES)]
    pub policies: String,
    /// Directory for report.html and report.json, and meanwhile for the drive's bytes
    #[arg(long, value_name = "FOLDER", default_value = "target/demo")]
    pub out: PathBuf,
    /// Drive: a profile's name, NAME@SETUP, or the path of a profile file
    #[arg(long, value_name = "PROFILE", default_value = "nearline-20tb")]
    pub drive: String,
    /// Seed of the emulated instance, the same for each policy, and of the load
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Load generator
    #[arg(long, value_enum, default_value_t = GeneratorChoice::Auto)]
    pub load: GeneratorChoice,
    /// Address of the live web page, or off
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9465")]
    pub web: String,
    /// Print lines instead of the live view, also on a terminal
    #[arg(long)]
    pub plain: bool,
    /// Print the figures of the report as JSON; lines go to standard error meanwhile
    #[arg(long)]
    pub json: bool,
}

/// The generator of the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GeneratorChoice {
    /// Use fio if it is installed with its nbd engine, otherwise the built-in generator
    Auto,
    /// Use fio or fail
    Fio,
    /// Use the built-in generator
    BuiltIn,
}

/// Runs the demo.
pub fn run(arguments: &DemoArguments) -> Result<(), Failure> {
    let policies = policies(&arguments.policies)?;
    let profile = drive_model::load(&arguments.drive)?;
    let plan = Plan::new(&arguments.drive, &profile, arguments.seed).map_err(Failure::usage)?;
    let generator = generator(arguments.load)?;
    let web = (arguments.web != "off").then(|| arguments.web.clone());
    std::fs::create_dir_all(&arguments.out).with_context(|| {
        format!("cannot make the folder {}; choose another with --out", arguments.out.display())
    })?;
    let room = check_room(&arguments.out, plan.bytes_written(arguments.seconds))?;
    let stop = Stop::on_signals()?;
    let mut viewer = match (arguments.json, arguments.plain) {
        (true, _) => Viewer::LinesAside,
        (false, true) => Viewer::Lines,
        (false, false) => Viewer::for_stdout()?,
    };
    logs::start(if matches!(viewer, Viewer::Screen(_)) { Level::Off } else { Level::Warn });
    viewer.say(&introduction(&plan, &policies, &generator, arguments, room));
    let environment = DemoEnvironment { generator: &generator, web, stop: &stop };
    let report = measure(arguments, &plan, &policies, &environment, &mut viewer);
    // The terminal is given back before anything else is printed.
    drop(viewer);
    let report = report?;
    let written = report::write(&report, &arguments.out)?;
    if arguments.json {
        print_json(&report)?
    } else {
        print(&closing(&report, &written))?
    }
    if report.runs.iter().any(|run| run.volumes.iter().all(|volume| volume.totals.requests == 0)) {
        return Err(Failure::Failed(anyhow!(
            "nothing was served under at least one policy; see {}",
            written.json.display()
        )));
    }
    Ok(())
}

/// The environment that all runs share.
struct DemoEnvironment<'a> {
    generator: &'a Generator,
    /// The address of the web page.
    web: Option<String>,
    stop: &'a Stop,
}

fn measure(
    arguments: &DemoArguments,
    plan: &Plan,
    policies: &[DemoPolicy],
    environment: &DemoEnvironment<'_>,
    viewer: &mut Viewer,
) -> Result<DemoReport, Failure> {
    let DemoEnvironment { generator, web, stop } = environment;
    let mut report = DemoReport {
        version: env!("CARGO_PKG_VERSION").to_string(),
        drive: plan.drive.clone(),
        drive_summary: plan.drive_summary.clone(),
        seed: plan.seed,
        seconds_per_policy: arguments.seconds,
        load: generator.source(),
        volumes: plan.volumes(&[]),
        runs: Vec::new(),
        machine: machine(),
        ended_unix_seconds: 0,
        interrupted: false,
    };
    for (index, policy) in policies.iter().enumerate() {
        if stop.is_raised() {
            break;
        }
        // A folder for each turn, removed with all that is in it, also when the turn fails.
        let folder = tempfile::Builder::new().prefix("drive-").tempdir_in(&arguments.out);
        let folder = folder.with_context(|| {
            format!(
                "cannot make a folder in {}; choose another with --out",
                arguments.out.display()
            )
        })?;
        // An absolute path: fio works in the folder and would look for a relative one there.
        let path = folder
            .path()
            .canonicalize()
            .with_context(|| format!("{} cannot be found", folder.path().display()))?;
        let around = session::Surroundings {
            generator,
            duration: Duration::from_secs_f64(arguments.seconds),
            folder: &path,
            web: web.as_deref(),
            stop,
            turn: format!("{} of {}: {}", index + 1, policies.len(), policy.text),
        };
        viewer.say(&format!("policy {}", around.turn));
        let session = session::run(plan, policy, &around, viewer)
            .with_context(|| format!("the demo under policy {} failed", policy.text))?;
        report.volumes = plan.volumes(&session.starts);
        report.runs.push(session.run);
    }
    if report.runs.is_empty() {
        return Err(Failure::Failed(anyhow!("stopped before anything was measured")));
    }
    report.interrupted = stop.is_raised();
    report.ended_unix_seconds =
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    Ok(report)
}

/// Policies from `a,b` or, where one has several parameters, `a:x=1,y=2;b`.
fn policies(text: &str) -> Result<Vec<DemoPolicy>, Failure> {
    let separator = if text.contains(';') { ';' } else { ',' };
    text.split(separator)
        .map(str::trim)
        .filter(|name| !name.is_empty())
        .map(|text| DemoPolicy::parse(text).map_err(Failure::usage))
        .collect::<Result<Vec<_>, _>>()
        .and_then(|policies| {
            if policies.is_empty() {
                Err(Failure::Usage(anyhow!(
                    "--policies names no policy; write such as {DEFAULT_POLICIES}"
                )))
            } else {
                Ok(policies)
            }
        })
}

fn generator(load: GeneratorChoice) -> Result<Generator, Failure> {
    match (load, Generator::find()) {
        (GeneratorChoice::BuiltIn, _) => {
            Ok(Generator::BuiltIn { reason: "it was requested".to_string() })
        }
        (GeneratorChoice::Fio, Generator::BuiltIn { reason }) => Err(Failure::Failed(anyhow!(
            "fio cannot make the load: {reason}; leave --load out to do without"
        ))),
        (_, found) => Ok(found),
    }
}

/// Free bytes in `folder`.
fn check_room(folder: &Path, needed: u64) -> anyhow::Result<u64> {
    let system = rustix::fs::statvfs(folder)
        .with_context(|| format!("cannot ask for the free space in {}", folder.display()))?;
    let (free, required) =
        (system.f_bavail.saturating_mul(system.f_frsize), needed + needed / 4 + (64 << 20));
    if free < required {
        bail!(
            "{} has {} free, and the demo may write {} for a while; free some, choose another \
                folder with --out, or less with --seconds",
            folder.display(),
            show_bytes(free),
            show_bytes(required)
        );
    }
    Ok(free)
}

fn introduction(
    plan: &Plan,
    policies: &[DemoPolicy],
    generator: &Generator,
    arguments: &DemoArguments,
    room: u64,
) -> String {
    let source = generator.source();
    let mut text = format!(
        "{} ({}), emulated in real time, seed {}\n",
        plan.drive, plan.drive_summary, plan.seed
    );
    for load in &plan.loads {
        let deadline = load.deadline.map_or_else(String::new, |deadline| {
            format!(", deadline {} ms", show_ms(deadline.as_ms_f64()))
        });
        text.push_str(&format!("  {}: {}{deadline}\n", load.volume, load.describe()));
    }
    text.push_str(&format!(
        "loaded by {} {} for {} s under each of {} policies",
        source.name,
        source.version,
        arguments.seconds,
        policies.len()
    ));
    if let Some(reason) = source.reason {
        text.push_str(&format!(" ({reason})"));
    }
    let needed = plan.bytes_written(arguments.seconds);
    text.push_str(&format!(
        "\nup to {} of {} free in {} are used meanwhile",
        show_bytes(needed),
        show_bytes(room),
        arguments.out.display()
    ));
    text
}

/// The summary on the terminal, and where the rest is.
fn closing(report: &DemoReport, written: &Written) -> String {
    let mut rows = vec![
        [
            "volume",
            "policy",
            "missed",
            "MiB/s",
            "IOPS",
            "p50 ms",
            "p99 ms",
            "max ms",
            "waiting",
            "disk time",
        ]
        .map(str::to_string)
        .to_vec(),
    ];
    for (index, plan) in report.volumes.iter().enumerate() {
        for run in &report.runs {
            let Some(volume) = run.volumes.get(index) else { continue };
            let totals = &volume.totals;
            rows.push(vec![
                plan.name.clone(),
                run.policy.clone(),
                totals.miss_share().map_or_else(|| "–".to_string(), show_percent),
                format!("{:.1}", totals.mib_per_second),
                format!("{:.1}", totals.iops),
                show_ms(totals.response_ms.p50),
                show_ms(totals.response_ms.p99),
                show_ms(totals.response_ms.max),
                totals.unanswered.to_string(),
                show_percent(totals.disk_time_share),
            ]);
        }
    }
    let mut text = format!(
        "\n{}\n",
        columns(&rows, &[false, false, true, true, true, true, true, true, true, true])
    );
    if report.interrupted {
        text.push_str("interrupted: the last run is shorter than requested\n");
    }
    if let Some(reason) = &report.load.reason {
        text.push_str(&format!("loaded by {}: {reason}\n", report.load.name));
    }
    for warning in report.warnings() {
        text.push_str(&format!("{warning}\n"));
    }
    text.push_str(&format!(
        "report: {}\nnumbers: {}\n",
        written.html.display(),
        written.json.display()
    ));
    text
}

fn machine() -> String {
    let system = rustix::system::uname();
    let processors = std::thread::available_parallelism()
        .map_or_else(|_| "?".to_string(), |count| count.to_string());
    format!(
        "{} {}, {}, {processors} processors",
        system.sysname().to_string_lossy(),
        system.release().to_string_lossy(),
        system.machine().to_string_lossy()
    )
}

fn seconds(text: &str) -> Result<f64, String> {
    let fits = |seconds: &f64| (0.5..=86_400.0).contains(seconds);
    text.parse()
        .ok()
        .filter(fits)
        .ok_or_else(|| "expected a number of seconds from 0.5 to 86400".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_room_is_refused_with_what_would_help() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        assert!(check_room(folder.path(), 0).is_ok_and(|free| free > 0));
        let message = check_room(folder.path(), u64::MAX / 8)
            .expect_err("no file system is that large")
            .to_string();
        assert!(
            message.contains("free") && message.contains("--out") && message.contains("--seconds"),
            "{message}"
        );
    }

    #[test]
    fn policies_with_several_parameters_are_parted_by_semicolons() {
        let names = |text: &str| {
            policies(text)
                .map(|policies| policies.into_iter().map(|policy| policy.text).collect::<Vec<_>>())
                .map_err(|failure| failure.message())
        };
        assert_eq!(names("fcfs, edf"), Ok(vec!["fcfs".to_string(), "edf".to_string()]));
        let two = "sptf-expected:ageing_power=3,two_from_requests=4";
        assert_eq!(names(&format!("fcfs;{two}")), Ok(vec!["fcfs".to_string(), two.to_string()]));
        assert!(names("").is_err_and(|message| message.contains("such as fcfs")));
    }
}
