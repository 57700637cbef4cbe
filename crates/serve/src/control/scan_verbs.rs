//! The verbs of scans.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;

use headtime_sched::{ScanPriority, ScanPriorityError};
use headtime_tasks::TaskKind;
use headtime_units::{ByteRange, ParseRangeError, Share};
use serde::{Deserialize, Serialize};

use super::verbs::{Answer, Arguments, parse_arguments, parse_task, to_json};
use super::{ControlHandler, ErrorReply, bad_request};
use crate::scans::{
    GapFigures, ImpactFigures, ScanError, ScanStatus, Scans, StartScan, TermsChange,
};

/// The arguments of the verbs of scans.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScanArguments {
    /// A volume's name, or `@drive`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The task's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Start: the bytes of the target to read, such as `10GiB..20GiB` or `10GiB+1GiB`; all of them
    /// if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<String>,
    /// Start: a scrub compares digests.
    pub digests: bool,
    /// Start: the output of a backup, an absolute path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<PathBuf>,
    /// Start: discard the state of an earlier scan first.
    pub again: bool,
    /// Start and set: the scan wakes a drive in standby, from now on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wake: Option<bool>,
    /// Start and set: the priority among the scans of the drive, from 0 (most urgent) to 7.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u8>,
    /// Start and set: the windows of local time in which the scan reads, such as
    /// `Mon-Fri 22:00-06:00; Sat,Sun`; `none` for any time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub during: Option<String>,
    /// Start and set: the time from one start to the next, such as `4w`; `none` for a single pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub every: Option<String>,
    /// The largest share by which the mean response time of clients may grow, from now on, for all
    /// scans of the drive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_impact: Option<f64>,
}

/// The answer to the verbs of scans.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScanAnswer {
    /// The selected scans.
    pub scans: Vec<ScanStatus>,
    /// The growth of the mean response time of clients by delays of single requests, as a share.
    pub impact: f64,
    /// The growth as clients see it, from stretches without reads; null until it is known to
    /// within half of `max_impact`, or exceeds that for certain.
    #[serde(default)]
    pub measured: Option<ImpactFigures>,
    /// The largest such growth that is allowed.
    pub max_impact: f64,
    /// The use of the gaps before clients' requests.
    #[serde(default)]
    pub gaps: GapFigures,
    /// The answer comes from a scan without a server.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub alone: bool,
}

impl ScanArguments {
    /// Parses the arguments of a request; missing ones have their defaults.
    pub fn read(arguments: serde_json::Value) -> Result<Self, ErrorReply> {
        parse_arguments("a scan", arguments)
    }

    fn target(&self) -> Result<&str, ErrorReply> {
        let target = self.target.as_deref();
        target.ok_or_else(|| bad_request("a target is missing; name a volume, or @drive"))
    }

    fn range(&self) -> Result<Option<ByteRange>, ErrorReply> {
        let parsed = self.range.as_deref().map(str::parse);
        parsed.transpose().map_err(|error: ParseRangeError| bad_request(error.to_string()))
    }

    fn terms(&self) -> Result<TermsChange, ErrorReply> {
        let priority = self.priority.map(|level| {
            ScanPriority::new(level).ok_or_else(|| {
                let text = level.to_string();
                bad_request(format!("priority: {}", ScanPriorityError { text }))
            })
        });
        Ok(TermsChange {
            priority: priority.transpose()?,
            wake: self.wake,
            during: parsed_or_none(self.during.as_deref())?,
            every: parsed_or_none(self.every.as_deref())?,
        })
    }

    fn task(&self) -> Result<TaskKind, ErrorReply> {
        let task = self.task.as_deref();
        parse_task(
            task.ok_or_else(|| bad_request("a task is missing; name scrub, backup or digest"))?,
        )
    }
}

/// Parses a setting; the text `none` removes it.
fn parsed_or_none<T: FromStr<Err: Display>>(
    text: Option<&str>,
) -> Result<Option<Option<T>>, ErrorReply> {
    let parsed = |text: &str| text.parse().map_err(|error: T::Err| bad_request(error.to_string()));
    text.map(|text| if text == "none" { Ok(None) } else { parsed(text).map(Some) }).transpose()
}

/// Parses a bound on the impact of background work.
pub(super) fn impact(fraction: f64) -> Result<Share, ErrorReply> {
    Share::from_fraction(fraction).ok_or_else(|| {
        bad_request(format!("max_impact: {fraction} is out of range (0 to 1); write a share"))
    })
}

pub(super) fn start(handler: &ControlHandler, arguments: Arguments) -> Answer {
    let (scans, arguments) = (&*handler.scans, arguments.parse::<ScanArguments>()?);
    let task = arguments.task()?;
    let max_impact = arguments.max_impact.map(impact).transpose()?;
    if scans.is_alone() {
        return Err(bad_request(
            "a scan without a server uses the drive and accepts no other scan; wait for its end, \
                or serve the drive and start both scans there",
        ));
    }
    if let Some(to) = arguments.to.as_ref().filter(|to| !to.is_absolute()) {
        return Err(bad_request(format!(
            "{} is not an absolute path, and the server has its own working directory; write the \
                whole path",
            to.display()
        )));
    }
    let terms = arguments.terms()?;
    let start = StartScan {
        target: arguments.target()?.to_owned(),
        task,
        range: arguments.range()?,
        digests: arguments.digests,
        to: arguments.to,
        again: arguments.again,
        terms,
    };
    if let Some(share) = max_impact {
        scans.set_max_impact(share)?;
    }
    scan_answer(scans, vec![scans.start(&start)?])
}

pub(super) fn set(handler: &ControlHandler, arguments: Arguments) -> Answer {
    let arguments: ScanArguments = arguments.parse()?;
    let (target, task) = (arguments.target()?, arguments.task()?);
    let changed = handler.scans.set(target, task, &arguments.terms()?)?;
    scan_answer(&handler.scans, vec![changed])
}

pub(super) fn change(
    handler: &ControlHandler,
    arguments: Arguments,
    change: fn(&Scans, &str, TaskKind) -> Result<ScanStatus, ScanError>,
) -> Answer {
    let arguments: ScanArguments = arguments.parse()?;
    let task = arguments.task()?;
    let changed = change(&handler.scans, arguments.target()?, task)?;
    scan_answer(&handler.scans, vec![changed])
}

pub(super) fn status(handler: &ControlHandler, arguments: Arguments) -> Answer {
    let ScanArguments { target, task, .. } = arguments.parse()?;
    let task = task.as_deref().map(parse_task).transpose()?.map(TaskKind::name);
    let mut scans = handler.scans.status();
    scans.retain(|status| {
        target.as_ref().is_none_or(|target| *target == status.target)
            && task.is_none_or(|task| task == status.task)
    });
    scan_answer(&handler.scans, scans)
}

fn scan_answer(scans: &Scans, selected: Vec<ScanStatus>) -> Answer {
    to_json(&ScanAnswer {
        scans: selected,
        impact: scans.impact(),
        measured: scans.measured_impact(),
        max_impact: scans.max_impact(),
        gaps: scans.gaps(),
        alone: scans.is_alone(),
    })
}
