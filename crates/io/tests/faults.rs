//! What happens when the world around a drive fails: no space, no permission, no process.
//!
//! Bodies that need a crippled process run in a child: this test program again, requested one test
//! and `HEADTIME_CHILD` names what it may use.

mod common;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use headtime_io::{Drive, DriveOptions, Io, IoMethod, Locator, OpenError};
use headtime_units::Extent;

use common::{Kind, Place, SECTORS, holds, pattern, submit};

const CHILD: &str = "HEADTIME_CHILD";

/// This program again, to run the test `name` as a child that finds `place`; `prepare` is what the
/// shell does before.
fn child(name: &str, place: &Path, prepare: &str) -> Command {
    let program = std::env::current_exe().expect("this program is somewhere");
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{prepare} exec \"$@\"")).arg("sh").arg(program).args([
        name,
        "--exact",
        "--nocapture",
        "--test-threads=1",
    ]);
    command.env(CHILD, place);
    command
}

fn as_child() -> Option<PathBuf> {
    std::env::var_os(CHILD).map(PathBuf::from)
}

fn passes(mut command: Command) {
    let output = command.output().expect("a shell is there");
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && out.contains("1 passed"), "{out}\n{err}");
}

fn open_file(path: &Path, io_method: IoMethod) -> Option<Drive> {
    let options =
        DriveOptions { io_method, create_bytes: Some(SECTORS * 512), ..DriveOptions::default() };
    match Drive::open(&Locator::Path(path.to_owned()), options) {
        Ok(drive) => Some(drive),
        Err(OpenError::NoUring { error }) => {
            eprintln!("skipped: io_uring is not available here ({error})");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Writes within and past what can be written; the error reaches exactly the second.
fn only_the_write_that_does_not_fit_fails(
    drive: &Drive,
    fits: Extent,
    does_not: Extent,
    errno: i32,
) {
    let first = submit(drive, Io::write(fits, pattern(fits, 1)));
    assert!(common::answer(&first).result.is_ok());
    let failing = submit(drive, Io::write(does_not, pattern(does_not, 1)));
    let other = submit(drive, Io::read(fits));
    let error = common::answer(&failing).result.expect_err("there is no room for it");
    assert_eq!(error.errno(), errno, "{error}");
    assert!(common::answer(&other).result.expect("readable") == pattern(fits, 1));
    assert!(holds(drive, fits, 1));
    assert_eq!(drive.snapshot().errors.by_errno.get(&errno), Some(&1));
}

#[test]
fn a_file_size_limit_fails_only_the_writes_past_it() {
    const LIMIT_SECTORS: u64 = 4096;
    let (fits, past) = (Extent::from_numbers(100, 8), Extent::from_numbers(LIMIT_SECTORS + 64, 8));
    if let Some(place) = as_child() {
        for (name, method) in [("uring", IoMethod::Uring), ("threads", IoMethod::Threads)] {
            let Some(drive) = open_file(&place.join(name), method) else { continue };
            only_the_write_that_does_not_fit_fails(&drive, fits, past, 27);
        }
        return;
    }
    let directory = tempfile::tempdir().expect("a place for files");
    for name in ["uring", "threads"] {
        let file = std::fs::File::create(directory.path().join(name)).expect("writable");
        file.set_len(SECTORS * 512).expect("sparse");
    }
    // Without the trap the limit kills the process by signal. The shell counts in 512 or 1,024
    // bytes; bash's 1,024 is forced by asking for it.
    let prepare = format!("trap '' XFSZ; ulimit -f {};", LIMIT_SECTORS / blocks_of_ulimit());
    passes(child("a_file_size_limit_fails_only_the_writes_past_it", directory.path(), &prepare));
}

/// The sectors of one unit of the shell's `ulimit -f`: POSIX says one, bash two.
fn blocks_of_ulimit() -> u64 {
    let probe = "ulimit -f 8; cat /proc/self/limits";
    let output = Command::new("sh").arg("-c").arg(probe).output().expect("a shell is there");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text
        .lines()
        .find(|line| line.starts_with("Max file size"))
        .expect("the kernel lists its limits");
    let bytes: u64 = line
        .split_whitespace()
        .nth(3)
        .and_then(|number| number.parse().ok())
        .expect("a number of bytes");
    bytes / 8 / 512
}

#[test]
fn a_full_file_system_fails_only_the_write_that_finds_no_room() {
    let (fits, too_much) = (Extent::from_numbers(100, 64), Extent::from_numbers(1000, 8192));
    if let Some(place) = as_child() {
        for (name, method) in [("uring", IoMethod::Uring), ("threads", IoMethod::Threads)] {
            let Some(drive) = open_file(&place.join(name), method) else { continue };
            only_the_write_that_does_not_fit_fails(&drive, fits, too_much, 28);
            drop(drive);
            std::fs::remove_file(place.join(name)).expect("it is there");
        }
        let profile =
            place.parent().expect("the place is a directory within another").join("swift.toml");
        let text =
            format!("emulated:{}?backing={}", profile.display(), place.join("emulated").display());
        let drive =
            Drive::open(&Locator::parse(&text).expect("a locator"), DriveOptions::default())
                .expect("a new drive");
        only_the_write_that_does_not_fit_fails(&drive, fits, too_much, 28);
        return;
    }
    let outer = Place::new(Kind::Emulated);
    let small = outer.path("small");
    std::fs::create_dir(&small).expect("writable");
    let mount = format!("mount -t tmpfs -o size=1m headtime-test '{}'", small.display());
    let can_mount = |unshare: &[&str]| {
        let tried = Command::new("unshare")
            .args(unshare)
            .args(["sh", "-c", &mount])
            .stderr(Stdio::null())
            .status();
        tried.is_ok_and(|status| status.success())
    };
    let Some(flags) = [&["-m"][..], &["-r", "-m"][..]].into_iter().find(|flags| can_mount(flags))
    else {
        eprintln!(
            "skipped: a small file system can be mounted neither as this user nor in a user \
                namespace"
        );
        return;
    };
    // The mount lives in the child's own name space and goes with it.
    let inner = child(
        "a_full_file_system_fails_only_the_write_that_finds_no_room",
        &small,
        &format!("{mount} &&"),
    );
    let mut command = Command::new("unshare");
    command.args(flags).arg(inner.get_program()).args(inner.get_args()).env(CHILD, &small);
    passes(command);
}

#[test]
fn killing_the_process_loses_no_write_that_was_reported() {
    const WRITES: u64 = 300;
    let extent = |number: u64| Extent::from_numbers(number * 50 % 16_000, 8);
    let open = |place: &Path| {
        let profile = place.join("swift.toml");
        let text =
            format!("emulated:{}?backing={}", profile.display(), place.join("drive.img").display());
        Drive::open(&Locator::parse(&text).expect("a locator"), DriveOptions::default())
            .expect("the drive opens")
    };
    if let Some(place) = as_child() {
        let drive = open(&place);
        for number in 0_u64.. {
            // Those that are looked at afterwards once, then others until the end comes.
            let extent = extent(if number < WRITES { number } else { WRITES + number % 20 });
            assert!(drive.handle().run(Io::write(extent, pattern(extent, number))).result.is_ok());
            println!("written {number}");
        }
        return;
    }
    let place = Place::new(Kind::Emulated);
    let directory = place.path(".");
    let mut process = child("killing_the_process_loses_no_write_that_was_reported", &directory, "")
        .stdout(Stdio::piped())
        .spawn()
        .expect("a shell is there");
    let mut reported = 0;
    for line in BufReader::new(process.stdout.take().expect("piped")).lines() {
        let line = line.expect("text");
        if let Some(number) =
            line.split("written ").nth(1).and_then(|number| number.trim().parse::<u64>().ok())
        {
            reported = number;
        }
        if reported + 1 >= WRITES {
            break;
        }
    }
    // The shell became the program, so this kills the drive's own process, with SIGKILL.
    process.kill().expect("it runs");
    process.wait().expect("it ends");
    assert_eq!(reported + 1, WRITES, "the child ended before");
    let drive = open(&directory);
    for number in 0..WRITES {
        assert!(holds(&drive, extent(number), number), "write {number} was reported and is lost");
    }
}

#[test]
fn what_cannot_be_a_drive_is_refused_with_a_reason() {
    let directory = tempfile::tempdir().expect("a place for files");
    let refusal = |path: &Path, options: DriveOptions| {
        Drive::open(&Locator::Path(path.to_owned()), options).err().expect("no drive").to_string()
    };
    let missing = refusal(&directory.path().join("missing"), DriveOptions::default());
    assert!(missing.contains("does not exist") && missing.contains("truncate -s"), "{missing}");
    let device = refusal(Path::new("/dev/disk/by-id/no-such-disk"), DriveOptions::default());
    assert!(
        device.contains("does not exist")
            && device.contains("headtime devices")
            && !device.contains("truncate"),
        "{device}"
    );
    let comma = directory.path().join("new.img,cache_size=1");
    let create = || DriveOptions { create_bytes: Some(1 << 20), ..DriveOptions::default() };
    for options in [DriveOptions::default(), create()] {
        let message = refusal(&comma, options);
        assert!(message.contains("`,cache_size=1`, which looks like a setting"), "{message}");
        assert!(
            message.contains("joined by &") && message.contains("create it first"),
            "{message}"
        );
    }
    assert!(!comma.exists(), "a refused drive leaves nothing behind");
    std::fs::write(&comma, [0; 4096]).expect("writable");
    drop(Drive::open(&Locator::Path(comma), create()).expect("a file that exists is a drive"));
    let plain = directory.path().join("a,b.img");
    drop(Drive::open(&Locator::Path(plain), create()).expect("a comma without a setting"));
    assert!(refusal(directory.path(), DriveOptions::default()).contains("a directory"));
    assert!(refusal(Path::new("/dev/null"), DriveOptions::default()).contains("character device"));
    let odd = directory.path().join("odd");
    std::fs::write(&odd, [0; 1000]).expect("writable");
    let message = refusal(&odd, DriveOptions::default());
    assert!(message.contains("1000 bytes") && message.contains("truncate -s 1024"), "{message}");
    std::fs::write(&odd, []).expect("writable");
    assert!(refusal(&odd, DriveOptions::default()).contains("not a multiple of sectors"));
    let new = directory.path().join("new");
    assert!(
        refusal(&new, DriveOptions { create_bytes: Some(0), ..DriveOptions::default() })
            .contains("truncate -s 512")
    );
    assert!(!new.exists(), "a refused drive leaves nothing behind");
    let rounded = directory.path().join("rounded");
    let options = DriveOptions { create_bytes: Some(1000), ..DriveOptions::default() };
    drop(Drive::open(&Locator::Path(rounded.clone()), options).expect("whole sectors"));
    assert_eq!(rounded.metadata().expect("it was made").len(), 1024);
    let options =
        DriveOptions { create_bytes: Some(1 << 20), max_requests: 0, ..DriveOptions::default() };
    assert!(refusal(&new, options).contains("max_requests = 0"));
    let options = DriveOptions {
        create_bytes: Some(1 << 20),
        outstanding: Some(0),
        ..DriveOptions::default()
    };
    assert!(refusal(&new, options).contains("outstanding = 0"));
}
