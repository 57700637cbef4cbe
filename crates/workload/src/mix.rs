//! [`Mix`]: the operations of requests.

use rand::Rng;

use crate::check::Check;
use crate::dice;
use crate::error::StreamFault;
use crate::source::Operation;

/// The shares of operations, from 0 to 1; the remaining requests are writes. Each request is drawn
/// independently.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// Share of reads.
    pub reads: f64,
    /// Share of requests that write zeroes.
    pub zeroes: f64,
    /// Share of discards.
    pub discards: f64,
    /// Share of flushes.
    pub flushes: f64,
    /// Share of the *writes* (not of all requests) with force unit access.
    pub fua: f64,
}

impl Mix {
    /// This share of reads, and writes otherwise.
    #[must_use]
    pub const fn reads(share: f64) -> Self {
        Self { reads: share, zeroes: 0.0, discards: 0.0, flushes: 0.0, fua: 0.0 }
    }

    pub(crate) fn check(&self, check: &Check) -> Result<(), StreamFault> {
        let shares = [
            ("reads", self.reads),
            ("zeroes", self.zeroes),
            ("discards", self.discards),
            ("flushes", self.flushes),
            ("fua", self.fua),
        ];
        for (key, share) in shares {
            check.share(key, share)?;
        }
        let sum = self.reads + self.zeroes + self.discards + self.flushes;
        // Shares such as 0.7 + 0.2 + 0.1 add up to one but for the last bits.
        if sum > 1.0 + 1e-9 {
            return Err(check.value(
                "reads + zeroes + discards + flushes",
                sum,
                "at most 1",
                "lower one of them; the remainder are writes",
            ));
        }
        Ok(())
    }
}

/// Cumulative shares of operations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Thresholds {
    reads: f64,
    zeroes: f64,
    discards: f64,
    flushes: f64,
    fua: f64,
}

impl Thresholds {
    pub(crate) fn new(mix: &Mix) -> Self {
        let zeroes = mix.reads + mix.zeroes;
        let discards = zeroes + mix.discards;
        Self { reads: mix.reads, zeroes, discards, flushes: discards + mix.flushes, fua: mix.fua }
    }

    /// Draws the next operation, and its force unit access.
    pub(crate) fn draw(&self, rng: &mut impl Rng) -> (Operation, bool) {
        // A stream of reads alone draws no random number.
        if self.reads >= 1.0 {
            return (Operation::Read, false);
        }
        let point = dice::above_zero(rng);
        let operation = match point {
            _ if point <= self.reads => Operation::Read,
            _ if point <= self.zeroes => Operation::Zero,
            _ if point <= self.discards => Operation::Discard,
            _ if point <= self.flushes => Operation::Flush,
            _ => Operation::Write,
        };
        (
            operation,
            operation == Operation::Write && self.fua > 0.0 && dice::above_zero(rng) <= self.fua,
        )
    }
}
