//! The choice of a running server, and requests to it.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::Args;
use headtime_io::Locator;
use headtime_serve::config::Config;
use headtime_serve::control::{ControlClient, ControlError, ErrorReplyKind};
use headtime_serve::default_control_socket;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::commands::check_config;
use headtime_console::Failure;

/// The server to address.
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
    #[must_use]
    pub fn is_named(&self) -> bool {
        self.control.is_some() || self.drive.is_some() || self.config.is_some()
    }

    /// Connects to it.
    ///
    /// # Errors
    /// When none is named, or it does not answer. `otherwise` is what else could have been named.
    pub fn connect(&self, otherwise: &str) -> Result<ControlClient, Failure> {
        let path = self.control_socket(otherwise)?;
        ControlClient::connect(&path).map_err(|error| Failure::Failed(error.into()))
    }

    fn control_socket(&self, otherwise: &str) -> Result<PathBuf, Failure> {
        let no_place = |what: &str| {
            Failure::usage(anyhow!(
                "{what} has no default control socket; name it with \
                    --control PATH"
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
            return Err(Failure::usage(anyhow!(
                "which server? Name its control socket (--control PATH), its drive (--drive \
                    LOCATOR) or its configuration (--config FILE){otherwise}"
            )));
        };
        let config: Config = check_config::read(file)?.map_err(Failure::usage)?;
        let beside = config.drive.as_ref().and_then(default_control_socket);
        config.control.path(beside).ok_or_else(|| no_place(&file.display().to_string()))
    }
}

/// Asks a server for something.
///
/// # Errors
/// When it refuses, has gone, or answers what cannot be read.
pub fn ask<T: DeserializeOwned>(
    client: &mut ControlClient,
    verb: &str,
    arguments: &impl Serialize,
) -> Result<T, Failure> {
    client.ask_for(verb, arguments).map_err(refused)
}

/// Sorts a refusal into invalid arguments and failures.
pub fn refused(error: ControlError) -> Failure {
    match &error {
        ControlError::ErrorReply(refused) if refused.kind == ErrorReplyKind::BadRequest => {
            Failure::usage(error)
        }
        _ => Failure::Failed(error.into()),
    }
}
