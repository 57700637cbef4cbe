//! [`Journal`]: the journal of a file system, which makes changes of metadata durable.
//!
//! Changed blocks of metadata collect in a transaction. A commit begins some time after the first
//! change, or when the transaction holds a quarter of the journal:
//!
//! 1. all dirty data is written (ordered mode), and the commit waits for it;
//! 2. a descriptor and the changed blocks are written one after the other into the journal;
//! 3. a commit record follows when they are on the drive;
//! 4. the changed blocks become dirty pages, which the flusher writes to their places.
//!
//! Changes during a commit collect in the next transaction. The model is ext3 with
//! `data=ordered`. *Not modelled*: barriers (ext3 had none by default), waits for a transaction to
//! close, revoked blocks, checkpoints that are forced because the journal is full.

use alloc::collections::BTreeSet;

use headtime_units::{Extent, Instant, Nanos};

use super::output::Output;
use super::write_back::WriteBack;
use crate::source::{ClientId, Operation};

/// The owner of a dirty block of metadata, by its address; files are owners by their numbers.
pub(super) const fn owner_of_block(block: u64) -> u64 {
    block | 1 << 63
}

/// The journal. Addresses and lengths are in sectors.
#[derive(Clone, Debug)]
pub(super) struct Journal {
    area: Extent,
    next: u64,
    page: u64,
    max_request: u64,
    interval: Nanos,
    /// The journal's process, and the place with which its completions are reported.
    client: Option<ClientId>,
    place: u32,
    running: BTreeSet<u64>,
    committing: BTreeSet<u64>,
    state: State,
    /// A wake-up for the running transaction is pending, or its time has come during a commit.
    timer: Timer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Idle,
    /// Waits for the data below this number.
    Data(u64),
    /// Waits for so many writes of descriptor and blocks.
    Blocks(u32),
    Record,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Timer {
    None,
    Pending,
    Due,
}

impl Journal {
    /// An empty journal in `area`, at least eight pages.
    pub(super) fn new(
        area: Extent,
        interval: Nanos,
        page: u64,
        max_request: u64,
        place: u32,
    ) -> Self {
        Self {
            area,
            next: area.start.get(),
            page,
            max_request,
            interval,
            client: None,
            place,
            running: BTreeSet::new(),
            committing: BTreeSet::new(),
            state: State::Idle,
            timer: Timer::None,
        }
    }

    /// Begins the journal's process.
    pub(super) fn start(&mut self, out: &mut Output<'_>) {
        self.client = Some(out.begin(self.place));
    }

    /// Blocks of metadata have changed.
    pub(super) fn change(
        &mut self,
        now: Instant,
        blocks: impl Iterator<Item = u64>,
        out: &mut Output<'_>,
    ) {
        self.running.extend(blocks);
        let max = self.area.len.get() / self.page / 4;
        if self.running.len() as u64 >= max {
            self.timer = Timer::Due;
        } else if self.timer == Timer::None
            && let Some(client) = self.client
        {
            self.timer = Timer::Pending;
            out.wake(now + self.interval, client);
        }
    }

    /// The time of a commit has come.
    pub(super) fn wake(&mut self) {
        self.timer = Timer::Due;
    }

    /// A write of the journal is complete.
    pub(super) fn finished(&mut self, now: Instant, cache: &mut WriteBack) {
        match self.state {
            State::Blocks(pending) => self.state = State::Blocks(pending - 1),
            State::Record => {
                self.state = State::Idle;
                for block in core::mem::take(&mut self.committing) {
                    let owner = owner_of_block(block);
                    if !cache.is_dirty(owner) {
                        cache.dirty(now, owner, Extent::from_numbers(block, self.page));
                    }
                }
            }
            State::Idle | State::Data(_) => {}
        }
    }

    /// Advances a commit as far as it goes, and begins one that is due.
    pub(super) fn advance(&mut self, now: Instant, cache: &mut WriteBack, out: &mut Output<'_>) {
        if cache.is_closed() {
            self.running.clear();
            self.committing.clear();
            self.state = State::Idle;
            return;
        }
        if self.state == State::Idle && self.timer == Timer::Due && !self.running.is_empty() {
            self.timer = Timer::None;
            self.committing = core::mem::take(&mut self.running);
            self.state = State::Data(cache.write_all());
        }
        if let State::Data(number) = self.state
            && cache.has_written(number)
        {
            let pages = 1 + self.committing.len() as u64;
            self.state = State::Blocks(self.write(now, pages, out));
        }
        if self.state == State::Blocks(0) {
            self.state = State::Record;
            self.write(now, 1, out);
        }
    }

    /// Returns true if nothing is changed or committing.
    pub(super) fn is_idle(&self) -> bool {
        self.state == State::Idle && self.running.is_empty()
    }

    /// Ends the journal's process.
    pub(super) fn end(&mut self, now: Instant, out: &mut Output<'_>) {
        if let Some(client) = self.client.take() {
            out.end(now, client);
        }
    }

    /// Writes pages at the end of the journal, or from its start where they do not fit; returns the
    /// number of requests.
    fn write(&mut self, now: Instant, pages: u64, out: &mut Output<'_>) -> u32 {
        let Some(client) = self.client else { return 0 };
        let len = pages * self.page;
        if self.next + len > self.area.end().get() {
            self.next = self.area.start.get();
        }
        let end = self.next + len;
        let mut requests = 0;
        while self.next < end {
            let len = self.max_request.min(end - self.next);
            let extent = Extent::from_numbers(self.next, len);
            if !out.request(now, client, Operation::Write, extent) {
                return requests;
            }
            self.next += len;
            requests += 1;
        }
        requests
    }
}
