//! The TOML reader: walks the parsed document, so that every mistake is found and knows its line
//! and column.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::keys::{LIMIT_KEYS, SERVER_KEYS, VOLUME_KEYS};
use super::map_keys::MAP_KEYS;
use super::tls_keys::{CLIENT_KEYS, TLS_KEYS};
use super::value::{self, Key, Value};
use super::{Config, ConfigError, ConfigErrors, Place, VolumeConfig};
use crate::tls::ClientConfig;

/// Reads a configuration; see [`Config::from_toml`].
pub(super) fn read(name: &str, text: &str) -> Result<Config, ConfigErrors> {
    let mut reader = Reader { name, text, errors: Vec::new() };
    let mut config = Config::default();
    let (document, mistakes) = DeTable::parse_recoverable(text);
    if mistakes.is_empty() {
        reader.document(&mut config, document.get_ref());
    }
    for mistake in mistakes {
        reader.error(mistake.span().unwrap_or(0..0), mistake.message().replace('\n', ", "));
    }
    reader.errors.sort_by_key(|(at, _)| *at);
    ConfigErrors::unless_empty(reader.errors.into_iter().map(|(_, error)| error).collect())
        .map(|()| config)
}

struct Reader<'t> {
    name: &'t str,
    text: &'t str,
    /// Each mistake behind the byte where it stands.
    errors: Vec<(usize, ConfigError)>,
}

impl Reader<'_> {
    fn document(&mut self, config: &mut Config, document: &DeTable<'_>) {
        for (key, value) in document {
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("listen", DeValue::Array(addresses)) => {
                    for address in addresses.iter() {
                        self.set(SERVER_KEYS, "", config, key, address);
                    }
                }
                ("map", DeValue::Table(map)) => {
                    config.map_named = true;
                    self.table(MAP_KEYS, "map", config, map);
                }
                ("map", _) => self.error(
                    value.span(),
                    "write settings of the latency map as [map] with the keys on the lines below"
                        .to_string(),
                ),
                ("limits", DeValue::Table(limits)) => {
                    self.table(LIMIT_KEYS, "limits", &mut config.limits, limits)
                }
                ("tls", DeValue::Table(tls)) => self.table(TLS_KEYS, "tls", &mut config.tls, tls),
                ("client", DeValue::Array(clients)) => {
                    for client in clients.iter() {
                        self.client(config, client);
                    }
                }
                ("tls", _) => self.error(
                    value.span(),
                    "write TLS as [tls] with the keys on the lines below".to_string(),
                ),
                ("client", _) => self.error(
                    value.span(),
                    "write each client as [[client]] with name and exports on the lines below"
                        .to_string(),
                ),
                ("volume", DeValue::Array(volumes)) => {
                    for volume in volumes.iter() {
                        self.volume(config, volume);
                    }
                }
                ("volume", _) => self.error(
                    value.span(),
                    "write each volume as [[volume]] with name and size on the lines below"
                        .to_string(),
                ),
                ("limits", _) => self.error(
                    value.span(),
                    "write limits as [limits] with the keys on the lines below".to_string(),
                ),
                (name, _) if SERVER_KEYS.iter().all(|known| known.name != name) => {
                    let known: Vec<&str> = SERVER_KEYS.iter().map(|known| known.name).collect();
                    self.error(
                        key.span(),
                        format!(
                            "unknown key `{name}`; known are {}, [map], [limits], [tls], \
                            [[volume]] and [[client]]",
                            known.join(", ")
                        ),
                    );
                }
                _ => self.set(SERVER_KEYS, "", config, key, value),
            }
        }
    }

    fn volume(&mut self, config: &mut Config, entry: &Spanned<DeValue<'_>>) {
        let DeValue::Table(table) = entry.get_ref() else {
            return self.error(
                entry.span(),
                "write each volume as [[volume]] with name and size on the lines below".to_string(),
            );
        };
        let mut volume = VolumeConfig::default();
        let named = table
            .iter()
            .find(|(key, _)| key.get_ref() == "name")
            .and_then(|(_, value)| value.get_ref().as_str().map(|name| (value.span(), name)));
        let thing = named
            .as_ref()
            .map_or_else(|| "volume".to_string(), |(_, name)| format!("volume {name}"));
        self.table(VOLUME_KEYS, &thing, &mut volume, table);
        if table.iter().all(|(key, _)| key.get_ref() != "name") {
            self.error(entry.span(), "a volume needs a name; add name = \"…\"".to_string());
        }
        if let Some((span, name)) =
            named.filter(|(_, name)| config.volumes.iter().any(|other| other.name == *name))
        {
            self.error(
                span,
                format!("volume {name} is there twice; give each volume a name of its own"),
            );
        } else {
            config.volumes.push(volume);
        }
    }

    fn client(&mut self, config: &mut Config, entry: &Spanned<DeValue<'_>>) {
        let DeValue::Table(table) = entry.get_ref() else {
            return self.error(
                entry.span(),
                "write each client as [[client]] with name and exports on the lines below"
                    .to_string(),
            );
        };
        let mut client = ClientConfig::default();
        for (key, value) in table {
            match (key.get_ref().as_ref(), value.get_ref()) {
                ("exports", DeValue::Array(exports)) => exports
                    .iter()
                    .for_each(|export| self.set(CLIENT_KEYS, "client", &mut client, key, export)),
                _ => self.set(CLIENT_KEYS, "client", &mut client, key, value),
            }
        }
        if table.iter().all(|(key, _)| key.get_ref() != "name") {
            self.error(entry.span(), "a client needs a name; add name = \"…\"".to_string());
        }
        config.clients.push(client);
    }

    fn table<T>(&mut self, keys: &[Key<T>], thing: &str, target: &mut T, table: &DeTable<'_>) {
        for (key, value) in table {
            self.set(keys, thing, target, key, value);
        }
    }

    fn set<T>(
        &mut self,
        keys: &[Key<T>],
        thing: &str,
        target: &mut T,
        key: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
    ) {
        let kind = thing.split(' ').next().unwrap_or_default();
        let named = |message: String| {
            if thing.is_empty() || message.starts_with(kind) {
                message
            } else {
                format!("{thing}: {message}")
            }
        };
        let known = match value::find(keys, key.get_ref()) {
            Ok(known) => known,
            Err(message) => return self.error(key.span(), named(message)),
        };
        let written = match value.get_ref() {
            DeValue::String(text) => Value::Text(text),
            DeValue::Integer(integer) if integer.radix() == 10 => Value::Integer(integer.as_str()),
            DeValue::Boolean(value) => Value::Bool(*value),
            other => Value::Other(other.type_str()),
        };
        if let Err(message) = (known.set)(target, written) {
            self.error(value.span(), named(message));
        }
    }

    fn error(&mut self, span: Range<usize>, message: String) {
        let before = &self.text[..span.start.min(self.text.len())];
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        self.errors.push((
            span.start,
            ConfigError {
                place: Place::File { name: self.name.to_string(), line, column },
                message,
            },
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Flags;
    use headtime_io::{KernelKnobs, RawOptions, WriteCache};
    use headtime_units::{ByteSize, Nanos};

    const WHOLE: &str = r#"
drive = "emulated:nearline-20tb?backing=/tmp/d.img"
listen = ["unix:/run/a.sock,mode=0660", "tcp:[::1]:1234"]
policy = "fcfs"
outstanding = 3
command_timeout = "never"
initialize = true

[limits]
connections = 10
memory = "64MiB"

[[volume]]
name = "rec"
size = "1GiB"
deadline = "100ms"
description = "four cameras"

[[volume]]
name = "db"
size = 1048576
read_only = true
"#;

    #[test]
    fn a_whole_file_is_read() {
        let config = Config::from_toml("a.toml", WHOLE).unwrap();
        config.check().unwrap();
        assert_eq!(
            (config.policy.name(), config.outstanding, config.initialize),
            ("fcfs", Some(3), true)
        );
        assert_eq!(
            (config.limits.connections, config.limits.memory),
            (10, ByteSize::new(64 << 20))
        );
        assert_eq!(config.listen.len(), 2);
        let [rec, db] = &config.volumes[..] else { panic!("{:?}", config.volumes) };
        assert_eq!(
            (rec.settings.deadline, rec.settings.description.as_deref()),
            (Some(Some(Nanos::from_ms(100))), Some("four cameras"))
        );
        assert_eq!(
            (db.size, db.settings.read_only, db.settings.deadline),
            (Some(ByteSize::new(1 << 20)), Some(true), None)
        );
    }

    /// Broken configurations and exactly what is said about them.
    const BROKEN: &[(&str, &[&str])] = &[
        (
            "drives = \"x\"",
            &["c.toml:1:1: unknown key `drives`; known are drive, create, policy, outstanding, \
                    latency_matrix, deadlines, lookahead_k, timesource, belief, command_timeout, \
                    queue_depth, write_cache, kernel_knobs, control, state, max_impact, profile, \
                    metrics, metrics_public, listen, initialize, [map], [limits], [tls], \
                    [[volume]] and [[client]]"],
        ),
        ("policy = 3", &["c.toml:1:10: expected text in quotes, not the integer 3"]),
        (
            "outstanding = 0",
            &["c.toml:1:15: outstanding = 0: expected a whole number from 1 to 65536"],
        ),
        (
            "command_timeout = \"0\"",
            &["c.toml:1:19: command_timeout: a limit of 0 leaves no time for any command; write \
                    a time such as 30s, or never"],
        ),
        ("write_cache = true", &["c.toml:1:15: expected text in quotes, not true"]),
        (
            "write_cache = \"write back\"",
            &["c.toml:1:15: write_cache = write back: expected keep, on or off"],
        ),
        ("kernel_knobs = \"off\"", &["c.toml:1:16: kernel_knobs = off: expected set or keep"]),
        (
            "queue_depth = 0",
            &["c.toml:1:15: queue_depth = 0: expected a whole number from 1 to 65536"],
        ),
        (
            "outstanding = \"2\"",
            &["c.toml:1:15: outstanding is a number without quotes, not \"2\""],
        ),
        (
            "initialize = \"yes\"",
            &["c.toml:1:14: initialize is true or false without quotes, not \"yes\""],
        ),
        (
            "listen = [\"unix:a\", \"udp:b\"]",
            &["c.toml:1:21: `udp:b` is no address to listen at; write unix:PATH or \
                    tcp:HOST:PORT, such as unix:/run/headtime.sock or tcp:127.0.0.1:10809"],
        ),
        (
            "[[volume]]\nname = \"rec\"\nshare = \"10%\"\n",
            &["c.toml:3:1: volume rec: unknown key `share`; known are name, size, deadline, \
                    read_only, description, reserve, limit, burst, iops_limit, bandwidth_limit, \
                    priority, classes"],
        ),
        (
            "[[volume]]\nname = \"rec\"\nsize = \"10 potatoes\"\ndeadline = \"0\"\n",
            &[
                "c.toml:3:8: volume rec: size: `10 potatoes`: `potatoes` is no unit here; expected \
                    one of B, KiB, MiB, GiB, TiB (K, M, G, T are the same), \
                 kB, MB, GB, TB, such as `4KiB`",
                "c.toml:4:12: volume rec: deadline: a time of 0 makes no sense; write a time such \
                    as 100ms, or leave deadline out",
            ],
        ),
        ("[[volume]]\nsize = \"1GiB\"\n", &["c.toml:1:1: a volume needs a name; add name = \"…\""]),
        (
            "[[volume]]\nname = \"ä\"\n\n[[volume]]\nname = \"b\"\n[[volume]]\nname = \"b\"\n",
            &[
                "c.toml:2:8: volume name `ä`: expected 1 to 64 of A-Z a-z 0-9 . _ -, not beginning \
                    with a dot or dash; choose another name",
                "c.toml:7:8: volume b is there twice; give each volume a name of its own",
            ],
        ),
        (
            "[[volume]]\nname = \"a\"\ndescription = \"two\\nlines\"\n",
            &["c.toml:3:15: volume a: description: a control character in it, or 9 bytes; \
                    expected one line of at most 128 bytes"],
        ),
        (
            "lookahead_k = 9\ndeadlines = \"rt=50\"\nbelief = \"truth\"\n[map]\nbits = 5\nsave = \
                \"1ms\"\nfrom = \"me\"\n",
            &[
                "c.toml:1:15: lookahead_k: `9` is no value; write a whole number from 1 to 8, or \
                    policy",
                "c.toml:2:13: deadlines: `rt=50` is no value; write a list such as \
                    rt/0=50ms,be=200ms of a class (rt, be, idle), a level from 0 to 7 or none for \
                    all, and a time \
                 from 1 ms to 1 h; an empty text for no deadlines",
                "c.toml:3:10: belief = truth: expected profile, matrix, compact, matrix:FILE or \
                    compact:FILE",
                "c.toml:5:8: map: bits = 5: expected 4, 8 or 16",
                "c.toml:6:8: map: save: saving more often than every second leaves no time for \
                    anything else; write a time such as 10min",
                "c.toml:7:8: map: from = me: expected profile or nothing",
            ],
        ),
        (
            "map = 3",
            &["c.toml:1:7: write settings of the latency map as [map] with the keys on the lines \
                    below"],
        ),
        (
            "[[volume]]\nname = \"a\"\npriority = \"rt/8\"\n",
            &["c.toml:3:12: volume a: priority: `rt/8` is no I/O priority; write rt, be or idle, \
                    with a level from 0 (most urgent) to 7 behind it, such as rt/2, or none"],
        ),
        (
            "volume = 3",
            &["c.toml:1:10: write each volume as [[volume]] with name and size on the lines below"],
        ),
        ("tls = true", &["c.toml:1:7: write TLS as [tls] with the keys on the lines below"]),
        (
            "[tls]\ncert = \"a\"\n",
            &["c.toml:2:1: tls: unknown key `cert`; known are certificate, key, client_ca, \
                    client_crl"],
        ),
        (
            "[[client]]\nexports = [\"a\", 3]\n",
            &[
                "c.toml:1:1: a client needs a name; add name = \"…\"",
                "c.toml:2:17: client: expected text in quotes, not the integer 3",
            ],
        ),
        ("limits = 3", &["c.toml:1:10: write limits as [limits] with the keys on the lines below"]),
        (
            "[limits]\npiece = \"96KiB\"\n",
            &["c.toml:2:9: limits: piece = 96 KiB is no power of two; write 128 KiB"],
        ),
        (
            "[limits]\nrequest = \"2GiB\"\n",
            &["c.toml:2:11: limits: request = 2 GiB: expected 64 KiB to 1 GiB"],
        ),
        (
            "policy = \"fcfs:x=1\"\ndrive = \"nbd:x\"\n",
            &[
                "c.toml:1:10: policy fcfs has no parameter `x`; it has none",
                "c.toml:2:9: drive `nbd:x`: nbd:x: expected nbd://HOST[:PORT]/EXPORT or \
                    nbd+unix:///EXPORT?socket=PATH",
            ],
        ),
    ];

    #[test]
    fn broken_files_are_refused_with_place_and_remedy() {
        for (text, expected) in BROKEN {
            let errors = Config::from_toml("c.toml", text).expect_err(text).to_string();
            assert_eq!(errors.lines().collect::<Vec<_>>(), *expected, "in\n{text}");
        }
    }

    #[test]
    fn a_file_that_is_no_toml_says_where() {
        let errors =
            Config::from_toml("c.toml", "drive = \"a\"\npolicy = \n").unwrap_err().to_string();
        assert!(errors.starts_with("c.toml:2:"), "{errors}");
    }

    #[test]
    fn flags_say_the_same_as_the_file_and_have_the_last_word() {
        let flags = Flags {
            drive: Some("emulated:nearline-20tb?backing=/tmp/d.img".to_string()),
            policy: Some("fcfs".to_string()),
            outstanding: Some("3".to_string()),
            command_timeout: Some("never".to_string()),
            listen: vec!["unix:/run/a.sock,mode=0660".to_string(), "tcp:[::1]:1234".to_string()],
            initialize: true,
            volumes: vec![
                "rec=1GiB,deadline=100ms,description=four cameras".to_string(),
                "db=1048576,read_only".to_string(),
            ],
            limits: vec!["connections=10".to_string(), "memory=64MiB".to_string()],
            ..Flags::default()
        };
        let (file, flagged) =
            (Config::from_toml("a.toml", WHOLE).unwrap(), Config::from_flags(&flags).unwrap());
        assert_eq!(format!("{file:?}"), format!("{flagged:?}"));

        let mut both = file;
        let flags = Flags {
            volumes: vec!["db=2MiB".to_string()],
            listen: vec!["unix:b".to_string()],
            ..Flags::default()
        };
        both.apply(&flags).unwrap();
        assert_eq!(
            both.volumes
                .iter()
                .map(|volume| (volume.name.as_str(), volume.size))
                .collect::<Vec<_>>(),
            [("rec", Some(ByteSize::new(1 << 30))), ("db", Some(ByteSize::new(2 << 20)))]
        );
        assert_eq!(both.listen.len(), 1);
    }

    #[test]
    fn broken_flags_are_all_reported() {
        let flags = Flags {
            volumes: vec![
                "a b=1".to_string(),
                "c=1,most=3,deadline=7".to_string(),
                "d=1MiB".to_string(),
                "d=2MiB".to_string(),
            ],
            limits: vec!["memory".to_string()],
            ..Flags::default()
        };
        let text = Config::from_flags(&flags).unwrap_err().to_string();
        for part in [
            "--volume a b=1: volume name `a b`",
            "--volume c=1,most=3,deadline=7: volume: unknown key `most`; known are name, size",
            "--volume c=1,most=3,deadline=7: deadline: ",
            "--volume d=2MiB: volume d is there twice",
            "--limit memory: memory: ",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    #[test]
    fn what_is_missing_or_contradicts_is_found_together() {
        let mut config = Config::default();
        config.limits.memory = ByteSize::new(1 << 20);
        config.limits.piece = ByteSize::new(64 << 20);
        config.raw = RawOptions {
            kernel_knobs: KernelKnobs::Keep,
            write_cache: WriteCache::Off,
            ..RawOptions::default()
        };
        let text = config.check().unwrap_err().to_string();
        for part in [
            "no drive is named",
            "no address to listen at",
            "write_cache is set through the kernel, and kernel_knobs = keep forbids that",
            "memory = 1 MiB is less than request and four times piece = 288 MiB",
            "request = 32 MiB is less than piece = 64 MiB",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }

    #[test]
    fn settings_of_block_devices_go_with_a_path_only() {
        for (drive, contradicts) in
            [("emulated:nearline-20tb?backing=/tmp/d.img", true), ("/dev/disk/by-id/ata-X", false)]
        {
            let text = format!("drive = \"{drive}\"\nlisten = \"unix:a\"\nqueue_depth = 8\n");
            let checked = Config::from_toml("c.toml", &text).unwrap().check();
            assert_eq!(
                checked.is_err_and(|errors| errors
                    .to_string()
                    .contains("queue_depth is a setting of block devices")),
                contradicts,
                "{drive}"
            );
        }
    }

    #[test]
    fn every_key_has_the_default_it_says() {
        let mut limits = crate::config::ServeLimits::default();
        for key in LIMIT_KEYS {
            (key.set)(&mut limits, Value::Flag(key.default)).unwrap();
        }
        assert_eq!(limits, crate::config::ServeLimits::default());
        let mut config = Config::default();
        for key in MAP_KEYS.iter().filter(|key| key.name != "rpm") {
            (key.set)(&mut config, Value::Flag(key.default)).unwrap();
        }
        assert_eq!(
            (config.map, config.map_saving),
            (Config::default().map, Config::default().map_saving)
        );
        let policy = SERVER_KEYS.iter().find(|key| key.name == "policy").unwrap();
        assert_eq!(policy.default, Config::default().policy.name());
        let timeout = SERVER_KEYS.iter().find(|key| key.name == "command_timeout").unwrap();
        assert_eq!(timeout.default.parse(), Ok(Config::default().command_timeout));
    }
}
