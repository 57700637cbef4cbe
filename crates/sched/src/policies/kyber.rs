#![doc = include_str!("../../../../docs/policies/kyber.md")]

use alloc::boxed::Box;

use headtime_units::{Instant, Nanos};

use crate::command::Finished;
use crate::policies::elevator::{MAX_SECTORS_TODAY, Merger, Merges, QUEUE_DEPTH};
use crate::policy::{Choice, Policy, View};
use crate::queue::{Queued, Ticket};
use crate::request::Op;
use crate::table::{Parameter, Parameters, PolicyEntry};

/// The table entry.
pub const ENTRY: PolicyEntry = PolicyEntry {
    name: "kyber",
    summary: "today's Linux Kyber: batches of reads and writes, fewer of a kind if another is slow",
    source: "Linux 6, Documentation/block/kyber-iosched.rst",
    oracle: false,
    parameters: &[
        READ_LATENCY,
        WRITE_LATENCY,
        READ_DEPTH,
        WRITE_DEPTH,
        OTHER_DEPTH,
        READ_BATCH,
        WRITE_BATCH,
        OTHER_BATCH,
        MAX_SECTORS_TODAY,
        QUEUE_DEPTH,
    ],
    build: |parameters| Box::new(Kyber::new(parameters)),
};

const READ_LATENCY: Parameter = Parameter {
    name: "read_lat_nsec",
    summary: "latency target of reads, in nanoseconds",
    default: 2e6,
    min: 1e3,
    max: 1e11,
    whole: true,
    origin: "Linux 6",
};

const WRITE_LATENCY: Parameter = Parameter {
    name: "write_lat_nsec",
    summary: "latency target of writes, in nanoseconds",
    default: 1e7,
    ..READ_LATENCY
};

const READ_DEPTH: Parameter = Parameter {
    name: "read_depth",
    summary: "maximum number of reads at the drive",
    default: 256.0,
    min: 1.0,
    max: 65_536.0,
    whole: true,
    origin: "Linux 6",
};

const WRITE_DEPTH: Parameter = Parameter {
    name: "write_depth",
    summary: "maximum number of writes at the drive",
    default: 128.0,
    ..READ_DEPTH
};

const OTHER_DEPTH: Parameter = Parameter {
    name: "other_depth",
    summary: "maximum number of zeroing commands at the drive",
    default: 16.0,
    ..READ_DEPTH
};

const READ_BATCH: Parameter = Parameter {
    name: "read_batch",
    summary: "commands of a batch of reads",
    default: 16.0,
    ..READ_DEPTH
};

const WRITE_BATCH: Parameter = Parameter {
    name: "write_batch",
    summary: "commands of a batch of writes",
    default: 8.0,
    ..READ_BATCH
};

const OTHER_BATCH: Parameter = Parameter {
    name: "other_batch",
    summary: "commands of a batch of zeroing",
    default: 1.0,
    ..READ_BATCH
};

/// Time between two adjustments of depths.
const INTERVAL: Nanos = Nanos::from_ms(100);
/// A domain with fewer samples is not judged until its first sample is so old.
const SAMPLES: u32 = 500;
const PATIENCE: Nanos = Nanos::from_secs(1);
/// Buckets of a histogram; each is a quarter of the target wide, and the last one is open.
const BUCKETS: usize = 8;
/// The buckets within the target.
const GOOD: usize = 4;

/// The kinds of requests, in the order of their batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Read,
    Write,
    Other,
}

const KINDS: [Kind; 3] = [Kind::Read, Kind::Write, Kind::Other];

struct Kyber {
    domains: [Domain; 3],
    batches: [usize; 3],
    next_adjustment: Instant,
    merger: Merger,
    queue_depth: usize,
    state: State,
    /// The last choice, and the state once it is sent.
    chosen: Option<(Ticket, State)>,
}

/// One kind: its limit at the drive, and its latencies since the last adjustment.
struct Domain {
    /// `None` for a kind that is not judged.
    target: Option<Nanos>,
    depth: usize,
    max_depth: usize,
    /// From submission to completion.
    total: Histogram,
    /// From dispatch to completion.
    at_drive: Histogram,
    /// The bucket of the last total latency that was judged.
    last_total: Option<usize>,
}

#[derive(Default)]
struct Histogram {
    counts: [u32; BUCKETS],
    samples: u32,
    first: Option<Instant>,
}

/// The batch at work.
#[derive(Clone, Copy, Debug)]
struct State {
    kind: Kind,
    sent: usize,
}

impl Kyber {
    fn new(parameters: &Parameters) -> Self {
        let number = |parameter: Parameter| parameters.get(parameter.name) as u64;
        let domain = |target: Option<Parameter>, depth| Domain {
            target: target.map(|target| Nanos::from_ns(number(target))),
            depth: number(depth) as usize,
            max_depth: number(depth) as usize,
            total: Histogram::default(),
            at_drive: Histogram::default(),
            last_total: None,
        };
        Self {
            domains: [
                domain(Some(READ_LATENCY), READ_DEPTH),
                domain(Some(WRITE_LATENCY), WRITE_DEPTH),
                domain(None, OTHER_DEPTH),
            ],
            batches: [READ_BATCH, WRITE_BATCH, OTHER_BATCH].map(|batch| number(batch) as usize),
            next_adjustment: Instant::ORIGIN,
            merger: Merger::new(parameters, Merges::BackAndFront),
            queue_depth: number(QUEUE_DEPTH) as usize,
            state: State { kind: Kind::Read, sent: 0 },
            chosen: None,
        }
    }

    fn select<'a>(&self, view: &View<'a>) -> Option<(&'a Queued, State)> {
        let State { kind, sent } = self.state;
        // The batch continues.
        if let Some(next) = self.oldest(view, kind).filter(|_| sent < self.batches[kind as usize]) {
            return Some((next, State { kind, sent: sent + 1 }));
        }
        // The kinds after it are next in turn, itself last.
        let in_turn = KINDS.iter().cycle().skip(kind as usize + 1).take(KINDS.len());
        in_turn
            .copied()
            .find_map(|kind| self.oldest(view, kind).map(|next| (next, State { kind, sent: 1 })))
    }

    /// The oldest request of a kind that may have another command at the drive.
    fn oldest<'a>(&self, view: &View<'a>, kind: Kind) -> Option<&'a Queued> {
        let at_drive =
            view.outstanding.iter().filter(|command| kind_of(command.target.op) == kind).count();
        if at_drive >= self.domains[kind as usize].depth {
            return None;
        }
        view.queue.by_arrival().find(|queued| kind_of(queued.request.op) == kind)
    }

    /// Adjusts the depths by the latencies since the last time.
    fn adjust(&mut self, now: Instant) {
        // Commands take too long at the drive if a tenth of those of a kind exceeds its target.
        let mut is_slow = false;
        for domain in &mut self.domains {
            is_slow |= domain.at_drive.percentile(now, 90).is_some_and(|bucket| bucket >= GOOD);
        }
        for domain in &mut self.domains {
            let judged = domain.total.percentile(now, 99);
            let bucket = match (is_slow, judged) {
                // Too few samples: those before count, once.
                (true, _) => judged.or(domain.last_total.take()),
                (false, _) => {
                    domain.last_total = judged.or(domain.last_total);
                    judged
                }
            };
            // A kind that misses its target gets more. While the drive is slow, one that is well
            // within gets less: a quarter for the lowest bucket.
            if let Some(bucket) = bucket.filter(|bucket| is_slow || *bucket >= GOOD) {
                domain.depth = (domain.depth * (bucket + 1) / GOOD).clamp(1, domain.max_depth);
            }
        }
    }
}

impl Histogram {
    fn add(&mut self, latency: Nanos, target: Nanos, at: Instant) {
        let width = (target / GOOD as u64).as_ns().max(1);
        let bucket = (latency.as_ns().saturating_sub(1) / width).min(BUCKETS as u64 - 1);
        self.counts[bucket as usize] += 1;
        self.samples += 1;
        self.first.get_or_insert(at);
    }

    /// The bucket of a percentile, after which the histogram begins again; `None` while there are
    /// too few samples.
    fn percentile(&mut self, now: Instant, percent: u32) -> Option<usize> {
        let first = self.first?;
        if self.samples < SAMPLES && now < first + PATIENCE {
            return None;
        }
        let needed = (self.samples * percent).div_ceil(100);
        let mut counted = 0;
        let bucket = self.counts.iter().position(|count| {
            counted += count;
            counted >= needed
        });
        *self = Self::default();
        bucket
    }
}

impl Policy for Kyber {
    fn name(&self) -> &'static str {
        ENTRY.name
    }

    fn depth(&self, _view: &View<'_>) -> usize {
        self.queue_depth
    }

    fn choose(&mut self, view: &View<'_>) -> Choice {
        // A choice counts once it has left the queue: it is not always sent at once.
        if let Some((_, state)) =
            self.chosen.take_if(|(ticket, _)| view.queue.get(*ticket).is_none())
        {
            self.state = state;
        }
        let selected = self.select(view);
        self.chosen = selected.map(|(queued, state)| (queued.ticket, state));
        selected.map_or(Choice::Nothing, |(queued, _)| self.merger.command(view, queued, |_| true))
    }

    fn finished(&mut self, finished: &Finished) {
        let at = finished.finished;
        let domain = &mut self.domains[kind_of(finished.request.op) as usize];
        if let Some(target) = domain.target.filter(|_| finished.request.op.moves_head()) {
            domain.total.add(finished.response(), target, at);
            domain.at_drive.add(finished.service(), target, at);
        }
        if at >= self.next_adjustment {
            self.adjust(at);
            self.next_adjustment = at + INTERVAL;
        }
    }
}

fn kind_of(op: Op) -> Kind {
    match op {
        Op::Read => Kind::Read,
        Op::Write => Kind::Write,
        Op::Zero | Op::Discard | Op::Flush => Kind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The worked example of the page.
    #[test]
    fn a_kind_within_its_target_gets_fewer_while_another_is_slow_and_more_when_it_misses_it() {
        let mut kyber = Kyber::new(&PolicyEntry::parse(ENTRY.name).expect("a policy").1);
        let ms = Nanos::from_ms;
        let pass = |kyber: &mut Kyber, second: u64, reads: Nanos, writes: Nanos| {
            let at = |s: u64| Instant::ORIGIN + Nanos::from_secs(s);
            for (kind, latency) in [(Kind::Read, reads), (Kind::Write, writes)] {
                let domain = &mut kyber.domains[kind as usize];
                let target = domain.target.expect("it has one");
                domain.total.add(latency, target, at(second));
                domain.at_drive.add(latency, target, at(second));
            }
            kyber.adjust(at(second));
            let before = [Kind::Read, Kind::Write].map(|kind| kyber.domains[kind as usize].depth);
            kyber.adjust(at(second + 1));
            let after = [Kind::Read, Kind::Write].map(|kind| kyber.domains[kind as usize].depth);
            (before, after)
        };
        // Reads take ten times their target, writes a fifth of theirs.
        let (early, late) = pass(&mut kyber, 0, ms(20), ms(2));
        assert_eq!((early, late), ([256, 128], [256, 32]), "one sample counts after a second");
        assert_eq!(pass(&mut kyber, 2, ms(20), ms(2)).1, [256, 8]);
        // Both are in time: nothing changes.
        assert_eq!(pass(&mut kyber, 4, ms(1), ms(2)).1, [256, 8]);
        // Writes miss theirs, and reads are at half of theirs.
        assert_eq!(pass(&mut kyber, 6, ms(1), ms(30)).1, [128, 16]);
    }
}
