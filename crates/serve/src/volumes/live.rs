//! A volume as it is being served: what of it changes under the clients that have it open.
//!
//! Every request passes [`LiveVolume::begin`], which knows where the volume ends *now* and whether
//! it may be written *now*, whatever its client was told when it opened the export. A volume that
//! shrinks or goes first lets in nothing more that would not be allowed afterwards, then waits
//! until everything let in before is over ([`LiveVolume::wait_for_earlier`]), and only then are its
//! sectors free for others: nothing of the old volume is on its way to them any more.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use headtime_nbd::{Errno, NbdCommand};
use headtime_sched::{IoPriority, VolumeId};
use headtime_units::{ByteSize, Extent, Lba, Nanos, SectorSize, Sectors};
use tokio::sync::watch;

use super::settings::{VolumeClass, VolumeSettings};
use super::table::Volume;

/// One served volume; all its exports share it.
#[derive(Debug)]
pub(crate) struct LiveVolume {
    /// Its number.
    pub(crate) id: VolumeId,
    /// Its name.
    pub(crate) name: String,
    pub(crate) sector: SectorSize,
    /// Its first sector, which never changes.
    start: Lba,
    state: Mutex<State>,
    /// Somebody waits for requests to be over.
    fewer: Condvar,
    removed: watch::Sender<bool>,
}

#[derive(Debug)]
struct State {
    len: Sectors,
    settings: VolumeSettings,
    /// Goes up when the volume becomes less; requests of two adjacent epochs are counted apart.
    epoch: u64,
    in_flight: [u64; 2],
}

/// A request that was let in; over when dropped.
#[derive(Debug)]
pub(crate) struct Pass {
    volume: Arc<LiveVolume>,
    epoch: u64,
    /// How long after its arrival it is due.
    pub(crate) deadline: Option<Nanos>,
    /// What says when it is due where nothing else does.
    pub(crate) priority: Option<IoPriority>,
}

impl LiveVolume {
    /// A volume of the table, on a drive with such sectors.
    pub(crate) fn new(volume: &Volume, sector: SectorSize) -> Arc<Self> {
        let Volume { id, name, extent, settings } = volume.clone();
        Self::of(id, name, extent, settings, sector)
    }

    /// A run of sectors that is no volume of a table: a whole drive.
    pub(crate) fn of(
        id: VolumeId,
        name: String,
        extent: Extent,
        settings: VolumeSettings,
        sector: SectorSize,
    ) -> Arc<Self> {
        let state = State { len: extent.len, settings, epoch: 0, in_flight: [0; 2] };
        let removed = watch::Sender::new(false);
        Arc::new(Self {
            id,
            name,
            sector,
            start: extent.start,
            state: Mutex::new(state),
            fewer: Condvar::new(),
            removed,
        })
    }

    /// Its sectors by the drive's addresses, as they are now.
    pub(crate) fn extent(&self) -> Extent {
        Extent::new(self.start, self.state().len)
    }

    /// Its size now.
    pub(crate) fn size(&self) -> ByteSize {
        ByteSize::new(self.sector.bytes_of(self.state().len))
    }

    /// Its settings now.
    pub(crate) fn settings(&self) -> VolumeSettings {
        self.state().settings.clone()
    }

    /// Lets a request of a class in, or says why not. `removed` volumes let nothing in.
    pub(crate) fn begin(
        self: &Arc<Self>,
        class: VolumeClass,
        command: &NbdCommand,
    ) -> Result<Pass, (Errno, &'static str)> {
        let mut state = self.state();
        if *self.removed.borrow() {
            return Err((Errno::Shutdown, "the volume was removed"));
        }
        let writes = matches!(
            command,
            NbdCommand::Write { .. } | NbdCommand::Trim { .. } | NbdCommand::WriteZeroes { .. }
        );
        if writes && state.settings.read_only {
            return Err((Errno::Perm, "the volume has become read-only"));
        }
        let (offset, length) = command.range();
        let fits =
            offset.checked_add(length).is_some_and(|end| end <= self.sector.bytes_of(state.len));
        if !fits && !matches!(command, NbdCommand::Flush) {
            let errno = if writes { Errno::NoSpace } else { Errno::Invalid };
            return Err((
                errno,
                "the volume has become smaller and ends before this; open it again",
            ));
        }
        let epoch = state.epoch;
        state.in_flight[(epoch & 1) as usize] += 1;
        let of_class = state.settings.of_class(class);
        let (deadline, priority) =
            (of_class.and_then(|class| class.deadline), of_class.and_then(|class| class.priority));
        Ok(Pass { volume: Arc::clone(self), epoch, deadline, priority })
    }

    /// From now on these settings hold.
    pub(crate) fn set(&self, settings: VolumeSettings) {
        self.state().settings = settings;
    }

    /// From now on it ends there. After a cut, [`LiveVolume::wait_for_earlier`].
    pub(crate) fn resize(&self, len: Sectors) {
        self.state().len = len;
    }

    /// From now on nothing is let in, and those who have it open leave; or the other way round.
    pub(crate) fn remove(&self, removed: bool) {
        let _state = self.state();
        self.removed.send_replace(removed);
    }

    /// To hear of the volume's removal.
    pub(crate) fn removal(&self) -> watch::Receiver<bool> {
        self.removed.subscribe()
    }

    /// Requests that are not over.
    pub(crate) fn in_flight(&self) -> u64 {
        self.state().in_flight.iter().sum()
    }

    /// Waits until everything that was let in before this call is over; whether it is, within
    /// `patience`. Only one may wait at a time.
    pub(crate) fn wait_for_earlier(&self, patience: Duration) -> bool {
        let until = Instant::now() + patience;
        let mut state = self.state();
        // What is left of an earlier wait that was given up has to be over too, before its count
        // can be used again.
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
                state =
                    self.fewer.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        true
    }

    /// Every statement leaves a state that makes sense.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut state = self.volume.state();
        let count = &mut state.in_flight[(self.epoch & 1) as usize];
        *count -= 1;
        if *count == 0 {
            self.volume.fewer.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn what_is_let_in_goes_by_what_the_volume_is_now() {
        let volume = volume();
        assert!(volume.begin(VolumeClass::Ordinary, &read(7680, 512)).is_ok());
        volume.resize(Sectors::new(8));
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
    fn earlier_requests_are_waited_for_and_later_ones_are_not() {
        let volume = volume();
        let first = volume.begin(VolumeClass::Ordinary, &read(0, 512)).unwrap();
        assert!(!volume.wait_for_earlier(NOW));
        let later = volume.begin(VolumeClass::Ordinary, &read(0, 512)).unwrap();
        assert!(!volume.wait_for_earlier(NOW), "the first is not over yet");
        drop(first);
        // The wait that was given up has begun an epoch, so that `later` counts as earlier than
        // this one.
        assert!(!volume.wait_for_earlier(NOW));
        drop(later);
        let beside = Arc::clone(&volume);
        let held = volume.begin(VolumeClass::Ordinary, &read(0, 512)).unwrap();
        let waiter = std::thread::spawn(move || beside.wait_for_earlier(Duration::from_secs(60)));
        while volume.state().epoch < 3 {
            std::thread::yield_now();
        }
        let later = volume.begin(VolumeClass::Ordinary, &read(0, 512)).unwrap();
        drop(held);
        assert!(
            waiter.join().unwrap(),
            "a request that came after the wait began is not waited for"
        );
        assert_eq!(volume.in_flight(), 1);
        drop(later);
    }
}
