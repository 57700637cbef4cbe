//! [`Context`]: the input of an experiment, and the parallel execution of its points.
//!
//! An experiment is a list of independent points. Threads take them one by one, the largest first.
//! Results are in the order of the list, so that the number of threads changes only the duration.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use crate::papers::{Cause, ExperimentError, Measured};

/// The input of an experiment.
pub struct Context<'a> {
    seed: u64,
    scale: f64,
    threads: usize,
    progress: &'a dyn Progress,
}

/// A receiver of an experiment's progress; called from several threads.
pub trait Progress: Sync {
    /// Announces more work, in the experiment's own measure, usually simulated requests.
    fn expect(&self, work: u64);

    /// Reports completed work, the last of it on `point`.
    fn done(&self, work: u64, point: &str);
}

/// A receiver that ignores progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn expect(&self, _work: u64) {}

    fn done(&self, _work: u64, _point: &str) {}
}

/// One point of an experiment.
pub trait PointOfWork: Sync {
    /// The result.
    type Outcome: Send;

    /// The label in the progress display.
    fn label(&self) -> String;

    /// The amount of work, in the measure of [`Progress::expect`].
    fn work(&self) -> u64;

    /// Runs it.
    fn run(&self, seed: u64) -> Result<Self::Outcome, Cause>;
}

/// The results of the points that have been run.
type Outcomes<P> = Mutex<Vec<Option<Result<<P as PointOfWork>::Outcome, ExperimentError>>>>;

impl<'a> Context<'a> {
    /// A context with at least one thread; `scale` is the share of the full number of requests.
    pub fn new(seed: u64, scale: f64, threads: usize, progress: &'a dyn Progress) -> Self {
        Self { seed, scale, threads: threads.max(1), progress }
    }

    /// The same with another seed.
    pub fn with_seed(&self, seed: u64) -> Self {
        Self { seed, ..*self }
    }

    /// The seed of instances and workloads.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The share of the full number of requests.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// The number of requests for `requests` at full scale; at least 100.
    pub fn requests(&self, full: u64) -> u64 {
        ((full as f64 * self.scale) as u64).max(100)
    }

    /// The largest of what a run showed: a figure of the run itself at full scale, and in a shorter
    /// run no bound on what the full one shows.
    pub fn maximum(&self, value: f64) -> Measured {
        if self.scale >= 1.0 { Measured::exact(value) } else { Measured::maximum_so_far(value) }
    }

    /// The smallest of what a run showed, as [`Context::maximum`].
    pub fn minimum(&self, value: f64) -> Measured {
        let Measured { interval, .. } = self.maximum(-value);
        Measured { value, interval: interval.map(|(low, high)| (-high, -low)) }
    }

    /// Runs every point and returns the results in the order of `points`.
    ///
    /// # Errors
    /// The error of the first failed point in the order of `points`; points not begun by then are
    /// skipped.
    pub fn run<P: PointOfWork>(&self, points: &[P]) -> Result<Vec<P::Outcome>, ExperimentError> {
        self.progress.expect(points.iter().map(P::work).sum());
        let mut heaviest_first: Vec<usize> = (0..points.len()).collect();
        heaviest_first.sort_by_key(|place| std::cmp::Reverse(points[*place].work()));
        let next = AtomicUsize::new(0);
        let outcomes: Outcomes<P> = Mutex::new(points.iter().map(|_| None).collect());
        // A thread that panicked ends the scope with its panic; until then the others may still put
        // theirs down.
        let put = |place: usize, outcome| {
            outcomes.lock().unwrap_or_else(PoisonError::into_inner)[place] = Some(outcome)
        };
        thread::scope(|scope| {
            for _ in 0..self.threads.min(points.len()) {
                scope.spawn(|| {
                    while let Some(place) = heaviest_first.get(next.fetch_add(1, Ordering::Relaxed))
                    {
                        let point = &points[*place];
                        let outcome = point.run(self.seed);
                        let outcome =
                            outcome.map_err(|cause| ExperimentError::new(point.label(), cause));
                        if outcome.is_err() {
                            next.store(points.len(), Ordering::Relaxed);
                        }
                        put(*place, outcome);
                        self.progress.done(point.work(), &point.label());
                    }
                });
            }
        });
        let outcomes = outcomes.into_inner().unwrap_or_else(PoisonError::into_inner);
        // A point has no outcome only after an error.
        let (outcomes, errors): (Vec<_>, Vec<_>) =
            outcomes.into_iter().flatten().partition(Result::is_ok);
        match errors.into_iter().find_map(Result::err) {
            Some(error) => Err(error),
            None => Ok(outcomes.into_iter().filter_map(Result::ok).collect()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

    struct Square(u64);

    impl PointOfWork for Square {
        type Outcome = u64;

        fn label(&self) -> String {
            self.0.to_string()
        }

        fn work(&self) -> u64 {
            self.0 % 3
        }

        fn run(&self, seed: u64) -> Result<u64, Cause> {
            if self.0 > 1_000 { Err(Cause::Meant) } else { Ok(self.0 * self.0 + seed) }
        }
    }

    #[derive(Default)]
    struct Counting {
        expected: AtomicU64,
        done: AtomicU64,
    }

    impl Progress for Counting {
        fn expect(&self, work: u64) {
            self.expected.fetch_add(work, Ordering::Relaxed);
        }

        fn done(&self, work: u64, _point: &str) {
            self.done.fetch_add(work, Ordering::Relaxed);
        }
    }

    #[test]
    fn outcomes_are_in_the_order_of_the_points_for_any_number_of_threads() {
        let points: Vec<Square> = (0..40).map(Square).collect();
        for threads in [0, 1, 2, 7] {
            let progress = Counting::default();
            let outcomes =
                Context::new(5, 1.0, threads, &progress).run(&points).expect("none is too large");
            assert_eq!(outcomes, (0..40).map(|number| number * number + 5).collect::<Vec<_>>());
            let (expected, done) = (progress.expected.into_inner(), progress.done.into_inner());
            assert!(expected == done && done > 0, "{done} of {expected} done");
        }
    }

    #[test]
    fn an_error_of_a_point_is_the_error_of_the_run() {
        let points = [Square(1), Square(2_000), Square(3)];
        let error =
            Context::new(1, 1.0, 1, &Silent).run(&points).expect_err("one of them is too large");
        assert!(error.to_string().contains("2000"), "{error}");
        assert!(
            Context::new(1, 1.0, 2, &Silent).run::<Square>(&[]).expect("nothing to do").is_empty()
        );
    }

    #[test]
    fn a_scaled_run_has_enough_requests_to_say_anything() {
        let requests = |scale| Context::new(1, scale, 1, &Silent).requests(20_000);
        assert_eq!((requests(1.0), requests(0.1), requests(0.000_1)), (20_000, 2_000, 100));
    }
}
