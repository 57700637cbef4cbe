//! The choice of a running server, and requests to it. Without a choice it is the only server of
//! this machine.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use headtime_io::Locator;
use headtime_serve::config::Config;
use headtime_serve::control::{ControlClient, ControlError, ErrorReplyKind};
use headtime_serve::{control_sockets, default_control_socket, foreign_control_sockets};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::commands::check_config;
use headtime_console::Failure;

/// The server to address [default: the only one of this machine].
#[derive(Debug, Args)]
pub struct ServerChoice {
    /// Control socket of the server
    #[arg(long, value_name = "PATH", conflicts_with_all = ["drive", "config"])]
    pub control: Option<PathBuf>,
    /// Drive of the server, as it was given to `serve`; the control socket is beside it
    #[arg(long, value_name = "LOCATOR", conflicts_with = "config")]
    pub drive: Option<String>,
    /// Configuration file of the server, which names the control socket
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

impl ServerChoice {
    /// Returns true if a server is named.
    pub(crate) fn is_named(&self) -> bool {
        self.control.is_some() || self.drive.is_some() || self.config.is_some()
    }

    /// Connects to it.
    pub(crate) fn connect(&self, otherwise: &str) -> Result<ControlClient, Failure> {
        let path = self.control_socket(otherwise)?;
        ControlClient::connect(&path).map_err(|error| Failure::Failed(error.into()))
    }

    /// Connects to the named server, or to all servers of this machine.
    pub(crate) fn connect_all(&self) -> Result<Vec<ControlClient>, Failure> {
        if self.is_named() {
            return Ok(vec![self.connect("")?]);
        }
        let found = control_sockets();
        if found.is_empty() {
            return Err(which_server(&found, ""));
        }
        let connect = |path: &PathBuf| {
            ControlClient::connect(path).map_err(|error| Failure::Failed(error.into()))
        };
        found.iter().map(connect).collect()
    }

    fn control_socket(&self, otherwise: &str) -> Result<PathBuf, Failure> {
        let no_place = |what: &str| {
            Failure::usage(anyhow!(
                "{what} has no default control socket; name it with --control PATH"
            ))
        };
        if let Some(path) = &self.control {
            return Ok(path.clone());
        }
        if let Some(drive) = &self.drive {
            let locator = Locator::parse(drive).map_err(Failure::usage)?;
            return default_control_socket(&locator).ok_or_else(|| no_place(drive));
        }
        let Some(file) = &self.config else {
            let mut found = control_sockets();
            return match found.len() {
                1 => Ok(found.remove(0)),
                _ => Err(which_server(&found, otherwise)),
            };
        };
        let config: Config = check_config::read(file)?.map_err(Failure::usage)?;
        let beside = config.drive.as_ref().and_then(default_control_socket);
        config.control.path(beside).ok_or_else(|| no_place(&file.display().to_string()))
    }
}

/// The failure without a named server where there is not exactly one.
fn which_server(found: &[PathBuf], otherwise: &str) -> Failure {
    let list = |sockets: &[PathBuf]| -> Vec<String> {
        sockets.iter().map(|path| format!("--control {}", path.display())).collect()
    };
    let (listed, foreign) = (list(found), list(&foreign_control_sockets()));
    let what = if listed.is_empty() && !foreign.is_empty() {
        format!(
            "only servers of other users were found on this machine, which answer to those \
                (sudo): {}",
            foreign.join(", ")
        )
    } else if listed.is_empty() {
        "no running server was found on this machine".to_owned()
    } else {
        format!("this machine has {} running servers: {}", listed.len(), listed.join(", "))
    };
    Failure::usage(anyhow!(
        "which server? Name its control socket (--control PATH), its drive (--drive LOCATOR) or \
            its configuration (--config FILE){otherwise}; {what}"
    ))
}

/// Asks a server for something.
pub(crate) fn ask<T: DeserializeOwned>(
    client: &mut ControlClient,
    verb: &str,
    arguments: &impl Serialize,
) -> Result<T, Failure> {
    client.ask_for(verb, arguments).map_err(refused)
}

/// Sorts a refusal into invalid arguments and failures.
pub(crate) fn refused(error: ControlError) -> Failure {
    match &error {
        ControlError::ErrorReply(refused) if refused.kind == ErrorReplyKind::BadRequest => {
            Failure::usage(error)
        }
        _ => Failure::Failed(error.into()),
    }
}
