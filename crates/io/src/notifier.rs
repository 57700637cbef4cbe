//! What the engine sleeps on: a [`Notifier`] that other threads and the kernel ring, and sleeping
//! until it rings or a time has come.
//!
//! A timed wait wakes late by what the kernel takes to bring the thread back: some 50–100 us on a
//! virtual machine, more when the processor slept deeply. [`Notifier::wait_precise`] therefore
//! sleeps until [`SPIN`] before the time and looks at the clock for the rest. The engine does so
//! only for events of an emulated drive, a few hundred a second, so that the looking costs a
//! percent or two of one processor, and nothing when the drive is idle.

use std::num::NonZeroU64;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use headtime_units::{Instant, Nanos};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::clock::RealClock;

/// The time before its end at which a precise wait stops sleeping.
///
/// Measured on a two-processor virtual machine, about 100 completions a second, engine in the
/// first-in-first-out class. The quiet machine wakes a thread 50 to 100 us late, so that with 50,
/// 100 and 200 us half of the completions were more than 48, 25 and 23 us late. While it compiled,
/// 0, 20, 50 and 100 us gave a 99th percentile of 345, 302, 89 and 58 us. The whole process took 3
/// to 5 % of one processor each time.
pub(crate) const SPIN: Nanos = Nanos::from_us(100);

/// An eventfd that the engine waits on.
#[derive(Debug)]
pub struct Notifier {
    eventfd: OwnedFd,
}

impl Notifier {
    /// A silent notifier.
    ///
    /// # Errors
    /// The system's, when the process has no file descriptor left.
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self { eventfd: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)? })
    }

    /// Wakes the waiter, now or when it next waits.
    pub fn notify(&self) {
        // The only possible error is "would block" after 2⁶⁴ − 2 notifications, and then the waiter
        // wakes anyway.
        let _ = rustix::io::write(&self.eventfd, &1_u64.to_ne_bytes());
    }

    /// The descriptor for io_uring, which notifies by itself when an operation completes.
    pub(crate) fn as_raw_fd(&self) -> RawFd {
        self.eventfd.as_raw_fd()
    }

    /// Sleeps until a notification or about `until`.
    pub(crate) fn wait(&self, clock: RealClock, until: Option<Instant>) {
        match until {
            None => self.sleep(None),
            Some(until) => match until.checked_since(clock.now()) {
                Some(left) if !left.is_zero() => self.sleep(Some(left)),
                _ => self.silence(),
            },
        }
    }

    /// Sleeps until the notifier rings or `until`, to the microsecond where the machine can;
    /// `posted` ends the last stretch early.
    pub(crate) fn wait_precise(&self, clock: RealClock, until: Instant, posted: impl Fn() -> bool) {
        let left = until.saturating_since(clock.now());
        if left > SPIN {
            self.sleep(Some(left - SPIN));
        }
        // After a ring the caller looks what happened and comes back; the rest of a longer wait is
        // no time to spin.
        if until.saturating_since(clock.now()) <= SPIN {
            while clock.now() < until && !posted() {
                std::hint::spin_loop();
            }
        }
        self.silence();
    }

    fn sleep(&self, timeout: Option<Nanos>) {
        let timeout = timeout.map(timespec);
        let mut watched = [PollFd::new(&self.eventfd, PollFlags::IN)];
        // Callers expect that a wait may end early, as an interrupted one does. There is no other
        // error with one valid descriptor.
        let _ = poll(&mut watched, timeout.as_ref());
        if !watched[0].revents().is_empty() {
            self.silence();
        }
    }

    /// Forgets past notifications. The caller handles what they announced after this.
    fn silence(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(self.eventfd.as_fd(), &mut count);
    }
}

/// Sleeps until a notification, an event on a watched descriptor, or about `until`.
pub(crate) fn wait_for<'fd>(
    notifier: &'fd Notifier,
    watched: &mut Vec<PollFd<'fd>>,
    clock: RealClock,
    until: Option<Instant>,
) {
    let timeout = until.map(|until| timespec(until.saturating_since(clock.now())));
    watched.push(PollFd::new(&notifier.eventfd, PollFlags::IN));
    // As in `sleep`: an interrupted wait ends early, and there is no other error.
    let _ = poll(watched, timeout.as_ref());
    notifier.silence();
}

fn timespec(span: Nanos) -> Timespec {
    Timespec {
        tv_sec: (span.as_ns() / 1_000_000_000).min(1 << 30) as i64,
        tv_nsec: (span.as_ns() % 1_000_000_000) as i64,
    }
}

/// Prepares the calling thread for precise waits: the kernel then does not combine its timers with
/// others.
pub(crate) fn expect_precise_wakes() {
    let finest = NonZeroU64::MIN;
    if let Err(error) = rustix::thread::set_current_timer_slack(Some(finest)) {
        tracing::warn!(%error, "timer slack stays at the default, so waits may end 50 us late");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_before_the_wait_is_not_lost() {
        let notifier = Notifier::new().expect("a file descriptor is free");
        notifier.notify();
        notifier.wait(RealClock, None);
    }

    #[test]
    fn a_precise_wait_never_ends_before_its_time_unless_something_happened() {
        let notifier = Notifier::new().expect("a file descriptor is free");
        let until = RealClock.now() + Nanos::from_us(300);
        while RealClock.now() < until {
            notifier.wait_precise(RealClock, until, || false);
        }
        notifier.notify();
        notifier.wait_precise(
            RealClock,
            Instant::NEVER.saturating_back(Nanos::from_secs(1)),
            || unreachable!("no spinning long before the time"),
        );
    }
}
