//! `/metrics` for Prometheus and `/healthz` for whoever watches over the server, over HTTP.
//!
//! Figures say what volumes there are and what is done with them, so that nobody but this machine
//! may ask for them unless the configuration says so. A request is answered from a snapshot and
//! changes nothing; at most 16 are open at once, and one that does not say what it wants within 5 s
//! is closed.

mod exposition;

use std::convert::Infallible;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use headtime_io::{LinkState, RealClock};
use headtime_units::Nanos;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CONTENT_TYPE};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

pub use exposition::{METRICS, MetricFamily};

use crate::stats::{Stats, StatsSnapshot};

/// Clients at once; one more is closed at once.
const MAX_CONNECTIONS: usize = 16;
/// How long a client may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(5);
/// A snapshot older than this is of an engine that does not answer.
const STALE: Nanos = Nanos::from_secs(2);

/// Where figures are given out, unless the address does not do.
#[derive(Debug)]
pub(crate) struct MetricsDoor {
    listener: TcpListener,
}

/// Why figures are not given out.
#[derive(Debug, thiserror::Error)]
pub enum MetricsError {
    /// Others could reach it.
    #[error(
        "metrics at {address}: {reached} can be reached from other machines, and the figures name \
            the volumes and tell what is done with them; \
         choose 127.0.0.1 or [::1], or say metrics_public = true"
    )]
    Public {
        /// The address as given.
        address: String,
        /// What it means.
        reached: SocketAddr,
    },
    /// The system refused.
    #[error(
        "metrics at {address}: {error}; write HOST:PORT, such as 127.0.0.1:9464, with a port that \
            is free"
    )]
    System {
        /// The address as given.
        address: String,
        /// The system's answer.
        error: io::Error,
    },
}

impl MetricsDoor {
    /// Opens the door. Needs a tokio runtime around it.
    pub(crate) fn bind(address: &str, public: bool) -> Result<Self, MetricsError> {
        let system = |error| MetricsError::System { address: address.to_owned(), error };
        let found: Vec<SocketAddr> = address.to_socket_addrs().map_err(system)?.collect();
        if let Some(reached) = found.iter().find(|found| !public && !found.ip().is_loopback()) {
            return Err(MetricsError::Public { address: address.to_owned(), reached: *reached });
        }
        let listener = std::net::TcpListener::bind(&found[..]).map_err(system)?;
        listener.set_nonblocking(true).map_err(system)?;
        Ok(Self { listener: TcpListener::from_std(listener).map_err(system)? })
    }

    /// Where it is, with the port that the system chose if it was asked to.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers whoever asks, for ever.
    pub(crate) async fn answer(self, stats: Arc<Stats>) {
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            let socket = match self.listener.accept().await {
                Ok((socket, _)) => socket,
                Err(error) => {
                    tracing::warn!("a client of the metrics could not be accepted: {error}");
                    tokio::time::sleep(crate::server::ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
            let stats = Arc::clone(&stats);
            tokio::spawn(async move {
                let answer = service_fn(move |request| answer(request, Arc::clone(&stats)));
                let mut http = hyper::server::conn::http1::Builder::new();
                http.timer(TokioTimer::new())
                    .header_read_timeout(PATIENCE)
                    .max_buf_size(16 << 10)
                    .keep_alive(false);
                let served = tokio::time::timeout(
                    2 * PATIENCE,
                    http.serve_connection(TokioIo::new(socket), answer),
                )
                .await;
                if !matches!(served, Ok(Ok(()))) {
                    tracing::debug!("a client of the metrics went away or took too long");
                }
                drop(place);
            });
        }
    }
}

async fn answer(
    request: Request<Incoming>,
    stats: Arc<Stats>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    if ![Method::GET, Method::HEAD].contains(request.method()) {
        let mut refused = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET\n".to_owned());
        refused.headers_mut().insert(ALLOW, hyper::header::HeaderValue::from_static("GET, HEAD"));
        return Ok(refused);
    }
    let path = request.uri().path();
    if !matches!(path, "/metrics" | "/healthz") {
        return Ok(plain(StatusCode::NOT_FOUND, "there are /metrics and /healthz\n".to_owned()));
    }
    let metrics = path == "/metrics";
    // A snapshot may wait for the engine.
    let snapshot = tokio::task::spawn_blocking(move || stats.snapshot()).await;
    let Ok(snapshot) = snapshot else {
        return Ok(plain(
            StatusCode::INTERNAL_SERVER_ERROR,
            "the figures cannot be had\n".to_owned(),
        ));
    };
    if !metrics {
        let troubles = troubles(&snapshot);
        let healthy = troubles.is_empty();
        let text = if healthy { "ok\n".to_owned() } else { troubles.join("\n") + "\n" };
        return Ok(plain(
            if healthy { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE },
            text,
        ));
    }
    Ok(match exposition::exposition(snapshot) {
        Ok(text) => {
            let mut answer = plain(StatusCode::OK, text);
            answer
                .headers_mut()
                .insert(CONTENT_TYPE, hyper::header::HeaderValue::from_static(OPEN_METRICS));
            answer
        }
        Err(error) => plain(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    })
}

/// What the text is, for Prometheus.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

fn plain(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response
}

/// What keeps the server from serving as it should.
fn troubles(snapshot: &StatsSnapshot) -> Vec<String> {
    let drive = &snapshot.drive;
    let mut troubles = Vec::new();
    let age = RealClock.now().saturating_since(drive.taken);
    if age > STALE {
        troubles.push(format!("the drive's engine has not answered for {age}"));
    }
    if drive.hung.given_up > 0 {
        troubles.push(format!(
            "the drive does not answer {} commands that were given up",
            drive.hung.given_up
        ));
    }
    if let Some(LinkState::Away { cause, .. }) = drive.link.as_ref().map(|link| &link.state) {
        troubles.push(format!("the drive is not connected: {cause}"));
    }
    troubles
}
