//! Any backend of the engine, without the engine: emulated drives, drives in memory, files moved by
//! threads.

use std::collections::VecDeque;
use std::sync::Arc;

use headtime_sched::{Command, CommandId};
use headtime_units::Instant;

use super::edge::{Edge, EdgeCommand, EdgeCompletion, Found, Lost, sleep_until};
use crate::backend::{Backend, BackendCommand, BackendCompletion, OpenedDrive};
use crate::clock::RealClock;
use crate::notifier::Notifier;

/// A backend with the notifier that it rings.
pub(super) struct BackendEdge {
    backend: Box<dyn Backend>,
    notifier: Arc<Notifier>,
    ended: Vec<BackendCompletion>,
    completed: VecDeque<EdgeCompletion>,
}

impl BackendEdge {
    pub(super) fn new(backend: Box<dyn Backend>, notifier: Arc<Notifier>) -> Self {
        Self { backend, notifier, ended: Vec::new(), completed: VecDeque::new() }
    }
}

/// Puts an edge in front of an opened back end.
pub(super) fn on_backend(opened: OpenedDrive, notifier: Arc<Notifier>) -> Found {
    let OpenedDrive { backend, capacity, sector_size, queue_depth, fua, .. } = opened;
    Found {
        model: Some(backend.describe()),
        serial: None,
        capacity,
        sector_size,
        fua,
        depth: queue_depth,
        notices: Vec::new(),
        knobs: None,
        edge: Box::new(BackendEdge::new(backend, notifier)),
    }
}

impl Edge for BackendEdge {
    fn now(&self) -> Instant {
        RealClock.now()
    }

    fn send(&mut self, command: EdgeCommand) -> Instant {
        let EdgeCommand { token, op, extent, data, fua } = command;
        let command = Command {
            id: CommandId(token),
            op,
            extent,
            fua,
            background: None,
            requests: Default::default(),
        };
        let pieces = if data.is_empty() { Vec::new() } else { vec![data] };
        let now = RealClock.now();
        self.backend.start(now, BackendCommand { command, pieces });
        now
    }

    fn next_completion(&mut self, until: Instant) -> Result<Option<EdgeCompletion>, Lost> {
        loop {
            if let Some(completion) = self.completed.pop_front() {
                return Ok(Some(completion));
            }
            let now = RealClock.now();
            self.backend.collect(now, &mut self.ended);
            for BackendCompletion { command, result, .. } in self.ended.drain(..) {
                // Seen now, whatever a model says when it was: this is what a host in front of a
                // drive sees.
                let explanation =
                    result.as_ref().err().and_then(|_| self.backend.explanation(command));
                self.completed.push_back(EdgeCompletion {
                    token: command.0,
                    completed: now,
                    result,
                    explanation,
                });
            }
            if !self.completed.is_empty() {
                continue;
            }
            if now >= until {
                return Ok(None);
            }
            match self.backend.next_event() {
                Some(event) if event <= until => {
                    self.notifier.wait_precise(RealClock, event, || false)
                }
                _ => self.notifier.wait(RealClock, Some(until)),
            }
        }
    }

    fn wait_until(&mut self, at: Instant) {
        sleep_until(at);
    }

    fn reopen(&mut self) -> Result<(), String> {
        Err("only a connection can be made again".to_owned())
    }
}
