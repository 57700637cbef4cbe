//! [`Channel`]: the stream of a client, a socket with optional TLS. Like [`Socket`], it never
//! blocks.
//!
//! In addition to the connection's memory, TLS uses at most [`TLS_BYTES`]: encrypted data that is
//! not sent yet, and one or two received records.

use std::io::{self, BufRead as _, IoSlice, Read, Write};
use std::sync::Arc;

use bytes::BufMut;
use rustls::{ServerConfig, ServerConnection};
use rustls_pki_types::CertificateDer;
use tokio::io::Ready;

use super::OLD_VERSION;
use crate::socket::{Attempt, Socket};

/// The maximum memory of TLS per connection: data to send, a handshake message, and two records.
pub const TLS_BYTES: u64 = (SEND_BYTES + 64 * 1024 + 2 * 17 * 1024) as u64;
/// The maximum number of bytes that are encrypted ahead of the socket.
const SEND_BYTES: usize = 64 << 10;
/// The maximum number of buffers per write.
const WRITE_PIECES: usize = 64;

/// A client leaves in this way if it rejects the certificate, without a message to the server.
const LEFT: &str = "the client disconnected in the handshake; if it rejects the server's \
    certificate, give it the authority that signed it, and check the dates and names in it";

/// The stream of a client.
#[derive(Debug)]
pub(crate) struct Channel {
    socket: Socket,
    tls: Option<Box<ServerConnection>>,
    /// The number of decrypted bytes that are not read yet.
    unread: usize,
}

impl Channel {
    pub(crate) fn new(socket: Socket) -> Self {
        Self { socket, tls: None, unread: 0 }
    }

    /// Switches to TLS; [`Channel::shake_hands`] comes first.
    pub(crate) fn start_tls(&mut self, config: Arc<ServerConfig>) -> Result<(), rustls::Error> {
        let mut session = ServerConnection::new(config)?;
        session.set_buffer_limit(Some(SEND_BYTES));
        self.tls = Some(Box::new(session));
        Ok(())
    }

    pub(crate) fn is_shaking_hands(&self) -> bool {
        self.tls.as_ref().is_some_and(|session| session.is_handshaking())
    }

    /// Continues the handshake as far as possible; returns whether it is complete.
    pub(crate) fn shake_hands(&mut self) -> Result<bool, String> {
        let Self { socket, tls: Some(session), unread } = self else { return Ok(true) };
        loop {
            let sent = session.write_tls_all(socket);
            if sent == Attempt::Gone {
                return Err(LEFT.to_owned());
            }
            if !session.is_handshaking() {
                return Ok(true);
            }
            match session.take_records(socket, unread) {
                Ok(Attempt::Moved(_)) => {}
                Ok(Attempt::NotNow) => return Ok(false),
                Ok(Attempt::Gone) => return Err(LEFT.to_owned()),
                Err(error) => {
                    // Send the alert as far as the socket accepts it.
                    let _sent = session.write_tls_all(socket);
                    return Err(refusal(&error));
                }
            }
        }
    }

    /// The client's certificate, if it presented a trusted one.
    pub(crate) fn client_certificate(&self) -> Option<&CertificateDer<'static>> {
        self.tls.as_ref()?.peer_certificates()?.first()
    }

    /// Waits until reading or writing, as requested, is possible.
    pub(crate) async fn ready(&self, read: bool, write: bool) -> io::Result<Ready> {
        self.socket.ready(read, write).await
    }

    /// Returns whether data can be read without a readable socket.
    pub(crate) fn has_unread(&self) -> bool {
        self.unread > 0
    }

    /// Returns whether the socket has not accepted all written data yet.
    pub(crate) fn has_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|session| session.wants_write())
    }

    /// Reads the available data; `Gone` at the end of the stream.
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
                // The end of the stream, with or without a closing message: an incomplete request
                // does not count in either case.
                Ok(_) | Err(_) => return Attempt::Gone,
            }
            match session.take_records(socket, unread) {
                Ok(Attempt::Moved(_)) => {}
                Ok(attempt) => return attempt,
                Err(error) => {
                    tracing::debug!("a client's TLS records: {error}");
                    let _sent = session.write_tls_all(socket);
                    return Attempt::Gone;
                }
            }
        }
    }

    /// Writes as much as possible without blocking.
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

    /// Continues sending written data; `Gone` if nothing can be sent any more.
    pub(crate) fn flush(&mut self) -> Attempt {
        let Self { socket, tls, .. } = self;
        tls.as_mut().map_or(Attempt::NotNow, |session| session.write_tls_all(socket))
    }

    /// Closes the stream in order and waits for the other side.
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

/// The reason why a handshake failed, with its remedy.
fn refusal(error: &rustls::Error) -> String {
    use rustls::CertificateError as Fault;
    let fault = match error {
        rustls::Error::NoCertificatesPresented => {
            return "the client presented no certificate that client_ca could have signed; give \
                it one that an authority in that file signed"
                .to_owned();
        }
        rustls::Error::InvalidCertificate(fault) => fault,
        other => return other.to_string(),
    };
    let remedy = match fault {
        Fault::Expired | Fault::ExpiredContext { .. } => "renew it",
        Fault::NotValidYet | Fault::NotValidYetContext { .. } => "check the clocks",
        Fault::UnknownIssuer | Fault::BadSignature => {
            "no authority in client_ca signed it; sign it with one of them, or add the authority"
        }
        Fault::Revoked => "client_crl revokes it; issue another one",
        Fault::Other(cause) if cause.to_string() == "UnsupportedCertVersion" => {
            return format!("the client's certificate: {OLD_VERSION}");
        }
        _ => "issue another one, as docs/tls.md shows",
    };
    format!("the client's certificate is rejected ({fault}); {remedy}")
}

/// The operations of a TLS session on a nonblocking socket.
trait OnSocket {
    /// Sends encrypted data as far as the socket accepts it: `NotNow` if some is left.
    fn write_tls_all(&mut self, socket: &Socket) -> Attempt;

    /// Receives records and decrypts them.
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

/// The socket as the reader and writer of rustls.
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

#[cfg(test)]
mod tests {
    use rustls::server::WebPkiClientVerifier;
    use rustls::{CertificateError, Error, RootCertStore};
    use rustls_pki_types::UnixTime;
    use rustls_pki_types::pem::PemObject as _;

    use super::*;

    #[test]
    fn a_refused_certificate_is_named_with_its_fault_and_a_remedy() {
        let of = |fault| refusal(&Error::InvalidCertificate(fault));
        let (expired, unknown) =
            (of(CertificateError::Expired), of(CertificateError::UnknownIssuer));
        assert!(expired.contains("(Expired)") && expired.contains("renew it"), "{expired}");
        assert!(unknown.contains("no authority in client_ca signed it"), "{unknown}");
        let none = refusal(&Error::NoCertificatesPresented);
        assert!(none.contains("presented no certificate"), "{none}");

        let old = include_str!("../../tests/version1.pem");
        let old = CertificateDer::from_pem_slice(old.as_bytes()).expect("a certificate");
        let mut roots = RootCertStore::empty();
        roots.add(old.clone()).expect("a trust anchor");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .expect("a verifier");
        let error = verifier.verify_client_cert(&old, &[], UnixTime::now()).map(drop);
        let old = refusal(&error.expect_err("a certificate of version 1"));
        assert!(old.contains("X.509 version 1"), "{old}");
    }
}
