//! Scans through the real program: scrubs, digests and backups of a running server, over restarts,
//! kills and full disks.

#[path = "common/program.rs"]
mod program;
#[path = "common/scan_place.rs"]
mod scan_place;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use headtime_tasks::Scan;
use program::{Program, headtime, text, words};
use scan_place::{FIRST, MIB, OVERWRITE, Place, ended, kill, nbdsh, said, stop};
use serde_json::Value;

#[test]
fn a_scrub_reads_everything_and_is_complete_over_a_restart() {
    let place = Place::file(8);
    let server = place.serve();
    let control = place.path("drive.img.control");
    assert_eq!(
        std::fs::metadata(&control).expect("there is a control socket").permissions().mode()
            & 0o777,
        0o600
    );
    let status = place.scanned("start", &["--task", "scrub", "--wait"]);
    assert_eq!(
        (&status["state"], &status["bytes_done"], &status["errors"]["sectors"]),
        (&"complete".into(), &(8 * MIB).into(), &0.into())
    );
    let sources = status["sources"].as_object().expect("an object");
    assert_eq!(
        sources.values().filter_map(Value::as_u64).sum::<u64>(),
        8 * MIB as u64,
        "{sources:?}"
    );
    stop(server);
    assert!(!control.exists(), "the control socket is left behind");
    let server = place.serve();
    assert_eq!(place.scanned("status", &["--task", "scrub"])["state"], "complete");
    let text = headtime(&["scan", "status", "--drive", &place.drive]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("scrub of v: complete, 100.0 %") && text.contains("state in"), "{text}");
    assert_eq!(place.scanned("start", &["--task", "scrub", "--wait"])["pass"], 2);
    stop(server);
}

#[test]
fn a_range_is_read_alone_and_kept_over_a_restart() {
    let place = Place::emulated(16);
    let server = place.serve();
    let image = place.path("part.img");
    let range = ["--range", "3MiB+8MiB"];
    let backup = [&["--task", "backup", "--to", text(&image)], &range[..]].concat();
    let paused = (0..20).any(|_| {
        let _ = std::fs::remove_file(&image);
        place.scanned("start", &[&backup[..], &["--again"]].concat());
        let status = place.scanned("pause", &["--task", "backup"]);
        status["bytes_done"].as_u64() < status["bytes"].as_u64()
    });
    assert!(paused, "one of twenty is paused in time");
    stop(server);
    let server = place.serve();
    let status = place.scanned("status", &["--task", "backup"]);
    assert_eq!(
        (&status["state"], &status["range"]["start"], &status["range"]["end"], &status["bytes"]),
        (&"paused".into(), &(3 * MIB).into(), &(11 * MIB).into(), &(8 * MIB).into()),
        "{status}"
    );
    let whole = headtime(&["scan", "start", "v", "--task", "backup", "--drive", &place.drive]);
    assert!(said(&whole).contains("reads 3MiB..11MiB, not all of it"), "{}", said(&whole));
    place.scanned("start", &["--task", "backup", "--range", "3MiB..11MiB"]);
    let status = place.scanned("status", &["--task", "backup", "--wait"]);
    assert_eq!(status["bytes_done"], 8 * MIB);
    let shown = place.text("status", &["--task", "backup"]);
    assert!(shown.contains("backup of v 3MiB..11MiB: complete, 100.0 % of 8 MiB"), "{shown}");
    assert!(
        std::fs::read(&image).expect("the backup is there") == place.content[3 * MIB..11 * MIB],
        "the image is not the range"
    );
    stop(server);
}

#[test]
fn a_priority_is_shown_changed_while_a_scan_runs_and_kept_over_a_restart() {
    let place = Place::emulated(48);
    let server = place.serve();
    let status = place.scanned("start", &["--task", "scrub", "--priority", "2"]);
    assert_eq!(status["priority"], 2, "{status}");
    assert_eq!(place.scanned("start", &["--task", "digest"])["priority"], 4);
    assert_eq!(place.scanned("set", &["--task", "digest", "--priority", "0"])["priority"], 0);
    let shown = place.text("status", &["--task", "digest"]);
    assert!(shown.contains(", priority 0"), "{shown}");
    stop(server);
    let server = place.serve();
    assert_eq!(place.scanned("status", &["--task", "digest"])["priority"], 0);
    let refused =
        headtime(&words(&format!("scan set v --task backup --priority 0 --drive {}", place.drive)));
    assert!(said(&refused).contains("there is no backup of v"), "{}", said(&refused));
    stop(server);
}

#[test]
fn a_scan_waits_for_its_timetable_and_tells_until_when() {
    let place = Place::file(4);
    let server = place.serve();
    // Three days from now, by this machine's days.
    let seconds = std::time::UNIX_EPOCH.elapsed().expect("a time after 1970").as_secs();
    let day = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"][((seconds / 86_400) % 7) as usize];
    let order = ["--task", "scrub", "--during", &format!("{day} 00:00-00:01"), "--every", "4w"];
    let status = place.scanned("start", &order);
    assert_eq!((&status["state"], &status["bytes_done"]), (&"waiting".into(), &0.into()));
    let shown = place.text("status", &["--task", "scrub"]);
    let expected = ["waiting", &format!("outside of its timetable until {day}"), "starts every 4w"];
    assert!(expected.iter().all(|text| shown.contains(text)), "{shown}");
    place.scanned("set", &["--task", "scrub", "--during", "none"]);
    let done = place.scanned("status", &["--task", "scrub", "--wait"]);
    assert_eq!((&done["during"], &done["bytes_done"]), (&"".into(), &(4 * MIB).into()));
    let next = done["next_start"].as_str().unwrap_or_default().len();
    assert_eq!(next, "2026-12-24T22:00:00+01:00".len(), "{done}");
    let refused = said(&place.scan("start", &["--task", "digest", "--during", "22-6"]));
    assert!(refused.contains("such as `Mon-Fri 22:00-06:00`"), "{refused}");
    let refused = said(&place.scan("start", &["--task", "digest", "--every", "monthly"]));
    assert!(refused.contains("such as `4w`"), "{refused}");
    stop(server);
}

#[test]
fn scans_of_the_configuration_start_with_the_server_and_follow_a_reload() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (config, control) = (folder.path().join("a.toml"), folder.path().join("control"));
    let write = |scans: &str| {
        let toml = format!(
            "drive = {:?}\ncreate = \"64MiB\"\nlisten = [\"unix:{}\"]\ncontrol = {control:?}\n\
                [[volume]]\nname = \"v\"\nsize = \"4MiB\"\n{scans}",
            folder.path().join("drive.img"),
            text(&folder.path().join("nbd.sock")),
        );
        std::fs::write(&config, toml).expect("the folder is ours");
    };
    let scrub = "[[scan]]\ntarget = \"v\"\ntask = \"scrub\"\n";
    let digest = "[[scan]]\ntarget = \"v\"\ntask = \"digest\"\nrange = \"1MiB..\"\n";
    write(scrub);
    let serve = || {
        let mut server = Program::start(&["serve", "--config", text(&config), "--print-uri"]);
        let uri = server.line();
        (server, uri)
    };
    let status = |more: &[&str]| {
        let status = [&["scan", "status", "v", "--control", text(&control)], more].concat();
        let output = headtime(&status);
        assert!(output.status.success(), "{}", said(&output));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let server = serve();
    let shown = status(&["--wait"]);
    assert!(shown.contains("scrub of v: complete, 100.0 % of 4 MiB"), "{shown}");
    assert!(shown.contains("by [[scan]] of the configuration"), "{shown}");
    stop(server);
    let server = serve();
    assert!(!status(&["--wait"]).contains("pass 2"), "a finished scan is not begun again");
    write(&format!("{scrub}{digest}"));
    let reload = headtime(&["reload", "--control", text(&control)]);
    assert_eq!(
        String::from_utf8_lossy(&reload.stdout),
        "scans in the configuration: 2; see `headtime scan status`\n",
        "{}",
        said(&reload)
    );
    let shown = status(&["--wait"]);
    assert!(shown.contains("digest of v 1MiB..4MiB: complete"), "{shown}");
    write("[[scan]]\ntarget = \"v\"\n");
    let reload = headtime(&["reload", "--control", text(&control)]);
    assert_eq!(reload.status.code(), Some(1));
    assert!(said(&reload).contains("task is missing"), "{}", said(&reload));
    stop(server);
}

#[test]
fn a_scan_waits_for_a_sleeping_drive_and_wakes_it_on_order() {
    let mut place = Place::emulated(1);
    place.drive.push_str("&standby=1s");
    let server = place.serve();
    // The drive sleeps once nothing was asked of it for a second. Only then is a scan started, so
    // that another attempt follows where this machine was slow.
    let waiting = (0..20).map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(1_200));
        place.scanned("start", &["--task", "scrub", "--again"])
    });
    let status = waiting.into_iter().find(|status| status["state"] == "waiting");
    let status = status.expect("the drive went to standby");
    assert_eq!(status["bytes_done"], 0, "{status}");
    let reason = status["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("in standby") && reason.contains("--wake"), "{reason}");
    let shown = place.text("status", &["--task", "scrub"]);
    assert!(shown.contains("waiting") && shown.contains("the drive is in standby"), "{shown}");
    let woken = place.scanned("start", &["--task", "scrub", "--wake", "--wait"]);
    assert_eq!((&woken["state"], &woken["bytes_done"]), (&"complete".into(), &MIB.into()));
    stop(server);
}

#[test]
fn a_change_outside_the_server_is_found_and_one_through_it_is_not_reported() {
    let place = Place::file(8);
    let server = place.serve();
    place.scanned("start", &["--task", "scrub", "--digests", "--wait"]);
    let Some(client) = nbdsh(&server.1, "h.pwrite(b'x' * 4096, 3 << 20); h.flush()") else {
        return;
    };
    ended(client);
    stop(server);
    place.write_outside_the_server(5 * MIB as u64 + 77, b"rot");
    let server = place.serve();
    let found = place.scan("start", &["--task", "scrub", "--wait"]);
    assert_eq!(found.status.code(), Some(1), "{}", said(&found));
    assert!(said(&found).contains("2048 that have changed by themselves"), "{}", said(&found));
    let status = place.scanned("status", &["--task", "scrub"]);
    let digests = &status["digests"];
    assert_eq!((&digests["compared"], &digests["not_compared"]), (&7.into(), &1.into()));
    let first = (FIRST + 5 * MIB as u64) / 512;
    assert_eq!(digests["changed"]["ranges"], serde_json::json!([[first, 2048]]));
    // After a kill the last writes are unknown: nothing is compared and nothing is reported.
    kill(server);
    place.write_outside_the_server(6 * MIB as u64, b"rot");
    let server = place.serve();
    let status = place.scanned("start", &["--task", "scrub", "--wait"]);
    assert_eq!(
        (&status["digests"]["compared"], &status["digests"]["not_compared"]),
        (&0.into(), &8.into()),
        "{status}"
    );
    stop(server);
}

#[test]
fn a_digest_of_the_same_bytes_is_the_same_on_another_drive() {
    let table = |place: &Place| {
        let server = place.serve();
        let status = place.scanned("start", &["--task", "digest", "--wait"]);
        stop(server);
        status["digests"]["table"].as_str().expect("every mebibyte has one").to_owned()
    };
    assert_eq!(table(&Place::file(4)), table(&Place::emulated(4)));
}

#[test]
fn a_backup_holds_what_was_there_when_it_started_while_clients_overwrite_it() {
    let place = Place::emulated(16);
    let server = place.serve();
    // Paused while something is still to be read, however slow this machine is at pausing.
    let paused = (0..20).map(|attempt| place.path(&format!("copy{attempt}.img"))).find(|image| {
        place.scanned("start", &["--task", "backup", "--again", "--to", text(image)]);
        let status = place.scanned("pause", &["--task", "backup"]);
        status["bytes_done"].as_u64() < status["bytes"].as_u64()
    });
    let image = paused.expect("one of twenty is paused in time");
    let Some(client) = nbdsh(&server.1, OVERWRITE) else { return };
    ended(client);
    place.scanned("resume", &["--task", "backup"]);
    let status = place.scanned("status", &["--task", "backup", "--wait"]);
    assert!(
        status["sources"]["before_write"].as_u64() > Some(0),
        "nothing was overwritten before it was read: {status}"
    );
    assert!(
        std::fs::read(&image).expect("the backup is there") == place.content,
        "the image is not what was there when the backup started"
    );
    stop(server);
}

#[test]
fn kill_9_during_a_backup_loses_nothing_and_keeps_its_point_in_time() {
    let place = Place::emulated(48);
    let image = place.path("copy.img");
    let mut server = place.serve();
    place.scanned("start", &["--task", "backup", "--to", text(&image)]);
    let mut before = 0;
    for _ in 0..3 {
        let Some(mut client) = nbdsh(&server.1, OVERWRITE) else { return };
        place.until("backup", "some of it is read", |status| {
            let done = status["bytes_done"].as_u64().expect("a number");
            done >= before + 4 * MIB as u64 || status["state"] == "complete"
        });
        kill(server);
        let _ = client.wait();
        server = place.serve();
        let status = place.scanned("status", &["--task", "backup"]);
        let done = status["bytes_done"].as_u64().expect("a number");
        assert!(
            done >= before + 4 * MIB as u64 || status["state"] == "complete",
            "what was read is to be read again: {status}"
        );
        before = done;
    }
    let status = place.scanned("status", &["--task", "backup", "--wait"]);
    assert_eq!(status["state"], "complete");
    assert!(
        std::fs::read(&image).expect("the backup is there") == place.content,
        "the image is not what was there when the backup started"
    );
    stop(server);
}

#[test]
fn kill_9_during_a_scrub_and_a_pause_are_remembered() {
    let place = Place::emulated(48);
    let server = place.serve();
    place.scanned("start", &["--task", "scrub"]);
    place.until("scrub", "some of it is read", |status| {
        status["bytes_done"].as_u64() >= Some(4 * MIB as u64)
    });
    // A pause saves, so that what was read by then is known to be there after the kill.
    let paused = place.scanned("pause", &["--task", "scrub"]);
    assert_eq!(paused["state"], "paused");
    kill(server);
    let server = place.serve();
    let status = place.scanned("status", &["--task", "scrub"]);
    assert_eq!(
        (&status["state"], status["bytes_done"].as_u64() >= paused["bytes_done"].as_u64()),
        (&"paused".into(), true),
        "{status} after {paused}"
    );
    place.scanned("resume", &["--task", "scrub"]);
    assert_eq!(place.scanned("status", &["--task", "scrub", "--wait"])["bytes_done"], 48 * MIB);
    stop(server);
}

#[test]
fn a_backup_that_was_cut_off_by_a_power_failure_is_broken_and_a_scrub_goes_on() {
    let place = Place::emulated(48);
    let server = place.serve();
    place.scanned("start", &["--task", "backup", "--to", text(&place.path("copy.img"))]);
    place.scanned("start", &["--task", "scrub", "--digests"]);
    for task in ["backup", "scrub"] {
        place.until(task, "some of it is read", |status| {
            status["bytes_done"].as_u64() >= Some(2 * MIB as u64)
        });
        // A pause saves what there is.
        place.scanned("pause", &["--task", task]);
        place.scanned("resume", &["--task", task]);
    }
    kill(server);
    // As if the machine had gone down in between: what the state says of the boot is not this one.
    for task in ["backup", "scrub"] {
        let path = place.state_file(task);
        let loaded =
            Scan::inspect(&std::fs::read(&path).expect("it is ours")).expect("it was saved whole");
        assert!(!loaded.closed, "the server was killed");
        let mut scan = loaded.scan;
        scan.set_note("boot", "another");
        let mut bytes = Vec::new();
        scan.encode(false, &mut |part| bytes.extend_from_slice(part));
        std::fs::write(&path, bytes).expect("it is ours");
    }
    let server = place.serve();
    let backup = place.scanned("status", &["--task", "backup"]);
    assert_eq!(backup["state"], "broken");
    assert!(
        backup["reason"].as_str().is_some_and(|reason| reason.contains("the machine went down")),
        "{backup}"
    );
    let refused =
        place.scan("start", &["--task", "backup", "--to", text(&place.path("second.img"))]);
    assert!(
        refused.status.code() == Some(1) && said(&refused).contains("--again"),
        "{}",
        said(&refused)
    );
    let scrub = place.scanned("status", &["--task", "scrub", "--wait"]);
    assert_eq!((&scrub["state"], &scrub["bytes_done"]), (&"complete".into(), &(48 * MIB).into()));
    stop(server);
}

#[test]
fn what_clients_write_during_a_scan_is_not_held_against_the_drive() {
    let place = Place::emulated(16);
    let server = place.serve();
    place.scanned("start", &["--task", "scrub", "--digests", "--wait"]);
    // The second pass compares while a client overwrites a page of every mebibyte, before and after
    // the scan's position.
    place.scanned("start", &["--task", "scrub"]);
    let Some(client) = nbdsh(&server.1, OVERWRITE) else { return };
    ended(client);
    let status = place.scanned("status", &["--task", "scrub", "--wait"]);
    assert_eq!(
        (&status["state"], &status["digests"]["changed"]["sectors"]),
        (&"complete".into(), &0.into()),
        "{status}"
    );
    // The third pass knows which mebibytes were written after the second pass had read them.
    let status = place.scanned("start", &["--task", "scrub", "--wait"]);
    assert_eq!(
        (&status["pass"], &status["digests"]["changed"]["sectors"]),
        (&3.into(), &0.into()),
        "{status}"
    );
    stop(server);
    place.write_outside_the_server(5 * MIB as u64, b"rot");
    let server = place.serve();
    let found = place.scan("start", &["--task", "scrub", "--wait"]);
    assert_eq!(
        found.status.code(),
        Some(1),
        "the mebibytes that were written are compared again by now: {}",
        said(&found)
    );
    stop(server);
}

#[test]
fn a_backup_whose_pipe_is_closed_says_so_and_clients_are_served_on() {
    let place = Place::file(8);
    let pipe = place.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is there").success());
    let server = place.serve();
    let mut reader = Command::new("sh")
        .arg("-c")
        .arg(format!("head -c 1000000 {} > /dev/null", text(&pipe)))
        .spawn()
        .expect("a shell is there");
    let mut started = place.scan("start", &["--task", "backup", "--to", text(&pipe), "--wait"]);
    // The pipe has no reader until the shell has opened it.
    while said(&started).contains("that another program reads") {
        started = place.scan("start", &["--task", "backup", "--to", text(&pipe), "--wait"]);
    }
    assert!(
        started.status.code() == Some(1) && said(&started).contains("accepts no more data"),
        "{}",
        said(&started)
    );
    reader.wait().expect("it ends after its bytes");
    if let Some(client) = nbdsh(
        &server.1,
        "h.pwrite(b'x' * 4096, 0); h.flush(); assert h.pread(4096, 0) == b'x' * 4096",
    ) {
        ended(client);
    }
    assert_eq!(place.scanned("status", &["--task", "backup"])["state"], "broken");
    assert_eq!(
        place.scanned(
            "start",
            &["--task", "backup", "--again", "--to", text(&place.path("copy.img")), "--wait"]
        )["state"],
        "complete"
    );
    stop(server);
}

#[test]
fn a_backup_into_a_pipe_is_restored_and_a_stream_cut_off_is_refused() {
    let place = Place::file(8);
    let (pipe, stream, image) =
        (place.path("pipe"), place.path("stream"), place.path("restored.img"));
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is there").success());
    let server = place.serve();
    let nobody = place.scan("start", &["--task", "backup", "--to", text(&pipe)]);
    assert!(
        nobody.status.code() == Some(1) && said(&nobody).contains("that another program reads"),
        "{}",
        said(&nobody)
    );
    let reader = Command::new("sh")
        .arg("-c")
        .arg(format!("cat {} > {}", text(&pipe), text(&stream)))
        .spawn()
        .expect("a shell is there");
    let mut started = place.scan("start", &["--task", "backup", "--to", text(&pipe), "--wait"]);
    // The pipe has no reader until the shell has opened it.
    while !started.status.success() {
        assert!(said(&started).contains("that another program reads"), "{}", said(&started));
        started = place.scan("start", &["--task", "backup", "--to", text(&pipe), "--wait"]);
    }
    assert!(reader.wait_with_output().expect("it ends with the pipe").status.success());
    stop(server);
    let restored = headtime(&["scan", "restore", text(&stream), text(&image)]);
    assert!(restored.status.success(), "{}", said(&restored));
    assert!(std::fs::read(&image).expect("it was restored") == place.content);
    let whole = std::fs::read(&stream).expect("the stream is there");
    std::fs::write(&stream, &whole[..whole.len() - 100]).expect("the folder is ours");
    let cut = headtime(&["scan", "restore", text(&stream), text(&place.path("half.img"))]);
    assert!(cut.status.code() == Some(1) && said(&cut).contains("is incomplete"), "{}", said(&cut));
    assert!(!place.path("half.img").exists());
    for nothing in ["", "hello"] {
        std::fs::write(&stream, nothing).expect("the folder is ours");
        let refused = headtime(&["scan", "restore", text(&stream), text(&place.path("none.img"))]);
        assert!(
            refused.status.code() == Some(1) && said(&refused).contains("before a backup begins"),
            "{}",
            said(&refused)
        );
        assert!(!place.path("none.img").exists() && !place.path("none.img.part").exists());
    }
    std::fs::write(&stream, "no record ".repeat(1000)).expect("the folder is ours");
    let code = |stream: &Path, image: &str| {
        headtime(&["scan", "restore", text(stream), text(&place.path(image))]).status.code()
    };
    assert_eq!(code(&stream, "none.img"), Some(1));
    assert!(!place.path("none.img.part").exists());
    // Names that have to change: as for every other command.
    assert_eq!(code(&place.path("missing"), "none.img"), Some(2));
    assert_eq!(code(&stream, "restored.img"), Some(2));
}

#[test]
fn a_full_disk_makes_a_backup_wait_and_clients_notice_nothing() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can mount a small file system");
        return;
    }
    let place = Place::file(8);
    let small = place.path("small");
    std::fs::create_dir(&small).expect("the folder is ours");
    let mount = |options: &str| {
        Command::new("mount").args(["-t", "tmpfs", "-o", options, "none", text(&small)]).status()
    };
    if !mount("size=2m").is_ok_and(|status| status.success()) {
        println!("skipped: no file system can be mounted here");
        return;
    }
    let outcome = std::panic::catch_unwind(|| {
        let server = place.serve();
        let image = small.join("copy.img");
        place.scanned("start", &["--task", "backup", "--to", text(&image)]);
        let status = place.until("backup", "it waits", |status| status["state"] == "waiting");
        assert!(
            status["reason"].as_str().is_some_and(
                |reason| reason.contains("No space left") && reason.contains("free space")
            ),
            "{status}"
        );
        if let Some(client) = nbdsh(&server.1, "assert len(h.pread(65536, 0)) == 65536") {
            ended(client);
        }
        assert!(mount("remount,size=64m").is_ok_and(|status| status.success()));
        place.scanned("resume", &["--task", "backup"]);
        assert_eq!(place.scanned("status", &["--task", "backup", "--wait"])["state"], "complete");
        assert!(std::fs::read(&image).expect("the backup is there") == place.content);
        // A backup whose unread sectors are overwritten while it cannot write reports this, and no
        // client waits for it.
        assert!(mount("remount,size=10m").is_ok_and(|status| status.success()));
        let second = small.join("second.img");
        place.scanned("start", &["--task", "backup", "--to", text(&second)]);
        place.until("backup", "it waits", |status| status["state"] == "waiting");
        if let Some(client) = nbdsh(&server.1, OVERWRITE) {
            ended(client);
            let broken =
                place.until("backup", "it is broken", |status| status["state"] == "broken");
            assert!(
                broken["reason"]
                    .as_str()
                    .is_some_and(|reason| reason.contains("overwritten before")),
                "{broken}"
            );
            let refused =
                place.scan("start", &["--task", "backup", "--to", text(&place.path("third.img"))]);
            assert!(
                refused.status.code() == Some(1) && said(&refused).contains("--again"),
                "{}",
                said(&refused)
            );
        }
        stop(server);
    });
    let _ = Command::new("umount").arg(&small).status();
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

#[test]
fn damaged_state_is_refused_with_its_name_and_begun_again_only_when_asked() {
    let place = Place::file(4);
    let server = place.serve();
    place.scanned("start", &["--task", "scrub", "--wait"]);
    stop(server);
    let state = place.state_file("scrub");
    let mut bytes = std::fs::read(&state).expect("it is ours");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&state, &bytes).expect("it is ours");
    let server = place.serve();
    let status = place.scanned("status", &["--task", "scrub"]);
    assert_eq!(status["state"], "broken");
    let shown = place.text("status", &["--task", "scrub"]);
    assert!(shown.starts_with("scrub of v: broken\n"), "the progress is not known: {shown}");
    let refused = place.scan("start", &["--task", "scrub"]);
    assert!(refused.status.code() == Some(1), "{}", said(&refused));
    for part in ["checksum", text(&state), "--again"] {
        assert!(said(&refused).contains(part), "`{part}` is not in {}", said(&refused));
    }
    assert!(std::fs::read(&state).expect("it is ours") == bytes, "state was thrown away unasked");
    assert_eq!(
        place.scanned("start", &["--task", "scrub", "--again", "--wait"])["state"],
        "complete"
    );
    assert_eq!(
        place.text("cancel", &["--task", "scrub"]),
        "scrub of v: cancelled at 100.0 % of 4 MiB, and forgotten\n"
    );
    assert!(!state.exists());
    assert_eq!(place.scan("pause", &["--task", "scrub"]).status.code(), Some(2));
    stop(server);
}

#[test]
fn orders_that_make_no_sense_are_refused_with_a_remedy() {
    let place = Place::file(4);
    let server = place.serve();
    let nobody = place.path("nobody");
    let of_drive =
        |arguments: &[&str]| headtime(&[&["scan"], arguments, &["--drive", &place.drive]].concat());
    let cases = [
        (
            of_drive(&["start", "w", "--task", "scrub"]),
            2,
            "which has v; name a volume that it has, or @drive",
        ),
        (of_drive(&["start", "v", "--task", "scrap"]), 2, "known are scrub, backup, digest"),
        (of_drive(&["start", "v", "--task", "backup"]), 2, "--to FILE"),
        (of_drive(&["start", "v", "--task", "scrub", "--to", "x"]), 2, "leave the output out"),
        (
            of_drive(&["start", "v", "--task", "backup", "--to", text(place.folder.path())]),
            1,
            "named pipe",
        ),
        (of_drive(&["start", "v", "--task", "scrub", "--max-impact", "2"]), 2, "--max-impact"),
        (of_drive(&["start", "v", "--task", "scrub", "--range", "1MiB"]), 2, "FROM..TO"),
        (
            of_drive(&["start", "v", "--task", "scrub", "--range", "1MiB..5MiB"]),
            2,
            "is not within v, which has 4 MiB",
        ),
        (of_drive(&["resume", "v", "--task", "scrub"]), 2, "start one first"),
        (headtime(&["scan", "status", "--drive", "memory:1GiB"]), 2, "--control PATH"),
        (
            headtime(&["scan", "status", "--control", text(&nobody)]),
            1,
            "is `headtime serve` running",
        ),
    ];
    for (output, code, expected) in &cases {
        assert_eq!(output.status.code(), Some(*code), "{}", said(output));
        assert!(said(output).contains(expected), "`{expected}` is not in {}", said(output));
    }
    assert_eq!(headtime(&["scan", "status", "--drive", &place.drive]).stdout, b"no scans\n");
    stop(server);
}

#[test]
fn the_control_channel_answers_line_by_line_and_refuses_what_it_does_not_know() {
    use std::io::{BufRead as _, BufReader, Write as _};
    let place = Place::file(4);
    let server = place.serve();
    let mut stream = std::os::unix::net::UnixStream::connect(place.path("drive.img.control"))
        .expect("the server answers");
    let lines = "{\"v\":1,\"id\":5,\"verb\":\"scan.status\"}\nrubbish\n\
                 {\"v\":9,\"id\":6,\"verb\":\"scan.status\"}\n\
                 \
                 \
                 \
                 {\"v\":1,\"id\":7,\"verb\":\"scan.fly\"}\n\
                 {\"v\":1,\"id\":8,\"verb\":\"scan.start\",\"arguments\":{\"color\":1}}\n";
    stream.write_all(lines.as_bytes()).expect("the server reads");
    let mut answers = BufReader::new(stream)
        .lines()
        .map(|line| serde_json::from_str::<Value>(&line.expect("an answer")).expect("JSON"));
    let mut next = || answers.next().expect("an answer for each line");
    assert_eq!(
        next(),
        serde_json::json!({"v": 1, "id": 5, "ok": {
            "scans": [],
            "impact": 0.0,
            "measured": null,
            "max_impact": 0.01,
            "gaps": {
                "used": 0, "policy": 0, "position": 0, "early": 0, "nothing_fits": 0, "bound": 0,
                "control": 0
            }
        }})
    );
    for (id, kind, part) in [
        (0, "asked", "no request"),
        (6, "unknown", "version 9"),
        (7, "unknown", "scan.start, scan.pause"),
        (8, "asked", "color"),
    ] {
        let answer = next();
        assert_eq!(
            (&answer["id"], &answer["error"]["kind"]),
            (&id.into(), &kind.into()),
            "{answer}"
        );
        assert!(
            answer["error"]["message"].as_str().is_some_and(|message| message.contains(part)),
            "{answer}"
        );
    }
    stop(server);
}

#[test]
fn a_drive_without_a_state_folder_uses_the_given_socket_and_saves_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (control, socket) = (folder.path().join("control"), folder.path().join("nbd.sock"));
    let mut server = Program::start(&words(&format!(
        "serve --drive memory:64MiB --volume v=16MiB --listen unix:{} --control {} --max-impact 2% \
            --print-uri",
        text(&socket),
        text(&control)
    )));
    let uri = server.line();
    let output = headtime(&words(&format!(
        "scan start @drive --task scrub --wait --json --control {}",
        text(&control)
    )));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("it prints JSON");
    assert_eq!(
        (&answer["max_impact"], &answer["scans"][0]["bytes_done"]),
        (&0.02.into(), &(64 * MIB).into()),
        "{answer}"
    );
    assert_eq!(answer["scans"][0]["state_file"], "");
    stop((server, uri));
    assert!(Path::new(&control).symlink_metadata().is_err());
}
