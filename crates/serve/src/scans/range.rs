//! [`ScanRange`]: the bytes of a target that a scan reads.

use std::fmt;

use headtime_tasks::Scan;
use headtime_units::{ByteRange, ByteSize, Extent, SectorSize, Sectors};
use serde::{Deserialize, Serialize};

/// A range of the bytes of a target, in whole sectors and less than all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScanRange {
    /// The first byte.
    pub start: u64,
    /// The byte after the last.
    pub end: u64,
}

/// The reason why a target has no such range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum RangeError {
    /// It ends after the target.
    #[error(
        "the range {range} is not within {target}, which has {size} ({} bytes); end it there, or \
            write {}",
        size.get(),
        ByteRange { end: None, ..*range }
    )]
    Beyond { range: ByteRange, target: String, size: ByteSize },
    #[error(
        "the range {range} starts after the end of {target}, which has {size} ({} bytes); start it \
            before",
        size.get()
    )]
    After { range: ByteRange, target: String, size: ByteSize },
    /// It divides a sector.
    #[error(
        "the range {range} does not consist of whole sectors of {sector} bytes; write {aligned}"
    )]
    Sectors { range: ByteRange, sector: u32, aligned: ByteRange },
}

/// The note of the range in the state of a scan.
pub(super) const RANGE: &str = "range";

impl ScanRange {
    /// A range as requested, within a target of this length; `None` for all of it.
    pub(super) fn within(
        range: ByteRange,
        target: &str,
        len: Sectors,
        sector: SectorSize,
    ) -> Result<Option<Self>, RangeError> {
        let size = sector.bytes_of(len);
        let (start, end) = (range.start, range.end.unwrap_or(size));
        let of_target = || (target.to_owned(), ByteSize::new(size));
        if start >= size {
            let (target, size) = of_target();
            return Err(RangeError::After { range, target, size });
        }
        if end > size {
            let (target, size) = of_target();
            return Err(RangeError::Beyond { range, target, size });
        }
        let bytes = u64::from(sector.bytes());
        if !start.is_multiple_of(bytes) || !end.is_multiple_of(bytes) {
            let aligned = ByteRange {
                start: start / bytes * bytes,
                end: range.end.map(|end| end.next_multiple_of(bytes)),
            };
            return Err(RangeError::Sectors { range, sector: sector.bytes(), aligned });
        }
        Ok(((start, end) != (0, size)).then_some(Self { start, end }))
    }

    /// The sectors of the range in a target with the sectors `whole`.
    pub(super) fn extent(
        self,
        target: &str,
        whole: Extent,
        sector: SectorSize,
    ) -> Result<Extent, RangeError> {
        let Some(Self { start, end }) = Self::within(self.into(), target, whole.len, sector)?
        else {
            return Ok(whole);
        };
        let sectors = |bytes: u64| Sectors::new(bytes / u64::from(sector.bytes()));
        Ok(Extent::new(whole.start + sectors(start), sectors(end - start)))
    }

    /// The range of a scan, by its notes.
    pub(super) fn of(scan: &Scan) -> Option<Self> {
        let ByteRange { start, end } = scan.note(RANGE)?.parse().ok()?;
        Some(Self { start, end: end? })
    }

    /// A range, or all of a target, in a sentence.
    pub(super) fn name(range: Option<Self>) -> String {
        range.map_or_else(|| "all of it".to_owned(), |range| range.to_string())
    }
}

impl From<ScanRange> for ByteRange {
    fn from(ScanRange { start, end }: ScanRange) -> Self {
        Self { start, end: Some(end) }
    }
}

impl fmt::Display for ScanRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ByteRange::from(*self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within(text: &str) -> Result<Option<ScanRange>, String> {
        let range = text.parse().expect("a range");
        ScanRange::within(range, "vol0", Sectors::new(2048), SectorSize::B512)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_range_lies_within_its_target_in_whole_sectors() {
        assert_eq!(within("512KiB.."), Ok(Some(ScanRange { start: 512 << 10, end: 1 << 20 })));
        assert_eq!(within("0..1MiB"), Ok(None), "all of it");
        let part = ScanRange { start: 1024, end: 4096 };
        let whole = Extent::from_numbers(100, 2048);
        assert_eq!(
            part.extent("vol0", whole, SectorSize::B512),
            Ok(Extent::from_numbers(102, 6)),
            "it is relative to the target"
        );
    }

    #[test]
    fn another_range_is_refused_with_the_size_and_a_remedy() {
        for (text, expected) in [
            (
                "1024..2MiB",
                "the range 1KiB..2MiB is not within vol0, which has 1 MiB (1048576 bytes); end it \
                    there, or write 1KiB..",
            ),
            (
                "1MiB..",
                "the range 1MiB.. starts after the end of vol0, which has 1 MiB (1048576 bytes); \
                    start it before",
            ),
            (
                "100..1100",
                "the range 100..1100 does not consist of whole sectors of 512 bytes; write 0..1536",
            ),
        ] {
            assert_eq!(within(text), Err(expected.to_owned()));
        }
    }
}
