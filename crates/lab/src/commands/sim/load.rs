//! [`Load`]: the source of requests: a stream described by options, a workload, or a trace.

use anyhow::{Context as _, anyhow};
use clap::{Args as _, FromArgMatches as _};
use headtime_mechanics::DriveProfile;
use headtime_sched::{DeadlineTable, IoPriority};
use headtime_units::Nanos;
use headtime_workload::trace::Streams;
use headtime_workload::{
    Arrivals, Interarrival, Mix, Order, RequestSource, Sizes, StreamConfig, ThinkTime, Workload,
};

use super::{Pacing, SimArguments};
use crate::drives::SimDrive;
use crate::traces::{
    ReplayArguments, TraceArguments, TraceChoice, TraceOptions, TraceReport, TraceSummary,
};
use crate::workloads::{Service, StreamLabel, WorkloadChoice};
use headtime_console::Failure;

/// The source of requests.
pub(super) enum Load {
    /// One stream, as the flags say.
    Flags(StreamConfig),
    /// A workload, with so many clients where that is left open.
    Workload { choice: WorkloadChoice, depth: Option<u32> },
    /// A trace.
    Trace { choice: TraceChoice, streams: Streams, report: Option<TraceReport> },
}

impl Load {
    /// The load that the arguments describe. `deadlines` by I/O priority apply to requests without
    /// one of their own; requests without a priority are best effort.
    pub(super) fn of(arguments: &SimArguments, deadlines: &DeadlineTable) -> Result<Self, Failure> {
        refuse_trace_flags(arguments)?;
        let deadline = arguments.deadline.or(deadlines.within(IoPriority::DEFAULT));
        if let Some(text) = &arguments.workload {
            let mut options = TraceOptions::wrapped();
            options.replay.deadline = deadline;
            let choice = WorkloadChoice::parse_with(text, &options)?.with_deadlines(deadlines);
            if arguments.depth.is_some() && !choice.takes_depth() {
                return Err(Failure::Usage(anyhow!(
                    "workload {} sets its own queue depth, so --depth has no \
                        meaning; leave it out, or write clients = \"depth\"",
                    choice.name()
                )));
            }
            return Ok(Self::Workload { choice, depth: arguments.depth });
        }
        if !arguments.trace.is_empty() {
            let options = arguments.trace_options.replaying(&arguments.replay_options, deadline);
            let streams = options.replay.streams;
            return Ok(Self::Trace {
                choice: TraceChoice::open(&arguments.trace, options)?,
                streams,
                report: None,
            });
        }
        of_flags(arguments, deadline).map(Self::Flags)
    }

    /// Returns true if all requests are measured by default.
    pub(super) fn is_finite(&self) -> bool {
        match self {
            Self::Flags(_) => false,
            Self::Workload { choice, .. } => choice.file().is_none(),
            Self::Trace { .. } => true,
        }
    }

    /// Returns true if the load may have several streams.
    pub(super) fn has_streams(&self) -> bool {
        match self {
            Self::Flags(_) => false,
            Self::Workload { choice, .. } => choice.streams().len() > 1,
            Self::Trace { streams, .. } => *streams != Streams::One,
        }
    }

    /// The terms of the streams and the scan beside them.
    pub(super) fn service(&self, profile: &DriveProfile) -> Result<Service, Failure> {
        match self {
            Self::Workload { choice, .. } => choice.service(profile),
            Self::Flags(_) | Self::Trace { .. } => Ok(Service::default()),
        }
    }

    /// The name of stream `number`.
    pub(super) fn labels(&self, count: usize) -> Vec<StreamLabel> {
        match self {
            Self::Workload { choice, .. } => choice.streams(),
            Self::Flags(_) | Self::Trace { .. } => {
                let kind = if matches!(self, Self::Trace { streams: Streams::Process, .. }) {
                    "process"
                } else {
                    "device"
                };
                let label = |number: usize| StreamLabel {
                    name: format!("{kind}-{}", number + 1),
                    class: kind.to_string(),
                };
                (0..count).map(label).collect()
            }
        }
    }

    pub(super) fn source(
        &mut self,
        drive: &SimDrive,
        seed: u64,
    ) -> Result<Box<dyn RequestSource + Send>, Failure> {
        let (sector, capacity) =
            (drive.profile.sector_size().map_err(Failure::usage)?, drive.capacity());
        match self {
            Self::Flags(stream) => Ok(Box::new(
                Workload::new(std::slice::from_ref(stream), sector, capacity, seed)
                    .map_err(Failure::usage)?,
            )),
            Self::Workload { choice, depth } => choice.source(sector, capacity, seed, *depth),
            Self::Trace { choice, report, .. } => {
                let (source, of_reading) = choice.source(sector, capacity)?;
                *report = Some(of_reading);
                Ok(source)
            }
        }
    }

    /// Checks that the requests ended without an error.
    pub(super) fn check(&self) -> Result<(), Failure> {
        match self {
            Self::Flags(_) => Ok(()),
            Self::Workload { choice, .. } => choice.check(),
            Self::Trace { report, .. } => report.as_ref().map_or(Ok(()), TraceReport::check),
        }
    }

    /// Notes for the user.
    pub(super) fn notes(&self) -> Vec<String> {
        match self {
            Self::Flags(_) => Vec::new(),
            Self::Workload { choice, .. } => {
                choice.notes().iter().map(|note| format!("{}: {note}", choice.name())).collect()
            }
            Self::Trace { report, .. } => {
                report.as_ref().map(TraceReport::notes).unwrap_or_default()
            }
        }
    }

    /// The report on a trace's records.
    pub(super) fn summary(&self) -> Option<TraceSummary> {
        match self {
            Self::Trace { report, .. } => report.as_ref().map(TraceReport::summary),
            Self::Flags(_) | Self::Workload { .. } => None,
        }
    }
}

fn of_flags(arguments: &SimArguments, deadline: Option<Nanos>) -> Result<StreamConfig, Failure> {
    let base = match (arguments.rate, arguments.pacing) {
        (None, _) => StreamConfig::closed(arguments.clients),
        (Some(per_second), Pacing::Poisson) => {
            StreamConfig::open(Interarrival::Poisson { per_second })
        }
        (Some(per_second), Pacing::Constant) => {
            let span = Nanos::from_ms_f64(1e3 / per_second)
                .context("--rate is too small")
                .map_err(Failure::Usage)?;
            StreamConfig::open(Interarrival::Constant(span))
        }
    };
    let mut stream = StreamConfig {
        mix: Mix::reads(arguments.reads),
        sizes: Sizes::Fixed { bytes: arguments.size.get() },
        order: if arguments.run_length == 1 {
            Order::Random
        } else {
            Order::FixedRuns { requests: arguments.run_length }
        },
        deadline,
        ..base
    };
    if let Arrivals::Closed { think, .. } = &mut stream.arrivals {
        *think = if arguments.think.is_zero() {
            ThinkTime::None
        } else {
            ThinkTime::Constant(arguments.think)
        };
    }
    Ok(stream)
}

/// Options of traces need a trace. They all have defaults, so the given ones are found by comparing
/// with the defaults.
fn refuse_trace_flags(arguments: &SimArguments) -> Result<(), Failure> {
    let untouched =
        |command: clap::Command| command.no_binary_name(true).try_get_matches_from([""; 0]).ok();
    let reading = untouched(TraceArguments::augment_args(clap::Command::new("trace")))
        .and_then(|matches| TraceArguments::from_arg_matches(&matches).ok());
    let replay = untouched(ReplayArguments::augment_args(clap::Command::new("replay")))
        .and_then(|matches| ReplayArguments::from_arg_matches(&matches).ok());
    let same = |ours: String, theirs: Option<String>| theirs.is_none_or(|theirs| theirs == ours);
    let is_untouched = same(
        format!("{:?}", arguments.trace_options),
        reading.map(|reading| format!("{reading:?}")),
    ) && same(
        format!("{:?}", arguments.replay_options),
        replay.map(|replay| format!("{replay:?}")),
    );
    if arguments.trace.is_empty() && !is_untouched {
        return Err(Failure::Usage(anyhow!(
            "an option for reading a trace was given without a trace; add --trace FILE, or \
                leave the flag out"
        )));
    }
    Ok(())
}
