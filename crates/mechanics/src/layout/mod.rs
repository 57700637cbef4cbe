//! [`Layout`]: the positions and angles of LBAs.
//!
//! A layout is one of two kinds. *Zones*: LBAs fill zone after zone, within a zone track after
//! track in the profile's order, within a track sector after sector. The first sectors of a zone
//! may be reserved, the last ones of each group of cylinders are spares; slipped sectors are
//! skipped and use up spares, remapped sectors are on a spare. *Runs*: a measured layout, as runs
//! of tracks. A sector's angle is always computed from counts of steps, so errors do not
//! accumulate, and the memory of zones does not grow with the drive.
//!
//! Example: 4 tracks of 10 sectors on one surface, 2 spares, a slip at sector 3, sector 12 remapped
//! to the spare 39. LBAs 0 to 2 lie on sectors 0 to 2, LBAs 3 to 36 on sectors 4 to 37, except LBA
//! 11, whose home is sector 12 and which is read from sector 39.
//!
//! Cost: an LBA look-up takes a bucket of a small index, two or three multiplications for the
//! track, and a bucket of another index in a zone with slips: some 20 ns, 40 with a thousand slips
//! in each zone. From a position to its LBA costs a binary search or two.
//!
//! - Modelled: zones with sectors per track that differ by surface, the four track orders, track,
//!   cylinder and band skews in fractions of a sector, cylinders without data, reserved sectors,
//!   spares by zone or by group, slipped sectors, remapped sectors (also at run time), a declared
//!   capacity below the mapped one, measured layouts of runs.
//! - Not modelled: remapping to another zone or to a pool of the whole drive, media caches,
//!   shingles; remapping on a layout of runs.
//! - Differs from a drive: servo bursts take no space, so a track's sectors fill the whole
//!   revolution evenly; a measured run has one angle step for all its tracks.

mod bucket;
mod defects;
mod divider;
mod order;
mod rows;
mod runs;
mod slip;
mod surfaces;
mod tracks;
mod turns;
mod zone;

use alloc::vec::Vec;

use headtime_units::{Angle, Lba, SectorSize, Sectors};

use crate::place::{HeadPosition, PhysicalAddress, Spot, Track};
use crate::profile::{DriveProfile, ProfileError};
use bucket::BucketIndex;
use defects::{RemapTable, SpareGroups};
use order::ZoneTracks;
pub use rows::TrackRow;
use runs::RunMap;
pub(crate) use runs::{MAX_RUNS_ON_TRACK, RunConflict, spans_of};
pub use slip::ZoneSlip;
pub(crate) use surfaces::{SurfaceRow, Surfaces};
pub use tracks::{TrackRun, ZoneExtent};
use zone::{LayoutZone, ZoneParts, ZoneStart};

/// The map between addresses and positions under one arm.
#[derive(Clone, Debug)]
pub struct Layout {
    map: LayoutKind,
    cylinders: u32,
    heads: u16,
    sector_size: SectorSize,
    capacity: u64,
    mapped: u64,
}

#[derive(Clone, Debug)]
enum LayoutKind {
    Zones(ZoneMap),
    Runs(RunMap),
}

#[derive(Clone, Debug)]
struct ZoneMap {
    zones: Vec<LayoutZone>,
    lba_ends: Vec<u64>,
    by_lba: BucketIndex,
    cylinder_ends: Vec<u64>,
    by_cylinder: BucketIndex,
}

/// The position of an LBA.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Located {
    pub(crate) cylinder: u32,
    pub(crate) head: u16,
    pub(crate) sector: u32,
    pub(crate) sectors_per_track: u32,
    /// The start of the sector, in units of 2⁻⁶⁴ revolution.
    pub(crate) turn: u64,
    /// The angle of one sector, in units of 2⁻⁶⁴ revolution; 0 is a whole revolution.
    pub(crate) sector_turn: u64,
}

/// LBAs that pass one after the other on one track.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TrackStretch {
    /// The first of them.
    pub(crate) at: Located,
    pub(crate) lbas: u64,
    /// Sectors from the first to the last, including slipped sectors in between.
    pub(crate) span: u64,
    /// True for a remapped sector on its spare.
    pub(crate) moved: bool,
}

impl Layout {
    /// The layout of the profile, for one arm.
    ///
    /// # Errors
    /// Any error in the profile.
    pub fn new(profile: &DriveProfile) -> Result<Self, ProfileError> {
        Self::with_slips(profile, &[])
    }

    /// The layout with `extra` defective sectors besides the profile's. Duplicates, and sectors
    /// that the profile lists already (as slip, reserved or remapped), count once. The capacity
    /// stays, because spares absorb them.
    ///
    /// # Errors
    /// Any error in the profile; [`ProfileError::Slips`] if the spares of a zone or group do not
    /// suffice (see [`Layout::absorbed`]); [`ProfileError::Value`] for a sector or zone that does
    /// not exist. A layout of runs has no zones.
    pub fn with_slips(profile: &DriveProfile, extra: &[ZoneSlip]) -> Result<Self, ProfileError> {
        profile.validate()?;
        slip::check(profile, extra)?;
        let heads = profile.geometry.heads;
        let (map, mapped) = if profile.runs.is_empty() {
            let zones = ZoneMap::new(profile, extra)?;
            let mapped = zones.lba_ends.last().copied().unwrap_or(0);
            (LayoutKind::Zones(zones), mapped)
        } else {
            (LayoutKind::Runs(RunMap::new(&profile.runs, heads)), profile.mapped().get())
        };
        Ok(Self {
            map,
            cylinders: profile.cylinders(),
            heads,
            sector_size: profile.sector_size()?,
            capacity: profile.capacity_per_actuator().get(),
            mapped,
        })
    }

    /// The `extra` defects that the profile's spares absorb, earlier ones first, for
    /// [`Layout::with_slips`].
    #[must_use]
    pub fn absorbed(profile: &DriveProfile, extra: &[ZoneSlip]) -> Vec<ZoneSlip> {
        slip::absorbed(profile, extra)
    }

    /// Logical sectors under the arm.
    #[must_use]
    pub fn capacity(&self) -> Sectors {
        Sectors::new(self.capacity)
    }

    /// Mapped logical sectors, declared or not.
    #[must_use]
    pub fn mapped(&self) -> Sectors {
        Sectors::new(self.mapped)
    }

    /// Bytes of a logical sector.
    #[must_use]
    pub fn sector_size(&self) -> SectorSize {
        self.sector_size
    }

    /// Cylinders of the drive, including those without data.
    #[must_use]
    pub fn cylinders(&self) -> u32 {
        self.cylinders
    }

    /// Surfaces with a head.
    #[must_use]
    pub fn heads(&self) -> u16 {
        self.heads
    }

    /// The position of an address.
    ///
    /// # Panics
    /// If `lba` is past the capacity.
    #[must_use]
    pub fn lba_to_physical(&self, lba: Lba) -> PhysicalAddress {
        self.locate(lba).address()
    }

    /// The address at a position: `None` for reserved and slipped sectors, unused spares, remapped
    /// sectors (their addresses are at the spares), positions outside the drive, and sectors past
    /// the capacity.
    #[must_use]
    pub fn physical_to_lba(&self, address: PhysicalAddress) -> Option<Lba> {
        let track = address.track();
        if address.cylinder >= self.cylinders
            || address.head >= self.heads
            || address.sector >= self.sectors_per_track(track)
        {
            return None;
        }
        let lba = match &self.map {
            LayoutKind::Zones(zones) => {
                let zone = zones.of_cylinder(address.cylinder);
                let first = zone
                    .tracks
                    .first_sector(address.cylinder.checked_sub(zone.first_cylinder)?, address.head);
                zone.lba_at(first + u64::from(address.sector))
            }
            LayoutKind::Runs(runs) => runs.lba_at(track, address.sector),
        };
        lba.filter(|lba| *lba < self.capacity).map(Lba::new)
    }

    /// The track of an address.
    ///
    /// # Panics
    /// When `lba` is past the capacity.
    #[must_use]
    pub fn track_of(&self, lba: Lba) -> Track {
        self.locate(lba).position().track()
    }

    /// The track of an address and the start angle of its sector: [`Layout::lba_to_physical`] and
    /// [`Layout::sector_angle`] in one look-up.
    ///
    /// # Panics
    /// If `lba` is past the capacity.
    #[must_use]
    pub fn spot(&self, lba: Lba) -> Spot {
        let located = self.locate(lba);
        Spot { position: located.position(), angle: located.angle() }
    }

    /// The start angle of the sector, with all skews. On cylinders without data it is that of the
    /// next zone's first cylinder; on unmeasured tracks, sector 0 starts at angle 0.
    ///
    /// # Panics
    /// If the drive has no such cylinder or head. A sector past the track's last one continues into
    /// the next revolution.
    #[must_use]
    pub fn sector_angle(&self, address: PhysicalAddress) -> Angle {
        self.check_track(address.track());
        let turn = match &self.map {
            LayoutKind::Zones(zones) => zones.of_cylinder(address.cylinder).sector_turn_at(
                address.cylinder,
                address.head,
                address.sector,
            ),
            LayoutKind::Runs(runs) => runs.sector_turn_at(address.track(), address.sector),
        };
        angle_of(turn)
    }

    /// Remaps an address whose sector became defective, as drives do after a failed write: to the
    /// next free spare of the sector's group, else of the nearest group of the zone with a free
    /// spare. Returns the new position; `None` if the zone has no spare left, and for a layout of
    /// runs, whose spares are unknown. All other addresses stay.
    ///
    /// # Panics
    /// If `lba` is past the capacity.
    pub fn remap(&mut self, lba: Lba) -> Option<PhysicalAddress> {
        self.check_lba(lba);
        match &mut self.map {
            LayoutKind::Zones(zones) => {
                let zone = zones.by_lba.at_or_below(&zones.lba_ends, lba.get());
                zones.zones[zone].remap(lba.get()).map(|located| located.address())
            }
            LayoutKind::Runs(_) => None,
        }
    }

    #[inline(always)]
    pub(crate) fn locate(&self, lba: Lba) -> Located {
        self.check_lba(lba);
        match &self.map {
            LayoutKind::Zones(zones) => zones.of_lba(lba.get()).locate(lba.get()),
            LayoutKind::Runs(runs) => runs.locate(lba.get()),
        }
    }

    /// The position of an address, and the number of addresses from there on, at most `max`, that
    /// pass one after the other on the track.
    #[inline(always)]
    pub(crate) fn stretch(&self, lba: Lba, max: u64) -> TrackStretch {
        self.check_lba(lba);
        match &self.map {
            LayoutKind::Zones(zones) => zones.of_lba(lba.get()).stretch(lba.get(), max),
            LayoutKind::Runs(runs) => runs.stretch(lba.get(), max),
        }
    }

    #[inline]
    fn check_lba(&self, lba: Lba) {
        assert!(
            lba.get() < self.capacity,
            "LBA {lba} is past the drive's {} sectors",
            self.capacity
        );
    }

    fn check_track(&self, track: Track) {
        assert!(
            track.cylinder < self.cylinders,
            "the drive has {} cylinders, not cylinder {}",
            self.cylinders,
            track.cylinder
        );
        assert!(
            track.head < self.heads,
            "the drive has {} heads, not head {}",
            self.heads,
            track.head
        );
    }
}

impl ZoneMap {
    /// `extra` defects have passed [`slip::check`].
    fn new(profile: &DriveProfile, extra: &[ZoneSlip]) -> Result<Self, ProfileError> {
        let geometry = &profile.geometry;
        let mut start = ZoneStart::default();
        let mut zones = Vec::with_capacity(profile.zones.len());
        for (number, zone) in profile.zones.iter().enumerate() {
            let tracks =
                ZoneTracks::new(zone, geometry.heads, geometry.layout, geometry.band_cylinders);
            let group_sectors = zone.group_sectors(geometry.heads);
            let groups = SpareGroups {
                count: zone.groups(geometry.heads),
                sectors: group_sectors,
                places: group_sectors - zone.spares,
            };
            let parts = ZoneParts {
                skipped_cylinders: zone.skipped_cylinders,
                cylinders: zone.cylinders,
                reserved: zone.reserved,
                mapped: zone.mapped_sectors(geometry.heads),
                groups,
                slips: slip::stepped_over(profile, number, extra)?,
                remaps: RemapTable::new(&zone.remaps),
            };
            // Angles have 32 bits; measured and derived ones are rounded alike.
            start.turn = zone
                .first_angle_turns
                .map_or(start.turn, |turns| u64::from(Angle::from_turns(turns).as_raw()) << 32);
            let count = tracks.count();
            let built = LayoutZone::new(start, tracks, parts);
            start = ZoneStart {
                lba: built.end_lba,
                cylinder: built.end_cylinder,
                track: start.track
                    + u64::from(zone.skipped_cylinders) * u64::from(geometry.heads)
                    + count,
                turn: built.turn_of_next_zone() >> 32 << 32,
            };
            zones.push(built);
        }
        let lba_ends: Vec<u64> = zones.iter().map(|zone| zone.end_lba).collect();
        let cylinder_ends: Vec<u64> =
            zones.iter().map(|zone| u64::from(zone.end_cylinder)).collect();
        Ok(Self {
            by_lba: BucketIndex::new(&lba_ends, 1_024),
            by_cylinder: BucketIndex::new(&cylinder_ends, 64),
            zones,
            lba_ends,
            cylinder_ends,
        })
    }

    #[inline(always)]
    fn of_lba(&self, lba: u64) -> &LayoutZone {
        &self.zones[self.by_lba.at_or_below(&self.lba_ends, lba)]
    }

    /// The zone of an existing cylinder; cylinders without data belong to the next zone.
    fn of_cylinder(&self, cylinder: u32) -> &LayoutZone {
        &self.zones[self.by_cylinder.at_or_below(&self.cylinder_ends, u64::from(cylinder))]
    }
}

impl Located {
    #[inline]
    pub(crate) fn position(&self) -> HeadPosition {
        HeadPosition { cylinder: self.cylinder, head: self.head }
    }

    #[inline]
    pub(crate) fn angle(&self) -> Angle {
        angle_of(self.turn)
    }

    /// The start angle of the sector `sectors` further on.
    #[inline]
    pub(crate) fn angle_after(&self, sectors: u64) -> Angle {
        angle_of(self.turn.wrapping_add(sectors.wrapping_mul(self.sector_turn)))
    }

    fn address(&self) -> PhysicalAddress {
        PhysicalAddress { cylinder: self.cylinder, head: self.head, sector: self.sector }
    }
}

#[inline]
fn angle_of(turn: u64) -> Angle {
    Angle::from_raw((turn >> 32) as u32)
}
