//! Opens an export: name lookup, connection, handshake. May wait, so it never runs on the engine's
//! thread.

use std::io::IoSlice;
use std::time::{Duration, Instant};

use headtime_nbd::ClientLimits;
use headtime_nbd::client::{ClientEvent, CloseReason, Connection, NbdClientConfig};
use rustix::io::Errno;

use super::shape::Shape;
use super::socket::{NoSocket, Socket};
use crate::locator::NbdLocator;
use crate::nbd_error::NbdError;

/// An open export.
pub(crate) struct Established {
    pub(crate) socket: Socket,
    pub(crate) machine: Connection,
    pub(crate) shape: Shape,
}

/// Opens the export, to read and to write.
///
/// # Errors
/// [`NbdError`]; nothing is left open then.
pub(crate) fn establish(locator: &NbdLocator) -> Result<Established, NbdError> {
    let established = establish_to_read(locator)?;
    established.shape.writable(&locator.uri.to_string())?;
    Ok(established)
}

/// Opens the export, which may be read-only.
///
/// # Errors
/// [`NbdError`]; nothing is left open then.
pub(crate) fn establish_to_read(locator: &NbdLocator) -> Result<Established, NbdError> {
    let uri = locator.uri.to_string();
    let limit = locator.connect_timeout;
    let silent = || NbdError::Silent { uri: uri.clone(), limit };
    let connected = Socket::connect(&locator.uri.address, Duration::from_nanos(limit.as_ns()));
    let (socket, deadline) = connected.map_err(|no_socket| match no_socket {
        NoSocket::Lookup(error) => NbdError::Lookup { uri: uri.clone(), error: error.to_string() },
        NoSocket::Connect(error) => {
            NbdError::Connect { uri: uri.clone(), error: error.to_string() }
        }
        NoSocket::TooLate => silent(),
    })?;
    let failed = |reason| NbdError::Handshake { uri: uri.clone(), reason };
    let config = NbdClientConfig {
        allocation_context: false,
        ..NbdClientConfig::open(locator.uri.export.clone())
    };
    // The bytes beyond the longest request keep several of them on their way; everything else is
    // the machine's default.
    let machine = Connection::new(config, ClientLimits::default());
    let mut machine = machine.expect(
        "the default limits go together, and an export's name was checked when the URI was read",
    );
    let mut scratch = vec![0; SCRATCH_BYTES];
    loop {
        match machine.poll_event() {
            Some(ClientEvent::Opened(session)) => {
                let shape = Shape::of(&uri, &session)?;
                return Ok(Established { socket, machine, shape });
            }
            Some(ClientEvent::Closed(reason)) => return Err(failed(reason)),
            Some(_) => continue,
            None => {}
        }
        match exchange(&socket, &mut machine, &mut scratch) {
            Ok(true) => {}
            Ok(false) if socket.wait(machine.output_bytes(), deadline) => {}
            Ok(false) => return Err(silent()),
            Err(errno) => {
                return Err(NbdError::Connect {
                    uri: uri.clone(),
                    error: std::io::Error::from(errno).to_string(),
                });
            }
        }
        if Instant::now() >= deadline {
            return Err(silent());
        }
    }
}

/// Moves bytes both ways once without waiting; whether any moved. The end of the stream moves
/// something, once: a server that has closed its end may have said why before, so that what it sent
/// is read although nothing can be written any more.
///
/// # Errors
/// The system's, when the connection is broken in another way.
pub(crate) fn exchange(
    socket: &Socket,
    machine: &mut Connection,
    scratch: &mut [u8],
) -> Result<bool, Errno> {
    let mut moved = false;
    let mut cut = false;
    if machine.output_bytes() > 0 {
        let chunks: Vec<IoSlice<'_>> =
            machine.output_chunks().take(MAX_CHUNKS).map(IoSlice::new).collect();
        match socket.write(&chunks) {
            Ok(count) => {
                drop(chunks);
                machine.advance_output(count);
                moved = count > 0;
            }
            Err(Errno::AGAIN) => {}
            Err(Errno::PIPE | Errno::CONNRESET) => cut = true,
            Err(errno) => return Err(errno),
        }
    }
    let room = machine.read_hint().min(scratch.len());
    if room > 0 {
        match socket.read(&mut scratch[..room]) {
            Ok(count) if count > 0 => {
                machine.receive(&scratch[..count]);
                moved = true;
            }
            Err(Errno::AGAIN) if !cut => {}
            Ok(_) | Err(Errno::AGAIN | Errno::CONNRESET) => {
                machine.end_of_input();
                moved = true;
            }
            Err(errno) => return Err(errno),
        }
    }
    Ok(moved)
}

/// Returns true if the server ended the connection. If this side ended it, the server may still
/// read requests.
pub(crate) fn ended_by_server(reason: &CloseReason) -> bool {
    matches!(reason, CloseReason::EndOfInput { .. })
}

/// Bytes read at a time; one copy of them is made. A guess: some hundred system calls a second at
/// the speed of a disk.
pub(crate) const SCRATCH_BYTES: usize = 256 << 10;
/// Pieces written at a time; the kernel takes up to 1,024.
const MAX_CHUNKS: usize = 64;
