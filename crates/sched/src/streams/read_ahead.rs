//! Runs of clients that pause: what the drive reads ahead of them, and where its arm is.
//!
//! After a read a drive reads on until a command needs the arm elsewhere. If that is the read of
//! another client at once, each client that pauses costs a change with each request. If the arm
//! stays for a moment, the next requests of the run are answered from the drive's cache while the
//! arm serves others. To wait for those requests themselves would take a pause for each.
//!
//! Worked example: 32 players read 256 KiB and pause for 50 ms; a change takes 12 ms, and the drive
//! reads 285 MB/s into segments of 4 MiB. One by one, each request costs 13 ms. If the arm stays
//! for 12 ms, 14 requests cost 25 ms.

use headtime_units::{Extent, Instant, Nanos};

use super::think::Think;
use super::{RunId, Streams, is_rest};
use crate::command::Finished;
use crate::policy::View;
use crate::request::Op;

/// A client pauses whose mean think time is this part of a change or more (guess: shorter ones keep
/// up with a good part of what the drive reads ahead).
const PAUSES: u64 = 4;
/// A read that took less than this part of a change was answered from the drive's cache, or
/// continues the last one (guess: far from both a seek and a transfer).
const ANSWERED: u64 = 8;
/// The sectors read ahead of a run that is left last its client for so many changes (guess: the
/// time in which a few others are served).
const LASTS_CHANGES: u64 = 4;

impl Streams {
    /// The think time of the client of a run, short or long, if it pauses. On a drive that does not
    /// read ahead, or has no arm, where a change costs nothing, no pause counts.
    pub(crate) fn pauses_of(&self, id: RunId, view: &View<'_>, change: Nanos) -> Option<Think> {
        if change.is_zero() || !view.belief.reads_ahead() {
            return None;
        }
        let think = self.runs.get(&id)?.account.think;
        think
            .mean_ns
            .is_some_and(|(mean, _)| mean >= (change / PAUSES).as_ns() as f64)
            .then_some(think)
    }

    /// The time by which the drive has read ahead so much of the run of a client that pauses that
    /// the arm may leave it: as much as takes `longest`, as the run is long so far, or as the drive
    /// reads ahead, but at least what lasts the client for four changes. Now if the arm is
    /// elsewhere; `None` if the client does not pause, or the drive is not known to read ahead so
    /// far.
    pub(crate) fn read_ahead_by(
        &self,
        id: RunId,
        view: &View<'_>,
        change: Nanos,
        longest: Nanos,
    ) -> Option<Instant> {
        let run = self.runs.get(&id).filter(|run| run.op == Op::Read)?;
        let (think_ns, _) = self.pauses_of(id, view, change)?.mean_ns?;
        if self.arm_at != Some(id) {
            return Some(view.now);
        }
        let (start, capacity) = (run.end.get(), view.belief.capacity().get());
        let next = |sectors: u64| {
            let fits = sectors <= capacity.saturating_sub(start);
            let ahead = fits.then(|| Extent::from_numbers(start, sectors))?;
            Some((ahead, view.belief.target(Op::Read, ahead).transfer))
        };
        let each = (run.length / u64::from(run.requests.max(1))).max(1);
        let (_, transfer) = next(each)?;
        let within = |time: Nanos| each * (time.as_ns() / transfer.as_ns().max(1));
        let lasts_ns = (change * LASTS_CHANGES).as_ns();
        let least = each.checked_mul(lasts_ns.div_ceil((think_ns as u64).max(1)))?;
        if least > within(change * LASTS_CHANGES) {
            return None;
        }
        let held_by = |sectors| {
            let (ahead, transfer) = next(sectors)?;
            let mut times = (0..=4).map(|quarters| view.now + transfer * quarters / 4);
            times.find(|by| view.belief.probably_cached(ahead, *by))
        };
        let reads_on = match view.belief.reads_on(run.end).get() {
            0 => run.length,
            sectors => run.length.min(sectors),
        };
        let most = least.max(within(longest).min(reads_on));
        let half = |sectors: &u64| Some(sectors / 2).filter(|half| *half >= least);
        core::iter::successors(Some(most), half).find_map(held_by)
    }

    /// Notes whether a read took the arm, or was answered from the drive's cache: one of a rest was
    /// not worth a wait then.
    pub(super) fn note_arm(
        &mut self,
        finished: &Finished,
        run: Option<RunId>,
        change: Option<Nanos>,
    ) {
        if finished.request.op != Op::Read {
            return;
        }
        let service = finished.finished.saturating_since(finished.dispatched);
        let needed_arm = change.is_none_or(|change| service >= change / ANSWERED);
        if needed_arm {
            self.arm_at = run;
            return;
        }
        self.arm_at = self.arm_at.or(run);
        let owner = self.owner(&finished.request);
        if let Some(rest) = self.account_mut(owner).filter(|_| is_rest(owner)) {
            rest.needed_no_arm(finished.request.id);
        }
    }
}
