//! An NBD server that is measured: one thread sends, waits and looks at the clock, so that no
//! wake-up of another thread stands between the socket and the stamp.

use std::collections::{HashMap, VecDeque};
use std::io::IoSlice;
use std::sync::Arc;
use std::time::{Duration, Instant as Deadline};

use bytes::Bytes;
use headtime_nbd::NbdCommand;
use headtime_nbd::client::{ClientEvent, Completion, Connection, Cookie, Reply, RequestError};
use headtime_sched::Op;
use headtime_units::{Extent, Instant, SectorSize, Sectors};
use rustix::io::Errno;

use super::edge::{Edge, EdgeCommand, EdgeCompletion, Lost, sleep_until};
use crate::backend::nbd::establish::{Established, SCRATCH_BYTES, establish, establish_to_read};
use crate::backend::nbd::shape::Shape;
use crate::backend::nbd::socket::Socket;
use crate::clock::RealClock;
use crate::locator::NbdLocator;
use crate::nbd_error::NbdError;

/// An export and the commands at it.
pub(crate) struct TimedExport {
    locator: NbdLocator,
    writes: bool,
    /// As it was opened first.
    shape: Shape,
    socket: Socket,
    machine: Connection,
    /// Requests at the server. Only looked up, so its order never matters.
    at_server: HashMap<Cookie, u64>,
    commands: HashMap<u64, Parts>,
    completed: VecDeque<EdgeCompletion>,
    /// The reason why the connection is gone.
    lost: Option<String>,
    scratch: Vec<u8>,
}

/// A command, split to the server's maximum.
struct Parts {
    left: usize,
    data: Vec<(Cookie, Bytes)>,
    failure: Option<(i32, Arc<str>)>,
}

/// The access that a measured export must permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExportAccess {
    ReadOnly,
    ReadWrite,
}

impl TimedExport {
    /// Opens an export; a read-only one will do unless it has to be written to.
    ///
    /// # Errors
    /// [`NbdError`].
    pub(super) fn open(locator: &NbdLocator, access: ExportAccess) -> Result<Self, NbdError> {
        let writes = access == ExportAccess::ReadWrite;
        let Established { socket, machine, shape } = connect(locator, writes)?;
        Ok(Self {
            locator: locator.clone(),
            writes,
            shape,
            socket,
            machine,
            at_server: HashMap::new(),
            commands: HashMap::new(),
            completed: VecDeque::new(),
            lost: None,
            scratch: vec![0; SCRATCH_BYTES],
        })
    }

    /// Its size, its sectors, and whether a write can be made durable by itself.
    pub(crate) fn shape(&self) -> (Sectors, SectorSize, bool) {
        (self.shape.capacity, self.shape.sector, self.shape.fua)
    }

    fn requests(&self, command: &EdgeCommand) -> Vec<NbdCommand> {
        let Extent { start, len } = command.extent;
        let sector_bytes = u64::from(self.shape.sector.bytes());
        let longest = u64::from(self.shape.longest);
        let (first, end) = (start.get() * sector_bytes, (start.get() + len.get()) * sector_bytes);
        let pieces = (first..end)
            .step_by(longest as usize)
            .map(|offset| (offset, longest.min(end - offset) as u32));
        let request = |(offset, length): (u64, u32)| match command.op {
            Op::Write => {
                let from = (offset - first) as usize;
                NbdCommand::Write {
                    offset,
                    payload: command.data.slice(from..from + length as usize),
                    fua: command.fua,
                }
            }
            _ => NbdCommand::Read { offset, length, unfragmented: false },
        };
        pieces.map(request).collect()
    }

    /// Writes what the machine wants to say, as far as the socket takes it.
    fn write(&mut self) {
        while self.machine.output_bytes() > 0 && self.lost.is_none() {
            let chunks: Vec<IoSlice<'_>> =
                self.machine.output_chunks().take(MAX_CHUNKS).map(IoSlice::new).collect();
            match self.socket.write(&chunks) {
                Ok(count) => {
                    drop(chunks);
                    self.machine.advance_output(count);
                }
                Err(Errno::AGAIN) => return,
                Err(errno) => self.lost = Some(std::io::Error::from(errno).to_string()),
            }
        }
    }

    /// Reads once and takes in what came; when that was, or `None` when nothing had come.
    fn read(&mut self) -> Option<Instant> {
        let room = self.machine.read_hint().clamp(1, self.scratch.len());
        let count = match self.socket.read(&mut self.scratch[..room]) {
            Err(Errno::AGAIN) => return None,
            Ok(count) => count,
            Err(_) => 0,
        };
        let seen = RealClock.now();
        if count > 0 {
            self.machine.receive(&self.scratch[..count]);
        } else {
            self.machine.end_of_input();
        }
        while let Some(event) = self.machine.poll_event() {
            match event {
                ClientEvent::Completed(completion) => self.complete(seen, completion),
                ClientEvent::Closed(reason) => self.lost = Some(reason.to_string()),
                ClientEvent::Opened(_) | ClientEvent::Described(_) | ClientEvent::Listed(_) => {}
            }
        }
        Some(seen)
    }

    fn complete(&mut self, seen: Instant, completion: Completion) {
        let Completion { id, result } = completion;
        let Some(token) = self.at_server.remove(&id) else { return };
        let Some(parts) = self.commands.get_mut(&token) else { return };
        match result {
            Ok(Reply::Data(bytes)) => parts.data.push((id, bytes)),
            Ok(_) => {}
            // Distinguish the end of the connection from errors of the drive.
            Err(RequestError::ConnectionLost) => return,
            Err(error @ RequestError::Server { errno, .. }) => {
                parts
                    .failure
                    .get_or_insert_with(|| (errno.code() as i32, error.to_string().into()));
            }
        }
        parts.left -= 1;
        if parts.left > 0 {
            return;
        }
        let Some(Parts { mut data, failure, .. }) = self.commands.remove(&token) else { return };
        let (result, explanation) = match failure {
            Some((errno, explanation)) => (Err(errno), Some(explanation)),
            None => (Ok(joined(&mut data)), None),
        };
        self.completed.push_back(EdgeCompletion { token, completed: seen, result, explanation });
    }

    fn uri(&self) -> String {
        self.locator.uri.to_string()
    }
}

impl Edge for TimedExport {
    fn now(&self) -> Instant {
        RealClock.now()
    }

    fn send(&mut self, command: EdgeCommand) -> Instant {
        let requests = self.requests(&command);
        self.commands
            .insert(command.token, Parts { left: requests.len(), data: Vec::new(), failure: None });
        for request in requests {
            match self.machine.submit(request) {
                Ok(id) => {
                    self.at_server.insert(id, command.token);
                }
                // One command is within the limits of the protocol's state machine, so it is the
                // connection that has ended.
                Err(refused) => self.lost = self.lost.take().or(Some(refused.to_string())),
            }
        }
        let now = RealClock.now();
        self.write();
        now
    }

    fn next_completion(&mut self, until: Instant) -> Result<Option<EdgeCompletion>, Lost> {
        loop {
            if let Some(completion) = self.completed.pop_front() {
                return Ok(Some(completion));
            }
            if let Some(why) = &self.lost {
                return Err(Lost {
                    why: format!("the connection to {} was lost: {why}", self.uri()),
                });
            }
            self.write();
            if self.lost.is_some() || self.read().is_some() {
                continue;
            }
            let left = until.saturating_since(RealClock.now());
            if left.is_zero() {
                return Ok(None);
            }
            self.socket.wait(
                self.machine.output_bytes(),
                Deadline::now() + Duration::from_nanos(left.as_ns()),
            );
        }
    }

    fn wait_until(&mut self, at: Instant) {
        sleep_until(at);
    }

    fn reopen(&mut self) -> Result<(), String> {
        self.at_server.clear();
        self.commands.clear();
        self.completed.clear();
        let give_up =
            Deadline::now() + Duration::from_nanos(self.locator.reconnect_timeout.as_ns());
        loop {
            let error = match connect(&self.locator, self.writes) {
                Ok(now) => match self.shape.difference(&now.shape) {
                    None => {
                        (self.socket, self.machine, self.lost) = (now.socket, now.machine, None);
                        return Ok(());
                    }
                    // Another drive does not become the old one by waiting.
                    Some(difference) => {
                        return Err(NbdError::Changed { uri: self.uri(), difference }.to_string());
                    }
                },
                Err(error) => error,
            };
            if Deadline::now() + PAUSE >= give_up {
                return Err(format!(
                    "{error}; it was called again for {}",
                    self.locator.reconnect_timeout
                ));
            }
            std::thread::sleep(PAUSE);
        }
    }
}

impl Drop for TimedExport {
    /// Says goodbye where that costs no waiting.
    fn drop(&mut self) {
        self.machine.disconnect();
        while self.machine.poll_event().is_some() {}
        self.write();
    }
}

fn connect(locator: &NbdLocator, writes: bool) -> Result<Established, NbdError> {
    if writes { establish(locator) } else { establish_to_read(locator) }
}

/// The data read, in order: requests are numbered by address.
fn joined(data: &mut Vec<(Cookie, Bytes)>) -> Bytes {
    if data.len() == 1 {
        return data.pop().map(|(_, bytes)| bytes).unwrap_or_default();
    }
    data.sort_unstable_by_key(|(id, _)| *id);
    data.iter().flat_map(|(_, bytes)| bytes.iter().copied()).collect()
}

/// Pieces written at a time; the kernel takes up to 1,024.
const MAX_CHUNKS: usize = 64;
/// Between two attempts to connect: a server that was restarted is back in a second or a few
/// (guess).
const PAUSE: Duration = Duration::from_millis(200);
