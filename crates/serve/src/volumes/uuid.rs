//! [`DriveUuid`]: the identity of a drive, from its table of volumes.

use std::fmt;

use super::AREA_BYTES;
use super::slot::{self, SLOT_BYTES, SlotContent};

/// The UUID of a drive, created at random with its first table; never changes afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriveUuid(pub [u8; 16]);

impl DriveUuid {
    /// The UUID in the first [`AREA_BYTES`] of a drive, from the newer of two tables; `None`
    /// without a valid table.
    pub(crate) fn of_area(area: &[u8]) -> Option<Self> {
        let table_at = |offset: usize| match slot::decode(area.get(offset..offset + SLOT_BYTES)?) {
            SlotContent::Table { generation, table } => Some((generation, table.uuid())),
            _ => None,
        };
        let newest = [0, AREA_BYTES as usize / 2]
            .into_iter()
            .filter_map(table_at)
            .max_by_key(|(generation, _)| *generation);
        newest.map(|(_, uuid)| uuid)
    }

    /// Checks that `area` holds the first [`AREA_BYTES`] of this drive.
    pub(crate) fn is_of(self, area: &[u8]) -> Result<(), String> {
        match Self::of_area(area) {
            Some(found) if found == self => Ok(()),
            Some(found) => {
                Err(format!("its table of volumes is that of drive {found}; expected {self}"))
            }
            None => Err(format!("it has no valid table of volumes; expected that of drive {self}")),
        }
    }
}

impl fmt::Display for DriveUuid {
    /// Formats the usual 8-4-4-4-12 hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_print_in_groups() {
        assert_eq!(
            DriveUuid(std::array::from_fn(|index| index as u8)).to_string(),
            "00010203-0405-0607-0809-0a0b0c0d0e0f"
        );
    }
}
