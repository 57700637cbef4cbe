//! The interface to a running drive: [`DriveHandle`], which any thread may hold and clone.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use headtime_mechanics::{DriveProfile, ProfileError};
use headtime_sched::{FillSettings, RequestId, ShareChange, ShareRefusal, StreamId, VolumeId};
use headtime_units::{Extent, Instant, SectorSize, Sectors};

use crate::clock::RealClock;
use crate::drive::link::DriveLink;
use crate::drive::pending::{Pending, StartWhenRoom};
use crate::drive::scan_feed::ScanFeed;
use crate::drive_identity::DriveIdentity;
use crate::engine::mailbox::{BackgroundWrite, Callback, Message, OnDone, Position};
use crate::engine::recent::RecentWork;
use crate::engine::scan_queue::{ScanQueue, ScanStart, WriteMarks};
use crate::engine::slow::SlowRequest;
use crate::kernel_settings::KernelWatch;
use crate::model::ModelInUse;
use crate::options::PolicyChoice;
use crate::power::{PowerProbe, PowerState};
use crate::request::{Io, IoDone, IoError, SubmitError, UnalignedBytes};
use crate::snapshot::DriveSnapshot;
use crate::tuning::Tuning;

/// Submits requests to an open drive.
///
/// May outlive the [`Drive`](crate::Drive). After the drive was closed, all requests are refused
/// with [`SubmitError::Closed`].
#[derive(Clone)]
pub struct DriveHandle {
    pub(crate) link: Arc<DriveLink>,
}

/// The reason why the shares of volumes were not changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeSharesError {
    /// The scheduler does not allow it; nothing has changed.
    #[error(transparent)]
    Refused(#[from] ShareRefusal),
    /// The drive is closing or overloaded; nothing has changed.
    #[error(transparent)]
    NotTaken(#[from] SubmitError),
    /// The engine does not answer, or failed; the change may still be made.
    #[error("the drive's engine does not answer; its message is in the log")]
    NoAnswer,
}

/// The reason why a running drive does not use a profile.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum UseProfileError {
    /// It describes no drive.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// It is of a drive of another size.
    #[error("the profile is of a drive of {found} sectors, expected {expected} of the same size")]
    OtherSize {
        /// The sectors of the drive.
        expected: Sectors,
        /// The sectors of the profile.
        found: Sectors,
    },
    /// The drive is closing or overloaded.
    #[error(transparent)]
    NotTaken(#[from] SubmitError),
}

/// The maximum time to wait for the engine, much longer than an iteration takes.
const SHARES_PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

impl DriveHandle {
    /// The drive's size in logical sectors.
    #[must_use]
    pub fn capacity(&self) -> Sectors {
        self.link.capacity
    }

    /// The size of a logical sector: the unit of every extent.
    #[must_use]
    pub fn sector_size(&self) -> SectorSize {
        self.link.sector_size
    }

    /// Bytes of a physical sector or block: smaller or unaligned writes may cost the drive a read
    /// before.
    #[must_use]
    pub fn physical_block(&self) -> u32 {
        self.link.physical_block
    }

    /// The length of stripes at whose ends requests should be divided: parts on one member of an
    /// array are scheduled by that member alone. `None` where nothing is gained by it.
    #[must_use]
    pub fn divide_at(&self) -> Option<Sectors> {
        self.link.divide_at
    }

    /// Returns a warning for each setting of the kernel that hinders the drive now. Reads a few
    /// files of the kernel.
    #[must_use]
    pub fn hindrances(&self) -> Vec<String> {
        self.link.kernel.iter().flat_map(KernelWatch::hindrances).collect()
    }

    /// Asks the drive for its power state, without waking it; of an array, whether a member is in
    /// standby. A drive that cannot tell counts as awake. Waits for the drive, so it must not be
    /// called by a completion callback.
    #[must_use]
    pub fn power_state(&self) -> PowerState {
        let asleep = |probe: &Arc<dyn PowerProbe>| probe.state() == PowerState::Standby;
        if self.link.power.iter().any(asleep) { PowerState::Standby } else { PowerState::Awake }
    }

    /// The sectors of `len` bytes from byte `offset`. Not checked against the drive's size;
    /// [`DriveHandle::submit`] does that.
    ///
    /// # Errors
    /// [`UnalignedBytes`] if they are not whole sectors; the message names the surrounding sectors.
    pub fn extent_of_bytes(&self, offset: u64, len: u64) -> Result<Extent, UnalignedBytes> {
        UnalignedBytes::unless_sectors(self.sector_size(), offset, len)
    }

    /// Submits a request. If the request is accepted, `on_done` is called exactly once, possibly
    /// before this returns. If it is refused, `on_done` is never called.
    ///
    /// `on_done` runs on the engine's thread, or on a thread that submits a request while the
    /// engine is idle. It delays every other request of the drive: it should pass on the result and
    /// return, must not block, and may submit further requests.
    ///
    /// # Errors
    /// [`SubmitError::Full`] and [`SubmitError::TooLarge`] at the drive's bounds,
    /// [`SubmitError::Closed`] while it is closing, the others if the request is not valid. Nothing
    /// has changed then.
    pub fn submit(
        &self,
        io: Io,
        on_done: impl FnOnce(IoDone) + Send + 'static,
    ) -> Result<RequestId, SubmitError> {
        self.submit_boxed(io, Box::new(on_done))
    }

    /// The same as [`DriveHandle::submit`], for a callback that is boxed already.
    ///
    /// # Errors
    /// As [`DriveHandle::submit`].
    pub fn submit_boxed(&self, io: Io, on_done: OnDone) -> Result<RequestId, SubmitError> {
        let permit = self.link.admit(&io)?;
        self.link.submit(io, permit, RealClock.now(), None, on_done)
    }

    /// Submits several requests, each as [`DriveHandle::submit_boxed`] does, and returns the
    /// results in the same order. The engine processes them together, which costs less.
    pub fn submit_all(
        &self,
        batch: impl IntoIterator<Item = (Io, OnDone)>,
    ) -> Vec<Result<RequestId, SubmitError>> {
        let submitted = RealClock.now();
        let mut first = Position::Later;
        let queue = |(io, on_done)| {
            let permit = self.link.admit(&io)?;
            let (id, position) = self.link.queue(io, permit, submitted, None, on_done)?;
            first = first.min(position);
            Ok(id)
        };
        let ids = batch.into_iter().map(queue).collect();
        self.link.runner.process(first);
        ids
    }

    /// Starts a request, to be awaited or waited for.
    ///
    /// # Errors
    /// As [`DriveHandle::submit`].
    pub fn start(&self, io: Io) -> Result<Pending, SubmitError> {
        Pending::start(&self.link, &io, RealClock.now())
    }

    /// Starts a request as soon as the drive has room for it. Await the result, or call
    /// [`wait`](StartWhenRoom::wait). Waiting requests are served in order of arrival. A deadline
    /// counts from now, so it includes the time spent waiting for room.
    pub fn start_when_room(&self, io: Io) -> StartWhenRoom {
        self.start_when_room_since(io, RealClock.now())
    }

    /// The same as [`DriveHandle::start_when_room`], with a deadline that counts from `submitted`,
    /// so that the requests of a batch have the same one.
    pub fn start_when_room_since(&self, io: Io, submitted: Instant) -> StartWhenRoom {
        StartWhenRoom::new(Arc::clone(&self.link), io, submitted)
    }

    /// Submits a request and waits until it has finished. A refused request finishes at once with
    /// [`IoError::NotTaken`].
    ///
    /// # Panics
    /// When called from a completion callback, where it would wait for itself.
    #[must_use]
    pub fn run(&self, io: Io) -> IoDone {
        self.link.expect_not_a_callback();
        match self.start(io) {
            Ok(pending) => pending.wait(),
            Err(refused) => IoDone { finished: None, result: Err(IoError::NotTaken(refused)) },
        }
    }

    /// Cancels a request that has not finished: its callback receives [`IoError::Cancelled`]. A
    /// request that is at the drive already still happens there. For a finished or unknown request,
    /// this does nothing.
    pub fn cancel(&self, id: RequestId) {
        self.link.cancel(id);
    }

    /// Changes the policy at run time. Queued requests stay queued, and commands at the drive stay
    /// there.
    ///
    /// # Errors
    /// [`SubmitError::Closed`] while the drive is closing, [`SubmitError::Full`] if thousands of
    /// messages wait for the engine.
    pub fn set_policy(&self, policy: PolicyChoice) -> Result<(), SubmitError> {
        self.tune(Tuning { policy: Some(policy), ..Tuning::default() })
    }

    /// Applies several changes at once at run time: no request is served between two of them.
    /// Queued requests stay queued.
    ///
    /// # Errors
    /// As [`DriveHandle::set_policy`]; nothing is changed then.
    pub fn tune(&self, tuning: Tuning) -> Result<(), SubmitError> {
        self.link.send(Message::Tune(Box::new(tuning)))
    }

    /// Returns the drive model in use.
    #[must_use]
    pub fn model(&self) -> &ModelInUse {
        &self.link.model
    }

    /// Schedules by the model of `profile` from now on, which learns from its start. Queued
    /// requests stay queued.
    ///
    /// # Errors
    /// [`UseProfileError`]; nothing was changed then.
    pub fn use_profile(&self, profile: &DriveProfile) -> Result<(), UseProfileError> {
        let sector = profile.sector_size()?;
        if (profile.capacity(), sector) != (self.capacity(), self.sector_size()) {
            return Err(UseProfileError::OtherSize {
                expected: self.capacity(),
                found: profile.capacity(),
            });
        }
        let belief = headtime_belief::of_profile(profile)?;
        Ok(self.link.send(Message::Believe(belief, Some("profile")))?)
    }

    /// The default settings of reads for scans. Unreadable sectors are narrowed down to this
    /// drive's physical block.
    #[must_use]
    pub fn usual_fill(&self) -> FillSettings {
        let block = u64::from(self.physical_block() / self.sector_size().bytes()).max(1);
        FillSettings { retry_grain: Sectors::new(block), ..FillSettings::default() }
    }

    /// Reports that no request of `stream` will follow, so that no policy waits for one.
    ///
    /// # Errors
    /// As [`DriveHandle::set_policy`].
    pub fn stream_ended(&self, stream: StreamId) -> Result<(), SubmitError> {
        self.link.send(Message::StreamEnded(stream))
    }

    /// Sets the name of a volume in the log; without one its number stands there.
    ///
    /// # Errors
    /// As [`DriveHandle::set_policy`].
    pub fn name_volume(&self, volume: VolumeId, name: &str) -> Result<(), SubmitError> {
        self.link.send(Message::NameVolume(volume, name.to_owned()))
    }

    /// Changes the settings of reads for scans, also while scans run.
    ///
    /// # Errors
    /// As [`DriveHandle::set_policy`].
    pub fn set_fill(&self, settings: FillSettings) -> Result<(), SubmitError> {
        self.link.send(Message::SetFill(settings))
    }

    /// Changes the shares and limits of volumes. Applies all of `changes` or none, before this
    /// returns. Not every policy enforces shares ([`DriveSnapshot::enforces_shares`]).
    ///
    /// # Errors
    /// See [`ChangeSharesError`].
    ///
    /// # Panics
    /// When called from a completion callback, where it would wait for itself.
    pub fn change_shares(&self, changes: Vec<ShareChange>) -> Result<(), ChangeSharesError> {
        self.link.expect_not_a_callback();
        let (answer, answered) = std::sync::mpsc::sync_channel(1);
        self.link.send(Message::ChangeShares(changes, answer))?;
        match answered.recv_timeout(SHARES_PATIENCE) {
            Ok(changed) => Ok(changed?),
            Err(_) => Err(ChangeSharesError::NoAnswer),
        }
    }

    /// Returns the last requests that were slow or missed their deadline, the latest last, with the
    /// parts of their response times.
    ///
    /// # Errors
    /// [`ChangeSharesError::NotTaken`], [`ChangeSharesError::NoAnswer`].
    ///
    /// # Panics
    /// When called from a completion callback, where it would wait for itself.
    pub fn slow_requests(&self) -> Result<Vec<SlowRequest>, ChangeSharesError> {
        self.link.expect_not_a_callback();
        let (answer, answered) = std::sync::mpsc::sync_channel(1);
        self.link.send(Message::Slow(answer))?;
        answered.recv_timeout(SHARES_PATIENCE).map_err(|_| ChangeSharesError::NoAnswer)
    }

    /// Returns the work that the drive completed since the question before, for one live view. The
    /// engine begins to record with the first question and stops 5 s after the last one.
    ///
    /// # Errors
    /// [`ChangeSharesError::NotTaken`], [`ChangeSharesError::NoAnswer`].
    ///
    /// # Panics
    /// When called from a completion callback, where it would wait for itself.
    pub fn recent_work(&self) -> Result<RecentWork, ChangeSharesError> {
        self.link.expect_not_a_callback();
        let (answer, answered) = std::sync::mpsc::sync_channel(1);
        self.link.send(Message::Recent(answer))?;
        answered.recv_timeout(SHARES_PATIENCE).map_err(|_| ChangeSharesError::NoAnswer)
    }

    /// Starts a scan. Its sectors are read in the gaps between requests and while the drive is
    /// idle, and arrive in the feed.
    ///
    /// # Errors
    /// As [`DriveHandle::set_policy`].
    ///
    /// # Panics
    /// When the requested sectors belong to a drive of another size.
    pub fn start_scan(&self, start: ScanStart) -> Result<ScanFeed, SubmitError> {
        assert_eq!(
            start.requested.capacity(),
            self.capacity(),
            "a scan requests sectors of a drive of another size"
        );
        let number = self.link.next_scan.fetch_add(1, Ordering::Relaxed);
        let queue = Arc::new(ScanQueue::new(number, &start));
        self.link
            .send(Message::ScanStart { queue: Arc::clone(&queue), requested: start.requested })?;
        Ok(ScanFeed { queue, link: Arc::clone(&self.link) })
    }

    /// Writes in the background, as scans read: while the drive is idle, and in time that the
    /// bound on the impact of scans allows to take from clients. If the write is accepted,
    /// `on_done` is called exactly once, as for [`DriveHandle::submit`]. A flush of
    /// [`VolumeId::INTERNAL`] makes it durable.
    ///
    /// # Errors
    /// As [`DriveHandle::submit`].
    pub fn write_in_background(
        &self,
        extent: Extent,
        data: Bytes,
        on_done: impl FnOnce(IoDone) + Send + 'static,
    ) -> Result<(), SubmitError> {
        let permit = self.link.admit(&Io::write(extent, data.clone()))?;
        let on_done = Callback::new(Box::new(on_done));
        let write = BackgroundWrite { extent, data, on_done, permit };
        self.link.runner.send(Message::BackgroundWrite(write)).map_err(|returned| {
            if let Message::BackgroundWrite(write) = returned {
                write.on_done.forget();
            }
            self.link.refusal()
        })
    }

    /// Marks written regions from now on, until no other reference to the marks is left.
    ///
    /// # Errors
    /// As [`DriveHandle::set_policy`].
    pub fn watch_writes(&self, marks: &Arc<WriteMarks>) -> Result<(), SubmitError> {
        self.link.send(Message::Watch(Arc::clone(marks)))
    }

    /// Sets the identity that distinguishes the drive from others of its size. When a lost drive
    /// returns, only the reads of this check are sent until it is identified. Another drive in its
    /// place counts as disconnected. Only an NBD drive is ever opened again.
    ///
    /// # Errors
    /// As [`DriveHandle::set_policy`].
    pub fn identify_by(&self, identity: DriveIdentity) -> Result<(), SubmitError> {
        self.link.send(Message::IdentifyBy(Arc::new(identity)))
    }

    /// Returns a snapshot of the drive, within some tens of microseconds, at most 200 ms.
    #[must_use]
    pub fn snapshot(&self) -> DriveSnapshot {
        self.link.mailbox.snapshot()
    }
}

impl fmt::Debug for DriveHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DriveHandle").field("capacity", &self.capacity()).finish_non_exhaustive()
    }
}
