//! [`Survey`]: a first pass over the addresses of a trace, in bounded memory.
//!
//! Scaling needs the highest address; packing needs the regions that are accessed. Regions are
//! pieces of [`MIN_PIECE_BYTES`] at first. When more than [`MAX_PIECES`] are accessed, or very many
//! by one request, the size of pieces doubles until they are fewer.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::record::TraceRecord;
use crate::source::Operation;

/// The maximum number of devices.
pub(super) const MAX_DEVICES: usize = 65_536;

/// The smallest piece of the address space that is kept whole.
pub(super) const MIN_PIECE_BYTES: u64 = 1 << 20;

/// The maximum number of accessed pieces, in about ten MiB of memory.
pub(super) const MAX_PIECES: usize = 1 << 18;

/// The number of pieces of one request above which pieces become larger, which bounds the work of a
/// request.
const MAX_OF_ONE: u64 = 1 << 12;

/// The highest address of each device, and its accessed pieces.
#[derive(Clone, Debug)]
pub struct Survey {
    reach: BTreeMap<u32, u64>,
    touched: Option<BTreeSet<(u32, u64)>>,
    /// Pieces are 2 to this power.
    piece_bits: u32,
}

/// The reason why a trace cannot be surveyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SurveyError {
    /// The trace has too many devices.
    #[error("the trace has more than {max} devices; choose some of them, or let addresses wrap")]
    Devices {
        /// The maximum number.
        max: usize,
    },
}

impl Survey {
    /// An empty survey; with `touched` it also records pieces.
    #[must_use]
    pub fn new(touched: bool) -> Self {
        Self {
            reach: BTreeMap::new(),
            touched: touched.then(BTreeSet::new),
            piece_bits: MIN_PIECE_BYTES.trailing_zeros(),
        }
    }

    /// Adds one record. Flushes have no address. Discards count for the highest address, but access
    /// no piece: a file system that trims a whole disk does not use it.
    ///
    /// # Errors
    /// When there are too many devices.
    pub fn add(&mut self, record: &TraceRecord) -> Result<(), SurveyError> {
        if record.len_bytes == 0 {
            return Ok(());
        }
        if self.reach.len() >= MAX_DEVICES && !self.reach.contains_key(&record.device) {
            return Err(SurveyError::Devices { max: MAX_DEVICES });
        }
        let reach = self.reach.entry(record.device).or_default();
        *reach = (*reach).max(record.end_bytes());
        if record.operation != Operation::Discard && self.touched.is_some() {
            self.touch(record);
        }
        Ok(())
    }

    fn touch(&mut self, record: &TraceRecord) {
        let pieces = |bits: u32| (record.offset_bytes >> bits, (record.end_bytes() - 1) >> bits);
        loop {
            let (first, last) = pieces(self.piece_bits);
            if last - first < MAX_OF_ONE {
                break;
            }
            self.coarsen();
        }
        let (first, last) = pieces(self.piece_bits);
        if let Some(touched) = &mut self.touched {
            touched.extend((first..=last).map(|piece| (record.device, piece)));
        }
        while self.touched.as_ref().is_some_and(|touched| touched.len() > MAX_PIECES) {
            // Each device keeps at least one piece, so the number stays below the maximum.
            self.coarsen();
        }
    }

    fn coarsen(&mut self) {
        self.piece_bits += 1;
        if let Some(touched) = &mut self.touched {
            *touched = touched.iter().map(|(device, piece)| (*device, piece >> 1)).collect();
        }
    }

    /// Each device and its end, by number.
    pub fn reaches(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.reach.iter().map(|(device, reach)| (*device, *reach))
    }

    /// Accessed pieces as device and number, in order, and the size of a piece as a power of two;
    /// `None` when they were not recorded.
    #[must_use]
    pub fn pieces(&self) -> Option<(Vec<(u32, u64)>, u32)> {
        self.touched.as_ref().map(|touched| (touched.iter().copied().collect(), self.piece_bits))
    }
}
