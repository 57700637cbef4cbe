//! [`TraceReport`]: the counts of a trace's records, readable during a replay and after it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::anyhow;
use headtime_workload::trace::{Counts, TraceError};
use serde::Serialize;

use headtime_console::Failure;

/// The maximum number of damaged lines or records that are reported one by one.
const MAX_SAID: u64 = 10;

/// The damage in a trace, and its effect on the reading.
#[derive(Debug)]
pub(super) struct Damage {
    strict: bool,
    says: bool,
    count: AtomicU64,
    fatal: AtomicBool,
    messages: Mutex<Messages>,
}

#[derive(Debug, Default)]
struct Messages {
    first: Option<String>,
    fatal: Option<String>,
}

impl Damage {
    /// No damage yet. `strict`: the first damage ends the reading. `says`: damage is reported on
    /// standard error.
    pub(super) fn new(strict: bool, says: bool) -> Self {
        Self {
            strict,
            says,
            count: AtomicU64::new(0),
            fatal: AtomicBool::new(false),
            messages: Mutex::default(),
        }
    }

    pub(super) fn add(&self, error: &TraceError) {
        let before = self.count.fetch_add(1, Ordering::Relaxed);
        if before == 0 {
            self.lock().first = Some(error.to_string());
        }
        if self.strict {
            self.fail(format!("{error} (--strict)"));
        } else if self.says && before < MAX_SAID {
            headtime_console::note!("headtime: {error}");
        }
    }

    /// Ends the reading.
    pub(super) fn fail(&self, message: String) {
        self.lock().fatal.get_or_insert(message);
        self.fatal.store(true, Ordering::Release);
    }

    pub(super) fn is_fatal(&self) -> bool {
        self.fatal.load(Ordering::Acquire)
    }

    /// Reports the total if not every damage was reported.
    pub(super) fn say_rest(&self) {
        let count = self.count();
        if self.says && !self.strict && count > MAX_SAID {
            headtime_console::note!(
                "headtime: {count} damaged lines or records in all, of which the first {MAX_SAID} \
                    are said above"
            );
        }
    }

    fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Messages> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The counts of a trace's records so far.
#[derive(Clone, Debug)]
pub struct TraceReport {
    name: String,
    counts: Arc<Counts>,
    damage: Arc<Damage>,
}

/// A report's numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TraceSummary {
    /// Requests read from the files; those after the last issued one may be missing.
    pub read: u64,
    /// Damaged lines or records.
    pub damaged: u64,
    /// The first damaged line or record, by file and place.
    pub first_damaged: Option<String>,
    /// Requests outside the slice, or of a device or process that was not chosen.
    pub not_chosen: u64,
    /// Requests so late in the file that they got the time of the one before them.
    pub clamped: u64,
    /// Requests without bytes, which are left out of a replay.
    pub empty: u64,
    /// Requests past the end of the drive, which were left out.
    pub dropped: u64,
    /// Requests that were shortened or moved to fit the drive.
    pub clipped: u64,
    /// Requests that were widened to whole sectors.
    pub widened: u64,
    /// Requests of devices or processes that share the last stream.
    pub sharing: u64,
    /// Requests without a response time, in a replay by think times.
    pub without_response: u64,
    /// Requests issued to the drive.
    #[serde(rename = "asked")]
    pub issued: u64,
}

/// Flushes have no bytes either, and are replayed.
const NO_BYTES: &str = "requests of no bytes, which a replay leaves out";

impl TraceReport {
    pub(super) fn new(name: String, counts: Arc<Counts>, damage: Arc<Damage>) -> Self {
        Self { name, counts, damage }
    }

    /// The counts that the pipeline adds to.
    pub fn counts(&self) -> &Arc<Counts> {
        &self.counts
    }

    /// The numbers so far.
    pub fn summary(&self) -> TraceSummary {
        let counts = &self.counts;
        TraceSummary {
            read: counts.read.get(),
            damaged: self.damage.count(),
            first_damaged: self.damage.lock().first.clone(),
            not_chosen: counts.not_chosen.get(),
            clamped: counts.clamped.get(),
            empty: counts.empty.get(),
            dropped: counts.dropped.get(),
            clipped: counts.clipped.get(),
            widened: counts.widened.get(),
            sharing: counts.sharing.get(),
            without_response: counts.without_response.get(),
            issued: counts.issued.get(),
        }
    }

    /// Checks that the trace ended at its end. To be called when the source is exhausted, since a
    /// source cannot report errors.
    ///
    /// # Errors
    /// When a file could not be read further, a line was damaged in strict mode, or a request does
    /// not fit the drive.
    pub fn check(&self) -> Result<(), Failure> {
        if let Some(message) = &self.damage.lock().fatal {
            return Err(Failure::Failed(anyhow!("{message}")));
        }
        match self.counts.refused() {
            Some(misfit) => {
                Err(Failure::Usage(anyhow!("{}: {misfit} (--remap, --drop-misfits)", self.name)))
            }
            None => Ok(()),
        }
    }

    /// Notes, a sentence each; empty if every record was replayed unchanged.
    pub fn notes(&self) -> Vec<String> {
        let summary = self.summary();
        let note =
            |count: u64, what: &str| (count > 0).then(|| format!("{}: {count} {what}", self.name));
        [
            note(summary.damaged, "damaged lines or records stepped over"),
            note(
                summary.clamped,
                "requests stand so late in the trace that their times were moved \
                to that of the one before",
            ),
            note(summary.empty, NO_BYTES),
            note(summary.dropped, "requests past the end of the drive left out"),
            note(summary.clipped, "requests shortened or moved to fit the drive"),
            note(summary.widened, "requests widened to whole sectors"),
            note(summary.sharing, "requests of further devices or processes share the last stream"),
            note(
                summary.without_response,
                "requests without response time follow at their recorded distance",
            ),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}
