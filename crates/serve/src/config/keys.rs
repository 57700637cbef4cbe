//! The keys of a server, its volumes and its limits, with their meanings and defaults.

use std::sync::Arc;

use headtime_config::{Key, REQUIRED, Value, ValueErrors};
use headtime_io::{Locator, PolicyChoice, ProfileSource};
use headtime_sched::{TUNABLES, Terms};
use headtime_units::{ByteSize, Share};

use super::map_keys::MAP_KEYS;
use super::scan_keys::add_scan;
use super::tls_keys::{CLIENT_KEYS, TLS_KEYS};
use super::{Config, MaxImpact, PathChoice, ServeLimits, appears_twice};
use crate::http::HttpEndpoint;
use crate::tls::ClientConfig;
use crate::tuner::{OUTSTANDING_MAX, values};
use crate::volumes::{ClassNames, VolumeSpec, check_description, check_name};

/// The keys at the top of the file. `listen` may also be a list.
pub const SERVER_KEYS: &[Key<Config>] = &[
    Key {
        name: "drive",
        takes: "LOCATOR",
        summary: "the drive: emulated:PROFILE?backing=FILE, an NBD URI, the path of a block device \
            or file, or array:DRIVE,DRIVE,…",
        default: "none; must be given",
        set: |config, value| {
            let drive = Locator::parse(value.text()?).map_err(|error| value.error(error))?;
            config.drive = Some(drive);
            Ok(())
        },
    },
    Key {
        name: "create",
        takes: "SIZE",
        summary: "when the drive is a path and nothing is there: create a file of this size, \
            rounded up to whole sectors",
        default: "nothing is created",
        set: |config, value| value.size().map(|size| config.create = Some(size)),
    },
    Key {
        name: "policy",
        takes: "NAME[:parameter=value,…]",
        summary: "order in which requests are sent to the drive; see `headtime policies`",
        default: headtime_sched::DEFAULT_POLICY,
        set: |config, value| {
            config.policy =
                PolicyChoice::parse(value.text()?).map_err(|error| value.error(error))?;
            config.tuned.insert("policy");
            Ok(())
        },
    },
    Key {
        name: "outstanding",
        takes: "N",
        summary: "number of commands outstanding at the drive, instead of the policy's own number",
        default: "as the policy has it",
        set: |config, value| {
            config.outstanding = Some(value.count(1..=OUTSTANDING_MAX as u32)? as usize);
            config.tuned.insert("outstanding");
            Ok(())
        },
    },
    tunable::<0>(),
    tunable::<1>(),
    tunable::<2>(),
    tunable::<3>(),
    Key {
        name: "auto_table",
        takes: "FILE",
        summary: "table by which the policy auto chooses, as `headtime tune` wrote it",
        default: "the built-in one",
        set: |config, value| {
            let path = value.text()?;
            let table = values::auto_table(path).map_err(|error| value.error(error))?;
            config.tunables.auto_table = Some(Arc::new(table));
            path.clone_into(&mut config.auto_table);
            config.tuned.insert("auto_table");
            Ok(())
        },
    },
    Key {
        name: "model",
        takes: "profile, matrix, compact, matrix:FILE or compact:FILE",
        summary: "model of the drive that the scheduler uses; a latency map is restored from FILE \
            at the start and saved there",
        default: "profile",
        set: |config, value| value.parsed().map(|parsed| config.model = parsed),
    },
    Key {
        name: "command_timeout",
        takes: "TIME or never",
        summary: "time without a completion after which the requests of a command fail",
        default: "30s",
        set: |config, value| {
            config.command_timeout = value
                .text()?
                .parse()
                .map_err(|error| value.error(format_args!("command_timeout: {error}")))?;
            Ok(())
        },
    },
    Key {
        name: "queue_depth",
        takes: "N",
        summary: "block devices: maximum number of commands at the drive, set in the kernel",
        default: "as the drive has it",
        set: |config, value| {
            value.count(1..=65_536).map(|count| config.raw.queue_depth = Some(count))
        },
    },
    Key {
        name: "write_cache",
        takes: "keep, on or off",
        summary: "block devices: the drive's own write cache; off makes each write durable before \
            it completes",
        default: "keep",
        set: |config, value| value.parsed().map(|parsed| config.raw.write_cache = parsed),
    },
    Key {
        name: "kernel_knobs",
        takes: "set or keep",
        summary: "block devices: switch off the kernel's scheduler while serving, and restore it \
            at the end",
        default: "set",
        set: |config, value| value.parsed().map(|parsed| config.raw.kernel_knobs = parsed),
    },
    Key {
        name: "control",
        takes: "PATH or off",
        summary: "the control socket, for `headtime scan`, `volume`, `map`, `get`, `set`, \
            `status`, `top`, `explain` and `reload`; only the server's user may use it",
        default: "next to the drive's file with .control, in /run/headtime for a block device, \
            off for others",
        set: |config, value| path_choice(value).map(|choice| config.control = choice),
    },
    Key {
        name: "state",
        takes: "DIRECTORY or off",
        summary: "directory for the progress of scans and for settings made while serving",
        default: "next to the drive's file with .scans, in /var/lib/headtime for a block device, \
            off for others",
        set: |config, value| path_choice(value).map(|choice| config.state = choice),
    },
    Key {
        name: "max_impact",
        takes: "SHARE, such as 1%",
        summary: "maximum increase of the clients' mean response time caused by scans",
        default: "1%",
        set: |config, value| value.share().map(|share| config.max_impact = MaxImpact(share)),
    },
    Key {
        name: "profile",
        takes: "FILE or NAME",
        summary: "profile of the drive: a file that `headtime characterize` has written, or a \
            profile that ships",
        default: "that of an emulated drive; of any other drive only the size is known",
        set: |config, value| {
            value.text().map(|text| config.profile = Some(ProfileSource::of(text)))
        },
    },
    Key {
        name: "metrics",
        takes: "HOST:PORT, such as 127.0.0.1:9464",
        summary: "address at which HTTP serves /metrics for Prometheus, and /healthz",
        default: "none",
        set: |config, value| {
            http_address(value, HttpEndpoint::Metrics).map(|to| config.metrics = Some(to))
        },
    },
    Key {
        name: "metrics_public",
        takes: "true or false",
        summary: "allow metrics at an address that other machines can reach",
        default: "false",
        set: |config, value| value.boolean().map(|flag| config.metrics_public = flag),
    },
    Key {
        name: "web",
        takes: "HOST:PORT, such as 127.0.0.1:9465",
        summary: "address at which HTTP serves a live page for web browsers",
        default: "none",
        set: |config, value| http_address(value, HttpEndpoint::Web).map(|to| config.web = Some(to)),
    },
    Key {
        name: "web_public",
        takes: "true or false",
        summary: "allow the web page at an address that other machines can reach",
        default: "false",
        set: |config, value| value.boolean().map(|flag| config.web_public = flag),
    },
    Key {
        name: "listen",
        takes: "unix:PATH[,mode=0660] or tcp:HOST:PORT, and ,tls=off|allow|require",
        summary: "address at which clients connect; a list in TOML, any number of flags",
        default: "none; at least one must be given",
        set: |config, value| {
            ValueErrors::join(
                value.list().iter().map(|value| value.parsed().map(|at| config.listen.push(at))),
            )
        },
    },
    Key {
        name: "initialize",
        takes: "true or false",
        summary: "allow a drive with other content, or a damaged table of volumes, to be \
            overwritten",
        default: "false",
        set: |config, value| value.boolean().map(|flag| config.initialize = flag),
    },
    Key {
        name: "existing",
        takes: "true or false",
        summary: "serve a drive with other content as it is: the whole drive as the volume disk, \
            and each GPT partition; nothing is written to it",
        default: "false",
        set: |config, value| value.boolean().map(|flag| config.existing = flag),
    },
    Key {
        name: "read_only",
        takes: "true or false",
        summary: "write nothing to the drive, which may be write-protected; all volumes are \
            read-only",
        default: "false",
        set: |config, value| value.boolean().map(|flag| config.read_only = flag),
    },
    Key {
        name: "unreserved",
        takes: "SHARE, such as 10%",
        summary: "share of the drive's time that volumes cannot reserve",
        default: "0%",
        set: |config, value| value.share().map(|share| config.unreserved = share),
    },
];

/// The keys of a volume.
pub const VOLUME_KEYS: &[Key<VolumeSpec>] = &[
    Key {
        name: "name",
        takes: "1 to 64 of A-Z a-z 0-9 . _ -",
        summary: "the volume's name, which is also the name of its export",
        default: REQUIRED,
        set: |volume, value| {
            let name = value.text()?;
            check_name(name).map_err(|error| value.error(error))?;
            volume.name = name.to_string();
            Ok(())
        },
    },
    Key {
        name: "size",
        takes: "SIZE, such as 100GiB",
        summary: "the volume's size, rounded up to whole sectors; may be left out for a volume \
            that is on the drive already",
        default: "as on the drive",
        set: |volume, value| value.size().map(|size| volume.size = Some(size)),
    },
    Key {
        name: "deadline",
        takes: "TIME, such as 100ms, or none",
        summary: "time from arrival in which each read and write is to complete",
        default: "none",
        set: |volume, value| {
            let deadline = value.or_none(Value::positive_time);
            deadline.map(|time| volume.settings.deadline = Some(time))
        },
    },
    Key {
        name: "read_only",
        takes: "true or false",
        summary: "refuse writes",
        default: "false",
        set: |volume, value| value.boolean().map(|flag| volume.settings.read_only = Some(flag)),
    },
    Key {
        name: "description",
        takes: "TEXT of at most 128 bytes",
        summary: "text for people, shown to clients that list the exports",
        default: "empty",
        set: |volume, value| {
            let description = value.text()?;
            // The volume's name may not be known yet; the reader adds it to the error.
            check_description(&volume.name, description).map_err(|_| {
                value.error(format_args!(
                    "description: a control character in it, or {} bytes; expected one line of at \
                        most 128 bytes",
                    description.len()
                ))
            })?;
            volume.settings.description = Some(description.to_string());
            Ok(())
        },
    },
    Key {
        name: "reserve",
        takes: "SHARE, such as 25%, or none",
        summary: "guaranteed share of disk time, whenever the volume has requests",
        default: "none",
        set: |volume, value| {
            let reserve = value.or_none(Value::share)?;
            volume.settings.reserve = Some(reserve.unwrap_or(Share::NONE));
            Ok(())
        },
    },
    Key {
        name: "limit",
        takes: "SHARE, such as 50%, or none",
        summary: "maximum share of disk time, even when no other volume has requests",
        default: "none",
        set: |volume, value| {
            value.or_none(Value::share).map(|limit| volume.settings.limit = Some(limit))
        },
    },
    Key {
        name: "burst",
        takes: "TIME, such as 1s, or none",
        summary: "time for which the volume may save up unused reserve and limit",
        default: "none; the scheduler's own",
        set: |volume, value| {
            let burst = value.or_none(Value::positive_time);
            burst.map(|burst| volume.settings.burst = Some(burst))
        },
    },
    Key {
        name: "weight",
        takes: "N from 1 to 1000, or none",
        summary: "part of unreserved disk time beside volumes of the same priority",
        default: "none, as 1",
        set: |volume, value| {
            let weight = value.or_none(|value| value.count(1..=u32::from(Terms::MAX_WEIGHT)));
            volume.settings.weight = Some(weight?.map(|weight| weight as u16));
            Ok(())
        },
    },
    Key {
        name: "iops_limit",
        takes: "N, or none",
        summary: "maximum requests per second",
        default: "none",
        set: |volume, value| {
            let limit = value.or_none(|value| value.count(1..=u32::MAX));
            limit.map(|limit| volume.settings.iops_limit = Some(limit))
        },
    },
    Key {
        name: "bandwidth_limit",
        takes: "SIZE a second, such as 50MB, or none",
        summary: "maximum bytes per second",
        default: "none",
        set: |volume, value| {
            let limit = value.or_none(|value| value.size().map(ByteSize::get));
            limit.map(|limit| volume.settings.bandwidth_limit = Some(limit))
        },
    },
    Key {
        name: "priority",
        takes: "rt, be or idle, optionally with a level from 0 (most urgent) to 7, such as rt/2, \
            or none",
        summary: "I/O priority of the requests: decides the order in unreserved time, and the \
            deadline if the tunable `deadlines` has one for it and the volume has none",
        default: "none",
        set: |volume, value| {
            let text = value.text()?;
            let priority = if text == "none" {
                None
            } else {
                let error = |error| value.error(format_args!("priority: {error}, or none"));
                Some(text.parse().map_err(error)?)
            };
            volume.settings.priority = Some(priority);
            Ok(())
        },
    },
    Key {
        name: "classes",
        takes: "realtime, bulk, realtime+bulk or none",
        summary: "further exports of the volume, NAME@realtime and NAME@bulk, with separate \
            settings (`headtime volume set NAME@bulk …`)",
        default: "none",
        set: |volume, value| {
            let classes = ClassNames::parse(value.text()?).ok_or_else(|| {
                value.unexpected("realtime, bulk, realtime+bulk or none", "\"bulk\"")
            })?;
            volume.settings.classes = Some(classes);
            Ok(())
        },
    },
];

/// The key of one of the scheduler's tunables.
const fn tunable<const AT: usize>() -> Key<Config> {
    let tunable = &TUNABLES[AT];
    Key {
        name: tunable.name,
        takes: tunable.takes,
        summary: tunable.summary,
        default: values::default_of(AT),
        set: |config, value| {
            let tunable = &TUNABLES[AT];
            let text = value.text_or_integer()?;
            config.tunables.set(tunable.name, text).map_err(|error| value.error(error))?;
            config.tuned.insert(tunable.name);
            Ok(())
        },
    }
}

const _: () = assert!(TUNABLES.len() == 4, "each tunable has a key");

/// The keys of `[limits]`.
pub const LIMIT_KEYS: &[Key<ServeLimits>] = &[
    Key {
        name: "connections",
        takes: "N",
        summary: "maximum number of connections",
        default: "256",
        set: |limits, value| value.count(1..=65_536).map(|count| limits.connections = count),
    },
    Key {
        name: "memory",
        takes: "SIZE",
        summary: "memory that all connections share for requests in flight, in addition to each \
            connection's own",
        default: "512MiB",
        set: |limits, value| value.size().map(|size| limits.memory = size),
    },
    Key {
        name: "connection_memory",
        takes: "SIZE",
        summary: "memory of each connection",
        default: "1MiB",
        set: |limits, value| value.size().map(|size| limits.connection_memory = size),
    },
    Key {
        name: "connection_bytes",
        takes: "SIZE",
        summary: "maximum bytes of requests in flight on one connection",
        default: "64MiB",
        set: |limits, value| value.size().map(|size| limits.connection_bytes = size),
    },
    Key {
        name: "connection_requests",
        takes: "N",
        summary: "maximum number of requests in flight on one connection",
        default: "256",
        set: |limits, value| {
            value.count(1..=65_536).map(|count| limits.connection_requests = count)
        },
    },
    Key {
        name: "request",
        takes: "SIZE from 64KiB to 1GiB",
        summary: "maximum length of a client's read or write",
        default: "32MiB",
        set: |limits, value| value.size_within(64 << 10, 1 << 30).map(|size| limits.request = size),
    },
    Key {
        name: "piece",
        takes: "SIZE from 64KiB, a power of two",
        summary: "longer requests are split into pieces of this size, so that none of them \
            occupies the drive for long",
        default: "1MiB",
        set: |limits, value| {
            let piece = value.size_within(64 << 10, 1 << 30)?;
            if !piece.get().is_power_of_two() {
                let next = ByteSize::new(piece.get().next_power_of_two());
                return Err(value
                    .error(format_args!("piece = {piece} is not a power of two; write {next}")));
            }
            limits.piece = piece;
            Ok(())
        },
    },
    Key {
        name: "pieces",
        takes: "N",
        summary: "maximum number of pieces at the scheduler",
        default: "16384",
        set: |limits, value| value.count(1..=1 << 20).map(|count| limits.pieces = count),
    },
    Key {
        name: "handshake_timeout",
        takes: "TIME",
        summary: "maximum time from connecting to opening an export",
        default: "10s",
        set: |limits, value| value.positive_time().map(|time| limits.handshake_timeout = time),
    },
    Key {
        name: "stall_timeout",
        takes: "TIME",
        summary: "while others wait for memory, the time in which a connection that holds shared \
            memory must move data",
        default: "30s",
        set: |limits, value| value.positive_time().map(|time| limits.stall_timeout = time),
    },
];

/// Old names of keys, which are accepted and not listed.
pub(super) const ALIASES: &[Key<Config>] = &[Key {
    name: "belief",
    takes: "",
    summary: "",
    default: "",
    set: |config, value| value.parsed().map(|model| config.model = model),
}];

/// The tables of the file.
pub(super) const SECTIONS: &[Key<Config>] = &[
    Key {
        name: "map",
        takes: "[map] with the keys of MAP_KEYS",
        summary: "settings of a latency map",
        default: "none",
        set: |config, value| {
            config.map_named = true;
            value.set_table("map", config, MAP_KEYS)
        },
    },
    Key {
        name: "limits",
        takes: "[limits] with the keys of LIMIT_KEYS",
        summary: "bounds of the server",
        default: "none",
        set: |config, value| value.set_table("limits", &mut config.limits, LIMIT_KEYS),
    },
    Key {
        name: "tls",
        takes: "[tls] with the keys of TLS_KEYS",
        summary: "certificates",
        default: "none",
        set: |config, value| value.set_table("tls", &mut config.tls, TLS_KEYS),
    },
    Key {
        name: "volume",
        takes: "[[volume]] with the keys of VOLUME_KEYS",
        summary: "one volume",
        default: "the volumes on the drive",
        set: |config, value| {
            ValueErrors::join(value.tables()?.iter().map(|table| add_volume(config, table)))
        },
    },
    Key {
        name: "scan",
        takes: "[[scan]] with the keys of SCAN_KEYS",
        summary: "one scan that starts with the server",
        default: "none",
        set: |config, value| {
            ValueErrors::join(value.tables()?.iter().map(|table| add_scan(config, table)))
        },
    },
    Key {
        name: "client",
        takes: "[[client]] with the keys of CLIENT_KEYS",
        summary: "the exports of one client",
        default: "none",
        set: |config, value| {
            ValueErrors::join(value.tables()?.iter().map(|table| {
                let mut client = ClientConfig::default();
                let read = table.set_table("client", &mut client, CLIENT_KEYS);
                config.clients.push(client);
                read
            }))
        },
    },
];

fn add_volume(config: &mut Config, table: &Value<'_>) -> Result<(), ValueErrors> {
    let mut volume = VolumeSpec::default();
    let name = table.get("name");
    let thing = name.as_ref().and_then(Value::as_text).map(|name| format!("volume {name}"));
    table.set_table(thing.as_deref().unwrap_or("volume"), &mut volume, VOLUME_KEYS)?;
    match name.filter(|_| config.volumes.iter().any(|other| other.name == volume.name)) {
        Some(name) => Err(name.error(appears_twice(&volume.name))),
        None => {
            config.volumes.push(volume);
            Ok(())
        }
    }
}

/// An address with a port, such as the endpoint takes.
fn http_address(value: &Value<'_>, endpoint: HttpEndpoint) -> Result<String, ValueErrors> {
    let address = value.text()?;
    let port = address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    let example = format!("{:?}", endpoint.example());
    port.ok_or_else(|| value.unexpected("HOST:PORT", &example))?;
    Ok(address.to_owned())
}

fn path_choice(value: &Value<'_>) -> Result<PathChoice, ValueErrors> {
    match value.text()? {
        "" => Err(value.unexpected("a path, or off", "\"off\"")),
        "off" => Ok(PathChoice::Off),
        path => Ok(PathChoice::At(path.into())),
    }
}
