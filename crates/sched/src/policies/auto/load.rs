//! The features of a load, and how they are observed: [`LoadFeatures`] and [`LoadMeter`].

use alloc::collections::{BTreeMap, VecDeque};
use core::fmt;

use headtime_units::{Instant, Lba, Nanos};

use crate::request::{Request, StreamId, VolumeId};

/// The features by which a load is compared with those of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LoadFeatures {
    /// Mean length of a request, in sectors.
    pub size_sectors: f64,
    /// Share of requests that begin where one of the last 64 requests of their volume ended.
    pub sequential: f64,
    /// Share of requests that their process waits for.
    pub synchronous: f64,
    /// Share of reads.
    pub reads: f64,
    /// Mean number of requests held: queued, waiting, and at the drive.
    pub concurrency: f64,
    /// Share of requests with a deadline.
    pub deadlines: f64,
    /// Effective number of streams: of equally busy ones their number.
    pub streams: f64,
}

impl LoadFeatures {
    /// The names of the features in tables, in their order.
    pub const NAMES: [&'static str; 7] = [
        "size_sectors",
        "sequential",
        "synchronous",
        "reads",
        "concurrency",
        "deadlines",
        "streams",
    ];

    /// The features in the order of [`LoadFeatures::NAMES`].
    #[must_use]
    pub const fn values(&self) -> [f64; 7] {
        let Self { size_sectors, sequential, synchronous, reads, concurrency, deadlines, streams } =
            *self;
        [size_sectors, sequential, synchronous, reads, concurrency, deadlines, streams]
    }

    /// The features from their values, in the order of [`LoadFeatures::NAMES`].
    #[must_use]
    pub const fn from_values(values: [f64; 7]) -> Self {
        let [size_sectors, sequential, synchronous, reads, concurrency, deadlines, streams] =
            values;
        Self { size_sectors, sequential, synchronous, reads, concurrency, deadlines, streams }
    }

    /// The squared distance of two loads: 1 is a factor of 16 in size, of 4 in concurrency, of 8 in
    /// streams, half of the requests sequential or with a deadline, or two thirds of them reads
    /// (guess: steps of this size change the best policy).
    #[must_use]
    pub fn distance_squared(&self, other: &Self) -> f64 {
        let scaled = |load: &Self| {
            [
                libm::log2(load.size_sectors.max(1.0)) / 4.0,
                load.sequential * 2.0,
                load.synchronous,
                load.reads * 1.5,
                libm::log2(1.0 + load.concurrency.max(0.0)) / 2.0,
                load.deadlines * 2.0,
                libm::log2(load.streams.max(1.0)) / 3.0,
            ]
        };
        scaled(self)
            .iter()
            .zip(scaled(other))
            .map(|(one, other)| (one - other) * (one - other))
            .sum()
    }
}

impl fmt::Display for LoadFeatures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| share * 100.0;
        write!(
            f,
            "requests of {:.0} sectors, {:.0} % sequential, {:.0} % synchronous, {:.0} % reads, \
                {:.0} % with a deadline, {:.1} held, {:.1} streams",
            self.size_sectors,
            percent(self.sequential),
            percent(self.synchronous),
            percent(self.reads),
            percent(self.deadlines),
            self.concurrency,
            self.streams
        )
    }
}

/// Observes the features of a load, window by window.
#[derive(Clone, Debug, Default)]
pub struct LoadMeter {
    /// The start of the window, and the time until which `held_ns` counts.
    from: Instant,
    last: Instant,
    /// Requests held now, and their sum over the time of the window in which there were any.
    held: u64,
    held_ns: u128,
    busy: Nanos,
    finished: u64,
    requests: u64,
    sectors: u64,
    sequential: u64,
    synchronous: u64,
    reads: u64,
    deadlines: u64,
    by_stream: BTreeMap<(VolumeId, StreamId), u64>,
    /// Ends of the last requests, over windows.
    ends: VecDeque<(VolumeId, Lba)>,
}

/// The ends that are remembered: streams that alternate beyond that do not count as sequential.
const ENDS: usize = 64;
/// The streams of a window that are told apart; the others count as one.
const STREAMS: usize = 64;

impl LoadMeter {
    /// A meter that begins when so many requests are held already.
    #[must_use]
    pub fn new(now: Instant, held: usize) -> Self {
        Self { from: now, last: now, held: held as u64, ..Self::default() }
    }

    /// A request was submitted.
    pub fn submitted(&mut self, now: Instant, request: &Request) {
        self.advance(now);
        self.held += 1;
        if !request.op.moves_head() {
            return;
        }
        let extent = request.extent;
        self.requests += 1;
        self.sectors += extent.len.get();
        self.synchronous += u64::from(request.is_synchronous());
        self.reads += u64::from(request.op == crate::request::Op::Read);
        self.deadlines += u64::from(request.deadline.is_some());
        let start = (request.volume, extent.start);
        match self.ends.iter().rposition(|end| *end == start) {
            Some(place) => {
                self.sequential += 1;
                self.ends.remove(place);
            }
            None if self.ends.len() == ENDS => {
                self.ends.pop_front();
            }
            None => {}
        }
        self.ends.push_back((request.volume, extent.end()));
        let mut stream = (request.volume, request.stream);
        if self.by_stream.len() >= STREAMS && !self.by_stream.contains_key(&stream) {
            stream = OTHERS;
        }
        *self.by_stream.entry(stream).or_default() += 1;
    }

    /// A request has finished.
    pub fn finished(&mut self, now: Instant) {
        self.advance(now);
        self.held = self.held.saturating_sub(1);
        self.finished += 1;
    }

    /// A request was cancelled.
    pub fn cancelled(&mut self) {
        self.held = self.held.saturating_sub(1);
    }

    /// The number of requests that finished in this window.
    #[must_use]
    pub fn finished_requests(&self) -> u64 {
        self.finished
    }

    /// The length of this window so far.
    #[must_use]
    pub fn length(&self, now: Instant) -> Nanos {
        now.saturating_since(self.from)
    }

    /// The features of the window, after which another begins; `None` without a request.
    pub fn take(&mut self, now: Instant) -> Option<LoadFeatures> {
        self.advance(now);
        let rest = Self { ends: core::mem::take(&mut self.ends), ..Self::new(now, 0) };
        let window = core::mem::replace(self, Self { held: self.held, ..rest });
        let requests = window.requests as f64;
        let squares: f64 = window.by_stream.values().map(|count| (count * count) as f64).sum();
        (window.requests > 0).then(|| LoadFeatures {
            size_sectors: window.sectors as f64 / requests,
            sequential: window.sequential as f64 / requests,
            synchronous: window.synchronous as f64 / requests,
            reads: window.reads as f64 / requests,
            concurrency: window.held_ns as f64 / window.busy.as_ns().max(1) as f64,
            deadlines: window.deadlines as f64 / requests,
            streams: requests * requests / squares,
        })
    }

    fn advance(&mut self, now: Instant) {
        let passed = now.saturating_since(self.last);
        self.held_ns += u128::from(self.held) * u128::from(passed.as_ns());
        if self.held > 0 {
            self.busy += passed;
        }
        self.last = self.last.max(now);
    }
}

/// The streams that are not told apart.
const OTHERS: (VolumeId, StreamId) = (VolumeId::INTERNAL, StreamId(u32::MAX));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::{ClassId, Op, RequestId};
    use headtime_units::Extent;

    fn read(id: u64, stream: u32, start: u64) -> Request {
        Request {
            id: RequestId(id),
            volume: VolumeId(0),
            class: ClassId(0),
            stream: StreamId(stream),
            op: Op::Read,
            extent: Extent::from_numbers(start, 8),
            fua: false,
            deadline: None,
        }
    }

    /// The worked example of the page: stream 1 reads 0, 8, 16 and 24, stream 2 writes at 1,000
    /// with a deadline. Two are held for 1 ms, one for 2 ms, none for 3 ms.
    #[test]
    fn the_features_of_a_window_are_those_of_its_requests() {
        let at = |ms| Instant::ORIGIN + Nanos::from_ms(ms);
        let mut meter = LoadMeter::new(at(0), 0);
        for id in 0..4 {
            meter.submitted(at(0), &read(id, 1, 8 * id));
        }
        for _ in 0..3 {
            meter.finished(at(0));
        }
        let write = Request { op: Op::Write, deadline: Some(at(9)), ..read(4, 2, 1_000) };
        meter.submitted(at(0), &write);
        meter.finished(at(1));
        meter.finished(at(3));
        assert_eq!((meter.finished_requests(), meter.length(at(6))), (5, Nanos::from_ms(6)));
        let features = meter.take(at(6)).expect("there were requests");
        let expected = [8.0, 0.6, 0.8, 0.8, 4.0 / 3.0, 0.2, 25.0 / 17.0];
        assert_eq!(features, LoadFeatures::from_values(expected));
        assert_eq!(meter.take(at(7)), None);
        // The next window remembers where the last requests ended.
        meter.submitted(at(7), &read(5, 1, 32));
        assert_eq!(meter.take(at(8)).map(|features| features.sequential), Some(1.0));
    }

    #[test]
    fn distances_are_symmetric_and_zero_for_one_load_alone() {
        let one = LoadFeatures::from_values([8.0, 0.0, 1.0, 1.0, 16.0, 0.0, 1.0]);
        let other = LoadFeatures { size_sectors: 128.0, ..one };
        assert_eq!(one.distance_squared(&one), 0.0);
        assert_eq!(one.distance_squared(&other), 1.0);
        assert_eq!(other.distance_squared(&one), 1.0);
    }
}
