//! The tables of keys of a server, its volumes and its limits: what can be set, what it means, what
//! it is when nobody says otherwise.

use headtime_io::{Locator, PolicyChoice, ProfileSource};
use headtime_sched::TUNABLES;
use headtime_units::{ByteSize, parse_share};

use super::value::{Key, Value, count, place, share, size, text_of, time, unless_none, within};
use super::{Config, Listen, MaxImpact, ServeLimits, VolumeConfig};
use crate::tuner::{OUTSTANDING_MAX, values};
use crate::volumes::{ClassNames, check_description, check_name};

/// Keys at the top of the file. `listen` may also be a list; `volume` and `limits` are tables of
/// their own.
pub const SERVER_KEYS: &[Key<Config>] = &[
    Key {
        name: "drive",
        takes: "LOCATOR",
        summary: "the drive: emulated:PROFILE?backing=FILE, an NBD URI, or the path of a block \
            device or file",
        default: "none; must be given",
        set: |config, value| {
            config.drive = Some(Locator::parse(value.text()?).map_err(text_of)?);
            Ok(())
        },
    },
    Key {
        name: "create",
        takes: "SIZE",
        summary: "when the drive is a path and nothing is there: create a file of this size",
        default: "nothing is created",
        set: |config, value| {
            config.create = Some(size(value, "create")?);
            Ok(())
        },
    },
    Key {
        name: "policy",
        takes: "NAME[:parameter=value,…]",
        summary: "who chooses what goes to the drive next; see `headtime policies`",
        default: headtime_sched::DEFAULT_POLICY,
        set: |config, value| {
            config.policy = PolicyChoice::parse(value.text()?).map_err(text_of)?;
            config.tuned.insert("policy");
            Ok(())
        },
    },
    Key {
        name: "outstanding",
        takes: "N",
        summary: "how many commands the drive holds at once, whatever the policy would like",
        default: "left to the policy",
        set: |config, value| {
            config.outstanding =
                Some(count(value, "outstanding", 1, OUTSTANDING_MAX as u32)? as usize);
            config.tuned.insert("outstanding");
            Ok(())
        },
    },
    tunable::<0>(),
    tunable::<1>(),
    tunable::<2>(),
    tunable::<3>(),
    Key {
        name: "belief",
        takes: "profile, matrix, compact, matrix:FILE or compact:FILE",
        summary: "by what places and times of the drive are believed; a latency map in FILE is \
            restored at the start and saved there",
        default: "profile",
        set: |config, value| {
            config.belief = value.text()?.parse().map_err(text_of)?;
            Ok(())
        },
    },
    Key {
        name: "command_timeout",
        takes: "TIME or never",
        summary: "how long the drive may leave a command without an answer before its requests \
            fail",
        default: "30s",
        set: |config, value| {
            config.command_timeout =
                value.text()?.parse().map_err(|error| format!("command_timeout: {error}"))?;
            Ok(())
        },
    },
    Key {
        name: "queue_depth",
        takes: "N",
        summary: "of a raw device: how many commands the drive is let have at once, by its own \
            limit in the kernel",
        default: "as the drive has it",
        set: |config, value| {
            config.raw.queue_depth = Some(count(value, "queue_depth", 1, 65_536)?);
            Ok(())
        },
    },
    Key {
        name: "write_cache",
        takes: "keep, on or off",
        summary: "of a raw device: the drive's own write cache; off makes each write durable \
            before it is complete",
        default: "keep",
        set: |config, value| {
            config.raw.write_cache = value.text()?.parse().map_err(text_of)?;
            Ok(())
        },
    },
    Key {
        name: "kernel_knobs",
        takes: "set or keep",
        summary: "of a raw device: switch the kernel's own scheduling off while serving, and put \
            it back in the end",
        default: "set",
        set: |config, value| {
            config.raw.kernel_knobs = value.text()?.parse().map_err(text_of)?;
            Ok(())
        },
    },
    Key {
        name: "control",
        takes: "PATH or off",
        summary: "the control socket, for `headtime scan`, `volume`, `map`, `get`, `set`, \
            `status`, `top`, `explain` and `reload`; only the server's own user may use it",
        default: "beside the drive's file with .control, in /run/headtime for a block device, off \
            for others",
        set: |config, value| {
            config.control = place(value, "control")?;
            Ok(())
        },
    },
    Key {
        name: "state",
        takes: "DIRECTORY or off",
        summary: "where scans, and what was set while serving, are remembered",
        default: "beside the drive's file with .scans, in /var/lib/headtime for a block device, \
            off for others",
        set: |config, value| {
            config.state = place(value, "state")?;
            Ok(())
        },
    },
    Key {
        name: "max_impact",
        takes: "SHARE, such as 1%",
        summary: "by which part the mean response of clients may grow by scans",
        default: "1%",
        set: |config, value| {
            config.max_impact = MaxImpact(
                parse_share(value.text()?).map_err(|error| format!("max_impact: {error}"))?,
            );
            Ok(())
        },
    },
    Key {
        name: "profile",
        takes: "FILE or NAME",
        summary: "what is believed of the drive: the profile that `headtime characterize` has \
            written of it, or one that ships",
        default: "an emulated drive's own; of any other only its size is known",
        set: |config, value| {
            config.profile = Some(ProfileSource::of(value.text()?));
            Ok(())
        },
    },
    Key {
        name: "metrics",
        takes: "HOST:PORT, such as 127.0.0.1:9464",
        summary: "where Prometheus finds /metrics, and others /healthz, over HTTP",
        default: "nowhere",
        set: |config, value| {
            let address = value.text()?;
            let port = address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
            port.ok_or_else(|| {
                format!(
                    "metrics = {address}: expected HOST:PORT, such as 127.0.0.1:9464 or [::1]:9464"
                )
            })?;
            config.metrics = Some(address.to_string());
            Ok(())
        },
    },
    Key {
        name: "metrics_public",
        takes: "true or false",
        summary: "allow metrics at an address that other machines can reach",
        default: "false",
        set: |config, value| {
            config.metrics_public = value.truth("metrics_public")?;
            Ok(())
        },
    },
    Key {
        name: "listen",
        takes: "unix:PATH[,mode=0660] or tcp:HOST:PORT, and ,tls=off|allow|require",
        summary: "where clients are awaited; a list in TOML, any number of flags",
        default: "none; at least one must be given",
        set: |config, value| {
            config.listen.push(Listen::parse(value.text()?).map_err(text_of)?);
            Ok(())
        },
    },
    Key {
        name: "initialize",
        takes: "true or false",
        summary: "allow a drive with other content, or a damaged table of volumes, to be \
            overwritten",
        default: "false",
        set: |config, value| {
            config.initialize = value.truth("initialize")?;
            Ok(())
        },
    },
];

/// Keys of a volume.
pub const VOLUME_KEYS: &[Key<VolumeConfig>] = &[
    Key {
        name: "name",
        takes: "1 to 64 of A-Z a-z 0-9 . _ -",
        summary: "the volume's name, which is its export's",
        default: "none; must be given",
        set: |volume, value| {
            let name = value.text()?;
            check_name(name).map_err(text_of)?;
            volume.name = name.to_string();
            Ok(())
        },
    },
    Key {
        name: "size",
        takes: "SIZE, such as 100GiB",
        summary: "the volume's size; may be left out when the drive remembers the volume",
        default: "as remembered",
        set: |volume, value| {
            volume.size = Some(size(value, "size")?);
            Ok(())
        },
    },
    Key {
        name: "deadline",
        takes: "TIME, such as 100ms, or none",
        summary: "every read and write is to be complete so long after its arrival",
        default: "none",
        set: |volume, value| {
            volume.settings.deadline = Some(unless_none(value, |value| time(value, "deadline"))?);
            Ok(())
        },
    },
    Key {
        name: "read_only",
        takes: "true or false",
        summary: "refuse writes",
        default: "false",
        set: |volume, value| {
            volume.settings.read_only = Some(value.truth("read_only")?);
            Ok(())
        },
    },
    Key {
        name: "description",
        takes: "TEXT of at most 128 bytes",
        summary: "text for people, shown to clients that list the exports",
        default: "empty",
        set: |volume, value| {
            let description = value.text()?;
            // The name may not be known yet, so the message does not name the volume; whoever
            // reports it does.
            let refused = |_| {
                format!(
                    "description: a control character in it, or {} bytes; expected one line of at \
                        most 128 bytes",
                    description.len()
                )
            };
            check_description(&volume.name, description).map_err(refused)?;
            volume.settings.description = Some(description.to_string());
            Ok(())
        },
    },
    Key {
        name: "reserve",
        takes: "SHARE, such as 25%",
        summary: "the part of the drive's time that is the volume's whenever it wants it",
        default: "0%",
        set: |volume, value| {
            volume.settings.reserve = Some(share(value, "reserve")?);
            Ok(())
        },
    },
    Key {
        name: "limit",
        takes: "SHARE, such as 50%, or none",
        summary: "the most of the drive's time that it is given, also when nobody else wants it",
        default: "none",
        set: |volume, value| {
            volume.settings.limit = Some(unless_none(value, |value| share(value, "limit"))?);
            Ok(())
        },
    },
    Key {
        name: "burst",
        takes: "TIME, such as 1s, or none",
        summary: "for how long the volume may save up what it does not use of its reserve and \
            limit",
        default: "none; as the scheduler has it",
        set: |volume, value| {
            volume.settings.burst = Some(unless_none(value, |value| time(value, "burst"))?);
            Ok(())
        },
    },
    Key {
        name: "iops_limit",
        takes: "N, or none",
        summary: "the most requests a second",
        default: "none",
        set: |volume, value| {
            volume.settings.iops_limit =
                Some(unless_none(value, |value| count(value, "iops_limit", 1, u32::MAX))?);
            Ok(())
        },
    },
    Key {
        name: "bandwidth_limit",
        takes: "SIZE a second, such as 50MB, or none",
        summary: "the most bytes a second",
        default: "none",
        set: |volume, value| {
            volume.settings.bandwidth_limit = Some(unless_none(value, |value| {
                size(value, "bandwidth_limit").map(ByteSize::get)
            })?);
            Ok(())
        },
    },
    Key {
        name: "priority",
        takes: "rt, be or idle, with a level from 0 (most urgent) to 7 if you like, such as rt/2, \
            or none",
        summary: "the I/O priority of its requests: how urgent they are as far as nobody's reserve \
            decides it, and when they are due where `deadlines` says so and the volume does not",
        default: "none",
        set: |volume, value| {
            let text = value.text()?;
            let priority = if text == "none" {
                None
            } else {
                Some(text.parse().map_err(|error| format!("priority: {error}, or none"))?)
            };
            volume.settings.priority = Some(priority);
            Ok(())
        },
    },
    Key {
        name: "classes",
        takes: "realtime, bulk, realtime+bulk or none",
        summary: "exports of the volume beside its own, NAME@realtime and NAME@bulk, with settings \
            of their own (`headtime volume set NAME@bulk …`)",
        default: "none",
        set: |volume, value| {
            let text = value.text()?;
            let classes = ClassNames::parse(text).ok_or_else(|| {
                format!("classes = {text}: expected realtime, bulk, realtime+bulk or none")
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
            let text = if let Value::Integer(digits) = value { digits } else { value.text()? };
            config.tunables.set(tunable.name, text).map_err(text_of)?;
            config.tuned.insert(tunable.name);
            Ok(())
        },
    }
}

const _: () = assert!(TUNABLES.len() == 4, "each tunable has a key");

/// Keys of `[limits]`.
pub const LIMIT_KEYS: &[Key<ServeLimits>] = &[
    Key {
        name: "connections",
        takes: "N",
        summary: "most connections at once",
        default: "256",
        set: |limits, value| {
            limits.connections = count(value, "connections", 1, 65_536)?;
            Ok(())
        },
    },
    Key {
        name: "memory",
        takes: "SIZE",
        summary: "bytes that all connections share for requests in flight, beyond what each has of \
            its own",
        default: "512MiB",
        set: |limits, value| {
            limits.memory = size(value, "memory")?;
            Ok(())
        },
    },
    Key {
        name: "connection_memory",
        takes: "SIZE",
        summary: "bytes that each connection has of its own",
        default: "1MiB",
        set: |limits, value| {
            limits.connection_memory = size(value, "connection_memory")?;
            Ok(())
        },
    },
    Key {
        name: "connection_bytes",
        takes: "SIZE",
        summary: "most bytes of requests in flight on one connection",
        default: "64MiB",
        set: |limits, value| {
            limits.connection_bytes = size(value, "connection_bytes")?;
            Ok(())
        },
    },
    Key {
        name: "connection_requests",
        takes: "N",
        summary: "most requests in flight on one connection",
        default: "256",
        set: |limits, value| {
            limits.connection_requests = count(value, "connection_requests", 1, 65_536)?;
            Ok(())
        },
    },
    Key {
        name: "request",
        takes: "SIZE from 64KiB to 1GiB",
        summary: "longest read or write a client may ask for",
        default: "32MiB",
        set: |limits, value| {
            limits.request = within(size(value, "request")?, "request", 64 << 10, 1 << 30)?;
            Ok(())
        },
    },
    Key {
        name: "piece",
        takes: "SIZE from 64KiB, a power of two",
        summary: "longer requests reach the scheduler in pieces of this size, so that none of them \
            keeps the head for long",
        default: "1MiB",
        set: |limits, value| {
            let piece = within(size(value, "piece")?, "piece", 64 << 10, 1 << 30)?;
            if !piece.get().is_power_of_two() {
                return Err(format!(
                    "piece = {piece} is no power of two; write {}",
                    ByteSize::new(piece.get().next_power_of_two())
                ));
            }
            limits.piece = piece;
            Ok(())
        },
    },
    Key {
        name: "pieces",
        takes: "N",
        summary: "most pieces at the scheduler at once",
        default: "16384",
        set: |limits, value| {
            limits.pieces = count(value, "pieces", 1, 1 << 20)?;
            Ok(())
        },
    },
    Key {
        name: "handshake_timeout",
        takes: "TIME",
        summary: "time from connecting to opening an export",
        default: "10s",
        set: |limits, value| {
            limits.handshake_timeout = time(value, "handshake_timeout")?;
            Ok(())
        },
    },
    Key {
        name: "stall_timeout",
        takes: "TIME",
        summary: "while others wait for memory, the time in which a connection that holds much \
            must move some of it",
        default: "30s",
        set: |limits, value| {
            limits.stall_timeout = time(value, "stall_timeout")?;
            Ok(())
        },
    },
];
