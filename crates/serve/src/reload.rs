//! [`Reloader`]: reads certificates, keys and revocation lists, and the scans of the configuration
//! again while the server runs. All other configuration is read at the start or changed over the
//! control socket.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::notify;
use crate::scans::Scans;
use crate::tls::{Tls, TlsError, TlsFiles};

/// Reloads the files of one server.
#[derive(Clone)]
pub struct Reloader {
    tls: Option<Arc<Tls>>,
    scans: Arc<Scans>,
    /// Reads the configuration again; unset for a server that has no file of one.
    config: Arc<OnceLock<ReadConfig>>,
}

type ReadConfig = Box<dyn Fn() -> Result<Config, String> + Send + Sync>;

/// The result of a reload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reloaded {
    /// The files of TLS, if there is TLS.
    #[serde(flatten)]
    pub tls: Option<TlsFiles>,
    /// The number of scans in the configuration; `None` for a server without a file of one.
    pub scans: Option<usize>,
}

/// The reason why nothing was reloaded.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// The configuration.
    #[error("{0}")]
    Config(String),
    /// TLS.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

impl Reloader {
    pub(crate) fn new(tls: Option<Arc<Tls>>, scans: Arc<Scans>) -> Self {
        Self { tls, scans, config: Arc::default() }
    }

    /// Has all reloaders of the server read the configuration again by `read`. Only the first call
    /// counts.
    pub fn reread_config(&self, read: impl Fn() -> Result<Config, String> + Send + Sync + 'static) {
        let _first = self.config.set(Box::new(read));
    }

    /// Reloads all files, or changes nothing. Open connections stay.
    ///
    /// # Errors
    /// [`ReloadError`]; the old files stay in use.
    pub fn reload(&self) -> Result<Reloaded, ReloadError> {
        let config = self.config.get().map(|read| read()).transpose();
        let config = config.map_err(ReloadError::Config)?;
        let tls = match (&self.tls, &config) {
            (None, Some(_)) => None,
            _ => Some(self.reload_tls()?),
        };
        let scans = config.map(|Config { scans, .. }| {
            let number = scans.len();
            self.scans.follow(scans);
            tracing::info!("the configuration was read again; scans in it: {number}");
            number
        });
        Ok(Reloaded { tls, scans })
    }

    /// Reloads the files of TLS alone, or changes nothing.
    ///
    /// # Errors
    /// [`TlsError`]; the old files stay in use.
    pub fn reload_tls(&self) -> Result<TlsFiles, TlsError> {
        let files = self.tls.as_ref().ok_or(TlsError::None)?.reload()?;
        tracing::info!(
            "tls: files were reloaded; the certificate is valid until {}",
            files.certificate_until
        );
        files.notes.iter().for_each(|note| tracing::warn!("tls: {note}"));
        Ok(files)
    }

    /// Handles SIGHUP: reloads all files, logs the result, and notifies systemd
    /// (`Type=notify-reload`).
    pub fn on_hangup(&self) {
        notify::reloading();
        match self.reload() {
            Ok(_) => {}
            Err(error @ ReloadError::Tls(TlsError::None)) => tracing::warn!("SIGHUP: {error}"),
            Err(error) => tracing::error!("SIGHUP: {error}. The old files stay in use"),
        }
        notify::ready();
    }
}
