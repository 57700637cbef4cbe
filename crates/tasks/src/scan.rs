//! [`Scan`]: one task over one run of sectors, each of them once, in any order.
//!
//! The books are kept in grains. A piece that covers whole grains goes to the task at once; what
//! covers a grain only in part, as after a read error, waits in memory until the grain is complete.
//! Between [`Scan::deliver`] and [`Scan::keep`] the task's output is made safe; a scan that is
//! saved in between does not count that piece, so that after a restart it is read again.

use std::collections::BTreeMap;

use headtime_units::{Extent, Lba, Sectors};

use crate::bitmap::Bitmap;
use crate::digests::DigestReport;
use crate::ranges::Ranges;
use crate::subject::Subject;
use crate::task::{Piece, Task, TaskKind, TaskSettings};

/// Incomplete grains that are kept in memory, of at most 64 KiB on drives with sectors of 512
/// bytes; of more, the one at the lowest address is forgotten and stays missing.
pub const MAX_PARTIAL: usize = 64;

/// Something that has to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// At this byte of the image.
    At {
        /// Bytes from the beginning.
        offset: u64,
        /// What.
        bytes: Vec<u8>,
    },
    /// Behind everything that was written before.
    Append {
        /// What.
        bytes: Vec<u8>,
    },
}

/// Where the time came from in which sectors were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Between two foreground requests.
    Gap,
    /// With a foreground request, in one command.
    Merged,
    /// While nobody wanted anything.
    Idle,
    /// Between foreground requests, in the share of time that the bound on impact allows.
    Share,
    /// Before they were overwritten.
    BeforeWrite,
}

impl Source {
    /// Every source, in the order of [`Scan::sources`].
    pub const ALL: [Self; 5] =
        [Self::Gap, Self::Merged, Self::Idle, Self::Share, Self::BeforeWrite];

    /// Its name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gap => "gaps",
            Self::Merged => "merged",
            Self::Idle => "idle",
            Self::Share => "share",
            Self::BeforeWrite => "before_write",
        }
    }
}

/// One task over one run of sectors.
pub struct Scan {
    pub(crate) subject: Subject,
    /// Sectors of a grain.
    pub(crate) grain: u64,
    pub(crate) done: Bitmap,
    pub(crate) task: Box<dyn Task>,
    /// Sectors that could not be read in this pass.
    pub(crate) failed: Ranges,
    /// Passes begun, this one included.
    pub(crate) passes: u32,
    pub(crate) sources: [u64; Source::ALL.len()],
    /// The words of whoever drives the scan, which travel with the state.
    pub(crate) notes: BTreeMap<String, String>,
    partial: BTreeMap<u64, Partial>,
    /// Grains that the task has and that are not kept yet, and their failed sectors.
    pending: Vec<(u64, u64)>,
    pending_failed: Vec<Extent>,
}

/// A grain of which some sectors are here.
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
    pub fn start(subject: Subject, task: impl Into<TaskSettings>, physical_bytes: u32) -> Self {
        let settings = task.into();
        let task = settings.build(&subject);
        Self::with_task(subject, task, physical_bytes)
    }

    /// A scan with a task of the caller's own.
    #[must_use]
    pub fn with_task(subject: Subject, task: Box<dyn Task>, physical_bytes: u32) -> Self {
        let grain = subject.grain(physical_bytes);
        let done = Bitmap::new(subject.grains(grain));
        Self::from_parts(subject, grain, done, task)
    }

    pub(crate) fn from_parts(
        subject: Subject,
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
            sources: [0; Source::ALL.len()],
            notes: BTreeMap::new(),
            partial: BTreeMap::new(),
            pending: Vec::new(),
            pending_failed: Vec::new(),
        }
    }

    /// What has to be written before everything else; once, at the beginning of a pass.
    pub fn begin(&mut self, out: &mut Vec<Output>) {
        self.task.begin(out);
    }

    /// Takes sectors that were read, with their bytes, or the system's code of the error that they
    /// could not be read with. Sectors outside of the scan and those taken before are passed over.
    ///
    /// `written` says that the mebibyte they lie in was written through the engine since the last
    /// delivery from it; a piece that crosses mebibytes of the extent has to be cut for that to
    /// mean anything. What is to be written for it goes to `out`; [`Scan::keep`] or
    /// [`Scan::forget`] follows.
    ///
    /// # Panics
    /// When the bytes are not as long as the extent.
    pub fn deliver(
        &mut self,
        extent: Extent,
        read: Result<&[u8], i32>,
        written: bool,
        source: Source,
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
        // Whole grains that follow one another are one piece.
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
        source: Source,
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
                // What was read at last is read, whatever came before.
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

    /// The whole grains that the task has been given since the last [`Scan::keep`], and the sectors
    /// among them that could not be read.
    pub fn pending(&self) -> (impl Iterator<Item = Extent> + '_, &[Extent]) {
        let grains = self.pending.iter().map(|(first, count)| {
            let start = self.subject.sectors_of(self.grain, *first).start;
            let end = self.subject.sectors_of(self.grain, first + count - 1).end();
            Extent::new(start, end - start)
        });
        (grains, &self.pending_failed)
    }

    /// What was delivered since the last time is safe.
    pub fn keep(&mut self) {
        for (first, count) in self.pending.drain(..) {
            (first..first + count).for_each(|grain| self.done.insert(grain));
        }
        self.pending_failed.drain(..).for_each(|failed| self.failed.insert(failed));
    }

    /// What was delivered since the last time could not be made safe, and stays missing. Only for
    /// tasks that write.
    pub fn forget(&mut self) {
        self.pending.clear();
        self.pending_failed.clear();
    }

    /// Sectors that are known to be safe from elsewhere, such as a journal; whole grains only
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

    /// Sectors that are known from elsewhere not to be readable.
    pub fn count_as_failed(&mut self, extent: Extent) {
        if let Some(inside) = extent.intersection(self.subject.extent) {
            self.failed.insert(inside);
        }
    }

    /// Whether all sectors of the scan among these are kept.
    #[must_use]
    pub fn is_kept(&self, extent: Extent) -> bool {
        let Some(inside) = extent.intersection(self.subject.extent) else { return true };
        let origin = self.subject.origin(self.grain).get();
        ((inside.start.get() - origin) / self.grain..=(inside.last().get() - origin) / self.grain)
            .all(|grain| self.done.contains(grain))
    }

    /// What has to be written after everything else; once, when the scan [is
    /// complete](Scan::is_complete).
    pub fn end(&mut self, out: &mut Vec<Output>) {
        self.task.end(out);
    }

    /// Begins another pass over the same sectors, compared with this one where the task compares.
    pub fn again(&mut self) {
        self.done = Bitmap::new(self.subject.grains(self.grain));
        self.failed = Ranges::default();
        self.sources = [0; Source::ALL.len()];
        self.passes = self.passes.saturating_add(1);
        self.partial.clear();
        self.forget();
        self.task.again();
    }

    /// The sectors that are to be read, by address, in runs of whole grains.
    pub fn missing(&self) -> impl Iterator<Item = Extent> + '_ {
        self.done.gaps().map(|(first, count)| {
            let start = self.subject.sectors_of(self.grain, first).start;
            let end = self.subject.sectors_of(self.grain, first + count - 1).end();
            Extent::new(start, end - start)
        })
    }

    /// Whether every sector was taken and kept.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.done.is_full()
    }

    /// Sectors taken and kept, to the grain.
    #[must_use]
    pub fn sectors_done(&self) -> Sectors {
        Sectors::new((self.done.count() * self.grain).min(self.subject.extent.len.get()))
    }

    /// What is scanned.
    #[must_use]
    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Sectors of a grain.
    #[must_use]
    pub fn grain(&self) -> u64 {
        self.grain
    }

    /// Which task it is, with its settings.
    #[must_use]
    pub fn settings(&self) -> TaskSettings {
        self.task.settings()
    }

    /// Which task it is.
    #[must_use]
    pub fn kind(&self) -> TaskKind {
        self.settings().kind
    }

    /// Passes begun, this one included.
    #[must_use]
    pub fn passes(&self) -> u32 {
        self.passes
    }

    /// Sectors that could not be read in this pass.
    #[must_use]
    pub fn failed(&self) -> &Ranges {
        &self.failed
    }

    /// Sectors of this pass by the source of their time, in the order of [`Source::ALL`].
    #[must_use]
    pub fn sources(&self) -> [u64; Source::ALL.len()] {
        self.sources
    }

    /// What is known about digests, of a task that makes some.
    #[must_use]
    pub fn digests(&self) -> Option<DigestReport> {
        self.task.digests()
    }

    /// The words of whoever drives the scan, by name; they travel with the state.
    #[must_use]
    pub fn note(&self, name: &str) -> Option<&str> {
        self.notes.get(name).map(String::as_str)
    }

    /// Writes a word down.
    pub fn set_note(&mut self, name: &str, text: impl Into<String>) {
        self.notes.insert(name.to_owned(), text.into());
    }
}

/// Runs of bits that are set: first bit and length.
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
