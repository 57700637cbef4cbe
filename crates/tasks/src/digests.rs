//! [`Digests`]: a digest of each mebibyte, for sectors in any order and in any pieces.
//!
//! The digest of a mebibyte is the sum, modulo 2⁶⁴, of the XXH3 (64 bits) of its sectors, each
//! keyed with its place within the mebibyte. A sum does not depend on the order of its terms, so
//! only the sum is kept: 19 bytes per mebibyte of disk, including the digest of the last pass. A
//! change is missed with a probability of about 2⁻⁶⁴. It is a check against accidents, not against
//! an adversary.
//!
//! Example: the second half of a mebibyte comes first, then the first half: sum = S₂ + S₁. If the
//! mebibyte was written in between, the first half is delivered as `written`, and no digest is
//! made. If it was written before, since the last pass, a digest is made but not compared.
//!
//! Not detected: a change through the same engine before the program was killed. The saved state
//! then counts everything as possibly written.

use headtime_units::{Extent, Lba, Sectors};
use twox_hash::XxHash3_64;

use crate::codec::{Decoder, Encoder, Malformed};
use crate::ranges::Ranges;
use crate::subject::ScanSubject;
use crate::task::Piece;

/// The digests of a scan so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DigestReport {
    /// Mebibytes whose digest was compared with that of the last pass.
    pub compared: u64,
    /// Mebibytes that had a digest but were not compared, because they were written through the
    /// same engine since, or could not be read.
    pub not_compared: u64,
    /// Mebibytes whose content changed since the last pass although nothing was written through the
    /// same engine.
    pub changed: Ranges,
    /// A digest of the whole table, if every mebibyte has one; equal for two drives with the same
    /// content.
    pub table: Option<u64>,
}

/// The table, which is also the basis of the next pass.
#[derive(Debug)]
pub(crate) struct Digests {
    extent: Extent,
    sector_bytes: usize,
    /// Sectors of a mebibyte.
    region: u64,
    known: Vec<u64>,
    sums: Vec<u64>,
    /// Sectors delivered of each mebibyte in this pass.
    seen: Vec<u16>,
    flags: Vec<u8>,
    compared: u64,
    not_compared: u64,
    changed: Ranges,
}

/// There is a digest of an earlier pass.
const KNOWN: u8 = 1;
/// It was written between the passes.
const WRITTEN_BEFORE: u8 = 2;
/// It was written while it was being read, or some of it cannot be read.
const SPOILT: u8 = 4;
/// Something of it has arrived in this pass.
const TOUCHED: u8 = 8;
/// It was written after its digest was made.
const STALE: u8 = 16;

impl Digests {
    pub(crate) fn new(subject: &ScanSubject) -> Self {
        let region = REGION_BYTES / u64::from(subject.sector_size.bytes());
        let regions = subject.extent.len.get().div_ceil(region) as usize;
        Self {
            extent: subject.extent,
            sector_bytes: subject.sector_size.bytes() as usize,
            region,
            known: vec![0; regions],
            sums: vec![0; regions],
            seen: vec![0; regions],
            flags: vec![0; regions],
            compared: 0,
            not_compared: 0,
            changed: Ranges::default(),
        }
    }

    pub(crate) fn arrived(&mut self, extent: Extent, written: bool) {
        let Some(inside) = extent.intersection(self.extent) else { return };
        for number in self.number(inside.start)..=self.number(inside.last()) {
            let complete = u64::from(self.seen[number]) == self.region_of(number).len.get();
            let flags = &mut self.flags[number];
            if written {
                *flags |= if complete {
                    STALE
                } else if *flags & TOUCHED == 0 {
                    WRITTEN_BEFORE
                } else {
                    SPOILT
                };
            }
            *flags |= TOUCHED;
        }
    }

    pub(crate) fn take(&mut self, piece: &Piece<'_>) {
        let mut at = piece.extent.start;
        while at < piece.extent.end() {
            let number = self.number(at);
            let region = self.region_of(number);
            let part = region.intersection(piece.extent).expect("the sector at hand lies in both");
            let from = (part.start - piece.extent.start).get() as usize * self.sector_bytes;
            let bytes = &piece.bytes[from..from + part.len.get() as usize * self.sector_bytes];
            let first = (part.start - region.start).get();
            for (place, sector) in (first..).zip(bytes.chunks_exact(self.sector_bytes)) {
                self.sums[number] = self.sums[number]
                    .wrapping_add(XxHash3_64::oneshot_with_seed(place + 1, sector));
            }
            if piece.failed.iter().any(|failed| failed.overlaps(part)) {
                self.flags[number] |= SPOILT;
            }
            self.seen[number] += part.len.get() as u16;
            if u64::from(self.seen[number]) == region.len.get() {
                self.complete(number, region);
            }
            at = part.end();
        }
    }

    fn complete(&mut self, number: usize, region: Extent) {
        let flags = self.flags[number];
        let comparable = flags & (WRITTEN_BEFORE | SPOILT) == 0;
        if flags & KNOWN != 0 {
            self.compared += u64::from(comparable);
            self.not_compared += u64::from(!comparable);
            if comparable && self.known[number] != self.sums[number] {
                self.changed.insert(region);
            }
        }
        if flags & SPOILT == 0 {
            self.known[number] = self.sums[number];
            self.flags[number] |= KNOWN;
        } else {
            self.flags[number] &= !KNOWN;
        }
    }

    pub(crate) fn again(&mut self) {
        self.sums.fill(0);
        self.seen.fill(0);
        for flags in &mut self.flags {
            *flags = *flags & KNOWN | if *flags & STALE != 0 { WRITTEN_BEFORE } else { 0 };
        }
        (self.compared, self.not_compared, self.changed) = (0, 0, Ranges::default());
    }

    pub(crate) fn report(&self) -> DigestReport {
        let complete = (0..self.known.len()).all(|number| {
            self.flags[number] & KNOWN != 0
                && u64::from(self.seen[number]) == self.region_of(number).len.get()
        });
        let table = complete.then(|| {
            let bytes: Vec<u8> =
                self.known.iter().flat_map(|digest| digest.to_le_bytes()).collect();
            XxHash3_64::oneshot(&bytes)
        });
        DigestReport {
            compared: self.compared,
            not_compared: self.not_compared,
            changed: self.changed.clone(),
            table,
        }
    }

    fn number(&self, lba: Lba) -> usize {
        ((lba - self.extent.start).get() / self.region) as usize
    }

    fn region_of(&self, number: usize) -> Extent {
        let start = number as u64 * self.region;
        let len = self.region.min(self.extent.len.get() - start);
        Extent::new(Lba::new(self.extent.start.get() + start), Sectors::new(len))
    }

    pub(crate) fn encode(&self, to: &mut Encoder<'_>) {
        to.u64(self.compared);
        to.u64(self.not_compared);
        to.ranges(&self.changed);
        self.known.iter().for_each(|digest| to.u64(*digest));
        self.sums.iter().for_each(|sum| to.u64(*sum));
        self.seen.iter().for_each(|seen| to.u16(*seen));
        to.bytes(&self.flags);
    }

    pub(crate) fn decode(subject: &ScanSubject, from: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let regions = subject
            .extent
            .len
            .get()
            .div_ceil(REGION_BYTES / u64::from(subject.sector_size.bytes()));
        from.must_hold(regions.saturating_mul(STATE_BYTES))?;
        let mut digests = Self::new(subject);
        (digests.compared, digests.not_compared) = (from.u64()?, from.u64()?);
        if digests.compared.checked_add(digests.not_compared).is_none_or(|both| both > regions) {
            return Err(Malformed("more mebibytes with a digest than there are"));
        }
        digests.changed = from.ranges(subject.extent)?;
        for digest in digests.known.iter_mut().chain(&mut digests.sums) {
            *digest = from.u64()?;
        }
        for seen in &mut digests.seen {
            *seen = from.u16()?;
        }
        let flags = from.bytes(digests.flags.len())?;
        digests.flags.copy_from_slice(flags);
        let too_many = (0..digests.seen.len())
            .any(|number| u64::from(digests.seen[number]) > digests.region_of(number).len.get());
        if too_many {
            Err(Malformed("a mebibyte of which more sectors were taken than it has"))
        } else {
            Ok(digests)
        }
    }
}

/// The state of each mebibyte: two digests, the number of sectors delivered, flags.
const STATE_BYTES: u64 = 8 + 8 + 2 + 1;
/// The unit of digests.
pub(crate) const REGION_BYTES: u64 = 1 << 20;
