//! The encoding of a compact map as bytes. It accesses no files, like the codec of the published
//! map.
//!
//! ```text
//! header   "HTCOMPCT" · version · bytes of the body · checksum of the header
//! body     drive, speed, settings
//!          locations (a profile and shifts, or segments and votes)
//!          angles, arrivals, tails
//!          moved sectors
//!          finer arm votes
//!          checksum of the body
//! ```
//! Version 1 ended with the tails, version 2 with the moved sectors. Both can still be read: the
//! missing parts are empty, and the arm is known by powers of two of the distance only.
//!
//! Numbers are little endian, checksums CRC-32C. Tables that are mostly zero are stored as runs of
//! zeros and runs of numbers. Magic, version and length have the same positions in every version.
//!
//! Guarantees: a decoded map returns the same results as the encoded one. Truncated, damaged or
//! newer bytes are refused, and memory is allocated only for data that the bytes contain. Not
//! stored: the position of the platter, and the angle samples of a search in progress; both belong
//! to the running drive.

use headtime_mechanics::DriveProfile;
use headtime_units::{ByteSize, Nanos, RotationPeriod, SectorSize, Sectors};

use super::arm::ArmVotes;
use super::locations::Locations;
use super::map::{ArmTimes, CompactError, CompactMap, CompactSettings};
use super::segments::{Segment, Segments, SkewTerm};
use super::shifts::{Shift, Shifts};
use super::worst::{CLASSES, Tail, Tails};
use crate::angles::AngleMap;
use crate::arrival::Arrival;
use crate::matrix::MappedDrive;
use crate::moved::{ANGLE_SAMPLE_NUMBERS, Moved};
use crate::seeks::SeekResiduals;

/// The reasons for which bytes cannot be decoded.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum CompactDecodeError {
    /// The magic is missing.
    #[error(
        "this is no compact map: it does not begin with '{}'; name a file that `headtime map \
            learn --out` wrote",
        COMPACT_MAGIC.escape_ascii()
    )]
    NotAMap,
    #[error(
        "the compact map has format {version}, this program knows {VERSION}; use a newer program, \
            or start empty"
    )]
    Newer { version: u32 },
    /// The bytes end too early.
    #[error(
        "the compact map ends after {bytes} bytes, expected are {expected}: it was cut off; save \
            it again, or start empty"
    )]
    Truncated { bytes: u64, expected: u64 },
    /// The content is inconsistent.
    #[error("the compact map is damaged: {what}; restore it from a copy, or start empty")]
    Damaged { what: String },
    /// The described drive cannot be mapped.
    #[error(transparent)]
    Map(#[from] CompactError),
}

impl CompactMap {
    /// Encodes the map.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Writer(Vec::new());
        body.text(&self.drive.model);
        body.u64(self.drive.capacity.get());
        body.u64(u64::from(self.drive.sector.bytes()));
        body.u64(self.period.as_fs());
        body.f64(self.settings.worst_share);
        body.f64(self.settings.sector_ns);
        match (&self.locations, &self.arm) {
            (Locations::Segments(segments), ArmTimes::Votes(votes)) => {
                body.u64(SEGMENTS);
                body.u64(segments.segments().len() as u64);
                segments.segments().iter().for_each(|segment| body.segment(segment));
                body.table(votes.numbers().into_iter());
            }
            (Locations::Layout(of), ArmTimes::Curve(seeks)) => {
                body.u64(PROFILE);
                body.text(&of.profile.name);
                body.text(&of.profile.to_toml());
                body.u64(of.shifts.rows().len() as u64);
                for row in of.shifts.rows() {
                    body.u64(row.first);
                    body.u64(row.sectors as u64);
                }
                body.table(seeks.numbers().into_iter());
            }
            _ => unreachable!("a map has locations and arm times of one kind"),
        }
        body.table(self.angles.numbers().into_iter());
        self.arrival.numbers().into_iter().for_each(|number| body.f64(number));
        let tails = self.tails.as_ref().expect("a kept map has worst cases");
        for tail in tails.regions() {
            tail.counts.iter().for_each(|count| body.u64(*count));
            body.u64(tail.longest.as_ns());
        }
        let (angle_samples, places) = self.moved.numbers();
        body.u64(angle_samples.len() as u64);
        angle_samples.into_iter().flatten().for_each(|number| body.u64(number));
        body.u64(places.len() as u64);
        for (run, likelihoods) in places {
            body.u64(run);
            body.table(likelihoods.into_iter());
        }
        if let ArmTimes::Votes(votes) = &self.arm {
            body.table(votes.curve_numbers().into_iter());
        }
        let Writer(body) = body;
        let mut bytes = COMPACT_MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((body.len() as u64).to_le_bytes());
        let checksum = crc32c::crc32c(&bytes);
        bytes.extend(checksum.to_le_bytes());
        bytes.extend(&body);
        bytes.extend(crc32c::crc32c(&body).to_le_bytes());
        bytes
    }

    /// Decodes a map, which may take `memory` together with its learning state.
    ///
    /// # Errors
    /// See [`CompactDecodeError`].
    pub fn decode(bytes: &[u8], memory: ByteSize) -> Result<Self, CompactDecodeError> {
        let begun = bytes.len().min(COMPACT_MAGIC.len());
        if bytes.is_empty() || bytes[..begun] != COMPACT_MAGIC[..begun] {
            return Err(CompactDecodeError::NotAMap);
        }
        let truncated =
            |expected: u64| CompactDecodeError::Truncated { bytes: bytes.len() as u64, expected };
        let Some((header, body)) = bytes.split_at_checked(HEADER_BYTES) else {
            return Err(truncated(HEADER_BYTES as u64 + 4));
        };
        let mut fields = Reader(&header[8..]);
        let (version, length) = (fields.u32()?, fields.u64()?);
        if fields.u32()? != crc32c::crc32c(&header[..HEADER_BYTES - 4]) {
            return Err(damaged("the checksum of its header does not match"));
        }
        if version > VERSION {
            return Err(CompactDecodeError::Newer { version });
        }
        if version == 0 {
            return Err(damaged(format!("its format is {version}, which does not exist")));
        }
        let expected = length.saturating_add(4);
        if (body.len() as u64) < expected {
            return Err(truncated(expected.saturating_add(HEADER_BYTES as u64)));
        }
        if body.len() as u64 > expected {
            return Err(damaged(format!("{} bytes follow its end", body.len() as u64 - expected)));
        }
        let (body, checksum) = body.split_at(body.len() - 4);
        if crc32c::crc32c(body).to_le_bytes() != checksum {
            return Err(damaged("the checksum of its body does not match"));
        }
        Self::read(Reader(body), version, memory)
    }

    fn read(
        mut body: Reader<'_>,
        version: u32,
        memory: ByteSize,
    ) -> Result<Self, CompactDecodeError> {
        let model = body.text()?;
        let capacity = Sectors::new(body.u64()?);
        let sector = u32::try_from(body.u64()?)
            .ok()
            .and_then(SectorSize::new)
            .ok_or_else(|| damaged("its sector size is invalid"))?;
        let period = RotationPeriod::from_fs(body.u64()?)
            .ok_or_else(|| damaged("its rotation period is invalid"))?;
        let (worst_share, sector_ns) = (body.f64()?, body.f64()?);
        if !((0.5..=1.0).contains(&worst_share) && (1.0..=1e9).contains(&sector_ns)) {
            return Err(damaged("its settings are out of range"));
        }
        let settings = CompactSettings { memory, worst_share, sector_ns };
        let drive = MappedDrive { model, capacity, sector };
        let mut votes = Vec::new();
        let mut map = match body.u64()? {
            SEGMENTS => {
                let count = body.count(8 * 8)?;
                let segments =
                    (0..count).map(|_| body.segment()).collect::<Result<Vec<Segment>, _>>()?;
                let apart = segments.windows(2).all(|two| two[0].end <= two[1].first);
                if !apart
                    || segments
                        .iter()
                        .any(|segment| segment.first >= segment.end || segment.end > capacity.get())
                {
                    return Err(damaged("its segments overlap, or lie past the end of the drive"));
                }
                votes = body.table()?;
                let mut map = Self::unknown(drive, period, settings)?;
                map.locations = Locations::Segments(Segments::new(segments, capacity.get()));
                map
            }
            PROFILE => {
                let (name, toml) = (body.text()?, body.text()?);
                let profile = DriveProfile::from_toml(&name, &toml).map_err(CompactError::from)?;
                let count = body.count(16)?;
                let rows = (0..count)
                    .map(|_| Ok(Shift { first: body.u64()?, sectors: body.u64()? as i64 }))
                    .collect::<Result<Vec<Shift>, CompactDecodeError>>()?;
                if rows.windows(2).any(|two| two[0].first >= two[1].first)
                    || rows.iter().any(|row| row.sectors.unsigned_abs() > capacity.get())
                {
                    return Err(damaged("its shifts are out of order, or longer than the drive"));
                }
                let seeks = body.table()?;
                let mut map = Self::of_profile(&profile, settings)?;
                if map.drive != drive {
                    return Err(damaged("its profile and its map are of different drives"));
                }
                map.period = period;
                let Locations::Layout(of) = &mut map.locations else {
                    return Err(damaged("it has no locations"));
                };
                of.shifts = Shifts::new(rows);
                let seeks = SeekResiduals::restored(of.layout().cylinders(), &seeks)
                    .ok_or_else(|| damaged("its arm residuals are invalid"))?;
                map.arm = ArmTimes::Curve(Box::new(seeks));
                map
            }
            other => {
                return Err(damaged(format!("its locations are of an unknown kind ({other})")));
            }
        };
        map.angles = AngleMap::restored(capacity, &body.table()?)
            .ok_or_else(|| damaged("its angles are invalid"))?;
        map.arrival = Arrival::restored([body.f64()?, body.f64()?, body.f64()?])
            .ok_or_else(|| damaged("its arrivals are invalid"))?;
        let mut tails = Vec::new();
        for _ in 0..super::worst::REGIONS {
            let mut counts = [0; CLASSES];
            for count in &mut counts {
                *count = body.u64()?.min(u64::MAX / 64);
            }
            tails.push(Tail { counts, longest: Nanos::from_ns(body.u64()?) });
        }
        let tails =
            Tails::restored(capacity, tails).ok_or_else(|| damaged("its tails are invalid"))?;
        map.tails = Some(tails);
        map.moved = map.locations.none_moved();
        if version >= 2 {
            map.moved = body.moved(map.moved, capacity)?;
        }
        if let ArmTimes::Votes(of) = &mut map.arm {
            let curve = if version >= 3 { body.table()? } else { Vec::new() };
            **of = ArmVotes::restored(&votes, &curve)
                .ok_or_else(|| damaged("its arm votes are invalid"))?;
        }
        if !body.0.is_empty() {
            return Err(damaged(format!("{} bytes of its body are unused", body.0.len())));
        }
        Ok(map)
    }
}

struct Writer(Vec<u8>);

impl Writer {
    fn u64(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }

    fn f64(&mut self, number: f64) {
        self.0.extend(number.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.u64(text.len() as u64);
        self.0.extend(text.as_bytes());
    }

    fn segment(&mut self, segment: &Segment) {
        [segment.first, segment.end, segment.origin, segment.angle_samples]
            .into_iter()
            .for_each(|number| self.u64(number));
        [segment.phase, segment.slope, segment.spread]
            .into_iter()
            .for_each(|number| self.f64(number));
        self.u64(segment.skew_terms.len() as u64);
        for skew_term in &segment.skew_terms {
            [skew_term.period, skew_term.offset, skew_term.height]
                .into_iter()
                .for_each(|number| self.f64(number));
        }
    }

    /// Runs of zeros and runs of other numbers in turn: the length of each, then the other numbers.
    fn table(&mut self, numbers: impl ExactSizeIterator<Item = f64>) {
        self.u64(numbers.len() as u64);
        let numbers: Vec<u64> = numbers.map(f64::to_bits).collect();
        let mut left = numbers.as_slice();
        while !left.is_empty() {
            let zeros = left.iter().take_while(|bits| **bits == 0).count();
            let others = left[zeros..].iter().take_while(|bits| **bits != 0).count();
            self.u64(zeros as u64);
            self.u64(others as u64);
            left[zeros..zeros + others].iter().for_each(|bits| self.u64(*bits));
            left = &left[zeros + others..];
        }
    }
}

/// The remaining bytes.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], CompactDecodeError> {
        let Some((taken, left)) = self.0.split_first_chunk::<N>() else {
            return Err(damaged("a field extends past the end of its body"));
        };
        self.0 = left;
        Ok(*taken)
    }

    fn u32(&mut self) -> Result<u32, CompactDecodeError> {
        self.bytes().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, CompactDecodeError> {
        self.bytes().map(u64::from_le_bytes)
    }

    fn f64(&mut self) -> Result<f64, CompactDecodeError> {
        self.bytes().map(f64::from_le_bytes)
    }

    /// Reads the number of items that take at least `bytes` each; refuses more than the rest can
    /// contain.
    fn count(&mut self, bytes: u64) -> Result<u64, CompactDecodeError> {
        let count = self.u64()?;
        if count.saturating_mul(bytes) > self.0.len() as u64 {
            return Err(damaged(format!("a count of {count} exceeds its body")));
        }
        Ok(count)
    }

    fn text(&mut self) -> Result<String, CompactDecodeError> {
        let length = self.count(1)? as usize;
        let (text, left) = self.0.split_at(length);
        self.0 = left;
        std::str::from_utf8(text).map(str::to_string).map_err(|_| damaged("a name is not UTF-8"))
    }

    fn segment(&mut self) -> Result<Segment, CompactDecodeError> {
        let (first, end, origin, angle_samples) =
            (self.u64()?, self.u64()?, self.u64()?, self.u64()?);
        let (phase, slope, spread) = (self.f64()?, self.f64()?, self.f64()?);
        let count = self.count(24)?;
        let mut skew_terms = Vec::new();
        for _ in 0..count {
            skew_terms.push(SkewTerm {
                period: self.f64()?,
                offset: self.f64()?,
                height: self.f64()?,
            });
        }
        let finite = [phase, slope, spread]
            .into_iter()
            .chain(
                skew_terms
                    .iter()
                    .flat_map(|skew_term| [skew_term.period, skew_term.offset, skew_term.height]),
            )
            .all(f64::is_finite);
        if !finite
            || slope <= 0.0
            || slope > 1.0
            || skew_terms.iter().any(|skew_term| skew_term.period < 1.0)
        {
            return Err(damaged("a segment has invalid values"));
        }
        Ok(Segment { first, end, origin, phase, slope, skew_terms, spread, angle_samples })
    }

    /// Reads the moved sectors of a drive of this capacity; `none` is the empty list.
    fn moved(&mut self, none: Moved, capacity: Sectors) -> Result<Moved, CompactDecodeError> {
        let count = self.count(8 * ANGLE_SAMPLE_NUMBERS as u64)?;
        let mut angle_samples = Vec::new();
        for _ in 0..count {
            let mut numbers = [0; ANGLE_SAMPLE_NUMBERS];
            for number in &mut numbers {
                *number = self.u64()?;
            }
            angle_samples.push(numbers);
        }
        let count = self.count(8)?;
        let places = (0..count)
            .map(|_| Ok((self.u64()?, self.table()?)))
            .collect::<Result<Vec<_>, CompactDecodeError>>()?;
        none.restored(&angle_samples, &places, capacity)
            .ok_or_else(|| damaged("its moved sectors are invalid"))
    }

    fn table(&mut self) -> Result<Vec<f64>, CompactDecodeError> {
        let length = self.u64()?;
        if length > MAX_NUMBERS {
            return Err(damaged(format!("a table has {length} numbers, too many")));
        }
        let mut numbers = Vec::with_capacity(length as usize);
        while (numbers.len() as u64) < length {
            let zeros = self.u64()?;
            let others = self.count(8)?;
            if zeros.saturating_add(others).saturating_add(numbers.len() as u64) > length
                || zeros + others == 0
            {
                return Err(damaged("a table is longer than its length field"));
            }
            numbers.resize(numbers.len() + zeros as usize, 0.0);
            for _ in 0..others {
                numbers.push(self.f64()?);
            }
        }
        Ok(numbers)
    }
}

fn damaged(what: impl Into<String>) -> CompactDecodeError {
    CompactDecodeError::Damaged { what: what.into() }
}

/// The magic of a compact map.
pub const COMPACT_MAGIC: [u8; 8] = *b"HTCOMPCT";
/// The format version that is written.
const VERSION: u32 = 3;
/// Magic, version, length, checksum.
const HEADER_BYTES: usize = 24;
const SEGMENTS: u64 = 0;
const PROFILE: u64 = 1;
/// The maximum number of numbers in a table.
const MAX_NUMBERS: u64 = 1 << 18;

#[cfg(test)]
mod tests;
