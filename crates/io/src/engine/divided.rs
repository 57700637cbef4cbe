//! Requests on several members of an array, divided into a part for each stripe
//! ([`DividedRequests`]).
//!
//! Each part is a request of its own at the scheduler, with the deadline, priority, volume and
//! stream of the whole, so that its member schedules it. The whole is over with its last part: with
//! the data of all parts in order, or with the error of the lowest part that failed. Its deadline
//! is guaranteed if that of each part is; if one part is refused, the whole is.
//!
//! Only reads and writes are divided: the bound on their bytes also bounds their parts.
//!
//! The scheduler counts each part as a request. Reports count the whole: its accounts have the
//! parts subtracted and the whole added ([`DividedRequests::accounts`]). Example: a read with a
//! deadline in three parts, of which one is late, counts as one request that missed its deadline.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Mutex};

use bytes::{Bytes, BytesMut};
use headtime_sched::{
    Accounts, Finished, Op, Outcome, PriorityClass, Promise, PromiseCounts, Request, RequestId,
    VolumeAccount, VolumeId,
};
use headtime_units::{Extent, Instant, SectorSize, Sectors};
use smallvec::{SmallVec, smallvec};

use super::Engine;
use crate::engine::mailbox::{ActiveRequest, Callback, HeldPermit, Part, lock};
use crate::request::{IoDone, IoError};

/// The division of requests, and those that are divided and not over.
#[derive(Default)]
pub(crate) struct DividedRequests {
    /// Requests are divided at its multiples; `None` divides nothing.
    stripe: Option<Sectors>,
    parts_made: u64,
    wholes: Arc<Mutex<HashMap<RequestId, Whole>>>,
    counts: BTreeMap<VolumeId, Counts>,
}

/// The counts of divided requests, and of their parts.
#[derive(Default)]
struct Counts {
    wholes: VolumeAccount,
    parts: VolumeAccount,
}

/// A divided request.
struct Whole {
    request: Request,
    on_done: Callback,
    /// The answer to its deadline.
    promise: Option<Promise>,
    /// The id of its first part; the others follow.
    first: u64,
    unfinished: usize,
    /// The results of its parts, in the order of addresses.
    parts: Vec<Option<IoDone>>,
}

/// The first id of a part, above all ids of requests.
const PARTS: u64 = 1 << 63;

impl DividedRequests {
    pub(crate) fn at(stripe: Option<Sectors>) -> Self {
        Self { stripe, ..Self::default() }
    }

    /// The maximum number of parts of all requests that an engine holds.
    pub(crate) fn max_parts(
        stripe: Option<Sectors>,
        sector: SectorSize,
        requests: usize,
        bytes: u64,
    ) -> usize {
        let Some(stripe) = stripe else { return requests };
        // The first and the last part of each request may be shorter than a stripe.
        let stripes = bytes / sector.bytes_of(stripe);
        requests.saturating_mul(2).saturating_add(usize::try_from(stripes).unwrap_or(usize::MAX))
    }

    /// The parts of a request; one if it is not divided.
    pub(super) fn parts(&self, request: &Request) -> SmallVec<[Extent; 1]> {
        match self.stripe {
            Some(stripe) if matches!(request.op, Op::Read | Op::Write) => {
                request.extent.divided_at(stripe).collect()
            }
            _ => smallvec![request.extent],
        }
    }

    /// The ids at the scheduler of a request: those of its parts if it is divided.
    pub(super) fn ids(&self, id: RequestId) -> impl Iterator<Item = RequestId> + use<> {
        let parts = lock(&self.wholes).get(&id).map(|whole| {
            let first = whole.first;
            first..first + whole.parts.len() as u64
        });
        parts.unwrap_or(id.0..id.0 + 1).map(RequestId)
    }

    /// The accounts with divided requests counted instead of their parts.
    pub(super) fn accounts(&self, accounts: &Accounts) -> Vec<(VolumeId, VolumeAccount)> {
        let counted = |(volume, account): (VolumeId, &VolumeAccount)| {
            let counts = self.counts.get(&volume);
            (volume, counts.map_or(*account, |counts| counts.instead_of_parts(account)))
        };
        accounts.volumes().map(counted).collect()
    }

    /// The number of queued parts beyond the first of each request; those of `sent` are at the
    /// drive.
    pub(super) fn queued_beside_first(&self, sent: &HashSet<RequestId>) -> usize {
        let of_one = |whole: &Whole| {
            let parts = (whole.first..).map(RequestId).zip(&whole.parts);
            let queued = parts.filter(|(id, done)| done.is_none() && !sent.contains(id)).count();
            queued.saturating_sub(1)
        };
        lock(&self.wholes).values().map(of_one).sum()
    }

    /// Counts a part that the scheduler reports. Returns the record of the whole request with its
    /// last part, if the scheduler has reported all: with the times of this part, which it waited
    /// for.
    pub(super) fn part_finished(&mut self, part: Part, finished: &Finished) -> Option<Finished> {
        let counts = self.counts.entry(finished.request.volume).or_default();
        let broken = |promise| u64::from(promise == Some(Promise::Guaranteed) && finished.missed());
        counts.parts.note(finished);
        counts.parts.promises.of_mut(part.class).broken += broken(part.promise);
        let wholes = lock(&self.wholes);
        let whole = wholes.get(&part.whole).filter(|whole| whole.unfinished == 1)?;
        let mut outcome = finished.outcome;
        for other in whole.parts.iter().flatten() {
            if let failed @ Outcome::Failed(_) = other.finished?.outcome {
                outcome = failed;
            }
        }
        let finished = Finished { outcome, ..whole.record(*finished) };
        counts.wholes.note(&finished);
        counts.wholes.promises.of_mut(part.class).broken += broken(whole.promise);
        Some(finished)
    }

    fn new_ids(&mut self, parts: usize) -> Range<u64> {
        let first = PARTS + self.parts_made;
        self.parts_made += parts as u64;
        first..first + parts as u64
    }

    /// The callback of a part, which calls that of the whole after the last part.
    fn callback(&self, whole: RequestId, part: usize) -> Callback {
        let wholes = Arc::clone(&self.wholes);
        Callback::new(Box::new(move |done| {
            let over = {
                let mut wholes = lock(&wholes);
                let Some(state) = wholes.get_mut(&whole) else { return };
                state.parts[part] = Some(done);
                state.unfinished -= 1;
                if state.unfinished == 0 { wholes.remove(&whole) } else { None }
            };
            over.into_iter().for_each(Whole::finish);
        }))
    }
}

impl Counts {
    fn instead_of_parts(&self, account: &VolumeAccount) -> VolumeAccount {
        let Self { wholes, parts } = self;
        VolumeAccount {
            disk_time: account.disk_time,
            requests: account.requests - parts.requests + wholes.requests,
            sectors: account.sectors - parts.sectors + wholes.sectors,
            errors: account.errors - parts.errors + wholes.errors,
            deadline_requests: account.deadline_requests - parts.deadline_requests
                + wholes.deadline_requests,
            deadline_misses: account.deadline_misses - parts.deadline_misses
                + wholes.deadline_misses,
            promises: account.promises - parts.promises + wholes.promises,
        }
    }
}

impl Whole {
    /// The record of the request from that of a part, or of several joined. A deadline by priority
    /// is that of the parts.
    fn record(&self, of_parts: Finished) -> Finished {
        let deadline = of_parts.request.deadline;
        Finished { request: Request { deadline, ..self.request }, ..of_parts }
    }

    fn finish(mut self) {
        let parts: Vec<IoDone> = self.parts.drain(..).flatten().collect();
        let records = parts.iter().map(|part| part.finished);
        let joined = records.reduce(|one, other| Some(one?.joined_with(other?))).flatten();
        let finished = joined.map(|joined| self.record(joined));
        self.on_done.call(IoDone { finished, result: join_data(parts) });
    }
}

/// The data of all parts, or the error of the first that failed.
fn join_data(parts: Vec<IoDone>) -> Result<Bytes, IoError> {
    let parts = parts.into_iter().map(|part| part.result).collect::<Result<Vec<Bytes>, _>>()?;
    let mut data = BytesMut::with_capacity(parts.iter().map(Bytes::len).sum());
    parts.iter().for_each(|part| data.extend_from_slice(part));
    Ok(data.freeze())
}

impl Engine {
    /// Submits a request as these parts: all of them, or none if one is refused.
    pub(super) fn submit_divided(
        &mut self,
        now: Instant,
        mut active: ActiveRequest,
        parts: &[Extent],
    ) {
        let ids = self.divided.new_ids(parts.len());
        let part = |(id, extent): (u64, &Extent)| Request {
            id: RequestId(id),
            extent: *extent,
            ..active.request
        };
        let requests: Vec<Request> = ids.clone().zip(parts).map(part).collect();
        let priority =
            active.priority.unwrap_or_else(|| self.scheduler.priority_of(&active.request));
        let (volume, class) = (active.request.volume, priority.class());
        let before = self.scheduler.accounts().volume(volume).promises.of(class);
        let mut promises = Vec::with_capacity(parts.len());
        for request in &requests {
            match self.admit(now, *request, &active) {
                Ok(promise) => promises.push(promise),
                Err(refusal) => {
                    for id in ids.start..request.id.0 {
                        self.scheduler.cancel(now, RequestId(id));
                    }
                    self.count_answers(volume, class, before, None);
                    return self.refuse(active, refusal);
                }
            }
        }
        let all_guaranteed = promises.iter().all(|part| *part == Some(Promise::Guaranteed));
        let promise = promises[0]
            .map(|_| if all_guaranteed { Promise::Guaranteed } else { Promise::BestEffort });
        self.count_answers(volume, class, before, promise);
        active.give_answer(promise);
        let whole = active.request;
        let Some(on_done) = active.on_done.take() else { return };
        lock(&self.divided.wholes).insert(
            whole.id,
            Whole {
                request: whole,
                on_done,
                promise,
                first: ids.start,
                unfinished: requests.len(),
                parts: requests.iter().map(|_| None).collect(),
            },
        );
        let permit = active.permit.into_shared();
        for (index, (request, promise)) in requests.into_iter().zip(promises).enumerate() {
            let data = if active.data.is_empty() {
                Bytes::new()
            } else {
                let before = request.extent.start - whole.extent.start;
                let start = self.sector_size.bytes_of(before) as usize;
                active
                    .data
                    .slice(start..start + self.sector_size.bytes_of(request.extent.len) as usize)
            };
            let on_done = self.divided.callback(whole.id, index);
            let permit = HeldPermit::Shared(Arc::clone(&permit));
            let part = ActiveRequest::new(request, active.priority, None, data, on_done, permit);
            let is_part = Some(Part { whole: whole.id, class, promise });
            self.accept(now, ActiveRequest { part: is_part, ..part });
        }
    }

    /// Counts the answers to a divided request and to its parts, of which the accounts had
    /// `before`. `promise` is the answer to the whole, `None` if it was refused or did not ask.
    fn count_answers(
        &mut self,
        volume: VolumeId,
        class: PriorityClass,
        before: PromiseCounts,
        promise: Option<Promise>,
    ) {
        let answered = self.scheduler.accounts().volume(volume).promises.of(class) - before;
        if answered == PromiseCounts::default() {
            return;
        }
        let Counts { wholes, parts } = self.divided.counts.entry(volume).or_default();
        let (wholes, parts) = (wholes.promises.of_mut(class), parts.promises.of_mut(class));
        *parts = *parts + answered;
        match promise {
            Some(Promise::Guaranteed) => wholes.guaranteed += 1,
            Some(Promise::BestEffort) => wholes.best_effort += 1,
            None => wholes.refused += answered.refused,
        }
    }

    /// The request of a client that an id at the scheduler stands for.
    pub(super) fn whole_of(&self, id: RequestId) -> RequestId {
        let part = self.pending.get(&id).and_then(|active| active.part);
        part.map_or(id, |part| part.whole)
    }
}
