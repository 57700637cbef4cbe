//! [`FaultyDrive`]: a drive that wraps another and goes wrong, by plan and by seed.
//!
//! Each report of the inner drive meets one fate: it passes, turns into an error, comes late, comes
//! after the one behind it, or never comes. Bad sectors fail every command that touches them, for
//! ever or a number of times. What the inner drive did at the media stays done: a command that
//! fails here may have written, and whoever checks contents must allow for both.
//!
//! - Modelled: persistent and transient media errors, errors out of nothing, slow, reordered and
//!   lost reports, answers that come after the host has given the command up, and flushes that are
//!   reported and not carried out.
//! - Not modelled: power loss, torn writes, resets that fail all commands at once, silent
//!   corruption.
//! - Differs from a drive: bad sectors fail commands, not the read-ahead or the writing back of a
//!   cache; a slow or lost command has left the mechanism long ago; only its report is late.
//!   `disk_time` is the inner drive's.

use std::collections::BTreeMap;

use headtime_sched::{Command, CommandId, Op, Outcome};
use headtime_sim::{Device, DiskTime, DriveCompletion};
use headtime_units::{Extent, Instant, Nanos, Sectors};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The system's number of an I/O error.
pub const EIO: i32 = 5;

/// What goes wrong; nothing by default. Shares are of all commands, from 0 to 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultPlan {
    /// Sectors that cannot be read or written.
    pub bad: Vec<BadSectors>,
    /// Share of commands that fail for no reason.
    pub error_share: f64,
    /// Share of reports that come late.
    pub slow_share: f64,
    /// By how much.
    pub slow_by: Nanos,
    /// Share of reports that wait until another command is reported, `slow_by` at the longest.
    pub reorder_share: f64,
    /// Share of reports that never come.
    pub lost_share: f64,
    /// Share of those lost that come `slow_by` after the host gave them up.
    pub answers_after_abort_share: f64,
    /// Whether flushes are reported without being carried out.
    pub lying_flushes: bool,
}

/// A run of sectors that fails commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadSectors {
    /// The sectors.
    pub extent: Extent,
    /// Whether reads fail.
    pub reads: bool,
    /// Whether writes (and zeroes and discards) fail.
    pub writes: bool,
    /// How many commands fail before the sectors are good again; `None` for ever.
    pub times: Option<u32>,
}

/// A drive with faults.
#[derive(Clone, Debug)]
pub struct FaultyDrive<D> {
    inner: D,
    plan: FaultPlan,
    rng: ChaCha8Rng,
    /// Commands that the inner drive has not reported yet.
    under_way: BTreeMap<CommandId, (Op, Extent)>,
    /// Reports held back, by the time at which they come at the latest.
    slow: BTreeMap<(Instant, CommandId), DriveCompletion>,
    /// Those of them that come with the next report.
    overtaken: Vec<(Instant, CommandId)>,
    /// Reports that never come, unless the host gives the command up and the drive is of the kind
    /// that answers then.
    lost: BTreeMap<CommandId, DriveCompletion>,
    reported: Vec<DriveCompletion>,
    from_inner: Vec<DriveCompletion>,
}

enum PlannedFault {
    Passes,
    Slow,
    Overtaken,
    Lost,
}

impl<D: Device> FaultyDrive<D> {
    /// `inner` with the faults of a plan; which commands they hit is drawn by seed.
    #[must_use]
    pub fn new(inner: D, plan: FaultPlan, seed: u64) -> Self {
        Self {
            inner,
            plan,
            rng: ChaCha8Rng::seed_from_u64(seed),
            under_way: BTreeMap::new(),
            slow: BTreeMap::new(),
            overtaken: Vec::new(),
            lost: BTreeMap::new(),
            reported: Vec::new(),
            from_inner: Vec::new(),
        }
    }

    /// The drive inside.
    pub fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }

    fn pull(&mut self, now: Instant) {
        let mut from_inner = std::mem::take(&mut self.from_inner);
        self.inner.advance(now, &mut from_inner);
        for completion in from_inner.drain(..) {
            self.release(completion.finished);
            self.meet_fate(completion);
        }
        self.from_inner = from_inner;
        self.release(now);
    }

    fn meet_fate(&mut self, mut completion: DriveCompletion) {
        let Some((op, extent)) = self.under_way.remove(&completion.command) else { return };
        if self.touches_bad_sectors(op, extent) || self.hits(self.plan.error_share) {
            completion.outcome = Outcome::Failed(EIO);
        }
        let latest = completion.finished + self.plan.slow_by;
        match self.fate() {
            PlannedFault::Passes => self.pass(completion),
            PlannedFault::Slow => {
                self.slow.insert((latest, completion.command), completion);
            }
            PlannedFault::Overtaken => {
                self.slow.insert((latest, completion.command), completion);
                self.overtaken.push((latest, completion.command));
            }
            PlannedFault::Lost => {
                self.lost.insert(completion.command, completion);
            }
        }
    }

    fn fate(&mut self) -> PlannedFault {
        if self.hits(self.plan.lost_share) {
            PlannedFault::Lost
        } else if self.hits(self.plan.slow_share) {
            PlannedFault::Slow
        } else if self.hits(self.plan.reorder_share) {
            PlannedFault::Overtaken
        } else {
            PlannedFault::Passes
        }
    }

    /// Reports a command, and behind it those that waited to be overtaken.
    fn pass(&mut self, completion: DriveCompletion) {
        self.reported.push(completion);
        for key in std::mem::take(&mut self.overtaken) {
            if let Some(held) = self.slow.remove(&key) {
                self.reported.push(DriveCompletion { finished: completion.finished, ..held });
            }
        }
    }

    /// Reports what was held back until `now` at the latest.
    fn release(&mut self, now: Instant) {
        while let Some(entry) = self.slow.first_entry().filter(|entry| entry.key().0 <= now) {
            let ((at, command), held) = entry.remove_entry();
            self.overtaken.retain(|(_, overtaken)| *overtaken != command);
            self.pass(DriveCompletion { finished: at, ..held });
        }
    }

    fn touches_bad_sectors(&mut self, op: Op, extent: Extent) -> bool {
        let fails = |bad: &BadSectors| {
            bad.times != Some(0)
                && bad.extent.overlaps(extent)
                && if op == Op::Read { bad.reads } else { bad.writes }
        };
        let Some(bad) = self.plan.bad.iter_mut().find(|bad| fails(bad)) else { return false };
        bad.times = bad.times.map(|times| times - 1);
        true
    }

    fn hits(&mut self, share: f64) -> bool {
        share > 0.0 && f64::from(self.rng.next_u32()) < share * 4_294_967_296.0
    }
}

impl<D: Device> Device for FaultyDrive<D> {
    fn queue_depth(&self) -> usize {
        self.inner.queue_depth()
    }

    fn capacity(&self) -> Sectors {
        self.inner.capacity()
    }

    fn arms(&self) -> usize {
        self.inner.arms()
    }

    fn submit(&mut self, now: Instant, command: &Command) {
        self.under_way.insert(command.id, (command.op, command.extent));
        if self.plan.lying_flushes && command.op == Op::Flush {
            // A discard of nothing takes as long as a flush of nothing.
            return self.inner.submit(now, &Command { op: Op::Discard, ..command.clone() });
        }
        self.inner.submit(now, command);
    }

    fn next_event(&self) -> Option<Instant> {
        let held = self.slow.first_key_value().map(|((at, _), _)| *at);
        let reported = self.reported.first().map(|report| report.finished);
        [self.inner.next_event(), held, reported].into_iter().flatten().min()
    }

    fn advance(&mut self, now: Instant, completions: &mut Vec<DriveCompletion>) {
        self.pull(now);
        completions.append(&mut self.reported);
    }

    fn abort(&mut self, now: Instant, command: CommandId) {
        self.pull(now);
        self.reported.retain(|report| report.command != command);
        self.overtaken.retain(|(_, overtaken)| *overtaken != command);
        self.slow.retain(|(_, held), _| *held != command);
        if self.under_way.remove(&command).is_some() {
            self.inner.abort(now, command);
        }
        if let Some(completion) = self.lost.remove(&command)
            && self.hits(self.plan.answers_after_abort_share)
        {
            self.slow.insert((now + self.plan.slow_by, command), completion);
        }
    }

    fn disk_time(&self, now: Instant) -> DiskTime {
        self.inner.disk_time(now)
    }
}
