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
    /// The cost of the cheapest request of the volume, once it is needed.
    pub(super) cheapest_ns: Option<f64>,
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
/// Requests of a run have turns up to this factor of what the cheapest request costs, because turns
/// are fair as well. Measured on five drives: with 1 instead, mixtures of volumes have 1 % less.
const MARGIN: f64 = 1.25;
/// The factor by which what requests cost directly after another counts less with each that is
/// served otherwise (guess: where turns seem to save nothing, one in about 40 tries again).
pub(super) const FORGETS_FOLLOWED: f64 = 255.0 / 256.0;

impl Habits {
    /// Returns whether one of `per_turn` requests in a turn costs less than the cheapest request of
    /// the volume does: these share a change (`change_ns`), and each but the first costs what one
    /// directly after another does.
    pub(super) fn save(&self, per_turn: f64, change_ns: f64) -> bool {
        let Some(cheapest_ns) = self.cheapest_ns else { return true };
        let following_ns = if self.followed >= KNOWN { self.following_ns } else { 0.0 };
        let each_ns = following_ns + (change_ns - following_ns).max(0.0) / per_turn.max(1.0);
        following_ns < cheapest_ns && each_ns < cheapest_ns * MARGIN
    }

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

    /// Of 16 requests the cheapest costs 4 ms where a change costs 8.
    #[test]
    fn turns_of_one_request_save_nothing_beside_many_requests() {
        let mut habits = Habits { cheapest_ns: Some(4e6), ..Habits::default() };
        assert!(!habits.save(1.0, 8e6) && habits.save(2.0, 8e6));
        (0..6).for_each(|_| habits.follows(3e6));
        assert!(!habits.save(2.0, 8e6) && habits.save(3.0, 8e6), "5.5 and 4.7 ms");
        habits.cheapest_ns = Some(8e6);
        assert!(habits.save(1.0, 8e6), "a lone request costs a change anyway");
        habits.cheapest_ns = Some(2.9e6);
        assert!(!habits.save(100.0, 8e6), "each of a long turn costs 3 ms");
    }

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
