//! Disk time by volume: the accounts that shares, reports and limits use.
//!
//! A command costs *completion − max(previous completion, dispatch)* (the papers' disk time), so
//! that over any busy period the charges add up to the period. The cost of a command with several
//! requests is split by sectors, to the nanosecond: the last share includes the remainder. A flush
//! is charged in equal shares to the requests that waited for it. Failed and cancelled requests pay
//! for their time like all others. Reads for scans have an account of their own: a separate command
//! with all its time, a piece read with a client's request with its media time.
//!
//! Worked example: a command sent at 2 ms completes at 10 ms; the previous one completed at 4 ms.
//! It costs 6 ms. If it served 4 sectors of volume A and 8 of volume B, A pays 2 ms and B 4 ms.

use alloc::vec::Vec;
use core::ops::{Add, Sub};

use headtime_units::{Nanos, Sectors};
use smallvec::SmallVec;

use crate::command::{Finished, Outcome};
use crate::queue::Queued;
use crate::request::{Op, VolumeId};
use crate::tunables::PriorityClass;

/// The account of one volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeAccount {
    /// Disk time charged, failed commands included.
    pub disk_time: Nanos,
    /// Requests that succeeded.
    pub requests: u64,
    /// Sectors of those requests.
    pub sectors: Sectors,
    /// Requests that failed.
    pub errors: u64,
    /// Requests that had a deadline.
    pub deadline_requests: u64,
    /// Requests that completed after their deadline.
    pub deadline_misses: u64,
    /// The answers to deadlines.
    pub promises: ClassPromises,
}

impl VolumeAccount {
    /// Counts a finished request. Its disk time and the answer to its deadline are counted apart.
    pub fn note(&mut self, finished: &Finished) {
        match finished.outcome {
            Outcome::Success => {
                self.requests += 1;
                self.sectors += finished.request.extent.len;
            }
            Outcome::Failed(_) => self.errors += 1,
        }
        self.deadline_requests += u64::from(finished.request.deadline.is_some());
        self.deadline_misses += u64::from(finished.missed());
    }
}

/// Requests that asked for a guarantee of their deadline, by the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PromiseCounts {
    /// Guaranteed.
    pub guaranteed: u64,
    /// Accepted as best effort.
    pub best_effort: u64,
    /// Refused.
    pub refused: u64,
    /// Guaranteed requests that completed after their deadline: an access has taken longer than
    /// its worst case, or a command that bypasses the policy came in between.
    pub broken: u64,
}

impl Add for PromiseCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            guaranteed: self.guaranteed + other.guaranteed,
            best_effort: self.best_effort + other.best_effort,
            refused: self.refused + other.refused,
            broken: self.broken + other.broken,
        }
    }
}

impl Sub for PromiseCounts {
    type Output = Self;

    /// # Panics
    /// When `other` is no part of these counts.
    fn sub(self, other: Self) -> Self {
        Self {
            guaranteed: self.guaranteed - other.guaranteed,
            best_effort: self.best_effort - other.best_effort,
            refused: self.refused - other.refused,
            broken: self.broken - other.broken,
        }
    }
}

/// The answers to deadlines, by the class of the requests' I/O priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassPromises([PromiseCounts; PriorityClass::ALL.len()]);

impl ClassPromises {
    /// The answers to requests of one class.
    #[must_use]
    pub fn of(&self, class: PriorityClass) -> PromiseCounts {
        self.0[class as usize]
    }

    /// The same, to be changed.
    pub fn of_mut(&mut self, class: PriorityClass) -> &mut PromiseCounts {
        &mut self.0[class as usize]
    }

    /// The answers to requests of all classes.
    #[must_use]
    pub fn total(&self) -> PromiseCounts {
        self.0.into_iter().fold(PromiseCounts::default(), PromiseCounts::add)
    }
}

impl Add for ClassPromises {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(PriorityClass::ALL.map(|class| self.of(class) + other.of(class)))
    }
}

impl Sub for ClassPromises {
    type Output = Self;

    /// # Panics
    /// When `other` is no part of these counts.
    fn sub(self, other: Self) -> Self {
        Self(PriorityClass::ALL.map(|class| self.of(class) - other.of(class)))
    }
}

/// The account of reads for scans, which is charged to no volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackgroundAccount {
    /// Disk time of commands that read for scans alone, and the media time of pieces read in a
    /// client's command.
    pub disk_time: Nanos,
    /// Commands that read something for scans, failed ones included.
    pub commands: u64,
    /// Sectors read for scans in successful commands, with the unneeded sectors between them.
    pub sectors: Sectors,
    /// Commands that failed.
    pub errors: u64,
}

/// The accounts of all volumes.
#[derive(Clone, Debug, Default)]
pub struct Accounts {
    /// Ordered by number. There are few, and successive look-ups often concern the same one.
    volumes: Vec<(VolumeId, VolumeAccount)>,
    /// The index of the last look-up.
    last: usize,
    /// The disk time of all volumes.
    disk_time: Nanos,
    background: BackgroundAccount,
}

impl Accounts {
    /// The account of one volume; empty for a volume without requests so far.
    #[must_use]
    pub fn volume(&self, volume: VolumeId) -> VolumeAccount {
        self.find(volume).copied().unwrap_or_default()
    }

    /// The disk time charged to one volume.
    #[must_use]
    pub fn disk_time_of(&self, volume: VolumeId) -> Nanos {
        self.find(volume).map_or(Nanos::ZERO, |account| account.disk_time)
    }

    /// The accounts of all volumes that have had requests, by number.
    pub fn volumes(&self) -> impl Iterator<Item = (VolumeId, &VolumeAccount)> + '_ {
        self.volumes.iter().map(|(volume, account)| (*volume, account))
    }

    /// The account of reads for scans. Together with [`Accounts::disk_time`] it covers the time of
    /// all commands.
    #[must_use]
    pub fn background(&self) -> BackgroundAccount {
        self.background
    }

    /// Disk time charged to all volumes together; that of background reads is not among it.
    #[must_use]
    pub fn disk_time(&self) -> Nanos {
        self.disk_time
    }

    /// Charges a command's disk time to the only request it served.
    pub(crate) fn charge_one(&mut self, disk_time: Nanos, queued: &Queued) {
        self.account(queued.request.volume).disk_time += disk_time;
        self.disk_time += disk_time;
    }

    /// Charges a command's disk time to those it served; returns each request's part, in their
    /// order.
    pub(crate) fn charge(
        &mut self,
        disk_time: Nanos,
        op: Op,
        requests: &[Queued],
    ) -> SmallVec<[Nanos; 1]> {
        // A flush is split equally: its time does not depend on how much each request wrote.
        let weight = |queued: &Queued| {
            if op == Op::Flush { 1 } else { queued.request.extent.len.get().max(1) }
        };
        let mut weight_left: u64 = requests.iter().map(weight).sum();
        let mut time_left = disk_time;
        if !requests.is_empty() {
            self.disk_time += disk_time;
        }
        requests
            .iter()
            .map(|queued| {
                let part = (u128::from(time_left.as_ns()) * u128::from(weight(queued))
                    / u128::from(weight_left)) as u64;
                let part = Nanos::from_ns(part);
                weight_left -= weight(queued);
                time_left -= part;
                self.account(queued.request.volume).disk_time += part;
                part
            })
            .collect()
    }

    /// Charges the time of a command that read `sectors` for scans.
    pub(crate) fn charge_background(
        &mut self,
        disk_time: Nanos,
        sectors: Sectors,
        outcome: Outcome,
    ) {
        self.background.disk_time += disk_time;
        self.background.commands += 1;
        match outcome {
            Outcome::Success => self.background.sectors += sectors,
            Outcome::Failed(_) => self.background.errors += 1,
        }
    }

    pub(crate) fn note(&mut self, finished: &Finished) {
        self.account(finished.request.volume).note(finished);
    }

    /// The answers to the deadlines of one volume and class.
    pub(crate) fn promises(
        &mut self,
        volume: VolumeId,
        class: PriorityClass,
    ) -> &mut PromiseCounts {
        self.account(volume).promises.of_mut(class)
    }

    fn find(&self, volume: VolumeId) -> Option<&VolumeAccount> {
        let last = self.volumes.get(self.last).filter(|entry| entry.0 == volume);
        let found = || self.volumes.binary_search_by_key(&volume, |entry| entry.0);
        last.or_else(|| found().ok().map(|place| &self.volumes[place])).map(|entry| &entry.1)
    }

    fn account(&mut self, volume: VolumeId) -> &mut VolumeAccount {
        if self.volumes.get(self.last).is_none_or(|entry| entry.0 != volume) {
            self.last = self.volumes.binary_search_by_key(&volume, |entry| entry.0).unwrap_or_else(
                |place| {
                    self.volumes.insert(place, (volume, VolumeAccount::default()));
                    place
                },
            );
        }
        &mut self.volumes[self.last].1
    }
}
