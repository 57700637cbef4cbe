//! The reasons why an NBD server cannot be used as a drive.

use headtime_nbd::client::CloseReason;
use headtime_units::{ByteSize, Nanos};

/// The reason why an NBD server cannot be used as a drive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NbdError {
    /// The name of the server's machine is not known.
    #[error(
        "{uri}: the name of the server cannot be looked up: {error}; check the name, or write an \
            address"
    )]
    Lookup {
        /// The server.
        uri: String,
        /// The system's answer.
        error: String,
    },
    /// No server answers at the address.
    #[error("{uri}: connecting failed: {error}; is the server running, and is the address right?")]
    Connect {
        /// The server.
        uri: String,
        /// The system's answer, of the last address that was tried.
        error: String,
    },
    /// The server did not answer in time.
    #[error(
        "{uri}: the server did not open the export within {limit}; it may hang, or be no NBD \
            server (connect_timeout=TIME sets the limit)"
    )]
    Silent {
        /// The server.
        uri: String,
        /// The exceeded limit.
        limit: Nanos,
    },
    /// The handshake failed.
    #[error("{uri}: {reason}")]
    Handshake {
        /// The server.
        uri: String,
        /// The reason.
        reason: CloseReason,
    },
    /// The export cannot be written.
    #[error(
        "{uri}: the export is read-only; expected one that can be written; serve it for writing"
    )]
    ReadOnly {
        /// The server.
        uri: String,
    },
    /// The export's size is not valid for a drive.
    #[error(
        "{uri}: the export has {bytes} bytes; expected whole sectors of {sector_bytes} bytes, at \
            least one and at most 2^63 bytes; export a volume of such a size"
    )]
    Size {
        /// The server.
        uri: String,
        /// The export's size.
        bytes: u64,
        /// Bytes of a sector.
        sector_bytes: u32,
    },
    /// The export needs blocks larger than sectors.
    #[error(
        "{uri}: the minimum block size of the export is {minimum} bytes, and a sector has at most \
            4096; serve it with a smaller minimum block size"
    )]
    Blocks {
        /// The server.
        uri: String,
        /// Its minimum block size in bytes.
        minimum: u32,
    },
    /// The drive that returned is another one.
    #[error(
        "{uri}: the server that answers now has another drive: {difference}; reconnect the first \
            drive, or open this one again"
    )]
    Changed {
        /// The server.
        uri: String,
        /// The key that differs.
        difference: Difference,
    },
    /// The system refused a socket or a thread.
    #[error("{uri}: {doing} failed: {error}; raise the limits on threads and open files")]
    System {
        /// The server.
        uri: String,
        /// The operation.
        doing: &'static str,
        /// The system's answer.
        error: String,
    },
}

/// The difference of an export from the one that was opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Difference {
    /// Another size.
    #[error("it has {now} ({} bytes) and had {before} ({} bytes)", now.get(), before.get())]
    Size {
        /// The value at the opening.
        before: ByteSize,
        /// Now.
        now: ByteSize,
    },
    /// Larger sectors than requests were made for.
    #[error("its smallest block is a sector of {now} bytes and was one of {before}")]
    Sector {
        /// The bytes at the opening.
        before: u32,
        /// Now, bytes.
        now: u32,
    },
    /// A promise of durability is gone.
    #[error("it no longer understands {command}, by which writes are made durable")]
    Durability {
        /// FLUSH or FUA.
        command: &'static str,
    },
    /// The identifying content is missing.
    #[error("{0}")]
    Content(String),
}
