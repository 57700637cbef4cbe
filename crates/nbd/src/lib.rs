//! The Network Block Device protocol as two sans-IO state machines: bytes in, events out.
//!
//! [`server::Connection`] is one client's connection seen from the server, [`client::Connection`]
//! is one connection seen from the client, [`uri::NbdUri`] names a server in text. Nothing here
//! opens a socket, reads a clock or starts a thread; the crate is `no_std` with `alloc`. Source of
//! every number: `doc/proto.md` and `doc/uri.md` of the NetworkBlockDevice/nbd repository.
//!
//! # Driving a connection
//!
//! The same four calls on both sides, in a loop, in any order; each is cheap when there is nothing
//! to do:
//!
//! ```text
//!   socket ──► read_buffer() (in place) or receive(&[u8]) (copied), at most read_hint()
//!              bytes; end_of_input() at EOF
//!              poll_event()  until None: what happened
//!              answer_* / reply_* (server), submit / disconnect (client): what to do about it
//!   socket ◄── output_chunks() to write and advance_output(n) after it;
//!              or poll_output(), one piece at a time
//! ```
//! After `answer_*`, `reply_*` and `advance_output` call `poll_event` again: they make room, and
//! room makes events.
//!
//! # Copies
//!
//! A WRITE's payload is one contiguous allocation of exactly its length. The part that arrived in
//! the same read as its header (at most [`HEAD_BYTES`]) is copied once; the caller reads the rest
//! straight into it through `read_buffer()`. It is returned as [`bytes::Bytes`]. READ data enters
//! the output queue as the caller's `Bytes` and is never copied. The client mirrors this; only a
//! read that the server fragments is assembled by copying.
//!
//! # Memory
//!
//! Per connection, whatever the peer sends, `buffered_bytes()` plus the WRITE payloads handed out
//! and not yet answered stay within
//!
//! ```text
//! server   HEAD_BYTES + max_option_bytes + OPTION_REPLY_BYTES
//!          + max_in_flight_bytes * 33 / 32 (pages of WRITE payloads)
//!          + max_in_flight * REQUEST_OVERHEAD_BYTES
//!            (ServerLimits::memory_bound)
//!          + the export list the caller gives in answer to LIST, once
//! client   HEAD_BYTES + max_option_reply_bytes + max_list_bytes + 3 * max_in_flight_bytes
//!          + max_in_flight * (REQUEST_OVERHEAD_BYTES + max_fragments * FRAGMENT_BYTES)
//!            (ClientLimits::memory_bound)
//! ```
//! The server keeps the bound by not reading: at the limit `read_hint()` is 0 until replies have
//! been sent. The client keeps it by refusing [`client::Connection::submit`], and by closing the
//! connection if the server sends more than was requested. Requests in flight count READ and WRITE
//! at their length and BLOCK_STATUS at eight bytes for each extent allowed. A READ answered in many
//! segments costs another 64 bytes per segment, which the caller decides. Time is not bounded here:
//! the caller needs timeouts for a peer that sends nothing.
//!
//! # Not supported
//!
//! - TLS itself, which the caller carries out. The server reports its beginning
//!   ([`server::ServerEvent::StartTls`]). The client has none, and refuses `nbds://` with the
//!   remedy in the message.
//! - Extended headers (64-bit lengths), the RESIZE extension: answered `ERR_UNSUP`, respectively
//!   never advertised.
//! - Oldstyle servers and clients.
//! - Metadata contexts other than `base:allocation`.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod client;
mod command;
mod errno;
mod export;
mod inbox;
mod limits;
mod outbox;
pub mod server;
pub mod uri;
pub mod wire;

pub use command::{COMMANDS, CommandSpec, NbdCommand};
pub use errno::Errno;
pub use export::{
    BlockSizes, ExportFlags, ExportInfo, ExportInfoError, ExportSession, ListedExport, StatusExtent,
};
pub use limits::{
    ClientLimits, HEAD_BYTES, LimitsError, OPTION_REPLY_BYTES, REQUEST_OVERHEAD_BYTES, ServerLimits,
};
pub use limits::{DENIAL_OF_SERVICE_BYTES, FRAGMENT_BYTES};
