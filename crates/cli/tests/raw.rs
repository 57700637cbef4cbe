//! Raw devices through the real program, on loop devices: listed, served to real clients, put back
//! after a kill, refused with the words that help.
//!
//! For root only, with loop devices; skipped with a message elsewhere.

#[path = "common/program.rs"]
mod program;

use std::path::PathBuf;
use std::process::Output;

use headtime_testkit::loop_device::LoopDevice;
use headtime_testkit::programs::{installed, run, try_run};
use program::{Program, headtime, text, words};
use rustix::process::Signal;
use serde_json::Value;

/// A loop device on a file in a directory; both go when it is dropped.
struct Disk {
    device: LoopDevice,
    folder: tempfile::TempDir,
}

impl Disk {
    /// A device of 64 MiB; `None`, with a message, where that cannot be had.
    fn new(sector_bytes: usize) -> Option<Self> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let image = folder.path().join("disk.img");
        std::fs::File::create(&image)
            .and_then(|file| file.set_len(64 << 20))
            .expect("the folder is ours");
        Some(Self { device: LoopDevice::on(&image, sector_bytes)?, folder })
    }

    fn node(&self) -> &str {
        text(self.device.path())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Serves a volume of 32 MiB; the server and the volume's URI.
    fn serve(&self, more: &[&str]) -> (Program, String) {
        let line = format!(
            "serve --drive {} --volume v=32MiB --listen unix:{} --print-uri",
            self.node(),
            text(&self.path("nbd.sock"))
        );
        let mut server = Program::start(&[&words(&line)[..], more].concat());
        let uri = server.line();
        (server, uri)
    }
}

/// Of a command that must succeed: what it printed.
fn printed(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}: {}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stop(server: Program) -> String {
    server.signal(Signal::TERM);
    let (status, _, said) = server.end();
    assert!(status.success(), "{status}: {said}");
    said
}

#[test]
fn a_device_with_sectors_of_4096_bytes_is_served_to_real_clients() {
    let Some(disk) = Disk::new(4096) else { return };
    if !installed(&["nbdinfo", "nbdcopy"]) {
        return;
    }
    let content: Vec<u8> =
        (0..32_u32 << 18).flat_map(|word| word.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let (source, back) = (disk.path("source.raw"), disk.path("back.raw"));
    std::fs::write(&source, &content).expect("the folder is ours");

    let (server, uri) = disk.serve(&[]);
    let about: Value =
        serde_json::from_str(&run("nbdinfo", &["--json", &uri])).expect("nbdinfo prints JSON");
    let export = &about["exports"][0];
    assert_eq!(
        (export["block_size_minimum"].as_u64(), export["export-size"].as_u64()),
        (Some(4096), Some(32 << 20)),
        "{about}"
    );
    run("nbdcopy", &["--flush", text(&source), &uri]);
    stop(server);

    let (server, uri) = disk.serve(&[]);
    run("nbdcopy", &[&uri, text(&back)]);
    stop(server);
    assert!(
        std::fs::read(&back).expect("nbdcopy wrote it") == content,
        "the volume holds something else after the restart"
    );
}

#[test]
fn the_list_of_devices_describes_each_and_its_users() {
    let Some(disk) = Disk::new(4096) else { return };
    let listed = |name: &str| {
        let devices: Value = serde_json::from_str(&printed(&headtime(&["devices", "--json"])))
            .expect("it prints JSON");
        devices
            .as_array()
            .expect("an array")
            .iter()
            .find(|device| device["name"] == name)
            .expect("the device is listed")
            .clone()
    };
    let free = listed(disk.device.name());
    assert_eq!(
        (&free["usable"], &free["logical_sector_bytes"], &free["bytes"]),
        (&Value::from(true), &Value::from(4096), &Value::from(64 << 20))
    );
    let (server, _) = disk.serve(&[]);
    let used = listed(disk.device.name());
    assert_eq!((&used["usable"], &used["scheduler"]), (&Value::from(false), &Value::from("none")));
    assert!(
        used["refusals"][0]
            .as_str()
            .is_some_and(|text| text.contains("open for writing by headtime")),
        "{used}"
    );
    let text = printed(&headtime(&["devices"]));
    let paragraph = text.split(&format!("{}  ", disk.node())).nth(1).expect("it is listed");
    assert!(paragraph.starts_with("64 MiB, sectors of 4096 (4096 physical) bytes"), "{paragraph}");
    stop(server);
    assert_eq!(listed(disk.device.name())["usable"], Value::from(true));
}

#[test]
fn a_setting_without_effect_is_warned_of_and_all_are_as_before_in_the_end() {
    let Some(disk) = Disk::new(512) else { return };
    let before = ["scheduler", "nomerges", "nr_requests"].map(|file| disk.device.queue(file));
    // No block device of Linux can do with fewer than four requests, and a loop device has no cache
    // of its own.
    let (server, _) = disk.serve(&["--queue-depth", "2", "--write-cache", "off"]);
    let during = ["nomerges", "nr_requests"].map(|file| disk.device.queue(file));
    let said = stop(server);
    assert_eq!(during, ["2", "4"]);
    for expected in [
        "queue_depth = 2 has no effect",
        "became 4 instead",
        "write_cache = write through has no effect",
        "no device/scsi_disk",
    ] {
        assert!(said.contains(expected), "`{expected}` is not in {said}");
    }
    assert_eq!(
        ["scheduler", "nomerges", "nr_requests"].map(|file| disk.device.queue(file)),
        before
    );
}

#[test]
fn a_kernel_scheduler_in_the_way_is_warned_of_until_it_is_gone() {
    let Some(disk) = Disk::new(512) else { return };
    let before = disk.device.queue("scheduler");
    if !before.contains("mq-deadline") {
        println!("skipped: this kernel has no mq-deadline for loop devices ({before})");
        return;
    }
    let scheduler = disk.device.queue_path("scheduler");
    std::fs::write(&scheduler, "mq-deadline").expect("root may");
    let (server, _) = disk.serve(&["--kernel-knobs", "keep"]);
    let warnings = || {
        let status = printed(&headtime(&["status", "--drive", disk.node(), "--json"]));
        let status: Value = serde_json::from_str(&status).expect("it prints JSON");
        status["warnings"].to_string()
    };
    let during = warnings();
    let shown = printed(&headtime(&["status", "--drive", disk.node()]));
    std::fs::write(&scheduler, "none").expect("root may");
    let after = warnings();
    let said = stop(server);
    let expected = format!(
        "{}: queue/scheduler is mq-deadline, expected none: requests may be",
        disk.device.name()
    );
    for text in [&during, &shown, &said] {
        assert!(text.contains(&expected), "`{expected}` is not in {text}");
    }
    assert!(shown.contains(&format!("warning: {}", disk.device.name())), "{shown}");
    assert!(!after.contains("queue/scheduler") && after.contains("queue/nomerges"), "{after}");
}

#[test]
fn after_kill_9_restore_puts_the_settings_back_and_the_volumes_are_there() {
    let Some(disk) = Disk::new(512) else { return };
    let before = disk.device.queue("nomerges");
    let (server, _) = disk.serve(&[]);
    assert_eq!(disk.device.queue("nomerges"), "2");
    let alive = printed(&headtime(&["devices", "restore", "--json"]));
    assert!(
        !alive.contains(disk.device.name()),
        "a living server's settings were taken from it: {alive}"
    );
    server.signal(Signal::KILL);
    let _ = server.end();
    assert_eq!(disk.device.queue("nomerges"), "2", "a killed program puts nothing back");
    let shown = printed(&headtime(&["devices", "restore"]));
    assert!(
        shown.contains(&format!("{}/queue/nomerges is {before} again", disk.device.name())),
        "{shown}"
    );
    assert_eq!(disk.device.queue("nomerges"), before);
    let (server, _) = disk.serve(&[]);
    stop(server);
}

#[test]
fn a_check_of_the_configuration_shows_what_would_be_set() {
    let Some(disk) = Disk::new(512) else { return };
    let file = disk.path("headtime.toml");
    let config = format!(
        "drive = \"{}\"\nlisten = \"unix:a.sock\"\nqueue_depth = 8\nwrite_cache = \"off\"\n",
        disk.node()
    );
    let keep =
        format!("drive = \"{}\"\nlisten = \"unix:a.sock\"\nkernel_knobs = \"keep\"\n", disk.node());
    std::fs::write(&file, keep).expect("the folder is ours");
    let kept = printed(&headtime(&["check-config", text(&file)]));
    let hindrance = format!("\n{}: queue/nomerges is 0, expected 2", disk.device.name());
    assert!(kept.contains(&hindrance) && !kept.contains("would set"), "{kept}");
    std::fs::write(&file, config).expect("the folder is ours");
    let shown = printed(&headtime(&["check-config", text(&file)]));
    for expected in [
        ": valid\n",
        "merging = 2 instead of 0",
        "queue_depth = 8 instead of",
        "write_cache = write through has no effect here",
    ] {
        assert!(shown.contains(expected), "`{expected}` is not in {shown}");
    }
    assert_eq!(disk.device.queue("nomerges"), "0", "a check sets nothing");
    let answer: Value =
        serde_json::from_str(&printed(&headtime(&["check-config", text(&file), "--json"])))
            .expect("it prints JSON");
    assert_eq!(
        (&answer["ok"], &answer["device"]["name"]),
        (&Value::from(true), &Value::from(disk.device.name()))
    );
}

#[test]
fn a_mounted_disk_and_one_with_other_content_are_refused_and_stay_as_they_are() {
    let Some(disk) = Disk::new(512) else { return };
    run("mkfs.ext4", &["-q", disk.node()]);
    let image = std::fs::read(disk.path("disk.img")).expect("it is ours");
    let listen = format!("unix:{}", text(&disk.path("nbd.sock")));
    let serve = ["serve", "--drive", disk.node(), "--volume", "v=1MiB", "--listen", &listen];
    let foreign = headtime(&serve);
    let said = String::from_utf8_lossy(&foreign.stderr);
    assert!(foreign.status.code() == Some(1) && said.contains("initialize"), "{said}");
    let file = disk.path("headtime.toml");
    let config = format!("drive = \"{}\"\nlisten = [\"{listen}\"]\n", disk.node());
    std::fs::write(&file, config + "[[volume]]\nname = \"v\"\nsize = \"1MiB\"\n")
        .expect("the folder is ours");
    let check = ["check-config", text(&file)];
    let foreign = headtime(&check);
    let said = String::from_utf8_lossy(&foreign.stderr);
    assert!(foreign.status.code() == Some(1) && said.contains("initialize"), "{said}");
    assert!(
        std::fs::read(disk.path("disk.img")).expect("it is ours") == image,
        "a refused disk was written to"
    );

    let at = disk.path("mnt");
    std::fs::create_dir(&at).expect("the folder is ours");
    let mounted = try_run("mount", &[disk.node(), text(&at)]);
    let refused = [headtime(&[&serve[..], &["--initialize"]].concat()), headtime(&check)];
    let unmounted = try_run("umount", &[text(&at)]);
    assert!(mounted.status.success() && unmounted.status.success(), "{mounted:?} {unmounted:?}");
    for refused in refused {
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(
            refused.status.code() == Some(1)
                && said.contains("is mounted on")
                && said.contains("/mnt")
                && said.contains("umount"),
            "{said}"
        );
    }
}
