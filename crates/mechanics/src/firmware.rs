//! [`FirmwareQueue`]: the drive's own queue, and how firmware chooses from it.
//!
//! A command waits here from its arrival until the media work on it starts. FCFS takes the first
//! that arrived; SPTF takes the one with the shortest positioning time from where the head is now,
//! the first that arrived among equals.
//!
//! *Sequential hold*, an option ([`Firmware::sequential_hold_ms`]): a command that begins where the
//! one served before it ended goes first, whatever else waits; but once such a run has kept others
//! waiting for the hold's length, one of those others goes. Example, a hold of 1 s: a stream is
//! sent four commands deep beside single random reads. Whenever a command of the stream has been
//! served its successor waits already, so a random read that came 1 ms after the run began waits 1
//! s; then the best of the others goes, and the stream has to win a turn before its next run
//! begins. Without a hold the stream's commands are chosen like others, and FCFS lets nobody
//! starve; SPTF, which knows no age, lets a stream that is never without a waiting successor go on
//! for ever. A hold bounds that too.
//!
//! - Modelled: a bounded queue, FCFS, SPTF with exact knowledge of the mechanism, commands that are
//!   not ready yet, the starvation of random reads behind a sequential stream as users report it.
//! - Not modelled: ageing, priorities and command duration limits, a write's data still on the bus
//!   when it is chosen.
//! - Differs from a drive: firmware knows its mechanics less than exactly and decides ahead of the
//!   head; here it decides at once when the head is free.
//!
//! Overlapping commands: a drive may serve the commands it holds in any order, so the scheduler
//! never sends one that overlaps another outstanding one with a write among them. The queue does
//! not look for overlaps.
//!
//! Cost: SPTF looks places up once for each command; a choice compares each waiting command's least
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
    /// The host's name for it.
    pub id: u64,
    /// Which way the bytes go.
    pub op: Direction,
    /// The sectors; at least one.
    pub extent: Extent,
    /// When media work on it may start at the earliest.
    pub ready_at: Instant,
}

/// The queue is full; the command comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the drive holds {depth} commands, as many as its queue is deep; send command {id} after a completion", id = command.id)]
pub struct QueueFull {
    /// The command that was refused.
    pub command: FirmwareCommand,
    /// The queue's depth.
    pub depth: u32,
}

/// Commands in the order of their arrival, at most as many as the queue is deep.
#[derive(Clone, Debug)]
pub struct FirmwareQueue {
    algorithm: Algorithm,
    depth: u32,
    waiting: Vec<FirmwareCommand>,
    /// Where each waiting command starts, once that was asked; only kept for SPTF.
    spots: Vec<Option<Spot>>,
    hold: Option<Hold>,
}

/// What is known of the sequential run under way.
#[derive(Clone, Copy, Debug)]
struct Hold {
    longest: Nanos,
    /// Where the command served last ended.
    end: Option<Lba>,
    /// Since when the run has kept others waiting.
    since: Option<Instant>,
}

impl FirmwareQueue {
    /// An empty queue of the profile's depth and algorithm.
    #[must_use]
    pub fn new(firmware: &Firmware) -> Self {
        // Validated times are finite and not negative, so the conversion cannot fail.
        let hold = |ms| Hold {
            longest: Nanos::from_ms_f64(ms).unwrap_or(Nanos::ZERO),
            end: None,
            since: None,
        };
        Self {
            algorithm: firmware.algorithm,
            depth: firmware.queue_depth,
            waiting: Vec::new(),
            spots: Vec::new(),
            hold: firmware.sequential_hold_ms.map(hold),
        }
    }

    /// Takes a command in, as the last.
    ///
    /// # Errors
    /// [`QueueFull`] when as many wait as the queue is deep. The command in service is no longer
    /// here: whoever counts it against the depth, as drives do, must hold one back.
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

    /// The place in the queue of the command to serve next, with the head at `head` and free at
    /// `now`; `None` when none is ready. FCFS waits for the first even when a later one is ready,
    /// unless that one continues a sequential run that is held to.
    #[must_use]
    pub fn choose<V: Variation>(
        &mut self,
        now: Instant,
        head: HeadPosition,
        mechanism: &Mechanism<V>,
    ) -> Option<usize> {
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
        // The run went on for long enough, but nobody else is ready.
        chosen.or(continuing)
    }

    /// The positioning time of the command at a place, from `head` at `now`.
    ///
    /// # Panics
    /// When the queue has no such place.
    #[must_use]
    pub fn positioning<V: Variation>(
        &self,
        place: usize,
        now: Instant,
        head: HeadPosition,
        mechanism: &Mechanism<V>,
    ) -> Nanos {
        let command = &self.waiting[place];
        mechanism.positioning(head, now, command.op, command.extent.start).total()
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
            if let Some((least, _)) = best {
                // Of equals the first stays, and places follow arrival.
                let distance = head.cylinder.abs_diff(spot.position.cylinder);
                if mechanism.arm_lower_bound(distance) >= least {
                    continue;
                }
            }
            let time = mechanism.positioning_to(head, now, command.op, spot).total();
            if best.is_none_or(|(least, _)| time < least) {
                best = Some((time, place));
            }
        }
        best.map(|(_, place)| place)
    }

    /// The first ready command that begins where the last one served ended, where there is a hold.
    fn continuing(&self, now: Instant) -> Option<usize> {
        let end = self.hold?.end?;
        self.waiting
            .iter()
            .position(|command| command.extent.start == end && command.ready_at <= now)
    }

    /// For how long a sequential run goes before others.
    #[must_use]
    pub fn sequential_hold(&self) -> Option<Nanos> {
        self.hold.map(|hold| hold.longest)
    }

    /// Since when the sequential run under way has kept others waiting.
    #[must_use]
    pub fn held_since(&self) -> Option<Instant> {
        self.hold.and_then(|hold| hold.since)
    }

    /// Whether the sequential run under way has kept others waiting for as long as it may.
    #[must_use]
    pub fn hold_is_over(&self, now: Instant) -> bool {
        self.hold.is_some_and(|hold| {
            hold.since.is_some_and(|since| now.saturating_since(since) >= hold.longest)
        })
    }

    /// A command over `extent` is served that was `waited` for by others since the given time;
    /// `continues` the run under way, or begins another. For a drive that serves commands past its
    /// queue; [`FirmwareQueue::serve`] calls it itself.
    pub fn note_served(&mut self, extent: Extent, continues: bool, waited: Option<Instant>) {
        if let Some(hold) = &mut self.hold {
            hold.since =
                if continues { hold.since.or(waited).filter(|_| waited.is_some()) } else { None };
            hold.end = Some(extent.end());
        }
    }

    /// When [`FirmwareQueue::choose`] has an answer at the earliest; `None` when the queue is
    /// empty.
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
                // Where there is no hold nobody continues anything.
                Some(if end.is_none() {
                    first.ready_at
                } else {
                    continuing.fold(first.ready_at, Instant::min)
                })
            }
            Algorithm::Sptf => self.waiting.iter().map(|command| command.ready_at).min(),
        }
    }

    /// Takes the command at a place of the queue out to be served from `now` on; the others keep
    /// their order.
    ///
    /// # Panics
    /// When the queue has no such place.
    pub fn serve(&mut self, now: Instant, place: usize) -> FirmwareCommand {
        let command = self.take(place);
        if let Some(hold) = self.hold {
            let waited = self.waiting.iter().any(|other| other.ready_at <= now).then_some(now);
            self.note_served(command.extent, hold.end == Some(command.extent.start), waited);
        }
        command
    }

    /// Takes the command at a place of the queue out; the others keep their order.
    ///
    /// # Panics
    /// When the queue has no such place.
    pub fn take(&mut self, place: usize) -> FirmwareCommand {
        if self.algorithm == Algorithm::Sptf {
            self.spots.remove(place);
        }
        self.waiting.remove(place)
    }

    /// The drive's layout changed: places are looked up again.
    pub fn forget_places(&mut self) {
        self.spots.fill(None);
    }

    /// How firmware chooses.
    #[must_use]
    pub fn algorithm(&self) -> Algorithm {
        self.algorithm
    }

    /// The waiting commands in the order of their arrival.
    #[must_use]
    pub fn waiting(&self) -> &[FirmwareCommand] {
        &self.waiting
    }

    /// How many commands the queue holds at most.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.depth
    }
}
