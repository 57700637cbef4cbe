//! The wall between what may be demanded of a characterization and what may not: drives with drawn
//! truth, what was found of each, and what falls short.
//!
//! What is demanded, of every case:
//! - the period within 1 ppm;
//! - every border between zones within two tracks, and no border where there is none;
//! - the step from track to track within two sectors on 98 of 100 tracks (of the layout, without a
//!   unit's own error of each track's angle);
//! - of a unit without noise: 97.5 % of random 4 KiB reads predicted within 50 us;
//! - of a unit with noise: as many as an oracle that knows the truth's *means* predicts of the
//!   same reads, less one percentage point: the layout with the unit's slips, its period and phase,
//!   the mean seek curve and skews, the mean of the jitter. It does not know by how much each
//!   single track's angle and each region's seeks are off, nor the jitter of each completion, nor
//!   outliers.
//!
//! Beside it stands, for comparison, an *exact* oracle that knows each track's angle and each
//! region's seeks too, which no amount of reads that fits the budget tells.

use headtime_mechanics::{
    Direction, DriveProfile, HeadPosition, InterfaceTimes, Layout, Mechanism, Nominal, Variation,
};
use headtime_probe::{CommandOutcome, Finding, Measurement, Probe, Stage, TimedCommand, Verdict};
use headtime_sim::{DriveTruth, InstanceVariation};
use headtime_units::{Extent, Instant, Lba, Nanos};

use super::{Bench, borders, load, settings};

/// One drive. Its name says how to make it again: `NAME:nominal:SEED` or `NAME:drawn:SEED` of the
/// catalog, which has drawn drives too; `random-N` is another name of its `drawn-N`.
pub(crate) struct Case {
    pub name: String,
    pub profile: DriveProfile,
    pub truth: DriveTruth,
    pub noisy: bool,
    pub seed: u64,
}

/// The result, compared with the truth.
pub(crate) struct Row {
    pub name: String,
    pub noisy: bool,
    pub verdict: String,
    pub ppm: f64,
    /// The worst border, tracks; infinite where the numbers of borders differ.
    pub border_tracks: f64,
    /// Share of tracks whose step to the next is within two sectors.
    pub steps_right: f64,
    pub reads: u64,
    pub within_50: f64,
    pub oracle_within_50: f64,
    pub means_within_50: f64,
    pub missed: f64,
    pub means_missed: f64,
    pub drive_time: Nanos,
    pub budget: Nanos,
}

/// Sectors by which a step from track to track may be off.
const STEP_SECTORS: f64 = 2.0;
/// A host that took longer than this from one read to the next did something in between: as the
/// self-check has it.
const PAUSE: Nanos = Nanos::from_us(500);

impl Case {
    /// The case of a name.
    pub(crate) fn parse(name: &str) -> Self {
        let words: Vec<&str> = name.split(':').collect();
        let [model, kind, seed] = words.as_slice() else {
            panic!("{name}: expected NAME:nominal:SEED or NAME:drawn:SEED")
        };
        let seed: u64 = seed.parse().unwrap_or_else(|_| panic!("{name}: {seed} is no seed"));
        let profile = load(&model.replace("random-", "drawn-"));
        let noisy = *kind == "drawn";
        let truth = if noisy {
            DriveTruth::draw(&profile, seed)
        } else {
            DriveTruth::nominal(&profile, seed)
        };
        Self {
            name: name.into(),
            truth: truth.unwrap_or_else(|error| panic!("{name}: {error}")),
            profile,
            noisy,
            seed,
        }
    }

    /// Characterizes it and looks at what was found.
    pub(crate) fn run(&self) -> Row {
        let settings = settings(&self.profile, self.seed);
        let (mut probe, mut bench) = (Probe::new(settings), Bench::new(self.truth.clone()));
        let mut checked: Vec<TimedCommand> = Vec::new();
        while let Some(batch) = probe.next_batch() {
            let single = matches!(probe.next_measurement(), Some(Measurement::Read { .. }))
                && probe.stage() == Stage::SelfCheck;
            let answers = bench.carry_out(batch, |_| CommandOutcome::Done);
            if single {
                checked.extend(&answers);
            }
            probe.batch_completed(answers);
        }
        let (oracle_within_50, (means_within_50, means_missed)) = self.oracles(&checked);
        let mut row = Row {
            name: self.name.clone(),
            noisy: self.noisy,
            verdict: String::new(),
            ppm: f64::INFINITY,
            border_tracks: f64::INFINITY,
            steps_right: 0.0,
            reads: 0,
            within_50: 0.0,
            oracle_within_50,
            means_within_50,
            missed: 1.0,
            means_missed,
            drive_time: Nanos::ZERO,
            budget: settings.budget,
        };
        self.compare(&probe.finding(), &mut row);
        row
    }

    fn compare(&self, finding: &Finding, row: &mut Row) {
        row.drive_time = finding.drive_time;
        row.verdict = match &finding.verdict {
            Verdict::Characterized { .. } => "characterized".into(),
            other => other.sentence(),
        };
        if let Some(check) = &finding.check {
            (row.reads, row.within_50, row.missed) =
                (check.reads, check.within_50_us, check.turn_missed);
        }
        let Some(found) = &finding.profile else { return };
        let period_ns =
            |profile: &DriveProfile| profile.rotation_period().expect("a drive turns").as_ns_f64();
        row.ppm = (period_ns(found) / self.truth.mechanism().period().as_ns_f64() - 1.0) * 1e6;
        row.border_tracks = worst_border(found, &self.profile);
        row.steps_right = steps_right(found, &self.truth);
    }

    /// Shares of the self-check's 4 KiB reads that are predicted within 50 us: by the unit's own
    /// mechanism, and by one without the deviations of single tracks and regions, of which also how
    /// many it is half a turn off.
    pub(crate) fn oracles(&self, checked: &[TimedCommand]) -> (f64, (f64, f64)) {
        let exact = self.mechanisms();
        let half_turn_ns = exact[0].period().as_ns_f64() / 2.0;
        let share = |errors: &[(Lba, f64)], is_counted: &dyn Fn(f64) -> bool| {
            let counted = errors.iter().filter(|(_, error_ns)| is_counted(error_ns.abs())).count();
            counted as f64 / errors.len().max(1) as f64
        };
        let exact = self.errors_of(exact, checked);
        let means = self.errors_of_means(checked);
        let within_ns = |error_ns: f64| error_ns <= 50e3;
        let missed = share(&means, &|error_ns| error_ns > half_turn_ns);
        (share(&exact, &within_ns), (share(&means, &within_ns), missed))
    }

    /// The errors, ns, of an oracle that knows the truth's means, with the first sectors of the
    /// reads.
    pub(crate) fn errors_of_means(&self, checked: &[TimedCommand]) -> Vec<(Lba, f64)> {
        let exact = self.mechanisms();
        let means = exact.iter().zip(0..).map(|(exact, arm)| {
            let own = self.truth.profile().of_actuator(arm);
            let layout = exact.layout().clone();
            let mut means = Mechanism::new(&own, layout, Nominal).expect("a valid profile");
            means.set_rotation(exact.period(), exact.phase());
            means
        });
        self.errors_of(means.collect(), checked)
    }

    fn mechanisms(&self) -> Vec<Mechanism<InstanceVariation>> {
        (0..self.truth.arms()).map(|arm| self.truth.mechanism_of(arm).clone()).collect()
    }

    fn errors_of<V: Variation>(
        &self,
        mut arms: Vec<Mechanism<V>>,
        checked: &[TimedCommand],
    ) -> Vec<(Lba, f64)> {
        let interface = InterfaceTimes::from_profile(&self.profile).expect("a valid profile");
        let jitter_ns = self.truth.noise().jitter_ns;
        let hit_us =
            self.profile.cache.map_or(0.0, |cache| cache.read_hit_us + 40.0) + jitter_ns * 8e-3;
        let is_hit = |answer: &TimedCommand| {
            self.profile.cache.is_some() && answer.response().as_us_f64() < hit_us
        };
        let sectors = u64::from(4_096 / self.profile.sector_bytes).max(1);
        let mut errors = Vec::new();
        for pair in checked.windows(2) {
            let [before, now] = pair else { continue };
            let both = before.extent.len.get() == sectors && now.extent.len.get() == sectors;
            if !both
                || is_hit(before)
                || is_hit(now)
                || now.issued.saturating_since(before.completed) > PAUSE
            {
                continue;
            }
            let arm_sectors = arms[0].layout().capacity().get();
            let place = |extent: Extent| {
                let start = extent.start.get();
                let own = Extent::new(Lba::new(start % arm_sectors), extent.len);
                ((start / arm_sectors) as usize, own)
            };
            let ((arm, before_extent), (other, now_extent)) =
                (place(before.extent), place(now.extent));
            if arm != other {
                continue;
            }
            let mechanism = &mut arms[arm];
            if let Some(drift) = self.truth.drift() {
                let (period, phase) = drift.steady_at(now.issued);
                mechanism.set_rotation(period, phase);
            }
            let from: HeadPosition = mechanism.layout().track_of(before_extent.last()).into();
            let depart =
                now.issued + interface.command_overhead(Direction::Read, Some(Direction::Read));
            let access =
                mechanism.access(from, depart, Direction::Read, now_extent, Instant::ORIGIN);
            let completion = interface.read_completed(
                access.first_sector,
                access.finish,
                now.extent.len,
                Instant::ORIGIN,
            );
            let error_ns = now.completed.signed_since(completion) as f64 - jitter_ns;
            errors.push((now.extent.start, error_ns));
        }
        errors
    }
}

impl Row {
    /// The requirements that are not met, as sentences.
    pub(crate) fn shortfalls(&self) -> Vec<String> {
        let mut short = Vec::new();
        if self.ppm.abs() > 1.0 {
            short.push(format!("the period is off by {:.2} ppm, expected 1 at most", self.ppm));
        }
        if self.border_tracks > 2.0 {
            short.push(format!(
                "a zone border is off by {:.1} tracks, expected 2 at most",
                self.border_tracks
            ));
        }
        if self.steps_right < 0.98 {
            short.push(format!(
                "{:.1} % of the steps from track to track are within {STEP_SECTORS} \
                sectors, expected 98",
                100.0 * self.steps_right
            ));
        }
        let needed = if self.noisy { self.means_within_50 - 0.01 } else { 0.975 };
        if self.within_50 < needed {
            short.push(format!(
                "{:.2} % of 4 KiB reads within 50 us, expected {:.2}",
                100.0 * self.within_50,
                100.0 * needed
            ));
        }
        if self.drive_time > self.budget + self.budget / 50 {
            short.push(format!(
                "{} of drive time, expected {} at most",
                self.drive_time, self.budget
            ));
        }
        short
    }

    /// All figures in a line.
    pub(crate) fn line(&self) -> String {
        format!(
            "{:<32} {:>7.3} ppm, borders {:>5.1} tracks, steps {:>6.2} %, within 50 us {:>6.2} % \
                of {:>4} (means {:>6.2} %, exact {:>6.2} %), turn missed {:>5.2} % (means {:>5.2} \
                %), {:>6.1} of {:.0} s: {}",
            self.name,
            self.ppm,
            self.border_tracks,
            100.0 * self.steps_right,
            100.0 * self.within_50,
            self.reads,
            100.0 * self.means_within_50,
            100.0 * self.oracle_within_50,
            100.0 * self.missed,
            100.0 * self.means_missed,
            self.drive_time.as_secs_f64(),
            self.budget.as_secs_f64(),
            self.verdict
        )
    }
}

/// Runs cases two at a time; their rows in order.
pub(crate) fn run_all(names: &[String]) -> Vec<Row> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let rows = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some(name) = names.get(number) else { break };
                    let row = Case::parse(name).run();
                    rows.lock().expect("nobody panics with it").push((number, row));
                }
            });
        }
    });
    let mut rows = rows.into_inner().expect("nobody panicked with it");
    rows.sort_by_key(|(number, _)| *number);
    rows.into_iter().map(|(_, row)| row).collect()
}

/// The furthest that a border of one is from the next of the other, in tracks, both ways.
fn worst_border(found: &DriveProfile, real: &DriveProfile) -> f64 {
    let (one, two) = (borders(found), borders(real));
    let nearest = |border: &(u64, u32), others: &[(u64, u32)]| {
        let off = others.iter().map(|other| other.0.abs_diff(border.0)).min().unwrap_or(u64::MAX);
        off as f64 / f64::from(border.1.max(1))
    };
    let both = one
        .iter()
        .map(|border| nearest(border, &two))
        .chain(two.iter().map(|border| nearest(border, &one)));
    both.fold(0.0, f64::max)
}

/// Share of sampled tracks from which the step to the next track is the same in both, to two
/// sectors.
fn steps_right(found: &DriveProfile, truth: &DriveTruth) -> f64 {
    let (one, two) = (Layout::new(found).expect("a valid profile"), truth.mechanism().layout());
    let step = |layout: &Layout, lba: Lba| {
        let track = layout.track_extent(layout.track_of(lba));
        if track.end() >= Lba::new(layout.capacity().get()) {
            return None;
        }
        Some(layout.spot(track.start).angle.until(layout.spot(track.end()).angle).as_turns())
    };
    let capacity = two.capacity().get().min(one.capacity().get());
    let (mut right, mut all) = (0, 0_u32);
    for number in 0..2_000_u128 {
        let lba =
            Lba::new(u64::try_from(u128::from(capacity - 1) * number / 1_999).expect("an address"));
        let (Some(seen), Some(real)) = (step(&one, lba), step(two, lba)) else { continue };
        let sectors = f64::from(two.sectors_per_track(two.track_of(lba)));
        let off = (seen - real + 0.5).rem_euclid(1.0) - 0.5;
        all += 1;
        right += u32::from((off * sectors).abs() <= STEP_SECTORS);
    }
    f64::from(right) / f64::from(all.max(1))
}
