//! The disk time that an owner has used, and the parts of the volumes' shares.

use headtime_units::{Instant, Nanos};

use super::habits::Pauses;
use super::think::Think;
use crate::request::{RequestId, VolumeId};

/// The disk time that an owner has used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account {
    /// The disk time used, with waits for its requests.
    pub(crate) used: Nanos,
    /// The virtual time of start-time fair queueing.
    pub(crate) virtual_time: u64,
    /// The part of it for cached writes that the drive took at once, beyond what they take on the
    /// medium: the arm has served others meanwhile.
    pub(super) beside: u64,
    /// Its weight among the owners that compete, whose mean is 1.
    pub(super) weight: f64,
    /// The transfer time of a sector where its requests are; 0 before it is known.
    pub(super) sector_ns: f64,
    /// The think time of its client.
    pub(crate) think: Think,
    /// The time until which the next request is in time, once none is left.
    pub(super) awaited: Option<Instant>,
    /// The pauses of a rest; those of runs belong to their habits.
    pub(super) pauses: Pauses,
    /// The request that ended the last pause of a rest in time.
    pub(super) came: Option<RequestId>,
}

impl Default for Account {
    fn default() -> Self {
        Self {
            used: Nanos::ZERO,
            virtual_time: 0,
            beside: 0,
            weight: 1.0,
            sector_ns: 0.0,
            think: Think::default(),
            awaited: None,
            pauses: Pauses::default(),
            came: None,
        }
    }
}

impl Account {
    /// Charges disk time.
    pub(crate) fn charge(&mut self, time: Nanos) {
        self.used += time;
        self.virtual_time += self.virtual_time_of(time);
    }

    /// Returns whether it has kept the arm from others for so much longer than an owner with this
    /// virtual time.
    pub(crate) fn is_ahead_of(&self, virtual_time: u64, by: Nanos) -> bool {
        self.virtual_time.saturating_sub(self.beside) > virtual_time + by.as_ns()
    }

    /// Forgets what it has used less than an owner with this virtual time.
    pub(crate) fn catch_up(&mut self, virtual_time: u64) {
        self.virtual_time = self.virtual_time.max(virtual_time);
        self.beside = self.beside.min(self.virtual_time - virtual_time);
    }

    /// Notes a request of a rest.
    pub(super) fn goes_on(&mut self, now: Instant, id: RequestId) {
        self.think.submitted(now);
        if self.awaited.take().is_some_and(|until| now <= until) {
            self.pauses.came += 1.0;
            self.came = Some(id);
        }
    }

    /// Notes that the drive's cache has answered a request of a rest, which was not worth a wait.
    pub(super) fn needed_no_arm(&mut self, id: RequestId) {
        if self.came.take_if(|came| *came == id).is_some() {
            self.pauses.needed_no_wait();
        }
    }

    /// The virtual time that a use of `time` takes.
    pub(crate) fn virtual_time_of(&self, time: Nanos) -> u64 {
        (time.as_ns() as f64 / self.weight) as u64
    }
}

/// The parts of a volume's share of the drive: one for each owner beside the rest.
pub(super) struct Parts {
    pub(super) volume: VolumeId,
    pub(super) others: u32,
    /// The requests of the rest.
    pub(super) rest: u32,
}

impl Parts {
    pub(super) fn of(volume: VolumeId) -> Self {
        Self { volume, others: 0, rest: 0 }
    }

    /// The parts of the rest: its requests stand for clients that wait for one each, but a rest
    /// with a deep queue takes no more than half.
    pub(super) fn of_rest(&self) -> u32 {
        self.rest.min(self.others.max(1))
    }

    pub(super) fn all(&self) -> f64 {
        f64::from(self.others + self.of_rest())
    }
}

/// Those of a volume that has requests.
pub(super) fn parts_of(parts: &mut [Parts], volume: VolumeId) -> &mut Parts {
    let found = parts.iter_mut().find(|part| part.volume == volume);
    found.expect("each volume with requests has an entry")
}
