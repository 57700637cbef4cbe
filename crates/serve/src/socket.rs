//! A client's socket, unix or TCP, with nonblocking operations.

use std::io::{self, IoSlice};

use bytes::BufMut;
use rustix::net::sockopt;
use tokio::io::{AsyncWriteExt as _, Interest, Ready};
use tokio::net::{TcpStream, UnixStream};

/// A connected stream socket.
#[derive(Debug)]
pub(crate) enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// The result of a nonblocking operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// The number of bytes transferred.
    Moved(usize),
    /// The socket is not ready.
    NotNow,
    /// The other side has closed the connection.
    Gone,
}

/// The maximum number of buffers per write: below the system's limit (IOV_MAX is 1,024) and more
/// than a reply has.
const WRITE_PIECES: usize = 64;

impl Socket {
    /// Wraps a TCP connection: small replies are sent at once, and a lost peer is detected.
    pub(crate) fn tcp(stream: TcpStream) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, std::time::Duration::from_secs(60))?;
        sockopt::set_tcp_keepintvl(&stream, std::time::Duration::from_secs(15))?;
        sockopt::set_tcp_keepcnt(&stream, 4)?;
        Ok(Self::Tcp(stream))
    }

    /// Waits until reading or writing, as requested, is possible.
    pub(crate) async fn ready(&self, read: bool, write: bool) -> io::Result<Ready> {
        let interest = match (read, write) {
            (true, true) => Interest::READABLE | Interest::WRITABLE,
            (false, true) => Interest::WRITABLE,
            _ => Interest::READABLE,
        };
        match self {
            Self::Unix(stream) => stream.ready(interest).await,
            Self::Tcp(stream) => stream.ready(interest).await,
        }
    }

    /// Reads the available data; `Gone` at the end of the stream.
    pub(crate) fn try_read(&self, buffer: &mut impl BufMut) -> Attempt {
        let room = buffer.chunk_mut().len();
        if room == 0 {
            return Attempt::NotNow;
        }
        let mut read = Err(io::ErrorKind::WouldBlock.into());
        // A read that leaves room has emptied the socket: the runtime then waits for the next
        // event, without another read that finds nothing.
        let mut note = |result| {
            read = result;
            match read {
                Ok(count) if 0 < count && count < room => Err(io::ErrorKind::WouldBlock.into()),
                _ => Ok(()),
            }
        };
        let _emptied = match self {
            Self::Unix(stream) => {
                stream.try_io(Interest::READABLE, || note(stream.try_read_buf(buffer)))
            }
            Self::Tcp(stream) => {
                stream.try_io(Interest::READABLE, || note(stream.try_read_buf(buffer)))
            }
        };
        match read {
            Ok(0) => Attempt::Gone,
            other => attempt(other),
        }
    }

    /// Writes as much as possible without blocking.
    pub(crate) fn try_write<'a>(&self, chunks: impl Iterator<Item = &'a [u8]>) -> Attempt {
        let mut slices = [IoSlice::new(&[]); WRITE_PIECES];
        let mut count = 0;
        for (slice, chunk) in slices.iter_mut().zip(chunks) {
            *slice = IoSlice::new(chunk);
            count += 1;
        }
        attempt(match self {
            Self::Unix(stream) => stream.try_write_vectored(&slices[..count]),
            Self::Tcp(stream) => stream.try_write_vectored(&slices[..count]),
        })
    }

    /// Shuts the socket down and discards input until the other side has closed too. Closing a
    /// socket with unread bytes resets the connection and would lose replies in transit.
    pub(crate) async fn linger(mut self) {
        let shutdown = match &mut self {
            Self::Unix(stream) => stream.shutdown().await,
            Self::Tcp(stream) => stream.shutdown().await,
        };
        let mut scrap = Vec::with_capacity(4096);
        while shutdown.is_ok() && self.ready(true, false).await.is_ok() {
            scrap.clear();
            if self.try_read(&mut (&mut scrap).limit(4096)) == Attempt::Gone {
                return;
            }
        }
    }
}

fn attempt(result: io::Result<usize>) -> Attempt {
    match result {
        Ok(count) => Attempt::Moved(count),
        Err(error)
            if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) =>
        {
            Attempt::NotNow
        }
        Err(_) => Attempt::Gone,
    }
}
