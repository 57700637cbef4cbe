//! Tables that survive torn writes, damage and foreign content.

use super::*;
use crate::volumes::{SettingsChange, VolumeOrigin, VolumeSpec};
use headtime_units::{ByteSize, Extent, Nanos, SectorSize};
use proptest::prelude::*;

const SHAPE: DriveShape =
    DriveShape { sector: SectorSize::B512, capacity: Sectors::new(64 * 2048) };
const UUID: DriveUuid = DriveUuid([9; 16]);

/// A drive that can lose power: its first MiB, and after it its last.
#[derive(Clone)]
struct Platter(Vec<u8>);

impl Platter {
    fn new() -> Self {
        Self(vec![0; 2 * AREA_BYTES as usize])
    }

    fn open(&self, initialize: bool) -> Result<OpenedMetadata, MetadataError> {
        self.open_as(SHAPE, initialize)
    }

    fn open_as(
        &self,
        shape: DriveShape,
        initialize: bool,
    ) -> Result<OpenedMetadata, MetadataError> {
        let (first, last) = self.0.split_at(AREA_BYTES as usize);
        let [first, last] =
            [first, last].map(|part| Area { bytes: part.to_vec(), unreadable: Vec::new() });
        Metadata::open(&first, &last, shape, initialize, UUID)
    }

    fn carry_out(&mut self, steps: &[MetadataStep]) {
        self.carry_out_until(steps, usize::MAX, |_| true);
    }

    /// Carries out `steps` up to sector number `sectors`. For the interrupted write, `lands`
    /// selects the later sectors that were written all the same. Returns whether everything was
    /// carried out.
    fn carry_out_until(
        &mut self,
        steps: &[MetadataStep],
        mut sectors: usize,
        mut lands: impl FnMut(usize) -> bool,
    ) -> bool {
        for step in steps {
            let (offset, bytes) = match step {
                MetadataStep::Write { offset, bytes } => (*offset, bytes),
                MetadataStep::WriteCopy { offset, bytes } => {
                    assert_eq!(*offset, SHAPE.sector.bytes_of(SHAPE.capacity) - AREA_BYTES);
                    (AREA_BYTES, bytes)
                }
                MetadataStep::Flush => continue,
            };
            let torn = bytes.len() / 512 > sectors;
            for (index, sector) in bytes.chunks(512).enumerate() {
                if index < sectors || lands(index) {
                    self.0[offset as usize + index * 512..][..512].copy_from_slice(sector);
                }
            }
            if torn {
                return false;
            }
            sectors -= bytes.len() / 512;
        }
        true
    }
}

fn spec(name: &str, mebibytes: u64, deadline_ms: u64) -> VolumeSpec {
    let deadline = (deadline_ms > 0).then(|| Nanos::from_ms(deadline_ms));
    VolumeSpec {
        name: name.to_string(),
        size: Some(ByteSize::new(mebibytes << 20)),
        settings: SettingsChange { deadline: Some(deadline), ..SettingsChange::default() },
    }
}

fn with_volume(metadata: &Metadata, name: &str) -> (Metadata, Vec<MetadataStep>) {
    let mut table = metadata.table().clone();
    table.ensure(&spec(name, 3, 0)).unwrap();
    metadata.plan(table)
}

fn drive_with_volume() -> (Platter, Metadata) {
    let mut platter = Platter::new();
    let opened = platter.open(false).unwrap();
    assert_eq!(opened.opening, TableState::Fresh);
    platter.carry_out(&opened.steps);
    let (metadata, steps) = with_volume(&opened.metadata, "rec");
    platter.carry_out(&steps);
    (platter, metadata)
}

#[test]
fn a_fresh_drive_gets_a_table_that_is_whole_when_opened_again() {
    let (platter, metadata) = drive_with_volume();
    let again = platter.open(false).unwrap();
    assert_eq!(
        again,
        OpenedMetadata { metadata, steps: vec![MetadataStep::Flush], opening: TableState::Whole }
    );
    assert_eq!(again.metadata.table().uuid(), UUID);
}

#[test]
fn every_write_is_followed_by_a_flush_and_the_slot_that_counts_is_never_written_first() {
    let (_, metadata) = drive_with_volume();
    let (_, steps) = with_volume(&metadata, "more");
    let [
        MetadataStep::Write { offset: first, .. },
        MetadataStep::Flush,
        MetadataStep::Write { offset: second, .. },
        MetadataStep::Flush,
        MetadataStep::WriteCopy { .. },
        MetadataStep::Flush,
    ] = &steps[..]
    else {
        panic!("{steps:?}")
    };
    assert_eq!(
        (*first, *second),
        (slot_offset(1 - metadata.current), slot_offset(metadata.current))
    );
}

#[test]
fn other_content_is_refused_until_initialize_allows_it() {
    let mut platter = Platter::new();
    platter.0[700_000] = 1;
    assert_eq!(platter.open(false), Err(MetadataError::Foreign { at: "first" }));
    let opened = platter.open(true).unwrap();
    assert_eq!(opened.opening, TableState::Initialized);
    platter.carry_out(&opened.steps);
    assert_eq!(platter.open(false).unwrap().opening, TableState::Whole);
}

#[test]
fn initialize_leaves_a_valid_table_alone() {
    let (platter, metadata) = drive_with_volume();
    assert_eq!(platter.open(true).unwrap().metadata, metadata);
}

#[test]
fn one_rotten_slot_is_repaired_two_are_restored_from_the_copy_and_three_are_refused() {
    let (whole, metadata) = drive_with_volume();
    for index in 0..2 {
        let mut platter = Platter(whole.0.clone());
        platter.0[slot_offset(index) as usize + 300] ^= 4;
        let opened = platter.open(false).unwrap();
        assert_eq!(opened.metadata.table(), metadata.table());
        assert!(
            matches!(&opened.opening, TableState::Repaired(text) if text.contains("checksum")),
            "{:?}",
            opened.opening
        );
        platter.carry_out(&opened.steps);
        assert_eq!(platter.open(false).unwrap().opening, TableState::Whole);
    }
    let mut platter = whole;
    platter.0[300] ^= 4;
    platter.0[slot_offset(1) as usize + 300] ^= 4;
    assert!(matches!(platter.open(false).unwrap().opening, TableState::Restored(_)));
    platter.0[AREA_BYTES as usize + 300] ^= 4;
    let text = platter.open(false).unwrap_err().to_string();
    assert!(text.starts_with("all copies") && text.contains("initialize"), "{text}");
    assert_eq!(platter.open(true).unwrap().metadata.table().volumes(), []);
}

#[test]
fn a_drive_of_another_shape_is_refused_and_a_grown_one_accepted() {
    let (platter, _) = drive_with_volume();
    let open = |shape| platter.open_as(shape, false);
    let sectors = |capacity| DriveShape { capacity: Sectors::new(capacity), ..SHAPE };
    assert!(matches!(open(sectors(63 * 2048)), Err(MetadataError::Shrunk { .. })));
    assert!(matches!(open(sectors(6143)), Err(MetadataError::TooSmall { bytes: 3_145_216 })));
    assert!(matches!(
        open(DriveShape { sector: SectorSize::B4096, ..SHAPE }),
        Err(MetadataError::SectorSize { .. })
    ));
    let grown = open(sectors(65 * 2048)).unwrap();
    assert_eq!(grown.metadata.table().free().total, ByteSize::new(60 << 20));
}

#[test]
fn a_zeroed_first_mib_is_restored_from_the_copy_and_foreign_content_is_not_overwritten() {
    let (mut platter, metadata) = drive_with_volume();
    platter.0[..AREA_BYTES as usize].fill(0);
    let mut foreign = platter.clone();
    let opened = platter.open(false).unwrap();
    assert!(matches!(opened.opening, TableState::Restored(_)), "{:?}", opened.opening);
    assert_eq!(opened.metadata.table(), metadata.table());
    platter.carry_out(&opened.steps);
    assert_eq!(platter.open(false).unwrap().opening, TableState::Whole);

    foreign.0[1_080] = 0x53;
    assert_eq!(foreign.open(false), Err(MetadataError::ForeignWithCopy { volumes: 1 }));
    let opened = foreign.open(true).unwrap();
    assert_eq!(
        (opened.opening, opened.metadata.table().volumes()),
        (TableState::Initialized, &[][..])
    );
}

#[test]
fn content_at_the_end_alone_is_foreign_too() {
    let mut platter = Platter::new();
    platter.0[2 * AREA_BYTES as usize - 512] = 1;
    assert_eq!(platter.open(false), Err(MetadataError::Foreign { at: "last" }));
    assert_eq!(platter.open(true).unwrap().opening, TableState::Initialized);
}

#[test]
fn a_lost_copy_is_written_again() {
    let (mut platter, metadata) = drive_with_volume();
    platter.0[AREA_BYTES as usize..].fill(0);
    let opened = platter.open(false).unwrap();
    assert_eq!((&opened.metadata, &opened.opening), (&metadata, &TableState::Whole));
    platter.carry_out(&opened.steps);
    platter.0[..AREA_BYTES as usize].fill(0);
    assert_eq!(platter.open(false).unwrap().metadata.table(), metadata.table());
}

#[test]
fn a_volume_of_an_older_table_at_the_end_of_the_drive_keeps_its_sectors() {
    let extent = Extent::from_numbers(2048, 63 * 2048);
    let settings = crate::volumes::VolumeSettings::default();
    let id = headtime_sched::VolumeId(1);
    let extents = crate::volumes::Extents::from(extent);
    let volume = crate::volumes::Volume { id, name: "all".to_string(), extents, settings };
    let table = VolumeTable::from_parts(VolumeOrigin::Own, UUID, SHAPE, 2, vec![volume]).unwrap();
    let (_, steps) = Metadata { table, generation: 5, current: 0 }.repair();
    let mut platter = Platter::new();
    platter.carry_out(&steps);
    platter.0[AREA_BYTES as usize..].fill(7);
    let opened = platter.open(false).unwrap();
    platter.carry_out(&opened.steps);
    assert!(platter.0[AREA_BYTES as usize..].iter().all(|byte| *byte == 7));
    let table = opened.metadata.table();
    assert_eq!((table.volumes()[0].extents.last(), table.free().total), (extent, ByteSize::new(0)));
}

/// A random change of the table.
#[derive(Clone, Debug)]
enum Change {
    Ensure { name: u8, mebibytes: u64, deadline_ms: u64 },
    Resize { name: u8, mebibytes: u64, cut_data: bool },
    Remove { name: u8 },
}

impl Change {
    /// The changed table; an invalid change leaves it unchanged.
    fn apply(&self, table: &VolumeTable) -> VolumeTable {
        let mut table = table.clone();
        let _refused = match self {
            Self::Ensure { name, mebibytes, deadline_ms } => {
                table.ensure(&spec(&format!("v{name}"), *mebibytes, *deadline_ms)).is_err()
            }
            Self::Resize { name, mebibytes, cut_data } => {
                table.change(&spec(&format!("v{name}"), *mebibytes, 0), *cut_data).is_err()
            }
            Self::Remove { name } => table.remove(&format!("v{name}")).is_err(),
        };
        table
    }
}

/// A change, and the number of sectors before the power failure, if there is one. `lands`
/// selects sectors of the torn write that were written out of order.
#[derive(Clone, Debug)]
struct Round {
    change: Change,
    crash_after: Option<usize>,
    lands: u64,
}

fn rounds() -> impl Strategy<Value = Vec<Round>> {
    let change = prop_oneof![
        3 => (0_u8..8, 1_u64..20, 0_u64..3).prop_map(|(name, mebibytes, deadline_ms)| {
            Change::Ensure { name, mebibytes, deadline_ms }
        }),
        2 => (0_u8..8, 1_u64..40, any::<bool>()).prop_map(|(name, mebibytes, cut_data)| {
            Change::Resize { name, mebibytes, cut_data }
        }),
        1 => (0_u8..8).prop_map(|name| Change::Remove { name }),
    ];
    let round = (change, proptest::option::of(0_usize..24), prop_oneof![Just(0), any::<u64>()]);
    proptest::collection::vec(
        round.prop_map(|(change, crash_after, lands)| Round { change, crash_after, lands }),
        1..30,
    )
}

proptest! {
    #[test]
    fn a_crash_between_any_two_sector_writes_leaves_the_table_before_or_after(
        rounds in rounds(),
        first_crash in 0_usize..3,
    ) {
        let mut platter = Platter::new();
        let opened = platter.open(false).unwrap();
        platter.carry_out_until(&opened.steps, first_crash, |_| false);
        let mut metadata = reopen(&mut platter, Some(opened.metadata.table()), None)?;
        for Round { change, crash_after, lands } in rounds {
            let before = metadata.table().clone();
            let after = change.apply(&before);
            let (planned, steps) = metadata.plan(after.clone());
            let sectors = crash_after.unwrap_or(usize::MAX);
            let lands = |index: usize| lands >> (index % 64) & 1 == 1;
            let done = platter.carry_out_until(&steps, sectors, lands);
            metadata = reopen(&mut platter, (!done).then_some(&before), Some(&after))?;
            prop_assert!(!done || metadata == planned);
        }
    }
}

/// Opens and repairs the drive. It must find one of the tables, and never an older one after a
/// repair.
fn reopen(
    platter: &mut Platter,
    before: Option<&VolumeTable>,
    after: Option<&VolumeTable>,
) -> Result<Metadata, TestCaseError> {
    let opened = platter.open(false).map_err(|error| TestCaseError::fail(error.to_string()))?;
    let table = opened.metadata.table();
    prop_assert!(before.into_iter().chain(after).any(|expected| expected == table), "{table:?}");
    table.check().map_err(|error| TestCaseError::fail(error.to_string()))?;
    platter.carry_out(&opened.steps);
    let again = platter.open(false).map_err(|error| TestCaseError::fail(error.to_string()))?;
    prop_assert_eq!(&again.opening, &TableState::Whole);
    prop_assert_eq!(again.metadata.table(), opened.metadata.table());
    Ok(opened.metadata)
}
