//! The common parts of the experiments of P1: drives, positions, collected map, workload, and runs.
//!
//! The paper uses 10,000 fixed positions, reads them in any order until the matrix is full, and
//! then measures. Here the matrix is collected from the completion times of the simulated drive:
//! each position is read once directly after each other one ([`Collect`]).
//!
//! *Every ordered pair once*: for a prime number n of positions and each step d from 1 to n − 1,
//! the positions 0, d, 2d, … modulo n are a cycle through all of them, and its n neighbors are the
//! pairs at distance d. Between two reads of one position lie n − 1 others, so the drive's cache
//! does not hit. Only at the end of a cycle it sometimes does, and that pair stays unknown.

use std::collections::BTreeSet;
use std::sync::Arc;

use headtime_belief::DriveModel;
use headtime_belief::compact::{CompactMap, CompactSettings};
use headtime_belief::matrix::{
    Exploration, LatencyMatrix, MappedDrive, MatrixBelief, MatrixOptions, MatrixSettings,
    MatrixShape, SharedMatrix,
};
use headtime_mechanics::{DriveProfile, catalog};
use headtime_sched::{Belief, PolicyEntry};
use headtime_sim::{
    DriveTruth, Experiment, Measures, OraclePositioning, RunError, run, run_with_belief,
};
use headtime_units::{Extent, Instant, Lba, Nanos, Sectors};
use headtime_workload::{
    AddressPattern, Alignment, Arrival, ClientId, Operation, RequestSource, RequestSpec, Sizes,
    StreamConfig, Workload,
};

use crate::papers::characterized::Characterized;
use crate::papers::load::UnitOf;
use crate::papers::{Cause, Context, FixedParameter, PointOfWork};

/// The drive of all of the paper's figures.
pub(super) const DRIVE: &str = "cheetah10k7@papers";
/// The other three of its table I, with which it found "approximately the same".
pub(super) const OTHERS: [&str; 3] =
    ["diamondmax9@papers", "barracuda7200-7@papers", "savvio15k2@papers"];
/// The request that is nearest by a map, whatever its age: SATF read literally.
pub(super) const GREEDY: &str = "sptf-expected:ageing_power=0";
/// Positions at full scale.
const POSITIONS: u64 = 10_000;
/// The minimum for a meaningful result.
const FEWEST: u64 = 150;
/// The alignment of positions in bytes.
const PAGE: u64 = 4_096;

/// The number of positions, a prime, that keeps the number of pairs proportional to the scale;
/// `share` is that of the paper's number of pairs at full scale.
pub(super) fn positions(context: &Context<'_>, share: f64) -> u64 {
    let required = (POSITIONS as f64 * libm::sqrt(share * context.scale())) as u64;
    let prime = |number: &u64| {
        (2..).take_while(|part| part * part <= *number).all(|part| !number.is_multiple_of(part))
    };
    (0..=required.max(FEWEST)).rev().find(prime).expect("there are primes below any such number")
}

/// Reads of 1 to 4 KiB at a number of fixed positions.
pub(super) fn reads(positions: u64) -> StreamConfig {
    StreamConfig {
        sizes: Sizes::Uniform { min_bytes: 1_024, max_bytes: 4_096, multiple_bytes: 1_024 },
        alignment: Alignment::Bytes(PAGE),
        place: AddressPattern::Fixed { places: positions, set: 0 },
        ..StreamConfig::closed(1)
    }
}

/// A map of all pairs of a drive's positions.
#[derive(Clone, Debug)]
pub(super) struct Collected {
    pub(super) map: LatencyMatrix,
    /// The statistics of the map when each pair was read once.
    pub(super) known: f64,
}

/// The collection of a map, a point of work before those that use it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Collect {
    pub(super) drive: &'static str,
    pub(super) unit: UnitOf,
    pub(super) positions: u64,
    pub(super) settings: MatrixSettings,
    pub(super) ways: Ways,
}

/// The directions in which each two positions are read during a collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ways {
    /// From each to the other and back.
    Both,
    /// One of the two, mostly that of rising addresses: a map that was filled until no pair was
    /// unknown.
    One,
}

impl Collect {
    /// Both directions on a simulated drive with noise.
    pub(super) fn of(drive: &'static str, positions: u64, settings: MatrixSettings) -> Self {
        Self { drive, unit: UnitOf::Drawn, positions, settings, ways: Ways::Both }
    }

    fn collect(&self, seed: u64) -> Result<Collected, Cause> {
        let mut profile = catalog::load(self.drive)?;
        let unit = self.unit.prepare(&mut profile);
        let source = EveryPair::new(&profile, self.positions, self.ways, seed)?;
        let map = SharedMatrix::new(LatencyMatrix::new(shape(&profile, self.settings)));
        let (entry, parameters) = PolicyEntry::parse("fcfs")?;
        let experiment = Experiment {
            instance: unit,
            parameters,
            outstanding: Some(1),
            warm_up: 1,
            requests: self.positions * self.positions,
            ..Experiment::new(Arc::new(profile), entry, seed)
        };
        run(&experiment, source, &|profile| {
            Box::new(MatrixBelief::new(map.clone(), options(profile, Exploration::Off)))
        })?;
        let known = map.inspect(|map| map.known() as f64 / map.pairs().max(1) as f64);
        Ok(Collected { map: map.inspect(LatencyMatrix::clone), known })
    }
}

impl PointOfWork for Collect {
    type Outcome = Arc<Collected>;

    fn label(&self) -> String {
        format!("a map of {} positions on {}, pair by pair", self.positions, self.drive)
    }

    fn work(&self) -> u64 {
        self.positions * self.positions
    }

    fn run(&self, seed: u64) -> Result<Self::Outcome, Cause> {
        self.collect(seed).map(Arc::new)
    }
}

/// The learning of a compact map from random reads, a point of work before those that use it.
#[derive(Clone, Debug)]
pub(super) struct LearnCompact {
    pub(super) drive: &'static str,
    pub(super) unit: UnitOf,
    pub(super) from: LearnFrom,
    pub(super) requests: u64,
}

/// The start of a compact map.
#[derive(Clone, Debug)]
pub(super) enum LearnFrom {
    /// Size and nominal speed alone.
    Nothing,
    /// The profile of the model, from which the simulated drive differs.
    Model,
    /// The profile that a characterization found.
    Found(Arc<Characterized>),
}

/// The number of random reads for learning a compact map, enough to find a drive's zones from
/// nothing (see `p1.curve`).
pub(super) const LEARNED_FROM: u64 = 65_536;

impl LearnCompact {
    fn learn(&self, seed: u64) -> Result<CompactMap, Cause> {
        let mut profile = catalog::load(self.drive)?;
        let unit = self.unit.prepare(&mut profile);
        let settings = CompactSettings::default();
        let belief = match &self.from {
            LearnFrom::Found(found) => DriveModel::mapped_from_profile(&found.profile, settings)?,
            LearnFrom::Model => DriveModel::mapped_from_profile(&profile, settings)?,
            LearnFrom::Nothing => DriveModel::mapped_from_nothing(
                mapped(&profile),
                profile.rotation_period()?,
                settings,
            )?,
        };
        let source = Workload::new(
            &[StreamConfig::closed(1)],
            profile.sector_size()?,
            profile.capacity(),
            seed,
        )?;
        let (entry, parameters) = PolicyEntry::parse("fcfs")?;
        let experiment = Experiment {
            instance: unit,
            parameters,
            outstanding: Some(1),
            warm_up: 1,
            requests: self.requests,
            ..Experiment::new(Arc::new(profile), entry, seed)
        };
        let (run, learned) =
            run_with_belief(&experiment, source, &|_| Box::new(belief.clone()), &mut ())?;
        run.fault.map_or(Ok(()), |fault| Err(RunError::from(fault)))?;
        let belief = learned.as_any().downcast_ref::<DriveModel>();
        Ok(belief.and_then(DriveModel::map).expect("a run keeps its map").clone())
    }
}

impl PointOfWork for LearnCompact {
    type Outcome = Arc<CompactMap>;

    fn label(&self) -> String {
        format!("a compact map of {}", self.drive)
    }

    /// Searches for angles take several times as long as reads.
    fn work(&self) -> u64 {
        10 * self.requests
    }

    fn run(&self, seed: u64) -> Result<Self::Outcome, Cause> {
        self.learn(seed).map(Arc::new)
    }
}

/// The identity of the drive in maps.
pub(super) fn mapped(profile: &DriveProfile) -> MappedDrive {
    MappedDrive {
        model: profile.name.clone(),
        capacity: profile.capacity(),
        sector: profile.sector_size().expect("a profile of the catalog"),
    }
}

/// The shape of the map of a drive.
pub(super) fn shape(profile: &DriveProfile, settings: MatrixSettings) -> MatrixShape {
    MatrixShape::new(mapped(profile), &settings).expect("cells of whole pages suit any drive")
}

/// The sector time of a drive, which the model of a map needs.
pub(super) fn options(profile: &DriveProfile, exploration: Exploration) -> MatrixOptions {
    let turn_ns = profile.rotation_period().map_or(6e6, |period| period.as_ns_f64());
    let zones = profile.zones.iter().map(|zone| f64::from(zone.sectors_per_track));
    let runs = profile.runs.iter().map(|run| f64::from(run.sectors_per_track));
    let tracks: Vec<f64> = zones.chain(runs).collect();
    let sectors = tracks.iter().sum::<f64>() / tracks.len().max(1) as f64;
    MatrixOptions { sector_ns: turn_ns / sectors.max(1.0), exploration, ..MatrixOptions::default() }
}

/// Reads every position after every other, one at a time.
struct EveryPair {
    starts: Vec<Lba>,
    len: Sectors,
    /// The steps end before this one.
    steps: usize,
    step: usize,
    next: usize,
    left: usize,
}

impl EveryPair {
    fn new(profile: &DriveProfile, positions: u64, ways: Ways, seed: u64) -> Result<Self, Cause> {
        let sector = profile.sector_size()?;
        let mut workload = Workload::new(&[reads(positions)], sector, profile.capacity(), seed)?;
        let mut starts = BTreeSet::new();
        // After twenty draws for each, a position is missing with a probability of 2 in 10⁹; two at
        // the same address count once.
        for _ in 0..20 * positions {
            starts.extend(
                workload
                    .follow(Instant::ORIGIN, ClientId(0))
                    .map(|arrival| arrival.ask.extent.start),
            );
        }
        let len = sector.sectors_of(PAGE).unwrap_or(Sectors::new(1));
        let steps = match ways {
            Ways::Both => starts.len(),
            Ways::One => starts.len().div_ceil(2),
        };
        let left = starts.len();
        Ok(Self { starts: starts.into_iter().collect(), len, steps, step: 1, next: 0, left })
    }

    fn at(&mut self, at: Instant) -> Option<Arrival> {
        if self.left == 0 {
            (self.step, self.left) = (self.step + 1, self.starts.len());
        }
        if self.step >= self.steps {
            return None;
        }
        let start = self.starts[self.next];
        (self.next, self.left) = ((self.next + self.step) % self.starts.len(), self.left - 1);
        let extent = Extent { start, len: self.len };
        Some(Arrival {
            at,
            ask: RequestSpec {
                client: ClientId(0),
                stream: 0,
                operation: Operation::Read,
                extent,
                fua: false,
                deadline: None,
            },
        })
    }
}

impl RequestSource for EveryPair {
    fn arrival(&mut self) -> Option<Arrival> {
        (self.step == 1 && self.left == self.starts.len())
            .then(|| self.at(Instant::ORIGIN))
            .flatten()
    }

    fn follow(&mut self, now: Instant, _client: ClientId) -> Option<Arrival> {
        self.at(now)
    }
}

/// The drive model of a policy.
#[derive(Clone, Debug)]
pub(super) enum Knows {
    /// A map that was collected before.
    Map(Arc<Collected>),
    /// An empty map, which is filled during the run and whose gaps are explored.
    EmptyMap(MatrixSettings),
    /// A compact map that was learned before.
    Compact(Arc<CompactMap>),
    /// The result of a characterization.
    Profile(Arc<Characterized>),
    /// The profile of the drive model: complete knowledge of a nominal drive without noise.
    Model,
    /// The true simulated drive of this seed, except for chance (late reports and retries) and its
    /// cache: an oracle.
    Truth(u64),
}

impl Knows {
    pub(super) fn words(&self) -> &'static str {
        match self {
            Self::Map(_) => "collected map",
            Self::EmptyMap(_) => "map empty at first",
            Self::Compact(_) => "compact map",
            Self::Profile(_) => "characterized profile",
            Self::Model => "the model's profile",
            Self::Truth(_) => "oracle",
        }
    }

    fn belief(&self, profile: &DriveProfile) -> Result<Box<dyn Belief + Send>, Cause> {
        Ok(match self {
            // Each run continues to learn in its own copy.
            Self::Map(collected) => Box::new(MatrixBelief::new(
                SharedMatrix::new(collected.map.clone()),
                options(profile, Exploration::Off),
            )),
            Self::EmptyMap(settings) => {
                let map = SharedMatrix::new(LatencyMatrix::new(shape(profile, *settings)));
                Box::new(MatrixBelief::new(map, options(profile, Exploration::Prefer)))
            }
            Self::Compact(map) => Box::new(DriveModel::of_map(CompactMap::clone(map))),
            Self::Profile(found) => Box::new(DriveModel::of_profile(&found.profile)?),
            Self::Model => Box::new(DriveModel::of_profile(profile)?),
            Self::Truth(seed) => {
                Box::new(OraclePositioning::new(&DriveTruth::draw(profile, *seed)?)?)
            }
        })
    }
}

/// One run of one policy.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) drive: &'static str,
    pub(super) unit: UnitOf,
    pub(super) policy: String,
    pub(super) knows: Knows,
    pub(super) positions: u64,
    /// Clients of each stream, and the deadline of their requests.
    pub(super) streams: Vec<(u32, Option<Nanos>)>,
    /// Commands at the drive; `None` leaves it to the policy.
    pub(super) outstanding: Option<usize>,
    pub(super) requests: u64,
}

impl Run {
    /// Synchronous processes without deadlines.
    pub(super) fn of(
        drive: &'static str,
        policy: &str,
        knows: Knows,
        positions: u64,
        queue: u32,
        requests: u64,
    ) -> Self {
        let streams = vec![(queue, None)];
        Self {
            drive,
            unit: UnitOf::Drawn,
            policy: policy.to_string(),
            knows,
            positions,
            streams,
            outstanding: None,
            requests,
        }
    }

    /// All requests in the drive's own queue, up to its depth.
    pub(super) fn in_drive(self, depth: usize) -> Self {
        Self { policy: format!("firmware:depth={depth}"), outstanding: Some(depth), ..self }
    }

    pub(super) fn experiment(&self, seed: u64) -> Result<(Experiment, Workload), Cause> {
        let mut profile = catalog::load(self.drive)?;
        let unit = self.unit.prepare(&mut profile);
        let (entry, parameters) = PolicyEntry::parse(&self.policy)?;
        let stream = |(clients, deadline): &(u32, Option<Nanos>)| StreamConfig {
            deadline: *deadline,
            arrivals: StreamConfig::closed(*clients).arrivals,
            ..reads(self.positions)
        };
        let streams: Vec<StreamConfig> = self.streams.iter().map(stream).collect();
        let held: u64 = self.streams.iter().map(|(clients, _)| u64::from(*clients)).sum();
        let source = Workload::new(&streams, profile.sector_size()?, profile.capacity(), seed)?;
        let experiment = Experiment {
            instance: unit,
            parameters,
            outstanding: self.outstanding,
            warm_up: (self.requests / 10).max(2 * held),
            requests: self.requests,
            by_stream: true,
            ..Experiment::new(Arc::new(profile), entry, seed)
        };
        Ok((experiment, source))
    }

    /// The initial drive model of the policy.
    pub(super) fn belief(&self, profile: &DriveProfile) -> Result<Box<dyn Belief + Send>, Cause> {
        self.knows.belief(profile)
    }
}

impl PointOfWork for Run {
    type Outcome = Measures;

    fn label(&self) -> String {
        let held: u32 = self.streams.iter().map(|(clients, _)| clients).sum();
        format!("{} on {} for {held} processes ({})", self.policy, self.drive, self.knows.words())
    }

    fn work(&self) -> u64 {
        let held: u64 = self.streams.iter().map(|(clients, _)| u64::from(*clients)).sum();
        // Paths are computed repeatedly.
        if self.policy.contains("map") { self.requests * (1 + held / 4) } else { self.requests }
    }

    fn run(&self, seed: u64) -> Result<Measures, Cause> {
        let (experiment, source) = self.experiment(seed)?;
        self.belief(&experiment.profile)?;
        let belief = |profile: &DriveProfile| {
            self.belief(profile).expect("it was made of the same profile a moment ago")
        };
        Ok(run(&experiment, source, &belief)?)
    }
}

/// The common parameters of these experiments.
pub(super) fn parameters(positions: u64, requests: u64) -> Vec<FixedParameter> {
    vec![
        FixedParameter::new(
            "drive",
            format!(
                "{DRIVE}: write cache off, drive queue of 64; a simulated drive with noise typical"
            ),
        ),
        FixedParameter::new("positions", format!("{positions}, drawn once; the paper has 10,000")),
        FixedParameter::new(
            "requests",
            "reads of 1 to 4 KiB, synchronous processes without think time",
        ),
        FixedParameter::new(
            "map",
            "cells of 128 KiB, 4 bits, worst observed, collected pair by pair on the drive before",
        ),
        FixedParameter::new(
            "requests counted",
            format!("{requests} a point, after a tenth as many of warm-up"),
        ),
    ]
}

/// The common notes of these experiments.
pub(super) fn notes() -> Vec<String> {
    vec![
        "The paper measured real drives. These are simulated from data sheets and other sources \
            known of them; see the profile."
            .to_string(),
        "The paper's requests are reads and writes and it found no difference between them; here \
            all are reads."
            .to_string(),
        "The paper changed its positions occasionally; here they are fixed.".to_string(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const SEED: u64 = 5;

    fn profile() -> DriveProfile {
        catalog::load(DRIVE).expect("it ships")
    }

    #[test]
    fn every_position_is_read_once_after_every_other() {
        let mut source = EveryPair::new(&profile(), 31, Ways::Both, SEED)
            .expect("thirty-one places fit any drive");
        let first = source.arrival().expect("there is a first").ask.extent.start;
        assert!(source.arrival().is_none(), "one client asks once by itself");
        let (mut pairs, mut last) = (BTreeMap::new(), first);
        while let Some(next) = source.follow(Instant::ORIGIN, ClientId(0)) {
            *pairs.entry((last, next.ask.extent.start)).or_insert(0) += 1;
            last = next.ask.extent.start;
        }
        // The very last pair, back to the first position, is not closed.
        assert!(
            pairs.iter().all(|((from, to), times)| from != to && *times == 1)
                && pairs.len() == 31 * 30 - 1,
            "{pairs:?}"
        );
    }

    #[test]
    fn a_collected_map_knows_its_pairs_and_the_policies_that_use_it_gain() {
        let context = Context::new(SEED, 0.000_1, 1, &crate::papers::context::Silent);
        let positions = positions(&context, 1.0);
        assert_eq!(positions, 149, "the largest prime up to the fewest that say anything");
        let settings = MatrixSettings {
            directions: headtime_belief::matrix::Directions::Both,
            ..MatrixSettings::default()
        };
        let collected =
            Collect { unit: UnitOf::Nominal, ..Collect::of(DRIVE, positions, settings) }
                .run(SEED)
                .expect("it runs");
        // Of so few positions the cache still holds some where one cycle ends and the next begins.
        assert!(collected.known > 0.9, "seed {SEED}: {} of the pairs are known", collected.known);
        let knows = Knows::Map(collected);
        let iops = |policy: &str| {
            let run = Run {
                unit: UnitOf::Nominal,
                ..Run::of(DRIVE, policy, knows.clone(), positions, 16, 2_000)
            };
            PointOfWork::run(&run, SEED).expect("it runs").iops
        };
        let (by_map, by_address, as_they_come) = (iops("satf-map"), iops("satf-lbn"), iops("fcfs"));
        assert!(
            by_map > 1.05 * by_address && by_address > 1.05 * as_they_come,
            "seed {SEED}: {by_map} {by_address} {as_they_come}"
        );
    }
}
