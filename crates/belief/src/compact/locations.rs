//! [`Locations`]: the locations of sectors in a model: a layout of a profile with shifts, or
//! segments found without a profile.
//!
//! Both provide the angles at which a sector begins and has passed, its cylinder, and the media
//! time of an extent. An unknown angle is a state of its own: a [`Position`] carries it as the
//! surface [`UNKNOWN`], which no drive has.

use std::sync::Arc;

use headtime_mechanics::{
    DriveProfile, HeadPosition, InterfaceTimes, Layout, Mechanism, ProfileError, Spot,
};
use headtime_sched::{Op, Position};
use headtime_units::{Angle, Extent, Instant, Lba, Nanos, Sectors};

use super::segments::Segments;
use super::shifts::Shifts;
use crate::model::actuator::direction;
use crate::moved::{Moved, UNKNOWN_LOCATION};

/// The surface of a position whose angle is not known. Relocated sectors without a known location
/// have another one.
pub(super) const UNKNOWN: u16 = u16::MAX;
/// The number of radial bands of a drive without geometry; the difference between neighboring bands
/// is below the resolution of any seek.
pub(super) const BANDS: u32 = 1 << 20;

/// The locations of sectors.
#[derive(Clone, Debug)]
pub(crate) enum Locations {
    Layout(Box<LayoutLocations>),
    Segments(Segments),
}

/// Locations by the layout of a profile, with shifts.
#[derive(Clone, Debug)]
pub(crate) struct LayoutLocations {
    pub(super) profile: DriveProfile,
    pub(crate) mechanism: Mechanism,
    pub(crate) interface: InterfaceTimes,
    pub(super) shifts: Shifts,
}

impl LayoutLocations {
    /// Creates the locations of a profile, without shifts.
    pub(super) fn new(profile: &DriveProfile) -> Result<Self, ProfileError> {
        Ok(Self {
            profile: profile.clone(),
            mechanism: Mechanism::nominal(profile)?,
            interface: InterfaceTimes::from_profile(profile)?,
            shifts: Shifts::default(),
        })
    }

    /// Creates the locations without the declared capacity: shifted addresses may lie after it.
    pub(super) fn with_spares(profile: &DriveProfile) -> Result<Self, ProfileError> {
        let whole = DriveProfile { capacity_sectors: None, ..profile.clone() };
        Ok(Self { mechanism: Mechanism::nominal(&whole)?, ..Self::new(profile)? })
    }

    /// The same locations with other shifts.
    pub(super) fn with_shifts(&self, shifts: Shifts) -> Self {
        Self { shifts, ..self.clone() }
    }

    pub(crate) fn layout(&self) -> &Arc<Layout> {
        self.mechanism.layout()
    }

    pub(crate) fn shifts(&self) -> &Shifts {
        &self.shifts
    }

    /// The address in the layout for the address `lba` of the drive.
    pub(crate) fn shifted(&self, lba: Lba) -> Lba {
        self.shifts.moved(lba, self.layout().capacity().get())
    }

    /// Start and end of an extent by the layout, and its media time.
    fn locate(&self, op: Op, extent: Extent) -> (Position, Position, Nanos) {
        let last = Extent::new(self.shifted(extent.last()), Sectors::new(1));
        let start = self.shifted(extent.start);
        let room = self.layout().capacity().get() - start.get();
        let extent = Extent::new(start, extent.len.min(Sectors::new(room)));
        let start = self.mechanism.spot(start);
        // From the start of its first sector, an access seeks and waits only between tracks, which
        // is part of the transfer.
        let (from, begin) = (start.position, Instant::ORIGIN);
        let access = self.mechanism.access(from, begin, direction(op), extent, begin);
        let wait = self.mechanism.positioning_to(from, begin, direction(op), &start).rotate;
        let transfer = access.finish.saturating_since(begin + wait);
        (position_of(start), position_of(self.mechanism.end_spot(last)), transfer)
    }
}

impl Locations {
    /// The profile of the locations, if there is one.
    pub(crate) fn profile(&self) -> Option<&DriveProfile> {
        match self {
            Self::Layout(layout) => Some(&layout.profile),
            Self::Segments(_) => None,
        }
    }

    /// The innermost cylinder, or band of depth.
    pub(crate) fn last_cylinder(&self) -> u32 {
        match self {
            Self::Layout(layout) => layout.layout().cylinders().saturating_sub(1),
            Self::Segments(_) => BANDS - 1,
        }
    }

    /// Returns true if two positions of a drive without geometry may lie on one track.
    #[inline]
    pub(crate) fn may_share_track(&self, one: Position, other: Position) -> bool {
        match self {
            Self::Layout(_) => false,
            Self::Segments(_) => one.cylinder.abs_diff(other.cylinder) <= 1,
        }
    }

    /// An empty list of relocated sectors.
    pub(super) fn none_moved(&self) -> Moved {
        match self {
            Self::Layout(layout) => Moved::of_layout(layout.layout()),
            Self::Segments(segments) => {
                Moved::new(BANDS, segments.segments().iter().map(|segment| 1.0 / segment.sector()))
            }
        }
    }

    /// The position at which the sector begins.
    pub(super) fn start(&self, lba: Lba, capacity: Sectors) -> Position {
        match self {
            Self::Layout(layout) => position_of(layout.mechanism.spot(layout.shifted(lba))),
            Self::Segments(segments) => {
                segment_place(segments.start(lba), segments.depth(lba, capacity.get()))
            }
        }
    }

    /// The position of the head when the sector has passed.
    pub(super) fn end(&self, lba: Lba, capacity: Sectors) -> Position {
        match self {
            Self::Layout(layout) => {
                let sector = Extent::new(layout.shifted(lba), Sectors::new(1));
                position_of(layout.mechanism.end_spot(sector))
            }
            Self::Segments(segments) => {
                segment_place(segments.end(lba), segments.depth(lba, capacity.get()))
            }
        }
    }

    /// The angle at which the sector has passed; `None` where it is not known.
    pub(crate) fn end_angle(&self, lba: Lba) -> Option<Angle> {
        match self {
            Self::Layout(layout) => {
                let sector = Extent::new(layout.shifted(lba), Sectors::new(1));
                Some(layout.mechanism.end_angle(sector))
            }
            Self::Segments(segments) => segments.end(lba),
        }
    }

    /// Start and end of an extent, and its media time from the start of the first to the end of the
    /// last sector. A sector outside known segments takes `sector_ns`.
    pub(super) fn locate(
        &self,
        op: Op,
        extent: Extent,
        capacity: Sectors,
        revolution: Nanos,
        sector_ns: f64,
    ) -> (Position, Position, Nanos) {
        let segments = match self {
            Self::Layout(layout) => return layout.locate(op, extent),
            Self::Segments(segments) => segments,
        };
        let (turn_ns, sectors) = (revolution.as_ns() as f64, extent.len.get());
        let transfer_ns = segments
            .turns_over(extent.start, sectors)
            .map_or(sectors as f64 * sector_ns, |turns| turns * turn_ns);
        (
            self.start(extent.start, capacity),
            self.end(extent.last(), capacity),
            Nanos::from_ns(transfer_ns as u64),
        )
    }
}

fn position_of(spot: Spot) -> Position {
    Position { cylinder: spot.position.cylinder, head: spot.position.head, angle: spot.angle }
}

fn segment_place(angle: Option<Angle>, depth: f64) -> Position {
    let cylinder = ((depth * f64::from(BANDS)) as u32).min(BANDS - 1);
    angle.map_or(Position { cylinder, head: UNKNOWN, angle: Angle::ZERO }, |angle| Position {
        cylinder,
        head: 0,
        angle,
    })
}

/// Returns true if the angle of a position is not known.
#[inline]
pub(crate) fn is_unknown(place: Position) -> bool {
    place.head == UNKNOWN || place.head == UNKNOWN_LOCATION
}

/// The head position of a place.
pub(crate) fn position(place: Position) -> HeadPosition {
    HeadPosition { cylinder: place.cylinder, head: place.head }
}
