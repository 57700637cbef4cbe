//! Listening sockets that systemd, or another program, opened and passed to this process (socket
//! activation: `LISTEN_FDS`). A passed socket replaces the address of `listen` that it is bound to.

use std::net::{SocketAddr, TcpListener, ToSocketAddrs as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use listenfd::ListenFd;
use parking_lot::Mutex;

#[derive(Debug)]
pub(crate) enum PassedSocket {
    Unix(UnixListener, PathBuf),
    Tcp(TcpListener, SocketAddr),
}

/// Takes the passed unix socket at `path`, if there is one.
pub(crate) fn take_unix(path: &Path) -> Option<UnixListener> {
    let path = std::path::absolute(path).ok()?;
    match take(|socket| matches!(socket, PassedSocket::Unix(_, at) if *at == path))? {
        PassedSocket::Unix(listener, _) => Some(listener),
        PassedSocket::Tcp(..) => None,
    }
}

/// Takes the passed TCP socket at an address of `host` and `port`, if there is one.
pub(crate) fn take_tcp(host: &str, port: u16) -> Option<TcpListener> {
    if passed().lock().is_empty() {
        return None;
    }
    let named: Vec<SocketAddr> = (host, port).to_socket_addrs().ok()?.collect();
    match take(|socket| matches!(socket, PassedSocket::Tcp(_, at) if named.contains(at)))? {
        PassedSocket::Tcp(listener, _) => Some(listener),
        PassedSocket::Unix(..) => None,
    }
}

/// The address of a passed socket that nothing has taken.
pub(crate) fn untaken() -> Option<String> {
    let sockets = passed().lock();
    sockets.first().map(|socket| match socket {
        PassedSocket::Unix(_, path) => format!("unix:{}", path.display()),
        PassedSocket::Tcp(_, address) => format!("tcp:{address}"),
    })
}

fn take(is_meant: impl Fn(&PassedSocket) -> bool) -> Option<PassedSocket> {
    let mut sockets = passed().lock();
    sockets.iter().position(is_meant).map(|index| sockets.remove(index))
}

/// The passed sockets that nothing has taken. They are received once in the life of the process.
fn passed() -> &'static Mutex<Vec<PassedSocket>> {
    static PASSED: OnceLock<Mutex<Vec<PassedSocket>>> = OnceLock::new();
    PASSED.get_or_init(|| {
        let mut fds = ListenFd::from_env();
        let sockets = (0..fds.len()).filter_map(|index| receive(&mut fds, index));
        Mutex::new(sockets.collect())
    })
}

fn receive(fds: &mut ListenFd, index: usize) -> Option<PassedSocket> {
    if let Ok(Some(listener)) = fds.take_unix_listener(index) {
        let address = listener.local_addr().ok()?;
        return Some(PassedSocket::Unix(listener, address.as_pathname()?.to_path_buf()));
    }
    match fds.take_tcp_listener(index) {
        Ok(listener) => {
            let listener = listener?;
            let address = listener.local_addr().ok()?;
            Some(PassedSocket::Tcp(listener, address))
        }
        Err(error) => {
            tracing::warn!("a passed file descriptor is ignored: {error}");
            None
        }
    }
}
