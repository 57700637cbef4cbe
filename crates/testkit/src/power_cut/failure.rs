//! What a power failure does to what is not settled: [`PowerFailure`].
//!
//! Every unsettled command meets a fate of its own: it is found whole, not found, or torn. How
//! likely each is, is drawn once for each cut, so that among many cuts there are such with one
//! command lost, one command kept, everything torn, and everything between. A sector shows the last
//! command that kept it.

use headtime_units::Extent;
use rand::{Rng, RngExt};

use super::cache::{Change, WriteCache};
use super::platter::Platter;

/// The effects of a power failure; the default is the harshest that leaves every sector readable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PowerFailure {
    /// The granularity at which a command may be torn.
    pub tear: Tear,
    /// The fate of the physical block under the head.
    pub casualty: Casualty,
}

/// The granularity at which an unsettled command may be torn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tear {
    /// Never: it is found complete or not at all. Milder than any drive, to find what depends on
    /// tearing.
    Never,
    /// Between physical blocks: any of them may be found.
    PhysicalBlocks,
    /// Between logical sectors: any of them may be found, in whatever order.
    Sectors,
}

/// The fate of a physical block that is being written when the power fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Casualty {
    /// Its sectors hold what they held before or what was being written.
    None,
    /// One block with something unsettled in it, at the most, cannot be read until it is written,
    /// its settled neighbor sectors included: the drive read the block, changed a sector in it and
    /// was writing it back.
    OneBlock,
}

impl Default for PowerFailure {
    fn default() -> Self {
        Self { tear: Tear::Sectors, casualty: Casualty::None }
    }
}

impl PowerFailure {
    /// Draws what is found when the power fails now.
    pub(super) fn strike(
        self,
        cache: &WriteCache,
        physical_sectors: u64,
        rng: &mut impl Rng,
    ) -> Platter {
        let mut platter = cache.settled.clone();
        let odds = Odds::draw(self.tear, rng);
        for change in cache.unsettled() {
            for run in odds.fate_of(change, self.tear, physical_sectors, rng) {
                change.put(run, &mut platter);
            }
        }
        if self.casualty == Casualty::OneBlock && rng.random_bool(CASUALTY_SHARE) {
            let exposed = exposed_blocks(cache, physical_sectors);
            if !exposed.is_empty() {
                platter.spoil(exposed[rng.random_range(0..exposed.len())]);
            }
        }
        platter
    }
}

/// The physical blocks with something unsettled in them, in order of address, each once.
pub(super) fn exposed_blocks(cache: &WriteCache, physical_sectors: u64) -> Vec<Extent> {
    let capacity = cache.settled.capacity().get();
    let mut blocks: Vec<u64> = cache
        .unsettled()
        .flat_map(|change| {
            let first = change.extent().start.get();
            change.runs(|_| true).into_iter().flat_map(move |run| {
                (first + run.start) / physical_sectors..(first + run.end).div_ceil(physical_sectors)
            })
        })
        .collect();
    blocks.sort_unstable();
    blocks.dedup();
    let extent = |block: u64| {
        let start = block * physical_sectors;
        Extent::from_numbers(start, physical_sectors.min(capacity - start))
    };
    blocks.into_iter().map(extent).collect()
}

/// The probabilities of the fates in one cut.
struct Odds {
    whole: f64,
    torn: f64,
}

impl Odds {
    fn draw(tear: Tear, rng: &mut impl Rng) -> Self {
        const WHOLE: [f64; 5] = [0.0, 0.1, 0.5, 0.9, 1.0];
        const TORN: [f64; 4] = [0.0, 0.1, 0.5, 1.0];
        let whole = WHOLE[rng.random_range(0..WHOLE.len())];
        Self {
            whole,
            torn: if tear == Tear::Never { 0.0 } else { TORN[rng.random_range(0..TORN.len())] },
        }
    }

    /// The runs of its sectors that are found.
    fn fate_of(
        &self,
        change: &Change,
        tear: Tear,
        physical_sectors: u64,
        rng: &mut impl Rng,
    ) -> Vec<std::ops::Range<u64>> {
        if !rng.random_bool(self.torn) {
            return if rng.random_bool(self.whole) { change.runs(|_| true) } else { Vec::new() };
        }
        // Units that are found or not as one: logical sectors, or the parts of the command in each
        // physical block.
        let unit = if tear == Tear::PhysicalBlocks { physical_sectors } else { 1 };
        let first = change.extent().start.get();
        let unit_of = |index: u64| (first + index) / unit - first / unit;
        let units = unit_of(change.extent().len.get() - 1) + 1;
        let at = rng.random_range(0..units);
        match rng.random_range(0..5) {
            0 => change.runs(|index| unit_of(index) < at),
            1 => change.runs(|index| unit_of(index) >= at),
            2 => change.runs(|index| unit_of(index) == at),
            3 => change.runs(|index| unit_of(index) != at),
            _ => {
                let found: Vec<bool> = (0..units).map(|_| rng.random_bool(0.5)).collect();
                change.runs(|index| found[unit_of(index) as usize])
            }
        }
    }
}

/// In which share of cuts the head is on a block at all: often enough to matter, seldom enough that
/// most cuts are not told by an error (guess).
const CASUALTY_SHARE: f64 = 0.5;
