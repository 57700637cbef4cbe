//! [`Ranges`]: a list of ranges of sectors, such as unreadable ones. It is bounded, because a
//! failing drive has millions.

use std::collections::BTreeMap;

use headtime_units::{Extent, Lba, Sectors};

/// Disjoint ranges of sectors by address; adjacent ones are joined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ranges {
    /// First sector and end of each range.
    runs: BTreeMap<u64, u64>,
    /// The number of sectors that did not fit.
    unlisted: u64,
}

impl Ranges {
    /// The most ranges that are listed; further sectors are only counted.
    pub const MAX: usize = 16_384;

    /// Adds a range; sectors already listed stay there once.
    pub fn insert(&mut self, extent: Extent) {
        let (mut start, mut end) = (extent.start.get(), extent.end().get());
        if start == end {
            return;
        }
        let before = self.runs.range(..=end).next_back().map(|(start, end)| (*start, *end));
        let touches = before.is_some_and(|(_, before_end)| before_end >= start);
        if self.runs.len() >= Self::MAX && !touches {
            self.unlisted += end - start;
            return;
        }
        while let Some((other, other_end)) =
            self.runs.range(..=end).next_back().map(|(start, end)| (*start, *end))
        {
            if other_end < start {
                break;
            }
            self.runs.remove(&other);
            (start, end) = (start.min(other), end.max(other_end));
        }
        self.runs.insert(start, end);
    }

    /// The ranges by address.
    pub fn iter(&self) -> impl Iterator<Item = Extent> + '_ {
        self.runs
            .iter()
            .map(|(start, end)| Extent::new(Lba::new(*start), Sectors::new(end - start)))
    }

    /// The number of ranges.
    #[must_use]
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.unlisted == 0
    }

    /// The number of sectors in all ranges, including those that did not fit.
    #[must_use]
    pub fn sectors(&self) -> Sectors {
        Sectors::new(self.runs.iter().map(|(start, end)| end - start).sum::<u64>() + self.unlisted)
    }

    /// The number of sectors that did not fit into [`Ranges::MAX`] ranges; their addresses are not
    /// known.
    #[must_use]
    pub fn unlisted(&self) -> Sectors {
        Sectors::new(self.unlisted)
    }

    pub(crate) fn from_parts(runs: impl Iterator<Item = Extent>, unlisted: u64) -> Self {
        let mut ranges = Self::default();
        runs.for_each(|run| ranges.insert(run));
        Self { unlisted, ..ranges }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_are_those_of_a_set_of_sectors(
            inserted in proptest::collection::vec((0_u64..60, 0_u64..8), 0..30),
        ) {
            let mut ranges = Ranges::default();
            let mut plain = [false; 80];
            for (start, len) in inserted {
                ranges.insert(Extent::from_numbers(start, len));
                plain[start as usize..(start + len) as usize].fill(true);
            }
            let mut listed = [false; 80];
            let mut last_end = None;
            for run in ranges.iter() {
                prop_assert!(last_end.is_none_or(|end| end < run.start), "runs that touch are not \
                    joined");
                last_end = Some(run.end());
                listed[run.start.get() as usize..run.end().get() as usize].fill(true);
            }
            prop_assert_eq!(listed, plain);
        }
    }

    #[test]
    fn beyond_the_bound_sectors_are_counted_and_runs_that_touch_still_grow() {
        let mut ranges = Ranges::default();
        for run in 0..Ranges::MAX as u64 + 5 {
            ranges.insert(Extent::from_numbers(run * 10, 2));
        }
        ranges.insert(Extent::from_numbers(2, 1));
        assert_eq!((ranges.len(), ranges.unlisted()), (Ranges::MAX, Sectors::new(10)));
        assert_eq!(ranges.sectors().get(), 2 * (Ranges::MAX as u64 + 5) + 1);
    }
}
