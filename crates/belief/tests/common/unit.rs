//! A simulated drive without cache and queue that serves one read at a time, and the predictions of
//! a drive model for each.

#![allow(dead_code, reason = "each test uses some of it")]

use headtime_mechanics::{Direction, DriveProfile, HeadPosition, InterfaceTimes};
use headtime_sched::{AccessKind, Belief, Head, MeasuredAccess, Op};
use headtime_sim::DriveTruth;
use headtime_units::{Extent, Instant, Lba, Nanos, Sectors};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A read that reaches or misses its sector by less than this is at the edge.
const EDGE: Nanos = Nanos::from_us(100);
/// The surface of a place of which a compact map knows no angle.
const UNKNOWN_LOCATION: u16 = u16::MAX;
/// Sampled addresses for [`known_and_wrong`].
const MAX_VISITS: u64 = 4_000;
/// The minimum error of a wrong angle, in turns.
const WRONG: f64 = 0.05;

/// A simulated drive without cache and queue.
pub(crate) struct Unit {
    truth: DriveTruth,
    interface: InterfaceTimes,
    now: Instant,
    at: HeadPosition,
    head: Option<Head>,
    rng: ChaCha8Rng,
}

/// The result of a prediction.
pub(crate) struct Outcome {
    /// True if the response time was within 5 % of the expected one.
    pub right: bool,
    /// True if a slack within the noise decided about a further turn.
    pub at_the_edge: bool,
    /// True if a model with exact mechanics, but without the noise, would have been right.
    pub foreseeable: bool,
    /// True if the most likely time, rather than the expected one, would have been right.
    pub likely_right: bool,
    /// The most likely response time less the real one.
    pub likely_off_ns: i64,
    /// The expected one less the most likely one.
    pub hedge_ns: i64,
    /// Overhead before the arm movement, the real arm time, and the rotational wait.
    pub overhead: Nanos,
    pub arm: Nanos,
    pub rotate: Nanos,
    pub response: Nanos,
}

impl Unit {
    /// The simulated drive of `profile` with this seed, at rest.
    pub(crate) fn draw(profile: &DriveProfile, seed: u64) -> Self {
        let truth = DriveTruth::draw(profile, seed).expect("a valid profile");
        let interface = InterfaceTimes::from_profile(profile).expect("a valid profile");
        Self {
            truth,
            interface,
            now: Instant::from_ns(1),
            at: HeadPosition::PARKED,
            head: None,
            rng: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    /// The truth of the drive, for comparison.
    pub(crate) fn truth(&self) -> &DriveTruth {
        &self.truth
    }

    /// The head as a scheduler knows it.
    pub(crate) fn head(&self) -> Option<Head> {
        self.head
    }

    /// 4 KiB (sectors of 512 bytes) anywhere on a drive of this size.
    pub(crate) fn anywhere(&mut self, capacity: Sectors) -> Extent {
        let page = self.rng.random_range(0..capacity.get() / 8);
        Extent::new(Lba::new(page * 8), Sectors::new(8))
    }

    /// Reads 4 KiB anywhere.
    pub(crate) fn read_anywhere(&mut self, belief: &mut dyn Belief) -> Outcome {
        let extent = self.anywhere(belief.capacity());
        self.read(belief, extent)
    }

    /// Reads these sectors.
    pub(crate) fn read(&mut self, belief: &mut dyn Belief, extent: Extent) -> Outcome {
        let (mechanism, target, dispatched) =
            (self.truth.mechanism(), belief.target(Op::Read, extent), self.now);
        let estimate = belief.estimate(&self.head.unwrap_or(Head::UNKNOWN), dispatched, &target);
        let depart = dispatched + self.interface.command_overhead(Direction::Read, None);
        let way = mechanism.positioning_to(
            self.at,
            depart,
            Direction::Read,
            &mechanism.spot(extent.start),
        );
        let access = mechanism.access(self.at, depart, Direction::Read, extent, Instant::ORIGIN);
        self.at = access.end;
        let noise = self.truth.noise();
        let jitter = -libm::log(1.0 - self.rng.random::<f64>()) * noise.jitter_ns;
        let retried = if self.rng.random::<f64>() < noise.outlier_share {
            noise.outlier
        } else {
            Nanos::ZERO
        };
        let completed = self.interface.read_completed(
            access.first_sector,
            access.finish,
            extent.len,
            Instant::ORIGIN,
        );
        let finished = completed + Nanos::from_ns(jitter as u64) + retried;
        let reported = belief.media_end(&target, finished);
        let predicted = (estimate.expected_cost(dispatched) + finished.saturating_since(reported))
            .as_ns() as f64;
        let response = finished.saturating_since(dispatched).as_ns() as f64;
        let turn = mechanism.period().as_nanos();
        let likely = (estimate.depart.saturating_since(dispatched)
            + estimate.positioning
            + estimate.transfer
            + finished.saturating_since(reported))
        .as_ns() as f64;
        let right = |predicted: f64| (predicted - response).abs() <= 0.05 * response;
        let outcome = Outcome {
            right: right(predicted),
            foreseeable: right(completed.saturating_since(dispatched).as_ns() as f64),
            likely_right: right(likely),
            likely_off_ns: (likely - response) as i64,
            hedge_ns: (predicted - likely) as i64,
            overhead: depart.saturating_since(dispatched),
            arm: way.seek,
            rotate: way.rotate,
            response: finished.saturating_since(dispatched),
            at_the_edge: !way.seek.is_zero()
                && (way.rotate < EDGE || turn.saturating_sub(way.rotate) < EDGE),
        };
        match belief.learn(&MeasuredAccess {
            target,
            dispatched,
            finished,
            head_before: self.head,
            forced: false,
            succeeded: true,
        }) {
            AccessKind::CacheHit => {}
            AccessKind::Media => self.head = Some(Head::after(&target, reported)),
            AccessKind::Uncertain => self.head = None,
        }
        self.now = finished + Nanos::from_us(1);
        outcome
    }
}

/// The share of addresses with a known angle in a compact map, and the share of those at a wrong
/// angle, in per cent. The truth of the simulated drive decides.
pub(crate) fn known_and_wrong(belief: &dyn Belief, truth: &DriveTruth, seed: u64) -> (f64, f64) {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ 0x10_0C);
    let off: Vec<f64> = (0..MAX_VISITS)
        .filter_map(|_| {
            let lba = Lba::new(rng.random_range(0..belief.capacity().get() - 1));
            let modelled = belief.target(Op::Read, Extent::new(lba, Sectors::new(1))).start;
            (modelled.head != UNKNOWN_LOCATION)
                .then(|| modelled.angle.signed_turns_from(truth.mechanism().spot(lba).angle))
        })
        .collect();
    // The map chooses the origin of its angles. Most angles are right, so the most frequent
    // difference is the origin.
    let near = |from: f64| off.iter().filter(|off| apart(**off, from) < WRONG).count();
    let agree = (0..200).map(|step| near(f64::from(step) / 200.0)).max().unwrap_or(0);
    (
        100.0 * off.len() as f64 / MAX_VISITS as f64,
        100.0 * (off.len() - agree) as f64 / off.len().max(1) as f64,
    )
}

fn apart(one: f64, other: f64) -> f64 {
    let off = one - other;
    (off - off.round()).abs()
}
