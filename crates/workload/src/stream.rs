//! The state of one stream, which draws its requests.

use alloc::vec::Vec;

use headtime_units::{Extent, Instant, Nanos, SectorSize, Sectors};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::arrivals::{Arrivals, Gaps};
use crate::check::Check;
use crate::config::{Alignment, StreamConfig};
use crate::error::StreamFault;
use crate::mix::Thresholds;
use crate::order::Order;
use crate::place::{AddressPattern, Spots, Starts};
use crate::sizes::SectorSizes;
use crate::source::Operation;

/// A stream, its clients and its own random numbers, which do not depend on other streams.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    rng: ChaCha8Rng,
    arrivals: Arrivals,
    gaps: Option<Gaps>,
    operations: Thresholds,
    /// The shape of reads and, where writes have their own sizes, of writes.
    reads: Shape,
    writes: Option<Shape>,
    range: Extent,
    spots: Spots,
    order: Order,
    /// The gap after each request of a strided run, in sectors.
    gap: u64,
    /// The runs; empty where no request continues another. Separate runs of writes follow those of
    /// reads.
    runs: Vec<Run>,
    /// The number of runs of reads.
    positions: usize,
    /// The number of writes until the next flush, and between two flushes.
    flush_in: Option<(u64, u64)>,
}

/// The sizes and alignment of requests.
#[derive(Clone, Debug)]
struct Shape {
    sizes: SectorSizes,
    alignment: u64,
}

/// A sequential run.
#[derive(Clone, Copy, Debug)]
struct Run {
    next: u64,
    left: u64,
}

/// One request without client and time.
pub(crate) struct Draw {
    pub(crate) operation: Operation,
    pub(crate) extent: Extent,
    pub(crate) fua: bool,
}

impl Stream {
    /// Stream `number` of a workload for a drive of `capacity`.
    pub(crate) fn new(
        number: usize,
        config: &StreamConfig,
        sector: SectorSize,
        capacity: Sectors,
        seed: u64,
    ) -> Result<Self, StreamFault> {
        let check = Check { sector };
        config.arrivals.check(&check)?;
        config.mix.check(&check)?;
        config.order.check(&check)?;
        config.check_limits(&check)?;
        let range = config.range_on(capacity)?;
        let reads =
            Shape::new(SectorSizes::new(&config.sizes, &check)?, config.alignment, range, &check)?;
        let writes = match &config.write_sizes {
            None => None,
            Some(sizes) => {
                Some(Shape::new(SectorSizes::new(sizes, &check)?, config.alignment, range, &check)?)
            }
        };
        if config.order.passes_the_range() && config.place != AddressPattern::Uniform {
            return Err(check.value(
                "place",
                "given",
                "none for a stream that passes through its range",
                "leave out place, or choose runs",
            ));
        }
        let gap = match config.order {
            Order::Strided { gap_bytes } => check.sectors("gap of the stride", gap_bytes)?,
            _ => 0,
        };
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(number as u64);
        let spots = Spots::new(&config.place, range, &check, &mut rng)?;
        let positions = config
            .positions
            .map_or(config.arrivals.clients(), |positions| positions.min(config.arrivals.clients()))
            as usize;
        let runs = runs_at_the_start(config, &spots, range, reads.alignment, positions);
        let gaps = match config.arrivals {
            Arrivals::Closed { .. } => None,
            Arrivals::Paced { pace: kind, .. } | Arrivals::Open(kind) => Some(Gaps::new(kind)),
        };
        Ok(Self {
            rng,
            arrivals: config.arrivals,
            gaps,
            operations: Thresholds::new(&config.mix),
            reads,
            writes,
            range,
            spots,
            order: config.order,
            gap,
            runs,
            positions,
            flush_in: config.flush_every.map(|writes| (writes, writes)),
        })
    }

    /// The arrival process.
    pub(crate) fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    /// The time of the first request of each client of a closed loop that starts at `start`; empty
    /// for other loops.
    pub(crate) fn first_times(&mut self, start: Instant) -> Vec<Instant> {
        match self.arrivals {
            Arrivals::Closed { clients, think } => think.first_times(start, clients, &mut self.rng),
            Arrivals::Paced { .. } | Arrivals::Open(_) => Vec::new(),
        }
    }

    /// The next time between arrivals of an open or paced loop; `None` for a closed one.
    pub(crate) fn gap(&mut self) -> Option<Nanos> {
        self.gaps.as_mut().map(|gaps| gaps.next(&mut self.rng))
    }

    /// Draws the think time of a client of a closed loop; zero for other loops.
    pub(crate) fn think(&mut self) -> Nanos {
        match self.arrivals {
            Arrivals::Closed { think, .. } => think.draw(&mut self.rng),
            Arrivals::Paced { .. } | Arrivals::Open(_) => Nanos::ZERO,
        }
    }

    /// Draws the next request of the stream's client number `client`.
    pub(crate) fn draw(&mut self, client: u32) -> Draw {
        if let Some((0, every)) = self.flush_in {
            self.flush_in = Some((every, every));
            return Draw { operation: Operation::Flush, extent: Extent::default(), fua: false };
        }
        let (operation, fua) = self.operations.draw(&mut self.rng);
        if operation == Operation::Flush {
            return Draw { operation, extent: Extent::default(), fua };
        }
        if let Some((left, _)) = self.flush_in.as_mut().filter(|_| operation == Operation::Write) {
            *left -= 1;
        }
        let writes = operation != Operation::Read;
        let shape = self.writes.as_ref().filter(|_| writes).unwrap_or(&self.reads);
        let (len, alignment) = (shape.sizes.draw(&mut self.rng), shape.alignment);
        let start = if self.runs.is_empty() {
            self.anywhere(len, alignment, 0)
        } else {
            self.next_in_run(client, writes, len, alignment)
        };
        Draw { operation, extent: Extent::from_numbers(start, len), fua }
    }

    fn anywhere(&mut self, len: u64, alignment: u64, last: u64) -> u64 {
        let starts = Starts::of(self.range, alignment, len)
            .expect("checked for the largest size when the stream was made");
        self.spots.draw(&mut self.rng, starts, self.range, last)
    }

    fn next_in_run(&mut self, client: u32, writes: bool, len: u64, alignment: u64) -> u64 {
        let separate = writes && self.runs.len() > self.positions;
        let place = client as usize % self.positions + if separate { self.positions } else { 0 };
        let Run { next, left } = self.runs[place];
        let fits = next + len <= self.range.end().get();
        let (start, left) = match self.order {
            Order::Sequential | Order::Strided { .. } if fits => (next, left),
            Order::Sequential | Order::Strided { .. } => {
                (self.range.start.get().next_multiple_of(alignment), left)
            }
            _ if left > 0 && fits => (next, left - 1),
            _ => (self.anywhere(len, alignment, next), self.order.run_length(&mut self.rng) - 1),
        };
        self.runs[place] = Run { next: start + len + self.gap, left };
        start
    }
}

impl Shape {
    fn new(
        sizes: SectorSizes,
        alignment: Alignment,
        range: Extent,
        check: &Check,
    ) -> Result<Self, StreamFault> {
        let alignment = match alignment {
            Alignment::Size => sizes.grain(),
            Alignment::Bytes(bytes) => check.sectors("alignment", bytes)?,
            Alignment::Sector => 1,
        };
        if Starts::of(range, alignment, sizes.largest()).is_none() {
            return Err(StreamFault::RangeTooSmall {
                range,
                largest: Sectors::new(sizes.largest()),
                alignment: Sectors::new(alignment),
            });
        }
        Ok(Self { sizes, alignment })
    }
}

/// The starts of runs: all at the start of the range, or evenly spread where runs pass through the
/// range or stay near their position.
fn runs_at_the_start(
    config: &StreamConfig,
    spots: &Spots,
    range: Extent,
    alignment: u64,
    positions: usize,
) -> Vec<Run> {
    let spread = config.order.passes_the_range() || spots.remembers();
    if config.order == Order::Random && !spots.remembers() {
        return Vec::new();
    }
    let run = |position: u64| {
        let offset = if spread {
            (u128::from(range.len.get()) * u128::from(position) / positions as u128) as u64
        } else {
            0
        };
        let left = if config.order.passes_the_range() { u64::MAX } else { 0 };
        Run { next: (range.start.get() + offset).next_multiple_of(alignment), left }
    };
    let of_reads = (0..positions as u64).map(run);
    if config.separate_runs {
        of_reads.clone().chain(of_reads).collect()
    } else {
        of_reads.collect()
    }
}
