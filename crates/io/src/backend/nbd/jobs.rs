//! Commands as NBD requests: split to the server's maximum, joined again, and completed exactly
//! once, also if the connection is lost.
//!
//! Example, a server that accepts at most 1 MiB in one request: a write of 2.5 MiB becomes three
//! requests and completes when all three are answered. If the second fails, its error is the
//! command's, the third is not sent, and the command completes with the answer to the first.
//!
//! Missing features of a server: without WRITE_ZEROES, zeroes are written. Without TRIM, a discard
//! completes at once, since the content of discarded sectors is undefined. Without FLUSH, a flush
//! completes at once, and the drive has warned about that at its opening.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use headtime_nbd::NbdCommand;
use headtime_nbd::client::{
    ClientSubmitError, Completion, Connection, Cookie, Reply, RequestError,
};
use headtime_sched::{CommandId, Op};
use rustix::io::Errno;

use super::shape::Shape;
use crate::backend::BackendCommand;
use crate::backend::store::NOTHING;
use crate::buffer::{PageCache, join};

/// The commands that the drive has received and not reported.
#[derive(Default)]
pub(super) struct Jobs {
    jobs: BTreeMap<CommandId, Job>,
    /// The commands with unsent parts; the oldest is sent first.
    unsent: BTreeSet<CommandId>,
    /// Requests at the server: their command, and their offset within it.
    at_server: BTreeMap<Cookie, (CommandId, u64)>,
    over: Vec<Over>,
}

/// A completed command.
#[derive(Debug)]
pub(super) struct Over {
    pub(super) command: CommandId,
    pub(super) result: Result<Bytes, Failure>,
}

/// The reason why a command failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Failure {
    /// The nearest of the system's codes.
    pub(super) errno: i32,
    /// The cause and the remedy.
    pub(super) said: Arc<str>,
}

/// The outcome of a command that timed out.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum GivenUp {
    /// It had completed already.
    Over,
    /// No part of it was sent. It is complete now.
    NotSent,
    /// It is at the server, and only the end of the connection releases it. The text names it.
    AtServer(String),
}

struct Job {
    op: Op,
    offset: u64,
    len: u64,
    fua: bool,
    payload: Bytes,
    /// Bytes handed to the connection, from the front; of a command without bytes 1 once it was
    /// sent.
    sent: u64,
    at_server: usize,
    /// The data read so far, with its offsets.
    read: Vec<(u64, Bytes)>,
    failure: Option<Failure>,
}

impl Jobs {
    pub(super) fn take(&mut self, work: BackendCommand, sector_bytes: u64) {
        let BackendCommand { command, pieces } = work;
        let payload = join(pieces, PageCache::Use);
        let (offset, len) =
            (command.extent.start.get() * sector_bytes, command.extent.len.get() * sector_bytes);
        let job = Job {
            op: command.op,
            offset,
            len,
            fua: command.fua,
            payload,
            sent: 0,
            at_server: 0,
            read: Vec::new(),
            failure: None,
        };
        self.jobs.insert(command.id, job);
        self.unsent.insert(command.id);
    }

    /// Sends as much as the connection accepts.
    pub(super) fn send(&mut self, machine: &mut Connection, shape: &Shape) {
        while let Some(id) = self.unsent.first().copied() {
            let job = self.jobs.get_mut(&id).expect("what is unsent is a job");
            let Some((request, bytes)) = job.next(shape) else {
                self.unsent.remove(&id);
                self.end_if_over(id);
                continue;
            };
            match machine.submit(request) {
                Ok(request) => {
                    self.at_server.insert(request, (id, job.sent));
                    job.sent += bytes;
                    job.at_server += 1;
                }
                Err(
                    ClientSubmitError::TooMany { .. }
                    | ClientSubmitError::TooManyBytes { .. }
                    | ClientSubmitError::NotOpen,
                ) => return,
                // The features of the server were checked at the connection, so this is an
                // inconsistency between the two.
                Err(refused) => {
                    job.failure.get_or_insert(Failure {
                        errno: Errno::INVAL.raw_os_error(),
                        said: refused.to_string().into(),
                    });
                }
            }
        }
    }

    /// The server has answered a request, or has not and the connection is over; which of the two.
    pub(super) fn complete(&mut self, uri: &str, completion: Completion) -> bool {
        // `lose` ends all commands when the connection ends.
        if completion.result == Err(RequestError::ConnectionLost) {
            return false;
        }
        let (id, from) = self
            .at_server
            .remove(&completion.id)
            .expect("the machine completes what it was given, once");
        let job = self
            .jobs
            .get_mut(&id)
            .expect("a command is held until all of its requests are answered");
        job.at_server -= 1;
        match completion.result {
            Ok(Reply::Data(bytes)) => job.read.push((from, bytes)),
            Ok(_) => {}
            Err(error) => {
                job.failure.get_or_insert_with(|| Failure::of(uri, &error));
            }
        }
        self.end_if_over(id);
        true
    }

    /// Ends the commands at the server after the connection was lost; the others wait for the next
    /// connection. Returns the number of ended commands.
    pub(super) fn lose(&mut self, said: &Arc<str>) -> usize {
        self.at_server.clear();
        let lost: Vec<CommandId> =
            self.jobs.iter().filter(|(_, job)| job.sent > 0).map(|(id, _)| *id).collect();
        for id in &lost {
            self.end(*id, Err(Failure { errno: LOST, said: Arc::clone(said) }));
        }
        lost.len()
    }

    /// Ends all commands that wait for a connection. Returns their number.
    pub(super) fn fail_waiting(&mut self, said: &Arc<str>) -> usize {
        let waiting: Vec<CommandId> =
            self.jobs.iter().filter(|(_, job)| job.sent == 0).map(|(id, _)| *id).collect();
        for id in &waiting {
            self.end(*id, Err(Failure { errno: AWAY, said: Arc::clone(said) }));
        }
        waiting.len()
    }

    /// Forgets the callback of a command that was given up.
    pub(super) fn give_up(&mut self, id: CommandId) -> GivenUp {
        let Some(job) = self.jobs.get(&id) else { return GivenUp::Over };
        if job.sent > 0 {
            return GivenUp::AtServer(job.name());
        }
        let said =
            "it waited for the connection to the drive longer than a command may take".into();
        self.end(id, Err(Failure { errno: Errno::TIMEDOUT.raw_os_error(), said }));
        GivenUp::NotSent
    }

    /// Returns true if a request that changes sectors is at the server.
    pub(super) fn changes_at_server(&self) -> bool {
        self.jobs.values().any(|job| job.at_server > 0 && job.op.changes_sectors())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// Returns the commands completed since the last call.
    pub(super) fn take_over(&mut self) -> std::vec::Drain<'_, Over> {
        self.over.drain(..)
    }

    fn end_if_over(&mut self, id: CommandId) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        if job.failure.is_some() {
            self.unsent.remove(&id);
        }
        if job.at_server > 0 || self.unsent.contains(&id) {
            return;
        }
        let result = match job.failure.take() {
            Some(failure) => Err(failure),
            None => Ok(job.join()),
        };
        self.end(id, result);
    }

    fn end(&mut self, id: CommandId, result: Result<Bytes, Failure>) {
        self.jobs.remove(&id);
        self.unsent.remove(&id);
        self.over.push(Over { command: id, result });
    }
}

impl Job {
    /// The next request and its share of the command. `None` if nothing is left to send.
    fn next(&self, shape: &Shape) -> Option<(NbdCommand, u64)> {
        if self.failure.is_some() {
            return None;
        }
        let Self { fua, .. } = *self;
        let (offset, left) = (self.offset + self.sent, self.len.saturating_sub(self.sent));
        let piece = |longest: u32| left.min(u64::from(longest));
        // Lengths are at most what `piece` was given, which is a u32.
        let (request, bytes) = match self.op {
            Op::Flush if self.sent == 0 && shape.flush => return Some((NbdCommand::Flush, 1)),
            Op::Flush => return None,
            Op::Discard if !shape.trim => return None,
            _ if left == 0 => return None,
            Op::Read => (
                NbdCommand::Read {
                    offset,
                    length: piece(shape.longest) as u32,
                    unfragmented: false,
                },
                piece(shape.longest),
            ),
            Op::Write => {
                let (from, len) = (self.sent as usize, piece(shape.longest) as usize);
                (
                    NbdCommand::Write {
                        offset,
                        payload: self.payload.slice(from..from + len),
                        fua,
                    },
                    len as u64,
                )
            }
            Op::Discard => (
                NbdCommand::Trim { offset, length: piece(LONGEST_HOLE) as u32, fua },
                piece(LONGEST_HOLE),
            ),
            Op::Zero if shape.write_zeroes => {
                let length = piece(LONGEST_HOLE) as u32;
                (
                    NbdCommand::WriteZeroes { offset, length, fua, no_hole: false, fast: false },
                    u64::from(length),
                )
            }
            Op::Zero => {
                let len = piece(shape.longest.min(NOTHING.len() as u32)) as usize;
                (
                    NbdCommand::Write { offset, payload: Bytes::from_static(&NOTHING[..len]), fua },
                    len as u64,
                )
            }
        };
        Some((request, bytes))
    }

    /// The data read, in order.
    fn join(&mut self) -> Bytes {
        if let [(_, only)] = &mut self.read[..] {
            return std::mem::take(only);
        }
        self.read.sort_unstable_by_key(|(from, _)| *from);
        let mut joined = Vec::with_capacity(self.read.iter().map(|(_, bytes)| bytes.len()).sum());
        self.read.drain(..).for_each(|(_, bytes)| joined.extend_from_slice(&bytes));
        joined.into()
    }

    fn name(&self) -> String {
        match self.op {
            Op::Flush => "flush".to_owned(),
            op => format!("{} of {} bytes at byte {}", op.name(), self.len, self.offset),
        }
    }
}

impl Failure {
    fn of(uri: &str, error: &RequestError) -> Self {
        match error {
            RequestError::Server { errno, text, .. } => {
                let text = if text.is_empty() { String::new() } else { format!(": {text}") };
                let said =
                    format!("{uri} answered: {errno}{text}; the log of that server may say more")
                        .into();
                // The protocol took its numbers from Linux, and all of them fit.
                Self { errno: errno.code() as i32, said }
            }
            RequestError::ConnectionLost => Self { errno: LOST, said: error.to_string().into() },
        }
    }
}

/// The code of a command whose connection was lost.
const LOST: i32 = Errno::CONNRESET.raw_os_error();
/// The code of a command for which there was no connection.
const AWAY: i32 = Errno::NOTCONN.raw_os_error();
/// TRIM and WRITE_ZEROES carry no data and may be as long as 4 GiB; a server that writes zeroes out
/// after all should not take minutes over one of them.
const LONGEST_HOLE: u32 = 128 << 20;
