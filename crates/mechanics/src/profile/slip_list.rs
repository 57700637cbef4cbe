//! The file format of slipped sectors: single numbers, and runs of neighbors as `[first, count]`.
//!
//! `slips = [17, [400, 3]]` is the sectors 17, 400, 401 and 402. In memory each sector is listed.

use alloc::vec::Vec;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Maximum length of a run, so that a wrong number cannot exhaust memory.
const MAX_ROW: u64 = 1_000_000;

#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "expected a sector's number, or a row of sectors as [first, count]")]
enum SlipEntry {
    One(u64),
    Row(u64, u64),
}

pub(super) fn serialize<S: Serializer>(slips: &[u64], serializer: S) -> Result<S::Ok, S::Error> {
    let rows = slips.chunk_by(|before, after| before.checked_add(1) == Some(*after));
    serializer.collect_seq(rows.map(|row| {
        if row.len() == 1 {
            SlipEntry::One(row[0])
        } else {
            SlipEntry::Row(row[0], row.len() as u64)
        }
    }))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<u64>, D::Error> {
    let mut slips = Vec::new();
    for entry in Vec::<SlipEntry>::deserialize(deserializer)? {
        match entry {
            SlipEntry::One(sector) => slips.push(sector),
            SlipEntry::Row(first, count)
                if (1..=MAX_ROW).contains(&count) && first.checked_add(count).is_some() =>
            {
                slips.extend(first..first + count)
            }
            SlipEntry::Row(first, count) => {
                return Err(de::Error::custom(format_args!(
                    "a row of {count} slipped sectors from {first}, expected 1 to {MAX_ROW}; \
                        correct the count"
                )));
            }
        }
    }
    Ok(slips)
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec;
    use alloc::vec::Vec;

    use serde::{Deserialize, Serialize};

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct SlipRow {
        #[serde(with = "super")]
        slips: Vec<u64>,
    }

    #[test]
    fn numbers_and_rows_are_read_and_neighbors_written_as_rows() {
        let read: SlipRow =
            toml::from_str("slips = [17, [400, 3], 17]").expect("both forms are read");
        assert_eq!(read.slips, vec![17, 400, 401, 402, 17]);
        let text = toml::to_string(&SlipRow { slips: vec![3, 7, 8, 9, 11, 12] })
            .expect("lists can be written");
        assert_eq!(text.trim(), "slips = [3, [7, 3], [11, 2]]");
        assert_eq!(
            toml::from_str::<SlipRow>(&text).expect("what was written is read"),
            SlipRow { slips: vec![3, 7, 8, 9, 11, 12] }
        );
    }

    #[test]
    fn rows_without_sectors_or_without_end_are_refused() {
        for text in [
            "slips = [[5, 0]]",
            "slips = [[5, 9999999999]]",
            "slips = [[5, 1, 2]]",
            "slips = [-1]",
            "slips = [1.5]",
        ] {
            assert!(
                toml::from_str::<SlipRow>(text).map_err(|error| error.to_string()).is_err(),
                "{text}"
            );
        }
    }
}
