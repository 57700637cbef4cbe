//! `headtime volume` and `headtime top` through the real program: made, refused, shown, removed,
//! and still there after a restart.

#[path = "common/program.rs"]
mod program;

use program::{Program, headtime, text, words};
use rustix::process::Signal;

/// The output of the program and its exit code.
fn run(arguments: &[&str]) -> (Option<i32>, String) {
    let output = headtime(arguments);
    (
        output.status.code(),
        format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        ),
    )
}

#[test]
fn volumes_are_made_shown_refused_and_removed_from_the_command_line() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (image, socket) = (folder.path().join("drive.img"), folder.path().join("nbd.sock"));
    let drive = text(&image);
    let start = |more: &[&str]| {
        let line = format!(
            "serve --drive {drive} --listen unix:{} --policy utilization --print-uri",
            text(&socket)
        );
        let mut server = Program::start(&[&words(&line)[..], more].concat());
        server.line();
        server
    };
    let server = start(&["--create", "64MiB", "--volume", "a=8MiB"]);
    let volume = |words: &[&str]| run(&[&["volume"], words, &["--drive", drive]].concat());

    let (code, said) = volume(&["add", "b", "16MiB", "reserve=25%", "limit=50%", "--dry-run"]);
    assert!(
        code == Some(0)
            && said.contains("nothing was changed")
            && said.contains("75 % of the drive's time"),
        "{said}"
    );
    let (code, said) = volume(&["add", "b", "16MiB", "reserve=25%", "limit=50%", "deadline=100ms"]);
    assert!(code == Some(0) && !said.contains("note:"), "{said}");
    volume(&["add", "b@bulk", "limit=10%"]);
    let (code, said) = volume(&["set", "a", "reserve=80%"]);
    assert!(code == Some(2) && said.contains("75 % is free"), "{code:?}: {said}");
    let (_, said) = volume(&["list"]);
    for expected in ["EXPORT", "b@bulk", "50 %", "100 ms", "idle"] {
        assert!(said.contains(expected), "{expected} is not in\n{said}");
    }
    let class = said.lines().find(|line| line.starts_with("b@bulk")).expect("it is listed");
    let class = class.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(class.starts_with("b@bulk – 10 % "), "it has no reservation: {class}");
    let (code, said) = volume(&["grow", "a", "+8MiB"]);
    assert!(
        code == Some(0)
            && said.contains("2 extents")
            && said.contains("extents of a: LBA 2048..+16384, LBA 51200..+16384"),
        "{code:?}: {said}"
    );
    let (_, said) = run(&["status", "--drive", drive]);
    assert!(said.contains("extents of a: LBA 2048..+16384, LBA 51200..+16384"), "{said}");
    for (export, shares) in [("a ", "- -"), ("b ", "25 % 50 %"), ("b@bulk ", "- 10 %")] {
        let line = said.lines().rev().find(|line| line.starts_with(export)).expect("it is listed");
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(line.ends_with(&format!(" % {shares}")), "{line}");
    }
    let (code, said) = volume(&["grow", "a", "1GiB"]);
    assert!(code == Some(2) && said.contains("can have at most"), "{code:?}: {said}");
    let (code, said) = volume(&["grow", "a", "4MiB"]);
    assert!(code == Some(2) && said.contains("shrink it with `volume set`"), "{code:?}: {said}");
    // The two extents of a become one.
    let (code, said) = volume(&["relocate", "a"]);
    assert!(code == Some(2) && said.contains("--to <WHERE>"), "{code:?}: {said}");
    let (code, said) = volume(&["relocate", "a", "--cancel"]);
    assert!(code == Some(2) && said.contains("nothing to cancel"), "{code:?}: {said}");
    let (code, said) = volume(&["relocate", "a", "--wait"]);
    assert!(code == Some(2) && said.contains("nothing to wait for"), "{code:?}: {said}");
    let (code, said) = volume(&["relocate", "a", "--wait", "--force"]);
    assert!(code == Some(2) && said.contains("--to <WHERE>"), "{code:?}: {said}");
    let to = ["relocate", "a", "--to", "largest-gap", "--max-impact", "2%", "--wait"];
    let (code, said) = volume(&to);
    assert!(
        code == Some(0)
            && said.contains("note: 16 MiB of a move from ")
            && said.contains("relocation of a: 16 MiB to LBA ")
            && said.contains(": complete after "),
        "{code:?}: {said}"
    );
    // The last one is over already.
    let (code, said) = volume(&["relocate", "a", "--wait"]);
    assert!(code == Some(0) && said.contains(": complete after "), "{code:?}: {said}");
    let (code, said) = run(&["status", "--drive", drive]);
    assert!(code == Some(0) && said.contains(": complete after "), "{said}");
    let (_, said) = volume(&["show", "a"]);
    assert!(said.contains("writes were held") && !said.contains("extents of a"), "{said}");
    let output = headtime(&["volume", "show", "b", "--json", "--drive", drive]);
    let shown: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    assert_eq!(
        (&shown["volumes"][0]["classes"][0]["reserve_percent"], &shown["volumes"][0]["size_bytes"]),
        (&25.0.into(), &(16 << 20).into())
    );
    let (code, said) = run(&["top", "--seconds", "1", "--drive", drive]);
    assert!(
        code == Some(0)
            && said.contains("policy utilization")
            && said.contains("b@bulk")
            && said.contains("PROMISED"),
        "{said}"
    );
    // Without a reader it ends.
    let mut top = std::process::Command::new(env!("CARGO_BIN_EXE_headtime"))
        .args(["top", "--json", "--seconds", "600", "--drive", drive])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("the program starts");
    drop(top.stdout.take());
    let begun = std::time::Instant::now();
    assert!(top.wait().expect("it is ours").success());
    assert!(begun.elapsed().as_secs() < 300);
    let (code, said) = volume(&["remove", "c", "--yes"]);
    assert!(code == Some(2) && said.contains("no volume c"), "{said}");
    server.signal(Signal::TERM);
    assert!(server.end().0.success());

    let server = start(&["--volume", "a"]);
    let (code, said) = volume(&["remove", "b", "--yes"]);
    assert!(code == Some(0) && said.contains("100 % of the drive's time"), "{said}");
    let (_, said) = volume(&["list"]);
    assert!(said.contains("a ") && !said.contains("b@bulk"), "{said}");
    server.signal(Signal::TERM);
    assert!(server.end().0.success());
    let (code, said) = volume(&["list"]);
    assert!(code == Some(1) && said.contains("is `headtime serve` running"), "{said}");
}
