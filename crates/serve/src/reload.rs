//! [`Reloader`]: reads again, while serving, what others may change in files: certificates, keys,
//! revocation lists. Everything else of a configuration is read at the start, or changed over the
//! control socket.

use std::sync::Arc;

use crate::notify;
use crate::tls::{Tls, TlsError, TlsFiles};

/// Reads files again for one server.
#[derive(Clone, Debug)]
pub struct Reloader {
    tls: Option<Arc<Tls>>,
}

impl Reloader {
    pub(crate) fn new(tls: Option<Arc<Tls>>) -> Self {
        Self { tls }
    }

    /// Reads everything again, or leaves all as it is. Connections that are open stay.
    ///
    /// # Errors
    /// [`TlsError`]: what was in force is in force.
    pub fn reload(&self) -> Result<TlsFiles, TlsError> {
        let files = self.tls.as_ref().ok_or(TlsError::None)?.reload()?;
        tracing::info!(
            "tls: files were read again; the certificate is good until {}",
            files.certificate_until
        );
        files.notes.iter().for_each(|note| tracing::warn!("tls: {note}"));
        Ok(files)
    }

    /// What SIGHUP asks for: the same, told in the log and to systemd (`Type=notify-reload`),
    /// because nobody waits for an answer.
    pub fn on_hangup(&self) {
        notify::reloading();
        match self.reload() {
            Ok(_) => {}
            Err(error @ TlsError::None) => tracing::warn!("SIGHUP: {error}"),
            Err(error) => tracing::error!("SIGHUP: {error}. What was read before stays in force"),
        }
        notify::ready();
    }
}
