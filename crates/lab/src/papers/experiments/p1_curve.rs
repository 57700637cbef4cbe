//! `p1.curve`: how accurate a map is after how many requests, the published matrix and the compact
//! map of a whole drive within 64 MB.
//!
//! Random 4 KiB reads of a whole drive, one at a time; each is predicted before it is sent and
//! learned from afterwards. A point of a curve is the share of right predictions among the last
//! quarter of the requests until then.

use headtime_belief::DriveModel;
use headtime_belief::compact::CompactSettings;
use headtime_belief::matrix::{
    Directions, EntryBits, Exploration, LatencyMatrix, MatrixBelief, MatrixSettings, SharedMatrix,
};
use headtime_mechanics::{DriveProfile, catalog, draw};
use headtime_sched::Belief;
use headtime_units::{Extent, Lba, Sectors};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::p1::{self, DRIVE};
use super::p1_unit::{BareUnit, Tally, share_percent};
use crate::papers::{
    Axis, Cause, Context, ExperimentError, Findings, FixedParameter, Judged, Measured,
    PaperExperiment, Plot, Point, PointOfWork, Row, Series,
};

pub(crate) const EXPERIMENT: PaperExperiment = PaperExperiment {
    id: "p1.curve",
    title: "accuracy of maps against requests seen, on a whole drive within 64 MB",
    source: "P1, sections III-A and VI (a model within 5 % for 99.9 % of pairs)",
    takes: "4 min",
    find,
};

const REQUESTS: u64 = 131_072;
/// The start of a curve.
const FIRST: u64 = 128;
/// Drives of the catalog; random models are added.
const DRIVES: [&str; 4] = ["nearline-20tb@nocache", DRIVE, "atlas10k", "savvio15k2@nocache"];
const DRAWN: u64 = 2;
/// The accuracy that P1 requires of a model, in percent.
const PUBLISHED: f64 = 99.9;
const MAX_BYTES: f64 = 64e6;

/// The learning model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Learner {
    Matrix,
    CompactFromNothing,
    CompactFromProfile,
    Profile,
}

impl Learner {
    pub(super) const ALL: [Self; 4] =
        [Self::Matrix, Self::CompactFromNothing, Self::CompactFromProfile, Self::Profile];

    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Matrix => "matrix",
            Self::CompactFromNothing => "compact map from nothing",
            Self::CompactFromProfile => "compact map from the drive's profile",
            Self::Profile => "model from the drive's profile",
        }
    }

    /// A new model; maps have 64 MB.
    pub(super) fn belief(self, profile: &DriveProfile) -> Result<Learning, Cause> {
        let compact = CompactSettings {
            memory: headtime_units::ByteSize::new(64_000_000),
            ..CompactSettings::default()
        };
        Ok(match self {
            Self::Matrix => {
                // Steps of 1.43 ms, as four bits have them, are never within 5 %, nor is the worse
                // of two directions.
                let (bits, directions) = (EntryBits::Sixteen, Directions::Both);
                let settings = MatrixSettings {
                    memory: headtime_units::ByteSize::new(64_000_000),
                    bits,
                    directions,
                    ..MatrixSettings::default()
                };
                let map = SharedMatrix::new(LatencyMatrix::new(p1::shape(profile, settings)));
                Learning::Matrix(Box::new(MatrixBelief::new(
                    map,
                    p1::options(profile, Exploration::Off),
                )))
            }
            Self::CompactFromNothing => {
                Learning::Compact(Box::new(DriveModel::mapped_from_nothing(
                    p1::mapped(profile),
                    profile.rotation_period()?,
                    compact,
                )?))
            }
            Self::CompactFromProfile => {
                Learning::Compact(Box::new(DriveModel::mapped_from_profile(profile, compact)?))
            }
            Self::Profile => Learning::Profile(Box::new(DriveModel::of_profile(profile)?)),
        })
    }
}

/// A learning model, and its memory.
pub(super) enum Learning {
    Matrix(Box<MatrixBelief>),
    Compact(Box<DriveModel>),
    Profile(Box<DriveModel>),
}

impl Learning {
    pub(super) fn belief(&mut self) -> &mut dyn Belief {
        match self {
            Self::Matrix(belief) => belief.as_mut(),
            Self::Compact(belief) => belief.as_mut(),
            Self::Profile(belief) => belief.as_mut(),
        }
    }

    /// Bytes of a map.
    fn bytes(&self) -> Option<u64> {
        match self {
            Self::Matrix(belief) => Some(belief.map().inspect(LatencyMatrix::memory).get()),
            Self::Compact(belief) => Some(belief.memory().get()),
            Self::Profile(_) => None,
        }
    }
}

/// The drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Model {
    Catalog(&'static str),
    /// A small random drive of this seed.
    Drawn(u64),
}

impl Model {
    fn words(self) -> String {
        match self {
            Self::Catalog(name) => name.to_string(),
            Self::Drawn(seed) => format!("drive drawn by {seed}"),
        }
    }

    fn load(self) -> Result<DriveProfile, Cause> {
        match self {
            Self::Catalog(name) => Ok(catalog::load(name)?),
            Self::Drawn(seed) => {
                let mut rng = ChaCha8Rng::seed_from_u64(seed);
                // The first with one arm: a compact map is of one.
                let mut profile = draw::random_profile(&mut rng);
                while profile.actuators() > 1 {
                    profile = draw::random_profile(&mut rng);
                }
                profile.cache = None;
                Ok(profile)
            }
        }
    }
}

struct Curve {
    model: Model,
    learner: Learner,
    requests: u64,
}

/// The result.
struct Traced {
    /// The number of requests, and the results of the last quarter of them.
    points: Vec<(u64, Tally)>,
    max_bytes: Option<u64>,
    seconds: f64,
}

impl PointOfWork for Curve {
    type Outcome = Traced;

    fn label(&self) -> String {
        format!("{} of {}", self.learner.words(), self.model.words())
    }

    fn work(&self) -> u64 {
        self.requests
    }

    fn run(&self, seed: u64) -> Result<Traced, Cause> {
        let profile = self.model.load()?;
        let (mut unit, mut learning) =
            (BareUnit::draw(&profile, seed)?, self.learner.belief(&profile)?);
        let page = Sectors::new(
            (4_096 / u64::from(profile.sector_bytes)).max(1).min(profile.capacity().get()),
        );
        let pages = profile.capacity().get() / page.get();
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (mut points, mut next, mut tally, mut max_bytes) =
            (Vec::new(), FIRST, Tally::default(), None);
        for number in 0..self.requests {
            let start = Lba::new(rng.random_range(0..pages) * page.get());
            let outcome = unit.serve(learning.belief(), Extent::new(start, page));
            if number >= next - next / 4 {
                tally.note(outcome);
            }
            if number + 1 == next {
                points.push((next, std::mem::take(&mut tally)));
                next *= 2;
            }
            if number % 64 == 0 {
                max_bytes = max_bytes.max(learning.bytes());
            }
        }
        Ok(Traced {
            points,
            max_bytes,
            seconds: unit.now().saturating_since(headtime_units::Instant::ORIGIN).as_secs_f64(),
        })
    }
}

fn find(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    // Up to a power of two: there the last point is.
    let requests = 1 << context.requests(REQUESTS).max(FIRST).ilog2();
    let drawn = (1..=DRAWN).map(|number| Model::Drawn((context.seed() + 1) * 1_000 + number));
    let models: Vec<Model> = DRIVES.map(Model::Catalog).into_iter().chain(drawn).collect();
    let curves: Vec<Curve> = models
        .iter()
        .flat_map(|model| Learner::ALL.map(|learner| Curve { model: *model, learner, requests }))
        .collect();
    let traced = context.run(&curves)?;
    let mut findings = Findings::new(
        parameters(requests),
        vec![EDGES.to_string(), NO_CACHE.to_string()],
        Plot::new("observed requests", "correct within 5 %, % of pairs", Axis::PowersOfTwo),
    );
    for (model, traced) in models.iter().zip(traced.chunks(Learner::ALL.len())) {
        let mut series = Vec::new();
        for (learner, traced) in Learner::ALL.into_iter().zip(traced) {
            findings.rows.extend(rows(*model, learner, traced));
            let points = traced
                .points
                .iter()
                .map(|(requests, tally)| Point::of(*requests as f64, tally.right_percent()));
            series.push(Series::measured(learner.words(), points.collect()));
        }
        let oracle = |(requests, tally): &(u64, Tally)| {
            Point::of(*requests as f64, share_percent(tally.foreseeable, tally.away_from_edge))
        };
        let points = traced[0].points.iter().map(oracle).collect();
        series.push(Series::measured("mechanics known (oracle)", points));
        let last = traced[0].points.last().map_or(FIRST, |point| point.0) as f64;
        let required =
            [FIRST as f64, last].map(|requests| Point::published(requests, PUBLISHED)).to_vec();
        series.push(Series::published("required of a model", required));
        findings.add_panel(model.words(), series);
    }
    Ok(findings)
}

fn rows(model: Model, learner: Learner, traced: &Traced) -> Vec<Row> {
    let what = |text: &str| {
        format!("{}, {}: {text} (simulated drive with noise)", model.words(), learner.words())
    };
    let Some((requests, last)) = traced.points.last() else { return Vec::new() };
    let right = last.right_percent();
    let oracle = share_percent(last.foreseeable, last.away_from_edge);
    let why = format!(
        "{} until then, {:.0} s of drive time; with full knowledge of the mechanics but not the \
            noise {:.2} % (oracle).",
        reached(traced),
        traced.seconds,
        oracle.value
    );
    let mut rows = vec![
        Row::new(
            what(&format!("correct within 5 % after {requests} requests")),
            "% of pairs",
            Judged::at_least(PUBLISHED, right, "as published, of a simulator beside a matrix"),
            &why,
        ),
        Row::unpublished(
            what(&format!(
                "correct within 5 % at the edge of a revolution after {requests} requests"
            )),
            share_percent(last.right_at_the_edge, last.at_the_edge),
            "% of pairs",
            &format!(
                "Counted apart: {:.1} % of all pairs.",
                share_percent(last.at_the_edge, last.at_the_edge + last.away_from_edge).value
            ),
        ),
        Row::unpublished(
            what(&format!("known pairs after {requests} requests")),
            share_percent(last.known, last.away_from_edge),
            "% of pairs",
            "The others are estimated by distance, or as half a revolution.",
        ),
    ];
    if let Some(bytes) = traced.max_bytes {
        let bytes = bytes as f64;
        let bytes = Measured::exact(bytes / 1e6);
        let reason = "target of the project, a search at work included";
        rows.push(Row::new(
            what("maximum memory"),
            "MB",
            Judged::at_most(MAX_BYTES / 1e6, bytes, reason).target(),
            "the target is missed.",
        ));
    }
    rows
}

/// The number of requests from which on a share was correct.
fn reached(traced: &Traced) -> String {
    let reached = [90.0, 95.0, 98.0, 99.0].into_iter().filter_map(|percent| {
        let below =
            traced.points.iter().rposition(|(_, tally)| tally.right_percent().value < percent);
        let at = traced.points.get(below.map_or(0, |below| below + 1))?;
        Some(format!("{percent:.0} % from {} requests on", at.0))
    });
    let reached: Vec<String> = reached.collect();
    if reached.is_empty() { "Below 90 %".to_string() } else { reached.join(", ") }
}

fn parameters(requests: u64) -> Vec<FixedParameter> {
    vec![
        FixedParameter::new(
            "workload",
            "4 KiB reads, places drawn evenly from the whole drive, one at a time without think \
                time",
        ),
        FixedParameter::new(
            "drives",
            format!(
                "{}, and {DRAWN} small models drawn at random; a unit of each with all that its \
                    profile varies",
                DRIVES.join(", ")
            ),
        ),
        FixedParameter::new(
            "requests",
            format!("{requests}; a point is the last quarter until then"),
        ),
        FixedParameter::new(
            "right",
            "the response time, from dispatch to completion, expected to within 5 % of what it \
                came to",
        ),
        FixedParameter::new(
            "maps",
            "at most 64 MB each; the matrix of 128 KiB cells, the cells touched first, with 16 \
                bits and both directions so that it can be right at all",
        ),
        FixedParameter::new("intervals", "95 % (Wilson), the farther end either way"),
    ]
}

const EDGES: &str = "Pairs at the edge, whose sector passes less than 100 us after the arm arrives \
    or passed less than 100 us before it, are counted apart: whether they take an additional \
    revolution depends on noise.";
const NO_CACHE: &str =
    "The drive has no cache: mechanics, late reports and retries of a simulated drive.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_compact_map_begins_with_the_profile_or_with_nothing_and_stays_within_its_memory() {
        let trace = |learner| {
            Curve { model: Model::Catalog(DRIVE), learner, requests: 2_048 }
                .run(3)
                .expect("it runs")
        };
        let [nothing, profile, matrix] =
            [Learner::CompactFromNothing, Learner::CompactFromProfile, Learner::Matrix].map(trace);
        let share = |traced: &Traced, place: usize| traced.points[place].1.right_percent().value;
        assert!(
            share(&nothing, 1) < 30.0 && share(&profile, 4) > 60.0,
            "{} and {}",
            share(&nothing, 1),
            share(&profile, 4)
        );
        assert!(share(&matrix, 4) < 40.0 && matrix.points[4].1.known < 20, "{}", share(&matrix, 4));
        assert!(
            [nothing, profile, matrix]
                .iter()
                .all(|traced| traced.max_bytes.is_some_and(|bytes| bytes <= 64_000_000))
        );
    }
}
