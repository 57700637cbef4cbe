//! [`Scan`]: one task over a range of sectors, each of them once, in any order.
//!
//! Progress is kept in grains. A piece that covers whole grains goes to the task at once. A part of
//! a grain, as after a read error, waits in memory until the grain is complete. Between
//! [`Scan::deliver`] and [`Scan::keep`] the task's output is made safe. A scan that is saved in
//! between does not count that piece, so it is read again after a restart.

use std::collections::BTreeMap;

use headtime_units::{Extent, Lba, Sectors};

use crate::bitmap::Bitmap;
use crate::digests::DigestReport;
use crate::ranges::Ranges;
use crate::subject::ScanSubject;
use crate::task::{Piece, Task, TaskKind, TaskSettings};

/// The most incomplete grains in memory, of at most 64 KiB on drives with sectors of 512 bytes. If
/// there are more, the one at the lowest address is dropped and stays missing.
pub const MAX_PARTIAL: usize = 64;

/// Data to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// At an offset of the image.
    At {
        /// Bytes from the beginning.
        offset: u64,
        /// The data.
        bytes: Vec<u8>,
    },
    /// At the end of the stream.
    Append {
        /// The data.
        bytes: Vec<u8>,
    },
}

/// The source of the disk time in which sectors were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadSource {
    /// Between two foreground requests.
    Gap,
    /// With a foreground request, in one command.
    Merged,
    /// While no request was waiting.
    Idle,
    /// Between foreground requests, in the share of time that the bound on impact allows.
    Share,
    /// Before they were overwritten.
    BeforeWrite,
}

impl ReadSource {
    /// Every source, in the order of [`Scan::sources`].
    pub const ALL: [Self; 5] =
        [Self::Gap, Self::Merged, Self::Idle, Self::Share, Self::BeforeWrite];
}

/// One task over a range of sectors.
pub struct Scan {
    pub(crate) subject: ScanSubject,
    /// Sectors of a grain.
    pub(crate) grain: u64,
    pub(crate) done: Bitmap,
    pub(crate) task: Box<dyn Task>,
    /// Sectors that could not be read in this pass.
    pub(crate) failed: Ranges,
    /// The number of passes begun, including this one.
    pub(crate) passes: u32,
    pub(crate) sources: [u64; ReadSource::ALL.len()],
    /// Notes of the caller, which are saved with the state.
    pub(crate) notes: BTreeMap<String, String>,
    partial: BTreeMap<u64, Partial>,
    /// Grains delivered to the task and not yet kept, and their failed sectors.
    pending: Vec<(u64, u64)>,
    pending_failed: Vec<Extent>,
}

/// A grain with some of its sectors.
struct Partial {
    bytes: Vec<u8>,
    /// By sector of the grain.
    seen: u128,
    failed: u128,
}

impl Scan {
    /// A scan at the beginning of its first pass, on a drive with physical blocks of
    /// `physical_bytes`.
    #[must_use]
    pub fn start(subject: ScanSubject, task: impl Into<TaskSettings>, physical_bytes: u32) -> Self {
        let settings = task.into();
        let task = settings.build(&subject);
        Self::with_task(subject, task, physical_bytes)
    }

    /// A scan with a task of the caller.
    #[must_use]
    pub fn with_task(subject: ScanSubject, task: Box<dyn Task>, physical_bytes: u32) -> Self {
        let grain = subject.grain(physical_bytes);
        let done = Bitmap::new(subject.grains(grain));
        Self::from_parts(subject, grain, done, task)
    }

    pub(crate) fn from_parts(
        subject: ScanSubject,
        grain: u64,
        done: Bitmap,
        task: Box<dyn Task>,
    ) -> Self {
        Self {
            subject,
            grain,
            done,
            task,
            failed: Ranges::default(),
            passes: 1,
            sources: [0; ReadSource::ALL.len()],
            notes: BTreeMap::new(),
            partial: BTreeMap::new(),
            pending: Vec::new(),
            pending_failed: Vec::new(),
        }
    }

    /// The data to be written before everything else; once, at the beginning of a pass.
    pub fn begin(&mut self, out: &mut Vec<Output>) {
        self.task.begin(out);
    }

    /// Delivers sectors with their bytes, or the system's error code if they could not be read.
    /// Sectors outside the scan and those delivered before are ignored.
    ///
    /// `written` means that their mebibyte was written through the engine since the last delivery
    /// from it; a piece must not cross a mebibyte of the extent for this. The output goes to `out`;
    /// [`Scan::keep`] or [`Scan::forget`] follows.
    ///
    /// # Panics
    /// When the bytes are not as long as the extent.
    pub fn deliver(
        &mut self,
        extent: Extent,
        read: Result<&[u8], i32>,
        written: bool,
        source: ReadSource,
        out: &mut Vec<Output>,
    ) {
        let sector = self.subject.sector_size.bytes() as usize;
        if let Ok(bytes) = read {
            assert_eq!(bytes.len(), extent.len.get() as usize * sector, "bytes of {extent}");
        }
        let Some(inside) = extent.intersection(self.subject.extent) else { return };
        self.task.arrived(inside, written);
        let origin = self.subject.origin(self.grain).get();
        let number = |lba: Lba| (lba.get() - origin) / self.grain;
        let bytes_of = |part: Extent| {
            let from = (part.start - extent.start).get() as usize * sector;
            read.map(|bytes| &bytes[from..from + part.len.get() as usize * sector])
        };
        // Deliver consecutive whole grains as one piece.
        let mut run: Option<(u64, u64, Extent)> = None;
        for grain in number(inside.start)..=number(inside.last()) {
            let whole = self.subject.sectors_of(self.grain, grain);
            let part =
                whole.intersection(inside).expect("grains are counted over the sectors inside");
            if self.done.contains(grain) || self.is_pending(grain) {
                self.flush_run(&mut run, &bytes_of, out);
                continue;
            }
            if part == whole && read.is_ok() && !self.partial.contains_key(&grain) {
                self.sources[source as usize] =
                    self.sources[source as usize].saturating_add(part.len.get());
                run = Some(match run {
                    Some((first, count, run)) => {
                        (first, count + 1, Extent::new(run.start, run.len + part.len))
                    }
                    None => (grain, 1, part),
                });
                continue;
            }
            self.flush_run(&mut run, &bytes_of, out);
            self.take_part(grain, whole, part, bytes_of(part), source, out);
        }
        self.flush_run(&mut run, &bytes_of, out);
    }

    fn flush_run<'b>(
        &mut self,
        run: &mut Option<(u64, u64, Extent)>,
        bytes_of: &impl Fn(Extent) -> Result<&'b [u8], i32>,
        out: &mut Vec<Output>,
    ) {
        let Some((first, count, extent)) = run.take() else { return };
        let bytes = bytes_of(extent).expect("only what was read makes a run");
        self.task.take(&Piece { extent, bytes, failed: &[] }, out);
        self.pending.push((first, count));
    }

    fn take_part(
        &mut self,
        grain: u64,
        whole: Extent,
        part: Extent,
        read: Result<&[u8], i32>,
        source: ReadSource,
        out: &mut Vec<Output>,
    ) {
        let sector = self.subject.sector_size.bytes() as usize;
        let partial = self.partial.entry(grain).or_insert_with(|| Partial {
            bytes: vec![0; whole.len.get() as usize * sector],
            seen: 0,
            failed: 0,
        });
        let first = (part.start - whole.start).get();
        let mask = (u128::MAX >> (128 - part.len.get())) << first;
        let fresh = mask & !partial.seen;
        let count = u64::from(fresh.count_ones());
        self.sources[source as usize] = self.sources[source as usize].saturating_add(count);
        match read {
            Ok(bytes) => {
                let from = first as usize * sector;
                partial.bytes[from..from + bytes.len()].copy_from_slice(bytes);
                // A successful read counts, even after a failed one.
                partial.failed &= !mask;
            }
            Err(_) => partial.failed |= fresh,
        }
        partial.seen |= mask;
        if partial.seen == u128::MAX >> (128 - whole.len.get()) {
            let Partial { bytes, failed, .. } = self.partial.remove(&grain).expect("it is at hand");
            let failed: Vec<Extent> = runs_of(failed)
                .map(|(first, len)| {
                    Extent::new(whole.start + Sectors::new(first), Sectors::new(len))
                })
                .collect();
            self.task.take(&Piece { extent: whole, bytes: &bytes, failed: &failed }, out);
            self.pending.push((grain, 1));
            self.pending_failed.extend(failed);
        } else if self.partial.len() > MAX_PARTIAL {
            self.partial.pop_first();
        }
    }

    fn is_pending(&self, grain: u64) -> bool {
        self.pending.iter().any(|(first, count)| (*first..first + count).contains(&grain))
    }

    /// The whole grains delivered to the task since the last [`Scan::keep`], and the unreadable
    /// sectors among them.
    pub fn pending(&self) -> (impl Iterator<Item = Extent> + '_, &[Extent]) {
        let grains = self.pending.iter().map(|(first, count)| {
            let start = self.subject.sectors_of(self.grain, *first).start;
            let end = self.subject.sectors_of(self.grain, first + count - 1).end();
            Extent::new(start, end - start)
        });
        (grains, &self.pending_failed)
    }

    /// Records that the output since the last call is safe.
    pub fn keep(&mut self) {
        for (first, count) in self.pending.drain(..) {
            (first..first + count).for_each(|grain| self.done.insert(grain));
        }
        self.pending_failed.drain(..).for_each(|failed| self.failed.insert(failed));
    }

    /// Records that the output since the last call could not be made safe; its sectors stay
    /// missing. Only for tasks that write.
    pub fn forget(&mut self) {
        self.pending.clear();
        self.pending_failed.clear();
    }

    /// Records sectors that are safe by other knowledge, such as a journal; only whole grains
    /// count.
    pub fn count_as_kept(&mut self, extent: Extent) {
        let Some(inside) = extent.intersection(self.subject.extent) else { return };
        let origin = self.subject.origin(self.grain).get();
        for grain in
            (inside.start.get() - origin) / self.grain..=(inside.last().get() - origin) / self.grain
        {
            let whole = self.subject.sectors_of(self.grain, grain);
            if whole.intersection(inside) == Some(whole) {
                self.done.insert(grain);
            }
        }
    }

    /// Records sectors that are unreadable by other knowledge.
    pub fn count_as_failed(&mut self, extent: Extent) {
        if let Some(inside) = extent.intersection(self.subject.extent) {
            self.failed.insert(inside);
        }
    }

    /// True if all sectors of the scan among these are kept.
    #[must_use]
    pub fn is_kept(&self, extent: Extent) -> bool {
        let Some(inside) = extent.intersection(self.subject.extent) else { return true };
        let origin = self.subject.origin(self.grain).get();
        ((inside.start.get() - origin) / self.grain..=(inside.last().get() - origin) / self.grain)
            .all(|grain| self.done.contains(grain))
    }

    /// The data to be written after everything else; once, when the scan [is
    /// complete](Scan::is_complete).
    pub fn end(&mut self, out: &mut Vec<Output>) {
        self.task.end(out);
    }

    /// Begins another pass over the same sectors; a comparing task compares it with this one.
    pub fn again(&mut self) {
        self.done = Bitmap::new(self.subject.grains(self.grain));
        self.failed = Ranges::default();
        self.sources = [0; ReadSource::ALL.len()];
        self.passes = self.passes.saturating_add(1);
        self.partial.clear();
        self.forget();
        self.task.again();
    }

    /// The sectors still to be read, by address, in ranges of whole grains.
    pub fn missing(&self) -> impl Iterator<Item = Extent> + '_ {
        self.done.gaps().map(|(first, count)| {
            let start = self.subject.sectors_of(self.grain, first).start;
            let end = self.subject.sectors_of(self.grain, first + count - 1).end();
            Extent::new(start, end - start)
        })
    }

    /// True if every sector was delivered and kept.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.done.is_full()
    }

    /// The number of sectors delivered and kept, in whole grains.
    #[must_use]
    pub fn sectors_done(&self) -> Sectors {
        Sectors::new((self.done.count() * self.grain).min(self.subject.extent.len.get()))
    }

    /// The subject of the scan.
    #[must_use]
    pub fn subject(&self) -> &ScanSubject {
        &self.subject
    }

    /// Sectors of a grain.
    #[must_use]
    pub fn grain(&self) -> u64 {
        self.grain
    }

    /// The task's settings.
    #[must_use]
    pub fn settings(&self) -> TaskSettings {
        self.task.settings()
    }

    /// The kind of the task.
    #[must_use]
    pub fn kind(&self) -> TaskKind {
        self.settings().kind
    }

    /// The number of passes begun, including this one.
    #[must_use]
    pub fn passes(&self) -> u32 {
        self.passes
    }

    /// Sectors that could not be read in this pass.
    #[must_use]
    pub fn failed(&self) -> &Ranges {
        &self.failed
    }

    /// Sectors of this pass by the source of their time, in the order of [`ReadSource::ALL`].
    #[must_use]
    pub fn sources(&self) -> [u64; ReadSource::ALL.len()] {
        self.sources
    }

    /// The digests, of a task that makes some.
    #[must_use]
    pub fn digests(&self) -> Option<DigestReport> {
        self.task.digests()
    }

    /// The caller's notes, by name; they are saved with the state.
    #[must_use]
    pub fn note(&self, name: &str) -> Option<&str> {
        self.notes.get(name).map(String::as_str)
    }

    /// All notes, by name.
    pub fn notes(&self) -> impl Iterator<Item = (&str, &str)> {
        self.notes.iter().map(|(name, text)| (name.as_str(), text.as_str()))
    }

    /// Sets a note.
    pub fn set_note(&mut self, name: &str, text: impl Into<String>) {
        self.notes.insert(name.to_owned(), text.into());
    }
}

/// The ranges of bits that are set: first bit and length.
fn runs_of(mut mask: u128) -> impl Iterator<Item = (u64, u64)> {
    std::iter::from_fn(move || {
        let first = mask.trailing_zeros();
        if first == 128 {
            return None;
        }
        let len = (mask >> first).trailing_ones();
        mask &= !((u128::MAX >> (128 - len)) << first);
        Some((u64::from(first), u64::from(len)))
    })
}
