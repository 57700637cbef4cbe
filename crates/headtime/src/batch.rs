//! [`Batch`]: requests that are started together, with one deadline.

use std::fmt;
use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use headtime_io::RealClock;
use headtime_units::Instant;

use crate::error::Error;
use crate::request::{IoDone, IoRequest, Pending, duration};
use crate::wait_for;

/// Several requests that are started together. Await it, or [`wait`](Batch::wait).
///
/// The requests are submitted in their order, and each waits for room if the drive has none. Their
/// deadlines count from one moment, the start of the batch, so that the scheduler serves them in
/// the cheapest order. Of a batch that is dropped while it is awaited, the requests that were
/// submitted go on, and the others are never submitted.
#[derive(Debug)]
#[must_use = "a batch does nothing until it is awaited or waited for"]
pub struct Batch {
    requests: Vec<IoRequest>,
}

/// A batch of which every request completed.
#[derive(Clone, Debug)]
pub struct BatchDone {
    began: Instant,
    done: Vec<IoDone>,
}

/// A batch of which a request failed, with the results of all.
#[derive(Clone, Debug)]
pub struct BatchError {
    /// The results, in the order of the requests. At least one is an error.
    pub results: Vec<Result<IoDone, Error>>,
}

impl Batch {
    pub(crate) fn new(requests: Vec<IoRequest>) -> Self {
        Self { requests }
    }

    /// The same, with each request due `within` this time from the start of the batch, unless it
    /// has a deadline of its own.
    pub fn deadline(self, within: Duration) -> Self {
        let requests = self.requests.into_iter();
        Self { requests: requests.map(|request| request.deadline_if_none(within)).collect() }
    }

    /// Starts the batch and waits for all results.
    ///
    /// # Errors
    /// [`BatchError`] with all results if a request failed.
    pub fn wait(self) -> Result<BatchDone, BatchError> {
        wait_for(self.into_future())
    }
}

impl IntoFuture for Batch {
    type Output = Result<BatchDone, BatchError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let began = RealClock.now();
        Box::pin(async move {
            let mut started: Vec<Result<Pending, Error>> = Vec::with_capacity(self.requests.len());
            for request in self.requests {
                started.push(request.start_since(began).await);
            }
            let mut results = Vec::with_capacity(started.len());
            for request in started {
                results.push(match request {
                    Ok(pending) => pending.await,
                    Err(error) => Err(error),
                });
            }
            if results.iter().any(Result::is_err) {
                return Err(BatchError { results });
            }
            Ok(BatchDone { began, done: results.into_iter().flatten().collect() })
        })
    }
}

impl BatchDone {
    /// The completed requests, in the order of the batch.
    pub fn iter(&self) -> std::slice::Iter<'_, IoDone> {
        self.done.iter()
    }

    /// The number of requests.
    #[must_use]
    pub fn len(&self) -> usize {
        self.done.len()
    }

    /// Returns true if the batch had no request.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.done.is_empty()
    }

    /// The time from the start of the batch to its last completion.
    #[must_use]
    pub fn response_time(&self) -> Duration {
        let last = self.done.iter().map(IoDone::completed).max();
        duration(last.unwrap_or(self.began).saturating_since(self.began))
    }

    /// The number of requests that completed after their deadline.
    #[must_use]
    pub fn missed_deadlines(&self) -> usize {
        self.done.iter().filter(|done| done.missed_deadline()).count()
    }
}

impl IntoIterator for BatchDone {
    type Item = IoDone;
    type IntoIter = std::vec::IntoIter<IoDone>;

    fn into_iter(self) -> Self::IntoIter {
        self.done.into_iter()
    }
}

impl<'a> IntoIterator for &'a BatchDone {
    type Item = &'a IoDone;
    type IntoIter = std::slice::Iter<'a, IoDone>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl BatchError {
    /// The failures, in the order of the requests.
    pub fn failures(&self) -> impl Iterator<Item = &Error> {
        self.results.iter().filter_map(|result| result.as_ref().err())
    }
}

impl fmt::Display for BatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (failed, of) = (self.failures().count(), self.results.len());
        write!(f, "{failed} of {of} requests of the batch failed")?;
        self.failures().next().map_or(Ok(()), |first| write!(f, ", the first: {first}"))
    }
}

impl std::error::Error for BatchError {}
