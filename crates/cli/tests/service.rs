//! `headtime serve` as a service: sockets that systemd passes, its notifications, configuration in
//! several files, a command that uses the server, errors for programs, man pages and completions.

#[path = "../examples/pages.rs"]
mod pages;
#[path = "common/program.rs"]
mod program;

use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use headtime_testkit::programs::installed;
use program::{headtime, text, words};
use rustix::process::{Pid, Signal, kill_process};

/// A child that is killed on drop.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn serve(folder: &Path, socket: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headtime"));
    command
        .args(["serve", "--create", "16MiB", "--volume", "a=8MiB", "--control", "off"])
        .args(["--drive", text(&folder.join("drive.img"))])
        .args(["--listen", &format!("unix:{}", text(socket))])
        .stdout(Stdio::null());
    command
}

/// The first bytes of a server's greeting.
fn greeting(socket: &Path) -> [u8; 8] {
    let mut stream = UnixStream::connect(socket).expect("the socket listens");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout can be set");
    let mut greeting = [0; 8];
    stream.read_exact(&mut greeting).expect("the server greets");
    greeting
}

#[test]
fn a_passed_socket_is_used_and_its_file_stays() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let socket = folder.path().join("nbd.sock");
    let passed = UnixListener::bind(&socket).expect("the folder is ours");
    // A client may connect before the server starts.
    let mut early = UnixStream::connect(&socket).expect("the socket listens");
    let mut server = Killed(
        serve(folder.path(), &socket)
            .env("LISTEN_FDS", "1")
            .env("LISTEN_FDS_FIRST_FD", "0")
            .stdin(OwnedFd::from(passed))
            .spawn()
            .expect("the program was built"),
    );
    let mut magic = [0; 8];
    early.read_exact(&mut magic).expect("the server greets");
    assert_eq!(&magic, b"NBDMAGIC");
    assert_eq!(&greeting(&socket), b"NBDMAGIC");
    drop(early);
    kill_process(Pid::from_child(&server.0), Signal::TERM).expect("it runs");
    assert!(server.0.wait().expect("it ends").success());
    assert!(socket.exists(), "the file of a passed socket is not the server's to remove");
}

#[test]
fn a_passed_socket_that_the_configuration_does_not_name_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let passed = folder.path().join("passed.sock");
    let output = serve(folder.path(), &folder.path().join("other.sock"))
        .env("LISTEN_FDS", "1")
        .env("LISTEN_FDS_FIRST_FD", "0")
        .stdin(OwnedFd::from(UnixListener::bind(&passed).expect("the folder is ours")))
        .output()
        .expect("the program was built");
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    let expected = format!("systemd passed the socket unix:{}", text(&passed));
    assert!(!output.status.success() && message.contains(&expected), "{message}");
    assert!(!folder.path().join("drive.img").exists(), "the drive was made all the same");
}

#[test]
fn systemd_is_notified_of_readiness_state_watchdog_and_end() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (socket, notify) = (folder.path().join("nbd.sock"), folder.path().join("notify"));
    let notifications = UnixDatagram::bind(&notify).expect("the folder is ours");
    notifications.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout can be set");
    let mut server = Killed(
        serve(folder.path(), &socket)
            .env("NOTIFY_SOCKET", &notify)
            .env("WATCHDOG_USEC", "20000")
            .spawn()
            .expect("the program was built"),
    );
    let next = || {
        let mut buffer = [0; 4096];
        let length = notifications.recv(&mut buffer).expect("the server notifies");
        String::from_utf8_lossy(&buffer[..length]).trim_end().to_owned()
    };
    let wait_for = |expected: &str| {
        let mut notified = (0..10_000).map(|_| next());
        assert!(notified.any(|text| text == expected), "`{expected}` does not come");
    };
    wait_for("READY=1");
    wait_for("STATUS=1 export, 0 clients, 0 requests in the queue, 0 unfinished scans");
    wait_for("WATCHDOG=1");
    wait_for("WATCHDOG=1");
    let client = UnixStream::connect(&socket).expect("the server is ready");
    wait_for("STATUS=1 export, 1 client, 0 requests in the queue, 0 unfinished scans");
    drop(client);
    kill_process(Pid::from_child(&server.0), Signal::TERM).expect("it runs");
    wait_for("STOPPING=1");
    assert!(server.0.wait().expect("it ends").success());
}

#[test]
fn a_server_reads_conf_d_before_its_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let write = |name: &str, text: &str| {
        std::fs::write(folder.path().join(name), text).expect("the folder is ours");
    };
    std::fs::create_dir(folder.path().join("conf.d")).expect("the folder is ours");
    let drive = folder.path().join("drive.img");
    let config = folder.path().join("nas.toml");
    write("conf.d/limits.toml", "polcy = \"fcfs\"\n[limits]\nconnections = 9\n");
    write(
        "nas.toml",
        &format!(
            "drive = \"{}\"\ncreate = \"16MiB\"\nlisten = [\"unix:{}\"]\n[[volume]]\nname = \
             \"a\"\nsize = \"8MiB\"\n",
            text(&drive),
            text(&folder.path().join("nbd.sock"))
        ),
    );
    let refused = headtime(&["check-config", text(&config)]);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2));
    assert!(message.contains("conf.d/limits.toml:1:1: unknown key `polcy`"), "{message}");
    write("conf.d/limits.toml", "policy = \"fcfs\"\n");
    let served = headtime(&["serve", "--config", text(&config), "--run", "echo $uri"]);
    let message = String::from_utf8_lossy(&served.stderr).into_owned();
    assert!(served.status.success(), "{message}");
    assert!(String::from_utf8_lossy(&served.stdout).starts_with("nbd+unix:///a?socket="));
}

#[test]
fn a_command_runs_with_the_uris_and_its_exit_code_is_passed_on() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let drive = folder.path().join("drive.img");
    let run = |command: &str| {
        let line = "--create 32MiB --volume a=8MiB --volume b=8MiB --run";
        headtime(&[&["serve", "--drive", text(&drive)], &words(line)[..], &[command]].concat())
    };
    let ran = run("echo \"$uri\"; echo \"$uris\"; exit 7");
    let printed = String::from_utf8_lossy(&ran.stdout).into_owned();
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(ran.status.code(), Some(7), "{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(lines.len(), 3, "{printed}");
    assert!(lines[0] == lines[1] && lines[0].starts_with("nbd+unix:///a?socket="), "{printed}");
    assert!(lines[2].starts_with("nbd+unix:///b?socket="), "{printed}");
    if !installed(&["nbdinfo"]) {
        return;
    }
    let ran = run("nbdinfo --size \"$uri\"");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    assert_eq!(String::from_utf8_lossy(&ran.stdout).trim(), "8388608");
}

#[test]
fn errors_are_json_with_json() {
    for arguments in [
        ["status", "--drive", "/nonexistent/drive.img", "--json"],
        ["status", "--no-such-option", "x", "--json"],
    ] {
        let failed = headtime(&arguments);
        let error: serde_json::Value =
            serde_json::from_slice(&failed.stderr).expect("the error is one JSON object");
        assert_eq!(error["exit_code"].as_i64(), failed.status.code().map(i64::from), "{error}");
        assert!(error["error"].as_str().is_some_and(|text| text.len() > 10), "{error}");
        assert_eq!(failed.stdout, b"");
    }
}

#[test]
fn the_version_of_a_debug_build_has_no_commit() {
    let version = headtime(&["--version"]);
    let expected = format!("headtime {} (debug build)\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(String::from_utf8_lossy(&version.stdout), expected);
}

#[test]
fn every_command_and_key_has_its_place_in_the_pages() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    pages::write_pages(folder.path()).expect("the folder is ours");
    let page = |name: &str| {
        let path = folder.path().join("man").join(name);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
    };
    let configuration = page("headtime.toml.5");
    for key in ["drive", "reserve", "snapshot", "client_crl", "exports", "stall_timeout"] {
        let line = format!("\\fB{}\\fR", key.replace('-', "\\-"));
        if key == "snapshot" {
            assert!(!configuration.contains(&line), "the page has a key that does not exist");
        } else {
            assert!(configuration.contains(&line), "{key} is not in\n{configuration}");
        }
    }
    let completions = std::fs::read_to_string(folder.path().join("completions/headtime.bash"));
    let completions = completions.expect("completions were written");
    for command in headtime_cli::command().get_subcommands() {
        let name = command.get_name();
        let text = page(&format!("headtime-{name}.1"));
        assert!(text.contains(".SH OPTIONS") && text.contains(".SH SYNOPSIS"), "{text}");
        assert!(completions.contains(&format!("headtime,{name})")), "{name} is not completed");
    }
    assert!(page("headtime.1").contains("headtime\\-serve(1)"));
    assert!(page("headtime-volume-add.1").contains(".SH OPTIONS"));
    let example = headtime_serve::config::Config::from_toml("example", pages::EXAMPLE);
    assert!(example.is_ok_and(|config| config.check().is_ok()), "the example is not valid");
    if installed(&["man"]) {
        for file in std::fs::read_dir(folder.path().join("man")).expect("it was written") {
            let file = file.expect("it was written").path();
            let shown = Command::new("man")
                .args(["--warnings", "--encoding=UTF-8", "--local-file", text(&file)])
                .env("MANROFFSEQ", "")
                .env("MANWIDTH", "80")
                .output()
                .expect("man is installed");
            assert!(
                shown.status.success() && shown.stderr.is_empty(),
                "{}: {}",
                file.display(),
                String::from_utf8_lossy(&shown.stderr)
            );
        }
    }
    let mut bash =
        Command::new("bash").arg("-n").stdin(Stdio::piped()).spawn().expect("bash is installed");
    let mut input = bash.stdin.take().expect("its input is piped");
    input.write_all(completions.as_bytes()).expect("bash reads");
    drop(input);
    assert!(bash.wait().expect("bash ends").success(), "bash refuses the completions");
}

#[test]
fn a_server_goes_on_when_nothing_reads_its_output_and_log_any_more() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (socket, control) = (folder.path().join("nbd.sock"), folder.path().join("control.sock"));
    let line = format!(
        "serve --drive memory:64MiB --volume a=8MiB --listen unix:{} --control {} --log debug",
        text(&socket),
        text(&control)
    );
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut program = Command::new(env!("CARGO_BIN_EXE_headtime"));
    program.args(words(&line)).stdin(Stdio::null());
    program.stdout(writer.try_clone().expect("a copy")).stderr(writer);
    let mut server = program.spawn().expect("the program was built");
    while !control.exists() {
        assert_eq!(server.try_wait().expect("it is ours"), None, "it ends at its first line");
        std::thread::sleep(Duration::from_millis(10));
    }
    // Both a client and a command are logged.
    assert_eq!(&greeting(&socket), b"NBDMAGIC");
    let set = headtime(&["volume", "set", "a", "reserve=10%", "--control", text(&control)]);
    assert!(set.status.success(), "{set:?}");
    kill_process(Pid::from_child(&server), Signal::TERM).expect("it still runs");
    assert!(server.wait().expect("it is ours").success());
}
