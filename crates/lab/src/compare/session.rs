//! [`run`]: computes what is missing of a plan, side by side, and answers what came out of every
//! cell.

use std::cell::Cell as Counter;
use std::time::Instant;

use crate::papers::{Cause, Context, PointOfWork};

use super::cell::{Cell, Decisive};
use super::outcome::CellOutcome;
use super::plan::Plan;
use super::progress::Waiting;
use super::references::{CellResult, cells_at_equal_load};
use super::store::{Found, Store};
use headtime_console::Failure;
use headtime_console::stop::Stop;

/// The end of a session that did not fail.
pub enum CompareSession {
    /// Every cell was run: those of [`Cell::all`] in their order, then those at equal load.
    Finished(Vec<(Cell, CellResult)>),
    /// The session was stopped; this many of all cells are stored.
    Stopped {
        /// Cells that need not be computed again.
        kept: usize,
        /// All cells.
        of: usize,
    },
}

/// Computes what is missing of `plan` in `store` with so many threads, each of which holds one run
/// at a time. A cell that cannot be run is an outcome and no failure: the others are worth having.
///
/// # Errors
/// When a cell cannot be written.
pub fn run(
    plan: &Plan,
    store: &Store,
    threads: usize,
    stop: &Stop,
) -> Result<CompareSession, Failure> {
    let cells = Cell::all(plan);
    let mut results = match compute(plan, store, threads, stop, cells, "cells")? {
        Computed::All(results) => results,
        Computed::Stopped { kept, of } => {
            let of = of + Cell::count_at_equal_load(plan);
            return Ok(CompareSession::Stopped { kept, of });
        }
    };
    let second = cells_at_equal_load(plan, &results);
    match compute(plan, store, threads, stop, second, "cells at equal load")? {
        Computed::All(second) => results.extend(second),
        Computed::Stopped { kept, of } => {
            let first = results.len();
            return Ok(CompareSession::Stopped { kept: kept + first, of: of + first });
        }
    }
    Ok(CompareSession::Finished(results))
}

/// The results of some cells.
enum Computed {
    /// All results, in their order.
    All(Vec<(Cell, CellResult)>),
    /// A part, which is stored.
    Stopped { kept: usize, of: usize },
}

/// Computes those of `cells` that `store` does not have; `what` they are in messages.
fn compute(
    plan: &Plan,
    store: &Store,
    threads: usize,
    stop: &Stop,
    cells: Vec<Cell>,
    what: &str,
) -> Result<Computed, Failure> {
    let (mut outcomes, missing) = stored(plan, store, &cells, what);
    let reused = cells.len() - missing.len();
    let waiting = Waiting::new(missing.len(), stop.clone());
    let tasks: Vec<Task<'_>> = missing
        .iter()
        .map(|(place, decisive)| Task {
            cell: &cells[*place],
            decisive,
            plan,
            store,
            stop,
            waiting: &waiting,
        })
        .collect();
    let ran = Context::new(plan.spec.seed.value, 1.0, threads, &waiting).run(&tasks);
    waiting.end();
    // A task puts what goes wrong into its outcome; none answers an error.
    let ran = ran.map_err(|error| Failure::Failed(error.into()))?;
    let (mut stopped, mut computed) = (false, 0);
    for ((place, _), done) in missing.iter().zip(ran) {
        match done {
            Done::Computed(outcome) => {
                computed += 1;
                outcomes[*place] = Some(Ok(*outcome));
            }
            Done::Failed(reason) => outcomes[*place] = Some(Err(reason)),
            Done::NotWritten(error) => return Err(Failure::Failed(error)),
            Done::Stopped => stopped = true,
        }
    }
    if stopped {
        return Ok(Computed::Stopped { kept: reused + computed, of: cells.len() });
    }
    let outcomes =
        outcomes.into_iter().map(|outcome| outcome.expect("every cell was there or was run"));
    let outcomes: Vec<CellResult> = outcomes.collect();
    Ok(Computed::All(cells.into_iter().zip(outcomes).collect()))
}

/// The results that `store` has, by the place of their cells, and the places of the others. `what`
/// they are in messages.
pub(super) fn stored(
    plan: &Plan,
    store: &Store,
    cells: &[Cell],
    what: &str,
) -> (Vec<Option<CellResult>>, Vec<(usize, Decisive)>) {
    let mut outcomes: Vec<Option<CellResult>> = Vec::with_capacity(cells.len());
    let (mut missing, mut useless) = (Vec::new(), 0);
    for (place, cell) in cells.iter().enumerate() {
        let decisive = cell.decisive(plan);
        let found = store.find(&decisive);
        if let Found::Useless(reason) = &found {
            useless += 1;
            // After an update of the program it is all of them.
            if useless <= MAX_SAID {
                headtime_console::note!("headtime: {reason}; it is computed again");
            }
        }
        outcomes.push(match found {
            Found::CellOutcome(outcome) => Some(Ok(*outcome)),
            Found::Nothing | Found::Useless(_) => {
                missing.push((place, decisive));
                None
            }
        });
    }
    if useless > MAX_SAID {
        headtime_console::note!(
            "headtime: {} more cells in {} cannot be used either and are computed again",
            useless - MAX_SAID,
            store.folder().display()
        );
    }
    let reused = cells.len() - missing.len();
    if reused > 0 {
        headtime_console::note!(
            "headtime: {reused} of {} {what} are there already in {}",
            cells.len(),
            store.folder().display()
        );
    }
    (outcomes, missing)
}

/// Useless cells that are named one by one.
const MAX_SAID: usize = 5;

/// A cell to be computed and kept.
struct Task<'a> {
    cell: &'a Cell,
    decisive: &'a Decisive,
    plan: &'a Plan,
    store: &'a Store,
    stop: &'a Stop,
    waiting: &'a Waiting,
}

enum Done {
    Computed(Box<CellOutcome>),
    Failed(String),
    NotWritten(anyhow::Error),
    Stopped,
}

impl PointOfWork for Task<'_> {
    type Outcome = Done;

    fn label(&self) -> String {
        self.cell.name(self.plan)
    }

    fn work(&self) -> u64 {
        self.cell.work(self.plan)
    }

    fn run(&self, _seed: u64) -> Result<Done, Cause> {
        if self.stop.is_raised() {
            return Ok(Done::Stopped);
        }
        let began = Instant::now();
        let counted = Counter::new(0);
        let tell = |requests| {
            counted.set(counted.get() + requests);
            self.waiting.advance(requests);
        };
        let done = match self.cell.run(self.plan, self.stop, &tell) {
            Ok(None) => Done::Stopped,
            Ok(Some(outcome)) => {
                match self.store.keep(self.decisive, &outcome, began.elapsed().as_secs_f64()) {
                    Ok(outcome) => Done::Computed(Box::new(outcome)),
                    Err(error) => {
                        // Nothing that follows could be kept either.
                        self.stop.raise();
                        Done::NotWritten(error)
                    }
                }
            }
            Err(error) => {
                let reason = format!("{error:#}");
                self.waiting.say(&format!("headtime: {} cannot be run: {reason}", self.label()));
                Done::Failed(reason)
            }
        };
        self.waiting.advance(self.work().saturating_sub(counted.get()));
        Ok(done)
    }
}
