//! `headtime trace`: says what a trace is made of, writes it in another format, lists the formats.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use clap::{Args, Subcommand};
use headtime_units::{ByteSize, SectorSize, parse_bytes};
use headtime_workload::Operation;
use headtime_workload::trace::{DeviceName, FORMATS, Format, Remap, TraceRecord};
use serde::Serialize;

use crate::traces::census::{Census, Figures, ValueDistribution};
use crate::traces::convert::{Converted, convert};
use crate::traces::{PlacingArguments, TraceArguments, TraceChoice, TraceReport, TraceSummary};
use headtime_console::Failure;
use headtime_console::output::{columns, print, print_json};

/// TraceCommandArguments of `headtime trace`.
#[derive(Debug, Args)]
pub struct TraceCommandArguments {
    /// Action
    #[command(subcommand)]
    pub verb: TraceVerb,
}

/// The actions on a trace.
#[derive(Debug, Subcommand)]
pub enum TraceVerb {
    /// Show the composition of a trace, in one pass
    Info(InfoArguments),
    /// Convert a trace, or a part of it, to another format
    Convert(Box<ConvertArguments>),
    /// List the supported formats
    Formats(FormatsArguments),
}

/// TraceCommandArguments of `headtime trace info`.
#[derive(Debug, Args)]
#[command(after_help = FILES_HELP)]
pub struct InfoArguments {
    /// Files of one trace, plain, .gz or .zst; - for standard input
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Selection and reading of the trace.
    #[command(flatten)]
    pub reading: TraceArguments,
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub json: bool,
}

/// TraceCommandArguments of `headtime trace convert`.
#[derive(Debug, Args)]
#[command(after_help = FILES_HELP)]
pub struct ConvertArguments {
    /// Files of one trace, plain, .gz or .zst; - for standard input
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Format to write
    #[arg(long, value_name = "FORMAT", value_parser = crate::traces::format)]
    pub to: &'static Format,
    /// File to write, compressed if it ends in .gz or .zst; an existing file is replaced once the
    /// new one is complete
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Selection and reading of the trace.
    #[command(flatten)]
    pub reading: TraceArguments,
    /// Mapping of addresses.
    #[command(flatten)]
    pub placing: PlacingArguments,
    /// Size of the drive that addresses are mapped to [default: addresses stay unchanged]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, help_heading = "Traces")]
    pub capacity: Option<ByteSize>,
    /// Sector size of that drive, 512 or 4096
    #[arg(
        long,
        value_name = "BYTES",
        default_value = "512",
        value_parser = sector,
        requires = "capacity",
        help_heading = "Traces"
    )]
    pub sector: SectorSize,
    /// Print one JSON object instead of sentences
    #[arg(long)]
    pub json: bool,
}

/// TraceCommandArguments of `headtime trace formats`.
#[derive(Debug, Args)]
pub struct FormatsArguments {
    /// Print a JSON array instead of a table
    #[arg(long)]
    pub json: bool,
}

const FILES_HELP: &str = "\
Several files are one trace, such as the files that blktrace writes for each processor; they are \
merged by time.
The format is found by looking at the first file. Times begin at 0 with the first request that is \
left.";

/// Does it.
pub fn run(arguments: &TraceCommandArguments) -> Result<(), Failure> {
    match &arguments.verb {
        TraceVerb::Info(arguments) => info(arguments),
        TraceVerb::Convert(arguments) => run_convert(arguments),
        TraceVerb::Formats(arguments) => formats(arguments),
    }
}

/// The JSON output of `headtime trace info`.
#[derive(Debug, Serialize)]
struct Info {
    files: Vec<String>,
    format: &'static str,
    recognized_by: String,
    #[serde(flatten)]
    figures: Figures,
    reading: TraceSummary,
}

fn info(arguments: &InfoArguments) -> Result<(), Failure> {
    let trace = TraceChoice::open(&arguments.files, arguments.reading.options())?;
    let (records, report) = trace.records()?;
    let mut census = Census::default();
    for record in records {
        count_empty(&record, &report);
        census.add(&record);
    }
    report.check()?;
    let info = Info {
        files: arguments.files.iter().map(|file| file.display().to_string()).collect(),
        format: trace.format().name,
        recognized_by: recognized_by(&trace),
        figures: census.figures(),
        reading: report.summary(),
    };
    if arguments.json {
        print_json(&info)
    } else {
        print(&table(&info, trace.format(), &trace.name(), &report))
    }
}

/// Counts a request that a replay leaves out.
fn count_empty(record: &TraceRecord, report: &TraceReport) {
    if record.len_bytes == 0 && record.operation != Operation::Flush {
        report.counts().empty.add();
    }
}

fn recognized_by(trace: &TraceChoice) -> String {
    match trace.detection() {
        None => "--format".to_string(),
        Some(seen) => {
            let parts = if seen.format.text { "lines" } else { "records" };
            format!("{} of the first {} {parts}", seen.fitting, seen.fitting + seen.damaged)
        }
    }
}

fn table(info: &Info, format: &Format, name: &str, report: &TraceReport) -> String {
    let Info { figures, reading, .. } = info;
    let mut rows = vec![
        vec![
            "format".to_string(),
            format!("{} ({}), by {}", format.name, format.about, info.recognized_by),
        ],
        vec!["requests".to_string(), format!("{}{}", figures.requests, damaged(reading))],
        vec!["lasts".to_string(), lasts(figures)],
    ];
    for (operation, amount) in &figures.operations {
        let share = headtime_console::figures::show_percent(
            amount.requests as f64 / figures.requests.max(1) as f64,
        );
        rows.push(vec![
            (*operation).to_string(),
            format!(
                "{} ({share}), {:.1} MiB",
                amount.requests,
                amount.bytes as f64 / f64::from(1 << 20)
            ),
        ]);
    }
    if figures.fua > 0 {
        rows.push(vec!["with FUA".to_string(), format!("{} writes", figures.fua)]);
    }
    if let Some(share) = figures.sequential {
        rows.push(vec![
            "sequential".to_string(),
            format!("{} of reads and writes", headtime_console::figures::show_percent(share)),
        ]);
    }
    if figures.processes > 0 {
        rows.push(vec![
            "processes".to_string(),
            format!(
                "{}{}",
                figures.processes,
                if figures.further_processes { " and more" } else { "" }
            ),
        ]);
    }
    if let Some(most) = figures.max_outstanding {
        rows.push(vec![
            "outstanding".to_string(),
            format!("{most} at most, by the recorded response times"),
        ]);
    }
    let mut text = format!("{name}\n\n{}", columns(&rows, &[false, false]));
    text.push_str(&distributions(figures));
    text.push_str(&devices(figures, format));
    if let Some(note) = implausible_times(figures) {
        let _ = writeln!(text, "\n{note}");
    }
    for note in report.notes() {
        // Writing to a string does not fail.
        let _ = writeln!(text, "\n{note}");
    }
    text
}

fn damaged(reading: &TraceSummary) -> String {
    if reading.damaged == 0 {
        String::new()
    } else {
        format!(", and {} damaged lines or records", reading.damaged)
    }
}

/// The remark on a trace whose times are probably in another unit than its format has.
fn implausible_times(figures: &Figures) -> Option<String> {
    /// A busy disk has more requests in a minute, and no disk has as many in a second (guesses).
    const MIN_PER_S: f64 = 1.0 / 60.0;
    const MAX_PER_S: f64 = 1e7;
    let rate = figures.rate_per_s.filter(|_| figures.duration_s > 0.0)?;
    let (is, factor) = match rate {
        rate if rate < MIN_PER_S => ("few", "smaller, such as nanoseconds for milliseconds"),
        rate if rate > MAX_PER_S => ("many", "larger, such as seconds for milliseconds"),
        _ => return None,
    };
    Some(format!(
        "warning: {rate:.6} requests/s in {:.0} s are implausibly {is}; the times in the file may \
            be in a unit that is {factor}. Check the format (--format), or scale the times with \
            --time-scale",
        figures.duration_s
    ))
}

fn lasts(figures: &Figures) -> String {
    let rate =
        figures.rate_per_s.map_or_else(String::new, |rate| format!(", {rate:.1} requests/s"));
    format!("{:.3} s{rate}", figures.duration_s)
}

fn distributions(figures: &Figures) -> String {
    let mut rows = vec![["", "mean", "p50", "p95", "p99", "max"].map(str::to_string).to_vec()];
    let kinds = [
        ("size, KiB", &figures.size_bytes, 1024.0),
        ("between requests, ms", &figures.interarrival_us, 1e3),
        ("response, ms", &figures.response_us, 1e3),
    ];
    for (name, distribution, unit) in kinds {
        let Some(ValueDistribution { mean, p50, p95, p99, max }) = distribution else { continue };
        rows.push(
            [
                vec![name.to_string()],
                [mean, p50, p95, p99, max].map(|value| format!("{:.3}", value / unit)).to_vec(),
            ]
            .concat(),
        );
    }
    if rows.len() == 1 {
        String::new()
    } else {
        format!("\n{}", columns(&rows, &[false, true, true, true, true, true]))
    }
}

/// Devices shown one by one.
const MAX_SHOWN: usize = 10;

fn devices(figures: &Figures, format: &Format) -> String {
    let mut rows =
        vec![["device", "requests", "MiB", "from, GiB", "to, GiB"].map(str::to_string).to_vec()];
    let gib = |bytes: u64| format!("{:.3}", bytes as f64 / f64::from(1 << 30));
    let mut known = figures.devices.clone();
    known.sort_by_key(|device| std::cmp::Reverse(device.amount.requests));
    for device in known.iter().take(MAX_SHOWN) {
        rows.push(vec![
            device_name(format, device.device),
            device.amount.requests.to_string(),
            format!("{:.1}", device.amount.bytes as f64 / f64::from(1 << 20)),
            gib(device.first_byte),
            gib(device.end_byte),
        ]);
    }
    let mut text = format!("\n{}", columns(&rows, &[false, true, true, true, true]));
    if known.len() > MAX_SHOWN || figures.of_further_devices > 0 {
        let _ = writeln!(
            text,
            "{} devices in all, of which those with the most requests are shown; --json has them \
                all",
            known.len()
        );
    }
    text
}

fn device_name(format: &Format, device: u32) -> String {
    match format.device {
        DeviceName::MajorMinor => format!("{},{}", device >> 20, device & 0xf_ffff),
        DeviceName::HostAndDisk if device >> 16 > 0 => {
            format!("{device} (host {}, disk {})", device >> 16, device & 0xffff)
        }
        _ => device.to_string(),
    }
}

/// The JSON output of `headtime trace convert`.
#[derive(Debug, Serialize)]
struct Answer {
    out: String,
    from: &'static str,
    to: &'static str,
    written: u64,
    /// The properties that the format cannot express, and their counts.
    lost: std::collections::BTreeMap<String, u64>,
    reading: TraceSummary,
}

fn run_convert(arguments: &ConvertArguments) -> Result<(), Failure> {
    if arguments.placing.remap.remap() != Remap::None && arguments.capacity.is_none() {
        return Err(Failure::Usage(anyhow!(
            "--remap maps addresses to a drive, whose size is not given; add --capacity SIZE, such \
                as --capacity 4TB"
        )));
    }
    let trace = TraceChoice::open(&arguments.files, arguments.reading.placing(&arguments.placing))?;
    let (converted, report) = match arguments.capacity {
        None => {
            let (records, report) = trace.records()?;
            let records = records.inspect(|record| count_empty(record, &report));
            (write(arguments, records, &report)?, report)
        }
        Some(bytes) => {
            let sector = arguments.sector;
            let capacity = sector
                .sectors_of(bytes.get() / u64::from(sector.bytes()) * u64::from(sector.bytes()));
            let capacity = capacity
                .context("--capacity is no whole number of sectors")
                .map_err(Failure::Usage)?;
            let (placed, report) = trace.placed(sector, capacity)?;
            let records = placed.map(|placed| TraceRecord {
                // One drive is left of however many there were.
                device: 0,
                offset_bytes: sector.offset_of(placed.extent.start),
                len_bytes: sector.bytes_of(placed.extent.len),
                ..placed.record
            });
            (write(arguments, records, &report)?, report)
        }
    };
    let answer = Answer {
        out: arguments.out.display().to_string(),
        from: trace.format().name,
        to: arguments.to.name,
        written: converted.written,
        lost: converted.losses.all().map(|(loss, count)| (loss.to_string(), count)).collect(),
        reading: report.summary(),
    };
    if arguments.json {
        return print_json(&answer);
    }
    let mut text = format!(
        "{}: {} requests of {} written as {}\n",
        answer.out,
        answer.written,
        trace.name(),
        answer.to
    );
    for (loss, count) in converted.losses.all() {
        let _ = writeln!(text, "{}: {count} {loss}", answer.out);
    }
    for note in report.notes() {
        let _ = writeln!(text, "{note}");
    }
    print(&text)
}

fn write(
    arguments: &ConvertArguments,
    records: impl Iterator<Item = TraceRecord>,
    report: &TraceReport,
) -> Result<Converted, Failure> {
    convert(records, arguments.to, &arguments.out, || report.check())
}

/// The JSON output of `headtime trace formats` for one format.
#[derive(Debug, Serialize)]
struct Line {
    name: &'static str,
    about: &'static str,
    shape: &'static str,
    endings: &'static [&'static str],
    times_from: &'static str,
}

fn formats(arguments: &FormatsArguments) -> Result<(), Failure> {
    if arguments.json {
        let line = |format: &Format| Line {
            name: format.name,
            about: format.about,
            shape: format.shape,
            endings: format.endings,
            times_from: format.origin,
        };
        return print_json(&FORMATS.iter().map(line).collect::<Vec<_>>());
    }
    let rows: Vec<Vec<String>> = FORMATS
        .iter()
        .map(|format| [format.name, format.about, format.shape].map(str::to_string).to_vec())
        .collect();
    print(&columns(&rows, &[false, false, false]))
}

fn sector(text: &str) -> Result<SectorSize, String> {
    text.parse().ok().and_then(SectorSize::new).ok_or_else(|| "expected 512 or 4096".to_string())
}
