//! The hand-over of requests between threads, under every interleaving of their steps and every
//! order in which memory may show them (loom). A lost wake-up is a deadlock, which loom reports.
//!
//! The tests compile the files of the library again, with loom's primitives in place of the
//! standard ones (`src/sync.rs`).

use std::sync::Arc;
use std::task::{Poll, Wake, Waker};

use loom::sync::{Condvar, Mutex};
use loom::thread::{self, Thread};

#[path = "../src/engine/capacity.rs"]
mod capacity;
#[path = "../src/engine/inbox.rs"]
mod inbox;
#[path = "../src/drive/slot.rs"]
mod slot;
#[path = "../src/engine/turns.rs"]
mod turns;

mod sync {
    pub(crate) use std::sync::{PoisonError, TryLockError};

    pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
    pub(crate) use loom::sync::{Mutex, MutexGuard};
}

use capacity::Capacity;
use inbox::Inbox;
use slot::Slot;
use turns::{Signals, Turn, Turns};

/// Runs a model under all interleavings with at most this many switches away from a thread that
/// could go on. Bugs of ordering need few.
fn explore(switches: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(switches);
    builder.check(model);
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits on this thread, as the library does.
fn wait<R>(mut poll: impl FnMut(&Waker) -> Poll<R>) -> R {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        match poll(&waker) {
            Poll::Ready(result) => return result,
            Poll::Pending => thread::park(),
        }
    }
}

/// Waits for room, holds it, and gives it back.
fn start_and_complete(capacity: &Capacity, bytes: u64) {
    let mut ticket = None;
    wait(|waker| capacity.poll_start(&mut ticket, waker, || capacity.acquire(bytes).ok()));
    let held = capacity.held();
    assert!(held.requests <= capacity.max_requests() && held.bytes <= capacity.max_bytes());
    capacity.release(bytes);
}

#[test]
fn a_request_that_waits_for_room_is_woken_when_another_completes() {
    explore(4, || {
        let capacity = Arc::new(Capacity::new(1, 8));
        capacity.acquire(1).expect("it is empty");
        let waiter = {
            let capacity = Arc::clone(&capacity);
            thread::spawn(move || start_and_complete(&capacity, 1))
        };
        capacity.release(1);
        waiter.join().expect("it was woken");
        assert_eq!(capacity.held().requests, 0);
    });
}

#[test]
fn of_two_requests_that_wait_for_room_both_are_woken_in_turn() {
    explore(2, || {
        let capacity = Arc::new(Capacity::new(2, 8));
        capacity.acquire(8).expect("it is empty");
        let waiters = [5, 6].map(|bytes| {
            let capacity = Arc::clone(&capacity);
            thread::spawn(move || start_and_complete(&capacity, bytes))
        });
        capacity.release(8);
        for waiter in waiters {
            waiter.join().expect("it was woken");
        }
        assert_eq!((capacity.held().requests, capacity.held().bytes), (0, 0));
    });
}

#[test]
fn a_request_that_is_dropped_while_it_waits_for_room_wakes_the_next() {
    explore(3, || {
        let capacity = Arc::new(Capacity::new(1, 8));
        capacity.acquire(1).expect("it is empty");
        // The first in the queue gives up, whether it was woken before or not.
        let mut first = None;
        let joined = capacity.poll_start(&mut first, Waker::noop(), || capacity.acquire(1).ok());
        assert!(joined.is_pending());
        let waiter = {
            let capacity = Arc::clone(&capacity);
            thread::spawn(move || start_and_complete(&capacity, 1))
        };
        let completes = {
            let capacity = Arc::clone(&capacity);
            thread::spawn(move || capacity.release(1))
        };
        capacity.leave(&mut first);
        completes.join().expect("no panic");
        waiter.join().expect("it was woken");
    });
}

#[test]
fn a_result_reaches_the_thread_that_waits_once() {
    explore(4, || {
        let slot = Arc::new(Slot::new());
        let filled = Arc::clone(&slot);
        let engine = thread::spawn(move || filled.fill(7));
        assert_eq!(wait(|waker| slot.poll(waker)), 7);
        assert!(slot.is_over());
        engine.join().expect("no panic");
    });
}

#[test]
fn a_result_reaches_the_task_that_moved_to_another_waker() {
    explore(4, || {
        let slot = Arc::new(Slot::new());
        let filled = Arc::clone(&slot);
        let engine = thread::spawn(move || filled.fill(7));
        // A task that is polled by one executor, and then awaited by another.
        let result = match slot.poll(Waker::noop()) {
            Poll::Ready(result) => result,
            Poll::Pending => wait(|waker| slot.poll(waker)),
        };
        assert_eq!(result, 7);
        engine.join().expect("no panic");
    });
}

#[derive(Default)]
struct Woken(std::sync::atomic::AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }
}

#[test]
fn the_first_in_line_is_woken_and_when_it_leaves_the_next() {
    explore(0, || {
        let capacity = Capacity::new(1, 8);
        capacity.acquire(1).expect("it is empty");
        let woken: [Arc<Woken>; 3] = Default::default();
        let mut tickets = [None; 3];
        for (ticket, woken) in tickets.iter_mut().zip(&woken) {
            let waker = Arc::clone(woken).into();
            assert!(capacity.poll_start(ticket, &waker, || None::<()>).is_pending());
        }
        let counts = || woken.each_ref().map(|one| one.0.load(std::sync::atomic::Ordering::SeqCst));
        capacity.changed();
        assert_eq!(counts(), [1, 0, 0]);
        capacity.leave(&mut tickets[1]);
        assert_eq!(
            counts(),
            [2, 0, 0],
            "a waiter that leaves from the middle wakes only the first"
        );
        capacity.leave(&mut tickets[0]);
        assert_eq!(counts(), [2, 0, 1]);
        capacity.leave(&mut tickets[2]);
        capacity.changed();
        assert_eq!(counts(), [2, 0, 1], "nobody waits");
    });
}

/// An engine that counts its messages, with the notifier of its thread.
struct Machine {
    turns: Turns<Counter>,
    signals: Mail,
}

struct Mail {
    inbox: Inbox<u32>,
    notified: Mutex<bool>,
    changed: Condvar,
}

#[derive(Default)]
struct Counter {
    received: u32,
    /// A timer that only the engine's own thread may serve.
    timer: bool,
}

impl Signals for Mail {
    fn has_messages(&self) -> bool {
        self.inbox.has_messages()
    }

    fn notify(&self) {
        *self.notified.lock().expect("no panic") = true;
        self.changed.notify_one();
    }
}

impl Machine {
    fn new() -> Arc<Self> {
        let (notified, changed) = (Mutex::new(false), Condvar::new());
        let signals = Mail { inbox: Inbox::new(), notified, changed };
        Arc::new(Self { turns: Turns::new(Counter::default()), signals })
    }

    /// Submits a message, and runs the engine if it is idle.
    fn submit(&self, message: u32, iterate: impl Fn(&mut Counter) -> Turn<u64>) {
        self.signals.inbox.send(message, 8).expect("it is open");
        self.turns.offer(&self.signals, iterate);
    }

    /// The loop of the engine's own thread.
    fn run(&self, iterate: impl Fn(&mut Counter) -> Turn<u64>) -> Counter {
        loop {
            match self.turns.serve(&self.signals, &iterate) {
                Err(engine) => return engine,
                Ok(Some(u64::MAX)) => self.sleep(),
                // There are messages, or the timer has expired.
                Ok(_) => {}
            }
        }
    }

    fn sleep(&self) {
        let mut notified = self.signals.notified.lock().expect("no panic");
        while !*notified {
            notified = self.signals.changed.wait(notified).expect("no panic");
        }
        *notified = false;
    }

    /// Takes all messages; the engine is over when it has received so many.
    fn receive(&self, engine: &mut Counter, of: u32) -> Turn<u64> {
        let mut messages = Vec::new();
        self.signals.inbox.take(&mut messages);
        engine.received += messages.len() as u32;
        if engine.received == of { Turn::Over } else { Turn::Sleep(u64::MAX, u64::MAX) }
    }
}

#[test]
fn every_request_reaches_the_engine_whichever_thread_runs_it() {
    explore(2, || {
        let machine = Machine::new();
        let submitters = [1, 2].map(|message| {
            let machine = Arc::clone(&machine);
            thread::spawn(move || machine.submit(message, |engine| machine.receive(engine, 2)))
        });
        let engine = machine.run(|engine| machine.receive(engine, 2));
        assert_eq!(engine.received, 2);
        for submitter in submitters {
            submitter.join().expect("no panic");
        }
    });
}

#[test]
fn every_request_reaches_an_engine_that_only_its_own_thread_runs() {
    explore(2, || {
        let machine = Machine::new();
        let submitters = [1, 2].map(|message| {
            let machine = Arc::clone(&machine);
            thread::spawn(move || {
                // As in the runner: the first message of several notifies.
                if machine.signals.inbox.send(message, 8).expect("it is open") {
                    machine.signals.notify();
                }
            })
        });
        assert_eq!(machine.run(|engine| machine.receive(engine, 2)).received, 2);
        for submitter in submitters {
            submitter.join().expect("no panic");
        }
    });
}

#[test]
fn a_timer_that_a_submitting_thread_sets_wakes_the_sleeping_engine() {
    const TIMER: u64 = 5;
    explore(3, || {
        let machine = Machine::new();
        let iterate = |machine: &Machine, engine: &mut Counter| {
            machine.receive(engine, u32::MAX);
            engine.timer |= engine.received > 0;
            let until = if engine.timer { TIMER } else { u64::MAX };
            Turn::Sleep(until, until)
        };
        let submitter = {
            let machine = Arc::clone(&machine);
            thread::spawn(move || machine.submit(1, |engine| iterate(&machine, engine)))
        };
        let engine = machine.run(|engine| match engine.timer {
            true => Turn::Over,
            false => iterate(&machine, engine),
        });
        assert!(engine.timer);
        submitter.join().expect("no panic");
    });
}

#[test]
fn a_request_that_a_callback_submits_is_received_without_a_notification() {
    explore(3, || {
        let machine = Machine::new();
        // The callback of the first request submits another, on whichever thread runs the engine.
        let iterate = |machine: &Machine, engine: &mut Counter| {
            let before = engine.received;
            let turn = machine.receive(engine, 2);
            if before == 0 && engine.received == 1 {
                machine.signals.inbox.send(2, 8).expect("it is open");
            }
            turn
        };
        let submitter = {
            let machine = Arc::clone(&machine);
            thread::spawn(move || machine.submit(1, |engine| iterate(&machine, engine)))
        };
        assert_eq!(machine.run(|engine| iterate(&machine, engine)).received, 2);
        submitter.join().expect("no panic");
    });
}

#[test]
fn no_message_arrives_after_the_inbox_was_closed_and_emptied() {
    explore(4, || {
        let inbox = Arc::new(Inbox::new());
        let sender = Arc::clone(&inbox);
        let sent = thread::spawn(move || sender.send(1, 8).is_ok());
        inbox.close();
        let mut last = Vec::new();
        inbox.take(&mut last);
        let sent = sent.join().expect("no panic");
        assert_eq!(last.len(), usize::from(sent), "an accepted message is in the last take");
    });
}
