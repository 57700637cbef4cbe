//! [`Fill`]: everything that the scheduler keeps for background reading, beside the queue of
//! clients.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;

use headtime_units::{Extent, Instant, Lba, Nanos, Sectors};

use super::governor::Governor;
use super::jobs::Job;
use super::scans::{Claim, Scans};
use super::search::SearchCounts;
use super::settings::FillSettings;
use crate::background::{BackgroundRead, FillReport, FillSource};
use crate::command::{CommandId, Outcome};
use crate::queue::Ticket;
use crate::scheduler::{Ahead, Committed, ExpectedStart};

/// Scans, jobs, and what they cost.
#[derive(Debug, Default)]
pub(crate) struct Fill {
    pub(crate) settings: FillSettings,
    pub(crate) scans: Scans,
    /// Everything that is being read or will be, by ticket.
    pub(crate) jobs: BTreeMap<Ticket, Job>,
    pub(crate) governor: Governor,
    pub(crate) report: FillReport,
    pub(crate) counts: SearchCounts,
    /// What was read and not taken yet.
    pub(crate) delivered: VecDeque<BackgroundRead>,
    /// Where idle reading goes on.
    pub(crate) cursor: Lba,
    /// Until when no time is taken from clients, after some was.
    pub(crate) next_share_at: Instant,
    /// Since when clients have waited for the drive without a break, or will from when on: who is
    /// at a limit waits for that.
    pub(crate) clients_since: Option<Instant>,
    /// The request that goes next.
    pub(crate) committed: Option<Committed>,
    /// What the policy has chosen to go behind all that is at the drive.
    pub(crate) ahead: Option<Ahead>,
    /// Requests chosen while scans want something, until they are over.
    pub(crate) predicted: Vec<ExpectedStart>,
}

/// So many requests are predicted at once: two at the drive, one chosen, and one for good measure.
const PREDICTED: usize = 4;

impl Fill {
    /// Whether there is anything to do or to keep in order.
    pub(crate) fn is_active(&self) -> bool {
        !self.scans.is_empty() || !self.jobs.is_empty()
    }

    /// The first job that somebody waits for and that has something to send.
    pub(crate) fn urgent(&self) -> Option<Ticket> {
        self.jobs.iter().find(|(_, job)| job.urgent && job.may_go()).map(|(ticket, _)| *ticket)
    }

    /// The first job that goes on when there is time for it.
    pub(crate) fn deferred(&self) -> Option<Ticket> {
        if !self.scans.any_reads() {
            return None;
        }
        self.jobs.iter().find(|(_, job)| !job.urgent && job.may_go()).map(|(ticket, _)| *ticket)
    }

    /// Hands `claims` over, as read by `command` or as lost.
    pub(crate) fn deliver(
        &mut self,
        claims: Vec<Claim>,
        command: CommandId,
        outcome: Outcome,
        source: FillSource,
    ) {
        for Claim { scan, extent } in claims {
            match outcome {
                Outcome::Success => self.report.sectors[source as usize] += extent.len,
                Outcome::Failed(_) => self.report.failed += extent.len,
            }
            self.delivered.push_back(BackgroundRead { scan, command, extent, outcome, source });
        }
    }

    /// What is wanted next from an address on, with what else is wanted close behind it, at most
    /// `most` sectors; from the first address again where there is nothing behind. Up to `skip`
    /// sectors that nobody wants are read over: that is shorter than another command.
    pub(crate) fn next_run(&self, from: Lba, most: Sectors, skip: Sectors) -> Option<Extent> {
        let mut extent =
            self.scans.next_from(from, most).or_else(|| self.scans.next_from(Lba::new(0), most))?;
        while extent.len < most {
            let Some(next) = self.scans.next_from(extent.end(), most - extent.len) else { break };
            let together = next.end() - extent.start;
            if next.start - extent.end() > skip || together > most {
                break;
            }
            extent.len = together;
        }
        Some(extent)
    }

    /// Of the next runs from an address on, each as [`Fill::next_run`] has them, the one of which
    /// the most is wanted.
    pub(crate) fn fullest_run(&self, from: Lba, most: Sectors, skip: Sectors) -> Option<Extent> {
        let mut best: Option<(u64, Extent)> = None;
        let mut at = from;
        for _ in 0..CANDIDATES {
            let Some(run) =
                self.next_run(at, most, skip).filter(|run| run.start >= at || best.is_none())
            else {
                break;
            };
            let wanted = self.scans.count_in(run);
            if best.is_none_or(|(most, _)| wanted > most) {
                best = Some((wanted, run));
            }
            if run.len >= most && wanted >= most.get() {
                break;
            }
            at = run.end();
        }
        best.map(|(_, run)| run)
    }

    /// Time of the drive was taken from clients, `took` until `finished`: when some may be taken
    /// again.
    pub(crate) fn share_taken(&mut self, finished: Instant, took: Nanos) {
        let share = self.settings.tail_share.clamp(MIN_SHARE, 1.0);
        self.next_share_at =
            finished + Nanos::from_ns((took.as_ns() as f64 * (1.0 / share - 1.0)) as u64);
    }

    /// Remembers when a request would be served. Those that never came to an end (cancelled, or
    /// sent in another way) are forgotten, the oldest first.
    pub(crate) fn predict(&mut self, predicted: ExpectedStart) {
        self.predicted.retain(|other| other.ticket != predicted.ticket);
        if self.predicted.len() == PREDICTED {
            self.predicted.remove(0);
        }
        self.predicted.push(predicted);
    }

    /// How far the arm may be late without harm.
    pub(crate) fn conservatism(&self, spread: Nanos) -> Nanos {
        self.settings.conservatism.unwrap_or_else(|| (spread * 4).max(MIN_CONSERVATISM))
    }

    /// Checks the books of this room.
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

/// Where time is taken from clients, so many places are compared, each behind the one before
/// (guess: they lie within a seek of each other, which costs less than a turn).
const CANDIDATES: usize = 16;

/// A share of the drive's time is at least this, so that a command of one turn is followed by
/// another within minutes.
const MIN_SHARE: f64 = 1e-4;

/// Below this nothing is trusted, however exact the belief says it is (guess: a tenth of what P2
/// set by hand is lost in the sector's own margin).
const MIN_CONSERVATISM: Nanos = Nanos::from_us(100);
