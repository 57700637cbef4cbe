//! The cache of the simulated drive: read-ahead, write-back and the cost of a flush.

mod common;

use headtime_mechanics::profile::{Algorithm, Cache};
use headtime_mechanics::{Direction, DriveProfile, HeadPosition, Mechanism, catalog};
use headtime_sched::{Command, Op};
use headtime_sim::{Device, DriveTruth, Landing, SimulatedDrive, StorageLayer};
use headtime_units::{Extent, Instant, Nanos};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use common::{command, mean_ms, per_second, serve, stream};

/// The Atlas 10K with its measured segments.
fn atlas(write_back: bool) -> DriveProfile {
    let mut profile = catalog::load("atlas10k").expect("it ships");
    profile.cache = Some(Cache {
        segments: 10,
        segment_sectors: 374,
        write_segments: Some(4),
        read_ahead_sectors: 354,
        write_back,
        read_hit_us: 184.0,
        write_hit_us: 186.0,
        ..Cache::default()
    });
    profile
}

fn nominal(profile: &DriveProfile) -> SimulatedDrive {
    let mut drive =
        SimulatedDrive::new(DriveTruth::nominal(profile, 1).expect("valid")).expect("valid");
    drive.record_landings();
    drive
}

/// Sequential reads of 64 sectors, in millions of sectors per second.
fn streaming(profile: &DriveProfile, depth: usize, think: Nanos) -> f64 {
    let mut drive = nominal(profile);
    let mut next = 0;
    let reader = common::Stream {
        think,
        ..stream(depth, move |id| {
            next += 64;
            command(id, Op::Read, next - 64, 64)
        })
    };
    let served = serve(&mut drive, Instant::ORIGIN, vec![reader], 4_000);
    per_second(&served[0]) * 64.0 / 1e6
}

#[test]
fn a_sequential_reader_with_one_outstanding_streams_at_the_rate_of_the_media() {
    let profile = atlas(false);
    let mechanism = Mechanism::nominal(&profile).expect("valid");
    let all = Extent::from_numbers(0, 64 * 4_000);
    let end = mechanism
        .access(HeadPosition::PARKED, Instant::ORIGIN, Direction::Read, all, Instant::ORIGIN)
        .finish;
    let media = all.len.get() as f64 / 1e6 / end.as_secs_f64();
    for depth in [1, 2, 4] {
        let rate = streaming(&profile, depth, Nanos::ZERO);
        println!(
            "{depth} outstanding: {rate:.5} million sectors a second, the media pass {media:.5}"
        );
        assert!((rate / media - 1.0).abs() < 0.005, "{depth} outstanding: {rate}, media {media}");
    }
    let uncached = streaming(&DriveProfile { cache: None, ..profile.clone() }, 1, Nanos::ZERO);
    assert!(uncached < media * 0.3, "without read-ahead each request loses a turn: {uncached}");
    // With think time the host finds the next sectors read; a host slower than the media limits the
    // rate.
    let slow = streaming(&profile, 1, Nanos::from_ms(5));
    let bound = 64.0 / (5e-3 + 184e-6 + 64.0 * 6.4e-6) / 1e6;
    assert!((slow / bound - 1.0).abs() < 0.10, "{slow}, the host allows {bound}");
}

#[test]
fn random_reads_are_as_fast_with_a_cache_as_without() {
    let profile = atlas(false);
    for algorithm in [Algorithm::Fcfs, Algorithm::Sptf] {
        let mean = |cache| {
            let mut profile = DriveProfile { cache, ..profile.clone() };
            profile.firmware.algorithm = algorithm;
            let mut rng = ChaCha8Rng::seed_from_u64(5);
            let capacity = profile.capacity().get() - 8;
            let reader = stream(8, |id| command(id, Op::Read, rng.random_range(0..capacity), 8));
            mean_ms(&serve(&mut nominal(&profile), Instant::ORIGIN, vec![reader], 6_000)[0])
        };
        let (with, without) = (mean(profile.cache), mean(None));
        assert!(
            (with / without - 1.0).abs() < 0.015,
            "{algorithm:?}: {with} ms with, {without} ms without"
        );
    }
}

#[test]
fn a_read_of_what_was_read_crosses_the_bus_at_once_and_a_read_of_what_comes_waits_for_it() {
    let mut drive = nominal(&atlas(false));
    let first = serve(
        &mut drive,
        Instant::ORIGIN,
        vec![stream(1, |id| command(id, Op::Read, 1_000, 8))],
        1,
    );
    let media_end = drive.take_landings()[0].at;
    let again = serve(
        &mut drive,
        first[0][0].completion.finished,
        vec![stream(1, |id| command(id, Op::Read, 1_002, 4))],
        1,
    );
    assert_eq!(again[0][0].service(), Nanos::from_ns(184_000 + 4 * 6_400) + completion(&drive));
    // Sector 1,308 is 301 sectors after the end of the first read: about 301 × 17.9 us, with a
    // track switch in between.
    let far = serve(
        &mut drive,
        again[0][0].completion.finished,
        vec![stream(1, |id| command(id, Op::Read, 1_300, 9))],
        1,
    );
    let mechanism = Mechanism::nominal(&atlas(false)).expect("valid");
    assert_eq!(far[0][0].completion.breakdown.seek, Nanos::ZERO);
    let passed = far[0][0].completion.finished.saturating_since(media_end);
    let sector = mechanism.sector_time(0);
    assert!(
        passed >= sector * 301 && passed <= sector * 301 + Nanos::from_ms(2),
        "{passed} after the first read"
    );
}

fn completion(_drive: &SimulatedDrive) -> Nanos {
    let interface = headtime_mechanics::InterfaceTimes::from_profile(&atlas(false)).expect("valid");
    interface.completion_overhead()
}

#[test]
fn a_burst_of_writes_completes_at_the_speed_of_the_bus_until_the_segments_are_full() {
    let mut drive = nominal(&atlas(true));
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let writer = stream(1, |id| command(id, Op::Write, rng.random_range(0..17_000_000), 8));
    let served = serve(&mut drive, Instant::ORIGIN, vec![writer], 12);
    let times: Vec<f64> = served[0].iter().map(|served| served.service().as_ms_f64()).collect();
    assert!(times[..4].iter().all(|ms| *ms < 0.3), "four segments take four writes: {times:?}");
    let late = times[5..].iter().sum::<f64>() / 7.0;
    assert!(late > 3.0 && late < 14.0, "then each waits for another to reach the media: {times:?}");
}

#[test]
fn a_flush_costs_what_it_takes_to_bring_the_written_data_to_the_media() {
    let mut profile = atlas(true);
    // The drive does no background work, so the flush finds all data.
    profile.cache = profile.cache.map(|cache| Cache { write_delay_ms: Some(10_000.0), ..cache });
    let mut drive = nominal(&profile);
    let empty =
        serve(&mut drive, Instant::ORIGIN, vec![stream(1, |id| command(id, Op::Flush, 0, 0))], 1)
            [0][0]
            .clone();
    assert!(empty.service() < Nanos::from_ms(1), "nothing to do: {}", empty.service());

    let writes = [9_000_000, 100, 17_000_000, 4_000_000];
    let begin = empty.completion.finished;
    let written = serve(
        &mut drive,
        begin,
        vec![stream(1, |id| command(id, Op::Write, writes[id as usize], 8))],
        4,
    );
    assert!(drive.take_landings().iter().all(|landing| landing.layer == StorageLayer::Cache));
    let now = written[0][3].completion.finished;
    let flush =
        serve(&mut drive, now, vec![stream(1, |id| command(id, Op::Flush, 0, 0))], 1)[0][0].clone();
    let saves: Vec<Landing> = drive.take_landings();
    assert_eq!(
        saves.iter().map(|save| (save.command, save.op, save.layer)).collect::<Vec<_>>(),
        [(None, Op::Write, StorageLayer::Media); 4]
    );
    let last = saves.iter().map(|save| save.at).max().expect("four");
    assert_eq!(flush.completion.finished, last + completion(&drive));
    let service = flush.service().as_ms_f64();
    println!("flush of four random writes: {service:.2} ms");
    assert!((12.0..50.0).contains(&service), "four seeks and turns: {service} ms");
    assert_eq!(flush.completion.breakdown.total(), flush.service());
}

#[test]
fn written_data_go_to_the_media_by_themselves_once_the_delay_is_over() {
    let mut profile = atlas(true);
    profile.cache = profile.cache.map(|cache| Cache { write_delay_ms: Some(50.0), ..cache });
    let mut drive = nominal(&profile);
    drive.submit(Instant::ORIGIN, &command(0, Op::Write, 5_000, 8));
    let mut reports = Vec::new();
    drive.advance(Instant::from_ns(40_000_000), &mut reports);
    assert_eq!((reports.len(), drive.take_landings().len()), (1, 1));
    drive.advance(Instant::from_ns(100_000_000), &mut reports);
    let save = drive.take_landings();
    assert_eq!(
        (save[0].command, save[0].layer, save[0].extent),
        (None, StorageLayer::Media, Extent::from_numbers(5_000, 8))
    );
    assert!(save[0].at > Instant::from_ns(50_000_000));
    let spent = drive.disk_time(Instant::from_ns(100_000_000));
    assert!(
        spent.background > Nanos::from_ms(1) && spent.seek.is_zero(),
        "nobody waited: {spent:?}"
    );
    assert_eq!(spent.total(), Nanos::from_ms(100));
}

#[test]
fn sequential_writes_reach_the_media_together() {
    let mut profile = atlas(true);
    profile.cache = profile.cache.map(|cache| Cache { write_delay_ms: Some(20.0), ..cache });
    let mut drive = nominal(&profile);
    let served = serve(
        &mut drive,
        Instant::ORIGIN,
        vec![stream(1, |id| command(id, Op::Write, id * 8, 8))],
        40,
    );
    drive.advance(served[0][39].completion.finished + Nanos::from_secs(1), &mut Vec::new());
    let saves: Vec<Extent> = drive
        .take_landings()
        .iter()
        .filter(|landing| landing.command.is_none())
        .map(|landing| landing.extent)
        .collect();
    assert_eq!(saves, [Extent::from_numbers(0, 320)]);
}

#[test]
fn a_forced_write_is_on_the_media_when_it_completes() {
    let mut drive = nominal(&atlas(true));
    let forced = |id| Command { fua: true, ..command(id, Op::Write, 7_000_000 + id * 100_000, 8) };
    let served = serve(&mut drive, Instant::ORIGIN, vec![stream(1, forced)], 5);
    let landings = drive.take_landings();
    for (served, landing) in served[0].iter().zip(&landings) {
        assert_eq!(
            (landing.command, landing.layer),
            (Some(served.command.id), StorageLayer::Media)
        );
        assert!(landing.at <= served.completion.finished);
    }
}

#[test]
fn a_read_of_written_data_hits_and_one_of_a_part_of_them_waits_until_they_are_saved() {
    let mut profile = atlas(true);
    profile.cache = profile.cache.map(|cache| Cache { write_delay_ms: Some(10_000.0), ..cache });
    let mut drive = nominal(&profile);
    let reads = [
        command(0, Op::Write, 1_000, 8),
        command(1, Op::Read, 1_002, 4),
        command(2, Op::Read, 996, 8),
    ];
    let served =
        serve(&mut drive, Instant::ORIGIN, vec![stream(1, |id| reads[id as usize].clone())], 3);
    assert!(served[0][1].service() < Nanos::from_us(300), "{}", served[0][1].service());
    let landings = drive.take_landings();
    let order: Vec<_> = landings
        .iter()
        .map(|landing| (landing.command.map(|id| id.0), landing.op, landing.layer))
        .take(4)
        .collect();
    assert_eq!(
        order[..3],
        [
            (Some(0), Op::Write, StorageLayer::Cache),
            (Some(1), Op::Read, StorageLayer::Cache),
            (None, Op::Write, StorageLayer::Media)
        ]
    );
    assert_eq!(order[3], (Some(2), Op::Read, StorageLayer::Media));
}

#[test]
fn random_reads_starve_beside_a_sequential_stream_only_with_a_hold() {
    let longest = |hold: Option<f64>, algorithm| {
        let mut profile = atlas(false);
        profile.firmware.sequential_hold_ms = hold;
        profile.firmware.algorithm = algorithm;
        let mut rng = ChaCha8Rng::seed_from_u64(9);
        let mut next = 0;
        let sequential = stream(1, move |id| {
            next += 64;
            command(id, Op::Read, next - 64, 64)
        });
        let random =
            stream(4, |id| command(id, Op::Read, rng.random_range(9_000_000..17_000_000), 8));
        let served =
            serve(&mut nominal(&profile), Instant::ORIGIN, vec![sequential, random], 12_000);
        let longest =
            served[1].iter().map(|served| served.service().as_ms_f64()).fold(0.0, f64::max);
        println!(
            "hold {hold:?}, {algorithm:?}: {} sequential, {} random, the longest waits \
                {longest:.0} ms",
            served[0].len(),
            served[1].len()
        );
        (longest, served[0].len() as f64 / served[1].len() as f64)
    };
    for algorithm in [Algorithm::Fcfs, Algorithm::Sptf] {
        let (without, few) = longest(None, algorithm);
        assert!(without < 400.0, "{algorithm:?}: nobody starves, but one waits {without} ms");
        let (with, many) = longest(Some(1_000.0), algorithm);
        assert!(with > 1_000.0 && with < 20_000.0, "{algorithm:?}: {with} ms");
        assert!(
            many > few * 5.0,
            "{algorithm:?}: the stream has the drive to itself: {many} against {few} for each \
                random read"
        );
    }
}
