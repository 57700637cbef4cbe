//! The other side of the control channel: [`ControlClient`], for the command line.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{
    ControlRequest, ControlResponse, ErrorReply, ExplainAnswer, ExplainArguments, ScanAnswer,
    ScanArguments, VERSION, VolumeAnswer, VolumeArguments,
};

/// A connection to a running server.
#[derive(Debug)]
pub struct ControlClient {
    stream: BufReader<UnixStream>,
    path: PathBuf,
    next_id: u64,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Nobody listens there.
    #[error("{}: {error}; is `headtime serve` running, by the same user, with this control socket?", path.display())]
    NoServer {
        /// The socket.
        path: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
    /// The connection broke.
    #[error("{}: the server went away before it answered: {error}", path.display())]
    Gone {
        /// The socket.
        path: PathBuf,
        /// The system's answer.
        error: io::Error,
    },
    /// It speaks another language.
    #[error("{}: the answer cannot be read: {what}; is that the control socket of a server of this version?", path.display())]
    Strange {
        /// The socket.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The server says no.
    #[error("{}", .0.message)]
    ErrorReply(ErrorReply),
}

/// Longer than a scan may take to see to what it is told, or a volume to let its requests end.
const PATIENCE: Duration = Duration::from_secs(30);

impl ControlClient {
    /// Connects.
    ///
    /// # Errors
    /// [`ControlError::NoServer`].
    pub fn connect(path: &Path) -> Result<Self, ControlError> {
        let stream = UnixStream::connect(path).and_then(|stream| {
            stream.set_read_timeout(Some(PATIENCE))?;
            Ok(stream)
        });
        let stream =
            stream.map_err(|error| ControlError::NoServer { path: path.to_owned(), error })?;
        Ok(Self { stream: BufReader::new(stream), path: path.to_owned(), next_id: 1 })
    }

    /// Asks for something of scans, such as `scan.status`.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn scan(
        &mut self,
        verb: &str,
        arguments: &ScanArguments,
    ) -> Result<ScanAnswer, ControlError> {
        self.ask_for(verb, arguments)
    }

    /// Asks for something of volumes, such as `volume.list`.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn volume(
        &mut self,
        verb: &str,
        arguments: &VolumeArguments,
    ) -> Result<VolumeAnswer, ControlError> {
        self.ask_for(verb, arguments)
    }

    /// Asks where the time of slow and missed requests went.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn explain(&mut self, arguments: &ExplainArguments) -> Result<ExplainAnswer, ControlError> {
        self.ask_for("explain", arguments)
    }

    /// Asks for anything whose answer is a `T`.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn ask_for<T: DeserializeOwned>(
        &mut self,
        verb: &str,
        arguments: &impl Serialize,
    ) -> Result<T, ControlError> {
        let arguments =
            serde_json::to_value(arguments).map_err(|error| self.strange(error.to_string()))?;
        let answer = self.ask(verb, arguments)?;
        serde_json::from_value(answer).map_err(|error| self.strange(error.to_string()))
    }

    /// Asks for anything.
    ///
    /// # Errors
    /// See [`ControlError`].
    pub fn ask(
        &mut self,
        verb: &str,
        arguments: serde_json::Value,
    ) -> Result<serde_json::Value, ControlError> {
        let id = self.next_id;
        self.next_id += 1;
        let request = ControlRequest { v: VERSION, id, verb: verb.to_owned(), arguments };
        let mut line =
            serde_json::to_string(&request).map_err(|error| self.strange(error.to_string()))?;
        line.push('\n');
        let mut answer = String::new();
        let bad_request = self
            .stream
            .get_mut()
            .write_all(line.as_bytes())
            .and_then(|()| self.stream.read_line(&mut answer));
        let read =
            bad_request.map_err(|error| ControlError::Gone { path: self.path.clone(), error })?;
        if read == 0 {
            return Err(ControlError::Gone {
                path: self.path.clone(),
                error: io::ErrorKind::UnexpectedEof.into(),
            });
        }
        let answer: ControlResponse =
            serde_json::from_str(&answer).map_err(|error| self.strange(error.to_string()))?;
        match answer {
            ControlResponse { error: Some(refused), .. } => Err(ControlError::ErrorReply(refused)),
            ControlResponse { ok: Some(ok), id: of, .. } if of == id => Ok(ok),
            _ => Err(self.strange("it is of another request".to_owned())),
        }
    }

    fn strange(&self, what: String) -> ControlError {
        ControlError::Strange { path: self.path.clone(), what }
    }
}
