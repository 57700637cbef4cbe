//! [`DiskTime`]: a drive's time by activity.
//!
//! At any moment a drive does exactly one of these: its mechanism seeks, waits for rotation or
//! transfers; the mechanism rests while the drive holds commands (*overhead*: command processing,
//! bus and completion that are not overlapped); or the drive is *idle*. Overhead that overlaps the
//! media access of another command is not counted: it costs nothing. *Background* is work that no
//! command waits for: read-ahead, and cached writes that reach the media in idle time. Read-ahead
//! that a command waits for counts as transfer.
//!
//! Worked example: a command is sent at 0 and its media access runs from 0.2 ms to 5 ms; a second
//! one is sent at 4 ms and starts at 5 ms. The overhead of the second costs nothing. Had it been
//! sent at 4.9 ms with 0.2 ms overhead, the 0.1 ms from 5 to 5.1 ms would count as overhead.

use headtime_units::Nanos;
use serde::{Serialize, Serializer, ser::SerializeStruct};

/// A drive's time by activity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskTime {
    /// Arm, head switches and settles.
    pub seek: Nanos,
    /// Rotational latency, or waiting for a write's data.
    pub rotate: Nanos,
    /// Sectors passing under the head.
    pub transfer: Nanos,
    /// The mechanism rests although the drive holds commands.
    pub overhead: Nanos,
    /// The drive holds no command.
    pub idle: Nanos,
    /// Work that no command waits for.
    pub background: Nanos,
}

impl DiskTime {
    /// The sum of all parts: the elapsed time.
    #[must_use]
    pub fn total(&self) -> Nanos {
        self.seek + self.rotate + self.transfer + self.overhead + self.idle + self.background
    }

    /// The sum of two mechanisms' times, part by part.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            seek: self.seek + other.seek,
            rotate: self.rotate + other.rotate,
            transfer: self.transfer + other.transfer,
            overhead: self.overhead + other.overhead,
            idle: self.idle + other.idle,
            background: self.background + other.background,
        }
    }

    /// The time since `earlier`, a previous reading of the same ledger.
    ///
    /// # Panics
    /// If `earlier` is in fact later.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            seek: self.seek - earlier.seek,
            rotate: self.rotate - earlier.rotate,
            transfer: self.transfer - earlier.transfer,
            overhead: self.overhead - earlier.overhead,
            idle: self.idle - earlier.idle,
            background: self.background - earlier.background,
        }
    }
}

impl Serialize for DiskTime {
    /// Fractions of one; all zero if no time has passed.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let total = self.total().as_ns().max(1) as f64;
        let mut shares = serializer.serialize_struct("disk_time", 6)?;
        for (name, part) in [
            ("seek", self.seek),
            ("rotate", self.rotate),
            ("transfer", self.transfer),
            ("overhead", self.overhead),
            ("idle", self.idle),
            ("background", self.background),
        ] {
            shares.serialize_field(name, &(part.as_ns() as f64 / total))?;
        }
        shares.end()
    }
}
