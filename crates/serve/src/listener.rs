//! Listening sockets for clients: unix sockets and TCP ports.
//!
//! A socket is bound first and listens later, when the server can answer. Only then a unix socket
//! has its name, so that a program that waits for the name finds a server. It has its final
//! permissions before it accepts connections. It replaces an existing file only if that is a socket
//! without a listener. Its file is removed at the end, unless another program has replaced it.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener as StdUnixListener, UnixStream as StdUnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use headtime_nbd::uri::{Address, NbdUri};
use rustix::fs::{CWD, Mode, RenameFlags, rename, renameat_with};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use tokio::net::{TcpListener, TcpSocket, UnixListener};

use crate::config::Listen;
use crate::inherited;
use crate::socket::Socket;

/// A socket that has its address and does not listen yet.
#[derive(Debug)]
pub(crate) struct Bound {
    socket: BoundSocket,
    address: Listen,
}

#[derive(Debug)]
enum BoundSocket {
    Unix {
        socket: OwnedFd,
        file: SocketFile,
    },
    Tcp(TcpSocket),
    /// It listens already.
    Passed(ListeningSocket),
}

#[derive(Debug)]
pub(crate) struct Listener {
    socket: ListeningSocket,
    address: Listen,
}

#[derive(Debug)]
enum ListeningSocket {
    /// Without a file if the socket was passed: then its file is not the server's.
    Unix {
        listener: UnixListener,
        _file: Option<SocketFile>,
    },
    Tcp(TcpListener),
}

/// The file of a unix socket, removed when dropped.
#[derive(Debug)]
struct SocketFile {
    /// Its name now.
    at: PathBuf,
    /// Its name from the moment that it listens.
    path: PathBuf,
    /// The device and inode of the file.
    identity: Option<(u64, u64)>,
}

/// The reason why an address cannot be bound.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum BindError {
    #[error("{address}: another server is listening there; stop it, or choose another path")]
    Live { address: Listen },
    #[error(
        "{address}: the file exists and is not a socket, so it is not replaced; choose another \
            path, or remove the file if nothing needs it"
    )]
    NoSocket { address: Listen },
    /// A passed socket is not among the addresses.
    #[error(
        "systemd passed the socket {address}, which is not in listen; add it to listen, or remove \
            it from the socket unit"
    )]
    Untaken { address: String },
    /// The system refused.
    #[error("{address}: {doing}: {error}")]
    System { address: Listen, doing: &'static str, error: io::Error },
}

/// The step that fails for a directory that is not there.
const MAKING_THE_FILE: &str =
    "making the socket's file; does its directory exist, and is it writable?";
/// The length of the system's queue of connections that are not yet accepted.
const BACKLOG: i32 = 128;

impl Bound {
    /// Binds all addresses. Needs a tokio runtime.
    pub(crate) fn all(addresses: &[Listen]) -> Result<Vec<Self>, BindError> {
        let bound = addresses.iter().map(Self::new).collect::<Result<Vec<_>, _>>()?;
        match inherited::untaken() {
            Some(address) => Err(BindError::Untaken { address }),
            None => Ok(bound),
        }
    }

    /// Binds an address, or takes the passed socket that is bound to it. Needs a tokio runtime.
    pub(crate) fn new(address: &Listen) -> Result<Self, BindError> {
        if let Some(passed) = passed(address).map_err(system(address, "listening"))? {
            return Ok(Self { socket: BoundSocket::Passed(passed), address: address.clone() });
        }
        let socket = match address {
            Listen::Unix { path, mode, .. } => {
                let (socket, file) = bind_unix(address, path, *mode)?;
                BoundSocket::Unix { socket, file }
            }
            Listen::Tcp { host, port, .. } => {
                let socket = bind_tcp(host, *port).map_err(system(address, "binding"))?;
                BoundSocket::Tcp(socket)
            }
        };
        Ok(Self { socket, address: address.clone() })
    }

    /// Listens, and gives a unix socket its name. Needs a tokio runtime.
    pub(crate) fn listen(self) -> Result<Listener, BindError> {
        let Self { socket, mut address } = self;
        let socket = match socket {
            BoundSocket::Unix { socket, mut file } => {
                rustix::net::listen(&socket, BACKLOG).map_err(from_os(&address, "listening"))?;
                let listener = UnixListener::from_std(StdUnixListener::from(socket))
                    .map_err(system(&address, "listening"))?;
                file.publish(&address)?;
                ListeningSocket::Unix { listener, _file: Some(file) }
            }
            BoundSocket::Tcp(socket) => {
                let listener =
                    socket.listen(BACKLOG as u32).map_err(system(&address, "listening"))?;
                let found =
                    listener.local_addr().map_err(system(&address, "asking for the port"))?;
                if let Listen::Tcp { port, .. } = &mut address {
                    *port = found.port();
                }
                ListeningSocket::Tcp(listener)
            }
            BoundSocket::Passed(socket) => socket,
        };
        Ok(Listener { socket, address })
    }
}

impl Listener {
    /// Binds an address and listens. Needs a tokio runtime.
    pub(crate) fn bind(address: &Listen) -> Result<Self, BindError> {
        Bound::new(address)?.listen()
    }

    /// The address, with the port that the system chose for port 0.
    pub(crate) fn address(&self) -> &Listen {
        &self.address
    }

    /// Accepts the next client; returns its socket and its name for messages.
    pub(crate) async fn accept(&self) -> io::Result<(Socket, String)> {
        match &self.socket {
            ListeningSocket::Unix { listener, .. } => {
                let (stream, _unnamed) = listener.accept().await?;
                let peer = stream.peer_cred().ok().and_then(|credentials| credentials.pid());
                Ok((
                    Socket::Unix(stream),
                    peer.map_or_else(|| "unix".to_string(), |pid| format!("pid {pid}")),
                ))
            }
            ListeningSocket::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((Socket::tcp(stream)?, peer.to_string()))
            }
        }
    }

    /// Accepts the next client of a unix socket.
    pub(crate) async fn accept_unix(&self) -> io::Result<tokio::net::UnixStream> {
        match &self.socket {
            ListeningSocket::Unix { listener, .. } => Ok(listener.accept().await?.0),
            ListeningSocket::Tcp(_) => Err(io::Error::other("a port is not a unix socket")),
        }
    }

    /// Returns whether only this machine can reach it.
    pub(crate) fn is_local(&self) -> bool {
        match &self.socket {
            ListeningSocket::Unix { .. } => true,
            ListeningSocket::Tcp(listener) => {
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

/// The socket that was passed for an address, if there is one.
fn passed(address: &Listen) -> io::Result<Option<ListeningSocket>> {
    match address {
        Listen::Unix { path, .. } => inherited::take_unix(path)
            .map(|passed| {
                passed.set_nonblocking(true)?;
                let listener = UnixListener::from_std(passed)?;
                Ok(ListeningSocket::Unix { listener, _file: None })
            })
            .transpose(),
        Listen::Tcp { host, port, .. } => inherited::take_tcp(host, *port)
            .map(|passed| {
                passed.set_nonblocking(true)?;
                TcpListener::from_std(passed).map(ListeningSocket::Tcp)
            })
            .transpose(),
    }
}

/// Checks an address as far as that is possible without binding it. A directory below `/run` may
/// be missing: a service manager makes it before the server starts.
pub(crate) fn check_address(address: &Listen) -> Result<(), BindError> {
    let path = match address {
        Listen::Tcp { host, port, .. } => {
            let found = (host.as_str(), *port).to_socket_addrs();
            return found.map(drop).map_err(system(address, "binding"));
        }
        Listen::Unix { path, .. } => path,
    };
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => return Ok(()),
        Ok(_) => return Err(BindError::NoSocket { address: address.clone() }),
        Err(_) if path.starts_with("/run") => return Ok(()),
        Err(_) => {}
    }
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    let found = std::fs::metadata(directory.unwrap_or(Path::new(".")));
    found.map(drop).map_err(system(address, MAKING_THE_FILE))
}

/// Binds the first of the host's addresses that can be bound.
fn bind_tcp(host: &str, port: u16) -> io::Result<TcpSocket> {
    bind_first((host, port).to_socket_addrs()?)
}

/// Binds the first address that can be bound.
pub(crate) fn bind_first(addresses: impl Iterator<Item = SocketAddr>) -> io::Result<TcpSocket> {
    let mut error = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in addresses {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
        let bound = socket.and_then(|socket| {
            // A server that has just ended does not hold the port.
            socket.set_reuseaddr(true)?;
            socket.bind(address).map(|()| socket)
        });
        match bound {
            Ok(socket) => return Ok(socket),
            Err(refused) => error = refused,
        }
    }
    Err(error)
}

/// Binds a socket under a name of its own beside `path`.
fn bind_unix(address: &Listen, path: &Path, mode: u32) -> Result<(OwnedFd, SocketFile), BindError> {
    make_way(address, path)?;
    static SOCKETS: AtomicU32 = AtomicU32::new(0);
    let number = SOCKETS.fetch_add(1, Ordering::Relaxed);
    // Short: the name of a socket has at most 107 bytes.
    let own = path.with_file_name(format!(".{:x}.{number:x}", std::process::id()));
    // Left by an earlier process of this number.
    let _ = std::fs::remove_file(&own);
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket: OwnedFd =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)
            .map_err(from_os(address, "making a socket"))?;
    // The name that it gets later has to be possible too.
    SocketAddrUnix::new(path).map_err(from_os(address, "naming the socket"))?;
    let name = SocketAddrUnix::new(&own).map_err(from_os(address, "naming the socket"))?;
    rustix::net::bind(&socket, &name).map_err(from_os(address, MAKING_THE_FILE))?;
    let mut file =
        SocketFile { at: own.clone(), path: path.to_path_buf(), identity: identity(&own) };
    rustix::fs::chmod(&own, Mode::from_raw_mode(mode))
        .map_err(from_os(address, "setting the socket's permissions"))?;
    file.identity = identity(&own);
    Ok((socket, file))
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

fn from_os(address: &Listen, doing: &'static str) -> impl FnOnce(Errno) -> BindError {
    let refused = system(address, doing);
    move |errno| refused(errno.into())
}

impl SocketFile {
    /// Gives the socket its name.
    fn publish(&mut self, address: &Listen) -> Result<(), BindError> {
        // Another server may have begun to listen there in the meantime.
        make_way(address, &self.path)?;
        renameat_with(CWD, &self.at, CWD, &self.path, RenameFlags::NOREPLACE)
            // A file system that cannot do that.
            .or_else(|errno| match errno {
                Errno::INVAL | Errno::NOSYS => rename(&self.at, &self.path),
                other => Err(other),
            })
            .map_err(from_os(address, "naming the socket"))?;
        self.at.clone_from(&self.path);
        Ok(())
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.identity.is_some() && identity(&self.at) == self.identity {
            // If this fails, the next server recognizes the file as stale.
            let _ = std::fs::remove_file(&self.at);
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
    async fn a_bound_socket_has_its_name_when_it_listens_and_not_before() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.sock");
        let bound = Bound::new(&unix(&path, 0o600)).unwrap();
        assert!(!path.exists());
        // A second server that was faster.
        let other = Listener::bind(&unix(&path, 0o600)).unwrap();
        assert!(matches!(bound.listen(), Err(BindError::Live { .. })));
        StdUnixStream::connect(&path).unwrap();
        drop(other);
        drop(Bound::new(&unix(&path, 0o600)).unwrap());
        let left = std::fs::read_dir(directory.path()).unwrap().count();
        assert_eq!(left, 0, "nothing is left of sockets that never listened");
        let bound = Bound::new(&Listen::parse("tcp:127.0.0.1:0").unwrap()).unwrap();
        let BoundSocket::Tcp(socket) = &bound.socket else { panic!("{bound:?}") };
        let port = socket.local_addr().unwrap();
        assert!(std::net::TcpStream::connect(port).is_err());
        let _listener = bound.listen().unwrap();
        std::net::TcpStream::connect(port).unwrap();
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
