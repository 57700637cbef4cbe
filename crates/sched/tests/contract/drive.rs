//! The tiny drive at work: commands in, completions out, one served at a time, in the order of
//! their arrival or in any other.

use headtime_sched::{Command, Head, Op, Positioning, Target};
use headtime_units::{Instant, Nanos};

use crate::tiny::{OVERHEAD, REPORTING, TinyBelief};

/// The order in which the drive serves its commands.
#[derive(Clone, Debug)]
pub(crate) enum ServiceOrder {
    Arrival,
    /// By these numbers, modulo the number of commands; firmware may reorder at will.
    Picks(Vec<usize>),
}

pub(crate) struct Drive {
    order: ServiceOrder,
    picked: usize,
    head: Head,
    held: Vec<(Command, Instant)>,
    in_service: Option<(Command, Instant)>,
    /// The time at which the last service ended at the medium.
    pub busy_until: Instant,
    last_reported: Instant,
    /// The sum of the times from each dispatch, or from the previous completion, to completion: the
    /// expected charge.
    pub busy: Nanos,
    /// The delay of the arm beyond every prediction.
    pub sluggish: Nanos,
}

/// Flushing takes this long, with or without anything to write.
pub(crate) const FLUSH: Nanos = Nanos::from_ms(2);

impl Drive {
    pub(crate) fn new(order: ServiceOrder) -> Self {
        Self {
            order,
            picked: 0,
            head: Head::UNKNOWN,
            held: Vec::new(),
            in_service: None,
            busy_until: Instant::ORIGIN,
            last_reported: Instant::ORIGIN,
            busy: Nanos::ZERO,
            sluggish: Nanos::ZERO,
        }
    }

    pub(crate) fn take(&mut self, now: Instant, command: Command) {
        self.held.push((command, now));
    }

    /// The number of commands at the drive.
    pub(crate) fn len(&self) -> usize {
        self.held.len() + usize::from(self.in_service.is_some())
    }

    /// Returns the time at which the next completion is reported; picks a command to serve when
    /// none is in service.
    pub(crate) fn next_report(&mut self) -> Option<Instant> {
        if self.in_service.is_none() && !self.held.is_empty() {
            let index = match &self.order {
                ServiceOrder::Arrival => 0,
                ServiceOrder::Picks(picks) if picks.is_empty() => 0,
                ServiceOrder::Picks(picks) => picks[self.picked % picks.len()] % self.held.len(),
            };
            self.picked += 1;
            let (command, dispatched) = self.held.remove(index);
            self.serve(&command, dispatched);
            let reported = self.busy_until + REPORTING;
            self.busy += reported.saturating_since(self.last_reported.max(dispatched));
            self.last_reported = reported;
            self.in_service = Some((command, reported));
        }
        self.in_service.as_ref().map(|(_, at)| *at)
    }

    /// The command in service, which is done.
    pub(crate) fn report(&mut self) -> Command {
        self.in_service.take().expect("a report was due").0
    }

    fn serve(&mut self, command: &Command, dispatched: Instant) {
        if command.op.moves_head() {
            let belief = TinyBelief::default();
            let target: Target = belief.target(command.op, command.extent);
            let late = if self.head.place.cylinder == target.start.cylinder {
                Nanos::ZERO
            } else {
                self.sluggish
            };
            let head = Head { free_at: self.busy_until + late, ..self.head };
            self.busy_until = belief.estimate(&head, dispatched, &target).finish();
            self.head = Head::after(&target, self.busy_until);
        } else {
            let duration = if command.op == Op::Flush { FLUSH } else { Nanos::ZERO };
            self.busy_until = self.busy_until.max(dispatched + OVERHEAD) + duration;
        }
    }
}
