//! `headtime map show`: what a map knows, in figures and as a picture.

use std::path::Path;

use anyhow::{Context as _, anyhow};
use headtime_belief::matrix::{Directions, Exceedance, LatencyMatrix};
use headtime_units::Lba;
use serde::Serialize;

use super::file::{self, Map};
use super::{ANY_MEMORY, Show, plot};
use crate::Failure;
use crate::output::{columns, print, print_json};

/// What a map knows.
#[derive(Debug, Serialize)]
pub(super) struct Known {
    file: String,
    kind: &'static str,
    model: String,
    capacity_sectors: u64,
    sector_bytes: u32,
    #[serde(flatten)]
    of: OfKind,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum OfKind {
    Matrix {
        cell_sectors: u64,
        entry_bits: u32,
        step_us: f64,
        both_directions: bool,
        cells_on_drive: u32,
        cells_covered: u32,
        pairs_covered: u64,
        pairs_known: u64,
        observations: u64,
        longest_ms: f64,
        memory_bytes: u64,
        exceedance: Vec<Exceeded>,
    },
    Compact {
        from_profile: bool,
        turn_us: f64,
        /// Regions that differ from the profile, or strips whose angles are known.
        regions: usize,
        angles_known: f64,
        /// The greatest shift of addresses against the profile, in sectors.
        greatest_shift: i64,
    },
}

/// How often pairs took longer than the map said, by the samples that they had had.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Exceeded {
    samples: u8,
    trials: u64,
    exceeded: u64,
    rate: f64,
    /// Bounds of the rate with 95 % confidence (Wilson).
    low: f64,
    high: f64,
}

impl Known {
    pub(super) fn of(map: &Map, file: &Path) -> Self {
        let drive = map.drive();
        let of = match map {
            Map::Matrix(map) => of_matrix(map),
            Map::Compact(map) => OfKind::Compact {
                from_profile: map.is_of_profile(),
                turn_us: map.period().as_ns_f64() / 1e3,
                regions: map.regions(),
                angles_known: map.known_share(),
                greatest_shift: map.shifts().map(|shift| shift.1).max_by_key(|sectors| sectors.unsigned_abs()).unwrap_or(0),
            },
        };
        Self {
            file: file.display().to_string(),
            kind: map.kind(),
            model: drive.model.clone(),
            capacity_sectors: drive.capacity.get(),
            sector_bytes: drive.sector.bytes(),
            of,
        }
    }

    pub(super) fn text(&self) -> String {
        let mut text = format!("{} map of {}, {} sectors of {} bytes\n", self.kind, self.model, self.capacity_sectors, self.sector_bytes);
        match &self.of {
            OfKind::Matrix {
                cell_sectors,
                entry_bits,
                step_us,
                both_directions,
                cells_on_drive,
                cells_covered,
                pairs_covered,
                pairs_known,
                observations,
                longest_ms,
                memory_bytes,
                exceedance,
            } => {
                let directions = if *both_directions { "each direction" } else { "the worse direction" };
                text.push_str(&format!("cells of {cell_sectors} sectors, entries of {entry_bits} bits in steps of {step_us:.0} us, {directions}\n"));
                text.push_str(&format!("{cells_covered} of {cells_on_drive} cells covered, {pairs_known} of {pairs_covered} pairs known from {observations} observations\n"));
                text.push_str(&format!("longest {longest_ms:.3} ms, {} of memory\n", crate::figures::show_bytes(*memory_bytes)));
                text.push_str(&exceedance_text(exceedance));
            }
            OfKind::Compact { from_profile, turn_us, regions, angles_known, greatest_shift } => {
                let begun = if *from_profile { "begun with a profile" } else { "begun with nothing" };
                text.push_str(&format!("{begun}, {turn_us:.3} us a turn, angles known of {:.1} % of the addresses\n", angles_known * 100.0));
                text.push_str(&if *from_profile {
                    format!("{regions} regions lie otherwise than the profile says, by {greatest_shift} sectors at most\n")
                } else {
                    format!("{regions} strips\n")
                });
            }
        }
        text
    }
}

fn of_matrix(map: &LatencyMatrix) -> OfKind {
    let shape = map.shape();
    OfKind::Matrix {
        cell_sectors: shape.cell().get(),
        entry_bits: shape.scale().bits().get(),
        step_us: shape.scale().step().as_us_f64(),
        both_directions: shape.directions() == Directions::Both,
        cells_on_drive: shape.cells_on_drive(),
        cells_covered: map.cells(),
        pairs_covered: map.pairs(),
        pairs_known: map.known(),
        observations: map.observations(),
        longest_ms: map.longest_seen().as_ms_f64(),
        memory_bytes: map.memory().get(),
        exceedance: exceeded(map.exceedance()),
    }
}

/// The lines of a table of exceedances, few: by powers of two of the samples.
pub(super) fn exceeded(table: &Exceedance) -> Vec<Exceeded> {
    let mut lines: Vec<Exceeded> = Vec::new();
    for row in table.rows() {
        // 1, 2 to 3, 4 to 7 …: named by the first.
        let samples = if row.samples == 0 { 0 } else { 1 << row.samples.ilog2() };
        match lines.last_mut().filter(|line| line.samples == samples) {
            Some(line) => (line.trials, line.exceeded) = (line.trials + row.trials, line.exceeded + row.exceeded),
            None => lines.push(Exceeded { samples, trials: row.trials, exceeded: row.exceeded, rate: 0.0, low: 0.0, high: 0.0 }),
        }
    }
    for line in &mut lines {
        line.rate = line.exceeded as f64 / line.trials as f64;
        (line.low, line.high) = wilson(line.exceeded as f64, line.trials as f64);
    }
    lines
}

/// The 95 % interval of a rate after `trials` with `hits`.
fn wilson(hits: f64, trials: f64) -> (f64, f64) {
    const Z: f64 = 1.959_964;
    let rate = hits / trials;
    let middle = rate + Z * Z / (2.0 * trials);
    let half = Z * libm::sqrt(rate * (1.0 - rate) / trials + Z * Z / (4.0 * trials * trials));
    let whole = 1.0 + Z * Z / trials;
    (((middle - half) / whole).max(0.0), ((middle + half) / whole).min(1.0))
}

pub(super) fn exceedance_text(lines: &[Exceeded]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let mut rows = vec![["samples before", "accesses", "longer than the map said", "rate", "95 % interval"].map(str::to_string).to_vec()];
    for Exceeded { samples, trials, exceeded, rate, low, high } in lines {
        let interval = format!("{:.2} to {:.2} %", low * 100.0, high * 100.0);
        rows.push(vec![format!("{samples} and more"), trials.to_string(), exceeded.to_string(), format!("{:.2} %", rate * 100.0), interval]);
    }
    format!("\n{}", columns(&rows, &[false, true, true, true, true]))
}

/// Shows it.
pub(super) fn run(arguments: &Show) -> Result<(), Failure> {
    let map = file::read(&arguments.file, ANY_MEMORY)?;
    if let Some(svg) = &arguments.svg {
        let capacity = map.drive().capacity.get();
        let (first, end) = arguments.region.unwrap_or((0, capacity));
        if end > capacity {
            return Err(Failure::Asked(anyhow!("the region {first}..{end} ends past the drive's {capacity} sectors; keep it within 0..{capacity}")));
        }
        let drawn = plot::draw(&map, Lba::new(first), Lba::new(end))?;
        std::fs::write(svg, drawn).with_context(|| format!("cannot write {}", svg.display()))?;
    }
    let known = Known::of(&map, &arguments.file);
    if arguments.json { print_json(&known) } else { print(&known.text()) }
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
