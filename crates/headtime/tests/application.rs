//! The interface for applications, on drives in memory and on files.

use std::os::fd::AsFd as _;
use std::time::Duration;

use headtime::{
    BatchError, CompletionQueue, Drive, ErrorKind, IfInfeasible, IoPriority, OpenOptions,
    PriorityClass, Promise, PromiseCounts,
};
use rustix::event::{PollFd, PollFlags, poll};

const MIB: u64 = 1 << 20;

fn drive() -> Drive {
    Drive::open("memory:64MiB").expect("a drive in memory opens")
}

#[test]
fn what_was_written_is_read_and_times_add_up() {
    let drive = drive();
    assert_eq!((drive.capacity(), drive.sector_size()), (64 * MIB, 512));
    drive.write_at(MIB, vec![7; 4096]).durable().wait().expect("a write");
    drive.flush().wait().expect("a flush");
    let done = drive.read_at(MIB, 4096).deadline(Duration::from_secs(60)).wait().expect("a read");
    assert_eq!(done.data()[..], [7; 4096]);
    assert!(!done.missed_deadline());
    assert_eq!(done.response_time(), done.queue_time() + done.service_time());
    drive.zero_at(MIB, 4096).wait().expect("a write of zeroes");
    assert_eq!(drive.read_at(MIB, 4096).wait().expect("a read").into_data()[..], [0; 4096]);
    drive.close().expect("a clean close");
}

#[test]
fn an_error_names_the_drive_the_bytes_and_the_cause() {
    let drive = drive();
    let error = drive.read_at(64 * MIB, 512).wait().expect_err("past the end");
    assert_eq!(
        (error.kind(), error.offset(), error.length()),
        (ErrorKind::Invalid, Some(64 * MIB), Some(512))
    );
    let message = error.to_string();
    assert!(
        message.starts_with("memory:64MiB: read of 512 bytes from byte 67108864: ")
            && message.contains("is not on the drive, which has 67108864 bytes; keep"),
        "{message}"
    );
    let error = drive.write_at(100, vec![0; 512]).wait().expect_err("no whole sectors");
    assert!(error.to_string().contains("1024 bytes from byte 0"), "{error}");
    let error = Drive::open("memory:5000?sector=4096").expect_err("no whole sectors");
    assert_eq!((error.kind(), error.drive()), (ErrorKind::Invalid, "memory:5000?sector=4096"));
    let error = Drive::open("/nothing/here.img").expect_err("no such file");
    assert_eq!((error.kind(), error.errno()), (ErrorKind::Open, 2));
    assert!(error.to_string().contains("/nothing/here.img does not exist"), "{error}");
    let io: std::io::Error = error.into();
    assert_eq!(io.kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn deadlines_are_guaranteed_served_as_if_there_were_none_or_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let backing = directory.path().join("drive.img");
    let emulated = format!("emulated:savvio10k2?backing={}", backing.display());
    let open = |policy| OpenOptions::new().policy(policy).expect("a policy").open(&emulated);
    let drive = open("cds-scan").expect("an emulated drive");
    let (hour, now) = (Duration::from_secs(3_600), Duration::from_millis(1));
    let read = |number: u64, within| drive.read_at(number * MIB, 4096).deadline(within);
    // No access of such a drive is shorter than a millisecond by its worst case.
    let error = read(0, now).guaranteed(IfInfeasible::Refuse).wait().expect_err("infeasible");
    assert_eq!(error.kind(), ErrorKind::Infeasible);
    assert!(
        error.to_string().contains(" cannot be guaranteed (the policy is cds-scan;"),
        "{error}"
    );
    let none = drive.read_at(0, 4096).guaranteed(IfInfeasible::Refuse).wait().expect_err("invalid");
    assert_eq!(none.kind(), ErrorKind::Invalid);
    assert!(none.to_string().contains("has no deadline; give it a deadline"), "{none}");
    let done = drive.read_at(0, 4096).guaranteed(IfInfeasible::BestEffort).wait().expect("served");
    assert_eq!(done.answer(), Some(Promise::BestEffort));
    let late = read(0, now).guaranteed(IfInfeasible::BestEffort).wait().expect("best effort");
    assert_eq!(late.answer(), Some(Promise::BestEffort));
    let started: Vec<_> = (0..20)
        .map(|number| read(number, hour).guaranteed(IfInfeasible::Refuse).start())
        .map(|starting| starting.wait().expect("feasible"))
        .collect();
    for pending in started {
        let done = pending.wait().expect("a read");
        assert_eq!(done.answer(), Some(Promise::Guaranteed));
        assert!(!done.missed_deadline());
    }
    assert_eq!(read(0, hour).wait().expect("a read").answer(), None, "it did not ask");
    let urgent = IoPriority::default_of(PriorityClass::RealTime);
    let read = read(0, hour).priority(urgent).guaranteed(IfInfeasible::Refuse);
    read.wait().expect("feasible");
    let counts = PriorityClass::ALL.map(|class| {
        let PromiseCounts { guaranteed, best_effort, refused, .. } = drive.promises().of(class);
        [guaranteed, best_effort, refused]
    });
    assert_eq!(counts, [[1, 0, 0], [20, 1, 1], [0; 3]], "one best effort had no deadline");
    drive.close().expect("a clean close");

    let other = open("headtime").expect("an emulated drive");
    let read = other.read_at(0, 4096).deadline(hour).guaranteed(IfInfeasible::Refuse);
    let error = read.wait().expect_err("a policy without worst cases");
    assert!(error.to_string().contains("the policy is headtime; only cds-scan"), "{error}");
}

#[test]
fn a_request_on_several_members_of_an_array_is_guaranteed_if_all_its_parts_are() {
    let directory = tempfile::tempdir().expect("a directory");
    let member = |name| {
        let backing = directory.path().join(name);
        format!("emulated:savvio10k2?backing={}", backing.display())
    };
    let array = format!("array:stripe=64KiB,{},{},{}", member("a"), member("b"), member("c"));
    let drive = OpenOptions::new().policy("cds-scan").expect("a policy").open(&array);
    let drive = drive.expect("an array of emulated drives");
    let read = |within| {
        let read = drive.read_at(60 << 10, 500 << 10).deadline(within);
        move |if_infeasible| read.guaranteed(if_infeasible).wait()
    };
    let (hour, now) = (Duration::from_secs(3_600), Duration::from_millis(1));
    let done = read(hour)(IfInfeasible::Refuse).expect("feasible");
    assert_eq!((done.answer(), done.data().len()), (Some(Promise::Guaranteed), 500 << 10));
    // No access of such a drive is shorter than a millisecond by its worst case.
    let error = read(now)(IfInfeasible::Refuse).expect_err("infeasible");
    assert_eq!(error.kind(), ErrorKind::Infeasible);
    let done = read(now)(IfInfeasible::BestEffort).expect("best effort");
    assert_eq!(done.answer(), Some(Promise::BestEffort));
    drive.close().expect("nothing of the refused request is left");
}

#[test]
fn a_closed_drive_refuses_requests_of_its_handles() {
    let drive = drive();
    let late = drive.read_at(0, 512);
    drive.close().expect("a clean close");
    let error = late.wait().expect_err("closed");
    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
}

#[test]
fn back_pressure_is_an_error_at_once_or_a_wait() {
    let directory = tempfile::tempdir().expect("a folder");
    let path =
        format!("emulated:atlas10k?backing={}", directory.path().join("drive.img").display());
    let drive = OpenOptions::new().max_requests(2).open(&path).expect("an emulated drive");
    let held: Vec<_> =
        (0..2).map(|block| drive.read_at(block * MIB, 4096).try_start().expect("room")).collect();
    let full = drive.read_at(2 * MIB, 4096).try_start().expect_err("the drive is full");
    assert_eq!(full.kind(), ErrorKind::Full, "{full}");
    assert!(full.to_string().contains("at most 2 requests"), "{full}");
    // Waits until one of the two has completed.
    let third = drive.read_at(2 * MIB, 4096).start().wait().expect("room");
    for request in held.into_iter().chain([third]) {
        request.wait().expect("a read");
    }
}

#[test]
fn a_cancelled_request_is_over_and_a_timeout_returns_the_request() {
    let directory = tempfile::tempdir().expect("a folder");
    let path =
        format!("emulated:nearline-20tb?backing={}", directory.path().join("drive.img").display());
    let drive = OpenOptions::new().outstanding(1).open(&path).expect("an emulated drive");
    let mut waiting: Vec<_> = (0..50)
        .map(|block| drive.read_at(block * 997 * MIB, MIB).try_start().expect("room"))
        .collect();
    let last = waiting.pop().expect("fifty");
    let last = last.wait_timeout(Duration::ZERO).expect_err("fifty reads take longer");
    waiting.iter().for_each(headtime::Pending::cancel);
    let cancelled = waiting
        .into_iter()
        .filter_map(|request| request.wait().err())
        .inspect(|error| assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}"))
        .count();
    assert!(cancelled > 40, "only {cancelled} of 49 reads were cancelled");
    last.wait().expect("the request that was not cancelled");

    // After others, so that it cannot be over before it is cancelled.
    let ahead: Vec<_> = (50..60)
        .map(|block| drive.read_at(block * 997 * MIB, MIB).try_start().expect("room"))
        .collect();
    let waited_for = drive.read_at(0, MIB).try_start().expect("room");
    let canceller = waited_for.canceller();
    let waiter = std::thread::spawn(move || waited_for.wait());
    canceller.cancel();
    let result = waiter.join().expect("no panic");
    assert!(result.is_err_and(|error| error.kind() == ErrorKind::Cancelled));
    canceller.cancel();
    ahead.into_iter().for_each(|read| drop(read.wait().expect("it was not cancelled")));
}

#[test]
fn a_batch_has_one_deadline_and_all_its_results() {
    let drive = drive();
    let reads = (0..2_000).map(|block| drive.read_at(block * 4096, 4096));
    let done = drive.batch(reads).deadline(Duration::from_secs(60)).wait().expect("a batch");
    assert_eq!((done.len(), done.missed_deadlines()), (2_000, 0));
    assert!(done.iter().all(|one| one.response_time() <= done.response_time()));

    let requests =
        [drive.read_at(0, 4096), drive.read_at(65 * MIB, 4096), drive.write_at(4096, vec![1; 512])];
    let failed: BatchError = drive.batch(requests).wait().expect_err("one is not on the drive");
    assert!(
        failed.to_string().starts_with("1 of 3 requests of the batch failed, the first: memory:"),
        "{failed}"
    );
    let ok: Vec<bool> = failed.results.iter().map(Result::is_ok).collect();
    assert_eq!(ok, [true, false, true]);
}

#[test]
fn an_invalid_request_is_refused_while_others_wait_for_room() {
    let directory = tempfile::tempdir().expect("a folder");
    let path =
        format!("emulated:atlas10k?backing={}", directory.path().join("drive.img").display());
    let drive = OpenOptions::new().max_requests(1).max_bytes(MIB).open(&path).expect("a drive");
    let mut queue = CompletionQueue::new().expect("a descriptor");
    for block in 0..10 {
        queue.push(block, drive.read_at(block * 997 * MIB % drive.capacity(), MIB));
    }
    for invalid in [drive.read_at(drive.capacity(), 512), drive.read_at(0, 2 * MIB)] {
        let number = queue.push(10, invalid);
        assert_eq!(queue.drop_task(number), None, "it waits for room");
    }
    let mut results = [0; 2];
    while let Some((_, result)) = queue.next() {
        results[usize::from(result.is_err())] += 1;
    }
    assert_eq!(results, [10, 2]);
}

#[test]
fn a_batch_larger_than_the_bound_waits_for_room() {
    let drive = OpenOptions::new().max_requests(16).open("memory:64MiB").expect("a drive");
    let writes = (0..500).map(|block| drive.write_at(block * 4096, vec![3; 4096]));
    assert_eq!(drive.batch(writes).wait().expect("a batch").len(), 500);
}

#[test]
fn requests_are_awaited_and_drives_are_shared_between_tasks() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    runtime.expect("a runtime").block_on(async {
        let drive = std::sync::Arc::new(drive());
        let tasks = (0..100_u8).map(|number| {
            let drive = std::sync::Arc::clone(&drive);
            tokio::spawn(async move {
                let offset = u64::from(number) * 4096;
                drive.write_at(offset, vec![number; 4096]).await?;
                drive.read_at(offset, 4096).deadline(Duration::from_secs(9)).await
            })
        });
        for (number, task) in tasks.collect::<Vec<_>>().into_iter().enumerate() {
            let done = task.await.expect("no panic").expect("a write and a read");
            assert_eq!(done.data()[0], number as u8);
        }
    });
}

#[test]
fn a_completion_queue_returns_each_result_once_with_its_key() {
    let drive = OpenOptions::new().max_requests(8).open("memory:64MiB").expect("a drive");
    let mut queue = CompletionQueue::new().expect("a descriptor");
    assert!(queue.next().is_none());
    for block in 0..1_000_u64 {
        queue.push(block, drive.read_at(block * 512, 512));
    }
    let refused = queue.push(1_000, drive.read_at(65 * MIB, 512));
    assert_eq!(queue.drop_task(refused), None, "it has a result");
    let mut keys = Vec::new();
    while let Some((key, result)) = queue.next_timeout(Duration::from_secs(60)) {
        assert_eq!(result.is_err(), key == 1_000, "{result:?}");
        keys.push(key);
    }
    keys.sort_unstable();
    assert!(keys.into_iter().eq(0..=1_000));
    assert_eq!(queue.running(), 0);
    let fd = queue.as_fd();
    assert!(rustix::io::fcntl_getfd(fd).is_ok());
}

#[test]
fn a_task_that_is_over_keeps_its_result_although_it_was_not_taken() {
    let directory = tempfile::tempdir().expect("a folder");
    let path =
        format!("emulated:atlas10k?backing={}", directory.path().join("drive.img").display());
    let drive = Drive::open(&path).expect("an emulated drive");
    let mut queue = CompletionQueue::new().expect("a descriptor");
    let number = queue.push((), drive.write_at(0, vec![7; 4096]));
    let readable = PollFd::new(&queue, PollFlags::IN);
    assert_eq!(poll(&mut [readable], None), Ok(1), "the write is over");
    assert_eq!(queue.drop_task(number), None);
    assert!(queue.try_next().is_some_and(|((), done)| done.is_ok()));
}
