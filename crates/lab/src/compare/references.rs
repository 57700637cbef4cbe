//! [`References`]: figures of a run that depend on other runs: the progress of its streams, and
//! response times at the load that all policies of a case get.
//!
//! *Progress* of a stream is its rate ÷ its rate alone in the drive's own queue, with the same
//! seed. Worked example: alone a random reader gets 100 requests a second and a sequential one
//! 2,000. Together they get 40 and 1,000 under a policy: progress 0.4 and 0.5, sum 0.9, harmonic
//! mean 2 ÷ (1/0.4 + 1/0.5) = 0.44. The sum tells how much of the drive is used; the harmonic mean
//! is low if any stream starves.
//!
//! *Equal load*: the policy with the smallest sum of progress is the slowest. Every policy runs
//! again with 80 % of the rates that the slowest policy gave to each closed stream, as an open
//! loop. The slowest policy defines the mix of streams, too: it has shown that it can serve it.

use std::collections::HashMap;

use super::cell::{Cell, CellKind};
use super::outcome::{CellOutcome, CellStatus, EqualLoad, Figures, rounded};
use super::plan::Plan;

/// The share of the slowest policy's rates that all policies get at equal load.
pub const EQUAL_LOAD: f64 = 0.8;

/// The outcome of a cell, or why there is none.
pub type CellResult = Result<CellOutcome, String>;

/// The rate of each stream alone, by case and seed.
pub(super) struct References(HashMap<(usize, u64), Vec<Option<f64>>>);

impl References {
    /// The rates among the results of [`Cell::all`].
    pub(super) fn new<'a>(results: impl IntoIterator<Item = (&'a Cell, &'a CellResult)>) -> Self {
        let mut rates: HashMap<_, Vec<Option<f64>>> = HashMap::new();
        for (cell, result) in results {
            if let CellKind::Alone(stream) = cell.kind {
                let rate = result.as_ref().ok().map(|outcome| outcome.total.iops);
                let streams = rates.entry((cell.case, cell.seed)).or_default();
                streams.resize(streams.len().max(stream + 1), None);
                streams[stream] = rate.filter(|rate| *rate > 0.0);
            }
        }
        Self(rates)
    }

    /// Adds the progress of each stream, the sum and the harmonic mean to an outcome. A stream that
    /// serves nothing alone has no progress.
    pub(super) fn add_progress(&self, case: usize, seed: u64, outcome: &mut CellOutcome) {
        let alone = self.0.get(&(case, seed)).map_or(&[][..], Vec::as_slice);
        let mut all = Vec::new();
        for (stream, alone) in outcome.streams.iter_mut().zip(alone) {
            let progress = alone.map(|alone| stream.figures.iops / alone);
            stream.figures.progress = progress.map(rounded);
            all.extend(progress);
        }
        let total = &mut outcome.total;
        if all.is_empty() || total.requests == 0 {
            return;
        }
        let slowness: f64 = all.iter().map(|progress| 1.0 / progress).sum();
        total.progress_sum = Some(rounded(all.iter().sum()));
        // A stream without progress makes the mean 0.
        total.progress_harmonic_mean = Some(rounded(all.len() as f64 / slowness));
        total.progress = total.progress_sum.filter(|_| outcome.streams.len() == 1);
    }
}

/// The cells at equal load, by the results of [`Cell::all`]: those of all policies whose own cells
/// have results.
pub fn cells_at_equal_load(plan: &Plan, results: &[(Cell, CellResult)]) -> Vec<Cell> {
    let references = References::new(results.iter().map(|(cell, result)| (cell, result)));
    let mut runs: HashMap<(usize, u64), Vec<(usize, CellOutcome)>> = HashMap::new();
    for (cell, result) in results {
        if let (CellKind::Policy(policy), Ok(outcome)) = (&cell.kind, result) {
            let mut outcome = outcome.clone();
            references.add_progress(cell.case, cell.seed, &mut outcome);
            runs.entry((cell.case, cell.seed)).or_default().push((*policy, outcome));
        }
    }
    let mut cells = Vec::new();
    for (case, of) in plan.cases.iter().enumerate() {
        let open = plan.workloads[of.workload].choice.open_streams();
        for seed in plan.seeds() {
            let runs = runs.get(&(case, seed)).map_or(&[][..], Vec::as_slice);
            let Some(rates) = equal_load_rates(&open, runs.iter().map(|(_, run)| run)) else {
                continue;
            };
            cells.extend(runs.iter().map(|(policy, _)| Cell {
                case,
                seed,
                kind: CellKind::EqualLoad { policy: *policy, rates: rates.clone() },
            }));
        }
    }
    cells
}

/// The rate of each stream at equal load, `None` for the `open` ones; nothing if all are open or
/// the slowest policy serves nothing.
fn equal_load_rates<'a>(
    open: &[bool],
    runs: impl Iterator<Item = &'a CellOutcome>,
) -> Option<Vec<Option<f64>>> {
    let known = runs.filter_map(|run| Some((run.total.progress_sum?, run)));
    let (_, slowest) = known.reduce(|one, next| if next.0 < one.0 { next } else { one })?;
    let rate = |(stream, open): (usize, &bool)| {
        let rate = slowest.streams.get(stream).map_or(0.0, |stream| stream.figures.iops);
        (!open).then(|| rounded(EQUAL_LOAD * rate))
    };
    let rates: Vec<Option<f64>> = open.iter().enumerate().map(rate).collect();
    rates.iter().flatten().any(|rate| *rate > 0.0).then_some(rates)
}

/// Adds the figures of the run at equal load to an outcome.
pub(super) fn add_equal_load(outcome: &mut CellOutcome, at_equal_load: &CellOutcome) {
    let status = at_equal_load.status();
    outcome.equal_load_status = Some(status);
    let figures = |figures: &Figures| {
        let has_times = status < CellStatus::Overloaded && figures.requests > 0;
        has_times.then_some(EqualLoad {
            iops: figures.iops,
            response_ms_mean: figures.response_ms.mean,
            response_ms_p99: figures.response_ms.p99,
        })
    };
    outcome.total.equal_load = figures(&at_equal_load.total);
    for (stream, other) in outcome.streams.iter_mut().zip(&at_equal_load.streams) {
        stream.figures.equal_load = figures(&other.figures);
    }
}

#[cfg(test)]
mod tests {
    use super::super::outcome::StreamOutcome;
    use super::super::outcome::tests::outcome;
    use super::*;

    fn run(rates: [f64; 2]) -> CellOutcome {
        let stream = |iops: f64| StreamOutcome {
            name: String::new(),
            class: String::new(),
            figures: Figures { requests: 100, iops, ..Figures::default() },
        };
        CellOutcome { streams: rates.map(stream).to_vec(), ..outcome(rates[0] + rates[1]) }
    }

    fn references(rates: [f64; 2]) -> References {
        let alone = rates.map(outcome).map(Ok);
        let cells = [0, 1].map(|stream| Cell { case: 0, seed: 1, kind: CellKind::Alone(stream) });
        References::new(cells.iter().zip(&alone))
    }

    /// The worked examples above, by hand.
    #[test]
    fn progress_is_a_share_of_the_rate_alone_and_its_harmonic_mean_shows_starving() {
        let references = references([100.0, 2_000.0]);
        let of = |rates| {
            let mut run = run(rates);
            references.add_progress(0, 1, &mut run);
            let streams = run.streams.iter().map(|stream| stream.figures.progress);
            let streams: Vec<f64> = streams.flatten().collect();
            (streams, run.total.progress_sum, run.total.progress_harmonic_mean)
        };
        assert_eq!(of([40.0, 1_000.0]), (vec![0.4, 0.5], Some(0.9), Some(0.444444)));
        assert_eq!(of([0.0, 2_000.0]), (vec![0.0, 1.0], Some(1.0), Some(0.0)));
    }

    #[test]
    fn the_load_is_that_of_the_slowest_policy_and_open_streams_keep_theirs() {
        let references = references([100.0, 2_000.0]);
        let mut runs = [[90.0, 200.0], [40.0, 1_000.0], [10.0, 1_700.0]].map(run);
        runs.iter_mut().for_each(|run| references.add_progress(0, 1, run));
        let rates = |open: [bool; 2]| equal_load_rates(&open, runs.iter());
        assert_eq!(
            rates([false, false]),
            Some(vec![Some(32.0), Some(800.0)]),
            "sums 1.0, 0.9, 0.95"
        );
        assert_eq!(rates([true, false]), Some(vec![None, Some(800.0)]));
        assert_eq!(rates([true, true]), None);
    }

    #[test]
    fn a_policy_that_is_overloaded_at_equal_load_has_no_times_there() {
        let mut own = run([40.0, 1_000.0]);
        add_equal_load(&mut own, &run([32.0, 800.0]));
        assert_eq!(own.equal_load_status, Some(CellStatus::Fine));
        assert_eq!(own.streams[1].figures.equal_load.map(|load| load.iops), Some(800.0));
        let flooded = CellOutcome { backlog_growth: 10_000, ..run([20.0, 500.0]) };
        add_equal_load(&mut own, &flooded);
        assert_eq!(own.equal_load_status, Some(CellStatus::Overloaded));
        assert_eq!((own.total.equal_load, own.streams[1].figures.equal_load), (None, None));
    }
}
