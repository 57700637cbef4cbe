//! The table of keys of a latency map.

use std::time::Duration;

use headtime_belief::matrix::{Directions, EntryBits};

use super::Config;
use super::value::{Key, count, size, time, within};
use crate::maps::MapSaving;

/// Keys of `[map]`: what a latency map is told that the drive is believed by.
pub const MAP_KEYS: &[Key<Config>] = &[
    Key {
        name: "memory",
        takes: "SIZE from 8MiB",
        summary: "what the map may take of memory, with what it learns from",
        default: "64MiB",
        set: |config, value| {
            config.map.memory = within(size(value, "memory")?, "memory", 8 << 20, 1 << 40)?;
            Ok(())
        },
    },
    Key {
        name: "cell",
        takes: "SIZE, whole sectors",
        summary: "of a matrix: how many addresses are one place; see docs/map.md before changing \
            it",
        default: "128KiB",
        set: |config, value| {
            config.map.matrix.cell = size(value, "cell")?;
            Ok(())
        },
    },
    Key {
        name: "bits",
        takes: "4, 8 or 16",
        summary: "of a matrix: how exactly a time is kept",
        default: "4",
        set: |config, value| {
            let bits = count(value, "bits", 4, 16)?;
            config.map.matrix.bits = EntryBits::from_bits(bits)
                .ok_or_else(|| format!("bits = {bits}: expected 4, 8 or 16"))?;
            Ok(())
        },
    },
    Key {
        name: "longest",
        takes: "TIME, at most 1h",
        summary: "of a matrix: the time that the steps of an entry reach",
        default: "20ms",
        set: |config, value| {
            config.map.matrix.longest = time(value, "longest")?;
            Ok(())
        },
    },
    Key {
        name: "directions",
        takes: "worse or both",
        summary: "of a matrix: whether there and back are one entry, the worse, or two",
        default: "worse",
        set: |config, value| {
            config.map.matrix.directions = match value.text()? {
                "worse" => Directions::Worse,
                "both" => Directions::Both,
                other => return Err(format!("directions = {other}: expected worse or both")),
            };
            Ok(())
        },
    },
    Key {
        name: "count_samples",
        takes: "true or false",
        summary: "of a matrix: whether observations are counted, a byte for each pair, to tell how \
            often the worst is exceeded",
        default: "false",
        set: |config, value| {
            config.map.matrix.count_samples = value.truth("count_samples")?;
            Ok(())
        },
    },
    Key {
        name: "from",
        takes: "profile or nothing",
        summary: "of a compact map that begins again: whether it begins with the drive's profile, \
            where there is one, or with its size and speed alone",
        default: "profile",
        set: |config, value| {
            config.map.from_profile = match value.text()? {
                "profile" => true,
                "nothing" => false,
                other => return Err(format!("from = {other}: expected profile or nothing")),
            };
            Ok(())
        },
    },
    Key {
        name: "rpm",
        takes: "N, from the drive's data sheet",
        summary: "of a compact map that begins without a profile: how fast the platter turns, in \
            revolutions per minute",
        default: "none; must be given there",
        set: |config, value| {
            config.map.rpm = Some(f64::from(count(value, "rpm", 1_000, 30_000)?));
            Ok(())
        },
    },
    Key {
        name: "save",
        takes: "TIME, end or never",
        summary: "when the map is saved in its file by itself: every so often and at the end, at \
            the end only, or never",
        default: "10min",
        set: |config, value| {
            config.map_saving = match value.text()? {
                "end" => MapSaving::End,
                "never" => MapSaving::Never,
                _ => {
                    let every = Duration::from_nanos(
                        time(value, "save")
                            .map_err(|message| format!("{message}; or write end or never"))?
                            .as_ns(),
                    );
                    if every < Duration::from_secs(1) {
                        return Err(
                            "save: saving more often than every second leaves no time for anything \
                                else; write a time such as 10min".to_owned()
                        );
                    }
                    MapSaving::Every(every)
                }
            };
            Ok(())
        },
    },
];
