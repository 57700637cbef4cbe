//! `headtime serve`, `emulate` and `check-config` through the real program and real clients.

#[path = "common/program.rs"]
mod program;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use headtime_testkit::nbdkit::{Nbdkit, installed};
use headtime_testkit::programs::{self, has_nbdsh, nbdsh};
use program::{Program, check_refusal, headtime, text, words};
use rustix::process::Signal;

/// Starts a server with two volumes on `drive`; its URIs, `db` first.
fn serve(drive: &str, socket: &Path, more: &[&str]) -> (Program, String, String) {
    let line = format!(
        "serve --drive {drive} --volume rec=16MiB,deadline=500ms --volume db=32MiB \
            --listen unix:{} --print-uri",
        text(socket)
    );
    let mut server = Program::start(&[&words(&line)[..], more].concat());
    let uris = [server.line(), server.line()];
    let find = |name: &str| {
        uris.iter()
            .find(|uri| uri.contains(&format!("/{name}?")))
            .unwrap_or_else(|| panic!("no URI of {name} in {uris:?}"))
            .clone()
    };
    (server, find("db"), find("rec"))
}

#[test]
fn what_was_written_is_there_after_a_drain_and_a_restart() {
    if !has_nbdsh() || !programs::installed(&["nbdcopy"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (image, socket) = (folder.path().join("drive.img"), folder.path().join("nbd.sock"));
    let (server, db, rec) = serve(text(&image), &socket, &["--create", "64MiB"]);
    let source = folder.path().join("source.raw");
    let content: Vec<u8> =
        (0..32_u32 << 18).flat_map(|word| word.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    std::fs::write(&source, &content).expect("the folder is ours");
    programs::run("nbdcopy", &[text(&source), &db]);
    let written = nbdsh(
        &rec,
        "h.pwrite(b'r' * 4096, 8192); h.flush(); assert h.pread(4096, 8192) == b'r' * 4096",
    )
    .output()
    .expect("nbdsh is installed");
    assert!(written.status.success(), "nbdsh: {}", String::from_utf8_lossy(&written.stderr));
    server.signal(Signal::TERM);
    let (status, _, said) = server.end();
    assert!(status.success(), "the drain ended with {status}: {said}");
    assert!(!socket.exists(), "the socket's file is left behind");

    let (server, db, rec) = serve(text(&image), &socket, &[]);
    let back = folder.path().join("back.raw");
    programs::run("nbdcopy", &[&db, text(&back)]);
    assert!(
        std::fs::read(&back).expect("nbdcopy wrote it") == content,
        "the volume holds something else after the restart"
    );
    let read = nbdsh(&rec, "assert h.pread(4096, 8192) == b'r' * 4096")
        .output()
        .expect("nbdsh is installed");
    assert!(read.status.success(), "nbdsh: {}", String::from_utf8_lossy(&read.stderr));
    server.signal(Signal::INT);
    let (status, _, said) = server.end();
    assert!(status.success(), "the drain ended with {status}: {said}");
}

/// Writes numbered blocks and prints, after each completed flush, how many it covers.
const WRITE_NUMBERED: &str = r"
import struct
n = 0
try:
    while True:
        for _ in range(8):
            h.pwrite(struct.pack('<Q', n + 1) * 512, n % 8192 * 4096)
            n += 1
        h.flush()
        print(n, flush=True)
except nbd.Error:
    pass
";

#[test]
fn kill_9_under_load_loses_nothing_that_a_completed_flush_covers() {
    if !has_nbdsh() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, backing) = (folder.path().join("file.img"), folder.path().join("emulated.img"));
    let emulated = format!("emulated:atlas10k?backing={}", text(&backing));
    for (drive, more) in [(text(&file), &["--create", "64MiB"][..]), (&emulated, &[])] {
        let socket = folder.path().join("nbd.sock");
        let (server, db, _) = serve(drive, &socket, more);
        let covered = covered_until(&db, || server.signal(Signal::KILL));
        drop(server);

        // A socket left by a killed server must not be in the next one's way.
        let (server, db, _) = serve(drive, &socket, &[]);
        expect_covered(&db, covered);
        server.signal(Signal::TERM);
        let (status, _, said) = server.end();
        assert!(status.success(), "the drain ended with {status}: {said}");
    }
}

/// Leaves replies unread that no socket's buffer holds.
const FETCH_NO_REPLIES: &str = r"
import time
buffers = [nbd.Buffer(4 << 20) for _ in range(8)]
for buffer in buffers:
    h.aio_pread(buffer, 0)
print('sent', flush=True)
time.sleep(60)
";

#[test]
fn a_second_signal_ends_a_drain_that_a_client_holds_up() {
    if !has_nbdsh() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (file, socket) = (folder.path().join("file.img"), folder.path().join("nbd.sock"));
    let (server, db, _) = serve(text(&file), &socket, &["--create", "64MiB"]);
    let mut client =
        nbdsh(&db, FETCH_NO_REPLIES).stdout(Stdio::piped()).spawn().expect("nbdsh is installed");
    let mut said = String::new();
    let stdout = client.stdout.take().expect("its output is piped");
    BufReader::new(stdout).read_line(&mut said).expect("nbdsh prints a line");
    assert_eq!(said, "sent\n");
    server.signal(Signal::TERM);
    while socket.exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    // At once it is part of the first, as with `timeout`.
    server.signal(Signal::TERM);
    std::thread::sleep(Duration::from_millis(300));
    server.signal(Signal::TERM);
    let (status, ..) = server.end();
    assert_eq!(status.code(), Some(128 + 15), "as of a program that a signal ends");
    client.kill().expect("it sleeps");
    client.wait().expect("it was killed");
}

/// Writes numbered blocks until `kill` ends the server or its drive; the number of those that a
/// completed flush covers.
fn covered_until(uri: &str, kill: impl FnOnce()) -> u64 {
    let mut client = nbdsh(uri, WRITE_NUMBERED)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("nbdsh is installed");
    let mut flushed = BufReader::new(client.stdout.take().expect("its output is piped"))
        .lines()
        .map(|line| line.expect("nbdsh prints numbers"));
    for _ in 0..4 {
        flushed.next().expect("the server serves");
    }
    kill();
    let covered = flushed.last().map_or(32, |line| line.parse().expect("a number"));
    client.wait().expect("nbdsh ends with an error");
    covered
}

/// Checks that the numbered blocks are there which a completed flush covers.
fn expect_covered(uri: &str, covered: u64) {
    let check = format!(
        "import struct\ncovered = {covered}\nfor n in range(max(0, covered - 8192), covered):\n    \
         got = struct.unpack('<Q', h.pread(4096, n % 8192 * 4096)[:8])[0]\n    \
         assert got > n, f'block {{n}} holds {{got}}, {{covered}} were covered'\n"
    );
    let checked = nbdsh(uri, &check).output().expect("nbdsh is installed");
    assert!(checked.status.success(), "{uri}: {}", String::from_utf8_lossy(&checked.stderr));
}

/// Reads until a read succeeds, for a minute at most.
const READ_UNTIL_IT_IS_BACK: &str = r"
import time
for _ in range(600):
    try:
        h.pread(4096, 0)
        break
    except nbd.Error:
        time.sleep(0.1)
else:
    raise SystemExit('it is still away')
";

#[test]
fn a_drive_that_is_killed_under_load_is_logged_and_what_was_flushed_is_there_later() {
    if !has_nbdsh() || !installed(&["file"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let [image, at, socket] =
        ["disk.img", "disk.sock", "nbd.sock"].map(|name| folder.path().join(name));
    let file = std::fs::File::create_new(&image).expect("a new file");
    file.set_len(64 << 20).expect("a sparse file");
    let drive = || Nbdkit::start(&at, &["file", text(&image)]);
    let locator = format!("nbd+unix:///?socket={}&reconnect_timeout=300ms", text(&at));
    let killed = drive();
    let (server, db, _) = serve(&locator, &socket, &["--initialize"]);
    let covered = covered_until(&db, || killed.kill_9());
    let refused = nbdsh(&db, "h.pread(4096, 0)").output().expect("nbdsh is installed");
    assert!(!refused.status.success(), "the drive is away");

    let back = drive();
    let read = nbdsh(&db, READ_UNTIL_IT_IS_BACK).output().expect("nbdsh is installed");
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    server.signal(Signal::TERM);
    let (_, _, said) = server.end();
    for part in [
        "the connection is lost",
        "others wait for a new connection for 300.000 ms",
        "Writes that were acknowledged and not flushed may be lost",
        "further ones fail at once until it is back",
        "the drive is back after",
    ] {
        let named = |line: &str| line.contains(part) && line.contains(text(&at));
        assert_eq!(said.lines().filter(|line| named(line)).count(), 1, "{part}: {said}");
    }

    let (server, db, _) = serve(&locator, &socket, &[]);
    expect_covered(&db, covered);
    server.signal(Signal::TERM);
    let (status, _, said) = server.end();
    assert!(status.success(), "the drain ended with {status}: {said}");
    drop(back);
}

#[test]
fn the_log_names_volumes_and_reports_that_the_backup_of_a_gpt_is_used() {
    use std::os::unix::fs::FileExt as _;
    if !has_nbdsh() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (image, socket) = (folder.path().join("disk.img"), folder.path().join("nbd.sock"));
    let file = std::fs::File::create_new(&image).expect("a new file");
    file.set_len(16 << 20).expect("a sparse file");
    let mut file =
        std::fs::OpenOptions::new().read(true).write(true).open(&image).expect("it was made");
    gpt::mbr::ProtectiveMBR::new().overwrite_lba0(&mut file).expect("a protective MBR");
    let options = gpt::GptConfig::new().writable(true);
    let mut table = options.create_from_device(file, None).expect("room for a table");
    let kind = gpt::partition_types::LINUX_FS;
    table.add_partition("root", 8 << 20, kind, 0, Some(2048)).expect("room for it");
    let file = table.write().expect("the file is writable");
    file.write_all_at(&[0; 512], 512).expect("the file is writable");

    let listen = format!("unix:{}", text(&socket));
    let start = ["serve", "--existing", "--print-uri", "--listen", &listen, "--drive"];
    let mut server = Program::start(&[&start[..], &[text(&image)]].concat());
    let uris = [server.line(), server.line()];
    let root = uris.iter().find(|uri| uri.contains("/root?")).expect("the partition is served");
    file.set_len(1 << 20).expect("the file is writable");
    let read = nbdsh(root, "h.pread(4096, 4 << 20)").output().expect("nbdsh is installed");
    assert!(!read.status.success(), "the sector is gone");
    server.signal(Signal::TERM);
    let (_, _, said) = server.end();
    for (expected, times) in [("the GPT at the start of the drive is damaged", 1), ("\"root\"", 1)]
    {
        assert_eq!(said.matches(expected).count(), times, "{expected} in\n{said}");
    }
}

#[test]
fn an_emulated_drive_alone_says_at_the_end_how_late_it_was() {
    if !has_nbdsh() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let listen = format!("unix:{}", text(&folder.path().join("nbd.sock")));
    let backing = folder.path().join("drive.img");
    let mut server = Program::start(&words(&format!(
        "emulate atlas10k --backing {} --listen {listen} --seed 3",
        text(&backing)
    )));
    let line = server.line();
    let uri = line.split(" at ").nth(1).expect("it says where it serves").to_string();
    let script = "h.pwrite(b'x' * 4096, 1 << 30); assert h.pread(4096, 1 << 30) == b'x' * 4096; \
        assert h.get_size() == 9184760832";
    let output = nbdsh(&uri, script).output().expect("nbdsh is installed");
    assert!(output.status.success(), "nbdsh: {}", String::from_utf8_lossy(&output.stderr));
    server.signal(Signal::TERM);
    let (status, rest, said) = server.end();
    assert!(status.success(), "{status}: {said}");
    assert!(
        rest.contains("completions, later than the model by p50")
            && rest.contains("disk time: seek"),
        "{rest}"
    );
}

#[test]
fn mistakes_in_a_configuration_are_reported_with_their_line() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("headtime.toml");
    std::fs::write(
        &path,
        "drive = \"disk.img\"\nlisten = \"unix:a.sock\"\n\n[[volume]]\nname = \
        \"rec\"\nsize = \"1GiB\"\ncolor = \"red\"\n",
    )
    .expect("the folder is ours");
    for arguments in
        [["check-config", text(&path)].to_vec(), ["serve", "--config", text(&path)].to_vec()]
    {
        let output = headtime(&arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "headtime {}: {said}", arguments[0]);
        assert!(
            said.contains("headtime.toml:7:")
                && said.contains("color")
                && said.contains("deadline"),
            "headtime {}: {said}",
            arguments[0]
        );
    }
    let output = headtime(&["check-config", text(&path), "--json"]);
    let answer: serde_json::Value =
        serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(
        (&answer["ok"], &answer["errors"][0]["line"]),
        (&serde_json::Value::from(false), &serde_json::Value::from(7))
    );
    std::fs::write(
        &path,
        "drive = \"disk.img\"\ncreate = \"2GiB\"\nlisten = \"unix:a.sock\"\n[[volume]]\nname = \
        \"rec\"\nsize = \"1GiB\"\n",
    )
    .expect("the folder is ours");
    assert!(headtime(&["check-config", text(&path)]).status.success());
}

#[test]
fn check_config_refuses_what_a_server_would_refuse_at_its_start() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let drive = std::fs::File::create(at("disk.img")).expect("the folder is ours");
    drive.set_len(64 << 20).expect("a file may have holes");
    let volume = |name: &str, more: &str| format!("[[volume]]\nname = \"{name}\"\n{more}\n");
    let sized = |name: &str, more: &str| volume(name, &format!("size = \"8MiB\"\n{more}"));
    let cases = [
        ("metrics = \"0.0.0.0:9\"\n".to_owned(), "metrics_public"),
        ("metrics = \"127.0.0.1:9\"\nweb = \"127.0.0.1:9\"\n".to_owned(), "each a port"),
        ("profile = \"wd40\"\n".to_owned(), "no profile is called `wd40`"),
        ("[tls]\ncertificate = \"no.pem\"\nkey = \"no.key\"\n".to_owned(), "no.pem"),
        (sized("a", "reserve = \"80%\"") + &sized("b", "reserve = \"30%\""), "20 % is free"),
        (sized("a", "reserve = \"80%\"\nlimit = \"50%\""), "more than its limit of 50 %"),
        (volume("a", "size = \"800MiB\""), "does not fit"),
        (volume("a", ""), "give a size to create it"),
        ("unreserved = \"50%\"\n".to_owned() + &sized("a", "reserve = \"60%\""), "50 % is free"),
    ];
    let path = at("headtime.toml");
    let write = |more: &str| {
        let (drive, socket) = (at("disk.img"), at("socket"));
        let start = format!("drive = {drive:?}\nlisten = [\"unix:{}\"]\n", socket.display());
        std::fs::write(&path, start + "initialize = true\n" + more).expect("the folder is ours");
    };
    for (more, expected) in cases {
        write(&more);
        for arguments in
            [["check-config", text(&path)].to_vec(), ["serve", "--config", text(&path)].to_vec()]
        {
            let output = headtime(&arguments);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(
                !output.status.success() && said.contains(expected),
                "headtime {} with {more}: {said}",
                arguments[0]
            );
        }
    }
    write(&sized("a", "reserve = \"80%\""));
    let content = || std::fs::read(at("disk.img")).expect("it is ours");
    let before = content();
    assert!(headtime(&["check-config", text(&path)]).status.success());
    assert!(content() == before, "the check wrote to the drive");
}

#[test]
fn check_config_reads_the_drive_and_exits_as_serve_would() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let at = |name: &str| folder.path().join(name);
    let path = at("headtime.toml");
    let checked = |more: &str| {
        let (drive, socket) = (at("disk.img"), at("socket"));
        let start = format!("drive = {drive:?}\nlisten = [\"unix:{}\"]\n", socket.display());
        std::fs::write(&path, start + more).expect("the folder is ours");
        let code_and_text = |arguments: &[&str]| {
            let output = headtime(arguments);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            (output.status.code(), said.replace("the server does not start: ", ""))
        };
        let check = code_and_text(&["check-config", text(&path)]);
        if check.0 != Some(0) {
            let serve = code_and_text(&["serve", "--config", text(&path)]);
            assert_eq!(check, serve, "with {more}");
        }
        check
    };
    let refused = |more: &str, code: i32, expected: &str| {
        let (found, said) = checked(more);
        assert!(found == Some(code) && said.contains(expected), "{found:?} with {more}: {said}");
    };
    refused("", 2, "does not exist");
    // What is refused leaves no file.
    let too_large = "create = \"64MiB\"\n[[volume]]\nname = \"a\"\nsize = \"1GiB\"\n";
    refused(too_large, 2, "does not fit");
    assert!(!at("disk.img").exists());
    std::fs::write(at("disk.img"), vec![1; 4 << 20]).expect("the folder is ours");
    refused("", 1, "the drive holds other content");
    refused("profile = \"atlas10k\"\n", 2, "describes a drive of");
    refused("initialize = true\nmodel = \"compact\"\n", 2, "give rpm");
    refused("initialize = true\ncontrol = \"/no/such/c\"\n", 1, "does its directory exist");
    let over_file = format!("initialize = true\ncontrol = {:?}\n", at("disk.img"));
    refused(&over_file, 1, "is not a socket, so it is not replaced");
    assert_eq!(checked("initialize = true\n").0, Some(0));
    assert_eq!(checked("initialize = true\nmodel = \"matrix\"\n").0, Some(0));
    assert_eq!(
        checked("initialize = true\n[[scan]]\ntarget = \"x\"\ntask = \"scrub\"\n").0,
        Some(0)
    );
    let notes = headtime(&["check-config", text(&path)]).stdout;
    assert!(String::from_utf8_lossy(&notes).contains("starts when there is a volume x"));
    assert_eq!(checked("existing = true\n").0, Some(0));
    refused("existing = true\n[[volume]]\nname = \"p1\"\n", 2, "disk");
    let content = std::fs::read(at("disk.img")).expect("it is ours");
    assert!(content == vec![1; 4 << 20], "a refused drive was written to");
    // The volumes of the drive are known.
    std::fs::remove_file(at("disk.img")).expect("it is ours");
    let address = format!("unix:{}", text(&at("socket")));
    let image = at("disk.img");
    let drive = ["--drive", text(&image), "--create", "64MiB", "--listen", &address];
    let mut server =
        Program::start(&[&["serve"][..], &drive, &["--volume", "a=8MiB,reserve=70%"]].concat());
    server.line();
    server.signal(Signal::TERM);
    assert!(server.end().0.success());
    assert_eq!(checked("[[volume]]\nname = \"a\"\n").0, Some(0));
    // A start keeps the size on the drive; a note states both.
    assert_eq!(checked("[[volume]]\nname = \"a\"\nsize = \"9MiB\"\n").0, Some(0));
    let notes = headtime(&["check-config", text(&path)]).stdout;
    assert!(String::from_utf8_lossy(&notes).contains("a keeps its size"));
    refused("[[volume]]\nname = \"b\"\nsize = \"1MiB\"\nreserve = \"40%\"\n", 2, "30 % is free");
    assert_eq!(checked("read_only = true\n").0, Some(0));
}

#[test]
fn a_server_that_cannot_start_says_why_and_what_to_do() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let listen = format!("unix:{}", text(&folder.path().join("nbd.sock")));
    let missing = folder.path().join("missing.img");
    let cases: &[(&[&str], i32, &str)] = &[
        (&["serve", "--listen", &listen], 2, "--drive"),
        (&["serve", "--drive", "d.img"], 2, "--listen"),
        (&["serve", "--drive", "d.img", "--listen", "somewhere"], 2, "unix:PATH"),
        (
            &["serve", "--drive", "d.img", "--listen", &listen, "--policy", "fastest"],
            2,
            "known are fcfs",
        ),
        (
            &["serve", "--drive", "d.img", "--listen", &listen, "--policy", "sptf-oracle"],
            2,
            "headtime sim",
        ),
        (
            &["serve", "--drive", "d.img", "--listen", &listen, "--volume", "v=1GiB,color=red"],
            2,
            "color",
        ),
        (&["serve", "--drive", "emulated:atlas10k", "--listen", &listen], 2, "backing=FILE"),
        (
            &["serve", "--drive", text(&missing), "--listen", &listen, "--volume", "v=1GiB"],
            2,
            "truncate",
        ),
        (&["serve", "--config", text(&missing)], 2, "cannot be read"),
        (&["emulate", "wd40", "--backing", text(&missing), "--listen", &listen], 2, "atlas10k"),
        (&["emulate", "emulated:wd40?backing=x", "--listen", &listen], 2, "atlas10k"),
        (&["emulate", "atlas10k", "--listen", &listen], 2, "emulated:atlas10k?backing=FILE"),
        (
            &["emulate", "emulated:atlas10k?backing=x", "--backing", "x", "--listen", &listen],
            2,
            "leave --backing out",
        ),
    ];
    for (arguments, code, expected) in cases {
        let output = headtime(arguments);
        check_refusal(&output, *code, expected, arguments);
    }
    assert!(!missing.exists(), "a server that did not start left a file");
}

#[test]
fn a_hangup_ends_no_server_and_without_tls_there_is_nothing_to_read_again() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let image = folder.path().join("drive.img");
    let (server, ..) = serve(text(&image), &folder.path().join("nbd.sock"), &["--create", "64MiB"]);
    server.signal(Signal::HUP);
    let output = headtime(&["reload", "--drive", text(&image)]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("the server has no [tls]"), "{said}");
    server.signal(Signal::TERM);
    let (status, _, said) = server.end();
    assert!(status.success(), "the drain ended with {status}: {said}");
}

#[test]
fn the_help_of_serve_lists_every_key() {
    let help = String::from_utf8(headtime(&["serve", "--help"]).stdout).expect("help is UTF-8");
    use headtime_serve::config::{
        CLIENT_KEYS, LIMIT_KEYS, MAP_KEYS, SCAN_KEYS, SERVER_KEYS, TLS_KEYS, VOLUME_KEYS,
    };
    let names = SERVER_KEYS
        .iter()
        .map(|key| key.name)
        .chain(VOLUME_KEYS.iter().map(|key| key.name))
        .chain(LIMIT_KEYS.iter().map(|key| key.name));
    let names =
        names.chain(MAP_KEYS.iter().map(|key| key.name)).chain(TLS_KEYS.iter().map(|key| key.name));
    let names = names.chain(CLIENT_KEYS.iter().map(|key| key.name));
    let names = names.chain(SCAN_KEYS.iter().map(|key| key.name));
    for name in names {
        assert!(help.contains(&format!("  {name} = ")), "{name} is missing");
    }
}
