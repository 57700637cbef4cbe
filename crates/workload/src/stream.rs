//! One stream at work: what its next request is, and how long until it comes.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;

use headtime_units::{Extent, Instant, Lba, Nanos, SectorSize, Sectors};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::config::{Alignment, Arrivals, Interarrival, Mix, Order, Sizes, StreamConfig, ThinkTime};
use crate::dice;
use crate::error::WorkloadError;
use crate::source::Operation;

/// A stream, its clients and its own random numbers: what one stream draws does not depend on the others.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    rng: ChaCha8Rng,
    arrivals: Arrivals,
    operations: Thresholds,
    sizes: SectorSizes,
    range: Extent,
    alignment: u64,
    order: Order,
    deadline: Option<Nanos>,
    /// Where each client's run goes on; empty where every request is anywhere.
    runs: Vec<Run>,
}

/// A client's sequential run.
#[derive(Clone, Copy, Debug)]
struct Run {
    next: u64,
    left: u64,
}

/// What one request asks, without who and when.
pub(crate) struct Draw {
    pub(crate) operation: Operation,
    pub(crate) extent: Extent,
    pub(crate) fua: bool,
}

/// Shares of operations, added up.
#[derive(Clone, Copy, Debug)]
struct Thresholds {
    reads: f64,
    zeroes: f64,
    discards: f64,
    flushes: f64,
    fua: f64,
}

#[derive(Clone, Copy, Debug)]
enum SectorSizes {
    Fixed(u64),
    Exponential { scale: f64, multiple: u64, most: u64 },
}

impl Stream {
    /// Stream `number` of a workload for a drive of `capacity`.
    pub(crate) fn new(number: usize, config: &StreamConfig, sector: SectorSize, capacity: Sectors, seed: u64) -> Result<Self, WorkloadError> {
        let check = Check { number, sector };
        check.arrivals(&config.arrivals)?;
        check.mix(&config.mix)?;
        check.order(&config.order)?;
        if config.deadline.is_some_and(Nanos::is_zero) {
            return Err(check.value("deadline", "0", "more than no time", "leave it out for requests without a deadline"));
        }
        let sizes = check.sizes(&config.sizes)?;
        let range = config.range.unwrap_or(Extent::new(Lba::new(0), capacity));
        if range.len.is_zero() || range.checked_end().is_none_or(|end| end.get() > capacity.get()) {
            return Err(WorkloadError::Range { stream: number, range, capacity });
        }
        let alignment = match config.alignment {
            Alignment::Size => sizes.grain(),
            Alignment::Bytes(bytes) => check.sectors("alignment", bytes)?,
            Alignment::Sector => 1,
        };
        if places(range, alignment, sizes.largest()).is_none() {
            let (largest, alignment) = (Sectors::new(sizes.largest()), Sectors::new(alignment));
            return Err(WorkloadError::RangeTooSmall { stream: number, range, largest, alignment });
        }
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(number as u64);
        let clients = clients_of(&config.arrivals);
        let first = range.start.get().next_multiple_of(alignment);
        let runs = match config.order {
            Order::Random => Vec::new(),
            Order::Runs { .. } | Order::FixedRuns { .. } => vec![Run { next: first, left: 0 }; clients as usize],
            Order::Sequential => (0..u64::from(clients))
                .map(|client| {
                    let offset = (u128::from(range.len.get()) * u128::from(client) / u128::from(clients)) as u64;
                    Run { next: (range.start.get() + offset).next_multiple_of(alignment), left: u64::MAX }
                })
                .collect(),
        };
        let operations = Thresholds::new(&config.mix);
        Ok(Self { rng, arrivals: config.arrivals, operations, sizes, range, alignment, order: config.order, deadline: config.deadline, runs })
    }

    /// Clients of the stream; an open loop counts as one.
    pub(crate) fn clients(&self) -> u32 {
        clients_of(&self.arrivals)
    }

    /// When each client of a closed loop first asks.
    pub(crate) fn first_times(&mut self) -> Vec<Instant> {
        let Arrivals::Closed { clients, think } = self.arrivals else { return Vec::new() };
        (0..u64::from(clients))
            .map(|client| match think {
                ThinkTime::None => Instant::ORIGIN,
                ThinkTime::Constant(span) => Instant::from_ns((u128::from(span.as_ns()) * u128::from(client) / u128::from(clients)) as u64),
                ThinkTime::Exponential(mean) => Instant::ORIGIN + dice::exponential_span(&mut self.rng, mean.as_ns() as f64),
            })
            .collect()
    }

    /// The time from one arrival of an open loop to the next; `None` for a closed loop.
    pub(crate) fn interarrival(&mut self) -> Option<Nanos> {
        match self.arrivals {
            Arrivals::Closed { .. } => None,
            Arrivals::Open(Interarrival::Constant(span)) => Some(span),
            Arrivals::Open(Interarrival::Poisson { per_second }) => Some(dice::exponential_span(&mut self.rng, 1e9 / per_second)),
        }
    }

    /// How long a client of a closed loop thinks now; `None` for an open loop.
    pub(crate) fn think(&mut self) -> Option<Nanos> {
        match self.arrivals {
            Arrivals::Open(_) => None,
            Arrivals::Closed { think: ThinkTime::None, .. } => Some(Nanos::ZERO),
            Arrivals::Closed { think: ThinkTime::Constant(span), .. } => Some(span),
            Arrivals::Closed { think: ThinkTime::Exponential(mean), .. } => Some(dice::exponential_span(&mut self.rng, mean.as_ns() as f64)),
        }
    }

    /// The absolute deadline of a request that arrives at `at`.
    pub(crate) fn deadline(&self, at: Instant) -> Option<Instant> {
        self.deadline.map(|span| at + span)
    }

    /// What the stream's client number `client` asks next.
    pub(crate) fn draw(&mut self, client: u32) -> Draw {
        let (operation, fua) = self.operations.draw(&mut self.rng);
        if operation == Operation::Flush {
            return Draw { operation, extent: Extent::default(), fua };
        }
        let len = self.sizes.draw(&mut self.rng);
        let start = if self.runs.is_empty() { self.anywhere(len) } else { self.next_in_run(client, len) };
        Draw { operation, extent: Extent::from_numbers(start, len), fua }
    }

    fn anywhere(&mut self, len: u64) -> u64 {
        let (first, count) = places(self.range, self.alignment, len).expect("checked for the largest size when the stream was made");
        first + dice::below(&mut self.rng, count) * self.alignment
    }

    fn next_in_run(&mut self, client: u32, len: u64) -> u64 {
        let Run { next, left } = self.runs[client as usize];
        let fits = next + len <= self.range.end().get();
        let (start, left) = match self.order {
            Order::Sequential if fits => (next, left),
            Order::Sequential => (self.range.start.get().next_multiple_of(self.alignment), left),
            _ if left > 0 && fits => (next, left - 1),
            _ => (self.anywhere(len), self.run_length() - 1),
        };
        self.runs[client as usize] = Run { next: start + len, left };
        start
    }

    fn run_length(&mut self) -> u64 {
        match self.order {
            Order::Random | Order::Sequential => 1,
            Order::FixedRuns { requests } => requests,
            // The number of trials up to the first success, by the inverse of its distribution.
            Order::Runs { mean_requests } if mean_requests > 1.0 => {
                let scale = -1.0 / libm::log1p(-1.0 / mean_requests);
                (libm::ceil(dice::exponential(&mut self.rng, scale)) as u64).max(1)
            }
            Order::Runs { .. } => 1,
        }
    }
}

impl Thresholds {
    fn new(mix: &Mix) -> Self {
        let zeroes = mix.reads + mix.zeroes;
        let discards = zeroes + mix.discards;
        Self { reads: mix.reads, zeroes, discards, flushes: discards + mix.flushes, fua: mix.fua }
    }

    fn draw(&self, rng: &mut impl Rng) -> (Operation, bool) {
        // All of one kind draws nothing, so that such a stream costs no random numbers.
        if self.reads >= 1.0 {
            return (Operation::Read, false);
        }
        let point = dice::above_zero(rng);
        let operation = match point {
            _ if point <= self.reads => Operation::Read,
            _ if point <= self.zeroes => Operation::Zero,
            _ if point <= self.discards => Operation::Discard,
            _ if point <= self.flushes => Operation::Flush,
            _ => Operation::Write,
        };
        (operation, operation == Operation::Write && self.fua > 0.0 && dice::above_zero(rng) <= self.fua)
    }
}

impl SectorSizes {
    fn largest(&self) -> u64 {
        match *self {
            Self::Fixed(sectors) => sectors,
            Self::Exponential { most, .. } => most,
        }
    }

    fn grain(&self) -> u64 {
        match *self {
            Self::Fixed(sectors) => sectors,
            Self::Exponential { multiple, .. } => multiple,
        }
    }

    fn draw(&self, rng: &mut impl Rng) -> u64 {
        match *self {
            Self::Fixed(sectors) => sectors,
            Self::Exponential { scale, multiple, most } => {
                let multiples = (libm::ceil(dice::exponential(rng, scale)) as u64).max(1);
                multiples.saturating_mul(multiple).min(most)
            }
        }
    }
}

/// The first aligned start in `range` for `len` sectors, and how many such starts there are.
fn places(range: Extent, alignment: u64, len: u64) -> Option<(u64, u64)> {
    let first = range.start.get().checked_next_multiple_of(alignment)?;
    let room = range.end().get().checked_sub(len)?.checked_sub(first)?;
    Some((first, room / alignment + 1))
}

fn clients_of(arrivals: &Arrivals) -> u32 {
    match arrivals {
        Arrivals::Closed { clients, .. } => *clients,
        Arrivals::Open(_) => 1,
    }
}

/// The checks of one stream's settings.
struct Check {
    number: usize,
    sector: SectorSize,
}

/// Longest request accepted; real drives take no more in one command than some tens of MiB.
const MOST_BYTES: u64 = 1 << 30;
/// Longest think or interarrival time accepted: a day.
const LONGEST: Nanos = Nanos::from_secs(86_400);

impl Check {
    fn value(&self, key: &'static str, value: impl ToString, expected: impl Into<String>, remedy: &'static str) -> WorkloadError {
        WorkloadError::Value { stream: self.number, key, value: value.to_string(), expected: expected.into(), remedy }
    }

    fn arrivals(&self, arrivals: &Arrivals) -> Result<(), WorkloadError> {
        let span = |key, span: Nanos| {
            let bounded = !span.is_zero() && span <= LONGEST;
            if bounded { Ok(()) } else { Err(self.value(key, span, "more than no time and at most a day", "for no think time choose none")) }
        };
        match *arrivals {
            Arrivals::Closed { clients: 0, .. } => Err(self.value("clients", 0, "at least 1", "a closed loop without clients asks for nothing")),
            Arrivals::Closed { think: ThinkTime::Constant(time) | ThinkTime::Exponential(time), .. } => span("think time", time),
            Arrivals::Closed { .. } => Ok(()),
            Arrivals::Open(Interarrival::Constant(time)) => span("interarrival time", time),
            Arrivals::Open(Interarrival::Poisson { per_second }) if (1e-6..=1e9).contains(&per_second) => Ok(()),
            Arrivals::Open(Interarrival::Poisson { per_second }) => {
                Err(self.value("arrival rate", per_second, "0.000001 to 1000000000 requests per second", "correct it"))
            }
        }
    }

    fn mix(&self, mix: &Mix) -> Result<(), WorkloadError> {
        let shares = [("reads", mix.reads), ("zeroes", mix.zeroes), ("discards", mix.discards), ("flushes", mix.flushes), ("fua", mix.fua)];
        if let Some((key, share)) = shares.into_iter().find(|(_, share)| !(0.0..=1.0).contains(share)) {
            return Err(self.value(key, share, "a share from 0 to 1", "write a half as 0.5"));
        }
        let sum = mix.reads + mix.zeroes + mix.discards + mix.flushes;
        // Shares such as 0.7 + 0.2 + 0.1 add up to one but for the last bits.
        if sum > 1.0 + 1e-9 {
            return Err(self.value("reads + zeroes + discards + flushes", sum, "at most 1", "what is left over are writes"));
        }
        Ok(())
    }

    fn order(&self, order: &Order) -> Result<(), WorkloadError> {
        match *order {
            Order::Runs { mean_requests } if !(1.0..=1e12).contains(&mean_requests) => {
                Err(self.value("mean run length", mean_requests, "1 to 10^12 requests", "a mean of 1 is random"))
            }
            Order::FixedRuns { requests: 0 } => Err(self.value("run length", 0, "at least 1 request", "a run of 1 is random")),
            _ => Ok(()),
        }
    }

    fn sizes(&self, sizes: &Sizes) -> Result<SectorSizes, WorkloadError> {
        match *sizes {
            Sizes::Fixed { bytes } => Ok(SectorSizes::Fixed(self.sectors("size", bytes)?)),
            Sizes::Exponential { mean_bytes, multiple_bytes, most_bytes } => {
                let (multiple, most) = (self.sectors("size multiple", multiple_bytes)?, self.sectors("largest size", most_bytes)?);
                if mean_bytes <= multiple_bytes {
                    let expected = format!("more than the multiple, {multiple_bytes} bytes");
                    return Err(self.value("mean size", mean_bytes, expected, "lower the multiple, or choose a fixed size"));
                }
                if most % multiple != 0 || most_bytes < mean_bytes {
                    let expected = format!("a multiple of {multiple_bytes} bytes, no less than the mean of {mean_bytes}");
                    return Err(self.value("largest size", most_bytes, expected, "sixteen times the mean cuts off next to nothing"));
                }
                // Rounded up, an exponential of this scale has exactly the mean that was asked for (in multiples).
                let scale = -1.0 / libm::log1p(-(multiple_bytes as f64) / mean_bytes as f64);
                Ok(SectorSizes::Exponential { scale, multiple, most })
            }
        }
    }

    fn sectors(&self, key: &'static str, bytes: u64) -> Result<u64, WorkloadError> {
        let sectors = self.sector.sectors_of(bytes).filter(|sectors| !sectors.is_zero() && bytes <= MOST_BYTES);
        sectors.map(Sectors::get).ok_or_else(|| {
            let expected = format!("a multiple of the drive's sector of {} bytes, at most 1 GiB", self.sector.bytes());
            self.value(key, format!("{bytes} bytes"), expected, "4096 bytes suit every drive with sectors of up to 4 KiB")
        })
    }
}
