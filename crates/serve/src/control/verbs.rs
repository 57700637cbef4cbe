//! The table of control verbs ([`VERBS`]) and the dispatch of requests to them.

use headtime_tasks::TaskKind;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::log::{Caller, log};
use super::server_verbs::{GetTunables, LoadMap, SaveMap, TunablesAnswer};
use super::{
    ControlHandler, ControlRequest, ErrorReply, ErrorReplyKind, TopSample, VERSION, bad_request,
    beside_verbs, scan_verbs, volume_verbs,
};
use crate::beside::{BesideClients, BesideError};
use crate::maps::MapOrderError;
use crate::tuner::SetTunables;

/// A verb of the control channel.
pub struct ControlVerb {
    /// Its name.
    pub name: &'static str,
    /// Its action, in one line.
    pub summary: &'static str,
    answer: fn(&ControlHandler, Arguments) -> Answer,
    effect: Effect,
}

/// The effect of a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// It changes nothing.
    Shows,
    /// It changes something, and is logged.
    Changes,
}

/// The answer of a verb.
pub(super) type Answer = Result<serde_json::Value, ErrorReply>;

/// The arguments of a request, not yet parsed.
pub(super) struct Arguments {
    verb: &'static str,
    value: serde_json::Value,
}

/// Every verb.
pub const VERBS: &[ControlVerb] = &[
    change("scan.start", "start a scan, or resume a paused one", scan_verbs::start),
    change("scan.pause", "stop reading for a scan until it is resumed", |handler, arguments| {
        scan_verbs::change(handler, arguments, |scans, target, task| scans.pause(target, task))
    }),
    change("scan.resume", "resume a paused scan", |handler, arguments| {
        scan_verbs::change(handler, arguments, |scans, target, task| scans.resume(target, task))
    }),
    change("scan.cancel", "end a scan and remove its state", |handler, arguments| {
        scan_verbs::change(handler, arguments, |scans, target, task| scans.cancel(target, task))
    }),
    change("scan.set", "change settings of a scan while it runs", scan_verbs::set),
    verb(
        "scan.status",
        "show the progress of scans: all, or those of a target or task",
        scan_verbs::status,
    ),
    change("volume.add", "add a volume, or a class to one, and serve it", |handler, arguments| {
        volume_verbs::change(handler, arguments, |volumes, order| volumes.add(order))
    }),
    change(
        "volume.set",
        "change settings and size of a volume, or settings of a class",
        |handler, arguments| {
            volume_verbs::change(handler, arguments, |volumes, order| volumes.set(order))
        },
    ),
    change("volume.remove", "remove a volume or a class", |handler, arguments| {
        volume_verbs::change(handler, arguments, |volumes, order| volumes.remove(order))
    }),
    change(
        "volume.relocate",
        "start to move sectors of a volume to a free extent",
        volume_verbs::relocate,
    ),
    change(
        "volume.relocate_cancel",
        "end the relocation of a volume, which keeps its sectors",
        volume_verbs::cancel,
    ),
    verb("volume.list", "list all volumes of the drive", volume_verbs::list),
    verb("volume.show", "show one volume", |handler, arguments| {
        volume_verbs::change(handler, arguments, |volumes, order| volumes.show(&order.name))
    }),
    verb(
        "status",
        "show the state of the server: drive, model, tunables, volumes, counters",
        |handler, arguments| {
            arguments.none()?;
            to_json(&handler.server()?.status.status())
        },
    ),
    verb("tunables.get", "show the tunables and their values", |handler, arguments| {
        let GetTunables { names } = arguments.parse()?;
        to_json(&TunablesAnswer { tunables: handler.server()?.tuner.get(&names)? })
    }),
    change("tunables.set", "change all named tunables, or none", |handler, arguments| {
        let server = handler.server()?;
        let mut changed = server.tuner.set(&arguments.parse::<SetTunables>()?)?;
        if !changed.dry_run {
            changed.notes.extend(server.status.settings_without_effect());
        }
        to_json(&changed)
    }),
    verb("map.show", "show the contents of the latency map", |handler, arguments| {
        arguments.none()?;
        to_json(&handler.server()?.maps.show().map_err(MapOrderError::from)?)
    }),
    change("map.save", "save the latency map", |handler, arguments| {
        let SaveMap { to, force } = arguments.parse()?;
        to_json(&handler.server()?.maps.save(to.as_deref(), force)?)
    }),
    change(
        "map.load",
        "schedule by the latency map in a file from now on",
        |handler, arguments| {
            let LoadMap { from, merge } = arguments.parse()?;
            to_json(&handler.server()?.maps.load(&from, merge)?)
        },
    ),
    change("characterize.start", "characterize the drive beside its clients", beside_verbs::start),
    change("characterize.pause", "stop its reads until it is resumed", |handler, arguments| {
        beside_verbs::change(handler, arguments, BesideClients::pause)
    }),
    change("characterize.resume", "resume a paused or failed one", beside_verbs::resume),
    change("characterize.cancel", "end it and remove its state", |handler, arguments| {
        beside_verbs::change(handler, arguments, BesideClients::cancel)
    }),
    verb("characterize.status", "show its progress or result", |handler, arguments| {
        beside_verbs::change(handler, arguments, |beside| {
            beside.status().ok_or(BesideError::NotThere)
        })
    }),
    change(
        "tls.reload",
        "read certificates, key and revocation lists again",
        |handler, arguments| {
            arguments.none()?;
            to_json(&handler.server()?.reloader.reload_tls()?)
        },
    ),
    change(
        "reload",
        "read the files of TLS and the scans of the configuration again",
        |handler, arguments| {
            arguments.none()?;
            to_json(&handler.server()?.reloader.reload()?)
        },
    ),
    verb(
        "top",
        "show the counters of every export since the server started, for a live view",
        |handler, arguments| {
            arguments.none()?;
            let server = handler.server()?;
            to_json(&TopSample::of(&server.stats.snapshot(), &server.status.locator))
        },
    ),
    verb(
        "explain",
        "show how the time of the last slow and missed requests was spent",
        |handler, arguments| {
            to_json(&super::explain_verb::explain(&handler.server()?.volumes, &arguments.parse()?)?)
        },
    ),
];

const fn verb(
    name: &'static str,
    summary: &'static str,
    answer: fn(&ControlHandler, Arguments) -> Answer,
) -> ControlVerb {
    ControlVerb { name, summary, answer, effect: Effect::Shows }
}

const fn change(
    name: &'static str,
    summary: &'static str,
    answer: fn(&ControlHandler, Arguments) -> Answer,
) -> ControlVerb {
    ControlVerb { effect: Effect::Changes, ..verb(name, summary, answer) }
}

/// Answers one request. A change of a server is logged.
pub(super) fn answer(handler: &ControlHandler, request: ControlRequest, caller: &Caller) -> Answer {
    if request.v != VERSION {
        let message = format!(
            "the request has version {} of the control channel, but this server speaks {VERSION}; \
                use the program that belongs to the server",
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
    let value = request.arguments;
    if verb.effect == Effect::Shows || handler.server.is_none() {
        return (verb.answer)(handler, Arguments { verb: verb.name, value });
    }
    let answer = (verb.answer)(handler, Arguments { verb: verb.name, value: value.clone() });
    log(caller, verb.name, &value, &answer);
    answer
}

impl Arguments {
    /// Parses the arguments; missing ones have their defaults.
    pub(super) fn parse<T: DeserializeOwned>(self) -> Result<T, ErrorReply> {
        parse_arguments(self.verb, self.value)
    }

    pub(super) fn none(&self) -> Result<(), ErrorReply> {
        if self.value.is_null() || self.value.as_object().is_some_and(serde_json::Map::is_empty) {
            return Ok(());
        }
        Err(bad_request(format!("{} takes no arguments; leave them out", self.verb)))
    }
}

pub(super) fn parse_arguments<T: DeserializeOwned>(
    verb: &str,
    value: serde_json::Value,
) -> Result<T, ErrorReply> {
    let value = if value.is_null() { serde_json::json!({}) } else { value };
    serde_json::from_value(value)
        .map_err(|error| bad_request(format!("the arguments of {verb}: {error}")))
}

pub(super) fn to_json(answer: &impl Serialize) -> Answer {
    serde_json::to_value(answer)
        .map_err(|error| ErrorReply::new(ErrorReplyKind::Failed, error.to_string()))
}

pub(super) fn parse_task(task: &str) -> Result<TaskKind, ErrorReply> {
    task.parse().map_err(|error: headtime_tasks::UnknownTask| bad_request(error.to_string()))
}
