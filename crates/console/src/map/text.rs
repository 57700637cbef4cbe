//! The text for a map's figures.

use std::path::Path;

use headtime_belief::maps::KeptMap as Map;
use headtime_serve::maps::{
    CompactFigures, Exceeded, MapFigures, MapFiguresOfKind, MapFileStatus, MatrixFigures,
    MatrixUses,
};
use serde::Serialize;

use crate::output::columns;

/// The figures of a map in a file.
#[derive(Debug, Serialize)]
pub struct MapInFile {
    file: String,
    #[serde(flatten)]
    /// Its figures.
    pub map: MapFigures,
}

impl MapInFile {
    /// The figures of `map`, which was read from `file`.
    pub fn of(map: &Map, file: &Path) -> Self {
        Self { file: file.display().to_string(), map: MapFigures::of(map) }
    }
}

/// The lines for people.
pub fn figures_text(map: &MapFigures) -> String {
    let mut text = format!(
        "{} map of {}, {} sectors of {} bytes\n",
        map.kind, map.model, map.capacity_sectors, map.sector_bytes
    );
    match &map.of {
        MapFiguresOfKind::Matrix(of) => {
            let directions =
                if of.both_directions { "each direction" } else { "the worse direction" };
            text.push_str(&format!(
                "cells of {} sectors, entries of {} bits in steps of {:.0} us, {directions}\n",
                of.cell_sectors, of.entry_bits, of.step_us
            ));
            text.push_str(&format!(
                "{} of {} cells covered, {} of {} pairs known from {} observations\n",
                of.cells_covered,
                of.cells_on_drive,
                of.pairs_known,
                of.pairs_covered,
                of.observations
            ));
            text.push_str(&coverage_text(of));
            text.push_str(&format!(
                "longest {:.3} ms, {} of memory\n",
                of.longest_ms,
                crate::figures::show_bytes(of.memory_bytes)
            ));
            text.push_str(&exceedance_text(&of.exceedance));
        }
        MapFiguresOfKind::Compact(CompactFigures {
            from_profile,
            turn_us,
            regions,
            angles_known,
            greatest_shift,
        }) => {
            let begun =
                if *from_profile { "started from a profile" } else { "started from nothing" };
            text.push_str(&format!(
                "{begun}, {turn_us:.3} us per revolution, angles known of {:.1} % of the \
                    addresses\n",
                angles_known * 100.0
            ));
            text.push_str(&if *from_profile {
                format!(
                    "{regions} regions deviate from the profile, by \
                    {greatest_shift} sectors at most\n"
                )
            } else {
                format!("{regions} segments\n")
            });
        }
    }
    text
}

/// The covered cells of a matrix, and what accesses found there.
fn coverage_text(of: &MatrixFigures) -> String {
    let mut text = match of.region_sectors {
        Some([start, end]) => format!("covers the region of sectors {start}..{end} only\n"),
        None if of.cells_covered < of.cells_at_most => {
            format!("covers cells as they are used, {} at most\n", of.cells_at_most)
        }
        None => match of.evicts {
            Some(true) => "full: cells that are no longer used give way\n".to_owned(),
            Some(false) => "full: no further cells are covered\n".to_owned(),
            None => "full\n".to_owned(),
        },
    };
    let MatrixUses { known, learned, not_covered, known_recently, cells_evicted } = of.uses;
    if let Some(recently) = known_recently {
        text.push_str(&format!(
            "accesses by pair: {known} known, {learned} learned, {not_covered} not covered; \
                recently {:.1} % known; {cells_evicted} cells evicted\n",
            recently * 100.0
        ));
    }
    text
}

/// The text for the file of a running server's map.
pub fn kept_text(kept: &MapFileStatus) -> String {
    let mut text = String::new();
    match &kept.file {
        None => text.push_str("not saved automatically\n"),
        Some(file) if kept.refused.is_some() => {
            text.push_str(&format!(
                "not saved: {} stays unchanged until it is moved; started from scratch\n",
                file.display()
            ));
        }
        Some(file) => {
            let begun = if kept.restored { "started with it" } else { "started again" };
            text.push_str(&format!("saved in {}, {begun}\n", file.display()));
        }
    }
    if let Some(pairs) = kept.received_pairs {
        text.push_str(&format!("shared with other servers, {pairs} pairs received from them\n"));
    }
    if let Some(ignored) = &kept.ignored {
        text.push_str(&format!("settings without effect on a restored map: {ignored}\n"));
    }
    if let Some(refused) = &kept.refused {
        text.push_str(&format!("refused at the start: {refused}\n"));
    }
    if let Some(ago) = kept.saved_seconds_ago {
        text.push_str(&format!("saved {ago:.0} s ago\n"));
    }
    if let Some(failed) = &kept.save_failed {
        text.push_str(&format!("not saved: {failed}\n"));
    }
    text
}

/// The table of the accesses that took longer than the map's time; empty if `lines` is empty.
pub fn exceedance_text(lines: &[Exceeded]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let mut rows = vec![
        ["samples before", "accesses", "longer than the map", "rate", "95 % interval"]
            .map(str::to_string)
            .to_vec(),
    ];
    for Exceeded { samples, trials, exceeded, rate, low, high } in lines {
        let interval = format!("{:.2} to {:.2} %", low * 100.0, high * 100.0);
        rows.push(vec![
            format!("{samples} and more"),
            trials.to_string(),
            exceeded.to_string(),
            format!("{:.2} %", rate * 100.0),
            interval,
        ]);
    }
    format!("\n{}", columns(&rows, &[false, true, true, true, true]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_refused_is_not_said_to_keep_the_map() {
        let kept = MapFileStatus {
            file: Some("a.map".into()),
            restored: false,
            ignored: None,
            received_pairs: None,
            refused: None,
            saved_seconds_ago: None,
            save_failed: None,
        };
        assert_eq!(kept_text(&kept), "saved in a.map, started again\n");
        let refused = MapFileStatus { refused: Some("it is damaged".into()), ..kept };
        assert_eq!(
            kept_text(&refused),
            "not saved: a.map stays unchanged until it is moved; started from scratch\nrefused \
                at \
                the start: it is damaged\n"
        );
    }
}
