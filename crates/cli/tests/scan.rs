//! Scans through the real program: scrubs, digests and backups of a running server, over restarts, kills and full disks.

#[path = "common/program.rs"]
mod program;

use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use program::{Program, headtime, text};
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use rustix::process::Signal;
use serde_json::Value;

/// Volumes lie behind the table.
const FIRST: u64 = 1 << 20;
const MIB: usize = 1 << 20;

/// A server's folder: its drive, and what is beside it.
struct Place {
    folder: tempfile::TempDir,
    /// What `--drive` says.
    drive: String,
    /// The file with the drive's bytes.
    bytes: PathBuf,
    /// The volume's bytes as they were written at first.
    content: Vec<u8>,
    more: Vec<&'static str>,
}

impl Place {
    /// A drive that is a file, with a volume of `mebibytes` MiB that is full of chance.
    fn file(mebibytes: usize) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let bytes = folder.path().join("drive.img");
        Self { drive: text(&bytes).to_owned(), bytes, folder, content: vec![0; mebibytes * MIB], more: vec!["--create", "128MiB"] }.filled()
    }

    /// An emulated Atlas 10K, which reads some 20 MB a second, so that there is a middle to be killed in.
    fn emulated(mebibytes: usize) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let bytes = folder.path().join("drive.img");
        let drive = format!("emulated:atlas10k?backing={}", text(&bytes));
        Self { drive, bytes, folder, content: vec![0; mebibytes * MIB], more: vec![] }.filled()
    }

    fn filled(mut self) -> Self {
        let server = self.serve();
        stop(server);
        ChaCha8Rng::seed_from_u64(self.content.len() as u64).fill_bytes(&mut self.content);
        self.write_behind_its_back(0, &self.content);
        self
    }

    /// Writes into the drive's bytes, while no server is there.
    fn write_behind_its_back(&self, offset: u64, bytes: &[u8]) {
        let file = OpenOptions::new().write(true).open(&self.bytes).expect("the drive is ours");
        file.write_all_at(bytes, FIRST + offset).expect("it can be written");
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn serve(&self) -> (Program, String) {
        let (volume, listen) = (format!("v={}MiB", self.content.len() / MIB), format!("unix:{}", text(&self.path("nbd.sock"))));
        let arguments = ["serve", "--drive", &self.drive, "--volume", &volume, "--listen", &listen, "--print-uri"];
        let mut server = Program::start(&[&arguments[..], &self.more].concat());
        let uri = server.line();
        (server, uri)
    }

    /// `headtime scan ORDER v …` on this server.
    fn scan(&self, order: &str, more: &[&str]) -> Output {
        headtime(&[&["scan", order, "v", "--drive", &self.drive, "--json"], more].concat())
    }

    /// The same, which must succeed; the scan's status.
    fn scanned(&self, order: &str, more: &[&str]) -> Value {
        let output = self.scan(order, more);
        assert!(output.status.success(), "scan {order} {more:?}: {}{}", said(&output), String::from_utf8_lossy(&output.stdout));
        let answer: Value = serde_json::from_slice(&output.stdout).expect("it prints JSON");
        answer["scans"][0].clone()
    }

    /// Waits until the status is as wanted.
    fn until(&self, task: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let enough = Instant::now() + Duration::from_secs(60);
        loop {
            let status = self.scanned("status", &["--task", task]);
            if wanted(&status) {
                return status;
            }
            assert!(Instant::now() < enough, "a minute has passed and not: {what}; {status}");
            std::thread::yield_now();
        }
    }

    fn state_file(&self, task: &str) -> PathBuf {
        let states = std::fs::read_dir(self.path("drive.img.scans")).expect("there is state");
        let suffix = format!(".v.{task}.scan");
        let paths = states.map(|entry| entry.expect("readable").path());
        paths.into_iter().find(|path| path.to_string_lossy().ends_with(&suffix)).expect("there is state of the task")
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn stop((server, _): (Program, String)) {
    server.signal(Signal::TERM);
    let (status, _, said) = server.end();
    assert!(status.success(), "{status}: {said}");
}

fn kill((server, _): (Program, String)) {
    server.signal(Signal::KILL);
    let _ = server.end();
}

/// nbdsh on `uri`; `None`, with a message, where it does not work.
fn nbdsh(uri: &str, script: &str) -> Option<Child> {
    let shell = || {
        let mut command = Command::new("nbdsh");
        command.env("PATH", format!("/usr/bin:/bin:{}", std::env::var("PATH").unwrap_or_default())).stdin(Stdio::null());
        command
    };
    if !shell().args(["-c", "pass"]).output().is_ok_and(|output| output.status.success()) {
        println!("skipped: nbdsh is not installed, or its Python module is missing (scripts/setup.sh test installs it)");
        return None;
    }
    Some(shell().args(["-u", uri, "-c", script]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("nbdsh is installed"))
}

fn ended(child: Child) {
    let output = child.wait_with_output().expect("it can be waited for");
    assert!(output.status.success(), "nbdsh: {}", said(&output));
}

/// Overwrites a page of each 64 KiB, in an order of its own.
const OVERWRITE: &str = "n = h.get_size() // 65536\nfor i in range(n): h.pwrite(bytes([i % 251]) * 4096, i * 7919 % n * 65536)\nh.flush()";

#[test]
fn a_scrub_reads_everything_and_is_complete_over_a_restart() {
    let place = Place::file(8);
    let server = place.serve();
    let control = place.path("drive.img.control");
    assert_eq!(std::fs::metadata(&control).expect("there is a control socket").permissions().mode() & 0o777, 0o600);
    let status = place.scanned("start", &["--task", "scrub", "--wait"]);
    assert_eq!((&status["state"], &status["bytes_done"], &status["errors"]["sectors"]), (&"complete".into(), &(8 * MIB).into(), &0.into()));
    let sources = status["sources"].as_object().expect("an object");
    assert_eq!(sources.values().filter_map(Value::as_u64).sum::<u64>(), 8 * MIB as u64, "{sources:?}");
    stop(server);
    assert!(!control.exists(), "the control socket is left behind");
    let server = place.serve();
    assert_eq!(place.scanned("status", &["--task", "scrub"])["state"], "complete");
    let text = headtime(&["scan", "status", "--drive", &place.drive]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("scrub of v: complete, 100.0 %") && text.contains("remembered in"), "{text}");
    assert_eq!(place.scanned("start", &["--task", "scrub", "--wait"])["pass"], 2);
    stop(server);
}

#[test]
fn a_change_behind_our_back_is_found_and_one_through_us_is_not_reported() {
    let place = Place::file(8);
    let server = place.serve();
    place.scanned("start", &["--task", "scrub", "--digests", "--wait"]);
    let Some(client) = nbdsh(&server.1, "h.pwrite(b'x' * 4096, 3 << 20); h.flush()") else { return };
    ended(client);
    stop(server);
    place.write_behind_its_back(5 * MIB as u64 + 77, b"rot");
    let server = place.serve();
    let found = place.scan("start", &["--task", "scrub", "--wait"]);
    assert_eq!(found.status.code(), Some(1), "{}", said(&found));
    assert!(said(&found).contains("2048 that have changed by themselves"), "{}", said(&found));
    let status = place.scanned("status", &["--task", "scrub"]);
    let digests = &status["digests"];
    assert_eq!((&digests["compared"], &digests["not_compared"]), (&7.into(), &1.into()));
    let first = (FIRST + 5 * MIB as u64) / 512;
    assert_eq!(digests["changed"]["ranges"], serde_json::json!([[first, 2048]]));
    // After a kill nobody knows what was written last: nothing is compared, and nothing is reported.
    kill(server);
    place.write_behind_its_back(6 * MIB as u64, b"rot");
    let server = place.serve();
    let status = place.scanned("start", &["--task", "scrub", "--wait"]);
    assert_eq!((&status["digests"]["compared"], &status["digests"]["not_compared"]), (&0.into(), &8.into()), "{status}");
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
        place.scanned("start", &["--task", "backup", "--anew", "--to", text(image)]);
        let status = place.scanned("pause", &["--task", "backup"]);
        status["bytes_done"].as_u64() < status["bytes"].as_u64()
    });
    let image = paused.expect("one of twenty is paused in time");
    let Some(client) = nbdsh(&server.1, OVERWRITE) else { return };
    ended(client);
    place.scanned("resume", &["--task", "backup"]);
    let status = place.scanned("status", &["--task", "backup", "--wait"]);
    assert!(status["sources"]["before_write"].as_u64() > Some(0), "nothing was overwritten before it was read: {status}");
    assert!(std::fs::read(&image).expect("the backup is there") == place.content, "the image is not what was there when the backup started");
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
        assert!(done >= before + 4 * MIB as u64 || status["state"] == "complete", "what was read is to be read again: {status}");
        before = done;
    }
    let status = place.scanned("status", &["--task", "backup", "--wait"]);
    assert_eq!(status["state"], "complete");
    assert!(std::fs::read(&image).expect("the backup is there") == place.content, "the image is not what was there when the backup started");
    stop(server);
}

#[test]
fn kill_9_during_a_scrub_and_a_pause_are_remembered() {
    let place = Place::emulated(48);
    let server = place.serve();
    place.scanned("start", &["--task", "scrub"]);
    place.until("scrub", "some of it is read", |status| status["bytes_done"].as_u64() >= Some(4 * MIB as u64));
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
fn a_backup_into_a_pipe_is_restored_and_a_stream_cut_off_is_refused() {
    let place = Place::file(8);
    let (pipe, stream, image) = (place.path("pipe"), place.path("stream"), place.path("restored.img"));
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo is there").success());
    let server = place.serve();
    let nobody = place.scan("start", &["--task", "backup", "--to", text(&pipe)]);
    assert!(nobody.status.code() == Some(1) && said(&nobody).contains("that somebody reads already"), "{}", said(&nobody));
    let reader = Command::new("sh").arg("-c").arg(format!("cat {} > {}", text(&pipe), text(&stream))).spawn().expect("a shell is there");
    let mut started = place.scan("start", &["--task", "backup", "--to", text(&pipe), "--wait"]);
    // Until the shell has opened the pipe nobody reads it.
    while !started.status.success() {
        assert!(said(&started).contains("that somebody reads already"), "{}", said(&started));
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
    assert!(cut.status.code() == Some(1) && said(&cut).contains("ends in the middle"), "{}", said(&cut));
    assert!(!place.path("half.img").exists());
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
    let mount = |options: &str| Command::new("mount").args(["-t", "tmpfs", "-o", options, "none", text(&small)]).status();
    if !mount("size=2m").is_ok_and(|status| status.success()) {
        println!("skipped: no file system can be mounted here");
        return;
    }
    let outcome = std::panic::catch_unwind(|| {
        let server = place.serve();
        let image = small.join("copy.img");
        place.scanned("start", &["--task", "backup", "--to", text(&image)]);
        let status = place.until("backup", "it waits", |status| status["state"] == "waiting");
        assert!(status["reason"].as_str().is_some_and(|reason| reason.contains("No space left") && reason.contains("make room")), "{status}");
        if let Some(client) = nbdsh(&server.1, "assert len(h.pread(65536, 0)) == 65536") {
            ended(client);
        }
        assert!(mount("remount,size=64m").is_ok_and(|status| status.success()));
        place.scanned("resume", &["--task", "backup"]);
        assert_eq!(place.scanned("status", &["--task", "backup", "--wait"])["state"], "complete");
        assert!(std::fs::read(&image).expect("the backup is there") == place.content);
        // And one whose unread sectors are overwritten while it cannot write: it says so, and nobody waits for it.
        assert!(mount("remount,size=10m").is_ok_and(|status| status.success()));
        let second = small.join("second.img");
        place.scanned("start", &["--task", "backup", "--to", text(&second)]);
        place.until("backup", "it waits", |status| status["state"] == "waiting");
        if let Some(client) = nbdsh(&server.1, OVERWRITE) {
            ended(client);
            let broken = place.until("backup", "it is broken", |status| status["state"] == "broken");
            assert!(broken["reason"].as_str().is_some_and(|reason| reason.contains("overwritten before")), "{broken}");
            let refused = place.scan("start", &["--task", "backup", "--to", text(&place.path("third.img"))]);
            assert!(refused.status.code() == Some(1) && said(&refused).contains("--anew"), "{}", said(&refused));
        }
        stop(server);
    });
    let _ = Command::new("umount").arg(&small).status();
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

#[test]
fn damaged_state_is_refused_with_its_name_and_begun_anew_only_when_asked() {
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
    let refused = place.scan("start", &["--task", "scrub"]);
    assert!(refused.status.code() == Some(1), "{}", said(&refused));
    for part in ["checksum", text(&state), "--anew"] {
        assert!(said(&refused).contains(part), "`{part}` is not in {}", said(&refused));
    }
    assert!(std::fs::read(&state).expect("it is ours") == bytes, "state was thrown away unasked");
    assert_eq!(place.scanned("start", &["--task", "scrub", "--anew", "--wait"])["state"], "complete");
    assert_eq!(place.scanned("cancel", &["--task", "scrub"])["state"], "complete");
    assert!(!state.exists());
    assert_eq!(place.scan("pause", &["--task", "scrub"]).status.code(), Some(2));
    stop(server);
}

#[test]
fn orders_that_make_no_sense_are_refused_with_a_remedy() {
    let place = Place::file(4);
    let server = place.serve();
    let nobody = place.path("nobody");
    let of_drive = |arguments: &[&str]| headtime(&[&["scan"], arguments, &["--drive", &place.drive]].concat());
    let cases = [
        (of_drive(&["start", "w", "--task", "scrub"]), 2, "there are v, and @drive"),
        (of_drive(&["start", "v", "--task", "scrap"]), 2, "known are scrub, backup, digest"),
        (of_drive(&["start", "v", "--task", "backup"]), 2, "--to FILE"),
        (of_drive(&["start", "v", "--task", "scrub", "--to", "x"]), 2, "leave the output out"),
        (of_drive(&["start", "v", "--task", "backup", "--to", text(place.folder.path())]), 1, "named pipe"),
        (of_drive(&["start", "v", "--task", "scrub", "--max-impact", "2"]), 2, "--max-impact"),
        (of_drive(&["resume", "v", "--task", "scrub"]), 2, "start one first"),
        (headtime(&["scan", "status"]), 2, "--control PATH"),
        (headtime(&["scan", "status", "--drive", "memory:1GiB"]), 2, "--control PATH"),
        (headtime(&["scan", "status", "--control", text(&nobody)]), 1, "is `headtime serve` running"),
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
    let mut stream = std::os::unix::net::UnixStream::connect(place.path("drive.img.control")).expect("the server answers");
    let lines = "{\"v\":1,\"id\":5,\"verb\":\"scan.status\"}\nrubbish\n{\"v\":9,\"id\":6,\"verb\":\"scan.status\"}\n\
                 {\"v\":1,\"id\":7,\"verb\":\"scan.fly\"}\n{\"v\":1,\"id\":8,\"verb\":\"scan.start\",\"arguments\":{\"colour\":1}}\n";
    stream.write_all(lines.as_bytes()).expect("the server reads");
    let mut answers = BufReader::new(stream).lines().map(|line| serde_json::from_str::<Value>(&line.expect("an answer")).expect("JSON"));
    let mut next = || answers.next().expect("an answer for each line");
    assert_eq!(next(), serde_json::json!({"v": 1, "id": 5, "ok": {"scans": [], "impact": 0.0, "max_impact": 0.01}}));
    for (id, kind, part) in
        [(0, "asked", "no request"), (6, "unknown", "version 9"), (7, "unknown", "scan.start, scan.pause"), (8, "asked", "colour")]
    {
        let answer = next();
        assert_eq!((&answer["id"], &answer["error"]["kind"]), (&id.into(), &kind.into()), "{answer}");
        assert!(answer["error"]["message"].as_str().is_some_and(|message| message.contains(part)), "{answer}");
    }
    stop(server);
}

#[test]
fn a_drive_without_a_place_takes_orders_where_it_is_told_and_remembers_nothing() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (control, listen) = (folder.path().join("control"), format!("unix:{}", text(&folder.path().join("nbd.sock"))));
    let arguments = [
        "serve",
        "--drive",
        "memory:64MiB",
        "--volume",
        "v=16MiB",
        "--listen",
        &listen,
        "--control",
        text(&control),
        "--max-impact",
        "2%",
        "--print-uri",
    ];
    let mut server = Program::start(&arguments);
    let uri = server.line();
    let output = headtime(&["scan", "start", "@drive", "--task", "scrub", "--wait", "--json", "--control", text(&control)]);
    let answer: Value = serde_json::from_slice(&output.stdout).expect("it prints JSON");
    assert_eq!((&answer["max_impact"], &answer["scans"][0]["bytes_done"]), (&0.02.into(), &(64 * MIB).into()), "{answer}");
    assert_eq!(answer["scans"][0]["state_file"], "");
    stop((server, uri));
    assert!(Path::new(&control).symlink_metadata().is_err());
}
