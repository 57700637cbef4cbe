//! Merging of two maps of identical drives: the worse time of each pair wins.
//!
//! The maps may cover different cells, in entries of different width: an entry of one map is
//! recorded in the other like an observation, rounded up again. An entry that keeps only the worse
//! direction is recorded for both. Pairs that the receiving map does not cover are skipped and
//! counted. Merging never makes a time shorter. Merging the same map twice changes nothing but the
//! number of samples.
//!
//! Source: P1 section 3.1 (one map for an array of identical drives) and 4 (a map reused on other
//! machines).

use headtime_units::{Nanos, SectorSize, Sectors};

use super::map::{LatencyMatrix, Recorded};
use super::shape::{Directions, MatrixShape};

/// An entry of another map.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    from: u32,
    to: u32,
    time: Nanos,
    samples: u8,
}

/// The result of a merge.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Pairs that were unknown before.
    pub new: u64,
    /// Pairs whose time became longer.
    pub raised: u64,
    /// Pairs whose time was as long already.
    pub kept: u64,
    /// Pairs that the receiving map does not cover.
    pub not_covered: u64,
}

/// Reasons why two maps cannot be merged. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum MergeError {
    /// The drives are of different models.
    #[error(
        "the map is of drive model '{theirs}', this drive is '{ours}'; use a map of the same \
            model, or start empty"
    )]
    Model { ours: String, theirs: String },
    /// The drives are of different sizes.
    #[error(
        "the map is of a drive with {theirs}, this drive has {ours}; use a map of the same model \
            and size, or start empty"
    )]
    Capacity { ours: Sectors, theirs: Sectors },
    /// The drives have different sectors.
    #[error(
        "the map is of a drive with sectors of {} bytes, this drive's have {}; use a map of the \
            same format, or start empty",
        theirs.bytes(),
        ours.bytes()
    )]
    Sector { ours: SectorSize, theirs: SectorSize },
    /// The cells are of different sizes.
    #[error(
        "the map has cells of {theirs}, expected are cells of {ours}; set the same cell size, or \
            start empty"
    )]
    Cell { ours: Sectors, theirs: Sectors },
}

impl Merged {
    pub(super) fn count(&mut self, recorded: Recorded) {
        *match recorded {
            Recorded::New => &mut self.new,
            Recorded::Raised => &mut self.raised,
            Recorded::Kept => &mut self.kept,
            Recorded::NotCovered => &mut self.not_covered,
        } += 1;
    }
}

impl LatencyMatrix {
    /// Merges the entries of `other` into this map.
    ///
    /// # Errors
    /// Fails if the maps are not of identical drives in cells of one size; nothing is changed then.
    pub fn merge(&mut self, other: &Self) -> Result<Merged, MergeError> {
        same_cells(&self.shape, &other.shape)?;
        let mut merged = Merged::default();
        for entry in other.entries_for(self.shape.directions) {
            merged.count(self.raise_by(entry));
        }
        Ok(merged)
    }

    /// The entries of this map as a map with these directions records them.
    pub(super) fn entries_for(&self, directions: Directions) -> impl Iterator<Item = Entry> + '_ {
        let splits = directions == Directions::Both && self.shape.directions == Directions::Worse;
        self.observed().flat_map(move |(from, to, time)| {
            let samples = self.samples_or_one(from, to);
            let back = Entry { from: to, to: from, time, samples };
            let there = Entry { from, to, time, samples };
            [Some(there), (splits && from != to).then_some(back)].into_iter().flatten()
        })
    }

    /// Returns true if recording this entry changes nothing.
    pub(super) fn contains(&self, entry: &Entry) -> bool {
        self.samples.is_none() && self.time(entry.from, entry.to) >= Some(entry.time)
    }

    /// Records an entry of another map. A row that is being cleared might get it, so clearing ends.
    pub(super) fn raise_by(&mut self, entry: Entry) -> Recorded {
        self.stop_clearing();
        self.raise(entry.from, entry.to, entry.time, entry.samples)
    }
}

/// Checks that two maps have the same cells of the same drive model.
pub(super) fn same_cells(ours: &MatrixShape, theirs: &MatrixShape) -> Result<(), MergeError> {
    let (our, their) = (&ours.drive, &theirs.drive);
    if our.model != their.model {
        return Err(MergeError::Model { ours: our.model.clone(), theirs: their.model.clone() });
    }
    if our.capacity != their.capacity {
        return Err(MergeError::Capacity { ours: our.capacity, theirs: their.capacity });
    }
    if our.sector != their.sector {
        return Err(MergeError::Sector { ours: our.sector, theirs: their.sector });
    }
    if ours.cell() != theirs.cell() {
        return Err(MergeError::Cell { ours: ours.cell(), theirs: theirs.cell() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::scale::EntryBits;
    use super::super::shape::{Coverage, MappedDrive, MatrixSettings};
    use super::*;
    use headtime_units::{ByteSize, Extent};
    use proptest::prelude::*;

    fn drive() -> MappedDrive {
        MappedDrive {
            model: "TEST 10K".into(),
            capacity: Sectors::new(64 * 256),
            sector: SectorSize::B512,
        }
    }

    fn map(settings: MatrixSettings, observations: &[(u32, u32, u64)]) -> LatencyMatrix {
        let mut map = LatencyMatrix::new(MatrixShape::new(drive(), &settings).unwrap());
        for (from, to, us) in observations {
            map.record(*from, *to, Nanos::from_us(*us));
        }
        map
    }

    #[test]
    fn the_worse_time_of_each_pair_wins_and_the_result_is_counted() {
        let settings = MatrixSettings { longest: Nanos::from_ms(14), ..MatrixSettings::default() };
        let mut ours = map(settings, &[(1, 2, 3_000), (2, 3, 9_000)]);
        let theirs = map(settings, &[(3, 2, 5_000), (4, 1, 800), (2, 1, 6_000)]);
        assert_eq!(ours.merge(&theirs), Ok(Merged { new: 1, raised: 1, kept: 1, not_covered: 0 }));
        let times = [(1, 2), (2, 3), (1, 4), (3, 4)].map(|(one, other)| ours.time(one, other));
        assert_eq!(
            times,
            [Some(Nanos::from_ms(6)), Some(Nanos::from_ms(9)), Some(Nanos::from_ms(1)), None]
        );
        assert_eq!(ours.merge(&theirs), Ok(Merged { kept: 3, ..Merged::default() }));
    }

    #[test]
    fn pairs_that_are_not_covered_are_left_out_and_counted() {
        let region = MatrixSettings {
            coverage: Coverage::Region(Extent::from_numbers(0, 512)),
            ..MatrixSettings::default()
        };
        let mut ours = map(region, &[]);
        let theirs = map(MatrixSettings::default(), &[(0, 1, 100), (1, 2, 100), (5, 6, 100)]);
        assert_eq!(ours.merge(&theirs), Ok(Merged { new: 1, not_covered: 2, ..Merged::default() }));
    }

    #[test]
    fn maps_of_other_drives_and_other_cells_are_refused_and_change_nothing() {
        let ours = map(MatrixSettings::default(), &[(1, 2, 300)]);
        let of = |drive: MappedDrive, cell: u64| {
            let settings =
                MatrixSettings { cell: ByteSize::new(cell), ..MatrixSettings::default() };
            let mut other = LatencyMatrix::new(MatrixShape::new(drive, &settings).unwrap());
            other.record(0, 0, Nanos::from_ms(9));
            let mut changed = ours.clone();
            let error = changed.merge(&other).unwrap_err();
            assert_eq!(changed, ours);
            error.to_string()
        };
        assert!(
            of(MappedDrive { model: "OTHER".into(), ..drive() }, 131_072)
                .contains("drive model 'OTHER', this drive is 'TEST 10K'")
        );
        assert!(
            of(MappedDrive { capacity: Sectors::new(999), ..drive() }, 131_072)
                .contains("a drive with 999 sectors, this drive has 16384")
        );
        assert!(
            of(MappedDrive { sector: SectorSize::B4096, ..drive() }, 1_048_576)
                .contains("sectors of 4096 bytes, this drive's have 512")
        );
        assert!(
            of(drive(), 65_536).contains("cells of 128 sectors, expected are cells of 256 sectors")
        );
    }

    #[test]
    fn what_is_worse_of_both_directions_holds_for_each() {
        let both = MatrixSettings {
            directions: Directions::Both,
            longest: Nanos::from_ms(14),
            ..MatrixSettings::default()
        };
        let worse = MatrixSettings { directions: Directions::Worse, ..both };
        let (mut two, one) = (map(both, &[(1, 2, 900)]), map(worse, &[(1, 2, 3_000), (5, 5, 400)]));
        assert_eq!(two.merge(&one), Ok(Merged { new: 2, raised: 1, ..Merged::default() }));
        assert_eq!([two.time(1, 2), two.time(2, 1)], [Some(Nanos::from_ms(3)); 2]);
        let (two, mut one) =
            (map(both, &[(1, 2, 900), (2, 1, 5_500)]), map(worse, &[(1, 2, 3_000)]));
        assert_eq!(one.merge(&two), Ok(Merged { raised: 1, kept: 1, ..Merged::default() }));
        assert_eq!(one.time(1, 2), Some(Nanos::from_ms(6)));
    }

    fn observations() -> impl Strategy<Value = Vec<(u32, u32, u64)>> {
        proptest::collection::vec((0_u32..10, 0_u32..10, 0_u64..25_000), 0..60)
    }

    fn bits() -> impl Strategy<Value = EntryBits> {
        prop_oneof![Just(EntryBits::Four), Just(EntryBits::Eight), Just(EntryBits::Sixteen)]
    }

    proptest! {
        #[test]
        fn a_merged_map_says_at_least_what_either_said(
            ours in observations(),
            theirs in observations(),
            ours_bits in bits(),
            theirs_bits in bits(),
            count_samples in any::<bool>(),
            both in any::<bool>(),
        ) {
            let directions = if both { Directions::Both } else { Directions::Worse };
            let settings = |bits| MatrixSettings {
                bits,
                count_samples,
                directions,
                ..MatrixSettings::default()
            };
            let (one, two) = (map(settings(ours_bits), &ours), map(settings(theirs_bits), &theirs));
            let mut merged = one.clone();
            let report = merged.merge(&two).unwrap();
            prop_assert_eq!(report.new + report.raised + report.kept, two.known());
            for (from, to) in (0..10).flat_map(|from| (0..10).map(move |to| (from, to))) {
                let either = one.time(from, to).max(two.time(from, to));
                prop_assert_eq!(merged.time(from, to).is_some(), either.is_some());
                prop_assert!(merged.time(from, to) >= either);
                if ours_bits == theirs_bits
                    && merged.longest_seen() <= merged.shape().scale().reach()
                {
                    prop_assert_eq!(
                        merged.time(from, to),
                        either,
                        "with one scale nothing is rounded twice"
                    );
                }
                if count_samples {
                    prop_assert_eq!(
                        merged.samples(from, to).unwrap_or(0),
                        one.samples(from, to).unwrap_or(0) + two.samples(from, to).unwrap_or(0)
                    );
                }
            }
            let mut the_other_way = two.clone();
            the_other_way.merge(&one).unwrap();
            if ours_bits == theirs_bits {
                for (from, to) in (0..10).flat_map(|from| (0..10).map(move |to| (from, to))) {
                    prop_assert_eq!(the_other_way.time(from, to), merged.time(from, to));
                }
            }
        }
    }
}
