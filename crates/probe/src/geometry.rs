//! [`Geometry`]: the cylinder and the surface of each track, as far as the pattern of the angles
//! shows them.
//!
//! A pattern of two steps means cylinders of `unit` surfaces; one of three steps means bands:
//! `unit` cylinders on one surface, then the next surface in the other direction
//! (surface-serpentine). What angles alone do not show is found by seek times (`surfaces`), or does
//! not matter to any prediction.

use headtime_mechanics::Track;
use headtime_mechanics::profile::TrackOrder;

use crate::layout::{LayoutResult, MAX_HEADS, Pattern, ZoneModel};

/// The cylinders of all zones.
#[derive(Clone, Debug)]
pub(crate) struct Geometry<'a> {
    pub(crate) order: TrackOrder,
    pub(crate) heads: u64,
    /// Cylinders of a band; 1 without bands.
    pub(crate) band: u64,
    /// The first cylinder and the number of cylinders of each zone.
    cylinders: Vec<(u64, u64)>,
    pub(crate) zones: &'a [ZoneModel],
}

impl<'a> Geometry<'a> {
    /// The geometry of a layout; `cylinder_order` is the order of tracks on a drive without bands.
    pub(crate) fn new(layout: &'a LayoutResult, cylinder_order: TrackOrder, capacity: u64) -> Self {
        let pattern = layout.pattern.unwrap_or(Pattern::PLAIN);
        let (order, heads, band) = if pattern.in_bands() {
            (TrackOrder::SurfaceSerpentine, pattern.units, pattern.unit)
        } else if pattern.unit <= MAX_HEADS {
            (cylinder_order, pattern.unit, 1)
        } else {
            (TrackOrder::Cylinder, 1, 1)
        };
        let mut geometry = Self { order, heads, band, cylinders: Vec::new(), zones: &layout.zones };
        let mut first = 0;
        for zone in &layout.zones {
            let cylinders = geometry.cylinders_of(zone, capacity);
            geometry.cylinders.push((first, cylinders));
            first += cylinders;
        }
        geometry
    }

    /// The cylinders of a zone, with spares that share a band or cylinder with addresses.
    fn cylinders_of(&self, zone: &ZoneModel, capacity: u64) -> u64 {
        let last = zone.end_lba.unwrap_or(capacity).saturating_sub(1).max(zone.first_lba);
        self.cylinders_up_to(zone, zone.track_of(last))
    }

    /// The cylinders from a zone's beginning that hold all tracks up to one.
    pub(crate) fn cylinders_up_to(&self, zone: &ZoneModel, track: u64) -> u64 {
        let period = self.heads * self.band;
        match zone.last_band {
            Some((first, width)) if track >= first => first / period * self.band + width,
            _ => (track / period + 1) * self.band,
        }
    }

    pub(crate) fn cylinders(&self) -> u64 {
        self.cylinders.last().map_or(0, |(first, cylinders)| first + cylinders)
    }

    /// The zone of a track and its number in the zone; none if it has no addresses.
    pub(crate) fn find(&self, place: Track) -> Option<(usize, u64)> {
        let cylinder = u64::from(place.cylinder);
        let number = self
            .cylinders
            .iter()
            .position(|(first, cylinders)| (*first..first + cylinders).contains(&cylinder))?;
        if self.zones[number].unknown {
            return None;
        }
        let within = cylinder - self.cylinders[number].0;
        let band = within / self.band;
        let (mut start, mut width) = (band * self.heads * self.band, self.band);
        if let Some((first, narrow)) =
            self.zones[number].last_band.filter(|(first, _)| start >= *first)
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
        let track = start + surface * width + step;
        (track >= self.zones[number].first_track()).then_some((number, track))
    }
}
