//! The heap under load: what 10,000 requests in flight have used is free again, however they end.
//!
//! The allocator counts the blocks and bytes in use. Rounds are equal, so that each leaves what the
//! one before left. The first also makes what the process keeps.

#![expect(unsafe_code, reason = "the allocator that counts is one")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering};
use std::thread;
use std::time::Duration;

use headtime::{CompletionQueue, Drive, ErrorKind, IfInfeasible, OpenOptions, Pending};

const REQUESTS: u64 = 10_000;
const BLOCK: u64 = 4096;
const HOUR: Duration = Duration::from_secs(3_600);

struct Counting;

static BLOCKS: AtomicIsize = AtomicIsize::new(0);
static BYTES: AtomicIsize = AtomicIsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: every call is passed on to the allocator of the system.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller keeps the contract of this function, which is that of the other.
        let block = unsafe { System.alloc(layout) };
        if !block.is_null() {
            BLOCKS.fetch_add(1, Ordering::Relaxed);
            BYTES.fetch_add(layout.size() as isize, Ordering::Relaxed);
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        BLOCKS.fetch_sub(1, Ordering::Relaxed);
        BYTES.fetch_sub(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

fn in_use() -> [isize; 2] {
    [BLOCKS.load(Ordering::Relaxed), BYTES.load(Ordering::Relaxed)]
}

#[test]
fn requests_that_complete_fail_or_are_cancelled_leave_nothing_on_the_heap() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = format!("emulated:atlas10k?backing={}", folder.path().join("drive.img").display());
    round(&path);
    let before = in_use();
    round(&path);
    let after = in_use();
    // A block for each hundredth request would be too many.
    let most = [REQUESTS as isize / 100, 64 << 10];
    assert!(
        after[0] - before[0] < most[0] && after[1] - before[1] < most[1],
        "10,000 requests of each kind left blocks and bytes: {before:?} before, {after:?} after"
    );
}

fn round(emulated: &str) {
    let options = || OpenOptions::new().max_bytes(REQUESTS * BLOCK);
    let memory = options().max_requests(100).open("memory:64MiB").expect("a drive");
    batch_with_errors(&memory);
    queue_with_dropped_tasks(&memory);
    memory.close().expect("a clean close");
    let policy = options().max_requests(REQUESTS as usize).policy("cds-scan").expect("a policy");
    let drive = policy.open(emulated).expect("an emulated drive");
    storm_of_cancellations(&drive);
    refusals(&drive);
    drive.close().expect("a clean close");
}

/// Every hundredth request is not on the drive.
fn batch_with_errors(drive: &Drive) {
    let offset = |number: u64| if number.is_multiple_of(100) { 1 << 40 } else { number * BLOCK };
    let requests = (0..REQUESTS).map(|number| drive.read_at(offset(number), BLOCK));
    let failed = drive.batch(requests).deadline(HOUR).wait().expect_err("some are not on it");
    let errors = failed.results.iter().filter(|result| result.is_err()).count();
    assert_eq!(errors as u64, REQUESTS / 100);
}

fn queue_with_dropped_tasks(drive: &Drive) {
    let mut queue = CompletionQueue::new().expect("a descriptor");
    let pushed: Vec<u64> = (0..REQUESTS)
        .map(|block| queue.push((), drive.write_at(block * BLOCK, vec![7; BLOCK as usize])))
        .collect();
    for number in pushed.into_iter().step_by(3) {
        queue.drop_task(number);
    }
    while let Some(((), done)) = queue.next() {
        done.expect("a write");
    }
}

/// One thread cancels all requests, of which some are at the drive.
fn storm_of_cancellations(drive: &Drive) {
    let read = |block| drive.read_at(block * 7919 % REQUESTS * BLOCK, BLOCK).deadline(HOUR);
    let pending: Vec<Pending> =
        (0..REQUESTS).map(|block| read(block).try_start().expect("room for all")).collect();
    thread::scope(|scope| {
        let cancellers: Vec<_> = pending.iter().map(Pending::canceller).collect();
        scope.spawn(|| cancellers.into_iter().rev().for_each(|canceller| canceller.cancel()));
        let cancelled = pending.into_iter().map(Pending::wait).filter(Result::is_err).count();
        assert!(cancelled > 0, "no cancellation came before the completion");
    });
}

fn refusals(drive: &Drive) {
    for number in 0..REQUESTS {
        let read = drive.read_at(number * BLOCK, BLOCK).deadline(Duration::from_nanos(1));
        let refused = read.guaranteed(IfInfeasible::Refuse).wait().expect_err("infeasible");
        assert_eq!(refused.kind(), ErrorKind::Infeasible, "{refused}");
    }
}
