//! Processor time that a request costs the engine in all, with 1,000 queued that have deadlines:
//! submission, choice, dispatch, completion, and the callback, which submits the next.
//!
//! The drive answers at once, in the order of dispatch. It holds as many commands as the policy
//! sends: 60 under `cds-scan`, 2 under `fcfs`. The drive model is that of a real drive. Ten streams
//! have deadlines of 3 s to 30 s.
//!
//! `cargo bench -p headtime-io --bench requests`

#![allow(missing_docs, reason = "the macros make public items without a word")]

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use bytes::Bytes;
use criterion::{Criterion, criterion_group, criterion_main};
use headtime_belief::DriveModel;
use headtime_io::custom::{Backend, BackendCommand, BackendCompletion, OpenedDrive};
use headtime_io::{Drive, DriveHandle, DriveOptions, Io};
use headtime_mechanics::catalog;
use headtime_units::{Extent, Instant, Lba, Sectors};

const QUEUED: u64 = 1_000;
const AT_DRIVE: usize = 60;
const SECTORS: u64 = 8;

/// A drive that completes the oldest command whenever it is asked.
struct Prompt {
    commands: VecDeque<BackendCommand>,
    data: Bytes,
}

impl Backend for Prompt {
    fn describe(&self) -> String {
        "prompt".to_owned()
    }

    fn start(&mut self, _now: Instant, command: BackendCommand) {
        self.commands.push_back(command);
    }

    fn collect(&mut self, _now: Instant, completed: &mut Vec<BackendCompletion>) {
        completed.extend(self.commands.pop_front().map(|BackendCommand { command, .. }| {
            let length = command.extent.len.get() as usize * 512;
            BackendCompletion {
                command: command.id,
                due: None,
                result: Ok(self.data.slice(..length)),
            }
        }));
    }

    fn next_event(&self) -> Option<Instant> {
        (!self.commands.is_empty()).then_some(Instant::ORIGIN)
    }

    fn abandon(self: Box<Self>) {}
}

fn open(policy: &str) -> Drive {
    let profile = catalog::load("atlas10k").expect("the profile ships");
    let backend = Prompt { commands: VecDeque::new(), data: vec![0; 1 << 20].into() };
    let sector_size = profile.sector_size().expect("the profile ships");
    let opened = OpenedDrive {
        belief: Box::new(DriveModel::of_profile(&profile).expect("the profile ships")),
        ..OpenedDrive::new(Box::new(backend), profile.capacity(), sector_size, AT_DRIVE)
    };
    let options = DriveOptions {
        policy: policy.parse().expect("a policy of the table"),
        ..DriveOptions::default()
    };
    Drive::open_custom("prompt", options, move |_| Ok(opened)).expect("the drive opens")
}

/// Submits a random read, whose callback submits the next.
fn submit(handle: DriveHandle, seed: u64, deadline: Duration, completed: Arc<AtomicU64>) {
    // Knuth's linear congruential generator, which costs nothing beside a request.
    let seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let block = (seed >> 33) % (handle.capacity().get() / SECTORS);
    let place = Extent::new(Lba::new(block * SECTORS), Sectors::new(SECTORS));
    let next = handle.clone();
    // A closing drive refuses the next request.
    let _ = handle.submit(Io::read(place).deadline(deadline), move |done| {
        if done.result.is_ok() {
            completed.fetch_add(1, Ordering::Relaxed);
            submit(next, seed, deadline, completed);
        }
    });
}

/// The processor time of this process, which other programs of the machine change little.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(time).expect("processor time is not negative")
}

fn request(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("request");
    group.sample_size(20).measurement_time(Duration::from_secs(2));
    for policy in ["fcfs", "cds-scan", "headtime"] {
        let drive = open(policy);
        let completed = Arc::new(AtomicU64::new(0));
        for number in 0..QUEUED + AT_DRIVE as u64 {
            let deadline = Duration::from_secs(3 * (1 + number % 10));
            submit(drive.handle(), number, deadline, Arc::clone(&completed));
        }
        group.bench_function(format!("{policy}/{QUEUED}"), |bencher| {
            bencher.iter_custom(|times| {
                let (before, start) = (completed.load(Ordering::Relaxed), processor_time());
                loop {
                    thread::sleep(Duration::from_micros(200));
                    let count = completed.load(Ordering::Relaxed) - before;
                    if count >= times {
                        return (processor_time() - start).mul_f64(times as f64 / count as f64);
                    }
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, request);
criterion_main!(benches);
