//! [`LayoutZone`]: one zone prepared for look-ups: its tracks, groups of spares, defects and
//! angles.
//!
//! The zone's LBAs fill its *places* in order: all sectors except spares and slipped ones. The
//! reserved sectors at its start are places without an LBA. So LBA → place → (group, place within
//! it) → physical sector → band, surface, track, sector.
//!
//! A look-up returns [`Located`]; [`LayoutZone::stretch`] also returns the number of following
//! addresses on the track.

use alloc::vec::Vec;

use super::defects::{RemapTable, SlipTable, SpareGroups};
use super::divider::Divider;
use super::order::ZoneTracks;
use super::{Located, TrackStretch};

#[derive(Clone, Debug)]
pub(crate) struct LayoutZone {
    /// The first LBA, and the first one after the zone.
    pub(crate) first_lba: u64,
    pub(crate) end_lba: u64,
    /// Places before that of the first LBA.
    reserved: u64,
    /// Places up to that of the last LBA.
    end_place: u64,
    pub(crate) first_cylinder: u32,
    pub(crate) end_cylinder: u32,
    /// Cylinders without data before the first one, and tracks before those.
    pub(crate) skipped_cylinders: u32,
    pub(crate) tracks_before: u64,
    /// Sector 0 of the first track, in units of 2⁻⁶⁴ revolution.
    first_turn: u64,
    pub(crate) tracks: ZoneTracks,
    pub(crate) groups: SpareGroups,
    group_sectors: Divider,
    group_places: Divider,
    slips: SlipTable,
    remaps: RemapTable,
}

/// The start of a zone in all counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ZoneStart {
    pub(crate) lba: u64,
    /// The first cylinder after the previous zone.
    pub(crate) cylinder: u32,
    pub(crate) track: u64,
    pub(crate) turn: u64,
}

/// The parts of a zone besides its tracks.
#[derive(Clone, Debug)]
pub(crate) struct ZoneParts {
    pub(crate) skipped_cylinders: u32,
    pub(crate) cylinders: u32,
    pub(crate) reserved: u64,
    pub(crate) mapped: u64,
    pub(crate) groups: SpareGroups,
    /// Distinct and ascending, none of them reserved, at most as many per group as it has spares.
    pub(crate) slips: Vec<u64>,
    pub(crate) remaps: RemapTable,
}

impl LayoutZone {
    pub(crate) fn new(first: ZoneStart, tracks: ZoneTracks, parts: ZoneParts) -> Self {
        let first_cylinder = first.cylinder + parts.skipped_cylinders;
        Self {
            first_lba: first.lba,
            end_lba: first.lba + parts.mapped,
            reserved: parts.reserved,
            end_place: parts.reserved + parts.mapped,
            first_cylinder,
            end_cylinder: first_cylinder + parts.cylinders,
            skipped_cylinders: parts.skipped_cylinders,
            tracks_before: first.track,
            first_turn: first.turn,
            tracks,
            groups: parts.groups,
            group_sectors: Divider::new(parts.groups.sectors),
            group_places: Divider::new(parts.groups.places),
            slips: SlipTable::new(parts.slips, &parts.groups),
            remaps: parts.remaps,
        }
    }

    #[inline(always)]
    pub(crate) fn locate(&self, lba: u64) -> Located {
        let home = self.home(lba - self.first_lba + self.reserved).physical;
        if !self.remaps.is_empty()
            && let Some(spare) = self.remaps.spare_of(home)
        {
            return self.located(spare);
        }
        self.located(home)
    }

    /// The position of an LBA and the LBAs from there to the end of the track or group, or to a
    /// remapped one, at most `max` (at least 1).
    #[inline(always)]
    pub(crate) fn stretch(&self, lba: u64, max: u64) -> TrackStretch {
        let place = lba - self.first_lba + self.reserved;
        let home = self.home(place);
        let mut max = max.min(home.group_end - place);
        if !self.remaps.is_empty() {
            if let Some(spare) = self.remaps.spare_of(home.physical) {
                return TrackStretch { at: self.located(spare), lbas: 1, span: 1, moved: true };
            }
            if let Some(next) = self.remaps.next_home(home.physical) {
                max = max.min(self.place_from(next) - place);
            }
        }
        let at = self.located(home.physical);
        let left = u64::from(at.sectors_per_track - at.sector);
        if self.slips.is_empty() {
            let lbas = max.min(left);
            return TrackStretch { at, lbas, span: lbas, moved: false };
        }
        let (lbas, span) = self.over_slips(&home, max, home.physical + left);
        TrackStretch { at, lbas, span, moved: false }
    }

    /// The number of LBAs from here on without a slipped sector in between, at most `max`; nothing
    /// else is checked.
    pub(crate) fn unbroken(&self, lba: u64, max: u64) -> u64 {
        let home = self.home(lba - self.first_lba + self.reserved);
        let next_slip = self.slips.from(home.slips_before).first().copied().unwrap_or(u64::MAX);
        max.min(next_slip - home.physical)
    }

    /// The LBA of a physical sector; `None` for slipped, reserved and unused spare sectors, and for
    /// remapped ones.
    pub(crate) fn lba_at(&self, physical: u64) -> Option<u64> {
        let home = match self.remaps.home_of(physical) {
            Some(home) => home,
            None if self.remaps.spare_of(physical).is_some() => return None,
            None => physical,
        };
        let (group, within) = self.group_of(home);
        let within =
            within - (self.slips.before_sector(home) - self.slips.before_group(group)) as u64;
        let place = group * self.groups.places + within;
        let mapped = within < self.groups.places
            && (self.reserved..self.end_place).contains(&place)
            && !self.slips.contains(home);
        mapped.then(|| place - self.reserved + self.first_lba)
    }

    /// The first LBA whose home is at or after a physical sector; the zone's end if there is none.
    pub(crate) fn first_lba_from(&self, physical: u64) -> u64 {
        self.place_from(physical).clamp(self.reserved, self.end_place) - self.reserved
            + self.first_lba
    }

    /// The LBAs on spares from one physical sector up to but not including another, with their
    /// spares.
    pub(crate) fn remapped_to(
        &self,
        from: u64,
        until: u64,
    ) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.remaps
            .spares_within(from, until)
            .iter()
            .filter_map(|(spare, _)| Some((*spare, self.lba_at(*spare)?)))
    }

    /// True if a sector of the zone is remapped.
    pub(crate) fn has_remaps(&self) -> bool {
        !self.remaps.is_empty()
    }

    /// The start angle of a sector of a track, in units of 2⁻⁶⁴ revolution; a cylinder before the
    /// zone counts as its first one.
    pub(crate) fn sector_turn_at(&self, cylinder: u32, head: u16, sector: u32) -> u64 {
        let track = self.tracks.track_turn(cylinder.saturating_sub(self.first_cylinder), head);
        self.first_turn
            .wrapping_add(track)
            .wrapping_add(self.tracks.sector_turn_of(head).wrapping_mul(u64::from(sector)))
    }

    /// The angle of the next zone's first track, in units of 2⁻⁶⁴ revolution.
    pub(crate) fn turn_of_next_zone(&self) -> u64 {
        self.first_turn.wrapping_add(self.tracks.turn_of_next_zone())
    }

    /// Remaps the LBA's sector to the next free spare of its group, else of the nearest group with
    /// one (the earlier one of two).
    pub(crate) fn remap(&mut self, lba: u64) -> Option<Located> {
        let home = self.home(lba - self.first_lba + self.reserved).physical;
        let (own, _) = self.group_of(home);
        let others = (1..self.groups.count)
            .flat_map(|away| [own.checked_sub(away), own.checked_add(away)])
            .flatten();
        let mut groups =
            core::iter::once(own).chain(others.filter(|group| *group < self.groups.count));
        let spare = groups.find_map(|group| self.free_spare(group))?;
        self.remaps.insert(home, spare);
        Some(self.located(spare))
    }

    fn free_spare(&self, group: u64) -> Option<u64> {
        let start = group * self.groups.sectors;
        let end = (start + self.groups.sectors).min(self.tracks.sectors());
        let last_place = ((group + 1) * self.groups.places).min(self.end_place).checked_sub(1)?;
        let first_spare = self.home(last_place).physical + 1;
        (first_spare.max(start)..end)
            .find(|spare| !self.slips.contains(*spare) && !self.remaps.taken(*spare))
    }

    /// The physical sector of a place.
    #[inline(always)]
    fn home(&self, place: u64) -> Home {
        if self.groups.count == 1 {
            let slips_before = self.slips.before_place(place);
            return Home {
                physical: place + slips_before as u64,
                slips_before,
                group_end: self.end_place,
            };
        }
        let (group, within) = self.group_places.div_rem(place);
        let slips_before = self.slips.before_place(place);
        let slipped = slips_before - self.slips.before_group(group);
        let group_end = (place - within + self.groups.places).min(self.end_place);
        Home {
            physical: group * self.groups.sectors + within + slipped as u64,
            slips_before,
            group_end,
        }
    }

    /// The number of places before a physical sector.
    fn place_from(&self, physical: u64) -> u64 {
        let (group, within) = self.group_of(physical);
        let slipped = self.slips.before_sector(physical) - self.slips.before_group(group);
        group * self.groups.places + (within - slipped as u64).min(self.groups.places)
    }

    /// The group of a physical sector and its number there; the end of the zone belongs to the last
    /// group.
    fn group_of(&self, physical: u64) -> (u64, u64) {
        if self.groups.count == 1 {
            return (0, physical);
        }
        let (group, within) = self.group_sectors.div_rem(physical);
        if group < self.groups.count {
            (group, within)
        } else {
            (group - 1, within + self.groups.sectors)
        }
    }

    #[inline(always)]
    fn located(&self, physical: u64) -> Located {
        let place = self.tracks.place(physical);
        Located {
            cylinder: self.first_cylinder + place.cylinder,
            turn: self.first_turn.wrapping_add(place.turn),
            ..place
        }
    }

    /// At most `max` LBAs from `home` on up to `track_end`, and the number of sectors including
    /// slipped ones in between.
    fn over_slips(&self, home: &Home, max: u64, track_end: u64) -> (u64, u64) {
        let mut end = home.physical + max;
        let mut slipped = 0;
        for slip in self.slips.from(home.slips_before) {
            if *slip >= end.min(track_end) {
                break;
            }
            end += 1;
            slipped += 1;
        }
        if end <= track_end {
            return (max, end - home.physical);
        }
        // The track ends first. Slips at its very end are not passed over for this stretch.
        let lbas = track_end - home.physical - slipped;
        let mut span_end = track_end;
        for slip in self.slips.until(home.slips_before + slipped as usize).iter().rev() {
            if *slip + 1 != span_end {
                break;
            }
            span_end -= 1;
        }
        (lbas, span_end - home.physical)
    }
}

/// The physical sector of an LBA without remapping.
#[derive(Clone, Copy, Debug)]
struct Home {
    physical: u64,
    /// Slips of the zone before it, in all groups.
    slips_before: usize,
    /// The first place after the group.
    group_end: u64,
}
