//! Arrays of drives: what is refused, and what a member that fails takes with it.

mod common;

use std::path::Path;
use std::time::Duration;

use headtime_io::{Drive, DriveOptions, Io, IoError, Locator, PolicyChoice};
use headtime_units::Extent;

use common::{answer, pattern, submit, when_let_go};

/// Sectors of each member, and of a stripe.
const MEMBER: u64 = 4_096;
const STRIPE: u64 = 8;
const MEMBERS: u64 = 3;

fn locator(folder: &Path, schedule: &str) -> Locator {
    let file = |name: &str| folder.join(name).display().to_string();
    let members = ["a", "b", "c"].map(file).join(",");
    Locator::parse(&format!("array:stripe=4KiB,schedule={schedule},{members}")).expect("a locator")
}

fn open(folder: &Path, policy: &str, schedule: &str) -> Drive {
    let options = DriveOptions {
        create_bytes: Some(MEMBER * 512),
        policy: PolicyChoice::parse(policy).expect("a policy"),
        ..DriveOptions::default()
    };
    when_let_go(|| Drive::open(&locator(folder, schedule), options.clone())).expect("opens")
}

/// The members that hold sectors of an extent.
fn members_of(extent: Extent) -> Vec<u64> {
    let stripes = extent.start.get() / STRIPE..=extent.last().get() / STRIPE;
    let mut members: Vec<u64> = stripes.map(|stripe| stripe % MEMBERS).collect();
    members.sort_unstable();
    members.dedup();
    members
}

#[test]
fn a_failed_member_fails_exactly_the_requests_that_need_it_and_is_named() {
    for (policy, schedule) in [("headtime", "member"), ("cds-scan", "member"), ("fcfs", "whole")] {
        let folder = tempfile::tempdir().expect("a place for files");
        let drive = open(folder.path(), policy, schedule);
        let whole = Extent::from_numbers(0, drive.capacity().get());
        assert_eq!(whole.len.get(), MEMBERS * MEMBER);
        assert!(drive.handle().run(Io::write(whole, pattern(whole, 1))).result.is_ok());
        assert!(drive.handle().run(Io::flush()).result.is_ok());
        // A batch with one deadline; the member goes when half of it is submitted.
        let extents: Vec<Extent> = (0..200_u64)
            .map(|number| Extent::from_numbers(number * 37 % 12_000, 1 + number * 5 % 40))
            .collect();
        let batch: Vec<_> = extents
            .iter()
            .zip(0..)
            .map(|(extent, number)| {
                if number == 100 {
                    let file = std::fs::File::options().write(true).open(folder.path().join("b"));
                    file.and_then(|file| file.set_len(0)).expect("the file is there");
                }
                submit(&drive, Io::read(*extent).deadline(Duration::from_secs(60)))
            })
            .collect();
        let (mut failed, mut served) = (0, 0);
        for (number, (receiver, extent)) in batch.iter().zip(&extents).enumerate() {
            let done = answer(receiver);
            let needed = members_of(*extent).contains(&1);
            assert!(!done.missed_deadline());
            match done.result {
                Ok(bytes) => {
                    assert_eq!(bytes, pattern(*extent, 1), "request {number} of {extent}");
                    // Requests before the fault may have been served in time.
                    assert!(!needed || number < 100, "{extent} needs the member that is gone");
                    served += 1;
                }
                Err(error) => {
                    assert!(needed, "{extent} does not need the member that is gone: {error}");
                    let message = error.to_string();
                    let name = folder.path().join("b").display().to_string();
                    assert!(message.contains("member 2 of 3") && message.contains(&name));
                    assert!(matches!(error, IoError::Drive { .. }), "{error:?}");
                    failed += 1;
                }
            }
        }
        assert!(failed > 20 && served > 20, "{failed} failed, {served} served");
        drop(drive);
    }
}

#[test]
fn the_members_keep_the_data_for_the_next_opening() {
    let folder = tempfile::tempdir().expect("a place for files");
    let extent = Extent::from_numbers(5, 1_000);
    let drive = open(folder.path(), "sptf", "member");
    assert!(drive.handle().run(Io::write(extent, pattern(extent, 7)).fua()).result.is_ok());
    assert!(drive.shutdown().is_clean());
    let drive = open(folder.path(), "edf", "whole");
    assert!(common::holds(&drive, extent, 7));
}

#[test]
fn members_that_make_no_array_are_refused_by_name() {
    let folder = tempfile::tempdir().expect("a place for files");
    std::fs::write(folder.path().join("a"), [0; 4_096]).expect("the place can be written");
    let a = folder.path().join("a").display().to_string();
    let mixed = "memory:1MiB,memory:1MiB?sector=4096".to_owned();
    let parts = "stripe=512,memory:1MiB?sector=4096,memory:1MiB?sector=4096".to_owned();
    let short = "stripe=2MiB,memory:1MiB,memory:8MiB".to_owned();
    let missing = format!("stripe=4KiB,memory:1MiB,{a}x");
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&a, &link).expect("the place can be written");
    let twice = format!("stripe=512,{a},{}", link.display());
    let cases = [
        (mixed, "has sectors of 4096 bytes, but memory:1048576"),
        (parts, "write stripe=4096"),
        (short, "member memory:1048576 has 1048576 bytes, less"),
        (missing, "member 2 of 2: "),
        (twice, "is locked by another"),
    ];
    for (members, message) in cases {
        let locator = Locator::parse(&format!("array:{members}")).expect(&members);
        let error = Drive::open(&locator, DriveOptions::default()).err().expect(&members);
        assert!(error.to_string().contains(message), "{members}: {error}");
    }
}
