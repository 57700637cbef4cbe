//! Requests on several members of an array, divided into a part for each stripe
//! ([`DividedRequests`]).
//!
//! Each part is a request of its own at the scheduler, with the deadline, priority, volume and
//! stream of the whole, so that its member schedules it. The whole is over with its last part: with
//! the data of all parts in order, or with the error of the lowest part that failed. Its deadline
//! is guaranteed if that of each part is; if one part is refused, the whole is.
//!
//! Only reads and writes are divided: the bound on their bytes also bounds their parts.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use bytes::{Bytes, BytesMut};
use headtime_sched::{Finished, Op, Promise, Request, RequestId};
use headtime_units::{Extent, Instant, SectorSize, Sectors};
use smallvec::{SmallVec, smallvec};

use super::Engine;
use crate::engine::mailbox::{ActiveRequest, Callback, HeldPermit, lock};
use crate::request::{IoDone, IoError};

/// The division of requests, and those that are divided and not over.
#[derive(Default)]
pub(crate) struct DividedRequests {
    /// Requests are divided at its multiples; `None` divides nothing.
    stripe: Option<Sectors>,
    parts_made: u64,
    wholes: Arc<Mutex<HashMap<RequestId, Whole>>>,
}

/// A divided request.
struct Whole {
    request: Request,
    on_done: Callback,
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

impl Whole {
    fn finish(self) {
        let parts: Vec<IoDone> = self.parts.into_iter().flatten().collect();
        let records = parts.iter().map(|part| part.finished);
        let joined = records.reduce(|one, other| Some(one?.joined_with(other?))).flatten();
        let finished = joined.map(|joined| Finished { request: self.request, ..joined });
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
        let mut answer = Some(Promise::Guaranteed);
        for request in &requests {
            match self.admit(now, *request, &active) {
                Ok(Some(Promise::Guaranteed)) => {}
                Ok(other) => answer = other,
                Err(refusal) => {
                    for id in ids.start..request.id.0 {
                        self.scheduler.cancel(now, RequestId(id));
                    }
                    return self.refuse(active, refusal);
                }
            }
        }
        active.give_answer(answer);
        let whole = active.request;
        let Some(on_done) = active.on_done.take() else { return };
        lock(&self.divided.wholes).insert(
            whole.id,
            Whole {
                request: whole,
                on_done,
                first: ids.start,
                unfinished: requests.len(),
                parts: requests.iter().map(|_| None).collect(),
            },
        );
        let permit = active.permit.into_shared();
        for (index, request) in requests.into_iter().enumerate() {
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
            self.accept(now, part);
        }
    }
}
