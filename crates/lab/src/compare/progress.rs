//! The progress of a comparison on standard error: a bar on a terminal, otherwise an occasional
//! line.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::papers::Progress;
use headtime_console::progress::{Remaining, bar};
use indicatif::ProgressBar;

use headtime_console::stop::Stop;

/// The progress of a comparison. The bar counts requests, because cells differ in length.
pub(super) struct Waiting {
    bar: Option<ProgressBar>,
    cells: u64,
    finished: AtomicU64,
    stop: Stop,
}

impl Waiting {
    /// Nothing of `cells` is done yet; once `stop` is raised, nothing more will be.
    pub(super) fn new(cells: usize, stop: Stop) -> Self {
        Self {
            bar: bar(0, Remaining::Shown),
            cells: cells as u64,
            finished: AtomicU64::new(0),
            stop,
        }
    }

    /// So many more requests have been run.
    pub(super) fn advance(&self, requests: u64) {
        if let Some(bar) = &self.bar {
            bar.inc(requests);
        }
    }

    /// Something that is to be read, now.
    pub(super) fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| headtime_console::note!("{text}")),
            None => headtime_console::note!("{text}"),
        }
    }

    /// Takes the bar away.
    pub(super) fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Progress for Waiting {
    fn expect(&self, work: u64) {
        if let Some(bar) = &self.bar {
            bar.set_length(work);
            bar.set_prefix(format!("0 of {}", self.cells));
        }
    }

    /// A cell is done; its requests were reported by [`Waiting::advance`].
    fn done(&self, _work: u64, point: &str) {
        if self.stop.is_raised() {
            return;
        }
        let finished = self.finished.fetch_add(1, Ordering::Relaxed) + 1;
        match &self.bar {
            Some(bar) => {
                bar.set_prefix(format!("{finished} of {}", self.cells));
                bar.set_message(point.to_string());
            }
            None if said(finished, self.cells) => {
                headtime_console::note!("{finished} of {} cells: {point}", self.cells)
            }
            None => {}
        }
    }
}

/// Returns true if the `finished`-th of `cells` gets a line; there are about twenty lines.
fn said(finished: u64, cells: u64) -> bool {
    finished * 20 / cells.max(1) != (finished - 1) * 20 / cells.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_no_more_than_twenty_lines_and_the_last_cell_has_one() {
        for cells in [1, 7, 20, 21, 1_000] {
            let lines = (1..=cells).filter(|finished| said(*finished, cells)).count() as u64;
            assert_eq!(lines, cells.min(20), "{cells} cells");
            assert!(said(cells, cells));
        }
    }
}
