//! [`LiveVolume`]: the state of a volume that can change while clients have it open.
//!
//! Every request passes [`LiveVolume::begin`], which checks it against the current size and the
//! current write protection, whatever the client saw when it opened the export. This is the only
//! check that keeps a client within its volume. When a volume
//! shrinks or is removed, the server first rejects new requests that the change forbids, then waits
//! for all earlier requests ([`LiveVolume::wait_for_earlier`]). Only then are its sectors free for
//! other volumes.
//!
//! While sectors of a volume are switched to another place, new changes of them are *held*
//! ([`LiveVolume::hold`]): they are admitted when the hold ends, and use the sectors after it.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use headtime_nbd::{Errno, NbdCommand};
use headtime_sched::{IoPriority, VolumeId};
use headtime_units::{ByteSize, Nanos, SectorSize, Sectors};
use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

use super::extents::Extents;
use super::settings::{VolumeClass, VolumeSettings};
use super::table::Volume;

/// A served volume, shared by all its exports.
#[derive(Debug)]
pub(crate) struct LiveVolume {
    /// Its number.
    pub(crate) id: VolumeId,
    pub(crate) name: String,
    pub(crate) sector: SectorSize,
    state: Mutex<State>,
    /// Signals that requests completed.
    fewer: Condvar,
    removed: watch::Sender<bool>,
    /// Signals that a hold has ended.
    releases: watch::Sender<()>,
}

/// The treatment of changes of held sectors.
#[derive(Clone, Debug)]
enum Hold {
    /// They wait. The bytes of the volume.
    Wait(Range<u64>),
    /// They fail, because it is not known which place of the sectors is valid.
    Refuse(Range<u64>),
}

#[derive(Debug)]
struct State {
    extents: Extents,
    settings: VolumeSettings,
    /// Incremented when the volume shrinks or is removed. Requests of two adjacent epochs are
    /// counted separately.
    epoch: u64,
    in_flight: [u64; 2],
    /// The number of threads that wait for requests to complete.
    waiting: u32,
    /// The drive is served read-only, whatever the settings are.
    protected: bool,
    hold: Option<Hold>,
}

/// An admitted request, completed when dropped.
#[derive(Debug)]
pub(crate) struct Pass {
    pub(crate) volume: Arc<LiveVolume>,
    /// The sectors of the volume when it was admitted. They stay the volume's until it is complete.
    pub(crate) extents: Extents,
    epoch: u64,
    /// The time from its arrival to its deadline.
    pub(crate) deadline: Option<Nanos>,
    /// The priority, which gives a deadline to a request without one.
    pub(crate) priority: Option<IoPriority>,
}

impl LiveVolume {
    /// The live state of a volume of the table.
    pub(crate) fn new(volume: &Volume, sector: SectorSize) -> Arc<Self> {
        let Volume { id, name, extents, settings } = volume.clone();
        Self::of(id, name, extents, settings, sector)
    }

    /// The live state of sectors that are no volume of a table, such as a whole drive.
    pub(crate) fn of(
        id: VolumeId,
        name: String,
        extents: impl Into<Extents>,
        settings: VolumeSettings,
        sector: SectorSize,
    ) -> Arc<Self> {
        let extents = extents.into();
        let state = State {
            extents,
            settings,
            epoch: 0,
            in_flight: [0; 2],
            waiting: 0,
            protected: false,
            hold: None,
        };
        let (removed, releases) = (watch::Sender::new(false), watch::Sender::new(()));
        Arc::new(Self {
            id,
            name,
            sector,
            state: Mutex::new(state),
            fewer: Condvar::new(),
            removed,
            releases,
        })
    }

    /// Its current size.
    pub(crate) fn size(&self) -> ByteSize {
        ByteSize::new(self.sector.bytes_of(self.state.lock().extents.sectors()))
    }

    /// Its current sectors.
    pub(crate) fn extents(&self) -> Extents {
        self.state.lock().extents.clone()
    }

    /// Its current settings.
    pub(crate) fn settings(&self) -> VolumeSettings {
        let state = self.state.lock();
        let read_only = state.settings.read_only || state.protected;
        VolumeSettings { read_only, ..state.settings.clone() }
    }

    /// As [`LiveVolume::begin_unless_held`] while nothing is held.
    #[cfg(test)]
    pub(crate) fn begin(
        self: &Arc<Self>,
        class: VolumeClass,
        command: &NbdCommand,
    ) -> Result<Pass, (Errno, &'static str)> {
        self.begin_unless_held(class, command).expect("nothing is held")
    }

    /// Admits a request of a class, or returns the error for the client; `None` if it has to wait
    /// until a hold ends ([`LiveVolume::releases`]).
    pub(crate) fn begin_unless_held(
        self: &Arc<Self>,
        class: VolumeClass,
        command: &NbdCommand,
    ) -> Option<Result<Pass, (Errno, &'static str)>> {
        let mut state = self.state.lock();
        match &state.hold {
            Some(Hold::Wait(held)) if changes_any(command, held) => None,
            Some(Hold::Refuse(held)) if changes_any(command, held) => {
                Some(Err((Errno::Io, NOT_PUT_BACK)))
            }
            _ => Some(self.admit(&mut state, class, command)),
        }
    }

    fn admit(
        self: &Arc<Self>,
        state: &mut State,
        class: VolumeClass,
        command: &NbdCommand,
    ) -> Result<Pass, (Errno, &'static str)> {
        if *self.removed.borrow() {
            return Err((Errno::Shutdown, "the volume was removed"));
        }
        if command.spec().writes && (state.settings.read_only || state.protected) {
            return Err((Errno::Perm, "the volume has become read-only"));
        }
        let size = self.sector.bytes_of(state.extents.sectors());
        command.check_end(size).map_err(|errno| (errno, PAST_END))?;
        let epoch = state.epoch;
        state.in_flight[(epoch & 1) as usize] += 1;
        let of_class = state.settings.of_class(class);
        let (deadline, priority) =
            (of_class.and_then(|class| class.deadline), of_class.and_then(|class| class.priority));
        let extents = state.extents.clone();
        Ok(Pass { volume: Arc::clone(self), extents, epoch, deadline, priority })
    }

    /// Rejects all writes from now on, whatever the settings are.
    pub(crate) fn protect(&self) {
        self.state.lock().protected = true;
    }

    /// Replaces the settings.
    pub(crate) fn set(&self, settings: VolumeSettings) {
        self.state.lock().settings = settings;
    }

    /// Changes the sectors. After shrinking, call [`LiveVolume::wait_for_earlier`].
    pub(crate) fn resize(&self, extents: impl Into<Extents>) {
        self.state.lock().extents = extents.into();
    }

    /// Rejects all new requests and disconnects clients, or reverts this.
    pub(crate) fn remove(&self, removed: bool) {
        let _state = self.state.lock();
        self.removed.send_replace(removed);
    }

    /// A receiver that signals the removal.
    pub(crate) fn removal(&self) -> watch::Receiver<bool> {
        self.removed.subscribe()
    }

    /// Holds new changes of `len` sectors from sector `offset` on.
    pub(crate) fn hold(&self, offset: Sectors, len: Sectors) {
        self.state.lock().hold = Some(Hold::Wait(self.bytes(offset, len)));
    }

    /// Rejects changes of these sectors, held ones too.
    pub(crate) fn refuse(&self, offset: Sectors, len: Sectors) {
        self.state.lock().hold = Some(Hold::Refuse(self.bytes(offset, len)));
        self.releases.send_replace(());
    }

    /// Ends a hold.
    pub(crate) fn release(&self) {
        self.state.lock().hold = None;
        self.releases.send_replace(());
    }

    /// A receiver that signals the end of a hold.
    pub(crate) fn releases(&self) -> watch::Receiver<()> {
        self.releases.subscribe()
    }

    fn bytes(&self, offset: Sectors, len: Sectors) -> Range<u64> {
        self.sector.bytes_of(offset)..self.sector.bytes_of(offset + len)
    }

    /// The number of admitted requests.
    pub(crate) fn in_flight(&self) -> u64 {
        self.state.lock().in_flight.iter().sum()
    }

    /// Waits until all requests admitted before this call are complete, for at most `patience`;
    /// returns whether they are. Only one thread may wait at a time.
    pub(crate) fn wait_for_earlier(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let mut state = self.state.lock();
        // Requests of an earlier wait that timed out must be complete before its counter is reused.
        let earlier = [(state.epoch.wrapping_add(1) & 1) as usize, (state.epoch & 1) as usize];
        for (turn, index) in earlier.into_iter().enumerate() {
            if turn == 1 {
                state.epoch += 1;
            }
            while state.in_flight[index] > 0 {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return false;
                }
                state.waiting += 1;
                self.fewer.wait_for(&mut state, left);
                state.waiting -= 1;
            }
        }
        true
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut state = self.volume.state.lock();
        let index = (self.epoch & 1) as usize;
        state.in_flight[index] -= 1;
        // Each notification is a system call, even if no thread waits.
        if state.in_flight[index] == 0 && state.waiting > 0 {
            self.volume.fewer.notify_all();
        }
    }
}

/// Returns whether a request changes any of these bytes.
fn changes_any(command: &NbdCommand, held: &Range<u64>) -> bool {
    let (offset, length) = command.range();
    command.spec().writes
        && offset < held.end
        && offset.checked_add(length).is_none_or(|end| held.start < end)
}

/// The answer to a client that changes sectors whose place is uncertain.
const NOT_PUT_BACK: &str = "the sectors were being relocated, and the drive cannot write its table \
    of volumes; check the drive";

/// The answer to a client whose request reaches past the end.
const PAST_END: &str =
    "the range reaches past the end of the volume; if the volume has shrunk, open it again";

#[cfg(test)]
mod tests {
    use super::*;
    use headtime_units::Extent;

    fn volume() -> Arc<LiveVolume> {
        LiveVolume::of(
            VolumeId(1),
            "a".to_owned(),
            Extent::from_numbers(2048, 16),
            VolumeSettings::default(),
            SectorSize::B512,
        )
    }

    fn read(offset: u64, length: u32) -> NbdCommand {
        NbdCommand::Read { offset, length, unfragmented: false }
    }

    fn write(offset: u64, length: usize) -> NbdCommand {
        NbdCommand::Write { offset, payload: vec![0; length].into(), fua: false }
    }

    const NOW: Duration = Duration::ZERO;

    #[test]
    fn requests_are_checked_against_the_current_state_of_the_volume() {
        let volume = volume();
        assert!(volume.begin(VolumeClass::Ordinary, &read(7680, 512)).is_ok());
        volume.resize(Extent::from_numbers(2048, 8));
        assert_eq!(
            volume.begin(VolumeClass::Ordinary, &read(3584, 1024)).map(|_| ()).unwrap_err().0,
            Errno::Invalid
        );
        assert_eq!(
            volume.begin(VolumeClass::Ordinary, &write(4096, 512)).map(|_| ()).unwrap_err().0,
            Errno::NoSpace
        );
        assert!(
            volume.begin(VolumeClass::Ordinary, &write(3584, 512)).is_ok()
                && volume.begin(VolumeClass::Ordinary, &NbdCommand::Flush).is_ok()
        );
        volume.set(VolumeSettings { read_only: true, ..VolumeSettings::default() });
        assert_eq!(
            volume.begin(VolumeClass::Ordinary, &write(0, 512)).map(|_| ()).unwrap_err().0,
            Errno::Perm
        );
        assert!(volume.begin(VolumeClass::Ordinary, &read(0, 512)).is_ok());
        volume.remove(true);
        assert_eq!(
            volume.begin(VolumeClass::Ordinary, &NbdCommand::Flush).map(|_| ()).unwrap_err().0,
            Errno::Shutdown
        );
        assert_eq!(volume.in_flight(), 0);
    }

    #[test]
    fn changes_of_held_sectors_wait_and_others_do_not() {
        let volume = volume();
        let mut released = volume.releases();
        let is_held = |command: &NbdCommand| {
            volume.begin_unless_held(VolumeClass::Ordinary, command).is_none()
        };
        volume.hold(Sectors::new(4), Sectors::new(4));
        assert!(is_held(&write(2048, 512)) && is_held(&write(1536, 1024)));
        assert!(!is_held(&write(1536, 512)) && !is_held(&write(4096, 512)));
        assert!(!is_held(&read(2048, 512)) && !is_held(&NbdCommand::Flush));
        assert!(!released.has_changed().unwrap());
        volume.refuse(Sectors::new(4), Sectors::new(4));
        assert!(released.has_changed().unwrap());
        released.mark_unchanged();
        assert_eq!(
            volume.begin(VolumeClass::Ordinary, &write(2048, 512)).map(|_| ()).unwrap_err().0,
            Errno::Io
        );
        volume.release();
        assert!(released.has_changed().unwrap() && !is_held(&write(2048, 512)));
    }

    #[test]
    fn earlier_requests_are_waited_for_and_later_ones_are_not() {
        let volume = volume();
        let first = volume.begin(VolumeClass::Ordinary, &read(0, 512)).unwrap();
        assert!(!volume.wait_for_earlier(NOW));
        let later = volume.begin(VolumeClass::Ordinary, &read(0, 512)).unwrap();
        assert!(!volume.wait_for_earlier(NOW), "the first is still in flight");
        drop(first);
        // The wait that timed out began an epoch, so `later` counts as earlier than this one.
        assert!(!volume.wait_for_earlier(NOW));
        drop(later);
        let beside = Arc::clone(&volume);
        let held = volume.begin(VolumeClass::Ordinary, &read(0, 512)).unwrap();
        let waiter = std::thread::spawn(move || beside.wait_for_earlier(Duration::from_secs(60)));
        while volume.state.lock().epoch < 3 {
            std::thread::yield_now();
        }
        let later = volume.begin(VolumeClass::Ordinary, &read(0, 512)).unwrap();
        drop(held);
        assert!(
            waiter.join().unwrap(),
            "a request admitted after the wait began does not delay it"
        );
        assert_eq!(volume.in_flight(), 1);
        drop(later);
    }
}
