//! [`DriveTruth`]: the true properties of one simulated drive. No scheduling code may name it.
//!
//! A profile describes a drive *model* and the spread between drives of that model. A truth is one
//! instance, drawn by seed: spindle speed, phase at the origin of the clock, true track angles,
//! true seek times, additional defective sectors, and the noise of completions. Two truths of one
//! profile and seed are the same on every machine; nothing is stored by track.
//!
//! A drive with two arms has two mechanisms on one spindle, each with its own track angles, seek
//! residuals and slips.
//!
//! The truth, the noise and a workload of one seed draw from different streams of random numbers
//! ([`random_stream`]): workloads use the low ones.
//!
//! - Modelled: the parts of the profile's `[variation]`.
//! - Not modelled: wear; temperature except as a slow sine of spindle and arm.
//! - Differs from a drive: all parts are drawn independently.

mod defects;
mod drift;
mod hash;
mod instance;
mod noise;
mod own;

use std::collections::BTreeSet;
use std::f64::consts::TAU;
use std::sync::Arc;

use headtime_mechanics::{DriveProfile, Layout, Mechanism, ProfileError, ZoneSlip};
use headtime_units::{Angle, Instant, Lba, Nanos, RotationPeriod};
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use defects::{GrownDefects, RandomTimes};
pub use drift::SpindleDrift;
pub use instance::InstanceVariation;
pub use noise::{Noise, NoiseSource};

/// One instance of a drive model.
#[derive(Clone, Debug)]
pub struct DriveTruth {
    profile: DriveProfile,
    /// One mechanism for each arm.
    mechanisms: Vec<Mechanism<InstanceVariation>>,
    drift: Option<SpindleDrift>,
    defects: Option<GrownDefects>,
    recalibrations: Option<RandomTimes>,
    noise: Noise,
    seed: u64,
}

impl DriveTruth {
    /// An instance with every part of the profile's `[variation]` drawn.
    ///
    /// # Errors
    /// Any error in the profile.
    pub fn draw(profile: &DriveProfile, seed: u64) -> Result<Self, ProfileError> {
        profile.validate()?;
        let mut rng = random_stream(seed, TRUTH);
        let phase = Angle::from_raw(rng.next_u32());
        let error_ppm = hash::normal(rng.next_u64()) * profile.variation.spindle_ppm;
        let period = slower_by_ppm(profile.rotation_period()?, error_ppm);
        let profile = &own::with_errors(profile, rng.next_u64());
        let mut mechanisms = Vec::new();
        for arm in 0..arms(profile) {
            let own = &profile.of_actuator(arm);
            let slips = draw_slips(own, &mut rng);
            let layout = Arc::new(Layout::with_slips(own, &slips)?);
            let mut mechanism =
                Mechanism::new(own, layout, InstanceVariation::draw(own, rng.next_u64())?)?;
            mechanism.set_rotation(period, phase);
            mechanisms.push(mechanism);
        }
        let variation = &profile.variation;
        let drift = SpindleDrift::new(
            period,
            phase,
            variation.spindle_drift_ppm,
            variation.spindle_drift_period_s,
            rng.next_u64(),
        );
        let sectors = mechanisms.iter().map(|mechanism| mechanism.layout().capacity().get()).sum();
        let defects = GrownDefects::new(variation.grown_defects_per_hour, sectors, rng.next_u64());
        let recalibrations = RandomTimes::new(variation.recalibrations_per_hour, rng.next_u64());
        let ms = |ms| Nanos::from_ms_f64(ms).unwrap_or(Nanos::ZERO);
        let noise = Noise {
            jitter_ns: variation.jitter_us * 1e3,
            outlier_share: variation.outlier_share,
            outlier: ms(variation.outlier_ms),
            retry_share: variation.retry_share,
            arm_jitter_ns: variation.arm_jitter_us * 1e3,
            arm_drift: if variation.spindle_drift_period_s > 0.0 {
                let omega = TAU / (variation.spindle_drift_period_s * 1e9);
                (variation.arm_drift_us * 1e3, omega, rng.random_range(0.0..TAU))
            } else {
                (0.0, 0.0, 0.0)
            },
            idle_work_after: ms(variation.idle_work_after_ms),
            idle_work_share: variation.idle_work_share,
            recalibration: ms(variation.recalibration_ms),
            stall_share: variation.stall_share,
            stall_ns: variation.stall_ms * 1e6,
        };
        let profile = profile.clone();
        Ok(Self { profile, mechanisms, drift, defects, recalibrations, noise, seed })
    }

    /// An instance that matches the profile exactly, without noise; only the phase is drawn.
    ///
    /// # Errors
    /// Any error in the profile.
    pub fn nominal(profile: &DriveProfile, seed: u64) -> Result<Self, ProfileError> {
        let phase = Angle::from_raw(random_stream(seed, TRUTH).next_u32());
        let mut mechanisms = Vec::new();
        for arm in 0..arms(profile) {
            let own = &profile.of_actuator(arm);
            let layout = Arc::new(Layout::new(own)?);
            let mut mechanism = Mechanism::new(own, layout, InstanceVariation::none(own, seed))?;
            mechanism.set_rotation(profile.rotation_period()?, phase);
            mechanisms.push(mechanism);
        }
        Ok(Self {
            profile: profile.clone(),
            mechanisms,
            drift: None,
            defects: None,
            recalibrations: None,
            noise: Noise::default(),
            seed,
        })
    }

    /// The drive model.
    #[must_use]
    pub fn profile(&self) -> &DriveProfile {
        &self.profile
    }

    /// The mechanism; for several arms, that of the first.
    #[must_use]
    pub fn mechanism(&self) -> &Mechanism<InstanceVariation> {
        &self.mechanisms[0]
    }

    /// The mechanism of one arm, counted from 0.
    ///
    /// # Panics
    /// If the drive has no such arm.
    #[must_use]
    pub fn mechanism_of(&self, arm: usize) -> &Mechanism<InstanceVariation> {
        &self.mechanisms[arm]
    }

    /// The number of independent arms.
    #[must_use]
    pub fn arms(&self) -> usize {
        self.mechanisms.len()
    }

    /// The spindle drift, if any.
    #[must_use]
    pub fn drift(&self) -> Option<SpindleDrift> {
        self.drift
    }

    /// Remaps the sectors that became defective by `now`; returns whether there were any.
    pub(crate) fn grow_defects(&mut self, now: Instant) -> bool {
        let mut changed = false;
        while let Some(lba) = self.defects.as_mut().and_then(|defects| defects.take_due(now)) {
            let of_one_arm = self.mechanism().layout().capacity().get();
            changed |=
                self.remap((lba.get() / of_one_arm) as usize, Lba::new(lba.get() % of_one_arm));
        }
        changed
    }

    fn remap(&mut self, arm: usize, lba: Lba) -> bool {
        let mechanism = &self.mechanisms[arm];
        let mut layout = Layout::clone(mechanism.layout());
        if layout.remap(lba).is_none() {
            return false;
        }
        let variation = mechanism.variation().clone();
        // Defects are rare, so rebuilding the layout for each costs little.
        let mut changed =
            Mechanism::new(&self.profile.of_actuator(arm), Arc::new(layout), variation)
                .expect("the profile made a mechanism before");
        changed.set_rotation(mechanism.period(), mechanism.phase());
        self.mechanisms[arm] = changed;
        true
    }

    /// The time that recalibrations due by `now` take.
    pub(crate) fn recalibrate(&mut self, now: Instant) -> Nanos {
        let due = self.recalibrations.as_mut().is_some_and(|times| times.take_due(now));
        if due { self.noise.recalibration } else { Nanos::ZERO }
    }

    /// The noise with its random numbers, from their beginning.
    #[must_use]
    pub fn noise_source(&self) -> NoiseSource {
        NoiseSource::new(self.noise, random_stream(self.seed, NOISE))
    }

    /// Sets the arm's spindle to its state at `at`.
    pub(crate) fn set_spindle_at(&mut self, arm: usize, at: Instant) {
        if let Some(drift) = &self.drift {
            let (period, phase) = drift.steady_at(at);
            self.mechanisms[arm].set_rotation(period, phase);
        }
    }

    /// The noise of the instance.
    #[must_use]
    pub fn noise(&self) -> Noise {
        self.noise
    }

    /// The seed of the instance.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }
}

/// A stream of random numbers that no workload of the same seed draws from: a workload's stream
/// number is that of one of its request streams.
fn random_stream(seed: u64, number: u64) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(number);
    rng
}

/// The streams of random numbers of the truth and of the noise.
const TRUTH: u64 = 1 << 63;
const NOISE: u64 = TRUTH + 1;

/// An exponentially distributed time.
fn exponential(rng: &mut ChaCha8Rng, mean_ns: f64) -> Nanos {
    // 53 bits, never 0.
    let even = ((rng.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
    Nanos::from_ns((-libm::log(even) * mean_ns) as u64)
}

fn arms(profile: &DriveProfile) -> usize {
    usize::from(profile.actuators())
}

fn slower_by_ppm(nominal: RotationPeriod, ppm: f64) -> RotationPeriod {
    let femtos = libm::round(nominal.as_fs() as f64 * (1.0 + ppm * 1e-6)) as u64;
    RotationPeriod::from_fs(femtos.clamp(RotationPeriod::SHORTEST_FS, RotationPeriod::LONGEST_FS))
        .unwrap_or(nominal)
}

/// Draws additional defective sectors for each zone at the profile's rate, rounded to a whole
/// number at random, as far as the zone's spares hold them.
fn draw_slips(profile: &DriveProfile, rng: &mut ChaCha8Rng) -> Vec<ZoneSlip> {
    let mut slips = Vec::new();
    for (number, zone) in profile.zones.iter().enumerate() {
        let sectors = zone.physical_sectors(profile.geometry.heads);
        let expected = sectors as f64 * profile.variation.slips_per_million / 1e6;
        let by_lot = (rng.next_u32() as f64) < (expected - libm::floor(expected)) * 4_294_967_296.0;
        let room = zone.spares.saturating_sub(zone.slips.len() as u64);
        let count = (libm::floor(expected) as u64 + u64::from(by_lot)).min(room);
        // A sector drawn twice, or defective in the profile, makes one slip less.
        let drawn: BTreeSet<u64> = (0..count).map(|_| rng.random_range(0..sectors)).collect();
        slips.extend(drawn.into_iter().map(|sector| ZoneSlip { zone: number, sector }));
    }
    slips
}

#[cfg(test)]
mod tests {
    use super::*;
    use headtime_mechanics::catalog;

    #[test]
    fn truth_noise_and_workloads_of_one_seed_draw_different_numbers() {
        let first = |stream| random_stream(7, stream).next_u64();
        let drawn: BTreeSet<u64> = (0..64).chain([TRUTH, NOISE]).map(first).collect();
        assert_eq!(drawn.len(), 66);
    }

    #[test]
    fn sectors_that_go_bad_while_the_drive_runs_move_and_the_others_stay() {
        let mut profile = catalog::load("atlas10k").unwrap();
        profile.variation.grown_defects_per_hour = 4.0;
        let mut truth = DriveTruth::draw(&profile, 2).unwrap();
        let before = truth.clone();
        assert!(!truth.grow_defects(Instant::ORIGIN));
        assert!(truth.grow_defects(Instant::ORIGIN + Nanos::from_secs(3_600 * 24)));
        let (old, new) = (before.mechanism().layout(), truth.mechanism().layout());
        let moved = (0..old.capacity().get()).filter(|lba| {
            old.lba_to_physical(Lba::new(*lba)) != new.lba_to_physical(Lba::new(*lba))
        });
        let moved = moved.count();
        assert!((70..125).contains(&moved), "{moved} sectors moved in a day of four an hour");
        assert_eq!(truth.mechanism().phase(), before.mechanism().phase());
    }
}
