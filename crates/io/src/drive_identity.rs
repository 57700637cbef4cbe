//! [`DriveIdentity`]: the test by which a drive that was disconnected is recognized when it
//! returns.

use std::fmt;

/// A test of a drive's first bytes that distinguishes it from other drives of its size.
///
/// Called on its own thread before anything else is sent to a drive that returned. The result must
/// not depend on writes in progress at the disconnection, which may or may not have happened.
pub struct DriveIdentity {
    bytes: u64,
    judge: Box<Judge>,
}

type Judge = dyn Fn(&[u8]) -> Result<(), String> + Send + Sync;

impl DriveIdentity {
    /// `judge` receives the first `bytes` of a drive, or all of a smaller one, with zeroes in place
    /// of unreadable sectors. Its error is the difference, such as "it holds other volumes".
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
    /// The difference.
    pub(crate) fn judge(&self, start: &[u8]) -> Result<(), String> {
        (self.judge)(start)
    }
}

impl fmt::Debug for DriveIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DriveIdentity").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}
