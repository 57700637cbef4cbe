//! [`Divided`]: a scheduler whose requests are divided at the ends of stripes, as a server divides
//! those for an array.
//!
//! Each part is a request of its own with the deadline, volume and stream of the whole, which is
//! finished when its last part is. Worked example, stripes of 256 sectors: a read of sectors
//! 250–519 is submitted as 250–255, 256–511 and 512–519.

use std::collections::BTreeMap;

use headtime_sched::{
    Accounts, Admission, BackgroundRead, Cancelled, Decision, Done, Finished, Policy, Request,
    RequestId, Scheduler, StreamId,
};
use headtime_units::{Extent, Instant, Sectors};
use smallvec::SmallVec;

use crate::engine::SchedulerApi;

/// A scheduler with the division of requests before it.
pub(crate) struct Divided {
    pub(crate) scheduler: Scheduler,
    /// The sectors of a stripe; `None` divides nothing.
    divide_at: Option<Sectors>,
    parts_made: u64,
    /// Unfinished parts, and the requests that they are of.
    parts: BTreeMap<RequestId, RequestId>,
    wholes: BTreeMap<RequestId, Whole>,
}

/// A divided request.
struct Whole {
    parts_left: usize,
    /// Of its parts so far; `None` before the first.
    finished: Option<Finished>,
    request: Request,
}

/// The first id of a part, above all ids of requests.
const PARTS: u64 = 1 << 63;

impl Divided {
    pub(crate) fn new(scheduler: Scheduler, divide_at: Option<Sectors>) -> Self {
        let (parts, wholes) = (BTreeMap::new(), BTreeMap::new());
        Self { scheduler, divide_at, parts_made: 0, parts, wholes }
    }

    /// The parts of a request; one if it is not divided.
    fn divide(&self, request: &Request) -> SmallVec<[Extent; 1]> {
        let whole = SmallVec::from_buf([request.extent]);
        let Some(stripe) = self.divide_at.filter(|_| request.op.moves_head()) else { return whole };
        request.extent.divided_at(stripe).collect()
    }

    /// Adds what has finished to its whole; returns the whole with its last part.
    fn join(&mut self, part: Finished) -> Option<Finished> {
        let Some(id) = self.parts.remove(&part.request.id) else { return Some(part) };
        let whole = self.wholes.get_mut(&id)?;
        whole.parts_left -= 1;
        let joined = match whole.finished.take() {
            None => Finished { request: whole.request, ..part },
            Some(before) => before.joined_with(part),
        };
        whole.finished = Some(joined);
        (whole.parts_left == 0).then(|| self.wholes.remove(&id)).flatten()?.finished
    }
}

impl SchedulerApi for Divided {
    fn submit(&mut self, now: Instant, request: Request) -> Admission {
        let parts = self.divide(&request);
        if parts.len() <= 1 {
            return self.scheduler.submit(now, request);
        }
        let whole = Whole { parts_left: parts.len(), finished: None, request };
        self.wholes.insert(request.id, whole);
        for extent in parts {
            let id = RequestId(PARTS + self.parts_made);
            self.parts_made += 1;
            self.parts.insert(id, request.id);
            let refused = self.scheduler.submit(now, Request { id, extent, ..request });
            if let Admission::Refused(_) = refused {
                self.cancel(now, request.id);
                return refused;
            }
        }
        Admission::Accepted
    }

    fn next(&mut self, now: Instant) -> Decision {
        self.scheduler.next(now)
    }

    fn complete(&mut self, now: Instant, done: Done) -> SmallVec<[Finished; 1]> {
        let finished = self.scheduler.complete(now, done);
        if self.parts.is_empty() {
            return finished;
        }
        finished.into_iter().filter_map(|part| self.join(part)).collect()
    }

    fn take_background(&mut self) -> Option<BackgroundRead> {
        self.scheduler.take_background()
    }

    fn cancel(&mut self, now: Instant, id: RequestId) -> Cancelled {
        if self.wholes.remove(&id).is_none() {
            return self.scheduler.cancel(now, id);
        }
        let of_it = self.parts.iter().filter(|(_, whole)| **whole == id).map(|(part, _)| *part);
        let parts: Vec<RequestId> = of_it.collect();
        let mut any_at_drive = false;
        for part in parts {
            self.parts.remove(&part);
            any_at_drive |= self.scheduler.cancel(now, part) == Cancelled::AtDrive;
        }
        if any_at_drive { Cancelled::AtDrive } else { Cancelled::Removed }
    }

    fn stream_ended(&mut self, now: Instant, stream: StreamId) {
        self.scheduler.stream_ended(now, stream);
    }

    fn set_policy(&mut self, policy: Box<dyn Policy>) {
        self.scheduler.set_policy(policy);
    }

    fn accounts(&self) -> &Accounts {
        self.scheduler.accounts()
    }

    fn self_check(&self) {
        self.scheduler.self_check();
    }
}

#[cfg(test)]
mod tests {
    use headtime_belief::LinearBelief;
    use headtime_sched::{
        ClassId, Command, DriveTraits, Op, Outcome, PolicyEntry, QueueLimits, VolumeId,
    };

    use headtime_units::Nanos;

    use super::*;

    fn divided() -> Divided {
        let (entry, parameters) = PolicyEntry::parse("fcfs").expect("it stands in the table");
        let belief = Box::new(LinearBelief::new(Sectors::new(10_000)));
        let traits = DriveTraits { queue_depth: 8, fua: false };
        let policy = (entry.build)(&parameters);
        let scheduler = Scheduler::new(belief, policy, traits, QueueLimits::default());
        Divided::new(scheduler, Some(Sectors::new(256)))
    }

    fn read(id: u64, start: u64, len: u64) -> Request {
        Request {
            id: RequestId(id),
            volume: VolumeId(0),
            class: ClassId(0),
            stream: StreamId(0),
            op: Op::Read,
            extent: Extent::from_numbers(start, len),
            fua: false,
            deadline: None,
        }
    }

    fn next(divided: &mut Divided, now: Instant) -> Command {
        match divided.next(now) {
            Decision::Dispatch(command) => command,
            other => panic!("{other:?} instead of a command"),
        }
    }

    #[test]
    fn a_request_is_finished_with_its_last_part_and_fails_with_any() {
        let mut divided = divided();
        let mut now = Instant::ORIGIN;
        assert_eq!(divided.submit(now, read(1, 250, 270)), Admission::Accepted);
        assert_eq!(divided.submit(now, read(2, 512, 256)), Admission::Accepted);
        let ends = [(250, 6, 0), (256, 256, 5), (512, 8, 0), (512, 256, 0)];
        let mut finished = Vec::new();
        for (start, len, errno) in ends {
            let command = next(&mut divided, now);
            assert_eq!(command.extent, Extent::from_numbers(start, len));
            now += Nanos::from_ms(1);
            let outcome = if errno == 0 { Outcome::Success } else { Outcome::Failed(errno) };
            finished.extend(
                divided.complete(now, Done { command: command.id, finished: now, outcome }),
            );
        }
        let [first, second] = finished.as_slice() else { panic!("{finished:?}") };
        assert_eq!((first.request, first.outcome), (read(1, 250, 270), Outcome::Failed(5)));
        assert_eq!(first.response(), Nanos::from_ms(3));
        assert_eq!((second.request, second.outcome), (read(2, 512, 256), Outcome::Success));
        assert!(divided.parts.is_empty() && divided.wholes.is_empty());
    }

    #[test]
    fn a_cancelled_request_takes_its_parts_along() {
        let mut divided = divided();
        let admission = divided.submit(Instant::ORIGIN, read(1, 0, 600));
        assert_eq!((admission, divided.scheduler.held()), (Admission::Accepted, 3));
        assert_eq!(divided.cancel(Instant::ORIGIN, RequestId(1)), Cancelled::Removed);
        assert_eq!(divided.scheduler.held(), 0);
        assert_eq!(divided.cancel(Instant::ORIGIN, RequestId(1)), Cancelled::Unknown);
    }
}
