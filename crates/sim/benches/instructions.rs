//! Instructions counted under valgrind, which are the same on every run: a slow-down is seen on a
//! busy machine too.
//!
//! What is counted is one call each; making what it works on is not. `make instructions` runs this
//! and compares the counts with the committed ones (`instructions.expected` beside this file),
//! which are kept by compiler version; `scripts/instructions.sh --accept` writes them again.

#![allow(missing_docs, reason = "the macros make public items without a word")]

use std::hint::black_box;
use std::sync::Arc;

use gungraun::{library_benchmark, library_benchmark_group, main};
use headtime_belief::DriveModel;
use headtime_mechanics::{Direction, DriveProfile, HeadPosition, Mechanism, catalog};
use headtime_sched::{
    Belief, ClassId, Decision, DriveTraits, Op, PolicyEntry, QueueLimits, Request, RequestId,
    Scheduler, StreamId, VolumeId,
};
use headtime_sim::{Experiment, Measures, run};
use headtime_units::{Extent, Instant, Lba};
use headtime_workload::{StreamConfig, Workload};

fn atlas() -> DriveProfile {
    catalog::load("atlas10k").expect("the profile ships")
}

fn belief(profile: &DriveProfile) -> Box<dyn Belief + Send> {
    Box::new(DriveModel::of_profile(profile).expect("the profile ships"))
}

/// A closed loop of random 4 KiB reads on a nominal unit. Making the unit and the belief is
/// counted, too.
fn experiment(policy: &str, clients: u32, requests: u64) -> (Experiment, Workload) {
    let profile = Arc::new(atlas());
    let sector = profile.sector_size().expect("the profile ships");
    let workload = Workload::new(&[StreamConfig::closed(clients)], sector, profile.capacity(), 1)
        .expect("4 KiB reads suit the drive");
    let policy = PolicyEntry::find(policy).expect("a policy of the table");
    (Experiment { warm_up: 0, requests, ..Experiment::new(profile, policy, 1) }, workload)
}

/// A scheduler under `sptf` that has learned where the platter is, with one command outstanding and
/// 256 random reads queued, and the time it is. The scheduler is in a box, so that what it takes to
/// move it does not count.
fn queued_256() -> (Box<Scheduler>, Instant) {
    let profile = atlas();
    let policy = PolicyEntry::find("sptf").expect("a policy of the table").build_default();
    let traits = DriveTraits { queue_depth: 64, fua: true };
    let mut scheduler = Scheduler::new(belief(&profile), policy, traits, QueueLimits::default());
    let now = Instant::from_ns(20_000_000);
    let read = |id: u64, start: u64| {
        let extent = Extent::from_numbers(start, 8);
        Request {
            id: RequestId(id),
            volume: VolumeId(0),
            class: ClassId(0),
            stream: StreamId(0),
            op: Op::Read,
            extent,
            fua: false,
            deadline: None,
        }
    };
    let places = profile.capacity().get() / 8;
    let _ = scheduler.submit(Instant::ORIGIN, read(0, 800));
    let Decision::Dispatch(first) = scheduler.next(Instant::ORIGIN) else {
        panic!("a read that may go is sent")
    };
    let done = headtime_sched::Done {
        command: first.id,
        finished: Instant::from_ns(9_000_000),
        outcome: headtime_sched::Outcome::Success,
    };
    assert_eq!(scheduler.complete(now, done).len(), 1);
    for id in 1..=257 {
        let _ = scheduler.submit(now, read(id, id * 7_919 * 8_191 % places * 8));
    }
    let Decision::Dispatch(_) = scheduler.next(now) else { panic!("a read that may go is sent") };
    (Box::new(scheduler), now)
}

fn mechanism() -> Mechanism {
    Mechanism::nominal(&atlas()).expect("the profile ships")
}

#[library_benchmark]
#[bench::run(args = ("fcfs", 16, 2_000), setup = experiment)]
fn simulate_fcfs_2000((experiment, workload): (Experiment, Workload)) -> Measures {
    black_box(run(&experiment, workload, &belief).expect("a closed loop is always served"))
}

#[library_benchmark]
#[bench::run(args = ("sptf", 32, 500), setup = experiment)]
fn simulate_sptf_500((experiment, workload): (Experiment, Workload)) -> Measures {
    black_box(run(&experiment, workload, &belief).expect("a closed loop is always served"))
}

#[library_benchmark]
#[bench::run(setup = queued_256)]
fn decide_sptf_256((mut scheduler, now): (Box<Scheduler>, Instant)) -> (Box<Scheduler>, Decision) {
    let decision = black_box(scheduler.next(now));
    (scheduler, decision)
}

#[library_benchmark]
#[bench::run(setup = mechanism)]
fn look_up_lba(mechanism: Mechanism) -> Mechanism {
    black_box(mechanism.spot(black_box(Lba::new(9_876_543))));
    mechanism
}

#[library_benchmark]
#[bench::run(setup = mechanism)]
fn access_8_sectors(mechanism: Mechanism) -> Mechanism {
    let extent = black_box(Extent::from_numbers(9_876_544, 8));
    black_box(mechanism.access(
        HeadPosition::PARKED,
        Instant::ORIGIN,
        Direction::Read,
        extent,
        Instant::ORIGIN,
    ));
    mechanism
}

library_benchmark_group!(
    name = counts;
    benchmarks =
        simulate_fcfs_2000, simulate_sptf_500, decide_sptf_256, look_up_lba, access_8_sectors
);
main!(library_benchmark_groups = counts);
