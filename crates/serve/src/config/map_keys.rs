//! The keys of a latency map.

use std::time::Duration;

use headtime_belief::matrix::{Directions, EntryBits, WhenFull};

use headtime_config::{Key, Value};

use super::Config;
use crate::maps::{MapSaving, MapSharing};

/// The keys of `[map]`: settings of the latency map that models the drive.
pub const MAP_KEYS: &[Key<Config>] = &[
    Key {
        name: "memory",
        takes: "SIZE from 8MiB",
        summary: "maximum memory of the map, with its samples",
        default: "64MiB",
        set: |config, value| {
            value.size_within(8 << 20, 1 << 40).map(|size| config.map.memory = size)
        },
    },
    Key {
        name: "cell",
        takes: "SIZE, whole sectors",
        summary: "matrix: size of a cell, whose addresses share an entry; see docs/map.md before \
            changing it",
        default: "128KiB",
        set: |config, value| value.size().map(|size| config.map.matrix.cell = size),
    },
    Key {
        name: "bits",
        takes: "4, 8 or 16",
        summary: "matrix: precision of an entry",
        default: "4",
        set: |config, value| {
            config.map.matrix.bits = EntryBits::from_bits(value.count(4..=16)?)
                .ok_or_else(|| value.unexpected("4, 8 or 16", "4"))?;
            Ok(())
        },
    },
    Key {
        name: "longest",
        takes: "TIME, at most 1h",
        summary: "matrix: the longest time that an entry can hold",
        default: "20ms",
        set: |config, value| value.positive_time().map(|time| config.map.matrix.longest = time),
    },
    Key {
        name: "directions",
        takes: "worse or both",
        summary: "matrix: one entry for both directions, the worse of them, or one entry for each",
        default: "worse",
        set: |config, value| {
            let directions = [("worse", Directions::Worse), ("both", Directions::Both)];
            value.one_of(&directions).map(|one| config.map.matrix.directions = one)
        },
    },
    Key {
        name: "count_samples",
        takes: "true or false",
        summary: "matrix: count the samples of each pair of cells, at a byte each, to report how \
            often the worst case is exceeded",
        default: "false",
        set: |config, value| value.boolean().map(|flag| config.map.matrix.count_samples = flag),
    },
    Key {
        name: "region",
        takes: "FROM..TO, FROM.. or FROM+LENGTH in bytes, or none",
        summary: "matrix: the hot region, whose cells are all covered, and no others; without one, \
            the cells that requests use",
        default: "none",
        set: |config, value| value.or_none(Value::parsed).map(|range| config.map.region = range),
    },
    Key {
        name: "full",
        takes: "evict or keep",
        summary: "matrix without a region, when memory is used up: replace cells that are no \
            longer used, or keep the first ones",
        default: "evict",
        set: |config, value| {
            let treatments = [("evict", WhenFull::Evict), ("keep", WhenFull::Keep)];
            value.one_of(&treatments).map(|full| config.map.full = full)
        },
    },
    Key {
        name: "from",
        takes: "profile or nothing",
        summary: "compact: start a new map from the drive's profile, if there is one, or from the \
            drive's size and speed alone",
        default: "profile",
        set: |config, value| {
            let sources = [("profile", true), ("nothing", false)];
            value.one_of(&sources).map(|source| config.map.from_profile = source)
        },
    },
    Key {
        name: "rpm",
        takes: "N, from the drive's data sheet",
        summary: "compact, without a profile: rotation speed in revolutions per minute",
        default: "none; must be given without a profile",
        set: |config, value| {
            value.count(1_000..=30_000).map(|rpm| config.map.rpm = Some(f64::from(rpm)))
        },
    },
    Key {
        name: "save",
        takes: "TIME, end or never",
        summary: "time between saves of the map to its file, with one more at the end; or only at \
            the end; or never",
        default: "10min",
        set: |config, value| {
            config.map_saving = match value.text()? {
                "end" => MapSaving::End,
                "never" => MapSaving::Never,
                _ => {
                    let every = Duration::from_nanos(value.time()?.as_ns());
                    if every < Duration::from_secs(1) {
                        return Err(value.unexpected("at least 1s, end or never", "\"10min\""));
                    }
                    MapSaving::Every(every)
                }
            };
            Ok(())
        },
    },
    Key {
        name: "shared",
        takes: "true or false",
        summary: "matrix with a file: share the file with the servers of other drives of this \
            model; each save merges both maps, for each pair the worse time",
        default: "false",
        set: |config, value| {
            let of = |flag| if flag { MapSharing::Shared } else { MapSharing::Own };
            value.boolean().map(|flag| config.map_sharing = of(flag))
        },
    },
];
