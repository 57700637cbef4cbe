//! [`DriveArm`]: one set of heads with its queue, and [`ActiveReadAhead`], what it does when nobody else wants
//! it.

use headtime_mechanics::cache::RowId;
use headtime_mechanics::{Direction, FirmwareQueue, HeadPosition, Mechanism};
use headtime_sched::Op;
use headtime_units::{Extent, Instant, Lba};

use crate::disk_time::Ledger;
use crate::truth::InstanceVariation;

/// One arm and what waits for it. Its addresses count from its own first sector.
#[derive(Clone, Debug)]
pub(super) struct DriveArm {
    pub(super) queue: FirmwareQueue,
    /// What the queue does not hold of each waiting command, in the queue's order.
    pub(super) waiting: Vec<QueuedPart>,
    pub(super) head: HeadPosition,
    /// When what it has to do is done; read-ahead is not.
    pub(super) head_free: Instant,
    pub(super) ahead: Option<ActiveReadAhead>,
    pub(super) saving: Option<Writeback>,
    /// Whether written data may go before a waiting command: they take turns.
    pub(super) turn_to_save: bool,
    /// When it begins something next.
    pub(super) next_choice: Instant,
    pub(super) ledger: Ledger,
}

/// A command, or its part, that waits for an arm.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueuedPart {
    pub(super) op: Op,
    /// All of its sectors, of which the queue may hold the end only, when the cache holds the
    /// beginning.
    pub(super) extent: Extent,
    pub(super) submitted: Instant,
    pub(super) ready_at: Instant,
    /// When the first sector may pass at the earliest: a write's data must have arrived. The origin
    /// for reads.
    pub(super) not_before: Instant,
}

/// Written data on their way to the media.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writeback {
    pub(super) row: RowId,
    pub(super) end: Instant,
}

/// Reading on behind a read, sector by sector as they pass.
///
/// What has been read by a time follows from the mechanism: the sectors up to `n` have when an
/// access to all of them would be over.
#[derive(Clone, Copy, Debug)]
pub(super) struct ActiveReadAhead {
    /// Where the sectors go.
    pub(super) row: RowId,
    /// From this track at this time …
    pub(super) from: HeadPosition,
    pub(super) depart: Instant,
    /// … it reads this sector and those behind it …
    pub(super) next: u64,
    /// … up to here.
    pub(super) limit: u64,
    /// When it gets there.
    pub(super) limit_at: Instant,
    /// A drive that reads whole tracks: the track, and when all of it has come by.
    pub(super) track: Option<(Extent, Instant)>,
    /// When it has nothing more to do.
    pub(super) until: Instant,
    /// Whether commands have followed each other here.
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
            turn_to_save: false,
            next_choice: Instant::NEVER,
            ledger: Ledger::default(),
        }
    }

    /// When the queue's next command may begin: not before the arm is free, nor before a read-ahead
    /// that is held to gives way.
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

    /// Whether a read that goes on in the read-ahead may go before commands that wait.
    pub(super) fn keeps_to_its_run(&self, now: Instant) -> bool {
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
    /// When the sectors up to `end` have been read.
    pub(super) fn reaches(&self, mechanism: &Mechanism<InstanceVariation>, end: u64) -> Instant {
        if end <= self.next {
            return self.depart;
        }
        let extent = Extent::from_numbers(self.next, end - self.next);
        mechanism.access(self.from, self.depart, Direction::Read, extent, Instant::ORIGIN).finish
    }

    /// The sector up to which all have been read by `now`.
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

    /// Goes on from sector `to`, which was reached.
    pub(super) fn go_on_from(&mut self, mechanism: &Mechanism<InstanceVariation>, to: u64) {
        if to > self.next {
            let read = Extent::from_numbers(self.next, to - self.next);
            self.depart = self.reaches(mechanism, to);
            self.from = mechanism.end_spot(read).position;
            self.next = to;
        }
    }

    /// Reads up to `limit` from now on.
    pub(super) fn plan(&mut self, mechanism: &Mechanism<InstanceVariation>, limit: u64) {
        self.limit = limit.max(self.next);
        self.limit_at = self.reaches(mechanism, self.limit);
        self.until = self.track.map_or(self.limit_at, |(_, at)| at.max(self.limit_at));
    }
}
