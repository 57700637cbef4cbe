//! Time limits for requests to a drive that does not answer.
//!
//! With the limit of [`DriveOptions::command_timeout`](crate::DriveOptions), a request is answered
//! with [`IoError::TimedOut`]
//! - when the command that serves it has been at the drive for the limit, a flush or discard for
//!   twice the limit;
//! - when it has waited for the limit in the queue while a command is given up, and either that
//!   command blocks it (they overlap and one of them is a change, or both are flushes), or the
//!   drive has not answered any command for the limit.
//!
//! Therefore no request waits indefinitely, and no request fails because of a long queue at a slow
//! but working drive. Example with a limit of 30 s: a drive of depth 2 stops answering at 0 s with
//! A and B. A and B fail at 30 s. C, queued at 10 s, fails at 40 s. If A returns at 35 s, C is sent
//! then and has its own 30 s.
//!
//! A given-up command keeps its slot at the drive and its position in the order of overlapping
//! requests until the backend reports it: a hung write may take effect at any time and must not
//! overwrite newer data. The scheduler treats its requests as cancelled at the drive.

use std::collections::BTreeSet;

use headtime_sched::{CommandId, RequestId};
use headtime_units::{Instant, Nanos};

use super::Engine;
use super::at_drive::{Overdue, limit_of, name};
use crate::request::{IoDone, IoError};
use crate::snapshot::LinkState;

impl Engine {
    /// The time at which [`Engine::apply_time_limits`] has to run next.
    pub(super) fn next_time_limit(&self) -> Option<Instant> {
        let expiry = self.at_drive.any_given_up().then_some(self.next_expiry);
        self.at_drive.next_check().into_iter().chain(expiry).min()
    }

    /// Answers the requests whose time limit has passed at `now`, the time up to which completions
    /// were collected.
    pub(super) fn apply_time_limits(&mut self, now: Instant) {
        for overdue in self.at_drive.check(now) {
            match overdue {
                Overdue::Slow(id) => self.tell_of_slow(now, id),
                Overdue::GivenUp(id) => self.give_up_command(now, id),
            }
        }
        let Some(limit) = self.command_timeout.limit() else { return };
        if self.next_expiry <= now && self.at_drive.any_given_up() {
            self.expire_queued(now, limit);
        }
    }

    fn tell_of_slow(&self, now: Instant, id: CommandId) {
        let Some(sent) = self.at_drive.get(id) else { return };
        // A lost connection was logged, and has a time limit of its own.
        if self.backend.link().is_some_and(|link| link.state != LinkState::Connected) {
            return;
        }
        let (what, waited) = (name(&sent.command), now.saturating_since(sent.since));
        match self.command_timeout.limit() {
            Some(limit) => {
                let limit = limit_of(sent.command.op, limit);
                tracing::warn!(
                    "the drive has not answered a {what} for {waited}; after {limit} its requests \
                        fail"
                );
            }
            None => tracing::warn!(
                "the drive has not answered a {what} for {waited}; the wait has no limit"
            ),
        }
    }

    fn give_up_command(&mut self, now: Instant, id: CommandId) {
        let Some(sent) = self.at_drive.get(id) else { return };
        let (what, waited, requests) =
            (name(&sent.command), now.saturating_since(sent.since), sent.command.requests.clone());
        let limit = limit_of(sent.command.op, self.command_timeout.limit().unwrap_or(waited));
        tracing::error!(
            "the drive has not answered a {what} for {waited}; its requests fail, and it is given \
                up"
        );
        for request in requests {
            self.time_out(request, limit, true);
        }
        self.backend.give_up(now, id);
        // It may block a request that has already waited for the limit.
        self.next_expiry = now;
    }

    /// Answers the queued requests whose time limit has passed, in the order of their submission.
    /// Visits all of them.
    fn expire_queued(&mut self, now: Instant, limit: Nanos) {
        let at_drive: BTreeSet<RequestId> = self.at_drive.requests().collect();
        let mut due = Vec::new();
        // Requests submitted from now on are due later.
        let mut next = now + limit;
        for (id, pending) in self
            .pending
            .iter()
            .filter(|(id, pending)| pending.on_done.is_some() && !at_drive.contains(id))
        {
            let waited_long = pending.submitted + limit;
            let blocked = self.at_drive.in_the_way_of(&pending.request);
            let expires =
                if blocked { waited_long } else { waited_long.max(self.last_report + limit) };
            if expires <= now { due.push(*id) } else { next = next.min(expires) }
        }
        due.sort_unstable();
        if !due.is_empty() {
            tracing::error!(
                "{} requests that wait for earlier commands at the drive have waited \
                    for {limit} and fail",
                due.len()
            );
        }
        for id in due {
            self.time_out(id, limit, false);
        }
        // Visiting thousands of requests for each one that is due would be expensive. A small delay
        // is acceptable.
        self.next_expiry = next.max(now + Nanos::from_ns(limit.as_ns() / EXPIRY_SHARE));
    }

    fn time_out(&mut self, id: RequestId, limit: Nanos, sent: bool) {
        let Some(pending) = self.pending.get(&id) else { return };
        let request = pending.request;
        let error = IoError::TimedOut { op: request.op, extent: request.extent, limit, sent };
        if let Some(on_done) = self.withdraw(id) {
            *self.errors.by_errno.entry(error.errno()).or_default() += 1;
            on_done.call(IoDone { finished: None, result: Err(error) });
        }
    }
}

/// The maximum number of visits to queued requests within the limit. A request may wait longer than
/// the limit by this share.
const EXPIRY_SHARE: u64 = 64;
