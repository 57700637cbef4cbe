//! The published figures of docs/limits.md: the prototype's throughput, and the reasons for
//! differences.
//!
//! The prototype was another simulator of the same mechanics, with its own models of an Atlas 10K
//! and a 20 TB drive. Nothing here is tuned towards its figures; rows state where drives differ.

use headtime_sim::Measures;

use crate::papers::load::iops;
use crate::papers::{Estimated, FixedParameter, Judged, Published, Row};

/// Queue lengths of the table.
pub(super) const QUEUES: [u32; 3] = [16, 64, 256];

/// Requests per second of random 4 KiB reads, by [`QUEUES`].
pub(super) struct Figures {
    /// The profile that represents the drive.
    pub(super) drive: &'static str,
    pub(super) fcfs: [f64; 3],
    /// C-LOOK and SSTF in one line.
    pub(super) by_address: [f64; 3],
    pub(super) insertion_frozen: [f64; 3],
    pub(super) insertion_replanned: [f64; 3],
    pub(super) sptf_one: [f64; 3],
    pub(super) sptf_two: [f64; 3],
    pub(super) planner: [f64; 3],
    /// The reason for different figures.
    pub(super) why: &'static str,
}

pub(super) const TABLE: [Figures; 2] = [
    Figures {
        drive: "atlas10k",
        fcfs: [122.0, 122.0, 122.0],
        by_address: [181.0, 204.0, 217.0],
        insertion_frozen: [184.0, 213.0, 242.0],
        insertion_replanned: [194.0, 219.0, 252.0],
        sptf_one: [205.0, 267.0, 326.0],
        sptf_two: [229.0, 311.0, 388.0],
        planner: [237.0, 323.0, 403.0],
        why: "this drive's arm is slower: its extracted seek curve has a mean of 5.55 ms and dear \
            short seeks, the prototype's FCFS rate leaves 5.0 ms.",
    },
    Figures {
        drive: "nearline-20tb",
        fcfs: [79.0, 79.0, 79.0],
        by_address: [130.0, 159.0, 177.0],
        insertion_frozen: [124.0, 154.0, 190.0],
        insertion_replanned: [136.0, 163.0, 190.0],
        sptf_one: [154.0, 221.0, 305.0],
        sptf_two: [155.0, 228.0, 318.0],
        planner: [160.0, 238.0, 339.0],
        why: "this drive's arm is faster: its seek curve has a mean of 8.0 ms and cheap short \
            seeks, the prototype's FCFS rate leaves 8.4 ms.",
    },
];

/// The required agreement of two simulators of similar drives, as a share of one (guess).
const TOLERANCE: f64 = 0.05;
/// The same for the gain of one policy over another on one drive, as a share of that gain (guess:
/// the drive cancels out in part).
const OF_GAIN: f64 = 0.25;
/// Published throughputs have three digits, so that their ratios are off by as much.
const ROUNDING: f64 = 0.005;

/// Nearest insertion, the nearest first: into a frozen batch, and planned again at each decision.
/// What the prototype did beyond that is not recorded.
pub(super) const FROZEN: &str = "fsatf-map:nearest_first=1,plan_most=1024";
pub(super) const REPLANNED: &str = "satf-map:nearest_first=1,rebuild_after=1";

/// The better of the two orders by address.
pub(super) fn best_by_address(clook: &Measures, sstf: &Measures) -> Estimated {
    let (clook, sstf) = (iops(clook), iops(sstf));
    if clook.value >= sstf.value { clook } else { sstf }
}

/// A share in percent compared with a published value or range, within `points` of percent.
pub(super) fn in_points(
    what: String,
    (least, most): (f64, f64),
    kept: Estimated,
    points: f64,
    why_not: &str,
) -> Row {
    let reason = "points of percent: the publication names neither drive nor queue";
    let judged = Judged::between((least, most), kept, points, reason);
    let judged = if least == most { judged.published(Published::Number(least)) } else { judged };
    Row::new(what, "%", judged, why_not)
}

/// The gain of one policy over another beside that of the published figures.
pub(super) fn gain(what: String, (one, other): (f64, f64), gain: Estimated, why_not: &str) -> Row {
    let published = libm::round((one / other - 1.0) * 1_000.0) / 1_000.0;
    let reason = "a quarter of the gain, at least the rounding of the published figures: a guess, \
        since the drives differ";
    let tolerance = (OF_GAIN * published.abs()).max(ROUNDING);
    Row::new(what, "gain", Judged::effect(published, gain, tolerance, reason), why_not)
}

/// A throughput beside the published one.
pub(super) fn throughput(what: String, published: f64, iops: Estimated, why_not: &str) -> Row {
    let reason = "5 %, a guess: two simulators of similar drives";
    let judged = Judged::effect(published, iops, TOLERANCE * published, reason);
    Row::new(what, "IOPS", judged, why_not)
}

/// The common parameters of these experiments.
pub(super) fn parameters(requests: u64) -> Vec<FixedParameter> {
    vec![
        FixedParameter::new(
            "workload",
            "4 KiB reads, uniform addresses over the whole drive, closed loop without think time",
        ),
        FixedParameter::new(
            "drives",
            "atlas10k, nearline-20tb: nominal drives without noise [exceptions named in rows]",
        ),
        FixedParameter::new(
            "requests counted",
            format!("{requests} a point, after a tenth as many of warm-up"),
        ),
        FixedParameter::new(
            "intervals",
            "95 %, by batch means within one run; of ratios as if both were independent",
        ),
    ]
}

/// The common notes of these experiments.
pub(super) fn notes() -> Vec<String> {
    [
        "The published figures are those of a prototype simulator with its own drive models, not \
            of a paper or a real drive.",
        "Every policy receives the same addresses in the same order of arrival.",
        "A row marked oracle uses the simulated drive's truth, which no program knows of a real \
            drive.",
    ]
    .map(str::to_string)
    .to_vec()
}
