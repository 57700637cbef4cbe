//! A simulated drive whose time jumps: a characterization of it takes as long as computing does.

use std::collections::VecDeque;

use bytes::Bytes;
use headtime_sched::{Command, CommandId, Outcome};
use headtime_sim::{Device as _, DriveCompletion, SimulatedDrive};
use headtime_units::{Instant, Nanos};

use super::edge::{Edge, Lost, Order, Over};

/// A simulated drive in virtual time. It has no bytes: what is read is empty.
pub(super) struct VirtualEdge {
    model: SimulatedDrive,
    now: Instant,
    over: VecDeque<DriveCompletion>,
}

impl VirtualEdge {
    pub(super) fn new(model: SimulatedDrive) -> Self {
        Self { model, now: Instant::ORIGIN, over: VecDeque::new() }
    }
}

impl Edge for VirtualEdge {
    fn now(&self) -> Instant {
        self.now
    }

    fn send(&mut self, order: Order) -> Instant {
        self.now += HOST;
        let command = Command {
            id: CommandId(order.token),
            op: order.op,
            extent: order.extent,
            fua: order.fua,
            background: None,
            requests: Default::default(),
        };
        self.model.submit(self.now, &command);
        self.now
    }

    fn next_over(&mut self, until: Instant) -> Result<Option<Over>, Lost> {
        let mut reported = Vec::new();
        while self.over.is_empty() {
            let Some(at) = self.model.next_event().filter(|at| *at <= until) else {
                self.now = self.now.max(until);
                return Ok(None);
            };
            self.now = self.now.max(at);
            self.model.advance(self.now, &mut reported);
            self.over.extend(reported.drain(..));
        }
        Ok(self.over.pop_front().map(|DriveCompletion { command, finished, outcome, .. }| {
            let result = match outcome {
                Outcome::Success => Ok(Bytes::new()),
                Outcome::Failed(errno) => Err(errno),
            };
            Over { token: command.0, completed: finished, result, said: None }
        }))
    }

    fn wait_until(&mut self, at: Instant) {
        self.now = self.now.max(at);
    }

    fn reopen(&mut self) -> Result<(), String> {
        Err("a simulated drive does not come back".to_owned())
    }

    fn is_real(&self) -> bool {
        false
    }
}

/// From one completion to the next order: what a quick host takes (guess).
const HOST: Nanos = Nanos::from_us(1);
