//! The thread that owns the connection. It sends requests, receives answers, and opens a new
//! connection after a loss. It waits for all of these events together.
//!
//! ```text
//!             server ends it, breaks the protocol, or a command is given up
//!   connected ────────────────────────────────────────────────────► away ──┐ attempts, 100 ms to
//!       ▲                                                             │    │ 5 s apart, on threads
//!       └─────────────────────────────────────────────────────────────┘ ◄──┘ of their own
//! ```
//! Looking up a name may take long, so each attempt runs on its own thread.
//!
//! *Commands at the server* fail when the connection is lost, because their outcome is unknown.
//! *Other commands* wait for the next connection, for up to `reconnect_timeout` after the loss.
//! After that, every command fails at once until the drive is back.
//!
//! *Another drive may return.* Its size, sectors and features must be unchanged. If the application
//! has set an identity ([`DriveIdentity`](crate::DriveIdentity)), the first sectors are read and
//! compared before any other command is sent. Until the right drive is back, it counts as
//! disconnected.
//!
//! *The server may still read an old connection.* After this side ended a connection, a write that
//! the server has received and not processed may still happen, and would overwrite newer data of a
//! new connection. So this side closes its half only. It sends nothing on the new connection until
//! the server has closed its half of the old one, or until [`LINGER`] after the new one was opened.
//! This covers the usual case, a server that was stopped and continues. A server that keeps a dead
//! connection open for longer may still execute a write that was reported as failed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use headtime_nbd::client::{ClientEvent, Connection};
use headtime_units::{Instant, Nanos};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use super::establish::{Established, SCRATCH_BYTES, ended_by_server, establish, exchange};
use super::jobs::{GivenUp, Jobs};
use super::recognize::recognize;
use super::shape::Shape;
use super::shared::{Orders, Report, Shared};
use super::socket::Socket;
use crate::clock::RealClock;
use crate::locator::NbdLocator;
use crate::nbd_error::NbdError;
use crate::notifier::wait_for;
use crate::snapshot::{LinkSnapshot, LinkState};

/// The thread's own state.
pub(super) struct Link {
    locator: NbdLocator,
    uri: String,
    shared: Arc<Shared>,
    /// The drive as it was opened.
    shape: Shape,
    state: State,
    /// A connection that this side has ended and the server may still read.
    old: Option<Old>,
    jobs: Jobs,
    /// The pause before the next attempt.
    pause: Nanos,
    losses: u64,
    attempts: u64,
    scratch: Vec<u8>,
}

enum State {
    Connected {
        socket: Socket,
        machine: Box<Connection>,
        shape: Shape,
        proven: bool,
    },
    Away {
        since: Instant,
        cause: String,
        next_attempt: Option<Instant>,
        /// Commands have waited too long, which was logged.
        overdue: bool,
    },
}

struct Old {
    socket: Socket,
    /// The time limit for which a new connection waits for this one.
    until: Option<Instant>,
}

/// The side that ended a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum EndedBy {
    Server,
    Us,
}

impl Link {
    pub(super) fn new(locator: NbdLocator, established: Established, shared: Arc<Shared>) -> Self {
        let Established { socket, machine, shape } = established;
        Self {
            uri: locator.uri.to_string(),
            locator,
            shared,
            shape,
            state: State::Connected { socket, machine: Box::new(machine), shape, proven: false },
            old: None,
            jobs: Jobs::default(),
            pause: FIRST_PAUSE,
            losses: 0,
            attempts: 0,
            scratch: vec![0; SCRATCH_BYTES],
        }
    }

    /// Runs until the drive is closed.
    pub(super) fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        if catch_unwind(AssertUnwindSafe(move || self.serve())).is_err() {
            tracing::error!(
                "the connection of a drive failed on a fault of this program; all requests \
                    of the drive fail"
            );
            shared.set_broken();
        }
    }

    fn serve(&mut self) {
        loop {
            let Orders { work, given_up, arrived, closing } = self.shared.take_orders();
            if closing {
                return self.leave();
            }
            for work in work {
                self.jobs.take(work, u64::from(self.shape.sector.bytes()));
            }
            let now = RealClock.now();
            match arrived {
                Some(Ok(established)) => self.connected(now, established),
                Some(Err(error)) => self.attempt_failed(now, &error),
                None => {}
            }
            for id in given_up {
                if let GivenUp::AtServer(what) = self.jobs.give_up(id) {
                    self.lose(
                        now,
                        format!("the server did not answer a {what} in time"),
                        EndedBy::Us,
                    );
                }
            }
            // First, because waiting commands are sent when the old connection has ended.
            self.look_at_old(now);
            let busy = self.exchange(now);
            self.look_at_absence(now);
            self.report(Vec::new());
            if !busy {
                self.wait();
            }
        }
    }

    /// Reads and writes without waiting. Returns whether there may be more.
    fn exchange(&mut self, now: Instant) -> bool {
        for _ in 0..ROUNDS {
            let State::Connected { socket, machine, shape, proven } = &mut self.state else {
                return false;
            };
            if self.old.is_none() {
                self.jobs.send(machine, shape);
            }
            let moved = exchange(socket, machine, &mut self.scratch);
            let mut closed = None;
            while let Some(event) = machine.poll_event() {
                match event {
                    ClientEvent::Completed(completion) => {
                        *proven |= self.jobs.complete(&self.uri, completion)
                    }
                    ClientEvent::Closed(reason) => closed = Some(reason),
                    ClientEvent::Opened(_) | ClientEvent::Described(_) | ClientEvent::Listed(_) => {
                    }
                }
            }
            if *proven {
                self.pause = FIRST_PAUSE;
            }
            match (closed, moved) {
                (Some(reason), _) => {
                    let ended_by =
                        if ended_by_server(&reason) { EndedBy::Server } else { EndedBy::Us };
                    self.lose(now, reason.to_string(), ended_by);
                    return false;
                }
                (None, Err(errno)) => {
                    self.lose(now, std::io::Error::from(errno).to_string(), EndedBy::Server);
                    return false;
                }
                (None, Ok(false)) => return false,
                (None, Ok(true)) => {}
            }
        }
        true
    }

    /// Ends the connection.
    fn lose(&mut self, now: Instant, cause: String, ended_by: EndedBy) {
        let State::Connected { proven, .. } = self.state else { return };
        // A server that ends every connection before its first answer counts as absent.
        let next_attempt = if proven { now } else { now + self.next_pause() };
        let away = State::Away {
            since: now,
            cause: cause.clone(),
            next_attempt: Some(next_attempt),
            overdue: false,
        };
        let State::Connected { socket, .. } = std::mem::replace(&mut self.state, away) else {
            return;
        };
        if ended_by == EndedBy::Us && self.jobs.changes_at_server() {
            socket.end_writing();
            self.old = Some(Old { socket, until: None });
        }
        // Report answers from before the loss first.
        self.report(vec![Report::Lost]);
        let said = format!(
            "the connection to {} was lost before it was answered ({cause}); a change may or may \
                not have happened",
            self.uri
        );
        let failed = self.jobs.lose(&said.into());
        (self.losses, self.attempts) = (self.losses + 1, 0);
        tracing::warn!(
            "{}: the connection is lost: {cause}; commands that were there fail ({failed}), others \
                wait for a new connection for {}. Writes that were acknowledged and not flushed \
                may be lost: the next flush of their volumes fails once",
            self.uri,
            self.locator.reconnect_timeout
        );
    }

    fn connected(&mut self, now: Instant, established: Established) {
        let State::Away { since, .. } = &self.state else { return };
        if let Some(difference) = self.shape.difference(&established.shape) {
            return self
                .attempt_failed(now, &NbdError::Changed { uri: self.uri.clone(), difference });
        }
        tracing::warn!("{}: the drive is back after {}", self.uri, now.saturating_since(*since));
        if let Some(old) = &mut self.old {
            old.until = Some(now + LINGER);
        }
        let Established { socket, machine, shape } = established;
        self.state = State::Connected { socket, machine: Box::new(machine), shape, proven: false };
    }

    fn attempt_failed(&mut self, now: Instant, error: &NbdError) {
        let pause = self.next_pause();
        let State::Away { cause, next_attempt, .. } = &mut self.state else { return };
        let said = error.to_string();
        // Whatever names the cause names the server as well.
        let without_uri = said.strip_prefix(&*self.uri).and_then(|rest| rest.strip_prefix(": "));
        let said = without_uri.unwrap_or(&said);
        // Log a repeated failure only once.
        if *cause != said {
            tracing::warn!(
                "{}: {said}; it is tried again, at least every {LONGEST_PAUSE}",
                self.uri
            );
            *cause = said.to_owned();
        }
        *next_attempt = Some(now + pause);
    }

    fn next_pause(&mut self) -> Nanos {
        let pause = self.pause;
        self.pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
        pause
    }

    /// Without a connection: starts the next attempt at its time, and ends commands that have
    /// waited too long.
    fn look_at_absence(&mut self, now: Instant) {
        let State::Away { since, cause, next_attempt, overdue } = &mut self.state else { return };
        if *since + self.locator.reconnect_timeout <= now && !self.jobs.is_empty() {
            let said = format!(
                "{} has been away for {} ({cause}); it is tried again",
                self.uri,
                now.saturating_since(*since)
            );
            let failed = self.jobs.fail_waiting(&Arc::from(&*said));
            if !std::mem::replace(overdue, true) {
                tracing::error!(
                    "{said}; commands that waited for it fail ({failed}), and further ones fail \
                        at once until it is back"
                );
            }
        }
        if next_attempt.is_none_or(|at| now < at) {
            return;
        }
        *next_attempt = None;
        self.attempts += 1;
        let (locator, shared) = (self.locator.clone(), Arc::clone(&self.shared));
        let attempt = move || {
            let established = establish(&locator);
            shared.arrived(match shared.identity() {
                Some(identity) => {
                    established.and_then(|established| recognize(established, &locator, &identity))
                }
                None => established,
            });
        };
        if let Err(error) =
            std::thread::Builder::new().name("headtime-connect".to_owned()).spawn(attempt)
        {
            let error = NbdError::System {
                uri: self.uri.clone(),
                doing: "starting a thread that connects",
                error: error.to_string(),
            };
            self.attempt_failed(now, &error);
        }
    }

    /// Waits for a limited time until the server closes its half of a connection that this side has
    /// ended.
    fn look_at_old(&mut self, now: Instant) {
        let Some(old) = &self.old else { return };
        // Discard further answers. One read at a time, because they may not end.
        let over = match old.socket.read(&mut self.scratch) {
            Ok(count) => count == 0,
            Err(errno) => errno != Errno::AGAIN,
        };
        if over {
            tracing::info!(
                "{}: the server has closed the connection that was given up; nothing of it can \
                    happen any more",
                self.uri
            );
            self.old = None;
        } else if old.until.is_some_and(|until| until <= now) {
            let uri = &self.uri;
            tracing::warn!(
                "{uri}: the server keeps the connection open that was given up {LINGER} ago; a \
                    write that failed on it may still happen, after newer ones"
            );
            self.old = None;
        }
    }

    /// Reports completed commands to the engine, and then other events.
    fn report(&mut self, then: Vec<Report>) {
        let reports: Vec<Report> = self.jobs.take_over().map(Report::Over).chain(then).collect();
        let state = match &self.state {
            State::Connected { .. } => LinkState::Connected,
            State::Away { since, cause, .. } => {
                LinkState::Away { since: *since, cause: cause.clone() }
            }
        };
        self.shared
            .report(reports, LinkSnapshot { state, losses: self.losses, attempts: self.attempts });
    }

    fn wait(&self) {
        let mut until = self.old.as_ref().and_then(|old| old.until);
        let mut watched = Vec::with_capacity(3);
        match &self.state {
            State::Connected { socket, machine, .. } => {
                let writing =
                    if machine.output_bytes() > 0 { PollFlags::OUT } else { PollFlags::empty() };
                watched.push(PollFd::new(socket, PollFlags::IN | writing));
            }
            State::Away { since, next_attempt, .. } => {
                let too_long =
                    (!self.jobs.is_empty()).then(|| *since + self.locator.reconnect_timeout);
                until = until.into_iter().chain(*next_attempt).chain(too_long).min();
            }
        }
        if let Some(old) = &self.old {
            watched.push(PollFd::new(&old.socket, PollFlags::IN));
        }
        wait_for(self.shared.wake(), &mut watched, RealClock, until);
    }

    /// Sends DISC if that needs no waiting.
    fn leave(&mut self) {
        if let State::Connected { socket, machine, .. } = &mut self.state {
            machine.disconnect();
            while machine.poll_event().is_some() {}
            // Otherwise the server sees the end of the stream.
            let _ = exchange(socket, machine, &mut self.scratch);
        }
    }
}

/// The number of reads and writes before the next check for commands.
const ROUNDS: usize = 64;
/// Pauses between attempts (guesses). A restarted server needs about the first; the last bounds the
/// time until a server that is back is noticed.
const FIRST_PAUSE: Nanos = Nanos::from_ms(100);
const LONGEST_PAUSE: Nanos = Nanos::from_secs(5);
/// A guess: a healthy server notices the end of a connection and finishes what it has of it within
/// milliseconds, or as long as one command of its disk takes.
const LINGER: Nanos = Nanos::from_secs(5);
