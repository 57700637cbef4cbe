//! Shares of an emulated drive's time as NBD clients get them: disk time as the scheduler charges
//! it, not seconds.

#![allow(clippy::unwrap_used)] // Tests may; clippy knows it only of functions marked as such.

mod common;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::client::Client;
use common::{Sandbox, runtime};
use headtime_nbd::NbdCommand;
use headtime_serve::control::{ControlClient, ExplainAnswer, ExplainArguments, VolumeArguments};
use headtime_serve::{Server, StatsSnapshot};

const TWO: &str = "policy = \"utilization\"\n[[volume]]\nname = \"a\"\nsize = \
    \"32MiB\"\n[[volume]]\nname = \"b\"\nsize = \"32MiB\"\n";

/// The requests that a client has in flight, unless the machine delays it.
const DEPTH: u32 = 128;

/// Reads 4 KiB at random offsets in a volume of 32 MiB, many at a time, until it is stopped.
async fn read_anywhere(socket: &Path, export: &str, seed: u64, stop: Arc<AtomicBool>) {
    read_many(socket, export, seed, stop, DEPTH, 4096).await;
}

/// Reads `length` bytes at random offsets in a volume of 32 MiB, `depth` at a time.
async fn read_many(
    socket: &Path,
    export: &str,
    seed: u64,
    stop: Arc<AtomicBool>,
    depth: u32,
    length: u32,
) {
    let mut client = Client::open(socket, export).await.unwrap();
    let mut state = seed;
    let places = (32 << 20) / u64::from(length);
    let mut read = |client: &mut Client<_>| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        client.submit(NbdCommand::Read {
            offset: (state >> 33) % places * u64::from(length),
            length,
            unfragmented: false,
        });
    };
    (0..depth).for_each(|_| read(&mut client));
    while !stop.load(Ordering::Relaxed) {
        client.completion().await.result.unwrap();
        read(&mut client);
    }
}

/// The disk time charged to a volume between two snapshots, in seconds.
fn charged(before: &StatsSnapshot, after: &StatsSnapshot, name: &str) -> f64 {
    let id = after.by_name()[name].id;
    let of = |snapshot: &StatsSnapshot| {
        let accounts = &snapshot.drive.accounts;
        accounts
            .iter()
            .find(|(volume, _)| *volume == id)
            .map_or(0.0, |(_, account)| account.disk_time.as_secs_f64())
    };
    of(after) - of(before)
}

/// The share of `a` in the charged disk time, over the next `seconds` of disk time during which
/// both had requests waiting. A client that the machine delays has none after a while, and the
/// other one is given its time too.
async fn share_of_a(server: &Server, seconds: f64) -> f64 {
    /// The drive serves fewer than half of a client's requests meanwhile.
    const MAX_INTERVAL: Duration = Duration::from_millis(20);
    let waiting = |snapshot: &StatsSnapshot| {
        ["a", "b"].iter().all(|name| snapshot.by_name()[name].in_flight >= u64::from(DEPTH) / 2)
    };
    let (mut a, mut b) = (0.0, 0.0);
    let enough = Instant::now() + Duration::from_secs(120);
    let mut before = (Instant::now(), server.stats().snapshot());
    while a + b < seconds {
        assert!(Instant::now() < enough, "the drive has done {a} s and {b} s of work");
        tokio::time::sleep(MAX_INTERVAL / 2).await;
        let now = (Instant::now(), server.stats().snapshot());
        if now.0 - before.0 <= MAX_INTERVAL && waiting(&before.1) && waiting(&now.1) {
            a += charged(&before.1, &now.1, "a");
            b += charged(&before.1, &now.1, "b");
        }
        before = now;
    }
    a / (a + b)
}

/// Waits until `a` gets this share over a second of disk time, after at most a second of change.
async fn until_share_of_a(server: &Server, range: std::ops::Range<f64>, why: &str) {
    let shares = [share_of_a(server, 1.0).await, share_of_a(server, 1.0).await];
    assert!(
        range.contains(&shares[1]),
        "{why}, and a was given, second by second, {shares:.2?} of what was given"
    );
}

fn set(control: &mut ControlClient, name: &str, settings: &[(&str, &str)]) {
    let settings =
        settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let order = VolumeArguments { name: name.to_owned(), settings, ..VolumeArguments::default() };
    let answer = control.volume("volume.set", &order).unwrap();
    assert!(answer.notes.is_empty(), "{answer:?}");
}

#[test]
fn reserves_and_limits_hold_over_nbd_and_change_while_clients_read() {
    let sandbox = Sandbox::with_tiny_drive();
    let server = sandbox.serve(TWO);
    let mut control = ControlClient::connect(server.control_socket().unwrap()).unwrap();
    set(&mut control, "a", &[("reserve", "80%")]);
    set(&mut control, "b", &[("reserve", "20%")]);
    let runtime = runtime();
    let stop = Arc::new(AtomicBool::new(false));
    for (seed, export) in ["a", "b"].into_iter().enumerate() {
        let (socket, stop) = (sandbox.socket(), Arc::clone(&stop));
        runtime.spawn(async move { read_anywhere(&socket, export, seed as u64 + 1, stop).await });
    }
    runtime.block_on(async {
        share_of_a(&server, 0.3).await;
        until_share_of_a(&server, 0.7..0.9, "a has reserved 80 %").await;
        // One at a time would reserve too much in between.
        set(&mut control, "a", &[("reserve", "20%")]);
        set(&mut control, "b", &[("reserve", "80%")]);
        until_share_of_a(&server, 0.1..0.3, "a has reserved 20 %").await;
        set(&mut control, "b", &[("reserve", "0%"), ("limit", "10%"), ("burst", "100ms")]);
        until_share_of_a(&server, 0.85..1.1, "b is limited to 10 %").await;
        // A deadline that no policy can meet beside so many other requests of the same client.
        set(&mut control, "a", &[("deadline", "1ms")]);
        share_of_a(&server, 0.3).await;
        let answer = control
            .ask_for::<ExplainAnswer>(
                "explain",
                &ExplainArguments { target: Some("a".to_owned()), last: Some(50) },
            )
            .unwrap();
        assert!(!answer.requests.is_empty() && answer.requests.len() <= 50, "{answer:?}");
        let mut parts = std::collections::BTreeSet::new();
        for request in &answer.requests {
            let sum: f64 = request.parts_ms.values().sum();
            assert!((sum - request.response_ms).abs() < 1e-6, "{request:?}");
            assert!(
                request.export == "a" && request.op == "read" && request.offset_bytes < 32 << 20,
                "{request:?}"
            );
            parts.extend(request.parts_ms.keys().map(String::as_str));
        }
        assert!(
            ["own queue", "rotation", "transfer"].iter().all(|part| parts.contains(part)),
            "{parts:?}"
        );
        assert!(
            answer.requests.iter().any(|request| request.missed && request.deadline_ms.is_some()),
            "{answer:?}"
        );
        let one = answer.requests[0].request.to_string();
        let again = control.ask_for::<ExplainAnswer>(
            "explain",
            &ExplainArguments { target: Some(one), last: None },
        );
        assert!(again.map_or_else(
            |error| error.to_string().contains("no slow or missed request"),
            |answer| answer.requests.len() == 1
        ));
        let unknown = control
            .ask_for::<ExplainAnswer>(
                "explain",
                &ExplainArguments { target: Some("c".to_owned()), last: None },
            )
            .unwrap_err()
            .to_string();
        assert!(unknown.contains("the exports are a, b"), "{unknown}");
    });
    let shares = server.stats().snapshot().drive.shares;
    assert_eq!(shares.iter().filter(|report| report.terms.is_some()).count(), 2, "{shares:?}");
    stop.store(true, Ordering::Relaxed);
    drop(server);
}

/// Few permits and little memory, so that a throttled volume could take them all.
const SCARCE: &str = "[limits]\npieces = 48\nmemory = \"8MiB\"\nrequest = \"1MiB\"\npiece = \
    \"256KiB\"\nconnection_bytes = \"4MiB\"\nconnection_memory = \"64KiB\"\n";

#[test]
fn twenty_clients_of_a_volume_at_its_limit_take_nothing_of_what_another_has_reserved() {
    let sandbox = Sandbox::with_tiny_drive();
    let server = sandbox.serve(&format!("{TWO}{SCARCE}"));
    let mut control = ControlClient::connect(server.control_socket().unwrap()).unwrap();
    set(&mut control, "a", &[("limit", "5%"), ("burst", "100ms")]);
    set(&mut control, "b", &[("reserve", "80%")]);
    let runtime = runtime();
    let stop = Arc::new(AtomicBool::new(false));
    let victim = |seed| {
        let (socket, stop) = (sandbox.socket(), Arc::clone(&stop));
        // 8 × 32 KiB are more than a connection's own memory.
        runtime.spawn(async move { read_many(&socket, "b", seed, stop, 8, 32 << 10).await })
    };
    // The requests of b and its disk time until it was charged for this many seconds, and the share
    // of a in all charges meanwhile.
    let served = |seconds: f64| {
        let before = server.stats().snapshot();
        let enough = Instant::now() + Duration::from_secs(60);
        loop {
            std::thread::sleep(Duration::from_millis(10));
            let now = server.stats().snapshot();
            assert!(
                now.shared_memory.get() <= 8 << 20,
                "{} of the 8 MiB that all share",
                now.shared_memory
            );
            let (a, b) = (charged(&before, &now, "a"), charged(&before, &now, "b"));
            if b >= seconds {
                let requests = now.by_name()["b"].since(before.by_name()["b"]).reads.requests;
                return (requests as f64 / b, a / (a + b));
            }
            assert!(Instant::now() < enough, "a was given {a:.3} s and b {b:.3} s of disk time");
        }
    };
    let client = victim(1);
    served(0.1);
    let (alone, _) = served(0.5);
    client.abort();
    let _aborted = runtime.block_on(client);
    for seed in 0..20 {
        let (socket, stop) = (sandbox.socket(), Arc::clone(&stop));
        runtime.spawn(async move { read_many(&socket, "a", seed + 2, stop, 40, 64 << 10).await });
    }
    let held = Instant::now() + Duration::from_secs(60);
    while server.stats().snapshot().by_name()["a"].in_flight < 400 {
        assert!(Instant::now() < held, "the clients of a ask for more than it is given");
        std::thread::sleep(Duration::from_millis(5));
    }
    let _client = victim(1);
    served(0.2);
    let (beside, share_of_a) = served(1.0);
    assert!(
        share_of_a < 0.15,
        "a is limited to 5 % and was given {share_of_a:.3} of what was given"
    );
    assert!(
        beside > 0.6 * alone,
        "b did {beside:.0} requests in a second of disk time, and {alone:.0} alone"
    );
    stop.store(true, Ordering::Relaxed);
    runtime.shutdown_background();
    drop(server);
}

#[test]
fn what_was_promised_is_promised_again_after_a_restart_and_by_the_configuration() {
    let sandbox = Sandbox::with_tiny_drive();
    let server = sandbox.serve(TWO);
    let mut control = ControlClient::connect(server.control_socket().unwrap()).unwrap();
    set(&mut control, "a", &[("reserve", "40%"), ("classes", "bulk")]);
    let terms = |server: &Server| {
        let snapshot = server.stats().snapshot();
        let reports = snapshot.drive.shares.iter().filter_map(|report| {
            Some((report.tenant.volume.0, report.tenant.class.0, report.terms?))
        });
        reports
            .map(|(volume, class, terms)| {
                (volume, class, terms.reserve.as_billionths() / 10_000_000)
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(terms(&server), [(1, 0, 40), (1, 2, 0)]);
    drop(server);
    let server = sandbox.serve(&TWO.replace("name = \"b\"\n", "name = \"b\"\nreserve = \"25%\"\n"));
    assert_eq!(terms(&server), [(1, 0, 40), (1, 2, 0), (2, 0, 25)]);
    drop(server);
    let error = Server::start(
        &sandbox.config(&TWO.replace("name = \"b\"\n", "name = \"b\"\nreserve = \"61%\"\n")),
    )
    .unwrap_err()
    .to_string();
    assert!(
        error.contains("b: 61 % of the drive's time cannot be reserved, because 60 % is free"),
        "{error}"
    );
    drop(sandbox);
}
