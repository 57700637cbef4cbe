//! `p1.f3`: P1, figure 3. Access time against the distance in addresses, and how far it is from a
//! line.

use headtime_mechanics::catalog;
use headtime_sched::{Command, CommandId, Op};
use headtime_sim::{Device as _, SimulatedDrive};
use headtime_units::{Extent, Instant, Lba, Nanos, Sectors};
use rand::{RngExt as _, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::p1;
use crate::papers::load::UnitOf;
use crate::papers::{
    Axis, Cause, Context, ExperimentError, Findings, Judged, Measured, PaperExperiment, Plot,
    Point, PointOfWork, Row, Series,
};

pub(crate) const EXPERIMENT: PaperExperiment = PaperExperiment {
    id: "p1.f3",
    title: "access time against distance in addresses, and how linear it is",
    source: "P1, figure 3 and section III",
    takes: "10 s",
    find,
};

/// Drives, and the published coefficient of linearity.
const DRIVES: [(&str, Option<f64>); 4] = [
    ("cheetah10k7@papers", Some(0.57)),
    ("savvio15k2@papers", Some(0.42)),
    ("barracuda7200-7@papers", None),
    ("diamondmax9@papers", None),
];
/// The number of pairs read on each drive.
const PAIRS: u64 = 40_000;
/// Required agreement of the coefficient (guess).
const TOLERANCE: f64 = 0.08;
const REASON: &str = "a guess: it depends on the seek curve, of which data sheets round two points";
/// Points of each line.
const POINTS: usize = 60;
const PAGE: u64 = 4_096;

/// Pairs of consecutive reads on one drive.
struct Pairs {
    drive: &'static str,
    pairs: u64,
}

/// Distances in GB and access times in ms.
type Seen = Vec<(f64, f64)>;

fn find(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let pairs = context.requests(PAIRS);
    let points: Vec<Pairs> = DRIVES.iter().map(|(drive, _)| Pairs { drive, pairs }).collect();
    let seen = context.run(&points)?;
    let mut findings = Findings::new(
        Vec::new(),
        p1::notes(),
        Plot::new("distance, GB", "access time, ms", Axis::Linear),
    );
    findings.add_parameter(
        "pairs",
        format!(
            "{pairs} on each drive: a read of 4 KiB anywhere, and straight after it one at a \
            distance drawn evenly, up or down"
        ),
    );
    findings.add_parameter(
        "coefficient of linearity",
        "Pearson's correlation of access time and distance; the paper does not say how it computes \
            it",
    );
    for ((drive, published), seen) in DRIVES.iter().zip(&seen) {
        findings.rows.push(row(drive, *published, seen));
        findings.add_panel(*drive, lines(seen));
    }
    Ok(findings)
}

fn row(drive: &str, published: Option<f64>, seen: &Seen) -> Row {
    let measured = coefficient(seen);
    let what = format!("{drive}: coefficient of linearity (simulated drive with noise)");
    match published {
        Some(published) => {
            let judged = Judged::effect(published, measured, TOLERANCE, REASON);
            Row::new(what, "coefficient", judged, WHY)
        }
        None => Row::unpublished(
            what,
            measured,
            "coefficient",
            "Not published: the paper shows two of its four drives.",
        ),
    }
}

impl PointOfWork for Pairs {
    type Outcome = Seen;

    fn label(&self) -> String {
        format!("pairs on {}", self.drive)
    }

    fn work(&self) -> u64 {
        self.pairs
    }

    fn run(&self, seed: u64) -> Result<Seen, Cause> {
        let mut profile = catalog::load(self.drive)?;
        let unit = UnitOf::Drawn.prepare(&mut profile);
        let mut drive = SimulatedDrive::new(unit.of(&profile, seed)?)?;
        let (sector, capacity) = (profile.sector_size()?, profile.capacity().get());
        let len = sector.sectors_of(PAGE).unwrap_or(Sectors::new(1));
        let (mut draw, mut now, mut seen) =
            (ChaCha8Rng::seed_from_u64(seed), Instant::ORIGIN, Vec::new());
        let mut number = 0;
        let mut read = |lba: u64| {
            let id = CommandId(number);
            number += 1;
            let begun = now;
            drive.submit(
                now,
                &Command {
                    id,
                    op: Op::Read,
                    extent: Extent { start: Lba::new(lba), len },
                    fua: false,
                    background: None,
                    requests: Default::default(),
                },
            );
            let mut over = Vec::new();
            while over.is_empty() {
                now = drive.next_event().expect("a command is under way");
                drive.advance(now, &mut over);
            }
            now.saturating_since(begun)
        };
        let places = capacity - len.get();
        for _ in 0..self.pairs {
            // Uniform by distance, then a pair with that distance.
            let distance = draw.random_range(1..places);
            let low = draw.random_range(0..places - distance);
            let (from, to) =
                if draw.random::<bool>() { (low, low + distance) } else { (low + distance, low) };
            read(from);
            let took: Nanos = read(to);
            seen.push((
                sector.bytes_of(Sectors::new(distance)) as f64 / 1e9,
                took.as_ns() as f64 / 1e6,
            ));
        }
        seen.sort_by(|one, two| one.0.total_cmp(&two.0));
        Ok(seen)
    }
}

fn correlation(seen: &Seen) -> f64 {
    let count = seen.len() as f64;
    let (distances, times) =
        seen.iter().fold((0.0, 0.0), |sum, (distance, time)| (sum.0 + distance, sum.1 + time));
    let (mut product, mut of_distance, mut of_time) = (0.0, 0.0, 0.0);
    for (distance, time) in seen {
        let (distance, time) = (distance - distances / count, time - times / count);
        product += distance * time;
        of_distance += distance * distance;
        of_time += time * time;
    }
    product / libm::sqrt(of_distance * of_time)
}

/// The correlation with its interval by Fisher's transformation.
fn coefficient(seen: &Seen) -> Measured {
    let value = correlation(seen);
    let half_width = 1.96 / libm::sqrt((seen.len() as f64 - 3.0).max(1.0));
    let ends = [-half_width, half_width].map(|off| libm::tanh(libm::atanh(value) + off));
    Measured { value, interval: Some(ends.into()) }
}

/// The mean over neighboring distances, and one pair of each.
fn lines(seen: &Seen) -> Vec<Series> {
    let groups = || seen.chunks(seen.len().div_ceil(POINTS));
    let mean = groups().map(|group| {
        let (distance, time) =
            group.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        Point::published(distance / group.len() as f64, time / group.len() as f64)
    });
    let single = groups().map(|group| Point::published(group[0].0, group[0].1));
    vec![
        Series::measured("mean", mean.collect()),
        Series::measured("single pairs", single.collect()),
    ]
}

const WHY: &str = "the paper does not say which places and distances it read, nor how its \
    coefficient is computed.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::verdict::RowVerdict;

    #[test]
    fn a_line_has_a_coefficient_of_one_and_a_saw_of_none() {
        let line: Seen = (0..100).map(|x| (f64::from(x), 3.0 + 0.5 * f64::from(x))).collect();
        assert!((correlation(&line) - 1.0).abs() < 1e-9);
        let saw: Seen = (0..101).map(|x| (f64::from(x), f64::from(x % 2))).collect();
        assert!(correlation(&saw).abs() < 1e-9);
        // Any table: 0.196 at 100 pairs.
        let (low, high) = coefficient(&saw).interval.expect("it has one");
        assert!((low + 0.195).abs() < 2e-3 && (high - 0.195).abs() < 2e-3, "{low} to {high}");
    }

    /// Both directions: the verdict follows the published figure and the amount of data.
    #[test]
    fn a_wrong_published_coefficient_is_not_reproduced_and_few_pairs_are_inconclusive() {
        let drive = DRIVES[0].0;
        let seen = |pairs| Pairs { drive, pairs }.run(3).expect("it runs");
        let many = seen(5_000);
        let right = correlation(&many);
        let verdict = |published, seen| row(drive, Some(published), seen).verdict;
        assert_eq!(verdict(right, &many), Some(RowVerdict::Reproduced));
        for planted in [right - 0.2, right + 0.2, 0.0] {
            assert_eq!(verdict(planted, &many), Some(RowVerdict::NotReproduced), "{planted}");
        }
        assert_eq!(verdict(right, &seen(40)), Some(RowVerdict::Inconclusive));
    }
}
