//! [`Budget`]: how much of a search may be done with one completion.
//!
//! A search learns from thousands of angle samples and tries millions of slopes, and it is done where
//! dispatches wait for it. So it is cut into slices, counted in operations and not in time: the
//! same observations do the same work on every machine. One operation is one complex
//! multiplication, about a nanosecond; what costs more is charged as several.
//!
//! Guarantees: a slice ends with the first piece of work that uses up what is left, and no piece
//! charges more than [`PIECE`], so no completion does more than [`MOST`].

/// What is done with one completion, in operations.
pub(super) const SLICE: u64 = 65_536;
/// The most that one indivisible piece of work charges.
pub(super) const PIECE: u64 = 49_152;
/// The most that is done with one completion.
pub(crate) const MOST: u64 = SLICE + PIECE;

/// What one evaluation of a segment at a point is charged as: a division and a rounding for each of
/// its skew terms.
pub(super) const EVALUATION: u64 = 8;

/// Operations that are left of a slice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    spent: u64,
}

impl Budget {
    /// One slice.
    pub(super) fn slice() -> Self {
        Self { spent: 0 }
    }

    /// Whether more may be begun.
    pub(super) fn is_left(&self) -> bool {
        self.spent < SLICE
    }

    /// How many pieces of `each` operations may be done, at least one.
    pub(super) fn pieces(&self, each: u64) -> u64 {
        (SLICE.saturating_sub(self.spent) / each.max(1)).max(1)
    }

    /// Takes in that so many were done.
    pub(super) fn spend(&mut self, operations: u64) {
        self.spent += operations;
    }

    /// Nothing more is done of this slice.
    pub(super) fn exhaust(&mut self) {
        self.spent = self.spent.max(SLICE);
    }

    /// How many were done.
    pub(super) fn spent(&self) -> u64 {
        self.spent
    }
}
