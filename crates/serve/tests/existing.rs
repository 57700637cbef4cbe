//! A disk with a GPT that is served as it is (`existing`): its content through NBD and directly is
//! the same, whatever ends the server, and its volumes keep their settings beside it.

#![allow(clippy::unwrap_used)] // Tests may; clippy knows it only of functions marked as such.

mod common;

use std::path::{Path, PathBuf};
use std::time::Duration;

use common::client::Client;
use common::{Sandbox, noise, runtime};
use gpt::disk::LogicalBlockSize;
use headtime_nbd::NbdCommand;
use headtime_nbd::client::Reply;
use headtime_serve::Server;
use headtime_serve::control::{ControlClient, VolumeAnswer, VolumeArguments};

const MIB: u64 = 1 << 20;
const SIZE: u64 = 16 * MIB;
const EXISTING: &str = "existing = true\n";

/// A sandbox whose drive is a disk full of noise, with the partitions `root fs`, a nameless one,
/// and another `root fs`; and a copy of it that the test keeps.
fn disk() -> (Sandbox, PathBuf) {
    let sandbox = Sandbox::with_drive(|at| at.join("disk.img").display().to_string());
    let image = sandbox.path("disk.img");
    std::fs::write(&image, noise(1, SIZE as usize)).unwrap();
    let mut file = std::fs::OpenOptions::new().read(true).write(true).open(&image).unwrap();
    gpt::mbr::ProtectiveMBR::with_lb_size((SIZE / 512 - 1) as u32)
        .overwrite_lba0(&mut file)
        .unwrap();
    let mut table = gpt::GptConfig::new()
        .writable(true)
        .logical_block_size(LogicalBlockSize::Lb512)
        .create_from_device(file, None)
        .unwrap();
    for (name, mebibytes) in [("root fs", 4), ("", 2), ("root fs", 3)] {
        table
            .add_partition(name, mebibytes * MIB, gpt::partition_types::LINUX_FS, 0, Some(2048))
            .unwrap();
    }
    drop(table.write().unwrap());
    let copy = sandbox.path("copy.img");
    std::fs::copy(&image, &copy).unwrap();
    (sandbox, copy)
}

/// Asserts that two files are equal, without printing them.
fn same(one: &Path, other: &Path) {
    let (one, other) = (std::fs::read(one).unwrap(), std::fs::read(other).unwrap());
    let differs = one.iter().zip(&other).position(|(one, other)| one != other);
    assert_eq!((one.len(), differs), (other.len(), None), "length, and the first different byte");
}

/// Writes at `offset` of an export, and the same into the copy at `start` + `offset`.
async fn write_both(sandbox: &Sandbox, copy: &Path, export: &str, start: u64, offset: u64) {
    use std::os::unix::fs::FileExt as _;
    let bytes = noise(start + offset, 200 << 10);
    let mut client = Client::open(&sandbox.socket(), export).await.unwrap();
    assert!(matches!(client.write(offset, bytes.clone()).await, Ok(Reply::Done)));
    let copy = std::fs::OpenOptions::new().write(true).open(copy).unwrap();
    copy.write_all_at(&bytes, start + offset).unwrap();
    let back = client.read(offset, bytes.len() as u32).await.unwrap();
    assert!(back == bytes, "{export} returns other bytes than were written");
    client.leave().await;
}

#[test]
fn a_disk_is_the_same_through_nbd_and_directly_also_after_kill_9() {
    let (sandbox, copy) = disk();
    let server = sandbox.spawn(EXISTING);
    runtime().block_on(async {
        let stream = tokio::net::UnixStream::connect(sandbox.socket()).await.unwrap();
        let listed = Client::list(stream).await;
        let names: Vec<(&str, &str)> = listed
            .iter()
            .map(|export| (export.name.as_str(), export.description.as_str()))
            .collect();
        assert_eq!(
            names,
            [
                ("disk", ""),
                ("p2", "partition 2"),
                ("p3", "partition 3 root fs"),
                ("root-fs", "partition 1 root fs")
            ]
        );
        let mut client = Client::open(&sandbox.socket(), "disk").await.unwrap();
        let whole = client.read(0, SIZE as u32).await.unwrap();
        assert!(whole == std::fs::read(&copy).unwrap(), "the export differs from the file");
        client.leave().await;
        write_both(&sandbox, &copy, "root-fs", MIB, 3 * MIB).await;
        write_both(&sandbox, &copy, "p3", 7 * MIB, 0).await;
        write_both(&sandbox, &copy, "disk", 0, 12 * MIB).await;
    });
    assert_eq!(server.terminate().code(), Some(0));
    same(&sandbox.path("disk.img"), &copy);
    let server = sandbox.spawn(EXISTING);
    runtime().block_on(async {
        write_both(&sandbox, &copy, "p2", 5 * MIB, MIB).await;
        let mut client = Client::open(&sandbox.socket(), "disk").await.unwrap();
        assert!(matches!(client.request(NbdCommand::Flush).await, Ok(Reply::Done)));
    });
    server.kill_9();
    same(&sandbox.path("disk.img"), &copy);
}

fn volume(
    server: &Server,
    verb: &str,
    name: &str,
    settings: &[(&str, &str)],
) -> Result<VolumeAnswer, String> {
    let path = server.control_socket().expect("a drive in a file has a control socket");
    let settings =
        settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let order = VolumeArguments { name: name.to_owned(), settings, ..VolumeArguments::default() };
    ControlClient::connect(path).unwrap().volume(verb, &order).map_err(|error| error.to_string())
}

fn end(server: Server) {
    assert_eq!(server.drain(Duration::from_secs(10)).exit_code(), 0);
}

#[test]
fn settings_stay_beside_the_drive_and_partitions_are_not_changed() {
    let (sandbox, copy) = disk();
    let server = sandbox.serve(EXISTING);
    let changed =
        volume(&server, "volume.set", "root-fs", &[("reserve", "40%"), ("read_only", "true")]);
    assert_eq!(changed.unwrap().free_share_percent, 60.0);
    for (verb, name, settings) in [
        ("volume.add", "new", &[("size", "1MiB")][..]),
        ("volume.set", "p2", &[("size", "1MiB")]),
        ("volume.remove", "p2", &[]),
    ] {
        let message = volume(&server, verb, name, settings).unwrap_err();
        assert!(message.contains("served as it is") && message.contains("root-fs"), "{message}");
    }
    end(server);
    let server = sandbox.serve(EXISTING);
    let listed = volume(&server, "volume.list", "", &[]).unwrap();
    let root = listed.volumes.iter().find(|volume| volume.name == "root-fs").unwrap();
    assert_eq!(
        (root.classes[0].reserve_percent, root.read_only, root.first_sector),
        (40.0, true, 2048)
    );
    end(server);
    same(&sandbox.path("disk.img"), &copy);
    // Only those that a configuration names are served, with its settings.
    let server = sandbox.serve("existing = true\n[[volume]]\nname = \"p3\"\ndeadline = \"50ms\"\n");
    assert_eq!(server.uris().len(), 1);
    end(server);
    let unknown = sandbox.config("existing = true\n[[volume]]\nname = \"p9\"\nsize = \"1MiB\"\n");
    let message = Server::start(&unknown).unwrap_err().to_string();
    assert!(message.contains("p9") && message.contains("root-fs"), "{message}");
    same(&sandbox.path("disk.img"), &copy);
}

#[test]
fn a_drive_with_volumes_of_headtime_is_not_served_as_it_is() {
    let sandbox = Sandbox::with_file_drive(8);
    end(sandbox.serve("[[volume]]\nname = \"a\"\nsize = \"1MiB\"\n"));
    let toml = sandbox.toml(EXISTING).replace("create = \"8MiB\"\n", "");
    let config = headtime_serve::config::Config::from_toml("test.toml", &toml).unwrap();
    let message = Server::start(&config).unwrap_err().to_string();
    assert!(message.contains("leave `existing` out"), "{message}");
    let both =
        sandbox.config("existing = true\ninitialize = true\n").check().unwrap_err().to_string();
    assert!(both.contains("but create makes") && both.contains("but initialize allows"), "{both}");
}

#[test]
fn a_backup_gpt_without_a_protective_mbr_names_no_partitions() {
    use std::os::unix::fs::FileExt as _;
    let (sandbox, _) = disk();
    let file = std::fs::OpenOptions::new().write(true).open(sandbox.path("disk.img")).unwrap();
    // A damaged first header is replaced by the backup.
    file.write_all_at(&[0; 512], 512).unwrap();
    let server = sandbox.serve(EXISTING);
    assert_eq!(server.uris().len(), 4);
    end(server);
    file.write_all_at(&[0; 512], 0).unwrap();
    let server = sandbox.serve(EXISTING);
    assert_eq!(server.uris().len(), 1, "the drive may have been given another use");
    end(server);
}
