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
    #[error("{}", of_drive(locator, error))]
    Drive { locator: String, error: OpenError },
    /// The table of volumes, or one of the volumes, is unusable.
    #[error("drive {locator}: {error}")]
    Volumes { locator: String, error: StoreError },
    #[error("the server's threads cannot be started: {0}; raise the limit on threads")]
    Threads(std::io::Error),
}

/// An error of a drive, with the drive's name once.
fn of_drive(locator: &str, error: &OpenError) -> String {
    let text = error.to_string();
    if text.contains(locator) { text } else { format!("drive {locator}: {text}") }
}

impl StartError {
    /// Returns whether the configuration has to change, or names something that is not there;
    /// nothing was changed then.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        match self {
            Self::Config(_) | Self::Limits(_) | Self::Tls(_) => true,
            Self::Http(error) => matches!(error, HttpError::Public { .. }),
            Self::Drive { error, .. } => error.is_usage(),
            Self::Volumes { error, .. } => {
                matches!(error, StoreError::Volume(_) | StoreError::Terms(_))
            }
            Self::Bind(_) | Self::Threads(_) => false,
        }
    }
}
