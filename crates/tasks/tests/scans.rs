//! Whole scans: sectors in any order and pieces, through restarts, against plain copies.

use headtime_tasks::record::{BackupRecord, RecordReader};
use headtime_tasks::{
    BackupForm, DigestReport, Output, Piece, ReadSource, Scan, ScanStateError, ScanSubject, Task,
    TaskKind, TaskSettings,
};
use headtime_units::{Extent, Lba, SectorSize, Sectors};
use proptest::prelude::*;
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

const SECTOR: usize = 512;

fn subject(start: u64, len: u64) -> ScanSubject {
    ScanSubject {
        drive: [3; 16],
        target: "vol0".into(),
        extent: Extent::from_numbers(start, len),
        sector_size: SectorSize::B512,
    }
}

/// A drive's bytes, half of them zero.
fn content(sectors: u64, rng: &mut ChaCha8Rng) -> Vec<u8> {
    let mut bytes = vec![0; sectors as usize * SECTOR];
    for chunk in bytes.chunks_mut(8 * SECTOR) {
        if rng.random() {
            rng.fill_bytes(chunk);
        }
    }
    bytes
}

fn bytes_of(drive: &[u8], extent: Extent) -> &[u8] {
    &drive[extent.start.get() as usize * SECTOR..extent.end().get() as usize * SECTOR]
}

/// The output as an image.
fn image(len: usize, out: &[Output]) -> Vec<u8> {
    let mut image = vec![0; len];
    for output in out {
        match output {
            Output::At { offset, bytes } => {
                image[*offset as usize..][..bytes.len()].copy_from_slice(bytes)
            }
            Output::Append { .. } => panic!("an image is not appended to"),
        }
    }
    image
}

/// The content of a stream as an image, and the unreadable ranges.
fn restored(len: usize, out: &[Output]) -> (Vec<u8>, Vec<(u64, u64)>) {
    let (mut image, mut unreadable, mut reader) =
        (vec![0xEE; len], Vec::new(), RecordReader::default());
    for output in out {
        let Output::Append { bytes } = output else { panic!("a stream is appended to only") };
        reader.feed(bytes);
        while let Some(record) = reader.next().expect("what was written is whole") {
            match record {
                BackupRecord::Data { offset, bytes } => {
                    image[offset as usize..][..bytes.len()].copy_from_slice(&bytes)
                }
                BackupRecord::Zeroes { offset, len } => {
                    image[offset as usize..][..len as usize].fill(0)
                }
                BackupRecord::Unreadable { offset, len } => unreadable.push((offset, len)),
                BackupRecord::Header { .. } | BackupRecord::Index | BackupRecord::End => {}
            }
        }
    }
    assert!(reader.is_complete(), "the stream has no end");
    (image, unreadable)
}

/// Delivers everything that is missing: in random order and pieces, some of them twice, sectors of
/// `bad` as errors, perhaps with restarts in between.
fn run(
    scan: Scan,
    drive: &[u8],
    bad: &[Extent],
    restarts: bool,
    rng: &mut ChaCha8Rng,
) -> (Scan, Vec<Output>) {
    let mut scan = scan;
    let mut out = Vec::new();
    scan.begin(&mut out);
    while !scan.is_complete() {
        let missing: Vec<Extent> = scan.missing().collect();
        let within = missing[rng.random_range(0..missing.len())];
        let first = rng.random_range(0..within.len.get());
        let len = rng.random_range(1..=(within.len.get() - first).min(100));
        let mut piece = Extent::new(within.start + Sectors::new(first), Sectors::new(len));
        // Like a drive, read failed pieces again in smaller ones, down to a single sector.
        let is_bad = |lba: Lba| bad.iter().any(|bad| bad.contains(lba));
        if is_bad(piece.start) {
            piece.len = Sectors::new(1);
            scan.deliver(piece, Err(5), false, ReadSource::Idle, &mut out);
        } else {
            while is_bad(piece.last()) || bad.iter().any(|bad| bad.overlaps(piece)) {
                piece.len = Sectors::new(piece.len.get() - 1);
            }
            let times = if rng.random_range(0..10) == 0 { 2 } else { 1 };
            (0..times).for_each(|_| {
                scan.deliver(piece, Ok(bytes_of(drive, piece)), false, ReadSource::Gap, &mut out)
            });
        }
        scan.keep();
        // Pieces of single sectors take long to complete a grain; now and then deliver a large one.
        if rng.random_range(0..4) == 0 && !bad.iter().any(|bad| bad.overlaps(within)) {
            scan.deliver(within, Ok(bytes_of(drive, within)), false, ReadSource::Merged, &mut out);
            scan.keep();
        }
        if restarts && rng.random_range(0..8) == 0 {
            scan = through_state(&scan);
        }
    }
    scan.end(&mut out);
    (scan, out)
}

fn through_state(scan: &Scan) -> Scan {
    let mut bytes = Vec::new();
    scan.encode(true, &mut |part| bytes.extend_from_slice(part));
    Scan::decode(&bytes, scan.subject(), scan.kind()).expect("what was written is read").scan
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_backup_in_any_order_and_over_restarts_is_a_plain_copy(
        seed in any::<u64>(), start in 0_u64..20, len in 1_u64..3000,
    ) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let drive = content(start + len, &mut rng);
        let subject = subject(start, len);
        let plain = bytes_of(&drive, subject.extent).to_vec();
        let scan = Scan::start(subject.clone(), TaskKind::Backup, 512);
        let (scan, out) = run(scan, &drive, &[], true, &mut rng);
        prop_assert!(image(plain.len(), &out) == plain);
        prop_assert_eq!(scan.sources().iter().sum::<u64>() >= len, true);

        let stream = TaskSettings { form: BackupForm::Stream, ..TaskKind::Backup.into() };
        let (_, out) = run(Scan::start(subject, stream, 512), &drive, &[], false, &mut rng);
        prop_assert!(restored(plain.len(), &out) == (plain, Vec::new()));
    }

    #[test]
    fn digests_do_not_depend_on_order_pieces_or_restarts(
        seed in any::<u64>(), start in 0_u64..20, len in 1_u64..6000,
    ) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let drive = content(start + len, &mut rng);
        let scan = || Scan::start(subject(start, len), TaskKind::Digest, 512);
        let (one, _) = run(scan(), &drive, &[], true, &mut rng);
        let mut other = scan();
        let extent = subject(start, len).extent;
        let bytes = bytes_of(&drive, extent);
        other.deliver(extent, Ok(bytes), false, ReadSource::Idle, &mut Vec::new());
        other.keep();
        let digest = |scan: &Scan| scan.digests().and_then(|digests| digests.table);
        prop_assert!(digest(&one).is_some());
        prop_assert_eq!(digest(&one), digest(&other));
        let mut changed = drive.clone();
        let place = rng.random_range(start as usize * SECTOR..drive.len());
        changed[place] ^= 1 << rng.random_range(0..8);
        let (changed, _) = run(scan(), &changed, &[], false, &mut rng);
        prop_assert_ne!(digest(&one), digest(&changed));
    }

    #[test]
    fn state_that_was_changed_anywhere_is_refused(
        seed in any::<u64>(), flip in any::<prop::sample::Index>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let drive = content(5000, &mut rng);
        let mut scan = Scan::start(subject(0, 5000), TaskKind::Digest, 4096);
        let extent = Extent::from_numbers(8, 1600);
        let read = bytes_of(&drive, extent);
        scan.deliver(extent, Ok(read), false, ReadSource::Gap, &mut Vec::new());
        scan.keep();
        let mut bytes = Vec::new();
        scan.encode(false, &mut |part| bytes.extend_from_slice(part));
        let decode = |bytes: &[u8]| Scan::decode(bytes, scan.subject(), TaskKind::Digest);
        let is_whole = decode(&bytes).is_ok_and(|loaded| {
            !loaded.closed && loaded.scan.sectors_done().get() == 1600
        });
        prop_assert!(is_whole);
        prop_assert!(decode(&bytes[..cut.index(bytes.len())]).is_err());
        let place = flip.index(bytes.len());
        bytes[place] ^= 1 << rng.random_range(0..8);
        prop_assert!(Scan::decode(&bytes, scan.subject(), TaskKind::Digest).is_err());
    }
}

#[test]
fn sectors_that_cannot_be_read_are_told_exactly_and_are_zeroes_in_a_backup() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let mut drive = content(4096, &mut rng);
    let bad = [Extent::from_numbers(100, 3), Extent::from_numbers(2047, 2)];
    for kind in [TaskKind::Scrub, TaskKind::Backup, TaskKind::Digest] {
        let (scan, out) =
            run(Scan::start(subject(0, 4096), kind, 512), &drive, &bad, false, &mut rng);
        assert_eq!(scan.failed().iter().collect::<Vec<_>>(), bad, "{kind}");
        assert_eq!(
            scan.digests().map(|digests| digests.table),
            (kind == TaskKind::Digest).then_some(None),
            "{kind}"
        );
        if kind == TaskKind::Backup {
            bad.iter().for_each(|bad| {
                drive[bad.start.get() as usize * SECTOR..bad.end().get() as usize * SECTOR].fill(0)
            });
            assert!(image(drive.len(), &out) == drive);
            let stream = TaskSettings { form: BackupForm::Stream, ..TaskKind::Backup.into() };
            let (_, out) =
                run(Scan::start(subject(0, 4096), stream, 512), &drive, &bad, false, &mut rng);
            let (image, mut unreadable) = restored(drive.len(), &out);
            unreadable.sort_unstable();
            assert!(image == drive);
            assert_eq!(
                unreadable
                    .iter()
                    .map(|(offset, len)| (offset / 512, len / 512))
                    .collect::<Vec<_>>(),
                [(100, 3), (2047, 1), (2048, 1)]
            );
        }
    }
}

/// A scrub with digests over three mebibytes, after its first pass.
fn scrubbed(drive: &[u8]) -> Scan {
    let settings = TaskSettings { digests: true, ..TaskKind::Scrub.into() };
    let mut scan = Scan::start(subject(0, 3 * 2048), settings, 4096);
    pass(&mut scan, drive, &[]);
    assert_eq!(
        scan.digests().map(|digests| (digests.compared, digests.not_compared)),
        Some((0, 0)),
        "there is nothing to compare with yet"
    );
    scan.again();
    scan
}

/// A whole pass in pieces of a quarter of a mebibyte; `written` names the pieces before which their
/// mebibyte was written.
fn pass(scan: &mut Scan, drive: &[u8], written: &[u64]) {
    for piece in 0..scan.subject().extent.len.get() / 512 {
        let extent = Extent::new(Lba::new(piece * 512), Sectors::new(512));
        scan.deliver(
            extent,
            Ok(bytes_of(drive, extent)),
            written.contains(&piece),
            ReadSource::Idle,
            &mut Vec::new(),
        );
        scan.keep();
    }
    assert!(scan.is_complete());
}

#[test]
fn a_change_from_outside_is_found_and_a_known_write_is_not_blamed_on_the_drive() {
    let mut drive = content(3 * 2048, &mut ChaCha8Rng::seed_from_u64(6));
    let mut scan = scrubbed(&drive);
    drive[5] ^= 1;
    drive[2048 * SECTOR + 5] ^= 1;
    // The second mebibyte was written before its first piece came.
    pass(&mut scan, &drive, &[4]);
    let digests = scan.digests().expect("it makes digests");
    assert_eq!((digests.compared, digests.not_compared), (2, 1));
    assert_eq!(digests.changed.iter().collect::<Vec<_>>(), [Extent::from_numbers(0, 2048)]);
    assert!(digests.table.is_some(), "all three have a digest again");
    scan.again();
    pass(&mut through_state(&scan), &drive, &[]);
}

#[test]
fn a_mebibyte_written_while_it_was_read_has_no_digest_and_is_not_compared_the_next_time() {
    let mut drive = content(3 * 2048, &mut ChaCha8Rng::seed_from_u64(7));
    let mut scan = scrubbed(&drive);
    pass(&mut scan, &drive, &[6]);
    assert_eq!(
        scan.digests().map(|digests| (digests.compared, digests.not_compared, digests.table)),
        Some((2, 1, None))
    );
    drive[2048 * SECTOR] ^= 1;
    scan.again();
    pass(&mut scan, &drive, &[]);
    let digests = scan.digests().expect("it makes digests");
    assert!((digests.compared, digests.changed.is_empty()) == (2, true), "{digests:?}");
    // Written after its digest was made, and reported with a piece that comes twice.
    let extent = Extent::from_numbers(0, 512);
    scan.deliver(extent, Ok(bytes_of(&drive, extent)), true, ReadSource::Idle, &mut Vec::new());
    scan.again();
    drive[0] ^= 1;
    pass(&mut scan, &drive, &[]);
    assert!(
        scan.digests().is_some_and(|digests| digests.changed.is_empty() && digests.compared == 2)
    );
}

#[test]
fn state_of_another_drive_target_size_or_task_is_refused_by_name() {
    let scan = Scan::start(subject(0, 4096), TaskKind::Scrub, 4096);
    let mut bytes = Vec::new();
    scan.encode(true, &mut |part| bytes.extend_from_slice(part));
    let known = subject(0, 4096);
    let cases = [
        (ScanSubject { drive: [4; 16], ..known.clone() }, TaskKind::Scrub, "drive"),
        (ScanSubject { target: "vol1".into(), ..known.clone() }, TaskKind::Scrub, "target"),
        (
            ScanSubject { extent: Extent::from_numbers(0, 8192), ..known.clone() },
            TaskKind::Scrub,
            "sectors",
        ),
        (
            ScanSubject { sector_size: SectorSize::B4096, ..known.clone() },
            TaskKind::Scrub,
            "sectors of",
        ),
        (known.clone(), TaskKind::Backup, "task"),
    ];
    for (requested, kind, expected) in cases {
        match Scan::decode(&bytes, &requested, kind) {
            Err(ScanStateError::Foreign { what, .. }) => assert_eq!(what, expected),
            other => {
                panic!("{expected}: {:?}", other.map(|_| ()).map_err(|error| error.to_string()))
            }
        }
    }
    let mut newer = bytes.clone();
    newer[8] = 2;
    assert!(matches!(
        Scan::decode(&newer, &known, TaskKind::Scrub),
        Err(ScanStateError::Newer { version: 2 })
    ));
    assert!(matches!(
        Scan::decode(b"", &known, TaskKind::Scrub),
        Err(ScanStateError::Damaged { .. })
    ));
}

#[test]
fn what_could_not_be_kept_stays_missing() {
    let drive = content(64, &mut ChaCha8Rng::seed_from_u64(8));
    let mut scan = Scan::start(subject(0, 64), TaskKind::Backup, 4096);
    let mut out = Vec::new();
    scan.deliver(
        Extent::from_numbers(0, 16),
        Ok(bytes_of(&drive, Extent::from_numbers(0, 16))),
        false,
        ReadSource::Gap,
        &mut out,
    );
    scan.forget();
    scan.deliver(
        Extent::from_numbers(16, 8),
        Ok(bytes_of(&drive, Extent::from_numbers(16, 8))),
        false,
        ReadSource::Gap,
        &mut out,
    );
    scan.keep();
    scan.count_as_kept(Extent::from_numbers(31, 10));
    assert_eq!(
        scan.missing().collect::<Vec<_>>(),
        [Extent::from_numbers(0, 16), Extent::from_numbers(24, 8), Extent::from_numbers(40, 24)]
    );
}

#[test]
fn every_changed_byte_and_every_cut_of_state_is_refused() {
    let drive = content(5000, &mut ChaCha8Rng::seed_from_u64(9));
    for settings in
        [TaskSettings { digests: true, ..TaskKind::Scrub.into() }, TaskKind::Backup.into()]
    {
        let mut scan = Scan::start(subject(0, 5000), settings, 4096);
        scan.set_note("output", "somewhere");
        let extent = Extent::from_numbers(8, 1600);
        scan.deliver(extent, Ok(bytes_of(&drive, extent)), false, ReadSource::Gap, &mut Vec::new());
        scan.deliver(
            Extent::from_numbers(2048, 8),
            Err(5),
            false,
            ReadSource::Gap,
            &mut Vec::new(),
        );
        scan.keep();
        let mut whole = Vec::new();
        scan.encode(false, &mut |part| whole.extend_from_slice(part));
        let read = |bytes: &[u8]| {
            Scan::decode(bytes, scan.subject(), settings.kind)
                .map(|loaded| loaded.scan.sectors_done())
        };
        assert_eq!(read(&whole), Ok(scan.sectors_done()));
        for place in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[place] ^= 1 << (place % 8);
            assert!(
                read(&bytes).is_err() && Scan::inspect(&bytes).is_err(),
                "byte {place} of {}",
                whole.len()
            );
            assert!(read(&whole[..place]).is_err(), "cut to {place} of {} bytes", whole.len());
        }
    }
}

/// A task that is not in the table: it counts the bits that are set.
struct Bits(u64);

impl Task for Bits {
    fn settings(&self) -> TaskSettings {
        TaskKind::Scrub.into()
    }

    fn take(&mut self, piece: &Piece<'_>, _out: &mut Vec<Output>) {
        self.0 += piece.bytes.iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>();
    }

    fn again(&mut self) {
        self.0 = 0;
    }

    fn digests(&self) -> Option<DigestReport> {
        None
    }

    fn encode(&self, to: &mut dyn FnMut(&[u8])) {
        to(&self.0.to_le_bytes());
    }
}

#[test]
fn a_task_of_ones_own_is_remembered_with_its_scan() {
    let drive = content(64, &mut ChaCha8Rng::seed_from_u64(10));
    let half = Extent::from_numbers(0, 32);
    let mut scan = Scan::with_task(subject(0, 64), Box::new(Bits(0)), 4096);
    scan.deliver(half, Ok(bytes_of(&drive, half)), false, ReadSource::Idle, &mut Vec::new());
    scan.keep();
    let bits = bytes_of(&drive, half).iter().map(|byte| u64::from(byte.count_ones())).sum::<u64>();
    let mut bytes = Vec::new();
    scan.encode(true, &mut |part| bytes.extend_from_slice(part));
    let mut remembered = None;
    let loaded = Scan::decode_own(&bytes, scan.subject(), TaskKind::Scrub, |own| {
        remembered = own.try_into().ok().map(u64::from_le_bytes);
        Some(Box::new(Bits(remembered?)))
    });
    let scan = loaded.expect("it was written by the same task").scan;
    assert_eq!(
        (remembered, scan.missing().collect::<Vec<_>>()),
        (Some(bits), vec![Extent::from_numbers(32, 32)])
    );
    let refused = Scan::decode_own(&bytes, scan.subject(), TaskKind::Scrub, |_| None).map(|_| ());
    assert!(matches!(
        refused,
        Err(ScanStateError::Damaged { what }) if what.contains("the task remembers")
    ));
    assert!(
        Scan::decode(&bytes, scan.subject(), TaskKind::Scrub).is_err(),
        "it is not taken for a task of the table"
    );
}
