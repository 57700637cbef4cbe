//! The error values a reply may carry. The protocol fixed eight numbers; everything else counts as
//! EINVAL.

use core::fmt;

/// An error in a reply to a request. Numbers and meaning: proto.md, "Error values".
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Errno {
    /// 1: writing a read-only export.
    Perm,
    /// 5: the medium failed.
    Io,
    /// 12: no memory; servers should not send it.
    NoMemory,
    /// 22: malformed, unaligned, beyond the end of a read, or unknown.
    Invalid,
    /// 28: beyond the end of a write, or the medium is full.
    NoSpace,
    /// 75: too long to be answered unfragmented, or to be done at once.
    Overflow,
    /// 95: zeroing would not be fast.
    NotSupported,
    /// 108: the server is going down.
    Shutdown,
}

/// Every error: value, number on the wire, name, text.
const ERRNOS: &[(Errno, u32, &str, &str)] = &[
    (Errno::Perm, 1, "EPERM", "operation not permitted"),
    (Errno::Io, 5, "EIO", "input/output error"),
    (Errno::NoMemory, 12, "ENOMEM", "cannot allocate memory"),
    (Errno::Invalid, 22, "EINVAL", "invalid argument"),
    (Errno::NoSpace, 28, "ENOSPC", "no space left on device"),
    (Errno::Overflow, 75, "EOVERFLOW", "value too large"),
    (Errno::NotSupported, 95, "ENOTSUP", "operation not supported"),
    (Errno::Shutdown, 108, "ESHUTDOWN", "server is shutting down"),
];

impl Errno {
    /// The number on the wire.
    pub fn code(self) -> u32 {
        self.row().1
    }

    /// The error for a number on the wire; unknown numbers are `Invalid`, as the protocol asks of
    /// clients.
    pub fn from_code(code: u32) -> Errno {
        ERRNOS.iter().find(|row| row.1 == code).map_or(Errno::Invalid, |row| row.0)
    }

    /// The usual C name, such as `EINVAL`.
    pub fn name(self) -> &'static str {
        self.row().2
    }

    fn row(self) -> &'static (Errno, u32, &'static str, &'static str) {
        ERRNOS.iter().find(|row| row.0 == self).expect("every error has a row in ERRNOS")
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.row().3, self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn every_error_survives_the_wire_and_strangers_become_einval() {
        for row in ERRNOS {
            assert_eq!(Errno::from_code(row.0.code()), row.0);
        }
        assert_eq!(Errno::from_code(2), Errno::Invalid);
        assert_eq!(Errno::NoSpace.to_string(), "no space left on device (ENOSPC)");
    }
}
