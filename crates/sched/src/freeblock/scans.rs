//! [`Scans`]: who wants what, and who has been promised what is on its way.
//!
//! What is about to be read is *claimed*: taken off the sectors that a scan wants, so that nobody
//! reads it twice, and kept with the job that reads it. A read that comes back turns claims into
//! [`BackgroundRead`](crate::BackgroundRead)s.

use alloc::vec::Vec;

use headtime_units::{Extent, Lba, Sectors};

use super::wanted::PendingSectors;
use crate::background::{Pace, ScanId, ScanOptions};

/// One scan.
#[derive(Clone, Debug)]
pub(crate) struct Scan {
    pub(crate) id: ScanId,
    pub(crate) wanted: PendingSectors,
    pub(crate) options: ScanOptions,
    /// What it wanted when it started.
    pub(crate) whole: Sectors,
}

/// Sectors that are being read for a scan: it wants them no more, and has not got them yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) scan: ScanId,
    pub(crate) extent: Extent,
}

/// All scans of a drive, in the order in which they were started.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scans(Vec<Scan>);

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

    /// How many read now.
    pub(crate) fn len(&self) -> u64 {
        self.reading().count() as u64
    }

    /// Whether anybody wants to read now, whether or not he still wants anything.
    pub(crate) fn any_reads(&self) -> bool {
        self.0.iter().any(Scan::reads)
    }

    /// Whether anybody wants anything now.
    pub(crate) fn want(&self) -> bool {
        self.reading().any(|scan| !scan.wanted.is_empty())
    }

    /// Whether a part of `tail` of its sectors, or less, is left of each scan that reads.
    pub(crate) fn near_the_end(&self, tail: f64) -> bool {
        let near =
            |scan: &Scan| scan.wanted.remaining().get() as f64 <= scan.whole.get() as f64 * tail;
        self.want() && self.reading().all(near)
    }

    /// Sectors wanted in grains wholly within `extent`; what two scans want counts twice.
    pub(crate) fn count_in(&self, extent: Extent) -> u64 {
        self.reading().map(|scan| scan.wanted.count_in(extent).get()).sum()
    }

    /// From the first to the last sector wanted within `extent`.
    pub(crate) fn hull_in(&self, extent: Extent) -> Option<Extent> {
        self.reading().filter_map(|scan| scan.wanted.hull_in(extent)).reduce(hull)
    }

    /// The next run that anybody wants, from `from` on.
    pub(crate) fn next_from(&self, from: Lba, most: Sectors) -> Option<Extent> {
        self.reading()
            .filter_map(|scan| scan.wanted.next_from(from, most))
            .min_by_key(|run| run.start)
    }

    /// Claims what is wanted in grains wholly within `extent`.
    pub(crate) fn claim(&mut self, extent: Extent) -> Vec<Claim> {
        Self::claim_of(self.0.iter_mut().filter(|scan| scan.reads()), |_| extent)
    }

    /// Claims for scans of a point in time what is wanted in grains that `extent` touches, whether
    /// they read at the moment or not.
    pub(crate) fn claim_before_change(&mut self, extent: Extent) -> Vec<Claim> {
        Self::claim_of(self.0.iter_mut().filter(|scan| scan.options.point_in_time), |wanted| {
            wanted.whole_grains(extent)
        })
    }

    /// Checks the bitmaps, and that nothing claimed is wanted.
    ///
    /// # Panics
    /// When that is not so: a fault of this module.
    pub(crate) fn self_check<'a>(&self, claims: impl Iterator<Item = &'a Claim>) {
        self.0.iter().for_each(|scan| scan.wanted.self_check());
        for claim in claims {
            let scan = self
                .get(claim.scan)
                .unwrap_or_else(|| panic!("{claim:?} is for a scan that there is not"));
            assert!(scan.wanted.count_in(claim.extent).is_zero(), "{claim:?} is still wanted, too");
        }
    }

    fn reading(&self) -> impl Iterator<Item = &Scan> {
        self.0.iter().filter(|scan| scan.reads())
    }

    fn claim_of<'a>(
        scans: impl Iterator<Item = &'a mut Scan>,
        within: impl Fn(&PendingSectors) -> Extent,
    ) -> Vec<Claim> {
        let mut claims = Vec::new();
        for scan in scans {
            let extent = within(&scan.wanted);
            let before = claims.len();
            claims.extend(
                scan.wanted.runs_in(extent).map(|run| Claim { scan: scan.id, extent: run }),
            );
            for claim in &claims[before..] {
                scan.wanted.remove(claim.extent);
            }
        }
        claims
    }
}

/// The shortest extent that holds both.
pub(crate) fn hull(one: Extent, other: Extent) -> Extent {
    let start = one.start.min(other.start);
    Extent::new(start, one.end().max(other.end()) - start)
}

/// The parts of `part` that lie before and behind `covered`.
pub(crate) fn without(part: Extent, covered: Extent) -> impl Iterator<Item = Extent> {
    let before = (part.start < covered.start)
        .then(|| Extent::new(part.start, part.end().min(covered.start) - part.start));
    let behind = (part.end() > covered.end()).then(|| {
        let start = part.start.max(covered.end());
        Extent::new(start, part.end() - start)
    });
    before.into_iter().chain(behind)
}
