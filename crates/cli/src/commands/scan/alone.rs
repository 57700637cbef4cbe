//! `headtime scan` of a drive that is not being served: in the foreground, at the drive's full
//! rate, until everything is read or the scan is stopped.
//!
//! Commands from another terminal reach the running scan over its control socket. If no scan is
//! running, they read or discard the stored state.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use headtime_io::{Locator, ProfileSource};
use headtime_serve::config::PathChoice;
use headtime_serve::control::{ControlClient, ControlError, ScanAnswer, ScanArguments};
use headtime_serve::control_socket_alone;
use headtime_serve::scans::{
    AloneError, AloneOptions, GapFigures, Remembered, ScanAlone, ScanError, ScanState, StartScan,
    TermsChange, TimetableError, WHOLE_DRIVE,
};

use super::progress::{ScanProgress, show_progress};
use super::show::{finding, show};
use super::{Meant, Start, StatusArguments, found, is_over, printed, refused};
use headtime_console::Failure;
use headtime_console::logs::{self, Level};
use headtime_console::stop::Stop;

/// The update interval of the progress bar.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Scans until the end.
pub(super) fn start(start: &Start) -> Result<(), Failure> {
    let drive = locator(&start.meant.target)?;
    if start.max_impact.is_some() {
        return Err(Failure::Usage(anyhow!(
            "--max-impact bounds what clients of a server notice, and without a server there are \
                none; leave it out"
        )));
    }
    if start.terms.every.is_some() {
        return Err(Failure::Usage(anyhow!(
            "--every needs a server that starts the scan; serve the drive, or let cron or a timer \
                run the command without --every"
        )));
    }
    if start.terms.priority.is_some() {
        return Err(Failure::Usage(anyhow!(
            "--priority decides among the scans of a server, and without a server there is one; \
                leave it out"
        )));
    }
    let absolute = |path: &std::path::PathBuf| {
        std::path::absolute(path).with_context(|| format!("{} is no path", path.display()))
    };
    let during = start.terms.during.as_deref().map(|text| match text {
        "none" => Ok(None),
        windows => windows.parse().map(Some),
    });
    let order = StartScan {
        target: WHOLE_DRIVE.to_owned(),
        task: start.meant.task,
        range: start.range,
        digests: start.digests,
        to: start.to.as_ref().map(absolute).transpose()?,
        again: start.again,
        terms: TermsChange {
            during: during.transpose().map_err(|error: TimetableError| Failure::usage(error))?,
            ..TermsChange::default()
        },
    };
    let options = AloneOptions {
        drive,
        profile: start.profile.as_deref().map(profile),
        state: place(start.meant.state.as_deref())?,
    };
    let json = start.meant.server.json;
    let mut progress = ScanProgress::new(json);
    // A bar says itself what is in the way.
    logs::start(if progress.is_a_bar() { Level::Error } else { Level::Warn });
    let stop = Stop::on_signals()?;
    let scan = ScanAlone::start(&options, &order).map_err(failure)?;
    let what = format!("the {} of {}", order.task, options.drive);
    let last = loop {
        let Some(status) = scan.status() else {
            progress.end();
            scan.end();
            return Err(Failure::Failed(anyhow!("{what} was cancelled, and is forgotten")));
        };
        show_progress(&mut progress, &status);
        if matches!(status.state, ScanState::Complete | ScanState::Broken) {
            break status;
        }
        if stop.wait(POLL_INTERVAL) {
            progress.end();
            scan.end();
            return Err(Failure::Interrupted(anyhow!(
                "{what} was stopped at {:.1} %; {}",
                status.share_done() * 100.0,
                going_on(&status.state_file, &order)
            )));
        }
    };
    progress.end();
    scan.end();
    show(&answer(vec![last.clone()]), json)?;
    finding(&last).map_or(Ok(()), |found| Err(Failure::Failed(anyhow!("{found}"))))
}

/// The message for a scan that was stopped.
fn going_on(state_file: &str, order: &StartScan) -> String {
    let pipe = order.to.as_deref().is_some_and(is_pipe);
    match (state_file, pipe) {
        ("", _) => "its state is stored nowhere, so that the next one starts again".to_owned(),
        (_, true) => "a backup into a pipe cannot go on; begin it again".to_owned(),
        (file, false) => format!("the same command continues (its state is in {file})"),
    }
}

fn is_pipe(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt as _;
    std::fs::metadata(path).is_ok_and(|metadata| metadata.file_type().is_fifo())
}

/// Runs a command for a scan without a server.
pub(super) fn order(verb: &str, meant: &Meant, arguments: ScanArguments) -> Result<(), Failure> {
    let drive = locator(&meant.target)?;
    let json = meant.server.json;
    let arguments = ScanArguments { target: Some(WHOLE_DRIVE.to_owned()), ..arguments };
    if let Some(mut client) = at_work(&drive)? {
        return printed(verb, &client.scan(verb, &arguments).map_err(refused)?, json);
    }
    if verb != "scan.cancel" {
        return Err(Failure::Usage(anyhow!(
            "no scan of {drive} is running; `headtime scan start {drive} --task {}` starts or \
                resumes one",
            meant.task
        )));
    }
    let remembered = remembered(&drive, meant.state.as_deref())?;
    let not_there = || {
        failure(AloneError::Scan(ScanError::NotThere {
            target: drive.to_string(),
            task: meant.task,
        }))
    };
    let status = remembered.ok_or_else(not_there)?.cancel(meant.task).map_err(failure)?;
    printed(verb, &answer(vec![status]), json)
}

/// Prints the progress of the scans of a drive, running or stopped.
pub(super) fn status(drive: &str, status: &StatusArguments) -> Result<(), Failure> {
    let drive = locator(drive)?;
    let task = status.task.map(|task| task.name().to_owned());
    let arguments = ScanArguments { target: None, task: task.clone(), ..ScanArguments::default() };
    while let Some(mut client) = at_work(&drive)? {
        match client.scan("scan.status", &arguments) {
            Ok(answer) if !status.wait || is_over(&answer) => return tell(&answer, status),
            // A scan that ends during the request has saved its state.
            Ok(_) | Err(ControlError::Gone { .. }) => std::thread::sleep(POLL_INTERVAL),
            Err(error) => return Err(refused(error)),
        }
    }
    let mut scans = remembered(&drive, status.state.as_deref())?
        .map(|remembered| remembered.status())
        .unwrap_or_default();
    scans.retain(|scan| task.as_ref().is_none_or(|task| *task == scan.task));
    tell(&answer(scans), status)
}

/// Prints an answer; after a wait, problems that the scan found are an error.
fn tell(answer: &ScanAnswer, status: &StatusArguments) -> Result<(), Failure> {
    show(answer, status.server.json)?;
    if status.wait { found(answer) } else { Ok(()) }
}

/// Connects to the program that scans or serves the drive, if there is one.
fn at_work(drive: &Locator) -> Result<Option<ControlClient>, Failure> {
    let Some(path) = control_socket_alone(drive) else { return Ok(None) };
    match ControlClient::connect(&path) {
        Ok(client) => Ok(Some(client)),
        Err(ControlError::NoServer { error, .. }) if is_nobody(&error) => Ok(None),
        Err(error) => Err(Failure::Failed(error.into())),
    }
}

fn is_nobody(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        std::io::ErrorKind::NotFound
            | std::io::ErrorKind::ConnectionRefused
            | std::io::ErrorKind::NotADirectory
    )
}

fn remembered(drive: &Locator, state: Option<&str>) -> Result<Option<Remembered>, Failure> {
    Remembered::of(drive, &place(state)?).map_err(failure)
}

fn answer(scans: Vec<headtime_serve::scans::ScanStatus>) -> ScanAnswer {
    ScanAnswer {
        scans,
        impact: 0.0,
        measured: None,
        max_impact: 0.0,
        gaps: GapFigures::default(),
        alone: true,
    }
}

/// The drive that is meant; a word that is no drive's name and no file is a volume, most likely.
fn locator(text: &str) -> Result<Locator, Failure> {
    let locator = Locator::parse(text).map_err(Failure::usage)?;
    match &locator {
        Locator::Path(path) if !path.exists() => Err(Failure::Usage(anyhow!(
            "{text} does not exist; name a file or device, or, for a volume, add its server with \
                --control PATH, --drive LOCATOR or --config FILE"
        ))),
        _ => Ok(locator),
    }
}

fn profile(text: &str) -> ProfileSource {
    ProfileSource::of(text)
}

fn place(state: Option<&str>) -> anyhow::Result<PathChoice> {
    Ok(match state {
        None => PathChoice::Default,
        Some("off") => PathChoice::Off,
        Some(directory) => PathChoice::At(
            std::path::absolute(directory)
                .with_context(|| format!("--state {directory} is no path"))?,
        ),
    })
}

/// Sorts the errors into invalid arguments and failures.
fn failure(error: AloneError) -> Failure {
    let usage = match &error {
        AloneError::Scan(
            ScanError::UnknownTarget { .. }
            | ScanError::NotThere { .. }
            | ScanError::Running { .. }
            | ScanError::Range(_)
            | ScanError::OtherRange { .. }
            | ScanError::Output(_),
        )
        | AloneError::OtherSettings { .. } => true,
        AloneError::Drive { error, .. } => error.is_usage(),
        _ => false,
    };
    if usage { Failure::usage(error) } else { Failure::Failed(error.into()) }
}
