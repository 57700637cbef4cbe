//! [`SharedMatrix`]: a handle to one map, for several drives of one model in one process.
//!
//! All copies of the handle share the map: an observation of one drive is available to the others.
//! A lock protects the map, held for one look-up or observation at a time. No observation leaves
//! the map inconsistent, so it stays valid after a panic of a lock holder.
//!
//! The worse time wins, as in merging, so the order of reports from several drives changes no
//! entry. It matters in one case only: when touched cells are covered and memory is used up, it
//! decides which cells are covered.

use std::sync::{Arc, PoisonError, RwLock, TryLockError};

use headtime_units::Nanos;

use super::codec::RestoreError;
use super::map::{LatencyMatrix, Recorded};
use super::merge::{MergeError, Merged, same_cells};
use super::shape::MatrixShape;

/// A map that several drive models use and update.
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

    /// Calls `read` with the map. `read` must not use this handle.
    pub fn inspect<T>(&self, read: impl FnOnce(&LatencyMatrix) -> T) -> T {
        read(&self.map.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// As [`LatencyMatrix::record`], without blocking: while the map is copied, which takes some
    /// ten milliseconds, an observation is dropped as if the pair were not covered. A scheduler
    /// that waited for the lock would serve no request meanwhile.
    pub fn record(&self, from: u32, to: u32, time: Nanos) -> Recorded {
        for _ in 0..TRIES {
            match self.map.try_write() {
                Ok(mut map) => return map.record(from, to, time),
                Err(TryLockError::Poisoned(poisoned)) => {
                    return poisoned.into_inner().record(from, to, time);
                }
                // Another drive holds the lock for a short look-up, or a copy of the map is in
                // progress.
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

    /// As [`LatencyMatrix::merge`], in steps, so that look-ups and observations continue. Entries
    /// that change nothing are counted under a shared lock.
    ///
    /// # Errors
    /// See [`MergeError`]; nothing is changed then.
    pub fn merge(&self, other: &LatencyMatrix) -> Result<Merged, MergeError> {
        same_cells(&self.shape, other.shape())?;
        let mut merged = Merged::default();
        let mut entries = other.entries_for(self.shape.directions());
        let mut step = Vec::with_capacity(MERGED_AT_ONCE);
        loop {
            step.extend(entries.by_ref().take(MERGED_AT_ONCE));
            if step.is_empty() {
                return Ok(merged);
            }
            let before = step.len();
            self.inspect(|map| step.retain(|entry| !map.contains(entry)));
            merged.kept += (before - step.len()) as u64;
            if !step.is_empty() {
                self.change(|map| {
                    step.drain(..).for_each(|entry| merged.count(map.raise_by(entry)));
                });
            }
        }
    }

    /// Returns true if both handles are of one map.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.map, &other.map)
    }

    /// Replaces the map by `map`, which must be of the same drive, cells and entries; otherwise
    /// nothing is changed.
    ///
    /// # Errors
    /// Returns `map` if its shape differs.
    pub fn replace(&self, map: LatencyMatrix) -> Result<(), Box<LatencyMatrix>> {
        if *map.shape() != *self.shape {
            return Err(Box::new(map));
        }
        // The old map is dropped after the lock is released.
        let before = self.change(|known| {
            let map = map.succeeding(known);
            std::mem::replace(known, map)
        });
        drop(before);
        Ok(())
    }

    fn change<T>(&self, change: impl FnOnce(&mut LatencyMatrix) -> T) -> T {
        change(&mut self.map.write().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Entries that are merged under one lock: some ten microseconds (guess).
const MERGED_AT_ONCE: usize = 256;
/// Number of attempts to lock the map, some microseconds: longer than a look-up, far shorter than a
/// copy.
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
    fn an_observation_does_not_wait_for_a_copy() {
        let one = shared();
        one.record(3, 4, Nanos::from_ms(5));
        one.inspect(|map| {
            assert_eq!(
                one.record(3, 4, Nanos::from_ms(9)),
                Recorded::NotCovered,
                "it returns at once"
            );
            assert_eq!(map.time(3, 4).map(|time| time >= Nanos::from_ms(9)), Some(false));
        });
        assert_eq!(one.record(3, 4, Nanos::from_ms(9)), Recorded::Raised);
    }

    #[test]
    fn an_observation_of_one_drive_is_available_to_the_other() {
        let one = shared();
        let other = one.clone();
        assert_eq!(one.record(3, 4, Nanos::from_ms(5)), Recorded::New);
        assert_eq!(other.record(4, 3, Nanos::from_ms(9)), Recorded::Raised);
        assert!(one.inspect(|map| map.time(3, 4)) >= Some(Nanos::from_ms(9)));
        let saved = one.inspect(LatencyMatrix::encode);
        other.forget(Extent::from_numbers(0, 1 << 20));
        assert_eq!(one.inspect(LatencyMatrix::known), 0);
        other.restore(&saved).unwrap();
        assert_eq!(one.inspect(LatencyMatrix::known), 1);
        assert!(one.restore(&saved[1..]).is_err());
        assert_eq!(one.inspect(LatencyMatrix::encode), saved);
        let other_cells = MatrixSettings {
            cell: headtime_units::ByteSize::new(4_096),
            ..MatrixSettings::default()
        };
        let shape = MatrixShape::new(one.shape().drive().clone(), &other_cells).unwrap();
        assert!(one.replace(LatencyMatrix::new(shape)).is_err(), "other cells are another map");
        assert_eq!(other.inspect(LatencyMatrix::known), 1);
        assert!(one.replace(LatencyMatrix::new(one.shape().clone())).is_ok());
        assert_eq!(other.inspect(LatencyMatrix::known), 0, "for all handles");
        one.restore(&saved).unwrap();
        let copy = one.inspect(LatencyMatrix::clone);
        assert_eq!(other.merge(&copy), Ok(Merged { kept: 1, ..Merged::default() }));
    }
}
