//! [`DriveIdentity`]: by what a drive that was away is known to be the same one when it is back.

use std::fmt;

/// A test of a drive's first bytes that distinguishes it from other drives of its size.
///
/// Asked before anything else is sent to a drive that came back, on a thread of its own. The answer
/// must not hang on what is being written at that time: what was on its way when the drive went
/// away may have happened or not.
pub struct DriveIdentity {
    bytes: u64,
    judge: Box<Judge>,
}

type Judge = dyn Fn(&[u8]) -> Result<(), String> + Send + Sync;

impl DriveIdentity {
    /// `judge` is given the first `bytes` of a drive, or all there is of a smaller one, with zeroes
    /// in place of what cannot be read; it answers what makes it another drive, as the end of the
    /// sentence "what answers there now is not the drive that went away: ".
    pub fn from_start(
        bytes: u64,
        judge: impl Fn(&[u8]) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self { bytes, judge: Box::new(judge) }
    }

    /// The number of bytes to read.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Tests the first bytes of a drive.
    ///
    /// # Errors
    /// What makes it another.
    pub(crate) fn judge(&self, start: &[u8]) -> Result<(), String> {
        (self.judge)(start)
    }
}

impl fmt::Debug for DriveIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DriveIdentity").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
