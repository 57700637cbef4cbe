//! [`FaultyDrive`]: a wrapper that injects faults into a drive, by plan and by seed.
//!
//! Each report of the inner drive passes, turns into an error, is late, is overtaken by the next
//! one, or is lost. Bad sectors fail every command that touches them, permanently or a number of
//! times. Work of the inner drive at the media stays done: a failed command may have written, and
//! checks of contents must allow for both.
//!
//! - Modelled: persistent and transient media errors, random errors, slow, reordered and lost
//!   reports, answers after the host has given the command up, and flushes that are reported and
//!   not carried out.
//! - Not modelled: power loss, torn writes, resets that fail all commands at once, silent
//!   corruption.
//! - Differs from a drive: bad sectors fail commands, not the read-ahead or write-back of a cache;
//!   a slow or lost command has left the mechanism, only its report is late. `disk_time` is the
//!   inner drive's.

use std::collections::BTreeMap;

use headtime_sched::{Command, CommandId, Op, Outcome};
use headtime_sim::{Device, DiskTime, DriveCompletion};
use headtime_units::{Extent, Instant, Nanos, Sectors};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// The errno of an I/O error.
pub const EIO: i32 = 5;

/// The faults to inject; none by default. Fractions are of all commands, from 0 to 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FaultPlan {
    /// Sectors that cannot be read or written.
    pub bad: Vec<BadSectors>,
    /// Fraction of commands that fail at random.
    pub error_share: f64,
    /// Fraction of late reports.
    pub slow_share: f64,
    /// The delay of a late report.
    pub slow_by: Nanos,
    /// Fraction of reports that wait until another command is reported, `slow_by` at most.
    pub reorder_share: f64,
    /// Fraction of lost reports.
    pub lost_share: f64,
    /// Fraction of lost reports that come `slow_by` after the host gave the command up.
    pub answers_after_abort_share: f64,
    /// True if flushes are reported without being carried out.
    pub lying_flushes: bool,
}

/// Sectors that fail commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadSectors {
    /// The sectors.
    pub extent: Extent,
    /// True if reads fail.
    pub reads: bool,
    /// True if writes (and zeroes and discards) fail.
    pub writes: bool,
    /// The number of failing commands; `None` for permanently bad sectors.
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
    /// Delayed reports by their latest time.
    slow: BTreeMap<(Instant, CommandId), DriveCompletion>,
    /// Those of them that come with the next report.
    overtaken: Vec<(Instant, CommandId)>,
    /// Lost reports; some come after an abort.
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
    /// Injects the faults of a plan into `inner`; the seed selects the commands.
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

    /// The inner drive.
    pub fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }

    fn pull(&mut self, now: Instant) {
        let mut from_inner = std::mem::take(&mut self.from_inner);
        self.inner.advance(now, &mut from_inner);
        for completion in from_inner.drain(..) {
            self.release(completion.finished);
            self.apply_fault(completion);
        }
        self.from_inner = from_inner;
        self.release(now);
    }

    fn apply_fault(&mut self, mut completion: DriveCompletion) {
        let Some((op, extent)) = self.under_way.remove(&completion.command) else { return };
        if self.touches_bad_sectors(op, extent) || self.hits(self.plan.error_share) {
            completion.outcome = Outcome::Failed(EIO);
        }
        let latest = completion.finished + self.plan.slow_by;
        match self.draw_fault() {
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

    fn draw_fault(&mut self) -> PlannedFault {
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

    /// Reports a command, then those that waited for it.
    fn pass(&mut self, completion: DriveCompletion) {
        self.reported.push(completion);
        for key in std::mem::take(&mut self.overtaken) {
            if let Some(held) = self.slow.remove(&key) {
                self.reported.push(DriveCompletion { finished: completion.finished, ..held });
            }
        }
    }

    /// Reports the delayed completions due by `now`.
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
            // An empty discard takes as long as an empty flush.
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
