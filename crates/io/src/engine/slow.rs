//! The parts of the response time of slow requests. The last [`MAX_KEPT`] requests of a drive that
//! were slow or missed their deadline are kept as a [`SlowRequest`].
//!
//! The parts come from the accounts and from the prediction at dispatch. Example: a read waited 50
//! ms in the queue. During this time, its own volume was served for 12 ms, other volumes for 30 ms,
//! and no volume for 8 ms. At the drive, it waited 4 ms for an earlier command. Its service took 9
//! ms, of which the prediction assigned 3 ms to the arm, 4 ms to the rotation and 0.1 ms to the
//! transfer. The parts are: own queue 12, other volumes 30, held 8, drive queue 4, seek 3, rotation
//! 4, transfer 0.1, unpredicted 1.9 ms. The parts always add up to the response time.
//!
//! The time of a command is charged at its completion, so waiting times are accurate to the length
//! of one command. The time before the submission to the drive is not included.

use std::collections::VecDeque;

use headtime_sched::{
    Accounts, ClassId, Finished, Op, Outcome, PredictedService, RequestId, VolumeId,
};
use headtime_units::{Extent, Instant, Nanos};

use crate::service_parts::{ServiceParts, take};

/// The maximum number of slow requests kept for a drive.
pub const MAX_KEPT: usize = 256;

/// A request that was slow or missed its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowRequest {
    /// Its number.
    pub id: RequestId,
    /// Its volume.
    pub volume: VolumeId,
    /// Its class.
    pub class: ClassId,
    /// The operation.
    pub op: Op,
    /// The drive's sectors.
    pub extent: Extent,
    /// The time at which it was submitted, by [`RealClock`](crate::RealClock).
    pub submitted: Instant,
    /// The time from its submission to the drive's report.
    pub response: Nanos,
    /// Its deadline, counted from the submission.
    pub deadline: Option<Nanos>,
    /// The request completed after its deadline.
    pub missed: bool,
    /// The request failed.
    pub failed: bool,
    /// The parts of its response time.
    pub went: TimeParts,
}

/// Parts of a response time; they add up to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeParts {
    /// Waiting while its own volume was served.
    pub own_queue: Nanos,
    /// Waiting while other volumes were served.
    pub other_volumes: Nanos,
    /// Waiting while sectors were read for scans.
    pub background: Nanos,
    /// Waiting while no request was served: its volume was at its limit, or the policy kept the
    /// drive idle for another request.
    pub held: Nanos,
    /// Waiting at the drive for earlier commands.
    pub at_drive_queue: Nanos,
    /// The predicted overhead of its command.
    pub overhead: Nanos,
    /// The predicted minimum seek time.
    pub seek: Nanos,
    /// The rest of the predicted positioning time: rotation, and the seek time beyond the minimum.
    pub rotation: Nanos,
    /// The predicted transfer time.
    pub transfer: Nanos,
    /// The service time beyond the prediction. The whole service time of a flush or discard, and of
    /// any request if locations are unknown.
    pub unpredicted: Nanos,
}

impl TimeParts {
    /// Returns the names and values of the parts, in the order in which a request passes them.
    #[must_use]
    pub fn named(&self) -> [(&'static str, Nanos); 10] {
        [
            ("own queue", self.own_queue),
            ("other volumes", self.other_volumes),
            ("background", self.background),
            ("held", self.held),
            ("drive queue", self.at_drive_queue),
            ("overhead", self.overhead),
            ("seek", self.seek),
            ("rotation", self.rotation),
            ("transfer", self.transfer),
            ("unpredicted", self.unpredicted),
        ]
    }
}

/// The disk time of a volume, of all volumes, and of scans at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct AccountMark {
    own: Nanos,
    all: Nanos,
    background: Nanos,
}

impl AccountMark {
    pub(crate) fn now(accounts: &Accounts, volume: VolumeId) -> Self {
        Self {
            own: accounts.disk_time_of(volume),
            all: accounts.disk_time(),
            background: accounts.background().disk_time,
        }
    }
}

/// The last slow requests and the mean response time.
#[derive(Debug, Default)]
pub(crate) struct SlowLog {
    kept: VecDeque<SlowRequest>,
    /// The mean of about the last 64 response times.
    mean: Nanos,
}

/// The times of a command at the drive.
pub(crate) struct AtDriveFrom {
    /// The completion of the previous command, if later than its own dispatch.
    pub(crate) alone_from: Instant,
    pub(crate) predicted: Option<PredictedService>,
}

/// A response time of this many times the recent mean is slow (guess).
const SLOW_TIMES: u64 = 4;
/// A faster request is never slow (guess: a random access with a lost revolution).
const NEVER_SLOW: Nanos = Nanos::from_ms(20);

impl SlowLog {
    /// Records a finished request. `submitted` and `sent` are the marks of these moments.
    pub(crate) fn note(
        &mut self,
        finished: &Finished,
        at_drive: &AtDriveFrom,
        submitted: AccountMark,
        sent: AccountMark,
    ) {
        let response = finished.response();
        let slow = !self.mean.is_zero()
            && response >= NEVER_SLOW
            && response >= self.mean.saturating_mul(SLOW_TIMES);
        self.mean = match self.mean {
            Nanos::ZERO => response,
            mean => Nanos::from_ns(mean.as_ns() - mean.as_ns() / 64 + response.as_ns() / 64),
        };
        let failed = finished.outcome != Outcome::Success;
        if !(slow || failed || finished.missed()) {
            return;
        }
        if self.kept.len() == MAX_KEPT {
            self.kept.pop_front();
        }
        let request = finished.request;
        self.kept.push_back(SlowRequest {
            id: request.id,
            volume: request.volume,
            class: request.class,
            op: request.op,
            extent: request.extent,
            submitted: finished.submitted,
            response,
            deadline: request
                .deadline
                .map(|deadline| deadline.saturating_since(finished.submitted)),
            missed: finished.missed(),
            failed,
            went: parts(finished, at_drive, submitted, sent),
        });
    }

    /// Returns the kept requests, the latest last.
    pub(crate) fn all(&self) -> Vec<SlowRequest> {
        self.kept.iter().copied().collect()
    }
}

fn parts(
    finished: &Finished,
    at_drive: &AtDriveFrom,
    submitted: AccountMark,
    sent: AccountMark,
) -> TimeParts {
    let mut wait = finished.dispatched.saturating_since(finished.submitted);
    let mut of_wait = |part: Nanos| take(&mut wait, part);
    let own = sent.own.saturating_sub(submitted.own);
    let own_queue = of_wait(own);
    let other_volumes = of_wait(sent.all.saturating_sub(submitted.all).saturating_sub(own));
    let background = of_wait(sent.background.saturating_sub(submitted.background));
    let held = of_wait(Nanos::MAX);
    let alone_from = at_drive.alone_from.max(finished.dispatched).min(finished.finished);
    let at_drive_queue = alone_from.saturating_since(finished.dispatched);
    let alone = finished.finished.saturating_since(alone_from);
    let ServiceParts { overhead, seek, rotation, transfer, unpredicted } =
        ServiceParts::of(alone, at_drive.predicted);
    TimeParts {
        own_queue,
        other_volumes,
        background,
        held,
        at_drive_queue,
        overhead,
        seek,
        rotation,
        transfer,
        unpredicted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headtime_sched::{Request, StreamId};

    fn at(us: u64) -> Instant {
        Instant::ORIGIN + Nanos::from_us(us)
    }

    fn finished(submitted: u64, dispatched: u64, done: u64, deadline: Option<u64>) -> Finished {
        let request = Request {
            id: RequestId(7),
            volume: VolumeId(1),
            class: ClassId(0),
            stream: StreamId(0),
            op: Op::Read,
            extent: Extent::from_numbers(8, 8),
            fua: false,
            deadline: deadline.map(at),
        };
        let (submitted, dispatched, finished) = (at(submitted), at(dispatched), at(done));
        Finished {
            request,
            submitted,
            dispatched,
            finished,
            disk_time: Nanos::ZERO,
            other_arms: Nanos::ZERO,
            overlapped: Nanos::ZERO,
            forced: false,
            outcome: Outcome::Success,
        }
    }

    fn mark(own: u64, all: u64, background: u64) -> AccountMark {
        AccountMark {
            own: Nanos::from_us(own),
            all: Nanos::from_us(all),
            background: Nanos::from_us(background),
        }
    }

    #[test]
    fn the_example_of_the_header_holds() {
        let us = Nanos::from_us;
        let predicted = PredictedService {
            overhead: Nanos::ZERO,
            seek: us(3_000),
            rotation: us(4_000),
            transfer: us(100),
        };
        let at_drive = AtDriveFrom { alone_from: at(54_000), predicted: Some(predicted) };
        let mut book = SlowLog::default();
        book.note(
            &finished(0, 50_000, 63_000, Some(60_000)),
            &at_drive,
            mark(5_000, 9_000, 0),
            mark(17_000, 51_000, 0),
        );
        let [slow] = book.all()[..] else { panic!("{book:?}") };
        assert!(slow.missed && slow.deadline == Some(us(60_000)));
        let expected = TimeParts {
            own_queue: us(12_000),
            other_volumes: us(30_000),
            held: us(8_000),
            at_drive_queue: us(4_000),
            seek: us(3_000),
            rotation: us(4_000),
            transfer: us(100),
            unpredicted: us(1_900),
            ..TimeParts::default()
        };
        assert_eq!(slow.went, expected);
    }

    #[test]
    fn parts_add_up_whatever_the_books_say() {
        for (dispatched, alone_from, charged) in
            [(0, 0, 0), (10_000, 5_000, 90_000), (30_000, 70_000, 7_000), (30_000, 35_000, 1)]
        {
            let predicted = PredictedService {
                overhead: Nanos::from_us(charged),
                seek: Nanos::from_us(3_000),
                rotation: Nanos::MAX,
                transfer: Nanos::MAX,
            };
            let at_drive = AtDriveFrom { alone_from: at(alone_from), predicted: Some(predicted) };
            let done = finished(0, dispatched, 40_000, None);
            let went = parts(&done, &at_drive, mark(9, 9, 9), mark(charged, 2 * charged, charged));
            assert_eq!(
                went.named().into_iter().map(|(_, part)| part).sum::<Nanos>(),
                done.response(),
                "{went:?}"
            );
        }
    }

    #[test]
    fn what_is_as_slow_as_ever_is_not_kept_and_the_oldest_go() {
        let mut book = SlowLog::default();
        let at_drive = AtDriveFrom { alone_from: at(0), predicted: None };
        let note = |book: &mut SlowLog, us: u64| {
            book.note(
                &finished(0, 0, us, None),
                &at_drive,
                AccountMark::default(),
                AccountMark::default(),
            )
        };
        (0..100).for_each(|_| note(&mut book, 10_000));
        assert!(book.all().is_empty());
        note(&mut book, 19_000);
        note(&mut book, 100_000);
        assert_eq!(book.all().len(), 1);
        (0..3 * MAX_KEPT as u64).for_each(|nth| note(&mut book, 10_000_000 << (nth % 2 * 10)));
        assert!(book.all().len() <= MAX_KEPT);
    }
}
