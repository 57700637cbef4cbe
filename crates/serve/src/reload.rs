//! [`Reloader`]: reads certificates, keys and revocation lists again while the server runs. All
//! other configuration is read at the start or changed over the control socket.

use std::sync::Arc;

use crate::notify;
use crate::tls::{Tls, TlsError, TlsFiles};

/// Reloads the files of one server.
#[derive(Clone, Debug)]
pub struct Reloader {
    tls: Option<Arc<Tls>>,
}

impl Reloader {
    pub(crate) fn new(tls: Option<Arc<Tls>>) -> Self {
        Self { tls }
    }

    /// Reloads all files, or changes nothing. Open connections stay.
    ///
    /// # Errors
    /// [`TlsError`]; the old files stay in use.
    pub fn reload(&self) -> Result<TlsFiles, TlsError> {
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
            Err(error @ TlsError::None) => tracing::warn!("SIGHUP: {error}"),
            Err(error) => tracing::error!("SIGHUP: {error}. The old files stay in use"),
        }
        notify::ready();
    }
}
