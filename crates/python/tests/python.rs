//! The tests of the Python package, in Python: `tests/*.py`, on the library that cargo has built.
//!
//! They need python3 with venv, and the packages numpy and joblib from the package index; a machine
//! without them skips. To run one test: `cargo test -p headtime-python -- --nocapture`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use clap::{Args as _, FromArgMatches as _};
use headtime_lab::commands::compare::{self, CompareArguments};
use headtime_serve::Server;
use headtime_serve::config::{Config, Flags};

/// The packages that the tests need.
const PACKAGES: [&str; 2] = ["joblib", "numpy"];

#[test]
fn the_python_package_works_in_a_virtual_environment() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let Some(python) = environment() else { return };
    let package = tempfile::tempdir().expect("a temporary folder");
    let folder = package.path().join("headtime");
    std::fs::create_dir(&folder).expect("the folder is ours");
    for entry in here.join("headtime").read_dir().expect("the package is there").flatten() {
        if entry.path().is_file() {
            std::fs::copy(entry.path(), folder.join(entry.file_name())).expect("a small file");
        }
    }
    std::fs::copy(library(), folder.join("_native.abi3.so")).expect("cargo has built the library");
    let tests = here.join("tests");
    let server = server(package.path());
    let comparison = comparison(package.path());
    let output = Command::new(python)
        .args(["-m", "unittest", "discover", "--start-directory"])
        .arg(&tests)
        // Python searches the working folder first.
        .current_dir(package.path())
        .env("PYTHONPATH", package.path())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("HEADTIME_TEST_CONTROL", server.control_socket().expect("it is beside the drive"))
        .env("HEADTIME_TEST_COMPARISON", comparison)
        .output()
        .expect("python was found");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert!(errors.contains("\nRan ") && !errors.contains("Ran 0 tests"), "{errors}");
    assert_eq!(server.drain(Duration::from_secs(10)).exit_code(), 0);
}

/// A server in this process, for the test of its control socket.
fn server(folder: &Path) -> Server {
    let path = |name: &str| folder.join(name).display().to_string();
    let flags = Flags {
        keys: vec![
            ("drive", path("drive.img")),
            ("create", "16MiB".to_owned()),
            ("listen", format!("unix:{}", path("nbd.sock"))),
        ],
        volumes: vec!["video=8MiB".to_owned()],
        ..Flags::default()
    };
    Server::start(&Config::from_flags(&flags).expect("valid flags")).expect("a server")
}

/// The folder of a comparison by the command `headtime compare`, which the tests run again.
fn comparison(folder: &Path) -> PathBuf {
    let out = folder.join("compared");
    let flags = ["--policies=fcfs,sptf", "--drives=atlas10k", "--workloads=random", "--depths=2,4"];
    let command =
        CompareArguments::augment_args(clap::Command::new("compare").no_binary_name(true));
    let matches = command.get_matches_from(
        flags
            .map(str::to_owned)
            .into_iter()
            .chain(["--requests=200".to_owned(), format!("--out={}", out.display())]),
    );
    let arguments = CompareArguments::from_arg_matches(&matches).expect("valid flags");
    compare::run(&arguments).expect("the runs succeed");
    out
}

/// The shared library, beside the test program.
fn library() -> PathBuf {
    let program = std::env::current_exe().expect("a test knows its program");
    program.with_file_name("libheadtime_python.so")
}

/// The interpreter of a virtual environment with the packages, made once for each target folder.
fn environment() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python");
    let python = folder.join("bin/python");
    let works = |python: &Path| {
        let import =
            format!("import sys, {}; assert sys.version_info >= (3, 11)", PACKAGES.join(", "));
        Command::new(python)
            .args(["-c", &import])
            .output()
            .is_ok_and(|output| output.status.success())
    };
    if works(&python) {
        return Some(python);
    }
    let made = Command::new("python3").args(["-m", "venv"]).arg(&folder).output();
    if !made.is_ok_and(|output| output.status.success()) {
        println!("skipped: python3 with venv is not installed");
        return None;
    }
    let _ = Command::new(&python)
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
        .args(PACKAGES)
        .output();
    if works(&python) {
        return Some(python);
    }
    println!("skipped: Python 3.11 with {} is not available", PACKAGES.join(" and "));
    None
}
