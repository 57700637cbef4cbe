//! The limits of a connection, and its memory bound.
//!
//! Defaults are guesses unless a source is given; the formulas are those of the crate's
//! documentation.

/// The most bytes read ahead of the message being parsed: about as many as a unix socket holds, so
/// that one read takes all small requests of a client, which prepares the next ones meanwhile.
pub const HEAD_BYTES: usize = 128 << 10;
/// Replies to one option may queue this much, not counting the list of exports: at most three
/// strings of 4,096 bytes with their headers.
pub const OPTION_REPLY_BYTES: usize = 16 << 10;
/// Payloads of this length or longer start on a page: they take [`ALIGNMENT`] bytes more, which is
/// at most 1/32 of them.
pub(crate) const ALIGNED_BODY_BYTES: usize = 32 * ALIGNMENT;
/// The bytes of a page, as direct I/O requires at most.
pub(crate) const ALIGNMENT: usize = 4096;
/// Upper bound of what one request costs besides its data: table entries, reply header, error text.
pub const REQUEST_OVERHEAD_BYTES: usize = 1 << 10;
/// The client's memory for one disjoint piece of a fragmented read.
pub const FRAGMENT_BYTES: usize = 16;
/// A WRITE longer than this (and than the maximum) ends the connection; a shorter one is skipped
/// and refused. According to proto.md, "Size constraints", nothing up to 2^25 bytes is an attack.
pub const DENIAL_OF_SERVICE_BYTES: u32 = 32 << 20;

/// Longest text sent with an error, bytes.
pub(crate) const MAX_ERROR_TEXT_BYTES: usize = 256;
/// Size of an extent on the wire.
pub(crate) const EXTENT_BYTES: usize = 8;

/// Limits of one server connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerLimits {
    /// Longest READ or WRITE in bytes, advertised as the maximum block size. From 65,536 (the
    /// largest minimum block) to 2^30. Default 32 MiB: what every client may assume.
    pub max_request_bytes: u32,
    /// Requests received whose reply is not yet sent. At least 1, default 256: deeper than nbdcopy
    /// (64) and any disk's queue.
    pub max_in_flight: u32,
    /// Bytes of those requests (READ and WRITE: length; BLOCK_STATUS: eight per extent allowed). At
    /// least `max_request_bytes`, default 64 MiB.
    pub max_in_flight_bytes: u64,
    /// Longest data of one option; longer ones are read past and refused. At least 4,106 (the
    /// longest GO without information requests), default 64 KiB.
    pub max_option_bytes: u32,
    /// Options before the transmission phase; one more ends the connection. At least 1, default
    /// 1,024.
    pub max_options: u32,
    /// Extents in one BLOCK_STATUS reply; further ones are left out, which the protocol allows.
    /// From 1 to 2^20 (the protocol's own advice), default 4,096.
    pub max_extents: u32,
}

impl Default for ServerLimits {
    fn default() -> Self {
        ServerLimits {
            max_request_bytes: 32 << 20,
            max_in_flight: 256,
            max_in_flight_bytes: 64 << 20,
            max_option_bytes: 64 << 10,
            max_options: 1024,
            max_extents: 4096,
        }
    }
}

impl ServerLimits {
    /// Checks if the limits are consistent.
    ///
    /// # Errors
    /// [`LimitsError`] with the first limit that is too small or too large.
    pub fn check(&self) -> Result<(), LimitsError> {
        let extents = u64::from(self.max_extents) * EXTENT_BYTES as u64;
        at_least("max_request_bytes", u64::from(self.max_request_bytes), 65_536)?;
        at_most("max_request_bytes", u64::from(self.max_request_bytes), 1 << 30)?;
        at_least("max_in_flight", u64::from(self.max_in_flight), 1)?;
        at_least("max_extents", u64::from(self.max_extents), 1)?;
        at_most("max_extents", u64::from(self.max_extents), 1 << 20)?;
        at_least(
            "max_in_flight_bytes",
            self.max_in_flight_bytes,
            u64::from(self.max_request_bytes).max(extents),
        )?;
        at_least("max_option_bytes", u64::from(self.max_option_bytes), 4106)?;
        at_least("max_options", u64::from(self.max_options), 1)
    }

    /// The most bytes of a connection in memory, for any client; the formula is in the crate's
    /// documentation.
    pub fn memory_bound(&self) -> u64 {
        let requests = u64::from(self.max_in_flight) * REQUEST_OVERHEAD_BYTES as u64;
        (HEAD_BYTES + OPTION_REPLY_BYTES) as u64
            + u64::from(self.max_option_bytes)
            + self.max_in_flight_bytes
            + self.max_in_flight_bytes / (ALIGNED_BODY_BYTES / ALIGNMENT) as u64
            + requests
    }
}

/// Limits of one client connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientLimits {
    /// Requests submitted and not yet completed. At least 1, default 256.
    pub max_in_flight: u32,
    /// Bytes of those requests (READ and WRITE: length; BLOCK_STATUS: eight per extent allowed). At
    /// least 65,536 and eight per extent, default 64 MiB. A longer request than this can never be
    /// submitted.
    pub max_in_flight_bytes: u64,
    /// Longest single reply to an option. At least 8,196 (name and description), default 64 KiB.
    pub max_option_reply_bytes: u32,
    /// Names and descriptions of one list of exports, each entry counted at its length plus 64.
    /// Default 16 MiB.
    pub max_list_bytes: u64,
    /// Replies to one option besides the list of exports. Default 64.
    pub max_option_replies: u32,
    /// The most extents of a BLOCK_STATUS reply; further ones are dropped. From 1 to 2^20, default
    /// 4,096.
    pub max_extents: u32,
    /// Disjoint pieces in which a read may lie assembled at one moment; a server that scatters more
    /// is left. At least 1, default 1,024. Pieces that touch count as one, so pieces in order never
    /// reach it.
    pub max_fragments: u32,
}

impl Default for ClientLimits {
    fn default() -> Self {
        ClientLimits {
            max_in_flight: 256,
            max_in_flight_bytes: 64 << 20,
            max_option_reply_bytes: 64 << 10,
            max_list_bytes: 16 << 20,
            max_option_replies: 64,
            max_extents: 4096,
            max_fragments: 1024,
        }
    }
}

impl ClientLimits {
    /// Checks if the limits are consistent.
    ///
    /// # Errors
    /// [`LimitsError`] with the first limit that is too small or too large.
    pub fn check(&self) -> Result<(), LimitsError> {
        let extents = u64::from(self.max_extents) * EXTENT_BYTES as u64;
        at_least("max_in_flight", u64::from(self.max_in_flight), 1)?;
        at_least("max_extents", u64::from(self.max_extents), 1)?;
        at_most("max_extents", u64::from(self.max_extents), 1 << 20)?;
        at_least("max_fragments", u64::from(self.max_fragments), 1)?;
        at_least("max_in_flight_bytes", self.max_in_flight_bytes, 65_536.max(extents))?;
        at_least("max_option_reply_bytes", u64::from(self.max_option_reply_bytes), 8196)
    }

    /// The most bytes of a connection in memory, for any server; the formula is in the crate's
    /// documentation.
    pub fn memory_bound(&self) -> u64 {
        let request =
            REQUEST_OVERHEAD_BYTES as u64 + u64::from(self.max_fragments) * FRAGMENT_BYTES as u64;
        HEAD_BYTES as u64
            + u64::from(self.max_option_reply_bytes)
            + self.max_list_bytes
            + 3 * self.max_in_flight_bytes
            + u64::from(self.max_in_flight) * request
    }
}

fn at_least(limit: &'static str, value: u64, least: u64) -> Result<(), LimitsError> {
    if value < least { Err(LimitsError::TooSmall { limit, value, least }) } else { Ok(()) }
}

fn at_most(limit: &'static str, value: u64, most: u64) -> Result<(), LimitsError> {
    if value > most { Err(LimitsError::TooLarge { limit, value, most }) } else { Ok(()) }
}

/// A limit that is out of range, or contradicts another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum LimitsError {
    /// Too small to serve a client, or to fit another limit.
    #[error(
        "limit {limit} = {value}: expected at least {least}; raise it, or lower the limits it has \
            to hold"
    )]
    TooSmall { limit: &'static str, value: u64, least: u64 },
    /// Larger than the protocol can carry.
    #[error("limit {limit} = {value}: expected at most {most}; lower it")]
    TooLarge { limit: &'static str, value: u64, most: u64 },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_hold_together() {
        ServerLimits::default().check().unwrap();
        ClientLimits::default().check().unwrap();
    }

    #[test]
    fn a_limit_that_cannot_hold_one_request_is_refused() {
        let limits = ServerLimits { max_in_flight_bytes: 1 << 20, ..ServerLimits::default() };
        let error = limits.check().unwrap_err();
        assert_eq!(
            error,
            LimitsError::TooSmall { limit: "max_in_flight_bytes", value: 1 << 20, least: 32 << 20 }
        );
        assert!(ServerLimits { max_in_flight: 0, ..ServerLimits::default() }.check().is_err());
        assert!(ServerLimits { max_options: 0, ..ServerLimits::default() }.check().is_err());
        assert!(ServerLimits { max_extents: 2 << 20, ..ServerLimits::default() }.check().is_err());
        assert!(ClientLimits { max_fragments: 0, ..ClientLimits::default() }.check().is_err());
    }

    #[test]
    fn the_default_bound_is_what_the_formula_says() {
        let expected = (128 << 10) + (64 << 10) + (16 << 10) + (66 << 20) + 256 * (1 << 10);
        assert_eq!(ServerLimits::default().memory_bound(), expected);
    }
}
