//! [`Layout`]: which LBA lies where, and at which angle.
//!
//! LBAs fill zone after zone, within a zone track after track in the profile's order, within a track sector after sector. Spares are the
//! last sectors of each zone; slipped sectors are stepped over and use the spares up. A sector's angle is the zone's first angle plus the
//! skews and sectors before it, computed from indices each time: nothing accumulates, and the memory does not grow with the drive.
//!
//! Cost: a look-up is a bucket of a small index, three multiplications, and a search in the zone's slips where it has any.
//!
//! - Modelled: zones, the three track orders, track, cylinder and band skew, spares by zone, slipped sectors, a declared capacity below the
//!   mapped one.
//! - Not modelled: sectors remapped to a spare elsewhere, different sectors per track on different surfaces, media caches, shingles.
//! - Differs from a drive: servo bursts take no room, so a track's sectors fill the whole turn evenly.

mod divider;
mod order;
mod range;
mod tracks;
mod zone;

use alloc::vec::Vec;

use headtime_units::{Angle, Lba, SectorSize, Sectors};

use crate::place::{HeadPosition, PhysicalAddress, Spot, Track};
use crate::profile::{DriveProfile, ProfileError};
use order::ZoneTracks;
use range::RangeIndex;
pub use tracks::{TrackRun, ZoneExtent};
pub(crate) use zone::Located;
use zone::{LayoutZone, ZoneStart};

/// The map between addresses and places of one drive.
#[derive(Clone, Debug)]
pub struct Layout {
    zones: Vec<LayoutZone>,
    by_lba: RangeIndex,
    by_cylinder: RangeIndex,
    heads: u16,
    sector_size: SectorSize,
    capacity: u64,
    mapped: u64,
}

/// One more defective sector of a unit, as a zone's number and a physical sector of that zone ([`Zone::slips`](crate::profile::Zone::slips)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ZoneSlip {
    /// The zone, from 0.
    pub zone: usize,
    /// The sector, from the zone's first.
    pub sector: u64,
}

impl Layout {
    /// The layout that the profile describes.
    ///
    /// # Errors
    /// Whatever is wrong with the profile.
    pub fn new(profile: &DriveProfile) -> Result<Self, ProfileError> {
        Self::with_slips(profile, &[])
    }

    /// The layout of a unit that has the `extra` defective sectors besides the profile's; one named twice counts once. The capacity
    /// stays, because spares absorb them.
    ///
    /// # Errors
    /// Whatever is wrong with the profile; [`ProfileError::Slips`] when a zone's spares do not suffice; [`ProfileError::Value`] for a sector or
    /// zone that is not there.
    pub fn with_slips(profile: &DriveProfile, extra: &[ZoneSlip]) -> Result<Self, ProfileError> {
        profile.validate()?;
        if let Some(slip) = extra.iter().find(|slip| slip.zone >= profile.zones.len()) {
            return Err(profile.refuse(
                "extra slip's zone",
                slip.zone,
                alloc::format!("0 to {}", profile.zones.len() - 1),
                "draw from the profile's zones",
            ));
        }
        let heads = profile.geometry.heads;
        let mut start = ZoneStart::default();
        let mut zones = Vec::with_capacity(profile.zones.len());
        for (number, zone) in profile.zones.iter().enumerate() {
            let mut slips: Vec<u64> = zone.slips.clone();
            slips.extend(extra.iter().filter(|slip| slip.zone == number).map(|slip| slip.sector));
            slips.sort_unstable();
            slips.dedup();
            let sectors = zone.physical_sectors(heads);
            if let Some(slip) = slips.last().filter(|slip| **slip >= sectors) {
                let key = alloc::format!("extra slip in zone {number}");
                return Err(profile.refuse(key, slip, alloc::format!("less than the zone's {sectors} sectors"), "draw from the zone's sectors"));
            }
            if slips.len() as u64 > zone.spares {
                return Err(ProfileError::Slips { profile: profile.name.clone(), zone: number, slips: slips.len() as u64, spares: zone.spares });
            }
            let tracks = ZoneTracks::new(zone, heads, profile.geometry.layout, profile.geometry.band_cylinders);
            start.angle = zone.first_angle_turns.map_or(start.angle, Angle::from_turns);
            let built = LayoutZone::new(start, sectors - zone.spares, zone.cylinders, zone.sectors_per_track, tracks, slips);
            start = ZoneStart {
                lba: built.end_lba,
                cylinder: built.end_cylinder,
                track: start.track + tracks.count(),
                angle: built.angle(tracks.skew_of_next_zone()),
            };
            zones.push(built);
        }
        let lba_ends: Vec<u64> = zones.iter().map(|zone| zone.end_lba).collect();
        let cylinder_ends: Vec<u64> = zones.iter().map(|zone| u64::from(zone.end_cylinder)).collect();
        Ok(Self {
            by_lba: RangeIndex::new(&lba_ends),
            by_cylinder: RangeIndex::new(&cylinder_ends),
            zones,
            heads,
            sector_size: profile.sector_size()?,
            capacity: profile.capacity().get(),
            mapped: start.lba,
        })
    }

    /// Logical sectors there are; LBAs run from 0 up to but not including this.
    #[must_use]
    pub fn capacity(&self) -> Sectors {
        Sectors::new(self.capacity)
    }

    /// Logical sectors that the zones map, declared or not.
    #[must_use]
    pub fn mapped(&self) -> Sectors {
        Sectors::new(self.mapped)
    }

    /// Bytes of a logical sector.
    #[must_use]
    pub fn sector_size(&self) -> SectorSize {
        self.sector_size
    }

    /// Cylinders of all zones.
    #[must_use]
    pub fn cylinders(&self) -> u32 {
        self.zones.last().map_or(0, |zone| zone.end_cylinder)
    }

    /// Surfaces with a head.
    #[must_use]
    pub fn heads(&self) -> u16 {
        self.heads
    }

    /// The place of an address.
    ///
    /// # Panics
    /// When `lba` is past the capacity.
    #[must_use]
    pub fn lba_to_physical(&self, lba: Lba) -> PhysicalAddress {
        let located = self.locate(lba);
        PhysicalAddress { cylinder: located.cylinder(), head: located.place.head, sector: located.sector }
    }

    /// The address of a place; `None` for spare and slipped sectors, places that the drive does not have, and what lies past the capacity.
    #[must_use]
    pub fn physical_to_lba(&self, address: PhysicalAddress) -> Option<Lba> {
        if address.cylinder >= self.cylinders() || address.head >= self.heads {
            return None;
        }
        let (zone, number) = self.zone_and_number(address.track());
        if address.sector >= zone.sectors_per_track() {
            return None;
        }
        let physical = number * u64::from(zone.sectors_per_track()) + u64::from(address.sector);
        zone.lba_at(physical).filter(|lba| *lba < self.capacity).map(Lba::new)
    }

    /// The track of an address.
    ///
    /// # Panics
    /// When `lba` is past the capacity.
    #[must_use]
    pub fn track_of(&self, lba: Lba) -> Track {
        self.lba_to_physical(lba).track()
    }

    /// The track of an address and the angle at which its sector starts: [`Layout::lba_to_physical`] and [`Layout::sector_angle`] in one look-up.
    ///
    /// # Panics
    /// When `lba` is past the capacity.
    #[must_use]
    pub fn spot(&self, lba: Lba) -> Spot {
        let located = self.locate(lba);
        Spot { position: HeadPosition { cylinder: located.cylinder(), head: located.place.head }, angle: located.angle() }
    }

    /// The angle at which the sector starts, all skews before it included.
    ///
    /// # Panics
    /// When the drive has no such cylinder or head. A sector past the track's last counts on into the next turn.
    #[must_use]
    pub fn sector_angle(&self, address: PhysicalAddress) -> Angle {
        let (zone, number) = self.zone_and_number(address.track());
        zone.angle(zone.tracks.place(number).skew + u64::from(address.sector))
    }

    pub(crate) fn locate(&self, lba: Lba) -> Located<'_> {
        let lba = lba.get();
        assert!(lba < self.capacity, "LBA {lba} is past the drive's {} sectors", self.capacity);
        self.zones[self.by_lba.find(lba, |zone| self.zones[zone].end_lba)].locate(lba)
    }

    /// The zone of a track and the track's number in it.
    fn zone_and_number(&self, track: Track) -> (&LayoutZone, u64) {
        let zone = self.zone_of(track.cylinder);
        assert!(track.head < self.heads, "the drive has {} heads, not head {}", self.heads, track.head);
        (zone, zone.tracks.number(track.cylinder - zone.first_cylinder, track.head))
    }

    fn zone_of(&self, cylinder: u32) -> &LayoutZone {
        assert!(cylinder < self.cylinders(), "the drive has {} cylinders, not cylinder {cylinder}", self.cylinders());
        &self.zones[self.by_cylinder.find(u64::from(cylinder), |zone| u64::from(self.zones[zone].end_cylinder))]
    }
}
