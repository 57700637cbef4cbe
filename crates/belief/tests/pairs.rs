//! The pair costs of each drive model, against the definition: an estimate from the head's place
//! after the first request of the pair.

mod common;

use common::Run;
use headtime_belief::DriveModel;
use headtime_belief::compact::CompactSettings;
use headtime_belief::matrix::{
    Exploration, LatencyMatrix, MappedDrive, MatrixBelief, MatrixOptions, MatrixSettings,
    MatrixShape, SharedMatrix,
};
use headtime_mechanics::{DriveProfile, catalog};
use headtime_sched::{
    Belief, Certainty, Estimate, Head, Likely, Op, Overhead, PairCost, Positioning, Target,
    TrackMap, pair_by_estimate, pairs_one_by_one,
};
use headtime_sim::DriveTruth;
use headtime_units::{Angle, Extent, Instant, Lba, Nanos, Sectors};
use headtime_workload::{Mix, StreamConfig};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// A drive model with the default computation of pairs.
struct ByDefinition<'a>(&'a dyn Belief);

impl Positioning for ByDefinition<'_> {
    fn capacity(&self) -> Sectors {
        self.0.capacity()
    }

    fn target(&self, op: Op, extent: Extent) -> Target {
        self.0.target(op, extent)
    }

    fn estimate(&self, head: &Head, dispatch: Instant, target: &Target) -> Estimate {
        self.0.estimate(head, dispatch, target)
    }

    fn likely(&self, head: &Head, dispatch: Instant, target: &Target) -> Likely {
        self.0.likely(head, dispatch, target)
    }

    fn known(&self, head: &Head, dispatch: Instant, target: &Target) -> Certainty {
        self.0.known(head, dispatch, target)
    }

    fn passes_at(&self, angle: Angle, from: Instant) -> Instant {
        self.0.passes_at(angle, from)
    }

    fn seek_lower_bound(&self, cylinders: u32) -> Nanos {
        self.0.seek_lower_bound(cylinders)
    }

    fn revolution(&self) -> Nanos {
        self.0.revolution()
    }

    fn media_end(&self, target: &Target, finished: Instant) -> Instant {
        self.0.media_end(target, finished)
    }

    fn tracks(&self, served: Lba) -> Option<&dyn TrackMap> {
        self.0.tracks(served)
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

    headtime_sched::without_cache!();
}

/// The surface of a place with an unknown angle in a compact map.
const UNKNOWN_LOCATION: u16 = u16::MAX;

fn drawn(belief: &dyn Belief, rng: &mut ChaCha8Rng) -> Target {
    let len = rng.random_range(1..40);
    let start = rng.random_range(0..belief.capacity().get() - len);
    belief.target(
        if rng.random_bool(0.3) { Op::Write } else { Op::Read },
        Extent::from_numbers(start, len),
    )
}

/// Checks that both results agree for some pairs to within the rounding of an instant, except where
/// the rounding decides about a missed sector.
fn check(belief: &dyn Belief, now: Instant, what: &str) {
    let (mut rng, definition) = (ChaCha8Rng::seed_from_u64(5), ByDefinition(belief));
    let turn = belief.revolution();
    let apart = |one: Nanos, other: Nanos| one.as_ns().abs_diff(other.as_ns());
    let mut at_the_edge = 0;
    for round in 0..800 {
        let (from, mut to) = (drawn(belief, &mut rng), drawn(belief, &mut rng));
        if round % 10 == 0 && from.extent.end().get() + 8 <= belief.capacity().get() {
            to = belief.target(from.op, Extent::from_numbers(from.extent.end().get(), 8));
        }
        for overhead in [Overhead::Exposed, Overhead::Overlapped] {
            let (own, defined) = (
                belief.pair(&from, &to, now, overhead),
                definition.pair(&from, &to, now, overhead),
            );
            if from.end.head == UNKNOWN_LOCATION {
                // The definition needs the angle, which is unknown.
                continue;
            }
            assert_eq!(own.known, defined.known, "{what}: {from:?} to {to:?}");
            let off = apart(own.expected, defined.expected).max(apart(own.worst, defined.worst));
            // The uncertainty of the angle differs a little at another instant.
            if off > 5_000 {
                assert!(
                    off.abs_diff(turn.as_ns()) < 5_000,
                    "{what}: {own:?}, by definition {defined:?}, {from:?} to {to:?}"
                );
                at_the_edge += 1;
            }
            let arm = belief.seek_lower_bound(from.end.cylinder.abs_diff(to.start.cylinder));
            assert!(
                own.expected >= arm + to.transfer,
                "{what}: {own:?} is below its bound of {arm}"
            );
        }
        let (mut both, turned) = (None, belief.pair(&to, &from, now, Overhead::Overlapped));
        belief.pairs(
            &from,
            &mut core::iter::once(&to),
            now,
            Overhead::Overlapped,
            &mut |there, back| both = Some((there, back)),
        );
        assert_eq!(
            both,
            Some((belief.pair(&from, &to, now, Overhead::Overlapped), turned)),
            "{what}"
        );
    }
    assert!(at_the_edge < 3, "{what}: {at_the_edge} of 1,600 pairs are a turn apart");
}

fn load(name: &str) -> DriveProfile {
    catalog::load(name).expect("a profile of the catalog")
}

fn mapped(profile: &DriveProfile) -> MappedDrive {
    MappedDrive {
        model: profile.model.clone(),
        capacity: profile.capacity(),
        sector: profile.sector_size().expect("a valid profile"),
    }
}

#[test]
fn a_pair_is_what_an_estimate_from_the_end_of_the_first_says() {
    let (drive, seed) = ("atlas10k", 3);
    let profile = load(drive);
    let compact = |profile: &DriveProfile| {
        DriveModel::mapped_from_profile(profile, CompactSettings::default())
            .expect("a valid profile")
    };
    let nothing = |profile: &DriveProfile| {
        let period = profile.rotation_period().expect("a valid profile");
        DriveModel::mapped_from_nothing(mapped(profile), period, CompactSettings::default())
            .expect("a valid profile")
    };
    let matrix = |profile: &DriveProfile| {
        let shape = MatrixShape::new(mapped(profile), &MatrixSettings::default())
            .expect("cells suit any drive");
        MatrixBelief::new(
            SharedMatrix::new(LatencyMatrix::new(shape)),
            MatrixOptions { exploration: Exploration::Prefer, ..MatrixOptions::default() },
        )
    };
    let beliefs: [(&str, Box<dyn Belief + Send>, u64); 4] = [
        ("profile", headtime_belief::of_profile(&profile).expect("a valid profile"), 800),
        ("compact map from the profile", Box::new(compact(&profile)), 800),
        ("compact map from nothing", Box::new(nothing(&profile)), 3_000),
        ("matrix", Box::new(matrix(&profile)), 800),
    ];
    for (words, belief, requests) in beliefs {
        let truth = DriveTruth::draw(&profile, seed).expect("a valid profile");
        let streams = [StreamConfig { mix: Mix::reads(0.7), ..StreamConfig::closed(4) }];
        let mut run = Run::new(truth, belief, "sptf-expected", &streams, &profile, seed);
        check(run.belief(), run.now(), &format!("{words} of {drive}, seed {seed}, not seen yet"));
        run.advance(requests);
        check(run.belief(), run.now(), &format!("{words} of {drive}, seed {seed}"));
    }
}

/// The path with bounds equals the path by the times of all pairs, though most of those are never
/// computed.
#[test]
fn bounds_of_the_arm_change_no_path() {
    let profile = load("atlas10k");
    let truth = DriveTruth::draw(&profile, 6).expect("a valid profile");
    let mut run = Run::new(
        truth,
        headtime_belief::of_profile(&profile).expect("a valid profile"),
        "satf-map",
        &[StreamConfig::closed(16)],
        &profile,
        6,
    );
    run.advance(2_000);
    let (belief, now) = (run.belief(), run.now());
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let targets: Vec<Target> = (0..256).map(|_| drawn(belief, &mut rng)).collect();
    let expected = |pair: PairCost| pair.expected;
    let plain = (
        |to: usize| expected(belief.pair(&targets[0], &targets[to], now, Overhead::Exposed)),
        |from: usize, to: usize| {
            expected(belief.pair(&targets[from], &targets[to], now, Overhead::Exposed))
        },
    );
    let computed = core::cell::Cell::new(0);
    let bounded = Bounded { belief, targets: &targets, now, computed: &computed };
    let path = headtime_sched::tour::insert_in_order(&bounded, targets.len());
    assert_eq!(path, headtime_sched::tour::insert_in_order(&plain, targets.len()));
    // The last of 256 requests enters a complete path.
    let mut tour = headtime_sched::tour::LiveTour::new();
    let mut computed_for_one = 0;
    for _ in 0..targets.len() {
        let before = computed.get();
        let slot = tour.slot();
        tour.enter(&bounded, slot);
        computed_for_one = computed.get() - before;
    }
    assert_eq!(tour.path(), &path);
    let all = 2 * (targets.len() - 1);
    println!("{computed_for_one} of {all} pairs computed");
    assert!(computed_for_one < all / 2, "{computed_for_one} of {all} pairs computed");
}

/// The costs by which the policies of the latency map compare paths, counted.
struct Bounded<'a> {
    belief: &'a dyn Belief,
    targets: &'a [Target],
    now: Instant,
    computed: &'a core::cell::Cell<usize>,
}

impl headtime_sched::tour::Costs for Bounded<'_> {
    fn first(&self, to: usize) -> Nanos {
        self.belief.pair(&self.targets[0], &self.targets[to], self.now, Overhead::Exposed).expected
    }

    fn between(&self, from: usize, to: usize) -> Nanos {
        self.computed.set(self.computed.get() + 1);
        self.belief
            .pair(&self.targets[from], &self.targets[to], self.now, Overhead::Exposed)
            .expected
    }

    fn least(&self, one: usize, other: usize) -> [Nanos; 2] {
        let (one, other) = (&self.targets[one], &self.targets[other]);
        let arm = |from: &Target, to: &Target| {
            self.belief.seek_lower_bound(from.end.cylinder.abs_diff(to.start.cylinder))
                + to.transfer
        };
        [arm(one, other), arm(other, one)]
    }

    fn has_bounds(&self) -> bool {
        true
    }
}
