//! Profiles and imported descriptions: an accepted one makes a drive that has a location for each
//! LBA.

use headtime_mechanics::import::{ImportOptions, SourceText, import};
use headtime_mechanics::{DriveProfile, Layout};
use headtime_units::Lba;

use crate::Memory;

/// A profile lists zones, runs and slips; tables of cylinders are computed from it.
pub(super) const MEMORY: Memory = Memory { base: 64 << 20, per_byte: 20_000 };

pub(super) fn toml(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    match DriveProfile::from_toml("fuzzed.toml", text) {
        Ok(profile) => look_around(&profile),
        Err(error) => assert!(!error.to_string().is_empty(), "a refusal says why"),
    }
}

pub(super) fn disksim(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let files = [SourceText { name: "fuzzed.parv".to_owned(), text: text.to_owned() }];
    let mut none = |_: &str, name: &str| Err(format!("{name} is not there"));
    match import(&files, &ImportOptions::default(), &mut none) {
        Ok(imported) => look_around(&imported.profile),
        Err(error) => assert!(!error.to_string().is_empty(), "a refusal says why"),
    }
}

/// Checks the locations of the first, the last and some other sectors.
fn look_around(profile: &DriveProfile) {
    let Ok(layout) = Layout::new(profile) else { return };
    let capacity = layout.capacity().get();
    for part in 0..=16 {
        let lba = Lba::new((u128::from(capacity - 1) * part / 16) as u64);
        let place = layout.lba_to_physical(lba);
        assert_eq!(layout.physical_to_lba(place), Some(lba), "the place of {lba} is its own");
    }
}
