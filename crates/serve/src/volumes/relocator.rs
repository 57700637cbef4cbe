//! Carries out a [`Relocation`] while clients use the volume.
//!
//! 1. *Copy.* The sectors are read like a scan of the last priority, in gaps between the requests
//!    of clients and in idle time, and written at the destination in the background. Regions that
//!    clients write meanwhile are marked, and copied again in the next pass, until few are left.
//! 2. *Switch.* New changes of the moving sectors are held, and requests that were admitted before
//!    are waited for. The regions that are left are copied and flushed. Then the table with the new
//!    extents is written: the commit point. After a crash the drive has the table before or after
//!    it, and the data of both places are the same. Held requests continue at the new place.
//! 3. *Leave.* Once all requests that use the old place are complete, it becomes free.
//!
//! An error, or a cancellation before the commit point, leaves the volume as it was. So does the
//! end of the server, because nothing on the drive mentions the copy before. The next server copies
//! again from the start ([`super::relocation_file`]). So does a relocation whose drive was gone,
//! because a drive that comes back may have lost what it had not made durable.
//!
//! If the table cannot be written, and the change cannot be undone either, either table may be
//! valid at the next start. Changes of the sectors are then refused until it is undone.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use headtime_io::{
    DriveHandle, Io, IoDone, IoError, LinkState, ScanEvent, ScanStart, SubmitError, WriteMarks,
};
use headtime_sched::{PendingSectors, ScanPriority, VolumeId};
use headtime_tasks::ScanSubject;
use headtime_units::{Extent, Lba, SectorSize, Sectors, Share};
use parking_lot::{Condvar, Mutex};

use super::relocation::{Relocation, RelocationState, RelocationStatus};
use super::store::{StoreError, VolumeStore};
use super::{LiveVolume, Volumes};
use crate::disk::is_gone;
use crate::scans::BoundedWork;

/// A relocation that runs or is over.
pub(super) struct RelocationJob {
    pub(super) relocation: Relocation,
    /// Scans of the volume end before the switch.
    force: bool,
    /// The bound on the impact of background work while it runs.
    max_impact: Option<Share>,
    stop: AtomicBool,
    /// It ends with the server, and continues with the next one.
    closing: AtomicBool,
    progress: Mutex<Progress>,
    /// Signals the end.
    over: Condvar,
}

struct Progress {
    state: RelocationState,
    begun: Instant,
    ended: Option<Instant>,
    held: Option<Duration>,
    pass: u32,
    to_copy: Sectors,
    copied: Sectors,
    reason: String,
}

/// The reason why a relocation ends before its commit point.
enum Stop {
    Cancelled,
    Failed(String),
    /// The drive is gone, or has lost a part of the copy. It is tried again.
    Gone(String),
}

/// The result of an attempt to switch.
enum Attempt {
    Switched,
    /// Something delays it. These sectors differ at the destination.
    Delayed {
        reason: String,
        left: Vec<Extent>,
    },
}

impl RelocationJob {
    pub(super) fn new(relocation: Relocation, force: bool, max_impact: Option<Share>) -> Arc<Self> {
        let progress = Progress {
            state: RelocationState::Copying,
            begun: Instant::now(),
            ended: None,
            held: None,
            pass: 1,
            to_copy: relocation.destination.len,
            copied: Sectors::ZERO,
            reason: String::new(),
        };
        Arc::new(Self {
            relocation,
            force,
            max_impact,
            stop: AtomicBool::new(false),
            closing: AtomicBool::new(false),
            progress: Mutex::new(progress),
            over: Condvar::new(),
        })
    }

    /// Ends it before it has begun.
    pub(super) fn fail(&self, reason: String) {
        tracing::error!("{} stays where it is: {reason}", self.relocation.name);
        self.end(RelocationState::Failed, reason);
    }

    fn end(&self, state: RelocationState, reason: String) {
        let mut progress = self.progress.lock();
        (progress.state, progress.reason) = (state, reason);
        progress.ended = Some(Instant::now());
        drop(progress);
        self.over.notify_all();
    }

    pub(super) fn is_over(&self) -> bool {
        self.progress.lock().ended.is_some()
    }

    /// As [`RelocationJob::cancel`], without forgetting it.
    pub(super) fn close(&self, patience: Duration) -> bool {
        self.closing.store(true, Ordering::Release);
        self.cancel(patience)
    }

    /// Ends it before its commit point, if that is not over. Returns whether it has ended within
    /// `patience`.
    pub(super) fn cancel(&self, patience: Duration) -> bool {
        self.stop.store(true, Ordering::Release);
        let mut progress = self.progress.lock();
        self.over.wait_while_for(&mut progress, |progress| progress.ended.is_none(), patience);
        progress.ended.is_some()
    }

    pub(super) fn status(&self, sector: SectorSize) -> RelocationStatus {
        let progress = self.progress.lock();
        let Relocation { name, offset, destination, .. } = &self.relocation;
        let until = progress.ended.unwrap_or_else(Instant::now);
        RelocationStatus {
            volume: name.clone(),
            state: progress.state,
            from_bytes: sector.bytes_of(*offset),
            bytes: sector.bytes_of(destination.len),
            to_sector: destination.start.get(),
            pass: progress.pass,
            pass_bytes: sector.bytes_of(progress.to_copy),
            pass_bytes_done: sector.bytes_of(progress.copied.min(progress.to_copy)),
            seconds: until.saturating_duration_since(progress.begun).as_secs_f64(),
            held_seconds: progress.held.map(|held| held.as_secs_f64()),
            reason: progress.reason.clone(),
        }
    }

    fn check_stop(&self) -> Result<(), Stop> {
        if self.stop.load(Ordering::Acquire) { Err(Stop::Cancelled) } else { Ok(()) }
    }
}

/// The thread of a relocation.
pub(super) struct Relocator {
    pub(super) volumes: Arc<Volumes>,
    pub(super) handle: DriveHandle,
    pub(super) job: Arc<RelocationJob>,
}

impl Relocator {
    /// Carries it out. The destination is reserved.
    pub(super) fn run(self) {
        let scans = &self.volumes.scans;
        let bounded = scans.set_bound_of(BoundedWork::Relocation, self.job.max_impact);
        let outcome = match bounded {
            Ok(()) => self.relocate(),
            Err(error) => Err(Stop::Failed(error.to_string())),
        };
        if let Err(error) = scans.set_bound_of(BoundedWork::Relocation, None) {
            tracing::warn!("the bound on the impact of background work is not restored: {error}");
        }
        // The sectors of the place that is left are free from now on.
        if let Some(store) = self.volumes.store.lock().as_mut() {
            store.reserve_sectors(Vec::new());
        }
        let name = &self.job.relocation.name;
        let (state, reason) = match outcome {
            Ok(()) => (RelocationState::Complete, String::new()),
            Err(Stop::Cancelled) => (RelocationState::Cancelled, String::new()),
            Err(Stop::Failed(reason) | Stop::Gone(reason)) => (RelocationState::Failed, reason),
        };
        let is_kept =
            state == RelocationState::Cancelled && self.job.closing.load(Ordering::Acquire);
        match state {
            RelocationState::Failed => tracing::error!("{name} stays where it is: {reason}"),
            _ if is_kept => {}
            state => tracing::info!(volume = name, "relocation {}", state.name()),
        }
        if !is_kept {
            self.volumes.forget_relocation();
        }
        self.job.end(state, reason);
    }

    /// Copies and switches, again from the start whenever the drive was gone.
    fn relocate(&self) -> Result<(), Stop> {
        let Relocation { source, destination, .. } = &self.job.relocation;
        let grain = self.grain(*destination);
        let marks = Arc::new(WriteMarks::new(source.iter().copied(), grain));
        self.handle.watch_writes(&marks).map_err(not_taken)?;
        loop {
            let reason = match self.copy_and_switch(&marks, grain) {
                Err(Stop::Gone(reason)) => reason,
                ended => return ended,
            };
            tracing::warn!("the relocation of {} waits: {reason}", self.job.relocation.name);
            self.set_state(RelocationState::Waiting, reason);
            loop {
                self.pause(GONE_RETRY_AFTER)?;
                if !self.is_away() {
                    break;
                }
            }
            self.begin_pass(source);
        }
    }

    fn copy_and_switch(&self, marks: &WriteMarks, grain: Sectors) -> Result<(), Stop> {
        let mut left = self.job.relocation.source.clone();
        let mut failures = self.table_failures();
        loop {
            self.copy(&left, grain)?;
            self.set_state(RelocationState::Switching, String::new());
            left = self.joined(&marks.take());
            // Not while writes are held, because a cache can take long to write.
            self.flush()?;
            if std::mem::replace(&mut failures, self.table_failures()) != failures {
                return Err(Stop::Gone(
                    "the drive failed a change of its table of volumes, and may have lost a part \
                        of the copy, which begins again"
                        .to_owned(),
                ));
            }
            while self.is_little(&left) {
                self.job.check_stop()?;
                match self.switch(marks, &left)? {
                    Attempt::Switched => return Ok(()),
                    Attempt::Delayed { reason, left: still_left } => {
                        self.set_state(RelocationState::Waiting, reason);
                        self.pause(RETRY_AFTER)?;
                        left = self.joined(&[still_left, marks.take()].concat());
                    }
                }
            }
            self.begin_pass(&left);
        }
    }

    fn begin_pass(&self, extents: &[Extent]) {
        let mut progress = self.job.progress.lock();
        progress.state = RelocationState::Copying;
        progress.reason = String::new();
        progress.pass += 1;
        progress.copied = Sectors::ZERO;
        progress.to_copy = sum(extents);
    }

    /// The number of failed changes of the table, each of which may have reported the loss of the
    /// copy to the server.
    fn table_failures(&self) -> u64 {
        self.volumes.store.lock().as_ref().map_or(0, VolumeStore::failures)
    }

    /// Returns whether the connection to the drive is lost.
    fn is_away(&self) -> bool {
        let link = self.handle.snapshot().link;
        link.is_some_and(|link| !matches!(link.state, LinkState::Connected))
    }

    /// The unit of reading and of marks: as of a scan of these sectors.
    fn grain(&self, extent: Extent) -> Sectors {
        let sector_size = self.handle.sector_size();
        let subject = ScanSubject { drive: [0; 16], target: String::new(), extent, sector_size };
        Sectors::new(subject.grain(self.handle.physical_block()))
    }

    fn set_state(&self, state: RelocationState, reason: String) {
        let mut progress = self.job.progress.lock();
        (progress.state, progress.reason) = (state, reason);
    }

    /// Copies extents of the source in the background.
    fn copy(&self, extents: &[Extent], grain: Sectors) -> Result<(), Stop> {
        let window = Sectors::new(WINDOW_BYTES / u64::from(self.handle.sector_size().bytes()));
        for part in windows(extents, window) {
            let read = self.read(&part, grain)?;
            let of_read = |(_, bytes): &(Lba, Bytes)| bytes.len();
            // Whole grains are read, so it may be more.
            if read.iter().map(of_read).sum::<usize>() < self.bytes_of(sum(&part)) {
                return Err(Stop::Failed("the drive returned less than was read".to_owned()));
            }
            self.write(read)?;
        }
        Ok(())
    }

    /// Reads extents of the source as a scan. Returns their contents by destination.
    fn read(&self, extents: &[Extent], grain: Sectors) -> Result<Vec<(Lba, Bytes)>, Stop> {
        let mut requested = PendingSectors::new(self.handle.capacity(), grain);
        extents.iter().for_each(|extent| requested.insert(*extent));
        let feed = self.handle.start_scan(ScanStart {
            requested,
            point_in_time: false,
            hold_writes: false,
            paused: false,
            priority: ScanPriority::LAST,
            // They would be cleared when a part of a region is read.
            marks: None,
            queue_bytes: 2 * WINDOW_BYTES,
        });
        let feed = feed.map_err(not_taken)?;
        let mut read = Vec::new();
        loop {
            self.job.check_stop()?;
            match feed.next(POLL) {
                None => {}
                Some(ScanEvent::Read { extent, bytes, .. }) => {
                    let at = |lba: Lba| self.bytes_of(lba - extent.start);
                    let parts = self.job.relocation.moves_of(extent);
                    read.extend(
                        parts.map(|(part, to)| (to, bytes.slice(at(part.start)..at(part.end())))),
                    );
                }
                Some(ScanEvent::Failed { extent, errno, .. }) => {
                    // The last grain may reach beyond the volume.
                    if let Some((part, _)) = self.job.relocation.moves_of(extent).next() {
                        let error = std::io::Error::from_raw_os_error(errno);
                        if is_gone(errno) {
                            return Err(gone(&error));
                        }
                        return Err(Stop::Failed(format!(
                            "{part} of the drive cannot be read: {error}; check the drive, and \
                                move the rest in parts (--from, --size)"
                        )));
                    }
                }
                Some(ScanEvent::Exhausted) => return Ok(read),
                Some(ScanEvent::Overtaken { .. } | ScanEvent::Closed) => {
                    return Err(Stop::Failed("the drive was closed".to_owned()));
                }
            }
        }
    }

    /// Writes contents at the destination in the background. Returns when nothing is in flight any
    /// more.
    fn write(&self, mut parts: Vec<(Lba, Bytes)>) -> Result<(), Stop> {
        parts.sort_by_key(|(to, _)| *to);
        let mut runs = self.runs(parts).into_iter().peekable();
        let (sender, done) = mpsc::channel();
        let (mut in_flight, mut failed) = (0, None);
        loop {
            while failed.is_none() && in_flight < MAX_WRITES {
                failed = self.job.check_stop().err();
                let Some((extent, data)) = runs.next_if(|_| failed.is_none()) else { break };
                let sender = sender.clone();
                let on_done = move |done: IoDone| {
                    // The receiver waits for each accepted write.
                    let _ = sender.send((extent, done.result));
                };
                match self.handle.write_in_background(extent, data, on_done) {
                    Ok(()) => in_flight += 1,
                    Err(refused) => failed = Some(not_taken(refused)),
                }
            }
            if in_flight == 0 {
                return failed.map_or(Ok(()), Err);
            }
            let (extent, result) = done.recv().expect("a write that was taken is called back");
            in_flight -= 1;
            match result {
                Ok(_) => self.job.progress.lock().copied += extent.len,
                Err(error) => failed = failed.or_else(|| Some(cannot_write(&error))),
            }
        }
    }

    /// Joins contents that adjoin, up to [`RUN_BYTES`].
    fn runs(&self, parts: Vec<(Lba, Bytes)>) -> Vec<(Extent, Bytes)> {
        let sector = self.handle.sector_size();
        let mut runs: Vec<(Extent, BytesMut)> = Vec::new();
        for (to, bytes) in parts {
            let len = sector.sectors_of(bytes.len() as u64).expect("whole sectors were read");
            match runs.last_mut() {
                Some((extent, run)) if extent.end() == to && run.len() < RUN_BYTES => {
                    extent.len += len;
                    run.extend_from_slice(&bytes);
                }
                _ => runs.push((Extent::new(to, len), BytesMut::from(&*bytes))),
            }
        }
        runs.into_iter().map(|(extent, bytes)| (extent, bytes.freeze())).collect()
    }

    fn flush(&self) -> Result<(), Stop> {
        let flushed = self.run_all(std::iter::once(Io::flush()));
        flushed.map(drop).map_err(|error| cannot_write(&error))
    }

    /// Copies the sectors that are left and switches the volume to the new place, if nothing delays
    /// that.
    fn switch(&self, marks: &WriteMarks, left: &[Extent]) -> Result<Attempt, Stop> {
        let Self { volumes, job, .. } = self;
        let Relocation { name, offset, destination, .. } = &job.relocation;
        let delayed = |reason: String, left: Vec<Extent>| Ok(Attempt::Delayed { reason, left });
        let scanned = || {
            let scans = volumes.scans.unfinished(name);
            let tasks: Vec<String> = scans.iter().map(|task| format!("the {task}")).collect();
            let reason = || format!("{} of {name} must end first", tasks.join(" and "));
            (!tasks.is_empty() && !job.force).then(reason)
        };
        if let Some(reason) = scanned() {
            return delayed(reason, left.to_vec());
        }
        let mut guard = volumes.store.lock();
        let store = guard.as_mut().expect("there is a table, which has the volume");
        store.finish_rollback(&*volumes.disk).map_err(stopped)?;
        let live = volumes.exports.volume(name);
        let began = Instant::now();
        let mut held = Held { live: live.as_deref() };
        held.hold(*offset, destination.len);
        if live.as_ref().is_some_and(|live| !live.wait_for_earlier(HOLD_PATIENCE)) {
            let reason = "requests in flight take long".to_owned();
            return delayed(reason, left.to_vec());
        }
        let left = self.joined(&[left.to_vec(), marks.take()].concat());
        if !self.is_little(&left) {
            return delayed("clients have written much meanwhile".to_owned(), left);
        }
        if let Err(error) = self.copy_at_once(&left) {
            return match error {
                IoError::NotTaken(SubmitError::Full { .. }) => delayed(error.to_string(), left),
                error => Err(cannot_write(&error)),
            };
        }
        if let Some(reason) = scanned() {
            return delayed(reason, Vec::new());
        }
        let committed = store.change(&*volumes.disk, |table| table.relocate(&job.relocation));
        if let Err(error) = committed {
            if let StoreError::NotPutBack { .. } = error {
                drop(guard);
                self.put_back(live.as_deref());
            }
            return Err(stopped(error));
        }
        let after = &job.relocation.after;
        if let Some(live) = &live {
            live.resize(after.clone());
        }
        drop(held);
        let held = began.elapsed();
        job.progress.lock().held = Some(held);
        tracing::info!(volume = name, "its writes were held for {held:?}");
        let repeated = volumes.scans.forget_before_change(name);
        volumes.scans.set_target(name, Some(after.clone()));
        volumes.scans.start_after_change(&repeated);
        // Reads of the old place. No other thread waits for requests of the volume, because its
        // relocation is not over.
        drop(guard);
        while live.as_ref().is_some_and(|live| !live.wait_for_earlier(DRAIN_PATIENCE)) {
            tracing::warn!("{name}: requests that use its earlier sectors are still in flight");
        }
        Ok(Attempt::Switched)
    }

    /// Refuses changes of the sectors until a failed change of the table is undone on the drive.
    fn put_back(&self, live: Option<&LiveVolume>) {
        let Self { volumes, job, .. } = self;
        let Relocation { name, offset, destination, .. } = &job.relocation;
        if let Some(live) = live {
            live.refuse(*offset, destination.len);
        }
        tracing::error!(
            "{name}: writes of the sectors that were being relocated are refused until the drive's \
                table of volumes can be written"
        );
        loop {
            let undone = match volumes.store.lock().as_mut() {
                Some(store) => store.finish_rollback(&*volumes.disk),
                None => Ok(()),
            };
            match undone {
                Ok(()) => break,
                Err(StoreError::Io { error: IoError::NotTaken(SubmitError::Closed), .. }) => return,
                Err(_) => std::thread::sleep(RETRY_AFTER),
            }
        }
        if let Some(live) = live {
            live.release();
        }
    }

    /// Copies extents of the source at once, as requests of the server itself, and makes the copy
    /// durable.
    fn copy_at_once(&self, extents: &[Extent]) -> Result<(), IoError> {
        let run = Sectors::new(RUN_BYTES as u64 / u64::from(self.handle.sector_size().bytes()));
        let runs = windows(extents, run).concat();
        let moves: Vec<(Extent, Lba)> =
            runs.iter().flat_map(|run| self.job.relocation.moves_of(*run)).collect();
        let read = self.run_all(moves.iter().map(|(from, _)| Io::read(*from)))?;
        let runs = self.runs(moves.iter().map(|(_, to)| *to).zip(read).collect());
        self.run_all(runs.into_iter().map(|(extent, data)| Io::write(extent, data)))?;
        self.run_all(std::iter::once(Io::flush())).map(drop)
    }

    /// Carries out requests together; returns their results in the same order, or the first error.
    fn run_all(&self, ios: impl Iterator<Item = Io>) -> Result<Vec<Bytes>, IoError> {
        let (batch, receivers): (Vec<_>, Vec<_>) = ios
            .map(|io| {
                let (sender, receiver) = mpsc::sync_channel(1);
                let on_done: crate::OnDone = Box::new(move |done: IoDone| {
                    // The receiver waits below.
                    let _ = sender.send(done.result);
                });
                ((Io { volume: VolumeId::INTERNAL, ..io }, on_done), receiver)
            })
            .unzip();
        let taken = self.volumes.disk.submit_all(batch);
        let result = |(taken, receiver): (Result<_, SubmitError>, mpsc::Receiver<_>)| match taken {
            Ok(_) => receiver.recv().expect("a request that was taken is called back"),
            Err(refused) => Err(IoError::NotTaken(refused)),
        };
        // Wait for all, so that nothing is in flight after an error.
        let results: Vec<_> = taken.into_iter().zip(receivers).map(result).collect();
        results.into_iter().collect()
    }

    fn pause(&self, time: Duration) -> Result<(), Stop> {
        let until = Instant::now() + time;
        while Instant::now() < until {
            self.job.check_stop()?;
            std::thread::sleep(POLL.min(until.saturating_duration_since(Instant::now())));
        }
        Ok(())
    }

    /// Returns whether so few extents are left that writes can be held while they are copied.
    fn is_little(&self, left: &[Extent]) -> bool {
        left.len() <= MAX_LEFT_EXTENTS && self.bytes_of(sum(left)) <= MAX_LEFT_BYTES
    }

    fn joined(&self, extents: &[Extent]) -> Vec<Extent> {
        let gap = Sectors::new(JOIN_BYTES / u64::from(self.handle.sector_size().bytes()));
        joined(&self.job.relocation.source, extents, gap)
    }

    fn bytes_of(&self, sectors: Sectors) -> usize {
        self.handle.sector_size().bytes_of(sectors) as usize
    }
}

/// Changes of the sectors of a volume are held until this is dropped.
struct Held<'a> {
    live: Option<&'a LiveVolume>,
}

impl Held<'_> {
    fn hold(&mut self, offset: Sectors, len: Sectors) {
        if let Some(live) = self.live {
            live.hold(offset, len);
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(live) = self.live {
            live.release();
        }
    }
}

/// Divides extents into lists of at most `len` sectors, in order.
fn windows(extents: &[Extent], len: Sectors) -> Vec<Vec<Extent>> {
    let (mut windows, mut room) = (Vec::<Vec<Extent>>::new(), Sectors::ZERO);
    for extent in extents {
        let mut rest = *extent;
        while !rest.len.is_zero() {
            if room.is_zero() {
                windows.push(Vec::new());
                room = len;
            }
            let part = Extent::new(rest.start, rest.len.min(room));
            windows.last_mut().expect("one was just added if there was none").push(part);
            rest = Extent::new(part.end(), rest.len - part.len);
            room = room - part.len;
        }
    }
    windows
}

/// Orders extents of the source, and joins those of one of its extents that lie no more than `gap`
/// apart.
fn joined(source: &[Extent], extents: &[Extent], gap: Sectors) -> Vec<Extent> {
    let mut joined: Vec<Extent> = Vec::new();
    for own in source {
        let first = joined.len();
        let mut within: Vec<Extent> =
            extents.iter().filter_map(|extent| extent.intersection(*own)).collect();
        within.sort_by_key(|extent| extent.start);
        for extent in within {
            match joined[first..].last_mut() {
                Some(last) if extent.start <= last.end() + gap => {
                    last.len = last.end().max(extent.end()) - last.start;
                }
                _ => joined.push(extent),
            }
        }
    }
    joined
}

fn sum(extents: &[Extent]) -> Sectors {
    extents.iter().fold(Sectors::ZERO, |sum, extent| sum + extent.len)
}

fn not_taken(refused: SubmitError) -> Stop {
    Stop::Failed(IoError::NotTaken(refused).to_string())
}

fn cannot_write(error: &IoError) -> Stop {
    if error.is_loss_of_writes() {
        return Stop::Gone(format!("the copy begins again: {error}"));
    }
    if is_transient(error) {
        return gone(error);
    }
    Stop::Failed(format!("the copy cannot be written: {error}"))
}

fn stopped(error: StoreError) -> Stop {
    match &error {
        StoreError::Io { error, .. } if is_transient(error) => gone(error),
        StoreError::NotPutBack { error, .. } if is_transient(error) => gone(error),
        _ => Stop::Failed(error.to_string()),
    }
}

fn gone(error: &impl std::fmt::Display) -> Stop {
    Stop::Gone(format!(
        "the drive does not answer, and the copy begins again when it does: {error}"
    ))
}

/// Returns whether a drive may recover from an error by itself.
fn is_transient(error: &IoError) -> bool {
    let is_closed = matches!(error, IoError::NotTaken(_) | IoError::Closed);
    !is_closed && (is_gone(error.errno()) || error.is_loss_of_writes())
}

/// The bytes that are read before they are written: on a drive without clients the head moves
/// between the two places 64 times per GiB. A relocation uses about twice as much memory.
const WINDOW_BYTES: u64 = 32 << 20;
/// The length of one write.
const RUN_BYTES: usize = 1 << 20;
/// The number of writes in the scheduler at once.
const MAX_WRITES: usize = 8;
/// The most that is copied while writes are held (guess: a second of a busy disk).
const MAX_LEFT_BYTES: usize = 8 << 20;
const MAX_LEFT_EXTENTS: usize = 256;
/// Changed regions that lie closer are copied with what is between them (guess: the bytes that a
/// disk transfers in a fraction of a seek).
const JOIN_BYTES: u64 = 128 << 10;
/// The longest wait, with writes held, for requests that were admitted before.
const HOLD_PATIENCE: Duration = Duration::from_secs(2);
/// The interval at which requests that use the old place are reported.
const DRAIN_PATIENCE: Duration = Duration::from_secs(20);
/// The time until a delayed switch is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// The time until a drive that was gone is tried again, as for scans.
const GONE_RETRY_AFTER: Duration = Duration::from_secs(5);
/// The interval at which a cancellation is noticed.
const POLL: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;

    fn extents(numbers: &[(u64, u64)]) -> Vec<Extent> {
        numbers.iter().map(|(start, len)| Extent::from_numbers(*start, *len)).collect()
    }

    #[test]
    fn extents_are_divided_into_windows_and_joined_again() {
        let whole = extents(&[(100, 25), (10, 5), (200, 1)]);
        let divided = windows(&whole, Sectors::new(10));
        let expected =
            [&[(100, 10)][..], &[(110, 10)], &[(120, 5), (10, 5)], &[(200, 1)]].map(extents);
        assert_eq!(divided, expected);
        let join = |of: &[Extent], gap| joined(&whole, of, Sectors::new(gap));
        assert_eq!(join(&divided.concat(), 0), whole);
        // Not beyond an extent of the source, and in its order.
        let some = extents(&[(200, 5), (12, 1), (103, 2), (100, 2), (107, 9), (0, 11)]);
        let close = extents(&[(100, 5), (107, 9), (10, 1), (12, 1), (200, 1)]);
        assert_eq!(join(&some, 1), [&close[..2], &extents(&[(10, 3)])[..], &close[4..]].concat());
        assert_eq!(join(&some, 0), [&extents(&[(100, 2), (103, 2)])[..], &close[1..]].concat());
        assert_eq!(windows(&[], Sectors::new(10)), Vec::<Vec<Extent>>::new());
    }
}
