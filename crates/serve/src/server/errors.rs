//! [`StartError`]: the reason why a server does not start.

use headtime_io::OpenError;
use headtime_nbd::LimitsError;

use crate::config::TextErrors;
use crate::http::HttpError;
use crate::listener::BindError;
use crate::tls::TlsError;
use crate::volumes::StoreError;

/// The reason why a server does not start. Nothing is served then; the message names changes of the
/// drive.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum StartError {
    /// The configuration is incomplete or contradictory.
    #[error(transparent)]
    Config(#[from] TextErrors),
    /// Contradictory limits.
    #[error("limits: {0}")]
    Limits(#[from] LimitsError),
    /// An address cannot be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// TLS cannot be set up.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// An HTTP endpoint cannot be served.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The drive cannot be opened.
    #[error("drive {locator}: {error}")]
    Drive { locator: String, error: OpenError },
    /// The table of volumes, or one of the volumes, is unusable.
    #[error("drive {locator}: {error}")]
    Volumes { locator: String, error: StoreError },
    /// The threads cannot be started.
    #[error("the server's threads cannot be started: {0}; raise the limit on threads")]
    Threads(std::io::Error),
}
