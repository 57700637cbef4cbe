//! Arrivals: the queue of each request, its habits, cooperation, and the virtual times of a queue
//! that becomes busy.

use headtime_units::{Lba, Nanos};
use smallvec::SmallVec;

use super::Bfq;
use super::queues::{Owner, QueueId, SEEK, ServiceQueue, owner_of};
use crate::policies::elevator::DecayingMean;
use crate::policy::View;
use crate::queue::Queued;
use crate::tunables::PriorityClass;

/// Requests of two queues this close, in sectors, make them cooperate (Linux 6).
const CLOSE: u64 = 8_192;

/// A queue older than this is not merged into another, nor another into it (Linux 6).
const MERGE_TIME: Nanos = Nanos::from_ms(1_500);

/// The weight of requests that belong to no tenant with a reservation (Linux 6: of a group).
const ROOT_WEIGHT: f64 = 100.0;

/// Queues that are kept (guess); beyond that the one that was idle longest goes.
const MAX_QUEUES: usize = 1_024;

impl Bfq {
    /// Observes the requests that have arrived, and the backlog of each queue. Returns true if the
    /// queue in service is preempted.
    pub(super) fn observe(&mut self, view: &View<'_>) -> bool {
        let mut arrived: SmallVec<[&Queued; 8]> = view
            .queue
            .by_arrival()
            .rev()
            .take_while(|queued| Some(queued.ticket) > self.seen)
            .collect();
        arrived.reverse();
        for queued in &arrived {
            self.arrived(view, queued);
        }
        self.seen = arrived.last().map(|queued| queued.ticket).or(self.seen);
        self.queues.values_mut().for_each(|queue| queue.backlog = 0);
        let mut activated: SmallVec<[QueueId; 4]> = SmallVec::new();
        for queued in view.queue.by_arrival() {
            let id = self.queue_of(view, queued);
            let Some(queue) = self.queues.get_mut(&id) else { continue };
            queue.backlog += 1;
            if !queue.busy {
                queue.busy = true;
                activated.push(id);
            }
        }
        let serving = self.in_service.map(|service| service.id);
        self.group_sums.clear();
        self.symmetric = true;
        let mut first = None;
        for (id, queue) in &mut self.queues {
            // Without a backlog its requests were cancelled.
            queue.busy &= queue.backlog > 0 || serving == Some(*id);
            if queue.busy {
                *self.group_sums.entry(queue.group).or_default() += queue.own_weight();
                let key = (queue.priority, queue.group);
                self.symmetric &= *first.get_or_insert(key) == key;
            }
        }
        let mut preempts = false;
        for id in activated {
            preempts |= self.activate(view, id);
        }
        preempts
    }

    /// Notes a request that has arrived: the habits of its queue, and whether it cooperates.
    fn arrived(&mut self, view: &View<'_>, queued: &Queued) {
        let id = self.queue_of(view, queued);
        let id = self.split_or_merge(view, queued, id).unwrap_or(id);
        let limit = self.slice_idle * 2;
        let Some(queue) = self.queues.get_mut(&id) else { return };
        queue.processes = queue.processes.max(1);
        if let Some(idle_since) = queue.idle_since.take() {
            let think = queued.submitted.saturating_since(idle_since).min(limit);
            queue.think.add(think.as_ns() as f64);
        }
        let start = queued.request.extent.start;
        let seeks = queue.position.is_some_and(|position| position.distance(start).get() > SEEK);
        queue.seeks = queue.seeks << 1 | u32::from(seeks);
        queue.position = Some(queued.request.extent.end());
        queue.latest = Some(queued.request.id);
        queue.used = view.now;
    }

    /// The queue that a request belongs to; made if there is none.
    fn queue_of(&mut self, view: &View<'_>, queued: &Queued) -> QueueId {
        let owner = owner_of(queued);
        if let Some(id) = self.owners.get(&owner) {
            return *id;
        }
        if self.queues.len() >= MAX_QUEUES {
            let serving = self.in_service.map(|service| service.id);
            let idle =
                self.queues.iter().filter(|(id, queue)| !queue.busy && serving != Some(**id));
            let longest_idle = idle.min_by_key(|(_, queue)| queue.used).map(|(id, _)| *id);
            if let Some(gone) = longest_idle {
                self.queues.remove(&gone);
                self.owners.retain(|_, id| *id != gone);
            }
        }
        self.add_queue(view, queued)
    }

    fn add_queue(&mut self, view: &View<'_>, queued: &Queued) -> QueueId {
        let tenant = queued.request.tenant();
        let terms = view.shares.terms(tenant).unwrap_or_default();
        let reserve = terms.reserve.as_fraction();
        let (id, owner) = (self.next_id, owner_of(queued));
        self.next_id += 1;
        self.owners.insert(owner, id);
        let budget = self.max_budget() * 2 / 3;
        let queue = ServiceQueue {
            sync: matches!(owner, Owner::Process(_)),
            priority: queued.priority,
            group: (reserve > 0.0 || terms.weight > 1).then_some(tenant),
            group_weight: if reserve > 0.0 {
                reserve * 1_000.0
            } else {
                ROOT_WEIGHT * f64::from(terms.weight)
            },
            backlog: 0,
            busy: false,
            budget,
            entity_budget: budget,
            charged: 0,
            start: 0.0,
            finish: 0.0,
            may_resume: false,
            seeks: 0,
            position: None,
            think: DecayingMean::default(),
            latest: None,
            idle_since: None,
            last_end: None,
            processes: 1,
            created: view.now,
            used: view.now,
        };
        self.queues.insert(id, queue);
        id
    }

    /// Gives a process a queue of its own again if its queue has become seeky, or lets it share the
    /// queue of another whose requests are close. Returns its new queue.
    fn split_or_merge(&mut self, view: &View<'_>, queued: &Queued, id: QueueId) -> Option<QueueId> {
        let queue = self.queues.get_mut(&id).filter(|queue| queue.sync)?;
        if queue.processes > 1 && queue.is_seeky() {
            (queue.processes, queue.seeks, queue.created) = (queue.processes - 1, 0, view.now);
            return Some(self.add_queue(view, queued));
        }
        if queue.processes > 1 {
            return None;
        }
        let other = self.cooperator(view, queued, id)?;
        self.queues.get_mut(&other)?.processes += 1;
        self.owners.insert(owner_of(queued), other);
        match self.in_service {
            Some(service) if service.id == id => self.queues.get_mut(&id)?.processes = 0,
            _ => drop(self.queues.remove(&id)),
        }
        Some(other)
    }

    /// Another queue with a request close to this one.
    fn cooperator(&self, view: &View<'_>, queued: &Queued, id: QueueId) -> Option<QueueId> {
        let own = self.queues.get(&id)?;
        let start = queued.request.extent.start;
        let close = |position: Lba| position.distance(start).get() <= CLOSE;
        let may_merge = |other: &QueueId| {
            let young = |queue: &ServiceQueue| view.now <= queue.created + MERGE_TIME;
            *other != id
                && self.queues.get(other).is_some_and(|queue| {
                    queue.sync
                        && (queue.group, queue.class()) == (own.group, own.class())
                        && own.class() != PriorityClass::Idle
                        && young(queue)
                        && young(own)
                })
        };
        let serving = self.in_service.filter(|service| service.sectors > 0 && close(self.position));
        if let Some(serving) = serving.map(|service| service.id).filter(may_merge) {
            return Some(serving);
        }
        let ahead = view.queue.from_lba(start);
        let back = view.queue.below_lba(start);
        let near = |queued: &&Queued| close(queued.request.extent.start);
        let owner = |queued: &Queued| self.owners.get(&owner_of(queued)).copied();
        ahead.take_while(near).chain(back.take_while(near)).filter_map(owner).find(may_merge)
    }

    /// Sets the virtual times of a queue with a first request. Returns true if it preempts the
    /// queue in service.
    fn activate(&mut self, view: &View<'_>, id: QueueId) -> bool {
        let Some(&(mut queue)) = self.queues.get(&id) else { return false };
        let now = self.virtual_time[queue.class() as usize];
        let weight = self.weight(&queue);
        let left = queue.entity_budget.saturating_sub(queue.charged);
        let in_time = queue.last_end.is_some_and(|end| view.now <= end + self.slice_idle * 3);
        let resumes = queue.may_resume && in_time && left > 0;
        queue.entity_budget = if resumes { left } else { queue.budget };
        queue.start = if resumes { queue.finish } else { now.max(queue.finish) };
        queue.finish = queue.start + queue.entity_budget as f64 / weight;
        // It does not save up more than it would have been served by now.
        let late = (now - queue.finish).max(0.0);
        (queue.start, queue.finish) = (queue.start + late, queue.finish + late);
        (queue.charged, queue.may_resume) = (0, false);
        self.queues.insert(id, queue);
        let Some(serving) = self.in_service.and_then(|service| self.queues.get(&service.id)) else {
            return false;
        };
        let higher = queue.class() < serving.class();
        let heavier = queue.class() == serving.class() && weight > self.weight(serving);
        let next =
            queue.class() == serving.class() && queue.start <= now && queue.finish < serving.finish;
        higher || (next && (resumes || heavier))
    }
}
