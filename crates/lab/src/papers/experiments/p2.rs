//! The common parts of the experiments of P2: the drive, the units of it, what is known of them,
//! the load, and how a point runs.
//!
//! The paper had one real Quantum Atlas 10K. Here its extracted mechanics are the *truth* of
//! the paper's bus, queue and cache settings, and the scheduler is told what a characterization of
//! that unit found, and nothing else.

use std::sync::Arc;

use headtime_belief::DriveModel;
use headtime_mechanics::{DriveProfile, catalog};
use headtime_probe::SelfCheck;
use headtime_sched::{Belief, FillSettings, IdleSettings, PolicyEntry, ReadAhead};
use headtime_sim::{BackgroundScan, Experiment, Measures, OraclePositioning, run};
use headtime_units::Nanos;
use headtime_workload::{Alignment, Builtin, Sizes, StreamConfig, Workload};

use crate::papers::characterized::{Characterized, Unknown};
use crate::papers::load::{UnitOf, iops};
use crate::papers::{Cause, Context, Estimated, ExperimentError, FixedParameter, PointOfWork};

/// The drive as the paper used it.
pub(super) const DRIVE: &str = "atlas10k@p2";
/// The drive for the probe: the same mechanics, bus and queue with the cache disabled, without
/// read-ahead.
pub(super) const PROBED: &str = "atlas10k";
/// Tasks of the paper's foreground: the number that it gives, and one that fits its "ten active"
/// better (docs/limits.md 7).
pub(super) const TASKS: [u32; 2] = [10, 14];

/// One simulated drive, and the knowledge of it.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) unit: UnitOf,
    found: Arc<Characterized>,
}

/// The foreground.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asks {
    /// Random reads of one size over the whole drive, with a constant queue length.
    Reads { bytes: u64, queue: u32 },
    /// The paper's OLTP with a number of tasks.
    Oltp { tasks: u32 },
}

/// One run of a foreground, with or without a scan in the background.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// The profile: [`DRIVE`] or [`PROBED`].
    pub(super) drive: &'static str,
    pub(super) known: Known,
    pub(super) policy: String,
    /// Commands at the drive; `None` leaves it to the policy.
    pub(super) outstanding: Option<usize>,
    pub(super) asks: Asks,
    /// Requests counted, after those of the warm-up.
    pub(super) requests: u64,
    /// Requests of the warm-up; `None` for a tenth as many as are counted.
    pub(super) warm_up: Option<u64>,
    pub(super) scan: Option<BackgroundScan>,
    /// The run ends after this number of scans, if not before.
    pub(super) passes: Option<u64>,
    /// True if the scheduler is the drive's own: it knows the drive, and commands and data need no
    /// transfer time.
    pub(super) in_firmware: bool,
    /// Added to the seed of the workload.
    pub(super) replica: u64,
}

/// The simulated drives, each characterized.
pub(super) fn characterized(
    context: &Context<'_>,
    units: &[UnitOf],
) -> Result<Vec<Known>, ExperimentError> {
    let unknown: Vec<Unknown> =
        units.iter().map(|unit| Unknown { drive: PROBED, unit: *unit }).collect();
    let found = context.run(&unknown)?;
    Ok(units.iter().zip(found).map(|(unit, found)| Known { unit: *unit, found }).collect())
}

impl Known {
    /// The description in rows: noise and model.
    pub(super) fn words(&self) -> String {
        format!("{}, characterized model", self.unit.words())
    }

    /// The accuracy of the characterization, for notes.
    pub(super) fn note(&self) -> String {
        format!("Characterizing the unit ({}): {}.", self.unit.words(), self.found.words())
    }

    /// The prediction errors of the characterized model.
    pub(super) fn check(&self) -> SelfCheck {
        self.found.check
    }

    pub(super) fn belief(&self) -> Result<DriveModel, Cause> {
        Ok(self.found.belief()?)
    }
}

impl Asks {
    pub(super) fn workload(self, drive: &DriveProfile, seed: u64) -> Result<Workload, Cause> {
        let (sector, capacity) = (drive.sector_size()?, drive.capacity());
        match self {
            Self::Reads { bytes, queue } => {
                let reads = StreamConfig {
                    sizes: Sizes::Fixed { bytes },
                    alignment: Alignment::Bytes(PAGE),
                    ..StreamConfig::closed(queue)
                };
                Ok(Workload::new(&[reads], sector, capacity, seed)?)
            }
            Self::Oltp { tasks } => {
                let oltp = Builtin::find("oltp")
                    .expect("it ships")
                    .load()
                    .expect("what ships can be read");
                Ok(oltp
                    .workload(sector, capacity, seed, tasks)
                    .expect("transactions suit any drive"))
            }
        }
    }

    fn words(self) -> String {
        match self {
            Self::Reads { bytes, queue } => {
                format!("random {} KiB reads, {queue} held", bytes / 1024)
            }
            Self::Oltp { tasks } => format!("OLTP, {tasks} tasks"),
        }
    }
}

impl Run {
    /// A policy outside the drive with two commands at the drive, as in the paper, without
    /// background.
    pub(super) fn outside(
        known: &Known,
        policy: impl Into<String>,
        asks: Asks,
        requests: u64,
    ) -> Self {
        Self {
            drive: DRIVE,
            known: known.clone(),
            policy: policy.into(),
            outstanding: Some(2),
            asks,
            requests,
            warm_up: None,
            scan: None,
            passes: None,
            in_firmware: false,
            replica: 0,
        }
    }

    /// The same with a scan in the background.
    pub(super) fn scanning(self, fill: FillSettings) -> Self {
        Self { scan: Some(BackgroundScan::new(fill)), ..self }
    }

    /// The same foreground and scan with the drive's own firmware as scheduler: an oracle.
    pub(super) fn in_firmware(self) -> Self {
        let fill = |fill| FillSettings {
            in_firmware: true,
            effort: EVERYWHERE,
            read_ahead: ReadAhead::Off,
            merge_back: true,
            ..fill
        };
        let scan = self.scan.map(|scan| BackgroundScan { fill: fill(scan.fill), ..scan });
        // What is read on the way and the request after it: the two that a gap lies between are
        // both known.
        Self { drive: PROBED, in_firmware: true, outstanding: Some(2), scan, ..self }
    }

    /// Model and experiment of this run.
    pub(super) fn experiment(&self, seed: u64) -> Result<Experiment, Cause> {
        let mut model = catalog::load(self.drive)?;
        let unit = self.known.unit.prepare(&mut model);
        if self.in_firmware {
            bare(&mut model);
        }
        let (entry, parameters) = PolicyEntry::parse(&self.policy)?;
        Ok(Experiment {
            instance: unit,
            parameters,
            outstanding: self.outstanding,
            warm_up: self.warm_up.unwrap_or(self.requests / 10).max(100),
            requests: self.requests,
            background: self.scan.map(|scan| BackgroundScan { passes: self.passes, ..scan }),
            ..Experiment::new(Arc::new(model), entry, seed)
        })
    }

    /// The knowledge of the drive's own scheduler: everything.
    fn truth(&self, experiment: &Experiment) -> Result<Option<OraclePositioning>, Cause> {
        if !self.in_firmware {
            return Ok(None);
        }
        Ok(Some(OraclePositioning::new(
            &experiment.instance.of(&experiment.profile, experiment.seed)?,
        )?))
    }
}

impl PointOfWork for Run {
    type Outcome = Measures;

    fn label(&self) -> String {
        let firmware = if self.in_firmware { ", in firmware (oracle)" } else { "" };
        let scan = if self.scan.is_some() { ", scan" } else { "" };
        format!(
            "{} for {} ({}{firmware}{scan})",
            self.policy,
            self.asks.words(),
            self.known.words()
        )
    }

    /// Requests; gaps are expensive.
    fn work(&self) -> u64 {
        if self.scan.is_some() { self.requests * 10 } else { self.requests }
    }

    fn run(&self, seed: u64) -> Result<Measures, Cause> {
        let experiment = self.experiment(seed)?;
        let source = self.asks.workload(&experiment.profile, seed.wrapping_add(self.replica))?;
        let belief = self.known.belief()?;
        let truth = self.truth(&experiment)?;
        let make = |_: &DriveProfile| -> Box<dyn Belief + Send> {
            match &truth {
                Some(truth) => Box::new(truth.clone()),
                None => Box::new(belief.clone()),
            }
        };
        Ok(run(&experiment, source, &make)?)
    }
}

/// Reading in gaps only, with this conservatism, as in the paper: without a bound on the impact,
/// without reads in idle time, with only the sectors before a request read together with it, with
/// three requests waiting (section 4.2), and without control gaps.
pub(super) fn gaps_only(conservatism: Nanos) -> FillSettings {
    FillSettings {
        conservatism: Some(conservatism),
        max_impact: UNBOUNDED,
        read_ahead: ReadAhead::On,
        merge_back: false,
        waiting_needed: 3,
        controls: 0,
        idle: IdleSettings { enabled: false, ..IdleSettings::default() },
        tail: 0.0,
        ..FillSettings::default()
    }
}

/// A drive of mechanics alone, which serves requests in the given order: its scheduler is its
/// firmware.
fn bare(model: &mut DriveProfile) {
    model.interface.read_command_us = 0.0;
    model.interface.write_command_us = 0.0;
    model.interface.completion_us = 0.0;
    // The most a profile may say: a sector in half a nanosecond.
    model.interface.bus_mb_per_s = 1e6;
    model.firmware.algorithm = headtime_mechanics::profile::Algorithm::Fcfs;
    model.cache = None;
}

/// The common parameters of these experiments.
pub(super) fn parameters(requests: u64) -> Vec<FixedParameter> {
    vec![
        FixedParameter::new(
            "drive",
            format!(
                "{DRIVE}: extracted mechanics, 80 MB/s bus, firmware SPTF with a queue of 64, \
                    read-ahead on, write cache off"
            ),
        ),
        FixedParameter::new(
            "belief",
            "found by characterizing the unit from outside, writes of what was there before \
                included, then learned from completions; nothing else is known",
        ),
        FixedParameter::new(
            "requests counted",
            format!("{requests} a point, after a tenth as many of warm-up"),
        ),
        FixedParameter::new(
            "intervals",
            "95 %, by batch means within one run; of ratios as if both were independent",
        ),
    ]
}

/// The common notes of these experiments.
pub(super) fn notes(known: &[Known]) -> Vec<String> {
    let mut notes = vec![
        "The paper measured a real drive. This one is simulated from what was extracted of another \
            drive of the same model.".to_string(),
        format!("The characterization ran on the unit with its cache out of use ({PROBED}); the \
            experiment runs on {DRIVE}."),
    ];
    notes.extend(known.iter().map(Known::note));
    notes
}

/// The unit of addresses and lengths: the paper's 4 KB.
const PAGE: u64 = 4_096;
/// The paper's foreground scheduler beside SPTF: the smallest seek among those within 60 %.
pub(super) const SW60: &str = "sptf-sw:within_percent=60";
/// The maximum conservatism in the paper's plots, and the distance of its points.
pub(super) fn conservatism() -> impl Iterator<Item = Nanos> {
    (0..=8).map(|tenths| Nanos::from_us(tenths * 100))
}
/// No bound on the impact.
const UNBOUNDED: f64 = f64::INFINITY;
/// Tracks that firmware visits for each gap: its time is assumed to be unlimited (guess: more gain
/// nothing).
const EVERYWHERE: u32 = 400;
/// The foreground of the experiments with a scan.
pub(super) const OLTP: &str = "OLTP: closed, 30 ms think time, reads to writes 2:1, sizes \
    exponential about 8 KiB in multiples of 4 KiB, places even; gaps are filled while three \
    requests are held";
/// Their background.
pub(super) const SCAN: &str =
    "each sector of the drive once, in any order, and again when all are read";
/// The note on the number of tasks.
pub(super) const WHICH_TASKS: &str = "The paper says ten tasks and ten active requests; ten that \
    think have fewer active, fourteen fit its curves better. Both are run, each row says which.";

/// The foreground's throughput in MB per second.
pub(super) fn foreground(measures: &Measures) -> Estimated {
    let rate = iops(measures);
    let of_one = measures.mib_per_second * 1.048_576 / measures.iops.max(f64::MIN_POSITIVE);
    rate.times(of_one)
}

/// The scan's throughput in MB per second.
pub(super) fn free(measures: &Measures) -> Estimated {
    let scan = measures.scan.as_ref();
    Estimated::new(
        scan.map_or(0.0, |scan| scan.mb_per_second),
        scan.and_then(|scan| scan.half_width_mb),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::context::Silent;

    const SEED: u64 = 3;

    fn known(unit: UnitOf) -> Known {
        let known = characterized(&Context::new(SEED, 1.0, 1, &Silent), &[unit])
            .unwrap_or_else(|error| panic!("seed {SEED}: {error}"));
        known.into_iter().next().expect("one was asked for")
    }

    fn measure(run: &Run) -> Measures {
        run.run(SEED).unwrap_or_else(|error| panic!("seed {SEED}: {error}"))
    }

    #[test]
    fn sptf_outside_is_within_three_percent_of_the_firmware_on_a_unit_that_was_only_characterized()
    {
        let known = known(UnitOf::Nominal);
        let outside = Run::outside(&known, "sptf", Asks::Reads { bytes: PAGE, queue: 8 }, 3_000);
        let firmware =
            Run { policy: "firmware:depth=8".into(), outstanding: Some(8), ..outside.clone() };
        let by_distance = Run { policy: "sstf".into(), ..outside.clone() };
        let [outside, firmware, by_distance] =
            [outside, firmware, by_distance].map(|run| measure(&run).iops);
        assert!(
            (outside / firmware - 1.0).abs() < 0.03,
            "seed {SEED}: {outside} outside, {firmware} in firmware"
        );
        assert!(
            outside > 1.05 * by_distance,
            "seed {SEED}: {outside} by SPTF, {by_distance} by SSTF"
        );
    }

    #[test]
    fn the_same_unit_is_characterized_once() {
        let [one, two] = [known(UnitOf::Nominal), known(UnitOf::Nominal)];
        assert!(Arc::ptr_eq(&one.found, &two.found));
        assert!(one.found.check.within_50_us > 0.97, "seed {SEED}: {}", one.note());
        assert_eq!(one.words(), "no noise, characterized model");
    }

    #[test]
    fn a_scan_in_gaps_gets_something_for_next_to_nothing_and_firmware_would_get_more() {
        let known = known(UnitOf::Nominal);
        let alone = Run::outside(&known, "sptf", Asks::Oltp { tasks: TASKS[1] }, 1_500);
        let scanning = alone.clone().scanning(gaps_only(Nanos::from_us(400)));
        let [alone, outside, firmware] =
            [alone, scanning.clone(), scanning.in_firmware()].map(|run| measure(&run));
        let kept = outside.iops / alone.iops;
        assert!(kept > 0.97, "seed {SEED}: the foreground keeps {kept} of its throughput");
        let [outside, firmware] = [outside, firmware].map(|measures| free(&measures).value);
        assert!(
            outside > 1.0 && firmware > outside,
            "seed {SEED}: {outside} MB/s outside, {firmware} in firmware"
        );
    }
}
