//! Why a server does not start.

use headtime_io::OpenError;
use headtime_nbd::LimitsError;

use crate::config::TextErrors;
use crate::listener::BindError;
use crate::metrics::MetricsError;
use crate::tls::TlsError;
use crate::volumes::StoreError;

/// Why a server does not start. Nothing is being served then; what was changed on the drive says
/// the message.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration is incomplete or contradicts itself.
    #[error(transparent)]
    Config(#[from] TextErrors),
    /// Limits that cannot be kept together.
    #[error("limits: {0}")]
    Limits(#[from] LimitsError),
    /// An address cannot be listened at.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// There is no TLS as it was asked for.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Figures cannot be given out.
    #[error(transparent)]
    Metrics(#[from] MetricsError),
    /// The drive cannot be opened.
    #[error("drive {locator}: {error}")]
    Drive {
        /// The drive's locator.
        locator: String,
        /// Why.
        error: OpenError,
    },
    /// The table of volumes cannot be had, or not with these volumes.
    #[error("drive {locator}: {error}")]
    Volumes {
        /// The drive's locator.
        locator: String,
        /// Why.
        error: StoreError,
    },
    /// The drive has no volumes and none was asked for.
    #[error(
        "drive {locator} has no volumes yet, so there is nothing to serve; name one with its size, \
            such as --volume vol0=10GiB"
    )]
    NoVolumes {
        /// The drive's locator.
        locator: String,
    },
    /// A thread was refused.
    #[error("the server's threads cannot be started: {0}; raise the limit on threads")]
    Threads(std::io::Error),
}
