//! Faults of a drive and of a scan's output, through the real program on a drive that is not being
//! served: the drive disconnects and returns or does not, sectors are unreadable, space runs out,
//! the pipe has no reader. Scans beside a server's clients are tested in `scan.rs`.

#[path = "common/lone_scan.rs"]
mod lone_scan;

use std::path::Path;
use std::process::Command;

use headtime_testkit::nbdkit::{Nbdkit, installed};
use lone_scan::{Lone, MIB, said};
use rustix::process::Signal;
use serde_json::Value;

/// The file that nbdkit serves, with a delay for each read.
fn served_by_nbdkit(lone: &mut Lone) -> Vec<String> {
    let socket = lone.path("nbd.sock");
    lone.drive = format!("nbd+unix:///?socket={}&reconnect_timeout=0", socket.display());
    vec![
        "--filter=delay".to_owned(),
        "file".to_owned(),
        lone.path("drive.img").display().to_string(),
        "delay-read=50ms".to_owned(),
    ]
}

fn start(lone: &Lone, arguments: &[String]) -> Nbdkit {
    Nbdkit::start(&lone.path("nbd.sock"), &arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

fn utf8(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

#[test]
fn a_drive_that_goes_away_is_waited_for_and_nothing_is_counted_as_unreadable() {
    if !installed(&["delay"]) {
        return;
    }
    for task in ["scrub", "backup"] {
        let mut lone = Lone::file();
        let arguments = served_by_nbdkit(&mut lone);
        let server = start(&lone, &arguments);
        let image = lone.path("copy.img");
        let more = if task == "backup" {
            vec!["--task", task, "--to", utf8(&image)]
        } else {
            vec!["--task", task]
        };
        let scan = lone.start(&more);
        lone.until_read(task, 2 * MIB);
        server.kill_9();
        let status =
            lone.until(task, "it waits for the drive", |status| status["state"] == "waiting");
        assert!(
            status["reason"]
                .as_str()
                .is_some_and(|reason| reason.contains("the drive does not answer")),
            "{status}"
        );
        assert_eq!(status["errors"]["sectors"], 0, "{status}");
        let server = start(&lone, &arguments);
        // It retries by itself after a while, and at once on request.
        lone.until(task, "it is complete", |status| {
            if status["state"] == "waiting" {
                // The program has ended if the scan is already complete.
                let _ = lone.scan("resume", &["--task", task]);
            }
            status["state"] == "complete"
        });
        let output = scan.end();
        assert!(output.status.success(), "{task}: {}", said(&output));
        let status = lone.scanned("status", &["--task", task]);
        assert_eq!(
            (&status["state"], &status["bytes_done"], &status["errors"]["sectors"]),
            (&"complete".into(), &(16 * MIB).into(), &0.into()),
            "{status}"
        );
        if task == "backup" {
            assert!(std::fs::read(&image).expect("the backup is there") == lone.content);
        }
        drop(server);
    }
}

#[test]
fn a_drive_that_does_not_come_back_can_be_left_and_taken_up_again_later() {
    if !installed(&["delay"]) {
        return;
    }
    let mut lone = Lone::file();
    let arguments = served_by_nbdkit(&mut lone);
    let server = start(&lone, &arguments);
    let scan = lone.start(&["--task", "scrub"]);
    let before = lone.until_read("scrub", 2 * MIB);
    server.kill_9();
    lone.until("scrub", "it waits for the drive", |status| status["state"] == "waiting");
    scan.signal(Signal::INT);
    let output = scan.end();
    assert!(
        output.status.code() == Some(130) && said(&output).contains("the same command continues"),
        "{}",
        said(&output)
    );
    for order in ["start", "status", "cancel"] {
        let gone = lone.scan(order, &["--task", "scrub"]);
        assert!(gone.status.code() == Some(1), "{order}: {}", said(&gone));
    }
    let _server = start(&lone, &arguments);
    let stopped = lone.scanned("status", &[]);
    assert!(
        stopped["state"] == "stopped"
            && stopped["bytes_done"].as_u64() >= before["bytes_done"].as_u64(),
        "{stopped} after {before}"
    );
    let status = lone.scanned("start", &["--task", "scrub"]);
    assert_eq!(
        (&status["bytes_done"], &status["errors"]["sectors"]),
        (&(16 * MIB).into(), &0.into()),
        "{status}"
    );
}

#[test]
fn unreadable_ranges_are_reported_exactly_and_are_zeroes_in_a_backup() {
    if !installed(&["cow", "ddrescue"]) {
        return;
    }
    let mut lone = Lone::file();
    let map = lone.path("drive.map");
    // Bytes from, bytes, and whether they can be read.
    let bad = [(0x10_0000, 0x1000), (0x40_3000, 0x5000), (0xff_f000, 0x1000)];
    let mut text = "# Mapfile\n0x00000000 + 1\n".to_owned();
    let mut at = 0;
    for (start, len) in bad {
        text.push_str(&format!("{at:#x} {:#x} +\n{start:#x} {len:#x} -\n", start - at));
        at = start + len;
    }
    std::fs::write(&map, text).expect("the folder is ours");
    lone.drive = format!("nbd+unix:///?socket={}", lone.path("nbd.sock").display());
    let (file, map) = (
        lone.path("drive.img").display().to_string(),
        format!("ddrescue-mapfile={}", map.display()),
    );
    // What ddrescue has saved is read-only; the filter in front makes a drive of it, in blocks of a
    // page.
    let arguments =
        ["--filter=cow", "--filter=ddrescue", "file", &file, &map, "cow-block-size=4096"];
    let _server = Nbdkit::start(&lone.path("nbd.sock"), &arguments);
    let sectors: Vec<(u64, u64)> =
        bad.iter().map(|(start, len)| (*start as u64 / 512, *len as u64 / 512)).collect();
    let image = lone.path("copy.img");
    for more in [
        &["--task", "scrub"][..],
        &["--task", "digest"],
        &["--task", "backup", "--to", utf8(&image)],
    ] {
        let output = lone.scan("start", &[more, &["--json"]].concat());
        assert!(
            output.status.code() == Some(1)
                && said(&output).contains("56 sectors that cannot be read"),
            "{more:?}: {}",
            said(&output)
        );
        let answer: Value = serde_json::from_slice(&output.stdout).expect("it prints JSON");
        assert_eq!(answer["scans"][0]["errors"]["ranges"], serde_json::json!(sectors), "{more:?}");
    }
    let mut expected = lone.content.clone();
    bad.iter().for_each(|(start, len)| expected[*start..*start + *len].fill(0));
    assert!(std::fs::read(&image).expect("the backup is there") == expected);
}

#[test]
fn without_room_for_the_state_or_the_image_a_scan_waits_and_goes_on_when_there_is() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can mount a small file system");
        return;
    }
    let lone = Lone::file();
    let small = lone.path("small");
    std::fs::create_dir(&small).expect("the folder is ours");
    let mount = |options: &str| {
        Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "none", utf8(&small)])
            .status()
            .is_ok_and(|status| status.success())
    };
    if !mount("size=4m") {
        println!("skipped: no file system can be mounted here");
        return;
    }
    let outcome = std::panic::catch_unwind(|| {
        // Nothing is left for the state.
        let filler = small.join("filler");
        std::fs::create_dir(small.join("state")).expect("there is room for a name");
        assert!(std::fs::write(&filler, vec![1; 8 * MIB]).is_err(), "it is full now");
        let state = small.join("state");
        let scan = lone.start(&["--task", "scrub", "--state", utf8(&state)]);
        let full = |status: &Value| {
            status["reason"].as_str().is_some_and(|reason| {
                reason.contains("No space left") && reason.contains("free space")
            })
        };
        lone.until("scrub", "it says that there is no room", |status| {
            status["state"] == "waiting" && full(status)
        });
        std::fs::remove_file(&filler).expect("it is ours");
        lone.scanned("resume", &["--task", "scrub"]);
        let output = scan.end();
        assert!(output.status.success(), "{}", said(&output));
        assert_eq!(lone.scanned("status", &["--state", utf8(&state)])["state"], "complete");
        // And not enough for the image.
        let image = small.join("copy.img");
        let scan = lone.start(&["--task", "backup", "--to", utf8(&image)]);
        lone.until("backup", "it says that there is no room", |status| {
            status["state"] == "waiting" && full(status)
        });
        assert!(mount("remount,size=64m"));
        lone.scanned("resume", &["--task", "backup"]);
        let output = scan.end();
        assert!(output.status.success(), "{}", said(&output));
        assert!(std::fs::read(&image).expect("the backup is there") == lone.content);
    });
    let _ = Command::new("umount").arg(&small).status();
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

#[test]
fn a_pipe_whose_reader_goes_ends_a_backup_with_its_reason() {
    let lone = Lone::file();
    let pipe = lone.path("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is there").success());
    let mut reader = Command::new("sh")
        .arg("-c")
        .arg(format!("head -c 1000000 {} > /dev/null", utf8(&pipe)))
        .spawn()
        .expect("a shell is there");
    let mut output = lone.scan("start", &["--task", "backup", "--to", utf8(&pipe)]);
    // The pipe has no reader until the shell has opened it.
    while said(&output).contains("that another program reads") {
        output = lone.scan("start", &["--task", "backup", "--to", utf8(&pipe)]);
    }
    reader.wait().expect("it ends after its bytes");
    assert!(
        output.status.code() == Some(1) && said(&output).contains("accepts no more data"),
        "{}",
        said(&output)
    );
    let status = lone.scanned("status", &["--task", "backup"]);
    assert_eq!(status["state"], "broken");
    let refused = lone.scan("start", &["--task", "backup", "--to", utf8(&lone.path("copy.img"))]);
    assert!(
        refused.status.code() == Some(1) && said(&refused).contains("--again"),
        "{}",
        said(&refused)
    );
}
