//! [`CommandBatch`]: the commands of one [`Measurement`], in the order in which to issue them.
//!
//! A driver asks for the next command, issues it, and reports its completion. The order of
//! commands, the lanes and the time limit are kept here, so that real, emulated and simulated
//! drivers behave alike.
//!
//! ```
//! use headtime_probe::{CommandOutcome, Probe, ProbeSettings};
//! use headtime_units::{Instant, Nanos, SectorSize, Sectors};
//!
//! let settings = ProbeSettings::for_drive(Sectors::new(1 << 30), SectorSize::B512, 1);
//! let mut probe = Probe::new(settings);
//! let mut now = Instant::ORIGIN;
//! while let Some(mut batch) = probe.next_batch() {
//!     while !batch.is_over() {
//!         now = now.max(batch.not_before());
//!         // A device that carries out one command at a time, in 80 us each.
//!         let Some(command) = batch.next(now) else { break };
//!         batch.completed(command.id, now + Nanos::from_us(80), CommandOutcome::Done);
//!         now += Nanos::from_us(80);
//!     }
//!     probe.batch_completed(batch.into_results());
//! }
//! assert!(probe.finding().profile.is_none());
//! ```

use headtime_units::{Extent, Instant, Nanos};

use crate::measurement::{CommandOutcome, Measurement, Rewrite, TimedCommand};

/// The operation of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandKind {
    /// A read; the data is not used.
    Read,
    /// A read whose bytes the driver keeps until the end of the batch.
    ReadAndKeep,
    /// A write of the kept bytes to the same sectors.
    WriteBack {
        /// The bytes must be on the media before the write completes.
        fua: bool,
    },
}

/// A command to issue now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchCommand {
    /// Its number in the batch, for [`CommandBatch::completed`].
    pub id: usize,
    /// Its operation.
    pub kind: CommandKind,
    /// Its sectors.
    pub extent: Extent,
}

/// The commands of one measurement.
#[derive(Clone, Debug)]
pub struct CommandBatch {
    not_before: Instant,
    time_limit: Nanos,
    began: Option<Instant>,
    stopped: bool,
    lanes: Vec<LaneProgress>,
    issued: Vec<Issued>,
    results: Vec<TimedCommand>,
}

#[derive(Clone, Debug)]
struct LaneProgress {
    commands: Vec<(CommandKind, Extent)>,
    max_outstanding: usize,
    outstanding: usize,
    next: usize,
}

#[derive(Clone, Copy, Debug)]
struct Issued {
    lane: usize,
    extent: Extent,
    at: Instant,
    done: bool,
}

impl CommandBatch {
    /// The commands of a measurement.
    #[must_use]
    pub fn new(measurement: &Measurement) -> Self {
        let lane = |commands, max_outstanding| LaneProgress {
            commands,
            max_outstanding,
            outstanding: 0,
            next: 0,
        };
        let mut batch = Self {
            not_before: Instant::ORIGIN,
            time_limit: Nanos::MAX,
            began: None,
            stopped: false,
            lanes: Vec::new(),
            issued: Vec::new(),
            results: Vec::new(),
        };
        match measurement {
            Measurement::Read { extent, not_before, next: _ } => {
                batch.not_before = *not_before;
                batch.lanes.push(lane(vec![(CommandKind::Read, *extent)], 1));
            }
            Measurement::Rewrite(Rewrite { extent, via, fua }) => {
                let mut commands = vec![(CommandKind::ReadAndKeep, *extent)];
                commands.extend(via.map(|via| (CommandKind::Read, via)));
                commands.push((CommandKind::WriteBack { fua: *fua }, *extent));
                batch.lanes.push(lane(commands, 1));
            }
            Measurement::Concurrent(reads) => {
                batch.time_limit = reads.time_limit;
                batch.lanes.extend(reads.lanes.iter().map(|reads| {
                    let commands = reads.extents.iter().map(|extent| (CommandKind::Read, *extent));
                    lane(commands.collect(), reads.outstanding.max(1) as usize)
                }));
            }
        }
        batch
    }

    /// The earliest time to issue the first command; [`Instant::ORIGIN`] means at once.
    #[must_use]
    pub fn not_before(&self) -> Instant {
        self.not_before
    }

    /// Returns a command to issue at `now`, if any. Call it until it returns `None`. The returned
    /// command counts as issued at `now`.
    pub fn next(&mut self, now: Instant) -> Option<BatchCommand> {
        if now < self.not_before || self.stopped {
            return None;
        }
        let began = *self.began.get_or_insert(now);
        if now.saturating_since(began) >= self.time_limit && !self.issued.is_empty() {
            self.stopped = true;
            return None;
        }
        let number = self.lanes.iter().position(|lane| {
            lane.outstanding < lane.max_outstanding && lane.next < lane.commands.len()
        })?;
        let lane = &mut self.lanes[number];
        let (kind, extent) = lane.commands[lane.next];
        lane.next += 1;
        lane.outstanding += 1;
        self.issued.push(Issued { lane: number, extent, at: now, done: false });
        Some(BatchCommand { id: self.issued.len() - 1, kind, extent })
    }

    /// Corrects the time at which a command was issued to the drive.
    ///
    /// # Panics
    /// When no such command was issued.
    pub fn issued_at(&mut self, id: usize, at: Instant) {
        self.issued[id].at = at;
    }

    /// Records the completion of a command.
    ///
    /// # Panics
    /// When no such command is outstanding, or it completed before it was issued.
    pub fn completed(&mut self, id: usize, at: Instant, outcome: CommandOutcome) {
        let issued = &mut self.issued[id];
        assert!(
            !issued.done && at >= issued.at,
            "command {id}, issued at {}, completed at {at}, done before: {}",
            issued.at,
            issued.done
        );
        issued.done = true;
        self.results.push(TimedCommand {
            extent: issued.extent,
            issued: issued.at,
            completed: at,
            outcome,
            others: 0,
        });
        let (number, lane) = (issued.lane, &mut self.lanes[issued.lane]);
        lane.outstanding -= 1;
        let lane_over = lane.outstanding == 0 && lane.next == lane.commands.len();
        // After a failed read nothing is written back.
        let keeps = lane.commands.iter().any(|(kind, _)| *kind == CommandKind::ReadAndKeep);
        self.stopped |= (number == 0 && lane_over) || (keeps && outcome == CommandOutcome::Failed);
    }

    /// True if nothing is outstanding and nothing more will be issued. A time limit takes effect
    /// at the first call of [`CommandBatch::next`] after it.
    #[must_use]
    pub fn is_over(&self) -> bool {
        let outstanding = self.lanes.iter().any(|lane| lane.outstanding > 0);
        !outstanding
            && (self.stopped || self.lanes.iter().all(|lane| lane.next == lane.commands.len()))
    }

    /// The results in order of completion, for
    /// [`Probe::batch_completed`](crate::Probe::batch_completed).
    #[must_use]
    pub fn into_results(self) -> Vec<TimedCommand> {
        self.results
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measurement::{ConcurrentReads, Lane, NextRead};

    fn at(us: u64) -> Instant {
        Instant::ORIGIN + Nanos::from_us(us)
    }

    fn extents(from: u64, count: u64) -> Vec<Extent> {
        (from..from + count).map(|lba| Extent::from_numbers(lba, 1)).collect()
    }

    #[test]
    fn a_read_is_not_issued_before_its_time() {
        let extent = Extent::from_numbers(7, 1);
        let mut batch = CommandBatch::new(&Measurement::Read {
            extent,
            not_before: at(10),
            next: NextRead::Independent,
        });
        assert_eq!(batch.next(at(9)), None);
        assert_eq!(
            batch.next(at(11)),
            Some(BatchCommand { id: 0, kind: CommandKind::Read, extent })
        );
        assert!(batch.next(at(11)).is_none() && !batch.is_over());
        batch.completed(0, at(20), CommandOutcome::Done);
        assert!(batch.is_over());
        assert_eq!(
            batch.into_results(),
            [TimedCommand {
                extent,
                issued: at(11),
                completed: at(20),
                outcome: CommandOutcome::Done,
                others: 0
            }]
        );
    }

    #[test]
    fn a_rewrite_writes_last_and_nothing_after_a_failed_read() {
        let (extent, via) = (Extent::from_numbers(7, 8), Extent::from_numbers(900, 1));
        let measurement = Measurement::Rewrite(Rewrite { extent, via: Some(via), fua: true });
        let mut batch = CommandBatch::new(&measurement);
        for (id, (kind, of)) in [
            (CommandKind::ReadAndKeep, extent),
            (CommandKind::Read, via),
            (CommandKind::WriteBack { fua: true }, extent),
        ]
        .into_iter()
        .enumerate()
        {
            assert_eq!(batch.next(at(id as u64)), Some(BatchCommand { id, kind, extent: of }));
            assert_eq!(batch.next(at(id as u64)), None, "one at a time");
            batch.completed(id, at(id as u64), CommandOutcome::Done);
        }
        assert!(batch.is_over());
        for failing in 0..2 {
            let mut batch = CommandBatch::new(&measurement);
            for id in 0..=failing {
                assert_eq!(batch.next(at(0)).map(|issue| issue.id), Some(id));
                batch.completed(
                    id,
                    at(1),
                    if id == failing { CommandOutcome::Failed } else { CommandOutcome::Done },
                );
            }
            assert!(batch.is_over() && batch.next(at(2)).is_none(), "failing {failing}");
        }
    }

    #[test]
    fn lanes_keep_their_reads_outstanding_until_the_first_lane_is_done() {
        let lanes = vec![
            Lane { extents: extents(100, 2), outstanding: 1 },
            Lane { extents: extents(0, 50), outstanding: 3 },
        ];
        let mut batch = CommandBatch::new(&Measurement::Concurrent(ConcurrentReads {
            lanes,
            time_limit: Nanos::from_secs(1),
        }));
        let begun: Vec<u64> = core::iter::from_fn(|| batch.next(at(0)))
            .map(|issue| issue.extent.start.get())
            .collect();
        assert_eq!(begun, [100, 0, 1, 2]);
        batch.completed(1, at(1), CommandOutcome::Done);
        assert_eq!(batch.next(at(1)).map(|issue| issue.extent.start.get()), Some(3));
        batch.completed(0, at(2), CommandOutcome::Done);
        let second = batch.next(at(2)).unwrap();
        assert_eq!(second.extent.start.get(), 101);
        batch.completed(second.id, at(3), CommandOutcome::Done);
        // The first lane is done: outstanding reads are awaited, nothing more is issued.
        assert!(batch.next(at(3)).is_none() && !batch.is_over());
        for id in [2, 3, 4] {
            batch.completed(id, at(9), CommandOutcome::Done);
        }
        assert!(batch.is_over());
        assert_eq!(batch.into_results().len(), 6);
    }

    #[test]
    fn nothing_is_issued_after_the_time_limit() {
        let lanes = vec![Lane { extents: extents(0, 50), outstanding: 2 }];
        let mut batch = CommandBatch::new(&Measurement::Concurrent(ConcurrentReads {
            lanes,
            time_limit: Nanos::from_us(10),
        }));
        (0..2).for_each(|id| assert_eq!(batch.next(at(0)).map(|issue| issue.id), Some(id)));
        batch.completed(0, at(10), CommandOutcome::Done);
        assert!(batch.next(at(10)).is_none());
        batch.completed(1, at(11), CommandOutcome::Failed);
        assert!(batch.is_over());
    }
}
