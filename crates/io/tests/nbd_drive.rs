//! An NBD drive without faults: the requests sent to the server, its limits, and servers that are
//! refused.

mod common;

use std::path::Path;

use bytes::Bytes;
use headtime_io::{Drive, DriveOptions, Io, LinkState, Locator, OpenError};
use headtime_nbd::{BlockSizes, Errno, ExportFlags, ExportInfo};
use headtime_sched::Op;
use headtime_units::Extent;

use common::nbd_place::wait_until;
use common::puppet_server::{Puppet, Rule, serve_raw};
use common::{holds, pattern, pattern_of};
use headtime_testkit::nbdkit::{Nbdkit, installed};

const SIZE: u64 = 8 << 20;

fn open(uri: &str) -> Result<Drive, OpenError> {
    Drive::open(&Locator::parse(uri).expect(uri), DriveOptions::default())
}

fn refusal(uri: &str) -> String {
    open(uri).err().expect(uri).to_string()
}

fn puppet(directory: &Path, export: ExportInfo) -> Puppet {
    Puppet::start(&directory.join("nbd.sock"), export)
}

fn disk(flags: ExportFlags, maximum: u32) -> ExportInfo {
    let block_sizes = BlockSizes { minimum: 512, preferred: 4096, maximum };
    ExportInfo { flags, block_sizes, ..ExportInfo::disk("", SIZE) }
}

fn done(drive: &Drive, io: Io) {
    assert_eq!(drive.handle().run(io).result, Ok(Bytes::new()));
}

#[test]
fn requests_longer_than_the_server_takes_are_cut_and_joined_again() {
    let directory = tempfile::tempdir().expect("a place for files");
    let server = puppet(directory.path(), disk(ExportFlags::DISK, 65_536));
    let drive = open(&server.uri()).expect("the server is there");
    let extent = Extent::from_numbers(3, 1000);
    done(&drive, Io::write(extent, pattern(extent, 1)));
    assert!(holds(&drive, extent, 1));
    let lengths = |name| {
        server
            .script()
            .log
            .iter()
            .filter(|entry| entry.1 == name)
            .map(|entry| (entry.2, entry.3))
            .collect::<Vec<_>>()
    };
    let pieces: Vec<(u64, u64)> = (0..8)
        .map(|piece| (1536 + piece * 65_536, (512_000 - piece * 65_536).min(65_536)))
        .collect();
    assert_eq!((lengths("WRITE"), lengths("READ")), (pieces.clone(), pieces));
    // Without a payload the limit does not count.
    done(&drive, Io::new(Op::Zero, extent));
    done(&drive, Io::new(Op::Discard, extent));
    assert_eq!(
        (lengths("WRITE_ZEROES"), lengths("TRIM")),
        (vec![(1536, 512_000)], vec![(1536, 512_000)])
    );
    assert_eq!(drive.snapshot().link.map(|link| link.state), Some(LinkState::Connected));
    assert!(drive.shutdown().is_clean());
}

#[test]
fn an_error_of_one_part_is_the_commands_and_keeps_the_rest_from_being_sent() {
    let directory = tempfile::tempdir().expect("a place for files");
    let server = puppet(directory.path(), disk(ExportFlags::DISK, 4096));
    let drive = open(&server.uri()).expect("the server is there");
    server.set_rule(|command| {
        if command.range().0 == 8192 { Rule::Fail(Errno::NoSpace) } else { Rule::Answer }
    });
    let extent = Extent::from_numbers(0, 32_000 / 512 * 8);
    let error = drive
        .handle()
        .run(Io::write(extent, pattern(extent, 1)))
        .result
        .expect_err("the third part fails");
    let text = error.to_string();
    assert!(
        error.errno() == 28
            && text.contains("answered")
            && text.contains("ENOSPC")
            && text.contains("as the test said"),
        "{text}"
    );
    assert!(text.contains(&server.uri()), "{text}");
    done(&drive, Io::flush());
}

#[test]
fn a_server_that_understands_little_is_asked_for_nothing_else() {
    let directory = tempfile::tempdir().expect("a place for files");
    let server = puppet(directory.path(), disk(ExportFlags::NONE, 1 << 20));
    let drive = open(&server.uri()).expect("the server is there");
    let (all, hole) = (Extent::from_numbers(0, 16), Extent::from_numbers(4, 4));
    done(&drive, Io { fua: true, ..Io::write(all, pattern(all, 1)) });
    done(&drive, Io::new(Op::Zero, hole));
    done(&drive, Io::new(Op::Discard, Extent::from_numbers(12, 4)));
    done(&drive, Io::flush());
    let mut expected = pattern(all, 1).to_vec();
    expected[4 * 512..8 * 512].fill(0);
    assert!(drive.handle().run(Io::read(all)).result.expect("readable") == expected);
    let seen: Vec<_> = server.script().log.iter().map(|entry| entry.1).collect();
    assert_eq!(seen, ["WRITE", "WRITE", "READ"]);
}

#[test]
fn without_fua_a_flush_follows_and_with_it_none_does() {
    for (flags, expected) in [
        (ExportFlags::SEND_FLUSH, &["WRITE", "FLUSH"][..]),
        (ExportFlags::SEND_FLUSH | ExportFlags::SEND_FUA, &["WRITE"]),
    ] {
        let directory = tempfile::tempdir().expect("a place for files");
        let server = puppet(directory.path(), disk(flags, 1 << 20));
        let drive = open(&server.uri()).expect("the server is there");
        let extent = Extent::from_numbers(0, 16);
        done(&drive, Io { fua: true, ..Io::write(extent, pattern(extent, 1)) });
        assert_eq!(server.script().log.iter().map(|entry| entry.1).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn the_server_never_holds_more_than_the_queue_depth() {
    let directory = tempfile::tempdir().expect("a place for files");
    let server = puppet(directory.path(), disk(ExportFlags::DISK, 1 << 20));
    server.set_rule(|_| Rule::Keep);
    let locator = Locator::parse(&format!("{}&queue_depth=3", server.uri())).expect("a locator");
    let drive =
        Drive::open(&locator, DriveOptions { outstanding: Some(100), ..DriveOptions::default() })
            .expect("the server is there");
    let waiting: Vec<_> = (0..10)
        .map(|number| common::submit(&drive, Io::read(Extent::from_numbers(number * 100, 1))))
        .collect();
    server.wait_until("three requests are there", |script| script.log.len() >= 3);
    wait_until("the engine has all of them", || drive.snapshot().queued == 7);
    assert_eq!((drive.snapshot().outstanding, server.script().log.len()), (3, 3));
    server.set_rule(|_| Rule::Answer);
    assert!(waiting.iter().all(|receiver| common::answer(receiver).result.is_ok()));
}

#[test]
fn sectors_of_4096_bytes_when_the_server_takes_no_smaller_blocks() {
    if !installed(&["memory", "blocksize-policy"]) {
        return;
    }
    let directory = tempfile::tempdir().expect("a place for files");
    let socket = directory.path().join("nbd.sock");
    let policy = [
        "blocksize-minimum=4096",
        "blocksize-preferred=4096",
        "blocksize-maximum=64K",
        "blocksize-error-policy=error",
    ];
    let _nbdkit = Nbdkit::start(
        &socket,
        &[&["--filter=blocksize-policy", "memory", "8M"][..], &policy].concat(),
    );
    let drive =
        open(&format!("nbd+unix:///?socket={}", socket.display())).expect("nbdkit is there");
    assert_eq!((drive.sector_size().bytes(), drive.capacity().get()), (4096, 2048));
    let extent = Extent::from_numbers(1, 100);
    done(&drive, Io::write(extent, pattern_of(4096, extent, 1)));
    assert!(holds(&drive, extent, 1));
}

#[test]
fn a_server_is_reached_over_tcp_by_name() {
    let directory = tempfile::tempdir().expect("a place for files");
    let server = puppet(directory.path(), disk(ExportFlags::DISK, 1 << 20));
    let port = server.listen_on_tcp();
    let drive = open(&format!("nbd://localhost:{port}/")).expect("the server is there");
    let extent = Extent::from_numbers(5, 2000);
    done(&drive, Io::write(extent, pattern(extent, 1)));
    assert!(holds(&drive, extent, 1));
    assert!(
        drive.snapshot().backend.starts_with(&format!("nbd://localhost:{port}/")),
        "{}",
        drive.snapshot().backend
    );
}

#[test]
fn what_makes_no_drive_is_refused_with_the_reason_and_the_remedy() {
    let directory = tempfile::tempdir().expect("a place for files");
    let missing = refusal(&format!("nbd+unix:///?socket={}/missing", directory.path().display()));
    assert!(
        missing.contains("connecting failed") && missing.contains("is the server running"),
        "{missing}"
    );
    let unknown = refusal("nbd://no-such-host.invalid/");
    assert!(unknown.contains("cannot be looked up"), "{unknown}");
    let server =
        puppet(directory.path(), disk(ExportFlags::DISK | ExportFlags::READ_ONLY, 1 << 20));
    let read_only = refusal(&server.uri());
    assert!(read_only.contains("read-only") && read_only.contains("for writing"), "{read_only}");
    let export = refusal(&server.uri().replace("///", "///nothing"));
    assert!(export.contains("no such export"), "{export}");
    for (size, minimum, said) in [
        (0, 1, "0 bytes"),
        (1000, 1, "1000 bytes"),
        (1 << 63, 512, "at most 2^63"),
        (1 << 20, 65_536, "65536 bytes"),
    ] {
        let block_sizes = BlockSizes { minimum, preferred: 65_536, maximum: 1 << 20 };
        server.script().export = ExportInfo { block_sizes, ..ExportInfo::disk("", size) };
        let message = refusal(&server.uri());
        assert!(message.contains(said), "{message}");
    }
}

#[test]
fn a_server_that_is_none_or_leaves_in_the_handshake_or_says_nothing_is_refused() {
    use std::io::Write as _;
    let directory = tempfile::tempdir().expect("a place for files");
    type Behavior = fn(std::os::unix::net::UnixStream);
    let servers: [(&str, Behavior, &str); 5] = [
        (
            "http",
            |mut stream| stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap_or_default(),
            "not an NBD server?",
        ),
        ("gone", |stream| drop(stream), "closed the connection during the greeting"),
        (
            "half",
            |mut stream| stream.write_all(b"NBDMAGICIHAVEOPT\0\x03").unwrap_or_default(),
            "closed the connection during",
        ),
        (
            "endless",
            |mut stream| {
                // An option reply of 4 GiB: nothing of the kind is held or waited for.
                let mut bytes = b"NBDMAGICIHAVEOPT\0\x03".to_vec();
                bytes.extend_from_slice(&0x0003_e889_0455_65a9_u64.to_be_bytes());
                bytes.extend_from_slice(&[0, 0, 0, 8, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]);
                let _ = stream.write_all(&bytes);
                std::thread::spawn(move || while stream.write_all(&[0; 65_536]).is_ok() {});
            },
            "max_option_reply_bytes",
        ),
        ("silent", |stream| std::mem::forget(stream), "did not open the export within 200.000 ms"),
    ];
    for (name, behavior, said) in servers {
        let socket = directory.path().join(name);
        serve_raw(&socket, behavior);
        let limit = if name == "silent" { "&connect_timeout=200ms" } else { "" };
        let message = refusal(&format!("nbd+unix:///?socket={}{limit}", socket.display()));
        assert!(message.contains(said), "{name}: {message}");
    }
}
