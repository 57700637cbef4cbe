//! [`Geometry`]: on which cylinder and surface each track lies, as far as the rhythm of the angles
//! tells.
//!
//! A rhythm of two steps is read as cylinders of `unit` surfaces, one of three as bands: `unit`
//! cylinders on one surface, then the next surface back again (surface-serpentine). What angles
//! alone cannot tell is told by the times of seeks (`seek.rs`), or does not matter to any
//! prediction.

use headtime_mechanics::Track;
use headtime_mechanics::profile::TrackOrder;

use crate::knowledge::Knowledge;
use crate::layout::{MAX_HEADS, Pattern, ZoneSketch};

/// Cylinders of all zones.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    pub(crate) order: TrackOrder,
    pub(crate) heads: u64,
    /// Cylinders of a band, 1 where there are none.
    pub(crate) band: u64,
    /// First cylinder and number of cylinders of each zone.
    pub(crate) zones: Vec<(u64, u64)>,
}

impl Geometry {
    pub(crate) fn new(know: &Knowledge) -> Self {
        let pattern = know.pattern.unwrap_or(Pattern::PLAIN);
        let (order, heads, band) = if pattern.in_bands() {
            (TrackOrder::SurfaceSerpentine, pattern.units, pattern.unit)
        } else if pattern.unit <= MAX_HEADS {
            (know.seek.order(), pattern.unit, 1)
        } else {
            (TrackOrder::Cylinder, 1, 1)
        };
        let mut geometry = Self { order, heads, band, zones: Vec::new() };
        let mut first = 0;
        for zone in &know.zones {
            let cylinders = geometry.cylinders_of(zone, know.capacity);
            geometry.zones.push((first, cylinders));
            first += cylinders;
        }
        geometry
    }

    /// Cylinders of a zone, spares counted as far as they share a band or cylinder with addresses.
    fn cylinders_of(&self, zone: &ZoneSketch, capacity: u64) -> u64 {
        let last = zone.end_lba.unwrap_or(capacity).saturating_sub(1).max(zone.first_lba);
        self.cylinders_up_to(zone, zone.track_of(last))
    }

    /// Cylinders from a zone's beginning that hold all tracks up to one.
    pub(crate) fn cylinders_up_to(&self, zone: &ZoneSketch, track: u64) -> u64 {
        let period = self.heads * self.band;
        match zone.last_band {
            Some((first, width)) if track >= first => first / period * self.band + width,
            _ => (track / period + 1) * self.band,
        }
    }

    pub(crate) fn cylinders(&self) -> u64 {
        self.zones.last().map_or(0, |(first, cylinders)| first + cylinders)
    }

    /// The zone and the number in it of a track.
    pub(crate) fn find(&self, know: &Knowledge, place: Track) -> Option<(usize, u64)> {
        let cylinder = u64::from(place.cylinder);
        let number = self
            .zones
            .iter()
            .position(|(first, cylinders)| (*first..first + cylinders).contains(&cylinder))?;
        if know.zones[number].lost {
            return None;
        }
        let within = cylinder - self.zones[number].0;
        let band = within / self.band;
        let (mut start, mut width) = (band * self.heads * self.band, self.band);
        if let Some((first, narrow)) =
            know.zones[number].last_band.filter(|(first, _)| start >= *first)
        {
            (start, width) = (first, narrow);
        }
        let downwards = band % 2 == 1
            && matches!(self.order, TrackOrder::Serpentine | TrackOrder::SurfaceSerpentine);
        let head = u64::from(place.head);
        let surface = if downwards { self.heads.checked_sub(1 + head)? } else { head };
        let step = within % self.band;
        let step = if surface % 2 == 1 && self.order == TrackOrder::SurfaceSerpentine {
            width.checked_sub(1 + step)?
        } else {
            step
        };
        Some((number, start + surface * width + step))
    }
}
