//! A client's stream: a socket, and TLS on it once both sides have agreed to. As [`Socket`],
//! readiness and attempts that never wait.
//!
//! Beside what the socket's connection has, TLS holds at most [`TLS_BYTES`]: what was encrypted and
//! not sent yet, and a record or two that came and was not taken yet.

use std::io::{self, BufRead as _, IoSlice, Read, Write};
use std::sync::Arc;

use bytes::BufMut;
use rustls::{ServerConfig, ServerConnection};
use rustls_pki_types::CertificateDer;
use tokio::io::Ready;

use crate::socket::{Attempt, Socket};

/// The most that TLS holds for a connection: what waits to be sent, a handshake message, and two
/// records.
pub const TLS_BYTES: u64 = (SEND_BYTES + 64 * 1024 + 2 * 17 * 1024) as u64;
/// Bytes that are encrypted ahead of the socket.
const SEND_BYTES: usize = 64 << 10;
/// Most pieces in one write.
const WRITE_PIECES: usize = 64;

/// A client's stream.
#[derive(Debug)]
pub(crate) struct Channel {
    socket: Socket,
    tls: Option<Box<ServerConnection>>,
    /// Bytes that were decrypted and not taken yet.
    unread: usize,
}

impl Channel {
    pub(crate) fn new(socket: Socket) -> Self {
        Self { socket, tls: None, unread: 0 }
    }

    /// From now on everything goes through TLS; [`Channel::shake_hands`] comes first.
    pub(crate) fn start_tls(&mut self, config: Arc<ServerConfig>) -> Result<(), rustls::Error> {
        let mut session = ServerConnection::new(config)?;
        session.set_buffer_limit(Some(SEND_BYTES));
        self.tls = Some(Box::new(session));
        Ok(())
    }

    pub(crate) fn is_shaking_hands(&self) -> bool {
        self.tls.as_ref().is_some_and(|session| session.is_handshaking())
    }

    /// Does what can be done of the handshake; whether it is over, or what went wrong.
    pub(crate) fn shake_hands(&mut self) -> Result<bool, String> {
        let Self { socket, tls: Some(session), unread } = self else { return Ok(true) };
        loop {
            let sent = session.write_tls_all(socket);
            if sent == Attempt::Gone {
                return Err("the client went away".to_owned());
            }
            if !session.is_handshaking() {
                return Ok(true);
            }
            match session.take_records(socket, unread) {
                Ok(Attempt::Moved(_)) => {}
                Ok(Attempt::NotNow) => return Ok(false),
                Ok(Attempt::Gone) => return Err("the client went away".to_owned()),
                Err(error) => {
                    // What is wrong is told the client as far as its socket takes it.
                    let _told = session.write_tls_all(socket);
                    return Err(error.to_string());
                }
            }
        }
    }

    /// The client's certificate, if it showed one that is trusted.
    pub(crate) fn client_certificate(&self) -> Option<&CertificateDer<'static>> {
        self.tls.as_ref()?.peer_certificates()?.first()
    }

    /// Waits until one of the wanted attempts is worth while.
    pub(crate) async fn ready(&self, read: bool, write: bool) -> io::Result<Ready> {
        self.socket.ready(read, write).await
    }

    /// Whether something can be read without the socket being ready.
    pub(crate) fn has_unread(&self) -> bool {
        self.unread > 0
    }

    /// Whether something was written that the socket has not taken yet.
    pub(crate) fn has_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|session| session.wants_write())
    }

    /// Reads what is there; `Gone` at the end of the stream.
    pub(crate) fn try_read(&mut self, buffer: &mut impl BufMut) -> Attempt {
        let Self { socket, tls, unread } = self;
        let Some(session) = tls else { return socket.try_read(buffer) };
        if !buffer.has_remaining_mut() {
            return Attempt::NotNow;
        }
        loop {
            let mut plain = session.reader();
            match plain.fill_buf() {
                Ok(bytes) if !bytes.is_empty() => {
                    let count = bytes.len().min(buffer.remaining_mut());
                    buffer.put_slice(&bytes[..count]);
                    plain.consume(count);
                    *unread = unread.saturating_sub(count);
                    return Attempt::Moved(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => *unread = 0,
                // The end, said or not: a client that was cut off and one that was cut off by
                // somebody else look alike, and neither's half message counts.
                Ok(_) | Err(_) => return Attempt::Gone,
            }
            match session.take_records(socket, unread) {
                Ok(Attempt::Moved(_)) => {}
                Ok(attempt) => return attempt,
                Err(error) => {
                    tracing::debug!("a client's TLS records: {error}");
                    let _told = session.write_tls_all(socket);
                    return Attempt::Gone;
                }
            }
        }
    }

    /// Writes as much as goes without waiting.
    pub(crate) fn try_write<'a>(&mut self, chunks: impl Iterator<Item = &'a [u8]>) -> Attempt {
        let Self { socket, tls, .. } = self;
        let Some(session) = tls else { return socket.try_write(chunks) };
        if session.wants_write() && session.write_tls_all(socket) == Attempt::Gone {
            return Attempt::Gone;
        }
        let slices: Vec<IoSlice<'_>> = chunks.take(WRITE_PIECES).map(IoSlice::new).collect();
        let taken = match session.writer().write_vectored(&slices) {
            Ok(taken) => taken,
            Err(_) => return Attempt::Gone,
        };
        if session.write_tls_all(socket) == Attempt::Gone {
            return Attempt::Gone;
        }
        if taken > 0 { Attempt::Moved(taken) } else { Attempt::NotNow }
    }

    /// Sends on what was written before; `Gone` when nothing can be sent any more.
    pub(crate) fn flush(&mut self) -> Attempt {
        let Self { socket, tls, .. } = self;
        tls.as_mut().map_or(Attempt::NotNow, |session| session.write_tls_all(socket))
    }

    /// Says farewell and waits until the other side has, too.
    pub(crate) async fn linger(mut self) {
        if let Some(session) = &mut self.tls {
            session.send_close_notify();
            while session.wants_write() {
                match session.write_tls_all(&self.socket) {
                    Attempt::Gone => return,
                    Attempt::Moved(_) => {}
                    Attempt::NotNow if self.socket.ready(false, true).await.is_err() => return,
                    Attempt::NotNow => {}
                }
            }
        }
        self.socket.linger().await;
    }
}

/// What a TLS session does with a socket that never waits.
trait OnSocket {
    /// Sends what is encrypted, as far as the socket takes it: `NotNow` when something is left.
    fn write_tls_all(&mut self, socket: &Socket) -> Attempt;

    /// Takes records from the socket and decrypts them.
    fn take_records(
        &mut self,
        socket: &Socket,
        unread: &mut usize,
    ) -> Result<Attempt, rustls::Error>;
}

impl OnSocket for ServerConnection {
    fn write_tls_all(&mut self, socket: &Socket) -> Attempt {
        while self.wants_write() {
            match self.write_tls(&mut Raw(socket)) {
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Attempt::NotNow,
                Err(_) => return Attempt::Gone,
            }
        }
        Attempt::Moved(0)
    }

    fn take_records(
        &mut self,
        socket: &Socket,
        unread: &mut usize,
    ) -> Result<Attempt, rustls::Error> {
        let read = match self.read_tls(&mut Raw(socket)) {
            Ok(0) => return Ok(Attempt::Gone),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Attempt::NotNow),
            Err(_) => return Ok(Attempt::Gone),
        };
        *unread = self.process_new_packets()?.plaintext_bytes_to_read();
        Ok(Attempt::Moved(read))
    }
}

/// The socket as what rustls reads from and writes to.
struct Raw<'s>(&'s Socket);

impl Read for Raw<'_> {
    fn read(&mut self, mut buffer: &mut [u8]) -> io::Result<usize> {
        outcome(self.0.try_read(&mut buffer), 0)
    }
}

impl Write for Raw<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self.0.try_write(slices.iter().map(|slice| &**slice)) {
            Attempt::Gone => Err(io::ErrorKind::BrokenPipe.into()),
            attempt => outcome(attempt, 0),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn outcome(attempt: Attempt, at_the_end: usize) -> io::Result<usize> {
    match attempt {
        Attempt::Moved(count) => Ok(count),
        Attempt::NotNow => Err(io::ErrorKind::WouldBlock.into()),
        Attempt::Gone => Ok(at_the_end),
    }
}
