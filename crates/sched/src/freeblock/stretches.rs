//! [`Stretches`]: the impact of background reading as clients see it.
//!
//! Stretches with reads alternate with shorter ones without. The mean response of each stretch
//! without reads is compared with that of the two halves of stretches around it, so that a slow
//! drift cancels. The three are a *block*; no response counts in two blocks. The scatter of the
//! blocks gives the interval.
//!
//! A stretch without reads has [`MIN_STRETCH`] responses, more if many requests wait at once or if
//! they are fast. Stretches with reads are [`OFTEN`] times as long, and [`RARELY`] times as long
//! once the impact is known. The lengths are numbers of responses, fixed when a block begins. A
//! length in time would end stretches of long responses earlier, and so count fewer of them.
//!
//! *Settling.* Reads act on after they end. Clients that waited for the same read return together,
//! and then wait for each other, until their think times and responses have separated them again.
//! So the first responses of a stretch without reads, [`SETTLING`] for each client, do not count as
//! without reads. (Two clients with 60 ms of think time beside reads that lengthened their mean
//! response of 5.46 ms by 35 %: without reads it was 5.7 ms for the first 16 responses, 5.51 for
//! the next 16, and 5.46 to 5.50 then. When 2 responses did not count, 31 % were reported.)
//!
//! *Growth.* Of a block: the time of all its responses, less that of as many without reads. The
//! growth is the sum of these over all blocks, by the sum of the times without reads. A mean of
//! ratios of each block would be biased by the noise of their denominators.
//!
//! *Correction.* The governor charges each delay that it sees. What a block took longer, less these
//! charges, is what it does not see. That depends on how often the arm leaves the clients, and
//! hardly on how much is read then. A *detour* is the first read between two responses. The sum of
//! what is not seen by the number of detours is charged to each of them. (With reads as the unit,
//! fewer of them cost more each: as one client's scan went from 40 reads per response to 3, from 1
//! to 80 µs. Charges followed too late, and a bound of 5 % became 7.) Once the impact is known,
//! the charge is the upper end of its interval; before, the lower end, if that is above zero. So a
//! wide interval does not stop a scan, and a certain excess slows it. If the governor's charges are
//! too high the correction is negative, and detours are credited with it.
//!
//! *Forgetting.* The cost of a read changes, as when a scan moves away from the addresses of the
//! clients. While half the interval is less than the bound by [`NARROW`], old blocks are forgotten
//! quickly. So the figures are of as short a past as the bound allows. (Two clients as above on the
//! first 50 GB of a drive, a bound of 10 %, reads as the unit of the correction: in 9,000 s the
//! mean response grew by 15 % if all blocks were kept, otherwise by 10 to 11 %.)
//!
//! Worked example, six clients that wait 30 ms between requests of 9 ms: after an hour, 560,000
//! responses in 360 blocks, the interval is ±0.5 %.
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

/// Responses of a stretch without reads for each request held at once (guess: so that a fifth of
/// them settle).
const PER_HELD: u64 = 32;

/// Responses for each request held at once that do not count at the start of a stretch without
/// reads (measured, see above).
const SETTLING: u64 = 8;

/// The length of a stretch with reads relative to one without, until the impact is known: a fifth
/// of the responses are without reads.
const OFTEN: u64 = 4;

/// As [`OFTEN`], once the impact is known.
const RARELY: u64 = 9;

/// The minimum number of blocks of an interval.
const MIN_BLOCKS: f64 = 20.0;

/// The number of blocks over which old ones are forgotten (guess: about a day).
const SLOWLY: f64 = 4_096.0;

/// As [`SLOWLY`], while the interval is narrow (guess: a few more than an interval needs).
const QUICKLY: f64 = 32.0;

/// The impact is known if half its interval is at most the bound by this.
const KNOWN: f64 = 2.0;

/// The interval is narrow if half of it is less than the bound by this.
const NARROW: f64 = 4.0;

/// The alternation of stretches, and the results so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stretches {
    block: Block,
    /// The time of a response in the last block.
    response_every_ns: f64,
    /// The time by which responses were longer, to their time without reads.
    growth: Ratio,
    /// As much of that as was not charged, in nanoseconds, to the number of detours.
    unseen: Ratio,
    measured: Option<MeasuredImpact>,
    correction_ns: f64,
    /// A read was sent since the last response.
    read_since: bool,
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
    /// Responses that do not count yet as without reads, and that do not count at all.
    settling: u64,
    skipped: u64,
    responses: u64,
    /// Reads that were the first since a response.
    detours: u64,
    /// Charges before the block.
    charged_ns: i64,
    /// All responses, and those of the stretch without reads that count.
    all: Sum,
    without: Sum,
}

/// A sum of responses.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    count: u64,
    ns: u64,
}

impl Sum {
    fn add(&mut self, response: Nanos) {
        self.count += 1;
        self.ns += response.as_ns();
    }

    fn mean(self) -> f64 {
        self.ns as f64 / self.count as f64
    }
}

impl Stretches {
    /// Returns whether reads beside clients are allowed in this stretch.
    pub(crate) fn allows_reads(&self) -> bool {
        self.block.stretch != Stretch::Without
    }

    /// Returns whether a read was sent since the last response.
    pub(crate) fn has_read(&self) -> bool {
        self.read_since
    }

    /// Begins from the start of a block: no scan has read for a while.
    pub(crate) fn restart(&mut self) {
        self.block = Block::default();
    }

    /// Clients were away, and the scan has read at full rate.
    pub(crate) fn away(&mut self, held: f64) {
        self.block.skipped = self.block.skipped.max(settling(held));
    }

    /// A background read was sent beside clients. Returns its correction, in nanoseconds of delay:
    /// 0 for all but the first between two responses.
    pub(crate) fn read(&mut self) -> f64 {
        if core::mem::replace(&mut self.read_since, true) {
            return 0.0;
        }
        self.block.detours += 1;
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
            self.block.skipped = settling(held);
        }
        self.read_since = false;
        let block = &mut self.block;
        block.responses += 1;
        let settled = block.stretch == Stretch::Without && block.settling == 0;
        block.settling = block.settling.saturating_sub(1);
        if block.skipped > 0 {
            block.skipped -= 1;
        } else {
            block.all.add(response);
            if settled {
                block.without.add(response);
            }
        }
        block.left -= 1;
        if block.left > 0 {
            return;
        }
        match block.stretch {
            Stretch::Before => {
                (block.stretch, block.left) = (Stretch::Without, block.lengths.0);
                block.settling = settling(held);
            }
            Stretch::Without => (block.stretch, block.left) = (Stretch::After, block.lengths.1),
            Stretch::After => {
                self.end(at, charged_ns, max_impact);
                self.begin(at, held, charged_ns);
            }
        }
    }

    /// The impact; `None` if it is not known yet.
    pub(crate) fn measured(&self) -> Option<MeasuredImpact> {
        self.measured
    }

    fn begin(&mut self, at: Instant, held: f64, charged_ns: i64) {
        let fast = MIN_TIME_NS / self.response_every_ns.max(1e3);
        let fast = if self.response_every_ns > 0.0 { fast as u64 } else { 0 };
        let without = MIN_STRETCH.max(PER_HELD * clients(held)).max(fast) + settling(held);
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
        if few(block.without, without) || few(block.all, without + 2 * half) {
            return;
        }
        let count = block.all.count as f64;
        let without = count * block.without.mean();
        let longer = block.all.ns as f64 - without;
        let memory = match self.growth.interval() {
            Some((_, half)) if half < max_impact / NARROW => QUICKLY,
            _ => SLOWLY,
        };
        self.growth.add(memory, without, longer);
        self.unseen.add(
            memory,
            block.detours as f64,
            longer - (charged_ns - block.charged_ns) as f64,
        );
        self.measured = self.growth.interval().and_then(|(mean, half)| {
            let known = half <= max_impact / KNOWN || mean - half > max_impact;
            known.then_some(MeasuredImpact { mean, lower: mean - half, upper: mean + half })
        });
        self.correction_ns = self.unseen.interval().map_or(0.0, |(middle, half)| {
            if self.measured.is_some() { middle + half } else { (middle - half).max(0.0) }
        });
    }
}

/// The number of responses that do not count at the start of a stretch without reads, and after
/// reads at full rate.
fn settling(held: f64) -> u64 {
    SETTLING * clients(held)
}

/// The number of clients, by the maximum number of requests held lately.
fn clients(held: f64) -> u64 {
    (libm::round(held) as u64).max(1)
}

/// The ratio of two sums over blocks. Old blocks are forgotten. Its error is taken from the scatter
/// of the blocks around it.
#[derive(Clone, Debug, Default)]
struct Ratio {
    blocks: f64,
    x: f64,
    y: f64,
    /// Sums of y², xy and x², with the squares of the weights of the others.
    scatter: [f64; 3],
}

impl Ratio {
    /// Adds a block, and forgets all others over so many.
    fn add(&mut self, memory: f64, x: f64, y: f64) {
        let kept = 1.0 - 1.0 / memory;
        self.blocks = self.blocks * kept + 1.0;
        self.x = self.x * kept + x;
        self.y = self.y * kept + y;
        for (sum, new) in self.scatter.iter_mut().zip([y * y, x * y, x * x]) {
            *sum = *sum * kept * kept + new;
        }
    }

    /// The ratio y / x, and half the width of its 95 % interval; `None` with too few blocks.
    fn interval(&self) -> Option<(f64, f64)> {
        if self.blocks < MIN_BLOCKS || self.x <= 0.0 {
            return None;
        }
        let ([yy, xy, xx], ratio) = (self.scatter, self.y / self.x);
        let squares = (yy - 2.0 * ratio * xy + ratio * ratio * xx).max(0.0);
        let freedom = self.blocks - 1.0;
        let error = libm::sqrt(squares * self.blocks / freedom) / self.x;
        // The quantile of Student's t distribution, to 0.01 from 19 degrees of freedom on.
        Some((ratio, (1.96 + 2.37 / freedom) * error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds responses of 2 to 14 ms of three clients, longer by `growth` with reads, one for each
    /// response; a change of that takes `lasting` responses. Returns the true growth, too.
    fn fed(seed: u64, responses: u32, growth: f64, lasting: f64) -> (Stretches, f64) {
        let mut stretches = Stretches::default();
        let (mut state, mut at) = (seed, Instant::ORIGIN);
        let (mut longer, mut sums) = (0.0, [0.0; 2]);
        for _ in 0..responses {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            let drawn = (state >> 33) as f64 / (1_u64 << 31) as f64;
            let reads = stretches.allows_reads();
            if reads {
                stretches.read();
            }
            longer += (if reads { growth } else { 0.0 } - longer) / lasting;
            let without = 2e6 + drawn * 12e6;
            let response = without * (1.0 + longer);
            sums = [sums[0] + without, sums[1] + response];
            at += Nanos::from_ms(10);
            stretches.responded(at, Nanos::from_ns(response as u64), 3.0, 0, 0.02);
        }
        (stretches, sums[1] / sums[0] - 1.0)
    }

    #[test]
    fn without_an_impact_the_interval_covers_zero_at_its_nominal_rate() {
        let covered = (1..=200)
            .filter(|seed| {
                let (middle, half) =
                    fed(*seed, 60_000, 0.0, 1.0).0.growth.interval().expect("there are blocks");
                middle.abs() <= half
            })
            .count();
        assert!((181..=198).contains(&covered), "{covered} of 200");
    }

    #[test]
    fn an_impact_is_known_with_its_interval_and_each_read_is_charged_for_it() {
        let (mut stretches, growth) = fed(7, 200_000, 0.05, 1.0);
        let impact = stretches.measured().expect("it is known");
        assert!((impact.lower..impact.upper).contains(&growth), "{growth} of {impact:?}");
        assert!((0.01..0.02).contains(&(impact.upper - impact.lower)), "{impact:?}");
        let charge = stretches.correction_ns;
        assert!((0.9..1.3).contains(&(charge / (0.05 * 8e6))), "{charge} ns");
        assert!(stretches.read() > 0.0 && stretches.read().abs() < 1.0, "one of them is a detour");
    }

    #[test]
    fn delays_that_outlast_the_reads_are_neither_lost_nor_taken_for_none() {
        let ratio = (1..=20).map(|seed| {
            let (stretches, growth) = fed(seed, 40_000, 0.4, 8.0);
            stretches.measured().expect("it is known").mean / growth
        });
        let mean = ratio.sum::<f64>() / 20.0;
        assert!((0.97..1.03).contains(&mean), "{mean} of the true growth");
    }

    #[test]
    fn a_wide_interval_is_no_knowledge_and_charges_little() {
        let (stretches, _) = fed(3, 10_000, 0.0, 1.0);
        assert_eq!(stretches.measured(), None);
        assert!(stretches.correction_ns < 0.01 * 8e6, "{}", stretches.correction_ns);
    }

    #[test]
    fn a_tenth_to_a_fifth_of_the_responses_is_without_reads() {
        for (responses, growth, most) in [(10_000, 0.0, 0.22), (400_000, 0.05, 0.15)] {
            let (stretches, _) = fed(5, responses, growth, 1.0);
            let (without, half) = stretches.block.lengths;
            let share = without as f64 / (without + 2 * half) as f64;
            assert!((0.09..most).contains(&share), "{share}");
        }
    }
}
