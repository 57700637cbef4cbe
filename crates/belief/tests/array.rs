//! The worst cases of an array's model bound what a simulated array takes, and its members are
//! kept at work.

use headtime_belief::{ArrayModel, DriveModel};
use headtime_mechanics::{DriveProfile, catalog};
use headtime_sched::{
    Belief, ClassId, Command, CommandId, Decision, Done, DriveTraits, IfInfeasible, IoPriority, Op,
    Outcome, PolicyEntry, Positioning as _, PromiseCounts, QueueLimits, Request, RequestId,
    Scheduler, ShareChange, StreamId, Tenant, Terms, VolumeId, worst_service,
};
use headtime_sim::{
    ArrayOptions, Device as _, DriveCompletion, DriveTruth, Engine, EngineObserver, Raid0,
    SimulatedDrive,
};
use headtime_units::{Extent, Instant, Nanos, Sectors, Share};
use headtime_workload::{StreamConfig, Workload};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

const MEMBERS: usize = 4;

fn options() -> ArrayOptions {
    ArrayOptions { stripe: Sectors::new(256), queue_depth: 64, controller_mb_per_s: Some(100.0) }
}

/// Makes the model of an array from those of its members.
type Modelled = fn(Vec<Box<dyn Belief + Send>>, Sectors, u64) -> ArrayModel;

fn model(profile: &DriveProfile, by: Modelled) -> ArrayModel {
    let member = || {
        let model = DriveModel::of_profile(profile).expect("the profile ships");
        Box::new(model) as Box<dyn Belief + Send>
    };
    let members = (0..MEMBERS).map(|_| member()).collect();
    by(members, options().stripe, options().ps_per_sector(profile.sector_bytes))
}

/// Sends `count` random requests at once; returns the sum of their worst cases and the time until
/// the last is done.
fn batch(
    array: &mut Raid0<SimulatedDrive>,
    model: &ArrayModel,
    now: &mut Instant,
    count: u64,
    rng: &mut ChaCha8Rng,
) -> (Nanos, Nanos) {
    let mut worst = Nanos::ZERO;
    for id in 0..count {
        let sectors = if rng.random_bool(0.8) { 8 } else { rng.random_range(1..3_000) };
        let start = rng.random_range(0..array.capacity().get() - sectors);
        let op = if rng.random_bool(0.5) { Op::Read } else { Op::Write };
        let extent = Extent::from_numbers(start, sectors);
        worst += worst_service(model, *now, &model.target(op, extent));
        let command = Command {
            id: CommandId(id),
            op,
            extent,
            fua: false,
            background: None,
            requests: Default::default(),
        };
        array.submit(*now, &command);
    }
    let (begun, mut done) = (*now, Vec::new());
    while done.len() < count as usize {
        *now = array.next_event().expect("commands are under way");
        array.advance(*now, &mut done);
    }
    assert!(done.iter().all(|completion| completion.outcome == Outcome::Success));
    (worst, now.saturating_since(begun))
}

#[test]
fn everything_outstanding_is_done_within_the_sum_of_worst_cases() {
    let profile = catalog::load("savvio10k2@nocache").expect("the profile ships");
    let model = model(&profile, ArrayModel::new);
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut array = Raid0::of_model(&profile, MEMBERS, 1, DriveTruth::nominal, options())
        .expect("the profile is valid");
    assert_eq!(array.capacity(), model.capacity());
    let mut now = Instant::ORIGIN;
    let mut closest = 0.0_f64;
    for round in 0..3_000 {
        let count = [1, 1, 2, 5, 40][round % 5];
        let (worst, took) = batch(&mut array, &model, &mut now, count, &mut rng);
        assert!(took <= worst, "round {round}: {count} requests took {took}, at worst {worst}");
        closest = closest.max(took.as_ns() as f64 / worst.as_ns() as f64);
    }
    assert!(closest > 0.6, "the worst cases are no more than {closest} of what they could be");
}

struct Unobserved;

impl EngineObserver for Unobserved {}

/// Requests per second of a closed loop of random reads under a policy.
fn iops(policy: &str, by: Modelled, clients: u32, seed: u64) -> f64 {
    let [rate] = shared(policy, by, [(clients, 0.0)], seed);
    rate
}

/// Requests per second of volumes with closed loops of random reads and these reservations.
fn shared<const N: usize>(
    policy: &str,
    by: Modelled,
    volumes: [(u32, f64); N],
    seed: u64,
) -> [f64; N] {
    let profile = catalog::load("savvio10k2@nocache").expect("the profile ships");
    let array = Raid0::of_model(&profile, MEMBERS, seed, DriveTruth::draw, options())
        .expect("the profile is valid");
    let sector = profile.sector_size().expect("the profile is valid");
    let streams = volumes.map(|(clients, _)| StreamConfig::closed(clients));
    let source = Workload::new(&streams, sector, array.capacity(), seed).expect("it fits");
    let (entry, parameters) = PolicyEntry::parse(policy).expect("a policy of the table");
    let traits = DriveTraits { queue_depth: options().queue_depth, fua: false };
    let mut scheduler = Scheduler::new(
        Box::new(model(&profile, by)),
        (entry.build)(&parameters),
        traits,
        QueueLimits::default(),
    );
    let reserved = volumes.iter().zip(0..).filter(|((_, reserve), _)| *reserve > 0.0);
    let terms: Vec<ShareChange> = reserved
        .map(|((_, reserve), volume)| {
            let reserve = Share::from_fraction(*reserve).expect("a share");
            let terms = Terms { reserve, ..Terms::default() };
            ShareChange::Set(Tenant::of(VolumeId(volume)), terms)
        })
        .collect();
    scheduler.change_shares(Instant::ORIGIN, &terms).expect("valid terms");
    let mut engine = Engine::new(scheduler, array, source, None);
    let end = Instant::ORIGIN + Nanos::from_secs(20);
    while engine.next_event() <= end {
        engine.step(&mut Unobserved).expect("no fault");
    }
    std::array::from_fn(|volume| {
        engine.scheduler.accounts().volume(VolumeId(volume as u32)).requests as f64 / 20.0
    })
}

#[test]
fn volumes_with_shares_keep_the_members_at_work() {
    for seed in 1..3 {
        let run = |volumes| shared("headtime", ArrayModel::by_member, volumes, seed);
        let (even, uneven) = (run([(30, 0.3), (30, 0.3)]), run([(30, 0.8), (30, 0.1)]));
        println!("seed {seed}: 30 % each {even:.0?} IOPS, 80 % and 10 % {uneven:.0?}");
        assert!(even[0] + even[1] > 600.0, "{even:.0?}");
        assert!((0.9..1.1).contains(&(even[0] / even[1])), "{even:.0?}");
        assert!(uneven[0] > 3.0 * uneven[1], "{uneven:.0?}");
    }
}

#[test]
fn headtime_keeps_the_members_at_work() {
    for (clients, seed) in [(4, 1), (16, 2), (60, 3)] {
        let as_a_whole = |policy| iops(policy, ArrayModel::new, clients, seed);
        let [own, ours, whole] = ["firmware:depth=64", "headtime", "sptf"].map(as_a_whole);
        let by_member = iops("headtime", ArrayModel::by_member, clients, seed);
        let outcome = format!(
            "{clients} clients: the members' own queues {own:.0} IOPS, headtime by member \
                {by_member:.0}, by distance {ours:.0}, one order for the whole array (sptf) \
                {whole:.0}"
        );
        println!("{outcome}");
        assert!(ours > 1.3 * whole, "{outcome}");
        assert!(by_member > ours, "{outcome}");
    }
}

/// The answers to `cds-scan` requests that arrive at random, and the guarantees that were broken.
fn answers(by: Modelled, seed: u64) -> PromiseCounts {
    let profile = catalog::load("savvio10k2@nocache").expect("the profile ships");
    let mut array = Raid0::of_model(&profile, MEMBERS, seed, DriveTruth::draw, options())
        .expect("the profile is valid");
    let (entry, parameters) = PolicyEntry::parse("cds-scan").expect("a policy of the table");
    let traits = DriveTraits { queue_depth: options().queue_depth, fua: false };
    let policy = entry.by_member(&parameters);
    let limits = QueueLimits::default();
    let mut scheduler = Scheduler::new(Box::new(model(&profile, by)), policy, traits, limits);
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut arrivals: Vec<(Instant, Request)> = Vec::new();
    let mut at = Instant::ORIGIN;
    for id in 0..4_000 {
        at += Nanos::from_us(rng.random_range(0..4_000));
        let extent = Extent::from_numbers(rng.random_range(0..array.capacity().get() / 8) * 8, 8);
        let request = Request {
            id: RequestId(id),
            volume: VolumeId(0),
            class: ClassId(0),
            stream: StreamId(0),
            op: if rng.random_bool(0.7) { Op::Read } else { Op::Write },
            extent,
            fua: false,
            deadline: Some(at + Nanos::from_ms(rng.random_range(30..400))),
        };
        arrivals.push((at, request));
    }
    let (mut next, mut done) = (arrivals.into_iter().peekable(), Vec::new());
    loop {
        let arrival = next.peek().map(|(at, _)| *at);
        let Some(now) = arrival.into_iter().chain(array.next_event()).min() else { break };
        array.advance(now, &mut done);
        for DriveCompletion { command, finished, outcome, .. } in done.drain(..) {
            scheduler.complete(now, Done { command, finished, outcome });
        }
        while let Some((_, request)) = next.next_if(|(at, _)| *at <= now) {
            scheduler
                .submit_answered(now, request, Some(IoPriority::DEFAULT), IfInfeasible::BestEffort)
                .expect("there is room");
        }
        while let Decision::Dispatch(command) = scheduler.next(now) {
            array.submit(now, &command);
        }
        scheduler.self_check();
    }
    assert_eq!(scheduler.held(), 0);
    scheduler.accounts().volume(VolumeId(0)).promises.total()
}

#[test]
fn each_member_guarantees_deadlines_by_its_own_chain() {
    for seed in 1..4 {
        let [whole, by_member] =
            [ArrayModel::new, ArrayModel::by_member].map(|by: Modelled| answers(by, seed));
        println!("seed {seed}: as a whole {whole:?}, by member {by_member:?}");
        assert_eq!((whole.broken, by_member.broken), (0, 0), "seed {seed}");
        assert!(by_member.best_effort * 2 < whole.best_effort, "{whole:?}, {by_member:?}");
    }
}
