//! Shingled drives that manage themselves: their times, and whether the scheduler suspects them.

mod common;

use headtime_mechanics::{DriveProfile, NoiseLevel, Shingles, catalog};
use headtime_sched::{DEFAULT_POLICY, DriveTraits, Op, PolicyEntry, QueueLimits, Scheduler};
use headtime_sim::{Device, DriveTruth, Engine, EngineObserver, ShingledDrive, SimulatedDrive};
use headtime_testkit::faults::{FaultPlan, FaultyDrive};
use headtime_units::{ByteSize, Instant, Nanos, SectorSize};
use headtime_workload::{Mix, StreamConfig, Workload};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use common::{Served, command, serve, stream};

const SEED: u64 = 3;
const MIB: u64 = 1 << 20;
const SHINGLES: Shingles = Shingles { media_cache: ByteSize::new(MIB), band: Shingles::BAND };

fn profile() -> DriveProfile {
    NoiseLevel::Harsh.apply(&catalog::load("barracuda-2tb").expect("it ships"))
}

fn conventional() -> SimulatedDrive {
    SimulatedDrive::new(DriveTruth::draw(&profile(), SEED).expect("valid")).expect("valid")
}

fn shingled() -> ShingledDrive {
    ShingledDrive::new(conventional(), SHINGLES, SectorSize::B512).expect("it fits")
}

/// The commands of one client, one at a time.
fn one_by_one(
    drive: &mut ShingledDrive,
    from: Instant,
    op: Op,
    count: usize,
    start: impl FnMut() -> u64,
) -> Vec<Served> {
    let (mut start, first) = (start, from.as_ns());
    let client = stream(1, |id| command(first + id, op, start(), 8));
    serve(drive, from, vec![client], count).remove(0)
}

fn longest(served: &[Served]) -> Nanos {
    served.iter().map(Served::service).max().expect("there are some")
}

#[test]
fn random_writes_are_fast_until_the_media_cache_is_full_and_again_after_a_pause() {
    let mut drive = shingled();
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    let places = drive.capacity().get() / 8;
    let mut random = || rng.random_range(0..places) * 8;
    // A media cache of 1 MiB has 256 blocks, hardly two of them in one of 59,000 bands.
    let first = one_by_one(&mut drive, Instant::ORIGIN, Op::Write, 256, &mut random);
    assert!(longest(&first) < Nanos::from_ms(100), "{}", longest(&first));
    let full = first.last().expect("256").completion.finished;
    let stalled = one_by_one(&mut drive, full, Op::Write, 20, &mut random);
    // 96 MiB pass at 210 MB/s outside and 105 MB/s inside, in steps with a revolution between them.
    let waits = stalled.iter().map(|write| write.service().as_ms_f64());
    let waits: Vec<f64> = waits.filter(|ms| *ms > 100.0).collect();
    assert!(waits.len() >= 17, "a band with several cached blocks is rare: {waits:?} ms");
    assert!(waits.iter().all(|ms| (450.0..1_800.0).contains(ms)), "{waits:?} ms");
    // Reads wait for one step of the rewriting at most.
    let now = stalled.last().expect("20").completion.finished;
    let reads = one_by_one(&mut drive, now, Op::Read, 200, &mut random);
    assert!(longest(&reads) < Nanos::from_ms(250), "{}", longest(&reads));
    // A pause of 10 s makes room for some blocks.
    let dirty = drive.dirty_bands();
    let end = reads.last().expect("200").completion.finished;
    let later = end + Nanos::from_secs(10);
    drive.advance(later, &mut Vec::new());
    let cleaned = dirty - drive.dirty_bands();
    assert!((5..22).contains(&cleaned), "{cleaned} bands in ten seconds");
    let again = one_by_one(&mut drive, later, Op::Write, cleaned - 1, &mut random);
    assert!(longest(&again) < Nanos::from_ms(250), "{}", longest(&again));
}

#[test]
fn sequential_writes_from_the_start_of_a_band_need_no_media_cache() {
    let mut drive = shingled();
    let band = 32 * MIB / 512;
    let writer = stream(2, |id| command(id, Op::Write, band * 7 + id * 2_048, 2_048));
    let served = serve(&mut drive, Instant::ORIGIN, vec![writer], 96).remove(0);
    assert_eq!(drive.dirty_bands(), 0);
    let seconds = served.last().expect("96").completion.finished.as_secs_f64();
    let rate = 96.0 * 1.048_576 / seconds;
    // 210 MB/s go to the medium, and the last third of the 96 MiB stays in the drive's cache.
    assert!((200.0..320.0).contains(&rate), "{rate} MB/s");
    // Within a band they do.
    let within = one_by_one(&mut drive, Instant::from_ns(1 << 40), Op::Write, 1, || 8);
    assert_eq!((within.len(), drive.dirty_bands()), (1, 1));
}

#[test]
fn a_given_up_write_that_waits_for_room_is_never_reported() {
    let mut drive = shingled();
    let mut rng = ChaCha8Rng::seed_from_u64(SEED);
    let places = drive.capacity().get() / 8;
    let mut random = || rng.random_range(0..places) * 8;
    let first = one_by_one(&mut drive, Instant::ORIGIN, Op::Write, 256, &mut random);
    let now = first.last().expect("256").completion.finished;
    let stalled = command(u64::MAX, Op::Write, random(), 8);
    drive.submit(now, &stalled);
    drive.abort(now + Nanos::from_ms(1), stalled.id);
    let mut completions = Vec::new();
    drive.advance(now + Nanos::from_secs(60), &mut completions);
    assert_eq!(completions, []);
    assert!(drive.dirty_bands() < 256, "the band that it waited for was rewritten");
}

/// Runs random writes and reads for five minutes by the default policy and the model of the
/// profile; returns whether the drive is suspected of shingling.
fn suspected(drive: impl Device, clients: u32, reads: f64, flush_every: Option<u64>) -> bool {
    let stream =
        StreamConfig { mix: Mix::reads(reads), flush_every, ..StreamConfig::closed(clients) };
    let sector = profile().sector_size().expect("valid");
    let workload =
        Workload::new(&[stream], sector, drive.capacity(), SEED).expect("it suits the drive");
    let policy = PolicyEntry::find(DEFAULT_POLICY).expect("it is in the table").build_default();
    let belief = headtime_belief::of_profile(&profile()).expect("valid");
    let traits = DriveTraits { queue_depth: drive.queue_depth(), fua: true };
    let mut scheduler = Scheduler::new(belief, policy, traits, QueueLimits::default());
    scheduler.count_stalls();
    let mut engine = Engine::new(scheduler, drive, workload, None);
    while engine.now() < Instant::ORIGIN + Nanos::from_secs(300) {
        engine.step(&mut Silent).unwrap_or_else(|error| panic!("seed {SEED}: {error}"));
    }
    let counts = engine.scheduler.stalls(engine.now())[0];
    println!("{clients} clients, {reads} reads, flush after {flush_every:?}: {counts:?}");
    counts.suggest_shingling()
}

struct Silent;
impl EngineObserver for Silent {}

#[test]
fn a_shingled_drive_is_suspected_after_minutes_of_random_writes() {
    for (clients, reads) in [(1, 0.0), (4, 0.0), (1, 0.5), (4, 0.5), (16, 0.7)] {
        assert!(suspected(shingled(), clients, reads, None), "{clients} clients, {reads} reads");
    }
}

#[test]
fn a_conventional_drive_is_not_suspected_at_harsh_noise_nor_with_flushes() {
    assert!(!suspected(conventional(), 4, 0.0, None));
    assert!(!suspected(conventional(), 4, 0.5, None));
    assert!(!suspected(conventional(), 16, 0.2, Some(200)));
}

#[test]
fn a_drive_with_slow_reads_too_is_not_suspected() {
    for (clients, seed) in [(1, 1), (4, 2)] {
        let slow_by = Nanos::from_ms(900);
        let plan = FaultPlan { slow_share: 0.01, slow_by, ..FaultPlan::default() };
        let drive = FaultyDrive::new(conventional(), plan, seed);
        assert!(!suspected(drive, clients, 0.5, None), "{clients} clients");
    }
}
