//! The swarm over a fixed set of seeds, and the bugs that it must find.
//!
//! `HEADTIME_SWARM_SEED` and `HEADTIME_SWARM_COUNT` select other seeds: `HEADTIME_SWARM_SEED=7
//! HEADTIME_SWARM_COUNT=1` replays one.

mod run;

use std::collections::{BTreeMap, BTreeSet};

use headtime_belief::DriveModel;
use headtime_mechanics::DriveProfile;
use headtime_sched::{
    Accounts, Admission, BackgroundRead, Belief, Cancelled, Decision, Done, Finished, Op, Outcome,
    PendingSectors, Policy, Request, RequestId, ScanId, ScanOptions, Scheduler, StreamId,
};
use headtime_sim::SchedulerApi;
use headtime_units::{Instant, Lba, Nanos};
use smallvec::SmallVec;

use run::Summary;
use run::scans::Scanning;

fn belief(profile: &DriveProfile) -> Box<dyn Belief + Send> {
    Box::new(DriveModel::of_profile(profile).expect("drawn profiles are valid"))
}

fn from_environment(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => {
            text.parse().unwrap_or_else(|_| panic!("{name} is `{text}`, expected a number"))
        }
        Err(_) => default,
    }
}

#[test]
fn the_swarm_finds_no_broken_promise() {
    let (first, count) =
        (from_environment("HEADTIME_SWARM_SEED", 0), from_environment("HEADTIME_SWARM_COUNT", 300));
    let mut sum = Summary::default();
    for seed in first..first + count {
        let summary = run::run_one(seed, &belief).unwrap_or_else(|failure| panic!("{failure}"));
        assert_eq!(
            run::run_one(seed, &belief).as_ref(),
            Ok(&summary),
            "seed {seed} ran differently the second time"
        );
        sum.requests += summary.requests;
        sum.cancelled += summary.cancelled;
        sum.failed += summary.failed;
        sum.given_up += summary.given_up;
        sum.policy_changes += summary.policy_changes;
        sum.reads_checked += summary.reads_checked;
        sum.flushes_checked += summary.flushes_checked;
        for (sum, scanned) in sum.scanned.iter_mut().zip(summary.scanned) {
            *sum += scanned;
        }
        sum.lost_by_scans += summary.lost_by_scans;
    }
    println!("{count} seeds from {first}: {sum:?}");
    // The seeds must exercise every feature.
    if count >= 100 {
        for tried in [
            sum.requests / 50,
            sum.cancelled,
            sum.failed,
            sum.given_up,
            sum.policy_changes,
            sum.reads_checked,
            sum.flushes_checked,
            sum.scanned[0] * 10,
            sum.scanned[1] * 100,
            sum.scanned[2],
            sum.scanned[3] * 2,
            sum.scanned[4],
            sum.lost_by_scans * 3,
        ] {
            assert!(tried >= count, "the seeds try too little of something: {sum:?}");
        }
    }
}

/// A bug planted between engine and scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    /// Shows writes to the scheduler as reads, so that no request waits for them.
    HidesWritesFromTheOverlapOrder,
    /// Reports a flush at the next completion, sent or not.
    ReportsFlushesEarly,
    /// Never sends flushes, and reports them at the next completion.
    NeverSendsFlushes,
    /// Drops force unit access.
    ForgetsForceUnitAccess,
    /// Loses one report in twenty.
    LosesAReport,
    /// Delivers one report in twenty twice.
    ReportsTwice,
    /// Reports a cancellation without cancelling.
    ForgetsToCancel,
    /// Sends zeroes to the wrong sectors.
    ZeroesTheWrongSectors,
    /// Reads for scans of a point in time whatever the sectors hold later.
    ForgetsThePointInTime,
    /// Loses one delivery to a scan in five.
    LosesADelivery,
    /// Delivers one read to a scan in five twice.
    DeliversTwice,
    /// Delivers each read to a scan one sector too early.
    DeliversTheWrongSectors,
}

/// A scheduler with a bug.
struct Buggy {
    bug: Bug,
    scheduler: Scheduler,
    /// Requests as submitted, before tampering.
    as_made: BTreeMap<RequestId, Request>,
    early: Vec<Finished>,
    reported_early: BTreeSet<RequestId>,
    reports: u64,
    deliveries: u64,
    /// A delivery to be repeated.
    again: Option<BackgroundRead>,
}

impl Buggy {
    fn new(bug: Bug, scheduler: Scheduler) -> Self {
        Self {
            bug,
            scheduler,
            as_made: BTreeMap::new(),
            early: Vec::new(),
            reported_early: BTreeSet::new(),
            reports: 0,
            deliveries: 0,
            again: None,
        }
    }

    fn tampered(&self, request: Request) -> Request {
        match self.bug {
            Bug::HidesWritesFromTheOverlapOrder if request.op == Op::Write => {
                Request { op: Op::Read, ..request }
            }
            Bug::ForgetsForceUnitAccess => Request { fua: false, ..request },
            _ => request,
        }
    }

    fn restored(&self, mut finished: Finished) -> Finished {
        finished.request =
            self.as_made.get(&finished.request.id).copied().unwrap_or(finished.request);
        finished
    }
}

impl SchedulerApi for Buggy {
    fn submit(&mut self, now: Instant, request: Request) -> Admission {
        self.as_made.insert(request.id, request);
        if matches!(self.bug, Bug::ReportsFlushesEarly | Bug::NeverSendsFlushes)
            && request.op == Op::Flush
        {
            let (disk_time, outcome) = (Nanos::ZERO, Outcome::Success);
            self.early.push(Finished {
                request,
                submitted: now,
                dispatched: now,
                finished: now,
                forced: false,
                disk_time,
                other_arms: Nanos::ZERO,
                overlapped: Nanos::ZERO,
                outcome,
            });
            if self.bug == Bug::NeverSendsFlushes {
                return Admission::Accepted;
            }
            self.reported_early.insert(request.id);
        }
        self.scheduler.submit(now, self.tampered(request))
    }

    fn next(&mut self, now: Instant) -> Decision {
        match self.scheduler.next(now) {
            Decision::Dispatch(mut command) => {
                let made = command.requests.first().map(|id| self.as_made[id]);
                match (self.bug, made) {
                    (Bug::HidesWritesFromTheOverlapOrder, Some(made)) => command.op = made.op,
                    (Bug::ZeroesTheWrongSectors, Some(made))
                        if made.op == Op::Zero && made.extent.start.get() > 0 =>
                    {
                        command.extent.start = Lba::new(made.extent.start.get() - 1);
                    }
                    _ => {}
                }
                Decision::Dispatch(command)
            }
            other => other,
        }
    }

    fn complete(&mut self, now: Instant, done: Done) -> SmallVec<[Finished; 1]> {
        let mut reports: SmallVec<[Finished; 1]> = self.early.drain(..).collect();
        for finished in self.scheduler.complete(now, done) {
            let finished = self.restored(finished);
            if self.reported_early.remove(&finished.request.id) {
                continue;
            }
            self.reports += 1;
            let copies = match self.bug {
                Bug::LosesAReport if self.reports.is_multiple_of(20) => 0,
                Bug::ReportsTwice if self.reports.is_multiple_of(20) => 2,
                _ => 1,
            };
            reports.extend(std::iter::repeat_n(finished, copies));
        }
        reports
    }

    fn take_background(&mut self) -> Option<BackgroundRead> {
        if let Some(again) = self.again.take() {
            return Some(again);
        }
        let mut read = self.scheduler.take_background()?;
        self.deliveries += 1;
        let fifth = self.deliveries.is_multiple_of(5);
        match self.bug {
            Bug::LosesADelivery if fifth => return self.scheduler.take_background(),
            Bug::DeliversTwice if fifth => self.again = Some(read),
            Bug::DeliversTheWrongSectors => {
                read.extent.start = Lba::new(read.extent.start.get().saturating_sub(1));
            }
            _ => {}
        }
        Some(read)
    }

    fn cancel(&mut self, now: Instant, id: RequestId) -> Cancelled {
        let queued = self.scheduler.queue().by_arrival().any(|queued| queued.request.id == id);
        if self.bug == Bug::ForgetsToCancel && queued {
            Cancelled::Removed
        } else {
            self.scheduler.cancel(now, id)
        }
    }

    fn stream_ended(&mut self, now: Instant, stream: StreamId) {
        self.scheduler.stream_ended(now, stream);
    }

    fn set_policy(&mut self, policy: Box<dyn Policy>) {
        self.scheduler.set_policy(policy);
    }

    fn accounts(&self) -> &Accounts {
        self.scheduler.accounts()
    }

    fn self_check(&self) {
        self.scheduler.self_check();
    }
}

impl Scanning for Buggy {
    fn scheduler(&mut self) -> &mut Scheduler {
        &mut self.scheduler
    }

    fn scan_start(
        &mut self,
        now: Instant,
        id: ScanId,
        pending: PendingSectors,
        options: ScanOptions,
    ) {
        let forgets = self.bug == Bug::ForgetsThePointInTime;
        let point_in_time = options.point_in_time && !forgets;
        self.scheduler.scan_start(now, id, pending, ScanOptions { point_in_time, ..options });
    }
}

#[test]
fn the_swarm_finds_every_planted_bug() {
    for bug in [
        Bug::HidesWritesFromTheOverlapOrder,
        Bug::ReportsFlushesEarly,
        Bug::NeverSendsFlushes,
        Bug::ForgetsForceUnitAccess,
        Bug::LosesAReport,
        Bug::ReportsTwice,
        Bug::ForgetsToCancel,
        Bug::ZeroesTheWrongSectors,
        Bug::ForgetsThePointInTime,
        Bug::LosesADelivery,
        Bug::DeliversTwice,
        Bug::DeliversTheWrongSectors,
    ] {
        let found = (0..40).find_map(|seed| {
            run::run_one_with(seed, &belief, |scheduler| Buggy::new(bug, scheduler)).err()
        });
        let failure = found.unwrap_or_else(|| panic!("forty seeds did not find {bug:?}"));
        println!("{bug:?}: {failure}");
        let replayed =
            run::run_one_with(failure.seed, &belief, |scheduler| Buggy::new(bug, scheduler));
        assert_eq!(replayed, Err(failure.clone()), "the seed alone replays the failure");
        let command = format!(
            "HEADTIME_SWARM_SEED={} HEADTIME_SWARM_COUNT=1 cargo test -p headtime-testkit --test \
                swarm",
            failure.seed
        );
        assert!(failure.to_string().contains(&command), "{failure}");
    }
}

#[test]
fn the_witness_sees_what_was_broken_and_not_only_that_something_was() {
    let expected = [
        (Bug::HidesWritesFromTheOverlapOrder, "passes request"),
        (Bug::ReportsFlushesEarly, "is not durable"),
        (Bug::NeverSendsFlushes, "is not durable"),
        (Bug::ForgetsForceUnitAccess, "force unit access"),
        (Bug::ReportsTwice, "is not held"),
        (Bug::ForgetsThePointInTime, "should show one before"),
        (Bug::LosesADelivery, "has not got"),
        (Bug::DeliversTwice, "is not pending"),
    ];
    for (bug, words) in expected {
        let found = (0..40).filter_map(|seed| {
            run::run_one_with(seed, &belief, |scheduler| Buggy::new(bug, scheduler)).err()
        });
        let texts: Vec<String> = found.map(|failure| failure.what).collect();
        assert!(texts.iter().any(|text| text.contains(words)), "{bug:?}: {texts:?}");
    }
}

#[test]
fn the_swarm_finds_a_drive_that_reports_flushes_while_only_its_cache_has_the_data() {
    let lie = |seed| run::run_one_with_faults(seed, &belief, |faults| faults.lying_flushes = true);
    let found: Vec<_> = (0..150).filter_map(|seed| lie(seed).err()).collect();
    assert!(
        found.iter().any(|failure| failure.what.contains("although only its cache holds")),
        "{found:?}"
    );
    // Such a drive has no other fault.
    let other =
        found.iter().find(|failure| !failure.what.contains("although only its cache holds"));
    assert_eq!(other, None);
}
