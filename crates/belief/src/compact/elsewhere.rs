//! How long a [`CompactBelief`] takes an access to be, and what it makes of sectors that lie
//! elsewhere than its map's places say (`crate::moved`).

use headtime_sched::{Head, MeasuredAccess, Op, Position, Positioning, Target};
use headtime_units::{Angle, Extent, Instant, Nanos};

use super::belief::{AGREES_TURNS, CompactBelief, Learning, Way};
use super::map::PairTime;
use super::places::{Places, is_unknown};
use crate::moved::{Moved, NOWHERE, Reading, Trip, Whereabouts};

impl CompactBelief {
    /// Most likely positioning time from departure on, expected and worst; `way_to` is the way to
    /// the same sectors on another cylinder.
    pub(super) fn timed(
        &self,
        way: &Way,
        head: &Head,
        target: &Target,
        way_to: impl Fn(&Target) -> Way,
    ) -> (Nanos, PairTime) {
        let (positioning, times) = self.timed_on(way, target);
        if !Moved::holds(target.start) || !way.moves {
            return (positioning, times);
        }
        // Sectors that lie elsewhere, on one of several cylinders: expected on average over them,
        // at worst on the furthest.
        let at = |cylinder: u32| Target { start: Position { cylinder, ..target.start }, ..*target };
        let whereabouts = self.map.moved.arm_of(target.extent.start);
        let (first, last) =
            whereabouts.map_or((0, self.map.places.last_cylinder()), Whereabouts::span);
        let furthest = if head.place.cylinder.abs_diff(first) > head.place.cylinder.abs_diff(last) {
            first
        } else {
            last
        };
        let longest = way_to(&at(furthest)).arrival.saturating_since(way.depart)
            + self.revolution()
            + self.spread_at(way.arrival) * 4;
        let average = whereabouts
            .filter(|whereabouts| whereabouts.cylinder() == target.start.cylinder)
            .map_or(times.expected, |whereabouts| {
                let likely = whereabouts.likely();
                likely.into_iter().fold(Nanos::ZERO, |sum, cylinder| {
                    sum + self.timed_on(&way_to(&at(cylinder)), target).1.expected
                }) / likely.len() as u64
            });
        let expected = average.max(way.arrival.saturating_since(way.depart));
        (positioning, PairTime { expected, worst: times.worst.max(longest).max(expected) })
    }

    /// Most likely positioning time from departure on, expected and worst, for sectors on the
    /// cylinder where they are believed to be.
    fn timed_on(&self, way: &Way, target: &Target) -> (Nanos, PairTime) {
        let (turn, before_wait) = (self.revolution(), way.arrival.saturating_since(way.depart));
        let Some(wait) = way.wait else {
            let half = before_wait + turn / 2;
            return (
                half,
                PairTime {
                    expected: half,
                    worst: before_wait + turn + self.map.arrival.spread() * 4,
                },
            );
        };
        (
            before_wait + wait,
            self.map.priced(
                target.extent.start,
                before_wait,
                wait,
                way.moves,
                self.spread_at(way.arrival),
            ),
        )
    }

    /// Whether the head came from sectors that lie elsewhere, or goes there.
    pub(super) fn is_elsewhere(&self, measured: &MeasuredAccess) -> bool {
        let (target, head) = (&measured.target, measured.head_before.map(|head| head.place));
        [Some(target.start), Some(target.end), head].into_iter().flatten().any(Moved::holds)
    }

    /// What the angle at which the last sector of `extent` passed says; `predicted` is whether it
    /// came in the turn in which it was believed to.
    pub(super) fn look(&mut self, extent: Extent, at: Instant, predicted: Option<bool>) -> Reading {
        let last = extent.last();
        let home =
            self.map.places.end_angle(last).map(|angle| angle + self.map.angles.offset(last));
        let (Some(home), Some(phase), true) = (home, self.spindle.phase(), self.trusted()) else {
            return Reading::Home;
        };
        if self.learning == Learning::Phase {
            let place = self.map.moved.end(last, Position { angle: home, ..Position::default() });
            return match place.head {
                NOWHERE => Reading::Nothing,
                _ if Moved::holds(place) => Reading::Moved(place.angle),
                _ => Reading::Home,
            };
        }
        let tolerance = 5.0 * self.spindle.expected_error_turns(at);
        let (places, angles) = (&self.map.places, &self.map.angles);
        let at_home = |lba| places.end_angle(lba).map_or(home, |angle| angle + angles.offset(lba));
        self.map.moved.take(
            extent,
            self.spindle.period().angle_at(at, phase),
            at_home,
            tolerance,
            predicted,
        )
    }

    /// Places were found again, and angles may be counted from elsewhere: moved sectors are kept if
    /// most others have turned by the same angle.
    pub(super) fn turn_moved(&mut self, before: &Places) {
        let sights = self.sights.newest(TURNED_BY);
        let turned: Vec<Angle> = sights
            .iter()
            .filter_map(|sight| {
                Some(self.map.places.end_angle(sight.last)? - before.end_angle(sight.last)?)
            })
            .collect();
        let agree = |by: Angle| {
            turned.iter().filter(|other| other.signed_turns_from(by).abs() < AGREES_TURNS).count()
        };
        let best = turned
            .iter()
            .copied()
            .max_by_key(|by| agree(*by))
            .filter(|by| agree(*by) * 2 > turned.len());
        let moved = core::mem::replace(&mut self.map.moved, self.map.places.none_moved());
        if let Some(by) = best {
            self.map.moved.take_over(moved, by);
        }
    }

    /// What the completion says of where the arm goes for sectors that lie elsewhere.
    pub(super) fn judge_trip(&mut self, measured: &MeasuredAccess, way: &Way, media_end: Instant) {
        let Some(head) = measured
            .head_before
            .filter(|head| !Moved::holds(head.place) && measured.target.op == Op::Read)
        else {
            return;
        };
        let took_ns = media_end.signed_since(way.depart + measured.target.transfer) as f64;
        let spread_ns = self.map.arrival.spread().as_ns() as f64;
        let trip = Trip { took_ns, turn_ns: self.revolution().as_ns() as f64, spread_ns };
        let mut moved = core::mem::replace(&mut self.map.moved, Moved::new(1, []));
        moved.take_trip(measured.target.extent, &trip, |cylinder| {
            self.map
                .arm_time(head.place, Position { cylinder, head: NOWHERE, ..head.place }, false)
                .0
                .as_ns() as f64
        });
        self.map.moved = moved;
    }

    /// Whether the access came in the turn in which it was believed to; `None` where nobody could
    /// know.
    pub(super) fn is_predicted(
        &self,
        way: &Way,
        measured: &MeasuredAccess,
        media_end: Instant,
    ) -> Option<bool> {
        let came_from = measured
            .head_before
            .filter(|head| !Moved::holds(head.place) && !is_unknown(head.place));
        let due =
            came_from.and(way.wait).map(|wait| way.arrival + wait + measured.target.transfer)?;
        Some(media_end.signed_since(due).unsigned_abs() < (self.revolution() / 2).as_ns())
    }
}

/// Sights by which it is seen how far angles have turned (guess: some from most strips).
const TURNED_BY: usize = 256;
