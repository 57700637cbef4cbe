//! [`ZoneModel`]: a zone as far as it is known, and the angles that it predicts.
//!
//! An address lies on a *physical sector* of its zone: its number from the zone's first address,
//! plus the sectors skipped before it. Physical sectors fill tracks. The steps of the angle from
//! track to track follow the [`Pattern`]. Example, 4 heads: steps a a a b a a a b …, where a is the
//! track skew and b the cylinder skew.

use serde::{Deserialize, Serialize};

use crate::numbers::{FAR, min_squares, part, spread, wrap};

/// The pattern of steps of three kinds: `unit − 1` times a, then b, and so on; every `units`-th b
/// is a c.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Pattern {
    /// Tracks from one b (or c) to the next; [`Pattern::NEVER`] if all steps are alike.
    pub(crate) unit: u64,
    /// Units from one c to the next.
    pub(crate) units: u64,
}

/// The number of readings kept for the fit while a zone is walked.
const MAX_READINGS: usize = 240;
/// The smallest standard deviation of a reading, in sectors (guess).
const MIN_SECTORS: f64 = 0.1;
/// The most tracks of a unit that may be the surfaces of a cylinder; drives have at most 24 heads.
pub(crate) const MAX_HEADS: u64 = 40;

impl Pattern {
    pub(crate) const NEVER: u64 = 1 << 40;
    /// All steps alike.
    pub(crate) const PLAIN: Self = Self { unit: Self::NEVER, units: Self::NEVER };

    /// The number of tracks after which the pattern repeats.
    pub(crate) fn period(self) -> u64 {
        if self.units < Self::NEVER { self.unit * self.units } else { self.unit }
    }

    /// True if a unit is a row of cylinders on one surface, rather than the surfaces of one
    /// cylinder.
    pub(crate) fn in_bands(self) -> bool {
        self.units < Self::NEVER
    }

    /// True if a unit is a row of cylinders on one surface, and the number of surfaces is not
    /// known.
    pub(crate) fn hides_surfaces(self) -> bool {
        !self.in_bands() && (MAX_HEADS + 1..Self::NEVER).contains(&self.unit)
    }

    /// The number of steps of each kind up to a track. A narrower last band is given by its first
    /// track and its width.
    pub(crate) fn steps_to(self, track: u64, last_band: Option<(u64, u64)>) -> [u64; 3] {
        let plain = |unit: u64, track: u64| {
            let units = track / unit;
            let supers = if self.in_bands() { units / self.units } else { 0 };
            [track - units, units - supers, supers]
        };
        match last_band {
            Some((first, width)) if track > first => {
                let (before, within) =
                    (plain(self.unit, first), plain(width.max(1), track - first));
                core::array::from_fn(|kind| before[kind] + within[kind])
            }
            _ => plain(self.unit, track),
        }
    }
}

/// Groups of tracks with spares of their own at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SpareGroups {
    /// Addresses of each group.
    pub(crate) lbas: u64,
    /// Sectors skipped at the end of each group.
    pub(crate) spares: u64,
}

/// The groups of a zone, as the zones after it may have them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UsualGroups {
    pub(crate) tracks: u64,
    /// Sectors skipped at the end of each group.
    pub(crate) spares: u64,
    /// Sectors per track of the zone.
    pub(crate) length: u64,
}

impl UsualGroups {
    /// The spares that each group of a zone of `sectors` per track may have, the likelier number
    /// first: as many, or the same share of the group. Whole tracks of spares are as many tracks in
    /// each zone.
    pub(crate) fn spares_in(self, sectors: u64) -> [u64; 2] {
        let share = self.spares * sectors / self.length;
        let are_tracks = self.spares.is_multiple_of(self.length);
        if are_tracks { [share, self.spares] } else { [self.spares, share] }
    }
}

/// Skipped sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Skip {
    /// The first address after them.
    pub(crate) lba: u64,
    pub(crate) sectors: u64,
    /// Their place is only approximate.
    pub(crate) approximate: bool,
}

/// A zone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ZoneModel {
    pub(crate) pattern: Pattern,
    pub(crate) first_lba: u64,
    /// The first address after it, once known.
    pub(crate) end_lba: Option<u64>,
    /// Sectors per track of the next zone, if its first tracks showed it.
    pub(crate) next_sectors: Option<u64>,
    pub(crate) sectors_per_track: u64,
    /// Physical sectors before the first address, fewer than those of a group.
    pub(crate) reserved: u64,
    /// The angle of the first track, in revolutions.
    pub(crate) origin: f64,
    /// The steps a, b, c, in revolutions.
    pub(crate) steps: [f64; 3],
    /// The steps of the zone before, where those here are the same skew in time, each with its
    /// weight relative to a reading.
    #[serde(default)]
    pub(crate) tied: [(f64, f64); 3],
    /// The first track and the width of a narrower last band.
    pub(crate) last_band: Option<(u64, u64)>,
    pub(crate) groups: Option<SpareGroups>,
    /// The groups are assumed from the zone before; none of their ends was reached.
    pub(crate) groups_presumed: bool,
    /// Tracks of the groups of a zone before, and the spares that those of this one may have.
    #[serde(default)]
    pub(crate) usual_groups: Option<(u64, [u64; 2])>,
    /// The address after the last spares that the zone was found to continue after.
    #[serde(default)]
    pub(crate) rejoined_at: Option<u64>,
    /// Rising by address. If only the number of slips between two places is known, they are spread
    /// evenly between them.
    pub(crate) skips: Vec<Skip>,
    /// The number of sectors skipped by the first skips.
    sums: Vec<u64>,
    /// Addresses, rising, of first sectors of tracks up to which the skipped sectors were counted.
    pub(crate) counted_at: Vec<u64>,
    /// The number of tracks that deviated without an explanation.
    pub(crate) unexplained: u64,
    /// The number of tracks from the first on that are as predicted.
    pub(crate) checked: u64,
    /// The first track not examined and a later one that does not fit. If they are equal, it is the
    /// first that does not fit.
    #[serde(default)]
    pub(crate) mismatch: Option<(u64, u64)>,
    /// Addresses and the angles at which they completed, for the fit of the steps.
    pub(crate) readings: Vec<(u64, f64)>,
    /// Readings all over the zone so far.
    pub(crate) fit_readings: Vec<(u64, f64)>,
    /// The error of the step between groups of tracks, in revolutions.
    pub(crate) step_error: f64,
    /// The steps were fitted to tracks all over the zone.
    pub(crate) fitted: bool,
    /// The standard deviation of tracks from the fit, in revolutions.
    pub(crate) deviation: f64,
    /// The zone stands for addresses whose tracks follow no known pattern; its predictions are
    /// wrong. While it has no end, `checked` is the number of tracks to leave out at the next try
    /// to resume.
    #[serde(default)]
    pub(crate) unknown: bool,
    /// The lowest address at which a piece after an unknown range may begin.
    #[serde(default)]
    pub(crate) back_to: Option<u64>,
}

impl ZoneModel {
    pub(crate) fn new(pattern: Pattern, first_lba: u64, sectors_per_track: u64) -> Self {
        Self {
            pattern,
            first_lba,
            end_lba: None,
            next_sectors: None,
            sectors_per_track,
            reserved: 0,
            origin: 0.0,
            steps: [0.0; 3],
            tied: [(0.0, 0.0); 3],
            last_band: None,
            groups: None,
            groups_presumed: false,
            usual_groups: None,
            rejoined_at: None,
            skips: Vec::new(),
            sums: vec![0],
            counted_at: Vec::new(),
            unexplained: 0,
            checked: 0,
            mismatch: None,
            readings: Vec::new(),
            fit_readings: Vec::new(),
            step_error: 0.0,
            fitted: false,
            deviation: 0.0,
            unknown: false,
            back_to: None,
        }
    }

    /// The physical sector of an address of the zone.
    pub(crate) fn physical(&self, lba: u64) -> u64 {
        let within = lba - self.first_lba;
        let upto = self.skipped_up_to(lba);
        match self.groups {
            None => within + self.reserved + upto,
            Some(groups) => {
                let number = (within + self.reserved) / groups.lbas;
                // Sectors skipped within a group reduce its own spares.
                within + self.reserved + number * groups.spares + upto
                    - self.skipped_up_to(self.group_start(groups, number))
            }
        }
    }

    /// The first address of a group. Reserved sectors are those of the first one.
    pub(crate) fn group_start(&self, groups: SpareGroups, number: u64) -> u64 {
        self.first_lba + (number * groups.lbas).saturating_sub(self.reserved)
    }

    /// True if a track is the last one with addresses of a group with its own spares.
    pub(crate) fn ends_group(&self, track: u64) -> bool {
        self.begins_group(self.track_start(track + 1))
    }

    /// True if an address is the first one of a group with its own spares.
    pub(crate) fn begins_group(&self, lba: u64) -> bool {
        let within = lba.max(self.first_lba) - self.first_lba;
        self.groups.is_some_and(|groups| (within + self.reserved).is_multiple_of(groups.lbas))
    }

    /// The number of the first track with addresses.
    pub(crate) fn first_track(&self) -> u64 {
        self.reserved / self.sectors_per_track
    }

    /// Lets the first track with addresses have a number that differs from its own by a multiple of
    /// the pattern's period. Its angles stay the same.
    pub(crate) fn begin_with_track(&mut self, number: u64) {
        let before = self.first_track();
        if number == before {
            return;
        }
        let angle = self.track_angle(before);
        let moved = |track: u64| track.max(before) + number - before;
        self.reserved += number * self.sectors_per_track;
        self.reserved -= before * self.sectors_per_track;
        self.origin = part(self.origin + angle - self.track_angle(number));
        self.checked = moved(self.checked);
        self.mismatch = self.mismatch.map(|(good, bad)| (moved(good), moved(bad)));
        self.last_band = self.last_band.map(|(first, width)| (moved(first), width));
    }

    fn skipped_up_to(&self, lba: u64) -> u64 {
        self.sums[self.skips.partition_point(|skip| skip.lba <= lba)]
    }

    /// Adds skipped sectors before an address.
    pub(crate) fn skip(&mut self, skip: Skip) {
        match self.skips.binary_search_by_key(&skip.lba, |skip| skip.lba) {
            Ok(place) => {
                self.skips[place].sectors += skip.sectors;
                self.skips[place].approximate &= skip.approximate;
            }
            Err(place) => self.skips.insert(place, skip),
        }
        self.sum_up();
    }

    /// Replaces the approximate skips after `from` and up to `to` by so many slips, spread evenly.
    pub(crate) fn spread(&mut self, from: u64, to: u64, slips: u64) {
        self.skips.retain(|skip| !skip.approximate || skip.lba <= from || skip.lba > to);
        for number in 0..slips {
            let lba = from
                + 1
                + (u128::from(to - from - 1) * u128::from(2 * number + 1) / u128::from(2 * slips))
                    as u64;
            let place = self.skips.partition_point(|skip| skip.lba < lba);
            match self.skips.get_mut(place).filter(|skip| skip.lba == lba && skip.approximate) {
                Some(skip) => skip.sectors += 1,
                None => self.skips.insert(place, Skip { lba, sectors: 1, approximate: true }),
            }
        }
        self.sum_up();
    }

    /// The number of approximate skips after `from` and up to `to`.
    pub(crate) fn approximate_between(&self, from: u64, to: u64) -> u64 {
        let first = self.skips.partition_point(|skip| skip.lba <= from);
        self.skips[first..]
            .iter()
            .take_while(|skip| skip.lba <= to)
            .filter(|skip| skip.approximate)
            .map(|skip| skip.sectors)
            .sum()
    }

    pub(crate) fn retain_skips(&mut self, keep: impl Fn(&Skip) -> bool) {
        self.skips.retain(keep);
        self.sum_up();
    }

    fn sum_up(&mut self) {
        self.sums.clear();
        self.sums.push(0);
        let mut sum = 0;
        for skip in &self.skips {
            sum += skip.sectors;
            self.sums.push(sum);
        }
    }

    /// Records that the number of skips up to an address is right.
    pub(crate) fn note_counted(&mut self, lba: u64) {
        if let Err(place) = self.counted_at.binary_search(&lba) {
            self.counted_at.insert(place, lba);
        }
    }

    /// The last address, at or before one, up to which the skips were counted: a counted one, or
    /// the beginning of a group.
    pub(crate) fn counted_from(&self, lba: u64) -> u64 {
        let group = self.groups.map_or(self.first_lba, |groups| {
            self.group_start(groups, (lba - self.first_lba + self.reserved) / groups.lbas)
        });
        let place = self.counted_at.partition_point(|counted_at| *counted_at <= lba);
        place.checked_sub(1).map_or(group, |place| self.counted_at[place].max(group))
    }

    /// The variance of the number of sectors skipped before an address, where slips lie anywhere
    /// between two counts.
    fn slip_variance(&self, lba: u64) -> f64 {
        let from = self.counted_from(lba);
        let place = self.counted_at.partition_point(|counted_at| *counted_at <= lba);
        let Some(to) = self.counted_at.get(place).copied() else { return 0.0 };
        if self.counted_from(to - 1) > lba {
            return 0.0; // Another group.
        }
        let slips = self.skipped_up_to(to - 1) - self.skipped_up_to(from);
        let share = (lba - from) as f64 / (to - from) as f64;
        slips as f64 * share * (1.0 - share)
    }

    /// The first address on or after a physical sector.
    pub(crate) fn lba_from(&self, physical: u64) -> u64 {
        // The bounds are those with no skips at all, and with all skips before it.
        let mut high = self.first_lba + physical.saturating_sub(self.reserved);
        let mut low = self.first_lba;
        while low < high {
            let middle = low + (high - low) / 2;
            if self.physical(middle) < physical { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// The first address of a track.
    pub(crate) fn track_start(&self, track: u64) -> u64 {
        self.lba_from(track * self.sectors_per_track)
    }

    pub(crate) fn track_of(&self, lba: u64) -> u64 {
        self.physical(lba) / self.sectors_per_track
    }

    /// True if a track lies wholly within the zone.
    pub(crate) fn holds_track(&self, track: u64, capacity: u64) -> bool {
        self.track_start(track + 1) <= self.end_lba.unwrap_or(capacity)
    }

    /// The track, or the last one before it that has addresses: the last tracks of a group may be
    /// spares.
    pub(crate) fn used_track(&self, track: u64) -> u64 {
        let end = self.track_start(track + 1);
        if self.track_start(track) < end {
            track
        } else {
            self.track_of(end.max(self.first_lba + 1) - 1)
        }
    }

    /// An address in the middle of a track, or of the part of it that spares leave.
    pub(crate) fn middle_of(&self, track: u64) -> u64 {
        let middle = self.lba_from(track * self.sectors_per_track + self.sectors_per_track / 2);
        let (start, end) = (self.track_start(track), self.track_start(track + 1));
        if middle < end || start == end { middle } else { start + (end - start) / 2 }
    }

    /// The angle of a track's first sector less one sector: a reading less
    /// [`ZoneModel::track_part`].
    pub(crate) fn track_angle(&self, track: u64) -> f64 {
        let counts = self.pattern.steps_to(track, self.last_band);
        part(
            self.origin
                + counts
                    .iter()
                    .zip(self.steps)
                    .map(|(count, step)| part(*count as f64 * step))
                    .sum::<f64>(),
        )
    }

    /// The part of the revolution from a track's beginning to the end of a sector.
    pub(crate) fn track_part(&self, lba: u64) -> f64 {
        (self.physical(lba) % self.sectors_per_track + 1) as f64 / self.sectors_per_track as f64
    }

    /// The angle at which the read of an address completes.
    pub(crate) fn angle(&self, lba: u64) -> f64 {
        part(self.track_angle(self.track_of(lba)) + self.track_part(lba))
    }

    /// Adds the angle of a track to the readings, and fits.
    pub(crate) fn add_angle(&mut self, track: u64, angle: f64) {
        let lba = self.middle_of(track);
        self.add_reading(lba, part(angle + self.track_part(lba)));
    }

    /// The angle at which the read of an address would complete if it lay on a track.
    pub(crate) fn angle_on(&self, track: u64, lba: u64) -> f64 {
        let sectors = (self.physical(lba) + 1) as f64 - (track * self.sectors_per_track) as f64;
        part(self.track_angle(track) + sectors / self.sectors_per_track as f64)
    }

    /// Fits to the readings that were added last.
    pub(crate) fn fit_last_readings(&mut self) {
        if let Some((lba, turns)) = self.readings.pop() {
            self.add_reading(lba, turns);
        }
    }

    /// Adds the angle at which an address completed to the readings, and fits.
    pub(crate) fn add_reading(&mut self, lba: u64, turns: f64) {
        self.readings.push((lba, turns));
        if self.readings.len() > MAX_READINGS {
            let mut number = 0;
            self.readings.retain(|_| {
                number += 1;
                number % 2 == 1
            });
        }
        self.fit();
    }

    /// Fits the origin and the steps to the readings by least squares, without outliers.
    pub(crate) fn fit(&mut self) {
        let off: Vec<f64> =
            self.readings.iter().map(|(lba, turns)| wrap(turns - self.angle(*lba))).collect();
        let allowed = if off.len() < 8 { 0.5 } else { (FAR * spread(&off)).max(0.003) };
        let middle = crate::numbers::median(&off);
        let variance = (self.deviation * self.sectors_per_track as f64).max(MIN_SECTORS).powi(2);
        let mut rows: Vec<([f64; 4], f64)> = self
            .readings
            .iter()
            .zip(&off)
            .filter(|(_, off)| (*off - middle).abs() <= allowed)
            .map(|((lba, _), off)| {
                let [a, b, c] = self.pattern.steps_to(self.track_of(*lba), self.last_band);
                let weight = 1.0 / libm::sqrt(1.0 + self.slip_variance(*lba) / variance);
                ([1.0, a as f64, b as f64, c as f64].map(|count| weight * count), weight * off)
            })
            .collect();
        for (kind, (step, weight)) in
            self.tied.into_iter().enumerate().filter(|(_, (_, weight))| *weight > 0.0)
        {
            let mut row = [0.0; 4];
            row[kind + 1] = weight;
            rows.push((row, weight * wrap(step - self.steps[kind])));
        }
        // A reading is off by some thousandths of a revolution; a step that no reading shows stays
        // as it is.
        let [origin, a, b, c] = min_squares(&rows, [1e-9, 1e-6, 1e-6, 1e-6]);
        self.origin = part(self.origin + origin);
        for (step, change) in self.steps.iter_mut().zip([a, b, c]) {
            *step = part(*step + change);
        }
        let off: Vec<f64> =
            self.readings.iter().map(|(lba, turns)| wrap(turns - self.angle(*lba))).collect();
        self.deviation = spread(&off);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_counted_by_kind_and_a_narrow_last_band_has_its_own_rhythm() {
        let bands = Pattern { unit: 3, units: 2 };
        // a a b a a c | a a b a a c | …
        assert_eq!(bands.steps_to(5, None), [4, 1, 0]);
        assert_eq!(bands.steps_to(6, None), [4, 1, 1]);
        assert_eq!(bands.steps_to(13, None), [9, 2, 2]);
        // The second band of width 2: a b a.
        assert_eq!(bands.steps_to(9, Some((6, 2))), [4 + 2, 1 + 1, 1]);
        let plain = Pattern { unit: 4, units: Pattern::NEVER };
        assert_eq!(plain.steps_to(9, None), [7, 2, 0]);
        assert_eq!((plain.period(), bands.period()), (4, 6));
    }

    #[test]
    fn addresses_and_physical_sectors_belong_together_over_skips_and_groups() {
        let mut zone = ZoneModel::new(Pattern { unit: 2, units: Pattern::NEVER }, 1_000, 10);
        zone.reserved = 3;
        zone.skip(Skip { lba: 1_055, sectors: 3, approximate: false });
        zone.skip(Skip { lba: 1_020, sectors: 2, approximate: false });
        zone.groups = Some(SpareGroups { lbas: 200, spares: 5 });
        for lba in 1_000..1_900 {
            assert_eq!(zone.lba_from(zone.physical(lba)), lba);
        }
        // The first group has 197 addresses.
        assert_eq!(
            (zone.physical(1_019), zone.physical(1_020), zone.physical(1_197)),
            (22, 25, 205)
        );
        assert_eq!(zone.lba_from(24), 1_020);
    }

    #[test]
    fn steps_come_out_of_readings() {
        let mut truth = ZoneModel::new(Pattern { unit: 4, units: Pattern::NEVER }, 0, 100);
        (truth.origin, truth.steps) = (0.25, [0.19, 0.34, 0.0]);
        let mut zone = truth.clone();
        (zone.origin, zone.steps) = (0.24, [0.192, 0.337, 0.0]);
        for track in [0, 1, 2, 3, 4, 8, 16, 32, 64, 128, 256] {
            let lba = track * 100 + track % 90;
            zone.add_reading(lba, truth.angle(lba));
        }
        assert!(
            (0..2_000)
                .all(|track| wrap(zone.track_angle(track) - truth.track_angle(track)).abs() < 1e-4),
            "{:?}",
            zone.steps
        );
    }
}
