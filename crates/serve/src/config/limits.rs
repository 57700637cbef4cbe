//! [`ServeLimits`]: the bounds of a server, and their total.

use headtime_units::{ByteSize, Nanos};

use crate::memory;
use crate::pieces::WINDOW;

/// The bounds of the server; [`ServeLimits::memory_bound`] is their total.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeLimits {
    /// Maximum number of connections; a further one is closed at once.
    pub connections: u32,
    /// Memory that all connections share for requests in flight and unsent replies, in addition to
    /// each connection's own.
    pub memory: ByteSize,
    /// Memory of each connection, which lets it progress whatever the others do.
    pub connection_memory: ByteSize,
    /// Maximum bytes of requests in flight on one connection.
    pub connection_bytes: ByteSize,
    /// Maximum number of requests in flight on one connection.
    pub connection_requests: u32,
    /// Maximum length of a client's read or write.
    pub request: ByteSize,
    /// Maximum length of a request at the scheduler; longer ones are split.
    pub piece: ByteSize,
    /// Maximum number of pieces at the scheduler.
    pub pieces: u32,
    /// Maximum time from connecting to opening an export.
    pub handshake_timeout: Nanos,
    /// The time in which a connection that holds shared memory must move data while others wait for
    /// memory.
    pub stall_timeout: Nanos,
}

impl Default for ServeLimits {
    /// 256 connections of 1 MiB each and 512 MiB shared, together less than 1 GiB. All are guesses
    /// within the recommendations of the protocol.
    fn default() -> Self {
        Self {
            connections: 256,
            memory: ByteSize::new(512 << 20),
            connection_memory: ByteSize::new(1 << 20),
            connection_bytes: ByteSize::new(64 << 20),
            connection_requests: 256,
            request: ByteSize::new(32 << 20),
            piece: ByteSize::new(1 << 20),
            pieces: 16_384,
            handshake_timeout: Nanos::from_secs(10),
            stall_timeout: Nanos::from_secs(30),
        }
    }
}

impl ServeLimits {
    /// The maximum memory of the requests and replies of all connections:
    ///
    /// ```text
    /// memory × 33/32 + pieces × 512
    ///     + connections × (connection_memory × 33/32 + connection_requests × 1 KiB + 208 KiB)
    /// ```
    /// 1/32 is for the pages on which the data of writes starts. 1 KiB is the state of a request in
    /// the protocol, without its data; 208 KiB are the buffers for headers, options and replies
    /// (the formula of `headtime_nbd`); 512 bytes are the state of a piece in the scheduler and the
    /// engine. In addition, each connection may be sending a list
    /// of exports, and the engine may hold a copy, aligned for direct I/O, of data at the drive
    /// that starts on no page: the queue depth times `piece`. A connection over TLS takes
    /// [`TLS_BYTES`](crate::tls::TLS_BYTES) more.
    #[must_use]
    pub fn memory_bound(&self) -> ByteSize {
        let on_pages = |bytes: ByteSize| bytes.get() + bytes.get() / 32;
        let of_its_own = on_pages(self.connection_memory)
            + u64::from(self.connection_requests) * 1024
            + (208 << 10);
        ByteSize::new(
            on_pages(self.memory)
                + u64::from(self.connections) * of_its_own
                + u64::from(self.pieces) * 512,
        )
    }

    /// The maximum memory of one request: its data, and the pieces of a CACHE request.
    pub(crate) fn longest_bytes(&self) -> u64 {
        self.request.get() + WINDOW as u64 * self.piece.get()
    }

    /// The bytes of requests in flight for which a connection eventually receives memory, however
    /// many exports have guaranteed memory: its own memory and the unguaranteed part of the pool,
    /// less the maximum of a CACHE request.
    pub(crate) fn grantable_bytes(&self) -> u64 {
        let window = WINDOW as u64 * self.piece.get();
        let unkept = memory::unreserved_pages(self) * memory::PAGE_BYTES;
        (self.connection_memory.get() + unkept).saturating_sub(window).max(self.request.get())
    }

    pub(super) fn contradictions(&self) -> Vec<String> {
        let at_least = |key: &str, value: ByteSize, other: &str, min: ByteSize| {
            (value < min).then(|| {
                format!(
                    "limits: {key} = {value} is less than {other} = {min}; \
                    raise {key} or lower {other}"
                )
            })
        };
        [
            at_least(
                "memory",
                self.memory,
                "request and four times piece",
                ByteSize::new(self.longest_bytes()),
            ),
            at_least("connection_bytes", self.connection_bytes, "request", self.request),
            at_least("request", self.request, "piece", self.piece),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}
