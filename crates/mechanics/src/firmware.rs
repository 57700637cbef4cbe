//! [`FirmwareQueue`]: the drive's own queue, and how firmware chooses from it.
//!
//! A command waits here from its arrival until the media work on it starts. FCFS takes the first that arrived; SPTF takes the one with the shortest
//! positioning time from where the head is now, the first that arrived among equals.
//!
//! - Modelled: a bounded queue, FCFS, SPTF with exact knowledge of the mechanism, commands that are not ready yet.
//! - Not modelled: ageing, priorities and command duration limits, the starvation of random reads behind sequential streams, caches, zero latency,
//!   a write's data still on the bus when it is chosen.
//! - Differs from a drive: firmware knows its mechanics less than exactly and decides ahead of the head; here it decides at once when the head is free.
//!
//! Overlapping commands: a drive may serve the commands it holds in any order, so the scheduler never sends one that overlaps another
//! outstanding one with a write among them. The queue does not look for overlaps.
//!
//! Cost: SPTF computes one positioning per waiting command and choice.

use alloc::vec::Vec;

use headtime_units::{Extent, Instant};

use crate::mechanism::Mechanism;
use crate::place::{Direction, HeadPosition};
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
}

impl FirmwareQueue {
    /// An empty queue of the profile's depth and algorithm.
    #[must_use]
    pub fn new(firmware: &Firmware) -> Self {
        Self { algorithm: firmware.algorithm, depth: firmware.queue_depth, waiting: Vec::new() }
    }

    /// Takes a command in, as the last.
    ///
    /// # Errors
    /// [`QueueFull`] when as many wait as the queue is deep. The command in service is no longer here: whoever counts it against the depth, as
    /// drives do, must hold one back.
    pub fn push(&mut self, command: FirmwareCommand) -> Result<(), QueueFull> {
        if self.waiting.len() >= self.depth as usize {
            return Err(QueueFull { command, depth: self.depth });
        }
        self.waiting.push(command);
        Ok(())
    }

    /// The place in the queue of the command to serve next, with the head at `head` and free at `now`; `None` when none is ready. FCFS
    /// waits for the first even when a later one is ready.
    #[must_use]
    pub fn choose<V: Variation>(&self, now: Instant, head: HeadPosition, mechanism: &Mechanism<V>) -> Option<usize> {
        match self.algorithm {
            Algorithm::Fcfs => self.waiting.first().filter(|first| first.ready_at <= now).map(|_| 0),
            Algorithm::Sptf => {
                let ready = self.waiting.iter().enumerate().filter(|(_, command)| command.ready_at <= now);
                let timed = ready.map(|(place, command)| (mechanism.positioning(head, now, command.op, command.extent.start).total(), place));
                // The place breaks ties, and places follow arrival.
                timed.min().map(|(_, place)| place)
            }
        }
    }

    /// When [`FirmwareQueue::choose`] has an answer at the earliest; `None` when the queue is empty.
    #[must_use]
    pub fn next_ready_at(&self) -> Option<Instant> {
        match self.algorithm {
            Algorithm::Fcfs => self.waiting.first().map(|first| first.ready_at),
            Algorithm::Sptf => self.waiting.iter().map(|command| command.ready_at).min(),
        }
    }

    /// Takes the command at a place of the queue out; the others keep their order.
    ///
    /// # Panics
    /// When the queue has no such place.
    pub fn take(&mut self, place: usize) -> FirmwareCommand {
        self.waiting.remove(place)
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

#[cfg(test)]
mod tests {
    use rand::RngExt;
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::SeedableRng;

    use super::*;
    use crate::{catalog, draw};

    fn command(id: u64, lba: u64, ready_ns: u64) -> FirmwareCommand {
        FirmwareCommand { id, op: Direction::Read, extent: Extent::from_numbers(lba, 1), ready_at: Instant::from_ns(ready_ns) }
    }

    fn queue(algorithm: Algorithm, queue_depth: u32) -> FirmwareQueue {
        FirmwareQueue::new(&Firmware { queue_depth, algorithm })
    }

    #[test]
    fn a_full_queue_gives_the_command_back() {
        let mut queue = queue(Algorithm::Fcfs, 2);
        assert_eq!((queue.push(command(1, 0, 0)), queue.push(command(2, 8, 0))), (Ok(()), Ok(())));
        let refused = queue.push(command(3, 16, 0)).expect_err("two are as many as it holds");
        assert_eq!(refused, QueueFull { command: command(3, 16, 0), depth: 2 });
        queue.take(0);
        assert_eq!(queue.push(command(3, 16, 0)), Ok(()));
    }

    #[test]
    fn fcfs_waits_for_the_first_even_when_a_later_one_is_ready() {
        let mechanism = Mechanism::nominal(&catalog::load("atlas10k").expect("a shipped profile is valid")).expect("it is valid");
        let mut queue = queue(Algorithm::Fcfs, 4);
        queue.push(command(1, 0, 500)).expect("there is room");
        queue.push(command(2, 8, 100)).expect("there is room");
        assert_eq!(queue.choose(Instant::from_ns(499), HeadPosition::PARKED, &mechanism), None);
        assert_eq!(queue.next_ready_at(), Some(Instant::from_ns(500)));
        assert_eq!(queue.choose(Instant::from_ns(500), HeadPosition::PARKED, &mechanism), Some(0));
    }

    #[test]
    fn sptf_takes_the_shortest_positioning_of_the_ready_ones_and_the_first_of_equals() {
        for seed in 0..200 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let mechanism = Mechanism::nominal(&draw::random_profile(&mut rng)).expect("a drawn profile is valid");
            let layout = mechanism.layout();
            let mut queue = queue(Algorithm::Sptf, 64);
            let (mut now, mut head) = (Instant::ORIGIN, HeadPosition::PARKED);
            for step in 0..100 {
                while rng.random_bool(0.7) {
                    // Few addresses, so that some commands are equals.
                    let lba = rng.random_range(0..layout.capacity().get().min(9));
                    let _ = queue.push(command(step, lba, now.as_ns() + rng.random_range(0..30_000_000)));
                }
                let ready: Vec<(usize, _)> = queue.waiting().iter().enumerate().filter(|(_, waiting)| waiting.ready_at <= now).collect();
                let time = |waiting: &FirmwareCommand| mechanism.positioning(head, now, waiting.op, waiting.extent.start).total();
                let best = ready.iter().map(|(_, waiting)| time(waiting)).min();
                let expected = ready.iter().find(|(_, waiting)| Some(time(waiting)) == best).map(|(place, _)| *place);
                let chosen = queue.choose(now, head, &mechanism);
                assert_eq!(chosen, expected, "seed {seed}, step {step}");
                assert_eq!(chosen.is_some(), queue.next_ready_at().is_some_and(|at| at <= now), "seed {seed}, step {step}");
                if let Some(place) = chosen {
                    let taken = queue.take(place);
                    let access = mechanism.access(head, now, taken.op, taken.extent, Instant::ORIGIN);
                    (head, now) = (access.end, access.finish);
                } else if let Some(at) = queue.next_ready_at() {
                    now = at;
                }
            }
        }
    }
}
