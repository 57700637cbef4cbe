//! [`LayoutZone`]: one zone, ready for look-ups: its tracks, its slipped sectors, its angles.
//!
//! Slips shift: the LBA `x` of a zone (from the zone's first) lies on physical sector `x + s`, where `s` slipped sectors lie before it. With
//! slips at the physical sectors 3 and 4 of a zone, the LBAs 0 1 2 3 4 … lie on 0 1 2 5 6 …. For the search the table also keeps each slip's
//! *key*, the number of LBAs before it (3 and 3): `s` is the number of keys that are at most `x`.

use alloc::vec::Vec;

use headtime_units::Angle;

use super::divider::Divider;
use super::order::{TrackPlace, ZoneTracks};

#[derive(Clone, Debug)]
pub(crate) struct LayoutZone {
    /// The first LBA, and the first behind the zone; what the spares leave.
    pub(crate) first_lba: u64,
    pub(crate) end_lba: u64,
    pub(crate) first_cylinder: u32,
    pub(crate) end_cylinder: u32,
    /// Tracks of all zones before.
    pub(crate) first_track: u64,
    pub(crate) tracks: ZoneTracks,
    sectors: Divider,
    /// The first track's sector 0.
    first_angle: Angle,
    /// 2⁶⁴ / sectors per track, rounded up.
    turn_per_sector: u64,
    /// Slipped physical sectors, rising, and their keys.
    slips: Vec<u64>,
    slip_keys: Vec<u64>,
}

/// Where an LBA lies.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Located<'a> {
    pub(crate) zone: &'a LayoutZone,
    /// Physical sector from the zone's start.
    pub(crate) physical: u64,
    /// Track from the zone's first, and sector on it.
    pub(crate) number: u64,
    pub(crate) sector: u32,
    pub(crate) place: TrackPlace,
    /// Slips of the zone that lie before.
    slips_before: usize,
}

impl LayoutZone {
    /// `slips` are distinct and rising, no more than the zone has spares.
    pub(crate) fn new(first: ZoneStart, lbas: u64, cylinders: u32, sectors_per_track: u32, tracks: ZoneTracks, slips: Vec<u64>) -> Self {
        let slip_keys = slips.iter().zip(0..).map(|(slip, before)| slip - before).collect();
        Self {
            first_lba: first.lba,
            end_lba: first.lba + lbas,
            first_cylinder: first.cylinder,
            end_cylinder: first.cylinder + cylinders,
            first_track: first.track,
            tracks,
            sectors: Divider::new(u64::from(sectors_per_track)),
            first_angle: first.angle,
            turn_per_sector: (u64::MAX / u64::from(sectors_per_track)).wrapping_add(1),
            slips,
            slip_keys,
        }
    }

    pub(crate) fn sectors_per_track(&self) -> u32 {
        self.sectors.divisor() as u32
    }

    /// The angle `offset` sectors after the zone's first track's sector 0: the same as `Angle::from_fraction(offset, sectors per track)`
    /// from there, because rounding up by less than one part in 2⁶⁴ is lost below the last bit as long as sectors² < 2³².
    pub(crate) fn angle(&self, offset: u64) -> Angle {
        let (_, within) = self.sectors.div_rem(offset);
        self.first_angle + Angle::from_raw((within.wrapping_mul(self.turn_per_sector) >> 32) as u32)
    }

    pub(crate) fn locate(&self, lba: u64) -> Located<'_> {
        let offset = lba - self.first_lba;
        let slips_before = if self.slip_keys.is_empty() { 0 } else { self.slip_keys.partition_point(|key| *key <= offset) };
        let physical = offset + slips_before as u64;
        let (number, sector) = self.sectors.div_rem(physical);
        Located { zone: self, physical, number, sector: sector as u32, place: self.tracks.place(number), slips_before }
    }

    /// The LBA of a physical sector; `None` for a slipped sector and a spare.
    pub(crate) fn lba_at(&self, physical: u64) -> Option<u64> {
        let before = self.slips_before(physical);
        let lba = self.first_lba + physical - before as u64;
        (self.slips.get(before) != Some(&physical) && lba < self.end_lba).then_some(lba)
    }

    /// The first LBA that lies on or behind a physical sector, the zone's end when none does.
    pub(crate) fn first_lba_from(&self, physical: u64) -> u64 {
        (self.first_lba + physical - self.slips_before(physical) as u64).min(self.end_lba)
    }

    fn slips_before(&self, physical: u64) -> usize {
        self.slips.partition_point(|slip| *slip < physical)
    }
}

/// Where a zone begins, in every count.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ZoneStart {
    pub(crate) lba: u64,
    pub(crate) cylinder: u32,
    pub(crate) track: u64,
    pub(crate) angle: Angle,
}

impl Located<'_> {
    /// Sectors from the zone's first track's sector 0 in rotation: what [`LayoutZone::angle`] takes.
    pub(crate) fn offset(&self) -> u64 {
        self.place.skew + u64::from(self.sector)
    }

    pub(crate) fn angle(&self) -> Angle {
        self.zone.angle(self.offset())
    }

    pub(crate) fn cylinder(&self) -> u32 {
        self.zone.first_cylinder + self.place.cylinder
    }

    /// The LBAs from here to the end of the track or of the zone, at most `wanted`, and the sectors they span on the track: more than
    /// LBAs when slipped sectors lie between. `wanted` is at least 1.
    pub(crate) fn run(&self, wanted: u64) -> (u64, u64) {
        let lba = self.zone.first_lba + self.physical - self.slips_before as u64;
        let track_end = (self.number + 1) * self.zone.sectors.divisor();
        let wanted = wanted.min(self.zone.end_lba - lba);
        let mut end = self.physical + wanted;
        let mut slipped = 0;
        for slip in self.zone.slips.get(self.slips_before..).unwrap_or(&[]) {
            if *slip >= end.min(track_end) {
                break;
            }
            end += 1;
            slipped += 1;
        }
        if end <= track_end {
            return (wanted, end - self.physical);
        }
        // The track ends first. Slips at its very end are not passed over for this run.
        let lbas = track_end - self.physical - slipped;
        let mut span_end = track_end;
        for slip in self.zone.slips[..self.slips_before + slipped as usize].iter().rev() {
            if *slip + 1 != span_end {
                break;
            }
            span_end -= 1;
        }
        (lbas, span_end - self.physical)
    }

    /// As many LBAs from here as lie side by side without a slipped sector between, at most `wanted`; track ends do not count.
    pub(crate) fn unbroken(&self, wanted: u64) -> u64 {
        let next_slip = self.zone.slips.get(self.slips_before).copied().unwrap_or(u64::MAX);
        wanted.min(next_slip - self.physical)
    }
}
