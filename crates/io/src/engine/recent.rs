//! The record of recently completed work, for live views. It exists while somebody asks for it:
//! each question extends it by [`KEPT_FOR`], and it has at most [`MAX_RECENT`] entries. Otherwise a
//! completion costs one comparison.

use std::collections::VecDeque;

use headtime_sched::{Belief, ClassId, Op, Position, VolumeId};
use headtime_units::{Extent, Instant, Lba, Nanos, Sectors};

/// The maximum number of entries that are kept between two questions.
pub const MAX_RECENT: usize = 4096;
/// The time without a question after which the record ends.
const KEPT_FOR: Nanos = Nanos::from_secs(5);
/// The number of tracks in a [`PlatterShape`].
const SAMPLES: u64 = 256;

/// A request, or a read for scans, that the drive completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServedWork {
    /// The volume; `None` for a read for scans.
    pub volume: Option<VolumeId>,
    /// The class of the volume.
    pub class: ClassId,
    /// The operation.
    pub op: Op,
    /// The drive's sectors.
    pub extent: Extent,
    /// The time of its submission, by [`RealClock`](crate::RealClock); of a read for scans, of its
    /// dispatch.
    pub submitted: Instant,
    /// The time at which it was sent to the drive.
    pub dispatched: Instant,
    /// The time of the drive's report.
    pub finished: Instant,
    /// The disk time charged for it.
    pub disk_time: Nanos,
    /// The predicted position of its first sector; `None` if it has no sectors.
    pub place: Option<Position>,
}

/// The work that the drive completed recently.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecentWork {
    /// The work since the question before, in the order of completion; the first question begins
    /// the record.
    pub works: Vec<ServedWork>,
    /// The number of earlier entries that were dropped, because there were more than
    /// [`MAX_RECENT`].
    pub dropped: u64,
    /// The platter; `None` if the drive model knows no tracks.
    pub shape: Option<PlatterShape>,
}

/// The tracks of a drive as its model knows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlatterShape {
    /// The number of cylinders.
    pub cylinders: u32,
    /// Evenly spaced samples, by address.
    pub samples: Vec<TrackSample>,
}

/// The track of one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrackSample {
    /// The address.
    pub lba: Lba,
    /// Its cylinder.
    pub cylinder: u32,
    /// Sectors per revolution, computed from the angle of one.
    pub sectors_per_track: u32,
}

impl PlatterShape {
    fn of(belief: &dyn Belief) -> Option<Self> {
        // Of several arms each has cylinders of its own.
        let tracks = belief.tracks(Lba::new(0)).filter(|_| belief.arms().count() == 1)?;
        let last = belief.capacity().get() - 1;
        let sample = |nth: u64| {
            let lba = Lba::new((u128::from(last) * u128::from(nth) / u128::from(SAMPLES)) as u64);
            let span = tracks.track_of(lba);
            let sectors_per_track = (u64::MAX / span.sector.max(1)).min(u64::from(u32::MAX)) as u32;
            TrackSample { lba, cylinder: span.start.cylinder, sectors_per_track }
        };
        Some(Self { cylinders: tracks.cylinders(), samples: (0..=SAMPLES).map(sample).collect() })
    }
}

/// The record.
#[derive(Debug, Default)]
pub(super) struct RecentLog {
    /// The end of the record, unless it is asked for before.
    until: Instant,
    works: VecDeque<ServedWork>,
    dropped: u64,
}

impl RecentLog {
    /// Returns true if work that completes at `now` is recorded.
    pub(super) fn is_on(&mut self, now: Instant) -> bool {
        let on = now < self.until;
        if !on && self.works.capacity() > 0 {
            *self = Self::default();
        }
        on
    }

    /// Records work; `place` is computed here, because it costs a question to the drive model.
    pub(super) fn note(&mut self, work: ServedWork, belief: &dyn Belief) {
        if self.works.len() == MAX_RECENT {
            self.works.pop_front();
            self.dropped += 1;
        }
        let has_sectors = work.extent.len > Sectors::ZERO;
        let place = has_sectors.then(|| belief.target(work.op, work.extent).start);
        self.works.push_back(ServedWork { place, ..work });
    }

    /// Answers a question at `now`.
    pub(super) fn answer(&mut self, now: Instant, belief: &dyn Belief) -> RecentWork {
        self.is_on(now);
        self.until = now + KEPT_FOR;
        RecentWork {
            works: self.works.drain(..).collect(),
            dropped: std::mem::take(&mut self.dropped),
            shape: PlatterShape::of(belief),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use headtime_belief::LinearBelief;

    fn at(ms: u64) -> Instant {
        Instant::ORIGIN + Nanos::from_ms(ms)
    }

    fn work(ms: u64) -> ServedWork {
        ServedWork {
            volume: Some(VolumeId(1)),
            class: ClassId(0),
            op: Op::Read,
            extent: Extent::from_numbers(ms, 8),
            submitted: at(ms),
            dispatched: at(ms),
            finished: at(ms),
            disk_time: Nanos::ZERO,
            place: None,
        }
    }

    #[test]
    fn work_is_recorded_from_the_first_question_until_nobody_asks_any_more() {
        let belief = LinearBelief::new(Sectors::new(1 << 30));
        let mut log = RecentLog::default();
        assert!(!log.is_on(at(0)), "nobody has asked");
        assert_eq!(log.answer(at(10), &belief), RecentWork::default());
        assert!(log.is_on(at(20)));
        log.note(work(20), &belief);
        let answer = log.answer(at(1_000), &belief);
        assert_eq!((answer.works.len(), answer.dropped), (1, 0));
        assert!(answer.works[0].place.is_some());
        log.note(work(1_001), &belief);
        assert!(log.is_on(at(5_999)) && !log.is_on(at(6_000)));
        assert_eq!(log.works.capacity(), 0, "its memory is free again");
        assert_eq!(log.answer(at(6_001), &belief).works, []);
    }

    #[test]
    fn the_record_is_bounded_and_tells_what_it_dropped() {
        let belief = LinearBelief::new(Sectors::new(1 << 30));
        let mut log = RecentLog::default();
        log.answer(at(0), &belief);
        (0..MAX_RECENT as u64 + 7).for_each(|ms| log.note(work(ms), &belief));
        let answer = log.answer(at(1), &belief);
        assert_eq!((answer.works.len(), answer.dropped), (MAX_RECENT, 7));
        assert_eq!(answer.works[0].extent.start, Lba::new(7));
    }
}
