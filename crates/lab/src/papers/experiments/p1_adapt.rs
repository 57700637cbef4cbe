//! `p1.adapt`: the time until predictions are correct again after a change of a learned drive.
//!
//! Matrix, compact map and the belief from the model's profile each learn a unit until they know
//! it. Then the unit changes, and each read is judged as before: the share of right predictions in
//! `WINDOW` reads after another, and how many reads and how much time pass until the share is back
//! where it was.
//!
//! The matrix answers only pairs that it has met, so it reads a few fixed positions, as the paper
//! did; the others read the whole drive. One read in ten goes to the sectors that are moved in some
//! of the changes, and those changes are judged by reads of them alone: nine in ten of the others
//! would hide them.
//!
//! Drives move sectors in three ways: a damaged region as a whole (5,000 sectors, to near the inner
//! edge), single physical sectors that go bad one by one (50 of 4 KiB each, to spares that follow
//! each other), and, when a spot is left out on formatting, everything after it in its zone by
//! some sectors.

use headtime_mechanics::{DriveProfile, catalog};
use headtime_units::{Extent, Instant, Lba, Sectors};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::p1::DRIVE;
use super::p1_curve::Learner;
use super::p1_unit::{BareUnit, Change, Tally};
use crate::papers::{
    Axis, Cause, Context, Estimated, ExperimentError, Findings, FixedParameter, PaperExperiment,
    Plot, Point, PointOfWork, Row, Series,
};

pub(crate) const EXPERIMENT: PaperExperiment = PaperExperiment {
    id: "p1.adapt",
    title: "time until predictions are correct again after a change of the drive",
    source: "P1, sections III-A and VI (the map follows the drive)",
    takes: "4 min",
    find,
};

/// Reads before and after the change, at full scale.
const BEFORE: u64 = 65_536;
const AFTER: u64 = 65_536;
/// Reads of a window (guess: a share is then known to within some points).
const WINDOW: u64 = 256;
/// Good again: a window at most this many points below the value before the change.
const POINTS: f64 = 3.0;
/// Fixed positions of the matrix: each pair of them is met several times before the change.
const POSITIONS: u64 = 97;
/// One read of this number accesses the moved sectors.
const OF_MOVED: u64 = 10;
const MOVED: Sectors = Sectors::new(5_000);
const READ: Sectors = Sectors::new(8);
/// The number of single defects.
const DEFECTS: u64 = 50;
/// Sectors that a slip leaves out (guess: a damaged spot on one track).
const SLIPPED: Sectors = Sectors::new(100);
/// The difference between the seeds of the defects and of the drive.
const OWN_CHOICES: u64 = 0x5851_F42D_4C95_7F2D;

/// The changes, with their names.
type Happening = (&'static str, fn(&DriveProfile, u64) -> Change);

const CHANGES: [Happening; 6] = [
    ("100 ppm slower at once", |_, _| Change::Speed(100.0)),
    ("a speed that drifts by 100 ppm in ten minutes", |_, _| Change::Drift {
        ppm: 100.0,
        swing_s: 600.0,
    }),
    ("5,000 sectors moved", |profile, _| Change::Moved(vec![(moved(profile), last(profile))])),
    ("another drive of the model", |profile, seed| {
        Change::Swapped(Box::new(profile.clone()), seed.wrapping_add(1))
    }),
    ("50 single defects that grow", |profile, seed| Change::Moved(defects(profile, seed))),
    ("a slip that moves the rest of its zone on", |profile, _| {
        Change::Moved(vec![slipped(profile)])
    }),
];

/// The sectors that are moved: in the middle of the drive.
fn moved(profile: &DriveProfile) -> Extent {
    Extent::new(Lba::new(profile.capacity().get() / 2 / READ.get() * READ.get()), MOVED)
}

/// Single defects at random addresses, each of a read's length (a physical sector of 4 KiB), and
/// consecutive spares near the inner edge.
fn defects(profile: &DriveProfile, seed: u64) -> Vec<(Extent, Lba)> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed ^ OWN_CHOICES);
    let mut drawn = || {
        Lba::new(
            rng.random_range(0..profile.capacity().get() / READ.get() - 2 * MOVED.get())
                * READ.get(),
        )
    };
    (0..DEFECTS)
        .map(|number| {
            (Extent::new(drawn(), READ), last(profile) + Sectors::new(number * READ.get()))
        })
        .collect()
}

/// From the middle of the zone in the middle of the drive to its end everything lies some sectors
/// further on: a spot was left out and the rest pushed down into the zone's spares.
fn slipped(profile: &DriveProfile) -> (Extent, Lba) {
    let middle = moved(profile).start;
    let zones = headtime_mechanics::Layout::new(profile)
        .map(|layout| layout.zones().map(|zone| zone.extent).collect::<Vec<_>>())
        .unwrap_or_default();
    let zone = zones.into_iter().find(|zone| zone.contains(middle)).unwrap_or(moved(profile));
    let from = Lba::new((zone.start.get() + zone.len.get() / 2) / READ.get() * READ.get());
    // Pages that end before the zone does.
    let pages = (zone.end().get() - SLIPPED.get() - from.get()) / READ.get();
    (Extent::new(from, Sectors::new(pages * READ.get())), from + SLIPPED)
}

/// The new address of moved sectors, near the inner edge.
fn last(profile: &DriveProfile) -> Lba {
    Lba::new(profile.capacity().get() - 2 * MOVED.get())
}

/// One belief and one change.
struct Case {
    learner: Learner,
    change: &'static Happening,
    before: u64,
    after: u64,
}

/// The result.
struct Followed {
    /// The last reads before the change, as many as in the windows after it that are evaluated
    /// together.
    before: Tally,
    /// The windows after the change, with reads and seconds until their end.
    windows: Vec<(u64, f64, Tally)>,
}

fn seconds(from: Instant, until: Instant) -> f64 {
    until.saturating_since(from).as_secs_f64()
}

/// The next read, and whether it accesses the moved sectors.
struct Places {
    moved: Vec<Extent>,
    capacity: u64,
    /// Fixed ones: those that are moved first; none where any are read.
    fixed: Vec<Lba>,
    rng: ChaCha8Rng,
}

impl Places {
    fn new(profile: &DriveProfile, moved: Vec<Extent>, fixed: bool, seed: u64) -> Self {
        let mut places = Self {
            moved,
            capacity: profile.capacity().get(),
            fixed: Vec::new(),
            rng: ChaCha8Rng::seed_from_u64(seed),
        };
        if fixed {
            // As large a part of them lies there as reads go there.
            places.fixed = (0..POSITIONS)
                .map(|number| {
                    if number < POSITIONS / OF_MOVED { places.within() } else { places.anywhere() }
                })
                .collect();
        }
        places
    }

    fn within(&mut self) -> Lba {
        let row = if self.moved.len() == 1 {
            self.moved[0]
        } else {
            self.moved[self.rng.random_range(0..self.moved.len())]
        };
        row.start + Sectors::new(self.rng.random_range(0..row.len.get() / READ.get()) * READ.get())
    }

    fn anywhere(&mut self) -> Lba {
        Lba::new(self.rng.random_range(0..self.capacity / READ.get() - 1) * READ.get())
    }

    fn next(&mut self) -> (Extent, bool) {
        let start = match self.fixed.len() {
            0 if self.rng.random_range(0..OF_MOVED) == 0 => self.within(),
            0 => self.anywhere(),
            count => self.fixed[self.rng.random_range(0..count)],
        };
        (Extent::new(start, READ), self.moved.iter().any(|row| row.contains(start)))
    }
}

impl PointOfWork for Case {
    type Outcome = Followed;

    fn label(&self) -> String {
        format!("{}: {}", self.learner.words(), self.change.0)
    }

    fn work(&self) -> u64 {
        self.before + self.after
    }

    fn run(&self, seed: u64) -> Result<Followed, Cause> {
        let profile = catalog::load(DRIVE)?;
        let (mut unit, mut learning) =
            (BareUnit::draw(&profile, seed)?, self.learner.belief(&profile)?);
        let change = (self.change.1)(&profile, seed);
        let (moved, of_moved_alone) = match &change {
            Change::Moved(rows) => (rows.iter().map(|row| row.0).collect(), true),
            _ => (vec![moved(&profile)], false),
        };
        let mut places = Places::new(&profile, moved, self.learner == Learner::Matrix, seed);
        let mut before = Tally::default();
        for number in 0..self.before {
            let (extent, is_moved) = places.next();
            let outcome = unit.serve(learning.belief(), extent);
            if number >= self.before - self.before / 4 && (is_moved || !of_moved_alone) {
                before.note(outcome);
            }
        }
        unit.change(&change)?;
        let (mut windows, mut tally, changed) = (Vec::new(), Tally::default(), unit.now());
        for number in 1..=self.after {
            let (extent, is_moved) = places.next();
            let outcome = unit.serve(learning.belief(), extent);
            if is_moved || !of_moved_alone {
                tally.note(outcome);
            }
            if tally.away_from_edge + tally.at_the_edge == WINDOW || number == self.after {
                windows.push((number, seconds(changed, unit.now()), std::mem::take(&mut tally)));
            }
        }
        Ok(Followed { before, windows })
    }
}

impl Followed {
    fn at_first(&self) -> Estimated {
        self.windows.first().map_or(Estimated::new(0.0, None), |(.., tally)| tally.right_percent())
    }

    /// Of the last quarter of the windows.
    fn at_last(&self, of: impl Fn(&Tally) -> Estimated) -> Estimated {
        let mut last = Tally::default();
        self.windows[self.windows.len() - self.windows.len().div_ceil(4)..]
            .iter()
            .for_each(|(.., tally)| last.add(tally));
        of(&last)
    }

    /// Reads and seconds until the share is back, by the first window from which on two in three
    /// are; `None` where it does not come back.
    fn back(&self) -> Option<(u64, f64)> {
        let required = self.before.right_percent().value - POINTS;
        let good = |tally: &Tally| tally.right_percent().value >= required;
        let from = (0..self.windows.len()).find(|from| {
            let after = &self.windows[*from..];
            good(&after[0].2)
                && after.iter().filter(|window| good(&window.2)).count() * 3 >= after.len() * 2
        })?;
        // Good from the beginning on: nothing was lost.
        Some(if from == 0 { (0, 0.0) } else { (self.windows[from].0, self.windows[from].1) })
    }
}

fn find(context: &Context<'_>) -> Result<Findings, ExperimentError> {
    let (before, after) = (context.requests(BEFORE), context.requests(AFTER).max(WINDOW));
    let cases: Vec<Case> = CHANGES
        .iter()
        .flat_map(|change| Learner::ALL.map(|learner| Case { learner, change, before, after }))
        .collect();
    let followed = context.run(&cases)?;
    let mut findings = Findings::new(
        vec![
            FixedParameter::new(
                "drive",
                format!(
                    "{DRIVE}: its mechanics without a cache, a simulated drive with noise typical"
                ),
            ),
            FixedParameter::new(
                "workload",
                "4 KiB reads, one at a time without think time, one in ten of the sectors that are \
                    moved (5,000 in the middle where nothing is)",
            ),
            FixedParameter::new(
                "places",
                format!("{POSITIONS} fixed ones for the matrix, anywhere for the others"),
            ),
            FixedParameter::new(
                "requests",
                format!("{before} before the change, {after} after it, in windows of {WINDOW}"),
            ),
            FixedParameter::new(
                "correct again",
                format!(
                    "the window from which on two in three are no more than {POINTS} points below \
                        the share before the change"
                ),
            ),
        ],
        vec![MOVED_ALONE.to_string(), MATRIX.to_string(), STEP.to_string()],
        Plot::new("requests after the change", "correct within 5 %, % of pairs", Axis::PowersOfTwo),
    );
    for (change, (cases, followed)) in CHANGES
        .iter()
        .zip(cases.chunks(Learner::ALL.len()).zip(followed.chunks(Learner::ALL.len())))
    {
        let mut series = Vec::new();
        for (case, followed) in cases.iter().zip(followed) {
            findings.rows.extend(rows(case, followed));
            let points = followed
                .windows
                .iter()
                .map(|(requests, _, tally)| Point::of(*requests as f64, tally.right_percent()));
            series.push(Series::measured(case.learner.words(), points.collect()));
        }
        findings.add_panel(change.0, series);
    }
    Ok(findings)
}

fn rows(case: &Case, followed: &Followed) -> Vec<Row> {
    let what = |text: &str| {
        format!("{}, {}: {text} (simulated drive with noise)", case.change.0, case.learner.words())
    };
    let why = "Not published: the paper says that the map follows the drive, but not how soon.";
    let back = match followed.back() {
        Some((requests, seconds)) => {
            let (requests, text) =
                (Estimated::new(requests as f64, None), format!("{seconds:.1} s of drive time."));
            Row::unpublished(
                what("requests until predictions are correct again"),
                requests,
                "requests",
                &text,
            )
        }
        None => Row::not_run(
            what("requests until predictions are correct again"),
            crate::papers::report::Published::Nothing,
            "requests",
            &format!("Not within {} requests.", case.after),
        ),
    };
    let mut rows = vec![
        Row::unpublished(
            what("right within 5 % before the change"),
            followed.before.right_percent(),
            "% of pairs",
            why,
        ),
        Row::unpublished(
            what("right within 5 % in the first window behind it"),
            followed.at_first(),
            "% of pairs",
            why,
        ),
        Row::unpublished(
            what("right within 5 % in the last quarter"),
            followed.at_last(Tally::right_percent),
            "% of pairs",
            why,
        ),
        back,
    ];
    let exceeded = [
        ("worst exceeded before the change", followed.before.exceeded_percent()),
        (
            "worst exceeded in the first window behind it",
            followed
                .windows
                .first()
                .map_or(Estimated::new(0.0, None), |(.., tally)| tally.exceeded_percent()),
        ),
        ("worst exceeded in the last quarter", followed.at_last(Tally::exceeded_percent)),
    ];
    let why = "Deadlines are kept by the worst: what is not known is to be named as such, and not \
        as what it was.";
    rows.extend(
        exceeded.map(|(text, share)| Row::unpublished(what(text), share, "% of pairs", why)),
    );
    rows
}

const MOVED_ALONE: &str = "Where sectors are moved, to near the inner edge of the drive or on \
    within their zone, only reads of them are judged; the reads before the change are of the same.";
const MATRIX: &str = "The matrix answers pairs of fixed positions and keeps the worst: after a \
    change it is raised where times are longer and never lowered where they are shorter, so that \
    pairs that became quicker stay wrong. `LatencyMatrix::forget` makes cells unknown again; \
    nobody calls it by himself.";
const STEP: &str = "A speed that changes at once is what a spindle does that was stopped and \
    started; one that drifts is what it does as it warms up.";

#[cfg(test)]
mod tests {
    use super::*;

    fn followed(learner: Learner, change: usize) -> Followed {
        Case { learner, change: &CHANGES[change], before: 6_000, after: 3_000 }
            .run(4)
            .expect("it runs")
    }

    /// A model follows a change of the spindle's speed within some hundred reads.
    #[test]
    fn a_change_of_speed_is_followed_by_the_profile_and_by_the_compact_map() {
        for learner in [Learner::CompactFromProfile, Learner::Profile] {
            for change in [0, 1] {
                let followed = followed(learner, change);
                let (requests, _) = followed
                    .back()
                    .unwrap_or_else(|| panic!("{learner:?}, {}: never", CHANGES[change].0));
                assert!(
                    requests <= 1_024,
                    "{learner:?}, {}: after {requests} requests",
                    CHANGES[change].0
                );
            }
        }
    }

    /// Another unit's platter stands and turns otherwise and its slips lie elsewhere: some
    /// predictions are wrong at first, and soon they are right again.
    #[test]
    fn a_swapped_drive_costs_some_predictions_and_is_soon_known() {
        let followed = followed(Learner::CompactFromProfile, 3);
        let (first, before) = (followed.at_first().value, followed.before.right_percent().value);
        assert!(first < before - 1.0, "{first} % right behind the change, {before} before");
        let (requests, _) = followed.back().expect("it comes back");
        assert!(requests <= 1_024, "after {requests} requests");
    }

    /// Remapped sectors are found: a range of sectors soon, single sectors after some reads of
    /// each.
    #[test]
    fn moved_sectors_are_found_where_they_are_now() {
        for learner in [Learner::CompactFromProfile, Learner::Profile] {
            // The exact mechanics without the noise are right for some 95 %.
            for (change, least) in [(2, 90.0), (4, 82.0)] {
                let followed =
                    Case { learner, change: &CHANGES[change], before: 6_000, after: 20_000 }
                        .run(4)
                        .expect("it runs");
                let [first, last] =
                    [followed.at_first().value, followed.at_last(Tally::right_percent).value];
                println!(
                    "{learner:?}, {}: {first:.1} % right at first, {last:.1} % in the last quarter",
                    CHANGES[change].0
                );
                assert!(
                    last > least && last > first,
                    "{learner:?}, {}: {first} % right at first, {last} % at last",
                    CHANGES[change].0
                );
                let [before, exceeded] = [
                    followed.before.exceeded_percent().value,
                    followed.at_last(Tally::exceeded_percent).value,
                ];
                assert!(
                    exceeded < before + 2.0,
                    "{learner:?}, {}: the worst exceeded by {exceeded} %, before by {before} %",
                    CHANGES[change].0
                );
            }
        }
    }

    #[test]
    fn the_share_is_back_where_two_in_three_windows_are() {
        let tally = |right| Tally { away_from_edge: 100, right, ..Tally::default() };
        let windows = [20, 97, 30, 96, 99, 98, 90].map(tally);
        let windows = windows
            .iter()
            .zip(1..)
            .map(|(tally, number)| (number * WINDOW, number as f64, *tally))
            .collect();
        let followed = Followed { before: tally(98), windows };
        assert_eq!(
            followed.back(),
            Some((2 * WINDOW, 2.0)),
            "of the six from the second on four are good"
        );
    }
}
