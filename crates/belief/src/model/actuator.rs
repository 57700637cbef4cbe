//! [`Actuator`]: one arm, its platters and the sectors under it: where the head goes, when it
//! arrives, and how long it waits for a sector.
//!
//! The model combines parts. *Locations* give the place of each sector: by a profile's layout, or
//! by the segments of a map that was learned without a profile. The *arm* gives the seek time: by
//! the profile's curve plus learned residuals, or by votes. The *spindle* gives the angle under the
//! head at a time. The *cache rules* recognize completions that are no accesses to the medium. One
//! computation ([`Actuator::approach`]) joins the parts of all models.
//!
//! Worked example, 20 TB 7,200 rpm: the head is free at t = 0 on cylinder 1,000; a request waits on
//! cylinder 51,000 at angle 0.25. The arm takes 4.7 ms, so the head arrives at the predicted angle
//! of t = 4.7 ms, say 0.20, and waits 0.05 turns = 417 us: positioning 5.1 ms. With a spread of 100
//! us the chance of missing is Φ(−4.17) ≈ 0: expected equals most likely. At angle 0.205 the wait
//! would be 42 us, the chance of missing 0.34, and the expected cost 2.8 ms more.
//!
//! Guarantees: before the first completion estimates count half a revolution, never a guessed
//! angle. Not modelled: the angle of single tracks of a large drive, which stays as spread; a bus
//! that two transfers share: where a large write's data cross it while a read's should, the read
//! looks late by up to a millisecond. Cost: an estimate is a seek look-up, three look-ups of what
//! was learned of the arm, two multiplications, and near the edge two error functions. Source: P2
//! sections 3.2 and 3.3; P1; docs/limits.md 4.

use headtime_mechanics::{DriveProfile, ProfileError};
use headtime_sched::{Certainty, Estimate, Head, Likely, Op, Overhead, PairCost, Position, Target};
use headtime_units::{Angle, Extent, Instant, Lba, Nanos, RotationPeriod, Sectors};

use crate::cache::CacheModel;
use crate::compact::{ArmTimes, CompactMap, Locations, Moves, Search, is_unknown};
use crate::model::learning::PredictionErrors;
use crate::moved::{Moved, Whereabouts};
use crate::remaps::Remaps;
use crate::spindle::Spindle;

/// The model of one arm.
#[derive(Clone, Debug)]
pub(crate) struct Actuator {
    /// Locations, arm times and what was learned of them: the part that a map file keeps.
    pub(crate) map: CompactMap,
    /// The first address of the drive that it serves. Only its tracks are in the drive's addresses.
    pub(crate) first: Lba,
    pub(crate) spindle: Spindle,
    /// The rotation as the spindle filter last had it; no phase before the platter was seen.
    pub(crate) period: RotationPeriod,
    pub(crate) phase: Option<Angle>,
    pub(crate) revolution: Nanos,
    /// The time until which the angle is known better than the arrival spreads.
    pub(crate) sharp_until: Instant,
    pub(crate) remaps: Remaps,
    pub(crate) cache: CacheModel,
    pub(crate) errors: PredictionErrors,
    /// The search for locations; `None` for a model that takes them from its profile.
    pub(crate) search: Option<Box<Search>>,
}

/// The most likely way of the head to a target.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Approach {
    pub(crate) depart: Instant,
    pub(crate) arrival: Instant,
    /// The wait for the sector after the arrival; means nothing unless `known`.
    pub(crate) wait: Nanos,
    /// The arm moves or a head is switched.
    pub(crate) moves: bool,
    /// The arm moves, and nothing else delays the access.
    pub(crate) by_arm: bool,
    /// The wait is known: the platter was seen, and so was the angle of the sector.
    pub(crate) known: bool,
}

impl Actuator {
    /// The model of one arm by its profile, nothing learned yet.
    pub(crate) fn of_profile(profile: &DriveProfile) -> Result<Self, ProfileError> {
        Ok(Self {
            cache: CacheModel::of(profile),
            ..Self::new(CompactMap::nominal(profile)?, None)
        })
    }

    /// The model of a drive with `map`, not seen since the map was made.
    pub(crate) fn of_map(map: CompactMap) -> Self {
        let cache = map.locations.profile().map_or_else(CacheModel::unknown, CacheModel::of);
        let search = Some(Box::new(Search::new(&map)));
        Self { cache, ..Self::new(map, search) }
    }

    fn new(map: CompactMap, search: Option<Box<Search>>) -> Self {
        Self {
            spindle: Spindle::new(map.period),
            period: map.period,
            phase: None,
            revolution: map.period.as_nanos(),
            sharp_until: Instant::ORIGIN,
            remaps: Remaps::default(),
            cache: CacheModel::unknown(),
            errors: PredictionErrors::default(),
            first: Lba::new(0),
            search,
            map,
        }
    }

    /// Forgets everything that was learned of the drive beside its cache.
    pub(crate) fn forget(&mut self) {
        self.map.forget();
        let cache = std::mem::replace(&mut self.cache, CacheModel::unknown());
        *self = Self { cache, first: self.first, ..Self::new(self.map.clone(), None) };
    }

    /// Returns true while predictions of angles are used: always by a profile, and by a map unless
    /// most of them were wrong lately.
    #[inline]
    pub(crate) fn trusts_angles(&self) -> bool {
        self.search.as_ref().is_none_or(|search| search.trusted())
    }

    pub(crate) fn capacity(&self) -> Sectors {
        self.map.capacity()
    }

    pub(crate) fn target(&self, op: Op, extent: Extent) -> Target {
        let (start, end, transfer) = self.map.locate(op, extent);
        let target = Target { op, extent, start, end, transfer };
        let mut target = self
            .map
            .moved
            .corrected(target, self.period, |from, to| self.map.nominal_arm_time(from, to, op));
        if !Moved::holds(target.start) && !Moved::holds(target.end) {
            target.transfer += self.remaps.lost(extent);
        }
        target
    }

    /// The time at which the drive can begin with the command, and the arrival of a write's data.
    #[inline]
    fn ready(&self, dispatch: Instant, target: &Target) -> (Instant, Instant) {
        let Locations::Layout(layout) = &self.map.locations else {
            return (dispatch, Instant::ORIGIN);
        };
        let started = dispatch + layout.interface.command_overhead(direction(target.op), None);
        if target.op != Op::Write {
            return (started, Instant::ORIGIN);
        }
        let len = target.extent.len;
        (started, layout.interface.write_media_start(started, len, per_sector(target)))
    }

    /// Departure, arrival and the wait that follows.
    #[inline]
    pub(crate) fn approach(&self, head: &Head, dispatch: Instant, target: &Target) -> Approach {
        let phase = self.phase.unwrap_or_default();
        let known = self.phase.is_some() && self.trusts_angles();
        self.approach_under(head, dispatch, target, known, |arrival| {
            self.period.angle_at(arrival, phase)
        })
    }

    /// The same with the angle `under` the head at its arrival, as far as it is `known`. Inlined,
    /// because every candidate of a decision comes here.
    #[inline(always)]
    fn approach_under(
        &self,
        head: &Head,
        dispatch: Instant,
        target: &Target,
        known: bool,
        under: impl Fn(Instant) -> Angle,
    ) -> Approach {
        let (started, data_there) = self.ready(dispatch, target);
        let depart = started.max(head.free_at);
        let (arm, moves) = self.map.arm_time(head.place, target.start, target.op);
        let arrival = (depart + arm).max(data_there);
        // The sector after the last one passes directly after it: whatever is unknown about the
        // angle is the same for both.
        let stays = !moves || self.map.locations.may_share_track(head.place, target.start);
        if stays
            && target.extent.start == head.next_lba
            && depart == head.free_at
            && data_there <= depart
        {
            return Approach {
                depart,
                arrival: depart,
                wait: Nanos::ZERO,
                moves: false,
                by_arm: false,
                known: known || !self.map.is_of_profile(),
            };
        }
        let wait = self.period.time_of(under(arrival).until(target.start.angle));
        Approach {
            depart,
            arrival,
            wait,
            moves,
            by_arm: moves && arrival > data_there,
            known: known && !is_unknown(target.start),
        }
    }

    /// Positioning time from departure on: most likely, expected and at worst.
    #[inline]
    fn price(&self, approach: &Approach, target: &Target) -> [Nanos; 3] {
        let before_wait = approach.arrival.saturating_since(approach.depart);
        if !approach.known {
            let half = before_wait + self.revolution / 2;
            let tail =
                self.map.tails.as_ref().map_or(Nanos::ZERO, |_| self.map.arrival.spread() * 4);
            return [half, half, before_wait + self.revolution + tail];
        }
        let spread = self.spread_at(approach.arrival);
        let moves = if approach.moves { Moves::Yes } else { Moves::No };
        let wait = approach.wait;
        self.map.price(target.extent.start, before_wait, wait, moves, spread, self.revolution)
    }

    /// The same for a target whose sectors were relocated to one of several cylinders: expected on
    /// average over them, at worst on the furthest.
    fn price_relocated(
        &self,
        approach: &Approach,
        head: &Head,
        target: &Target,
        approach_to: impl Fn(&Target) -> Approach,
    ) -> [Nanos; 3] {
        let [positioning, expected, worst] = self.price(approach, target);
        if !approach.moves {
            return [positioning, expected, worst];
        }
        let at = |cylinder: u32| Target { start: Position { cylinder, ..target.start }, ..*target };
        let whereabouts = self.map.moved.arm_of(target.extent.start);
        let (first, last) =
            whereabouts.map_or((0, self.map.locations.last_cylinder()), Whereabouts::span);
        let furthest = if head.place.cylinder.abs_diff(first) > head.place.cylinder.abs_diff(last) {
            first
        } else {
            last
        };
        let longest = approach_to(&at(furthest)).arrival.saturating_since(approach.depart)
            + self.revolution
            + self.spread_at(approach.arrival) * 4;
        let average = whereabouts
            .filter(|whereabouts| whereabouts.cylinder() == target.start.cylinder)
            .map_or(expected, |whereabouts| {
                let likely = whereabouts.likely();
                likely.into_iter().fold(Nanos::ZERO, |sum, cylinder| {
                    sum + self.price(&approach_to(&at(cylinder)), target)[1]
                }) / likely.len() as u64
            });
        let expected = average.max(approach.arrival.saturating_since(approach.depart));
        [positioning, expected, worst.max(longest).max(expected)]
    }

    #[inline]
    pub(crate) fn estimate(&self, head: &Head, dispatch: Instant, target: &Target) -> Estimate {
        let approach = self.approach(head, dispatch, target);
        let [positioning, expected, worst] = if Moved::holds(target.start) {
            let approach_to = |target: &Target| self.approach(head, dispatch, target);
            self.price_relocated(&approach, head, target, approach_to)
        } else {
            self.price(&approach, target)
        };
        let (depart, transfer) = (approach.depart, target.transfer);
        Estimate { depart, positioning, expected, worst, transfer }
    }

    #[inline]
    pub(crate) fn likely(&self, head: &Head, dispatch: Instant, target: &Target) -> Likely {
        let Approach { depart, arrival, wait, known, .. } = self.approach(head, dispatch, target);
        let wait = if known { wait } else { self.revolution / 2 };
        Likely { depart, positioning: arrival.saturating_since(depart) + wait }
    }

    /// From the end of `from` the platter turns on from the angle of that end, whenever that is.
    pub(crate) fn pair(
        &self,
        from: &Target,
        to: &Target,
        near: Instant,
        overhead: Overhead,
    ) -> PairCost {
        let head = Head::after(from, near);
        let dispatch = match overhead {
            Overhead::Overlapped => Instant::ORIGIN,
            Overhead::Exposed => near + self.reported_after(from),
        };
        let known = self.phase.is_some() && self.trusts_angles() && !is_unknown(from.end);
        let approach_to = |to: &Target| {
            self.approach_under(&head, dispatch, to, known, |arrival| {
                from.end.angle + self.period.angle_of(arrival.saturating_since(near))
            })
        };
        let approach = approach_to(to);
        let [_, expected, worst] = if Moved::holds(to.start) {
            self.price_relocated(&approach, &head, to, approach_to)
        } else {
            self.price(&approach, to)
        };
        let lost = approach.depart.saturating_since(near) + to.transfer;
        PairCost {
            expected: lost + expected,
            worst: lost + worst,
            known: self.certainty(&approach),
        }
    }

    /// A profile computes all pairs alike; of a map, one access does not change that an angle is
    /// unknown.
    fn certainty(&self, approach: &Approach) -> Certainty {
        if self.search.is_none() || approach.known { Certainty::Known } else { Certainty::Unknown }
    }

    pub(crate) fn known(&self, head: &Head, dispatch: Instant, target: &Target) -> Certainty {
        self.certainty(&self.approach(head, dispatch, target))
    }

    pub(crate) fn passes_at(&self, angle: Angle, from: Instant) -> Instant {
        let phase = self.phase.filter(|_| self.trusts_angles());
        let wait =
            phase.map(|phase| self.period.time_of(self.period.angle_at(from, phase).until(angle)));
        from + wait.unwrap_or_default()
    }

    pub(crate) fn media_end(&self, target: &Target, finished: Instant) -> Instant {
        finished.saturating_back(self.reported_after(target))
    }

    /// The time from its media end until an access is reported.
    fn reported_after(&self, target: &Target) -> Nanos {
        let Locations::Layout(layout) = &self.map.locations else { return Nanos::ZERO };
        let interface = &layout.interface;
        let overhead = interface.media_overhead(direction(target.op), target.extent.len);
        if target.op != Op::Read {
            return overhead;
        }
        // On a bus slower than the media the burst starts with the first sector and outlasts the
        // media.
        let but_the_first = target.transfer.saturating_sub(per_sector(target));
        let late = interface
            .bus_time(target.extent.len)
            .saturating_sub(interface.bus_time(Sectors::new(1)) + but_the_first);
        overhead + late
    }

    /// The spread of the arrival at `at`, wider where the angle itself is uncertain.
    pub(crate) fn spread_at(&self, at: Instant) -> Nanos {
        let arrival = self.map.arrival.spread();
        if at <= self.sharp_until {
            return arrival;
        }
        let angle_ns = self.spindle.deviation_turns(at) * self.revolution.as_ns() as f64;
        let both = libm::hypot(arrival.as_ns() as f64, angle_ns);
        Nanos::from_ns(both as u64).min(self.revolution / 3)
    }

    /// Returns true if the arm times are those of a curve, which excludes impossible accesses.
    pub(crate) fn has_curve(&self) -> bool {
        matches!(self.map.arm, ArmTimes::Curve(_))
    }

    /// The rotation from now on.
    pub(crate) fn set_rotation(&mut self, period: RotationPeriod, phase: Angle) {
        (self.period, self.phase, self.revolution) = (period, Some(phase), period.as_nanos());
        if let Locations::Layout(layout) = &mut self.map.locations {
            layout.mechanism.set_rotation(period, phase);
        }
    }
}

/// The direction of the transfer.
pub(crate) fn direction(op: Op) -> headtime_mechanics::Direction {
    if op == Op::Read {
        headtime_mechanics::Direction::Read
    } else {
        headtime_mechanics::Direction::Write
    }
}

/// Media time of one of the target's sectors, on average over its tracks.
fn per_sector(target: &Target) -> Nanos {
    target.transfer / target.extent.len.get().max(1)
}
