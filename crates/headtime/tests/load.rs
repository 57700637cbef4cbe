//! The interface under load: thousands of requests in flight, cancellations from other threads, and
//! a drive that fails in the middle of a batch.

use std::collections::HashSet;
use std::fs;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use headtime::{Canceller, CompletionQueue, Drive, Error, ErrorKind, IoDone, OpenOptions, Pending};

const REQUESTS: u64 = 10_000;
const BLOCK: u64 = 4096;
const MINUTE: Duration = Duration::from_secs(60);

/// An emulated drive with room for all requests, whose first blocks hold their numbers.
fn numbered_drive(folder: &tempfile::TempDir) -> Drive {
    let path = format!("emulated:atlas10k?backing={}", folder.path().join("drive.img").display());
    let options = OpenOptions::new().max_requests(REQUESTS as usize).max_bytes(REQUESTS * BLOCK);
    let drive = options.open(&path).expect("an emulated drive");
    drive.write_at(0, numbered_blocks()).wait().expect("a write");
    drive
}

fn numbered_blocks() -> Vec<u8> {
    (0..REQUESTS).flat_map(|block| block.to_le_bytes().repeat(BLOCK as usize / 8)).collect()
}

/// Every block once, in an order that jumps.
fn blocks() -> impl Iterator<Item = u64> {
    (0..REQUESTS).map(|number| number * 7919 % REQUESTS)
}

fn assert_is_block(done: &IoDone, block: u64) {
    assert_eq!(done.data().len() as u64, BLOCK);
    assert!(done.data()[..] == block.to_le_bytes().repeat(BLOCK as usize / 8)[..], "block {block}");
}

/// Reads as many bytes as the drive may hold, which waits for ever if a request still holds some.
fn assert_all_room_is_free(drive: &Drive) {
    drive.read_at(0, REQUESTS * BLOCK).wait().expect("a read of all bytes");
}

#[test]
fn ten_thousand_requests_in_flight_each_have_their_own_result() {
    let folder = tempfile::tempdir().expect("a folder");
    let drive = numbered_drive(&folder);
    let start = |block| {
        let read = drive.read_at(block * BLOCK, BLOCK).deadline(MINUTE);
        (block, read.try_start().expect("the drive has room for all"))
    };
    let pending: Vec<(u64, Pending)> = blocks().map(start).collect();
    for (block, read) in pending {
        let done = read.wait().expect("a read");
        assert_is_block(&done, block);
    }
    assert_all_room_is_free(&drive);
    drive.close().expect("a clean close");
}

#[test]
fn in_a_storm_of_cancellations_every_request_has_one_result_and_all_room_is_free_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let drive = numbered_drive(&folder);
    let (send, cancellers) = mpsc::channel::<Canceller>();
    let (cancelled, read) = thread::scope(|scope| {
        // One thread cancels what four others start.
        scope.spawn(|| cancellers.into_iter().for_each(|canceller| canceller.cancel()));
        let clients: Vec<_> = (0..4)
            .map(|client| {
                let (drive, send) = (&drive, send.clone());
                scope.spawn(move || {
                    let mine = blocks().enumerate().skip(client).step_by(4);
                    let pending: Vec<_> = mine
                        .map(|(number, block)| {
                            let read = drive.read_at(block * BLOCK, BLOCK).deadline(MINUTE);
                            let pending = read.start().wait().expect("room comes");
                            let cancel = number / 4 % 2 == 0;
                            if cancel {
                                send.send(pending.canceller()).expect("the thread listens");
                            }
                            (block, cancel, pending)
                        })
                        .collect();
                    pending.into_iter().fold((0, 0), |(cancelled, read), (block, cancel, one)| {
                        match one.wait() {
                            Ok(done) => {
                                assert_is_block(&done, block);
                                (cancelled, read + 1)
                            }
                            Err(error) => {
                                assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
                                assert!(cancel, "nobody cancelled block {block}");
                                (cancelled + 1, read)
                            }
                        }
                    })
                })
            })
            .collect();
        drop(send);
        let results = clients.into_iter().map(|client| client.join().expect("no panic"));
        results.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    });
    assert_eq!(cancelled + read, REQUESTS);
    assert!(cancelled > 0, "no cancellation came before the completion");
    assert_all_room_is_free(&drive);
}

#[test]
fn tasks_that_are_dropped_while_they_wait_for_room_leave_it_to_the_others() {
    let drive = OpenOptions::new().max_requests(16).open("memory:64MiB").expect("a drive");
    let folder = tempfile::tempdir().expect("a folder");
    let path = format!("emulated:atlas10k?backing={}", folder.path().join("drive.img").display());
    let slow = OpenOptions::new().max_requests(16).open(&path).expect("an emulated drive");
    for drive in [&drive, &slow] {
        let mut queue = CompletionQueue::new().expect("a descriptor");
        let numbers: Vec<u64> = (0..2_000)
            .map(|block| queue.push(block, drive.read_at(block * BLOCK, BLOCK)))
            .collect();
        let mut left: HashSet<u64> = (0..2_000).collect();
        for number in numbers.into_iter().filter(|number| number % 8 != 0) {
            if let Some(block) = queue.drop_task(number) {
                left.remove(&block);
            }
        }
        while let Some((block, done)) = queue.next() {
            done.expect("a read");
            assert!(left.remove(&block), "block {block} has two results, or was dropped");
        }
        assert!(left.is_empty(), "{} tasks have no result", left.len());
    }
}

#[test]
fn a_drive_that_fails_in_the_middle_of_a_batch_fails_the_requests_that_need_what_it_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("drive.img");
    fs::write(&path, numbered_blocks()).expect("the folder is ours");
    let name = path.display().to_string();
    let drive = OpenOptions::new().outstanding(4).open(&name).expect("a file");
    let start = |block| {
        let read = drive.read_at(block * BLOCK, BLOCK).deadline(MINUTE);
        (block, read.start().wait().expect("room comes"))
    };
    // The first half of the requests is started when the second half of the drive is lost.
    let (lost, half) = (REQUESTS / 2, REQUESTS as usize / 2);
    let before: Vec<(u64, Pending)> = blocks().take(half).map(start).collect();
    let file = fs::OpenOptions::new().write(true).open(&path).expect("the file is there");
    file.set_len(lost * BLOCK).expect("the file becomes shorter");
    let after: Vec<(u64, Pending)> = blocks().skip(half).map(start).collect();
    let late = after.iter().map(|(block, _)| *block).collect::<HashSet<_>>();
    for (block, read) in before.into_iter().chain(after) {
        match read.wait() {
            Ok(done) => {
                assert!(block < lost || !late.contains(&block), "block {block} was lost before");
                assert_is_block(&done, block);
                assert!(!done.missed_deadline(), "block {block}");
            }
            Err(error) => {
                assert!(block >= lost, "block {block} is on the drive: {error}");
                assert_names(&error, &name, block);
            }
        }
    }
    // A batch has the results of both.
    let reads = [0, lost, 1, REQUESTS - 1].map(|block| drive.read_at(block * BLOCK, BLOCK));
    let failed = drive.batch(reads).deadline(MINUTE).wait().expect_err("two are lost");
    let fails: Vec<bool> = failed.results.iter().map(Result::is_err).collect();
    assert_eq!(fails, [false, true, false, true]);
    assert!(failed.results.iter().flatten().all(|done| !done.missed_deadline()));
}

fn assert_names(error: &Error, drive: &str, block: u64) {
    assert_eq!(error.kind(), ErrorKind::Drive, "{error}");
    assert_eq!((error.drive(), error.offset()), (drive, Some(block * BLOCK)));
    let start = format!("{drive}: read of {BLOCK} bytes from byte {}: ", block * BLOCK);
    let message = error.to_string();
    assert!(message.starts_with(&start) && message.len() > start.len(), "{message}");
}
