//! fio job files: the resulting streams, unsupported options, and a comparison with fio itself.

use std::process::Command;

use headtime_units::{Nanos, SectorSize, Sectors};
use headtime_workload::file::{Clients, Range, StreamPlan, WorkloadFile};
use headtime_workload::{
    AddressPattern, Alignment, Interarrival, Mix, Order, RequestSource, SizeWeight, Sizes,
    ThinkTime, fio,
};

const DATABASE: &str = include_str!("fio/database.fio");
const RECORDER: &str = include_str!("fio/recorder.fio");
const SEQUENCE: &str = include_str!("fio/sequence.fio");
const SPLIT: &str = include_str!("fio/split.fio");

fn read(text: &str) -> WorkloadFile {
    fio::read("x.fio", text).unwrap_or_else(|errors| panic!("{errors}"))
}

/// The streams of one job with these options on a device.
fn streams(options: &str) -> Vec<StreamPlan> {
    read(&format!(
        "[job]\nfilename=/dev/sdx\ndirect=1\nioengine=libaio\n{}\n",
        options.replace(' ', "\n")
    ))
    .streams
}

fn stream(options: &str) -> StreamPlan {
    let [stream] = &streams(options)[..] else {
        panic!("{options} makes {} streams", streams(options).len())
    };
    stream.clone()
}

#[test]
fn a_database_beside_a_backup() {
    let file = read(DATABASE);
    let [database, backup] = &file.streams[..] else { panic!("{:?}", file.streams) };
    assert_eq!(
        (database.name.as_str(), database.clients),
        ("database", Some(Clients::Count(64))),
        "four jobs of sixteen on one device are 64 clients"
    );
    assert_eq!(database.stream.mix.reads, 0.7);
    assert_eq!(
        (database.stream.sizes.clone(), database.stream.stop),
        (Sizes::Fixed { bytes: 8_192 }, Some(Nanos::from_secs(60)))
    );
    assert!(matches!(database.stream.place, AddressPattern::Zipf { theta, .. } if theta == 1.2));
    assert_eq!(
        (backup.stream.order, backup.clients, backup.stream.positions),
        (Order::Sequential, Some(Clients::Count(2)), Some(1))
    );
    assert_eq!(
        (backup.stream.start, backup.stream.sizes.clone()),
        (Nanos::from_secs(10), Sizes::Fixed { bytes: 1 << 20 })
    );
    assert!(file.notes.is_empty(), "{:?}", file.notes);
}

#[test]
fn recorders_write_consecutive_files_at_their_rate() {
    let file = read(RECORDER);
    let cameras: Vec<&StreamPlan> =
        file.streams.iter().filter(|stream| stream.class() == "camera").collect();
    assert_eq!(
        cameras.iter().map(|stream| stream.name.as_str()).collect::<Vec<_>>(),
        ["camera.0", "camera.1", "camera.2"]
    );
    let ranges: Vec<Range> = cameras.iter().map(|stream| stream.range).collect();
    let gib = |number: u64| number << 30;
    assert_eq!(ranges[1], Range::Bytes { from: gib(2), to: Some(gib(4)) });
    assert_eq!(ranges[2], Range::Bytes { from: gib(4), to: Some(gib(6)) });
    // 4 MiB a second in requests of 256 KiB are 16 a second.
    assert_eq!(cameras[0].gaps, Some(Interarrival::Constant(Nanos::from_ns(62_500_000))));
    assert_eq!((cameras[0].stream.flush_every, cameras[0].stream.mix), (Some(64), Mix::reads(0.0)));
    let player = file.streams.last().unwrap();
    assert_eq!(
        (player.range, player.think),
        (
            Range::Bytes { from: gib(6), to: Some(gib(7)) },
            Some(ThinkTime::Constant(Nanos::from_ms(40)))
        )
    );
    assert_eq!(
        file.notes,
        ["job player: without direct=1 fio uses the page cache, which is not simulated"]
    );
}

#[test]
fn jobs_after_a_stonewall_start_when_all_earlier_jobs_have_stopped() {
    let times: Vec<(u64, Option<u64>)> = read(SEQUENCE)
        .streams
        .iter()
        .map(|stream| {
            (
                stream.stream.start.as_ns() / 1_000_000_000,
                stream.stream.stop.map(|stop| stop.as_ns() / 1_000_000_000),
            )
        })
        .collect();
    assert_eq!(
        times,
        [(0, Some(30)), (0, Some(20)), (30, Some(60)), (30, Some(40)), (60, Some(90))]
    );
}

#[test]
fn splits_and_zones_become_lists() {
    let [split] = &read(SPLIT).streams[..] else { panic!("one job") };
    let weights = |list: &[(u64, f64)]| {
        Sizes::Weighted(
            list.iter()
                .map(|(bytes, weight)| SizeWeight { bytes: *bytes, weight: *weight })
                .collect(),
        )
    };
    assert_eq!(split.stream.sizes, weights(&[(4_096, 10.0), (65_536, 50.0), (32_768, 40.0)]));
    assert_eq!(split.stream.write_sizes, Some(weights(&[(8_192, 50.0), (16_384, 50.0)])));
    let AddressPattern::HotSpots(spots) = &split.stream.place else {
        panic!("{:?}", split.stream.place)
    };
    assert_eq!(
        spots.iter().map(|spot| (spot.requests, spot.space)).collect::<Vec<_>>(),
        [(0.6, 0.1), (0.3, 0.2), (0.08, 0.3), (0.02, 0.4)]
    );
}

#[test]
fn options_mean_what_fio_means_by_them() {
    let of = |options: &str| stream(options).stream;
    assert_eq!(of("rw=read").order, Order::Sequential);
    assert_eq!((of("rw=randrw").mix.reads, of("rw=randrw rwmixwrite=20").mix.reads), (0.5, 0.8));
    assert_eq!(of("rw=randtrim").mix, Mix { discards: 1.0, ..Mix::reads(0.0) });
    assert_eq!(of("rw=randread:8").order, Order::FixedRuns { requests: 8 });
    assert_eq!(of("rw=read:12k").order, Order::Strided { gap_bytes: 12_288 });
    assert_eq!(of("rw=randread percentage_random=25").order, Order::Runs { mean_requests: 4.0 });
    assert!(
        of("rw=rw").separate_runs,
        "reads and writes of a sequential mix each go on by themselves"
    );
    assert_eq!(
        of("rw=randread bsrange=4k-18k").sizes,
        Sizes::Uniform { min_bytes: 4_096, max_bytes: 16_384, multiple_bytes: 4_096 }
    );
    let by_direction = of("rw=randrw bs=4k,64k");
    assert_eq!(
        (by_direction.sizes, by_direction.write_sizes),
        (Sizes::Fixed { bytes: 4_096 }, Some(Sizes::Fixed { bytes: 65_536 }))
    );
    assert_eq!(of("rw=randwrite bs=4k,64k").sizes, Sizes::Fixed { bytes: 65_536 });
    assert_eq!(of("rw=randread ba=64k").alignment, Alignment::Bytes(65_536));
    assert_eq!(of("rw=randwrite sync=1").mix.fua, 1.0);
    assert_eq!(
        (
            of("size=1g").bytes,
            of("size=1g io_size=4g loops=2").bytes,
            of("size=1g time_based runtime=5").bytes
        ),
        (Some(1 << 30), Some(8 << 30), None)
    );
    assert!(matches!(of("rw=randread \
            \
            random_distribution=pareto:0.3").place, AddressPattern::SelfSimilar { share, .. }
            if share == 0.3));
    assert_eq!(
        of("rw=randread random_distribution=normal:20").place,
        AddressPattern::Normal { center: 0.5, deviation: 0.2 }
    );

    assert_eq!(
        stream("offset=1g size=2g").range,
        Range::Bytes { from: 1 << 30, to: Some(3 << 30) }
    );
    assert_eq!(stream("offset=10% size=20%").range, Range::Shares { from: 0.1, to: 0.1 + 0.2 });
    assert_eq!((stream("size=100%").range, stream("rw=read").range), (Range::Whole, Range::Whole));
    let shifted: Vec<Range> = streams("numjobs=2 offset_increment=1g size=1g")
        .iter()
        .map(|stream| stream.range)
        .collect();
    assert_eq!(
        shifted,
        [
            Range::Bytes { from: 0, to: Some(1 << 30) },
            Range::Bytes { from: 1 << 30, to: Some(2 << 30) }
        ]
    );
    assert_eq!(streams("rw=read numjobs=3").len(), 3, "each job has its own run");

    let paced = stream("rw=randrw rate_iops=100,50 iodepth=4");
    assert_eq!(
        (paced.clients, paced.gaps),
        (Some(Clients::Count(4)), Some(Interarrival::Constant(Nanos::from_ns(6_666_667))))
    );
    assert!((paced.stream.mix.reads - 2.0 / 3.0).abs() < 1e-12, "rates decide the mix, as in fio");
    assert_eq!(
        stream("rw=randread rate_iops=100 rate_process=poisson").gaps,
        Some(Interarrival::Poisson { per_second: 100.0 })
    );

    let synchronous = read("[a]\nrw=randread\niodepth=32\ndirect=1\n");
    assert_eq!(synchronous.streams[0].clients, Some(Clients::Count(1)));
    assert_eq!(
        synchronous.notes,
        ["job a: iodepth=32 has no effect with the synchronous engine psync; 1 is used"]
    );
}

#[test]
fn unsupported_options_are_refused_or_noted_with_their_line() {
    let cases = [
        (
            "[a]\nzonesize=1m\n",
            "x.fio:2:1: zonesize=1m is not supported; use random_distribution=zoned",
        ),
        ("[a]\nverify=crc32c\n", "x.fio:2:1: verify=crc32c is not supported; remove it"),
        (
            "[a]\nread_iolog=x\n",
            "x.fio:2:1: read_iolog=x is not supported; replay a recording with \
                headtime sim --trace",
        ),
        ("[a]\nbloksize=4k\n", "x.fio:2:1: option `bloksize` is unknown"),
        ("[a]\nrw=trimwrite\n", "x.fio:2:1: rw=trimwrite: expected read, write, trim"),
        ("[a]\nbs=4x\n", "x.fio:2:1: bs=4x: `4x` is not a size"),
        (
            "[a]\nrw=write\n[b]\nstonewall\n",
            "x.fio:4:1: stonewall=1: the end of the jobs before it is unknown",
        ),
        ("[a]\ntime_based\n", "x.fio:2:1: time_based=1: a job that is time_based needs a runtime"),
        (
            "[a]\nioengine=libaio\niodepth=4\nthinktime=5\n",
            "x.fio:4:1: thinktime=5: the whole job pauses in fio",
        ),
        (
            "[a]\nrandom_distribution=zipf:1.1:0.5\nrw=randread\n",
            "x.fio:2:1: random_distribution=zipf:1.1:0.5: expected random, zipf:THETA",
        ),
        (
            "[a]\nbssplit=4k/60:8k/60\n",
            "x.fio:2:1: bssplit=4k/60:8k/60: the shares add up to more than 100 %",
        ),
        ("[a]\nfilename=/a:/b\n", "x.fio:2:1: filename=/a:/b: several files in one job"),
        (
            "[a]\noffset=1g\nsize=50%\n",
            "x.fio:2:1: offset=1g: offset, offset_increment and size are to be all in percent or \
                all in bytes",
        ),
        ("", "x.fio: there is no job"),
        ("rw=read\n", "x.fio:1:1: option `rw` stands before the first section"),
        (
            "[global]\nnumjobs=300\nrw=read\n[a]\n",
            "x.fio: the jobs make 300 streams, expected at most 256",
        ),
    ];
    for (text, expected) in cases {
        let message = fio::read("x.fio", text).expect_err(text).to_string();
        assert!(message.starts_with(expected), "{text}: {message}");
    }
    // An error in [global] is reported once, not for every job.
    assert_eq!(fio::read("x.fio", "[global]\nbs=4x\n[a]\n[b]\n").unwrap_err().errors().len(), 1);
    let noted = read("[a]\ndirect=1\nramp_time=5\nprio=3\n");
    assert_eq!(noted.notes.len(), 2);
    assert_eq!(
        noted.notes[0],
        "line 3: ramp_time is ignored: leave requests uncounted at the start with --warmup"
    );
}

#[test]
fn every_sample_makes_requests_and_reads_back_as_toml() {
    for text in [DATABASE, RECORDER, SEQUENCE, SPLIT] {
        let file = read(text);
        let written = file.to_toml();
        let again = WorkloadFile::from_toml("x.toml", &written)
            .unwrap_or_else(|errors| panic!("{errors}\nin\n{written}"));
        assert_eq!(again.to_toml(), written);
        for file in [file, again] {
            let mut workload = file
                .workload(SectorSize::B512, Sectors::new(100_000_000), 1, 1)
                .unwrap_or_else(|errors| panic!("{errors}"));
            assert!((0..2).all(|_| workload.arrival().is_some()));
        }
    }
}

/// fio's own parser accepts the samples, and every supported option is one of fio's.
#[test]
fn fio_takes_the_samples_and_knows_the_options() {
    if Command::new("fio").arg("--version").output().is_err() {
        eprintln!("fio is not installed, so the samples were not checked against it");
        return;
    }
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fio");
    for name in ["database.fio", "recorder.fio", "sequence.fio", "split.fio"] {
        let output = Command::new("fio")
            .args(["--parse-only", "--showcmd"])
            .arg(folder.join(name))
            .output()
            .expect("fio was found a moment ago");
        assert!(
            output.status.success(),
            "{name}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    for option in
        fio::OPTIONS.iter().filter(|option| matches!(option.support, fio::Support::Supported(_)))
    {
        for name in option.names {
            let help = Command::new("fio")
                .arg(format!("--cmdhelp={name}"))
                .output()
                .expect("fio was found a moment ago");
            let text = String::from_utf8_lossy(&help.stdout);
            // io_limit and wait_for_previous are old names that this help does not list.
            let old = [
                "io_limit",
                "wait_for_previous",
                "readwrite",
                "blocksize",
                "blockalign",
                "blocksize_range",
                "timeout",
            ]
            .contains(name);
            assert!(old || text.contains(name), "fio does not know {name}: {text}");
        }
    }
}

#[test]
fn no_text_makes_the_reader_panic() {
    for text in [DATABASE, RECORDER, SEQUENCE, SPLIT] {
        for at in 0..text.len() {
            for replacement in ["", "[", "9999999999", ":", "%"] {
                let broken = format!("{}{replacement}{}", &text[..at], &text[at + 1..]);
                if let Ok(file) = fio::read("x.fio", &broken) {
                    let _ = file.workload(SectorSize::B512, Sectors::new(100_000_000), 1, 1);
                }
            }
        }
    }
}
