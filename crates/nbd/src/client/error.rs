//! Errors of a client's connection: its configuration, a submission, a request, the connection
//! itself.

use alloc::string::String;

use crate::errno::Errno;
use crate::export::ExportInfoError;
use crate::limits::LimitsError;
use crate::wire::{self, option_error_text};

/// A connection that cannot begin.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ClientConfigError {
    /// The limits do not go together.
    #[error(transparent)]
    ServerLimits(#[from] LimitsError),
    /// The name cannot be one.
    #[error(transparent)]
    Export(#[from] ExportInfoError),
}

/// A request that was not sent. Nothing has changed by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum ClientSubmitError {
    /// The export is not open yet, or the connection is ending.
    #[error("the export is not open; wait for Opened, and submit nothing after disconnect")]
    NotOpen,
    /// As many requests are in flight as allowed.
    #[error("{max} requests are in flight; wait for a completion, or raise max_in_flight")]
    TooMany { max: u32 },
    /// As many bytes are in flight, or wait to be sent, as allowed.
    #[error(
        "{in_flight} bytes are in flight and {additional} more were submitted, {max} are allowed; \
            wait for a completion"
    )]
    TooManyBytes { in_flight: u64, additional: u64, max: u64 },
    #[error("the server does not offer {command} for this export; see the session's flags")]
    NotOffered { command: &'static str },
    /// The server does not offer a flag of the command for this export.
    #[error("the server does not offer {flag} for this export; see the session's flags")]
    FlagNotOffered { flag: &'static str },
    /// BLOCK_STATUS without a metadata context.
    #[error("the server gave no base:allocation context for this export; see the session")]
    NoContext,
    /// A command that writes, on a read-only export.
    #[error("{command} on a read-only export")]
    ReadOnly { command: &'static str },
    #[error("{command} with a length of zero, on which servers disagree; leave it out")]
    Empty { command: &'static str },
    /// A range that reaches past the end.
    #[error("{command} at {offset} + {length} bytes reaches past the end of the export at {size}")]
    BeyondEnd { command: &'static str, offset: u64, length: u64, size: u64 },
    /// A range off the grid.
    #[error(
        "{command} at {offset} + {length} bytes: both must be multiples of the minimum block of \
            {minimum} bytes"
    )]
    Unaligned { command: &'static str, offset: u64, length: u64, minimum: u32 },
    /// Longer than the server or the limits allow.
    #[error("{command} of {length} bytes: at most {max} fit in one request; split it")]
    TooLong { command: &'static str, length: u64, max: u32 },
}

/// A request that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum RequestError {
    /// The server reported an error.
    #[error("server: {errno}{}{text}", if text.is_empty() { "" } else { ": " })]
    Server {
        errno: Errno,
        text: String,
        /// The place of the error, if the server sent it.
        offset: Option<u64>,
    },
    #[error(
        "the connection ended before the answer; whether the request was carried out is unknown"
    )]
    ConnectionLost,
}

/// The reason why a connection ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum CloseReason {
    /// The list or description was got, or `disconnect` was called during the handshake.
    #[error("done")]
    Finished,
    /// `disconnect` was called, or the server announced its shutdown, and all requests are
    /// completed.
    #[error("disconnected")]
    Disconnected,
    /// The byte stream ended.
    #[error("the server closed the connection during {doing} with {in_flight} requests in flight")]
    EndOfInput { doing: &'static str, in_flight: usize },
    /// The server does not speak NBD.
    #[error(
        "the server began with {0:#018x} instead of NBDMAGIC (0x4e42444d41474943); not an NBD \
            server?"
    )]
    NotNbd(u64),
    #[error(
        "the server speaks the oldstyle NBD protocol, which is not supported; use a newstyle \
            server (since 2011)"
    )]
    Oldstyle,
    /// The server knows no options, which listing and describing need.
    #[error(
        "the server knows no options (no fixed newstyle), so exports can only be opened, not \
            listed or described"
    )]
    NoOptions,
    /// The server refused an option that is needed.
    #[error(
        "server refused {option}: {}{}{text}{}",
        option_error_text(*error),
        if text.is_empty() { "" } else { ": " },
        remedy(*error)
    )]
    Refused { option: &'static str, error: u32, text: String },
    /// A message that does not start like one.
    #[error("message magic {0:#x} is not the start of a reply; the server is out of step")]
    Magic(u64),
    /// The server answered more than the limits allow.
    #[error(
        "the server sent {bytes} bytes or entries of {what}, more than {limit} = {allowed}; raise \
            it if the server is honest"
    )]
    TooMuch { what: &'static str, bytes: u64, limit: &'static str, allowed: u64 },
    /// The server broke a rule of the protocol.
    #[error("the server broke the protocol: {0}")]
    Violation(&'static str),
}

fn remedy(error: u32) -> &'static str {
    match error {
        wire::REP_ERR_TLS_REQD => {
            "; TLS is not supported here: use a tunnel (ssh -L, stunnel), or let the server serve \
                without TLS"
        }
        wire::REP_ERR_UNKNOWN => "; list the server's exports to see their names",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn messages_name_the_thing_and_the_remedy() {
        let refused = CloseReason::Refused {
            option: "GO",
            error: wire::REP_ERR_UNKNOWN,
            text: "vol9".into(),
        };
        assert_eq!(
            refused.to_string(),
            "server refused GO: no such export: vol9; list the server's exports to see their names"
        );
        let failed = RequestError::Server { errno: Errno::Io, text: String::new(), offset: None };
        assert_eq!(failed.to_string(), "server: input/output error (EIO)");
    }
}
