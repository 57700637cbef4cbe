//! Any NBD server as the drive.
//!
//! A thread owns the connection (`link`). The engine passes commands to it and is notified of
//! completions. So neither a server nor a network can block the engine, and the thread waits for
//! the socket, commands and timers in one place. The price is two wake-ups for each command: some
//! tens of microseconds, against the milliseconds of a disk.
//!
//! *Differs from a disk*: another client may use the export unnoticed. A write that failed because
//! the connection was lost may have happened. Answered writes that were not flushed may be lost
//! with the server's memory; [`Backend::losses`] makes the next flush fail then.

pub(crate) mod establish;
mod jobs;
mod link;
mod recognize;
pub(crate) mod shape;
mod shared;
pub(crate) mod socket;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread::JoinHandle;

use headtime_sched::CommandId;
use headtime_units::Instant;
use rustix::io::Errno;

use crate::backend::OpenedDrive;
use crate::backend::{Backend, BackendCommand, BackendCompletion};
use crate::drive_identity::DriveIdentity;
use crate::locator::NbdLocator;
use crate::notifier::Notifier;
use crate::open_error::OpenError;
use crate::snapshot::LinkSnapshot;

use establish::establish;
use jobs::Over;
use link::Link;
use shared::{Report, Shared};

/// Opens an export as a drive; waits for the server as long as the locator says.
///
/// # Errors
/// [`OpenError::Nbd`].
pub(crate) fn open(
    locator: &NbdLocator,
    notifier: &Arc<Notifier>,
) -> Result<OpenedDrive, OpenError> {
    let established = establish(locator).map_err(OpenError::Nbd)?;
    let shape = established.shape;
    let uri = locator.uri.to_string();
    if !shape.flush {
        tracing::warn!(
            "{uri}: the server has no FLUSH, so no write is guaranteed to outlive \
                it; flushes are answered and do nothing"
        );
    }
    let wake = Notifier::new().map_err(OpenError::Engine)?;
    let shared = Arc::new(Shared::new(wake, Arc::clone(notifier)));
    let link = Link::new(locator.clone(), established, Arc::clone(&shared));
    let thread = std::thread::Builder::new()
        .name("headtime-nbd".to_owned())
        .spawn(move || link.run())
        .map_err(OpenError::Engine)?;
    let drive = NbdDrive {
        uri,
        shared,
        thread: Some(thread),
        running: BTreeSet::new(),
        said: BTreeMap::new(),
        losses: 0,
        more: false,
    };
    Ok(OpenedDrive {
        physical_block: shape.preferred,
        fua: shape.fua,
        ..OpenedDrive::new(Box::new(drive), shape.capacity, shape.sector, locator.queue_depth)
    })
}

/// The engine's end of the connection.
struct NbdDrive {
    uri: String,
    shared: Arc<Shared>,
    /// `None` once it was let go.
    thread: Option<JoinHandle<()>>,
    running: BTreeSet<CommandId>,
    /// The explanations of the commands last reported as failed.
    said: BTreeMap<CommandId, Arc<str>>,
    losses: u64,
    /// Reports remain for the next iteration.
    more: bool,
}

impl Backend for NbdDrive {
    fn describe(&self) -> String {
        self.uri.clone()
    }

    fn start(&mut self, _now: Instant, work: BackendCommand) {
        self.running.insert(work.command.id);
        self.shared.start(work);
    }

    fn collect(&mut self, _now: Instant, ended: &mut Vec<BackendCompletion>) {
        self.said.clear();
        let mut reports = self.shared.reports();
        let before = ended.len();
        while let Some(report) = reports.queue.pop_front() {
            match report {
                // The engine receives completions from before a loss before the loss itself.
                Report::Lost if ended.len() > before => {
                    reports.queue.push_front(report);
                    break;
                }
                Report::Lost => self.losses += 1,
                Report::Over(Over { command, result }) => {
                    self.running.remove(&command);
                    let result = result.map_err(|failure| {
                        self.said.insert(command, failure.said);
                        failure.errno
                    });
                    ended.push(BackendCompletion { command, due: None, result });
                }
            }
        }
        self.more = !reports.queue.is_empty();
        if reports.broken && !self.more {
            let fault = Errno::IO.raw_os_error();
            ended.extend(
                std::mem::take(&mut self.running).into_iter().map(|command| BackendCompletion {
                    command,
                    due: None,
                    result: Err(fault),
                }),
            );
        }
    }

    fn next_event(&self) -> Option<Instant> {
        let broken = !self.running.is_empty() && self.shared.reports().broken;
        (self.more || broken).then_some(Instant::ORIGIN)
    }

    fn give_up(&mut self, _now: Instant, command: CommandId) {
        self.shared.give_up(command);
    }

    fn explanation(&mut self, command: CommandId) -> Option<Arc<str>> {
        self.said.remove(&command)
    }

    fn losses(&self) -> u64 {
        self.losses
    }

    fn link(&self) -> Option<LinkSnapshot> {
        Some(self.shared.reports().view.clone())
    }

    fn identify_by(&mut self, identity: Arc<DriveIdentity>) {
        self.shared.identify_by(identity);
    }

    fn abandon(mut self: Box<Self>) {
        self.thread = None;
    }
}

impl Drop for NbdDrive {
    /// Ends the thread and waits for it unless the drive was abandoned. The thread never blocks.
    fn drop(&mut self) {
        self.shared.close();
        if let Some(thread) = self.thread.take() {
            // It catches its own panics.
            let _ = thread.join();
        }
    }
}
