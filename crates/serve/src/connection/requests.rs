//! Requests of an open export: admission to memory, submission to the disk piece by piece, and the
//! reply.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use headtime_io::{Io, IoDone, IoError, OnDone, RealClock};
use headtime_nbd::server::{Handle, Segment};
use headtime_nbd::{Errno, NbdCommand, StatusExtent};
use headtime_sched::ClassId;
use headtime_units::{Instant, Nanos, Sectors};

use super::{ConnectionTask, duration};
use crate::fair_semaphore::Permit;
use crate::pieces::{Job, JobResult, WINDOW};
use crate::stats::{Kind, Timing};

/// A completed piece.
pub(super) struct PieceDone {
    handle: Handle,
    index: usize,
    result: Result<Bytes, IoError>,
    timing: Timing,
    at: Instant,
    /// `None` if the scheduler did not accept the piece.
    permit: Option<Permit>,
}

impl ConnectionTask {
    pub(super) fn cancel_reads(&mut self) {
        let disk = Arc::clone(&self.shared.disk);
        for job in self.jobs.values_mut().filter(|job| job.caches() || job.kind() == Kind::Read) {
            job.stop().for_each(|id| disk.cancel(id));
        }
        let over: Vec<Handle> = self
            .jobs
            .iter()
            .filter(|(_, job)| job.is_complete())
            .map(|(handle, _)| *handle)
            .collect();
        over.into_iter().for_each(|handle| self.finish(handle));
    }

    pub(super) fn begin(&mut self, handle: Handle, command: NbdCommand) {
        let export = self.export.as_ref().expect("requests follow the opening of an export");
        export.stats.begun();
        self.begin_or_hold(handle, command, self.received_at);
    }

    /// Tries again to begin the requests that the volume holds.
    pub(super) fn begin_held(&mut self) {
        for (handle, command, started) in std::mem::take(&mut self.held) {
            self.begin_or_hold(handle, command, started);
        }
    }

    fn begin_or_hold(&mut self, handle: Handle, command: NbdCommand, started: Instant) {
        let export = self.export.as_ref().expect("requests follow the opening of an export");
        let kind = match &command {
            NbdCommand::Read { .. } => Kind::Read,
            NbdCommand::Write { .. } => Kind::Write,
            _ => Kind::Other,
        };
        let (_, length) = command.range();
        let sector = u64::from(export.volume.sector.bytes());
        let piece = Sectors::new(self.shared.limits.piece.get() / sector);
        let pass = match export.volume.begin_unless_held(export.class, &command) {
            None => {
                self.held.push((handle, command, started));
                return;
            }
            Some(Ok(pass)) => pass,
            Some(Err((errno, text))) => {
                if !self.gone {
                    let replied = self.machine.reply_error(handle, errno, text);
                    replied.expect("a request that was not answered is open");
                }
                export.stats.ended(kind, length, elapsed_since(started), true, Timing::None);
                return;
            }
        };
        let divide_at = self.shared.disk.divide_at();
        let Some(job) = Job::new(command, pass, piece, divide_at, started) else {
            // A raw disk has no holes: all of it is allocated.
            let status = [StatusExtent { length: length as u32, state: 0 }];
            let answered = self.machine.reply_extents(handle, &status);
            answered.expect("a status request of at least one byte is answered with all of it");
            export.stats.ended(kind, length, elapsed_since(started), false, Timing::None);
            return;
        };
        self.arrived_bytes += job.reply_bytes();
        self.jobs.insert(handle, job);
        self.arrived.push_back(handle);
    }

    /// Admits waiting requests in order, as far as memory allows. Returns the pages that the next
    /// request lacks. While it lacks any, the connection holds only the memory of admitted
    /// requests, so that others can use the rest.
    pub(super) fn admit(&mut self) -> u32 {
        loop {
            let served = self.served_bytes();
            let needed = served + self.next_bytes();
            let missing = self.allowance.missing_pages(needed);
            if missing > 0 && !self.take_at_once(missing) {
                self.allowance.keep(served);
                return self.allowance.missing_pages(needed);
            }
            let Some(handle) = self.arrived.pop_front() else {
                self.allowance.keep(needed);
                return 0;
            };
            let job = self.jobs.get(&handle);
            self.arrived_bytes -= job.map_or(0, Job::reply_bytes);
            if job.is_some_and(Job::caches) {
                self.caching.push_back(handle);
                if self.caching.len() > 1 {
                    continue;
                }
            }
            self.ready.push_back(handle);
        }
    }

    fn take_at_once(&mut self, pages: u32) -> bool {
        let granted = self.allowance.pool().and_then(|pool| pool.try_take(pages));
        let is_there = granted.is_some();
        granted.into_iter().for_each(|pages| self.allowance.add(pages));
        is_there
    }

    /// Submits pieces as long as the scheduler has permits, the first with `granted`; returns
    /// whether all were submitted.
    pub(super) fn submit_ready(&mut self, mut granted: Option<Permit>) -> bool {
        let count = self.ready.len();
        let (mut names, mut batch) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let all = loop {
            let Some(handle) = self.next_ready() else { break true };
            // One permit for each ready request, or for one piece.
            if granted.is_none() {
                let take = |units| self.piece_permits.as_ref()?.try_take(units);
                granted = take(self.ready.len() as u32).or_else(|| take(1));
            }
            let Some(permit) = Permit::take_one(&mut granted) else { break false };
            let (index, io, on_done) = self.next_piece(handle, permit);
            names.push((handle, index));
            batch.push((io, on_done));
        };
        if batch.is_empty() {
            return all;
        }
        let taken = self.shared.disk.submit_all(batch);
        for ((handle, index), taken) in names.into_iter().zip(taken) {
            match taken {
                Ok(id) => {
                    self.jobs.get_mut(&handle).into_iter().for_each(|job| job.submitted(index, id))
                }
                Err(refused) => drop(self.completed(PieceDone {
                    handle,
                    index,
                    result: Err(IoError::NotTaken(refused)),
                    timing: Timing::None,
                    at: RealClock.now(),
                    permit: None,
                })),
            }
        }
        all
    }

    /// The first request with a piece for the scheduler; requests before it without one leave the
    /// queue.
    fn next_ready(&mut self) -> Option<Handle> {
        while let Some(handle) = self.ready.front() {
            if self.jobs.get(handle).is_some_and(Job::has_piece) {
                return Some(*handle);
            }
            self.ready.pop_front();
        }
        None
    }

    /// The next piece of a request that has one, as a request to the disk.
    fn next_piece(&mut self, handle: Handle, permit: Permit) -> (usize, Io, OnDone) {
        let job = self.jobs.get_mut(&handle).expect("a ready request is in progress");
        let (index, piece) = job.next_piece().expect("a ready request has a piece");
        let export = self.export.as_ref().expect("requests follow the opening of an export");
        let timed = job.kind() != Kind::Other;
        let (deadline, priority) =
            (job.pass.deadline.filter(|_| timed), job.pass.priority.filter(|_| timed));
        let waited = || RealClock.now().saturating_since(job.started);
        let io = Io {
            volume: export.volume.id,
            class: ClassId(export.class.number()),
            stream: self.stream,
            priority,
            // The deadline counts from the arrival of the request, so the time spent waiting for
            // memory is gone.
            deadline: deadline
                .map(|deadline| deadline.saturating_sub(waited()).max(Nanos::from_ns(1))),
            ..piece
        };
        let completions = Arc::clone(&self.completions);
        let on_done = Box::new(move |done: IoDone| {
            let at = done.finished.as_ref().map(|finished| finished.finished);
            completions.push(PieceDone {
                handle,
                index,
                timing: Timing::of(done.finished.as_ref()),
                result: done.result,
                at: at.unwrap_or_else(|| RealClock.now()),
                permit: Some(permit),
            });
        });
        (index, io, on_done)
    }

    /// Continues the request of a completed piece; returns the permit of the piece.
    pub(super) fn completed(&mut self, done: PieceDone) -> Option<Permit> {
        let Some(job) = self.jobs.get_mut(&done.handle) else { return done.permit };
        job.completed(done.index, done.result, done.timing, done.at);
        if job.is_complete() {
            self.finish(done.handle);
        } else if job.has_piece() && !self.ready.contains(&done.handle) {
            self.ready.push_back(done.handle);
        }
        done.permit
    }

    /// Replies to a completed request.
    fn finish(&mut self, handle: Handle) {
        let Some(job) = self.jobs.remove(&handle) else { return };
        let export = self.export.as_ref().expect("requests follow the opening of an export");
        let (kind, caches) = (job.kind(), job.caches());
        let (bytes, duration, timing) = (job.bytes(), job.duration(), job.timing());
        let answer = job.into_result();
        if kind == Kind::Read && !self.is_reachable() {
            export.stats.dropped();
        } else {
            let failed = matches!(answer, JobResult::Failed(..));
            export.stats.ended(kind, bytes, duration, failed, timing);
        }
        if caches {
            self.caching.retain(|other| *other != handle);
            self.ready.extend(self.caching.front());
        }
        if self.gone {
            return;
        }
        let replied = match answer {
            JobResult::Done => self.machine.reply_done(handle),
            JobResult::Failed(errno, text) => self.machine.reply_error(handle, errno, &text),
            JobResult::Data(read) => self
                .machine
                .reply_segments(handle, &read.into_iter().map(Segment::Data).collect::<Vec<_>>()),
        };
        if let Err(error) = replied {
            // The drive returned less data than requested.
            tracing::error!(
                "{}: the drive's answer does not fit the request: {error}",
                export.name
            );
            let answered = self.machine.reply_error(
                handle,
                Errno::Io,
                "the drive returned less data than requested",
            );
            answered.expect("a request that could not be answered is still open");
        }
    }

    /// Bytes held for admitted requests, replies, and the window of a CACHE request.
    fn served_bytes(&self) -> u64 {
        // The machine forgets requests when the client leaves, but requests at the drive still use
        // their memory.
        if !self.is_reachable() {
            return self.allowance.held_bytes();
        }
        let caching = if self.caching.is_empty() { 0 } else { self.window_bytes() };
        let not_admitted = self.arrived_bytes + self.machine.receiving_bytes();
        self.machine.in_flight_bytes().saturating_sub(not_admitted) + caching
    }

    /// Bytes that the next request or payload needs beyond the held ones.
    fn next_bytes(&self) -> u64 {
        match self.arrived.front().map(|handle| self.jobs.get(handle)) {
            Some(Some(job)) if job.caches() && self.caching.is_empty() => self.window_bytes(),
            Some(Some(job)) => job.reply_bytes(),
            Some(None) => 0,
            None if self.is_reachable() => self.machine.receiving_bytes(),
            None => 0,
        }
    }

    /// Bytes of a CACHE request at the drive at once.
    fn window_bytes(&self) -> u64 {
        WINDOW as u64 * self.shared.limits.piece.get()
    }
}

fn elapsed_since(started: Instant) -> Duration {
    duration(RealClock.now().saturating_since(started))
}
