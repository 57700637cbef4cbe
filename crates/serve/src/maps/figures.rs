//! [`MapFigures`]: the contents of a latency map in numbers.

use headtime_belief::compact::CompactMap;
use headtime_belief::maps::KeptMap;
use headtime_belief::matrix::{Directions, Exceedance, LatencyMatrix, MappedDrive, WhenFull};
use headtime_io::RunningMap;
use serde::{Deserialize, Serialize};

/// The contents of a map in numbers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MapFigures {
    /// `matrix` or `compact`.
    pub kind: String,
    /// The product name of the drive.
    pub model: String,
    /// The size of the drive.
    pub capacity_sectors: u64,
    /// Its logical sector size.
    pub sector_bytes: u32,
    /// The numbers of one kind of map.
    #[serde(flatten)]
    pub of: MapFiguresOfKind,
}

/// The numbers of one kind of map.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum MapFiguresOfKind {
    /// The matrix.
    Matrix(MatrixFigures),
    /// The compact map.
    Compact(CompactFigures),
}

/// The contents of a matrix.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MatrixFigures {
    /// The sectors per cell.
    pub cell_sectors: u64,
    /// The bits per entry.
    pub entry_bits: u32,
    /// The resolution of an entry.
    pub step_us: f64,
    /// The two directions between cells have separate entries.
    pub both_directions: bool,
    /// The number of cells of the drive.
    pub cells_on_drive: u32,
    /// The number of cells in the map.
    pub cells_covered: u32,
    /// The maximum number of cells in the map, by its memory or its region.
    #[serde(default)]
    pub cells_at_most: u32,
    /// The first sector of the region that the map covers, and the sector after the last.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub region_sectors: Option<[u64; 2]>,
    /// Cells that are no longer used give way in a full map; `None` for a file, which does not
    /// contain that.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub evicts: Option<bool>,
    /// The use of the map since the server's start, or since the map was loaded from a file.
    #[serde(default)]
    pub uses: MatrixUses,
    /// The number of pairs of these cells.
    pub pairs_covered: u64,
    /// The number of pairs with a time.
    pub pairs_known: u64,
    /// The number of observed accesses.
    pub observations: u64,
    /// The longest observed time.
    pub longest_ms: f64,
    /// The size in memory.
    pub memory_bytes: u64,
    /// The rates at which pairs exceeded their times; empty if they are not counted.
    pub exceedance: Vec<Exceeded>,
}

/// The use of a matrix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MatrixUses {
    /// Accesses whose pair was known before.
    pub known: u64,
    /// Accesses that made their pair known.
    pub learned: u64,
    /// Accesses whose pair is not covered.
    pub not_covered: u64,
    /// The share of known pairs among the last thousand accesses or so; `None` before the first.
    pub known_recently: Option<f64>,
    /// Cells that were replaced by others.
    pub cells_evicted: u64,
}

/// The contents of a compact map.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompactFigures {
    /// It started from a profile.
    pub from_profile: bool,
    /// The time of a revolution.
    pub turn_us: f64,
    /// The number of regions that differ from the profile, or of segments with known angles.
    pub regions: usize,
    /// The share of addresses with a known angle.
    pub angles_known: f64,
    /// The largest shift of addresses against the profile, in sectors.
    pub greatest_shift: i64,
}

/// The rate at which pairs with a given number of samples exceeded their times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Exceeded {
    /// The lower bound of the number of samples; the next row has twice as many.
    pub samples: u8,
    /// The number of accesses to such pairs.
    pub trials: u64,
    /// The number of accesses that took longer.
    pub exceeded: u64,
    /// Their share.
    pub rate: f64,
    /// The lower bound of the rate with 95 % confidence (Wilson).
    pub low: f64,
    /// The upper bound.
    pub high: f64,
}

impl MapFigures {
    /// The numbers of a stored map.
    #[must_use]
    pub fn of(map: &KeptMap) -> Self {
        match map {
            KeptMap::Matrix(map) => Self::of_matrix(map, None),
            KeptMap::Compact(map) => Self::of_compact(map),
        }
    }

    /// The numbers of the map of a running drive; a matrix is not copied.
    #[must_use]
    pub fn of_running(map: &RunningMap) -> Self {
        match map {
            RunningMap::Matrix(shared) => shared.inspect(Self::of_running_matrix),
            RunningMap::Compact(map) => Self::of_compact(map),
        }
    }

    fn of_running_matrix(map: &LatencyMatrix) -> Self {
        Self::of_matrix(map, Some(map.full() == WhenFull::Evict))
    }

    fn of_matrix(map: &LatencyMatrix, evicts: Option<bool>) -> Self {
        let (shape, uses) = (map.shape(), map.uses());
        let of = MatrixFigures {
            cell_sectors: shape.cell().get(),
            entry_bits: shape.scale().bits().get(),
            step_us: shape.scale().step().as_us_f64(),
            both_directions: shape.directions() == Directions::Both,
            cells_on_drive: shape.cells_on_drive(),
            cells_covered: map.cells(),
            cells_at_most: shape.cells_at_most(),
            region_sectors: shape.region().map(|region| [region.start.get(), region.end().get()]),
            evicts,
            uses: MatrixUses {
                known: uses.known,
                learned: uses.learned,
                not_covered: uses.not_covered,
                known_recently: (uses.accesses() > 0).then_some(uses.known_recently),
                cells_evicted: uses.evicted,
            },
            pairs_covered: map.pairs(),
            pairs_known: map.known(),
            observations: map.observations(),
            longest_ms: map.longest_seen().as_ms_f64(),
            memory_bytes: map.memory().get(),
            exceedance: exceeded(map.exceedance()),
        };
        Self::with("matrix", shape.drive(), MapFiguresOfKind::Matrix(of))
    }

    fn of_compact(map: &CompactMap) -> Self {
        let of = CompactFigures {
            from_profile: map.is_of_profile(),
            turn_us: map.period().as_ns_f64() / 1e3,
            regions: map.regions(),
            angles_known: map.known_share(),
            greatest_shift: map
                .shifts()
                .map(|shift| shift.1)
                .max_by_key(|sectors| sectors.unsigned_abs())
                .unwrap_or(0),
        };
        Self::with("compact", map.drive(), MapFiguresOfKind::Compact(of))
    }

    fn with(kind: &str, drive: &MappedDrive, of: MapFiguresOfKind) -> Self {
        Self {
            kind: kind.to_owned(),
            model: drive.model.clone(),
            capacity_sectors: drive.capacity.get(),
            sector_bytes: drive.sector.bytes(),
            of,
        }
    }
}

/// Groups a table of exceedances by powers of two of the samples.
#[must_use]
pub fn exceeded(table: &Exceedance) -> Vec<Exceeded> {
    let mut lines: Vec<Exceeded> = Vec::new();
    for row in table.rows() {
        // The groups 1, 2 to 3, 4 to 7 … have the name of their first number.
        let samples = if row.samples == 0 { 0 } else { 1 << row.samples.ilog2() };
        match lines.last_mut().filter(|line| line.samples == samples) {
            Some(line) => {
                (line.trials, line.exceeded) =
                    (line.trials + row.trials, line.exceeded + row.exceeded)
            }
            None => lines.push(Exceeded {
                samples,
                trials: row.trials,
                exceeded: row.exceeded,
                rate: 0.0,
                low: 0.0,
                high: 0.0,
            }),
        }
    }
    for line in &mut lines {
        line.rate = line.exceeded as f64 / line.trials as f64;
        (line.low, line.high) = wilson(line.exceeded as f64, line.trials as f64);
    }
    lines
}

/// The 95 % confidence interval of a rate after `trials` with `hits`.
fn wilson(hits: f64, trials: f64) -> (f64, f64) {
    const Z: f64 = 1.959_964;
    let rate = hits / trials;
    let middle = rate + Z * Z / (2.0 * trials);
    let half = Z * (rate * (1.0 - rate) / trials + Z * Z / (4.0 * trials * trials)).sqrt();
    let whole = 1.0 + Z * Z / trials;
    (((middle - half) / whole).max(0.0), ((middle + half) / whole).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_rate_is_the_textbooks() {
        // Wilson's interval for 10 of 100: 5.52 % to 17.44 %.
        let (low, high) = wilson(10.0, 100.0);
        assert!((low - 0.0552).abs() < 1e-4 && (high - 0.1744).abs() < 1e-4, "{low} {high}");
        assert_eq!(wilson(0.0, 1_000_000.0).0, 0.0);
    }
}
