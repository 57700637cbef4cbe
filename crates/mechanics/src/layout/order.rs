//! [`ZoneTracks`]: the order in which a zone's tracks are filled, and how far the skews have added up at each.
//!
//! Both are computed from the track's number within the zone, never step by step, so that nothing accumulates. The example is a zone of
//! 4 cylinders × 3 heads, `cylinder.head`, in a surface-serpentine layout with bands of 2:
//!
//! ```text
//! number   0   1   2   3   4   5 |  6   7   8   9  10  11
//! track   0.0 1.0 1.1 0.1 0.2 1.2|2.2 3.2 3.1 2.1 2.0 3.0
//! step       C   T   C   T   C  B    C   T   C   T   C        C cylinder skew, T track skew, B band skew
//! ```

use super::divider::Divider;
use crate::profile::{TrackOrder, Zone};

/// Where a track lies in its zone, and the skews that have added up until its sector 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TrackPlace {
    /// Cylinder, from the zone's first.
    pub(crate) cylinder: u32,
    pub(crate) head: u16,
    /// Sectors of skew since the zone's first track, whole turns counted.
    pub(crate) skew: u64,
}

/// The tracks of one zone in the order in which they are filled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ZoneTracks {
    order: TrackOrder,
    heads: Divider,
    cylinders: u32,
    track_skew: u64,
    cylinder_skew: u64,
    band_skew: u64,
    /// Cylinders of a full band, and of the last one when it is shorter (surface-serpentine only).
    band: Divider,
    last_band: Divider,
    full_bands: u64,
    /// Tracks of a full band.
    band_tracks: Divider,
}

impl ZoneTracks {
    pub(crate) fn new(zone: &Zone, heads: u16, order: TrackOrder, band_cylinders: Option<u32>) -> Self {
        let band = u64::from(band_cylinders.unwrap_or(1).min(zone.cylinders));
        let cylinders = u64::from(zone.cylinders);
        Self {
            order,
            heads: Divider::new(u64::from(heads)),
            cylinders: zone.cylinders,
            track_skew: u64::from(zone.track_skew),
            cylinder_skew: u64::from(zone.cylinder_skew),
            band_skew: u64::from(zone.band_skew.unwrap_or(zone.cylinder_skew)),
            band: Divider::new(band),
            last_band: Divider::new((cylinders % band).max(1)),
            full_bands: cylinders / band,
            band_tracks: Divider::new(band * u64::from(heads)),
        }
    }

    /// How many tracks there are.
    pub(crate) fn count(&self) -> u64 {
        u64::from(self.cylinders) * self.heads.divisor()
    }

    /// The place of track `number`, which is below [`ZoneTracks::count`].
    pub(crate) fn place(&self, number: u64) -> TrackPlace {
        if self.order == TrackOrder::SurfaceSerpentine {
            return self.place_in_bands(number);
        }
        let (cylinder, step) = self.heads.div_rem(number);
        let heads = self.heads.divisor();
        let skew = cylinder * ((heads - 1) * self.track_skew + self.cylinder_skew) + step * self.track_skew;
        let down = self.order == TrackOrder::Serpentine && cylinder % 2 == 1;
        let head = if down { heads - 1 - step } else { step };
        TrackPlace { cylinder: cylinder as u32, head: head as u16, skew }
    }

    /// The number of the track, the inverse of [`ZoneTracks::place`]; `cylinder` counts from the zone's first.
    pub(crate) fn number(&self, cylinder: u32, head: u16) -> u64 {
        let (cylinder, head, heads) = (u64::from(cylinder), u64::from(head), self.heads.divisor());
        match self.order {
            TrackOrder::Cylinder => cylinder * heads + head,
            TrackOrder::Serpentine => cylinder * heads + if cylinder % 2 == 1 { heads - 1 - head } else { head },
            TrackOrder::SurfaceSerpentine => {
                let (band, within) = self.band.div_rem(cylinder);
                let width = self.width(band).divisor();
                let surface = if band % 2 == 1 { heads - 1 - head } else { head };
                let step = if surface % 2 == 1 { width - 1 - within } else { within };
                band * self.band_tracks.divisor() + surface * width + step
            }
        }
    }

    /// Sectors of skew from the zone's first track to the first track of whatever follows the zone.
    pub(crate) fn skew_of_next_zone(&self) -> u64 {
        let step = if self.order == TrackOrder::SurfaceSerpentine { self.band_skew } else { self.cylinder_skew };
        self.place(self.count() - 1).skew + step
    }

    fn place_in_bands(&self, number: u64) -> TrackPlace {
        let heads = self.heads.divisor();
        let (band, within) = self.band_tracks.div_rem(number);
        let width = self.width(band);
        let (surface, step) = width.div_rem(within);
        let steps_of = |width: u64| (width - 1) * self.cylinder_skew;
        let full_band = heads * steps_of(self.band.divisor()) + (heads - 1) * self.track_skew + self.band_skew;
        let skew = band * full_band + surface * (steps_of(width.divisor()) + self.track_skew) + step * self.cylinder_skew;
        let head = if band % 2 == 1 { heads - 1 - surface } else { surface };
        let inwards = if surface % 2 == 1 { width.divisor() - 1 - step } else { step };
        TrackPlace { cylinder: (band * self.band.divisor() + inwards) as u32, head: head as u16, skew }
    }

    fn width(&self, band: u64) -> Divider {
        if band < self.full_bands { self.band } else { self.last_band }
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn tracks(order: TrackOrder, cylinders: u32, heads: u16, band: Option<u32>) -> ZoneTracks {
        let zone = Zone { cylinders, sectors_per_track: 1_000, track_skew: 1, cylinder_skew: 10, band_skew: Some(100), ..Zone::default() };
        ZoneTracks::new(&zone, heads, order, band)
    }

    fn places(tracks: &ZoneTracks) -> Vec<(u32, u16, u64)> {
        (0..tracks.count()).map(|number| tracks.place(number)).map(|place| (place.cylinder, place.head, place.skew)).collect()
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
    fn a_surface_serpentine_layout_runs_as_the_drawing_in_the_header() {
        let order: Vec<(u32, u16)> = places(&tracks(TrackOrder::SurfaceSerpentine, 4, 3, Some(2))).iter().map(|place| (place.0, place.1)).collect();
        let drawn = [(0, 0), (1, 0), (1, 1), (0, 1), (0, 2), (1, 2), (2, 2), (3, 2), (3, 1), (2, 1), (2, 0), (3, 0)];
        assert_eq!(order, drawn);
    }

    #[test]
    fn every_layout_visits_each_track_once_and_each_step_adds_its_own_skew() {
        for order in [TrackOrder::Cylinder, TrackOrder::Serpentine, TrackOrder::SurfaceSerpentine] {
            for (cylinders, heads, band) in [(1, 1, 1), (5, 1, 2), (7, 2, 3), (6, 3, 2), (8, 4, 3), (3, 5, 9)] {
                let tracks = tracks(order, cylinders, heads, Some(band));
                let mut seen = alloc::collections::BTreeSet::new();
                let mut before: Option<TrackPlace> = None;
                for number in 0..tracks.count() {
                    let place = tracks.place(number);
                    assert!(place.cylinder < cylinders && place.head < heads && seen.insert((place.cylinder, place.head)), "{order:?} {number}");
                    assert_eq!(tracks.number(place.cylinder, place.head), number, "{order:?}");
                    if let Some(before) = before {
                        // In bands, a step that changes the band is a band step even when it is one cylinder wide.
                        let new_band = order == TrackOrder::SurfaceSerpentine && before.cylinder / band != place.cylinder / band;
                        let expected = if new_band {
                            100
                        } else if before.cylinder == place.cylinder {
                            1
                        } else {
                            10
                        };
                        assert_eq!(place.skew - before.skew, expected, "{order:?} {cylinders} × {heads} step to {number}");
                    }
                    before = Some(place);
                }
            }
        }
    }
}
