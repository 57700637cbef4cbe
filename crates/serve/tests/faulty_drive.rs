//! Clients of a server whose drive fails, hangs or disappears: nbdkit is the drive, with the whole
//! program in between.

#![allow(clippy::unwrap_used)] // Tests may; clippy knows it only of functions marked as such.

mod common;

use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use common::client::Client;
use common::{Sandbox, noise, runtime};
use headtime_nbd::client::{Reply, RequestError};
use headtime_nbd::{Errno, NbdCommand};
use headtime_serve::control::ControlClient;
use headtime_serve::scans::{ScanState, StartScan, TermsChange};
use headtime_serve::volumes::{
    RelocateOrder, RelocateTo, RelocationState, RelocationStatus, VolumeOrder,
};
use headtime_tasks::TaskKind;
use headtime_testkit::nbdkit::{Nbdkit, installed};
use headtime_units::Lba;
use tokio::net::UnixStream;

const VOLUMES: &str =
    "[[volume]]\nname = \"a\"\nsize = \"8MiB\"\n[[volume]]\nname = \"b\"\nsize = \"8MiB\"\n";
const BLOCK: usize = 4096;

fn sandbox(settings: &str) -> Sandbox {
    let sandbox = Sandbox::with_drive(|directory| {
        format!("nbd+unix:///?socket={}{settings}", directory.join("drive.sock").display())
    });
    std::fs::File::create(sandbox.path("disk.img"))
        .and_then(|file| file.set_len(32 << 20))
        .unwrap();
    sandbox
}

fn drive(sandbox: &Sandbox, arguments: &[&str]) -> Nbdkit {
    let file = format!("file={}", sandbox.path("disk.img").display());
    let (filters, parameters): (Vec<&str>, Vec<&str>) =
        arguments.iter().copied().partition(|argument| argument.starts_with("--"));
    Nbdkit::start(
        &sandbox.path("drive.sock"),
        &[&filters[..], &["file", &file], &parameters].concat(),
    )
}

async fn open(socket: &Path, export: &str) -> Client<UnixStream> {
    Client::open(socket, export).await.unwrap()
}

/// The text of an I/O error.
fn failure(result: Result<impl std::fmt::Debug, RequestError>) -> String {
    match result {
        Err(RequestError::Server { errno: Errno::Io, text, .. }) => text,
        other => panic!("an I/O error was expected, not {other:?}"),
    }
}

/// Retries until it succeeds; a drive that is back serves within a minute.
async fn until_it_works(client: &mut Client<UnixStream>, command: NbdCommand) -> Reply {
    let enough = Instant::now() + Duration::from_secs(60);
    loop {
        match client.request(command.clone()).await {
            Ok(outcome) => return outcome,
            Err(error) => {
                assert!(Instant::now() < enough, "a minute after the drive came back: {error}")
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[test]
fn an_error_of_the_drive_is_eio_for_the_request_that_met_it_and_for_no_other() {
    if !installed(&["file", "error"]) {
        return;
    }
    let sandbox = sandbox("");
    let switch = sandbox.path("inject");
    let only_if = |what: &str| format!("error-{what}-file={}", switch.display());
    let (reads, zeroes) = (only_if("pread"), only_if("zero"));
    let reads = ["--filter=error", "error-pread=EIO", "error-pread-rate=100%", &reads];
    let zeroes = ["error-zero=EIO", "error-zero-rate=100%", &zeroes];
    let _drive = drive(&sandbox, &[&reads[..], &zeroes].concat());
    let volumes = VOLUMES.replace("\"a\"\n", "\"a\"\nclasses = \"bulk\"\ndeadline = \"1h\"\n");
    let control = sandbox.path("control");
    let server = sandbox.serve(&format!("control = {control:?}\n{volumes}"));
    runtime().block_on(async {
        let (mut a, mut b) =
            (open(&sandbox.socket(), "a").await, open(&sandbox.socket(), "b").await);
        a.write(0, noise(1, BLOCK)).await.unwrap();
        std::fs::write(&switch, "").unwrap();
        let reading =
            a.submit(NbdCommand::Read { offset: 0, length: BLOCK as u32, unfragmented: false });
        let writing = a.submit(NbdCommand::Write {
            offset: 1 << 20,
            payload: noise(2, BLOCK).into(),
            fua: true,
        });
        b.write(0, noise(3, BLOCK)).await.unwrap();
        for _ in 0..2 {
            let completion = a.completion().await;
            if completion.id == reading {
                let text = failure(completion.result);
                assert!(
                    text.contains("read of LBA")
                        && text.contains("drive.sock answered: input/output error"),
                    "{text}"
                );
            } else {
                assert!(completion.id == writing && completion.result.is_ok());
            }
        }
        let (offset, length) = (2 << 20, BLOCK as u32);
        let zeroing =
            NbdCommand::WriteZeroes { offset, length, fua: true, no_hole: true, fast: false };
        failure(a.request(zeroing).await);
        std::fs::remove_file(&switch).unwrap();
        assert_eq!(a.read(0, BLOCK as u32).await.unwrap(), noise(1, BLOCK));
        assert_eq!(a.read(1 << 20, BLOCK as u32).await.unwrap(), noise(2, BLOCK));
        assert_eq!(b.read(0, BLOCK as u32).await.unwrap(), noise(3, BLOCK));
    });
    // A failed read misses its deadline, and a class has the requests of its own export only.
    let mut client = ControlClient::connect(&control).unwrap();
    let status = client.ask("status", serde_json::Value::Null).unwrap();
    let misses = |of: &serde_json::Value| {
        (of["name"].clone(), of["deadline_misses"].clone(), of["deadline_requests"].clone())
    };
    let [a, bulk, b] = &status["volumes"].as_array().unwrap()[..] else { panic!("{status}") };
    assert_eq!(misses(a), ("a".into(), 1.into(), 5.into()));
    assert_eq!(misses(bulk), ("a@bulk".into(), 0.into(), 0.into()));
    assert_eq!(misses(b), ("b".into(), 0.into(), 0.into()));
    let top = client.ask("top", serde_json::Value::Null).unwrap();
    assert_eq!(
        (&top["exports"][0]["name"], &top["exports"][0]["errors"]),
        (&"a".into(), &2.into())
    );
    assert_eq!(server.drain(Duration::from_secs(20)).exit_code(), 0);
}

#[test]
fn a_hanging_drive_neither_blocks_the_server_nor_its_shutdown_and_serves_again_later() {
    if !installed(&["file"]) {
        return;
    }
    let sandbox = sandbox("&reconnect_timeout=500ms&connect_timeout=500ms");
    let drive = drive(&sandbox, &[]);
    let server = sandbox.spawn(&format!("command_timeout = \"3s\"\n{VOLUMES}"));
    runtime().block_on(async {
        let mut a = open(&sandbox.socket(), "a").await;
        a.write(0, noise(1, BLOCK)).await.unwrap();
        drive.stop();
        let text = failure(a.read(0, BLOCK as u32).await);
        assert!(text.contains("the drive did not answer within 3.000 s"), "{text}");
        // New clients may connect and get the error too.
        let mut b = open(&sandbox.socket(), "b").await;
        let text = failure(b.read(0, BLOCK as u32).await);
        assert!(text.contains("drive.sock") || text.contains("did not answer"), "{text}");
        drive.resume();
        let read = NbdCommand::Read { offset: 0, length: BLOCK as u32, unfragmented: false };
        assert_eq!(until_it_works(&mut a, read).await, Reply::Data(noise(1, BLOCK).into()));
        until_it_works(
            &mut b,
            NbdCommand::Write { offset: 0, payload: noise(2, BLOCK).into(), fua: false },
        )
        .await;

        drive.stop();
        a.submit(NbdCommand::Read { offset: 1 << 20, length: BLOCK as u32, unfragmented: false });
        a.send().await;
        server.signal_to_end();
        // During the drain the time limit answers the request in flight.
        let completion = a.completion().await;
        failure(completion.result);
    });
    let (ended, has_ended) = mpsc::channel();
    std::thread::spawn(move || ended.send(server.wait()));
    let status =
        has_ended.recv_timeout(Duration::from_secs(120)).expect("it ends although the drive hangs");
    assert_eq!(status.code(), Some(1), "not everything is durable, and the message states that");
}

#[test]
fn a_drive_that_died_and_came_back_fails_the_first_flush_of_each_writer() {
    if !installed(&["file"]) {
        return;
    }
    let sandbox = sandbox("&reconnect_timeout=3600s");
    let first = drive(&sandbox, &[]);
    let server = sandbox.serve(VOLUMES);
    let third = runtime().block_on(async {
        let (mut a, mut b) =
            (open(&sandbox.socket(), "a").await, open(&sandbox.socket(), "b").await);
        a.write(0, noise(1, BLOCK)).await.unwrap();
        b.write(0, noise(2, BLOCK)).await.unwrap();
        b.request(NbdCommand::Flush).await.unwrap();
        first.kill_9();
        // The server may not have noticed yet, and the request fails like those in flight; then the
        // next one waits for the drive.
        let reading =
            b.submit(NbdCommand::Read { offset: 0, length: BLOCK as u32, unfragmented: false });
        b.send().await;
        let second = drive(&sandbox, &[]);
        let completion = b.completion().await;
        assert_eq!(completion.id, reading);
        assert!(
            completion.result.is_ok()
                || failure(completion.result).contains("was lost before it was answered")
        );
        assert_eq!(b.read(0, BLOCK as u32).await.unwrap(), noise(2, BLOCK));
        b.request(NbdCommand::Flush)
            .await
            .expect("what b wrote was flushed, which covers a's write too");
        a.request(NbdCommand::Flush).await.expect("and so has a nothing to lose");

        a.write(0, noise(3, BLOCK)).await.unwrap();
        second.kill_9();
        let third = drive(&sandbox, &[]);
        assert_eq!(
            until_it_works(
                &mut b,
                NbdCommand::Read { offset: 0, length: BLOCK as u32, unfragmented: false }
            )
            .await,
            Reply::Data(noise(2, BLOCK).into())
        );
        b.request(NbdCommand::Flush).await.expect("b has nothing to lose");
        let text = failure(a.request(NbdCommand::Flush).await);
        assert!(text.contains("may have lost writes"), "{text}");
        a.request(NbdCommand::Flush).await.expect("the loss was reported once");
        third
    });
    assert_eq!(server.drain(Duration::from_secs(20)).exit_code(), 0);
    drop(third);
}

#[test]
fn a_relocation_waits_for_a_drive_that_disappears_and_copies_again() {
    if !installed(&["file", "rate"]) {
        return;
    }
    let sandbox = sandbox("&reconnect_timeout=100ms");
    // Slow enough to be killed before it has copied all.
    let slow = ["--filter=rate", "rate=32M"];
    let first = drive(&sandbox, &slow);
    let server = sandbox.serve(VOLUMES);
    let volumes = server.volume_orders();
    let content = noise(1, 8 << 20);
    let last = || volumes.show("a").unwrap().volumes.remove(0).relocation.unwrap();
    let until = |there: fn(&RelocationStatus) -> bool| {
        let enough = Instant::now() + Duration::from_secs(120);
        loop {
            let status = last();
            if there(&status) {
                return status;
            }
            assert!(Instant::now() < enough, "{status:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let second = runtime().block_on(async {
        let mut a = open(&sandbox.socket(), "a").await;
        a.write(0, content.clone()).await.unwrap();
        a.request(NbdCommand::Flush).await.unwrap();
        let order = RelocateOrder {
            name: "a".to_owned(),
            from: None,
            size: None,
            to: RelocateTo::End,
            force: false,
            max_impact: None,
            dry_run: false,
        };
        volumes.relocate(&order).unwrap();
        first.kill_9();
        let waits = until(|status| status.state == RelocationState::Waiting);
        assert!(waits.reason.contains("the copy begins again when it does"), "{waits:?}");
        let second = drive(&sandbox, &slow);
        let end = until(|status| status.state.is_over());
        assert_eq!(end.state, RelocationState::Complete, "{end:?}");
        assert!(end.pass > 1, "{end:?}");
        assert_eq!(a.read(0, 8 << 20).await.unwrap(), content);
        second
    });
    assert_eq!(volumes.show("a").unwrap().volumes[0].volume.extents.start(), Lba::new(23 * 2048));
    drop(volumes);
    assert_eq!(server.drain(Duration::from_secs(20)).exit_code(), 0);
    drop(second);
}

#[test]
fn another_drive_in_place_of_a_lost_one_is_neither_read_nor_written() {
    if !installed(&["file"]) {
        return;
    }
    let sandbox = sandbox("&reconnect_timeout=100ms");
    let [home, away, ours] = ["home.img", "away.img", "disk.img"].map(|name| sandbox.path(name));
    // One drive with a table of volumes and one without.
    let other = drive(&sandbox, &[]);
    assert_eq!(sandbox.serve(VOLUMES).drain(Duration::from_secs(20)).exit_code(), 0);
    other.kill_9();
    std::fs::rename(&ours, &away).unwrap();
    for (stranger, said) in [
        (Some(&away), "its table of volumes is that of drive"),
        (None, "it has no valid table of volumes"),
    ] {
        std::fs::File::create(&ours).and_then(|file| file.set_len(32 << 20)).unwrap();
        let first = drive(&sandbox, &[]);
        let server = sandbox.serve(VOLUMES);
        let third = runtime().block_on(async {
            let mut a = open(&sandbox.socket(), "a").await;
            a.write(0, noise(1, BLOCK)).await.unwrap();
            a.request(NbdCommand::Flush).await.unwrap();
            first.kill_9();
            std::fs::rename(&ours, &home).unwrap();
            match stranger {
                Some(stranger) => std::fs::copy(stranger, &ours).map(|_| ()).unwrap(),
                None => {
                    std::fs::File::create(&ours).and_then(|file| file.set_len(32 << 20)).unwrap()
                }
            }
            let before = std::fs::read(&ours).unwrap();
            let second = drive(&sandbox, &[]);
            let enough = Instant::now() + Duration::from_secs(60);
            loop {
                let text = failure(a.write(0, noise(2, BLOCK)).await);
                if text.contains(said) {
                    break;
                }
                assert!(Instant::now() < enough, "a minute with the other drive: {text}");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            second.kill_9();
            assert!(
                std::fs::read(&ours).unwrap() == before,
                "nothing was written to the other drive"
            );
            std::fs::rename(&home, &ours).unwrap();
            let third = drive(&sandbox, &[]);
            let there = until_it_works(
                &mut a,
                NbdCommand::Read { offset: 0, length: BLOCK as u32, unfragmented: false },
            )
            .await;
            assert_eq!(there, Reply::Data(noise(1, BLOCK).into()));
            third
        });
        // A write failed while the drive was away, so the end need not be clean.
        let _ = server.drain(Duration::from_secs(20));
        drop(third);
        std::fs::remove_file(&ours).unwrap();
    }
}

#[test]
fn an_order_about_a_volume_that_the_drive_fails_leaves_what_scans_remember_of_it() {
    if !installed(&["file", "error"]) {
        return;
    }
    let sandbox = sandbox("");
    let switch = sandbox.path("inject");
    let only_if = format!("error-pwrite-file={}", switch.display());
    let _drive = drive(
        &sandbox,
        &["--filter=error", "error-pwrite=EIO", "error-pwrite-rate=100%", &only_if],
    );
    let server = sandbox.serve(&format!("state = {:?}\n{VOLUMES}", sandbox.path("state")));
    let (scans, volumes) = (server.scans(), server.volume_orders());
    let start = StartScan {
        target: "a".to_owned(),
        task: TaskKind::Scrub,
        range: None,
        digests: true,
        to: None,
        again: false,
        terms: TermsChange::default(),
    };
    let state = scans.start(&start).unwrap().state_file;
    let enough = Instant::now() + Duration::from_secs(60);
    while scans.status()[0].state != ScanState::Complete {
        assert!(Instant::now() < enough, "8 MiB take no minute: {:?}", scans.status());
        std::thread::sleep(Duration::from_millis(5));
    }
    let remembered = || {
        let now: Vec<_> =
            scans.status().into_iter().map(|scan| (scan.target, scan.state)).collect();
        (now, Path::new(&state).exists())
    };
    let all_of_it = (vec![("a".to_owned(), ScanState::Complete)], true);
    assert_eq!(remembered(), all_of_it);

    std::fs::write(&switch, "").unwrap();
    let order = VolumeOrder { name: "a".to_owned(), ..VolumeOrder::default() };
    let shrunk = VolumeOrder {
        size: Some(headtime_units::ByteSize::new(4 << 20)),
        cut_data: true,
        ..order.clone()
    };
    let refused = [volumes.remove(&order).unwrap_err(), volumes.set(&shrunk).unwrap_err()];
    assert!(
        refused.iter().all(|error| error.to_string().contains("the drive's table of volumes")),
        "{refused:?}"
    );
    assert_eq!(remembered(), all_of_it, "the volume is as it was, and so is what is known of it");
    assert!(scans.start(&start).is_ok(), "and it goes on being scanned");

    std::fs::remove_file(&switch).unwrap();
    volumes.remove(&VolumeOrder { force: true, ..order.clone() }).unwrap();
    assert_eq!(remembered(), (vec![], false), "a volume that is gone has nothing to be remembered");
    // The state after a crash immediately after the removal.
    std::fs::write(&state, "of another volume of this name").unwrap();
    volumes
        .add(&VolumeOrder { size: Some(headtime_units::ByteSize::new(8 << 20)), ..order })
        .unwrap();
    assert_eq!(remembered(), (vec![], false), "nor has a new one of its name");
    assert_eq!(server.drain(Duration::from_secs(20)).exit_code(), 0);
}
