//! `headtime scan` of drives that are not being served, through the real program: complete reading,
//! state kept over kills and signals, commands from other terminals, and one scan at a time.

#[path = "common/lone_scan.rs"]
mod lone_scan;
#[path = "common/program.rs"]
mod program;

use std::os::unix::fs::FileExt as _;

use lone_scan::{Lone, MIB, said};
use program::{Program, headtime, text, words};
use rustix::process::Signal;
use serde_json::Value;

/// The files that a scan may leave in a drive's directory.
const KEPT: &[&str] = &["drive.img", "drive.img.headtime", "slow.toml", ".scan", "copy.img"];

#[test]
fn every_task_reads_a_file_to_the_end_and_leaves_its_state_and_nothing_else() {
    let lone = Lone::file();
    let scrub = lone.scanned("start", &["--task", "scrub", "--digests"]);
    assert_eq!(
        (&scrub["state"], &scrub["bytes_done"], &scrub["errors"]["sectors"]),
        (&"complete".into(), &(16 * MIB).into(), &0.into())
    );
    let image = lone.path("copy.img");
    assert_eq!(
        lone.scanned("start", &["--task", "backup", "--to", text(&image)])["state"],
        "complete"
    );
    assert!(std::fs::read(&image).expect("the backup is there") == lone.content);
    let digest = lone.scanned("start", &["--task", "digest"]);
    let other = Lone::slow();
    assert_eq!(
        digest["digests"]["table"],
        other.scanned("start", &["--task", "digest"])["digests"]["table"],
        "the same bytes on another drive"
    );
    // No scan is running, but its stored state is shown.
    let status = lone.scan("status", &[]);
    let text = String::from_utf8_lossy(&status.stdout).into_owned();
    for part in [
        "scrub of @drive: complete, 100.0 %",
        "backup of @drive: complete",
        "digest of @drive: complete",
        "state in",
    ] {
        assert!(text.contains(part), "`{part}` is not in {text}");
    }
    assert_eq!(lone.scanned("start", &["--task", "scrub", "--digests"])["pass"], 2);
    for lone in [&lone, &other] {
        assert_eq!(lone.remaining_files(KEPT), Vec::<String>::new());
    }
    assert_eq!(lone.scanned("cancel", &["--task", "digest"])["state"], "complete");
    assert_eq!(lone.scan("cancel", &["--task", "digest"]).status.code(), Some(2));
}

#[test]
fn a_change_between_two_scans_is_found_also_after_a_kill() {
    let lone = Lone::slow();
    lone.scanned("start", &["--task", "scrub", "--digests"]);
    let file =
        std::fs::OpenOptions::new().write(true).open(lone.path("drive.img")).expect("it is ours");
    file.write_all_at(b"rot", 14 * MIB as u64 + 99).expect("it is ours");
    let scan = lone.start(&["--task", "scrub"]);
    lone.until_read("scrub", MIB);
    lone.scanned("pause", &["--task", "scrub"]);
    lone.scanned("resume", &["--task", "scrub"]);
    scan.kill_9();
    let found = lone.scan("start", &["--task", "scrub", "--json"]);
    assert!(
        found.status.code() == Some(1)
            && said(&found).contains("2048 that have changed by themselves"),
        "{}",
        said(&found)
    );
    let answer: Value = serde_json::from_slice(&found.stdout).expect("it prints JSON");
    let digests = &answer["scans"][0]["digests"];
    // No client writes through a scan without a server, so that a kill leaves nothing unknown.
    assert_eq!((&digests["compared"], &digests["not_compared"]), (&16.into(), &0.into()));
    assert_eq!(digests["changed"]["ranges"], serde_json::json!([[14 * 2048, 2048]]));
}

#[test]
fn kill_9_loses_a_few_seconds_of_reading_and_nothing_else_whatever_the_task() {
    let table = Lone::file().scanned("start", &["--task", "digest"])["digests"]["table"].clone();
    for task in ["scrub", "digest", "backup"] {
        let lone = Lone::slow();
        let image = lone.path("copy.img");
        let more = if task == "backup" {
            vec!["--task", task, "--to", text(&image)]
        } else {
            vec!["--task", task]
        };
        let scan = lone.start(&more);
        lone.until_read(task, MIB);
        // A pause saves, so that what was read by then is known to be there after the kill.
        let paused = lone.scanned("pause", &["--task", task]);
        assert_eq!(paused["state"], "paused", "{task}");
        scan.kill_9();
        let status = lone.scanned("status", &["--task", task]);
        assert_eq!(
            (&status["state"], &status["bytes_done"]),
            (&"paused".into(), &paused["bytes_done"]),
            "{task}"
        );
        let status = lone.scanned("start", &more);
        assert_eq!(
            (&status["state"], &status["bytes_done"], &status["pass"]),
            (&"complete".into(), &(16 * MIB).into(), &1.into()),
            "{task}"
        );
        match task {
            "digest" => assert_eq!(status["digests"]["table"], table),
            "backup" => assert!(
                std::fs::read(&image).expect("the backup is there") == lone.content,
                "the image is not what the drive holds"
            ),
            _ => {}
        }
        assert_eq!(lone.remaining_files(KEPT), Vec::<String>::new(), "{task}");
    }
}

#[test]
fn a_signal_saves_and_prints_how_to_continue_and_commands_come_from_other_terminals() {
    let lone = Lone::very_slow();
    let scan = lone.start(&["--task", "scrub"]);
    lone.until_read("scrub", 1);
    scan.signal(Signal::INT);
    let output = scan.end();
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
    assert!(said(&output).contains("the same command continues"), "{}", said(&output));
    let status = lone.scanned("status", &[]);
    assert!(status["state"] == "stopped" && status["bytes_done"].as_u64() > Some(0), "{status}");
    assert_eq!(lone.remaining_files(KEPT), Vec::<String>::new());
    for order in ["pause", "resume"] {
        let nobody = lone.scan(order, &["--task", "scrub"]);
        assert!(
            nobody.status.code() == Some(2) && said(&nobody).contains("no scan of"),
            "{}",
            said(&nobody)
        );
    }
    let scan = lone.start(&["--task", "scrub"]);
    lone.until("scrub", "it runs", |status| status["state"] == "running");
    assert_eq!(lone.scanned("pause", &["--task", "scrub"])["state"], "paused");
    let second = lone.scan("start", &["--task", "digest"]);
    assert!(
        second.status.code() == Some(1) && said(&second).contains("is being scanned already"),
        "{}",
        said(&second)
    );
    assert_eq!(lone.scanned("cancel", &["--task", "scrub"])["state"], "paused");
    let output = scan.end();
    assert!(
        output.status.code() == Some(1) && said(&output).contains("was cancelled"),
        "{}",
        said(&output)
    );
    assert_eq!(lone.scan("status", &[]).stdout, b"no scans\n");
    assert_eq!(
        lone.remaining_files(&["drive.img", "drive.img.headtime", "slow.toml"]),
        Vec::<String>::new()
    );
}

#[test]
fn a_drive_that_is_served_is_scanned_by_its_server_which_goes_on_with_what_was_begun_without_it() {
    let lone = Lone::file();
    let serve = || {
        let listen = format!("unix:{}", lone.path("nbd.sock").display());
        let mut server = Program::start(&words(&format!(
            "serve --drive {} --volume v=8MiB --initialize --listen {listen} \
                --print-uri",
            lone.drive
        )));
        server.line();
        server
    };
    let stop = |server: Program| {
        server.signal(Signal::TERM);
        let (status, _, said) = server.end();
        assert!(status.success(), "{status}: {said}");
    };
    stop(serve());
    let scrub = lone.scanned("start", &["--task", "scrub", "--digests"]);
    let server = serve();
    let refused = lone.scan("start", &["--task", "scrub"]);
    assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
    for part in
        ["is served", "headtime scan start VOLUME --task scrub --control", "drive.img.control"]
    {
        assert!(said(&refused).contains(part), "`{part}` is not in {}", said(&refused));
    }
    // The server knows the scan and answers.
    let known = headtime(&words(&format!(
        "scan start @drive --task scrub --wait --json --drive {}",
        lone.drive
    )));
    let answer: Value = serde_json::from_slice(&known.stdout).expect("it prints JSON");
    let status = &answer["scans"][0];
    assert_eq!(
        (&status["pass"], &status["state_file"]),
        (&2.into(), &scrub["state_file"]),
        "{status}"
    );
    assert_eq!(
        (&status["digests"]["compared"], &status["digests"]["changed"]["sectors"]),
        (&16.into(), &0.into()),
        "{status}"
    );
    assert_eq!(lone.scanned("status", &["--task", "scrub"])["pass"], 2);
    stop(server);
    assert_eq!(lone.scanned("start", &["--task", "scrub"])["pass"], 3);
}

#[test]
fn a_server_finds_the_drive_in_use_while_it_is_scanned() {
    let lone = Lone::very_slow();
    let scan = lone.start(&["--task", "scrub"]);
    lone.until("scrub", "it runs", |status| status["state"] == "running");
    lone.scanned("pause", &["--task", "scrub"]);
    let listen = format!("unix:{}", lone.path("nbd.sock").display());
    let refused = headtime(&words(&format!(
        "serve --drive {} --volume v=8MiB --initialize --listen {listen}",
        lone.drive
    )));
    assert!(
        refused.status.code() == Some(1)
            && said(&refused).contains("is locked by another headtime"),
        "{}",
        said(&refused)
    );
    scan.signal(Signal::TERM);
    assert_eq!(scan.end().status.code(), Some(130));
}

#[test]
fn damaged_state_is_refused_by_name_wherever_it_is_damaged() {
    let lone = Lone::file();
    let state = lone.scanned("start", &["--task", "scrub", "--digests"])["state_file"]
        .as_str()
        .expect("there is state")
        .to_owned();
    let whole = std::fs::read(&state).expect("it is ours");
    // The magic, the version, the drive, a size, the notes, the bitmap, a digest, the checksum; cut
    // off; empty. Every byte stands in the tests of headtime-tasks.
    let flipped =
        [0, 9, 20, 60, 130, whole.len() / 2, whole.len() - 30, whole.len() - 1].map(|place| {
            let mut bytes = whole.clone();
            bytes[place] ^= 1;
            bytes
        });
    let cut = [whole[..whole.len() / 2].to_vec(), Vec::new()];
    for bytes in flipped.iter().chain(&cut) {
        std::fs::write(&state, bytes).expect("it is ours");
        assert_eq!(lone.scanned("status", &["--task", "scrub"])["state"], "broken");
        let refused = lone.scan("start", &["--task", "scrub"]);
        assert_eq!(refused.status.code(), Some(1), "{}", said(&refused));
        for part in [&state, "--again"] {
            assert!(said(&refused).contains(part), "`{part}` is not in {}", said(&refused));
        }
        assert!(
            std::fs::read(&state).expect("it is ours") == *bytes,
            "state was thrown away unasked"
        );
    }
    assert_eq!(lone.scanned("start", &["--task", "scrub", "--again"])["state"], "complete");
}

#[test]
fn orders_that_make_no_sense_are_refused_with_a_remedy() {
    let lone = Lone::slow();
    let image = lone.path("copy.img");
    let cases = [
        (lone.scan("start", &["--task", "backup"]), "--to FILE"),
        (lone.scan("start", &["--task", "digest", "--to", "x"]), "leave the output out"),
        (lone.scan("start", &["--task", "scrub", "--max-impact", "1%"]), "leave it out"),
        (lone.scan("start", &["--task", "scrub", "--profile", "atlas10k"]), "describes a drive of"),
        (lone.scan("cancel", &["--task", "scrub"]), "start one first"),
        (
            headtime(&["scan", "start", "v", "--task", "scrub", "--state", "x", "--control", "y"]),
            "cannot be used with",
        ),
    ];
    for (output, expected) in &cases {
        assert_eq!(output.status.code(), Some(2), "{}", said(output));
        assert!(said(output).contains(expected), "`{expected}` is not in {}", said(output));
    }
    let beyond = lone.scan("start", &["--task", "scrub", "--range", "1GiB.."]);
    assert_eq!(said(&beyond).matches("starts after the end").count(), 1, "{}", said(&beyond));
    // One that is under way is not mixed with another.
    let order = ["--task", "backup", "--range", "1MiB..", "--to", text(&image)];
    let scan = lone.start(&order);
    lone.until_read("backup", MIB);
    scan.signal(Signal::INT);
    scan.end();
    let other = lone.scan("start", &["--task", "backup", "--to", text(&lone.path("other.img"))]);
    assert!(
        other.status.code() == Some(2) && said(&other).contains("copy.img"),
        "{}",
        said(&other)
    );
    let whole = lone.scan("start", &["--task", "backup"]);
    assert!(said(&whole).contains("reads 1MiB..16MiB"), "{}", said(&whole));
    assert_eq!(
        lone.scanned("start", &["--task", "backup", "--range", "1MiB.."])["state"],
        "complete",
        "it is known where it goes"
    );
    assert!(std::fs::read(&image).expect("the backup is there") == lone.content[MIB..]);
}

#[test]
fn drives_without_a_place_are_scanned_and_remembered_only_where_it_is_said() {
    let mut lone = Lone::slow();
    // The same drive, whose time jumps and whose bytes are in memory.
    lone.drive = format!("simulated:{}", text(&lone.path("slow.toml")));
    let status = lone.scanned("start", &["--task", "scrub"]);
    assert_eq!((&status["state"], &status["state_file"]), (&"complete".into(), &"".into()));
    assert_eq!(lone.scan("status", &[]).stdout, b"no scans\n");
    let state = lone.path("state");
    assert_eq!(lone.scanned("start", &["--task", "scrub", "--state", text(&state)])["pass"], 1);
    assert_eq!(lone.scanned("start", &["--task", "scrub", "--state", text(&state)])["pass"], 2);
    assert_eq!(lone.scanned("status", &["--state", text(&state)])["pass"], 2);
}
