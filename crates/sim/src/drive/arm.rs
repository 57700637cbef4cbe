//! [`DriveArm`]: one set of heads with its queue, and [`ActiveReadAhead`], the read-ahead that runs
//! while no command needs the arm.

use headtime_mechanics::cache::RowId;
use headtime_mechanics::{Direction, FirmwareQueue, HeadPosition, Mechanism};
use headtime_sched::Op;
use headtime_units::{Extent, Instant, Lba};

use crate::disk_time::Ledger;
use crate::truth::InstanceVariation;

/// One arm and the commands that wait for it. Its addresses count from its own first sector.
#[derive(Clone, Debug)]
pub(super) struct DriveArm {
    pub(super) queue: FirmwareQueue,
    /// The data of each waiting command that the queue does not hold, in queue order.
    pub(super) waiting: Vec<QueuedPart>,
    pub(super) head: HeadPosition,
    /// The end of the current access; read-ahead does not count.
    pub(super) head_free: Instant,
    pub(super) ahead: Option<ActiveReadAhead>,
    pub(super) saving: Option<Writeback>,
    /// True if written data go before the next waiting command: the two alternate.
    pub(super) write_next: bool,
    /// The time of the next choice.
    pub(super) next_choice: Instant,
    pub(super) ledger: Ledger,
}

/// A command, or the part of one, that waits for an arm.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueuedPart {
    pub(super) op: Op,
    /// All of its sectors. The queue holds the last ones only when the cache holds the first ones.
    pub(super) extent: Extent,
    pub(super) submitted: Instant,
    pub(super) ready_at: Instant,
    /// The earliest time for the first sector of a write, whose data must have arrived. The origin
    /// for reads.
    pub(super) not_before: Instant,
}

/// Written data on the way to the media.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writeback {
    pub(super) row: RowId,
    pub(super) end: Instant,
}

/// Read-ahead in progress: the sectors that follow a read, as they pass under the head.
/// The mechanism gives the progress: sectors up to `n` have been read when an access to all of them
/// would have ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct ActiveReadAhead {
    /// The cache row that receives the sectors.
    pub(super) row: RowId,
    /// The track and the time at which the head starts.
    pub(super) from: HeadPosition,
    pub(super) depart: Instant,
    /// The first sector to read.
    pub(super) next: u64,
    /// The first sector that is not read.
    pub(super) limit: u64,
    /// The time at which the head reaches `limit`.
    pub(super) limit_at: Instant,
    /// For a drive that reads whole tracks: the track, and the time at which all of it has passed.
    pub(super) track: Option<(Extent, Instant)>,
    /// The end of all read-ahead work.
    pub(super) until: Instant,
    /// True if sequential commands used this read-ahead.
    pub(super) sequential: bool,
}

impl DriveArm {
    pub(super) fn new(queue: FirmwareQueue) -> Self {
        Self {
            queue,
            waiting: Vec::new(),
            head: HeadPosition::PARKED,
            head_free: Instant::ORIGIN,
            ahead: None,
            saving: None,
            write_next: false,
            next_choice: Instant::NEVER,
            ledger: Ledger::default(),
        }
    }

    /// The earliest start of the queue's next command: the arm must be free, and a sequential hold
    /// must have ended.
    pub(super) fn next_command_at(&self) -> Instant {
        let Some(ready) = self.queue.next_ready_at() else { return Instant::NEVER };
        let free = ready.max(self.head_free);
        match (self.ahead, self.queue.sequential_hold()) {
            (Some(ahead), Some(hold)) if ahead.sequential => {
                let over = self.queue.held_since().unwrap_or(ready) + hold;
                free.max(ahead.until.min(over))
            }
            _ => free,
        }
    }

    /// True if a read that continues in the read-ahead may go before waiting commands.
    pub(super) fn continues_run(&self, now: Instant) -> bool {
        match (self.ahead, self.queue.sequential_hold(), self.queue.next_ready_at()) {
            (_, _, None) => true,
            (Some(ahead), Some(hold), Some(ready)) => {
                ahead.sequential && now < self.queue.held_since().unwrap_or(ready) + hold
            }
            _ => false,
        }
    }
}

impl ActiveReadAhead {
    /// The time at which the sectors up to `end` have been read.
    pub(super) fn reaches(&self, mechanism: &Mechanism<InstanceVariation>, end: u64) -> Instant {
        if end <= self.next {
            return self.depart;
        }
        let extent = Extent::from_numbers(self.next, end - self.next);
        mechanism.access(self.from, self.depart, Direction::Read, extent, Instant::ORIGIN).finish
    }

    /// The sector up to which all sectors have been read by `now`.
    pub(super) fn reached(&self, mechanism: &Mechanism<InstanceVariation>, now: Instant) -> u64 {
        if self.limit_at <= now {
            return self.limit;
        }
        let (mut read, mut unread) = (self.next, self.limit);
        if now <= self.depart || read >= unread {
            return read;
        }
        // The first guess is right or nearly so unless the head has changed tracks.
        let cylinder = mechanism.layout().track_of(Lba::new(self.next)).cylinder;
        let sector_time = mechanism.sector_time(cylinder).as_ns().max(1);
        let mut guess = read + now.saturating_since(self.depart).as_ns() / sector_time;
        while unread - read > 1 {
            guess = guess.clamp(read + 1, unread - 1);
            if self.reaches(mechanism, guess) <= now {
                read = guess;
                guess += 1;
                if guess < unread && self.reaches(mechanism, guess) > now {
                    unread = guess;
                }
            } else {
                unread = guess;
            }
            guess = read + (unread - read) / 2;
        }
        read
    }

    /// Continues from sector `to`, which the head has reached.
    pub(super) fn advance_to(&mut self, mechanism: &Mechanism<InstanceVariation>, to: u64) {
        if to > self.next {
            let read = Extent::from_numbers(self.next, to - self.next);
            self.depart = self.reaches(mechanism, to);
            self.from = mechanism.end_spot(read).position;
            self.next = to;
        }
    }

    /// Sets the end of the read-ahead to `limit`.
    pub(super) fn plan(&mut self, mechanism: &Mechanism<InstanceVariation>, limit: u64) {
        self.limit = limit.max(self.next);
        self.limit_at = self.reaches(mechanism, self.limit);
        self.until = self.track.map_or(self.limit_at, |(_, at)| at.max(self.limit_at));
    }
}
