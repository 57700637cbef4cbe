//! The times of a drive: the arm, the cache, noise, and a host that delays completions.

mod common;

use common::{Bench, characterize, settings};
use headtime_mechanics::{DriveProfile, Layout, SeekCurve, catalog};
use headtime_probe::{CommandOutcome, Finding, Probe, Stage};
use headtime_sim::DriveTruth;
use headtime_units::{Instant, Lba, Nanos};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng as _, SeedableRng as _};

#[test]
fn a_seek_curve_cut_short_by_time_is_near_the_real_one_over_the_whole_stroke() {
    let profile = catalog::load("deskstar34gxp@nocache").unwrap();
    let truth = DriveTruth::nominal(&profile, 1).unwrap();
    let real = truth.mechanism().seek_curve();
    let (mut probe, mut bench) = (Probe::new(settings(&profile, 1)), Bench::new(truth.clone()));
    while probe.stage() != Stage::Seek {
        assert!(bench.step(&mut probe), "the probe ended before it timed a seek");
    }
    // The deviations allowed after so many reads, as fractions.
    for (reads, short, long) in [(600, 0.6, 0.6), (400, 0.5, 0.2), (1_000, 0.2, 0.05)] {
        (0..reads).for_each(|_| assert!(bench.step(&mut probe)));
        let found = SeekCurve::from_profile(&probe.finding().profile.expect("a layout"));
        let off = |distance: u32| {
            let (found, real) = (found.time(distance), real.time(distance));
            (found.as_ns() as f64 / real.as_ns() as f64 - 1.0).abs()
        };
        let last = real.last_distance();
        for distance in 1..=last {
            let allowed = if distance < last / 4 { short } else { long };
            assert!(off(distance) < allowed, "{reads}: {distance} cylinders: {}", off(distance));
        }
    }
    assert_eq!(probe.stage(), Stage::Seek);
}

/// A host that sees completions late for seconds at a time: `delay` with a random part as large
/// again while it is busy.
struct BusyHost {
    bench: Bench,
    random: ChaCha8Rng,
    delay: Nanos,
    busy: bool,
    until: Instant,
}

impl BusyHost {
    fn new(truth: DriveTruth, delay: Nanos, random: ChaCha8Rng) -> Self {
        Self { bench: Bench::new(truth), random, delay, busy: true, until: Instant::ORIGIN }
    }

    /// A random number from 0 up to but not including 1.
    fn part(&mut self) -> f64 {
        f64::from(self.random.next_u32()) / f64::from(u32::MAX)
    }

    /// The time by which the host sees a completion late.
    fn lateness(&mut self, at: Instant) -> Nanos {
        if at >= self.until {
            self.busy = !self.busy;
            self.until = at + Nanos::from_ms(1_000 + (8_000.0 * self.part()) as u64);
        }
        let times = if self.busy { 0.5 + self.part() } else { 0.0 };
        Nanos::from_ns((times * self.delay.as_ns() as f64) as u64)
    }

    fn run(&mut self, probe: &mut Probe) -> Finding {
        while let Some(batch) = probe.next_batch() {
            let mut answers = self.bench.carry_out(batch, |_| CommandOutcome::Done);
            if let [answer] = answers.as_mut_slice() {
                answer.completed += self.lateness(answer.completed);
                self.bench.wait_until(answer.completed);
            }
            probe.batch_completed(answers);
        }
        probe.finding()
    }
}

/// The mean error of the angles of each zone of the truth beyond that of all, us.
fn zone_errors_us(found: &DriveProfile, truth: &DriveTruth) -> Vec<f64> {
    let (one, two) = (Layout::new(found).expect("a valid profile"), truth.mechanism().layout());
    let period_us = truth.mechanism().period().as_ns_f64() / 1e3;
    let zones = two.zones().map(|zone| {
        let (start, end) =
            (zone.extent.start.get(), zone.extent.end().get().min(two.capacity().get()));
        let off = (0..200).map(|number| {
            let lba = Lba::new(start + (end - 1 - start) * number / 199);
            one.spot(lba).angle.signed_turns_from(two.spot(lba).angle)
        });
        let off: Vec<f64> = off.collect();
        let around = off.iter().map(|turns| (turns - off[0] + 0.5).rem_euclid(1.0) - 0.5);
        off[0] + around.sum::<f64>() / off.len() as f64
    });
    let zones: Vec<f64> = zones.collect();
    let around: Vec<f64> = zones
        .iter()
        .map(|turns| ((turns - zones[0] + 0.5).rem_euclid(1.0) - 0.5) * period_us)
        .collect();
    let mean = around.iter().sum::<f64>() / around.len() as f64;
    around.into_iter().map(|us| us - mean).collect()
}

#[test]
fn a_host_that_is_late_for_seconds_moves_no_zone() {
    let profile = catalog::load("deskstar34gxp@nocache").unwrap();
    let truth = DriveTruth::draw(&profile, 1).unwrap();
    let mut host = BusyHost::new(truth.clone(), Nanos::from_us(60), ChaCha8Rng::seed_from_u64(1));
    let finding = host.run(&mut Probe::new(settings(&profile, 1)));
    let errors_us = zone_errors_us(finding.profile.as_ref().expect("a profile"), &truth);
    let squares: f64 = errors_us.iter().map(|us| us * us).sum();
    let rms_us = (squares / errors_us.len() as f64).sqrt();
    // 24 us and 45 us without the calibration by reads all over the drive.
    assert!(rms_us < 8.0, "{errors_us:.1?} us");
    assert!(errors_us.iter().all(|us| us.abs() < 15.0), "{errors_us:.1?} us");
}

#[test]
fn a_cache_with_one_segment_hides_nothing_with_and_without_read_ahead() {
    for read_ahead_sectors in [0, 300] {
        let mut profile = catalog::load("savvio10k2").unwrap();
        let cache = profile.cache.as_mut().expect("a drive with a cache");
        (cache.segments, cache.read_ahead_sectors) = (1, read_ahead_sectors);
        let truth = DriveTruth::nominal(&profile, 1).unwrap();
        let finding = characterize(&profile, truth, 1);
        let case = format!("{read_ahead_sectors}: {:?}", finding.remarks);
        let check = finding.check.expect("a check");
        assert!(check.reads >= 1_900 && check.within_50_us >= 0.975, "{case}: {check:?}");
        let found = finding.profile.and_then(|profile| profile.cache).expect("a cache");
        assert_eq!(found.segments, 1, "{case}");
        assert!(found.read_ahead_sectors.abs_diff(read_ahead_sectors) < 8, "{case}: {found:?}");
    }
}

#[test]
fn the_profile_states_its_noise_and_its_accuracy_by_zone_and_what_limits_it() {
    let profile = catalog::load("savvio10k2@nocache").unwrap();
    let truth = DriveTruth::draw(&profile, 3).unwrap();
    let finding = characterize(&profile, truth, 3);
    let found = finding.profile.expect("a profile");
    let (jitter_us, real_us) = (found.variation.jitter_us, profile.variation.jitter_us);
    assert!((jitter_us / real_us - 1.0).abs() < 0.3, "{jitter_us} us, really {real_us}");
    let accuracy = found.accuracy.as_ref().expect("a stated accuracy");
    let check = finding.check.expect("a check");
    assert_eq!((accuracy.reads, accuracy.within_50_us), (check.reads, check.within_50_us));
    assert_eq!(accuracy.zones.iter().map(|zone| zone.reads).sum::<u64>(), check.reads);
    assert!(
        accuracy.zones.len() > 10 && accuracy.broken_promises(jitter_us).is_empty(),
        "{accuracy:?}"
    );
    // The reasons explain all that is missing.
    let explained: f64 = finding.deviations.iter().map(|deviation| deviation.share).sum();
    assert!((explained - (1.0 - check.within_50_us)).abs() < 1e-9, "{:?}", finding.deviations);
    let text = found.to_toml();
    assert_eq!(DriveProfile::from_toml(&found.name, &text).unwrap(), found, "{text}");
    // This bus keeps up with the media, so that only a bound of its rate is seen.
    let bus = finding.figures.iter().find(|figure| figure.name == "bus (MB/s)").expect("a bound");
    assert!(bus.is_lower_bound && bus.value < profile.interface.bus_mb_per_s, "{bus:?}");
}
