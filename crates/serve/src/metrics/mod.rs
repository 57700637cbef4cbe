//! The HTTP endpoints `/metrics` for Prometheus and `/healthz` for monitoring.
//!
//! The metrics name the volumes and show their use, so only this machine may read them unless the
//! configuration allows more. A request is answered from a snapshot and changes nothing. At most 16
//! connections are open at once; a connection without a request within 5 s is closed.

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
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::Semaphore;

pub use exposition::{METRICS, MetricFamily};

use crate::listener::bind_first;
use crate::stats::{Stats, StatsSnapshot};

/// The maximum number of connections; the next one is closed at once.
const MAX_CONNECTIONS: usize = 16;
/// The longest time for a client to send its request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// A snapshot older than this means that the engine does not respond.
const STALE: Nanos = Nanos::from_secs(2);

/// The listening socket of the metrics.
#[derive(Debug)]
pub(crate) struct MetricsListener {
    listener: TcpListener,
}

/// The reason why metrics are not served.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum MetricsError {
    /// Other machines could reach the address.
    #[error(
        "metrics at {address}: {reached} can be reached from other machines, and the figures name \
            the volumes and show their use; \
         choose 127.0.0.1 or [::1], or say metrics_public = true"
    )]
    Public { address: String, reached: SocketAddr },
    /// The system refused.
    #[error(
        "metrics at {address}: {error}; write HOST:PORT, such as 127.0.0.1:9464, with a port that \
            is free"
    )]
    System { address: String, error: io::Error },
}

impl MetricsListener {
    /// The addresses that `address` names, if metrics may be served there.
    pub(crate) fn resolve(address: &str, public: bool) -> Result<Vec<SocketAddr>, MetricsError> {
        let system = |error| MetricsError::System { address: address.to_owned(), error };
        let found: Vec<SocketAddr> = address.to_socket_addrs().map_err(system)?.collect();
        match found.iter().find(|found| !public && !found.ip().is_loopback()) {
            Some(reached) => {
                Err(MetricsError::Public { address: address.to_owned(), reached: *reached })
            }
            None => Ok(found),
        }
    }

    /// Binds the address; [`MetricsListener::listen`] follows. Needs a tokio runtime.
    pub(crate) fn bind(address: &str, public: bool) -> Result<TcpSocket, MetricsError> {
        let found = Self::resolve(address, public)?;
        bind_first(found.into_iter())
            .map_err(|error| MetricsError::System { address: address.to_owned(), error })
    }

    /// Listens at a bound address. Needs a tokio runtime.
    pub(crate) fn listen(socket: TcpSocket, address: &str) -> Result<Self, MetricsError> {
        let listener = socket
            .listen(MAX_CONNECTIONS as u32)
            .map_err(|error| MetricsError::System { address: address.to_owned(), error })?;
        Ok(Self { listener })
    }

    /// The address, with the port that the system chose for port 0.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Accepts and answers clients. Does not return.
    pub(crate) async fn answer(self, stats: Arc<Stats>) {
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            let socket = match self.listener.accept().await {
                Ok((socket, _)) => socket,
                Err(error) => {
                    tracing::warn!("a metrics client could not be accepted: {error}");
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
                    .header_read_timeout(TIMEOUT)
                    .max_buf_size(16 << 10)
                    .keep_alive(false);
                let served = tokio::time::timeout(
                    2 * TIMEOUT,
                    http.serve_connection(TokioIo::new(socket), answer),
                )
                .await;
                if !matches!(served, Ok(Ok(()))) {
                    tracing::debug!("a metrics client disconnected or was too slow");
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
            "the metrics are not available\n".to_owned(),
        ));
    };
    if !metrics {
        let problems = problems(&snapshot);
        let healthy = problems.is_empty();
        let text = if healthy { "ok\n".to_owned() } else { problems.join("\n") + "\n" };
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

/// The content type of the metrics.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

fn plain(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response
}

/// The problems that affect the service.
fn problems(snapshot: &StatsSnapshot) -> Vec<String> {
    let drive = &snapshot.drive;
    let mut problems = Vec::new();
    let age = RealClock.now().saturating_since(drive.taken);
    if age > STALE {
        problems.push(format!("the drive's engine has not answered for {age}"));
    }
    if drive.hung.given_up > 0 {
        problems.push(format!(
            "the drive does not answer {} commands that were given up",
            drive.hung.given_up
        ));
    }
    if let Some(LinkState::Away { cause, .. }) = drive.link.as_ref().map(|link| &link.state) {
        problems.push(format!("the drive is not connected: {cause}"));
    }
    problems
}
