//! A compact map as bytes, and bytes as a compact map. No files here, as with the published map's
//! codec.
//!
//! ```text
//! header   "HTCOMPCT" · version · bytes of the body · checksum of the header
//! body     drive, speed, settings · places (a profile and shifts, or segments and votes) · angles, arrivals, tails · moved sectors · of votes the finer ones · checksum of the body
//! ```
//! Version 1 ended with the tails, version 2 with the moved sectors; they are still read, and
//! nothing is moved then, or the arm known by powers of two of the distance alone.
//!
//! Numbers are little endian, checksums CRC-32C; tables that are mostly zero are stored as rows of
//! zeros and rows of numbers. Magic, version and length stay where they are in every version.
//!
//! Guarantees: a map that was decoded answers every question as the one that was encoded. What is
//! cut off, damaged or newer is refused, and nothing is allocated for what the bytes do not hold.
//! Not stored: where the platter is, and the angle samples of a search under way; both are of the running
//! drive.

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

/// Why bytes are no compact map.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CompactDecodeError {
    /// They do not begin as one does.
    #[error("this is no compact map: it does not begin with '{}'; name a file that `headtime map learn --out` wrote", COMPACT_MAGIC.escape_ascii())]
    NotAMap,
    /// A newer program wrote them.
    #[error(
        "the compact map has format {version}, this program knows {VERSION}; use a newer program, \
            or start empty"
    )]
    Newer {
        /// The version of the format.
        version: u32,
    },
    /// They end too early.
    #[error(
        "the compact map ends after {bytes} bytes, expected are {expected}: it was cut off; save \
            it again, or start empty"
    )]
    Truncated {
        /// How many there are.
        bytes: u64,
        /// How many there should be, at least.
        expected: u64,
    },
    /// They contradict themselves.
    #[error("the compact map is damaged: {what}; restore it from a copy, or start empty")]
    Damaged {
        /// What is wrong.
        what: String,
    },
    /// What they describe cannot be mapped here.
    #[error(transparent)]
    Map(#[from] CompactError),
}

impl CompactMap {
    /// The map as bytes.
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
        let tails = self.tails.as_ref().expect("a map that is kept has worst cases");
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

    /// The map that `bytes` are, which from now on may take `memory` with what it learns from.
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
            return Err(damaged("the checksum of its header does not agree"));
        }
        if version > VERSION {
            return Err(CompactDecodeError::Newer { version });
        }
        if version == 0 {
            return Err(damaged(format!("its format is {version}, which has never been")));
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
            return Err(damaged("the checksum of its body does not agree"));
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
            .ok_or_else(|| damaged("its sectors are of a size that no drive has"))?;
        let period = RotationPeriod::from_fs(body.u64()?)
            .ok_or_else(|| damaged("its platter does not turn"))?;
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
                    return Err(damaged("its strips overlap, or lie past the drive's end"));
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
                    return Err(damaged("its profile is of another drive than the map"));
                }
                map.period = period;
                let Locations::Layout(of) = &mut map.locations else {
                    return Err(damaged("it has no locations"));
                };
                of.shifts = Shifts::new(rows);
                let seeks = SeekResiduals::restored(of.layout().cylinders(), &seeks)
                    .ok_or_else(|| damaged("its arm residuals cannot be"))?;
                map.arm = ArmTimes::Curve(Box::new(seeks));
                map
            }
            other => {
                return Err(damaged(format!(
                    "its places are of a kind ({other}) that is not known here"
                )));
            }
        };
        map.angles = AngleMap::restored(capacity, &body.table()?)
            .ok_or_else(|| damaged("its angles cannot be"))?;
        map.arrival = Arrival::restored([body.f64()?, body.f64()?, body.f64()?])
            .ok_or_else(|| damaged("its arrivals cannot be"))?;
        let mut tails = Vec::new();
        for _ in 0..super::worst::REGIONS {
            let mut counts = [0; CLASSES];
            for count in &mut counts {
                *count = body.u64()?.min(u64::MAX / 64);
            }
            tails.push(Tail { counts, longest: Nanos::from_ns(body.u64()?) });
        }
        let tails =
            Tails::restored(capacity, tails).ok_or_else(|| damaged("its tails cannot be"))?;
        map.tails = Some(tails);
        map.moved = map.locations.none_moved();
        if version >= 2 {
            map.moved = body.moved(map.moved, capacity)?;
        }
        if let ArmTimes::Votes(of) = &mut map.arm {
            let curve = if version >= 3 { body.table()? } else { Vec::new() };
            **of = ArmVotes::restored(&votes, &curve)
                .ok_or_else(|| damaged("its arm has votes that cannot be"))?;
        }
        if !body.0.is_empty() {
            return Err(damaged(format!("{} bytes of its body mean nothing", body.0.len())));
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

    /// Rows of zeros and rows of others in turn: how many of each, then the others.
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

/// What is left of the bytes.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn bytes<const N: usize>(&mut self) -> Result<[u8; N], CompactDecodeError> {
        let Some((taken, left)) = self.0.split_first_chunk::<N>() else {
            return Err(damaged("it says less than it announces"));
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

    /// A number of things that take at least `bytes` each, no more than there can be.
    fn count(&mut self, bytes: u64) -> Result<u64, CompactDecodeError> {
        let count = self.u64()?;
        if count.saturating_mul(bytes) > self.0.len() as u64 {
            return Err(damaged(format!("it announces {count} things and has no room for them")));
        }
        Ok(count)
    }

    fn text(&mut self) -> Result<String, CompactDecodeError> {
        let length = self.count(1)? as usize;
        let (text, left) = self.0.split_at(length);
        self.0 = left;
        std::str::from_utf8(text)
            .map(str::to_string)
            .map_err(|_| damaged("a name in it is no text"))
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
            return Err(damaged("a strip of it is no strip"));
        }
        Ok(Segment { first, end, origin, phase, slope, skew_terms, spread, angle_samples })
    }

    /// Moved sectors of a drive with so many of which `none` are known.
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
            .ok_or_else(|| damaged("its moved sectors cannot be"))
    }

    fn table(&mut self) -> Result<Vec<f64>, CompactDecodeError> {
        let length = self.u64()?;
        if length > MAX_NUMBERS {
            return Err(damaged(format!("a table of it has {length} numbers")));
        }
        let mut numbers = Vec::with_capacity(length as usize);
        while (numbers.len() as u64) < length {
            let zeros = self.u64()?;
            let others = self.count(8)?;
            if zeros.saturating_add(others).saturating_add(numbers.len() as u64) > length
                || zeros + others == 0
            {
                return Err(damaged("a table of it is longer than it says"));
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

/// What the bytes of a compact map begin with.
pub const COMPACT_MAGIC: [u8; 8] = *b"HTCOMPCT";
/// The format written here.
const VERSION: u32 = 3;
/// Magic, version, length, checksum.
const HEADER_BYTES: usize = 24;
const SEGMENTS: u64 = 0;
const PROFILE: u64 = 1;
/// No table of a compact map has more numbers.
const MAX_NUMBERS: u64 = 1 << 18;

#[cfg(test)]
mod tests;
