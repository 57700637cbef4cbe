//! Start, restart, drain and death of a server.

#![allow(clippy::unwrap_used)] // Tests may; clippy knows it only of functions marked as such.

mod common;

use std::time::Duration;

use common::client::Client;
use common::{Sandbox, noise, runtime};
use headtime_nbd::client::RequestError;
use headtime_nbd::{Errno, NbdCommand};
use headtime_serve::volumes::{Ensured, TableState};
use headtime_serve::{Server, StartError};
use headtime_testkit::programs::{installed, is_root, run};

fn volume(name: &str, mebibytes: u64) -> String {
    format!("[[volume]]\nname = \"{name}\"\nsize = \"{mebibytes}MiB\"\n")
}

#[test]
fn volumes_are_remembered_reused_listed_and_never_moved() {
    let sandbox = Sandbox::with_file_drive(64);
    let first = sandbox.serve(&(volume("a", 8) + &volume("b", 8)));
    assert_eq!(first.opening(), Some(&TableState::Fresh));
    let places: Vec<_> =
        first.volumes().iter().map(|report| report.volume.extents.clone()).collect();
    assert!(first.volumes().iter().all(|report| report.ensured == Some(Ensured::Created)));
    drop(first);

    let second = sandbox.serve(&(volume("b", 8) + &volume("c", 4)));
    assert_eq!(second.opening(), Some(&TableState::Whole));
    let seen: Vec<_> = second
        .volumes()
        .iter()
        .map(|report| (report.volume.name.as_str(), report.ensured))
        .collect();
    assert_eq!(seen, [("a", None), ("b", Some(Ensured::Reused)), ("c", Some(Ensured::Created))]);
    assert_eq!(
        second.volumes()[..2]
            .iter()
            .map(|report| report.volume.extents.clone())
            .collect::<Vec<_>>(),
        places
    );
    assert_eq!(
        second.uris().iter().map(|found| found.export.as_str()).collect::<Vec<_>>(),
        ["b", "c"],
        "a was not asked for"
    );
    assert_eq!(second.free().get(), (64 - 2 - 20) << 20);
    drop(second);

    let everything = sandbox.serve("");
    assert_eq!(
        everything.uris().len(),
        3,
        "when no volume is named, all that are there are served"
    );
}

#[test]
fn what_cannot_be_served_is_refused_with_the_remedy() {
    let sandbox = Sandbox::with_file_drive(64);
    let refused =
        |more: &str| Server::start(&sandbox.config(more)).map(drop).unwrap_err().to_string();
    drop(sandbox.serve(&volume("a", 8)));
    let resized = sandbox.serve(&volume("a", 9));
    assert_eq!(resized.volumes()[0].size.get(), 8 << 20);
    drop(resized);
    let too_large = refused(&(volume("a", 8) + &volume("b", 64)));
    assert!(too_large.contains("54 MiB is free"), "{too_large}");
    drop(sandbox.serve(&volume("a", 8)));

    let mut bytes = std::fs::read(sandbox.path("drive.img")).unwrap();
    bytes[100] ^= 1;
    bytes[(512 << 10) + 100] ^= 1;
    std::fs::write(sandbox.path("drive.img"), &bytes).unwrap();
    let restored = sandbox.serve(&volume("a", 8));
    assert!(matches!(restored.opening(), Some(TableState::Restored(_))));
    drop(restored);
    bytes[(63 << 20) + 100] ^= 1;
    std::fs::write(sandbox.path("drive.img"), &bytes).unwrap();
    let damaged = refused(&volume("a", 8));
    assert!(damaged.contains("all copies") && damaged.contains("initialize"), "{damaged}");
    bytes[..1 << 20].fill(0xee);
    std::fs::write(sandbox.path("drive.img"), &bytes).unwrap();
    let foreign = refused(&volume("a", 8));
    assert!(foreign.contains("other content"), "{foreign}");
    // What cannot be served after the initialization must not destroy the content.
    for (volumes, expected) in [
        (volume("a", 8) + &volume("b", 64), "54 MiB is free"),
        (volume("a", 8) + "burst = \"1h\"\n", "burst"),
        (volume("a", 8) + "reserve = \"60%\"\n" + &volume("b", 8) + "reserve = \"50%\"\n", "40 %"),
    ] {
        let message = refused(&format!("initialize = true\n{volumes}"));
        assert!(message.contains(expected), "{message}");
    }
    assert!(
        std::fs::read(sandbox.path("drive.img")).unwrap() == bytes,
        "a refused drive was written to"
    );
    assert_eq!(
        sandbox.serve(&format!("initialize = true\n{}", volume("a", 8))).opening(),
        Some(&TableState::Initialized)
    );
}

#[test]
fn a_live_socket_is_not_taken_over_and_the_drive_not_touched() {
    let sandbox = Sandbox::with_file_drive(64);
    let _server = sandbox.serve(&volume("a", 8));
    assert!(matches!(Server::start(&sandbox.config(&volume("a", 8))), Err(StartError::Bind(_))));
    let mut elsewhere = sandbox.config(&volume("a", 8));
    elsewhere.listen =
        vec![format!("unix:{}", sandbox.path("other.sock").display()).parse().unwrap()];
    let error = Server::start(&elsewhere).map(drop).unwrap_err().to_string();
    assert!(error.contains("is locked by another headtime"), "{error}");
    assert!(
        !sandbox.path("other.sock").exists(),
        "a server that did not start leaves no socket behind"
    );
}

#[test]
fn drain_waits_for_what_is_in_flight_and_takes_nothing_new() {
    let sandbox = Sandbox::with_tiny_drive();
    let server = sandbox.serve(&volume("a", 64));
    let stats = server.stats();
    runtime().block_on(async {
        let mut client = Client::open(&sandbox.socket(), "a").await.unwrap();
        let writes: Vec<_> = (0..32_u64)
            .map(|index| {
                client.submit(NbdCommand::Write {
                    offset: index << 20,
                    payload: noise(index, 4096).into(),
                    fua: false,
                })
            })
            .collect();
        client.send().await;
        // Drained only after the server has received all of them; their progress does not matter.
        while stats.snapshot().volumes[0].in_flight + stats.snapshot().volumes[0].writes.requests
            < 32
        {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let draining = std::thread::spawn(move || server.drain(Duration::from_secs(20)));
        for _ in &writes {
            assert!(client.completion().await.result.is_ok());
        }
        let drained = tokio::task::spawn_blocking(|| draining.join().unwrap()).await.unwrap();
        assert_eq!((drained.exit_code(), drained.cut_connections, drained.durable), (0, 0, true));
    });
    assert!(!sandbox.socket().exists());
    let again = sandbox.serve("");
    runtime().block_on(async {
        let mut client = Client::open(&sandbox.socket(), "a").await.unwrap();
        for index in 0..32_u64 {
            assert_eq!(client.read(index << 20, 4096).await.unwrap(), noise(index, 4096));
        }
    });
    drop(again);
}

#[test]
fn kill_9_loses_nothing_that_was_answered() {
    let sandbox = Sandbox::with_file_drive(64);
    for round in 0..3_u64 {
        let server = sandbox.spawn(&volume("a", 16));
        runtime().block_on(async {
            let mut client = Client::open(&sandbox.socket(), "a").await.unwrap();
            for index in 0..64_u64 {
                let seed = round.saturating_sub(1) * 1000 + index;
                if round > 0 {
                    assert!(
                        client.read(index << 16, 1 << 16).await.unwrap() == noise(seed, 1 << 16),
                        "round {round}, block {index}"
                    );
                }
                client.write(index << 16, noise(round * 1000 + index, 1 << 16)).await.unwrap();
            }
            client.request(NbdCommand::Flush).await.unwrap();
            // Only requests in flight may be lost.
            for index in 200..232_u64 {
                client.submit(NbdCommand::Write {
                    offset: index << 16,
                    payload: noise(index, 1 << 16).into(),
                    fua: false,
                });
            }
            client.send().await;
        });
        server.kill_9();
        assert!(
            sandbox.socket().exists(),
            "a killed server leaves its socket behind, and the next one replaces it"
        );
    }
}

#[test]
fn sigterm_ends_cleanly_with_zero_although_a_client_is_connected() {
    let sandbox = Sandbox::with_file_drive(64);
    let server = sandbox.spawn(&volume("a", 16));
    runtime().block_on(async {
        let mut client = Client::open(&sandbox.socket(), "a").await.unwrap();
        client.write(0, noise(1, 4096)).await.unwrap();
        assert_eq!(server.terminate().code(), Some(0));
    });
    assert!(!sandbox.socket().exists());
}

#[test]
fn a_file_system_that_fills_up_is_enospc_for_the_write_that_met_it() {
    if !is_root() {
        eprintln!("skipped: a small file system can be mounted by root only");
        return;
    }
    struct Mounted(String);
    impl Drop for Mounted {
        fn drop(&mut self) {
            run("umount", &["-l", &self.0]);
        }
    }
    if !installed(&["mount", "umount"]) {
        return;
    }
    let small = tempfile::tempdir().unwrap();
    let mount_point = small.path().to_str().unwrap().to_string();
    run("mount", &["-t", "tmpfs", "-o", "size=8m", "headtime-test", &mount_point]);
    let mounted = Mounted(mount_point.clone());
    let sandbox = Sandbox::with_file_drive(64);
    let mut config = sandbox.config(&volume("a", 32));
    config.drive = Some(format!("{mount_point}/drive.img").parse().unwrap());
    let server = Server::start(&config).unwrap();
    runtime().block_on(async {
        let mut client = Client::open(&sandbox.socket(), "a").await.unwrap();
        let mut full = 0;
        for index in 0..32_u64 {
            match client.write(index << 20, noise(index, 1 << 20)).await {
                Ok(_) => assert_eq!(
                    client.read(index << 20, 1 << 20).await.unwrap(),
                    noise(index, 1 << 20)
                ),
                Err(RequestError::Server { errno: Errno::NoSpace, text, .. }) => {
                    assert!(text.contains("make room"), "{text}");
                    full += 1;
                }
                Err(other) => panic!("{other}"),
            }
        }
        assert!(full > 20, "{full} of 32 MiB did not fit 8 MiB");
        assert_eq!(client.read(0, 1 << 20).await.unwrap(), noise(0, 1 << 20));
        client.request(NbdCommand::Flush).await.unwrap();
    });
    let _report = server.drain(Duration::from_secs(10));
    drop(mounted);
}
