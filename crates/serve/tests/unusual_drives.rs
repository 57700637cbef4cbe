//! Drives that cannot be written, are in use by other programs, or change while they are served.

#![allow(clippy::unwrap_used)] // Tests may; clippy knows it only of functions marked as such.

mod common;

use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use common::client::Client;
use common::{Sandbox, noise, runtime};
use headtime_nbd::client::{Reply, RequestError};
use headtime_nbd::{Errno, NbdCommand};
use headtime_serve::Server;
use headtime_serve::config::Config;
use headtime_serve::control::{ControlClient, VolumeArguments};
use headtime_testkit::loop_device::LoopDevice;
use headtime_testkit::programs::{installed, try_run};

const ONE: &str = "[[volume]]\nname = \"a\"\nsize = \"8MiB\"\n";

fn end(server: Server) {
    assert_eq!(server.drain(Duration::from_secs(10)).exit_code(), 0);
}

/// A configuration of a drive that exists.
fn config(sandbox: &Sandbox, more: &str) -> Config {
    let toml = sandbox.toml(more).replace("create = \"16MiB\"\n", "");
    Config::from_toml("test.toml", &toml).unwrap()
}

#[test]
fn a_write_protected_drive_is_served_read_only_and_does_not_change() {
    let sandbox = Sandbox::with_file_drive(16);
    let server = sandbox.serve(ONE);
    runtime().block_on(async {
        let mut client = Client::open(&sandbox.socket(), "a").await.unwrap();
        assert!(matches!(client.write(0, noise(1, 65_536)).await, Ok(Reply::Done)));
        client.leave().await;
    });
    end(server);
    let image = sandbox.path("drive.img");
    std::fs::set_permissions(&image, std::fs::Permissions::from_mode(0o440)).unwrap();
    let before = std::fs::read(&image).unwrap();
    let changed = std::fs::metadata(&image).unwrap().modified().unwrap();
    let server = Server::start(&config(&sandbox, "read_only = true\n")).unwrap();
    runtime().block_on(async {
        let mut client = Client::open(&sandbox.socket(), "a").await.unwrap();
        assert!(client.read(0, 65_536).await.unwrap() == noise(1, 65_536));
        // The export is announced as read-only, so that the client does not even send a write.
        let write = NbdCommand::Write { offset: 0, payload: vec![0; 512].into(), fua: false };
        assert!(client.machine.submit(write).is_err());
        client.leave().await;
    });
    let mut control = ControlClient::connect(server.control_socket().unwrap()).unwrap();
    let mut order = VolumeArguments { name: "a".to_owned(), ..VolumeArguments::default() };
    order.settings.insert("reserve".to_owned(), "10%".to_owned());
    let refused = control.volume("volume.set", &order).unwrap_err().to_string();
    assert!(refused.contains("served read-only"), "{refused}");
    end(server);
    assert!(std::fs::read(&image).unwrap() == before, "the drive was written to");
    assert_eq!(std::fs::metadata(&image).unwrap().modified().unwrap(), changed);
    let both = config(&sandbox, "read_only = true\ninitialize = true\n").check().unwrap_err();
    assert!(both.to_string().contains("read_only forbids writes"), "{both}");
}

#[test]
fn a_file_that_is_cut_off_while_served_is_not_extended_again() {
    let sandbox = Sandbox::with_file_drive(16);
    let server = sandbox.serve(ONE);
    let image = std::fs::OpenOptions::new().write(true).open(sandbox.path("drive.img")).unwrap();
    image.set_len(4 << 20).unwrap();
    runtime().block_on(async {
        let mut client = Client::open(&sandbox.socket(), "a").await.unwrap();
        assert!(matches!(client.write(0, noise(1, 4096)).await, Ok(Reply::Done)));
        let lost = client.write(6 << 20, noise(2, 4096)).await;
        let Err(RequestError::Server { errno, text, .. }) = lost else { panic!("{lost:?}") };
        assert_eq!(errno, Errno::Io);
        assert!(text.contains("cut off"), "{text}");
        client.leave().await;
    });
    assert_eq!(image.metadata().unwrap().len(), 4 << 20);
    drop(server);
}

#[test]
fn a_member_of_an_array_that_is_cut_off_fails_the_requests_that_need_it_and_is_named() {
    const STRIPE: usize = 64 << 10;
    let file = |directory: &std::path::Path, name| directory.join(name).display().to_string();
    let sandbox = Sandbox::with_drive(|directory| {
        let members = ["a", "b", "c"].map(|name| file(directory, name)).join(",");
        format!("array:stripe=64KiB,{members}")
    });
    for name in ["a", "b", "c"] {
        std::fs::File::create(sandbox.path(name)).unwrap().set_len(16 << 20).unwrap();
    }
    let server = sandbox.serve(ONE);
    let b = file(sandbox.directory.path(), "b");
    runtime().block_on(async {
        let mut client = Client::open(&sandbox.socket(), "a").await.unwrap();
        // Requests are divided within, at and across the ends of stripes.
        let data = noise(1, 20 * STRIPE);
        let mut at = 0;
        for len in [512, STRIPE - 512, 3 * STRIPE + 1024, 20 * STRIPE].into_iter().cycle() {
            let end = data.len().min(at + len);
            let written = client.write(at as u64, data[at..end].to_vec()).await;
            assert!(matches!(written, Ok(Reply::Done)), "{written:?}");
            at = end;
            if at == data.len() {
                break;
            }
        }
        assert!(client.read(0, data.len() as u32).await.unwrap() == data);
        std::fs::OpenOptions::new().write(true).open(&b).unwrap().set_len(0).unwrap();
        let mut failed = Vec::new();
        for stripe in 0..18 {
            match client.read((stripe * STRIPE) as u64, 512).await {
                Ok(read) => assert!(read == data[stripe * STRIPE..][..512], "stripe {stripe}"),
                Err(RequestError::Server { text, .. }) => {
                    assert!(text.contains(&format!("member 2 of 3, {b}: ")), "{text}");
                    failed.push(stripe);
                }
                Err(error) => panic!("{error:?}"),
            }
        }
        let first = failed[0];
        assert_eq!(failed, (first..18).step_by(3).collect::<Vec<_>>());
        let beside = client.read(((first + 1) * STRIPE) as u64, 2 * STRIPE as u32).await;
        assert!(beside.unwrap() == data[(first + 1) * STRIPE..][..2 * STRIPE]);
        let across = client.read(((first + 1) * STRIPE) as u64, 2 * STRIPE as u32 + 512).await;
        let Err(RequestError::Server { text, .. }) = across else { panic!("{across:?}") };
        assert!(text.contains("member 2 of 3"), "{text}");
        client.leave().await;
    });
    drop(server);
}

#[test]
fn qemu_and_headtime_keep_out_of_each_other_s_files() {
    if !installed(&["qemu-io"]) {
        return;
    }
    let sandbox = Sandbox::with_file_drive(16);
    let image = sandbox.path("drive.img").display().to_string();
    let qemu = ["-f", "raw", "-c", "write 0 512", &image];
    let server = sandbox.serve(ONE);
    let refused = try_run("qemu-io", &qemu);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("lock"), "{said}");
    end(server);
    // A program of QEMU that has the file open until its input ends.
    let mut other = std::process::Command::new("qemu-io")
        .args(["-f", "raw", &image])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut start = [0; 8];
    std::io::Read::read_exact(other.stdout.as_mut().unwrap(), &mut start).unwrap();
    let message = Server::start(&config(&sandbox, "")).unwrap_err().to_string();
    assert!(message.contains("QEMU"), "{message}");
    drop(other.stdin.take());
    other.wait().unwrap();
    end(Server::start(&config(&sandbox, "")).unwrap());
}

#[test]
fn a_file_and_the_loop_device_on_it_are_one_drive() {
    let sandbox = Sandbox::with_file_drive(16);
    let image = sandbox.path("drive.img");
    let server = sandbox.serve(ONE);
    let Some(on_image) = LoopDevice::attached(&image, &[]) else { return };
    let (device, image) = (on_image.path().display().to_string(), image.display().to_string());
    let beside = config(&sandbox, "").drive.clone();
    let mut on_loop = config(&sandbox, "control = \"off\"\nstate = \"off\"\n");
    on_loop.drive = Some(headtime_io::Locator::parse(&device).unwrap());
    on_loop.listen =
        vec![format!("unix:{}", sandbox.path("other.sock").display()).parse().unwrap()];
    let message = Server::start(&on_loop).unwrap_err().to_string();
    let listed = headtime_io::BlockDevice::list(&headtime_io::SystemPaths::default()).unwrap();
    let of_list = listed.iter().find(|of| of.node == std::path::Path::new(&device)).unwrap();
    let of_list = of_list.refusals().iter().map(ToString::to_string).collect::<String>();
    end(server);
    let of_file = Server::start(&config(&sandbox, "")).unwrap_err().to_string();
    drop(on_image);
    assert!(message.contains("locked by another headtime"), "{message}");
    assert!(message.contains(&image), "{message}");
    assert!(!of_list.is_empty() && message.contains(&of_list), "{of_list} {message}");
    assert!(of_file.contains(&format!("losetup -d {device}")), "{of_file} {beside:?}");
}

#[test]
fn settings_without_effect_are_reported() {
    let sandbox = Sandbox::with_file_drive(32);
    let volumes = "[[volume]]\nname = \"a\"\nsize = \"8MiB\"\nreserve = \"20%\"\ndeadline = \
        \"50ms\"\n[[volume]]\nname = \"b\"\nsize = \"8MiB\"\n";
    let server = sandbox.serve(&format!("unreserved = \"70%\"\nlookahead_k = 6\n{volumes}"));
    let mut control = ControlClient::connect(server.control_socket().unwrap()).unwrap();
    let mut warnings = || {
        let status: headtime_serve::status::ServerStatus =
            control.ask_for("status", &serde_json::json!({})).unwrap();
        status.warnings
    };
    let of_headtime = warnings();
    assert_eq!(of_headtime, ["lookahead_k = 6 has no effect under the policy headtime"]);
    let set = |server: &Server, value: &str| {
        let set = headtime_serve::tuner::SetOne { name: "policy".into(), value: value.into() };
        let set = headtime_serve::tuner::SetTunables { set: vec![set], ..Default::default() };
        let mut control = ControlClient::connect(server.control_socket().unwrap()).unwrap();
        let changed: headtime_serve::tuner::TunablesChanged =
            control.ask_for("tunables.set", &set).unwrap();
        changed.notes.join("\n")
    };
    let fcfs = set(&server, "fcfs");
    assert!(fcfs.contains("fcfs ignores the reserve") && fcfs.contains("of a;"), "{fcfs}");
    assert!(fcfs.contains("fcfs ignores the deadlines of a"), "{fcfs}");
    let edf = set(&server, "edf");
    assert!(edf.contains("b may starve") && !edf.contains("ignores the deadlines"), "{edf}");
    // Of 30 % that may be reserved, 20 % are.
    let mut order = VolumeArguments { name: "b".to_owned(), ..VolumeArguments::default() };
    order.settings.insert("reserve".to_owned(), "11%".to_owned());
    let mut control = ControlClient::connect(server.control_socket().unwrap()).unwrap();
    let refused = control.volume("volume.set", &order).unwrap_err().to_string();
    assert!(refused.contains("10%") || refused.contains("10 %"), "{refused}");
    end(server);
}

#[test]
fn a_start_that_fails_removes_the_files_that_it_created_and_no_others() {
    let tiny = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tiny.toml");
    let emulated = |at: &std::path::Path, name: &str| {
        format!("emulated:{tiny}?backing={}", at.join(name).display())
    };
    let drives = [
        Sandbox::with_file_drive(16),
        Sandbox::with_drive(|at| emulated(at, "drive.img")),
        Sandbox::with_drive(|at| format!("array:{},{}", emulated(at, "a"), emulated(at, "b"))),
    ];
    for sandbox in &drives {
        let files = || -> Vec<_> {
            let entries = std::fs::read_dir(sandbox.path("")).unwrap();
            entries.map(|entry| entry.unwrap().file_name()).collect()
        };
        let fails = |more: &str| {
            let error = Server::start(&sandbox.config(more)).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains("does not fit") || error.contains("map"), "{error}");
        };
        let too_large = "[[volume]]\nname = \"b\"\nsize = \"1TiB\"\n";
        let before = files();
        fails(too_large);
        if !sandbox.toml("").contains("emulated") {
            // The drive is open by then.
            fails("model = \"compact\"\n");
        }
        assert_eq!(files(), before);
        end(sandbox.serve(ONE));
        let kept = files();
        assert!(kept.len() > before.len(), "{kept:?}");
        fails(too_large);
        assert_eq!(files().len(), kept.len());
    }
}
