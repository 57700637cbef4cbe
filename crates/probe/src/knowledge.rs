//! [`Knowledge`]: all that the finished experiments have found.

use headtime_units::Instant;
use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::layout::{Pattern, ZoneSketch};
use crate::measurement::TimedCommand;

/// A sector that the clock goes by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Anchor {
    pub(crate) lba: u64,
    /// Turns by which it completes after turn 0 of the clock.
    pub(crate) turns: f64,
}

/// What is known; plain data, which is saved and copied.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Knowledge {
    /// Logical sectors of the drive, or of its first arm where it has two.
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
    /// The sectors whose completions the clock goes by, read in turn.
    pub(crate) anchors: Vec<Anchor>,
    /// The next of them.
    pub(crate) next_anchor: usize,
    /// After so many reads elsewhere the cache has forgotten a read for certain; 0 where nothing
    /// came from a cache.
    pub(crate) forget: u64,
    /// After so many sectors read on behind it, in a row, a segment has dropped a sector; none
    /// where that was not seen.
    pub(crate) ring_sectors: Option<u64>,
    /// How often a segment was let run on, and how often that dropped the sector.
    #[serde(default)]
    pub(crate) ring_uses: (u32, u32),
    /// What a further sector of a read from the cache takes on the bus; none where that was not
    /// seen.
    #[serde(default)]
    pub(crate) hit_bus_ns: Option<f64>,
    /// Whether sectors before one that was read are held too, as where whole tracks are kept.
    pub(crate) keeps_tracks: bool,
    /// The last answers of the finished experiments, at most `forget` of them.
    pub(crate) lately: Vec<TimedCommand>,
    /// Whether the cache was looked at for these.
    pub(crate) ring_sought: bool,
    /// What a read from the cache takes; none when none was seen.
    pub(crate) hit_ns: Option<f64>,
    /// A read that took no longer may have come from the cache.
    pub(crate) hit_limit_ns: f64,
    /// Slips that were counted, and the sectors they were among.
    pub(crate) slips: (u64, u64),
    pub(crate) arms: crate::arms::ArmsFound,
    pub(crate) pattern: Option<Pattern>,
    /// Whether the surfaces of a drive in bands were looked for.
    pub(crate) surfaces_sought: bool,
    /// What has been timed for that so far.
    pub(crate) rows_timed: Option<crate::seek::RowsTimed>,
    pub(crate) zones: Vec<ZoneSketch>,
    /// Sectors by which tracks ended early, the latest last.
    pub(crate) spares_seen: Vec<u64>,
    /// Stretches to be counted next, the first of them last.
    pub(crate) to_sound: Vec<crate::layout::Stretch>,
    /// Arm times with command and transfer, by what was measured.
    pub(crate) seek: crate::seek::SeekFound,
    pub(crate) interface: crate::overhead::InterfaceFound,
    pub(crate) cache: Option<crate::cache::CacheFound>,
    pub(crate) writes: Option<crate::writes::WritesFound>,
    pub(crate) queue: Option<crate::queue::QueueFound>,
    pub(crate) check: Option<crate::selfcheck::CheckFound>,
    pub(crate) remaps: Option<crate::remaps::RemapsFound>,
    /// How often the present experiment was begun again.
    pub(crate) retries: u32,
    /// Why it is all over, if it is before its end.
    pub(crate) ended: Option<crate::verdict::Ended>,
    /// What did not work, for people.
    pub(crate) remarks: Vec<String>,
}

impl Knowledge {
    /// Whether the clock goes by a sector.
    pub(crate) fn is_anchor(&self, lba: u64) -> bool {
        self.anchors.iter().any(|anchor| anchor.lba == lba)
    }

    /// Keeps the last answers of a finished experiment.
    pub(crate) fn note_lately(&mut self, answers: &[TimedCommand]) {
        let most = self.forget as usize;
        self.lately.extend_from_slice(&answers[answers.len().saturating_sub(most)..]);
        self.lately.drain(..self.lately.len().saturating_sub(most));
    }

    /// Slips for each sector; before any were counted, one in a million.
    pub(crate) fn slip_rate(&self) -> f64 {
        (self.slips.0 as f64 + 1.0) / (self.slips.1 as f64 + 1e6)
    }

    /// So many slips were counted among so many sectors.
    pub(crate) fn note_slips(&mut self, slips: u64, sectors: u64) {
        self.slips = (self.slips.0 + slips, self.slips.1 + sectors);
    }

    /// The deviation of one reading of an angle, turns.
    pub(crate) fn noise_turns(&self) -> f64 {
        self.clock.noise_ns() / self.clock.period_ns().max(1.0)
    }
}
