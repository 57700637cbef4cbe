//! Stores that keep transactions as file systems do: a write-ahead log with checksums, commits by
//! flush or by force unit access, in-place writes after the commit, checkpoints that free the log,
//! and recovery on mount.
//!
//! ```text
//! a client's region in blocks of 4 KiB:
//! │ super │ super │ log, a ring of records: header, 1–4 blocks │ places of the blocks │
//! ```
//! A record is valid when its checksum is correct and its epoch and number are the next ones. The
//! superblock holds the start of the log. A mount increments the epoch, so a record left by a power
//! cut is never mistaken for the successor of a newer one.
//!
//! Several clients, each a thread with a region of its own, share one drive. What is checked of
//! what a cut leaves: every transaction that was acknowledged is there, none that was not begun is,
//! and each block holds what the last recovered transaction that wrote it wrote, whole.

use bytes::Bytes;
use headtime_io::{DriveHandle, Io, IoError, Pending};
use headtime_sched::{StreamId, VolumeId};
use headtime_testkit::power_cut::{
    BrokenPromises, Casualty, FailedFlush, History, Platter, PowerCutDrive, PowerFailure,
    PowerSwitch,
};
use headtime_units::{Extent, SectorSize, Sectors};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{READABLE, cuts, options, seed, stacks};

const BLOCK: usize = 4096;
const SECTORS_PER_BLOCK: u64 = 8;
const LOG: u64 = 32;
const PLACES: u64 = 20;
const REGION: u64 = 2 + LOG + PLACES;
const CLIENTS: u64 = 3;
const MAX_BLOCKS: usize = 4;

/// A planted bug of a store, which the test must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bug {
    None,
    /// Acknowledges a commit when its writes have completed, before the flush.
    AcknowledgesEarly,
    /// Gives the log free without making the blocks in their places durable.
    ReusesTheLogEarly,
    /// Checks a record's header and not its blocks.
    ChecksHeadersOnly,
}

/// The start of a log and its valid records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Super {
    sequence: u64,
    epoch: u64,
    first_number: u64,
    first_block: u64,
}

/// A transaction as its client saw it.
struct Transaction {
    number: u64,
    places: Vec<u64>,
    begun: usize,
    acknowledged: Option<usize>,
}

/// The state that a client leaves.
struct Life {
    client: u64,
    /// The last writer of each place when the store was mounted.
    versions: Vec<u64>,
    mounted_with: u64,
    transactions: Vec<Transaction>,
}

/// The result of recovery.
#[derive(Debug)]
struct Recovered {
    head: Super,
    /// The last valid transaction.
    number: u64,
    /// The block after its record.
    next_block: u64,
    /// The blocks of the log, in order: place and content.
    replay: Vec<(u64, Bytes)>,
}

fn block(client: u64, number: u64) -> Extent {
    Extent::from_numbers((client * REGION + number) * SECTORS_PER_BLOCK, SECTORS_PER_BLOCK)
}

fn log_block(client: u64, number: u64) -> Extent {
    block(client, 2 + number % LOG)
}

fn place(client: u64, number: u64) -> Extent {
    block(client, 2 + LOG + number)
}

/// The block that transaction `version` writes to a place.
fn content(client: u64, place: u64, version: u64) -> Bytes {
    if version == 0 {
        return Bytes::from(vec![0; BLOCK]);
    }
    (0..BLOCK as u64 / 8)
        .flat_map(|word| (client << 56 | place << 40 | version << 12 | word).to_le_bytes())
        .collect()
}

/// A block of numbers, the first of which is the checksum of the others and of `more`.
fn sealed(numbers: &[u64], more: &[Bytes]) -> Bytes {
    let mut bytes: Vec<u8> =
        std::iter::once(0).chain(numbers.iter().copied()).flat_map(u64::to_le_bytes).collect();
    bytes.resize(BLOCK, 0);
    let sum =
        more.iter().fold(crc32c::crc32c(&bytes), |sum, more| crc32c::crc32c_append(sum, more));
    bytes[..8].copy_from_slice(&u64::from(sum).to_le_bytes());
    bytes.into()
}

/// The numbers of a block written by [`sealed`], unchecked.
fn numbers(block: &[u8]) -> Vec<u64> {
    block[8..]
        .chunks(8)
        .take(5 + MAX_BLOCKS)
        .map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
        .collect()
}

const SUPER: u64 = 0x5355_5045;
const RECORD: u64 = 0x5245_434f;

impl Super {
    fn seal(self, client: u64) -> Bytes {
        sealed(
            &[SUPER + client, self.sequence, self.epoch, self.first_number, self.first_block],
            &[],
        )
    }

    fn unseal(client: u64, block: &Bytes) -> Option<Self> {
        let [magic, sequence, epoch, first_number, first_block] = numbers(block)[..5] else {
            return None;
        };
        let head = Self { sequence, epoch, first_number, first_block };
        (magic == SUPER + client && head.seal(client) == block).then_some(head)
    }
}

fn record_header(
    client: u64,
    epoch: u64,
    number: u64,
    places: &[u64],
    blocks: &[Bytes],
    bug: Bug,
) -> Bytes {
    let mut numbers = vec![RECORD + client, epoch, number, places.len() as u64];
    numbers.extend(places);
    sealed(&numbers, if bug == Bug::ChecksHeadersOnly { &[] } else { blocks })
}

/// Reads what a store kept. `read` answers `None` for a block that cannot be read.
fn recover(client: u64, bug: Bug, read: impl Fn(Extent) -> Option<Bytes>) -> Recovered {
    let supers =
        [0, 1].into_iter().filter_map(|slot| Super::unseal(client, &read(block(client, slot))?));
    let head = supers.max_by_key(|head| head.sequence).unwrap_or_default();
    let mut found = Recovered {
        head,
        number: head.first_number.max(1) - 1,
        next_block: head.first_block,
        replay: Vec::new(),
    };
    while let Some((places, blocks)) = record_at(client, bug, &found, &read) {
        found.number += 1;
        found.next_block += 1 + places.len() as u64;
        found.replay.extend(places.into_iter().zip(blocks));
    }
    found
}

/// The next record of the log, if there is one.
fn record_at(
    client: u64,
    bug: Bug,
    found: &Recovered,
    read: &impl Fn(Extent) -> Option<Bytes>,
) -> Option<(Vec<u64>, Vec<Bytes>)> {
    let header = read(log_block(client, found.next_block))?;
    let numbers = numbers(&header);
    let count = numbers[3] as usize;
    if numbers[0] != RECORD + client || !(1..=MAX_BLOCKS).contains(&count) {
        return None;
    }
    let places = numbers[4..4 + count].to_vec();
    let blocks = (1..=count as u64)
        .map(|at| read(log_block(client, found.next_block + at)))
        .collect::<Option<Vec<Bytes>>>()?;
    let expected = record_header(client, found.head.epoch, found.number + 1, &places, &blocks, bug);
    (header == expected).then_some((places, blocks))
}

/// A mounted store.
struct Store<'a> {
    client: u64,
    handle: DriveHandle,
    switch: &'a PowerSwitch,
    rng: ChaCha8Rng,
    bug: Bug,
    head: Super,
    next_number: u64,
    next_block: u64,
    /// Writes to their places that were not awaited yet.
    to_places: Vec<Pending>,
    life: Life,
}

impl<'a> Store<'a> {
    /// Recovers a store and takes it into use; `versions` are what its blocks hold by then, for the
    /// test alone.
    fn mount(
        client: u64,
        handle: DriveHandle,
        switch: &'a PowerSwitch,
        versions: Vec<u64>,
        bug: Bug,
        seed: u64,
    ) -> Result<Self, IoError> {
        let found = recover(client, bug, |extent| handle.run(Io::read(extent)).result.ok());
        let mut store = Self {
            client,
            handle,
            switch,
            rng: ChaCha8Rng::seed_from_u64(seed ^ client << 32),
            bug,
            head: found.head,
            next_number: found.number + 1,
            next_block: found.next_block,
            to_places: Vec::new(),
            life: Life { client, versions, mounted_with: found.number, transactions: Vec::new() },
        };
        for (number, content) in found.replay {
            store.write_to_place(number, content)?;
        }
        store.head.epoch += 1;
        store.checkpoint()?;
        Ok(store)
    }

    /// One transaction on a few blocks.
    fn transact(&mut self) -> Result<(), IoError> {
        let number = self.next_number;
        let mut places: Vec<u64> = (0..self.rng.random_range(1..=MAX_BLOCKS))
            .map(|_| self.rng.random_range(0..PLACES))
            .collect();
        places.sort_unstable();
        places.dedup();
        let used = self.next_block - self.head.first_block;
        if used + 1 + places.len() as u64 > LOG {
            self.checkpoint()?;
        }
        let blocks: Vec<Bytes> =
            places.iter().map(|place| content(self.client, *place, number)).collect();
        self.life.transactions.push(Transaction {
            number,
            places: places.clone(),
            begun: self.switch.moment(),
            acknowledged: None,
        });
        self.commit(number, &places, &blocks)?;
        self.acknowledge();
        self.next_number += 1;
        self.next_block += 1 + places.len() as u64;
        for (place, content) in places.into_iter().zip(blocks) {
            self.write_to_place(place, content)?;
        }
        Ok(())
    }

    /// Makes a record durable, in one of the ways in which that can be done.
    fn commit(&mut self, number: u64, places: &[u64], blocks: &[Bytes]) -> Result<(), IoError> {
        let header = record_header(self.client, self.head.epoch, number, places, blocks, self.bug);
        let at = |offset| log_block(self.client, self.next_block + offset);
        let header = Io::write(at(0), header);
        let blocks: Vec<Io> = (1..)
            .zip(blocks)
            .map(|(offset, content)| Io::write(at(offset), content.clone()))
            .collect();
        match self.rng.random_range(0..3) {
            // Everything, then a flush: the checksum says whether everything was there.
            0 => {
                self.all(blocks.into_iter().chain([header]))?;
                if self.bug == Bug::AcknowledgesEarly {
                    self.acknowledge();
                }
                self.all([Io::flush()])
            }
            // Everything with force unit access, as it comes.
            1 => self.all(blocks.into_iter().chain([header]).map(Io::fua)),
            // The blocks, a flush, and then the header that makes them count.
            _ => {
                self.all(blocks)?;
                self.all([Io::flush()])?;
                self.all([header.fua()])
            }
        }
    }

    fn acknowledge(&mut self) {
        let moment = self.switch.moment();
        self.life
            .transactions
            .last_mut()
            .expect("one was begun")
            .acknowledged
            .get_or_insert(moment);
    }

    /// Makes the blocks in their places durable and gives the log free.
    fn checkpoint(&mut self) -> Result<(), IoError> {
        for pending in std::mem::take(&mut self.to_places) {
            pending.wait().result?;
        }
        if self.bug != Bug::ReusesTheLogEarly {
            self.all([Io::flush()])?;
        }
        self.head = Super {
            sequence: self.head.sequence + 1,
            first_number: self.next_number,
            first_block: self.next_block,
            ..self.head
        };
        let write =
            Io::write(block(self.client, self.head.sequence % 2), self.head.seal(self.client));
        self.all([write.fua()])
    }

    fn write_to_place(&mut self, number: u64, content: Bytes) -> Result<(), IoError> {
        let pending =
            self.handle.start(self.ours(Io::write(place(self.client, number), content)))?;
        self.to_places.push(pending);
        Ok(())
    }

    /// Does all of it at once and waits for all of it.
    fn all(&self, ios: impl IntoIterator<Item = Io>) -> Result<(), IoError> {
        let started: Vec<Pending> =
            ios.into_iter().map(|io| self.handle.start(self.ours(io))).collect::<Result<_, _>>()?;
        let results: Vec<_> = started.into_iter().map(|pending| pending.wait().result).collect();
        results.into_iter().try_for_each(|result| result.map(drop))
    }

    fn ours(&self, io: Io) -> Io {
        io.volume(VolumeId(1 + self.client as u32)).stream(StreamId(1 + self.client as u32))
    }
}

impl Life {
    /// The content of each place if transaction `number` is the last.
    fn versions_after(&self, number: u64) -> Vec<u64> {
        let mut versions = self.versions.clone();
        for transaction in
            self.transactions.iter().filter(|transaction| transaction.number <= number)
        {
            transaction
                .places
                .iter()
                .for_each(|place| versions[*place as usize] = transaction.number);
        }
        versions
    }

    /// Returns true if a store that was cut at `moment` kept what it promised; returns what its
    /// places hold.
    fn check(
        &self,
        moment: usize,
        bug: Bug,
        read: impl Fn(Extent) -> Option<Bytes>,
    ) -> Result<Vec<u64>, String> {
        let client = self.client;
        let found = recover(client, bug, &read);
        let acknowledged = self
            .transactions
            .iter()
            .rfind(|transaction| transaction.acknowledged.is_some_and(|known| known <= moment));
        let begun = self.transactions.iter().rfind(|transaction| transaction.begun < moment);
        let least = acknowledged.map_or(self.mounted_with, |transaction| transaction.number);
        let most = begun.map_or(self.mounted_with, |transaction| transaction.number);
        let number = found.number;
        if !(least..=most).contains(&number) {
            return Err(format!(
                "client {client}: transaction {number} is the last recovered, but {least} was \
                    acknowledged and {most} begun; log from block {} of \
                 {:?}",
                found.next_block, found.head
            ));
        }
        let versions = self.versions_after(number);
        for (at, version) in (0..).zip(&versions) {
            let replayed = found
                .replay
                .iter()
                .rfind(|(replayed, _)| *replayed == at)
                .map(|(_, content)| content.clone());
            let Some(holds) = replayed.or_else(|| read(place(client, at))) else {
                return Err(format!(
                    "client {client}: block {at} cannot be read, and is not in the log"
                ));
            };
            if holds != content(client, at, *version) {
                return Err(format!(
                    "client {client}: block {at} should be as transaction {version} left it, with \
                        {number} the last recovered"
                ));
            }
        }
        Ok(versions)
    }
}

/// A load that is over.
struct Run {
    what: String,
    history: History,
    lives: Vec<Life>,
    bug: Bug,
}

/// Runs clients on a drive until each has made so many transactions, or met an error: then it
/// stops, as a file system does.
fn run(
    drive: PowerCutDrive,
    policy: &str,
    outstanding: Option<usize>,
    transactions: usize,
    versions: &[Vec<u64>],
    bug: Bug,
    seed: u64,
) -> Run {
    let (drive, switch) = drive
        .seed(seed)
        .record()
        .open(options(policy, outstanding))
        .expect("memory and a thread are to be had");
    let lives = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..)
            .zip(versions)
            .map(|(client, versions)| {
                let (handle, switch) = (drive.handle(), &switch);
                scope.spawn(move || {
                    let mounted = Store::mount(client, handle, switch, versions.clone(), bug, seed);
                    mounted.map(|mut store| {
                        let _stopped_by = (0..transactions).try_for_each(|_| store.transact());
                        store.life
                    })
                })
            })
            .collect();
        clients
            .into_iter()
            .filter_map(|client| client.join().expect("a client does not panic").ok())
            .collect()
    });
    let what = format!("policy {policy}, {outstanding:?} outstanding, HEADTIME_SEED={seed}");
    Run { what, history: switch.history().expect("it records"), lives, bug }
}

impl Run {
    /// Checks all stores on what was found.
    fn check(&self, moment: usize, found: &Platter) -> Result<Vec<Vec<u64>>, String> {
        let read = |extent| found.read(extent).ok();
        let check = |life: &Life| {
            life.check(moment, self.bug, read)
                .map_err(|error| format!("{}: cut at moment {moment}: {error}", self.what))
        };
        self.lives.iter().map(check).collect()
    }

    fn cut(&self, cuts: usize, failure: PowerFailure, seed: u64) -> Result<(), String> {
        self.history.cut_at_random(
            cuts,
            failure,
            &mut ChaCha8Rng::seed_from_u64(seed),
            |moment, found| self.check(moment, &found).map(drop),
        )
    }
}

fn blank() -> PowerCutDrive {
    PowerCutDrive::new(Platter::blank(
        SectorSize::B512,
        Sectors::new(CLIENTS * REGION * SECTORS_PER_BLOCK),
    ))
}

fn nothing_written() -> Vec<Vec<u64>> {
    vec![vec![0; PLACES as usize]; CLIENTS as usize]
}

/// Every failure, also that which leaves a block unreadable: these stores write whole physical
/// blocks.
fn failures() -> impl Iterator<Item = PowerFailure> {
    READABLE
        .into_iter()
        .chain([PowerFailure { casualty: Casualty::OneBlock, ..PowerFailure::default() }])
}

#[test]
fn stores_recover_every_acknowledged_transaction_from_every_cut() {
    let mut made = 0;
    for (number, (policy, outstanding)) in stacks().enumerate() {
        let seed = seed() + 1000 + number as u64;
        let drives = [
            blank(),
            blank().fua(false),
            blank().write_errors(0.005).flush_errors(0.01, FailedFlush::Retries),
        ];
        for drive in drives {
            let run = run(drive, policy, outstanding, 30, &nothing_written(), Bug::None, seed);
            for failure in failures() {
                run.cut(cuts(30), failure, seed)
                    .unwrap_or_else(|error| panic!("{failure:?}: {error}"));
                made += cuts(30);
            }
        }
    }
    assert!(made >= 5_000, "{made} cuts were made");
    eprintln!("{made} cuts");
}

#[test]
fn stores_survive_one_cut_after_another_also_while_they_recover() {
    for chain in 0..cuts(12) as u64 {
        let seed = seed() + 2000 + chain;
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let (mut drive, mut versions) = (blank(), nothing_written());
        for _generation in 0..6 {
            // Some generations are cut short, so that the cut falls into the recovery.
            let transactions = if rng.random_bool(0.3) { 0 } else { 12 };
            let run = run(drive, "headtime", Some(4), transactions, &versions, Bug::None, seed);
            let moment = rng.random_range(0..=run.history.events().len());
            let failure = PowerFailure { casualty: Casualty::OneBlock, ..PowerFailure::default() };
            let found = run.history.cutter().advance(moment).cut(failure, &mut rng);
            versions =
                run.check(moment, &found).unwrap_or_else(|error| panic!("chain {chain}: {error}"));
            drive = PowerCutDrive::new(found);
        }
    }
}

#[test]
fn a_store_that_stops_when_a_flush_fails_survives_a_drive_that_forgets_what_it_failed_to_flush() {
    let mut stopped = 0;
    for number in 0..cuts(20) as u64 {
        let seed = seed() + 3000 + number;
        let drive = blank().flush_errors(0.05, FailedFlush::Forgets);
        let run = run(drive, "headtime", None, 30, &nothing_written()[..1], Bug::None, seed);
        stopped += usize::from(run.lives.iter().any(|life| life.transactions.len() < 30));
        run.cut(50, PowerFailure::default(), seed).unwrap_or_else(|error| panic!("{error}"));
    }
    assert!(stopped > 5, "flushes failed in {stopped} runs only");
}

/// On such a drive one client's failed flush takes the writes of the others with it, and the
/// others' next flush succeeds.
#[test]
fn a_loss_is_reported_to_the_stores_beside_one_whose_flush_failed() {
    for number in 0..20 {
        let seed = seed() + 4000 + number;
        let run = run(
            blank().flush_errors(0.05, FailedFlush::Forgets),
            "headtime",
            None,
            30,
            &nothing_written(),
            Bug::None,
            seed,
        );
        run.cut(150, PowerFailure::default(), seed).unwrap_or_else(|error| panic!("{error}"));
    }
}

/// Returns true if any of a few loads fails.
fn is_caught(drive: &PowerCutDrive, bug: Bug) -> bool {
    let caught = |seed| {
        let run = run(drive.clone(), "headtime", None, 40, &nothing_written(), bug, seed);
        run.cut(150, PowerFailure::default(), seed).is_err()
    };
    (seed()..seed() + 5).any(caught)
}

#[test]
fn drives_that_lie_and_stores_that_are_careless_are_caught() {
    assert!(!is_caught(&blank(), Bug::None), "a good store on a good drive is caught at nothing");
    assert!(
        is_caught(&blank().breaks(BrokenPromises { flush: true, fua: false }), Bug::None),
        "flushes that do nothing"
    );
    assert!(
        is_caught(&blank().breaks(BrokenPromises { flush: false, fua: true }), Bug::None),
        "force unit access that is ignored"
    );
    for bug in [Bug::AcknowledgesEarly, Bug::ReusesTheLogEarly, Bug::ChecksHeadersOnly] {
        assert!(is_caught(&blank(), bug), "{bug:?}");
    }
}
