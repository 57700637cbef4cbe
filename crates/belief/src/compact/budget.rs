//! [`Budget`]: the maximum work of a search per completion.
//!
//! A search uses thousands of angle samples and tries millions of slopes, and dispatches wait for
//! it. It is therefore divided into slices, counted in operations and not in time: the same
//! observations cause the same work on every machine. One operation is one complex multiplication,
//! about a nanosecond; more expensive work is charged as several.
//!
//! Guarantees: a slice ends with the first piece of work that exhausts it, and no piece charges
//! more than [`PIECE`]. No completion therefore does more than [`MOST`].

/// The work of one completion, in operations.
pub(super) const SLICE: u64 = 65_536;
/// The maximum charge of one indivisible piece of work.
pub(super) const PIECE: u64 = 49_152;
/// The maximum work of one completion.
pub(crate) const MOST: u64 = SLICE + PIECE;

/// The charge of one evaluation of a segment at a point: a division and a rounding for each of its
/// skew terms.
pub(super) const EVALUATION: u64 = 8;

/// The remaining operations of a slice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    spent: u64,
}

impl Budget {
    pub(super) fn slice() -> Self {
        Self { spent: 0 }
    }

    /// Returns true if another piece may begin.
    pub(super) fn is_left(&self) -> bool {
        self.spent < SLICE
    }

    /// The number of pieces of `each` operations that may be done, at least one.
    pub(super) fn pieces(&self, each: u64) -> u64 {
        (SLICE.saturating_sub(self.spent) / each.max(1)).max(1)
    }

    /// Charges the operations.
    pub(super) fn spend(&mut self, operations: u64) {
        self.spent += operations;
    }

    /// Ends the slice.
    pub(super) fn exhaust(&mut self) {
        self.spent = self.spent.max(SLICE);
    }

    /// The operations charged so far.
    pub(super) fn spent(&self) -> u64 {
        self.spent
    }
}
