//! [`ControlClient`]: the client side of the control channel, for the command line.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{
    ControlRequest, ControlResponse, ErrorReply, ScanAnswer, ScanArguments, VERSION, VolumeAnswer,
    VolumeArguments,
};

/// A connection to a running server.
#[derive(Debug)]
pub struct ControlClient {
    stream: BufReader<UnixStream>,
    path: PathBuf,
    next_id: u64,
}

/// The reason why a request has no answer. `path` is the control socket.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum ControlError {
    /// No server listens at the socket.
    #[error(
        "{}: {error}; is `headtime serve` running, by the same user, with this control socket?",
        path.display()
    )]
    NoServer { path: PathBuf, error: io::Error },
    /// The connection broke before the answer arrived.
    #[error("{}: the server closed the connection before it answered: {error}", path.display())]
    Gone { path: PathBuf, error: io::Error },
    #[error(
        "{}: the answer cannot be read: {reason}; is this the control socket of a server of this \
            version?",
        path.display()
    )]
    Protocol { path: PathBuf, reason: String },
    /// The server answered with an error.
    #[error("{}", .0.message)]
    ErrorReply(ErrorReply),
}

/// The longest wait for an answer. Scans acknowledge a command, and volumes finish their requests,
/// in less time.
const TIMEOUT: Duration = Duration::from_secs(30);

impl ControlClient {
    /// Connects to the control socket at `path`.
    ///
    /// # Errors
    /// [`ControlError::NoServer`].
    pub fn connect(path: &Path) -> Result<Self, ControlError> {
        let connected = UnixStream::connect(path).and_then(|stream| {
            stream.set_read_timeout(Some(TIMEOUT))?;
            Ok(stream)
        });
        let stream =
            connected.map_err(|error| ControlError::NoServer { path: path.to_owned(), error })?;
        Ok(Self { stream: BufReader::new(stream), path: path.to_owned(), next_id: 1 })
    }

    /// Sends a verb of scans, such as `scan.status`.
    pub fn scan(
        &mut self,
        verb: &str,
        arguments: &ScanArguments,
    ) -> Result<ScanAnswer, ControlError> {
        self.ask_for(verb, arguments)
    }

    /// Sends a verb of volumes, such as `volume.list`.
    pub fn volume(
        &mut self,
        verb: &str,
        arguments: &VolumeArguments,
    ) -> Result<VolumeAnswer, ControlError> {
        self.ask_for(verb, arguments)
    }

    /// Sends a verb whose answer is a `T`.
    pub fn ask_for<T: DeserializeOwned>(
        &mut self,
        verb: &str,
        arguments: &impl Serialize,
    ) -> Result<T, ControlError> {
        let arguments = serde_json::to_value(arguments).map_err(|error| self.malformed(error))?;
        let answer = self.ask(verb, arguments)?;
        serde_json::from_value(answer).map_err(|error| self.malformed(error))
    }

    /// Sends a verb and returns its answer as JSON.
    pub fn ask(
        &mut self,
        verb: &str,
        arguments: serde_json::Value,
    ) -> Result<serde_json::Value, ControlError> {
        let id = self.next_id;
        self.next_id += 1;
        let request = ControlRequest { v: VERSION, id, verb: verb.to_owned(), arguments };
        let mut line = serde_json::to_string(&request).map_err(|error| self.malformed(error))?;
        line.push('\n');
        let mut answer = String::new();
        let read = self
            .stream
            .get_mut()
            .write_all(line.as_bytes())
            .and_then(|()| self.stream.read_line(&mut answer))
            .and_then(|read| if read == 0 { Err(EOF.into()) } else { Ok(()) });
        read.map_err(|error| ControlError::Gone { path: self.path.clone(), error })?;
        let answer: ControlResponse =
            serde_json::from_str(&answer).map_err(|error| self.malformed(error))?;
        match answer {
            ControlResponse { error: Some(reply), .. } => Err(ControlError::ErrorReply(reply)),
            ControlResponse { ok: Some(ok), id: of, .. } if of == id => Ok(ok),
            _ => Err(self.malformed("it belongs to another request")),
        }
    }

    fn malformed(&self, reason: impl ToString) -> ControlError {
        ControlError::Protocol { path: self.path.clone(), reason: reason.to_string() }
    }
}

const EOF: io::ErrorKind = io::ErrorKind::UnexpectedEof;
