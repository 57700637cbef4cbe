//! [`Fill`]: the state of background reading, beside the queue of clients.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use headtime_units::{Extent, Instant, Lba, Nanos, Sectors};
use smallvec::SmallVec;

use super::governor::{GapUse, Governor};
use super::jobs::Job;
use super::scans::{Claim, Scans};
use super::search::SearchCounts;
use super::settings::FillSettings;
use crate::background::{BackgroundRead, BackgroundWritten, FillReport, FillSource};
use crate::command::{CommandId, Done, Outcome};
use crate::queue::Ticket;
use crate::scheduler::{Ahead, Committed, ExpectedStart};
use crate::timed::TimedReads;

/// Scans, jobs, and their cost.
#[derive(Debug, Default)]
pub(crate) struct Fill {
    pub(crate) settings: FillSettings,
    pub(crate) scans: Scans,
    /// Everything that is being read or will be, by ticket.
    pub(crate) jobs: BTreeMap<Ticket, Job>,
    pub(crate) governor: Governor,
    pub(crate) report: FillReport,
    pub(crate) counts: SearchCounts,
    /// Results that were not yet delivered.
    pub(crate) delivered: VecDeque<BackgroundRead>,
    /// Writes that are over and were not yet reported.
    pub(crate) written: VecDeque<BackgroundWritten>,
    /// The address at which idle reading continues.
    pub(crate) cursor: Lba,
    /// The time until which no more time is taken from clients.
    pub(crate) next_share_at: Instant,
    /// Sectors read lately for which no time was taken from clients.
    pub(crate) free: Recent,
    /// The arrival of the last request with a deadline.
    pub(crate) deadline_at: Option<Instant>,
    /// The time since which requests of clients have been waiting without a break; in the future if
    /// all of them are throttled until then.
    pub(crate) clients_since: Option<Instant>,
    /// The requests that go next, at most one on each arm.
    pub(crate) committed: SmallVec<[Committed; 1]>,
    /// The policy's choices for the place after all commands of an arm, at most one on each.
    pub(crate) ahead: SmallVec<[Ahead; 1]>,
    /// Timed reads of a characterization.
    pub(crate) timed: Option<TimedReads>,
    /// Requests chosen while scans had pending sectors, until they finish.
    pub(crate) predicted: Vec<ExpectedStart>,
}

/// So many requests of an arm are predicted at once: two at the drive, one chosen, and one for good
/// measure.
const PREDICTED: usize = 4;

impl Fill {
    /// Returns whether a scan or a job exists, or timed reads are requested.
    pub(crate) fn is_active(&self) -> bool {
        !self.scans.is_empty() || !self.jobs.is_empty() || self.timed.is_some()
    }

    /// Returns whether stretches without background work measure the impact: while there is any
    /// beside clients.
    pub(crate) fn measures_impact(&self) -> bool {
        let writes = || self.jobs.values().any(|job| job.write.is_some());
        let works = self.scans.has_pending() || self.timed.is_some() || writes();
        self.settings.controls > 0 && works
    }

    /// The first eligible job that a request waits for.
    pub(crate) fn urgent(&self) -> Option<Ticket> {
        self.jobs.iter().find(|(_, job)| job.urgent && job.may_go()).map(|(ticket, _)| *ticket)
    }

    /// The first eligible job that can wait: a write, or a retry unless all scans are paused.
    pub(crate) fn deferred(&self) -> Option<Ticket> {
        let reads = self.scans.any_reads();
        let may_go = |job: &Job| !job.urgent && job.may_go() && (reads || job.write.is_some());
        self.jobs.iter().find(|(_, job)| may_go(job)).map(|(ticket, _)| *ticket)
    }

    /// Delivers `claims`, as read by `command` or as lost.
    pub(crate) fn deliver(
        &mut self,
        claims: Vec<Claim>,
        command: CommandId,
        done: &Done,
        source: FillSource,
    ) {
        let outcome = done.outcome;
        for Claim { scan, extent } in claims {
            if !matches!(source, FillSource::Share | FillSource::BeforeWrite) {
                self.free.add(done.finished, extent.len);
            }
            match outcome {
                Outcome::Success => self.report.sectors[source as usize] += extent.len,
                Outcome::Failed(_) => self.report.failed += extent.len,
            }
            self.delivered.push_back(BackgroundRead { scan, command, extent, outcome, source });
        }
    }

    /// The next pending run of the most urgent scans from an address on, with other pending sectors
    /// close after it, at most `most` sectors; from the first address again if none follows. Up to
    /// `skip` other sectors are read through: that is shorter than another command.
    pub(crate) fn next_run(&self, from: Lba, most: Sectors, skip: Sectors) -> Option<Extent> {
        let scans = self.scans.first_priority()?;
        let mut extent =
            scans.next_from(from, most).or_else(|| scans.next_from(Lba::new(0), most))?;
        while extent.len < most {
            let Some(next) = scans.next_from(extent.end(), most - extent.len) else { break };
            let together = next.end() - extent.start;
            if next.start - extent.end() > skip || together > most {
                break;
            }
            extent.len = together;
        }
        Some(extent)
    }

    /// Of the next runs from an address on, as in [`Fill::next_run`], the one with the most pending
    /// sectors.
    pub(crate) fn fullest_run(&self, from: Lba, most: Sectors, skip: Sectors) -> Option<Extent> {
        let scans = self.scans.first_priority()?;
        let mut best: Option<(u64, Extent)> = None;
        let mut at = from;
        for _ in 0..CANDIDATES {
            let Some(run) =
                self.next_run(at, most, skip).filter(|run| run.start >= at || best.is_none())
            else {
                break;
            };
            let pending = scans.count_in(run);
            if best.is_none_or(|(most, _)| pending > most) {
                best = Some((pending, run));
            }
            if run.len >= most && pending >= most.get() {
                break;
            }
            at = run.end();
        }
        best.map(|(_, run)| run)
    }

    /// Returns whether time may be taken from clients although the scans are not near their end:
    /// they lately got little otherwise, compared with what the bound allows where the drive reads
    /// `media_rate` sectors per second, and no request had a deadline.
    pub(crate) fn needs_time(&mut self, now: Instant, media_rate: f64) -> bool {
        let bound = self.settings.max_impact;
        let no_deadline = self.deadline_at.is_none_or(|at| at + LATELY < now);
        let little = bound * media_rate * LITTLE;
        no_deadline && bound.is_finite() && self.free.per_second(now) < little
    }

    /// Records that `took` of the drive's time was taken from clients until `finished`, and sets
    /// when more may be taken.
    pub(crate) fn share_taken(&mut self, finished: Instant, took: Nanos) {
        let FillSettings { tail, tail_share, max_impact, .. } = self.settings;
        let at_the_end = self.scans.first_priority().is_none_or(|scans| scans.near_the_end(tail));
        let bound = if at_the_end { 0.0 } else { max_impact / (1.0 + max_impact) };
        let share = tail_share.max(bound).clamp(MIN_SHARE, 1.0);
        self.next_share_at =
            finished + Nanos::from_ns((took.as_ns() as f64 * (1.0 / share - 1.0)) as u64);
    }

    /// Records the predicted start of a request. Requests that never finished (cancelled, or sent
    /// in another way) are dropped, the oldest first.
    pub(crate) fn predict(&mut self, predicted: ExpectedStart) {
        self.predicted.retain(|other| other.ticket != predicted.ticket);
        let mut same =
            (0..self.predicted.len()).filter(|place| self.predicted[*place].arm == predicted.arm);
        if let (Some(oldest), Some(_)) = (same.next(), same.nth(PREDICTED - 2)) {
            self.predicted.remove(oldest);
        }
        self.predicted.push(predicted);
    }

    /// Records the use of the gap before a request.
    pub(crate) fn mark(&mut self, ticket: Ticket, used: GapUse) {
        let of = |predicted: &&mut ExpectedStart| predicted.ticket == ticket;
        self.predicted.iter_mut().filter(of).for_each(|predicted| predicted.used = Some(used));
    }

    /// The assumed maximum delay of the arm.
    pub(crate) fn conservatism(&self, spread: Nanos) -> Nanos {
        self.settings.conservatism.unwrap_or_else(|| (spread * 4).max(MIN_CONSERVATISM))
    }

    /// Checks scans and jobs.
    ///
    /// # Panics
    /// When they do not agree: a fault of this module.
    pub(crate) fn self_check(&self) {
        self.scans.self_check(self.jobs.values().flat_map(|job| job.claims.iter()));
        for (ticket, job) in &self.jobs {
            assert!(!job.is_over(), "background job {} is over and still there", ticket.0);
            let inside = |extent: Extent| job.extent.intersection(extent) == Some(extent);
            assert!(
                job.pieces.iter().all(|piece| inside(*piece)),
                "background job {} would read outside of its extent",
                ticket.0
            );
        }
    }
}

/// The number of sectors read lately and the time in which they were read, older ones with less
/// weight.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Recent {
    sectors: f64,
    seconds: f64,
    until: Option<Instant>,
}

impl Recent {
    fn add(&mut self, at: Instant, sectors: Sectors) {
        self.advance(at);
        self.sectors += sectors.get() as f64;
    }

    /// The mean rate; infinite or not a number before any time has passed.
    fn per_second(&mut self, now: Instant) -> f64 {
        self.advance(now);
        self.sectors / self.seconds
    }

    fn advance(&mut self, now: Instant) {
        let since = self.until.replace(now).map_or(Nanos::ZERO, |at| now.saturating_since(at));
        let kept = libm::exp(-since.as_secs_f64() / LATELY.as_secs_f64());
        self.sectors *= kept;
        self.seconds = self.seconds * kept + (1.0 - kept) * LATELY.as_secs_f64();
    }
}

/// The time over which the rate of reads is averaged, and in which a request with a deadline is
/// followed by others (guess: several times what the bound takes to save up a read).
const LATELY: Nanos = Nanos::from_secs(30);

/// The share of what the bound allows to take below which scans get little (measured on
/// `nearline-20tb`: the way there and back leaves 60 % of that, 20 % where clients think, and it
/// costs gaps).
const LITTLE: f64 = 0.25;

/// The number of runs compared when time is taken from clients, each after the previous one (guess:
/// they lie within a seek of each other, which costs less than a revolution).
const CANDIDATES: usize = 16;

/// The minimum share of the drive's time, so that a command of one revolution is followed by
/// another within minutes.
const MIN_SHARE: f64 = 1e-4;

/// The minimum margin, however exact the drive model is (guess: a tenth of what P2 set by hand is
/// lost in the sector's own margin).
const MIN_CONSERVATISM: Nanos = Nanos::from_us(100);
