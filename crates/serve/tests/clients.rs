//! Common NBD programs against a served volume. A test is skipped with a message if its program is
//! not installed.

#![allow(clippy::unwrap_used)] // Tests may; clippy knows it only of functions marked as such.

mod common;

use std::time::Duration;

use common::{Sandbox, noise, write_noise};
use headtime_serve::config::{Config, Listen};
use headtime_serve::{Server, serve_alone};
use headtime_testkit::programs::{installed, run, try_run};

const TWO_VOLUMES: &str = "[[volume]]\nname = \"rec\"\nsize = \"24MiB\"\ndeadline = \
    \"100ms\"\ndescription = \"four cameras\"\n\
                           [[volume]]\nname = \"db\"\nsize = \"16MiB\"\n";

#[test]
fn nbdinfo_sees_the_volumes_as_they_are() {
    if !installed(&["nbdinfo"]) {
        return;
    }
    let sandbox = Sandbox::with_file_drive(64);
    let server = sandbox.serve(TWO_VOLUMES);
    let list = run("nbdinfo", &["--list", &sandbox.uri("")]);
    assert!(
        list.contains("export=\"db\"")
            && list.contains("export=\"rec\"")
            && list.contains("four cameras"),
        "{list}"
    );
    let rec = run("nbdinfo", &[&sandbox.uri("rec")]);
    for said in [
        "export-size: 25165824",
        "is_rotational: true",
        "can_multi_conn: true",
        "can_fua: true",
        "can_flush: true",
        "can_trim: true",
        "can_zero: true",
        "can_cache: true",
        "block_size_minimum: 512",
        "block_size_preferred: 4096",
        "block_size_maximum: 33554432",
        "base:allocation",
    ] {
        assert!(rec.contains(said), "{said} is not in\n{rec}");
    }
    let map = run("nbdinfo", &["--map", "--totals", &sandbox.uri("rec")]);
    assert!(map.contains("100.0%") && map.contains("data"), "{map}");
    let refused = try_run("nbdinfo", &[&sandbox.uri("nothing")]);
    assert!(!refused.status.success());
    assert_eq!(server.drain(Duration::from_secs(10)).exit_code(), 0);
}

#[test]
fn nbdcopy_gets_back_what_it_put_in_over_several_connections() {
    if !installed(&["nbdcopy"]) {
        return;
    }
    let sandbox = Sandbox::with_file_drive(64);
    let server = sandbox.serve(TWO_VOLUMES);
    let (original, copy) = (sandbox.path("in"), sandbox.path("out"));
    write_noise(&original, 1, 24 << 20);
    let (original, copy) = (original.to_str().unwrap(), copy.to_str().unwrap());
    run("nbdcopy", &["--connections=4", "--requests=32", "--flush", original, &sandbox.uri("rec")]);
    run("nbdcopy", &["--connections=4", "--request-size=4194304", &sandbox.uri("rec"), copy]);
    assert!(
        std::fs::read(original).unwrap() == std::fs::read(copy).unwrap(),
        "the copy differs from the original"
    );
    let stats = server.stats().snapshot();
    let rec = stats.by_name()["rec"];
    assert!(
        rec.reads.bytes >= 24 << 20 && rec.writes.bytes >= 24 << 20 && rec.deadline_requests > 0,
        "{rec:?}"
    );
    assert_eq!(stats.by_name()["db"].total().requests, 0);
    drop(server);
}

#[test]
fn nbdsh_may_use_every_command() {
    if !installed(&["nbdsh"]) {
        return;
    }
    let sandbox = Sandbox::with_file_drive(64);
    let server = sandbox.serve(TWO_VOLUMES);
    let script = r#"
import nbd
a = bytes([7]) * 65536
h.pwrite(a, 0, nbd.CMD_FLAG_FUA)
assert h.pread(65536, 0) == a
h.zero(4096, 4096)
assert h.pread(8192, 0) == a[:4096] + bytes(4096)
h.zero(4096, 8192, nbd.CMD_FLAG_NO_HOLE | nbd.CMD_FLAG_FUA)
h.trim(4096, 16384)
h.trim(4096, 16384, nbd.CMD_FLAG_FUA)
h.cache(65536, 0)
h.flush()
extents = []
def seen(context, offset, entries, error):
    extents.extend(entries)
h.block_status(1 << 20, 0, seen)
assert extents == [1 << 20, 0], extents
def refused(f, number):
    try:
        f()
    except nbd.Error as error:
        assert error.errnum == number, error
    else:
        raise Exception("it was not refused")
import errno
h.set_strict_mode(0)
refused(lambda: h.pread(512, 24 << 20), errno.EINVAL)
refused(lambda: h.pwrite(a, (24 << 20) - 512), errno.ENOSPC)
refused(lambda: h.pread(100, 0), errno.EINVAL)
other = nbd.NBD()
other.connect_uri(h.get_uri())
other.pwrite(bytes([9]) * 512, 0)
other.flush()
assert h.pread(512, 0) == bytes([9]) * 512
other.shutdown()
h.shutdown()
"#;
    run("nbdsh", &["--base-allocation", "-u", &sandbox.uri("rec"), "-c", script]);
    assert_eq!(server.drain(Duration::from_secs(10)).exit_code(), 0);
}

#[test]
fn qemu_img_copies_and_compares() {
    if !installed(&["qemu-img"]) {
        return;
    }
    let sandbox = Sandbox::with_file_drive(64);
    let server = sandbox.serve(TWO_VOLUMES);
    let original = sandbox.path("in");
    let mut bytes = noise(2, 16 << 20);
    bytes[1 << 20..3 << 20].fill(0);
    std::fs::write(&original, bytes).unwrap();
    let (original, db) = (original.to_str().unwrap(), sandbox.uri("db"));
    let info = run("qemu-img", &["info", "--output=json", &db]);
    assert!(info.contains("16777216"), "{info}");
    run("qemu-img", &["convert", "-n", "-f", "raw", "-O", "raw", original, &db]);
    run("qemu-img", &["compare", "-f", "raw", "-F", "raw", original, &db]);
    drop(server);
}

/// fio writes with checksums, reads everything back and fails if a byte differs.
fn fio_verifies(uri: &str, size: &str, seconds: u32) {
    let job = [
        "--name=verify",
        "--ioengine=nbd",
        &format!("--uri={uri}"),
        &format!("--size={size}"),
        "--rw=randwrite",
        "--bsrange=4k-256k",
        "--iodepth=16",
        "--verify=crc32c",
        "--do_verify=1",
        "--randrepeat=1",
        "--randseed=7",
        "--verify_state_save=0",
        &format!("--runtime={seconds}"),
        "--output-format=terse",
    ];
    run("fio", &job);
}

#[test]
fn fio_finds_every_byte_where_it_put_it() {
    if !installed(&["fio"]) {
        return;
    }
    let sandbox = Sandbox::with_file_drive(64);
    let server = sandbox.serve(TWO_VOLUMES);
    let (rec, db) = (sandbox.uri("rec"), sandbox.uri("db"));
    std::thread::scope(|scope| {
        scope.spawn(|| fio_verifies(&rec, "24m", 4));
        scope.spawn(|| fio_verifies(&db, "16m", 4));
    });
    assert_eq!(server.drain(Duration::from_secs(10)).exit_code(), 0);
}

#[test]
fn an_emulated_drive_with_volumes_and_without_keeps_every_byte() {
    if !installed(&["fio", "nbdinfo"]) {
        return;
    }
    let sandbox = Sandbox::with_tiny_drive();
    let server = sandbox.serve("[[volume]]\nname = \"rec\"\nsize = \"8MiB\"\n");
    fio_verifies(&sandbox.uri("rec"), "8m", 3);
    let drained = server.drain(Duration::from_secs(10));
    assert_eq!(drained.exit_code(), 0);
    assert!(drained.drive.emulation.is_some(), "the drive is an emulated one: {:?}", drained.drive);

    let alone = Sandbox::with_tiny_drive();
    let server = serve_alone(&alone.config("")).unwrap();
    let info = run("nbdinfo", &[&alone.uri("")]);
    assert!(info.contains("export-size: 134217728"), "{info}");
    fio_verifies(&alone.uri("drive"), "8m", 3);
    assert_eq!(server.stats().snapshot().drive.policy, "firmware");
    assert_eq!(server.drain(Duration::from_secs(10)).exit_code(), 0);
}

#[test]
fn a_tcp_port_serves_as_well() {
    if !installed(&["nbdcopy"]) {
        return;
    }
    let sandbox = Sandbox::with_file_drive(64);
    let mut config: Config = sandbox.config(TWO_VOLUMES);
    config.listen.push(Listen::parse("tcp:127.0.0.1:0").unwrap());
    let server = Server::start(&config).unwrap();
    let uri = server
        .uris()
        .into_iter()
        .find(|found| found.export == "db" && found.uri.starts_with("nbd://"))
        .unwrap()
        .uri;
    let (original, copy) = (sandbox.path("in"), sandbox.path("out"));
    write_noise(&original, 3, 16 << 20);
    run("nbdcopy", &[original.to_str().unwrap(), &uri]);
    run("nbdcopy", &[&uri, copy.to_str().unwrap()]);
    assert!(
        std::fs::read(original).unwrap() == std::fs::read(copy).unwrap(),
        "the copy differs from the original"
    );
    assert_eq!(server.drain(Duration::from_secs(10)).exit_code(), 0);
}
