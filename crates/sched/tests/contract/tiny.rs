//! A drive small enough to compute by hand, and an exact drive model of it.
//!
//! 8 cylinders × 3 heads × 8 sectors, LBA = 24 × cylinder + 8 × head + sector; one revolution takes
//! 8 ms, so a sector takes 1 ms, and sector `s` starts under the head at times `s` ms + any number
//! of revolutions. A seek of `d` cylinders takes 0.8 ms + 0.2 ms × d, a head switch 0.5 ms. A
//! command has 0.2 ms of overhead before the drive can turn to it, and is reported 0.1 ms after its
//! media access. There is no skew: an access that crosses to the next track waits a whole
//! revolution.
//!
//! Modelled: seek, head switch, rotation, overhead, reporting. Not modelled: settle, zones, cache
//! hits, defects.

use std::sync::{Arc, Mutex};

use headtime_sched::{
    AccessKind, Arms, Belief, BeliefReport, Certainty, Estimate, Head, Likely, MeasuredAccess, Op,
    Overhead, PairCost, Position, Positioning, Target, TrackMap, TrackSpan, likely_by_estimate,
    pair_by_estimate, pairs_one_by_one,
};
use headtime_units::{Angle, Extent, Instant, Lba, Nanos, Sectors};

pub(crate) const SECTORS_PER_TRACK: u64 = 8;
pub(crate) const SECTORS_PER_CYLINDER: u64 = 24;
pub(crate) const CAPACITY: u64 = 8 * SECTORS_PER_CYLINDER;
pub(crate) const REVOLUTION: Nanos = Nanos::from_ms(8);
pub(crate) const SECTOR: Nanos = Nanos::from_ms(1);
pub(crate) const HEAD_SWITCH: Nanos = Nanos::from_us(500);
pub(crate) const OVERHEAD: Nanos = Nanos::from_us(200);
pub(crate) const REPORTING: Nanos = Nanos::from_us(100);

/// A model that knows the tiny drive, with settings to deviate from it.
#[derive(Clone, Default)]
pub(crate) struct TinyBelief {
    /// A sector that passes this soon after arrival is predicted to be missed every other time.
    pub risky_wait: Nanos,
    /// Additional overhead of writes.
    pub write_overhead: Nanos,
    pub learned: Arc<Mutex<Vec<MeasuredAccess>>>,
    /// True if it has tracks.
    pub knows_tracks: bool,
    /// Its verdict on every completion.
    pub says: AccessKind,
    /// True if the drive takes writes into a cache.
    pub caches_writes: bool,
    /// The displacement of each track in sectors.
    pub displaced: u64,
    /// The sectors that it predicts in the drive's cache.
    pub cached: Option<Extent>,
    /// The sectors of its arm; all, if there are none.
    pub serves: Extent,
    /// The tracks of the second of two arms.
    pub second: Option<Box<TinyBelief>>,
}

impl TinyBelief {
    /// The same drive with two arms, each for half of its cylinders.
    pub(crate) fn with_two_arms(self) -> Self {
        let half = |first| Extent::from_numbers(first, CAPACITY / 2);
        let second = Self { serves: half(CAPACITY / 2), ..self.clone() };
        Self { serves: half(0), second: Some(Box::new(second)), ..self }
    }
}

pub(crate) fn seek(cylinders: u32) -> Nanos {
    if cylinders == 0 { Nanos::ZERO } else { Nanos::from_us(800 + 200 * u64::from(cylinders)) }
}

fn place(lba: u64) -> Position {
    let sector = lba % SECTORS_PER_TRACK;
    Position {
        cylinder: (lba / SECTORS_PER_CYLINDER) as u32,
        head: (lba % SECTORS_PER_CYLINDER / SECTORS_PER_TRACK) as u16,
        angle: Angle::from_fraction(sector, SECTORS_PER_TRACK),
    }
}

/// Returns the time within a revolution at which an angle passes; exact, because angles here are
/// eighths of a revolution.
fn phase(angle: Angle) -> u64 {
    (u64::from(angle.as_raw()) * REVOLUTION.as_ns()) >> 32
}

impl Positioning for TinyBelief {
    fn capacity(&self) -> Sectors {
        Sectors::new(CAPACITY)
    }

    fn target(&self, op: Op, extent: Extent) -> Target {
        let (first, last) = (extent.start.get(), extent.last().get());
        let tracks_crossed = last / SECTORS_PER_TRACK - first / SECTORS_PER_TRACK;
        let mut end = place(last);
        end.angle += Angle::from_fraction(1, SECTORS_PER_TRACK);
        Target {
            op,
            extent,
            start: place(first),
            end,
            transfer: SECTOR * extent.len.get() + REVOLUTION * tracks_crossed,
        }
    }

    fn estimate(&self, head: &Head, dispatch: Instant, target: &Target) -> Estimate {
        let overhead =
            if target.op == Op::Write { OVERHEAD + self.write_overhead } else { OVERHEAD };
        let depart = (dispatch + overhead).max(head.free_at);
        let cylinders = head.place.cylinder.abs_diff(target.start.cylinder);
        let arm = if cylinders == 0 && head.place.head != target.start.head {
            HEAD_SWITCH
        } else {
            seek(cylinders)
        };
        let arrival = (depart + arm).as_ns() % REVOLUTION.as_ns();
        let wait = Nanos::from_ns(
            (phase(target.start.angle) + REVOLUTION.as_ns() - arrival) % REVOLUTION.as_ns(),
        );
        let positioning = arm + wait;
        let risk = if wait < self.risky_wait { REVOLUTION / 2 } else { Nanos::ZERO };
        Estimate {
            depart,
            positioning,
            expected: positioning + risk,
            worst: arm + REVOLUTION,
            transfer: target.transfer,
        }
    }

    /// The platter rotates with or without known tracks.
    fn passes_at(&self, angle: Angle, from: Instant) -> Instant {
        from + Nanos::from_ns(
            (phase(angle) + REVOLUTION.as_ns() - from.as_ns() % REVOLUTION.as_ns())
                % REVOLUTION.as_ns(),
        )
    }

    fn seek_lower_bound(&self, cylinders: u32) -> Nanos {
        seek(cylinders)
    }

    fn revolution(&self) -> Nanos {
        REVOLUTION
    }

    fn media_end(&self, _target: &Target, finished: Instant) -> Instant {
        finished.saturating_back(REPORTING)
    }

    fn takes_into_cache(&self, op: Op) -> bool {
        self.caches_writes && op == Op::Write
    }

    fn tracks(&self, served: Lba) -> Option<&dyn TrackMap> {
        let of_arm = match &self.second {
            Some(second) if second.serves.contains(served) => second,
            _ => self,
        };
        self.knows_tracks.then_some(of_arm as &dyn TrackMap)
    }

    fn likely(&self, head: &Head, dispatch: Instant, target: &Target) -> Likely {
        likely_by_estimate(self, head, dispatch, target)
    }

    fn known(&self, _head: &Head, _dispatch: Instant, _target: &Target) -> Certainty {
        Certainty::Known
    }

    fn pair(&self, from: &Target, to: &Target, near: Instant, overhead: Overhead) -> PairCost {
        pair_by_estimate(self, from, to, near, overhead)
    }

    fn pairs(
        &self,
        hub: &Target,
        others: &mut dyn Iterator<Item = &Target>,
        near: Instant,
        overhead: Overhead,
        each: &mut dyn FnMut(PairCost, PairCost),
    ) {
        pairs_one_by_one(self, hub, others, near, overhead, each);
    }

    fn reads_ahead(&self) -> bool {
        self.cached.is_some()
    }

    fn reads_on(&self, _from: Lba) -> Sectors {
        Sectors::ZERO
    }

    fn probably_cached(&self, extent: Extent, _until: Instant) -> bool {
        self.cached
            .is_some_and(|cached| cached.start <= extent.start && extent.end() <= cached.end())
    }

    fn arms(&self) -> Arms {
        let count = 1 + usize::from(self.second.is_some());
        Arms::in_turn(count, Sectors::new(CAPACITY / count as u64))
    }
}

impl TrackMap for TinyBelief {
    fn addresses(&self) -> Extent {
        let all = Extent::new(Lba::new(0), self.capacity());
        if self.serves.len.is_zero() { all } else { self.serves }
    }

    fn cylinders(&self) -> u32 {
        8
    }

    fn heads(&self) -> u16 {
        3
    }

    fn track_at(&self, cylinder: u32, head: u16) -> Option<TrackSpan> {
        let first =
            SECTORS_PER_CYLINDER * u64::from(cylinder) + SECTORS_PER_TRACK * u64::from(head);
        Some(TrackSpan {
            extent: Extent::from_numbers(first, SECTORS_PER_TRACK),
            start: place(first),
            sector: 1 << 61,
        })
    }

    fn track_of(&self, lba: Lba) -> TrackSpan {
        let Position { cylinder, head, .. } = place(lba.get());
        self.track_at(cylinder, head).expect("every track holds something")
    }

    fn arm_time(&self, from: Position, to: Position) -> Nanos {
        let cylinders = from.cylinder.abs_diff(to.cylinder);
        if cylinders == 0 && from.head != to.head { HEAD_SWITCH } else { seek(cylinders) }
    }

    fn arm_lower_bound(&self, cylinders: u32) -> Nanos {
        seek(cylinders)
    }

    fn angle_at(&self, at: Instant) -> Option<Angle> {
        Some(Angle::from_fraction(at.as_ns() % REVOLUTION.as_ns(), REVOLUTION.as_ns()))
    }

    fn time_of(&self, angle: Angle) -> Nanos {
        Nanos::from_ns(phase(angle))
    }

    fn spread(&self) -> Nanos {
        Nanos::ZERO
    }

    fn read_overhead(&self) -> Nanos {
        OVERHEAD
    }

    fn displaced(&self, _track: &TrackSpan) -> u64 {
        self.displaced
    }

    fn write_extra(&self) -> Nanos {
        Nanos::ZERO
    }

    fn may_destage(&self) -> bool {
        false
    }
}

impl Belief for TinyBelief {
    fn learn(&mut self, measured: &MeasuredAccess) -> AccessKind {
        self.learned.lock().expect("no test panics while it learns").push(*measured);
        self.says
    }

    fn report(&self) -> BeliefReport {
        let samples = self.learned.lock().expect("no test panics while it learns").len() as u64;
        BeliefReport { samples, ..BeliefReport::default() }
    }

    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
}

#[test]
fn the_tiny_drive_is_what_its_description_says() {
    let belief = TinyBelief::default();
    let target = belief.target(Op::Read, Extent::from_numbers(3 * 24 + 8 + 6, 4));
    assert_eq!(
        (target.start.cylinder, target.start.head, phase(target.start.angle)),
        (3, 1, 6_000_000)
    );
    assert_eq!((target.end.cylinder, target.end.head, phase(target.end.angle)), (3, 2, 2_000_000));
    assert_eq!(
        target.transfer,
        Nanos::from_ms(12),
        "four sectors and a revolution lost between tracks"
    );
    // From cylinder 0 at time 0: overhead until 0.2 ms, seek of 3 until 1.6 ms, then on to 6 ms.
    let estimate = belief.estimate(&Head::UNKNOWN, Instant::ORIGIN, &target);
    assert_eq!(
        (estimate.depart, estimate.positioning),
        (Instant::from_ns(200_000), Nanos::from_us(5_800))
    );
    assert_eq!(estimate.finish(), Instant::from_ns(18_000_000));
}
