//! The drive's own queue, from outside: its depth, its order, and starvation.
//!
//! *Order and depth.* Random reads are kept outstanding, as many as the connection to the drive
//! accepts. Whenever one completes, the waiting reads are known, and the profile predicts how long
//! each would have taken. The read served may be the first that arrived, the shortest to reach, the
//! next upwards, or the nearest by address; that shows the drive's rule. If a command overtakes `n`
//! others, the firmware saw it together with them, so the queue is at least `n + 2` deep, with the
//! one in service.
//!
//! *Overlap.* If the overhead of a command overlaps the command before it, the arm starts when the
//! last sector of that one has passed. Otherwise it starts after the host has seen the completion
//! and issued the next. The assumption that predicts more completions is taken.
//!
//! *Starvation.* A stream of sequential reads is kept going, four deep, beside one random read at a
//! time. The waits of the random reads are compared with their times alone. No stream lasts longer
//! than [`STREAM_LIMIT`].
//!
//! Worked example, a drive that holds to a sequential run for 2 s: random reads take 11 ms alone
//! and 2.01 s beside the stream, each of them. The longest wait is 180 times that alone, and
//! `sequential_hold_ms` is 2,000. A drive that always takes the shortest never serves the random
//! read at all: it waits until the stream ends, after 6 s, and a remark reports it.
//!
//! Not told apart: an order by address and one by positioning if seeks dominate; a hold and an
//! aging with the same effect. Cost: 1 to 3 s, on a drive that starves up to 15 s.

use headtime_mechanics::profile::{Algorithm, Firmware};
use headtime_units::{Extent, Instant, Nanos};
use serde::{Deserialize, Serialize};

use crate::measurement::{ConcurrentReads, Lane, TimedCommand};
use crate::numbers::{median, quantile};
use crate::predict::Predicted;
use crate::profile::DriveModel;
use crate::results::Progress;
use crate::session::{Attempt, Session};

/// The number of reads of the first experiment, and the most of them outstanding.
const READS: usize = 320;
const MAX_OUTSTANDING: u32 = 64;
/// The number of reads alone, for comparison.
const ALONE: usize = 40;
/// The number of random reads beside a stream, and the number of streams.
const BESIDE: usize = 40;
const ROUNDS: usize = 2;
/// The reads of the stream outstanding, and their bytes.
const STREAM_DEPTH: u32 = 4;
const STREAM_BYTES: u64 = 256 << 10;
/// The longest time of a stream.
const STREAM_LIMIT: Nanos = Nanos::from_ns(6_000_000_000);
/// The accuracy of predictions, ns: a choice that took no more than this above the shortest was the
/// shortest.
const NEAR_NS: u64 = 400_000;
/// The share of choices that a rule has to explain (guess).
const RULE: f64 = 0.75;
/// Starving waits are even if their middle half lies within this part of their median, and there
/// are at least this many (guess).
const EVEN: f64 = 0.3;
const MIN_WAITS: usize = 2;
/// Waits of this many times the time alone are starvation (guess: a fair queue of five adds five
/// commands).
const STARVING: f64 = 10.0;

/// The rule by which a drive chooses among the commands in its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ServiceOrder {
    /// By arrival.
    Arrival,
    /// Shortest positioning time first.
    Positioning,
    /// Ascending address, then from the lowest again.
    Address,
    /// Nearest address.
    Nearest,
    /// Another rule.
    Other,
}

/// The behavior of the drive's own queue.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueBehavior {
    /// Its rule.
    pub order: ServiceOrder,
    /// The share of its choices that the rule explains, 0 to 1.
    pub explained: f64,
    /// The number of commands that it holds, with the one in service.
    pub depth: u32,
    /// The depth may be greater: as many were outstanding as the connection to the drive accepts.
    pub depth_is_lower_bound: bool,
    /// The overhead of a command overlaps the command before it.
    pub overlaps: bool,
    /// The time of a random read alone, milliseconds, median.
    pub alone_ms: f64,
    /// The longest wait of a random read beside a sequential stream, milliseconds.
    pub longest_wait_ms: f64,
    /// The median of those waits, milliseconds.
    pub median_wait_ms: f64,
    /// A random read waited until the stream was stopped; it would have waited longer.
    pub until_stopped: bool,
    /// The throughput of the stream meanwhile, millions of bytes per second.
    pub stream_mb_per_s: f64,
    /// The time for which the drive holds to a stream, milliseconds, if it is even.
    pub hold_ms: Option<f64>,
}

impl QueueBehavior {
    /// The longest wait in multiples of the time alone.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        self.longest_wait_ms / self.alone_ms.max(0.001)
    }

    /// True if random reads starve beside a sequential stream.
    #[must_use]
    pub fn starves(&self) -> bool {
        self.until_stopped || self.ratio() >= STARVING
    }

    /// A summary as a sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        let order = match self.order {
            ServiceOrder::Arrival => "in the order of arrival",
            ServiceOrder::Positioning => "the shortest to reach first",
            ServiceOrder::Address => "in ascending address order",
            ServiceOrder::Nearest => "the nearest address first",
            ServiceOrder::Other => "in an order that fits no rule",
        };
        let least = if self.depth_is_lower_bound { " or more" } else { "" };
        let longer = if self.until_stopped {
            format!("until the stream was stopped after {:.1} s", self.longest_wait_ms / 1e3)
        } else {
            format!("up to {:.0} ms", self.longest_wait_ms)
        };
        let starves = if self.starves() {
            "random reads starve beside a sequential stream"
        } else {
            "no random read starves beside a sequential stream"
        };
        format!(
            "the drive holds {}{least} commands and serves them {order}; {starves}: they wait \
                {longer}, {:.0} times as long as alone",
            self.depth,
            self.ratio()
        )
    }
}

/// The result so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct QueueResult {
    choices: Option<Choices>,
    alone_ns: Option<f64>,
    /// The waits of random reads that were served while the stream went on.
    waits_ns: Vec<f64>,
    /// The longest wait of one that was not, 0 if all were.
    cut_off_ns: f64,
    max_outstanding: u32,
    stream_bytes: f64,
    stream_ns: f64,
    rounds: usize,
}

/// The choices of the drive.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Choices {
    /// The greatest number of commands that a command overtook.
    earlier: u32,
    /// The most commands outstanding at once.
    outstanding: u32,
    /// The shares of choices that were: first arrived, shortest, next upwards, nearest.
    shares: [f64; 4],
    overlaps: bool,
}

impl QueueResult {
    /// The conclusion; none before the experiments are done.
    pub(crate) fn behavior(&self) -> Option<QueueBehavior> {
        let (choices, alone_ns) = (self.choices?, self.alone_ns?);
        let (order, explained) = choices.order();
        let seen = choices.outstanding.max(1);
        let depth = match order {
            ServiceOrder::Arrival if !choices.overlaps => 1,
            ServiceOrder::Arrival => seen,
            _ => (choices.earlier + 2).min(seen),
        };
        let longest = self.waits_ns.iter().copied().fold(self.cut_off_ns, f64::max);
        let middle = median(&self.waits_ns);
        // The first one may come before the stream has started.
        let long: Vec<f64> =
            self.waits_ns.iter().copied().filter(|wait| *wait > STARVING * alone_ns).collect();
        let even = quantile(&long, 0.75) - quantile(&long, 0.25) < EVEN * median(&long);
        let holds = even && long.len() >= MIN_WAITS;
        Some(QueueBehavior {
            order,
            explained,
            depth,
            depth_is_lower_bound: depth > 1 && depth >= self.max_outstanding.min(MAX_OUTSTANDING),
            overlaps: choices.overlaps,
            alone_ms: alone_ns / 1e6,
            longest_wait_ms: longest / 1e6,
            median_wait_ms: if self.waits_ns.is_empty() { longest } else { middle } / 1e6,
            until_stopped: self.cut_off_ns > 0.0 && self.cut_off_ns >= longest,
            stream_mb_per_s: if self.stream_ns > 0.0 {
                self.stream_bytes * 1e3 / self.stream_ns
            } else {
                0.0
            },
            hold_ms: holds.then(|| libm::round(median(&long) / 1e6)),
        })
    }

    /// The firmware of a profile.
    pub(crate) fn firmware(&self) -> Firmware {
        let Some(found) = self.behavior() else {
            return Firmware { queue_depth: 1, ..Firmware::default() };
        };
        let algorithm =
            if found.order == ServiceOrder::Arrival { Algorithm::Fcfs } else { Algorithm::Sptf };
        Firmware {
            queue_depth: found.depth,
            algorithm,
            sequential_hold_ms: found.hold_ms,
            ..Firmware::default()
        }
    }
}

impl Choices {
    fn order(&self) -> (ServiceOrder, f64) {
        let rules = [
            ServiceOrder::Arrival,
            ServiceOrder::Positioning,
            ServiceOrder::Address,
            ServiceOrder::Nearest,
        ];
        let mut best = (ServiceOrder::Other, 0.0);
        for (rule, share) in rules.into_iter().zip(self.shares) {
            if share >= RULE && share > best.1 {
                best = (rule, share);
            }
        }
        best
    }
}

/// Runs one more experiment.
pub(crate) fn extend(
    session: &mut Session,
    model: &DriveModel<'_>,
    found: &mut QueueResult,
    max_outstanding: u32,
) -> Attempt<Progress> {
    found.max_outstanding = max_outstanding;
    if max_outstanding < 2 {
        session.remark(
            "firmware queue: not measured, because the connection to the drive accepts one command \
            at a time",
        );
        return Ok(Progress::Done);
    }
    if found.choices.is_none() {
        found.choices = Some(choices(session, model, max_outstanding)?);
    } else if found.alone_ns.is_none() {
        found.alone_ns = Some(alone(session)?);
    } else {
        beside_stream(session, model, found, max_outstanding)?;
        found.rounds += 1;
    }
    let starves = found.behavior().is_some_and(|found| found.starves());
    let done = found.rounds >= if starves { ROUNDS } else { 1 };
    if done && let Some(behavior) = found.behavior() {
        remark_assumptions(&mut session.remarks, &behavior, max_outstanding);
    }
    Ok(Progress::from(done))
}

fn remark_assumptions(remarks: &mut Vec<String>, found: &QueueBehavior, max_outstanding: u32) {
    if found.depth_is_lower_bound {
        remarks.push(format!(
            "firmware queue: {} commands or more; no more than {max_outstanding} \
            could be outstanding",
            found.depth
        ));
    }
    match found.order {
        ServiceOrder::Arrival | ServiceOrder::Positioning => {}
        ServiceOrder::Address | ServiceOrder::Nearest | ServiceOrder::Other => {
            remarks.push(format!(
                "firmware queue: commands are served {:?}; the profile has no \
                such order and uses sptf",
                found.order
            ));
        }
    }
    if found.until_stopped && found.hold_ms.is_none() {
        remarks.push(format!(
            "firmware queue: a random read waited {:.1} s, until the stream beside it was stopped; \
                its full wait is not known",
            found.longest_wait_ms / 1e3
        ));
    }
}

/// Keeps many reads outstanding and examines the order of service.
fn choices(
    session: &mut Session,
    model: &DriveModel<'_>,
    max_outstanding: u32,
) -> Attempt<Choices> {
    session.keep_clock()?;
    let mut extents: Vec<Extent> = Vec::new();
    while extents.len() < READS.min(session.drive.capacity as usize / 2) {
        let extent = Extent::from_numbers(session.random.below(session.drive.capacity), 1);
        if !extents.contains(&extent) {
            extents.push(extent);
        }
    }
    let outstanding = max_outstanding.min(MAX_OUTSTANDING);
    let lanes = vec![Lane { extents: extents.clone(), outstanding }];
    let served = session.read_concurrently(ConcurrentReads { lanes, time_limit: STREAM_LIMIT })?;
    let mut predicted = Predicted::new(model, &session.drive)?;
    let turn_of = |command: &TimedCommand| {
        extents.iter().position(|extent| *extent == command.extent).unwrap_or(0)
    };
    let mut found = Choices { earlier: 0, outstanding: 0, shares: [0.0; 4], overlaps: false };
    let (mut made, mut predicted_overlapped, mut predicted_open) = (0_u32, 0, 0);
    for (place, command) in served.iter().enumerate() {
        // Commands that arrived before it but are served later.
        let turn = turn_of(command);
        let earlier = served[place + 1..].iter().filter(|other| turn_of(other) < turn).count();
        found.earlier = found.earlier.max(earlier as u32);
        let held = served[place..].iter().filter(|other| other.issued <= command.issued).count();
        let held_before =
            served[..place].iter().filter(|other| other.completed > command.issued).count();
        found.outstanding = found.outstanding.max((held + held_before) as u32);
        let Some(before) = place.checked_sub(1).map(|before| &served[before]) else { continue };
        if !command.succeeded()
            || !before.succeeded()
            || session.may_be_hit(command)
            || session.may_be_hit(before)
        {
            continue;
        }
        predicted.follow(&session.drive.clock, before.completed);
        let depart = predicted.media_end(before.completed);
        let from = predicted.head_after(before.extent);
        let overlapped = predicted.completion(
            from,
            depart.max(command.issued + predicted.overhead()),
            command.extent,
        );
        let open = predicted.completion(
            from,
            before.completed.max(command.issued) + predicted.overhead(),
            command.extent,
        );
        let near = |at: Instant| {
            u32::from(command.completed.signed_since(at).unsigned_abs() < NEAR_NS / 2)
        };
        (predicted_overlapped, predicted_open) =
            (predicted_overlapped + near(overlapped), predicted_open + near(open));
        let waiting: Vec<&TimedCommand> = served[place..]
            .iter()
            .filter(|other| other.issued + predicted.overhead() <= depart)
            .collect();
        if waiting.len() < 2 || !waiting.iter().any(|other| other.extent == command.extent) {
            continue;
        }
        made += 1;
        let takes = |other: &TimedCommand| {
            predicted.completion(from, depart, other.extent).saturating_since(depart).as_ns()
        };
        let shortest = waiting.iter().map(|other| takes(other)).min().unwrap_or(0);
        let first = waiting.iter().map(|other| turn_of(other)).min().unwrap_or(0);
        let (here, end) = (command.extent.start.get(), before.extent.end().get());
        let upwards = |lba: u64| if lba >= end { lba - end } else { lba + session.drive.capacity };
        let starts = || waiting.iter().map(|other| other.extent.start.get());
        let explained = [
            turn == first,
            takes(command) <= shortest + NEAR_NS,
            starts().all(|other| upwards(here) <= upwards(other)),
            starts().all(|other| here.abs_diff(end) <= other.abs_diff(end)),
        ];
        for (share, explained) in found.shares.iter_mut().zip(explained) {
            *share += f64::from(u8::from(explained));
        }
    }
    found.shares = found.shares.map(|count| count / f64::from(made.max(1)));
    if made == 0 {
        // There never were two to choose from: one after the other.
        found.shares[0] = 1.0;
    }
    found.overlaps = predicted_overlapped > predicted_open;
    Ok(found)
}

/// The median time of a random read alone, ns.
fn alone(session: &mut Session) -> Attempt<f64> {
    let mut took = Vec::new();
    for _ in 0..ALONE {
        let lba = session.random.below(session.drive.capacity);
        let command = session.read_at_once(lba, 1)?;
        if command.succeeded() && !session.may_be_hit(&command) {
            took.push(command.response().as_ns() as f64);
        }
    }
    Ok(median(&took))
}

/// Issues random reads one by one beside a sequential stream.
fn beside_stream(
    session: &mut Session,
    model: &DriveModel<'_>,
    found: &mut QueueResult,
    max_outstanding: u32,
) -> Attempt<()> {
    let capacity = session.drive.capacity;
    let sectors = (STREAM_BYTES / u64::from(model.sector_bytes)).clamp(1, (capacity / 16).max(1));
    // As much as passes under the head in that time, and a third more.
    let fastest = model.layout.zones.iter().map(|zone| zone.sectors_per_track).max().unwrap_or(1)
        as f64
        / session.drive.clock.period_ns();
    let needed = (1.3 * fastest * STREAM_LIMIT.as_ns() as f64) as u64 / sectors + 1;
    let count = needed.min(capacity / 2 / sectors).max(1);
    let start = session.random.below(capacity - count * sectors);
    let stream: Vec<Extent> =
        (0..count).map(|number| Extent::from_numbers(start + number * sectors, sectors)).collect();
    let end = start + count * sectors;
    let mut random = Vec::new();
    while random.len() < BESIDE {
        let lba = session.random.below(capacity);
        if lba + 1 < start || lba > end {
            random.push(Extent::from_numbers(lba, 1));
        }
    }
    let lanes = vec![
        Lane { extents: random, outstanding: 1 },
        Lane { extents: stream, outstanding: STREAM_DEPTH.min(max_outstanding - 1) },
    ];
    let commands =
        session.read_concurrently(ConcurrentReads { lanes, time_limit: STREAM_LIMIT })?;
    let of_stream = |command: &&TimedCommand| (start..end).contains(&command.extent.start.get());
    let began = commands.iter().map(|command| command.issued).min().unwrap_or(Instant::ORIGIN);
    let stopped =
        commands.iter().filter(of_stream).map(|command| command.issued).max().unwrap_or(began);
    for command in commands
        .iter()
        .filter(|command| !of_stream(command) && command.succeeded() && command.issued <= stopped)
    {
        let waited_ns = command.response().as_ns() as f64;
        if command.completed <= stopped {
            found.waits_ns.push(waited_ns);
        } else if stopped.saturating_since(command.issued) > STREAM_LIMIT / 2 {
            found.cut_off_ns = found.cut_off_ns.max(waited_ns);
        }
    }
    let last =
        commands.iter().filter(of_stream).map(|command| command.completed).max().unwrap_or(began);
    found.stream_bytes += commands.iter().filter(of_stream).count() as f64
        * (sectors * u64::from(model.sector_bytes)) as f64;
    found.stream_ns += last.saturating_since(began).as_ns() as f64;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{Bench, plain};
    use headtime_mechanics::DriveProfile;
    use headtime_sim::DriveTruth;

    fn drive(queue_depth: u32, algorithm: Algorithm, hold: Option<f64>) -> DriveProfile {
        let firmware =
            Firmware { queue_depth, algorithm, sequential_hold_ms: hold, ..Firmware::default() };
        DriveProfile { firmware, cache: None, ..plain("barracuda7200-7") }
    }

    fn found(profile: &DriveProfile, noisy: bool, seed: u64) -> QueueBehavior {
        let truth = if noisy {
            DriveTruth::draw(profile, seed)
        } else {
            DriveTruth::nominal(profile, seed)
        };
        let mut bench = Bench::new(truth.unwrap());
        while bench.run(seed, |session, results| {
            let mut queue = core::mem::take(&mut results.queue);
            let progress = extend(session, &results.model(512), &mut queue, 32)?;
            results.queue = queue;
            Ok(progress)
        }) == Progress::More
        {}
        bench.results.queue.behavior().expect("all was seen")
    }

    #[test]
    fn order_and_depth_are_found() {
        for (depth, algorithm) in [
            (1, Algorithm::Fcfs),
            (4, Algorithm::Fcfs),
            (32, Algorithm::Sptf),
            (8, Algorithm::Sptf),
            (64, Algorithm::Sptf),
        ] {
            for noisy in [false, true] {
                let found = found(&drive(depth, algorithm, None), noisy, u64::from(depth));
                let case = format!("{depth} {algorithm:?} noisy {noisy}: {found:?}");
                let order = if algorithm == Algorithm::Fcfs {
                    ServiceOrder::Arrival
                } else {
                    ServiceOrder::Positioning
                };
                assert_eq!(found.order, order, "{case}");
                assert!(found.explained > 0.85, "{case}");
                assert!(
                    found.depth <= depth.min(32) && found.depth + 1 + depth / 16 >= depth.min(32),
                    "{case}"
                );
                assert_eq!(found.overlaps, depth > 1, "{case}");
                assert_eq!(found.depth_is_lower_bound, found.depth == 32, "{case}");
            }
        }
    }

    #[test]
    fn a_drive_that_holds_to_a_stream_is_found_out_and_for_how_long() {
        for (hold_ms, seed) in [(1_000.0, 1), (2_000.0, 2)] {
            let found = found(&drive(32, Algorithm::Fcfs, Some(hold_ms)), true, seed);
            assert!(found.starves() && !found.until_stopped, "{found:?}");
            assert!(
                (found.hold_ms.expect("an even wait") / hold_ms - 1.0).abs() < 0.1,
                "{found:?}"
            );
            assert!(found.sentence().contains("starve beside"), "{}", found.sentence());
        }
    }

    #[test]
    fn shortest_first_without_end_starves_until_the_stream_ends_and_arrival_does_not() {
        let starving = found(&drive(32, Algorithm::Sptf, None), false, 3);
        assert!(
            starving.starves() && starving.until_stopped && starving.hold_ms.is_none(),
            "{starving:?}"
        );
        assert!(starving.longest_wait_ms > 5_000.0, "{starving:?}");
        let fair = found(&drive(32, Algorithm::Fcfs, None), true, 4);
        assert!(
            !fair.starves() && fair.longest_wait_ms < 200.0 && fair.stream_mb_per_s > 1.0,
            "{fair:?}"
        );
    }
}
