//! Reasons for a server to refuse an export, to end a connection, or to return an error to its
//! caller.

use alloc::string::String;

use crate::export::ExportInfoError;

/// The reason why an export is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExportRefusal {
    /// No such export.
    #[error("no such export")]
    Unknown,
    /// It exists, but this client may not use it; the text is sent to the client.
    #[error("refused by policy: {0}")]
    Policy(String),
    /// The server is going down.
    #[error("the server is shutting down")]
    ShuttingDown,
}

/// The reason why a connection ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum CloseReason {
    /// The client sent ABORT during the handshake.
    #[error("client ended the handshake")]
    Aborted,
    /// The client sent DISC, and every request before it has been answered.
    #[error("client disconnected")]
    Disconnected,
    /// The byte stream ended without DISC.
    #[error(
        "client closed the connection with {in_flight} requests in flight{}",
        if *mid_message { ", in the middle of a message" } else { "" }
    )]
    EndOfInput { in_flight: usize, mid_message: bool },
    /// Client flags that were not offered.
    #[error(
        "client flags {0:#x}: expected only fixed newstyle (1) and no zeroes (2); use a current \
            NBD client"
    )]
    ClientFlags(u32),
    /// An option without the option magic.
    #[error(
        "option magic {0:#018x}: expected 0x49484156454f5054; the client lost synchronization, or \
            is not an NBD client"
    )]
    OptionMagic(u64),
    /// A request without the request magic.
    #[error("request magic {0:#010x}: expected 0x25609513; the client lost synchronization")]
    RequestMagic(u32),
    /// EXPORT_NAME outside of TLS, where TLS is required; the option has no error reply.
    #[error(
        "EXPORT_NAME before STARTTLS: TLS is required; use a client that sends GO, which gets an \
            error reply"
    )]
    TlsRequired,
    #[error(
        "plaintext after STARTTLS: expected nothing before TLS begins; an attacker between client \
            and server may have inserted it"
    )]
    AfterStartTls,
    /// More options than allowed.
    #[error(
        "more than {limit} options before the transmission phase; raise max_options if the client \
            is honest"
    )]
    TooManyOptions { limit: u32 },
    /// EXPORT_NAME with an invalid name; the option has no error reply.
    #[error(
        "EXPORT_NAME with {bytes} bytes: expected a name in UTF-8 without NUL, at most 4096 bytes"
    )]
    ExportName { bytes: u32 },
    /// EXPORT_NAME for a refused export; the option has no error reply.
    #[error("EXPORT_NAME for \"{name}\": {refusal}; a client that sends GO gets an error reply")]
    ExportRefused { name: String, refusal: ExportRefusal },
    /// A WRITE so long that reading past it would be a denial of service.
    #[error(
        "WRITE of {length} bytes: expected at most {allowed}; the client ignores the maximum block \
            size"
    )]
    PayloadTooLong { length: u32, allowed: u32 },
}

/// An `answer_*` call that does not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// No such answer is awaited.
    #[error("no {0} is awaited; answer each lookup event once")]
    NotAsked(&'static str),
    /// The export cannot be served; the lookup is still open and can be answered with a refusal.
    #[error(transparent)]
    Export(#[from] ExportInfoError),
}
