//! [`Knowledge`]: all that the finished experiments have found.

use headtime_units::Instant;
use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::layout::{Pattern, ZoneSketch};

/// What is known; plain data, which is saved and copied.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Knowledge {
    /// Logical sectors of the drive.
    pub(crate) capacity: u64,
    /// Steps finished; each draws its own numbers.
    pub(crate) step: u64,
    /// When the last read of the finished experiments completed.
    pub(crate) now: Instant,
    /// Rings of sectors that were gone round to find whether it is one.
    pub(crate) rings_tried: usize,
    /// Whether it is a rotating drive.
    pub(crate) turns: Option<bool>,
    /// What speaks against it.
    pub(crate) evidence: String,
    pub(crate) clock: Clock,
    /// The sector whose completions the clock goes by.
    pub(crate) anchor: u64,
    /// What a read from the cache takes; none when none was seen.
    pub(crate) hit_ns: Option<f64>,
    /// A read that took no longer may have come from the cache.
    pub(crate) hit_limit_ns: f64,
    /// What an angle may be off by without being looked into.
    pub(crate) slight_ns: f64,
    pub(crate) pattern: Option<Pattern>,
    /// Whether the surfaces of a drive in bands were looked for.
    pub(crate) surfaces_sought: bool,
    pub(crate) zones: Vec<ZoneSketch>,
    /// Arm times with command and transfer, by what was measured.
    pub(crate) seek: crate::seek::SeekFound,
    pub(crate) interface: crate::overhead::InterfaceFound,
    pub(crate) check: Option<crate::selfcheck::CheckFound>,
    /// How often the present experiment was begun again.
    pub(crate) retries: u32,
    /// What did not work, for people.
    pub(crate) remarks: Vec<String>,
}

impl Knowledge {
    /// The deviation of one reading of an angle, turns.
    pub(crate) fn noise_turns(&self) -> f64 {
        self.clock.noise_ns() / self.clock.period_ns().max(1.0)
    }
}
