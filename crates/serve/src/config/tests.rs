//! Tests of the readers of files and flags.

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
    assert_eq!((config.limits.connections, config.limits.memory), (10, ByteSize::new(64 << 20)));
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

/// Broken configurations and their errors; the end of an error may be left out.
const BROKEN: &[(&str, &[&str])] = &[
    (
        "drives = \"x\"",
        &["c.toml:1:1: unknown key `drives`; known are drive, create, policy, outstanding, \
            latency_matrix, deadlines, lookahead_k, timesource, auto_table, model, \
            command_timeout, queue_depth, write_cache, kernel_knobs, control, state, max_impact, \
            profile, metrics, metrics_public, web, web_public, listen, initialize, existing, \
            read_only, unreserved, [map], [limits], [tls], [[volume]], [[scan]], \
            [[client]]"],
    ),
    (
        "policy = 3",
        &["c.toml:1:10: policy is 3, expected text in quotes; write it such as policy = \"…\""],
    ),
    (
        "outstanding = 0",
        &["c.toml:1:15: outstanding is 0, expected a whole number from 1 to 65536 without \
                quotes; \
            write it such as outstanding = 1"],
    ),
    ("command_timeout = \"0\"", &["c.toml:1:19: command_timeout: "]),
    (
        "write_cache = true",
        &["c.toml:1:15: write_cache is true, expected text in quotes; write it such as \
                write_cache \
            = \"…\""],
    ),
    ("write_cache = \"write back\"", &["c.toml:1:15: write_cache = "]),
    ("kernel_knobs = \"off\"", &["c.toml:1:16: kernel_knobs = "]),
    (
        "queue_depth = 0",
        &["c.toml:1:15: queue_depth is 0, expected a whole number from 1 to 65536 without \
                quotes; \
            write it such as queue_depth = 1"],
    ),
    (
        "outstanding = \"2\"",
        &["c.toml:1:15: outstanding is \"2\", expected a whole number from 1 to 65536 without \
            quotes; write it such as outstanding = 1"],
    ),
    (
        "initialize = \"yes\"",
        &["c.toml:1:14: initialize is \"yes\", expected true or false without quotes; write it \
            such as initialize = true"],
    ),
    (
        "listen = [\"unix:a\", \"udp:b\"]",
        &["c.toml:1:21: `udp:b` is not an address to listen at; write unix:PATH or \
                tcp:HOST:PORT, \
            such as unix:/run/headtime.sock or tcp:127.0.0.1:10809"],
    ),
    (
        "[[volume]]\nname = \"rec\"\nshare = \"10%\"\n",
        &["c.toml:3:1: volume rec: unknown key `share`; known are name, size, deadline, \
                read_only, \
            description, reserve, limit, burst, weight, iops_limit, bandwidth_limit, priority, \
            classes"],
    ),
    (
        "[[volume]]\nname = \"rec\"\nsize = \"10 potatoes\"\ndeadline = \"0\"\n",
        &[
            "c.toml:3:8: volume rec: size: `10 potatoes`",
            "c.toml:4:12: volume rec: deadline is \"0\", expected a time above 0; write it such as \
                deadline = \"100ms\"",
        ],
    ),
    (
        "[[volume]]\nsize = \"1GiB\"\n",
        &["c.toml:1:1: volume: name is missing; add name = … (1 to 64 of A-Z a-z 0-9 . _ -)"],
    ),
    (
        "[[volume]]\nname = \"ä\"\n\n[[volume]]\nname = \"b\"\n[[volume]]\nname = \"b\"\n",
        &[
            "c.toml:2:8: volume name `ä`",
            "c.toml:7:8: volume b appears twice; give each volume a name of its own",
        ],
    ),
    (
        "[[volume]]\nname = \"a\"\ndescription = \"two\\nlines\"\n",
        &["c.toml:3:15: volume a: description: a control character in it, or 9 bytes; expected \
                one \
            line of at most 128 bytes"],
    ),
    (
        "lookahead_k = 9\ndeadlines = \"rt=50\"\nbelief = \"truth\"\n[map]\nbits = 5\nsave = \
            \"1ms\"\nfrom = \"me\"\n",
        &[
            "c.toml:1:15: lookahead_k: ",
            "c.toml:2:13: deadlines: ",
            "c.toml:3:10: ",
            "c.toml:5:8: map: bits is 5, expected 4, 8 or 16; write it such as bits = 4",
            "c.toml:6:8: map: save is \"1ms\", expected at least 1s, end or never; write it such \
                as save = \"10min\"",
            "c.toml:7:8: map: from is \"me\", expected profile or nothing; write it such as from = \
                \"profile\"",
        ],
    ),
    (
        "[map]\nmemory = \"1MiB\"\n",
        &["c.toml:2:10: map: memory is \"1MiB\", expected 8 MiB to 1 TiB; write it such as \
                memory = \"8MiB\""],
    ),
    ("map = 3", &["c.toml:1:7: map: write map as [map] with its keys on the lines below"]),
    ("[[volume]]\nname = \"a\"\npriority = \"rt/8\"\n", &["c.toml:3:12: volume a: priority: "]),
    (
        "volume = 3",
        &["c.toml:1:10: write each volume as [[volume]] with its keys on the lines below"],
    ),
    ("tls = true", &["c.toml:1:7: tls: write tls as [tls] with its keys on the lines below"]),
    (
        "[tls]\ncert = \"a\"\n",
        &["c.toml:2:1: tls: unknown key `cert`; known are certificate, key, client_ca, client_crl"],
    ),
    (
        "[[client]]\nexports = [\"a\", 3]\n",
        &[
            "c.toml:1:1: client: name is missing; add name = … (NAME or *)",
            "c.toml:2:17: client: exports is 3, expected text in quotes; write it such as exports \
                = \"…\"",
        ],
    ),
    (
        "limits = 3",
        &["c.toml:1:10: limits: write limits as [limits] with its keys on the lines below"],
    ),
    (
        "[limits]\npiece = \"96KiB\"\n",
        &["c.toml:2:9: limits: piece = 96 KiB is not a power of two; write 128 KiB"],
    ),
    (
        "[limits]\nrequest = \"2GiB\"\n",
        &["c.toml:2:11: limits: request is \"2GiB\", expected 64 KiB to 1 GiB; write it such as \
            request = \"1MiB\""],
    ),
    (
        "policy = \"fcfs:x=1\"\ndrive = \"nbd:x\"\n",
        &["c.toml:1:10: policy fcfs", "c.toml:2:9: drive `nbd:x`"],
    ),
];

#[test]
fn broken_files_are_refused_with_position_and_remedy() {
    for (text, expected) in BROKEN {
        let errors = Config::from_toml("c.toml", text).expect_err(text).to_string();
        let lines: Vec<&str> = errors.lines().collect();
        assert_eq!(lines.len(), expected.len(), "{errors}\nin\n{text}");
        for (line, expected) in lines.iter().zip(*expected) {
            assert!(line.starts_with(expected), "{line}\n{expected}\nin\n{text}");
        }
    }
}

#[test]
fn a_file_that_is_not_toml_is_refused_with_its_line() {
    let errors = Config::from_toml("c.toml", "drive = \"a\"\npolicy = \n").unwrap_err().to_string();
    assert!(errors.starts_with("c.toml:2:"), "{errors}");
}

#[test]
fn flags_equal_the_file_and_take_precedence() {
    let flags = Flags {
        keys: [
            ("drive", "emulated:nearline-20tb?backing=/tmp/d.img"),
            ("policy", "fcfs"),
            ("outstanding", "3"),
            ("command_timeout", "never"),
            ("listen", "unix:/run/a.sock,mode=0660"),
            ("listen", "tcp:[::1]:1234"),
            ("initialize", "true"),
        ]
        .map(|(key, text)| (key, text.to_owned()))
        .to_vec(),
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
        keys: vec![("listen", "unix:b".to_string())],
        ..Flags::default()
    };
    both.apply(&flags).unwrap();
    assert_eq!(
        both.volumes.iter().map(|volume| (volume.name.as_str(), volume.size)).collect::<Vec<_>>(),
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
            "e=1MiB,size=2MiB".to_string(),
            "f=1MiB,limit=1%,limit=2%".to_string(),
        ],
        limits: vec!["memory".to_string()],
        ..Flags::default()
    };
    let text = Config::from_flags(&flags).unwrap_err().to_string();
    for part in [
        "--volume a b=1: volume name `a b`",
        "--volume c=1,most=3,deadline=7: volume: unknown key `most`; known are name, size",
        "--volume c=1,most=3,deadline=7: volume: deadline: ",
        "--volume d=2MiB: volume d appears twice",
        "--limit memory: limit: memory: ",
        "--volume e=1MiB,size=2MiB: volume: size is given twice",
        "--volume f=1MiB,limit=1%,limit=2%: volume: limit is given twice",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn missing_keys_and_contradictions_are_reported_together() {
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
        "write_cache is set through the kernel, but kernel_knobs = keep forbids that",
        "memory = 1 MiB is less than request and four times piece = 288 MiB",
        "request = 32 MiB is less than piece = 64 MiB",
    ] {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn settings_of_block_devices_need_a_path() {
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
fn every_key_has_its_documented_default() {
    let mut limits = crate::config::ServeLimits::default();
    for key in LIMIT_KEYS {
        (key.set)(&mut limits, &Value::flag(key.name, key.default)).unwrap();
    }
    assert_eq!(limits, crate::config::ServeLimits::default());
    let mut config = Config::default();
    for key in MAP_KEYS.iter().filter(|key| key.name != "rpm") {
        (key.set)(&mut config, &Value::flag(key.name, key.default)).unwrap();
    }
    assert_eq!(
        (config.map, config.map_saving, config.map_sharing),
        (Config::default().map, Config::default().map_saving, Config::default().map_sharing)
    );
    let policy = SERVER_KEYS.iter().find(|key| key.name == "policy").unwrap();
    assert_eq!(policy.default, Config::default().policy.name());
    let timeout = SERVER_KEYS.iter().find(|key| key.name == "command_timeout").unwrap();
    assert_eq!(timeout.default.parse(), Ok(Config::default().command_timeout));
}

#[test]
fn the_old_name_of_model_is_accepted() {
    let old = Config::from_toml("c.toml", "belief = \"compact\"").unwrap();
    let new = Config::from_toml("c.toml", "model = \"compact\"").unwrap();
    assert_eq!(old.model.to_string(), new.model.to_string());
}

const SCANS: &str = r#"
drive = "memory:64MiB"
listen = ["unix:/run/a.sock"]
[[volume]]
name = "db"
size = "1GiB"
[[scan]]
target = "db"
task = "backup"
range = "512MiB.."
to = "/backup/db-%Y-%m-%d.img"
priority = 2
during = "Mon-Fri 22:00-06:00; Sat,Sun"
every = "1w"
wake = true
[[scan]]
target = "@drive"
task = "scrub"
digests = true
during = "none"
"#;

#[test]
fn scans_are_read_with_every_option() {
    let config = Config::from_toml("a.toml", SCANS).unwrap();
    config.check().unwrap();
    let [backup, scrub] = &config.scans[..] else { panic!("{:?}", config.scans) };
    assert_eq!((backup.name(), scrub.name()), ("backup of db".into(), "scrub of @drive".into()));
    assert_eq!(backup.range.map(|range| range.to_string()), Some("512MiB..".to_owned()));
    assert_eq!(backup.terms.priority.map(headtime_sched::ScanPriority::level), Some(2));
    let text = |terms: &crate::scans::TermsChange| {
        let during = terms.during.clone().flatten().map(|during| during.to_string());
        (during, terms.every.clone().flatten().map(|every| every.to_string()), terms.wake)
    };
    let windows = "Mon-Fri 22:00-06:00; Sat,Sun".to_owned();
    assert_eq!(text(&backup.terms), (Some(windows), Some("1w".to_owned()), Some(true)));
    assert_eq!(text(&scrub.terms), (None, None, Some(false)));
    assert!(scrub.digests && scrub.to.is_none());
}

#[test]
fn mistakes_in_scans_are_found_without_the_drive() {
    let errors = |scan: &str| {
        let text = format!("[[scan]]\n{scan}");
        Config::from_toml("a.toml", &text).unwrap_err().to_string()
    };
    for (scan, expected) in [
        ("task = \"scrub\"", "scan: target is missing; add target"),
        ("target = \"v\"\ntask = \"scrap\"", "known are scrub, backup, digest"),
        ("target = \"v\"\ntask = \"backup\"", "a backup needs an output; add to ="),
        ("target = \"v\"\ntask = \"backup\"\nto = \"a.img\"", "expected an absolute path"),
        ("target = \"v\"\ntask = \"scrub\"\nto = \"/a.img\"", "leave the output out"),
        (
            "target = \"v\"\ntask = \"backup\"\nto = \"/a.img\"\nevery = \"1w\"",
            "write the date into the name",
        ),
        ("target = \"v\"\ntask = \"scrub\"\npriority = 8", "a whole number from 0 to 7"),
        ("target = \"v\"\ntask = \"scrub\"\nduring = \"22-6\"", "Mon-Fri 22:00-06:00"),
        ("target = \"v\"\ntask = \"scrub\"\nevery = \"monthly\"", "such as `4w`"),
        ("target = \"v\"\ntask = \"scrub\"\nrange = \"1GiB\"", "write FROM..TO"),
        (
            "target = \"v\"\ntask = \"scrub\"\n[[scan]]\ntarget = \"v\"\ntask = \"scrub\"",
            "the scrub of v appears twice",
        ),
    ] {
        assert!(errors(scan).contains(expected), "`{expected}` is not in {}", errors(scan));
    }
    let config = Config::from_toml("a.toml", &SCANS.replace("512MiB..", "1GiB+1GiB")).unwrap();
    let error = config.check().unwrap_err().to_string();
    assert!(error.contains("starts after the end of db, which has 1 GiB"), "{error}");
}
