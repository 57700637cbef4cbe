//! Tests of the drive model by map, on synthetic observations and on simulated mechanics.

use super::super::eviction::WhenFull;
use super::super::exceedance::ExceedanceRow;
use super::super::map::LatencyMatrix;
use super::super::scale::EntryBits;
use super::super::shape::{Directions, MappedDrive, MatrixSettings};
use super::*;
use headtime_mechanics::{Direction, HeadPosition, Mechanism, catalog};
use headtime_sched::{
    Admission, ClassId, Command, Decision, Done, DriveTraits, Outcome, POLICIES, PolicyEntry,
    QueueLimits, Request, RequestId, Scheduler, StreamId, VolumeId,
};
use headtime_units::SectorSize;
use proptest::prelude::*;
use rand::{RngExt as _, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::VecDeque;

const CELL: u64 = 256;
const CELLS: u64 = 4_000;

fn belief_with(settings: MatrixSettings, options: MatrixOptions) -> MatrixBelief {
    let drive = MappedDrive {
        model: "TEST 10K".into(),
        capacity: Sectors::new(CELLS * CELL),
        sector: SectorSize::B512,
    };
    MatrixBelief::new(
        SharedMatrix::new(LatencyMatrix::new(MatrixShape::new(drive, &settings).unwrap())),
        options,
    )
}

fn belief() -> MatrixBelief {
    belief_with(
        MatrixSettings { longest: Nanos::from_ms(14), ..MatrixSettings::default() },
        MatrixOptions::default(),
    )
}

/// A read of 8 sectors at the start of a cell.
fn read(belief: &MatrixBelief, cell: u64) -> Target {
    belief.target(Op::Read, Extent::from_numbers(cell * CELL, 8))
}

/// The head after a read that ended at `free_at`.
fn head(belief: &MatrixBelief, cell: u64, free_at: Instant) -> Head {
    Head::after(&read(belief, cell), free_at)
}

const T0: Instant = Instant::from_ns(5_000_000_000);

/// One back-to-back access that takes `positioning` and its media time.
fn teach(belief: &mut MatrixBelief, from: u64, to: u64, positioning: Nanos) -> AccessKind {
    let target = read(belief, to);
    let finished = T0 + positioning + target.transfer;
    belief.learn(&MeasuredAccess {
        target,
        dispatched: T0,
        finished,
        head_before: Some(head(belief, from, T0)),
        forced: false,
        succeeded: true,
    })
}

#[test]
fn a_pair_that_was_learned_answers_its_worst_and_by_and_by_what_is_usual() {
    let mut belief = belief();
    for us in [5_700, 3_000, 3_000, 3_000, 3_000] {
        teach(&mut belief, 3, 9, Nanos::from_us(us));
    }
    let at = head(&belief, 3, T0);
    let estimate = belief.estimate(&at, T0, &read(&belief, 9));
    assert_eq!((estimate.depart, estimate.worst), (T0, Nanos::from_ms(6)));
    // Four observations of half the entry, and four guesses that the worst is usual.
    assert_eq!(estimate.expected, Nanos::from_us(4_500));
    assert_eq!(belief.likely(&at, T0, &read(&belief, 9)).positioning, estimate.positioning);
    // The way back is the same pair; another cell is another.
    assert_eq!(
        belief.estimate(&head(&belief, 9, T0), T0, &read(&belief, 3)).worst,
        Nanos::from_ms(6)
    );
    assert_eq!(belief.estimate(&at, T0, &read(&belief, 10)).worst, Nanos::from_ms(14));
    let report = belief.report();
    assert!(report.samples == 5 && report.period_ns.is_none() && report.error_rms_us > Some(0.0));
}

#[test]
fn unknown_pairs_are_ordered_by_distance_in_addresses() {
    let belief = belief();
    let at = head(&belief, 1_000, T0);
    let cost = |cell: u64| belief.estimate(&at, T0, &read(&belief, cell)).expected;
    let mut cells = [1_001, 990, 1_030, 900, 1_400, 100, 3_999];
    cells.sort_by_key(|cell| cost(*cell));
    assert_eq!(cells, [1_001, 990, 1_030, 900, 1_400, 100, 3_999]);
    assert!(cost(1_001) > Nanos::from_ms(1), "an unknown pair is not for nothing");
}

#[test]
fn a_pair_is_not_known_after_idleness_nor_learned_from_it() {
    let mut belief = belief();
    teach(&mut belief, 3, 9, Nanos::from_ms(2));
    let (at, later) = (head(&belief, 3, T0), T0 + Nanos::from_us(201));
    let idle = belief.estimate(&at, later, &read(&belief, 9));
    assert_eq!((idle.depart, idle.worst), (later, Nanos::from_ms(14)));
    assert!(idle.expected > Nanos::from_ms(2));
    let target = read(&belief, 20);
    let after_a_pause = MeasuredAccess {
        target,
        dispatched: later,
        finished: later + Nanos::from_ms(4),
        head_before: Some(at),
        forced: false,
        succeeded: true,
    };
    assert_eq!(belief.learn(&after_a_pause), AccessKind::Media);
    let failed = MeasuredAccess { dispatched: T0, succeeded: false, ..after_a_pause };
    let in_reject = MeasuredAccess { dispatched: T0, head_before: None, ..after_a_pause };
    let discard = MeasuredAccess {
        dispatched: T0,
        target: Target { op: Op::Discard, ..target },
        ..after_a_pause
    };
    for teaches_nothing in [failed, in_reject, discard] {
        assert_eq!(belief.learn(&teaches_nothing), AccessKind::Media);
    }
    assert_eq!(belief.map().inspect(LatencyMatrix::known), 1);
    belief.learn(&MeasuredAccess { dispatched: T0, ..after_a_pause });
    assert_eq!(belief.map().inspect(LatencyMatrix::known), 2);
}

/// A command sent during the service of the previous one counts from the end of that one.
#[test]
fn with_two_outstanding_a_pair_counts_from_completion_to_completion() {
    let mut belief = belief();
    let (target, at) = (read(&belief, 9), head(&belief, 3, T0));
    let dispatched = T0.saturating_back(Nanos::from_ms(6));
    let finished = T0 + Nanos::from_us(3_900) + target.transfer;
    belief.learn(&MeasuredAccess {
        target,
        dispatched,
        finished,
        head_before: Some(at),
        forced: false,
        succeeded: true,
    });
    let estimate = belief.estimate(&at, dispatched, &target);
    assert_eq!((estimate.depart, estimate.worst), (T0, Nanos::from_ms(4)));
}

#[test]
fn a_hit_in_the_drives_cache_teaches_nothing_and_leaves_the_head_where_it_was() {
    let mut belief = belief();
    assert_eq!(teach(&mut belief, 3, 9, Nanos::from_us(120)), AccessKind::CacheHit);
    assert_eq!(belief.map().inspect(|map| map.time(3, 9)), None);
    teach(&mut belief, 3, 9, Nanos::from_us(6_300));
    assert_eq!(teach(&mut belief, 3, 9, Nanos::from_us(120)), AccessKind::CacheHit);
    assert_eq!(belief.map().inspect(|map| map.time(3, 9)), Some(Nanos::from_ms(7)));
    // Next to the head it may be a media access, and the entry is the worst time anyway.
    assert_eq!(teach(&mut belief, 3, 4, Nanos::from_us(120)), AccessKind::Media);
    teach(&mut belief, 3, 4, Nanos::from_us(5_500));
    assert_eq!(teach(&mut belief, 3, 4, Nanos::from_us(120)), AccessKind::Media);
    assert_eq!(belief.map().inspect(|map| map.time(3, 4)), Some(Nanos::from_ms(6)));
    assert_eq!(belief.report().cache_hits, 2);
    // A write that completed at once is in the cache, and the head soon moves elsewhere.
    let target = Target { op: Op::Write, ..read(&belief, 900) };
    let measured = MeasuredAccess {
        target,
        dispatched: T0,
        finished: T0 + Nanos::from_us(90),
        head_before: Some(head(&belief, 3, T0)),
        forced: false,
        succeeded: true,
    };
    assert_eq!(belief.learn(&measured), AccessKind::Uncertain);
}

#[test]
fn a_request_longer_than_a_cell_is_a_pair_and_what_follows_it_on_the_media() {
    let mut belief = belief();
    teach(&mut belief, 3, 9, Nanos::from_ms(6));
    let long = belief.target(Op::Read, Extent::from_numbers(9 * CELL, 8 * CELL));
    assert_eq!(
        (long.start.cylinder, long.end.cylinder),
        (9, 16),
        "the next request comes from the last cell"
    );
    assert_eq!(long.transfer, Nanos::from_ns(2_560 * 8 * CELL));
    let at = head(&belief, 3, T0);
    assert_eq!(
        belief.estimate(&at, T0, &long).worst,
        Nanos::from_ms(6),
        "its beginning is the pair's"
    );
    // 4 us per sector after the first cell, its start as expected.
    let takes = belief.estimate(&at, T0, &long).expected
        + Nanos::from_ns(2_560 * CELL)
        + Nanos::from_ns(4_000 * 7 * CELL);
    belief.learn(&MeasuredAccess {
        target: long,
        dispatched: T0,
        finished: T0 + takes,
        head_before: Some(at),
        forced: false,
        succeeded: true,
    });
    let again = belief.target(Op::Read, long.extent);
    assert_eq!(again.transfer.as_ns() / 1_000, (2_560 * CELL + 4_000 * 7 * CELL) / 1_000);
    assert_eq!(
        belief.map().inspect(LatencyMatrix::observations),
        1,
        "it is no observation of the pair"
    );
    assert_eq!(
        read(&belief, 9).transfer,
        Nanos::from_ns(2_560 * 8),
        "within a cell the pace stays"
    );
}

#[test]
fn when_the_map_is_to_be_filled_unknown_pairs_go_first_and_the_nearest_of_them() {
    let mut belief = belief();
    for to in [1_001, 1_002, 1_500] {
        teach(&mut belief, 1_000, to, Nanos::from_us(900));
    }
    let order = |belief: &MatrixBelief| {
        let at = head(belief, 1_000, T0);
        let mut cells = [1_001, 1_500, 2_000, 1_003, 900];
        cells.sort_by_key(|cell| (belief.estimate(&at, T0, &read(belief, *cell)).expected, *cell));
        cells
    };
    assert_eq!(order(&belief), [1_001, 1_500, 1_003, 900, 2_000]);
    let before = belief.estimate(&head(&belief, 1_000, T0), T0, &read(&belief, 900));
    belief.options.exploration = Exploration::Prefer;
    assert_eq!(order(&belief), [1_003, 900, 2_000, 1_001, 1_500]);
    let after = belief.estimate(&head(&belief, 1_000, T0), T0, &read(&belief, 900));
    assert_eq!(
        Estimate { expected: before.expected, ..after },
        before,
        "only what is expected changes"
    );
    // Nothing is learned after idle time, from a long request, or without a free row.
    let (at, later) = (head(&belief, 1_000, T0), T0 + Nanos::from_ms(1));
    assert!(belief.estimate(&at, later, &read(&belief, 900)).expected > Nanos::from_ms(1));
    let long = belief.target(Op::Read, Extent::from_numbers(900 * CELL, CELL + 1));
    assert!(belief.estimate(&at, T0, &long).expected > Nanos::from_ms(1));
    let full =
        MatrixSettings { memory: headtime_units::ByteSize::new(70), ..MatrixSettings::default() };
    let mut full = belief_with(
        full,
        MatrixOptions { exploration: Exploration::Prefer, ..MatrixOptions::default() },
    );
    teach(&mut full, 1, 3, Nanos::from_ms(3));
    assert!(full.estimate(&head(&full, 1, T0), T0, &read(&full, 5)).expected > Nanos::from_ms(1));
    assert!(
        full.estimate(&head(&full, 1, T0), T0, &read(&full, 1)).expected < Nanos::from_us(100),
        "a cell with itself is still unknown"
    );
}

#[test]
fn two_drives_with_one_map_learn_for_each_other() {
    let mut one = belief();
    let two = MatrixBelief::new(one.map().clone(), MatrixOptions::default());
    teach(&mut one, 3, 9, Nanos::from_ms(2));
    assert_eq!(two.estimate(&head(&two, 3, T0), T0, &read(&two, 9)).worst, Nanos::from_ms(2));
    assert_eq!(two.report().samples, 0, "what else a belief learns is each drive's own");
}

proptest! {
    #[test]
    fn the_contract_of_positioning_holds_and_no_worst_is_below_what_was_observed(
        taught in proptest::collection::vec(
            (0_u64..30, 0_u64..30, 0_u64..30_000_000, 1_u64..=CELL),
            0..80,
        ),
        requested in proptest::collection::vec(
            (0_u64..CELLS, 0_u64..CELLS, 1_u64..3 * CELL, 0_u64..2_000_000),
            1..20,
        ),
        bits in prop_oneof![
            Just(EntryBits::Four),
            Just(EntryBits::Eight),
            Just(EntryBits::Sixteen),
        ],
        exploration in prop_oneof![Just(Exploration::Off), Just(Exploration::Prefer)],
    ) {
        let settings = MatrixSettings { bits, ..MatrixSettings::default() };
        let mut belief =
            belief_with(settings, MatrixOptions { exploration, ..MatrixOptions::default() });
        let mut observed = Vec::new();
        for (from, to, busy, len) in taught {
            let (target, at) = (
                belief.target(Op::Read, Extent::from_numbers(to * CELL, len)),
                head(&belief, from, T0),
            );
            let busy = Nanos::from_ns(busy);
            let measured = MeasuredAccess {
                target,
                dispatched: T0,
                finished: T0 + busy,
                head_before: Some(at),
                forced: false,
                succeeded: true,
            };
            if belief.learn(&measured) == AccessKind::Media {
                observed.push((at, target, busy));
            }
        }
        for (at, target, busy) in &observed {
            let estimate = belief.estimate(at, T0, target);
            prop_assert!(
                estimate.worst + estimate.transfer >= *busy,
                "{:?} for {}",
                estimate,
                busy
            );
        }
        for (from, to, len, idle) in requested {
            let extent = Extent::from_numbers(to * CELL, len.min((CELLS - to) * CELL));
            let (target, at) = (belief.target(Op::Write, extent), head(&belief, from, T0));
            let dispatch = T0.offset_by_ns(idle as i64 - 1_000_000);
            let estimate = belief.estimate(&at, dispatch, &target);
            prop_assert_eq!(estimate, belief.estimate(&at, dispatch, &target));
            prop_assert!(
                estimate.positioning <= estimate.worst && estimate.expected <= estimate.worst
            );
            prop_assert!(estimate.depart >= dispatch && estimate.depart >= at.free_at);
            let bound = belief.seek_lower_bound(at.place.cylinder.abs_diff(target.start.cylinder));
            prop_assert!(bound <= estimate.positioning && bound <= estimate.expected);
            let likely = belief.likely(&at, dispatch, &target);
            prop_assert_eq!(
                (likely.depart, likely.positioning),
                (estimate.depart, estimate.positioning)
            );
        }
    }
}

/// A closed loop of sixteen requests on the mechanics of an Atlas 10K, one at the drive, the lowest
/// expected cost first.
struct Loop<B> {
    mechanism: Mechanism,
    belief: B,
    places: Vec<Extent>,
    rng: ChaCha8Rng,
    queue: Vec<Extent>,
    head: Option<Head>,
    position: HeadPosition,
    now: Instant,
}

impl<B: Belief> Loop<B> {
    fn new(make: impl FnOnce(MappedDrive) -> B) -> Self {
        let profile = catalog::load("atlas10k").expect("it ships");
        let drive = MappedDrive {
            model: profile.name.clone(),
            capacity: profile.capacity(),
            sector: SectorSize::B512,
        };
        let mut rng = ChaCha8Rng::seed_from_u64(11);
        let last = drive.capacity.get() - 8;
        let places: Vec<Extent> =
            (0..48).map(|_| Extent::from_numbers(rng.random_range(0..last), 8)).collect();
        let queue = (0..16).map(|_| places[rng.random_range(0..places.len())]).collect();
        let (mechanism, position) = (
            Mechanism::nominal(&profile).expect("it ships"),
            HeadPosition { cylinder: 0, head: 0 },
        );
        Self { mechanism, belief: make(drive), places, rng, queue, head: None, position, now: T0 }
    }

    /// From now on, requests are for other places.
    fn move_to(&mut self, places: Vec<Extent>) {
        self.places = places;
        self.queue.fill_with(|| self.places[self.rng.random_range(0..self.places.len())]);
    }

    /// The mean service time of so many requests.
    fn serve(&mut self, requests: u64) -> Nanos {
        let began = self.now;
        for _ in 0..requests {
            let from = self.head.unwrap_or(Head::UNKNOWN);
            let cost = |extent: &Extent| {
                self.belief
                    .estimate(&from, self.now, &self.belief.target(Op::Read, *extent))
                    .expected_cost(self.now)
            };
            let next = (0..self.queue.len())
                .min_by_key(|place| cost(&self.queue[*place]))
                .expect("the queue is full");
            let extent = self.queue.swap_remove(next);
            let target = self.belief.target(Op::Read, extent);
            let depart = self.now + Nanos::from_us(150);
            let finished = self
                .mechanism
                .access(self.position, depart, Direction::Read, extent, Instant::ORIGIN)
                .finish;
            self.belief.learn(&MeasuredAccess {
                target,
                dispatched: self.now,
                finished,
                head_before: self.head,
                forced: false,
                succeeded: true,
            });
            (self.head, self.position, self.now) = (
                Some(Head::after(&target, finished)),
                self.mechanism.end_spot(extent).position,
                finished,
            );
            self.queue.push(self.places[self.rng.random_range(0..self.places.len())]);
        }
        self.now.saturating_since(began) / requests
    }
}

fn mapped(drive: MappedDrive, directions: Directions, exploration: Exploration) -> MatrixBelief {
    let settings = MatrixSettings {
        bits: EntryBits::Eight,
        directions,
        count_samples: true,
        ..MatrixSettings::default()
    };
    let map = LatencyMatrix::new(MatrixShape::new(drive, &settings).unwrap());
    MatrixBelief::new(
        SharedMatrix::new(map),
        MatrixOptions { exploration, ..MatrixOptions::default() },
    )
}

/// P1's Fig. 6 in small: between fixed positions, service becomes faster as the map fills. With
/// both directions the result approaches that of a model with known mechanics. With the worse of
/// both, as published, it gains about half as much over an order by address.
#[test]
fn between_fixed_positions_the_map_makes_service_faster() {
    let early_and_late = |directions| {
        let mut with_map = Loop::new(|drive| mapped(drive, directions, Exploration::Off));
        let early = with_map.serve(150);
        with_map.serve(12_000);
        (early.as_ns() as f64, with_map.serve(3_000).as_ns() as f64)
    };
    let mut by_address = Loop::new(|drive| crate::LinearBelief::new(drive.capacity));
    let mut mechanics = Loop::new(|_| {
        crate::DriveModel::of_profile(&catalog::load("atlas10k").expect("it ships"))
            .expect("it ships")
    });
    by_address.serve(12_150);
    mechanics.serve(12_150);
    let (address, exact) =
        (by_address.serve(3_000).as_ns() as f64, mechanics.serve(3_000).as_ns() as f64);
    let ((early, both), (_, worse)) =
        (early_and_late(Directions::Both), early_and_late(Directions::Worse));
    let figures = format!(
        "by address {address:.0} ns, by the mechanics {exact:.0}; both directions: early \
            {early:.0}, late {both:.0}; the worse of both: late {worse:.0}"
    );
    assert!(both < 0.95 * early, "{figures}");
    let share = |late: f64| (address - late) / (address - exact);
    assert!(share(both) > 0.8, "{figures}");
    assert!((0.2..0.7).contains(&share(worse)), "{figures}");
}

/// A hot set of 48 positions that moves: a full map that evicts regains what a map with room for
/// both sets gains over an order by address, and one that keeps its cells gains nothing.
#[test]
fn a_full_map_follows_a_hot_set_that_moves() {
    let moved = |rows: u64, full: WhenFull| {
        let mut served = Loop::new(|drive| {
            let settings = MatrixSettings {
                bits: EntryBits::Eight,
                directions: Directions::Both,
                memory: headtime_units::ByteSize::new(rows * (rows + 32)),
                ..MatrixSettings::default()
            };
            let map = LatencyMatrix::new(MatrixShape::new(drive, &settings).unwrap());
            let map = map.when_full(full);
            MatrixBelief::new(SharedMatrix::new(map), MatrixOptions::default())
        });
        served.serve(12_000);
        let before = served.serve(3_000);
        let places = moved_places(&served.belief);
        served.move_to(places);
        served.serve(14_000);
        let uses = served.belief.map().inspect(LatencyMatrix::uses);
        (before.as_ns() as f64, served.serve(3_000).as_ns() as f64, uses)
    };
    let (before, evicting, uses) = moved(50, WhenFull::Evict);
    let (before_keeping, keeping, _) = moved(50, WhenFull::Keep);
    let (_, large, _) = moved(200, WhenFull::Keep);
    let mut by_address = Loop::new(|drive| crate::LinearBelief::new(drive.capacity));
    let places = moved_places(&by_address.belief);
    by_address.move_to(places);
    by_address.serve(12_000);
    let address = by_address.serve(3_000).as_ns() as f64;
    let figures = format!(
        "by address {address:.0} ns, room for both {large:.0}, evicting {evicting:.0} (before the \
            move {before:.0}, {uses:?}), keeping {keeping:.0} (seed 11)"
    );
    assert_eq!(before, before_keeping, "a map that is not full evicts nothing");
    assert!(evicting < 1.03 * large && large < 0.9 * address, "{figures}");
    assert!(keeping > 0.95 * address, "{figures}");
    assert!((40..=60).contains(&uses.evicted), "{figures}");
}

fn moved_places(belief: &impl Belief) -> Vec<Extent> {
    let mut rng = ChaCha8Rng::seed_from_u64(12);
    let last = belief.capacity().get() - 8;
    (0..48).map(|_| Extent::from_numbers(rng.random_range(0..last), 8)).collect()
}

/// Preferring unknown pairs costs time first and fills the map sooner.
#[test]
fn exploring_knows_more_pairs_after_as_many_requests() {
    let known_after = |exploration| {
        let profile = catalog::load("atlas10k").expect("it ships");
        let map = mapped(
            MappedDrive {
                model: profile.name.clone(),
                capacity: profile.capacity(),
                sector: SectorSize::B512,
            },
            Directions::Worse,
            exploration,
        );
        let handle = map.map().clone();
        let mut served = Loop::new(|_| map);
        served.serve(1_500);
        handle.inspect(LatencyMatrix::known)
    };
    let (off, prefer) = (known_after(Exploration::Off), known_after(Exploration::Prefer));
    // 48 places make 1,176 pairs.
    assert!(prefer > 900 && prefer * 10 > off * 12, "off {off}, prefer {prefer}");
}

/// A scheduler on the same mechanics, with a drive that serves its commands in the order received.
/// Returns the number of finished requests.
fn finished_by(policy: &PolicyEntry, outstanding: usize, requests: u64) -> u64 {
    let profile = catalog::load("atlas10k").expect("it ships");
    let (capacity, mechanism) =
        (profile.capacity(), Mechanism::nominal(&profile).expect("it ships"));
    let belief = mapped(
        MappedDrive { model: profile.name.clone(), capacity, sector: SectorSize::B512 },
        Directions::Both,
        Exploration::Prefer,
    );
    let (_, parameters) = PolicyEntry::parse(policy.name).expect("it is in the table");
    let limits = QueueLimits { requests: 64, outstanding: Some(outstanding) };
    let mut scheduler = Scheduler::new(
        Box::new(belief),
        (policy.build)(&parameters),
        DriveTraits { queue_depth: 8, fua: false },
        limits,
    );
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let (mut now, mut position, mut finished) = (T0, HeadPosition { cylinder: 0, head: 0 }, 0);
    let mut at_drive: VecDeque<(Command, Instant)> = VecDeque::new();
    for id in 0..requests {
        let extent = Extent::from_numbers(
            rng.random_range(0..capacity.get() - 600),
            rng.random_range(1..600),
        );
        let op = if rng.random_bool(0.3) { Op::Write } else { Op::Read };
        let deadline = rng.random_bool(0.5).then(|| now + Nanos::from_ms(200));
        let request = Request {
            id: RequestId(id),
            volume: VolumeId(0),
            class: ClassId(0),
            stream: StreamId(0),
            op,
            extent,
            fua: false,
            deadline,
        };
        assert_eq!(scheduler.submit(now, request), Admission::Accepted);
        while scheduler.held() >= 16 || (id + 1 == requests && scheduler.held() > 0) {
            let requested_again = loop {
                match scheduler.next(now) {
                    Decision::Dispatch(command) => at_drive.push_back((command, now)),
                    Decision::WaitUntil { at, .. } => break at,
                    Decision::Idle => break Instant::NEVER,
                }
            };
            let Some((command, sent)) = at_drive.pop_front() else {
                assert!(
                    requested_again < Instant::NEVER,
                    "{}: nothing at the drive, nothing to wait for",
                    policy.name
                );
                now = requested_again;
                continue;
            };
            let depart = now.max(sent) + Nanos::from_us(150);
            let direction = if command.op == Op::Read { Direction::Read } else { Direction::Write };
            now = mechanism
                .access(position, depart, direction, command.extent, Instant::ORIGIN)
                .finish;
            position = mechanism.end_spot(command.extent).position;
            finished += scheduler
                .complete(
                    now,
                    Done { command: command.id, finished: now, outcome: Outcome::Success },
                )
                .len() as u64;
        }
    }
    assert!(scheduler.belief().report().samples > requests / 4, "{} learns little", policy.name);
    finished
}

#[test]
fn every_policy_that_is_no_oracle_serves_everybody_on_a_map() {
    for policy in POLICIES.iter().filter(|policy| !policy.oracle) {
        for outstanding in [1, 2] {
            assert_eq!(
                finished_by(policy, outstanding, 300),
                300,
                "{} with {outstanding} outstanding (seed 5)",
                policy.name
            );
        }
    }
}

/// Between fixed positions a pair has one time in each direction: after both were observed, nothing
/// exceeds the worst.
#[test]
fn between_fixed_positions_the_worst_is_not_exceeded_once_it_was_seen_some_times() {
    let profile = catalog::load("atlas10k").expect("it ships");
    let map = mapped(
        MappedDrive {
            model: profile.name.clone(),
            capacity: profile.capacity(),
            sector: SectorSize::B512,
        },
        Directions::Worse,
        Exploration::Prefer,
    );
    let handle = map.map().clone();
    Loop::new(|_| map).serve(8_000);
    let rows: Vec<ExceedanceRow> = handle.inspect(|map| map.exceedance().rows().collect());
    let first = rows.first();
    assert!(first.is_some_and(|row| row.samples == 1 && row.rate() > Some(0.1)), "{first:?}");
    let later = rows.iter().filter(|row| row.samples >= 16);
    let (trials, exceeded) =
        later.fold((0, 0), |sum, row| (sum.0 + row.trials, sum.1 + row.exceeded));
    assert!(trials > 500 && exceeded * 50 < trials, "{exceeded} of {trials}");
}

/// If each access of a pair takes a different time, the worst of n is exceeded by the next one time
/// in n + 1. A lower rate needs fixed positions.
#[test]
fn the_worst_of_n_times_at_random_is_exceeded_one_time_in_n_plus_one() {
    let drive = MappedDrive {
        model: "TEST 10K".into(),
        capacity: Sectors::new(CELLS * CELL),
        sector: SectorSize::B512,
    };
    let settings = MatrixSettings {
        bits: EntryBits::Sixteen,
        count_samples: true,
        ..MatrixSettings::default()
    };
    let mut map = LatencyMatrix::new(MatrixShape::new(drive, &settings).unwrap());
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    for cell in 0..2_000 {
        for _ in 0..=10 {
            map.record(cell, 2_500, Nanos::from_ns(rng.random_range(1_000_000..12_000_000)));
        }
    }
    for row in map.exceedance().rows() {
        let (rate, expected) = (row.rate().unwrap(), 1.0 / (f64::from(row.samples) + 1.0));
        // Four standard deviations of 2,000 trials.
        let bound = 4.0 * (expected * (1.0 - expected) / 2_000.0).sqrt();
        assert!(
            (rate - expected).abs() < bound,
            "after {} samples {rate}, expected {expected} (seed 3)",
            row.samples
        );
    }
}
