//! `headtime map show`: what a map knows, in figures and as a picture.

use std::path::Path;

use anyhow::{Context as _, anyhow};
use headtime_belief::maps::KeptMap as Map;
use headtime_serve::maps::{CompactFigures, Exceeded, MapFigures, MapFiguresOfKind, MapFileStatus};
use headtime_units::Lba;
use serde::Serialize;

use super::{ANY_MEMORY, Show, file, plot};
use crate::Failure;
use crate::commands::control::ask;
use crate::output::{columns, print, print_json};

/// What a map in a file knows.
#[derive(Debug, Serialize)]
pub(super) struct Known {
    file: String,
    #[serde(flatten)]
    pub(super) map: MapFigures,
}

impl Known {
    pub(super) fn of(map: &Map, file: &Path) -> Self {
        Self { file: file.display().to_string(), map: MapFigures::of(map) }
    }
}

/// The lines for people.
pub(crate) fn text(map: &MapFigures) -> String {
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
            let begun = if *from_profile { "begun with a profile" } else { "begun with nothing" };
            text.push_str(&format!(
                "{begun}, {turn_us:.3} us a turn, angles known of {:.1} % of the addresses\n",
                angles_known * 100.0
            ));
            text.push_str(&if *from_profile {
                format!(
                    "{regions} regions lie otherwise than the profile says, by \
                    {greatest_shift} sectors at most\n"
                )
            } else {
                format!("{regions} strips\n")
            });
        }
    }
    text
}

/// How the map of a running server is kept.
pub(crate) fn kept_text(kept: &MapFileStatus) -> String {
    let mut text = String::new();
    match &kept.file {
        None => text.push_str("kept nowhere by itself\n"),
        Some(file) if kept.refused.is_some() => {
            text.push_str(&format!(
                "not kept in {}, which is left alone until it is moved away; begun again\n",
                file.display()
            ));
        }
        Some(file) => {
            let begun = if kept.restored { "begun with it" } else { "begun again" };
            text.push_str(&format!("kept in {}, {begun}\n", file.display()));
        }
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

pub(super) fn exceedance_text(lines: &[Exceeded]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let mut rows = vec![
        ["samples before", "accesses", "longer than the map said", "rate", "95 % interval"]
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

/// Shows it.
pub(super) fn run(arguments: &Show) -> Result<(), Failure> {
    let Some(file) = &arguments.file else {
        let mut client = arguments.server.connect("")?;
        let map: MapFigures = ask(&mut client, "map.show", &serde_json::json!({}))?;
        return if arguments.json { print_json(&map) } else { print(&text(&map)) };
    };
    let map = file::read(file, ANY_MEMORY)?;
    if let Some(svg) = &arguments.svg {
        let capacity = map.drive().capacity.get();
        let (first, end) = arguments.region.unwrap_or_else(|| plot::known_region(&map));
        if end > capacity {
            return Err(Failure::Asked(anyhow!(
                "the region {first}..{end} ends past the drive's {capacity} sectors; keep it \
                    within 0..{capacity}"
            )));
        }
        let drawn = plot::draw(&map, Lba::new(first), Lba::new(end)).map_err(Failure::Asked)?;
        std::fs::write(svg, drawn).with_context(|| format!("cannot write {}", svg.display()))?;
    }
    let known = Known::of(&map, file);
    if arguments.json { print_json(&known) } else { print(&text(&known.map)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_refused_is_not_said_to_keep_the_map() {
        let kept = MapFileStatus {
            file: Some("a.map".into()),
            restored: false,
            refused: None,
            saved_seconds_ago: None,
            save_failed: None,
        };
        assert_eq!(kept_text(&kept), "kept in a.map, begun again\n");
        let refused = MapFileStatus { refused: Some("it is damaged".into()), ..kept };
        assert_eq!(
            kept_text(&refused),
            "not kept in a.map, which is left alone until it is moved away; begun again\nrefused at \
                the start: it is damaged\n"
        );
    }
}
