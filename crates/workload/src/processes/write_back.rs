//! [`WriteBack`]: the dirty pages of a page cache and the flusher that writes them.
//!
//! Calls to write dirty pages and return at once. The flusher writes the oldest dirty pages in
//! batches of requests:
//!
//! - while more than the background limit is dirty, until it is no more;
//! - pages that have been dirty for longer than they may be;
//! - whatever is dirty, while a process waits for the hard limit or a commit needs the data.
//!
//! A process whose write leaves more than the hard limit dirty or on its way to the drive waits
//! until it is no more. The flusher submits a batch only if the requests that it has submitted
//! leave room for it in their queue.
//!
//! Worked example with limits of 100 and 400 MiB and a drive that writes 30 MiB/s: a process that
//! dirties 300 MiB/s starts the flusher after a third of a second. After 1.5 s it reaches the hard
//! limit, and from then on it advances at the drive's 30 MiB/s.
//!
//! The model is Linux 2.6: `dirty_background_ratio`, `dirty_ratio`, `dirty_expire_centisecs`,
//! batches of 1,024 pages, and 128 requests in the queue of a device. *Not modelled*: inodes that
//! take turns, pages that are dirtied again while they are written.

use alloc::collections::{BTreeMap, VecDeque};

use headtime_units::{Extent, Instant, Nanos};

use super::output::Output;
use crate::check::Check;
use crate::error::StreamFault;
use crate::process::PageCache;
use crate::source::{ClientId, Operation};

/// The dirty pages of the processes of one stream. Lengths are in sectors.
#[derive(Clone, Debug)]
pub(crate) struct WriteBack {
    background: u64,
    limit: u64,
    batch: u64,
    max_request: u64,
    queue: usize,
    expire: Nanos,
    /// The flusher's number, and the place with which its completions are reported.
    flusher: Option<ClientId>,
    place: u32,
    /// In the order in which they were dirtied.
    dirty: VecDeque<DirtyRun>,
    dirty_len: u64,
    /// The number of dirty runs of each owner.
    owners: BTreeMap<u64, u32>,
    /// The length and number of each submitted write. Completions are counted in this order.
    submitted: VecDeque<(u64, u64)>,
    submitted_len: u64,
    /// The number of the next run.
    runs: u64,
    /// Runs below this number are written whatever the limits are.
    write_below: u64,
    /// The time of the pending wake-up of the flusher.
    wake: Option<Instant>,
    /// The limits of the stream are reached: nothing is written any more.
    closed: bool,
}

/// Pages that are dirtied within this time share their age. A guess.
const RUN: Nanos = Nanos::from_secs(1);

/// Dirty pages at consecutive addresses.
#[derive(Clone, Copy, Debug)]
struct DirtyRun {
    extent: Extent,
    since: Instant,
    number: u64,
    owner: u64,
}

impl WriteBack {
    /// No dirty pages. `place` is the place with which completions of the flusher are reported.
    pub(crate) fn new(cache: &PageCache, place: u32, check: &Check) -> Result<Self, StreamFault> {
        let memory = check.length("memory", cache.memory_bytes)?;
        check.number("background", cache.background, 0.0, 1.0, "Linux has 0.1")?;
        check.number("limit", cache.limit, 0.0, 1.0, "Linux 2.6 has 0.4")?;
        if cache.background > cache.limit {
            return Err(check.value(
                "background",
                cache.background,
                alloc::format!("no more than the limit, {}", cache.limit),
                "lower background, or raise limit",
            ));
        }
        let max_request = check.sectors("request", cache.request_bytes)?;
        let batch = check.length("batch", cache.batch_bytes)?;
        let queue = u64::from(cache.queue);
        if batch < max_request || batch.div_ceil(max_request) > queue {
            return Err(check.value(
                "batch",
                alloc::format!("{} bytes", cache.batch_bytes),
                alloc::format!("1 to {queue} requests of {} bytes", cache.request_bytes),
                "lower batch, or raise queue",
            ));
        }
        let share = |share: f64| (share * memory as f64) as u64;
        Ok(Self {
            background: share(cache.background),
            limit: share(cache.limit),
            batch,
            max_request,
            queue: cache.queue as usize,
            expire: cache.expire,
            flusher: None,
            place,
            dirty: VecDeque::new(),
            dirty_len: 0,
            submitted: VecDeque::new(),
            submitted_len: 0,
            owners: BTreeMap::new(),
            runs: 0,
            write_below: 0,
            wake: None,
            closed: false,
        })
    }

    /// Begins the flusher.
    pub(crate) fn start(&mut self, out: &mut Output<'_>) {
        self.flusher = Some(out.begin(self.place));
    }

    /// Dirties pages of `owner` and lets the flusher write if it has to.
    pub(crate) fn dirty(&mut self, now: Instant, owner: u64, extent: Extent) {
        self.dirty_len += extent.len.get();
        match self.dirty.back_mut() {
            Some(last)
                if last.owner == owner
                    && last.extent.end() == extent.start
                    && now.saturating_since(last.since) < RUN
                    && last.number >= self.write_below =>
            {
                last.extent.len += extent.len;
            }
            _ => {
                self.dirty.push_back(DirtyRun { extent, since: now, number: self.runs, owner });
                self.runs += 1;
                *self.owners.entry(owner).or_default() += 1;
            }
        }
    }

    /// Forgets the dirty pages of `owner`: its file is truncated or deleted.
    pub(crate) fn forget(&mut self, owner: u64) {
        if self.owners.remove(&owner).is_none() {
            return;
        }
        self.dirty.retain(|run| run.owner != owner);
        self.dirty_len = self.dirty.iter().map(|run| run.extent.len.get()).sum();
    }

    /// Returns true if the limits of the stream let nothing more be written.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Ends the flusher if nothing is dirty or pending.
    pub(crate) fn end_if_idle(&mut self, now: Instant, out: &mut Output<'_>) {
        if self.dirty.is_empty()
            && self.submitted.is_empty()
            && let Some(flusher) = self.flusher.take()
        {
            out.end(now, flusher);
        }
    }

    /// The largest request in sectors.
    pub(crate) fn max_request(&self) -> u64 {
        self.max_request
    }

    /// The number of sectors above which the flusher writes.
    pub(crate) fn background(&self) -> u64 {
        self.background
    }

    /// Returns true if a process that writes has to wait.
    pub(crate) fn is_over_limit(&self) -> bool {
        !self.closed && self.dirty_len + self.submitted_len > self.limit
    }

    /// Returns true if pages of `owner` are dirty and not yet submitted.
    pub(crate) fn is_dirty(&self, owner: u64) -> bool {
        self.owners.contains_key(&owner)
    }

    /// Writes all that is dirty now, whatever the limits are; returns the number with which
    /// [`WriteBack::has_written`] answers for it.
    pub(crate) fn write_all(&mut self) -> u64 {
        self.write_below = self.runs;
        self.runs
    }

    /// Returns true if all runs below `number` are on the drive.
    pub(crate) fn has_written(&self, number: u64) -> bool {
        self.closed
            || (self.dirty.front().is_none_or(|run| run.number >= number)
                && self.submitted.front().is_none_or(|(_, run)| *run >= number))
    }

    /// A write of the flusher is complete.
    pub(crate) fn finished(&mut self) {
        if let Some((len, _)) = self.submitted.pop_front() {
            self.submitted_len -= len;
        }
    }

    /// Submits what has to be written and has room in the queue.
    pub(crate) fn advance(&mut self, now: Instant, out: &mut Output<'_>) {
        if self.wake.is_some_and(|at| at <= now) {
            self.wake = None;
        }
        if !out.limits.allow(now) {
            self.close();
        }
        let requests = self.batch.div_ceil(self.max_request) as usize;
        while !self.closed && self.submitted.len() + requests <= self.queue && self.must_write(now)
        {
            self.submit_batch(now, requests, out);
        }
        if let Some(oldest) = self.dirty.front()
            && self.wake.is_none()
            && !self.must_write(now)
            && let Some(flusher) = self.flusher
        {
            let at = oldest.since + self.expire;
            self.wake = Some(at);
            out.wake(at, flusher);
        }
    }

    fn close(&mut self) {
        self.closed = true;
        self.dirty.clear();
        self.owners.clear();
        self.dirty_len = 0;
    }

    fn must_write(&self, now: Instant) -> bool {
        self.dirty.front().is_some_and(|oldest| {
            self.dirty_len > self.background
                || self.is_over_limit()
                || oldest.number < self.write_below
                || oldest.since + self.expire <= now
        })
    }

    fn submit_batch(&mut self, now: Instant, max_requests: usize, out: &mut Output<'_>) {
        let Some(flusher) = self.flusher else { return };
        let mut left = self.batch;
        for _ in 0..max_requests {
            let Some(run) = self.dirty.front_mut().filter(|_| left > 0) else { return };
            let len = run.extent.len.get().min(self.max_request).min(left);
            let extent = Extent::from_numbers(run.extent.start.get(), len);
            if !out.request(now, flusher, Operation::Write, extent) {
                return self.close();
            }
            self.submitted.push_back((len, run.number));
            self.submitted_len += len;
            self.dirty_len -= len;
            left -= len;
            let (start, end) = (extent.end().get(), run.extent.end().get());
            run.extent = Extent::from_numbers(start, end - start);
            if run.extent.len.is_zero() {
                let owner = run.owner;
                self.dirty.pop_front();
                if let Some(runs) = self.owners.get_mut(&owner) {
                    *runs -= 1;
                    if *runs == 0 {
                        self.owners.remove(&owner);
                    }
                }
            }
        }
    }
}
