//! The saved state of a scan: [`Scan::encode`], [`Scan::decode`].
//!
//! ```text
//! magic    8  "HTSCAN1\n"
//! version  4  1; all numbers little-endian
//! closed   1  1 if the program ended in good order and knows of every write
//! drive   16, target (text), first sector 8, sectors 8, bytes of a sector 4, sectors of a grain 4
//! task     1, digests 1, form of a backup 1, passes 4, notes (count 4, pairs of texts)
//! sources  5 × 8 sectors, sectors that could not be read (ranges), bitmap of grains (words of 8)
//!          what the task itself remembers
//! crc32c   4  over everything before
//! ```
//! A text is its length (4) and its bytes. Ranges are the number of sectors that did not fit (8), a
//! count (4), and the first sector and the length (8 each) of every range.

use headtime_units::{Extent, Lba, SectorSize, Sectors};

use crate::backup::BackupForm;
use crate::bitmap::Bitmap;
use crate::codec::{Decoder, Encoder, Malformed};
use crate::scan::Scan;
use crate::subject::ScanSubject;
use crate::task::{TASKS, Task, TaskKind, TaskSettings};

/// A scan with its saved state.
pub struct LoadedScan {
    /// The scan.
    pub scan: Scan,
    /// The scan was closed in good order. Otherwise, writes through the engine since the state was
    /// saved are not known.
    pub closed: bool,
}

/// The reason why a saved state cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum ScanStateError {
    /// It is not as it was written.
    #[error("the state is damaged: {what}; begin the scan again, or restore the state")]
    Damaged { what: &'static str },
    #[error(
        "the state has format {version}, and this program knows format {VERSION}; use the program \
            that wrote it, or begin the scan again"
    )]
    Newer { version: u32 },
    /// It belongs to something else.
    #[error(
        "the state is of {what} {remembered}, and {requested} was requested; begin the scan \
            again if that is the right one"
    )]
    Foreign { what: &'static str, remembered: String, requested: String },
}

impl Scan {
    /// Passes the bytes of the state, in order, to `to`. With `closed`, nothing is written through
    /// the engine any more without the scan's knowledge.
    pub fn encode(&self, closed: bool, to: &mut dyn FnMut(&[u8])) {
        let mut crc = 0;
        {
            let mut checked = |bytes: &[u8]| {
                crc = crc32c::crc32c_append(crc, bytes);
                to(bytes);
            };
            let mut encoder = Encoder::new(&mut checked);
            encoder.bytes(MAGIC);
            encoder.u32(VERSION);
            encoder.u8(u8::from(closed));
            encoder.bytes(&self.subject.drive);
            encoder.text(&self.subject.target);
            encoder.u64(self.subject.extent.start.get());
            encoder.u64(self.subject.extent.len.get());
            encoder.u32(self.subject.sector_size.bytes());
            encoder.u32(self.grain as u32);
            let settings = self.settings();
            encoder.u8(settings.kind.entry().number);
            encoder.u8(u8::from(settings.digests));
            encoder.u8(settings.form.number());
            encoder.u32(self.passes);
            encoder.u32(self.notes.len() as u32);
            for (name, text) in &self.notes {
                encoder.text(name);
                encoder.text(text);
            }
            self.sources.iter().for_each(|sectors| encoder.u64(*sectors));
            encoder.ranges(&self.failed);
            self.done.words().iter().for_each(|word| encoder.u64(*word));
            self.task.encode(&mut checked);
        }
        to(&crc.to_le_bytes());
    }

    /// Reads the state of a task of `kind` over `subject`.
    ///
    /// # Errors
    /// See [`ScanStateError`].
    pub fn decode(
        bytes: &[u8],
        subject: &ScanSubject,
        kind: TaskKind,
    ) -> Result<LoadedScan, ScanStateError> {
        let (header, mut rest) = checked(bytes)?;
        must_be_of((&header.subject, header.settings.kind), (subject, kind))?;
        header.built_in(&mut rest).map_err(damaged)
    }

    /// Reads the state of a task of the caller over `subject`, which
    /// [counts](crate::Task::settings) as `kind`. `restore` gets what
    /// [`Task::encode`](crate::Task::encode) wrote, and returns `None` if it is invalid.
    ///
    /// # Errors
    /// See [`ScanStateError`].
    pub fn decode_own(
        bytes: &[u8],
        subject: &ScanSubject,
        kind: TaskKind,
        restore: impl FnOnce(&[u8]) -> Option<Box<dyn Task>>,
    ) -> Result<LoadedScan, ScanStateError> {
        let (header, mut rest) = checked(bytes)?;
        must_be_of((&header.subject, header.settings.kind), (subject, kind))?;
        let own = |_: TaskSettings, _: &ScanSubject, from: &mut Decoder<'_>| {
            restore(from.rest()).ok_or(Malformed("what the task remembers makes no sense"))
        };
        header.scan(&mut rest, own).map_err(damaged)
    }

    /// Checks that the scan is a task of `kind` over `subject`.
    ///
    /// # Errors
    /// [`ScanStateError::Foreign`].
    pub fn must_be_of(&self, subject: &ScanSubject, kind: TaskKind) -> Result<(), ScanStateError> {
        must_be_of((&self.subject, self.kind()), (subject, kind))
    }

    /// Reads the state of any scan, for inspection.
    ///
    /// # Errors
    /// [`ScanStateError::Damaged`] and [`ScanStateError::Newer`].
    pub fn inspect(bytes: &[u8]) -> Result<LoadedScan, ScanStateError> {
        let (header, mut rest) = checked(bytes)?;
        header.built_in(&mut rest).map_err(damaged)
    }
}

/// The header of a state whose checksum is right, and the bytes after it.
fn checked(bytes: &[u8]) -> Result<(Header, Decoder<'_>), ScanStateError> {
    let Some((body, crc)) = bytes.split_last_chunk::<4>() else {
        return Err(ScanStateError::Damaged { what: "it is empty" });
    };
    let mut from = Decoder::new(body);
    if from.bytes(MAGIC.len()).map_err(damaged)? != MAGIC {
        return Err(ScanStateError::Damaged { what: "it does not begin as such state does" });
    }
    let version = from.u32().map_err(damaged)?;
    if version > VERSION {
        return Err(ScanStateError::Newer { version });
    }
    if crc32c::crc32c(body) != u32::from_le_bytes(*crc) {
        return Err(ScanStateError::Damaged { what: "its checksum does not fit its content" });
    }
    let header = Header::decode(&mut from).map_err(damaged)?;
    Ok((header, from))
}

fn damaged(Malformed(what): Malformed) -> ScanStateError {
    ScanStateError::Damaged { what }
}

struct Header {
    closed: bool,
    subject: ScanSubject,
    grain: u64,
    settings: TaskSettings,
}

impl Header {
    fn decode(from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let closed = from.flag()?;
        let drive = from.bytes(16)?.try_into().expect("as many as were requested");
        let target = from.text()?;
        let extent = Extent::new(Lba::new(from.u64()?), Sectors::new(from.u64()?));
        extent.checked_end().ok_or(Malformed("sectors beyond the last address there is"))?;
        let sector_size = SectorSize::new(from.u32()?)
            .ok_or(Malformed("a size of sectors that does not exist"))?;
        extent
            .end()
            .get()
            .checked_mul(u64::from(sector_size.bytes()))
            .ok_or(Malformed("bytes beyond the last that can be counted"))?;
        let grain = u64::from(from.u32()?);
        if !grain.is_power_of_two() || grain > 128 {
            return Err(Malformed("a grain that is not possible"));
        }
        let number = from.u8()?;
        let kind = TASKS
            .iter()
            .find(|entry| entry.number == number)
            .ok_or(Malformed("a task that does not exist"))?
            .kind;
        let digests = from.flag()?;
        let form = BackupForm::from_number(from.u8()?)
            .ok_or(Malformed("a form of backup that does not exist"))?;
        Ok(Self {
            closed,
            subject: ScanSubject { drive, target, extent, sector_size },
            grain,
            settings: TaskSettings { kind, digests, form },
        })
    }

    fn built_in(self, from: &mut Decoder<'_>) -> Result<LoadedScan, Malformed> {
        self.scan(from, TaskSettings::restore)
    }

    fn scan(
        self,
        from: &mut Decoder<'_>,
        restore: impl FnOnce(
            TaskSettings,
            &ScanSubject,
            &mut Decoder<'_>,
        ) -> Result<Box<dyn Task>, Malformed>,
    ) -> Result<LoadedScan, Malformed> {
        let Self { closed, subject, grain, settings } = self;
        let passes = from.u32()?;
        let mut notes = std::collections::BTreeMap::new();
        for _ in 0..from.u32()? {
            notes.insert(from.text()?, from.text()?);
        }
        let mut sources = [0; crate::scan::ReadSource::ALL.len()];
        for sectors in &mut sources {
            *sectors = from.u64()?;
        }
        if sources.iter().try_fold(0_u64, |sum, sectors| sum.checked_add(*sectors)).is_none() {
            return Err(Malformed("more sectors read than there can be"));
        }
        let failed = from.ranges(subject.extent)?;
        let grains = subject.grains(grain);
        let words = from
            .bytes(usize::try_from(grains.div_ceil(64).saturating_mul(8)).unwrap_or(usize::MAX))?;
        let words = words
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
            .collect();
        let done = Bitmap::from_words(grains, words).ok_or(Malformed("grains behind the last"))?;
        let task = restore(settings, &subject, from)?;
        if !from.is_empty() {
            return Err(Malformed("there is more than there should be"));
        }
        let mut scan = Scan::from_parts(subject, grain, done, task);
        (scan.failed, scan.passes, scan.sources, scan.notes) = (failed, passes, sources, notes);
        Ok(LoadedScan { scan, closed })
    }
}

/// Checks that a scan, by subject and task, is the requested one.
fn must_be_of(
    (known, task): (&ScanSubject, TaskKind),
    (requested, kind): (&ScanSubject, TaskKind),
) -> Result<(), ScanStateError> {
    let differences = [
        ("drive", hex(known.drive), hex(requested.drive)),
        ("target", known.target.clone(), requested.target.clone()),
        ("sectors", known.extent.to_string(), requested.extent.to_string()),
        (
            "sectors of",
            known.sector_size.bytes().to_string(),
            requested.sector_size.bytes().to_string(),
        ),
        ("task", task.to_string(), kind.to_string()),
    ];
    for (what, remembered, requested) in differences {
        if remembered != requested {
            return Err(ScanStateError::Foreign { what, remembered, requested });
        }
    }
    Ok(())
}

fn hex(bytes: [u8; 16]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

const MAGIC: &[u8; 8] = b"HTSCAN1\n";
const VERSION: u32 = 1;
