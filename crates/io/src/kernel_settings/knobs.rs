//! The kernel's settings in front of a raw device: set while it is open, put back afterwards, and a
//! warning for each that has no effect.
//!
//! A setting is written, read back, and counts only if the kernel then shows it. What was there
//! before is remembered in a file ([`KnobState`]) before anything is written, so that after a crash
//! the next start, or `headtime devices restore`, puts it back. A value that another program has
//! changed meanwhile is left alone.
//!
//! The knobs of a partition are those of its disk. Two drives on one disk share them: the first to
//! open holds them, the others leave them alone.
//!
//! The kernel changes more by itself when the scheduler changes: the depth of its queue, and the
//! scheduler's own settings, which vanish with it. They are remembered too, and come back with the
//! scheduler.
//!
//! Worked example, a SATA disk with `queue_depth = 8`: `queue/scheduler` goes from `mq-deadline` to
//! `none`, `queue/nomerges` from `0` to `2`, `device/queue_depth` from `32` to `8`. At the end all
//! three still show what was written, so that they go back to `mq-deadline`, `0` and `32`; had
//! another program set the depth to `16` in the meantime, it would stay there.

use std::fmt;
use std::path::{Path, PathBuf};

use super::knob_state::{Change, Entry, KnobState, KnobStateError};
use super::options::{KernelKnobs, RawOptions, WriteCache};
use crate::block_device::{BlockDevice, SystemPaths, chosen, word};

/// One setting of the kernel or, through it, of the drive.
pub struct KernelKnob {
    /// Its name in messages.
    pub name: &'static str,
    /// The place where it lies below the disk's directory in `/sys`, the first that is there
    /// counts; `*` stands for any one directory.
    pub files: &'static [&'static str],
    /// Its new value; `None` if the options leave it alone.
    pub requested: fn(&RawOptions) -> Option<String>,
    /// The reason for setting it.
    pub why: &'static str,
    /// The consequence if it has no effect.
    pub without: &'static str,
}

/// Every knob, in the order in which they are set and put back: changing the scheduler resets the
/// depth of the kernel's queue, so it comes first both times.
pub const KERNEL_KNOBS: &[KernelKnob] = &[
    KernelKnob {
        name: SCHEDULER,
        files: &["queue/scheduler"],
        requested: |_| Some("none".to_owned()),
        why: "two schedulers in a row undo each other: the drive is to get the commands in the \
            order chosen here",
        without: "requests may be reordered and held back by the kernel, so that predicted times \
            are off",
    },
    KernelKnob {
        name: "merging",
        files: &["queue/nomerges"],
        requested: |_| Some("2".to_owned()),
        why: "neighboring commands are merged here, where it is known whom they serve; merged by \
            the kernel both would be measured wrong",
        without: "neighboring commands may be merged by the kernel, which blurs measured times",
    },
    KernelKnob {
        name: QUEUE_DEPTH,
        files: &["device/queue_depth", "queue/nr_requests"],
        requested: |options| options.queue_depth.map(|depth| depth.to_string()),
        why: "the drive's own queue reorders too; how much of it is used is the owner's choice",
        without: "no more commands than configured are sent all the same, as far as the drive \
            takes them",
    },
    KernelKnob {
        name: "write_cache",
        // Never queue/write_cache: that is the kernel's assumption about the cache, and without one
        // the kernel drops every flush.
        files: &["device/scsi_disk/*/cache_type", "cache_type"],
        requested: |options| match options.write_cache {
            WriteCache::Keep => None,
            WriteCache::On => Some("write back".to_owned()),
            WriteCache::Off => Some("write through".to_owned()),
        },
        why: "a cache makes writes fast and loses those not flushed in a power cut; without it \
            each write is durable when it is complete",
        without: "the drive's cache stays as it is; flushes reach it in either case",
    },
];

/// The outcome of a setting, planned or done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnobOutcome {
    /// It was as requested.
    Already,
    /// It is changed.
    Change {
        /// Its old value.
        from: String,
    },
    /// It has no effect here.
    NoEffect {
        /// The reason.
        reason: String,
    },
    /// It is left alone.
    LeftAlone {
        /// The owner requested that.
        explicit: bool,
        /// The reason.
        reason: String,
    },
}

/// A knob and what became, or would become, of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnobReport {
    /// The knob.
    pub name: &'static str,
    /// The requested value.
    pub requested: String,
    /// The file that is it, when there is one.
    pub file: Option<PathBuf>,
    /// The outcome.
    pub outcome: KnobOutcome,
}

/// The restoration of a recorded value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnobRestored {
    /// The knob.
    pub name: String,
    /// Its file.
    pub file: PathBuf,
    /// The old value.
    pub before: String,
    /// The present value: equal to `before` if it was restored.
    pub now: Option<String>,
    /// The reason why it was not restored; `None` if it was.
    pub left: Option<String>,
}

/// Settings that are in force and are put back when this is dropped.
pub(crate) struct KnobGuard {
    state: KnobState,
    entries: Vec<Entry>,
    sys: PathBuf,
}

/// Plans the settings of `device`; writes nothing.
#[must_use]
pub fn plan_knobs(device: &BlockDevice, options: &RawOptions) -> Vec<KnobReport> {
    let directory = device.disk_directory(&options.system);
    requested(options).map(|(knob, requested)| plan(knob, requested, &directory, options)).collect()
}

fn requested(options: &RawOptions) -> impl Iterator<Item = (&'static KernelKnob, String)> {
    KERNEL_KNOBS.iter().filter_map(move |knob| Some((knob, (knob.requested)(options)?)))
}

fn plan(
    knob: &'static KernelKnob,
    requested: String,
    directory: &Path,
    options: &RawOptions,
) -> KnobReport {
    let file = knob.files.iter().find_map(|pattern| find(directory, pattern));
    let outcome = match file.as_deref().map(|file| (file, word(file))) {
        _ if options.kernel_knobs == KernelKnobs::Keep => {
            KnobOutcome::LeftAlone { explicit: true, reason: "kernel_knobs = keep".to_owned() }
        }
        None => KnobOutcome::NoEffect {
            reason: format!("this device has no {}", knob.files.join(" or ")),
        },
        Some((file, None)) => {
            KnobOutcome::NoEffect { reason: format!("{} cannot be read", file.display()) }
        }
        Some((_, Some(text))) if chosen(&text) == requested => KnobOutcome::Already,
        Some((_, Some(text))) => KnobOutcome::Change { from: chosen(&text).to_owned() },
    };
    KnobReport { name: knob.name, requested, file, outcome }
}

impl KnobGuard {
    /// Sets the knobs of `device` as `options` want them, after putting back what a crashed run has
    /// left; says what became of each. The guard is `None` when there is nothing to put back.
    pub(crate) fn set(
        device: &BlockDevice,
        options: &RawOptions,
    ) -> (Option<Self>, Vec<KnobReport>) {
        let nothing_left =
            || !KnobState::disks(&options.system).iter().any(|disk| disk == device.disk_name());
        if options.kernel_knobs == KernelKnobs::Keep && nothing_left() {
            return (None, plan_knobs(device, options));
        }
        let mut state = match KnobState::take(&options.system, device.disk_name()) {
            Ok(state) => state,
            Err(error) => return (None, left_alone(device, options, &error)),
        };
        put_back_leftover(&mut state, &options.system);
        let mut reports = plan_knobs(device, options);
        let mut entries = Vec::new();
        for report in &reports {
            if let (KnobOutcome::Change { from }, Some(file)) = (&report.outcome, &report.file) {
                let file = file.strip_prefix(&options.system.sys).unwrap_or(file).to_owned();
                entries.push(Entry {
                    name: report.name.to_owned(),
                    file,
                    before: from.clone(),
                    change: Change::Unknown,
                });
            }
        }
        if entries.is_empty() {
            return (None, reports);
        }
        if entries.iter().any(|entry| entry.name == SCHEDULER) {
            followers(&options.system.sys, &device.disk_directory(&options.system), &mut entries);
        }
        if let Err(error) = state.remember(&entries) {
            return (None, left_alone(device, options, &error));
        }
        let mut guard = Self { state, entries, sys: options.system.sys.clone() };
        for report in &mut reports {
            guard.change(report);
        }
        if let Err(error) = guard.state.remember(&guard.entries) {
            tracing::warn!(%error, "after a crash, kernel settings may be restored although \
                another program has changed them in the meantime");
        }
        (Some(guard), reports)
    }

    /// Writes one knob and looks whether that worked.
    fn change(&mut self, report: &mut KnobReport) {
        let (from, file) = match (&report.outcome, &report.file) {
            (KnobOutcome::Change { from }, Some(file)) => (from, file),
            // It was as requested, and a knob before it may have changed that; it comes back with
            // that one.
            (KnobOutcome::Already, Some(file)) if now(file).as_ref() != Some(&report.requested) => {
                (&report.requested, file)
            }
            _ => return,
        };
        let refused = std::fs::write(file, &report.requested).err();
        let now = now(file);
        let reason = match (&refused, &now) {
            (_, Some(now)) if *now == report.requested => None,
            (Some(error), _) => {
                Some(format!("the system refuses to write {}: {error}", file.display()))
            }
            (None, Some(now)) if now == from => Some(format!("{} stays at {from}", file.display())),
            (None, Some(now)) => Some(format!("{} became {now} instead", file.display())),
            (None, None) => Some(format!("{} cannot be read any more", file.display())),
        };
        if let (Some(entry), Some(now)) =
            (self.entries.iter_mut().find(|entry| entry.name == report.name), now)
        {
            entry.change = Change::To(now);
        }
        if let Some(reason) = reason {
            report.outcome = KnobOutcome::NoEffect { reason };
        }
    }
}

impl Drop for KnobGuard {
    fn drop(&mut self) {
        say(&put_back(&self.sys, &self.entries));
        self.state.forget();
    }
}

impl KnobReport {
    /// Returns true if the setting has, or will have, the requested value.
    #[must_use]
    pub fn has_effect(&self) -> bool {
        matches!(self.outcome, KnobOutcome::Already | KnobOutcome::Change { .. })
    }
}

impl fmt::Display for KnobReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, requested, outcome, .. } = self;
        match outcome {
            KnobOutcome::Already => write!(f, "{name} = {requested}, as it was"),
            KnobOutcome::Change { from } => write!(f, "{name} = {requested} instead of {from}"),
            KnobOutcome::NoEffect { reason } => {
                let without = KERNEL_KNOBS
                    .iter()
                    .find(|knob| knob.name == *name)
                    .map_or("", |knob| knob.without);
                write!(f, "{name} = {requested} has no effect here, because {reason}; {without}")
            }
            KnobOutcome::LeftAlone { reason, .. } => {
                write!(f, "{name} = {requested} is not set, because of this: {reason}")
            }
        }
    }
}

impl fmt::Display for KnobRestored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, before, now, left, .. } = self;
        match left {
            None => write!(f, "{} is {before} again", file.display()),
            Some(reason) => {
                write!(
                    f,
                    "{} is not put back to {before} and stays at {}: {reason}",
                    file.display(),
                    now.as_deref().unwrap_or("what it is")
                )
            }
        }
    }
}

/// Puts back what crashed runs have left on any disk; disks in use by a running headtime are passed
/// over. What became of each knob, and of what disk nothing could be recalled.
pub fn restore_knobs(system: &SystemPaths) -> (Vec<KnobRestored>, Vec<KnobStateError>) {
    let (mut restored, mut errors) = (Vec::new(), Vec::new());
    for disk in KnobState::disks(system) {
        match KnobState::take(system, &disk).and_then(|state| Ok((state.recall()?, state))) {
            Ok((entries, mut state)) => {
                restored.extend(put_back(&system.sys, &entries));
                state.forget();
            }
            Err(KnobStateError::Held { .. }) => {}
            Err(error) => errors.push(error),
        }
    }
    (restored, errors)
}

fn put_back_leftover(state: &mut KnobState, system: &SystemPaths) {
    match state.recall() {
        Ok(entries) if entries.is_empty() => {}
        Ok(entries) => {
            tracing::warn!(
                disk = state.disk(),
                "a run that ended without putting kernel settings back has left some; they are put \
                    back first"
            );
            say(&put_back(&system.sys, &entries));
        }
        Err(error) => tracing::warn!(%error, "what an earlier run has changed cannot be put back"),
    }
    state.forget();
}

/// Puts values back, in the order in which they were remembered. Which are still ours is judged
/// before anything is written, because one knob changes another.
fn put_back(sys: &Path, entries: &[Entry]) -> Vec<KnobRestored> {
    let judged: Vec<Option<String>> = entries
        .iter()
        .map(|entry| not_ours(&entry.change, now(&sys.join(&entry.file)), &entry.before))
        .collect();
    let scheduler_is_ours =
        entries.iter().zip(&judged).any(|(entry, left)| entry.name == SCHEDULER && left.is_none());
    let restored = entries
        .iter()
        .zip(judged)
        .filter(|(entry, _)| entry.change != Change::WithScheduler || scheduler_is_ours)
        .map(|(entry, left)| {
            let file = sys.join(&entry.file);
            let left = left.or_else(|| write_back(&file, &entry.before));
            KnobRestored {
                name: entry.name.clone(),
                now: now(&file),
                file,
                before: entry.before.clone(),
                left,
            }
        });
    restored.collect()
}

/// The reason why a setting with value `now` is not restored to `before`.
fn not_ours(change: &Change, now: Option<String>, before: &str) -> Option<String> {
    match (change, now) {
        (Change::To(set), Some(now)) if now != *set && now != before => {
            Some(format!("another program changed it after it was set to {set}"))
        }
        _ => None,
    }
}

/// Writes a value unless it is set already; returns the reason if it is not set afterwards.
fn write_back(file: &Path, value: &str) -> Option<String> {
    if now(file).as_deref() == Some(value) {
        return None;
    }
    match std::fs::write(file, value) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Some("it no longer exists; the device may be gone".to_owned())
        }
        Err(error) => Some(format!("the system refuses to write it: {error}")),
        Ok(()) => (now(file).as_deref() != Some(value))
            .then(|| "the system accepted the value and did not keep it".to_owned()),
    }
}

fn now(file: &Path) -> Option<String> {
    word(file).map(|text| chosen(&text).to_owned())
}

/// Adds the settings that the kernel changes together with the scheduler, after the scheduler
/// itself.
fn followers(sys: &Path, directory: &Path, entries: &mut Vec<Entry>) {
    let mut settings: Vec<PathBuf> = FOLLOWERS.iter().map(|file| directory.join(file)).collect();
    let own = std::fs::read_dir(directory.join("queue/iosched")).into_iter().flatten().flatten();
    settings.extend(own.map(|entry| entry.path()));
    settings.sort_unstable();
    let after_scheduler =
        entries.iter().position(|entry| entry.name == SCHEDULER).map_or(0, |index| index + 1);
    let known = |file: &Path| entries.iter().any(|entry| entry.file == file);
    let followers = settings.iter().filter_map(|setting| {
        let file = setting.strip_prefix(sys).unwrap_or(setting).to_owned();
        let name = file.file_name()?.to_str()?.to_owned();
        (!known(&file)).then_some(Entry {
            name,
            file,
            before: now(setting)?,
            change: Change::WithScheduler,
        })
    });
    let followers: Vec<Entry> = followers.collect();
    entries.splice(after_scheduler..after_scheduler, followers);
}

fn say(restored: &[KnobRestored]) {
    for knob in restored {
        if knob.left.is_some() {
            tracing::warn!("{knob}");
        } else {
            tracing::info!("{knob}");
        }
    }
}

fn left_alone(
    device: &BlockDevice,
    options: &RawOptions,
    error: &KnobStateError,
) -> Vec<KnobReport> {
    let mut reports = plan_knobs(device, options);
    for report in &mut reports {
        if matches!(report.outcome, KnobOutcome::Change { .. }) {
            report.outcome = KnobOutcome::LeftAlone { explicit: false, reason: error.to_string() };
        }
    }
    reports
}

/// The file below `directory` that `pattern` names, where `*` is whichever directory comes first.
pub(super) fn find(directory: &Path, pattern: &str) -> Option<PathBuf> {
    let mut path = directory.to_owned();
    for part in pattern.split('/') {
        if part == "*" {
            let mut entries: Vec<PathBuf> =
                std::fs::read_dir(&path).ok()?.flatten().map(|entry| entry.path()).collect();
            entries.sort_unstable();
            path = entries.into_iter().next()?;
        } else {
            path.push(part);
        }
    }
    path.exists().then_some(path)
}

/// The knob that others depend on.
const SCHEDULER: &str = "scheduler";
/// The knob that bounds the commands at the drive.
pub(super) const QUEUE_DEPTH: &str = "queue_depth";

/// The settings that the kernel changes when the scheduler changes, beside the scheduler's own
/// settings in `queue/iosched`.
const FOLLOWERS: &[&str] = &["queue/nr_requests", "queue/wbt_lat_usec"];

#[cfg(test)]
mod tests;
