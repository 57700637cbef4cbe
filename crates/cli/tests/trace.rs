//! `headtime trace` as people use it: reports, conversions and refusals.

#[path = "common/program.rs"]
mod program;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use headtime_lab::traces::{ReplayArguments, TraceArguments, TraceChoice, TraceOptions};
use headtime_units::{SectorSize, Sectors};
use headtime_workload::trace::{Adjust, FORMATS, Remap, Replay, ReplayOptions};
use headtime_workload::{Arrival, RequestSource};
use program::{headtime, json, stderr, stdout, text, words};
use tempfile::TempDir;

const SPC: &str = "0,0,4096,R,10.0\n0,8,4096,R,10.5\n1,4000,512,W,11.0\n0,16,8192,R,14.0\n";

fn folder() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn file(folder: &TempDir, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).expect("it can be written");
    path
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(bytes).expect("memory takes it");
    packer.finish().expect("memory takes it")
}

#[test]
fn info_says_what_a_trace_is_made_of() {
    let folder = folder();
    let trace = file(&folder, "a.spc", SPC);
    let info = json(&headtime(&["trace", "info", text(&trace), "--json"]));
    assert_eq!(
        (&info["format"], &info["recognized_by"]),
        (&"spc".into(), &"4 of the first 4 lines".into())
    );
    assert_eq!(
        (info["requests"].as_u64(), info["duration_s"].as_f64(), info["rate_per_s"].as_f64()),
        (Some(4), Some(4.0), Some(1.0))
    );
    assert_eq!(info["operations"]["read"]["bytes"].as_u64(), Some(16_384));
    assert_eq!(info["sequential"].as_f64(), Some(0.5));
    assert_eq!(info["devices"][1]["end_byte"].as_u64(), Some(4000 * 512 + 512));
    assert_eq!(
        (info["size_bytes"]["p50"].as_f64(), info["size_bytes"]["max"].as_f64()),
        (Some(4096.0), Some(8192.0))
    );
    assert_eq!(info["reading"]["damaged"].as_u64(), Some(0));
    let table = headtime(&["trace", "info", text(&trace)]);
    let table = stdout(&table);
    assert!(
        table.contains("format      spc (SPC traces")
            && table.contains("lasts       4.000 s, 1.0 requests/s"),
        "{table}"
    );
}

#[test]
fn info_reads_packed_files_several_files_and_standard_input_alike() {
    let folder = folder();
    let (first, second) = SPC.split_at(32);
    let whole = file(&folder, "whole", SPC);
    let gz = file(&folder, "parts.gz", [gzip(first.as_bytes()), gzip(second.as_bytes())].concat());
    let zst = file(
        &folder,
        "whole.zst",
        zstd::stream::encode_all(SPC.as_bytes(), 1).expect("memory takes it"),
    );
    let lines: Vec<&str> = SPC.lines().collect();
    let odd = file(&folder, "cpu0", [lines[0], lines[2]].join("\n"));
    let even = file(&folder, "cpu1", gzip([lines[1], lines[3]].join("\n").as_bytes()));
    let empty = file(&folder, "cpu2", "");
    let figures = |output: Output| {
        let mut info = json(&output);
        let object = info.as_object_mut().expect("an object");
        object.remove("files");
        object.remove("recognized_by");
        info
    };
    let expected = figures(headtime(&["trace", "info", text(&whole), "--json"]));
    assert_eq!(figures(headtime(&["trace", "info", text(&gz), "--json"])), expected);
    assert_eq!(figures(headtime(&["trace", "info", text(&zst), "--json"])), expected);
    assert_eq!(
        figures(headtime(&["trace", "info", text(&empty), text(&odd), text(&even), "--json"])),
        expected
    );
    assert_eq!(figures(fed(&["trace", "info", "-", "--json"], &gzip(SPC.as_bytes()))), expected);
    assert_eq!(
        figures(fed(
            &["trace", "info", text(&even), "-", "--json"],
            [lines[0], lines[2]].join("\n").as_bytes()
        )),
        expected
    );
    #[cfg(target_os = "linux")]
    assert_eq!(
        figures(fed(&["trace", "info", "/dev/stdin", "--json"], SPC.as_bytes())),
        expected,
        "a pipe by its name is read once as well"
    );
}

/// Runs the program with these bytes on its standard input.
fn fed(arguments: &[&str], bytes: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_headtime"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program was built");
    child.stdin.take().expect("its input is piped").write_all(bytes).expect("it reads");
    child.wait_with_output().expect("it ends")
}

#[test]
fn requests_of_no_bytes_are_counted() {
    let folder = folder();
    let trace = file(&folder, "empty.spc", "0,0,4096,R,0\n0,16,0,R,0.01\n0,32,0,W,0.02\n");
    let info = headtime(&["trace", "info", text(&trace)]);
    let said = stdout(&info);
    assert!(said.contains("2 requests of no bytes, which a replay leaves out"), "{said}");
    let out = folder.path().join("out.spc");
    let convert = ["trace", "convert", text(&trace), "--to", "spc", "--out", text(&out)];
    let converted = headtime(&convert);
    let said = stdout(&converted);
    assert!(said.contains("3 requests of ") && said.contains("2 requests of no bytes"), "{said}");
}

#[test]
fn a_closed_pipe_does_not_change_the_exit_code() {
    let folder = folder();
    let damaged = file(&folder, "damaged.spc", format!("{SPC}damaged\n"));
    for (arguments, expected) in [
        (&["trace", "info", text(&damaged)][..], 0),
        (&["trace", "info", "none.spc"], 2),
        (&["sim", "--policy", "none"], 2),
        (&["sim", "--trace", text(&damaged), "--drive", "atlas10k"], 0),
    ] {
        // A pipe without a reader.
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut program = Command::new(env!("CARGO_BIN_EXE_headtime"));
        program.args(arguments).stdin(Stdio::null());
        program.stdout(writer.try_clone().expect("a copy")).stderr(writer);
        let code = program.status().expect("the program was built").code();
        let with_reader = headtime(arguments).status.code();
        assert_eq!((code, with_reader), (Some(expected), Some(expected)), "{arguments:?}");
    }
}

#[test]
fn damaged_lines_are_said_ten_times_and_counted_or_refused() {
    let folder = folder();
    let bad: String = (0..12).map(|number| format!("damaged {number}\n")).collect();
    let trace = file(&folder, "a.spc", format!("{}{bad}", SPC.repeat(4)));
    let lenient = headtime(&["trace", "info", text(&trace), "--json"]);
    assert_eq!(
        (json(&lenient)["requests"].as_u64(), json(&lenient)["reading"]["damaged"].as_u64()),
        (Some(16), Some(12))
    );
    let messages: Vec<&str> = stderr(&lenient).lines().collect();
    assert_eq!(messages.len(), 11, "{messages:#?}");
    assert!(
        messages[0].starts_with(&format!(
            "headtime: {}:17: 1 fields, expected the 5 of `unit,lba,",
            text(&trace)
        )),
        "{}",
        messages[0]
    );
    assert_eq!(
        messages[10],
        "headtime: 12 damaged lines or records in all, of which the first 10 are said above"
    );
    let strict = headtime(&["trace", "info", text(&trace), "--strict"]);
    assert_eq!(strict.status.code(), Some(1));
    let message = stderr(&strict);
    assert!(
        message.starts_with(&format!("headtime: {}:17: ", text(&trace)))
            && message.trim_end().ends_with("(--strict)"),
        "{message}"
    );
    assert!(strict.stdout.is_empty());
}

#[test]
fn what_makes_no_sense_is_refused_with_exit_code_2() {
    let folder = folder();
    let message = file(&folder, "message", "Dear Sir,\nplease find 3 enclosed\n");
    let empty = file(&folder, "empty", "");
    let spc = file(&folder, "a.spc", SPC);
    let out = folder.path().join("out");
    let missing = folder.path().join("missing");
    for (arguments, expected) in [
        (
            &["trace", "info", text(&message)][..],
            "has no known format: no line or record fits any; name the format if it \
                is one of blkparse",
        ),
        (&["trace", "info", text(&empty)], "is empty; expected a trace"),
        (&["trace", "info", text(folder.path())], "is a directory; expected a file"),
        (&["trace", "info", text(&missing)], "cannot be opened: No such file or directory"),
        (
            &["trace", "info", text(&spc), "--format", "csv"],
            "expected one of blkparse, blktrace, fio2",
        ),
        (
            &["trace", "convert", text(&spc), "--to", "csv", "--out", text(&out)],
            "expected one of blkparse",
        ),
        (
            &words(&format!(
                "trace convert {} --to msr --out {} --remap wrap",
                text(&spc),
                text(&out)
            )),
            "add --capacity SIZE",
        ),
        (
            &words(&format!(
                "trace convert {} --to msr --out {} --capacity 1MiB",
                text(&spc),
                text(&out)
            )),
            "is for 512 bytes from 2048000, but the drive ends at 1048576",
        ),
        (
            &words(&format!(
                "trace convert - --to msr --out {} --capacity 1MiB --remap scale",
                text(&out)
            )),
            "read the trace twice",
        ),
    ] {
        let output = headtime(arguments);
        let message = stderr(&output);
        assert!(
            output.status.code() == Some(2) && message.contains(expected),
            "{arguments:?}: {:?} {message}",
            output.status
        );
        assert!(!out.exists(), "{arguments:?} left a file");
    }
    assert!(
        stderr(&headtime(&["trace", "info", text(&message)]))
            .contains("--format NAME (headtime trace formats)")
    );
}

#[test]
fn a_trace_is_converted_to_every_format_and_read_back() {
    let folder = folder();
    let trace = file(&folder, "a.spc", SPC);
    for format in FORMATS {
        for ending in ["", ".gz", ".zst"] {
            let out = folder.path().join(format!("{}{ending}", format.name));
            let answer = json(&headtime(&words(&format!(
                "trace convert {} --to {} --out {} --json",
                text(&trace),
                format.name,
                text(&out)
            ))));
            assert_eq!(answer["written"].as_u64(), Some(4), "{}", format.name);
            let info = json(&headtime(&["trace", "info", text(&out), "--json"]));
            assert_eq!(
                (&info["format"], info["requests"].as_u64()),
                (&format.name.into(), Some(4))
            );
            assert_eq!(info["duration_s"].as_f64(), Some(4.0), "{} has all its times", format.name);
        }
    }
}

#[test]
fn convert_says_what_the_format_cannot_say_and_replaces_a_file_only_by_a_whole_one() {
    let folder = folder();
    let trace = file(
        &folder,
        "a.log",
        "fio version 3 iolog\n0 /a add\n5 /a write 100 1000\n1500000 /a sync 0 0\n2500000 /a read \
            512 512\n",
    );
    let out = folder.path().join("out");
    std::fs::write(&out, "before").expect("it can be written");
    let done =
        headtime(&["trace", "convert", text(&trace), "--to", "tencent", "--out", text(&out)]);
    let expected = format!(
        "{out}: 2 requests of {trace} written as tencent\n{out}: 1 flushes dropped\n{out}: 1 \
            times rounded down to the format's unit\n\
         {out}: 1 addresses widened to the format's unit\n",
        out = text(&out),
        trace = text(&trace)
    );
    assert_eq!(stdout(&done), expected);
    assert_eq!(std::fs::read_to_string(&out).expect("it is there"), "0,0,3,1,0\n2,1,1,0,0\n");
    let refused = headtime(&words(&format!(
        "trace convert {} --to spc --out {} --process 9",
        text(&trace),
        text(&out)
    )));
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        stderr(&refused).contains("is not written: no request is left that spc can express"),
        "{}",
        stderr(&refused)
    );
    assert_eq!(std::fs::read_to_string(&out).expect("it is there"), "0,0,3,1,0\n2,1,1,0,0\n");
    assert_eq!(
        std::fs::read_dir(folder.path()).expect("it can be read").count(),
        2,
        "nothing is left beside it"
    );
}

#[test]
fn convert_cuts_stretches_and_maps() {
    let folder = folder();
    let trace = file(&folder, "a.spc", SPC);
    let out = folder.path().join("out");
    let converted = |more: &[&str]| {
        let arguments =
            [&["trace", "convert", text(&trace), "--to", "spc", "--out", text(&out)], more]
                .concat();
        let done = headtime(&arguments);
        assert!(done.status.success(), "{more:?}: {}", stderr(&done));
        std::fs::read_to_string(&out).expect("it was written")
    };
    assert_eq!(converted(&["--device", "1"]), "1,4000,512,W,0.000000000\n");
    assert_eq!(
        converted(&["--from", "500ms", "--until", "2s", "--time-scale", "10"]),
        "0,8,4096,R,0.000000000\n1,4000,512,W,5.000000000\n"
    );
    assert_eq!(converted(&["--skip", "1", "--take", "1"]), "0,8,4096,R,0.000000000\n");
    // 4000 modulo 2048 sectors.
    assert_eq!(
        converted(&["--device", "1", "--remap", "wrap", "--capacity", "1MiB"]),
        "0,1952,512,W,0.000000000\n"
    );
    // A request of half a KiB is one sector of 4 KiB.
    assert_eq!(
        converted(&["--device", "1", "--capacity", "4MiB", "--sector", "4096"]),
        "0,4000,4096,W,0.000000000\n"
    );
    assert_eq!(
        converted(&["--device", "1", "--remap", "compact", "--capacity", "1MiB"]),
        "0,1952,512,W,0.000000000\n"
    );
    assert_eq!(
        converted(&["--capacity", "1MiB", "--drop-misfits", "--take", "3"]),
        "0,0,4096,R,0.000000000\n0,8,4096,R,0.500000000\n"
    );
}

#[test]
fn formats_lists_the_whole_table() {
    let table = headtime(&["trace", "formats"]);
    let names: Vec<&str> =
        stdout(&table).lines().filter_map(|line| line.split_whitespace().next()).collect();
    let expected: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
    assert_eq!(names, expected);
    let list = json(&headtime(&["trace", "formats", "--json"]));
    assert_eq!(list.as_array().map(Vec::len), Some(FORMATS.len()));
}

/// The page is for people and the table for the program; each names all that the other names.
#[test]
fn the_documentation_and_the_table_name_the_same_formats_with_the_same_shapes() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/traces.md");
    let page = std::fs::read_to_string(path).expect("docs/traces.md is there");
    let rows: Vec<&str> =
        page.lines().filter(|line| line.starts_with("| `") && !line.starts_with("| `--")).collect();
    for format in FORMATS {
        let shape = format.shape.replace('|', "\\|");
        let row = rows.iter().find(|row| row.starts_with(&format!("| `{}` |", format.name)));
        let row = row.unwrap_or_else(|| panic!("docs/traces.md has no row for {}", format.name));
        assert!(
            row.contains(&format!("`{shape}`")),
            "docs/traces.md says `{row}`, the table `{}`",
            format.shape
        );
    }
    assert_eq!(
        rows.len(),
        FORMATS.len(),
        "docs/traces.md names a format that the table does not have"
    );
}

fn choice(folder: &TempDir, bytes: &str, options: TraceOptions) -> TraceChoice {
    TraceChoice::open(&[file(folder, "trace", bytes)], options).expect("it is a trace")
}

fn arrivals(source: &mut (impl RequestSource + ?Sized)) -> Vec<Arrival> {
    std::iter::from_fn(|| source.arrival()).collect()
}

#[test]
fn a_trace_is_a_source_as_often_as_it_is_asked_for() {
    let folder = folder();
    let trace =
        choice(&folder, SPC, TraceOptions { remap: Remap::Scale, ..TraceOptions::default() });
    let once =
        arrivals(&mut trace.source(SectorSize::B4096, Sectors::new(1 << 20)).expect("it fits").0);
    let (mut again, report) =
        trace.source(SectorSize::B4096, Sectors::new(1 << 20)).expect("it fits");
    assert_eq!(arrivals(&mut again), once);
    assert_eq!(once.len(), 4);
    let summary = report.summary();
    assert_eq!((summary.read, summary.issued, summary.widened, summary.damaged), (4, 4, 1, 0));
    assert!(report.check().is_ok());
}

#[test]
fn a_misfit_ends_the_replay_and_the_report_says_which() {
    let folder = folder();
    let trace = choice(&folder, SPC, TraceOptions::default());
    let (mut source, report) =
        trace.source(SectorSize::B512, Sectors::new(1000)).expect("it is only seen on the way");
    assert_eq!(arrivals(&mut source).len(), 2);
    let message = report.check().expect_err("the third lies past the end").message();
    assert!(
        message.contains(
            "trace: the request of line or record 3 is for 512 bytes from \
        2048000, but the drive ends at 512000"
        ),
        "{message}"
    );
}

#[test]
fn fingerprints_tell_files_and_options_apart_and_nothing_else() {
    let folder = folder();
    let fingerprint = |bytes: &str, options: TraceOptions| {
        choice(&folder, bytes, options).fingerprint().expect("it is a file")
    };
    let plain = fingerprint(SPC, TraceOptions::default());
    assert_eq!(fingerprint(SPC, TraceOptions::default()), plain);
    assert_eq!(
        fingerprint(SPC, TraceOptions { strict: true, ..TraceOptions::default() }),
        plain,
        "it changes no request"
    );
    assert_ne!(fingerprint(&SPC.replace("14.0", "14.1"), TraceOptions::default()), plain);
    assert_ne!(
        fingerprint(
            SPC,
            TraceOptions {
                adjust: Adjust { skip: 1, ..Adjust::default() },
                ..TraceOptions::default()
            }
        ),
        plain
    );
    let closed =
        ReplayOptions { replay: Replay::Closed { outstanding: 4 }, ..ReplayOptions::default() };
    assert_ne!(fingerprint(SPC, TraceOptions { replay: closed, ..TraceOptions::default() }), plain);
}

#[test]
fn the_flags_of_reading_and_replaying_make_these_options() {
    #[derive(clap::Parser)]
    struct Flags {
        #[command(flatten)]
        reading: TraceArguments,
        #[command(flatten)]
        replay: ReplayArguments,
    }
    let flags = <Flags as clap::Parser>::try_parse_from(
        "x --replay closed:8 --remap wrap --streams process --drop-misfits --take 5".split(' '),
    );
    let flags = flags.unwrap_or_else(|error| panic!("{error}"));
    let options = flags.reading.replaying(&flags.replay, None);
    assert_eq!(
        (options.remap, options.drop_misfits, options.adjust.take),
        (Remap::Wrap, true, Some(5))
    );
    assert_eq!(options.replay.replay, Replay::Closed { outstanding: 8 });
    assert!(options.format.is_none() && !options.strict);
}

/// A trace of any length takes the same memory: what the kernel counted at most after 8 MiB is what
/// it counted after 64.
#[cfg(target_os = "linux")]
#[test]
fn the_memory_of_reading_does_not_grow_with_the_trace() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_headtime"))
        .args(["trace", "info", "-", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program was built");
    let mut input = child.stdin.take().expect("its input is piped");
    let status = format!("/proc/{}/status", child.id());
    let peak_kib = || -> u64 {
        let status = std::fs::read_to_string(&status).expect("it still runs");
        let line =
            status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux counts it");
        line.trim().trim_end_matches(" kB").parse().expect("a number")
    };
    let mut lines = 0_u64;
    let mut feed = |mib: usize| {
        // Lines with times that grow, of several devices and processes.
        let mut fed = 0;
        while fed < mib << 20 {
            let block: String = (0..1000)
                .map(|_| {
                    lines += 1;
                    format!("{},{},4096,R,{}.5\n", lines % 7, lines * 8, lines)
                })
                .collect();
            input.write_all(block.as_bytes()).expect("it reads");
            fed += block.len();
        }
        lines
    };
    feed(8);
    let before = peak_kib();
    let lines = feed(56);
    let after = peak_kib();
    drop(input);
    let info = json(&child.wait_with_output().expect("it ends"));
    assert_eq!(info["requests"].as_u64(), Some(lines));
    assert!(after < before + 4096, "{before} KiB after 8 MiB, {after} KiB after 64 MiB");
}

#[test]
fn reports_may_be_read_from_another_thread() {
    fn is_shared<T: Send + Sync>(_: &T) {}
    let folder = folder();
    let trace = Arc::new(choice(&folder, SPC, TraceOptions::default()));
    is_shared(&trace);
    let (source, report) = trace.source(SectorSize::B512, Sectors::new(1 << 20)).expect("it fits");
    is_shared(&report);
    let issued = std::thread::spawn(move || arrivals(&mut { source }).len())
        .join()
        .expect("it does not panic");
    assert_eq!((issued, report.summary().issued), (4, 4));
}
