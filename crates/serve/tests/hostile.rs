//! Hostile clients over real sockets against a server in a process of its own, whose memory is
//! measured.

#![allow(clippy::unwrap_used)] // Tests may; clippy knows it only of functions marked as such.

mod common;

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use common::client::Client;
use common::{Sandbox, noise, runtime};
use headtime_nbd::NbdCommand;

const LIMITS: &str = "[limits]\nconnections = 32\nmemory = \"32MiB\"\nrequest = \
    \"16MiB\"\nconnection_bytes = \"16MiB\"\nconnection_memory = \"256KiB\"\n\
                      stall_timeout = \"200ms\"\nhandshake_timeout = \"300ms\"\n[[volume]]\nname = \
                      \"a\"\nsize = \"48MiB\"\n";
/// The program itself, its threads' stacks, the table of volumes, and the overhead of the
/// allocator.
const PROGRAM_BYTES: u64 = 48 << 20;

/// An open connection to export `a` as raw bytes.
fn opened(sandbox: &Sandbox) -> UnixStream {
    let mut stream = UnixStream::connect(sandbox.socket()).unwrap();
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).unwrap();
    stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\x01a").unwrap();
    let mut reply = [0; 10];
    stream.read_exact(&mut reply).unwrap();
    stream
}

fn request(kind: u16, offset: u64, length: u32) -> Vec<u8> {
    [
        &[0x25, 0x60, 0x95, 0x13, 0, 0][..],
        &kind.to_be_bytes(),
        &[1; 8],
        &offset.to_be_bytes(),
        &length.to_be_bytes(),
    ]
    .concat()
}

#[test]
fn connections_that_open_nothing_keep_nobody_out() {
    let sandbox = Sandbox::with_file_drive(64);
    // Longer than the test: no client leaves because of a timeout.
    let server = sandbox
        .spawn(&LIMITS.replace("handshake_timeout = \"300ms\"", "handshake_timeout = \"1h\""));
    let mut flood: Vec<UnixStream> =
        (0..40).map(|_| UnixStream::connect(sandbox.socket()).unwrap()).collect();
    for stream in &mut flood[20..] {
        stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x07\0\0\0\x20").unwrap();
    }
    runtime().block_on(async {
        let mut clients = Vec::new();
        for index in 0..20 {
            let mut client = Client::open(&sandbox.socket(), "a")
                .await
                .expect("one that opens nothing makes room");
            client.write(index * 4096, noise(index, 4096)).await.unwrap();
            clients.push(client);
        }
        for (index, client) in clients.iter_mut().enumerate() {
            assert_eq!(
                client.read(index as u64 * 4096, 4096).await.unwrap(),
                noise(index as u64, 4096),
                "who has opened an export stays"
            );
        }
    });
    drop(flood);
    assert_eq!(server.terminate().code(), Some(0));
}

#[test]
fn nothing_that_clients_do_takes_the_server_down_or_its_memory_up() {
    let sandbox = Sandbox::with_file_drive(64);
    let server = sandbox.spawn(LIMITS);
    let bound = sandbox.config(LIMITS).limits.memory_bound().get();
    let honest = {
        let socket = sandbox.socket();
        std::thread::spawn(move || {
            runtime().block_on(async {
                let mut client = Client::open(&socket, "a").await.unwrap();
                for round in 0..400_u64 {
                    let offset = (round % 64) * 4096;
                    client.write(offset, noise(round, 4096)).await.unwrap();
                    assert_eq!(client.read(offset, 4096).await.unwrap(), noise(round, 4096));
                }
                client.leave().await;
            });
        })
    };

    // Garbage instead of a handshake.
    for seed in 0..8 {
        let mut stream = UnixStream::connect(sandbox.socket()).unwrap();
        let _refused_halfway = stream.write_all(&noise(seed, 10_000));
    }
    // Half a handshake, and an option that says it is 4 GiB long.
    let mut open_halfway = Vec::new();
    for _ in 0..4 {
        let mut stream = UnixStream::connect(sandbox.socket()).unwrap();
        stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x07\xff\xff\xff\xff").unwrap();
        open_halfway.push(stream);
    }
    // Payloads that are announced and never sent, and one that is cut in the middle.
    let mut stalled = Vec::new();
    for index in 0..4 {
        let mut stream = opened(&sandbox);
        stream.write_all(&request(1, 16 << 20, 16 << 20)).unwrap();
        stream.write_all(&vec![0x66; index * 100_000]).unwrap();
        stalled.push(stream);
    }
    drop(stalled.pop());
    // Long reads with replies that are never read.
    for _ in 0..6 {
        let mut stream = opened(&sandbox);
        for _ in 0..200 {
            let _shown_out = stream.write_all(&request(0, 0, 16 << 20));
        }
        stalled.push(stream);
    }
    // CACHE and WRITE_ZEROES on everything, repeatedly, then a disconnect.
    for kind in [5, 6] {
        let mut stream = opened(&sandbox);
        for _ in 0..50 {
            stream.write_all(&request(kind, 1 << 20, 47 << 20)).unwrap();
        }
    }
    // More connections than the maximum.
    let flood: Vec<_> =
        (0..100).filter_map(|_| UnixStream::connect(sandbox.socket()).ok()).collect();
    drop(flood);

    honest.join().expect("the honest client was served throughout");
    drop((stalled, open_halfway));
    let peak = server.peak_resident_bytes();
    assert!(
        peak < bound + PROGRAM_BYTES,
        "{} MiB resident at most; the bound is {} MiB and the program",
        peak >> 20,
        bound >> 20
    );
    runtime().block_on(async {
        let mut client = loop {
            match Client::open(&sandbox.socket(), "a").await {
                Ok(client) => break client,
                // Other clients may still be leaving, with all connections in use.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        };
        // Incomplete payloads were never written: there are only zeroes and the data of the honest
        // client.
        let bytes = client.read(16 << 20, 1 << 20).await.unwrap();
        assert!(bytes.iter().all(|byte| *byte == 0));
        client.request(NbdCommand::Flush).await.unwrap();
        client.leave().await;
    });
    assert_eq!(server.terminate().code(), Some(0));
}
