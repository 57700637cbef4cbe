//! [`COLUMNS`]: the columns of `results.csv`, and of `results.parquet` where that is built in.

use super::outcome::{CellEnd, CellOutcome, Figures, StreamOutcome};
use super::plan::Case;
use super::results::Comparison;

/// One column.
pub struct Column {
    /// Its name, the unit as suffix.
    pub name: &'static str,
    /// The kind of its values.
    pub kind: ColumnKind,
    /// The value of one line.
    pub of: fn(&Line<'_>) -> CellValue,
}

/// The kind of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Texts.
    Text,
    /// Whole numbers.
    Whole,
    /// Numbers.
    Number,
    /// Yes or no.
    YesNo,
}

/// One value; `None` where there is nothing to say.
#[derive(Clone, Debug, PartialEq)]
pub enum CellValue {
    /// Of [`ColumnKind::Text`].
    Text(Option<String>),
    /// Of [`ColumnKind::Whole`].
    Whole(Option<i64>),
    /// Of [`ColumnKind::Number`].
    Number(Option<f64>),
    /// Of [`ColumnKind::YesNo`].
    YesNo(bool),
}

/// One stream, or all of them, of one cell.
#[derive(Clone, Copy)]
pub struct Line<'a> {
    /// The comparison.
    pub comparison: &'a Comparison,
    /// The case.
    pub case: &'a Case,
    /// The policy's place.
    pub policy: usize,
    /// The replica's seed.
    pub seed: u64,
    /// The results, or the reason why there are none.
    pub replica: Result<&'a CellOutcome, &'a String>,
    /// The stream; `None` for all together.
    pub stream: Option<&'a StreamOutcome>,
}

impl<'a> Line<'a> {
    /// The figures of the stream, or of all together.
    fn figures(&self) -> Option<&'a Figures> {
        self.stream
            .map(|stream| &stream.figures)
            .or(self.replica.ok().map(|outcome| &outcome.total))
    }

    /// The results of the whole cell, in its own line only.
    fn whole(&self) -> Option<&'a CellOutcome> {
        self.replica.ok().filter(|_| self.stream.is_none())
    }
}

/// A column whose values may be missing: `?` in the expression leaves the value out.
macro_rules! column {
    ($kind:ident, $name:literal, |$line:ident| $value:expr) => {
        Column {
            name: $name,
            kind: ColumnKind::$kind,
            of: |$line| {
                let of = || $value;
                CellValue::$kind(of())
            },
        }
    };
}

/// Every column, in order.
pub const COLUMNS: &[Column] = &[
    column!(Text, "drive", |line| Some(line.comparison.plan.drives[line.case.drive].text.clone())),
    column!(Text, "workload", |line| Some(
        line.comparison.plan.workloads[line.case.workload].name.clone()
    )),
    column!(Whole, "depth", |line| line.case.depth.map(i64::from)),
    column!(Text, "policy", |line| Some(line.comparison.plan.policies[line.policy].policy.clone())),
    column!(Text, "belief", |line| Some(line.comparison.plan.belief(line.policy).to_string())),
    Column {
        name: "oracle",
        kind: ColumnKind::YesNo,
        of: |line| CellValue::YesNo(line.comparison.plan.policies[line.policy].entry.oracle),
    },
    column!(Whole, "seed", |line| i64::try_from(line.seed).ok()),
    column!(Text, "stream", |line| Some(
        line.stream.map_or(ALL_STREAMS, |stream| &stream.name).to_string()
    )),
    column!(Text, "class", |line| line.stream.map(|stream| stream.class.clone())),
    column!(Text, "status", |line| Some(
        line.replica.map_or("failed", |outcome| outcome.status().written()).to_string()
    )),
    column!(Text, "error", |line| line.replica.err().cloned()),
    column!(Whole, "requests", |line| count(line.figures()?.requests)),
    column!(Whole, "failed_requests", |line| count(line.figures()?.failed_requests)),
    column!(Number, "simulated_seconds", |line| Some(line.whole()?.simulated_seconds)),
    column!(Number, "iops", |line| Some(line.figures()?.iops)),
    column!(Number, "iops_half_width_95", |line| line.figures()?.iops_half_width_95),
    column!(Number, "mib_per_second", |line| Some(line.figures()?.mib_per_second)),
    column!(Number, "response_ms_mean", |line| Some(counted(line)?.response_ms.mean)),
    column!(Number, "response_ms_mean_half_width_95", |line| line
        .figures()?
        .response_ms_mean_half_width_95),
    column!(Number, "response_ms_p50", |line| Some(counted(line)?.response_ms.p50)),
    column!(Number, "response_ms_p95", |line| Some(counted(line)?.response_ms.p95)),
    column!(Number, "response_ms_p99", |line| Some(counted(line)?.response_ms.p99)),
    column!(Number, "response_ms_p999", |line| Some(counted(line)?.response_ms.p999)),
    column!(Number, "response_ms_max", |line| Some(counted(line)?.response_ms.max)),
    column!(Number, "service_ms_mean", |line| Some(counted(line)?.service_ms.mean)),
    column!(Number, "service_ms_p99", |line| Some(counted(line)?.service_ms.p99)),
    column!(Whole, "deadline_requests", |line| count(line.figures()?.deadline_requests)),
    column!(Whole, "deadline_misses", |line| count(line.figures()?.deadline_misses)),
    column!(Number, "disk_time_share", |line| line.figures()?.disk_time_share),
    column!(Number, "progress", |line| line.figures()?.progress),
    column!(Number, "progress_sum", |line| line.figures()?.progress_sum),
    column!(Number, "progress_harmonic_mean", |line| line.figures()?.progress_harmonic_mean),
    column!(Text, "equal_load_status", |line| Some(
        line.whole()?.equal_load_status?.written().to_string()
    )),
    column!(Number, "equal_load_iops", |line| Some(line.figures()?.equal_load?.iops)),
    column!(Number, "equal_load_response_ms_mean", |line| Some(
        line.figures()?.equal_load?.response_ms_mean
    )),
    column!(Number, "equal_load_response_ms_p99", |line| Some(
        line.figures()?.equal_load?.response_ms_p99
    )),
    column!(Number, "scan_mb_per_second", |line| line.whole()?.scan_mb_per_second),
    column!(Number, "queue_depth_mean", |line| Some(line.whole()?.queue_depth_mean)),
    column!(Whole, "fell_behind_requests", |line| Some(line.whole()?.backlog_growth)),
    column!(Number, "seek_share", |line| Some(line.whole()?.disk_time.seek)),
    column!(Number, "rotate_share", |line| Some(line.whole()?.disk_time.rotate)),
    column!(Number, "transfer_share", |line| Some(line.whole()?.disk_time.transfer)),
    column!(Number, "overhead_share", |line| Some(line.whole()?.disk_time.overhead)),
    column!(Number, "idle_share", |line| Some(line.whole()?.disk_time.idle)),
    column!(Number, "background_share", |line| Some(line.whole()?.disk_time.background)),
    column!(Text, "ended", |line| line
        .replica
        .ok()
        .map(|outcome| ended_word(outcome.ended).to_string())),
    column!(Text, "version", |_line| Some(env!("CARGO_PKG_VERSION").to_string())),
];

/// The text of the column *stream* for all streams together.
pub const ALL_STREAMS: &str = "total";

impl CellValue {
    /// As text; empty where there is nothing.
    pub fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone().unwrap_or_default(),
            Self::Whole(number) => number.map_or_else(String::new, |number| number.to_string()),
            Self::Number(number) => number.map_or_else(String::new, |number| number.to_string()),
            Self::YesNo(yes) => yes.to_string(),
        }
    }
}

fn ended_word(ended: CellEnd) -> &'static str {
    match ended {
        CellEnd::Full => "full",
        CellEnd::Drained => "drained",
        CellEnd::QueueFull => "queue full",
    }
}

/// The figures, where there are any times in them.
fn counted<'a>(line: &Line<'a>) -> Option<&'a Figures> {
    line.figures().filter(|figures| figures.requests > 0)
}

fn count(number: u64) -> Option<i64> {
    i64::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_has_its_own_name_and_times_carry_their_unit() {
        for (place, column) in COLUMNS.iter().enumerate() {
            assert!(
                COLUMNS[..place].iter().all(|other| other.name != column.name),
                "{} stands in the table twice",
                column.name
            );
            let is_time = column.name.contains("response") || column.name.contains("service");
            assert_eq!(
                is_time,
                column.name.contains("_ms_"),
                "{} does not say its unit",
                column.name
            );
        }
    }
}
