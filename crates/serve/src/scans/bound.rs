//! [`ImpactBound`]: the bound on what all background work of a drive costs its clients.

use std::collections::BTreeMap;

use headtime_io::DriveHandle;
use headtime_sched::FillSettings;
use headtime_units::Share;

use super::ScanError;

/// The bound on the growth of the mean response time of clients.
pub(super) struct ImpactBound {
    /// The settings in force.
    fill: FillSettings,
    /// The bound of the drive.
    usual: f64,
    /// The bounds of background work that has one of its own while it runs.
    temporary: BTreeMap<BoundedWork, f64>,
}

/// Background work that may have a bound of its own while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BoundedWork {
    Relocation,
    #[cfg(feature = "characterize")]
    Characterization,
}

impl ImpactBound {
    pub(super) fn new(fill: FillSettings) -> Self {
        Self { fill, usual: fill.max_impact, temporary: BTreeMap::new() }
    }

    /// The bound in force, as a share.
    pub(super) fn max_impact(&self) -> f64 {
        self.fill.max_impact
    }

    /// Sets the bound of the drive, also for work that has one of its own.
    pub(super) fn set(&mut self, handle: &DriveHandle, share: Share) -> Result<(), ScanError> {
        self.apply(handle, share.as_fraction())?;
        self.usual = share.as_fraction();
        self.temporary.clear();
        Ok(())
    }

    /// Sets the bound while some work runs, or ends this. Of two kinds of work with a bound of
    /// their own, the larger bound is in force.
    pub(super) fn set_of(
        &mut self,
        handle: &DriveHandle,
        work: BoundedWork,
        share: Option<Share>,
    ) -> Result<(), ScanError> {
        let mut temporary = self.temporary.clone();
        match share {
            Some(share) => temporary.insert(work, share.as_fraction()),
            None => temporary.remove(&work),
        };
        let max_impact = temporary.values().copied().reduce(f64::max).unwrap_or(self.usual);
        self.apply(handle, max_impact)?;
        self.temporary = temporary;
        Ok(())
    }

    fn apply(&mut self, handle: &DriveHandle, max_impact: f64) -> Result<(), ScanError> {
        let changed = FillSettings { max_impact, ..self.fill };
        if changed != self.fill {
            handle.set_fill(changed)?;
            self.fill = changed;
        }
        Ok(())
    }
}
