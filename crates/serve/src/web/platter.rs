//! The platter as the drive model knows it: zones, volumes, and the positions of recent work.
//!
//! A position is a share of the way from the outermost to the innermost cylinder. If the model
//! knows no tracks, it is the share of the addresses instead.

use headtime_io::{PlatterShape, ServedWork, TrackSample};
use headtime_sched::Op;
use headtime_units::{Instant, Lba, Nanos};
use serde::Serialize;

use crate::export::Export;

/// The maximum number of works in an event.
const MAX_HEADS: usize = 512;
/// The maximum number of zones in an event.
const MAX_ZONES: usize = 48;

#[derive(Debug, Serialize)]
pub(super) struct WebPlatter {
    /// The model knows tracks and angles; otherwise, positions are shares of the addresses.
    tracks: bool,
    /// The zones from the outside: first and last position, and sectors per track.
    zones: Vec<(f64, f64, u32)>,
    /// The extents of the volumes: name, outermost and innermost position.
    volumes: Vec<(String, f64, f64)>,
    /// The requests and reads for scans in the interval.
    heads: Vec<WebHead>,
    /// The number of those that are not among them.
    left_out: u64,
}

/// One request, or one read for scans.
#[derive(Debug, Serialize)]
struct WebHead {
    /// The time from its completion to the event.
    ago_ms: f64,
    position: f64,
    /// The share of a revolution from the index mark to its first sector.
    #[serde(skip_serializing_if = "Option::is_none")]
    angle: Option<f64>,
    /// The number of its export in the event; none for scans.
    #[serde(skip_serializing_if = "Option::is_none")]
    export: Option<usize>,
    write: bool,
}

/// The positions of addresses.
pub(super) struct Positions<'s> {
    shape: Option<&'s PlatterShape>,
    capacity: u64,
}

impl<'s> Positions<'s> {
    pub(super) fn of(shape: Option<&'s PlatterShape>, capacity: u64) -> Self {
        Self { shape: shape.filter(|shape| shape.cylinders > 1), capacity: capacity.max(1) }
    }

    fn of_cylinder(shape: &PlatterShape, cylinder: u32) -> f64 {
        f64::from(cylinder) / f64::from(shape.cylinders - 1)
    }

    /// The position of an address, between two samples.
    fn of_lba(&self, lba: Lba) -> f64 {
        let Some(shape) = self.shape else { return lba.get() as f64 / self.capacity as f64 };
        let after = shape.samples.partition_point(|sample| sample.lba <= lba);
        let [from, to] = [after.saturating_sub(1), after.min(shape.samples.len() - 1)]
            .map(|nth| shape.samples[nth]);
        let position = |sample: TrackSample| Self::of_cylinder(shape, sample.cylinder);
        let length = (to.lba.get() - from.lba.get()).max(1) as f64;
        let part = (lba.get() - from.lba.get()) as f64 / length;
        position(from) + part.min(1.0) * (position(to) - position(from))
    }

    /// The outermost and innermost position of the addresses from `start` up to `end`.
    fn hull(&self, start: Lba, end: Lba) -> (f64, f64) {
        let samples = self.shape.map_or(&[][..], |shape| &shape.samples);
        let within =
            samples.iter().map(|sample| sample.lba).filter(|lba| (start..end).contains(lba));
        let all = within.chain([start, end]).map(|lba| self.of_lba(lba));
        all.fold((f64::MAX, f64::MIN), |(low, high), at| (low.min(at), high.max(at)))
    }

    /// Consecutive samples whose tracks have the same length, apart from differences between
    /// surfaces. With many zones, neighbors of similar length are drawn as one.
    fn zones(&self) -> Vec<(f64, f64, u32)> {
        let Some(shape) = self.shape else { return Vec::new() };
        let mut tolerance = 0.005;
        loop {
            let mut zones: Vec<(f64, f64, u32)> = Vec::new();
            for sample in &shape.samples {
                let position = Self::of_cylinder(shape, sample.cylinder);
                let sectors = sample.sectors_per_track;
                match zones.last_mut() {
                    Some((_, end, of_zone))
                        if f64::from(of_zone.abs_diff(sectors))
                            <= tolerance * f64::from(*of_zone) =>
                    {
                        *end = position.max(*end);
                    }
                    last => {
                        let start = last.map_or(0.0, |(_, end, _)| *end);
                        zones.push((start, position, sectors));
                    }
                }
            }
            if zones.len() <= MAX_ZONES {
                return zones;
            }
            tolerance *= 2.0;
        }
    }
}

impl WebPlatter {
    /// The platter at `now`. `export` tells the number of the export of a work; `dropped` works are
    /// unknown.
    pub(super) fn new<'w>(
        positions: &Positions<'_>,
        exports: &[&Export],
        works: impl DoubleEndedIterator<Item = &'w ServedWork>,
        now: Instant,
        export: impl Fn(&ServedWork) -> Option<usize>,
        dropped: u64,
    ) -> Self {
        let tracks = positions.shape.is_some();
        let mut left_out = dropped;
        let mut heads = Vec::new();
        for work in works.rev().filter(|work| work.place.is_some()) {
            if heads.len() == MAX_HEADS {
                left_out += 1;
                continue;
            }
            let place = work.place.filter(|_| tracks);
            let position = match (positions.shape, place) {
                (Some(shape), Some(place)) => Positions::of_cylinder(shape, place.cylinder),
                _ => positions.of_lba(work.extent.start),
            };
            let ago = now.saturating_since(work.finished);
            heads.push(WebHead {
                ago_ms: round(ago.as_ms_f64(), 10.0),
                position: round(position, 1e5),
                angle: place.map(|place| round(place.angle.as_turns(), 1e4)),
                export: export(work),
                write: work.op != Op::Read,
            });
        }
        let of_volume = |export: &&Export| {
            let (name, extents) = (export.volume.name.clone(), export.volume.extents());
            let hulls = extents.as_slice().iter().map(|of| positions.hull(of.start, of.last()));
            hulls.map(|(from, to)| (name.clone(), from, to)).collect::<Vec<_>>()
        };
        let ordinary = |export: &&&Export| export.name == export.volume.name;
        let volumes = exports.iter().filter(ordinary).flat_map(of_volume).collect();
        Self { tracks, zones: positions.zones(), volumes, heads, left_out }
    }
}

/// The span of time that the heads of an event cover.
pub(super) const HEADS_FOR: Nanos = Nanos::from_secs(1);

fn round(value: f64, steps: f64) -> f64 {
    (value * steps).round() / steps
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two zones of 100 cylinders: 200 sectors on each cylinder outside, 100 inside.
    fn shape() -> PlatterShape {
        let sample = |cylinder: u32| {
            let outside = cylinder < 100;
            let lba = if outside { cylinder * 200 } else { 20_000 + (cylinder - 100) * 100 };
            let sectors_per_track = if outside { 200 + cylinder % 2 } else { 100 };
            TrackSample { lba: Lba::new(u64::from(lba)), cylinder, sectors_per_track }
        };
        PlatterShape { cylinders: 200, samples: (0..200).step_by(5).map(sample).collect() }
    }

    #[test]
    fn zones_and_positions_follow_the_tracks() {
        let shape = shape();
        let positions = Positions::of(Some(&shape), 30_000);
        let zones = positions.zones();
        assert_eq!(zones.iter().map(|zone| zone.2).collect::<Vec<_>>(), [200, 100]);
        assert!((zones[0].1 - 95.0 / 199.0).abs() < 1e-9 && zones[1].0 == zones[0].1);
        for (lba, cylinder) in [(0, 0.0), (2_000, 10.0), (2_100, 10.5), (25_000, 150.0)] {
            let found = positions.of_lba(Lba::new(lba)) * 199.0;
            assert!((found - cylinder).abs() < 1e-6, "{lba}: {found}");
        }
        let (from, to) = positions.hull(Lba::new(2_000), Lba::new(25_000));
        assert!((from * 199.0 - 10.0).abs() < 1e-6 && (to * 199.0 - 150.0).abs() < 1e-6);
    }

    #[test]
    fn without_tracks_positions_are_shares_of_the_addresses() {
        let positions = Positions::of(None, 1_000);
        assert_eq!((positions.of_lba(Lba::new(250)), positions.zones().len()), (0.25, 0));
        assert_eq!(positions.hull(Lba::new(100), Lba::new(600)), (0.1, 0.6));
    }

    #[test]
    fn many_zones_become_few() {
        let sample = |nth: u32| TrackSample {
            lba: Lba::new(u64::from(nth) * 1_000),
            cylinder: nth * 10,
            sectors_per_track: 4_000 - nth * 10,
        };
        let shape = PlatterShape { cylinders: 2_561, samples: (0..=256).map(sample).collect() };
        let zones = Positions::of(Some(&shape), 257_000).zones();
        assert!((8..=MAX_ZONES).contains(&zones.len()), "{}", zones.len());
    }
}
