//! Tunables changed while clients read and write: changes are atomic, stored across restarts, and
//! available over the control socket.

mod common;

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::Sandbox;
use common::client::Client;
use headtime_io::DriveSnapshot;
use headtime_serve::control::{ControlClient, ControlError, ErrorReplyKind, MAX_LINE};
use headtime_serve::tuner::{SetOne, SetTunables, TuneError, Tuner};
use serde_json::{Value, json};

const VOLUME: &str = "[[volume]]\nname = \"rec\"\nsize = \"4MiB\"\n";

fn set(pairs: &[(&str, &str)]) -> SetTunables {
    let set = pairs
        .iter()
        .map(|(name, value)| SetOne { name: (*name).to_owned(), value: (*value).to_owned() });
    SetTunables { set: set.collect(), ..SetTunables::default() }
}

fn value(tuner: &Tuner, name: &str) -> (String, String) {
    let all = tuner.get(&[name.to_owned()]).expect("there is one of that name");
    (all[0].value.clone(), all[0].source.clone())
}

fn said(value: &str, source: &str) -> (String, String) {
    (value.to_owned(), source.to_owned())
}

fn queried(error: TuneError) -> Vec<String> {
    match error {
        TuneError::Invalid(messages) | TuneError::NoSuch(messages) => messages,
        TuneError::Failed(message) => panic!("{message}"),
    }
}

/// Waits for the drive to show this state: a busy machine may show the old state for a while.
fn shows(server: &headtime_serve::Server, holds: impl Fn(&DriveSnapshot) -> bool) -> bool {
    (0..500).any(|_| {
        let now = server.stats().snapshot().drive;
        holds(&now) || {
            std::thread::sleep(Duration::from_millis(20));
            false
        }
    })
}

fn one_thread() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

#[test]
fn all_of_it_is_changed_or_nothing() {
    let sandbox = Sandbox::with_file_drive(16);
    let server = sandbox.serve(VOLUME);
    let tuner = server.tuner();
    let changed = tuner
        .set(&set(&[("policy", "g-matrix"), ("lookahead_k", "6"), ("outstanding", "3")]))
        .expect("all of it makes sense");
    assert_eq!(
        changed.changed.iter().map(|one| one.before.as_str()).collect::<Vec<_>>(),
        ["headtime", "policy", "policy"]
    );
    let all = |now: &DriveSnapshot| {
        (now.policy, now.outstanding_most, now.tunables.get("lookahead_k").as_deref())
            == ("g-matrix", Some(3), Ok("6"))
    };
    assert!(shows(&server, all), "{:?}", server.stats().snapshot().drive);

    let wrong = tuner.set(&set(&[
        ("policy", "edf"),
        ("lookahead_k", "9"),
        ("timesource", "rdtsc"),
        ("color", "red"),
        ("policy", "sstf"),
    ]));
    let messages = queried(wrong.expect_err("four mistakes"));
    assert_eq!(messages.len(), 4, "{messages:?}");
    for says in [
        "lookahead_k: `9` is no value; write a whole number from 1 to 8",
        "timesource: `rdtsc`",
        "no tunable `color`",
        "policy is given twice",
    ] {
        assert!(
            messages.iter().any(|message| message.contains(says)),
            "{says} is not in {messages:?}"
        );
    }
    assert_eq!(value(&tuner, "policy"), said("g-matrix", "set"));
    assert_eq!(server.stats().snapshot().drive.policy, "g-matrix");

    let dry = tuner
        .set(&SetTunables { dry_run: true, ..set(&[("policy", "edf")]) })
        .expect("it makes sense");
    assert_eq!(
        (dry.changed[0].before.as_str(), dry.changed[0].value.as_str(), dry.dry_run),
        ("g-matrix", "edf", true)
    );
    assert_eq!(value(&tuner, "policy"), said("g-matrix", "set"));
    let back = tuner.set(&SetTunables {
        reset: vec!["policy".to_owned(), "lookahead_k".to_owned()],
        ..SetTunables::default()
    });
    assert_eq!(back.expect("both are there").changed.len(), 2);
    assert_eq!(
        (value(&tuner, "policy"), value(&tuner, "lookahead_k")),
        (said("headtime", "default"), said("policy", "default"))
    );
    assert!(shows(&server, |now| now.policy == "headtime"));
    assert!(!queried(tuner.set(&SetTunables::default()).expect_err("nothing is named")).is_empty());
    let _ = server.drain(Duration::from_secs(10));
}

#[test]
fn what_was_set_is_remembered_unless_the_configuration_says_otherwise() {
    let sandbox = Sandbox::with_file_drive(16);
    let server = sandbox.serve(VOLUME);
    let changed = server
        .tuner()
        .set(&set(&[("policy", "fsatf-map"), ("deadlines", "rt=50ms,be/7=1s")]))
        .expect("it makes sense");
    assert!(
        changed.changed.iter().all(|one| one.remembered) && changed.notes.is_empty(),
        "{changed:?}"
    );
    let passing = SetTunables {
        until_restart: true,
        ..set(&[("deadlines", "rt=70ms"), ("timesource", "ticks=1ms")])
    };
    assert!(
        server
            .tuner()
            .set(&passing)
            .expect("it makes sense")
            .changed
            .iter()
            .all(|one| !one.remembered)
    );
    assert_eq!(value(&server.tuner(), "deadlines").0, "rt=70ms");
    let _ = server.drain(Duration::from_secs(10));

    let server = sandbox.serve(VOLUME);
    assert_eq!(value(&server.tuner(), "policy"), said("fsatf-map", "set"));
    assert_eq!(
        value(&server.tuner(), "deadlines"),
        said("rt=50ms,be/7=1s", "set"),
        "what passed leaves what was remembered"
    );
    assert_eq!(value(&server.tuner(), "timesource"), said("clock", "default"));
    assert!(shows(&server, |now| now.policy == "fsatf-map"), "the drive uses it too");
    let _ = server.drain(Duration::from_secs(10));

    let configured = format!("policy = \"edf\"\nlookahead_k = 5\n{VOLUME}");
    let server = sandbox.serve(&configured);
    assert_eq!(
        (value(&server.tuner(), "policy"), value(&server.tuner(), "lookahead_k")),
        (said("edf", "configuration"), said("5", "configuration"))
    );
    let changed = server.tuner().set(&set(&[("policy", "sstf")])).expect("it makes sense");
    assert!(
        !changed.changed[0].remembered
            && changed.notes[0].contains("the configuration has policy = edf"),
        "{changed:?}"
    );
    let _ = server.drain(Duration::from_secs(10));
    let server = sandbox.serve(&configured);
    assert_eq!(value(&server.tuner(), "policy"), said("edf", "configuration"));
    let _ = server.drain(Duration::from_secs(10));

    // A damaged file is reported and left unchanged, and the server serves.
    let state =
        std::fs::read_dir(sandbox.path("drive.img.scans")).expect("the state is beside the drive");
    let file = state
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|ending| ending == "tunables"));
    let file = file.expect("what was set is remembered in a file of its own");
    std::fs::write(&file, "headtime tunables 1\npolicy edf\ncrc32c 00000000\n")
        .expect("it is ours");
    let server = sandbox.serve(VOLUME);
    assert_eq!(value(&server.tuner(), "policy"), said("headtime", "default"));
    assert!(std::fs::read_to_string(&file).expect("it is there").contains("00000000"));
    let _ = server.drain(Duration::from_secs(10));
}

#[test]
fn nothing_is_changed_where_it_cannot_be_remembered() {
    let sandbox = Sandbox::with_file_drive(16);
    // A file is in the place of the directory.
    let state = sandbox.path("state");
    std::fs::write(&state, "in the way").expect("the folder is ours");
    let server = sandbox.serve(&format!("state = {state:?}\n{VOLUME}"));
    let refused = server
        .tuner()
        .set(&set(&[("policy", "edf")]))
        .expect_err("it cannot be remembered")
        .to_string();
    assert!(
        refused.contains("nothing was changed") && refused.contains("--until-restart"),
        "{refused}"
    );
    assert_eq!(
        (value(&server.tuner(), "policy"), server.stats().snapshot().drive.policy),
        (said("headtime", "default"), "headtime")
    );
    let passing = SetTunables { until_restart: true, ..set(&[("policy", "edf")]) };
    assert!(server.tuner().set(&passing).is_ok());
    let _ = server.drain(Duration::from_secs(10));
    let server = sandbox.serve(&format!("state = \"off\"\n{VOLUME}"));
    let changed = server.tuner().set(&set(&[("policy", "edf")])).expect("it holds until the end");
    assert!(changed.notes[0].contains("stores no tunables"), "{changed:?}");
    let _ = server.drain(Duration::from_secs(10));
}

/// Concurrent changes of policies and tunables under load; every read returns the data that was
/// written.
#[test]
fn two_set_at_once_under_load_and_no_request_notices() {
    let sandbox = Sandbox::with_tiny_drive();
    let server = sandbox.serve("policy = \"fcfs\"\n[[volume]]\nname = \"rec\"\nsize = \"1MiB\"\n");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for pair in [
            [("policy", "satf-map"), ("lookahead_k", "2")],
            [("policy", "sptf-expected"), ("lookahead_k", "3")],
        ] {
            let (tuner, over) = (server.tuner(), &over);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    tuner
                        .set(&SetTunables { until_restart: true, ..set(&pair) })
                        .expect("it makes sense");
                    let now = tuner.get(&[]).expect("all of them");
                    let of = |name: &str| {
                        now.iter()
                            .find(|one| one.name == name)
                            .map(|one| one.value.clone())
                            .expect("it is there")
                    };
                    let seen = (of("policy"), of("lookahead_k"));
                    assert!(
                        [("satf-map", "2"), ("sptf-expected", "3")]
                            .map(|(a, b)| (a.to_owned(), b.to_owned()))
                            .contains(&seen),
                        "half of each: {seen:?}"
                    );
                }
            });
        }
        one_thread().block_on(async {
            let mut client = Client::open(&sandbox.socket(), "rec").await.expect("it is served");
            for round in 0..60_u64 {
                let place = round * 7_919 % 200 * 4_096;
                client.write(place, common::noise(round, 4_096)).await.expect("it is written");
                assert!(
                    client.read(place, 4_096).await.expect("it is read")
                        == common::noise(round, 4_096)
                );
            }
            let _ = client.leave().await;
        });
        over.store(true, Ordering::Relaxed);
    });
    let _ = server.drain(Duration::from_secs(10));
}

fn refused(path: &Path, verb: &str, arguments: Value) -> (ErrorReplyKind, String) {
    let mut client = ControlClient::connect(path).expect("the server listens");
    match client.ask(verb, arguments) {
        Err(ControlError::ErrorReply(refused)) => (refused.kind, refused.message),
        other => panic!("{verb}: {other:?}"),
    }
}

#[test]
fn orders_over_the_socket_are_whole_or_refused() {
    let sandbox = Sandbox::with_file_drive(16);
    let server = sandbox.serve(VOLUME);
    let path = server.control_socket().expect("it is beside the drive").to_owned();
    let mut client = ControlClient::connect(&path).expect("the server listens");
    let answer = client
        .ask("tunables.set", json!({"set": [{"name": "policy", "value": "edf"}]}))
        .expect("it makes sense");
    assert_eq!(answer["changed"][0]["value"], "edf");
    let got = client.ask("tunables.get", json!({"names": ["policy"]})).expect("it is there");
    assert_eq!(
        (&got["tunables"][0]["value"], &got["tunables"][0]["source"]),
        (&json!("edf"), &json!("set"))
    );
    let status = client.ask("status", Value::Null).expect("it is a server");
    assert_eq!(
        (&status["tunables"][0]["value"], &status["model"]["by"], &status["volumes"][0]["name"]),
        (&json!("edf"), &json!("distance"), &json!("rec"))
    );
    for (verb, arguments, kind, says) in [
        (
            "tunables.set",
            json!({"set": [{"name": "policy", "value": "edf", "now": true}]}),
            ErrorReplyKind::BadRequest,
            "unknown field",
        ),
        (
            "tunables.set",
            json!({"set": {"policy": "edf"}}),
            ErrorReplyKind::BadRequest,
            "arguments of tunables.set",
        ),
        (
            "tunables.set",
            json!({"set": [{"name": "policy", "value": "best"}]}),
            ErrorReplyKind::BadRequest,
            "no policy `best`",
        ),
        ("tunables.get", json!({"names": ["x"]}), ErrorReplyKind::BadRequest, "no tunable `x`"),
        ("status", json!({"of": "rec"}), ErrorReplyKind::BadRequest, "takes no arguments"),
        ("map.show", json!({}), ErrorReplyKind::BadRequest, "has no map"),
        ("map.save", json!({"to": "x.map"}), ErrorReplyKind::BadRequest, "not an absolute path"),
        ("map.load", json!({}), ErrorReplyKind::BadRequest, "missing field"),
        ("map.load", json!({"from": "/nowhere/x.map"}), ErrorReplyKind::BadRequest, "has no map"),
        ("tune", json!({}), ErrorReplyKind::Unknown, "tunables.set"),
    ] {
        let (was, message) = refused(&path, verb, arguments.clone());
        assert!(was == kind && message.contains(says), "{verb} {arguments}: {was:?} {message}");
        assert!(
            verb != "tunables.get" || !message.contains("changed"),
            "who only asks changes nothing: {message}"
        );
    }
    let _ = server.drain(Duration::from_secs(10));
}

/// Clients that send too much, send incomplete lines, or only stay connected: others are answered,
/// and the server keeps running.
#[test]
fn hostile_control_clients_are_in_nobodys_way() {
    let sandbox = Sandbox::with_file_drive(16);
    let server = sandbox.serve(VOLUME);
    let path = server.control_socket().expect("it is beside the drive").to_owned();
    let answer_to = |bytes: &[u8]| {
        let mut stream = UnixStream::connect(&path).expect("the server listens");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a socket takes a timeout");
        // The server may close the connection before everything is sent.
        let _ = stream.write_all(bytes);
        let mut line = String::new();
        let _ = BufReader::new(stream).read_line(&mut line);
        line
    };
    assert!(answer_to(&vec![b'x'; MAX_LINE + 9]).contains("longer than 1048576 bytes"));
    assert!(answer_to(b"{\"v\":1,\"id\":1,\"verb\":\"status\"}\n").contains("\"ok\""));
    assert!(answer_to(b"\n").contains("no request"));
    assert!(answer_to(b"\xff\xfe\n").contains("no request"));
    assert!(
        answer_to(&[&[b'['; 100_000][..], b"\n"].concat()).contains("no request"),
        "nested as deep as that"
    );
    assert!(answer_to(b"{\"v\":2,\"id\":1,\"verb\":\"status\"}\n").contains("version 2"));
    // Incomplete lines on the maximum number of connections: one more client gets an error, and
    // there is room again when some have left. A connection may be released a little later than its
    // last answer.
    let mut halves: Vec<UnixStream> = Vec::new();
    let mut rejection = String::new();
    while rejection.is_empty() {
        assert!(
            halves.len() < 3 * headtime_serve::control::MAX_CONNECTIONS,
            "no client is refused"
        );
        let mut stream = UnixStream::connect(&path).expect("the server listens");
        stream.set_read_timeout(Some(Duration::from_millis(50))).expect("a socket takes a timeout");
        // A rejected client may be disconnected before this is sent.
        let _ = stream.write_all(b"{\"v\":1,");
        let _ = BufReader::new(&stream).read_line(&mut rejection);
        halves.push(stream);
    }
    assert!(rejection.contains("control connections are open"), "{rejection}");
    assert!(
        halves.len() >= headtime_serve::control::MAX_CONNECTIONS,
        "turned away with {} open",
        halves.len()
    );
    halves.truncate(4);
    let again = (0..500).find(|_| {
        std::thread::sleep(Duration::from_millis(10));
        answer_to(b"{\"v\":1,\"id\":1,\"verb\":\"status\"}\n").contains("\"ok\"")
    });
    assert!(again.is_some(), "places are given back");
    one_thread().block_on(async {
        let mut client =
            Client::open(&sandbox.socket(), "rec").await.expect("it is served meanwhile");
        client.write(0, vec![1; 512]).await.expect("it is written");
        let _ = client.leave().await;
    });
    drop(halves);
    let _ = server.drain(Duration::from_secs(10));
}

/// The priority of a volume gives its requests the deadline in the table as soon as the table has
/// it, and after a restart that does not name it.
#[test]
fn a_volumes_priority_becomes_a_deadline_by_the_table() {
    let sandbox = Sandbox::with_file_drive(16);
    let volumes = "[[volume]]\nname = \"rec\"\nsize = \"4MiB\"\npriority = \
        \"rt/2\"\n[[volume]]\nname = \"db\"\nsize = \"4MiB\"\n";
    let due = |server: &headtime_serve::Server, export: &str, at_least: u64| {
        one_thread().block_on(async {
            let mut client = Client::open(&sandbox.socket(), export).await.expect("it is served");
            for place in 0..4 {
                client.write(place * 4_096, vec![7; 4_096]).await.expect("it is written");
            }
            let _ = client.leave().await;
        });
        let id = server.stats().snapshot().by_name()[export].id;
        let account = |now: &DriveSnapshot| {
            now.accounts.iter().find(|(volume, _)| *volume == id).map(|(_, account)| *account)
        };
        assert!(
            shows(server, |now| account(now).is_some_and(|account| account.requests >= at_least))
        );
        account(&server.stats().snapshot().drive).map_or(0, |account| account.deadline_requests)
    };
    let server = sandbox.serve(&format!("policy = \"edf\"\n{volumes}"));
    assert_eq!(due(&server, "rec", 4), 0, "no table says when");
    server.tuner().set(&set(&[("deadlines", "rt=200ms,be=1s")])).expect("it makes sense");
    assert_eq!((due(&server, "rec", 8), due(&server, "db", 4)), (4, 0), "one has no class");
    let _ = server.drain(Duration::from_secs(10));
    // The drive stores the priority with the volume, and the server stores the table.
    let server = sandbox.serve("");
    assert_eq!(due(&server, "rec", 4), 4);
    let mut client =
        ControlClient::connect(server.control_socket().expect("it is beside the drive"))
            .expect("the server listens");
    let status = client.ask("status", Value::Null).expect("it is a server");
    let rec = status["volumes"]
        .as_array()
        .and_then(|all| all.iter().find(|volume| volume["name"] == "rec"))
        .expect("it is served");
    assert_eq!(
        (&rec["priority"], &rec["deadline_requests"], &rec["writes"]["requests"]),
        (&json!("rt/2"), &json!(4), &json!(4))
    );
    let _ = server.drain(Duration::from_secs(10));
}

/// A separate process: changed under load, killed with -9, started again.
#[test]
fn a_server_that_is_killed_goes_by_what_was_set_when_it_comes_back() {
    let sandbox = Sandbox::with_tiny_drive();
    let volume = "[[volume]]\nname = \"rec\"\nsize = \"16MiB\"\n";
    let control = sandbox.path("drive.img.control");
    let place = |number: u64| number * 37 % 4_000 * 4_096;
    let policies = ["fcfs", "sstf", "satf-map", "g-matrix", "fsatf-map"];
    let mut written = 0;
    for round in 0..3_usize {
        let server = sandbox.spawn(volume);
        let mut orders = ControlClient::connect(&control).expect("the server listens");
        let value = |orders: &mut ControlClient| {
            let answer =
                orders.ask("tunables.get", json!({"names": ["policy"]})).expect("it is there");
            answer["tunables"][0]["value"].as_str().map(str::to_owned)
        };
        if round > 0 {
            assert_eq!(
                value(&mut orders).as_deref(),
                Some(policies[round - 1 + 2]),
                "what was set before the kill"
            );
        }
        one_thread().block_on(async {
            let mut client = Client::open(&sandbox.socket(), "rec").await.expect("it is served");
            for policy in &policies[round..round + 3] {
                // Some requests are in flight while the policy changes.
                let first = written;
                for number in first..first + 12 {
                    let payload = common::noise(number, 4_096).into();
                    client.submit(headtime_nbd::NbdCommand::Write {
                        offset: place(number),
                        payload,
                        fua: false,
                    });
                }
                client.send().await;
                orders
                    .ask("tunables.set", json!({"set": [{"name": "policy", "value": policy}]}))
                    .expect("it makes sense");
                for _ in 0..12 {
                    client.completion().await.result.expect("it is written");
                }
                written += 12;
            }
            for number in 0..written {
                assert!(
                    client.read(place(number), 4_096).await.expect("it is read")
                        == common::noise(number, 4_096),
                    "block {number}"
                );
            }
        });
        server.kill_9();
    }
}
