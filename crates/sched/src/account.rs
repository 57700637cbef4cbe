//! Who used how much of the drive's time: the books that shares, reports and limits are made from.
//!
//! What a command costs is *completion − max(previous completion, dispatch)* (the papers' disk
//! time), so that over any busy stretch the charges add up to the stretch. A command that serves
//! several requests is split by sectors, to the nanosecond: the last part takes the remainder. A
//! flush is paid for in equal parts by those who waited for it. Failed and cancelled requests pay
//! for the time they took like all others. What is read for scans stands apart: a command of its
//! own with all its time, in front of a client's sectors with the media time of what was read.
//!
//! Worked example: a command sent at 2 ms completes at 10 ms; the one before completed at 4 ms. It
//! costs 6 ms. If it served 4 sectors of volume A and 8 of volume B, A pays 2 ms and B 4 ms.

use alloc::vec::Vec;

use headtime_units::{Nanos, Sectors};
use smallvec::SmallVec;

use crate::command::{Finished, Outcome};
use crate::queue::Queued;
use crate::request::{Op, VolumeId};

/// One volume's books.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeAccount {
    /// Disk time charged, failed commands included.
    pub disk_time: Nanos,
    /// Requests that ended well.
    pub requests: u64,
    /// Sectors of those requests.
    pub sectors: Sectors,
    /// Requests that ended in an error.
    pub errors: u64,
    /// Requests that had a deadline.
    pub deadline_requests: u64,
    /// Requests that completed after their deadline.
    pub deadline_misses: u64,
}

/// What reading for scans took: nobody's volume pays for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackgroundAccount {
    /// Disk time of commands that read for scans alone, and the media time of what was read for
    /// scans in a client's command.
    pub disk_time: Nanos,
    /// Commands that read something for scans, failed ones included.
    pub commands: u64,
    /// Sectors that were read for scans and those between them that nobody wanted, in commands that
    /// ended well.
    pub sectors: Sectors,
    /// Commands that ended in an error.
    pub errors: u64,
}

/// The books of all volumes.
#[derive(Clone, Debug, Default)]
pub struct Accounts {
    /// By number; there are few, and the same one is asked for again and again.
    volumes: Vec<(VolumeId, VolumeAccount)>,
    /// Where the volume asked for last stands.
    last: usize,
    background: BackgroundAccount,
}

impl Accounts {
    /// The books of one volume; empty for a volume that has asked for nothing.
    #[must_use]
    pub fn volume(&self, volume: VolumeId) -> VolumeAccount {
        self.volumes
            .binary_search_by_key(&volume, |entry| entry.0)
            .map_or_else(|_| VolumeAccount::default(), |place| self.volumes[place].1)
    }

    /// All volumes that have asked for anything, by number.
    pub fn volumes(&self) -> impl Iterator<Item = (VolumeId, &VolumeAccount)> + '_ {
        self.volumes.iter().map(|(volume, account)| (*volume, account))
    }

    /// What reading for scans took. Together with [`Accounts::disk_time`] it is all the time that
    /// commands cost.
    #[must_use]
    pub fn background(&self) -> BackgroundAccount {
        self.background
    }

    /// Disk time charged to all volumes together; that of background reads is not among it.
    #[must_use]
    pub fn disk_time(&self) -> Nanos {
        self.volumes.iter().map(|(_, account)| account.disk_time).sum()
    }

    /// Charges a command's disk time to the only request it served.
    pub(crate) fn charge_one(&mut self, disk_time: Nanos, queued: &Queued) {
        self.account(queued.request.volume).disk_time += disk_time;
    }

    /// Charges a command's disk time to those it served; returns each request's part, in their
    /// order.
    pub(crate) fn charge(
        &mut self,
        disk_time: Nanos,
        op: Op,
        requests: &[Queued],
    ) -> SmallVec<[Nanos; 1]> {
        // Those who wait for one flush pay alike: its time has nothing to do with how much each of
        // them wrote.
        let weight = |queued: &Queued| {
            if op == Op::Flush { 1 } else { queued.request.extent.len.get().max(1) }
        };
        let mut weight_left: u64 = requests.iter().map(weight).sum();
        let mut time_left = disk_time;
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

    /// Charges what a command took to read `sectors` for scans.
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
        let account = self.account(finished.request.volume);
        match finished.outcome {
            Outcome::Success => {
                account.requests += 1;
                account.sectors += finished.request.extent.len;
            }
            Outcome::Failed(_) => account.errors += 1,
        }
        account.deadline_requests += u64::from(finished.request.deadline.is_some());
        account.deadline_misses += u64::from(finished.missed());
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
