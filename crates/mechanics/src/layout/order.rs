//! [`ZoneTracks`]: the order of a zone's tracks, the position of each sector, and the accumulated
//! skews.
//!
//! All four orders share one scheme: the zone is divided into *bands* of cylinders, a band is
//! filled *surface* by surface, a surface *step* by step, one cylinder each. Cylinder and
//! serpentine order have bands of one cylinder. The orders differ only in the order of heads and
//! the direction of steps:
//!
//! ```text
//! order              band     surfaces of odd bands steps of odd surfaces between surfaces
//! cylinder           1        from head 0 up        –                     T
//! serpentine         1        from the last down    –                     T
//! surface-serpentine as given from the last down    outwards              T
//! banded             as given from head 0 up        inwards               C (T in a band of one)
//! ```
//!
//! The example is a zone of 4 cylinders × 3 heads, `cylinder.head`, with bands of 2 (C cylinder
//! skew, T track skew, B band skew):
//!
//! ```text
//! number              0   1   2   3   4   5 |  6   7   8   9  10  11
//! surface-serpentine 0.0 1.0 1.1 0.1 0.2 1.2|2.2 3.2 3.1 2.1 2.0 3.0
//! step                  C   T   C   T   C  B    C   T   C   T   C
//! banded             0.0 1.0 0.1 1.1 0.2 1.2|2.0 3.0 2.1 3.1 2.2 3.2
//! step                  C   C   C   C   C  B    C   C   C   C   C
//! ```
//!
//! A sector's number within the zone is divided by the sectors of a band, the remainder by those of
//! a surface, that remainder by those of a track. If surfaces differ in sectors per track, the
//! surface is estimated by division and corrected with the sums up to each surface. Angles are
//! counts of steps times fractions of a revolution (`turns.rs`), so errors do not accumulate.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::Located;
use super::divider::Divider;
use super::turns::{self, FineTurns};
use crate::profile::{TrackOrder, Zone};

/// A track as band, surface within the band, and step on the surface.
#[derive(Clone, Copy, Debug)]
struct TrackSteps {
    band: u64,
    surface: u64,
    step: u64,
}

/// The tracks of one zone in filling order.
#[derive(Clone, Debug)]
pub(crate) struct ZoneTracks {
    heads: u64,
    cylinders: u32,
    /// Of all tracks.
    total_sectors: u64,
    /// Odd bands use the surfaces from the last head down.
    surfaces_alternate: bool,
    /// Odd surfaces of a band are filled outwards.
    steps_alternate: bool,
    /// Bands of the full width; a narrower one may follow.
    full_bands: u64,
    width_divider: Divider,
    band_sectors: Divider,
    /// A full band, and the narrower one.
    bands: [Band; 2],
    /// Sectors of a track if all surfaces are equal.
    sectors: Divider,
    sector_turn: u64,
    step_turn: u64,
    band_turn: u64,
    /// From the last track to the first one of the next zone.
    next_zone_turn: u64,
    /// Only if surfaces differ.
    uneven: Option<Box<UnevenSurfaces>>,
}

/// The properties that depend on the width of a band.
#[derive(Clone, Copy, Debug)]
struct Band {
    /// Cylinders.
    width: u64,
    /// Sectors of one surface; approximate if surfaces differ.
    surface_sectors: Divider,
    /// From the first track of a surface to that of the next one.
    surface_turn: u64,
}

/// Surfaces with different numbers of sectors per track.
#[derive(Clone, Debug)]
struct UnevenSurfaces {
    /// By head.
    sectors: Vec<Divider>,
    sector_turns: Vec<u64>,
    /// Sectors of one step on all previous surfaces, and the total at the end, for bands that go up
    /// and bands that go down.
    before: [Vec<u64>; 2],
}

impl ZoneTracks {
    pub(crate) fn new(
        zone: &Zone,
        heads: u16,
        order: TrackOrder,
        band_cylinders: Option<u32>,
    ) -> Self {
        let in_bands = matches!(order, TrackOrder::SurfaceSerpentine | TrackOrder::Banded);
        let cylinders = u64::from(zone.cylinders);
        let full = if in_bands { u64::from(band_cylinders.unwrap_or(1)).min(cylinders) } else { 1 };
        // Not used without a narrower band; 1 keeps the divisions defined.
        let width = [full, (cylinders % full).max(1)];
        let even = zone.sectors_by_head.first().copied().unwrap_or(zone.sectors_per_track);
        let all_heads = zone.cylinder_sectors(heads);

        let skew = |sectors: f64| FineTurns::of_sectors(sectors, zone.sectors_per_track);
        let (track, cylinder) = (skew(zone.track_skew), skew(zone.cylinder_skew));
        let band =
            if in_bands { skew(zone.band_skew.unwrap_or(zone.cylinder_skew)) } else { cylinder };
        let next_surface =
            |width: u64| if order == TrackOrder::Banded && width > 1 { cylinder } else { track };
        let surface = width.map(|width| cylinder.times(width - 1).plus(next_surface(width)));
        let to_last_surface = |kind: usize| {
            surface[kind].times(u64::from(heads) - 1).plus(cylinder.times(width[kind] - 1))
        };
        let band_turn = to_last_surface(0).plus(band);
        let last_kind = usize::from(cylinders % full != 0);
        let next_zone = band_turn
            .times(cylinders.div_ceil(full) - 1)
            .plus(to_last_surface(last_kind))
            .plus(band);
        let surface_sectors =
            |width: u64| Divider::new((all_heads * width / u64::from(heads)).max(1));
        let band_of = |kind: usize| Band {
            width: width[kind],
            surface_sectors: surface_sectors(width[kind]),
            surface_turn: surface[kind].rounded_up(),
        };
        Self {
            heads: u64::from(heads),
            cylinders: zone.cylinders,
            total_sectors: zone.physical_sectors(heads),
            surfaces_alternate: matches!(
                order,
                TrackOrder::Serpentine | TrackOrder::SurfaceSerpentine
            ),
            steps_alternate: order == TrackOrder::SurfaceSerpentine,
            full_bands: cylinders / full,
            width_divider: Divider::new(full),
            band_sectors: Divider::new(all_heads * full),
            bands: [band_of(0), band_of(1)],
            sectors: Divider::new(u64::from(even)),
            sector_turn: turns::of_one_sector(even),
            step_turn: cylinder.rounded_up(),
            band_turn: band_turn.rounded_up(),
            next_zone_turn: next_zone.rounded_up(),
            uneven: UnevenSurfaces::new(&zone.sectors_by_head).map(Box::new),
        }
    }

    /// The number of tracks.
    pub(crate) fn count(&self) -> u64 {
        u64::from(self.cylinders) * self.heads
    }

    /// Sectors of all tracks.
    pub(crate) fn sectors(&self) -> u64 {
        self.total_sectors
    }

    /// From the zone's first track to the first track after the zone, in units of 2⁻⁶⁴ revolution.
    pub(crate) fn turn_of_next_zone(&self) -> u64 {
        self.next_zone_turn
    }

    /// Sectors of a track of this head.
    pub(crate) fn sectors_of(&self, head: u16) -> u32 {
        self.uneven
            .as_ref()
            .map_or(self.sectors, |uneven| uneven.sectors[usize::from(head)])
            .divisor() as u32
    }

    /// The position of a physical sector of the zone, relative to the zone's first sector.
    #[inline(always)]
    pub(crate) fn place(&self, physical: u64) -> Located {
        let (band, within) = self.band_sectors.div_rem(physical);
        if let Some(uneven) = &self.uneven {
            return self.uneven_place(uneven, band, within);
        }
        if self.bands[0].width == 1 {
            let (surface, sector) = self.sectors.div_rem(within);
            return self.place_of(
                TrackSteps { band, surface, step: 0 },
                sector,
                self.sectors,
                self.sector_turn,
            );
        }
        let (surface, within) = self.band(band).surface_sectors.div_rem(within);
        let (step, sector) = self.sectors.div_rem(within);
        self.place_of(TrackSteps { band, surface, step }, sector, self.sectors, self.sector_turn)
    }

    /// The physical sector that is sector 0 of a track; `cylinder` counts from the zone's first.
    pub(crate) fn first_sector(&self, cylinder: u32, head: u16) -> u64 {
        let steps = self.steps(cylinder, head);
        let width = self.band(steps.band).width;
        let (before, sectors) = match &self.uneven {
            None => (steps.surface * self.sectors.divisor(), self.sectors.divisor()),
            Some(uneven) => (
                uneven.before[self.direction(steps.band)][steps.surface as usize],
                uneven.sectors[usize::from(head)].divisor(),
            ),
        };
        steps.band * self.band_sectors.divisor() + before * width + steps.step * sectors
    }

    /// From the zone's first sector to sector 0 of a track, in units of 2⁻⁶⁴ revolution; `cylinder`
    /// counts from the zone's first.
    pub(crate) fn track_turn(&self, cylinder: u32, head: u16) -> u64 {
        self.turn(self.steps(cylinder, head))
    }

    /// The angle of one sector of a track of this head, in units of 2⁻⁶⁴ revolution.
    pub(crate) fn sector_turn_of(&self, head: u16) -> u64 {
        self.uneven
            .as_ref()
            .map_or(self.sector_turn, |uneven| uneven.sector_turns[usize::from(head)])
    }

    /// The number of a track in filling order.
    pub(crate) fn number(&self, cylinder: u32, head: u16) -> u64 {
        let TrackSteps { band, surface, step } = self.steps(cylinder, head);
        band * self.bands[0].width * self.heads + surface * self.band(band).width + step
    }

    /// Cylinder (from the zone's first) and head of track `number`, which is below
    /// [`ZoneTracks::count`].
    pub(crate) fn track(&self, number: u64) -> (u32, u16) {
        let band_tracks = self.bands[0].width * self.heads;
        let (band, within) = (number / band_tracks, number % band_tracks);
        let width = self.band(band).width;
        let steps = TrackSteps { band, surface: within / width, step: within % width };
        (self.cylinder(steps), self.head(steps))
    }

    #[inline(always)]
    fn place_of(
        &self,
        steps: TrackSteps,
        sector: u64,
        sectors: Divider,
        sector_turn: u64,
    ) -> Located {
        Located {
            cylinder: self.cylinder(steps),
            head: self.head(steps),
            sector: sector as u32,
            sectors_per_track: sectors.divisor() as u32,
            turn: self.turn(steps).wrapping_add(sector.wrapping_mul(sector_turn)),
            sector_turn,
        }
    }

    #[inline(never)]
    fn uneven_place(&self, uneven: &UnevenSurfaces, band: u64, within: u64) -> Located {
        let Band { width, surface_sectors, .. } = *self.band(band);
        let before = &uneven.before[self.direction(band)];
        let mut surface = (surface_sectors.div_rem(within).0 as usize).min(before.len() - 2);
        while before[surface] * width > within {
            surface -= 1;
        }
        while before[surface + 1] * width <= within {
            surface += 1;
        }
        let head = usize::from(self.head(TrackSteps { band, surface: surface as u64, step: 0 }));
        let (step, sector) = uneven.sectors[head].div_rem(within - before[surface] * width);
        self.place_of(
            TrackSteps { band, surface: surface as u64, step },
            sector,
            uneven.sectors[head],
            uneven.sector_turns[head],
        )
    }

    #[inline(always)]
    fn turn(&self, steps: TrackSteps) -> u64 {
        let bands = steps.band.wrapping_mul(self.band_turn);
        let surfaces = steps.surface.wrapping_mul(self.band(steps.band).surface_turn);
        bands.wrapping_add(surfaces).wrapping_add(steps.step.wrapping_mul(self.step_turn))
    }

    fn steps(&self, cylinder: u32, head: u16) -> TrackSteps {
        let (band, within) = self.width_divider.div_rem(u64::from(cylinder));
        let width = self.band(band).width;
        let surface = if self.direction(band) == 1 {
            self.heads - 1 - u64::from(head)
        } else {
            u64::from(head)
        };
        let step =
            if self.steps_alternate && surface % 2 == 1 { width - 1 - within } else { within };
        TrackSteps { band, surface, step }
    }

    #[inline(always)]
    fn cylinder(&self, steps: TrackSteps) -> u32 {
        let outwards = self.steps_alternate && steps.surface % 2 == 1;
        let within =
            if outwards { self.band(steps.band).width - 1 - steps.step } else { steps.step };
        (steps.band * self.bands[0].width + within) as u32
    }

    #[inline(always)]
    fn head(&self, steps: TrackSteps) -> u16 {
        (if self.direction(steps.band) == 1 {
            self.heads - 1 - steps.surface
        } else {
            steps.surface
        }) as u16
    }

    #[inline(always)]
    fn band(&self, band: u64) -> &Band {
        &self.bands[usize::from(band >= self.full_bands)]
    }

    /// 0 for a band whose surfaces go from head 0 up, 1 for one where they go down.
    #[inline(always)]
    fn direction(&self, band: u64) -> usize {
        usize::from(self.surfaces_alternate) & band as usize & 1
    }
}

impl UnevenSurfaces {
    fn new(by_head: &[u32]) -> Option<Self> {
        let first = by_head.first()?;
        if by_head.iter().all(|sectors| sectors == first) {
            return None;
        }
        let sums = |heads: &mut dyn Iterator<Item = &u32>| -> Vec<u64> {
            let mut sum = 0;
            let mut sums = alloc::vec![0];
            sums.extend(heads.map(|sectors| {
                sum += u64::from(*sectors);
                sum
            }));
            sums
        };
        let before = [sums(&mut by_head.iter()), sums(&mut by_head.iter().rev())];
        Some(Self {
            sectors: by_head.iter().map(|sectors| Divider::new(u64::from(*sectors))).collect(),
            sector_turns: by_head.iter().map(|sectors| turns::of_one_sector(*sectors)).collect(),
            before,
        })
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    const ORDERS: [TrackOrder; 4] = [
        TrackOrder::Cylinder,
        TrackOrder::Serpentine,
        TrackOrder::SurfaceSerpentine,
        TrackOrder::Banded,
    ];

    /// 1,000 sectors on a track: 1 of track skew, 10 of cylinder skew, 100 of band skew.
    fn tracks(order: TrackOrder, cylinders: u32, heads: u16, band: Option<u32>) -> ZoneTracks {
        let zone = Zone {
            cylinders,
            sectors_per_track: 1_000,
            track_skew: 1.0,
            cylinder_skew: 10.0,
            band_skew: Some(100.0),
            ..Zone::default()
        };
        ZoneTracks::new(&zone, heads, order, band)
    }

    /// Cylinder, head and skew in sectors of each track.
    fn places(tracks: &ZoneTracks) -> Vec<(u32, u16, u64)> {
        let place = |number: u64| tracks.place(number * 1_000);
        (0..tracks.count())
            .map(place)
            .map(|place| (place.cylinder, place.head, sectors(place.turn)))
            .collect()
    }

    fn sectors(turn: u64) -> u64 {
        ((u128::from(turn) * 1_000 + (1 << 63)) >> 64) as u64
    }

    #[test]
    fn a_cylinder_layout_starts_each_cylinder_at_head_0() {
        let order = places(&tracks(TrackOrder::Cylinder, 2, 2, None));
        assert_eq!(order, [(0, 0, 0), (0, 1, 1), (1, 0, 11), (1, 1, 12)]);
    }

    #[test]
    fn a_serpentine_layout_stays_on_the_surface_from_cylinder_to_cylinder() {
        let order = places(&tracks(TrackOrder::Serpentine, 3, 2, None));
        assert_eq!(order, [(0, 0, 0), (0, 1, 1), (1, 1, 11), (1, 0, 12), (2, 0, 22), (2, 1, 23)]);
    }

    #[test]
    fn layouts_in_bands_run_as_the_drawing_in_the_header() {
        let order = |order| {
            places(&tracks(order, 4, 3, Some(2)))
                .into_iter()
                .map(|place| (place.0, place.1))
                .collect::<Vec<(u32, u16)>>()
        };
        let surface_serpentine = [
            (0, 0),
            (1, 0),
            (1, 1),
            (0, 1),
            (0, 2),
            (1, 2),
            (2, 2),
            (3, 2),
            (3, 1),
            (2, 1),
            (2, 0),
            (3, 0),
        ];
        assert_eq!(order(TrackOrder::SurfaceSerpentine), surface_serpentine);
        let banded = [
            (0, 0),
            (1, 0),
            (0, 1),
            (1, 1),
            (0, 2),
            (1, 2),
            (2, 0),
            (3, 0),
            (2, 1),
            (3, 1),
            (2, 2),
            (3, 2),
        ];
        assert_eq!(order(TrackOrder::Banded), banded);
    }

    #[test]
    fn every_layout_visits_each_track_once_and_each_step_adds_its_own_skew() {
        for order in ORDERS {
            for (cylinders, heads, band) in
                [(1, 1, 1), (5, 1, 2), (7, 2, 3), (6, 3, 2), (8, 4, 3), (3, 5, 9)]
            {
                let tracks = tracks(order, cylinders, heads, Some(band));
                let in_bands = matches!(order, TrackOrder::SurfaceSerpentine | TrackOrder::Banded);
                let mut seen = alloc::collections::BTreeSet::new();
                let mut before: Option<(u32, u16, u64)> = None;
                for (number, place) in (0..).zip(places(&tracks)) {
                    let (cylinder, head, skew) = place;
                    assert!(
                        cylinder < cylinders && head < heads && seen.insert((cylinder, head)),
                        "{order:?} {number}"
                    );
                    assert_eq!(
                        (tracks.number(cylinder, head), tracks.track(number)),
                        (number, (cylinder, head)),
                        "{order:?}"
                    );
                    assert_eq!(tracks.first_sector(cylinder, head), number * 1_000, "{order:?}");
                    if let Some((last_cylinder, _, last_skew)) = before {
                        // A step to another band is a band step even between neighboring cylinders.
                        let expected = if in_bands && last_cylinder / band != cylinder / band {
                            100
                        } else if last_cylinder == cylinder {
                            1
                        } else {
                            10
                        };
                        assert_eq!(
                            (skew + 1_000 - last_skew) % 1_000,
                            expected,
                            "{order:?} {cylinders} × {heads} step to {number}"
                        );
                    }
                    before = Some(place);
                }
                let last = before.map_or(0, |place| place.2);
                assert_eq!(
                    (sectors(tracks.turn_of_next_zone()) + 1_000 - last) % 1_000,
                    if in_bands { 100 } else { 10 },
                    "{order:?}"
                );
            }
        }
    }

    #[test]
    fn where_surfaces_differ_every_sector_lies_where_counting_track_by_track_puts_it() {
        for order in ORDERS {
            for (cylinders, band, by_head) in [
                (5, 2, &[3_u32, 900, 2][..]),
                (4, 9, &[1, 1, 1, 50]),
                (7, 3, &[8, 4]),
                (3, 1, &[6, 6, 6]),
                (6, 4, &[2]),
            ] {
                let heads = by_head.len() as u16;
                let zone = Zone {
                    cylinders,
                    sectors_per_track: 10,
                    sectors_by_head: by_head.to_vec(),
                    cylinder_skew: 1.0,
                    ..Zone::default()
                };
                let tracks = ZoneTracks::new(&zone, heads, order, Some(band));
                let mut physical = 0;
                for number in 0..tracks.count() {
                    let (cylinder, head) = tracks.track(number);
                    assert_eq!(
                        (tracks.number(cylinder, head), tracks.first_sector(cylinder, head)),
                        (number, physical),
                        "{order:?} {by_head:?}"
                    );
                    for sector in 0..by_head[usize::from(head)] {
                        let place = tracks.place(physical);
                        let expected = (cylinder, head, sector, by_head[usize::from(head)]);
                        assert_eq!(
                            (place.cylinder, place.head, place.sector, place.sectors_per_track),
                            expected,
                            "{order:?} {by_head:?} {physical}"
                        );
                        let from_track = tracks.track_turn(cylinder, head).wrapping_add(
                            tracks.sector_turn_of(head).wrapping_mul(u64::from(sector)),
                        );
                        assert_eq!(place.turn, from_track);
                        physical += 1;
                    }
                }
                assert_eq!(tracks.sectors(), physical);
            }
        }
    }
}
