//! An open drive: [`Drive`] owns the engine's thread, [`DriveHandle`] talks to it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::thread::JoinHandle;

use headtime_belief::ArrayModel;
use headtime_sched::{
    BackgroundAccount, BeliefReport, DriveTraits, FillReport, QueueLimits, Scheduler, Waits,
};
use headtime_units::{SectorSize, Sectors};

use crate::backend::{OpenedDrive, open};
use crate::clock::RealClock;
use crate::engine::divided::DividedRequests;
use crate::engine::mailbox::Mailbox;
use crate::engine::runner::{EngineRunner, EngineThreads};
use crate::engine::{DrainReport, Engine};
use crate::locator::Locator;
use crate::model;
use crate::new_files::NewFiles;
use crate::notifier::{Notifier, expect_precise_wakes};
use crate::open_error::OpenError;
use crate::options::{DriveOptions, EnginePriority};
use crate::service_parts::ServiceParts;
use crate::snapshot::{DriveSnapshot, ErrorCounts, HungCounts};
use crate::sys::run_first_in_first_out;
use link::DriveLink;

mod handle;
mod link;
mod maps;
mod pending;
mod scan_feed;
mod slot;
mod timed_reads;

pub use handle::{ChangeSharesError, DriveHandle, UseProfileError};
pub use pending::{Pending, StartWhenRoom};
pub use scan_feed::ScanFeed;
pub use timed_reads::{TimedReads, TimedReadsError};

/// An open drive with its engine running.
///
/// Closing it ([`Drive::shutdown`], or dropping it) refuses new requests, waits up to
/// [`DriveOptions::drain_timeout`] for the others, and makes all written data durable.
pub struct Drive {
    handle: DriveHandle,
    /// `None` once the drive was closed.
    engine: Option<JoinHandle<DrainReport>>,
    /// See [`Drive::take_new_files`].
    new_files: Option<NewFiles>,
}

impl Drive {
    /// Opens a drive and starts its engine.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(locator: &Locator, options: DriveOptions) -> Result<Self, OpenError> {
        options.check()?;
        let notifier = Arc::new(Notifier::new().map_err(OpenError::Engine)?);
        let opened = open::open(locator, &options, &notifier)?;
        Self::start(opened, &options, notifier, locator.kind())
    }

    /// Opens a drive that the application provides. `kind` is the name of a drive that reports no
    /// model.
    ///
    /// # Errors
    /// [`OpenError::BadOption`], [`OpenError::Engine`], and the error of `open`.
    pub fn open_custom(
        kind: &str,
        options: DriveOptions,
        open: impl FnOnce(&Arc<Notifier>) -> Result<OpenedDrive, OpenError>,
    ) -> Result<Self, OpenError> {
        options.check()?;
        let notifier = Arc::new(Notifier::new().map_err(OpenError::Engine)?);
        Self::start(open(&notifier)?, &options, notifier, kind)
    }

    /// `kind` is the name of a drive that reports no model.
    pub(crate) fn start(
        opened: OpenedDrive,
        options: &DriveOptions,
        notifier: Arc<Notifier>,
        kind: &str,
    ) -> Result<Self, OpenError> {
        let OpenedDrive {
            backend,
            belief,
            model,
            capacity,
            sector_size,
            physical_block,
            queue_depth,
            fua,
            precise,
            kernel,
            power,
            new_files,
        } = opened;
        let (belief, model) =
            model::choose(belief, model, &options.belief, kind, capacity, sector_size)?;
        let first_view = DriveSnapshot {
            taken: RealClock.now(),
            policy: options.policy.name(),
            active_policy: options.policy.name(),
            switches: Vec::new(),
            tunables: options.tunables.clone(),
            outstanding_most: options.outstanding,
            drive_model: model.by,
            backend: backend.describe(),
            queued: 0,
            outstanding: 0,
            accounts: Vec::new(),
            shares: Vec::new(),
            enforces_shares: false,
            belief: BeliefReport::default(),
            waits: Waits::default(),
            scans: 0,
            timed_wait: None,
            fill: FillReport::default(),
            background: BackgroundAccount::default(),
            emulation: None,
            service: ServiceParts::default(),
            errors: ErrorCounts::default(),
            hung: HungCounts::default(),
            link: backend.link(),
            stalls: Vec::new(),
            members: Arc::default(),
        };
        tracing::info!(
            capacity = capacity.get(),
            backend = first_view.backend,
            policy = first_view.policy,
            "drive opened"
        );
        let mailbox =
            Arc::new(Mailbox::new(notifier, options.max_requests, options.max_bytes, first_view));
        let traits = DriveTraits { queue_depth, fua };
        let array = belief.as_any().downcast_ref::<ArrayModel>();
        let divide_at = array.and_then(ArrayModel::divides_at);
        let (max_requests, max_bytes) = (options.max_requests, options.max_bytes);
        let limits = QueueLimits {
            requests: DividedRequests::max_parts(divide_at, sector_size, max_requests, max_bytes),
            outstanding: options.outstanding,
        };
        let members = divide_at.map(|_| backend.members()).unwrap_or_default();
        let policy = options.policy.build(&*belief);
        let mut scheduler = Scheduler::new(belief, policy, traits, limits);
        scheduler.set_tunables(options.tunables.clone());
        let prompt = backend.is_prompt();
        let engine = Engine::new(
            RealClock,
            scheduler,
            backend,
            Arc::clone(&mailbox),
            sector_size,
            options.drain_timeout,
            options.command_timeout,
        )
        .modelled_by(model.by)
        .with_members(members, divide_at);
        // A thread of high priority must not wait for one of low priority.
        let threads =
            if !precise && prompt { EngineThreads::OwnAndSubmitting } else { EngineThreads::Own };
        let runner = Arc::new(EngineRunner::new(engine, Arc::clone(&mailbox), threads));
        let own = Arc::clone(&runner);
        let priority = options.priority;
        let thread =
            std::thread::Builder::new().name("headtime-engine".to_owned()).spawn(move || {
                if precise {
                    expect_precise_wakes();
                }
                go_before_others(priority, precise);
                own.run(RealClock)
            });
        let thread = thread.map_err(OpenError::Engine)?;
        let link = DriveLink {
            mailbox,
            runner,
            capacity,
            sector_size,
            physical_block,
            divide_at,
            kernel,
            power,
            model,
            write_mode: options.write_mode,
            next_id: AtomicU64::new(0),
            next_scan: AtomicU32::new(0),
        };
        Ok(Self {
            handle: DriveHandle { link: Arc::new(link) },
            engine: Some(thread),
            new_files: Some(new_files),
        })
    }

    /// The files that were created for the drive, for a caller that may not keep them. Files that
    /// no caller takes are kept.
    pub fn take_new_files(&mut self) -> NewFiles {
        self.new_files.take().unwrap_or_default()
    }

    /// The drive's size in logical sectors.
    #[must_use]
    pub fn capacity(&self) -> Sectors {
        self.handle.capacity()
    }

    /// The size of a logical sector.
    #[must_use]
    pub fn sector_size(&self) -> SectorSize {
        self.handle.sector_size()
    }

    /// Bytes of a physical sector or block.
    #[must_use]
    pub fn physical_block(&self) -> u32 {
        self.handle.physical_block()
    }

    /// A handle to submit requests with; clone it freely.
    #[must_use]
    pub fn handle(&self) -> DriveHandle {
        self.handle.clone()
    }

    /// Returns a snapshot of the drive.
    #[must_use]
    pub fn snapshot(&self) -> DriveSnapshot {
        self.handle.snapshot()
    }

    /// Closes the drive: refuses new requests, finishes the others, and makes written data durable.
    /// The report counts the requests that did not finish in time.
    ///
    /// # Panics
    /// When called from a completion callback, for which the drive would have to wait.
    pub fn shutdown(mut self) -> DrainReport {
        let report = self.close();
        report.expect("a drive is shut down once, and not by one of its callbacks")
    }

    fn close(&mut self) -> Option<DrainReport> {
        let engine = self.engine.take()?;
        self.handle.link.mailbox.close();
        if self.handle.link.mailbox.on_engine_thread() {
            // Dropped by a completion callback, which cannot wait for the thread it runs on; that
            // one ends by itself.
            return None;
        }
        let last = self.handle.link.mailbox.last_snapshot();
        // The engine catches the panics of its own code; one that gets through still means that
        // nothing was promised.
        let report = engine.join().unwrap_or(DrainReport {
            given_up_queued: 0,
            given_up_at_drive: 0,
            synced: false,
            last,
        });
        if report.is_clean() {
            tracing::info!("drive closed");
        } else {
            tracing::warn!(
                queued = report.given_up_queued,
                at_drive = report.given_up_at_drive,
                synced = report.synced,
                "drive closed with something left"
            );
        }
        Some(report)
    }
}

impl Drop for Drive {
    fn drop(&mut self) {
        self.take_new_files().keep();
        self.close();
    }
}

fn go_before_others(priority: EnginePriority, precise: bool) {
    let requested = match priority {
        EnginePriority::Normal => false,
        EnginePriority::Auto => precise,
        EnginePriority::Realtime => true,
    };
    match requested.then(run_first_in_first_out) {
        Some(Err(error)) if priority == EnginePriority::Realtime => {
            tracing::warn!(%error, "the engine's thread runs as any other; grant CAP_SYS_NICE or a \
                limit on real-time priorities (ulimit -r 1)");
        }
        Some(Err(error)) => {
            tracing::info!(%error, "the engine's thread runs as any other, so that an emulated \
                drive answers late while the machine is busy");
        }
        Some(Ok(())) | None => {}
    }
}

impl DriveOptions {
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        let min_one = |option, value: u64| {
            if value == 0 { Err(OpenError::BadOption { option, value, least: 1 }) } else { Ok(()) }
        };
        min_one("max_requests", self.max_requests as u64)?;
        min_one("max_bytes", self.max_bytes)?;
        min_one("outstanding", self.outstanding.map_or(1, |outstanding| outstanding as u64))
    }
}
