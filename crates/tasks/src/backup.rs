//! [`Backup`]: a copy of the sectors as they are at one moment, as an image or as a stream of
//! records.
//!
//! The scheduler makes all sectors of one moment: it reads what is about to be overwritten. The
//! caller holds overwrites back until what was read is safe. Here the order does not matter. In an
//! image every piece goes to its own offset; in a stream each record says where it belongs
//! ([`crate::record`]).

use headtime_units::Extent;

use crate::codec::{Decoder, Encoder, Malformed};
use crate::digests::DigestReport;
use crate::record::RecordWriter;
use crate::scan::Output;
use crate::subject::ScanSubject;
use crate::task::{Piece, Task, TaskSettings};

/// The format of a backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackupForm {
    /// A file as long as the sectors together, each at its offset. Zeroes are left out, so that the
    /// file is sparse. Unreadable sectors stay zero.
    Image,
    /// Records in the order in which the sectors came, for a pipe.
    Stream,
}

impl BackupForm {
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Image => 0,
            Self::Stream => 1,
        }
    }

    pub(crate) fn from_number(number: u8) -> Option<Self> {
        [Self::Image, Self::Stream].into_iter().find(|form| form.number() == number)
    }
}

/// The task.
pub(crate) struct Backup {
    settings: TaskSettings,
    extent: Extent,
    sector_bytes: u64,
    records: Option<RecordWriter>,
}

impl Backup {
    pub(crate) fn new(subject: &ScanSubject, settings: TaskSettings) -> Self {
        let sector_bytes = u64::from(subject.sector_size.bytes());
        let bytes = subject.sector_size.bytes_of(subject.extent.len);
        let records = (settings.form == BackupForm::Stream)
            .then(|| RecordWriter::new(&subject.target, bytes, subject.sector_size.bytes()));
        Self { settings, extent: subject.extent, sector_bytes, records }
    }

    /// A stream is never resumed: what was in the pipe is gone with its reader. An image needs no
    /// state.
    pub(crate) fn decode(
        subject: &ScanSubject,
        settings: TaskSettings,
        _from: &mut Decoder<'_>,
    ) -> Result<Self, Malformed> {
        Ok(Self::new(subject, settings))
    }

    fn offset(&self, extent: Extent) -> u64 {
        (extent.start - self.extent.start).get() * self.sector_bytes
    }
}

impl Task for Backup {
    fn settings(&self) -> TaskSettings {
        self.settings
    }

    fn begin(&mut self, out: &mut Vec<Output>) {
        if let Some(records) = &mut self.records {
            out.push(Output::Append { bytes: records.begin() });
        }
    }

    fn take(&mut self, piece: &Piece<'_>, out: &mut Vec<Output>) {
        let offset = self.offset(piece.extent);
        let Some(records) = &mut self.records else {
            // Unwritten parts of the file are holes, which read as zeroes.
            if piece.bytes.iter().any(|byte| *byte != 0) {
                out.push(Output::At { offset, bytes: piece.bytes.to_vec() });
            }
            return;
        };
        let mut bytes = records.piece(offset, piece.bytes);
        for failed in piece.failed {
            let (offset, len) = (
                (failed.start - self.extent.start).get() * self.sector_bytes,
                failed.len.get() * self.sector_bytes,
            );
            bytes.extend(records.unreadable(offset, len));
        }
        out.push(Output::Append { bytes });
    }

    fn end(&mut self, out: &mut Vec<Output>) {
        if let Some(records) = &mut self.records {
            out.push(Output::Append { bytes: records.end() });
        }
    }

    fn again(&mut self) {}

    fn digests(&self) -> Option<DigestReport> {
        None
    }

    fn encode(&self, to: &mut dyn FnMut(&[u8])) {
        let _nothing = Encoder::new(to);
    }
}
