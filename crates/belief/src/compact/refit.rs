//! [`Refit`]: finding out anew, from what was seen so far, by how many sectors a drive's addresses differ from its profile. Done in small steps, so that no completion waits for it.
//!
//! First how the platter turned ([`Frame`]), against the angles as they are believed; then the shifts ([`Search`]), a few sights at a time; then both once more, because what is now believed
//! tells better how the speed wandered and how noisy sights are.
//!
//! Cost: the frame some tens of milliseconds, once; then [`STEP`] sights with every completion, 0.1 ms.

use std::sync::Arc;

use headtime_mechanics::Layout;
use headtime_units::{Angle, Lba, RotationPeriod};

use super::frame::Frame;
use super::shifts::Shifts;
use super::sights::Sight;
use super::slips::{Search, Seen};

/// Sights taken into the search with each completion.
const STEP: usize = 8;
/// Off by so much costs 1 at first (guess: 20 us of jitter on a turn of 4 to 8 ms).
const FIRST_SCALE_TURNS: f64 = 0.004;
/// Bounds of what is made of it after the first pass.
const SCALES_TURNS: (f64, f64) = (0.002, 0.012);
/// A coherence below so many deviations of chance says that no angle is believed rightly.
const DEVIATIONS: f64 = 5.0;

/// A search at work.
#[derive(Clone, Debug)]
pub(super) struct Refit {
    layout: Arc<Layout>,
    sights: Vec<Sight>,
    frame: Frame,
    seen: Vec<Seen>,
    search: Search,
    at: usize,
    second: bool,
}

/// What was found.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) shifts: Shifts,
    pub(super) period: RotationPeriod,
}

impl Refit {
    /// Begins with the shifts believed so far; `None` where the sights agree with them no better than by chance.
    pub(super) fn begin(layout: Arc<Layout>, believed: &Shifts, period: RotationPeriod, sights: Vec<Sight>) -> Option<Self> {
        let angles: Vec<Angle> = sights.iter().map(|sight| end_angle(&layout, believed, sight.last)).collect();
        let frame = Frame::fit(period, &sights, |number| Some(angles[number]));
        if frame.coherence < DEVIATIONS / libm::sqrt(2.0 * sights.len().max(1) as f64) {
            return None;
        }
        let followed = frame.followed(&sights, |number| Some(angles[number]));
        let (seen, search) = (in_order(&sights, &followed), Search::new(layout.clone(), FIRST_SCALE_TURNS));
        Some(Self { layout, sights, frame, seen, search, at: 0, second: false })
    }

    /// Bytes of memory, the layout that it shares left out.
    pub(super) fn memory(&self) -> u64 {
        let sights = self.sights.capacity() * size_of::<Sight>() + self.seen.capacity() * size_of::<Seen>();
        sights as u64 + self.search.memory()
    }

    /// Goes on a little; the answer when there is one.
    pub(super) fn step(&mut self) -> Option<Found> {
        let until = (self.at + STEP).min(self.seen.len());
        for seen in &self.seen[self.at..until] {
            self.search.step(*seen);
        }
        self.at = until;
        if self.at < self.seen.len() {
            return None;
        }
        let shifts = std::mem::replace(&mut self.search, Search::new(self.layout.clone(), FIRST_SCALE_TURNS)).finish();
        let angles: Vec<Angle> = self.sights.iter().map(|sight| end_angle(&self.layout, &shifts, sight.last)).collect();
        self.frame = Frame::fit(self.frame.period, &self.sights, |number| Some(angles[number]));
        if self.second {
            return Some(Found { shifts, period: self.frame.period });
        }
        let followed = self.frame.followed(&self.sights, |number| Some(angles[number]));
        let mut off: Vec<f64> = followed.iter().zip(&angles).map(|(seen, believed)| seen.signed_turns_from(*believed).abs()).collect();
        off.sort_unstable_by(f64::total_cmp);
        let scale = (1.5 * off.get(off.len() / 2).copied().unwrap_or(FIRST_SCALE_TURNS)).clamp(SCALES_TURNS.0, SCALES_TURNS.1);
        (self.seen, self.search, self.at, self.second) = (in_order(&self.sights, &followed), Search::new(self.layout.clone(), scale), 0, true);
        None
    }
}

fn end_angle(layout: &Layout, shifts: &Shifts, lba: Lba) -> Angle {
    let moved = shifts.moved(lba, layout.capacity().get());
    let sectors = layout.sectors_per_track(layout.track_of(moved));
    layout.spot(moved).angle + Angle::from_fraction(1, u64::from(sectors.max(1)))
}

fn in_order(sights: &[Sight], angles: &[Angle]) -> Vec<Seen> {
    let mut seen: Vec<Seen> = sights.iter().zip(angles).map(|(sight, angle)| Seen { last: sight.last, angle: *angle }).collect();
    seen.sort_by_key(|seen| seen.last);
    seen
}
