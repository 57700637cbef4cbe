//! [`Edge`]: a drive as the characterization sees it: orders go out one by one, and each is stamped
//! where it leaves and where its end is seen.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use headtime_sched::Op;
use headtime_units::{Extent, Instant, SectorSize, Sectors};

use crate::clock::RealClock;
use crate::kernel_settings::KnobGuard;
use crate::notifier::SPIN;

/// The opened drive.
pub(super) struct Found {
    pub(super) edge: Box<dyn Edge>,
    pub(super) model: Option<String>,
    pub(super) serial: Option<String>,
    pub(super) capacity: Sectors,
    pub(super) sector_size: SectorSize,
    pub(super) fua: bool,
    pub(super) depth: usize,
    pub(super) notices: Vec<String>,
    pub(super) knobs: Option<KnobGuard>,
}

/// Something that the drive shall do.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    /// Its name until it is over.
    pub(crate) token: u64,
    pub(crate) op: Op,
    pub(crate) extent: Extent,
    /// The data of a write, as long as the extent; empty otherwise.
    pub(crate) data: Bytes,
    /// A write must be durable when it is over; only where the drive can do that itself.
    pub(crate) fua: bool,
}

/// An order that is over.
#[derive(Clone, Debug)]
pub(crate) struct Over {
    pub(crate) token: u64,
    /// The time at which its completion was seen.
    pub(crate) completed: Instant,
    /// The data read, if the edge keeps it, or the system's error code.
    pub(crate) result: Result<Bytes, i32>,
    /// More about an error than its code, where there is more.
    pub(crate) said: Option<Arc<str>>,
}

/// The drive is not there any more; nothing that was at it is reported.
#[derive(Clone, Debug)]
pub(crate) struct Lost {
    /// Why, as the end of a sentence.
    pub(crate) why: String,
}

/// A drive with a clock. `send` and `next_over` alternate as the caller likes; whatever was sent is
/// over once, unless the drive is lost.
pub(crate) trait Edge: Send {
    /// The time on the clock that all stamps are of.
    fn now(&self) -> Instant;

    /// Sends an order on its way; answers the time just before it left.
    fn send(&mut self, order: Order) -> Instant;

    /// The next order that is over; `None` when none is by `until`.
    ///
    /// # Errors
    /// When the drive is lost.
    fn next_over(&mut self, until: Instant) -> Result<Option<Over>, Lost>;

    /// Lets the time come, nothing being at the drive.
    fn wait_until(&mut self, at: Instant);

    /// After a loss, or an order that is not answered: makes the drive let go of all orders and be
    /// there again; waits for it.
    ///
    /// # Errors
    /// Why it is not there, as the end of a sentence; at once, where nothing can be done about it.
    fn reopen(&mut self) -> Result<(), String>;

    /// Returns true if waiting for it takes real time, so that being woken early matters.
    fn is_real(&self) -> bool {
        true
    }
}

/// Sleeps until shortly before `at` and looks at the clock for the rest.
pub(crate) fn sleep_until(at: Instant) {
    let left = at.saturating_since(RealClock.now());
    if left > SPIN {
        std::thread::sleep(Duration::from_nanos((left - SPIN).as_ns()));
    }
    while RealClock.now() < at {
        std::hint::spin_loop();
    }
}
