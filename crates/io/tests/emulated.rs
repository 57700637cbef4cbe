//! What only emulated drives do: remember whose bytes a file holds, report lateness and disk time,
//! be longer than a file can be.

mod common;

use std::path::Path;

use bytes::Bytes;
use headtime_io::{Drive, DriveOptions, Io, Locator, OpenError};
use headtime_sched::Op;
use headtime_units::Extent;

use common::{Kind, Place, SECTOR, SECTORS, holds, pattern};

fn open(text: &str) -> Result<Drive, OpenError> {
    Drive::open(&Locator::parse(text).expect("a locator"), DriveOptions::default())
}

fn refusal(text: &str) -> String {
    open(text).err().expect(text).to_string()
}

/// A place with a drive that has been written to, its locator, and its sidecar.
fn used_drive(seed: &str) -> (Place, String, std::path::PathBuf) {
    let place = Place::new(Kind::Emulated);
    let text = place.locator().to_string();
    let drive = open(&format!("{text}{seed}")).expect("a new drive");
    let extent = Extent::from_numbers(0, 8);
    assert!(drive.handle().run(Io::write(extent, pattern(extent, 1))).result.is_ok());
    assert!(drive.shutdown().is_clean());
    let sidecar = place.path("drive.img.headtime");
    assert!(sidecar.exists());
    (place, text, sidecar)
}

#[test]
fn the_backing_file_is_exactly_the_drives_bytes_and_sparse() {
    use std::os::unix::fs::MetadataExt;
    let (place, _, _) = used_drive("");
    let status = std::fs::metadata(place.backing()).expect("the file is there");
    assert_eq!(status.len(), SECTORS * SECTOR as u64);
    assert!(status.blocks() * 512 < status.len() / 2, "{} blocks are taken", status.blocks());
    let bytes = std::fs::read(place.backing()).expect("readable");
    assert!(bytes[..8 * SECTOR] == pattern(Extent::from_numbers(0, 8), 1));
}

#[test]
fn a_setting_after_a_comma_makes_no_file_with_that_name() {
    let place = Place::new(Kind::Emulated);
    let text = format!("{},seed=6", place.locator());
    let message = refusal(&text);
    assert!(message.contains("`,seed=6`") && message.contains("joined by &"), "{message}");
    let file = place.path("drive.img,seed=6");
    assert!(!file.exists());
    std::fs::write(&file, []).expect("writable");
    open(&text).expect("an empty file that exists becomes the drive");
}

#[test]
fn a_drive_of_another_profile_or_unit_is_refused_and_the_same_one_with_another_setup_is_not() {
    let (place, text, _) = used_drive("&seed=5");
    let other = place.path("other.toml");
    let swift = std::fs::read_to_string(place.path("swift.toml")).expect("readable");
    std::fs::write(&other, swift.replace("name = \"swift\"", "name = \"slower\""))
        .expect("writable");
    let message =
        refusal(&format!("emulated:{}?backing={}", other.display(), place.backing().display()));
    assert!(
        message.contains("profile swift, not slower") && message.contains("another backing file"),
        "{message}"
    );
    let message = refusal(&format!("{text}&seed=6"));
    assert!(message.contains("seed 5, not 6"), "{message}");
    std::fs::write(&other, swift.replace("capacity_sectors = 16384", "capacity_sectors = 16000"))
        .expect("writable");
    let message =
        refusal(&format!("emulated:{}?backing={}", other.display(), place.backing().display()));
    assert!(message.contains("capacity_sectors 16384, not 16000"), "{message}");

    for same in [
        text.clone(),
        format!("{text}&seed=5&noise=off"),
        text.replace("swift.toml", "swift.toml@single"),
    ] {
        let drive = open(&same).expect("the same drive");
        assert!(holds(&drive, Extent::from_numbers(0, 8), 1), "{same}");
        assert!(drive.snapshot().backend.contains("unit 5"), "{same}");
    }
}

#[test]
fn a_shingled_drive_is_smaller_keeps_its_bytes_and_counts_stalls() {
    let place = Place::new(Kind::Emulated);
    let text = place.locator().to_string();
    // Sixteen blocks of media cache, so that most of these writes wait for a band.
    let drive = open(&format!("{text}&smr=64KiB/1MiB")).expect("a new drive");
    assert_eq!(drive.capacity().get(), SECTORS - 128 - 2_048);
    let extents = (0..40).map(|number| Extent::from_numbers(number * 37 % 200 * 64 + 3, 8));
    for extent in extents.clone() {
        assert!(drive.handle().run(Io::write(extent, pattern(extent, 1))).result.is_ok());
    }
    for extent in extents {
        assert!(holds(&drive, extent, 1), "{extent}");
    }
    let counts = drive.snapshot().stalls[0];
    assert!(counts.writes >= 39 && counts.reads >= 39 && counts.write_stalls == 0, "{counts:?}");
    assert!(drive.shutdown().is_clean());

    let message = refusal(&format!("{text}&smr=8MiB"));
    assert!(message.contains("a media cache of 8 MiB, a band of 32 MiB"), "{message}");
}

#[test]
fn a_damaged_sidecar_is_refused_with_the_remedy_and_the_remedy_works() {
    let (place, text, sidecar) = used_drive("");
    let whole = std::fs::read_to_string(&sidecar).expect("readable");
    for damage in [
        whole.replace("seed 0", "seed 1"),
        whole[..whole.len() / 2].to_owned(),
        String::new(),
        "\u{0}\u{1}".to_owned(),
    ] {
        std::fs::write(&sidecar, &damage).expect("writable");
        let message = refusal(&text);
        assert!(
            message.contains("damaged")
                && message.contains("delete")
                && message.contains("drive.img.headtime"),
            "{damage:?}: {message}"
        );
    }
    std::fs::remove_file(&sidecar).expect("it is there");
    let drive = open(&text).expect("a file of the right length is taken");
    assert!(holds(&drive, Extent::from_numbers(0, 8), 1));
    assert_eq!(std::fs::read_to_string(&sidecar).expect("written again"), whole);
    drop((drive, place));
}

#[test]
fn a_file_of_another_length_is_refused_with_and_without_sidecar() {
    let (place, text, sidecar) = used_drive("");
    let file =
        std::fs::OpenOptions::new().write(true).open(place.backing()).expect("the file is there");
    file.set_len(4096).expect("it can be cut");
    let message = refusal(&text);
    assert!(message.contains("4096 bytes long instead of 8388608"), "{message}");
    std::fs::remove_file(sidecar).expect("it is there");
    let message = refusal(&text);
    assert!(
        message.contains("4096 bytes long") && message.contains("profile swift has 8388608 bytes"),
        "{message}"
    );
}

#[test]
fn an_unfinished_or_removed_backing_is_made_again_empty() {
    let (place, text, _) = used_drive("&seed=3");
    let file =
        std::fs::OpenOptions::new().write(true).open(place.backing()).expect("the file is there");
    file.set_len(0).expect("it can be cut");
    let zeroes = Ok(Bytes::from(vec![0; SECTOR]));
    let read = |drive: Drive| drive.handle().run(Io::read(Extent::from_numbers(0, 1))).result;
    let drive = open(&text).expect("an empty file is an unfinished one");
    assert!(drive.snapshot().backend.contains("unit 3"), "the unit is still remembered");
    assert_eq!(read(drive), zeroes);
    std::fs::remove_file(place.backing()).expect("it is there");
    let drive = open(&format!("{text}&seed=9")).expect("a sidecar without its file means nothing");
    assert_eq!(read(drive), zeroes);
}

#[test]
fn profiles_and_setups_that_are_not_there_are_named_with_those_that_are() {
    let directory = tempfile::tempdir().expect("a place for files");
    let backing = directory.path().join("d.img");
    let message = refusal(&format!("emulated:floppy?backing={}", backing.display()));
    assert!(message.contains("floppy") && message.contains("atlas10k"), "{message}");
    let message = refusal(&format!("emulated:atlas10k@turbo?backing={}", backing.display()));
    assert!(message.contains("turbo") && message.contains("recorded"), "{message}");
    let message = refusal(&format!("emulated:./no/such.toml?backing={}", backing.display()));
    assert!(message.contains("no/such.toml"), "{message}");
    assert!(!backing.exists(), "a refused drive leaves nothing behind");
}

#[test]
fn lateness_and_disk_time_are_reported() {
    let place = Place::new(Kind::Emulated);
    let drive = place.open(place.options()).expect("a drive");
    for start in 0..200 {
        assert!(drive.handle().run(Io::read(Extent::from_numbers(start * 71, 4))).result.is_ok());
    }
    assert!(drive.handle().run(Io::new(Op::Flush, Extent::default())).result.is_ok());
    let emulation = drive.snapshot().emulation.expect("an emulated drive");
    assert_eq!(emulation.lateness.completions + emulation.bytes_late, 201);
    assert!(
        emulation.lateness.p50 <= emulation.lateness.p99
            && emulation.lateness.p99 <= emulation.lateness.max
    );
    assert_eq!(emulation.bytes_late == 0, emulation.bytes_late_max.is_zero());
    let time = emulation.disk_time;
    assert!(!time.transfer.is_zero() && !time.rotate.is_zero() && !time.seek.is_zero(), "{time:?}");
}

/// 20 TB do not fit one file of ext4; whichever way this file system takes, every byte has its
/// place.
#[test]
fn a_drive_longer_than_a_file_keeps_its_bytes_across_segments() {
    const SEGMENT_SECTORS: u64 = (8 << 40) / 512;
    let directory = tempfile::tempdir().expect("a place for files");
    let backing = directory.path().join("big.img");
    let text = format!("emulated:nearline-20tb?backing={}", backing.display());
    let extents = |capacity: u64| {
        [0, SEGMENT_SECTORS - 4, 2 * SEGMENT_SECTORS - 1, capacity - 8]
            .map(|start| Extent::from_numbers(start, 8))
    };
    let drive = open(&text).expect("a new drive");
    let capacity = drive.capacity().get();
    for extent in extents(capacity) {
        assert_eq!(
            drive.handle().run(Io { fua: true, ..Io::write(extent, pattern(extent, 1)) }).result,
            Ok(Bytes::new()),
            "{extent}"
        );
    }
    assert!(drive.shutdown().is_clean());
    let drive = open(&text).expect("the same drive");
    for extent in extents(capacity) {
        assert!(holds(&drive, extent, 1), "{extent}");
    }
    assert_eq!(
        drive.handle().run(Io::new(Op::Zero, extents(capacity)[1])).result,
        Ok(Bytes::new())
    );
    assert_eq!(
        drive.handle().run(Io::read(extents(capacity)[1])).result,
        Ok(Bytes::from(vec![0; 8 * SECTOR]))
    );
    drop(drive);

    let second = Path::new(&format!("{}.1", backing.display())).to_owned();
    if !second.exists() {
        eprintln!("this file system holds the drive in one file; segments were not tried");
        return;
    }
    // As a crash while it was made would have left it: nothing in the first, which gets its length
    // last.
    for path in [&backing, &second] {
        std::fs::OpenOptions::new()
            .write(true)
            .open(path)
            .and_then(|file| file.set_len(0))
            .expect("it can be cut");
    }
    let later = |number: u32| std::fs::remove_file(format!("{}.{number}", backing.display()));
    later(2).expect("it is there");
    (3..).take_while(|number| later(*number).is_ok()).for_each(drop);
    let drive = open(&text).expect("an unfinished drive is finished");
    for extent in extents(capacity) {
        assert_eq!(
            drive.handle().run(Io::read(extent)).result,
            Ok(Bytes::from(vec![0; 8 * SECTOR])),
            "{extent}"
        );
    }
    drop(drive);
    std::fs::remove_file(&backing).expect("it is there");
    let message = refusal(&text);
    assert!(message.contains("big.img.1") && message.contains("restore"), "{message}");
    assert!(second.exists());
}
