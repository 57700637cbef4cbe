//! [`TraceArguments`]: the options for reading a trace, the same in every command that reads one.

use clap::{Args, ValueEnum};
use headtime_units::{Nanos, parse_nanos};
use headtime_workload::trace::{
    self, Action, Adjust, Format, Remap, Replay, ReplayOptions, Streams, TimeScale,
};

use super::TraceOptions;

/// The options for reading and replaying a trace.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Traces")]
pub struct TraceArguments {
    /// Format of the trace, from `headtime trace formats` [default: detected]
    #[arg(long, value_name = "NAME", value_parser = format)]
    pub format: Option<&'static Format>,
    /// End at the first damaged line or record instead of skipping it
    #[arg(long)]
    pub strict: bool,
    /// blktrace and blkparse: event that gives a request its time
    #[arg(long, value_enum, default_value_t = ActionName::Queue)]
    pub action: ActionName,
    /// Scale times: 2 is twice as slow, 0.5 twice as fast
    #[arg(long, value_name = "FACTOR", default_value = "1", value_parser = time_scale)]
    pub time_scale: TimeScale,
    /// Skip requests earlier than this after the first request of the trace
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_nanos)]
    pub from: Nanos,
    /// Skip requests at this time after the first request of the trace, or later
    #[arg(long, value_name = "TIME", value_parser = parse_nanos)]
    pub until: Option<Nanos>,
    /// Skip this many of the remaining requests
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub skip: u64,
    /// Maximum number of requests to take after that
    #[arg(long, value_name = "N")]
    pub take: Option<u64>,
    /// Take only this device or volume: its number, or MAJOR,MINOR; may be repeated
    #[arg(long = "device", value_name = "NUMBER", value_parser = device)]
    pub devices: Vec<u32>,
    /// Take only this process; may be repeated
    #[arg(long = "process", value_name = "PID")]
    pub processes: Vec<u32>,
    /// Number of requests buffered to sort the trace by time; a request later than that is moved
    #[arg(long, value_name = "N", default_value_t = trace::REORDER_WINDOW, value_parser = window)]
    pub reorder: usize,
}

/// The options for mapping a trace's addresses to a drive.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Traces")]
pub struct PlacingArguments {
    /// Mapping of the trace's addresses to the drive
    #[arg(long, value_enum, default_value_t = RemapName::None)]
    pub remap: RemapName,
    /// Skip requests that do not fit the drive instead of ending at the first
    #[arg(long)]
    pub drop_misfits: bool,
}

/// The options for replaying a trace's requests on a drive.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Traces")]
pub struct ReplayArguments {
    /// Mapping of addresses.
    #[command(flatten)]
    pub placing: PlacingArguments,
    /// Timing of requests: `open` at their recorded times, `closed:N` as fast as they are served, N
    /// at a time, `think` one at a time with think times
    #[arg(long, value_name = "HOW", default_value = "open", value_parser = replay)]
    pub replay: Replay,
    /// Division of the trace into streams
    #[arg(long, value_enum, default_value_t = StreamsName::One)]
    pub streams: StreamsName,
}

impl TraceArguments {
    /// The options, without a replay.
    pub fn options(&self) -> TraceOptions {
        TraceOptions {
            format: self.format,
            strict: self.strict,
            action: match self.action {
                ActionName::Queue => Action::Queue,
                ActionName::Issue => Action::Issue,
            },
            adjust: Adjust {
                from: self.from,
                until: self.until,
                devices: self.devices.clone(),
                processes: self.processes.clone(),
                skip: self.skip,
                take: self.take,
                scale: self.time_scale,
                window: self.reorder,
            },
            ..TraceOptions::default()
        }
    }

    /// The options with a replay; `deadline` is the time from a request's arrival to its deadline.
    pub fn replaying(&self, replay: &ReplayArguments, deadline: Option<Nanos>) -> TraceOptions {
        let replay_options =
            ReplayOptions { replay: replay.replay, streams: replay.streams.streams(), deadline };
        TraceOptions { replay: replay_options, ..self.placing(&replay.placing) }
    }

    /// The options with a mapping of addresses, without a replay.
    pub fn placing(&self, placing: &PlacingArguments) -> TraceOptions {
        TraceOptions {
            remap: placing.remap.remap(),
            drop_misfits: placing.drop_misfits,
            ..self.options()
        }
    }
}

/// Names of [`Action`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ActionName {
    /// Submission to the block layer (Q)
    Queue,
    /// Dispatch to the drive (D)
    Issue,
}

/// Names of [`Remap`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RemapName {
    /// Unchanged; a request that does not fit is refused
    None,
    /// Modulo the drive's size
    Wrap,
    /// Scaled to the drive in large pieces
    Scale,
    /// All addresses of the trace packed at the start of the drive
    Compact,
}

impl RemapName {
    /// The value that it names.
    pub fn remap(self) -> Remap {
        match self {
            Self::None => Remap::None,
            Self::Wrap => Remap::Wrap,
            Self::Scale => Remap::Scale,
            Self::Compact => Remap::Compact,
        }
    }
}

/// Names of [`Streams`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StreamsName {
    /// One stream for the whole trace
    One,
    /// One stream for each device or volume
    Device,
    /// One stream for each process
    Process,
}

impl StreamsName {
    /// The value that it names.
    pub fn streams(self) -> Streams {
        match self {
            Self::One => Streams::One,
            Self::Device => Streams::Device,
            Self::Process => Streams::Process,
        }
    }
}

impl TraceOptions {
    /// The options of a workload that is a trace: its addresses wrap around the drive.
    pub fn wrapped() -> Self {
        Self { remap: Remap::Wrap, ..Self::default() }
    }

    /// Sets the option `name` as the flag of `headtime sim` of this name does.
    ///
    /// # Errors
    /// When there is no such option, or it does not take this value; with what it takes.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "remap" => {
                self.remap = RemapName::from_str(value, false)
                    .map_err(|_| "expected none, wrap, scale or compact".to_string())?
                    .remap();
            }
            "replay" => self.replay.replay = replay(value)?,
            "time_scale" => self.adjust.scale = time_scale(value)?,
            _ => return Err("expected remap, replay or time_scale".to_string()),
        }
        Ok(())
    }
}

/// The format of this name, for command lines.
///
/// # Errors
/// No format has this name; the message lists all formats.
pub fn format(name: &str) -> Result<&'static Format, String> {
    trace::format(name).ok_or_else(|| {
        let names: Vec<&str> = trace::FORMATS.iter().map(|format| format.name).collect();
        format!("expected one of {}", names.join(", "))
    })
}

fn time_scale(text: &str) -> Result<TimeScale, String> {
    let millionths = text
        .parse::<f64>()
        .ok()
        .map(|factor| (factor * 1e6).round())
        .filter(|millionths| (1.0..=1e12).contains(millionths));
    millionths
        .map(|millionths| TimeScale::from_millionths(millionths as u64))
        .ok_or_else(|| "expected a factor from 0.000001 to 1000000, such as 0.5".to_string())
}

fn device(text: &str) -> Result<u32, String> {
    let number = match text.split_once([',', ':']) {
        None => text.parse().ok(),
        Some((major, minor)) => {
            let parts = major.parse::<u32>().ok().zip(minor.parse::<u32>().ok());
            parts
                .filter(|(major, minor)| *major < 1 << 12 && *minor < 1 << 20)
                .map(|(major, minor)| major << 20 | minor)
        }
    };
    number.ok_or_else(|| "expected a whole number, or MAJOR,MINOR such as 8,16".to_string())
}

fn window(text: &str) -> Result<usize, String> {
    const MOST: usize = 10_000_000;
    text.parse()
        .ok()
        .filter(|window| *window <= MOST)
        .ok_or_else(|| format!("expected a whole number up to {MOST}"))
}

fn replay(text: &str) -> Result<Replay, String> {
    let closed = |count: &str| {
        count.parse().ok().filter(|outstanding| (1..=1_000_000).contains(outstanding))
    };
    match (text, text.strip_prefix("closed:").and_then(closed)) {
        ("open", _) => Ok(Replay::Open),
        ("think", _) => Ok(Replay::Think),
        (_, Some(outstanding)) => Ok(Replay::Closed { outstanding }),
        _ => Err("expected open, think, or closed:N with N from 1 to 1000000, such as closed:16"
            .to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_devices_and_replays_are_accepted_or_refused() {
        for (text, millionths) in [
            ("1", Some(1_000_000)),
            ("0.5", Some(500_000)),
            ("1e-6", Some(1)),
            ("0", None),
            ("-1", None),
            ("nan", None),
            ("x", None),
        ] {
            assert_eq!(time_scale(text).ok().map(TimeScale::millionths), millionths, "{text}");
        }
        for (text, number) in [
            ("7", Some(7)),
            ("8,16", Some(8 << 20 | 16)),
            ("8:0", Some(8 << 20)),
            ("4096,0", None),
            ("8,", None),
            ("-1", None),
        ] {
            assert_eq!(device(text).ok(), number, "{text}");
        }
        for (text, expected) in [
            ("open", Some(Replay::Open)),
            ("think", Some(Replay::Think)),
            ("closed:16", Some(Replay::Closed { outstanding: 16 })),
            ("closed", None),
            ("closed:0", None),
            ("Open", None),
        ] {
            assert_eq!(replay(text).ok(), expected, "{text}");
        }
    }
}
