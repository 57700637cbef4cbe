//! The measurements that a probe requests, and their results: [`Measurement`], [`TimedCommand`].
//!
//! The *driver* carries them out: it issues the commands to a real, emulated or simulated drive,
//! and reports the times at which each command was issued and completed.

use headtime_units::{Extent, Instant, Nanos, Sectors};
use serde::{Deserialize, Serialize};

/// The next thing for the driver to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Measurement {
    /// Read these sectors with no other command outstanding, then call
    /// [`Probe::completed`](crate::Probe::completed). The data read is not used. Issue the read as
    /// soon as the previous one has completed: the state of the drive between two reads is part of
    /// the measurement.
    Read {
        /// The sectors to read.
        extent: Extent,
        /// The earliest time to issue it; [`Instant::ORIGIN`] means at once.
        not_before: Instant,
        /// The relation of the next read to this one.
        next: NextRead,
    },
    /// Read some sectors and write the same bytes back, then call
    /// [`Probe::batch_completed`](crate::Probe::batch_completed). Requested only if
    /// [`ProbeSettings::allow_writes`](crate::ProbeSettings::allow_writes) is set.
    Rewrite(Rewrite),
    /// Read many extents with several reads outstanding, then call
    /// [`Probe::batch_completed`](crate::Probe::batch_completed).
    Concurrent(ConcurrentReads),
}

/// The relation of a read to the one that is requested after it. It matters only to a driver that
/// also carries out commands of others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum NextRead {
    /// Commands of others may come between the two.
    #[default]
    Independent,
    /// The next read starts from the state of the drive after this one, so that commands of others
    /// between the two make both useless.
    Follows,
}

/// A write that changes nothing.
///
/// The driver reads `extent` and keeps its bytes. If there is a `via`, it reads that next. Then it
/// writes the kept bytes back to `extent` at once. One command is outstanding at a time. The
/// contents of the drive are the same before and after, even after an interruption, as long as
/// nothing else writes to `extent` meanwhile: a driver needs exclusive access to the drive (an
/// unmounted device, opened exclusively).
///
/// There are two or three results, in the order of the commands. A command that fails is the last
/// one; after a failed read nothing is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rewrite {
    /// The sectors to read, keep and write back.
    pub extent: Extent,
    /// Sectors to read between the two, so that the arm starts from there.
    pub via: Option<Extent>,
    /// The write must be on the media before it completes (force unit access). A driver that
    /// cannot request this reports the write as failed without issuing it.
    pub fua: bool,
}

/// Reads with several outstanding.
///
/// The driver issues the first reads of each lane in the order of its list, up to the lane's
/// `outstanding`. Whenever a read of a lane completes, the driver issues the next read of that
/// lane. Once all reads of the *first* lane have completed, or `time_limit` has passed since the
/// first issue, it issues nothing more and waits for the outstanding reads. The results are all
/// reads that were issued, in order of completion.
///
/// The outstanding reads of all lanes together never exceed
/// [`ProbeSettings::max_outstanding`](crate::ProbeSettings::max_outstanding).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConcurrentReads {
    /// Lists of reads that run concurrently.
    pub lanes: Vec<Lane>,
    /// The time after which no more reads are issued.
    pub time_limit: Nanos,
}

/// A list of reads with a fixed number outstanding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lane {
    /// The reads, in order of issue.
    pub extents: Vec<Extent>,
    /// The number of reads outstanding at a time, at least one.
    pub outstanding: u32,
}

impl Measurement {
    /// The measurement with all its addresses moved up.
    #[must_use]
    pub(crate) fn moved_up(mut self, sectors: Sectors) -> Self {
        let up = |extent: &mut Extent| extent.start = extent.start + sectors;
        match &mut self {
            Self::Read { extent, .. } => up(extent),
            Self::Rewrite(rewrite) => {
                up(&mut rewrite.extent);
                rewrite.via.as_mut().map(up);
            }
            Self::Concurrent(reads) => {
                reads.lanes.iter_mut().flat_map(|lane| &mut lane.extents).for_each(up);
            }
        }
        self
    }
}

/// The end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CommandOutcome {
    /// The drive transferred the sectors.
    Done,
    /// The drive reported an error, or did not command in time.
    Failed,
}

/// A finished command with its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimedCommand {
    /// The sectors read or written.
    pub extent: Extent,
    /// The time at which it was issued to the drive.
    pub issued: Instant,
    /// The time at which its completion was seen.
    pub completed: Instant,
    /// Its end.
    pub outcome: CommandOutcome,
    /// The number of commands of others that the drive carried out since the previous command of
    /// the characterization. They moved the arm, and each may have taken a segment of the cache.
    /// None was at the drive together with this command.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub others: u32,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(others: &u32) -> bool {
    *others == 0
}

impl TimedCommand {
    /// The time from issue to completion.
    #[must_use]
    pub fn response(&self) -> Nanos {
        self.completed.saturating_since(self.issued)
    }

    /// True if the drive carried it out.
    #[must_use]
    pub fn succeeded(&self) -> bool {
        self.outcome == CommandOutcome::Done
    }

    /// True if the drive carried it out and did nothing for others since the command before.
    #[must_use]
    pub fn follows_undisturbed(&self) -> bool {
        self.succeeded() && self.others == 0
    }
}
