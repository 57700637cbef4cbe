//! [`Places`]: where a compact map believes sectors to be: by a profile's layout and what differs
//! from it, or by strips that were found without one.
//!
//! Both answer the same questions: the angle at which a sector begins and has passed, how far in it
//! lies, and what its sectors take on the media. An angle that is not known is a state of its own;
//! so that a [`Position`] can carry it to the estimate, its surface is then [`UNKNOWN`], which no
//! drive has.

use std::sync::Arc;

use headtime_mechanics::{
    DriveProfile, HeadPosition, InterfaceTimes, Layout, Mechanism, ProfileError,
};
use headtime_sched::Position;
use headtime_units::{Angle, Extent, Instant, Lba, Nanos, Sectors};

use super::shifts::Shifts;
use super::strips::Strips;
use crate::moved::{Moved, NOWHERE};

/// The surface of a place whose angle is not known; that of sectors which lie elsewhere, nobody
/// knows where, is another.
pub(super) const UNKNOWN: u16 = u16::MAX;
/// Bands of depth that a drive without geometry is told apart in: neighboring ones differ by less
/// than any seek shows.
pub(super) const BANDS: u32 = 1 << 20;

/// Where sectors are believed to be.
#[derive(Clone, Debug)]
pub(super) enum Places {
    Profile(Box<OfProfile>),
    Strips(Strips),
}

/// Places by a profile, and what differs from it.
#[derive(Clone, Debug)]
pub(super) struct OfProfile {
    pub(super) profile: DriveProfile,
    /// At phase zero: for places and arm times only.
    pub(super) mechanism: Mechanism,
    pub(super) interface: InterfaceTimes,
    pub(super) shifts: Shifts,
}

impl OfProfile {
    /// What the profile says, the capacity that it declares left out: addresses that are moved may
    /// lie behind it.
    pub(super) fn new(profile: &DriveProfile) -> Result<Self, ProfileError> {
        let whole = DriveProfile { capacity_sectors: None, ..profile.clone() };
        Ok(Self {
            profile: profile.clone(),
            mechanism: Mechanism::nominal(&whole)?,
            interface: InterfaceTimes::from_profile(profile)?,
            shifts: Shifts::default(),
        })
    }

    pub(super) fn layout(&self) -> &Arc<Layout> {
        self.mechanism.layout()
    }

    fn moved(&self, lba: Lba) -> Lba {
        self.shifts.moved(lba, self.layout().capacity().get())
    }

    /// The angle at which the sector ends by the layout alone.
    pub(super) fn nominal_end(&self, lba: Lba) -> Angle {
        self.mechanism.end_angle(Extent::new(lba, Sectors::new(1)))
    }
}

impl Places {
    /// Whether angles are known of the whole drive.
    pub(super) fn is_profile(&self) -> bool {
        matches!(self, Self::Profile(_))
    }

    /// The innermost cylinder, or band of depth.
    pub(super) fn last_cylinder(&self) -> u32 {
        match self {
            Self::Profile(of) => of.layout().cylinders().saturating_sub(1),
            Self::Strips(_) => BANDS - 1,
        }
    }

    /// Nothing known of sectors that lie elsewhere than here.
    pub(super) fn none_moved(&self) -> Moved {
        match self {
            Self::Profile(of) => Moved::of_layout(of.layout()),
            Self::Strips(strips) => {
                Moved::new(BANDS, strips.strips().iter().map(|strip| 1.0 / strip.sector()))
            }
        }
    }

    /// Where the sector begins.
    pub(super) fn start(&self, lba: Lba, capacity: Sectors) -> Position {
        match self {
            Self::Profile(of) => {
                let spot = of.mechanism.spot(of.moved(lba));
                Position {
                    cylinder: spot.position.cylinder,
                    head: spot.position.head,
                    angle: spot.angle,
                }
            }
            Self::Strips(strips) => {
                strip_place(strips.start(lba), strips.depth(lba, capacity.get()))
            }
        }
    }

    /// Where the head is when the sector has passed.
    pub(super) fn end(&self, lba: Lba, capacity: Sectors) -> Position {
        match self {
            Self::Profile(of) => {
                let spot = of.mechanism.end_spot(Extent::new(of.moved(lba), Sectors::new(1)));
                Position {
                    cylinder: spot.position.cylinder,
                    head: spot.position.head,
                    angle: spot.angle,
                }
            }
            Self::Strips(strips) => strip_place(strips.end(lba), strips.depth(lba, capacity.get())),
        }
    }

    /// The angle at which the sector has passed; `None` where it is not known.
    pub(super) fn end_angle(&self, lba: Lba) -> Option<Angle> {
        match self {
            Self::Profile(of) => Some(of.nominal_end(of.moved(lba))),
            Self::Strips(strips) => strips.end(lba),
        }
    }

    /// Media time of the sectors, from the start of the first to the end of the last, where a
    /// sector of which nothing is known takes `sector_ns`.
    pub(super) fn transfer(&self, extent: Extent, revolution: Nanos, sector_ns: f64) -> Nanos {
        match self {
            Self::Profile(of) => {
                let capacity = of.layout().capacity().get();
                let start = of.moved(extent.start);
                let extent =
                    Extent::new(start, extent.len.min(Sectors::new(capacity - start.get())));
                // From the start of its first sector an access seeks and waits only between tracks,
                // and that is part of the transfer.
                let spot = of.mechanism.spot(start);
                let read = headtime_mechanics::Direction::Read;
                let access = of.mechanism.access(
                    spot.position,
                    Instant::ORIGIN,
                    read,
                    extent,
                    Instant::ORIGIN,
                );
                let wait =
                    of.mechanism.positioning_to(spot.position, Instant::ORIGIN, read, &spot).rotate;
                access.finish.saturating_since(Instant::ORIGIN + wait)
            }
            Self::Strips(strips) => {
                let turn = revolution.as_ns() as f64;
                let sectors = extent.len.get();
                let ns = strips
                    .turns_over(extent.start, sectors)
                    .map_or(sectors as f64 * sector_ns, |turns| turns * turn);
                Nanos::from_ns(ns as u64)
            }
        }
    }
}

fn strip_place(angle: Option<Angle>, depth: f64) -> Position {
    let cylinder = ((depth * f64::from(BANDS)) as u32).min(BANDS - 1);
    angle.map_or(Position { cylinder, head: UNKNOWN, angle: Angle::ZERO }, |angle| Position {
        cylinder,
        head: 0,
        angle,
    })
}

/// Whether nobody knows the angle of a place.
pub(super) fn is_unknown(place: Position) -> bool {
    place.head == UNKNOWN || place.head == NOWHERE
}

/// The track of a place.
pub(super) fn position(place: Position) -> HeadPosition {
    HeadPosition { cylinder: place.cylinder, head: place.head }
}
