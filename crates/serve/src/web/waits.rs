//! Which client waited for which: the disk time that was charged to each export while a request
//! waited.
//!
//! Example: a read of `db` waits 50 ms until its own command is served. Meanwhile, 12 ms are
//! charged to `db`, 30 ms to `backup` and 3 ms to scans. It waited 12 ms for `db`, 30 ms for
//! `backup`, 3 ms for scans, and 5 ms for nobody: a limit or the policy held it back. Disk time is
//! charged at completion, so each part is accurate to the length of one command, as in `headtime
//! explain`.

use std::collections::{BTreeMap, VecDeque};

use headtime_io::{RecentWork, ServedWork};
use headtime_sched::{ClassId, VolumeId};
use headtime_units::{Instant, Nanos};

/// The owner of disk time: a class of a volume, or `None` for scans.
pub(super) type Owner = Option<(VolumeId, ClassId)>;

/// The maximum number of entries of a [`WorkLog`].
const MAX_WORKS: usize = 16_384;

/// The work that the drive completed in the last seconds.
#[derive(Debug, Default)]
pub(super) struct WorkLog {
    works: VecDeque<ServedWork>,
    /// All work that completed since this time is in the log.
    since: Option<Instant>,
}

/// The disk time charged in the time of a log, by owner.
#[derive(Debug)]
pub(super) struct Charges {
    /// The sums up to each completion.
    sums: BTreeMap<Owner, Vec<(Instant, Nanos)>>,
    since: Instant,
}

/// The waits of one export's requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Waits {
    pub(super) requests: u64,
    pub(super) waited: Nanos,
    /// The parts of `waited` in which the drive served others, or the same export.
    pub(super) served: BTreeMap<Owner, Nanos>,
}

pub(super) fn owner(work: &ServedWork) -> Owner {
    work.volume.map(|volume| (volume, work.class))
}

/// The start of a request's own service.
fn own_start(work: &ServedWork) -> Instant {
    work.dispatched.max(Instant::from_ns(work.finished.as_ns() - work.disk_time.as_ns()))
}

impl WorkLog {
    /// Adds the answer to the latest question, which was asked at `now`.
    pub(super) fn extend(&mut self, recent: RecentWork, now: Instant) {
        if recent.dropped > 0 {
            self.works.clear();
            self.since = recent.works.first().map(|work| work.finished);
        }
        self.since.get_or_insert(now);
        self.works.extend(recent.works);
        while self.works.len() > MAX_WORKS {
            self.since = self.works.pop_front().map(|work| work.finished);
        }
    }

    /// The work that completed after `after`, the latest last.
    pub(super) fn after(&self, after: Instant) -> impl DoubleEndedIterator<Item = &ServedWork> {
        let from = self.works.partition_point(|work| work.finished <= after);
        self.works.range(from..)
    }

    pub(super) fn charges(&self) -> Charges {
        let mut sums: BTreeMap<Owner, Vec<(Instant, Nanos)>> = BTreeMap::new();
        for work in &self.works {
            let of_owner = sums.entry(owner(work)).or_default();
            let before = of_owner.last().map_or(Nanos::ZERO, |(_, sum)| *sum);
            of_owner.push((work.finished, before + work.disk_time));
        }
        Charges { sums, since: self.since.unwrap_or(Instant::NEVER) }
    }

    /// The waits of the requests that completed after `after`, by export. Requests that were
    /// submitted before the log began are left out.
    pub(super) fn waits(&self, charges: &Charges, after: Instant) -> BTreeMap<Owner, Waits> {
        let mut all: BTreeMap<Owner, Waits> = BTreeMap::new();
        for work in self.after(after).filter(|work| work.volume.is_some()) {
            let (from, to) = (work.submitted, own_start(work));
            let Some(served) = charges.between(from, to) else { continue };
            let waits = all.entry(owner(work)).or_default();
            waits.requests += 1;
            waits.waited += to.saturating_since(from);
            for (owner, time) in served {
                *waits.served.entry(owner).or_default() += time;
            }
        }
        all
    }
}

impl Charges {
    /// The disk time charged to each owner between two times, at most the time between them; `None`
    /// if the log does not reach back so far.
    pub(super) fn between(&self, from: Instant, to: Instant) -> Option<Vec<(Owner, Nanos)>> {
        if from < self.since {
            return None;
        }
        let of_owner = |sums: &[(Instant, Nanos)]| {
            let sum = |at: Instant| match sums.partition_point(|(time, _)| *time <= at) {
                0 => Nanos::ZERO,
                place => sums[place - 1].1,
            };
            sum(to).saturating_sub(sum(from))
        };
        let found = self.sums.iter().map(|(owner, sums)| (*owner, of_owner(sums)));
        let found: Vec<(Owner, Nanos)> = found.filter(|(_, time)| !time.is_zero()).collect();
        let all: Nanos = found.iter().map(|(_, time)| *time).sum();
        let wait = to.saturating_since(from);
        if all <= wait {
            return Some(found);
        }
        // A command that was at the drive already is charged as a whole.
        let scaled = |time: Nanos| {
            u128::from(time.as_ns()) * u128::from(wait.as_ns()) / u128::from(all.as_ns())
        };
        let found = found.into_iter();
        Some(found.map(|(owner, time)| (owner, Nanos::from_ns(scaled(time) as u64))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headtime_sched::Op;
    use headtime_units::Extent;

    const DB: Owner = Some((VolumeId(1), ClassId(0)));
    const BACKUP: Owner = Some((VolumeId(2), ClassId(0)));

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN + Nanos::from_ms(ms)
    }

    fn work(owner: Owner, submitted: u64, finished: u64, disk_ms: u64) -> ServedWork {
        let (volume, class) = owner.unzip();
        ServedWork {
            volume,
            class: class.unwrap_or(ClassId(0)),
            op: Op::Read,
            extent: Extent::from_numbers(0, 8),
            submitted: at(submitted),
            dispatched: at(submitted),
            finished: at(finished),
            disk_time: Nanos::from_ms(disk_ms),
            place: None,
        }
    }

    fn log(works: Vec<ServedWork>) -> WorkLog {
        let mut log = WorkLog::default();
        log.extend(RecentWork::default(), at(1));
        log.extend(RecentWork { works, ..RecentWork::default() }, at(1_000));
        log
    }

    #[test]
    fn the_example_of_the_header_holds() {
        let read = ServedWork { dispatched: at(150), ..work(DB, 100, 159, 9) };
        let works =
            vec![work(DB, 90, 112, 12), work(BACKUP, 90, 142, 30), work(None, 142, 145, 3), read];
        let log = log(works);
        let ms = Nanos::from_ms;
        let waits = log.waits(&log.charges(), at(145));
        let served = [(None, ms(3)), (DB, ms(12)), (BACKUP, ms(30))].into();
        assert_eq!(waits, [(DB, Waits { requests: 1, waited: ms(50), served })].into());
    }

    #[test]
    fn a_wait_is_never_longer_than_it_was_and_none_is_invented() {
        let log = log(vec![work(BACKUP, 10, 100, 80), work(DB, 90, 109, 9)]);
        let charges = log.charges();
        let waits = log.waits(&charges, at(100));
        assert_eq!(waits[&DB].served, [(BACKUP, Nanos::from_ms(10))].into());
        assert_eq!(charges.between(at(0), at(50)), None, "the log begins at 1 ms");
        assert_eq!(charges.between(at(2), at(3)), Some(vec![]));
    }

    #[test]
    fn the_log_is_bounded_and_forgets_what_it_cannot_know() {
        let mut log = log((0..MAX_WORKS as u64 + 2).map(|ms| work(DB, ms, ms + 2, 1)).collect());
        assert_eq!(log.works.len(), MAX_WORKS);
        assert!(log.charges().between(at(2), at(9)).is_none());
        assert!(log.charges().between(at(3), at(9)).is_some());
        let late = RecentWork { works: vec![work(DB, 99_990, 99_999, 1)], dropped: 1, shape: None };
        log.extend(late, at(100_000));
        assert_eq!(log.works.len(), 1);
        assert!(log.charges().between(at(99_000), at(99_999)).is_none());
    }
}
