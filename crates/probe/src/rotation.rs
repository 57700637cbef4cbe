//! Detection of rotation, and its period.
//!
//! A few sectors, the *ring*, are read in a cycle, now and then with a read elsewhere in between.
//! Every read of a sector that comes from the media completes a whole number of revolutions after
//! the one before. If reads come from the cache instead, the ring is made longer, until the cache
//! has evicted a sector before it is read again. The distances between completions of a sector then
//! are multiples of one period. The score of a period `T` is the mean of `cos(2π · distance / T)`:
//! 1 if all are multiples, and near 0 for any other `T`. Of the periods that score as well as the
//! best (T, T/2, T/3 …) the longest is taken. Ever longer distances refine it, each used once the
//! period is known well enough to count its revolutions.
//!
//! A drive without a period, or whose responses differ by less than half of it, does not rotate.
//!
//! Worked example, Atlas 10K with ten segments of cache: rings of 1 and 6 always take 0.28 ms; a
//! ring of 24 takes 4 to 12 ms, and the distances, 150 ms to 1.2 s, are multiples of 5.985 ms.

use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::numbers::{median, part, quantile, spread, wrap};
use crate::results::Progress;
use crate::session::{Attempt, Interruption, QUIET_TURNS, ReferenceSector, Session};

/// The lengths of the ring, one after the other.
const RINGS: [u64; 5] = [1, 6, 24, 96, 384];
/// The number of cycles of each ring.
const ROUNDS: [usize; 5] = [32, 12, 8, 7, 6];
/// The range of periods, ns: 25,000 to 2,000 rpm.
const PERIODS_NS: (f64, f64) = (2.4e6, 30e6);
/// The largest fraction of a period that is told apart from it.
const MAX_PARTS: u32 = 8;
/// The number of readings of reference sectors before the clock is used if times are noisy, and of
/// random reads between two: about four seconds. A line through readings that scatter by 30 us then
/// predicts half a second to 5 us.
const WARM_UP_READINGS: u64 = 50;
const WARM_UP_RANDOM_READS: u64 = 6;
/// The fewest undisturbed reads of one sector in a row that show whether there is a cache.
const MIN_REPEATED: usize = 6;
/// The number of reads that evict a sector until segments can be counted (guess).
const MANY_SEGMENTS: u64 = 64;
/// The lowest score of a rotating drive (guess: with 50 us of noise a revolution of 4 ms scores
/// 0.997).
const MIN_SCORE: f64 = 0.8;

/// The result of looking for rotation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RotationResult {
    /// The number of rings tried so far.
    rings_tried: usize,
    /// True if the drive rotates; none if not known yet.
    pub(crate) rotates: Option<bool>,
    /// The reason why it does not.
    pub(crate) evidence: String,
}

impl RotationResult {
    pub(crate) fn rotates(&self) -> bool {
        self.rotates == Some(true)
    }
}

/// Tries one ring: finds the period and starts the clock, or measures the response of a hit.
pub(crate) fn measure(session: &mut Session, found: &mut RotationResult) -> Attempt<Progress> {
    if session.drive.capacity == 0 {
        return Err(Interruption::Failed("the drive has no sectors".into()));
    }
    let number = found.rings_tried;
    let ring = RINGS[number].min((session.drive.capacity / 4).max(1));
    let spaced = session.drive.capacity / ring;
    let places: Vec<u64> = (0..ring)
        .map(|number| number * spaced + session.random.below(spaced.min(1 << 20)))
        .collect();
    let mut seen: Vec<Vec<f64>> = vec![Vec::new(); places.len()];
    let (mut responses, mut repeated, mut hits) = (Vec::new(), Vec::new(), 0);
    for round in 0..ROUNDS[number] {
        for (place, seen) in places.iter().zip(&mut seen) {
            let is_repeated = session.random.below(3) != 0;
            if !is_repeated {
                session.read_random(1)?;
            }
            // Commands of others between two reads of one sector would hide a cache.
            let command = if ring == 1 {
                session.read_followed(*place, 1)?
            } else {
                session.read_at_once(*place, 1)?
            };
            if command.succeeded() && round > 0 {
                // A ring that is hardly too long for the cache still has some hits.
                if session.may_be_hit(&command) {
                    hits += 1;
                } else {
                    seen.push(command.completed.as_ns() as f64);
                }
                responses.push(command.response().as_ns() as f64);
                if is_repeated && ring == 1 && command.others == 0 {
                    repeated.push(command.response().as_ns() as f64);
                }
            }
        }
    }
    if ring == 1 && session.drive.is_shared() && repeated.len() < MIN_REPEATED {
        return Err(Interruption::Failed(
            "commands of clients came between nearly all reads of one sector".into(),
        ));
    }
    let (score, period_ns) = best_period(&seen);
    let span = quantile(&responses, 0.95) - quantile(&responses, 0.05);
    // A cache with one segment holds a sector only until another is read.
    let are_hits =
        |responses: &[f64]| !responses.is_empty() && quantile(responses, 0.8) < PERIODS_NS.0 / 2.0;
    if score >= MIN_SCORE
        && !are_hits(&repeated)
        && (ring == 1 || span > period_ns / 2.0)
        && median(&responses) > period_ns / 3.0
    {
        let (period_ns, noise_ns) = refine(&seen, period_ns);
        let at = seen.iter().flatten().copied().fold(0.0, f64::max);
        session.drive.references = anchors(&places, &seen, period_ns, at);
        // Between two reads of a sector there were the ring and, a third of the time, one more
        // read. Twice as many if those did not always evict it.
        let between = (ring + ring / 3) * if hits > 0 { 2 } else { 1 };
        // Beside clients, their commands evicted, too.
        let between = if session.drive.is_shared() { between.max(MANY_SEGMENTS) } else { between };
        session.drive.hits.eviction_reads =
            if session.drive.hits.hit_ns.is_some() { between } else { 0 };
        session.drive.clock =
            Clock::new(period_ns, noise_ns, headtime_units::Instant::from_ns(at as u64));
        found.rotates = Some(true);
        warm_up_clock(session)?;
        return Ok(Progress::Done);
    }
    // Nearly all responses are alike and short: the response of a hit.
    for hits in [responses, repeated] {
        if are_hits(&hits) {
            let hit_ns = median(&hits);
            session.drive.hits.hit_ns = Some(hit_ns);
            session.drive.hits.limit_ns = hit_ns + 40_000.0 + 9.0 * spread(&hits);
        }
    }
    found.rings_tried += 1;
    if found.rings_tried < RINGS.len() {
        return Ok(Progress::More);
    }
    found.rotates = Some(false);
    found.evidence = format!(
        "repeated reads of one sector are no whole revolutions apart: the best period between \
            {} and \
            {} ms scores {score:.2} of 1, expected {MIN_SCORE} or more; \
         nine tenths of the responses lie within {:.3} ms",
        PERIODS_NS.0 / 1e6,
        PERIODS_NS.1 / 1e6,
        span / 1e6
    );
    Ok(Progress::Done)
}

/// Reads reference sectors over some seconds if times are noisy. A line through a fraction of a
/// second would predict the next one worse than a reading, and everything read meanwhile would
/// share that error.
fn warm_up_clock(session: &mut Session) -> Attempt<()> {
    if session.drive.noise_turns() < QUIET_TURNS {
        return Ok(());
    }
    for _ in 0..WARM_UP_READINGS {
        session.read_random(WARM_UP_RANDOM_READS)?;
        session.read_clock()?;
    }
    Ok(())
}

/// The sectors of the ring and their angles, by the medians of their completions; relative to the
/// time `at`.
fn anchors(places: &[u64], seen: &[Vec<f64>], period_ns: f64, at: f64) -> Vec<ReferenceSector> {
    let angles = seen.iter().map(|seen| {
        let first = seen.first().copied().unwrap_or(at);
        let around: Vec<f64> = seen.iter().map(|time| wrap((time - first) / period_ns)).collect();
        part((first - at) / period_ns + median(&around))
    });
    places
        .iter()
        .zip(angles)
        .zip(seen)
        .filter(|(_, seen)| seen.len() >= 2)
        .map(|((lba, turns), _)| ReferenceSector { lba: *lba, turns })
        .collect()
}

/// Reads reference sectors until one comes from the media and sets the phase; the period stays.
pub(crate) fn read_phase(session: &mut Session) -> Attempt<()> {
    for _ in 0..10 {
        session.evict()?;
        let Some(anchor) = session.next_reference() else { break };
        let command = session.read_at_once(anchor.lba, 1)?;
        if command.succeeded() && !session.may_be_hit(&command) {
            let ahead_ns = anchor.turns * session.drive.clock.period_ns();
            session.drive.clock.reset_phase(command.completed.as_ns() as f64 - ahead_ns);
            return Ok(());
        }
    }
    Err(Interruption::Failed(
        "no reference sector of the clock could be read from the media".into(),
    ))
}

/// The distances in time between readings of each sector.
fn spacings(seen: &[Vec<f64>], apart: usize) -> Vec<f64> {
    seen.iter()
        .flat_map(|readings| readings.iter().zip(readings.iter().skip(apart)).map(|(a, b)| b - a))
        .collect()
}

/// The longest period that scores as well as any, and its score.
fn best_period(seen: &[Vec<f64>]) -> (f64, f64) {
    let spacings = spacings(seen, 1);
    // A few hundred of the shortest are enough.
    let mut shortest = spacings;
    shortest.sort_by(f64::total_cmp);
    shortest.truncate(200);
    let Some(longest) = shortest.last().copied() else { return (0.0, 0.0) };
    let score = |frequency: f64| {
        let sum: f64 = shortest
            .iter()
            .map(|spacing| libm::cos(core::f64::consts::TAU * spacing * frequency))
            .sum();
        sum / shortest.len() as f64
    };
    // The peak is as wide as one revolution more or less over the longest distance.
    let step = (0.08 / longest).min(1e-10);
    let count = ((1.0 / PERIODS_NS.0 - 1.0 / PERIODS_NS.1) / step) as usize;
    let frequencies = (0..=count).map(|number| 1.0 / PERIODS_NS.1 + number as f64 * step);
    let scored: Vec<(f64, f64)> =
        frequencies.map(|frequency| (score(frequency), frequency)).collect();
    let Some(highest) = scored.iter().map(|scored| scored.0).max_by(f64::total_cmp) else {
        return (0.0, 0.0);
    };
    // Distances of about `n` revolutions each, as of a long ring, are nearly multiples of a period
    // longer by an n-th too, and the true one may have fallen between two steps.
    let near =
        scored.iter().filter(|scored| scored.0 >= 0.9 * highest).flat_map(|(_, frequency)| {
            (-8..=8).map(move |part| frequency + f64::from(part) * step / 16.0)
        });
    let Some(top) = near
        .map(|frequency| (score(frequency), frequency))
        .max_by(|one, two| one.0.total_cmp(&two.0))
    else {
        return (0.0, 0.0);
    };
    // The same distances are multiples of a fraction of the period too: the longest period is
    // taken.
    let mut best = top;
    for parts in 2..=MAX_PARTS {
        let around = top.1 / f64::from(parts);
        if around < 1.0 / PERIODS_NS.1 {
            break;
        }
        let near = (-3..=3)
            .map(|number| around + f64::from(number) * step / f64::from(parts))
            .map(|frequency| (score(frequency), frequency));
        if let Some(found) =
            near.max_by(|one, two| one.0.total_cmp(&two.0)).filter(|found| found.0 >= 0.97 * top.0)
        {
            best = found;
        }
    }
    (best.0, 1.0 / best.1)
}

/// The period by ever longer distances, and the noise of one reading.
fn refine(seen: &[Vec<f64>], period_ns: f64) -> (f64, f64) {
    let mut period = period_ns;
    let rounds = seen.iter().map(Vec::len).max().unwrap_or(0);
    let mut apart = 1;
    while apart < rounds {
        let spacings = spacings(seen, apart);
        let off: Vec<f64> =
            spacings.iter().map(|spacing| wrap(spacing / period) * period).collect();
        let allowed = (6.0 * spread(&off)).max(20_000.0);
        let middle = median(&off);
        let (mut product, mut lever) = (0.0, 0.0);
        for (spacing, _) in
            spacings.iter().zip(&off).filter(|(_, off)| (*off - middle).abs() <= allowed)
        {
            let turns = libm::round(spacing / period);
            product += turns * spacing;
            lever += turns * turns;
        }
        if lever > 0.0 {
            period = product / lever;
        }
        apart = if apart * 2 < rounds || apart + 1 == rounds { apart * 2 } else { rounds - 1 };
    }
    // There is only one of the longest distances for each sector; of a single sector it would show
    // no noise.
    let off: Vec<f64> =
        spacings(seen, 1).iter().map(|spacing| wrap(spacing / period) * period).collect();
    (period, spread(&off) / core::f64::consts::SQRT_2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{Bench, plain};
    use crate::random::Random;
    use headtime_sim::DriveTruth;

    /// The completions of sectors read about every `gap` revolutions.
    fn completions(period: f64, sectors: usize, gap: u64, noise: f64, seed: u64) -> Vec<Vec<f64>> {
        let mut draw = Random::new(seed, 0);
        let of_one = |draw: &mut Random| {
            let mut turn = 0.0;
            let reading = |draw: &mut Random| {
                turn += 1.0 + draw.below(gap) as f64;
                5e8 + turn * period + draw.part() * noise
            };
            let mut reading = reading;
            (0..8).map(|_| reading(draw)).collect()
        };
        (0..sectors).map(|_| of_one(&mut draw)).collect()
    }

    #[test]
    fn the_period_is_found_from_short_and_long_spacings_and_no_multiple_of_it() {
        for (seed, period, sectors, gap) in [
            (1, 5_985_037.0, 1, 3),
            (2, 8_333_333.0, 24, 40),
            (3, 3_995_345.0, 96, 300),
            (4, 11_111_111.0, 6, 10),
        ] {
            let seen = completions(period, sectors, gap, 40_000.0, seed);
            let (score, coarse) = best_period(&seen);
            assert!(
                score > 0.9 && (coarse / period - 1.0).abs() < 0.02,
                "{period}: {coarse}, score {score}"
            );
            let (fine, _) = refine(&seen, coarse);
            assert!((fine / period - 1.0).abs() < 5e-4, "{period}: {fine}");
        }
    }

    #[test]
    fn the_noise_of_a_reading_is_seen_in_one_sector_too() {
        for (sectors, seed) in [(1, 1), (1, 2), (6, 3), (24, 4)] {
            let seen = completions(6e6, sectors, 3, 80_000.0, seed);
            // Uniform over 80 us, a standard deviation of 23; seven distances of one sector give a
            // rough estimate.
            let (_, noise) = refine(&seen, 6e6);
            assert!((8_000.0..50_000.0).contains(&noise), "{sectors} sectors: {noise} ns");
        }
    }

    #[test]
    fn where_times_are_noisy_the_clock_predicts_the_next_second_before_it_is_gone_by() {
        for seed in 1..=3 {
            let profile = headtime_mechanics::DriveProfile { cache: None, ..plain("cheetah10k7") };
            let truth = DriveTruth::draw(&profile, seed).expect("a drive");
            let real_ns = truth.mechanism().period().as_ns_f64();
            let mut bench = Bench::new(truth);
            bench.drive = crate::session::DriveTiming {
                capacity: bench.drive.capacity,
                ..Default::default()
            };
            let progress =
                bench.run(seed, |session, results| measure(session, &mut results.rotation));
            assert!(progress == Progress::Done && bench.results.rotation.rotates(), "seed {seed}");
            let ppm = (bench.drive.clock.period_ns() / real_ns - 1.0) * 1e6;
            // An error in ppm is one in microseconds per second; one reading scatters by about
            // twenty.
            assert!(ppm.abs() < 15.0, "seed {seed}: {ppm} ppm");
        }
    }

    #[test]
    fn a_ring_that_the_cache_sometimes_holds_gives_the_period_too() {
        let mut off = Vec::new();
        // One segment holds a ring of one sector; hits are at times less than half of its reads.
        let one = (1..=60).map(|seed| (1, seed));
        for (segments, seed) in
            (4..=9).flat_map(|segments| (1..=4).map(move |seed| (segments, seed))).chain(one)
        {
            let mut profile = plain("cheetah10k7");
            if let Some(cache) = &mut profile.cache {
                cache.segments = segments;
            }
            let truth = DriveTruth::nominal(&profile, seed).expect("a drive");
            let real_ns = truth.mechanism().period().as_ns_f64();
            let mut bench = Bench::new(truth);
            let capacity = bench.drive.capacity;
            bench.drive = crate::session::DriveTiming { capacity, ..Default::default() };
            while bench.run(seed, |session, results| measure(session, &mut results.rotation))
                == Progress::More
            {}
            let ppm = (bench.drive.clock.period_ns() / real_ns - 1.0) * 1e6;
            if ppm.abs() > 15.0 || bench.drive.hits.eviction_reads < u64::from(segments) {
                off.push(format!(
                    "{segments} segments, seed {seed}: {ppm} ppm, {} reads to evict",
                    bench.drive.hits.eviction_reads
                ));
            }
        }
        assert!(off.is_empty(), "{}", off.join("\n"));
    }

    #[test]
    fn similar_distances_do_not_suggest_a_slightly_longer_period() {
        // As of a ring that takes some 98 revolutions: a period longer by one part in 98 scores
        // 0.97 and more.
        for seed in 1..=20 {
            let mut draw = Random::new(seed, 0);
            let period = 8_333_333.0 + 1_000.0 * seed as f64;
            let mut turn = 0.0;
            let seen: Vec<f64> = (0..40)
                .map(|_| {
                    turn += 96.0 + draw.below(5) as f64;
                    5e8 + turn * period
                })
                .collect();
            let (score, found) = best_period(&[seen]);
            assert!(
                score > 0.99 && (found / period - 1.0).abs() < 2e-3,
                "{period}: {found}, score {score}"
            );
        }
    }

    #[test]
    fn answers_at_any_time_have_no_period() {
        let mut draw = Random::new(9, 0);
        let mut at = 0.0;
        let mut next = || {
            at += 1e5 + draw.part() * 3e7;
            at
        };
        let seen: Vec<Vec<f64>> = vec![(0..200).map(|_| next()).collect()];
        assert!(best_period(&seen).0 < 0.5, "{:?}", best_period(&seen));
    }
}
