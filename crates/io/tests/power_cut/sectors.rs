//! Overlapping requests as they come, many at once, and an oracle that knows what each sector may
//! hold after a cut.
//!
//! The oracle sees only what a client sees: what it submitted, in which order, and which answers it
//! had when. A write is *safe* from the moment at which the client knew that it completed with
//! force unit access, or that a flush completed which it had submitted after the write completed.
//! After a cut each sector holds its last safe write or one submitted later: requests that overlap
//! take effect in the order in which they were submitted. A write that failed or was cancelled may
//! have happened and is never safe.

use std::sync::mpsc;

use bytes::Bytes;
use headtime_io::{Drive, Io, IoDone};
use headtime_sched::{Op, RequestId, StreamId};
use headtime_testkit::power_cut::{
    BrokenPromises, Event, FailedFlush, History, Platter, PowerCutDrive, PowerFailure, PowerSwitch,
};
use headtime_units::{Extent, Nanos, SectorSize, Sectors};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{READABLE, cuts, options, seed, stacks};

/// Sectors that the load works on: few, so that many requests overlap.
const WITHIN: u64 = 96;
/// Requests of one history.
const REQUESTS: usize = 220;
/// Requests held at once.
const AT_ONCE: usize = 24;

/// The assumption of a load's clients about flushes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Trust {
    /// The guaranteed behavior.
    Promised,
    /// The assumption that written data is safe once a flush is submitted, as on a stack that
    /// answers flushes at once.
    OnSubmission,
    /// The assumption that a flush covers writes that have not completed.
    CoversUnfinished,
}

/// A change of sectors as the client sees it.
struct Change {
    extent: Extent,
    /// Its content: its number in every sector, or zeroes if 0.
    version: u64,
    /// The moment before it was submitted.
    submitted: usize,
    completed: bool,
    /// From which moment on it is safe.
    safe: Option<usize>,
}

enum Issued {
    Read,
    Change { index: usize, fua: bool },
    Flush { covers: Vec<usize> },
}

/// A load that is over.
struct Run {
    what: String,
    history: History,
    changes: Vec<Change>,
    sector: SectorSize,
}

/// Sectors that say which write of which sector they are.
fn content(sector: SectorSize, lba: u64, version: u64) -> Bytes {
    let word = (lba << 40) ^ version;
    let words = sector.bytes() as usize / 8;
    if version == 0 {
        Bytes::from(vec![0; words * 8])
    } else {
        (0..words as u64).flat_map(|at| (word ^ (at << 54)).to_le_bytes()).collect()
    }
}

fn run(
    drive: PowerCutDrive,
    policy: &str,
    outstanding: Option<usize>,
    sector: SectorSize,
    trust: Trust,
    seed: u64,
) -> Run {
    let (drive, switch) = drive
        .seed(seed)
        .record()
        .open(options(policy, outstanding))
        .expect("memory and a thread are to be had");
    let changes = load(&drive, &switch, sector, trust, seed);
    assert!(drive.snapshot().queued == 0);
    let what = format!(
        "policy {policy}, {outstanding:?} outstanding, sectors of {}, HEADTIME_SEED={seed}",
        sector.bytes()
    );
    Run { what, history: switch.history().expect("it records"), changes, sector }
}

fn load(
    drive: &Drive,
    switch: &PowerSwitch,
    sector: SectorSize,
    trust: Trust,
    seed: u64,
) -> Vec<Change> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let handle = drive.handle();
    let (sender, answers) = mpsc::channel();
    let (mut requested, mut changes): (Vec<Issued>, Vec<Change>) = (Vec::new(), Vec::new());
    let mut held = 0;
    while requested.len() < REQUESTS || held > 0 {
        // Answers are taken when there is no room, or at random, so that the client knows sometimes
        // more and sometimes less.
        let full = held == AT_ONCE || requested.len() == REQUESTS;
        let answer: Option<(usize, IoDone)> =
            if full { answers.recv().ok() } else { answers.try_recv().ok() };
        if let Some((number, done)) = answer {
            held -= 1;
            if done.result.is_ok() {
                learn(&requested[number], &mut changes, switch.moment());
            }
            continue;
        }
        let number = requested.len();
        let start = rng.random_range(0..WITHIN);
        let extent = Extent::from_numbers(start, rng.random_range(1..=12.min(WITHIN - start)));
        let mut change = |version| {
            changes.push(Change {
                extent,
                version,
                submitted: switch.moment(),
                completed: false,
                safe: None,
            });
            changes.len() - 1
        };
        let fua = rng.random_bool(0.15);
        let (io, what) = match rng.random_range(0..100) {
            0..10 => (Io::read(extent), Issued::Read),
            10..80 => {
                let version = number as u64 + 1;
                let bytes: Vec<u8> = (start..extent.end().get())
                    .flat_map(|lba| content(sector, lba, version))
                    .collect();
                (Io::write(extent, bytes.into()), Issued::Change { index: change(version), fua })
            }
            80..85 => (Io::new(Op::Zero, extent), Issued::Change { index: change(0), fua }),
            85..88 => (Io::new(Op::Discard, extent), Issued::Change { index: change(0), fua }),
            _ => {
                let covers = (0..changes.len())
                    .filter(|index| changes[*index].completed || trust == Trust::CoversUnfinished)
                    .collect();
                (Io::flush(), Issued::Flush { covers })
            }
        };
        if trust == Trust::OnSubmission && matches!(what, Issued::Flush { .. }) {
            learn(&what, &mut changes, switch.moment());
        }
        requested.push(what);
        let deadline = rng.random_bool(0.2).then(|| Nanos::from_us(rng.random_range(10..5000)));
        let stream = StreamId(rng.random_range(0..3));
        let id = submit(&handle, Io { fua, deadline, stream, ..io }, number, &sender);
        held += 1;
        if rng.random_bool(0.04) {
            handle.cancel(id);
        }
    }
    changes
}

fn submit(
    handle: &headtime_io::DriveHandle,
    io: Io,
    number: usize,
    sender: &mpsc::Sender<(usize, IoDone)>,
) -> RequestId {
    let sender = sender.clone();
    handle.submit(io, move |done| drop(sender.send((number, done)))).expect("the drive takes it")
}

/// A request succeeded, which was known at `moment`.
fn learn(requested: &Issued, changes: &mut [Change], moment: usize) {
    match requested {
        Issued::Read => {}
        Issued::Change { index, fua } => {
            changes[*index].completed = true;
            if *fua {
                changes[*index].safe.get_or_insert(moment);
            }
        }
        Issued::Flush { covers } => covers.iter().for_each(|index| {
            changes[*index].safe.get_or_insert(moment);
        }),
    }
}

impl Run {
    /// Checks each sector found at `moment`.
    fn check(&self, moment: usize, found: &Platter) -> Result<(), String> {
        for lba in 0..WITHIN {
            let here: Vec<&Change> = self
                .changes
                .iter()
                .filter(|change| change.extent.contains(headtime_units::Lba::new(lba)))
                .collect();
            let last_safe =
                here.iter().rposition(|change| change.safe.is_some_and(|safe| safe <= moment));
            let later =
                here[last_safe.unwrap_or(0)..].iter().filter(|change| change.submitted < moment);
            let legal = last_safe
                .is_none()
                .then_some(0)
                .into_iter()
                .chain(later.map(|change| change.version));
            let extent = Extent::from_numbers(lba, 1);
            let sector = found.read(extent).map_err(|error| error.to_string())?;
            // Most sectors hold the newest that they may, so the search begins there.
            let legal: Vec<u64> = legal.collect();
            if !legal.iter().rev().any(|version| sector == content(self.sector, lba, *version)) {
                let story = self.history.story(extent, moment);
                let got =
                    u64::from_le_bytes(sector[..8].try_into().expect("eight bytes")) ^ (lba << 40);
                return Err(format!(
                    "{}: cut at moment {moment}, LBA {lba} may hold the versions {legal:?} and \
                        holds {got} (or a mixture)\n{story}",
                    self.what
                ));
            }
        }
        Ok(())
    }

    fn cut(&self, cuts: usize, failure: PowerFailure, seed: u64) -> Result<(), String> {
        self.history.cut_at_random(
            cuts,
            failure,
            &mut ChaCha8Rng::seed_from_u64(seed),
            |moment, found| self.check(moment, &found),
        )
    }
}

fn blank(sector: SectorSize) -> PowerCutDrive {
    PowerCutDrive::new(Platter::blank(sector, Sectors::new(4096)))
}

#[test]
fn nothing_that_was_flushed_is_lost_under_any_policy_on_any_kind_of_drive() {
    let mut made = 0;
    for (number, (policy, outstanding)) in stacks().enumerate() {
        let seed = seed() + number as u64;
        let drives = [
            (SectorSize::B512, blank(SectorSize::B512)),
            (SectorSize::B512, blank(SectorSize::B512).fua(false)),
            (SectorSize::B4096, blank(SectorSize::B4096).queue_depth(4)),
            (SectorSize::B512, blank(SectorSize::B512).write_errors(0.1)),
            (
                SectorSize::B512,
                blank(SectorSize::B512)
                    .flush_errors(0.4, FailedFlush::Retries)
                    .fua(number % 2 == 0),
            ),
        ];
        for (sector, drive) in drives {
            let run = run(drive, policy, outstanding, sector, Trust::Promised, seed);
            for failure in READABLE {
                let few = if failure == PowerFailure::default() { cuts(60) } else { cuts(10) };
                run.cut(few, failure, seed).unwrap_or_else(|error| panic!("{failure:?}: {error}"));
                made += few;
            }
        }
    }
    assert!(made >= 5_000, "{made} cuts were made");
    eprintln!("{made} cuts");
}

/// The commands that are under way at once depend on the timing of two threads, so that one history
/// of several is to show enough.
#[test]
fn the_histories_are_worth_cutting() {
    let mut seen = Vec::new();
    let is_worth = (seed()..).take(8).any(|seed| {
        let run =
            run(blank(SectorSize::B512), "clook", Some(6), SectorSize::B512, Trust::Promised, seed);
        let events = run.history.events();
        let (mut under_way, mut most, mut open_moments, mut cutter) =
            (0_usize, 0, 0, run.history.cutter());
        for (moment, event) in events.iter().enumerate() {
            under_way =
                if matches!(event, Event::Sent { .. }) { under_way + 1 } else { under_way - 1 };
            most = most.max(under_way);
            open_moments += usize::from(cutter.advance(moment).every_cut().size() > 16);
        }
        seen.push(format!(
            "{most} commands at once at the most, something at stake at {open_moments} of {} \
                moments",
            events.len()
        ));
        most >= 4 && 2 * open_moments > events.len()
    });
    assert!(is_worth, "{seen:#?}");
}

/// Returns true if the oracle rejects any of a few loads.
fn is_caught(drive: &PowerCutDrive, trust: Trust) -> bool {
    let caught = |seed| {
        run(drive.clone(), "headtime", Some(6), SectorSize::B512, trust, seed)
            .cut(100, PowerFailure::default(), seed)
            .is_err()
    };
    (seed()..seed() + 5).any(caught)
}

#[test]
fn a_drive_or_a_stack_that_lies_is_caught() {
    let drive = blank(SectorSize::B512);
    assert!(!is_caught(&drive, Trust::Promised), "a drive that does not lie is caught at nothing");
    assert!(
        is_caught(
            &drive.clone().breaks(BrokenPromises { flush: true, fua: false }),
            Trust::Promised
        ),
        "flushes that do nothing"
    );
    assert!(
        is_caught(
            &drive.clone().breaks(BrokenPromises { flush: false, fua: true }),
            Trust::Promised
        ),
        "force unit access that is ignored"
    );
    assert!(
        is_caught(&drive, Trust::OnSubmission),
        "a stack that answers flushes before the drive has"
    );
    assert!(
        is_caught(&drive, Trust::CoversUnfinished),
        "a client that takes a flush to cover writes that have not completed"
    );
}
