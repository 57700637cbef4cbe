//! [`SimOutput`]: what `headtime sim` prints, as JSON and for people.

use headtime_mechanics::NoiseLevel;
use headtime_sim::{Confidence, Measures, StreamFigures};
use serde::Serialize;

use super::Pacing;
use crate::traces::TraceSummary;
use crate::workloads::StreamLabel;
use headtime_console::figures::show_percent;
use headtime_console::output::columns;

/// The JSON output: the measurements and their parameters.
#[derive(Debug, Serialize)]
pub struct SimOutput {
    /// The measures.
    #[serde(flatten)]
    pub measures: Measures,
    /// Requests that ended in an error; they count in no other figure.
    pub failed: u64,
    /// The level of noise.
    pub noise: NoiseLevel,
    /// Half-widths of 95 % intervals; null for runs too short to tell.
    pub confidence_95: Confidence,
    /// The figures of each stream; empty for a single stream.
    pub streams: Vec<StreamAnswer>,
    /// The figures of each class of streams; empty for a single stream.
    pub classes: Vec<ClassAnswer>,
    /// The parameters of the run.
    pub parameters: SimParameters,
    /// The report on the trace's records; null without a trace.
    pub trace: Option<TraceSummary>,
    /// Notes on the workload, such as ignored options of a fio job.
    pub notes: Vec<String>,
    /// The version of the program.
    pub version: &'static str,
}

/// The figures of one stream.
#[derive(Debug, Serialize)]
pub struct StreamAnswer {
    /// Its name.
    pub name: String,
    /// The class that its figures are added to.
    pub class: String,
    /// Its figures.
    #[serde(flatten)]
    pub figures: StreamFigures,
}

/// The figures of one class of streams.
#[derive(Debug, Serialize)]
pub struct ClassAnswer {
    /// The class.
    pub class: String,
    /// The names of its streams.
    pub streams: Vec<String>,
    /// Their figures together.
    #[serde(flatten)]
    pub figures: StreamFigures,
}

/// The arguments as they were understood. What a workload or a trace says itself is null.
#[derive(Debug, Serialize)]
pub struct SimParameters {
    pub(super) policy: String,
    pub(super) drive: String,
    /// The workload as it was written.
    pub(super) workload: Option<String>,
    /// The checksum of all that decides its requests.
    pub(super) workload_fingerprint: Option<String>,
    /// The trace's files.
    pub(super) trace: Option<Vec<String>>,
    pub(super) clients: Option<u32>,
    pub(super) depth: Option<u32>,
    pub(super) think_ms: Option<f64>,
    pub(super) rate_per_second: Option<f64>,
    pub(super) pacing: Option<Pacing>,
    pub(super) outstanding: Option<usize>,
    /// The drive model, if it is not the profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) belief: Option<String>,
    /// Tunables of the scheduler.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) set: Vec<String>,
    pub(super) size_bytes: Option<u64>,
    pub(super) reads: Option<f64>,
    pub(super) run_length: Option<u64>,
    pub(super) deadline_ms: Option<f64>,
    /// Requests counted; null where time or the trace's end decides.
    pub(super) requests: Option<u64>,
    /// Seconds counted; null where the number of requests decides.
    pub(super) seconds: Option<f64>,
    /// Requests before counting began; null where time decided.
    pub(super) warmup: Option<u64>,
    /// Seconds before counting began; null where the number of requests decided.
    pub(super) warmup_seconds: Option<f64>,
}

/// Streams and classes with their names; nothing where there is one stream only.
pub(super) fn by_stream(
    measures: &Measures,
    labels: &[StreamLabel],
) -> (Vec<StreamAnswer>, Vec<ClassAnswer>) {
    let mut joined: Vec<(String, Vec<String>, headtime_sim::StreamMeasures)> = Vec::new();
    let mut streams = Vec::new();
    for (label, stream) in labels.iter().zip(&measures.streams) {
        streams.push(StreamAnswer {
            name: label.name.clone(),
            class: label.class.clone(),
            figures: stream.figures(),
        });
        match joined.iter_mut().find(|(class, ..)| *class == label.class) {
            Some((_, names, sum)) => {
                names.push(label.name.clone());
                sum.join(stream);
            }
            None => joined.push((label.class.clone(), vec![label.name.clone()], stream.clone())),
        }
    }
    let classes = joined
        .into_iter()
        .map(|(class, streams, sum)| ClassAnswer { class, streams, figures: sum.figures() })
        .collect();
    (streams, classes)
}

/// The remark on an open loop that the drive does not keep up with.
pub(super) fn overload(offered_per_second: f64, measures: &Measures) -> Option<String> {
    /// Random arrivals of a short run differ by a few percent.
    const KEPT: f64 = 0.95;
    (measures.iops < KEPT * offered_per_second).then(|| {
        format!(
            "the load of {offered_per_second} requests/s exceeds what the drive does under this \
                policy ({:.1} requests/s): the queue grows as long as the run lasts, and so do the \
                response times; lower --rate",
            measures.iops
        )
    })
}

/// The answer for people.
pub(super) fn table(answer: &SimOutput) -> String {
    let SimOutput { measures, parameters, .. } = answer;
    let load = match parameters {
        SimParameters { trace: Some(files), .. } => format!("trace {}", files.join(", ")),
        SimParameters { workload: Some(workload), depth: Some(depth), .. } => {
            format!("{workload} at depth {depth}")
        }
        SimParameters { workload: Some(workload), .. } => workload.clone(),
        SimParameters { clients: Some(clients), .. } => format!("{clients} clients"),
        SimParameters { rate_per_second, .. } => {
            format!("{} requests/s", rate_per_second.unwrap_or(0.0))
        }
    };
    let outstanding = parameters.outstanding.map_or_else(
        || "as many at the drive as the policy likes".to_string(),
        |limit| format!("{limit} at the drive"),
    );
    let mut text = format!(
        "{} on {}, noise {}, seed {}: {load}, {outstanding}\n\n",
        parameters.policy, measures.drive, answer.noise, measures.seed
    );
    let within = |half_width: Option<f64>| {
        half_width.map_or_else(String::new, |half_width| format!(" ± {half_width:.1}"))
    };
    let mut rows = vec![
        vec![
            "requests".to_string(),
            format!("{} in {:.1} simulated s", measures.requests, measures.simulated_seconds),
        ],
        vec![
            "rate".to_string(),
            format!(
                "{:.1}{} IOPS, {:.2} MiB/s",
                measures.iops,
                within(answer.confidence_95.iops),
                measures.mib_per_second
            ),
        ],
        vec!["mean queue depth".to_string(), format!("{:.2}", measures.queue_depth_mean)],
    ];
    if measures.deadline_requests > 0 {
        rows.push(vec![
            "deadlines missed".to_string(),
            misses(measures.deadline_misses, measures.deadline_requests),
        ]);
    }
    if answer.failed > 0 {
        rows.push(vec!["failed".to_string(), answer.failed.to_string()]);
    }
    if let Some(scan) = &measures.scan {
        rows.push(vec![
            "scan".to_string(),
            format!(
                "{:.2} MB/s: gaps {:.2}, with requests {:.2}, idle {:.2}, share {:.2}; mean \
                    response {} longer by estimate",
                scan.mb_per_second,
                scan.gap_mb_per_second,
                scan.merged_mb_per_second,
                scan.idle_mb_per_second,
                scan.share_mb_per_second,
                show_percent(scan.estimated_impact),
            ),
        ]);
    }
    text.push_str(&columns(&rows, &[false, false]));
    let mut rows =
        vec![["ms", "mean", "p50", "p95", "p99", "p99.9", "max"].map(str::to_string).to_vec()];
    for (name, times) in [("response", &measures.response_ms), ("service", &measures.service_ms)] {
        let values = [times.mean, times.p50, times.p95, times.p99, times.p999, times.max]
            .map(|value| format!("{value:.2}"));
        rows.push([vec![name.to_string()], values.to_vec()].concat());
    }
    text.push('\n');
    text.push_str(&columns(&rows, &[false, true, true, true, true, true, true]));
    if !answer.streams.is_empty() {
        text.push('\n');
        text.push_str(&streams_table(answer));
    }
    let spent = &measures.disk_time;
    let all = spent.total().as_secs_f64().max(f64::MIN_POSITIVE);
    let parts = [
        ("seek", spent.seek),
        ("rotate", spent.rotate),
        ("transfer", spent.transfer),
        ("overhead", spent.overhead),
        ("own work", spent.background),
        ("idle", spent.idle),
    ];
    let parts: Vec<String> = parts
        .iter()
        .map(|(name, time)| format!("{name} {}", show_percent(time.as_secs_f64() / all)))
        .collect();
    text.push_str(&format!("\ndisk time: {}\n", parts.join(", ")));
    for note in &answer.notes {
        text.push_str(&format!("note: {note}\n"));
    }
    text
}

fn streams_table(answer: &SimOutput) -> String {
    let head = [
        "stream",
        "class",
        "requests",
        "IOPS",
        "MiB/s",
        "disk time",
        "mean ms",
        "p50",
        "p99",
        "max",
        "deadlines missed",
    ];
    let mut rows = vec![head.map(str::to_string).to_vec()];
    let mut row = |name: &str, class: &str, figures: &StreamFigures| {
        let times = &figures.response_ms;
        let missed = if figures.deadline_requests > 0 {
            misses(figures.deadline_misses, figures.deadline_requests)
        } else {
            "–".to_string()
        };
        let numbers = [
            figures.requests.to_string(),
            format!("{:.1}", figures.iops),
            format!("{:.2}", figures.mib_per_second),
            show_percent(figures.disk_time_share),
            format!("{:.2}", times.mean),
            format!("{:.2}", times.p50),
            format!("{:.2}", times.p99),
            format!("{:.2}", times.max),
            missed,
        ];
        rows.push([vec![name.to_string(), class.to_string()], numbers.to_vec()].concat());
    };
    for stream in &answer.streams {
        row(&stream.name, &stream.class, &stream.figures);
    }
    // A class of one stream would say the same again.
    for class in answer.classes.iter().filter(|class| class.streams.len() > 1) {
        row(&format!("all {}", class.streams.len()), &class.class, &class.figures);
    }
    columns(&rows, &[false, false, true, true, true, true, true, true, true, true, true])
}

fn misses(missed: u64, of: u64) -> String {
    format!("{missed} of {of} ({})", show_percent(missed as f64 / of as f64))
}
