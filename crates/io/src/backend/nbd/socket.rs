//! A stream socket that never blocks and never raises a signal.

use std::io::{self, IoSlice};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use headtime_nbd::uri::Address;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{
    set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl, set_tcp_nodelay,
};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, Shutdown, SocketAddrUnix,
    SocketFlags, SocketType,
};
use rustix::net::{connect, recv, sendmsg, shutdown, socket_with};

/// A connected socket.
#[derive(Debug)]
pub(crate) struct Socket(OwnedFd);

/// The reason why there is no connection.
#[derive(Debug)]
pub(crate) enum NoSocket {
    Lookup(io::Error),
    Connect(io::Error),
    TooLate,
}

impl Socket {
    /// Connects by `deadline`; looking a name up may take longer, because the system sets the limit
    /// there.
    pub(crate) fn connect(address: &Address, limit: Duration) -> Result<(Self, Instant), NoSocket> {
        match address {
            Address::Unix { socket } => {
                let deadline = Instant::now() + limit;
                Self::unix(socket, deadline).map(|socket| (socket, deadline))
            }
            Address::Tcp { host, port } => {
                let addresses: Vec<_> =
                    (host.as_str(), *port).to_socket_addrs().map_err(NoSocket::Lookup)?.collect();
                let deadline = Instant::now() + limit;
                let mut last = NoSocket::Lookup(io::Error::new(
                    io::ErrorKind::NotFound,
                    "the name has no address",
                ));
                for address in addresses {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Err(NoSocket::TooLate);
                    }
                    match TcpStream::connect_timeout(&address, left).and_then(Self::of_tcp) {
                        Ok(socket) => return Ok((socket, deadline)),
                        Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                            last = NoSocket::TooLate
                        }
                        Err(error) => last = NoSocket::Connect(error),
                    }
                }
                Err(last)
            }
        }
    }

    fn unix(path: &str, deadline: Instant) -> Result<Self, NoSocket> {
        let refused = |errno: Errno| NoSocket::Connect(errno.into());
        let address = match path.strip_prefix('\0') {
            Some(name) => SocketAddrUnix::new_abstract_name(name.as_bytes()),
            None => SocketAddrUnix::new(path),
        };
        let address = address.map_err(refused)?;
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket =
            socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).map_err(refused)?;
        loop {
            match connect(&socket, &address) {
                Ok(()) => return Ok(Self(socket)),
                // The server's queue of connections is full, and no event reports when that
                // changes.
                Err(Errno::AGAIN) if Instant::now() < deadline => std::thread::sleep(LOOK_AGAIN),
                Err(Errno::AGAIN) => return Err(NoSocket::TooLate),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(refused(errno)),
            }
        }
    }

    fn of_tcp(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let socket = OwnedFd::from(stream);
        set_tcp_nodelay(&socket, true)?;
        // A vanished machine sends nothing. The kernel's keepalives detect that also while the
        // drive is idle.
        set_socket_keepalive(&socket, true)?;
        set_tcp_keepidle(&socket, KEEPALIVE)?;
        set_tcp_keepintvl(&socket, KEEPALIVE)?;
        set_tcp_keepcnt(&socket, KEEPALIVE_PROBES)?;
        Ok(Self(socket))
    }

    /// Reads the available bytes; 0 at the end of the stream.
    pub(crate) fn read(&self, into: &mut [u8]) -> Result<usize, Errno> {
        loop {
            match recv(&self.0, &mut *into, RecvFlags::empty()) {
                Err(Errno::INTR) => {}
                outcome => return outcome.map(|(count, _)| count),
            }
        }
    }

    /// Writes as much as the socket accepts.
    pub(crate) fn write(&self, pieces: &[IoSlice<'_>]) -> Result<usize, Errno> {
        loop {
            match sendmsg(&self.0, pieces, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL)
            {
                Err(Errno::INTR) => {}
                outcome => return outcome,
            }
        }
    }

    /// Closes this side's half of the stream.
    pub(crate) fn end_writing(&self) {
        // Fails only if the other side is gone, and then the stream has ended already.
        let _ = shutdown(&self.0, Shutdown::Write);
    }

    /// Waits until the socket can be read or, with `output` bytes to send, written. Returns false
    /// once the deadline has passed.
    pub(crate) fn wait(&self, output: u64, deadline: Instant) -> bool {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        let flags = if output > 0 { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let timeout = Timespec {
            tv_sec: left.as_secs().min(1 << 30) as i64,
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        // An interrupted wait ends early, which the caller's loop allows for.
        let _ = poll(&mut [PollFd::new(&self.0, flags)], Some(&timeout));
        true
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// A vanished machine is noticed after four times this (guess): well before the time limit of a
/// command.
const KEEPALIVE: Duration = Duration::from_secs(5);
const KEEPALIVE_PROBES: u32 = 3;
