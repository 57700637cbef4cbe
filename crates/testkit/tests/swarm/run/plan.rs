//! The configuration of one run, drawn from its seed.

use std::fmt;

use headtime_mechanics::{DriveProfile, ProfileError};
use headtime_sched::{DriveTraits, POLICIES, Parameters, Policy, PolicyEntry};
use headtime_units::{Extent, Instant, Nanos};
use headtime_workload::{
    Alignment, Arrivals, Interarrival, Mix, Order, Sizes, StreamConfig, ThinkTime,
};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use headtime_sim::DriveTruth;
use headtime_testkit::drives::random_drive;
use headtime_testkit::faults::{BadSectors, FaultPlan};

/// The configuration of one run.
pub(super) struct RunPlan {
    pub(super) profile: DriveProfile,
    nominal: bool,
    fua: bool,
    entry: &'static PolicyEntry,
    parameters: Parameters,
    pub(super) outstanding: Option<usize>,
    pub(super) streams: Vec<StreamConfig>,
    pub(super) requests: u64,
    pub(super) cancel_chance: f64,
    pub(super) policy_change_chance: f64,
    pub(super) faults: FaultPlan,
    pub(super) timeout: Option<Nanos>,
}

impl RunPlan {
    pub(super) fn draw(rng: &mut ChaCha8Rng) -> Self {
        let profile = random_drive(rng);
        let (entry, parameters) = random_policy(rng, true);
        let requests = rng.random_range(20..=300);
        let faults =
            if rng.random_bool(0.5) { random_faults(rng, &profile) } else { FaultPlan::default() };
        Self {
            nominal: rng.random_bool(0.3),
            fua: rng.random_bool(0.5),
            entry,
            parameters,
            outstanding: rng.random_bool(0.5).then(|| rng.random_range(1..=8)),
            streams: (0..rng.random_range(1..=3)).map(|_| random_stream(rng, &profile)).collect(),
            requests,
            cancel_chance: [0.0, 0.02, 0.2][rng.random_range(0..3)],
            policy_change_chance: [0.0, 0.02, 0.2][rng.random_range(0..3)],
            // Lost reports need a timeout; a short one also gives up waiting commands.
            timeout: (faults.lost_share > 0.0 || rng.random_bool(0.2))
                .then(|| Nanos::from_ms([40, 300, 2_000][rng.random_range(0..3)])),
            faults,
            profile,
        }
    }

    /// The simulated drive.
    pub(super) fn truth(&self, seed: u64) -> Result<DriveTruth, ProfileError> {
        if self.nominal {
            DriveTruth::nominal(&self.profile, seed)
        } else {
            DriveTruth::draw(&self.profile, seed)
        }
    }

    pub(super) fn traits(&self) -> DriveTraits {
        DriveTraits { queue_depth: self.profile.firmware.queue_depth as usize, fua: self.fua }
    }

    /// True if the scheduler gets the truth.
    pub(super) fn oracle(&self) -> bool {
        self.entry.oracle
    }

    pub(super) fn policy(&self) -> Box<dyn Policy> {
        (self.entry.build)(&self.parameters)
    }

    /// Another policy; an oracle only if the drive model is one.
    pub(super) fn another_policy(&self, rng: &mut ChaCha8Rng) -> Box<dyn Policy> {
        let (entry, parameters) = random_policy(rng, self.oracle());
        (entry.build)(&parameters)
    }

    /// The time by which everything has drained unless a request starves: as if all requests came
    /// after the last arrival and each had the worst case alone, and each sector of a scan, too.
    pub(super) fn latest(&self, scanned: u64) -> Instant {
        let each = Nanos::from_ms(MAX_ACCESS_MS)
            + self.faults.slow_by
            + self.timeout.unwrap_or(Nanos::ZERO);
        Instant::ORIGIN + (MAX_ARRIVAL + each * 2) * (self.requests + scanned + 1)
    }
}

impl fmt::Display for RunPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { profile, entry, parameters, outstanding, requests, streams, .. } = self;
        write!(
            f,
            "{} {:?} on {} (depth {}, ",
            entry.name, parameters, profile.name, profile.firmware.queue_depth
        )?;
        write!(
            f,
            "arms {}, physical sectors {:?}, ",
            profile.actuators(),
            profile.physical_sector_bytes
        )?;
        write!(f, "hold {:?}, {:?}, ", profile.firmware.sequential_hold_ms, profile.cache)?;
        write!(
            f,
            "{}, fua {}), outstanding {outstanding:?}, ",
            if self.nominal { "nominal" } else { "drawn" },
            self.fua
        )?;
        write!(
            f,
            "{requests} requests of {} streams, cancel {}, ",
            streams.len(),
            self.cancel_chance
        )?;
        write!(
            f,
            "policy change {}, timeout {:?}, {:?}",
            self.policy_change_chance,
            self.timeout.map(|span| span.to_string()),
            self.faults
        )
    }
}

/// Maximum access time of a random drive: 40 sectors on as many tracks with a revolution and the
/// longest arm time each, and an outlier.
const MAX_ACCESS_MS: u64 = 2_000;
/// Maximum interarrival and think time below.
const MAX_ARRIVAL: Nanos = Nanos::from_secs(1);

fn random_policy(rng: &mut ChaCha8Rng, oracles: bool) -> (&'static PolicyEntry, Parameters) {
    let candidates: Vec<_> = POLICIES.iter().filter(|entry| oracles || !entry.oracle).collect();
    let entry = candidates[rng.random_range(0..candidates.len())];
    let settings = entry.parameters.iter().map(|parameter| {
        let value = [parameter.min, parameter.default, parameter.max][rng.random_range(0..3)];
        format!("{}={value}", parameter.name)
    });
    let text = format!("{}:{}", entry.name, settings.collect::<Vec<_>>().join(","));
    PolicyEntry::parse(&text).expect("bounds and defaults are values a policy accepts")
}

fn random_stream(rng: &mut ChaCha8Rng, profile: &DriveProfile) -> StreamConfig {
    let (capacity, of_one_arm) = (profile.capacity().get(), profile.capacity_per_actuator().get());
    let sector = u64::from(profile.sector_bytes);
    // Few sectors, so that requests overlap; sometimes the whole drive. With two arms, mostly
    // around the border between them.
    let len = if rng.random_bool(0.8) { rng.random_range(1..=capacity.min(48)) } else { capacity };
    let near = if capacity > of_one_arm && rng.random_bool(0.7) {
        of_one_arm.saturating_sub(24)
    } else {
        0
    };
    let range = Extent::from_numbers(
        near.min(capacity - len)
            + rng.random_range(0..=(capacity - len - near.min(capacity - len)).min(64)),
        len,
    );
    let max = len.min(24);
    let sizes = if max >= 2 && rng.random_bool(0.5) {
        Sizes::Exponential {
            mean_bytes: sector * 2,
            multiple_bytes: sector,
            max_bytes: sector * max,
        }
    } else {
        Sizes::Fixed { bytes: sector * rng.random_range(1..=max) }
    };
    let think = match rng.random_range(0..3) {
        0 => ThinkTime::None,
        1 => ThinkTime::Constant(Nanos::from_us(rng.random_range(1..=20_000))),
        _ => ThinkTime::Exponential(Nanos::from_us(rng.random_range(1..=20_000))),
    };
    let arrivals = if rng.random_bool(0.7) {
        Arrivals::Closed { clients: rng.random_range(1..=16), think }
    } else {
        Arrivals::Open(Interarrival::Poisson { per_second: rng.random_range(20.0..400.0) })
    };
    let share = |rng: &mut ChaCha8Rng, max: f64| {
        if rng.random_bool(0.5) { rng.random_range(0.0..max) } else { 0.0 }
    };
    let order = [
        Order::Random,
        Order::Runs { mean_requests: 4.0 },
        Order::FixedRuns { requests: 3 },
        Order::Sequential,
    ][rng.random_range(0..4)];
    StreamConfig {
        arrivals,
        mix: Mix {
            reads: rng.random_range(0.0..0.6),
            zeroes: share(rng, 0.1),
            discards: share(rng, 0.1),
            flushes: share(rng, 0.2),
            fua: share(rng, 1.0),
        },
        sizes,
        range: Some(range),
        alignment: Alignment::Sector,
        order,
        deadline: rng.random_bool(0.4).then(|| Nanos::from_ms(rng.random_range(1..=500))),
        ..StreamConfig::closed(1)
    }
}

fn random_faults(rng: &mut ChaCha8Rng, profile: &DriveProfile) -> FaultPlan {
    let share = |rng: &mut ChaCha8Rng, max: f64| {
        if rng.random_bool(0.5) { rng.random_range(0.0..max) } else { 0.0 }
    };
    let first = profile.capacity().get().min(64);
    let bad = (0..rng.random_range(0..=3)).map(|_| BadSectors {
        extent: Extent::from_numbers(rng.random_range(0..first), rng.random_range(1..=4)),
        reads: rng.random_bool(0.7),
        writes: rng.random_bool(0.5),
        times: rng.random_bool(0.5).then(|| rng.random_range(1..=5)),
    });
    FaultPlan {
        bad: bad.collect(),
        error_share: share(rng, 0.1),
        slow_share: share(rng, 0.1),
        slow_by: Nanos::from_ms(rng.random_range(1..=200)),
        reorder_share: share(rng, 0.3),
        lost_share: share(rng, 0.03),
        answers_after_abort_share: share(rng, 1.0),
        lying_flushes: false,
    }
}
