//! A drive's write cache at one moment: what is settled on the platter, and what may or may not be
//! found there when the power fails.
//!
//! [`WriteCache`] is fed the events of a drive in their order. Example, one sector: writes A, B and
//! C are reported, a flush sent after B is reported, then D is sent. B is settled and A forgotten
//! with it; C is cached and D under way, so that a cut finds B, C or D.

use std::collections::BTreeMap;

use bytes::Bytes;
use headtime_sched::{CommandId, Op};
use headtime_units::{Extent, Sectors};

use super::drive::FailedFlush;
use super::history::Event;
use super::platter::Platter;

/// The settled contents of the platter, and the writes that are not settled yet.
#[derive(Clone, Debug)]
pub(super) struct WriteCache {
    /// Everything that survives a cut.
    pub(super) settled: Platter,
    /// Reported and not settled, in order of effect.
    cached: Vec<Change>,
    /// In flight, in order of dispatch.
    under_way: Vec<Change>,
    /// Flushes at the drive: each covers the changes numbered up to this.
    flushes: BTreeMap<CommandId, u64>,
    /// Changes reported so far.
    reported: u64,
    /// The treatment of writes that a failed flush should have covered.
    failed_flush: FailedFlush,
}

/// A command that changes sectors.
#[derive(Clone, Debug)]
pub(super) struct Change {
    command: CommandId,
    extent: Extent,
    /// The data to write; `None` for zeroes.
    content: Option<Bytes>,
    fua: bool,
    /// Its number among the reported ones, from 1.
    number: u64,
    /// The sectors of `extent` that a later change has settled, so that this one can no longer be
    /// found there; empty when there are none.
    overtaken: Vec<bool>,
    /// A failed flush should have covered it.
    forsaken: bool,
}

impl WriteCache {
    pub(super) fn new(settled: Platter, failed_flush: FailedFlush) -> Self {
        Self {
            settled,
            cached: Vec::new(),
            under_way: Vec::new(),
            flushes: BTreeMap::new(),
            reported: 0,
            failed_flush,
        }
    }

    /// Takes the next event in.
    pub(super) fn take(&mut self, event: &Event) {
        match event {
            Event::Sent { command, op: Op::Flush, .. } => {
                self.flushes.insert(*command, self.reported);
            }
            Event::Sent { command, op, extent, fua, content } => {
                let content = (*op == Op::Write).then(|| content.clone());
                self.under_way.push(Change {
                    command: *command,
                    extent: *extent,
                    content,
                    fua: *fua,
                    number: 0,
                    overtaken: Vec::new(),
                    forsaken: false,
                });
            }
            Event::Reported { command, result, lied, landed } => match self.flushes.remove(command)
            {
                Some(covers) => self.flushed(covers, result.is_ok(), *lied),
                None => self.changed(*command, result.is_ok() && !lied, *landed),
            },
        }
    }

    /// The changes that may or may not survive a cut now, in order of effect; commands in flight
    /// come last, in order of dispatch.
    pub(super) fn unsettled(&self) -> impl Iterator<Item = &Change> {
        self.cached.iter().chain(&self.under_way)
    }

    fn changed(&mut self, command: CommandId, done: bool, landed: Sectors) {
        let index = self.under_way.iter().position(|change| change.command == command);
        let mut change =
            self.under_way.remove(index.expect("a change is sent before it is reported"));
        self.reported += 1;
        change.number = self.reported;
        change.extent.len = landed;
        if landed.is_zero() {
            return;
        }
        if change.fua && done { self.settle(&change) } else { self.cached.push(change) }
    }

    fn flushed(&mut self, covers: u64, succeeded: bool, lied: bool) {
        if !succeeded {
            let forsaken = self.cached.iter_mut().filter(|change| {
                self.failed_flush == FailedFlush::Forgets && change.number <= covers
            });
            forsaken.for_each(|change| change.forsaken = true);
        } else if !lied {
            let all = std::mem::take(&mut self.cached);
            for change in all {
                if change.number <= covers && !change.forsaken {
                    self.settle(&change)
                } else {
                    self.cached.push(change)
                }
            }
        }
    }

    /// Puts a change on the platter; what took effect before it can no longer be found on its
    /// sectors.
    fn settle(&mut self, change: &Change) {
        for run in change.runs(|_| true) {
            change.put(run, &mut self.settled);
        }
        for earlier in self.cached.iter_mut().filter(|earlier| earlier.number < change.number) {
            let Some(both) = earlier.extent.intersection(change.extent) else { continue };
            earlier.overtaken.resize(earlier.extent.len.get() as usize, false);
            for lba in both.start.get()..both.end().get() {
                // Where the later one was itself overtaken, whatever did that has overtaken the
                // earlier one too.
                earlier.overtaken[(lba - earlier.extent.start.get()) as usize] = true;
            }
        }
    }
}

impl Change {
    pub(super) fn extent(&self) -> Extent {
        self.extent
    }

    /// True if a cut may leave it on its sector number `index`.
    pub(super) fn may_show(&self, index: u64) -> bool {
        !self.overtaken.get(index as usize).copied().unwrap_or(false)
    }

    /// The longest runs of its sectors, counted from its first, that it may be found on and that
    /// `is_selected` names.
    pub(super) fn runs(&self, is_selected: impl Fn(u64) -> bool) -> Vec<std::ops::Range<u64>> {
        let mut runs: Vec<std::ops::Range<u64>> = Vec::new();
        for index in
            (0..self.extent.len.get()).filter(|index| self.may_show(*index) && is_selected(*index))
        {
            match runs.last_mut() {
                Some(run) if run.end == index => run.end += 1,
                _ => runs.push(index..index + 1),
            }
        }
        runs
    }

    /// Puts a run of its sectors on a platter.
    pub(super) fn put(&self, run: std::ops::Range<u64>, platter: &mut Platter) {
        let extent = Extent::from_numbers(self.extent.start.get() + run.start, run.end - run.start);
        match &self.content {
            None => platter.zero(extent),
            Some(bytes) => {
                let at = |sectors| platter.sector_size().bytes_of(Sectors::new(sectors)) as usize;
                let part = bytes.slice(at(run.start)..at(run.end));
                platter.write(extent, &part);
            }
        }
    }
}
