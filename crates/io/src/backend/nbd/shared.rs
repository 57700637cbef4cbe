//! The exchange between the engine and the thread of the connection: commands in one direction,
//! reports in the other, each with a notifier.
//!
//! Bounded by the drive's queue: the engine sends no more commands than that, and each is reported
//! once.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headtime_sched::CommandId;

use super::establish::Established;
use super::jobs::Over;
use crate::backend::BackendCommand;
use crate::drive_identity::DriveIdentity;
use crate::nbd_error::NbdError;
use crate::notifier::Notifier;
use crate::snapshot::{LinkSnapshot, LinkState};

pub(super) struct Shared {
    orders: Mutex<Orders>,
    reports: Mutex<Reports>,
    identity: Mutex<Option<Arc<DriveIdentity>>>,
    /// Notifies the connection's thread.
    wake: Notifier,
    /// Notifies the engine.
    notifier: Arc<Notifier>,
}

/// The work of the connection's thread.
#[derive(Default)]
pub(super) struct Orders {
    pub(super) work: Vec<BackendCommand>,
    pub(super) given_up: Vec<CommandId>,
    /// The outcome of an attempt to connect.
    pub(super) arrived: Option<Result<Established, NbdError>>,
    pub(super) closing: bool,
}

/// The reports to the engine, in order.
#[derive(Debug)]
pub(super) enum Report {
    Over(Over),
    /// The connection was lost, and perhaps what had been answered and not flushed.
    Lost,
}

pub(super) struct Reports {
    pub(super) queue: VecDeque<Report>,
    pub(super) view: LinkSnapshot,
    /// The thread has ended. Nothing more is reported.
    pub(super) broken: bool,
}

impl Shared {
    pub(super) fn new(wake: Notifier, notifier: Arc<Notifier>) -> Self {
        let view = LinkSnapshot { state: LinkState::Connected, losses: 0, attempts: 0 };
        let reports = Reports { queue: VecDeque::new(), view, broken: false };
        Self {
            orders: Mutex::new(Orders::default()),
            reports: Mutex::new(reports),
            identity: Mutex::default(),
            wake,
            notifier,
        }
    }

    pub(super) fn wake(&self) -> &Notifier {
        &self.wake
    }

    pub(super) fn start(&self, work: BackendCommand) {
        lock(&self.orders).work.push(work);
        self.wake.notify();
    }

    pub(super) fn give_up(&self, command: CommandId) {
        lock(&self.orders).given_up.push(command);
        self.wake.notify();
    }

    pub(super) fn arrived(&self, outcome: Result<Established, NbdError>) {
        lock(&self.orders).arrived = Some(outcome);
        self.wake.notify();
    }

    /// From the next attempt to connect on.
    pub(super) fn identify_by(&self, identity: Arc<DriveIdentity>) {
        *lock(&self.identity) = Some(identity);
    }

    pub(super) fn identity(&self) -> Option<Arc<DriveIdentity>> {
        lock(&self.identity).clone()
    }

    pub(super) fn close(&self) {
        lock(&self.orders).closing = true;
        self.wake.notify();
    }

    pub(super) fn take_orders(&self) -> Orders {
        let mut orders = lock(&self.orders);
        let closing = orders.closing;
        Orders { closing, ..std::mem::take(&mut *orders) }
    }

    pub(super) fn report(&self, reports: Vec<Report>, view: LinkSnapshot) {
        let mut shown = lock(&self.reports);
        shown.view = view;
        if !reports.is_empty() {
            shown.queue.extend(reports);
            drop(shown);
            self.notifier.notify();
        }
    }

    pub(super) fn set_broken(&self) {
        lock(&self.reports).broken = true;
        self.notifier.notify();
    }

    pub(super) fn reports(&self) -> MutexGuard<'_, Reports> {
        lock(&self.reports)
    }
}

/// The guarded data is consistent after every statement, so a poisoned lock is safe to use.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
