//! [`Stretches`]: the impact of background reading as clients see it.
//!
//! Stretches with reads alternate with shorter ones without. The mean response of each stretch
//! without reads is compared with that of the two halves of stretches around it, so that a slow
//! drift cancels. The three are a *block*; no response counts in two blocks. The scatter of the
//! blocks gives the interval.
//!
//! A stretch without reads has [`MIN_STRETCH`] responses, more if many requests wait at once or if
//! they are fast. Stretches with reads are [`OFTEN`] times as long, and [`RARELY`] times as long
//! once the impact is known. The first responses of a stretch do not count: their requests were
//! queued or delayed in the stretch before. The lengths are numbers of responses, fixed when a
//! block begins. A length in time would end stretches of long responses earlier, and so count
//! fewer of them.
//!
//! *Difference.* Of each block: the mean of all its time, less that without reads, as a fraction of
//! the former. (In this order the noise of the denominator does not correlate with that of the
//! difference.) The weight of a block is its number of responses.
//!
//! *Correction.* The governor charges each delay that it sees. The difference of a block less these
//! charges is what it does not see, and grows with the number of reads: a line through the origin
//! is fitted to the blocks. Each read is charged its slope. Once the impact is known this is the
//! upper end of its interval; before, the lower end, if that is above zero. So a wide interval does
//! not stop a scan, and a certain excess slows it. If the charges are too high the slope is
//! negative, and reads are credited with the difference.
//!
//! Worked example, six clients that wait 30 ms between requests of 9 ms, of which the deviation is
//! 4.5 ms: after 30 minutes, 280,000 responses, the interval is ±0.5 %.
//!
//! Does *not* see: a delay that lasts longer than a stretch; requests that arrive after a pause of
//! the clients, during which a scan reads at full rate; reads before a write for a scan of a point
//! in time, which cannot be put off.

use headtime_units::{Instant, Nanos};

use crate::background::MeasuredImpact;

/// The minimum number of responses of a stretch without reads (guess: a few hundred blocks an hour
/// at ten requests per second).
const MIN_STRETCH: u64 = 64;

/// The minimum length of a stretch without reads (guess: many gaps of a fast drive).
const MIN_TIME_NS: f64 = 250e6;

/// Responses of a stretch without reads for each request held at once.
const PER_HELD: u64 = 8;

/// Responses that do not count at the start of a stretch, for each request held at once: those that
/// were queued, and those that waited for them.
const SETTLING: u64 = 2;

/// The length of a stretch with reads relative to one without, until the impact is known: a fifth
/// of the responses are without reads.
const OFTEN: u64 = 4;

/// As [`OFTEN`], once the impact is known.
const RARELY: u64 = 9;

/// The minimum number of blocks of an interval.
const MIN_BLOCKS: f64 = 20.0;

/// The number of blocks over which they are forgotten (guess: hours, longer than a wide interval
/// needs to shrink).
const MEMORY: f64 = 4_096.0;

/// The alternation of stretches, and the results so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stretches {
    block: Block,
    /// The time of a response in the last block.
    response_every_ns: f64,
    /// The difference of the mean response.
    difference: Line,
    /// The difference that was not charged, by reads per response.
    unseen: Line,
    measured: Option<MeasuredImpact>,
    correction_ns: f64,
}

/// The place within a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stretch {
    #[default]
    Before,
    Without,
    After,
}

/// The block in progress.
#[derive(Clone, Debug, Default)]
struct Block {
    began: Option<Instant>,
    stretch: Stretch,
    /// Responses of the stretch without reads, and of each of the others.
    lengths: (u64, u64),
    /// Responses until the stretch ends.
    left: u64,
    /// Responses that do not count yet.
    settling: u64,
    responses: u64,
    reads: u64,
    /// Charges before the block.
    charged_ns: i64,
    with: Sum,
    without: Sum,
}

/// A sum of responses.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    count: u64,
    ns: u64,
}

impl Sum {
    fn mean(self) -> f64 {
        self.ns as f64 / self.count as f64
    }
}

impl Stretches {
    /// Returns whether reads beside clients are allowed in this stretch.
    pub(crate) fn allows_reads(&self) -> bool {
        self.block.stretch != Stretch::Without
    }

    /// Begins from the start of a block: no scan has read for a while.
    pub(crate) fn restart(&mut self) {
        self.block = Block::default();
    }

    /// Clients were away, and the scan has read at full rate.
    pub(crate) fn away(&mut self, held: f64) {
        self.block.settling = self.block.settling.max(settling(held));
    }

    /// A background read was sent beside clients. Returns its correction, in nanoseconds of delay.
    pub(crate) fn read(&mut self) -> f64 {
        self.block.reads += 1;
        self.correction_ns
    }

    /// A request has finished. So many were held at once lately, and `charged_ns` were charged for
    /// delays in all.
    pub(crate) fn responded(
        &mut self,
        at: Instant,
        response: Nanos,
        held: f64,
        charged_ns: i64,
        max_impact: f64,
    ) {
        if self.block.began.is_none() {
            self.begin(at, held, charged_ns);
            self.block.settling = settling(held);
        }
        let block = &mut self.block;
        block.responses += 1;
        if block.settling > 0 {
            block.settling -= 1;
        } else {
            let without = block.stretch == Stretch::Without;
            let sum = if without { &mut block.without } else { &mut block.with };
            sum.count += 1;
            sum.ns += response.as_ns();
        }
        block.left -= 1;
        if block.left > 0 {
            return;
        }
        match block.stretch {
            Stretch::Before => (block.stretch, block.left) = (Stretch::Without, block.lengths.0),
            Stretch::Without => (block.stretch, block.left) = (Stretch::After, block.lengths.1),
            Stretch::After => {
                self.end(at, charged_ns, max_impact);
                return self.begin(at, held, charged_ns);
            }
        }
        block.settling = settling(held);
    }

    /// The impact; `None` if it is not known yet.
    pub(crate) fn measured(&self) -> Option<MeasuredImpact> {
        self.measured
    }

    fn begin(&mut self, at: Instant, held: f64, charged_ns: i64) {
        let fast = MIN_TIME_NS / self.response_every_ns.max(1e3);
        let fast = if self.response_every_ns > 0.0 { fast as u64 } else { 0 };
        let without = MIN_STRETCH.max(PER_HELD * held as u64).max(fast) + settling(held);
        let times = if self.measured.is_some() { RARELY } else { OFTEN };
        let lengths = (without, without * times / 2);
        self.block =
            Block { began: Some(at), lengths, left: lengths.1, charged_ns, ..Block::default() };
    }

    fn end(&mut self, at: Instant, charged_ns: i64, max_impact: f64) {
        let block = &self.block;
        let took = block.began.map_or(Nanos::ZERO, |began| at.saturating_since(began));
        self.response_every_ns = took.as_ns() as f64 / block.responses as f64;
        let (without, half) = block.lengths;
        let few = |sum: Sum, of: u64| sum.count < of / 2 || sum.ns == 0;
        if few(block.without, without) || few(block.with, 2 * half) {
            return;
        }
        let share = without as f64 / (without + 2 * half) as f64;
        let mean = block.with.mean() * (1.0 - share) + block.without.mean() * share;
        let weight = (block.with.count + block.without.count) as f64;
        let difference = 1.0 - block.without.mean() / mean;
        let responses = block.responses as f64;
        let charged = (charged_ns - block.charged_ns) as f64 / (responses * mean);
        self.difference.add(weight, 1.0, difference);
        self.unseen.add(weight, block.reads as f64 / responses, difference - charged);
        // As a fraction of the mean without reads.
        let growth = |difference: f64| difference / (1.0 - difference).max(0.01);
        self.measured = self.difference.interval().and_then(|(middle, half)| {
            let known = half <= max_impact / 2.0 || growth(middle - half) > max_impact;
            known.then(|| MeasuredImpact {
                mean: growth(middle),
                lower: growth(middle - half),
                upper: growth(middle + half),
            })
        });
        let by_read = self.unseen.interval().map_or(0.0, |(middle, half)| {
            if self.measured.is_some() { middle + half } else { (middle - half).max(0.0) }
        });
        self.correction_ns = by_read * mean;
    }
}

/// The number of responses that do not count at the start of a stretch.
fn settling(held: f64) -> u64 {
    SETTLING * (held as u64).max(1)
}

/// A line through the origin, fitted to weighted points. Old points are forgotten. Its error is
/// taken from the scatter of the points, whatever that depends on.
#[derive(Clone, Debug, Default)]
struct Line {
    xx: f64,
    xy: f64,
    /// Sums of the squares of weights with x²y², x³y and x⁴.
    scatter: [f64; 3],
}

impl Line {
    fn add(&mut self, weight: f64, x: f64, y: f64) {
        let kept = 1.0 - 1.0 / MEMORY;
        self.xx = self.xx * kept + weight * x * x;
        self.xy = self.xy * kept + weight * x * y;
        let new = [y * y, x * y, x * x].map(|of| of * (weight * x) * (weight * x));
        for (sum, new) in self.scatter.iter_mut().zip(new) {
            *sum = *sum * kept * kept + new;
        }
    }

    /// The slope, and half the width of its 95 % interval; `None` with too few points.
    fn interval(&self) -> Option<(f64, f64)> {
        let [yy, xy, xx] = self.scatter;
        let points = self.xx * self.xx / xx;
        if points.is_nan() || points < MIN_BLOCKS {
            return None;
        }
        let slope = self.xy / self.xx;
        let squares = (yy - 2.0 * slope * xy + slope * slope * xx).max(0.0);
        let error = libm::sqrt(squares * points / (points - 1.0)) / self.xx;
        // The quantile of Student's t distribution, to 0.01 from 19 degrees of freedom on.
        Some((slope, (1.96 + 2.37 / (points - 1.0)) * error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds responses of 2 to 14 ms, `growth` longer after each read, one read for each response.
    fn fed(seed: u64, responses: u32, growth: f64) -> Stretches {
        let mut stretches = Stretches::default();
        let (mut state, mut at) = (seed, Instant::ORIGIN);
        for _ in 0..responses {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            let drawn = (state >> 33) as f64 / (1_u64 << 31) as f64;
            let reads = stretches.allows_reads();
            if reads {
                stretches.read();
            }
            let grown = if reads { 1.0 + growth } else { 1.0 };
            let response = Nanos::from_ns(((2e6 + drawn * 12e6) * grown) as u64);
            at += Nanos::from_ms(10);
            stretches.responded(at, response, 3.0, 0, 0.02);
        }
        stretches
    }

    #[test]
    fn without_an_impact_the_interval_covers_zero_at_its_nominal_rate() {
        let covered = (1..=200)
            .filter(|seed| {
                let (middle, half) =
                    fed(*seed, 40_000, 0.0).difference.interval().expect("there are blocks");
                middle.abs() <= half
            })
            .count();
        assert!((181..=198).contains(&covered), "{covered} of 200");
    }

    #[test]
    fn an_impact_is_known_with_its_interval_and_each_read_is_charged_for_it() {
        let stretches = fed(7, 200_000, 0.05);
        // Eight to nine tenths of the responses are longer by 5 %.
        let impact = stretches.measured().expect("it is known");
        assert!((0.035..0.055).contains(&impact.mean), "{impact:?}");
        assert!(impact.lower < 0.045 && impact.upper > 0.04, "{impact:?}");
        let charge = stretches.correction_ns;
        assert!((0.9..1.3).contains(&(charge / (0.05 * 8e6))), "{charge} ns");
    }

    #[test]
    fn a_wide_interval_is_no_knowledge_and_charges_little() {
        let stretches = fed(3, 10_000, 0.0);
        assert_eq!(stretches.measured(), None);
        assert!(stretches.correction_ns < 0.01 * 8e6, "{}", stretches.correction_ns);
    }

    #[test]
    fn a_tenth_to_a_fifth_of_the_responses_is_without_reads() {
        for (responses, growth, most) in [(10_000, 0.0, 0.22), (400_000, 0.05, 0.15)] {
            let stretches = fed(5, responses, growth);
            let (without, half) = stretches.block.lengths;
            let share = without as f64 / (without + 2 * half) as f64;
            assert!((0.09..most).contains(&share), "{share}");
        }
    }
}
