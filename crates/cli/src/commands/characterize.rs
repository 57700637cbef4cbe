//! `headtime characterize`: measures a drive from outside by timed reads, or has a server do so
//! beside its clients (module `beside`).

mod beside;

use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context as _, anyhow};
use clap::{Args, ValueEnum};
use headtime_io::characterize::{
    Ended, ProbedDrive, RunCounts, State, SubjectError, SubjectOptions,
};
use headtime_io::files::{Existing, directory_of, write_atomically};
use headtime_io::{CommandTimeout, KernelKnobs, Locator, LocatorError, RawOptions};
use headtime_mechanics::DriveProfile;
use headtime_probe::{Finding, Probe, ProbeSettings, Verdict};
use headtime_units::Nanos;

use crate::characterize::{
    CharacterizeOutput, CharacterizeReport, Cost, StageProgress, annotated, characterize, text,
};
use crate::commands::control::ServerChoice;
use headtime_console::Failure;
use headtime_console::logs::{self, Level};
use headtime_console::output::{print, print_json};
use headtime_console::stop::Stop;

/// Arguments of `headtime characterize`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub struct Arguments {
    /// Drive: a block device, an NBD URI, emulated:PROFILE?backing=FILE, simulated:PROFILE, or a
    /// file; with --beside, the drive of the server
    #[arg(value_name = "DRIVE", value_parser = locator, required_unless_present = "beside")]
    pub subject: Option<Locator>,
    /// File for the profile [default: characterized.toml; with --beside: none]
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Have the running server of the drive characterize it beside its clients
    #[arg(
        long,
        value_enum,
        value_name = "ACTION",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "start"
    )]
    pub beside: Option<BesideAction>,
    /// Server to address with --beside
    #[command(flatten)]
    pub server: ServerChoice,
    /// With --beside: write the profile only, and keep the drive model in use
    #[arg(long, requires = "beside")]
    pub keep_model: bool,
    /// With --beside: maximum increase of the clients' mean response time by all background work
    /// while it runs, such as 1% [default: that of the drive]
    #[arg(long, value_name = "SHARE", requires = "beside")]
    pub max_impact: Option<String>,
    /// HTML page to write: zones, rate, skews, seek curve, slips and accuracy as pictures
    #[cfg(feature = "lab")]
    #[arg(long, value_name = "FILE", conflicts_with = "beside")]
    pub report: Option<PathBuf>,
    /// Maximum drive time in seconds [default: 300 up to 20 GB, up to 1200 for larger drives]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    pub seconds: Option<u32>,
    /// Continue an interrupted run from its state file [default: beside the profile]
    #[arg(long, value_name = "STATE", num_args = 0..=1)]
    pub resume: Option<Option<PathBuf>>,
    /// Replace an existing profile and discard the state of an interrupted run
    #[arg(long)]
    pub force: bool,
    /// Name of the profile [default: the file's name without its extension]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Run an emulated drive in virtual time: the same drive without the waiting; a simulated drive
    /// always does
    #[arg(long = "virtual", conflicts_with = "beside")]
    pub in_virtual_time: bool,
    /// Measure a device that is mounted or otherwise in use; reads do no harm, but other users
    /// disturb the times
    #[arg(long, conflicts_with = "beside")]
    pub in_use: bool,
    /// Rewrite sectors with the bytes they hold to measure write times; prompts before it begins
    #[arg(long, conflicts_with = "beside")]
    pub allow_writes: bool,
    /// Answer yes to the prompt of --allow-writes
    #[arg(long, requires = "allow_writes")]
    pub yes: bool,
    /// Seed of the random choice of sectors
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Time after which an unanswered read fails, or never
    #[arg(long, value_name = "TIME", default_value = "30s")]
    pub command_timeout: CommandTimeout,
    /// For an unused block device: turn the kernel's own scheduling off meanwhile (set) or leave it
    /// (keep)
    #[arg(long, value_name = "set|keep", default_value = "set")]
    pub kernel_knobs: KernelKnobs,
    /// Print one JSON object instead of a table, and show no progress
    #[arg(long)]
    pub json: bool,
    /// Log level on standard error
    #[arg(long, value_enum, default_value_t = Level::Warn)]
    pub log: Level,
}

/// The actions on a characterization beside clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BesideAction {
    /// Start it
    Start,
    /// Stop its reads until it is resumed
    Pause,
    /// Continue a paused or failed one
    Resume,
    /// End it and remove its state
    Cancel,
    /// Show its progress or result
    Status,
}

impl Arguments {
    fn out(&self) -> &Path {
        self.out.as_deref().unwrap_or(Path::new("characterized.toml"))
    }

    fn existing(&self) -> Existing {
        if self.force { Existing::Replace } else { Existing::Keep }
    }
}

/// The files to write.
fn outputs(arguments: &Arguments) -> impl Iterator<Item = &Path> {
    #[cfg(feature = "lab")]
    let page = arguments.report.as_deref();
    #[cfg(not(feature = "lab"))]
    let page = None;
    [Some(arguments.out()), page].into_iter().flatten()
}

fn locator(text: &str) -> Result<Locator, LocatorError> {
    Locator::parse(text)
}

/// Characterizes, prints what was found, writes the profile.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    logs::start(arguments.log);
    if let Some(action) = arguments.beside {
        return beside::run(arguments, action);
    }
    let drive = arguments.subject.as_ref().filter(|_| !arguments.server.is_named());
    let drive = drive.ok_or_else(|| {
        Failure::Usage(anyhow!(
            "--control, --drive and --config name a server; add --beside, or name the drive alone"
        ))
    })?;
    let name = name(arguments)?;
    if let Some(there) = outputs(arguments).find(|path| path.exists() && !arguments.force) {
        return Err(Failure::Usage(anyhow!(
            "{} exists; choose another file, or add --force to replace it",
            there.display()
        )));
    }
    let options = SubjectOptions {
        virtual_time: arguments.in_virtual_time,
        in_use: arguments.in_use,
        allow_writes: arguments.allow_writes,
        command_timeout: arguments.command_timeout,
        raw: RawOptions { kernel_knobs: arguments.kernel_knobs, ..RawOptions::default() },
        ..SubjectOptions::default()
    };
    let subject = ProbedDrive::open(drive, &options).map_err(open_failure)?;
    for notice in subject.notices() {
        headtime_console::note!("headtime: {notice}");
    }
    let mut settings = subject.settings(arguments.seed);
    if let Some(seconds) = arguments.seconds {
        settings.budget = Nanos::from_secs(u64::from(seconds));
    }
    let drive = subject.identity().to_string();
    let state = State::new(state_path(arguments), subject.identity().clone());
    let probe = begin(arguments, &state, settings)?;
    let bound = probe.settings().budget;
    if arguments.allow_writes {
        consent(arguments, &drive)?;
    }
    let stop = Stop::on_signals()?;
    // What cannot be kept in the end is found out before the drive works for it.
    outputs(arguments).try_for_each(try_out)?;
    state.write(&probe).map_err(|error| {
        Failure::Failed(
            anyhow!(error).context(
                "the characterization was not started, because its state could not be saved",
            ),
        )
    })?;

    let began = Instant::now();
    let mut showing = StageProgress::new(arguments.json);
    let report = characterize(subject, probe, &state, &mut showing, &stop)?;
    let wall_seconds = began.elapsed().as_secs_f64();
    let path = state.path().display();
    let kept = match &report.unsaved {
        None => {
            format!("the state is saved in {path}; the same command with --resume continues")
        }
        Some(error) => format!("what was found since the last saving is lost: {error}"),
    };
    let (finding, counts) = ended(report, &kept)?;
    let cost = Cost::of(&finding, &counts, bound, wall_seconds);
    let profile = finding.profile.clone().map(|profile| DriveProfile {
        name,
        model: drive.clone(),
        ..profile
    });
    if let Some(profile) = &profile {
        let toml = annotated(profile, &finding, &drive);
        if let Err(error) = write_profile(arguments, profile, &toml) {
            // Minutes of a drive's time are worth more than tidiness.
            print(&toml)?;
            return Err(Failure::Failed(
                error.context(format!("the profile is printed instead; {kept}")),
            ));
        }
    }
    // From here on the state has nothing that the profile has not.
    if let Err(error) = state.remove() {
        headtime_console::note!("headtime: {error}; it is of no use any more");
    }
    let out = profile.as_ref().map(|_| arguments.out().display().to_string());
    let answer = CharacterizeOutput::of(&drive, &finding, profile.as_ref(), out, cost);
    if arguments.json {
        print_json(&answer)?
    } else {
        print(&text(&answer))?
    }
    #[cfg(feature = "lab")]
    if let Some((page, profile)) = arguments.report.as_deref().zip(profile.as_ref()) {
        write_page(page, profile, &text(&answer), arguments.existing())?;
    }
    let verdict = finding.verdict.sentence();
    let more_time = more_time(&finding, bound);
    match &finding.verdict {
        Verdict::Characterized { .. } => Ok(()),
        _ if profile.is_none() => {
            Err(Failure::NotFound(anyhow!("there is no profile: {verdict}{more_time}")))
        }
        _ => Err(Failure::NotFound(anyhow!("{verdict}{more_time}"))),
    }
}

/// Writes the page of a profile.
#[cfg(feature = "lab")]
fn write_page(
    page: &Path,
    profile: &DriveProfile,
    summary: &str,
    existing: Existing,
) -> anyhow::Result<()> {
    let html = headtime_lab::profile_page::profile_page(profile, summary)?;
    write_atomically(page, existing, |mut file| file.write_all(html.as_bytes())).with_context(
        || format!("the profile is written, but its page {} cannot be", page.display()),
    )
}

/// A hint for runs that ran out of time, which may be the cause.
fn more_time(finding: &Finding, bound: Nanos) -> String {
    let cut: Vec<&str> = finding
        .remarks
        .iter()
        .filter_map(|remark| remark.split_once(": cut short"))
        .map(|(stage, _)| stage)
        .collect();
    // The check is as long as there is time for it.
    if cut.iter().all(|stage| *stage == "self-check") {
        return String::new();
    }
    let seconds = (2 * bound.as_ns() / 1_000_000_000).min(86_400);
    format!(
        "\nheadtime: the time was too short for {}, which may be the reason; run it again with \
            --seconds {seconds}",
        cut.join(", ")
    )
}

/// The findings, if the drive stayed connected to the end.
fn ended(report: CharacterizeReport, kept: &str) -> Result<(Finding, RunCounts), Failure> {
    let counts = match report.ended {
        Err(error) => return Err(Failure::Failed(anyhow!("{error}; {kept}"))),
        Ok((Ended::Stopped, _)) => {
            let percent = report.probe.progress() * 100.0;
            return Err(Failure::Interrupted(anyhow!(
                "stopped after {percent:.0} % of its drive time; {kept}"
            )));
        }
        Ok((Ended::Done, counts)) => counts,
    };
    let finding = report.probe.finding();
    let sentence = finding.verdict.sentence();
    let said = counts
        .last_error
        .as_ref()
        .map_or_else(String::new, |said| format!(" (the drive reported: {said})"));
    match &finding.verdict {
        Verdict::Gone { .. } => Err(Failure::Failed(anyhow!("{sentence}{said}; {kept}"))),
        Verdict::Replaced { .. } => Err(Failure::Failed(anyhow!(
            "{sentence}; reconnect that drive and add --resume, or start again with --force"
        ))),
        _ => Ok((finding, counts)),
    }
}

/// The state: beside the profile unless named.
fn state_path(arguments: &Arguments) -> PathBuf {
    match &arguments.resume {
        Some(Some(named)) => named.clone(),
        _ => {
            let mut name = arguments.out().as_os_str().to_owned();
            name.push(".state");
            PathBuf::from(name)
        }
    }
}

/// A new characterization, or the one that was interrupted.
fn begin(arguments: &Arguments, state: &State, settings: ProbeSettings) -> Result<Probe, Failure> {
    let path = state.path().display();
    if arguments.resume.is_none() {
        if state.path().exists() && !arguments.force {
            return Err(Failure::Usage(anyhow!(
                "{path} exists: the state of an interrupted run; continue it with --resume, or \
                    discard it with --force"
            )));
        }
        return Ok(Probe::new(settings));
    }
    let resumed = state.read().map_err(Failure::usage)?;
    let resumed = resumed.ok_or_else(|| {
        Failure::Usage(anyhow!(
            "{path} does not exist, so no run can be resumed; leave --resume out"
        ))
    })?;
    let before = resumed.settings();
    if before.allow_writes != settings.allow_writes {
        let word = if before.allow_writes { "with" } else { "without" };
        return Err(Failure::Usage(anyhow!(
            "{path} is the state of a run {word} --allow-writes; continue it the same way, or \
                start from the beginning with --force"
        )));
    }
    if arguments.seconds.is_some() && before.budget != settings.budget {
        headtime_console::note!(
            "headtime: --seconds has no effect on a resumed run: its limit stays {}",
            before.budget
        );
    }
    Ok(resumed)
}

/// The name of the profile.
fn name(arguments: &Arguments) -> Result<String, Failure> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-._".contains(c);
    match &arguments.name {
        Some(name) if !name.is_empty() && name.chars().all(allowed) => Ok(name.clone()),
        Some(name) => Err(Failure::Usage(anyhow!(
            "--name {name}: expected lower-case letters, digits, `-`, `.` and `_`; choose another \
                name"
        ))),
        None => {
            let stem =
                arguments.out().file_stem().unwrap_or_default().to_string_lossy().to_lowercase();
            let name: String = stem.chars().map(|c| if allowed(c) { c } else { '-' }).collect();
            Ok(if name.is_empty() { "characterized".to_owned() } else { name })
        }
    }
}

/// Explains the risk of rewriting and asks for consent.
fn consent(arguments: &Arguments, drive: &str) -> Result<(), Failure> {
    headtime_console::note!(
        "headtime: --allow-writes reads single sectors of {drive} and writes the same bytes back. \
            Their content stays the same unless another program writes to the drive at the same \
            time. A sector that is being written during a power cut may be unreadable afterwards."
    );
    if arguments.yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        return Err(Failure::Usage(anyhow!(
            "--allow-writes needs a confirmation, but standard input is not a terminal; add --yes, \
                or leave --allow-writes out"
        )));
    }
    headtime_console::output::prompt("Type yes to continue: ");
    std::io::stderr().flush().context("standard error cannot be written")?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).context("the answer cannot be read")?;
    if answer.trim() == "yes" {
        Ok(())
    } else {
        Err(Failure::Usage(anyhow!("not confirmed; nothing was changed")))
    }
}

/// Checks that a file can be created beside `out`.
fn try_out(out: &Path) -> Result<(), Failure> {
    if out.is_dir() {
        return Err(Failure::Usage(anyhow!(
            "{} is a directory; expected the name of a file",
            out.display()
        )));
    }
    let folder = directory_of(out);
    let tried = tempfile::Builder::new().tempfile_in(folder).with_context(|| {
        format!("cannot write in {}; the characterization was not started", folder.display())
    })?;
    drop(tried);
    Ok(())
}

/// Writes the profile atomically, after checking that it can be read back.
fn write_profile(arguments: &Arguments, profile: &DriveProfile, toml: &str) -> anyhow::Result<()> {
    let again = DriveProfile::from_toml(&profile.name, toml).context(
        "the written profile cannot be read back; this is a defect of headtime, please report it",
    )?;
    if again != *profile {
        return Err(anyhow!(
            "the written profile reads back differently; a defect of headtime, please report it"
        ));
    }
    let out = arguments.out();
    write_atomically(out, arguments.existing(), |mut file| file.write_all(toml.as_bytes()))
        .with_context(|| format!("cannot write {}", out.display()))
}

/// Sorts the errors of opening into invalid arguments and failures.
fn open_failure(error: SubjectError) -> Failure {
    match error {
        SubjectError::NoVirtualTime { .. }
        | SubjectError::InUse { .. }
        | SubjectError::WritesInUse { .. } => Failure::usage(error),
        SubjectError::Open(ref open) if open.is_usage() => Failure::usage(error),
        other => Failure::Failed(anyhow!(other)),
    }
}

const AFTER_HELP: &str = "\
Reads only, unless --allow-writes is given. A drive of up to 20 GB takes five minutes of drive \
time at the most, a larger one up to twenty; a simulated one seconds.
Ctrl-C saves and ends with code 130; a run that was killed has lost a few seconds: the same \
command with --resume goes on.

With --beside a running server reads in idle time, and in time that it saves under its bound on \
the impact on clients; the drive model in use is refined by the result. The command returns at \
once; headtime status shows the progress. It takes hours beside busy clients, and goes on after a \
restart of the server.

Exit codes: 0 the profile is written and reliable; 1 it was tried and went wrong; 2 the arguments \
are not valid; 3 the profile is written but not reliable, or there is none because this is no \
rotating drive or none that was understood; 130 stopped in the middle.

Examples:
  headtime characterize /dev/disk/by-id/ata-… -o disk.toml
  headtime characterize 'nbd+unix:///disk0?socket=/run/nbd.sock' -o disk.toml
  headtime characterize --beside --drive /dev/disk/by-id/ata-… -o /var/tmp/disk.toml
  headtime characterize --beside=pause
  headtime characterize simulated:atlas10k -o atlas.toml && headtime sim --drive atlas.toml";
