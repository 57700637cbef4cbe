//! Workload files: reading, writing, and errors.

use headtime_units::{Nanos, SectorSize, Sectors};
use headtime_workload::file::{
    ARRIVALS, Clients, KEYS, PLACES, PROCESSES, RUNS, Range, SIZES, THINKS, WorkloadFile,
};
use headtime_workload::{
    AddressPattern, Arrivals, BUILTINS, Chunks, Distance, FilesRead, Interarrival, Order, Process,
    RequestSource, SizeWeight, Sizes, SourceEvent, ThinkTime,
};

const CAPACITY: Sectors = Sectors::new(40_000_000);

const WHOLE: &str = r#"
description = "all keys"

[[stream]]
name = "recorder"
class = "realtime"
clients = 4
think = { kind = "uniform", least = "1ms", most = "3ms" }
reads = 0.5
zeroes = "5%"
discards = 0.1
flushes = 0.1
fua = 1
flush_every = 8
size = [{ size = "4KiB", weight = 3 }, { size = 8192 }]
write_size = { kind = "exponential", mean = "8KiB" }
range = "10%..50%"
place = { kind = "zipf", theta = 0.9, chunk = "64KiB", ordered = true }
align = "4KiB"
run = { kind = "fixed", requests = 1024 }
positions = 2
separate_runs = true
deadline = "100ms"
reserve = "25%"
limit = 0.5
weight = 3
burst = "500ms"
iops_limit = 200
bandwidth_limit = "50MB"
priority = "rt/2"
start = "10s"
stop = "1min"
requests = 1000
bytes = "1GiB"

[[stream]]
rate = 50.5
place = "uniform"
range = "1GiB.."

[[stream.size]]
size = "64KiB"

[[stream]]
name = "bursty"
clients = "depth"
arrivals = { kind = "bursts", rate = 100, on = "2s", off = "6s" }

[[stream]]
name = "search"
process = { kind = "chain", file = "12KiB", files = 40, passes = 2, read_ahead = "none" }
priority = "idle"

[[scan]]
max_impact = "2%"
idle = false
piece = "64KiB"
"#;

fn read(text: &str) -> WorkloadFile {
    WorkloadFile::from_toml("x.toml", text).unwrap_or_else(|errors| panic!("{errors}"))
}

#[test]
fn a_whole_file_is_read() {
    let file = read(WHOLE);
    let [recorder, second, bursty, search] = &file.streams[..] else {
        panic!("{:?}", file.streams)
    };
    assert_eq!(
        (file.description.as_deref(), recorder.name.as_str(), recorder.class(), recorder.line),
        (Some("all keys"), "recorder", "realtime", 4)
    );
    assert_eq!(recorder.clients, Some(Clients::Count(4)));
    assert_eq!(
        recorder.think,
        Some(ThinkTime::Uniform { min: Nanos::from_ms(1), max: Nanos::from_ms(3) })
    );
    let stream = &recorder.stream;
    assert_eq!(
        (stream.mix.reads, stream.mix.zeroes, stream.mix.fua, stream.flush_every),
        (0.5, 0.05, 1.0, Some(8))
    );
    let weighted =
        vec![SizeWeight { bytes: 4_096, weight: 3.0 }, SizeWeight { bytes: 8_192, weight: 1.0 }];
    assert_eq!(stream.sizes, Sizes::Weighted(weighted));
    assert_eq!(
        stream.write_sizes,
        Some(Sizes::Exponential { mean_bytes: 8_192, multiple_bytes: 4_096, max_bytes: 131_072 })
    );
    assert_eq!(recorder.range, Range::Shares { from: 0.1, to: 0.5 });
    assert_eq!(
        stream.place,
        AddressPattern::Zipf { theta: 0.9, chunks: Chunks { bytes: 65_536, ordered: true } }
    );
    assert_eq!(
        (stream.order, stream.positions, stream.separate_runs),
        (Order::FixedRuns { requests: 1_024 }, Some(2), true)
    );
    assert_eq!(
        (stream.deadline, stream.start, stream.stop),
        (Some(Nanos::from_ms(100)), Nanos::from_secs(10), Some(Nanos::from_secs(60)))
    );
    assert_eq!((stream.requests, stream.bytes), (Some(1_000), Some(1 << 30)));
    assert_eq!(
        (second.name.as_str(), second.class(), second.range),
        ("stream-2", "stream-2", Range::Bytes { from: 1 << 30, to: None })
    );

    assert_eq!(
        search.stream.process,
        Some(Process::Reads {
            files: FilesRead::Chain {
                sizes: Sizes::Fixed { bytes: 12_288 },
                count: Some(40),
                per_lookup: 32,
                spawn: Nanos::from_ms(1),
            },
            passes: Some(2),
            read_ahead_bytes: None,
        })
    );

    let arrivals = |number: usize| {
        file.streams[number].config(SectorSize::B512, CAPACITY, 9).unwrap().arrivals
    };
    assert_eq!(arrivals(1), Arrivals::Open(Interarrival::Poisson { per_second: 50.5 }));
    assert!(
        matches!(arrivals(2), Arrivals::Paced { clients: 9, .. }),
        "a rate and clients together make a paced loop"
    );
    assert_eq!(
        (bursty.takes_depth(), recorder.takes_depth(), second.takes_depth()),
        (true, false, false)
    );
    let range = file.streams[0].config(SectorSize::B512, CAPACITY, 9).unwrap().range.unwrap();
    assert_eq!((range.start.get(), range.end().get()), (4_000_000, 20_000_000));
}

#[test]
fn every_key_is_read_and_a_written_file_reads_back_the_same() {
    for key in KEYS {
        assert!(
            WHOLE.lines().any(|line| line.starts_with(&format!("{} =", key.name))),
            "{} is not tested",
            key.name
        );
        assert!(
            !key.summary.is_empty() && !key.takes.is_empty() && !key.default.is_empty(),
            "{} is not explained",
            key.name
        );
    }
    let without_lines = |file: &WorkloadFile| {
        let mut file = file.clone();
        file.streams.iter_mut().for_each(|stream| stream.line = 0);
        file
    };
    let builtins = BUILTINS.iter().map(|builtin| builtin.toml);
    for text in
        [WHOLE].into_iter().chain(builtins).map(ToString::to_string).chain(one_of_each_kind())
    {
        let file = read(&text);
        let written = file.to_toml();
        assert_eq!(without_lines(&read(&written)), without_lines(&file), "written as\n{written}");
        assert_eq!(read(&written).to_toml(), written);
    }
}

/// A text for each kind of every table, with values for its required keys.
fn one_of_each_kind() -> Vec<String> {
    fn text(key: &str, kind: &str, keys: &[headtime_workload::file::FieldHelp]) -> String {
        let value = |name: &str| match (key, name) {
            ("think", _) => "\"3ms\"",
            (_, "spots") => "[{ requests = 0.9, space = 0.1 }, { requests = \"5%\", space = 0.5 }]",
            (_, "on" | "off") => "\"2s\"",
            (_, "places") => "7",
            (_, "rate") => "40",
            (_, "requests" | "most") if key == "run" => "7",
            ("run", "mean") => "2.5",
            ("place", "mean") => "\"1.5%\"",
            _ => "\"64KiB\"",
        };
        let needed = keys
            .iter()
            .filter(|field| field.default == "must be given")
            .map(|field| format!(", {} = {}", field.name, value(field.name)));
        let think = if kind == "writer" { "size = \"1MiB\"\nthink = \"3ms\"\n" } else { "" };
        let mix = if kind == "files" { ", reads = 0.5, writes = 0.5, files = 100" } else { "" };
        format!(
            "[[stream]]\n{think}{key} = {{ kind = \"{kind}\"{mix}{} }}\n",
            needed.collect::<String>()
        )
    }
    let sizes = SIZES.iter().map(|kind| text("size", kind.name, kind.keys));
    let places = PLACES.iter().map(|kind| text("place", kind.name, kind.keys));
    let runs = RUNS.iter().map(|kind| text("run", kind.name, kind.keys));
    let arrivals = ARRIVALS.iter().map(|kind| text("arrivals", kind.name, kind.keys));
    let thinks = THINKS.iter().map(|kind| text("think", kind.name, kind.keys));
    let processes = PROCESSES.iter().map(|kind| text("process", kind.name, kind.keys));
    sizes.chain(places).chain(runs).chain(arrivals).chain(thinks).chain(processes).collect()
}

#[test]
fn every_kind_makes_requests() {
    for text in one_of_each_kind() {
        let mut workload = read(&text)
            .workload(SectorSize::B4096, Sectors::new(5_000_000), 1, 3)
            .unwrap_or_else(|errors| panic!("{text}: {errors}"));
        let mut requests = (0..3).map_while(|_| workload.arrival()).count();
        while let Some(event) = workload.event().filter(|_| requests < 3) {
            match event {
                SourceEvent::Request(_) => requests += 1,
                SourceEvent::Wake { at, client } => workload.wake(at, client),
                SourceEvent::Ended { .. } => {}
            }
        }
        assert_eq!(requests, 3, "{text}");
    }
}

/// Broken texts and their errors; the end of an error may be left out.
const BROKEN: &[(&str, &[&str])] = &[
    (
        "",
        &["x.toml:1:1: there is no stream; add one as [[stream]] with its keys on the lines below"],
    ),
    (
        "stream = 3",
        &["x.toml:1:10: write each stream as [[stream]] with its keys on the lines below"],
    ),
    (
        "color = 3\n[[stream]]\n",
        &["x.toml:1:1: unknown key `color`; known are description, [[stream]]"],
    ),
    (
        "[[stream]]\nname = \"a\"\nreads = 70\nsize = \"4 fortnights\"\ndeadline = 100\n",
        &[
            "x.toml:3:9: stream a: reads is 70, expected a share from 0 to 1; write it such as \
                reads = 0.7 or \"70%\"",
            "x.toml:4:8: stream a: size: `4 fortnights` has the unknown unit `fortnights`",
            "x.toml:5:12: stream a: deadline: `100` has no unit; expected ns",
        ],
    ),
    (
        "[[stream]]\nplace = { kind = \"zip\" }\nrun = { kind = \"fixed\", request = 3 }\n",
        &[
            "x.toml:2:18: stream stream-1: place.kind is \"zip\", expected uniform, fixed, zipf, \
                self-similar, hot-spots, normal or near; write it such as place.kind = \
                \"uniform\"",
            "x.toml:3:7: stream stream-1: run needs requests = …; add it",
            "x.toml:3:25: stream stream-1: run of kind fixed: unknown key `request`; known are \
                kind, requests",
        ],
    ),
    (
        "[[stream]]\nplace = 3\n",
        &["x.toml:2:9: stream stream-1: place is 3, expected uniform, fixed, zipf, \
                self-similar, hot-spots, normal or near; write it such as place = \"uniform\""],
    ),
    (
        "[[stream]]\nrange = \"50%..10%\"\n",
        &["x.toml:2:9: stream stream-1: range is \"50%..10%\", expected \"0%..50%\", \
                \"10GiB..100GiB\" or \"10GiB..\"; the first must lie before the second"],
    ),
    (
        "[[stream]]\nname = \"a\"\nrate = 5\nthink = \"3ms\"\n",
        &["x.toml:1:1: stream a: think has no meaning where requests come by a rate; remove \
                think, or the rate"],
    ),
    (
        "[[stream]]\nname = \"a\"\n[[stream]]\nname = \"a\"\n",
        &["x.toml:3:1: stream a appears twice; give each a name of its own"],
    ),
    (
        "[[stream]]\nclients = 0\n",
        &["x.toml:2:11: stream stream-1: clients is 0, expected a whole number from 1 to 1000000 \
                without quotes; write it such as clients = 1"],
    ),
    (
        "[[stream]]\nreads = 0.5\nprocess = \"reader\"\n",
        &["x.toml:1:1: stream stream-1: reads has no meaning for processes, which submit \
                requests by their kind; remove reads, or process"],
    ),
    (
        "[[stream]]\nprocess = { kind = \"chain\", passes = 0 }\n",
        &["x.toml:2:11: stream stream-1: process needs file = …; add it"],
    ),
    (
        "[[stream]]\nprocess = { kind = \"reader\", passes = 0, file = \"1GiB\", gap = 3 }\n",
        &[
            "x.toml:2:39: stream stream-1: process.passes is 0, expected a whole number from 1",
            "x.toml:2:57: stream stream-1: process of kind reader: unknown key `gap`; known are \
                kind, file, passes, read_ahead",
        ],
    ),
    (
        "[[stream]]\nlimit = \"10%\"\nreserve = 0.2\n",
        &["x.toml:1:1: stream stream-1: limit is below reserve; raise limit, or lower reserve"],
    ),
    (
        "[[stream]]\nreserve = 0.7\n[[stream]]\nreserve = \"50%\"\n",
        &["x.toml:1:1: the streams reserve 120 % of disk time; lower their reserve to 100 % \
                together"],
    ),
    (
        "[[stream]]\npriority = \"rt/8\"\nweight = 0\nreserve = 2\n",
        &[
            "x.toml:2:12: stream stream-1: priority is \"rt/8\", expected rt, be or idle, with a \
                level from 0 (most urgent) to 7 after it",
            "x.toml:3:10: stream stream-1: weight is 0, expected a whole number from 1 to 1000",
            "x.toml:4:11: stream stream-1: reserve is 2, expected a share from 0 to 1",
        ],
    ),
    (
        "[[stream]]\n[[scan]]\n[[scan]]\nimpact = 2\n",
        &["x.toml:3:1: there is a scan already; keep one, which reads the whole drive"],
    ),
    (
        "[[stream]]\nsize = [{ weight = 3 }]\n",
        &["x.toml:2:9: stream stream-1: size needs size = …; add it"],
    ),
];

#[test]
fn broken_texts_are_refused_with_every_position_and_a_remedy() {
    for (text, expected) in BROKEN {
        let errors = WorkloadFile::from_toml("x.toml", text).expect_err(text).to_string();
        let lines: Vec<&str> = errors.lines().collect();
        assert_eq!(lines.len(), expected.len(), "{errors}\nin\n{text}");
        for (line, expected) in lines.iter().zip(*expected) {
            assert!(line.starts_with(expected), "{line}\n{expected}\nin\n{text}");
        }
    }
    let errors =
        WorkloadFile::from_toml("x.toml", "[[stream]]\nsize = \n").unwrap_err().to_string();
    assert!(errors.starts_with("x.toml:2:"), "{errors}");
    let unknown =
        WorkloadFile::from_toml("x.toml", "[[stream]]\nsise = 3\n").unwrap_err().to_string();
    assert!(
        unknown.starts_with(
            "x.toml:2:1: stream stream-1: unknown key `sise`; known are name, class, clients"
        ),
        "{unknown}"
    );
}

#[test]
fn a_stream_that_does_not_suit_the_drive_is_reported_by_line_and_stream() {
    for (keys, expected) in [
        (
            "size = 1000",
            "x.toml:2:1: stream a: size is 1000 bytes, expected a multiple of the drive's sector \
                of 512 bytes",
        ),
        (
            "range = \"1TiB..\"",
            "x.toml:2:1: stream a: range LBA 2147483648..+0 does not lie on the drive, which has \
                40000000",
        ),
        (
            "range = \"100..2000\"",
            "x.toml:2:1: stream a: range is 100 to 2000 bytes, expected multiples of the drive's \
                sector of 512 bytes",
        ),
        (
            "place = { kind = \"zipf\", theta = 0 }",
            "x.toml:2:1: stream a: theta is 0, expected a number from 0.01 to 10",
        ),
        (
            "run = \"sequential\"\nplace = \"zipf\"",
            "x.toml:2:1: stream a: place is given, expected none for a stream that passes \
                through its range",
        ),
        (
            "start = \"5s\"\nstop = \"5s\"",
            "x.toml:2:1: stream a: stop is 5.000 s, expected later than the start, 5.000 s",
        ),
        (
            "process = { kind = \"reader\", file = \"1TiB\" }\nclients = 4",
            "x.toml:2:1: stream a: file is 1099511627776 bytes, expected at most a client's part \
                of the range, 5120000000 bytes; widen the range, or lower clients or the size",
        ),
        (
            "process = { kind = \"chain\", file = \"1000\" }",
            "x.toml:2:1: stream a: size is 1000 bytes, expected a multiple of the drive's sector",
        ),
        ("process = \"writer\"", "x.toml:2:1: stream a: think is none, expected a time above 0"),
        (
            "process = { kind = \"writer\", file = \"64MiB\" }\nthink = \"1ms\"",
            "x.toml:2:1: stream a: file is 67108864 bytes, expected more than the background \
                limit of 107374080 bytes",
        ),
        (
            "process = { kind = \"writer\", limit = \"5%\" }\nthink = \"1ms\"",
            "x.toml:2:1: stream a: background is 0.1, expected no more than the limit, 0.05",
        ),
        (
            "process = { kind = \"writer\", queue = 8 }\nthink = \"1ms\"",
            "x.toml:2:1: stream a: batch is 4194304 bytes, expected 1 to 8 requests of 131072 \
                bytes; lower batch, or raise queue",
        ),
        (
            "process = { kind = \"files\", reads = 0.8 }",
            "x.toml:2:1: stream a: sum of reads, writes, creates, appends and deletes is 0.8, \
                expected 1; correct one of the shares",
        ),
        (
            "process = { kind = \"files\", reads = 1 }\nrange = \"0..64MiB\"",
            "x.toml:2:1: stream a: files is 100000, expected as many as fit into the range of \
                67108864 bytes with a journal of 33554432 bytes; widen the range",
        ),
        (
            "arrivals = { kind = \"constant\", rate = 0 }",
            "x.toml:2:1: stream a: interarrival time is",
        ),
    ] {
        let file = read(&format!("\n[[stream]]\nname = \"a\"\n{keys}\n"));
        let message = file.workload(SectorSize::B512, CAPACITY, 1, 1).unwrap_err().to_string();
        assert!(message.starts_with(expected), "{keys}: {message}");
    }
}

#[test]
fn keys_of_a_flag_apply_to_one_stream_or_to_all() {
    let file = BUILTINS.iter().find(|builtin| builtin.name == "vm-mix").unwrap().load().unwrap();
    let changed = file
        .clone()
        .with("flag", "copy.size=1MiB,reads=0.25,guests.place={kind=\"near\",mean=\"1%\"}")
        .unwrap();
    let size = |name: &str| {
        changed.streams.iter().find(|stream| stream.name == name).unwrap().stream.sizes.clone()
    };
    assert_eq!(
        (size("copy"), size("boot")),
        (Sizes::Fixed { bytes: 1 << 20 }, Sizes::Fixed { bytes: 32_768 })
    );
    assert!(changed.streams.iter().all(|stream| stream.stream.mix.reads == 0.25));
    assert_eq!(
        changed.streams[0].stream.place,
        AddressPattern::Near { mean: Distance::Share(0.01), jumps: 0.0 }
    );

    let dot = "[[stream]]\nname = \"db.log\"\n";
    let dot = WorkloadFile::from_toml("x.toml", dot).unwrap();
    let dot = dot.with("flag", "db.log.size=8KiB").unwrap_or_else(|errors| panic!("{errors}"));
    assert_eq!(dot.streams[0].stream.sizes, Sizes::Fixed { bytes: 8_192 });

    let random = || BUILTINS[0].load().unwrap();
    let open = random().with("flag", "rate=50,size=8KiB,range=0%..50%").unwrap();
    assert!(!open.takes_depth() && random().takes_depth(), "a rate makes an open loop of it");
    let dotted =
        random().with("flag", "place.kind=zipf").unwrap_or_else(|errors| panic!("{errors}"));
    assert!(matches!(dotted.streams[0].stream.place, AddressPattern::Zipf { .. }));
    for (pairs, expected) in [
        ("size=4 fortnights", "flag: stream random: size: `4 fortnights`"),
        ("sise=4KiB", "flag: stream random: unknown key `sise`"),
        ("size", "flag: stream random: size: ``"),
        ("x.size=4KiB", "flag: there is no stream `x`; known are random"),
        ("rate=5,think=3ms", "flag: stream random: think has no meaning"),
        ("", "flag: "),
        ("=", "flag: "),
    ] {
        let message = random().with("flag", pairs).unwrap_err().to_string();
        assert!(message.starts_with(expected), "{pairs}: {message}");
    }
}

#[test]
fn no_text_makes_the_reader_panic() {
    // Every prefix of a valid text, and the text with each byte replaced. Fuzzing tests more.
    for end in (0..WHOLE.len()).filter(|end| WHOLE.is_char_boundary(*end)) {
        let _ = WorkloadFile::from_toml("x.toml", &WHOLE[..end]);
    }
    for at in 0..WHOLE.len() {
        for replacement in ["[", "\"", "-", "9", "."] {
            let text = format!("{}{replacement}{}", &WHOLE[..at], &WHOLE[at + 1..]);
            if let Ok(file) = WorkloadFile::from_toml("x.toml", &text) {
                let _ = file.workload(SectorSize::B512, CAPACITY, 1, 1);
            }
        }
    }
}
