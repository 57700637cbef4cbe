//! Positions on the platters: [`PhysicalAddress`], [`Track`], [`HeadPosition`] and [`Spot`], and
//! the [`Direction`] of transfer.

use core::fmt;

use headtime_units::Angle;

/// The direction of a media transfer. Other operations (flush, discard) move no head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the platter.
    Read,
    /// To the platter; settles longer than a read.
    Write,
}

/// A physical sector. Cylinder 0 is the outermost, head 0 the first surface, sector 0 the first
/// after the track's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhysicalAddress {
    /// The cylinder, from the outer edge.
    pub cylinder: u32,
    /// The surface.
    pub head: u16,
    /// The sector's number on its track, slipped and spare sectors counted.
    pub sector: u32,
}

/// One track: one surface of one cylinder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Track {
    /// The cylinder, from the outer edge.
    pub cylinder: u32,
    /// The surface.
    pub head: u16,
}

/// The track under the head. The rotational position depends on time alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HeadPosition {
    /// The cylinder, from the outer edge.
    pub cylinder: u32,
    /// The surface whose head is in use.
    pub head: u16,
}

/// The goal of positioning: a track and an angle.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spot {
    /// The track to follow.
    pub position: HeadPosition,
    /// The angle from the spindle's index.
    pub angle: Angle,
}

impl PhysicalAddress {
    /// The sector's track.
    #[must_use]
    pub const fn track(self) -> Track {
        Track { cylinder: self.cylinder, head: self.head }
    }
}

impl Track {
    /// The address of sector `sector` of this track.
    #[must_use]
    pub const fn sector(self, sector: u32) -> PhysicalAddress {
        PhysicalAddress { cylinder: self.cylinder, head: self.head, sector }
    }
}

impl HeadPosition {
    /// The outermost track of the first surface; the assumed position of an unknown head.
    pub const PARKED: Self = Self { cylinder: 0, head: 0 };

    /// The track under the head.
    #[must_use]
    pub const fn track(self) -> Track {
        Track { cylinder: self.cylinder, head: self.head }
    }
}

impl From<Track> for HeadPosition {
    fn from(track: Track) -> Self {
        Self { cylinder: track.cylinder, head: track.head }
    }
}

impl fmt::Display for PhysicalAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cylinder {}, head {}, sector {}", self.cylinder, self.head, self.sector)
    }
}

impl fmt::Display for Track {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cylinder {}, head {}", self.cylinder, self.head)
    }
}
