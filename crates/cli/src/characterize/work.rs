//! The work: a thread of its own that keeps the drive busy, and beside it saving and showing, so
//! that neither stands between two reads.

use std::ops::ControlFlow;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow};
use headtime_io::characterize::{
    Ended, ProbedDrive, RunCounts, State, StateFileError, SubjectError, clock,
};
use headtime_probe::{Probe, Stage, Verdict};
use headtime_units::Nanos;

use headtime_console::progress::ProgressDisplay;
use headtime_console::stop::Stop;

/// The report of the run.
pub(crate) struct CharacterizeReport {
    /// Everything that is known.
    pub probe: Probe,
    /// The end of the run.
    pub ended: Result<(Ended, RunCounts), SubjectError>,
    /// The reason why the last save of the state failed.
    pub unsaved: Option<StateFileError>,
}

/// Characterizes until it is done, stopped, or the drive fails. The state is saved every few
/// seconds, after each stage and in the end.
pub(crate) fn characterize(
    mut subject: ProbedDrive,
    mut probe: Probe,
    state: &State,
    showing: &mut StageProgress,
    stop: &Stop,
) -> anyhow::Result<CharacterizeReport> {
    let bound = probe.settings().budget;
    let glimpse = Arc::new(Mutex::new(look_at(&probe, 0)));
    // One state on its way at most: while the disk that keeps it is slow, the next waits for the
    // one after.
    let (save, to_save) = sync_channel::<Box<Probe>>(1);
    let (seen, stop) = (Arc::clone(&glimpse), stop.clone());
    let worker = move || {
        let (mut saved, mut shown) = (Instant::now(), Instant::now());
        let mut stage = probe.stage();
        let mut watch = |probe: &Probe, counts: &RunCounts| {
            let now = Instant::now();
            if probe.stage() != stage || now.duration_since(shown) >= SHOW_EVERY {
                *seen.lock().unwrap_or_else(PoisonError::into_inner) =
                    look_at(probe, counts.commands);
                shown = now;
            }
            // The end is looked at over there: when the drive was lost, what was known before is
            // worth more.
            if probe.stage() != Stage::Done
                && (probe.stage() != stage || now.duration_since(saved) >= SAVE_EVERY)
            {
                // Copied here, written out over there: the drive waits for neither the encoding nor
                // the disk.
                if save.try_send(Box::new(probe.clone())).is_ok() {
                    saved = now;
                }
            }
            stage = probe.stage();
            if stop.is_raised() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let ended = subject.characterize(&mut probe, &mut watch);
        (probe, ended)
    };
    let worker = std::thread::Builder::new()
        .name("headtime-probe".to_owned())
        .spawn(worker)
        .context("a thread cannot be started")?;
    let mut unsaved = None;
    loop {
        match to_save.recv_timeout(SHOW_EVERY) {
            Ok(probe) => keep(&probe, state, showing, &mut unsaved),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        let now = *glimpse.lock().unwrap_or_else(PoisonError::into_inner);
        now.show(bound, showing);
    }
    let (probe, ended) = worker.join().map_err(|_| {
        anyhow!(
            "the characterization failed on a fault of this program; {} has its last state",
            state.path().display()
        )
    })?;
    let lost = matches!(probe.finding().verdict, Verdict::Gone { .. } | Verdict::Replaced { .. });
    if !lost {
        keep(&probe, state, showing, &mut unsaved);
    }
    showing.end();
    Ok(CharacterizeReport { probe, ended, unsaved })
}

/// The progress, with the current stage.
pub(crate) type StageProgress = ProgressDisplay<&'static str>;

#[derive(Clone, Copy)]
struct Glimpse {
    stage: &'static str,
    /// Share of the drive time that is spent, 0 to 1.
    progress: f64,
    /// Reads of this run.
    reads: u64,
}

impl Glimpse {
    /// Shows it, of at most `bound` of drive time.
    fn show(self, bound: Nanos, showing: &mut StageProgress) {
        let Self { stage, progress, reads } = self;
        let spent = clock(Nanos::from_ns((bound.as_ns() as f64 * progress) as u64));
        let message = format!("{spent} of at most {} drive time, {reads} reads", clock(bound));
        let line = || format!("{stage}: {message}");
        showing.show(progress, stage, || (format!("{stage:<28}"), message.clone()), line);
    }
}

fn look_at(probe: &Probe, reads: u64) -> Glimpse {
    Glimpse { stage: probe.stage().describe(), progress: probe.progress(), reads }
}

/// Saves the state. Reports the first failure and the first success after it.
fn keep(
    probe: &Probe,
    state: &State,
    showing: &StageProgress,
    unsaved: &mut Option<StateFileError>,
) {
    match (state.write(probe), unsaved.is_some()) {
        (Ok(()), true) => {
            showing.say("the state is saved again");
            *unsaved = None;
        }
        (Ok(()), false) => {}
        (Err(error), reported) => {
            if !reported {
                showing.say(&format!(
                    "the state cannot be saved: {error}; the run continues, but after an \
                    interruption it starts from the beginning"
                ));
            }
            *unsaved = Some(error);
        }
    }
}

/// The interval between saves, which bounds the loss when the program is killed.
const SAVE_EVERY: Duration = Duration::from_secs(3);
const SHOW_EVERY: Duration = Duration::from_millis(100);
