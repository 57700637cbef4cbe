//! [`FirmwareQueue`]: the drive's own queue and its scheduling.
//!
//! A command waits here from its arrival until its media access starts. FCFS takes the first that
//! arrived; SPTF takes the one with the shortest positioning time from the current head position,
//! the first of equals.
//!
//! *Sequential hold*, an option ([`Firmware::sequential_hold_ms`]): a command that starts where the
//! previous one ended goes first, whatever else waits. When such a run has delayed other commands
//! for the length of the hold, one of those goes. Example, a hold of 1 s: a stream four commands
//! deep beside single random reads. The stream's next command is always queued, so a random read
//! that came 1 ms after the start of the run waits 1 s; then the best other command goes, and the
//! stream must win a choice before its next run. Without a hold, FCFS starves no command.
//!
//! *Ageing*, an option ([`Firmware::max_wait_ms`]): SPTF ignores age, so commands near the head may
//! starve others without limit. With ageing, a command that has been ready for longer goes first,
//! the oldest of several. Example, 2 s: beside an endless stream, each random read is served after
//! 2 s at the latest, plus the service of those that waited longer.
//!
//! - Modelled: a bounded queue, FCFS, SPTF with exact knowledge of the mechanism, commands that are
//!   not ready yet, the starvation of random reads beside a sequential stream that users report.
//! - Not modelled: priorities and command duration limits, a write's data still on the bus when it
//!   is chosen.
//! - Differs from a drive: real firmware knows its mechanics less exactly and decides ahead; this
//!   queue decides when the head is free.
//!
//! Overlapping commands: a drive may serve its commands in any order, so the scheduler never sends
//! a command that overlaps an outstanding one with a write among them. The queue does not check for
//! overlaps.
//!
//! Cost: SPTF looks up the position of each command once; a choice compares each command's minimum
//! arm time with the best so far (some 4 ns) and computes the positioning of those that could win
//! (some 12 ns).

use alloc::vec::Vec;

use headtime_units::{Extent, Instant, Lba, Nanos};

use crate::mechanism::Mechanism;
use crate::place::{Direction, HeadPosition, Spot};
use crate::profile::{Algorithm, Firmware};
use crate::variation::Variation;

/// A command in the drive's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirmwareCommand {
    /// The host's identifier.
    pub id: u64,
    /// The direction of transfer.
    pub op: Direction,
    /// The sectors; at least one.
    pub extent: Extent,
    /// The earliest start of its media access.
    pub ready_at: Instant,
}

/// The queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the drive holds {depth} commands, as many as its queue is deep; send command {id} after a \
        completion",
    id = command.id
)]
pub struct QueueFull {
    /// The command that was refused.
    pub command: FirmwareCommand,
    /// The queue's depth.
    pub depth: u32,
}

/// Commands in order of arrival, at most `depth`.
#[derive(Clone, Debug)]
pub struct FirmwareQueue {
    algorithm: Algorithm,
    depth: u32,
    waiting: Vec<FirmwareCommand>,
    /// The start of each waiting command, once looked up; only used by SPTF.
    spots: Vec<Option<Spot>>,
    hold: Option<Hold>,
    /// Time after which a ready command goes first.
    max_wait: Option<Nanos>,
}

/// The current sequential run.
#[derive(Clone, Copy, Debug)]
struct Hold {
    longest: Nanos,
    /// The end of the last command served.
    end: Option<Lba>,
    /// The time since which the run has delayed other commands.
    since: Option<Instant>,
}

impl FirmwareQueue {
    /// An empty queue of the profile's depth and algorithm.
    #[must_use]
    pub fn new(firmware: &Firmware) -> Self {
        // Validated times are finite and not negative, so the conversion cannot fail.
        let time = |ms| Nanos::from_ms_f64(ms).unwrap_or(Nanos::ZERO);
        let hold = |ms| Hold { longest: time(ms), end: None, since: None };
        Self {
            algorithm: firmware.algorithm,
            depth: firmware.queue_depth,
            waiting: Vec::new(),
            spots: Vec::new(),
            hold: firmware.sequential_hold_ms.map(hold),
            max_wait: firmware.max_wait_ms.map(time),
        }
    }

    /// Adds a command at the end.
    ///
    /// # Errors
    /// [`QueueFull`] if the queue holds `depth` commands. The command in service is not in the
    /// queue: a caller that counts it must reserve a slot.
    pub fn push(&mut self, command: FirmwareCommand) -> Result<(), QueueFull> {
        if self.waiting.len() >= self.depth as usize {
            return Err(QueueFull { command, depth: self.depth });
        }
        self.waiting.push(command);
        if self.algorithm == Algorithm::Sptf {
            self.spots.push(None);
        }
        Ok(())
    }

    /// The index of the next command to serve, with the head at `head` and free at `now`; `None` if
    /// none is ready. FCFS waits for the first command even if a later one is ready, unless that
    /// one continues a held sequential run.
    #[must_use]
    pub fn choose<V: Variation>(
        &mut self,
        now: Instant,
        head: HeadPosition,
        mechanism: &Mechanism<V>,
    ) -> Option<usize> {
        if let Some(place) = self.overdue(now) {
            return Some(place);
        }
        let continuing = self.continuing(now);
        if let Some(place) = continuing
            && !self.hold_is_over(now)
        {
            return Some(place);
        }
        let chosen = match self.algorithm {
            Algorithm::Fcfs => {
                let others =
                    self.waiting.iter().enumerate().find(|(place, _)| Some(*place) != continuing);
                others.filter(|(_, first)| first.ready_at <= now).map(|(place, _)| place)
            }
            Algorithm::Sptf => self.shortest(now, head, mechanism, continuing),
        };
        // The hold has ended, but no other command is ready.
        chosen.or(continuing)
    }

    fn shortest<V: Variation>(
        &mut self,
        now: Instant,
        head: HeadPosition,
        mechanism: &Mechanism<V>,
        but: Option<usize>,
    ) -> Option<usize> {
        let mut best: Option<(Nanos, usize)> = None;
        for (place, (command, spot)) in self.waiting.iter().zip(&mut self.spots).enumerate() {
            if command.ready_at > now || Some(place) == but {
                continue;
            }
            let spot = spot.get_or_insert_with(|| mechanism.spot(command.extent.start));
            if let Some((min_time, _)) = best {
                // The first of equals stays, in order of arrival.
                let distance = head.cylinder.abs_diff(spot.position.cylinder);
                if mechanism.arm_lower_bound(distance) >= min_time {
                    continue;
                }
            }
            let time = mechanism.positioning_to(head, now, command.op, spot).total();
            if best.is_none_or(|(min_time, _)| time < min_time) {
                best = Some((time, place));
            }
        }
        best.map(|(_, place)| place)
    }

    /// The command that has been ready longest, if for longer than the limit on waiting.
    #[must_use]
    pub fn overdue(&self, now: Instant) -> Option<usize> {
        let max_wait = self.max_wait?;
        let waits =
            self.waiting.iter().enumerate().map(|(place, command)| (command.ready_at, place));
        let (ready_at, place) = waits.min()?;
        (now.saturating_since(ready_at) >= max_wait && ready_at <= now).then_some(place)
    }

    /// The first ready command that continues the last one served, if there is a hold.
    fn continuing(&self, now: Instant) -> Option<usize> {
        let end = self.hold?.end?;
        self.waiting
            .iter()
            .position(|command| command.extent.start == end && command.ready_at <= now)
    }

    /// The length of the sequential hold.
    #[must_use]
    pub fn sequential_hold(&self) -> Option<Nanos> {
        self.hold.map(|hold| hold.longest)
    }

    /// The time since which the sequential run has delayed other commands.
    #[must_use]
    pub fn held_since(&self) -> Option<Instant> {
        self.hold.and_then(|hold| hold.since)
    }

    /// True if the sequential run has delayed other commands for the length of the hold.
    #[must_use]
    pub fn hold_is_over(&self, now: Instant) -> bool {
        self.hold.is_some_and(|hold| {
            hold.since.is_some_and(|since| now.saturating_since(since) >= hold.longest)
        })
    }

    /// Records that a command over `extent` is served while others have `waited` since the given
    /// time; `continues` tells whether it continues the sequential run. For commands served without
    /// the queue; [`FirmwareQueue::serve`] calls it itself.
    pub fn note_served(&mut self, extent: Extent, continues: bool, waited: Option<Instant>) {
        if let Some(hold) = &mut self.hold {
            hold.since =
                if continues { hold.since.or(waited).filter(|_| waited.is_some()) } else { None };
            hold.end = Some(extent.end());
        }
    }

    /// The earliest time at which [`FirmwareQueue::choose`] returns a command; `None` if the queue
    /// is empty.
    #[must_use]
    pub fn next_ready_at(&self) -> Option<Instant> {
        match self.algorithm {
            Algorithm::Fcfs => {
                let first = self.waiting.first()?;
                let end = self.hold.and_then(|hold| hold.end);
                let continuing = self
                    .waiting
                    .iter()
                    .filter(|command| Some(command.extent.start) == end)
                    .map(|command| command.ready_at);
                // Without a hold no command continues another.
                Some(if end.is_none() {
                    first.ready_at
                } else {
                    continuing.fold(first.ready_at, Instant::min)
                })
            }
            Algorithm::Sptf => self.waiting.iter().map(|command| command.ready_at).min(),
        }
    }

    /// Removes the command at an index to serve it from `now` on; the others keep their order.
    ///
    /// # Panics
    /// If the queue has no such index.
    pub fn serve(&mut self, now: Instant, place: usize) -> FirmwareCommand {
        let command = self.take(place);
        if let Some(hold) = self.hold {
            let waited = self.waiting.iter().any(|other| other.ready_at <= now).then_some(now);
            self.note_served(command.extent, hold.end == Some(command.extent.start), waited);
        }
        command
    }

    /// Removes the command at an index; the others keep their order.
    ///
    /// # Panics
    /// If the queue has no such index.
    pub fn take(&mut self, place: usize) -> FirmwareCommand {
        if self.algorithm == Algorithm::Sptf {
            self.spots.remove(place);
        }
        self.waiting.remove(place)
    }

    /// Forgets cached positions after a change of the layout.
    pub fn forget_places(&mut self) {
        self.spots.fill(None);
    }

    /// The scheduling algorithm.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The waiting commands in order of arrival.
    #[must_use]
    pub fn waiting(&self) -> &[FirmwareCommand] {
        &self.waiting
    }
}
