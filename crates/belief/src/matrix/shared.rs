//! [`SharedMatrix`]: a handle to one map, for several drives of one model in one process.
//!
//! Every copy of the handle is the same map: what one drive shows, the others know. A lock stands
//! around it, held for a look-up or an observation at a time; no observation leaves anything half
//! done, so a holder that panicked leaves a map that is whole.
//!
//! The worse time wins here as in merging, so the order in which several drives report changes no
//! entry; only where the cells covered come as they are touched and memory is used up does it
//! decide which cells came first.

use std::sync::{Arc, PoisonError, RwLock, TryLockError};

use headtime_units::Nanos;

use super::codec::RestoreError;
use super::map::{LatencyMatrix, Recorded};
use super::merge::{MergeError, Merged};
use super::shape::MatrixShape;

/// A map that several beliefs look things up in and learn for.
#[derive(Clone, Debug)]
pub struct SharedMatrix {
    shape: Arc<MatrixShape>,
    map: Arc<RwLock<LatencyMatrix>>,
}

impl SharedMatrix {
    /// A handle to `map`.
    #[must_use]
    pub fn new(map: LatencyMatrix) -> Self {
        Self { shape: Arc::new(map.shape().clone()), map: Arc::new(RwLock::new(map)) }
    }

    /// Drive, cells and scale.
    #[must_use]
    pub fn shape(&self) -> &MatrixShape {
        &self.shape
    }

    /// Lets `ask` look at the map. It must not come back to this handle meanwhile.
    pub fn look<T>(&self, ask: impl FnOnce(&LatencyMatrix) -> T) -> T {
        ask(&self.map.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// As [`LatencyMatrix::record`]; while somebody copies or merges the map, which takes some ten
    /// milliseconds, an observation is left out as if the pair were not covered: a scheduler that
    /// waited for it would serve nobody meanwhile.
    pub fn record(&self, from: u32, to: u32, time: Nanos) -> Recorded {
        for _ in 0..TRIES {
            match self.map.try_write() {
                Ok(mut map) => return map.record(from, to, time),
                Err(TryLockError::Poisoned(poisoned)) => {
                    return poisoned.into_inner().record(from, to, time);
                }
                // Another drive looks something up, and is done in no time, or somebody copies all
                // of it.
                Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
            }
        }
        Recorded::NotCovered
    }

    /// As [`LatencyMatrix::forget`].
    pub fn forget(&self, extent: headtime_units::Extent) {
        self.change(|map| map.forget(extent));
    }

    /// As [`LatencyMatrix::restore`].
    ///
    /// # Errors
    /// See [`RestoreError`]; nothing is changed then.
    pub fn restore(&self, bytes: &[u8]) -> Result<(), RestoreError> {
        self.change(|map| map.restore(bytes))
    }

    /// As [`LatencyMatrix::merge`].
    ///
    /// # Errors
    /// See [`MergeError`]; nothing is changed then.
    pub fn merge(&self, other: &LatencyMatrix) -> Result<Merged, MergeError> {
        self.change(|map| map.merge(other))
    }

    /// Becomes `map`, which must be of the same drive, cells and entries; otherwise `map` comes
    /// back and nothing is changed.
    ///
    /// # Errors
    /// `map`.
    pub fn replace(&self, map: LatencyMatrix) -> Result<(), Box<LatencyMatrix>> {
        if *map.shape() != *self.shape {
            return Err(Box::new(map));
        }
        // What was known before goes when nobody waits for the lock any more.
        let before = self.change(|known| std::mem::replace(known, map));
        drop(before);
        Ok(())
    }

    fn change<T>(&self, change: impl FnOnce(&mut LatencyMatrix) -> T) -> T {
        change(&mut self.map.write().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Some microseconds: longer than a look-up, far shorter than a copy.
const TRIES: u32 = 256;

#[cfg(test)]
mod tests {
    use super::super::shape::{MappedDrive, MatrixSettings};
    use super::*;
    use headtime_units::{Extent, SectorSize, Sectors};

    fn shared() -> SharedMatrix {
        let drive = MappedDrive {
            model: "TEST 10K".into(),
            capacity: Sectors::new(1 << 20),
            sector: SectorSize::B512,
        };
        SharedMatrix::new(LatencyMatrix::new(
            MatrixShape::new(drive, &MatrixSettings::default()).unwrap(),
        ))
    }

    #[test]
    fn nobody_waits_for_a_copy_to_tell_what_he_has_seen() {
        let one = shared();
        one.record(3, 4, Nanos::from_ms(5));
        one.look(|map| {
            assert_eq!(
                one.record(3, 4, Nanos::from_ms(9)),
                Recorded::NotCovered,
                "it comes back at once"
            );
            assert_eq!(map.time(3, 4).map(|time| time >= Nanos::from_ms(9)), Some(false));
        });
        assert_eq!(one.record(3, 4, Nanos::from_ms(9)), Recorded::Raised);
    }

    #[test]
    fn what_one_drive_shows_the_other_knows() {
        let one = shared();
        let other = one.clone();
        assert_eq!(one.record(3, 4, Nanos::from_ms(5)), Recorded::New);
        assert_eq!(other.record(4, 3, Nanos::from_ms(9)), Recorded::Raised);
        assert!(one.look(|map| map.time(3, 4)) >= Some(Nanos::from_ms(9)));
        let saved = one.look(LatencyMatrix::encode);
        other.forget(Extent::from_numbers(0, 1 << 20));
        assert_eq!(one.look(LatencyMatrix::known), 0);
        other.restore(&saved).unwrap();
        assert_eq!(one.look(LatencyMatrix::known), 1);
        assert!(one.restore(&saved[1..]).is_err());
        assert_eq!(one.look(LatencyMatrix::encode), saved);
        let other_cells = MatrixSettings {
            cell: headtime_units::ByteSize::new(4_096),
            ..MatrixSettings::default()
        };
        let shape = MatrixShape::new(one.shape().drive().clone(), &other_cells).unwrap();
        assert!(one.replace(LatencyMatrix::new(shape)).is_err(), "other cells are another map");
        assert_eq!(other.look(LatencyMatrix::known), 1);
        assert!(one.replace(LatencyMatrix::new(one.shape().clone())).is_ok());
        assert_eq!(other.look(LatencyMatrix::known), 0, "for all who share it");
        one.restore(&saved).unwrap();
        let copy = one.look(LatencyMatrix::clone);
        assert_eq!(other.merge(&copy), Ok(Merged { kept: 1, ..Merged::default() }));
    }
}
