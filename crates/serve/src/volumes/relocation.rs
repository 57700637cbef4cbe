//! [`Relocation`]: the plan of moving sectors of a volume to a free extent, and the status of one
//! that is carried out ([`super::relocator`]).

use std::fmt;
use std::str::FromStr;

use headtime_sched::VolumeId;
use headtime_units::{ByteSize, Extent, Lba, SectorSize, Sectors, Share, parse_bytes};
use serde::{Deserialize, Serialize};

use super::extents::Extents;
use super::relocation_file::StoredRelocation;

/// The destination of a relocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelocateTo {
    /// The first free extent that is long enough.
    Start,
    /// The end of the last free extent that is long enough.
    End,
    /// The start of the longest free extent.
    LargestGap,
    /// This byte of the drive.
    Address(ByteSize),
}

/// The reason why a text is no destination.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{text}` is no destination; write start, end, largest-gap, or an address in bytes of the \
        drive such as 100GiB"
)]
pub struct RelocateToError {
    /// The text as given.
    pub text: String,
}

impl FromStr for RelocateTo {
    type Err = RelocateToError;

    fn from_str(text: &str) -> Result<Self, RelocateToError> {
        match text {
            "start" => Ok(Self::Start),
            "end" => Ok(Self::End),
            "largest-gap" => Ok(Self::LargestGap),
            address => parse_bytes(address)
                .map(Self::Address)
                .map_err(|_| RelocateToError { text: text.to_owned() }),
        }
    }
}

impl fmt::Display for RelocateTo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start => f.write_str("start"),
            Self::End => f.write_str("end"),
            Self::LargestGap => f.write_str("largest-gap"),
            Self::Address(address) => address.fmt(f),
        }
    }
}

/// A command to move sectors of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelocateOrder {
    /// The volume.
    pub name: String,
    /// The first byte of the volume to move; `None` for its start.
    pub from: Option<ByteSize>,
    /// The number of bytes to move; `None` for all up to the end of the volume.
    pub size: Option<ByteSize>,
    /// The destination.
    pub to: RelocateTo,
    /// Scans of the volume end before their sectors change, instead of delaying that.
    pub force: bool,
    /// The bound on the impact of all background work while it runs; that of the drive if absent.
    pub max_impact: Option<Share>,
    /// Check the command without carrying it out.
    pub dry_run: bool,
}

/// A planned relocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relocation {
    pub(super) volume: VolumeId,
    pub(super) name: String,
    /// The first sector of the volume that moves.
    pub(super) offset: Sectors,
    /// The sectors on the drive, in the order of the volume.
    pub(super) source: Vec<Extent>,
    /// The free sectors to which they move.
    pub(super) destination: Extent,
    /// All extents of the volume before.
    pub(super) before: Extents,
    /// All extents of the volume after.
    pub(super) after: Extents,
}

impl Relocation {
    /// Its sectors before and after, for people.
    pub(super) fn describe(&self, sector: SectorSize) -> String {
        let before: Vec<String> = self.source.iter().map(Extent::to_string).collect();
        format!(
            "{} of {} move from {} to {}",
            ByteSize::new(sector.bytes_of(self.destination.len)),
            self.name,
            before.join(", "),
            self.destination
        )
    }

    /// The relocation in a file, of a volume that has not changed since.
    pub(super) fn of_stored(stored: &StoredRelocation) -> Self {
        let StoredRelocation { volume, name, offset, before, destination, .. } = stored;
        let extent = |(first, len): &(u64, u64)| Extent::from_numbers(*first, *len);
        let before = Extents::new(before.iter().map(extent).collect());
        let (offset, destination) = (Sectors::new(*offset), extent(destination));
        Self {
            volume: VolumeId(*volume),
            name: name.clone(),
            offset,
            source: before.part(offset, destination.len),
            destination,
            after: before.relocated(offset, destination.len, destination.start),
            before,
        }
    }

    /// The same, for the file.
    pub(super) fn to_store(&self, force: bool, max_impact: Option<Share>) -> StoredRelocation {
        let numbers = |extent: &Extent| (extent.start.get(), extent.len.get());
        StoredRelocation {
            volume: self.volume.0,
            name: self.name.clone(),
            offset: self.offset.get(),
            before: self.before.as_slice().iter().map(numbers).collect(),
            destination: numbers(&self.destination),
            force,
            max_impact_billionths: max_impact.map(Share::as_billionths),
        }
    }

    /// The parts of some sectors of the drive that move, with the address to which each moves.
    pub(super) fn moves_of(&self, read: Extent) -> impl Iterator<Item = (Extent, Lba)> + '_ {
        let mut to = self.destination.start;
        self.source.iter().filter_map(move |extent| {
            let start = to;
            to = to + extent.len;
            let part = read.intersection(*extent)?;
            Some((part, start + (part.start - extent.start)))
        })
    }
}

/// The state of a relocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RelocationState {
    /// Its sectors are copied in the background.
    Copying,
    /// All are copied; something delays the change of the volume.
    Waiting,
    /// The last changes are copied, and the volume changes to the new sectors.
    Switching,
    /// The volume has the new sectors.
    Complete,
    /// The volume has its earlier sectors, because of an error.
    Failed,
    /// The volume has its earlier sectors, as requested.
    Cancelled,
}

impl RelocationState {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Copying => "copying",
            Self::Waiting => "waiting",
            Self::Switching => "switching",
            Self::Complete => "complete",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns whether nothing follows.
    #[must_use]
    pub const fn is_over(self) -> bool {
        matches!(self, Self::Complete | Self::Failed | Self::Cancelled)
    }
}

/// The progress of a relocation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RelocationStatus {
    /// The volume.
    pub volume: String,
    /// Its state.
    pub state: RelocationState,
    /// The first byte of the volume that moves.
    pub from_bytes: u64,
    /// The number of bytes that move.
    pub bytes: u64,
    /// The first sector of the drive to which they move.
    pub to_sector: u64,
    /// The pass over the sectors: 1 copies all, each further one those that clients have written
    /// during the pass before.
    pub pass: u32,
    /// The bytes to copy in this pass.
    pub pass_bytes: u64,
    /// The bytes of them that were copied.
    pub pass_bytes_done: u64,
    /// The time since its start, or from its start to its end.
    pub seconds: f64,
    /// The time for which clients' writes were held, once the volume has the new sectors.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub held_seconds: Option<f64>,
    /// The reason for waiting, or the error.
    #[serde(skip_serializing_if = "String::is_empty", default)]
    pub reason: String,
}

impl RelocationStatus {
    /// The share of this pass that is copied, 0 to 1.
    #[must_use]
    pub fn share_done(&self) -> f64 {
        if self.state == RelocationState::Complete || self.pass_bytes == 0 {
            return 1.0;
        }
        self.pass_bytes_done as f64 / self.pass_bytes as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_are_parsed() {
        let address = RelocateTo::Address(ByteSize::new(3 << 20));
        let parsed = ["start", "end", "largest-gap", "3MiB"].map(str::parse);
        let to = [RelocateTo::Start, RelocateTo::End, RelocateTo::LargestGap, address];
        assert_eq!(parsed, to.map(Ok));
        for text in ["", "middle", "-1", "Start"] {
            let error = text.parse::<RelocateTo>().expect_err("it is no destination").to_string();
            assert!(error.starts_with(&format!("`{text}` is no destination")), "{error}");
        }
    }

    #[test]
    fn sectors_are_found_at_their_destination_whatever_the_order_of_the_source() {
        let extent = Extent::from_numbers;
        let source = vec![extent(400, 50), extent(350, 50), extent(100, 10)];
        let relocation = Relocation {
            volume: VolumeId(1),
            name: "a".to_owned(),
            offset: Sectors::ZERO,
            before: Extents::new(source.clone()),
            source,
            destination: extent(1000, 110),
            after: extent(1000, 110).into(),
        };
        let moves = |read| relocation.moves_of(read).collect::<Vec<_>>();
        // The second extent ends where the first begins.
        assert_eq!(
            moves(extent(390, 30)),
            [(extent(400, 20), Lba::new(1000)), (extent(390, 10), Lba::new(1090))]
        );
        assert_eq!(moves(extent(95, 30)), [(extent(100, 10), Lba::new(1100))]);
        assert_eq!(moves(extent(0, 100)), []);
    }
}
