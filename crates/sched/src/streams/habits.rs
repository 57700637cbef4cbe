//! What the sequences of one kind did so far: how often they become runs, how often the next
//! request comes in time, and what it costs.

use super::think::Think;
use crate::request::{Op, Request, VolumeId};

/// The sequences of one kind: of one volume, one operation and about one request size.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Habits {
    /// The numbers of sequences with a first, second and third request, and of the requests after
    /// these; earlier ones count less.
    pub(super) reached: [f64; 4],
    /// The think time of those that became runs.
    pub(super) think: Think,
    pub(super) pauses: Pauses,
    /// The same for those pauses in which its process or connection sent a request elsewhere.
    pub(super) pauses_elsewhere: Pauses,
    /// The mean disk time, beyond its transfer, of a request served directly after another of its
    /// run, and the number of these, up to 32.
    pub(super) following_ns: f64,
    pub(super) followed: f64,
    /// The reverse of the last answer of [`Streams::saves`](super::Streams::saves).
    pub(super) saves_nothing: bool,
}

/// The completions that left a run without requests while its next was worth waiting for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pauses {
    /// The number of all, and of those after which that came in time; earlier ones count less.
    all: f64,
    pub(super) came: f64,
}

impl Pauses {
    pub(super) fn add(&mut self) {
        self.all = self.all * FORGETS + 1.0;
        self.came *= FORGETS;
    }

    /// Notes that the last one that came in time was not worth a wait.
    pub(super) fn needed_no_wait(&mut self) {
        self.came = (self.came - 1.0).max(0.0);
    }

    /// The share after which the next came in time, once that is known.
    pub(super) fn came(&self) -> Option<f64> {
        (self.all >= KNOWN).then(|| self.came / self.all)
    }
}

/// The kind of a sequence: volume, operation and the logarithm of the request size.
pub(super) type Kind = (VolumeId, Op, u32);

/// The kind of the sequence that a request begins.
pub(super) fn kind_of(request: &Request) -> Kind {
    (request.volume, request.op, request.extent.len.get().ilog2())
}

/// The number of requests that make a run while nothing is known of its kind (guess: two may follow
/// each other by chance).
const REQUESTS: u32 = 3;
/// The factor by which earlier sequences count less with each later one (guess: the last 32).
const FORGETS: f64 = 31.0 / 32.0;
/// Requests are at random of which at most one in so many is followed by the next (guess: an access
/// more for one in 16 costs less than what is gained with the others).
const AT_RANDOM: f64 = 16.0;
/// The number of sequences from which on their habits are known (guess).
pub(super) const KNOWN: f64 = 6.0;
/// The factor by which what requests cost directly after another counts less with each that is
/// served otherwise (guess: where turns seem to save nothing, one in about 40 tries again).
const FORGETS_FOLLOWED: f64 = 255.0 / 256.0;

impl Habits {
    /// Counts a request that was served directly after another of its run, and cost `beyond_ns`
    /// beyond its transfer.
    pub(super) fn follows(&mut self, beyond_ns: f64) {
        self.followed = (self.followed + 1.0).min(32.0);
        self.following_ns += (beyond_ns - self.following_ns) / self.followed;
    }

    /// Counts a request of a run that was served after one of another.
    pub(super) fn follows_another(&mut self) {
        self.followed *= FORGETS_FOLLOWED;
    }

    /// Counts a request, the `place`th of its sequence from 0 on.
    pub(super) fn reached(&mut self, place: usize) {
        if place == 0 {
            self.reached.iter_mut().for_each(|count| *count *= FORGETS);
        }
        self.reached[place.min(3)] += 1.0;
    }

    /// Returns whether few requests are followed by the next of a sequence.
    pub(super) fn are_at_random(&self) -> bool {
        let [first, second, ..] = self.reached;
        first >= KNOWN && second * AT_RANDOM <= first
    }

    /// The number of requests that make a run: with the first of them most sequences become one.
    pub(super) fn needed(&self) -> u32 {
        let [first, second, third, _] = self.reached;
        match () {
            () if first >= KNOWN && third >= first / 2.0 => 1,
            () if second >= KNOWN && third >= second / 2.0 => 2,
            () => REQUESTS,
        }
    }

    /// The probability that the next request of a run comes in time, or as long as that has not
    /// been seen, that a request of a run is followed by another at all.
    pub(super) fn comes(&self) -> f64 {
        let [first, _, third, later] = self.reached;
        self.pauses.came().unwrap_or_else(|| match first < KNOWN {
            true => 1.0,
            false => later / (third + later).max(1.0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_seems_to_save_nothing_is_measured_again() {
        let mut habits = Habits::default();
        (0..6).for_each(|_| habits.follows(9e6));
        assert!(habits.followed >= KNOWN, "six cost a whole change");
        (0..40).for_each(|_| habits.follows_another());
        assert!(habits.followed < KNOWN, "it is tried again");
        habits.follows(0.0);
        assert!(habits.followed >= KNOWN && habits.following_ns < 8e6, "and was cheaper");
    }
}
