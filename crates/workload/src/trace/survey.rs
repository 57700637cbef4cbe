//! [`Survey`]: what a first pass over a trace learns of its addresses, in bounded memory.
//!
//! To scale addresses one must know how far they reach; to pack them, which regions are touched at
//! all. Regions are whole pieces of [`MIN_PIECE_BYTES`] at first; when more than [`MAX_PIECES`]
//! are touched, or very many by one request, pieces are made twice as large until they are fewer.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use super::record::Record;
use crate::source::Operation;

/// Devices told apart.
pub(super) const MAX_DEVICES: usize = 65_536;

/// The smallest piece of the address space that is kept whole.
pub(super) const MIN_PIECE_BYTES: u64 = 1 << 20;

/// Touched pieces that are remembered: about ten MiB of memory.
pub(super) const MAX_PIECES: usize = 1 << 18;

/// Pieces that one request may touch before pieces are made larger, so that no request is work
/// without end.
const MAX_OF_ONE: u64 = 1 << 12;

/// How far each device reaches, and which of its pieces are touched.
#[derive(Clone, Debug)]
pub struct Survey {
    reach: BTreeMap<u32, u64>,
    touched: Option<BTreeSet<(u32, u64)>>,
    /// Pieces are 2 to this power.
    piece_bits: u32,
}

/// Why a trace cannot be surveyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SurveyError {
    /// More devices than are told apart.
    #[error("the trace has more than {max} devices; choose some of them, or let addresses wrap")]
    Devices {
        /// How many are told apart.
        max: usize,
    },
}

impl Survey {
    /// Of nothing yet; with `touched`, pieces are remembered as well as reaches.
    #[must_use]
    pub fn new(touched: bool) -> Self {
        Self {
            reach: BTreeMap::new(),
            touched: touched.then(BTreeSet::new),
            piece_bits: MIN_PIECE_BYTES.trailing_zeros(),
        }
    }

    /// Learns from one record. Flushes have no address. Discards reach as far as they do, but touch
    /// nothing: a file system that trims a whole disk does not use it.
    ///
    /// # Errors
    /// When there are too many devices.
    pub fn add(&mut self, record: &Record) -> Result<(), SurveyError> {
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

    fn touch(&mut self, record: &Record) {
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
            // Devices keep a piece each, so there are always fewer than there may be.
            self.coarsen();
        }
    }

    fn coarsen(&mut self) {
        self.piece_bits += 1;
        if let Some(touched) = &mut self.touched {
            *touched = touched.iter().map(|(device, piece)| (*device, piece >> 1)).collect();
        }
    }

    /// Each device and the byte behind its last, by number.
    pub fn reaches(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        self.reach.iter().map(|(device, reach)| (*device, *reach))
    }

    /// Touched pieces as device and number, in order, and the size of a piece; `None` when they
    /// were not asked for.
    #[must_use]
    pub fn pieces(&self) -> Option<(Vec<(u32, u64)>, u32)> {
        self.touched.as_ref().map(|touched| (touched.iter().copied().collect(), self.piece_bits))
    }
}
