//! [`Scans`]: the pending sectors of each scan, and the claims on sectors being read.
//!
//! Sectors about to be read are *claimed*: removed from the pending sectors of a scan, so that they
//! are read once, and kept with the job that reads them. A completed read turns claims into
//! [`BackgroundRead`](crate::BackgroundRead)s.

use alloc::vec::Vec;

use headtime_units::{Extent, Lba, Sectors};

use super::pending::PendingSectors;
use crate::background::{Pace, ScanId, ScanOptions, ScanPriority};

#[derive(Clone, Debug)]
pub(crate) struct Scan {
    pub(crate) id: ScanId,
    pub(crate) pending: PendingSectors,
    pub(crate) options: ScanOptions,
    /// The number of pending sectors at its start.
    pub(crate) whole: Sectors,
}

/// Sectors being read for a scan: no longer pending, and not yet delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) scan: ScanId,
    pub(crate) extent: Extent,
}

/// All scans of a drive, in the order in which they were started.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scans(Vec<Scan>);

/// The scans that read now, down to a priority.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading<'a> {
    scans: &'a [Scan],
    last: ScanPriority,
}

impl Scan {
    fn reads(&self) -> bool {
        self.options.pace == Pace::Normal
    }
}

impl Scans {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn get(&self, id: ScanId) -> Option<&Scan> {
        self.0.iter().find(|scan| scan.id == id)
    }

    pub(crate) fn get_mut(&mut self, id: ScanId) -> Option<&mut Scan> {
        self.0.iter_mut().find(|scan| scan.id == id)
    }

    pub(crate) fn start(&mut self, scan: Scan) {
        self.0.push(scan);
    }

    pub(crate) fn stop(&mut self, id: ScanId) -> bool {
        let before = self.0.len();
        self.0.retain(|scan| scan.id != id);
        self.0.len() < before
    }

    /// Returns whether a scan reads now, with pending sectors or without.
    pub(crate) fn any_reads(&self) -> bool {
        self.0.iter().any(Scan::reads)
    }

    /// Returns whether a scan that reads has pending sectors.
    pub(crate) fn has_pending(&self) -> bool {
        self.by_priority().next().is_some()
    }

    /// All scans that read.
    pub(crate) fn reading(&self) -> Reading<'_> {
        Reading { scans: &self.0, last: ScanPriority::LAST }
    }

    /// The scans that read, for each priority that has pending sectors down to that one, the most
    /// urgent first.
    pub(crate) fn by_priority(&self) -> impl Iterator<Item = Reading<'_>> {
        let mut last = None;
        core::iter::from_fn(move || {
            let pending = self.0.iter().filter(|scan| scan.reads() && !scan.pending.is_empty());
            let priorities = pending.map(|scan| scan.options.priority);
            let next = priorities.filter(|one| last.is_none_or(|last| *one > last)).min()?;
            last = Some(next);
            Some(Reading { scans: &self.0, last: next })
        })
    }

    /// The scans that read, of the most urgent priority that has pending sectors.
    pub(crate) fn first_priority(&self) -> Option<Reading<'_>> {
        self.by_priority().next()
    }

    /// Claims the pending sectors in grains wholly within `extent`.
    pub(crate) fn claim(&mut self, extent: Extent) -> Vec<Claim> {
        Self::claim_of(self.0.iter_mut().filter(|scan| scan.reads()), |_| extent)
    }

    /// Claims the pending sectors in grains that `extent` touches for scans of a point in time,
    /// also for paused ones.
    pub(crate) fn claim_before_change(&mut self, extent: Extent) -> Vec<Claim> {
        Self::claim_of(self.0.iter_mut().filter(|scan| scan.options.point_in_time), |pending| {
            pending.whole_grains(extent)
        })
    }

    /// Checks the bitmaps, and that no claimed sector is pending.
    ///
    /// # Panics
    /// When they do not agree: a fault of this module.
    pub(crate) fn self_check<'a>(&self, claims: impl Iterator<Item = &'a Claim>) {
        self.0.iter().for_each(|scan| scan.pending.self_check());
        for claim in claims {
            let scan = self
                .get(claim.scan)
                .unwrap_or_else(|| panic!("{claim:?} is for a scan that there is not"));
            assert!(
                scan.pending.count_in(claim.extent).is_zero(),
                "{claim:?} is still pending, too"
            );
        }
    }

    fn claim_of<'a>(
        scans: impl Iterator<Item = &'a mut Scan>,
        within: impl Fn(&PendingSectors) -> Extent,
    ) -> Vec<Claim> {
        let mut claims = Vec::new();
        for scan in scans {
            let extent = within(&scan.pending);
            let before = claims.len();
            claims.extend(
                scan.pending.runs_in(extent).map(|run| Claim { scan: scan.id, extent: run }),
            );
            for claim in &claims[before..] {
                scan.pending.remove(claim.extent);
            }
        }
        claims
    }
}

impl<'a> Reading<'a> {
    /// The number of these scans.
    pub(crate) fn len(self) -> u64 {
        self.scans().count() as u64
    }

    /// Returns whether each of these scans has at most the fraction `tail` of its sectors pending.
    pub(crate) fn near_the_end(self, tail: f64) -> bool {
        let near =
            |scan: &Scan| scan.pending.remaining().get() as f64 <= scan.whole.get() as f64 * tail;
        self.scans().all(near)
    }

    /// Pending sectors in grains wholly within `extent`; a sector of two scans counts twice.
    pub(crate) fn count_in(self, extent: Extent) -> u64 {
        self.scans().map(|scan| scan.pending.count_in(extent).get()).sum()
    }

    /// The shortest extent of all pending sectors within `extent`.
    pub(crate) fn hull_in(self, extent: Extent) -> Option<Extent> {
        self.scans().filter_map(|scan| scan.pending.hull_in(extent)).reduce(hull)
    }

    /// The next pending run of any of these scans, from `from` on.
    pub(crate) fn next_from(self, from: Lba, most: Sectors) -> Option<Extent> {
        self.scans()
            .filter_map(|scan| scan.pending.next_from(from, most))
            .min_by_key(|run| run.start)
    }

    fn scans(self) -> impl Iterator<Item = &'a Scan> {
        self.scans.iter().filter(move |scan| scan.reads() && scan.options.priority <= self.last)
    }
}

/// The shortest extent that contains both.
pub(crate) fn hull(one: Extent, other: Extent) -> Extent {
    let start = one.start.min(other.start);
    Extent::new(start, one.end().max(other.end()) - start)
}

/// The parts of `part` before and after `covered`.
pub(crate) fn without(part: Extent, covered: Extent) -> impl Iterator<Item = Extent> {
    let before = (part.start < covered.start)
        .then(|| Extent::new(part.start, part.end().min(covered.start) - part.start));
    let after = (part.end() > covered.end()).then(|| {
        let start = part.start.max(covered.end());
        Extent::new(start, part.end() - start)
    });
    before.into_iter().chain(after)
}
