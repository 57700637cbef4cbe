//! Listening sockets for clients: unix sockets and TCP ports.
//!
//! A unix socket has its final permissions before it accepts connections. It replaces an existing
//! file only if that is a socket without a listener. Its file is removed at the end, unless another
//! program has replaced it.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener as StdUnixListener, UnixStream as StdUnixStream};
use std::path::{Path, PathBuf};

use headtime_nbd::uri::{Address, NbdUri};
use rustix::fs::Mode;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::net::{TcpListener, UnixListener};

use crate::config::Listen;
use crate::socket::Socket;

/// A listening socket.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: BoundSocket,
    address: Listen,
}

#[derive(Debug)]
enum BoundSocket {
    Unix { listener: UnixListener, _file: SocketFile },
    Tcp(TcpListener),
}

/// The file of a unix socket, removed when dropped.
#[derive(Debug)]
struct SocketFile {
    path: PathBuf,
    /// The device and inode of the file.
    identity: Option<(u64, u64)>,
}

/// The reason why an address cannot be bound.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum BindError {
    /// Another server listens at the address.
    #[error("{address}: another server is listening there; stop it, or choose another path")]
    Live { address: Listen },
    /// The path is a file and not a socket.
    #[error(
        "{address}: the file exists and is not a socket, so it is not replaced; remove it, or \
            choose \
            another path"
    )]
    NoSocket { address: Listen },
    /// The system refused.
    #[error("{address}: {doing}: {error}")]
    System { address: Listen, doing: &'static str, error: io::Error },
}

/// The length of the system's queue of connections that are not yet accepted.
const BACKLOG: i32 = 128;

impl Listener {
    /// Binds an address. Needs a tokio runtime.
    pub(crate) fn bind(address: &Listen) -> Result<Self, BindError> {
        match address {
            Listen::Unix { path, mode, .. } => {
                let (listener, file) = bind_unix(address, path, *mode)?;
                Ok(Self {
                    socket: BoundSocket::Unix { listener, _file: file },
                    address: address.clone(),
                })
            }
            Listen::Tcp { host, port, tls } => {
                let listener = bind_tcp(host, *port).map_err(system(address, "listening"))?;
                let port =
                    listener.local_addr().map_err(system(address, "asking for the port"))?.port();
                Ok(Self {
                    socket: BoundSocket::Tcp(listener),
                    address: Listen::Tcp { host: host.clone(), port, tls: *tls },
                })
            }
        }
    }

    /// The address, with the port that the system chose for port 0.
    pub(crate) fn address(&self) -> &Listen {
        &self.address
    }

    /// Accepts the next client; returns its socket and its name for messages.
    pub(crate) async fn accept(&self) -> io::Result<(Socket, String)> {
        match &self.socket {
            BoundSocket::Unix { listener, .. } => {
                let (stream, _unnamed) = listener.accept().await?;
                let peer = stream.peer_cred().ok().and_then(|credentials| credentials.pid());
                Ok((
                    Socket::Unix(stream),
                    peer.map_or_else(|| "unix".to_string(), |pid| format!("pid {pid}")),
                ))
            }
            BoundSocket::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((Socket::tcp(stream)?, peer.to_string()))
            }
        }
    }

    /// Accepts the next client of a unix socket.
    ///
    /// # Errors
    /// The system's, or that this is a TCP port.
    pub(crate) async fn accept_unix(&self) -> io::Result<tokio::net::UnixStream> {
        match &self.socket {
            BoundSocket::Unix { listener, .. } => Ok(listener.accept().await?.0),
            BoundSocket::Tcp(_) => Err(io::Error::other("a port is not a unix socket")),
        }
    }

    /// Returns whether only this machine can reach it.
    pub(crate) fn is_local(&self) -> bool {
        match &self.socket {
            BoundSocket::Unix { .. } => true,
            BoundSocket::Tcp(listener) => {
                listener.local_addr().is_ok_and(|address| address.ip().is_loopback())
            }
        }
    }
}

/// The URI of `export` at `address` for a client on this machine.
pub(crate) fn uri(address: &Listen, export: &str) -> NbdUri {
    let address = match address {
        Listen::Unix { path, .. } => {
            let absolute = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            Address::Unix { socket: absolute.to_string_lossy().into_owned() }
        }
        Listen::Tcp { host, port, .. } => {
            let any = matches!(host.as_str(), "0.0.0.0" | "::");
            Address::Tcp {
                host: if any { "localhost".to_string() } else { host.clone() },
                port: *port,
            }
        }
    };
    NbdUri { address, export: export.to_string() }
}

fn bind_tcp(host: &str, port: u16) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::bind((host, port))?;
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

fn bind_unix(
    address: &Listen,
    path: &Path,
    mode: u32,
) -> Result<(UnixListener, SocketFile), BindError> {
    make_way(address, path)?;
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket: OwnedFd =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
            .map_err(from_os(address, "making a socket"))?;
    let name = SocketAddrUnix::new(path).map_err(from_os(address, "naming the socket"))?;
    rustix::net::bind(&socket, &name).map_err(from_os(
        address,
        "making the socket's file; does its directory exist, and is it writable?",
    ))?;
    let mut file = SocketFile { path: path.to_path_buf(), identity: identity(path) };
    // Nothing can connect before the socket listens, so there is no moment with other permissions.
    let set = rustix::fs::chmod(path, Mode::from_raw_mode(mode))
        .and_then(|()| rustix::net::listen(&socket, BACKLOG));
    set.map_err(from_os(address, "setting the socket's permissions"))?;
    file.identity = identity(path);
    let listener = UnixListener::from_std(StdUnixListener::from(socket))
        .map_err(system(address, "listening"))?;
    Ok((listener, file))
}

/// Removes a socket without a listener; any other file is an error.
fn make_way(address: &Listen, path: &Path) -> Result<(), BindError> {
    let metadata = match std::fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(system(address, "looking for the socket's file")(error)),
    };
    if !metadata.file_type().is_socket() {
        return Err(BindError::NoSocket { address: address.clone() });
    }
    match StdUnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            tracing::info!("{address}: the existing socket has no listener; it is replaced");
            std::fs::remove_file(path)
                .map_err(system(address, "removing the socket's file that was left behind"))
        }
        Ok(_) => Err(BindError::Live { address: address.clone() }),
        // A full backlog, or a live socket of another user.
        Err(_) => Err(BindError::Live { address: address.clone() }),
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let metadata = std::fs::symlink_metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

fn system(address: &Listen, doing: &'static str) -> impl FnOnce(io::Error) -> BindError {
    let address = address.clone();
    move |error| BindError::System { address, doing, error }
}

fn from_os(address: &Listen, doing: &'static str) -> impl FnOnce(rustix::io::Errno) -> BindError {
    let refused = system(address, doing);
    move |errno| refused(errno.into())
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.identity.is_some() && identity(&self.path) == self.identity {
            // If this fails, the next server recognizes the file as stale.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn unix(path: &Path, mode: u32) -> Listen {
        Listen::Unix { path: path.to_path_buf(), mode, tls: None }
    }

    #[tokio::test]
    async fn a_socket_has_its_permissions_and_is_removed_at_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.sock");
        let listener = Listener::bind(&unix(&path, 0o660)).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
        StdUnixStream::connect(&path).unwrap();
        drop(listener);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_stale_socket_is_replaced_a_live_one_and_a_file_are_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.sock");
        drop(StdUnixListener::bind(&path).unwrap());
        assert!(path.exists(), "left behind by a server that was killed");
        let live = Listener::bind(&unix(&path, 0o600)).unwrap();
        assert!(matches!(Listener::bind(&unix(&path, 0o600)), Err(BindError::Live { .. })));
        StdUnixStream::connect(&path).unwrap();
        drop(live);
        std::fs::write(&path, "precious").unwrap();
        assert!(matches!(Listener::bind(&unix(&path, 0o600)), Err(BindError::NoSocket { .. })));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
    }

    #[tokio::test]
    async fn a_socket_that_somebody_else_put_there_is_not_removed_at_the_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.sock");
        let listener = Listener::bind(&unix(&path, 0o600)).unwrap();
        std::fs::remove_file(&path).unwrap();
        let _other = StdUnixListener::bind(&path).unwrap();
        drop(listener);
        assert!(path.exists());
    }

    #[tokio::test]
    async fn a_port_chosen_by_the_system_is_told() {
        let listener = Listener::bind(&Listen::parse("tcp:127.0.0.1:0").unwrap()).unwrap();
        let Listen::Tcp { port, .. } = listener.address() else { panic!("{listener:?}") };
        assert_ne!(*port, 0);
        assert_eq!(
            uri(listener.address(), "vol0").to_string(),
            format!("nbd://127.0.0.1:{port}/vol0")
        );
    }

    #[test]
    fn a_missing_directory_is_said() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _inside = runtime.enter();
        let error = Listener::bind(&Listen::parse("unix:/nonexistent/a.sock").unwrap())
            .unwrap_err()
            .to_string();
        assert!(error.contains("does its directory exist"), "{error}");
        assert_eq!(
            uri(&Listen::parse("unix:/run/a b.sock").unwrap(), "v").to_string(),
            "nbd+unix:///v?socket=/run/a%20b.sock"
        );
    }
}
