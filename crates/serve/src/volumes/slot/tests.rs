//! Tests of slots: what is written is read, and damage is found.

use super::*;
use crate::volumes::{ClassNames, SettingsChange, VolumeSpec};
use headtime_units::ByteSize;
use proptest::prelude::*;

fn table() -> VolumeTable {
    let shape = DriveShape { sector: SectorSize::B4096, capacity: Sectors::new(1 << 32) };
    let mut table = VolumeTable::empty(DriveUuid([3; 16]), shape);
    let settings = SettingsChange {
        deadline: Some(Some(Nanos::from_ms(100))),
        read_only: Some(true),
        description: Some("four häuser".to_string()),
        ..SettingsChange::default()
    };
    table
        .ensure(&VolumeSpec {
            name: "rec".to_string(),
            size: Some(ByteSize::new(1 << 30)),
            settings,
        })
        .unwrap();
    table
        .ensure(&VolumeSpec {
            name: "x".repeat(64),
            size: Some(ByteSize::new(4096)),
            settings: SettingsChange::default(),
        })
        .unwrap();
    table
}

/// The same table with all additions of version 2.
fn table_with_shares() -> VolumeTable {
    let mut table = table();
    let settings = SettingsChange {
        reserve: Share::from_fraction(0.25),
        limit: Some(Share::from_fraction(0.5)),
        burst: Some(Some(Nanos::from_secs(3))),
        iops_limit: Some(Some(120)),
        bandwidth_limit: Some(Some(50_000_000)),
        priority: Some(IoPriority::new(PriorityClass::RealTime, 2)),
        classes: ClassNames::parse("realtime+bulk"),
        always_served: Some(true),
        ..SettingsChange::default()
    };
    table.change(&VolumeSpec { name: "rec".to_string(), size: None, settings }, false).unwrap();
    let bulk = SettingsChange {
        limit: Some(Share::from_fraction(0.125)),
        deadline: Some(Some(Nanos::from_secs(9))),
        ..SettingsChange::default()
    };
    table.change_class("rec", VolumeClass::Bulk, Some(&bulk)).unwrap();
    table
}

/// The same table with a volume of as many extents as possible, which lie apart.
fn table_with_extents() -> VolumeTable {
    let mut table = table_with_shares();
    let spec = |name: String, size: u64| VolumeSpec {
        name,
        size: Some(ByteSize::new(size)),
        settings: SettingsChange::default(),
    };
    for nth in 1..MAX_EXTENTS {
        table.ensure(&spec(format!("between{nth}"), 1 << 20)).unwrap();
        table.ensure(&spec(format!("free{nth}"), 1 << 20)).unwrap();
    }
    let rest = table.free().longest.get();
    table.ensure(&spec("rest".to_string(), rest)).unwrap();
    (1..MAX_EXTENTS).for_each(|nth| drop(table.remove(&format!("free{nth}")).unwrap()));
    table.change(&spec("rec".to_string(), (1 << 30) + (7 << 20)), false).unwrap();
    assert_eq!(table.find("rec").unwrap().extents.as_slice().len(), MAX_EXTENTS);
    table
}

/// A table of version 3 or 2.
fn table_of(several: bool) -> VolumeTable {
    if several { table_with_extents() } else { table_with_shares() }
}

fn padded(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(SLOT_BYTES, 0);
    bytes
}

#[test]
fn a_table_comes_back_as_it_went() {
    let bytes = encode(&table(), 42);
    assert_eq!(bytes.len(), 4096);
    assert_eq!(decode(&padded(bytes)), SlotContent::Table { generation: 42, table: table() });
    let bytes = encode(&table_with_shares(), 43);
    assert_eq!(
        decode(&padded(bytes)),
        SlotContent::Table { generation: 43, table: table_with_shares() }
    );
    let bytes = encode(&table_with_extents(), 44);
    assert_eq!(
        decode(&padded(bytes)),
        SlotContent::Table { generation: 44, table: table_with_extents() }
    );
}

#[test]
fn version_3_is_written_only_while_a_volume_has_several_extents() {
    let mut table = table_with_extents();
    let bytes = encode(&table, 42);
    assert_eq!(bytes[8], 3);
    // The entries of rec: the volume, its other seven extents, and two classes.
    assert_eq!([0, 1, 2, 3].map(|entry| bytes[256 + entry * 256 + 35]), [0, 3, 1, 2]);
    assert_eq!((bytes[512 + 32], u32_at(&bytes, 512)), (7, u32_at(&bytes, 256)));
    // This checksum covers every byte of version 3.
    assert_eq!(u32_at(&bytes, CRC_AT), 0x63aa_aa1e, "{:#010x}", u32_at(&bytes, CRC_AT));
    let spec = VolumeSpec {
        name: "rec".to_string(),
        size: Some(ByteSize::new(1 << 30)),
        settings: SettingsChange::default(),
    };
    table.change(&spec, true).unwrap();
    assert_eq!(encode(&table, 42)[8], 2);
}

#[test]
fn version_4_is_written_only_while_a_volume_has_a_weight() {
    let weigh = |mut table: VolumeTable, weight| {
        let change = SettingsChange { weight: Some(weight), ..SettingsChange::default() };
        table.change_class("rec", VolumeClass::Bulk, Some(&change)).unwrap();
        table
    };
    for several in [false, true] {
        let table = weigh(table_of(several), Some(259));
        let mut bytes = encode(&table, 42);
        assert_eq!(bytes[8], 4);
        let decoded = SlotContent::Table { generation: 42, table: table.clone() };
        assert_eq!(decode(&padded(bytes.clone())), decoded);
        assert_eq!(encode(&weigh(table, None), 42), encode(&table_of(several), 42));
        // The entry of the class: the third, or the fourth after that of the extents.
        let bulk = 256 + 256 * (2 + usize::from(several));
        assert_eq!((bytes[bulk + 35], u16_at(&bytes, bulk + 6)), (2, 259));
        // Earlier versions have no weights.
        bytes[8] = 3;
        let length = u32_at(&bytes, 12) as usize;
        let crc = checksum(&bytes[..length]);
        put(&mut bytes, CRC_AT, &crc.to_le_bytes());
        assert_eq!(
            decode(&padded(bytes)),
            SlotContent::Damaged(SlotError::Field("weight before version 4"))
        );
    }
}

#[test]
fn extents_that_cannot_be_are_refused() {
    let decoded = |change: fn(&mut Vec<u8>)| {
        let mut bytes = encode(&table_with_extents(), 42);
        change(&mut bytes);
        let length = u32_at(&bytes, 12) as usize;
        let crc = checksum(&bytes[..length]);
        put(&mut bytes, CRC_AT, &crc.to_le_bytes());
        decode(&padded(bytes))
    };
    let field = |field| SlotContent::Damaged(SlotError::Field(field));
    assert_eq!(decoded(|bytes| bytes[512 + 32] = 0), field("number of extents"));
    assert_eq!(decoded(|bytes| bytes[512 + 32] = 8), field("number of extents"));
    assert_eq!(decoded(|bytes| bytes[512] = 9), field("extents of another volume"));
    // The entry of extents twice.
    let twice = decoded(|bytes| bytes.copy_within(512..768, 768));
    assert_eq!(twice, field("extents of another volume"));
    // Version 2 has no such entries.
    assert_eq!(decoded(|bytes| bytes[8] = 2), field("class"));
    // The second extent of rec is where another volume lies.
    let overlap = decoded(|bytes| bytes.copy_within(512 + 64..512 + 72, 512 + 48));
    assert!(matches!(overlap, SlotContent::Damaged(SlotError::Table(TableError::Overlap { .. }))));
}

#[test]
fn a_table_that_version_1_wrote_is_read() {
    let mut bytes = encode(&table(), 42);
    bytes[8] = 1;
    let crc = checksum(&bytes[..768]);
    put(&mut bytes, CRC_AT, &crc.to_le_bytes());
    // The checksum of the bytes that version 1 wrote for this table.
    assert_eq!(crc, 0xa74f_66fc, "{crc:#010x}");
    assert_eq!(
        decode(&padded(bytes.clone())),
        SlotContent::Table { generation: 42, table: table() }
    );
    bytes[256 + 4] |= ALWAYS_SERVED as u8;
    let crc = checksum(&bytes[..768]);
    put(&mut bytes, CRC_AT, &crc.to_le_bytes());
    assert_eq!(decode(&padded(bytes)), SlotContent::Damaged(SlotError::Field("volume flags")));
}

#[test]
fn the_bytes_of_the_format_are_fixed() {
    let bytes = encode(&table_with_shares(), 42);
    assert_eq!(&bytes[..12], b"HEADTIME\x02\0\0\0");
    assert_eq!(u32_at(&bytes, 12), 1280);
    assert_eq!(&bytes[256 + 48..256 + 51], b"rec");
    // A change of the format has to change the version: this checksum covers every byte of
    // version 2.
    assert_eq!(u32_at(&bytes, CRC_AT), 0x5e0f_afaf, "{:#010x}", u32_at(&bytes, CRC_AT));
}

/// A volume without a priority has a zero there, as in version 1.
#[test]
fn priorities_come_back_and_codes_that_are_none_are_refused() {
    for code in 0..=24 {
        assert_eq!(priority_of(code).map(|priority| priority.map_or(0, priority_code)), Some(code));
    }
    assert_eq!(priority_of(0), Some(None));
    assert_eq!(priority_of(24), Some(IoPriority::new(PriorityClass::Idle, 7)));
    assert!((25..=u8::MAX).all(|code| priority_of(code).is_none()));
    let mut table = table();
    let priority = IoPriority::new(PriorityClass::RealTime, 2);
    let settings = SettingsChange { priority: Some(priority), ..SettingsChange::default() };
    table
        .ensure(&VolumeSpec {
            name: "now".to_string(),
            size: Some(ByteSize::new(1 << 20)),
            settings,
        })
        .unwrap();
    let SlotContent::Table { table, .. } = decode(&padded(encode(&table, 1))) else {
        panic!("it was encoded")
    };
    assert_eq!(table.find("now").unwrap().settings.ordinary.priority, priority);
}

#[test]
fn the_largest_table_fits_a_slot_exactly() {
    assert_eq!(MAX_ENTRIES, 1023);
    assert_eq!(HEADER_BYTES + MAX_ENTRIES * ENTRY_BYTES, SLOT_BYTES);
}

#[test]
fn blank_foreign_and_newer_slots_are_distinguished() {
    assert_eq!(decode(&padded(vec![])), SlotContent::Blank);
    assert_eq!(decode(&padded(b"\xeb\x3c\x90mkfs".to_vec())), SlotContent::Foreign);
    let mut newer = encode(&table(), 1);
    newer[8] = 5;
    assert!(matches!(
        decode(&padded(newer.clone())),
        SlotContent::Damaged(SlotError::Checksum { .. })
    ));
    let crc = checksum(&newer[..768]);
    put(&mut newer, CRC_AT, &crc.to_le_bytes());
    assert_eq!(decode(&padded(newer)), SlotContent::Unsupported { version: 5 });
}

proptest! {
    #[test]
    fn one_changed_bit_never_passes_for_another_table(
        at in 0_usize..1280,
        bit in 0_u8..8,
        several in any::<bool>(),
    ) {
        let mut bytes = padded(encode(&table_of(several), 42));
        bytes[at] ^= 1 << bit;
        let passes = matches!(decode(&bytes), SlotContent::Table { .. } | SlotContent::Blank);
        prop_assert!(!passes);
    }

    #[test]
    fn no_bytes_make_the_decoder_panic(
        changes in proptest::collection::vec((0_usize..1280, any::<u8>()), 0..20),
        cut in 0_usize..=8192,
        reseal in any::<bool>(),
        several in any::<bool>(),
    ) {
        let mut bytes = encode(&table_of(several), 42);
        for (at, value) in changes {
            bytes[at] = value;
        }
        if reseal {
            let length = (u32_at(&bytes, 12) as usize).clamp(CRC_AT + 4, bytes.len());
            let crc = checksum(&bytes[..length]);
            put(&mut bytes, CRC_AT, &crc.to_le_bytes());
        }
        bytes.truncate(cut);
        let _ = decode(&bytes);
        let _ = decode(&padded(bytes));
    }
}
