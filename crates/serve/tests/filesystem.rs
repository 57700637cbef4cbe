//! A real file system on a volume: nbdfuse exposes the export as a file, a loop device makes it a
//! disk, and ext4 uses the disk.
//!
//! It runs as root only, because it mounts; otherwise it is skipped with a message. Everything is
//! undone at the end, also after a failure.

#![allow(clippy::unwrap_used)] // Tests may; clippy knows it only of functions marked as such.

mod common;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Sandbox, noise};
use headtime_testkit::programs::{installed, is_root, run, try_run};

const PROGRAMS: [&str; 8] =
    ["nbdfuse", "losetup", "mkfs.ext4", "mount", "umount", "fsck.ext4", "fio", "sync"];
const VOLUME: &str = "[[volume]]\nname = \"fs\"\nsize = \"96MiB\"\n";

fn can_run() -> bool {
    if !is_root() {
        eprintln!("skipped: mounting needs root");
        return false;
    }
    if !Path::new("/dev/fuse").exists() || try_run("losetup", &["-f"]).stdout.is_empty() {
        eprintln!("skipped: no /dev/fuse, or no loop device is free");
        return false;
    }
    installed(&PROGRAMS)
}

/// The volume as a loop device over nbdfuse; undone in reverse order when dropped.
struct Attached {
    fuse: Child,
    fuse_directory: tempfile::TempDir,
    loop_device: String,
}

impl Attached {
    fn new(uri: &str) -> Self {
        let fuse_directory = tempfile::tempdir().expect("a directory to mount at");
        let file = fuse_directory.path().join("nbd");
        let mut fuse = Command::new("nbdfuse")
            .arg(fuse_directory.path())
            .arg(uri)
            .stdin(Stdio::null())
            .spawn()
            .expect("nbdfuse runs");
        let enough = Instant::now() + Duration::from_secs(15);
        while !file.exists() {
            let alive = matches!(fuse.try_wait(), Ok(None));
            assert!(alive && Instant::now() < enough, "nbdfuse does not show {}", file.display());
            std::thread::sleep(Duration::from_millis(10));
        }
        let device = run("losetup", &["-f", "--show", file.to_str().expect("plain path")]);
        Self { fuse, fuse_directory, loop_device: device.trim().to_string() }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // Each step may be done already or fail after an error; the next one is tried anyway.
        let _ = try_run("losetup", &["-d", &self.loop_device]);
        let directory = self.fuse_directory.path().to_str().unwrap_or_default();
        let _ = try_run("umount", &["-l", directory]);
        let enough = Instant::now() + Duration::from_secs(5);
        while matches!(self.fuse.try_wait(), Ok(None)) {
            if Instant::now() > enough {
                let _ = self.fuse.kill();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// A mounted file system, unmounted when dropped.
struct Mounted(tempfile::TempDir);

impl Mounted {
    fn new(device: &str) -> Self {
        let directory = tempfile::tempdir().expect("a directory to mount at");
        run("mount", &[device, directory.path().to_str().expect("plain path")]);
        Self(directory)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("plain path").to_string()
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let path = self.0.path().to_str().unwrap_or_default();
        if !try_run("umount", &[path]).status.success() {
            let _ = try_run("umount", &["-l", path]);
        }
    }
}

#[test]
fn a_file_system_lives_on_a_volume_and_is_clean_afterwards() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::with_file_drive(128);
    let server = sandbox.serve(VOLUME);
    let attached = Attached::new(&sandbox.uri("fs"));
    run("mkfs.ext4", &["-q", &attached.loop_device]);
    let mounted = Mounted::new(&attached.loop_device);
    let job = [
        "--name=verify",
        &format!("--filename={}", mounted.path("file")),
        "--size=24m",
        "--rw=randrw",
        "--bsrange=4k-64k",
        "--ioengine=psync",
        "--fsync=32",
        "--verify=crc32c",
        "--do_verify=1",
        "--verify_state_save=0",
        "--randseed=7",
        "--output-format=terse",
    ];
    run("fio", &job);
    std::fs::write(mounted.path("kept"), noise(5, 3 << 20)).unwrap();
    drop(mounted);
    run("fsck.ext4", &["-f", "-n", &attached.loop_device]);
    let again = Mounted::new(&attached.loop_device);
    assert!(
        std::fs::read(again.path("kept")).unwrap() == noise(5, 3 << 20),
        "a file differs after unmounting and mounting again"
    );
    drop(again);
    drop(attached);
    let stats = server.stats().snapshot();
    assert!(
        stats.volumes[0].others.requests > 0,
        "the file system flushed: {:?}",
        stats.volumes[0].others.requests
    );
    assert_eq!(server.drain(Duration::from_secs(10)).exit_code(), 0);
}

#[test]
fn a_file_system_survives_kill_9_of_its_server() {
    if !can_run() {
        return;
    }
    let sandbox = Sandbox::with_file_drive(128);
    let server = sandbox.spawn(VOLUME);
    let attached = Attached::new(&sandbox.uri("fs"));
    run("mkfs.ext4", &["-q", &attached.loop_device]);
    let mounted = Mounted::new(&attached.loop_device);
    for index in 0..8 {
        let path = mounted.path(&format!("kept{index}"));
        std::fs::write(&path, noise(index, 1 << 20)).unwrap();
        run("sync", &[&path, &mounted.path(".")]);
    }
    // Killed during writes: unsynced data may be lost, synced data may not.
    let unsynced = mounted.path("unsynced");
    let writing = std::thread::spawn(move || {
        for index in 0..200 {
            if std::fs::write(&unsynced, noise(index, 2 << 20))
                .and_then(|()| std::fs::File::open(&unsynced)?.sync_all())
                .is_err()
            {
                return;
            }
        }
    });
    while !Path::new(&mounted.path("unsynced")).exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    server.kill_9();
    writing.join().unwrap();
    drop(mounted);
    drop(attached);

    let server = sandbox.spawn(VOLUME);
    let attached = Attached::new(&sandbox.uri("fs"));
    // Mounting replays the journal; afterwards nothing needs repair.
    let mounted = Mounted::new(&attached.loop_device);
    for index in 0..8 {
        assert!(
            std::fs::read(mounted.path(&format!("kept{index}"))).unwrap() == noise(index, 1 << 20),
            "kept{index} differs"
        );
    }
    drop(mounted);
    run("fsck.ext4", &["-f", "-n", &attached.loop_device]);
    drop(attached);
    assert_eq!(server.terminate().code(), Some(0));
}
