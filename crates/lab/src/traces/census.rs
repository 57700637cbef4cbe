//! [`Census`]: what a trace is made of, counted in one pass and bounded memory.
//!
//! Distributions are kept to three digits (`hdrhistogram`), so their quantiles are within 0.1 %;
//! means and the greatest value are exact. At most [`MAX_DEVICES`] devices and as many processes
//! are distinguished; requests of others count in the totals only. *Sequential* is a
//! read or write that begins where the one before it on the same device ended. *Outstanding* are
//! requests whose recorded response is not over; there are none without response times.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use hdrhistogram::Histogram;
use headtime_units::{Instant, Nanos};
use headtime_workload::Operation;
use headtime_workload::trace::TraceRecord;
use serde::Serialize;

/// The maximum number of devices and processes that are distinguished.
pub const MAX_DEVICES: usize = 65_536;

/// The maximum number of outstanding requests that are tracked; a trace with more probably has
/// response times in another unit.
const MAX_OUTSTANDING: usize = 1 << 20;

/// Counts as they grow.
#[derive(Debug, Default)]
pub struct Census {
    operations: BTreeMap<Operation, Amount>,
    fua: u64,
    devices: BTreeMap<u32, Device>,
    of_further_devices: u64,
    processes: BTreeSet<u32>,
    further_processes: bool,
    sizes: Spread,
    interarrivals: Spread,
    responses: Spread,
    ends: BinaryHeap<Reverse<Instant>>,
    max_outstanding: usize,
    transfers: u64,
    sequential: u64,
    last: Option<Instant>,
    requests: u64,
}

/// Requests, and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Amount {
    /// The number of values.
    pub requests: u64,
    /// The sum of their bytes.
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Device {
    amount: Amount,
    first_byte: u64,
    end_byte: u64,
    /// The end of its last read or write.
    last_end: Option<u64>,
}

/// A trace's figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// All requests.
    pub requests: u64,
    /// From the first to the last.
    pub duration_s: f64,
    /// Requests by that time; none when it has no length.
    pub rate_per_s: Option<f64>,
    /// Counts by operation (read, write, zero, discard, flush), without those of zero.
    pub operations: BTreeMap<&'static str, Amount>,
    /// Writes with force unit access.
    pub fua: u64,
    /// By device number.
    pub devices: Vec<DeviceFigures>,
    /// Requests of devices beyond the maximum.
    pub of_further_devices: u64,
    /// The number of different processes; 0 if the format has none.
    pub processes: usize,
    /// True if there are more processes than the maximum.
    pub further_processes: bool,
    /// Bytes of a read or write.
    pub size_bytes: Option<ValueDistribution>,
    /// Share of reads and writes that begin where the one before on their device ended.
    pub sequential: Option<f64>,
    /// From one request to the next.
    pub interarrival_us: Option<ValueDistribution>,
    /// Recorded response times.
    pub response_us: Option<ValueDistribution>,
    /// The maximum number of outstanding requests, if there are response times.
    pub max_outstanding: Option<usize>,
}

/// One device's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceFigures {
    /// Its number in the trace.
    pub device: u32,
    /// The requests to the device.
    #[serde(flatten)]
    pub amount: Amount,
    /// The first requested byte.
    pub first_byte: u64,
    /// The byte after the last one.
    pub end_byte: u64,
}

/// A distribution; its quantiles are within 0.1 %, the others exact.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ValueDistribution {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// The 95th percentile.
    pub p95: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// The greatest.
    pub max: f64,
}

impl Census {
    /// Counts one more; times do not run back.
    pub fn add(&mut self, record: &TraceRecord) {
        self.requests += 1;
        let amount = self.operations.entry(record.operation).or_default();
        amount.requests += 1;
        amount.bytes = amount.bytes.saturating_add(record.len_bytes);
        self.fua += u64::from(record.fua);
        if record.process != 0 {
            let known =
                self.processes.len() < MAX_DEVICES || self.processes.contains(&record.process);
            if known {
                self.processes.insert(record.process);
            } else {
                self.further_processes = true;
            }
        }
        if let Some(last) = self.last.replace(record.at) {
            self.interarrivals.add(record.at.saturating_since(last).as_ns());
        }
        if let Some(response) = record.response {
            self.respond(record.at, response);
        }
        if matches!(record.operation, Operation::Read | Operation::Write) {
            self.sizes.add(record.len_bytes);
        }
        self.of_device(record);
    }

    fn respond(&mut self, at: Instant, response: Nanos) {
        self.responses.add(response.as_ns());
        while self.ends.peek().is_some_and(|Reverse(end)| *end <= at) {
            self.ends.pop();
        }
        if self.ends.len() < MAX_OUTSTANDING {
            self.ends.push(Reverse(at + response));
        }
        self.max_outstanding = self.max_outstanding.max(self.ends.len());
    }

    fn of_device(&mut self, record: &TraceRecord) {
        if self.devices.len() >= MAX_DEVICES && !self.devices.contains_key(&record.device) {
            self.of_further_devices += 1;
            return;
        }
        let new =
            Device { amount: Amount::default(), first_byte: u64::MAX, end_byte: 0, last_end: None };
        let device = self.devices.entry(record.device).or_insert(new);
        device.amount.requests += 1;
        device.amount.bytes = device.amount.bytes.saturating_add(record.len_bytes);
        if record.operation == Operation::Flush {
            return;
        }
        device.first_byte = device.first_byte.min(record.offset_bytes);
        device.end_byte = device.end_byte.max(record.end_bytes());
        if matches!(record.operation, Operation::Read | Operation::Write) {
            self.transfers += 1;
            self.sequential += u64::from(device.last_end == Some(record.offset_bytes));
            device.last_end = Some(record.end_bytes());
        }
    }

    /// The figures so far.
    pub fn figures(&self) -> Figures {
        let duration_s = self.last.map_or(0.0, Instant::as_secs_f64);
        let device = |(device, known): (&u32, &Device)| {
            let first_byte = known.first_byte.min(known.end_byte);
            DeviceFigures {
                device: *device,
                amount: known.amount,
                first_byte,
                end_byte: known.end_byte,
            }
        };
        Figures {
            requests: self.requests,
            duration_s,
            rate_per_s: (duration_s > 0.0).then(|| self.requests as f64 / duration_s),
            operations: self
                .operations
                .iter()
                .map(|(operation, amount)| (name(*operation), *amount))
                .collect(),
            fua: self.fua,
            devices: self.devices.iter().map(device).collect(),
            of_further_devices: self.of_further_devices,
            processes: self.processes.len(),
            further_processes: self.further_processes,
            size_bytes: self.sizes.distribution(1.0),
            sequential: (self.transfers > 0)
                .then(|| self.sequential as f64 / self.transfers as f64),
            interarrival_us: self.interarrivals.distribution(1e3),
            response_us: self.responses.distribution(1e3),
            max_outstanding: (!self.responses.histogram.is_empty()).then_some(self.max_outstanding),
        }
    }
}

/// The names of operations in figures.
fn name(operation: Operation) -> &'static str {
    match operation {
        Operation::Read => "read",
        Operation::Write => "write",
        Operation::Zero => "zero",
        Operation::Discard => "discard",
        Operation::Flush => "flush",
    }
}

/// A distribution as it grows.
#[derive(Debug)]
struct Spread {
    histogram: Histogram<u64>,
    sum: u128,
    max: u64,
}

impl Default for Spread {
    fn default() -> Self {
        // Three digits over 50 powers of two take 340 KB.
        Self {
            histogram: Histogram::new_with_bounds(1, 1 << 50, 3)
                .expect("the bounds are in order and three digits are few"),
            sum: 0,
            max: 0,
        }
    }
}

impl Spread {
    fn add(&mut self, value: u64) {
        self.histogram.saturating_record(value);
        self.sum += u128::from(value);
        self.max = self.max.max(value);
    }

    fn distribution(&self, unit: f64) -> Option<ValueDistribution> {
        // The lowest of the equivalent values, so that 4096 stays 4096.
        let at = |quantile| {
            self.histogram.lowest_equivalent(self.histogram.value_at_quantile(quantile)) as f64
                / unit
        };
        (!self.histogram.is_empty()).then(|| ValueDistribution {
            mean: self.sum as f64 / self.histogram.len() as f64 / unit,
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            max: self.max as f64 / unit,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(
        ms: u64,
        device: u32,
        operation: Operation,
        offset_bytes: u64,
        len_bytes: u64,
    ) -> TraceRecord {
        let at = Instant::from_ns(ms * 1_000_000);
        TraceRecord {
            device,
            ..TraceRecord::new(1, at, operation, offset_bytes, len_bytes)
                .expect("it ends below 2^64")
        }
    }

    #[test]
    fn a_census_counts_operations_devices_runs_and_what_is_outstanding() {
        let took = |ms, record| TraceRecord { response: Some(Nanos::from_ms(ms)), ..record };
        let mut census = Census::default();
        for record in [
            took(5, record(0, 0, Operation::Read, 4096, 4096)),
            took(1, record(1, 1, Operation::Read, 8192, 4096)),
            took(9, record(3, 0, Operation::Write, 8192, 512)),
            record(4, 0, Operation::Flush, 0, 0),
            took(1, record(10, 0, Operation::Read, 0, 4096)),
        ] {
            census.add(&record);
        }
        let figures = census.figures();
        assert_eq!(
            (figures.requests, figures.duration_s, figures.rate_per_s),
            (5, 0.01, Some(500.0))
        );
        let amount = |requests, bytes| Amount { requests, bytes };
        assert_eq!(
            figures.operations.into_iter().collect::<Vec<_>>(),
            [("flush", amount(1, 0)), ("read", amount(3, 12_288)), ("write", amount(1, 512))]
        );
        // The write began where device 0's read ended; the read of device 1 lay between.
        assert_eq!(figures.sequential, Some(0.25));
        assert_eq!(figures.max_outstanding, Some(2));
        let device = |device, requests, bytes, first_byte, end_byte| DeviceFigures {
            device,
            amount: amount(requests, bytes),
            first_byte,
            end_byte,
        };
        assert_eq!(
            figures.devices,
            [device(0, 4, 8704, 0, 8704), device(1, 1, 4096, 8192, 12_288)]
        );
    }

    #[test]
    fn a_census_of_nothing_has_no_figures() {
        let figures = Census::default().figures();
        assert_eq!(
            (
                figures.requests,
                figures.rate_per_s,
                figures.size_bytes,
                figures.sequential,
                figures.max_outstanding
            ),
            (0, None, None, None, None)
        );
    }

    #[test]
    fn endless_devices_are_counted_and_not_told_apart() {
        let mut census = Census::default();
        for device in 0..MAX_DEVICES as u32 + 7 {
            census.add(&TraceRecord {
                process: device + 1,
                ..record(0, device, Operation::Read, 0, 512)
            });
        }
        let figures = census.figures();
        assert_eq!((figures.devices.len(), figures.of_further_devices), (MAX_DEVICES, 7));
        assert_eq!((figures.processes, figures.further_processes), (MAX_DEVICES, true));
    }
}
