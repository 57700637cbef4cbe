//! The check that a drive that answers after a disconnection is the same drive. Its first sectors
//! are read and compared by the application.

use std::time::{Duration, Instant};

use headtime_nbd::NbdCommand;
use headtime_nbd::client::{ClientEvent, Completion, Reply, RequestError};

use super::establish::{Established, SCRATCH_BYTES, exchange};
use crate::drive_identity::DriveIdentity;
use crate::locator::NbdLocator;
use crate::nbd_error::{Difference, NbdError};

/// Passes on an export that was opened again if it is the drive; reads are all that is sent to it.
/// May wait as long as connecting may.
///
/// # Errors
/// [`NbdError::Changed`] when it is another drive, [`NbdError::Silent`] and the others when the
/// server goes away again.
pub(super) fn recognize(
    mut established: Established,
    locator: &NbdLocator,
    identity: &DriveIdentity,
) -> Result<Established, NbdError> {
    let uri = || locator.uri.to_string();
    let deadline = Instant::now() + Duration::from_nanos(locator.connect_timeout.as_ns());
    let shape = established.shape;
    let end = identity.bytes().min(shape.sector.bytes_of(shape.capacity));
    let piece = u64::from(shape.longest).min(PIECE_BYTES);
    let mut start = Vec::with_capacity(end as usize);
    while (start.len() as u64) < end {
        let offset = start.len() as u64;
        let length = piece.min(end - offset) as u32;
        match read(
            &mut established,
            locator,
            NbdCommand::Read { offset, length, unfragmented: false },
            deadline,
        )? {
            Some(bytes) => start.extend_from_slice(&bytes),
            None => start.resize(start.len() + length as usize, 0),
        }
    }
    identity
        .judge(&start)
        .map_err(|said| NbdError::Changed { uri: uri(), difference: Difference::Content(said) })?;
    Ok(established)
}

/// One read; `None` when the server cannot read there.
fn read(
    established: &mut Established,
    locator: &NbdLocator,
    request: NbdCommand,
    deadline: Instant,
) -> Result<Option<bytes::Bytes>, NbdError> {
    let Established { socket, machine, .. } = established;
    let uri = || locator.uri.to_string();
    let lost = |error: String| NbdError::Connect { uri: uri(), error };
    machine.submit(request).map_err(|refused| lost(refused.to_string()))?;
    let mut scratch = vec![0; SCRATCH_BYTES];
    loop {
        match machine.poll_event() {
            Some(ClientEvent::Completed(Completion { result: Ok(Reply::Data(bytes)), .. })) => {
                return Ok(Some(bytes));
            }
            Some(ClientEvent::Completed(Completion {
                result: Err(RequestError::Server { .. }),
                ..
            })) => return Ok(None),
            Some(ClientEvent::Closed(reason)) => return Err(lost(reason.to_string())),
            Some(_) => continue,
            None => {}
        }
        match exchange(socket, machine, &mut scratch) {
            Ok(true) => {}
            Ok(false) if socket.wait(machine.output_bytes(), deadline) => {}
            Ok(false) => {
                return Err(NbdError::Silent { uri: uri(), limit: locator.connect_timeout });
            }
            Err(errno) => return Err(lost(std::io::Error::from(errno).to_string())),
        }
        if Instant::now() >= deadline {
            return Err(NbdError::Silent { uri: uri(), limit: locator.connect_timeout });
        }
    }
}

/// The unit of reading: an unreadable sector masks no more than this.
const PIECE_BYTES: u64 = 64 << 10;
