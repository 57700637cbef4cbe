//! Places on the platters: [`PhysicalAddress`], [`Track`], [`HeadPosition`], [`Spot`], and which
//! way bytes go ([`Direction`]).

use core::fmt;

use headtime_units::Angle;

/// Which way the bytes go at the media. Everything else a host may ask (flush, discard) moves no
/// head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the platter.
    Read,
    /// To the platter; settles longer than a read.
    Write,
}

/// Where a sector is. Cylinder 0 is the outermost, head 0 the first surface, sector 0 the first
/// after the track's own start.
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

/// Which track the head follows. Where it is within the turn follows from the time alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HeadPosition {
    /// The cylinder, from the outer edge.
    pub cylinder: u32,
    /// The surface whose head is in use.
    pub head: u16,
}

/// What positioning has to reach: a track, and the angle on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spot {
    /// The track to follow.
    pub position: HeadPosition,
    /// The angle, from the spindle's index, that has to come by.
    pub angle: Angle,
}

impl PhysicalAddress {
    /// The track the sector is on.
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
    /// The outermost track of the first surface; where a head is taken to be when nothing is known
    /// of it.
    pub const PARKED: Self = Self { cylinder: 0, head: 0 };

    /// The track that the head follows.
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
