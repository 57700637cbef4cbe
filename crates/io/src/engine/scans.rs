//! The engine's side of scans. Sectors that the scheduler hands over go to the feeds, and a slow
//! feed pauses its own scan. Writes wait until a point in time has kept the sectors that they
//! overwrite.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use headtime_sched::{
    BackgroundRead, BackgroundWriteId, Command, Op, Outcome, Pace, PendingSectors, ScanId,
    ScanOptions, ScanPriority, VolumeId,
};
use headtime_units::{Extent, Instant, Sectors};

use super::Engine;
use crate::backend::BackendCommand;
use crate::engine::mailbox::BackgroundWrite;
use crate::engine::scan_queue::{MAX_HELD, Retention, ScanEvent, ScanQueue, WriteMarks};
use crate::request::IoError;

/// The scans of one engine and the writes that wait for them.
#[derive(Default)]
pub(super) struct Scans {
    scans: Vec<Scan>,
    next_id: u32,
    watched: Vec<Weak<WriteMarks>>,
    /// Commands that the scheduler has sent and the engine holds back from the drive.
    held: Vec<(Instant, BackendCommand)>,
    /// Background writes that are not over.
    writes: BTreeMap<BackgroundWriteId, BackgroundWrite>,
    next_write: u64,
}

/// One scan. Sectors that it requests again are a separate scan to the scheduler.
struct Scan {
    feed: Arc<ScanQueue>,
    ids: Vec<ScanId>,
    paused: bool,
    priority: ScanPriority,
    /// The feed has reached its bound.
    held_back: bool,
    told_exhausted: bool,
}

impl Scan {
    fn pace(&self) -> Pace {
        if self.paused || self.held_back { Pace::Paused } else { Pace::Normal }
    }
}

impl Scans {
    pub(super) fn count(&self) -> usize {
        self.scans.len()
    }

    pub(super) fn watch(&mut self, marks: &Arc<WriteMarks>) {
        self.watched.push(Arc::downgrade(marks));
    }

    /// Records that sectors are being changed or were changed.
    pub(super) fn note_change(&mut self, extent: Extent) {
        if self.watched.is_empty() {
            return;
        }
        self.watched.retain(|marks| {
            let marks = marks.upgrade();
            marks.iter().for_each(|marks| marks.mark(extent));
            marks.is_some()
        });
    }

    fn find(&mut self, number: u32) -> Option<&mut Scan> {
        self.scans.iter_mut().find(|scan| scan.feed.number == number)
    }

    /// The time at which a held write is released.
    pub(super) fn next_release(&self) -> Option<Instant> {
        self.held.iter().map(|(since, _)| *since + MAX_HELD).min()
    }
}

impl Engine {
    pub(super) fn scan_start(&mut self, feed: Arc<ScanQueue>, requested: PendingSectors) {
        self.scans.scans.push(Scan {
            feed: Arc::clone(&feed),
            ids: Vec::new(),
            paused: feed.starts_paused,
            priority: feed.priority,
            held_back: false,
            told_exhausted: false,
        });
        self.scan_want(&feed, requested);
    }

    /// Requests sectors again. Sectors that a held write is about to overwrite are no longer
    /// available in their old state.
    pub(super) fn scan_again(&mut self, number: u32, requested: PendingSectors) {
        let Some(scan) = self.scans.find(number) else { return };
        scan.told_exhausted = false;
        let feed = Arc::clone(&scan.feed);
        let about_to_change = |request: &headtime_sched::Request| {
            let touched = requested.whole_grains(request.extent);
            request.op.changes_sectors() && requested.hull_in(touched).is_some()
        };
        let overtaken = self
            .pending
            .values()
            .map(|pending| &pending.request)
            .filter(|request| about_to_change(request))
            .map(|request| request.extent)
            .min_by_key(|extent| extent.start);
        match overtaken.filter(|_| feed.point_in_time) {
            Some(extent) => self.scan_overtaken(number, extent),
            None => {
                feed.request_again(&requested);
                self.scan_want(&feed, requested);
            }
        }
    }

    fn scan_want(&mut self, feed: &ScanQueue, requested: PendingSectors) {
        let id = ScanId(self.scans.next_id);
        self.scans.next_id += 1;
        let now = self.clock.now();
        let Self { scans, scheduler, .. } = self;
        let Some(scan) = scans.find(feed.number) else { return };
        // Each entry has a bitmap of the whole drive. Remove exhausted entries before the scan
        // ends, because a scan retries as long as its drive is away.
        scan.ids.retain(|id| {
            let over = scheduler.scan_remaining(*id).is_none_or(Sectors::is_zero);
            if over {
                scheduler.scan_stop(now, *id);
            }
            !over
        });
        scan.ids.push(id);
        let options = ScanOptions {
            point_in_time: feed.point_in_time,
            pace: scan.pace(),
            priority: scan.priority,
        };
        scheduler.scan_start(now, id, requested, options);
        self.tell_exhausted(feed.number);
    }

    /// Pauses or resumes a scan on request of its owner, or checks whether its feed has room again.
    pub(super) fn scan_pace(&mut self, number: u32, paused: Option<bool>) {
        let now = self.clock.now();
        let Some(scan) = self.scans.find(number) else { return };
        scan.paused = paused.unwrap_or(scan.paused);
        scan.held_back &= !scan.feed.has_room_again();
        let (pace, ids) = (scan.pace(), scan.ids.clone());
        for id in ids {
            match pace {
                Pace::Normal => self.scheduler.scan_resume(now, id),
                Pace::Paused => self.scheduler.scan_pause(now, id),
            }
        }
    }

    pub(super) fn scan_priority(&mut self, number: u32, priority: ScanPriority) {
        let now = self.clock.now();
        let Self { scans, scheduler, .. } = self;
        let Some(scan) = scans.find(number) else { return };
        scan.priority = priority;
        scan.ids.iter().for_each(|id| scheduler.scan_set_priority(now, *id, priority));
    }

    pub(super) fn scan_stop(&mut self, number: u32) {
        let now = self.clock.now();
        let Some(place) = self.scans.scans.iter().position(|scan| scan.feed.number == number)
        else {
            return;
        };
        let scan = self.scans.scans.remove(place);
        scan.ids.iter().for_each(|id| self.scheduler.scan_stop(now, *id));
        scan.feed.end(Some(ScanEvent::Closed));
    }

    /// Stops all scans, because no scan outlives the drive.
    pub(super) fn stop_scans(&mut self) {
        while let Some(scan) = self.scans.scans.first() {
            self.scan_stop(scan.feed.number);
        }
    }

    /// Ends the scans of a failed engine without calling its scheduler.
    pub(super) fn abandon_scans(&mut self) {
        self.scans.scans.drain(..).for_each(|scan| scan.feed.end(Some(ScanEvent::Closed)));
    }

    fn scan_overtaken(&mut self, number: u32, extent: Extent) {
        tracing::warn!(
            "a scan of a point in time ends, because {extent} is overwritten before what it held \
                was kept"
        );
        if let Some(scan) = self.scans.find(number) {
            scan.feed.end(Some(ScanEvent::Overtaken { extent }));
        }
        self.scan_stop(number);
    }

    /// Hands over the sectors that a command has read for scans.
    pub(super) fn hand_over_background(&mut self, command: &Command, result: &Result<Bytes, i32>) {
        let sector_bytes = u64::from(self.sector_size.bytes());
        while let Some(BackgroundRead { scan: id, command: read_by, extent, outcome, source }) =
            self.scheduler.take_background()
        {
            debug_assert_eq!(
                read_by, command.id,
                "what was read is handed over when its command is done"
            );
            let read = match (outcome, result) {
                (Outcome::Failed(errno), _) => Err(errno),
                (Outcome::Success, Err(errno)) => Err(*errno),
                (Outcome::Success, Ok(bytes)) => {
                    let from =
                        ((extent.start - command.extent.start).get() * sector_bytes) as usize;
                    Ok(bytes.slice(from..from + (extent.len.get() * sector_bytes) as usize))
                }
            };
            let Some(scan) = self.scans.scans.iter_mut().find(|scan| scan.ids.contains(&id)) else {
                continue;
            };
            let number = scan.feed.number;
            if scan.feed.tell(extent, &read, sector_bytes, source) && !scan.held_back {
                scan.held_back = true;
                self.scan_pace(number, None);
            }
            if self.scans.find(number).is_some_and(|scan| scan.feed.overflows()) {
                self.scan_overtaken(number, extent);
            }
            self.tell_exhausted(number);
        }
    }

    pub(super) fn write_in_background(&mut self, write: BackgroundWrite) {
        let id = BackgroundWriteId(self.scans.next_write);
        self.scans.next_write += 1;
        self.scans.note_change(write.extent);
        self.scheduler.background_write(self.clock.now(), id, write.extent);
        self.scans.writes.insert(id, write);
    }

    /// The data of a command that carries out a background write.
    pub(super) fn background_data(&self, command: &Command) -> Option<Bytes> {
        let write = self.scans.writes.get(&self.scheduler.written_by(command.id)?)?;
        let bytes = |sectors| self.sector_size.bytes_of(sectors) as usize;
        let from = bytes(command.extent.start - write.extent.start);
        Some(write.data.slice(from..from + bytes(command.extent.len)))
    }

    /// Reports the background writes that are over.
    pub(super) fn finish_background_writes(&mut self) {
        while let Some(written) = self.scheduler.take_written() {
            let write = self.scans.writes.remove(&written.id);
            let write = write.expect("each background write is over once");
            let result = match written.outcome {
                Outcome::Success => {
                    // A flush of the server itself covers it, and reports its loss.
                    self.unflushed.answered(VolumeId::INTERNAL);
                    Ok(())
                }
                Outcome::Failed(errno) => {
                    Err(IoError::Os { op: Op::Write, extent: write.extent, errno })
                }
            };
            write.finish(result);
        }
    }

    /// Answers the background writes that are left when the drive closes.
    pub(super) fn give_up_writes(&mut self, reason: &IoError) {
        for write in std::mem::take(&mut self.scans.writes).into_values() {
            write.finish(Err(reason.clone()));
        }
    }

    fn tell_exhausted(&mut self, number: u32) {
        let Self { scans, scheduler, .. } = self;
        let Some(scan) = scans.find(number) else { return };
        let left: Sectors = scan
            .ids
            .iter()
            .filter_map(|id| scheduler.scan_remaining(*id))
            .fold(Sectors::ZERO, |sum, left| sum + left);
        if left.is_zero() && !scan.told_exhausted {
            scan.told_exhausted = true;
            scan.feed.tell_exhausted();
        }
    }

    /// Sends a command to the drive. Holds it if it changes sectors that a point in time has not
    /// kept yet.
    pub(super) fn send_or_hold(&mut self, now: Instant, work: BackendCommand) {
        if work.command.op.changes_sectors() && !self.may_overwrite(work.command.extent, false) {
            self.scans.held.push((now, work));
        } else {
            self.backend.start(now, work);
        }
    }

    /// Sends the held commands that may go now.
    pub(super) fn release_held(&mut self) {
        if self.scans.held.is_empty() {
            return;
        }
        let now = self.clock.now();
        for (since, work) in std::mem::take(&mut self.scans.held) {
            if self.may_overwrite(work.command.extent, now >= since + MAX_HELD) {
                self.backend.start(now, work);
            } else {
                self.scans.held.push((since, work));
            }
        }
    }

    /// Returns true if these sectors may be overwritten now. Ends the scans that lose their point
    /// in time by it.
    fn may_overwrite(&mut self, extent: Extent, waited_long: bool) -> bool {
        let mut wait = false;
        let mut overtaken = Vec::new();
        for scan in self.scans.scans.iter().filter(|scan| scan.feed.point_in_time) {
            match scan.feed.is_kept(extent) {
                Retention::Yes => {}
                Retention::NotYet if !waited_long => wait = true,
                Retention::NotYet | Retention::Never => overtaken.push(scan.feed.number),
            }
        }
        overtaken.into_iter().for_each(|number| self.scan_overtaken(number, extent));
        !wait
    }
}
