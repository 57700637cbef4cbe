//! The verbs of the control channel, in a table, and what each does.

use std::path::PathBuf;

use headtime_tasks::TaskKind;
use headtime_units::Share;
use serde::{Deserialize, Serialize};

use super::{
    ControlHandler, ControlRequest, ErrorReply, ErrorReplyKind, VERSION, explain_verb,
    server_verbs, top_verb, volume_verbs,
};
use crate::scans::{ScanError, ScanStatus, Scans, StartScan};

/// A verb of the channel.
pub struct ControlVerb {
    /// Its name.
    pub name: &'static str,
    /// What it does, in one line.
    pub summary: &'static str,
    answer: fn(&ControlHandler, serde_json::Value) -> Result<serde_json::Value, ErrorReply>,
}

impl ControlVerb {
    pub(super) const fn new(
        name: &'static str,
        summary: &'static str,
        answer: fn(&ControlHandler, serde_json::Value) -> Result<serde_json::Value, ErrorReply>,
    ) -> Self {
        Self { name, summary, answer }
    }
}

/// Every verb.
pub const VERBS: &[ControlVerb] = &[
    ControlVerb {
        name: "scan.start",
        summary: "starts a scan, or lets a paused one go on",
        answer: |handler, arguments| scan(handler, arguments, start),
    },
    ControlVerb {
        name: "scan.pause",
        summary: "stops reading for a scan until it is resumed",
        answer: |handler, arguments| {
            scan(handler, arguments, |scans, arguments, task| {
                Ok(vec![scans.pause(arguments.target()?, task)?])
            })
        },
    },
    ControlVerb {
        name: "scan.resume",
        summary: "goes on with a paused scan",
        answer: |handler, arguments| {
            scan(handler, arguments, |scans, arguments, task| {
                Ok(vec![scans.resume(arguments.target()?, task)?])
            })
        },
    },
    ControlVerb {
        name: "scan.cancel",
        summary: "ends a scan and forgets it",
        answer: |handler, arguments| {
            scan(handler, arguments, |scans, arguments, task| {
                Ok(vec![scans.cancel(arguments.target()?, task)?])
            })
        },
    },
    ControlVerb {
        name: "scan.status",
        summary: "says how scans are getting on; of all, or of a target or task",
        answer: status,
    },
    volume_verbs::ADD,
    volume_verbs::SET,
    volume_verbs::REMOVE,
    volume_verbs::LIST,
    volume_verbs::SHOW,
    ControlVerb {
        name: "status",
        summary: "says how the server is doing: drive, belief, tunables, volumes, counters",
        answer: server_verbs::status,
    },
    ControlVerb {
        name: "tunables.get",
        summary: "says what may be changed while serving, and how it is",
        answer: server_verbs::get,
    },
    ControlVerb {
        name: "tunables.set",
        summary: "changes all of what is named, or nothing",
        answer: server_verbs::set,
    },
    ControlVerb {
        name: "map.show",
        summary: "says what the latency map knows",
        answer: server_verbs::show_map,
    },
    ControlVerb {
        name: "map.save",
        summary: "saves the latency map",
        answer: server_verbs::save_map,
    },
    ControlVerb {
        name: "map.load",
        summary: "goes by the latency map in a file from now on",
        answer: server_verbs::load_map,
    },
    ControlVerb {
        name: "tls.reload",
        summary: "reads certificates, key and revocation lists again",
        answer: server_verbs::reload,
    },
    top_verb::TOP,
    explain_verb::EXPLAIN,
];

/// What the verbs of scans are told.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ScanArguments {
    /// A volume's name, or `@drive`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The task's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// Of a scrub that starts: whether digests are compared.
    pub digests: bool,
    /// Of a backup that starts: where it goes, an absolute path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<PathBuf>,
    /// Whether what is remembered is thrown away first.
    pub again: bool,
    /// By which part the mean response of clients may grow, from now on, for all scans of the
    /// drive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_impact: Option<f64>,
}

/// What the verbs of scans answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScanAnswer {
    /// The scans that were meant.
    pub scans: Vec<ScanStatus>,
    /// By which part the mean response of clients has grown, as measured.
    pub impact: f64,
    /// By which part it may.
    pub max_impact: f64,
    /// Whether no server answers, but a scan without one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub alone: bool,
}

/// Answers one request.
pub(super) fn answer(
    handler: &ControlHandler,
    request: ControlRequest,
) -> Result<serde_json::Value, ErrorReply> {
    if request.v != VERSION {
        let message = format!(
            "the request is of version {} of the control channel, and this server speaks \
                {VERSION}; use the program that belongs to the server",
            request.v
        );
        return Err(ErrorReply::new(ErrorReplyKind::Unknown, message));
    }
    let Some(verb) = VERBS.iter().find(|verb| verb.name == request.verb) else {
        let known: Vec<&str> = VERBS.iter().map(|verb| verb.name).collect();
        return Err(ErrorReply::new(
            ErrorReplyKind::Unknown,
            format!("this server has no verb `{}`; it has {}", request.verb, known.join(", ")),
        ));
    };
    (verb.answer)(handler, request.arguments)
}

impl ScanArguments {
    /// Reads the arguments of a request; those that are left out are as in the default.
    ///
    /// # Errors
    /// [`ErrorReplyKind::BadRequest`], with what is wrong.
    pub fn read(arguments: serde_json::Value) -> Result<Self, ErrorReply> {
        if arguments.is_null() {
            return Ok(Self::default());
        }
        serde_json::from_value(arguments)
            .map_err(|error| bad_request(format!("the arguments of a scan: {error}")))
    }

    fn target(&self) -> Result<&str, ErrorReply> {
        self.target
            .as_deref()
            .ok_or_else(|| bad_request("a target is missing; name a volume, or @drive"))
    }

    fn task(&self) -> Result<Option<TaskKind>, ErrorReply> {
        self.task
            .as_deref()
            .map(str::parse)
            .transpose()
            .map_err(|error: headtime_tasks::UnknownTask| bad_request(error.to_string()))
    }

    fn max_impact(&self) -> Result<Option<Share>, ErrorReply> {
        let share = |part: f64| {
            Share::from_fraction(part).ok_or_else(|| {
                bad_request(format!(
                    "max_impact = {part} is no part of a whole; write a number from 0 to 1"
                ))
            })
        };
        self.max_impact.map(share).transpose()
    }
}

fn scan(
    handler: &ControlHandler,
    arguments: serde_json::Value,
    act: fn(&Scans, &ScanArguments, TaskKind) -> Result<Vec<ScanStatus>, ErrorReply>,
) -> Result<serde_json::Value, ErrorReply> {
    let scans = &*handler.scans;
    let arguments = ScanArguments::read(arguments)?;
    let task = arguments
        .task()?
        .ok_or_else(|| bad_request("a task is missing; name scrub, backup or digest"))?;
    answered(scans, act(scans, &arguments, task)?)
}

fn start(
    scans: &Scans,
    arguments: &ScanArguments,
    task: TaskKind,
) -> Result<Vec<ScanStatus>, ErrorReply> {
    let max_impact = arguments.max_impact()?;
    if scans.is_alone() {
        return Err(bad_request(
            "a scan without a server has the drive, and takes no other; wait for its end, or serve \
                the drive and start both there",
        ));
    }
    if let Some(to) = arguments.to.as_ref().filter(|to| !to.is_absolute()) {
        return Err(bad_request(format!(
            "{} is no absolute path, and the server has a working directory of its own; write the \
                whole path",
            to.display()
        )));
    }
    let start = StartScan {
        target: arguments.target()?.to_owned(),
        task,
        digests: arguments.digests,
        to: arguments.to.clone(),
        again: arguments.again,
    };
    if let Some(share) = max_impact {
        scans.set_max_impact(share)?;
    }
    Ok(vec![scans.start(&start)?])
}

fn status(
    handler: &ControlHandler,
    arguments: serde_json::Value,
) -> Result<serde_json::Value, ErrorReply> {
    let scans = &*handler.scans;
    let arguments = ScanArguments::read(arguments)?;
    let task = arguments.task()?.map(TaskKind::name);
    let meant = |status: &ScanStatus| {
        arguments.target.as_ref().is_none_or(|target| *target == status.target)
            && task.is_none_or(|task| task == status.task)
    };
    answered(scans, scans.status().into_iter().filter(meant).collect())
}

fn answered(scans: &Scans, meant: Vec<ScanStatus>) -> Result<serde_json::Value, ErrorReply> {
    let answer = ScanAnswer {
        scans: meant,
        impact: scans.impact(),
        max_impact: scans.max_impact(),
        alone: scans.is_alone(),
    };
    serde_json::to_value(answer)
        .map_err(|error| ErrorReply::new(ErrorReplyKind::Failed, error.to_string()))
}

pub(super) fn bad_request(message: impl Into<String>) -> ErrorReply {
    ErrorReply::new(ErrorReplyKind::BadRequest, message)
}

impl From<ScanError> for ErrorReply {
    fn from(error: ScanError) -> Self {
        let kind = match error {
            ScanError::UnknownTarget { .. }
            | ScanError::NotThere { .. }
            | ScanError::Running { .. }
            | ScanError::Output(_) => ErrorReplyKind::BadRequest,
            ScanError::Broken { .. }
            | ScanError::OutputFile { .. }
            | ScanError::Drive(_)
            | ScanError::Thread(_) => ErrorReplyKind::Failed,
        };
        Self::new(kind, error.to_string())
    }
}
