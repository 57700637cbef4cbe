//! HTTP endpoints of the server: a listening socket that only this machine can reach unless the
//! configuration allows more, with bounded numbers of connections and bounded times.
//!
//! The figures name the volumes and show their use. A request is answered from a snapshot and
//! changes nothing. At most 16 connections are open at once; a connection without a request within
//! 5 s, or with an answer that takes longer than 10 s, is closed. An answer that is a stream
//! ([`HttpConnection::keep_streaming`]) may take any time.

use std::convert::Infallible;
use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{Either, Full};
use hyper::body::{Body, Frame, Incoming};
use hyper::header::{ALLOW, HeaderValue};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket};
use tokio::sync::{Notify, Semaphore, mpsc};

use crate::listener::bind_first;

/// The maximum number of connections; the next one is closed at once.
const MAX_CONNECTIONS: usize = 16;
/// The longest time for a client to send its request.
const TIMEOUT: Duration = Duration::from_secs(5);

/// An HTTP endpoint of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpEndpoint {
    /// `/metrics` and `/healthz`.
    Metrics,
    /// The live web page.
    Web,
}

impl HttpEndpoint {
    /// The key of its address in the configuration; that of its access rule ends with `_public`.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Metrics => "metrics",
            Self::Web => "web",
        }
    }

    /// An address such as the key takes.
    #[must_use]
    pub fn example(self) -> &'static str {
        match self {
            Self::Metrics => "127.0.0.1:9464",
            Self::Web => "127.0.0.1:9465",
        }
    }
}

impl fmt::Display for HttpEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.key())
    }
}

/// The reason why an HTTP endpoint is not served.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum HttpError {
    /// Other machines could reach the address.
    #[error(
        "{endpoint} at {address}: {} can be reached from other machines, and the figures name the \
            volumes and show their use; choose 127.0.0.1 or [::1], or say {endpoint}_public = true",
        if reached.to_string() == *address { "it".to_owned() } else { reached.to_string() }
    )]
    Public { endpoint: HttpEndpoint, address: String, reached: SocketAddr },
    /// The system refused.
    #[error(
        "{endpoint} at {address}: {error}; write HOST:PORT, such as {}, with a port that is free",
        endpoint.example()
    )]
    System { endpoint: HttpEndpoint, address: String, error: io::Error },
}

/// The bound socket of an endpoint, which does not listen yet.
#[derive(Debug)]
pub(crate) struct BoundHttp {
    endpoint: HttpEndpoint,
    address: String,
    socket: TcpSocket,
}

/// The listening socket of an endpoint.
#[derive(Debug)]
pub(crate) struct HttpListener {
    endpoint: HttpEndpoint,
    listener: TcpListener,
}

/// The body of an answer: a text, or a stream of events.
pub(crate) type HttpBody = Either<Full<Bytes>, EventBody>;

/// A body whose parts are sent while it is read.
#[derive(Debug)]
pub(crate) struct EventBody(pub(crate) mpsc::Receiver<Bytes>);

/// One connection, as the code that answers on it sees it.
#[derive(Debug, Default)]
pub(crate) struct HttpConnection {
    streams: AtomicBool,
    cut: Notify,
}

impl HttpConnection {
    /// Lifts the time limit of the answer.
    pub(crate) fn keep_streaming(&self) {
        self.streams.store(true, Ordering::Relaxed);
    }

    /// Closes the connection, whatever is still to be sent.
    pub(crate) fn cut(&self) {
        self.cut.notify_one();
    }

    /// Returns when the connection must be closed.
    async fn ended(&self) {
        let overdue = async {
            tokio::time::sleep(2 * TIMEOUT).await;
            if self.streams.load(Ordering::Relaxed) {
                std::future::pending::<()>().await;
            }
        };
        tokio::select! { () = self.cut.notified() => {}, () = overdue => {} }
    }
}

impl BoundHttp {
    /// Binds the address; [`BoundHttp::listen`] follows. Needs a tokio runtime.
    pub(crate) fn new(
        endpoint: HttpEndpoint,
        address: &str,
        public: bool,
    ) -> Result<Self, HttpError> {
        let found = HttpListener::resolve(endpoint, address, public)?;
        let socket = bind_first(found.into_iter());
        let socket = socket.map_err(|error| system(endpoint, address, error))?;
        Ok(Self { endpoint, address: address.to_owned(), socket })
    }

    /// Listens at the address. Needs a tokio runtime.
    pub(crate) fn listen(self) -> Result<HttpListener, HttpError> {
        let Self { endpoint, address, socket } = self;
        let listener = socket.listen(MAX_CONNECTIONS as u32);
        let listener = listener.map_err(|error| system(endpoint, &address, error))?;
        Ok(HttpListener { endpoint, listener })
    }
}

impl HttpListener {
    /// The addresses that `address` names, if the endpoint may be served there.
    pub(crate) fn resolve(
        endpoint: HttpEndpoint,
        address: &str,
        public: bool,
    ) -> Result<Vec<SocketAddr>, HttpError> {
        let found = address.to_socket_addrs().map_err(|error| system(endpoint, address, error))?;
        let found: Vec<SocketAddr> = found.collect();
        match found.iter().find(|found| !public && !found.ip().is_loopback()) {
            Some(reached) => {
                Err(HttpError::Public { endpoint, address: address.to_owned(), reached: *reached })
            }
            None => Ok(found),
        }
    }

    pub(crate) fn endpoint(&self) -> HttpEndpoint {
        self.endpoint
    }

    /// The address, with the port that the system chose for port 0.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Accepts clients and answers their GET and HEAD requests by `answer`. Does not return.
    pub(crate) async fn answer<A, F>(self, answer: A)
    where
        A: Fn(Request<Incoming>, Arc<HttpConnection>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Response<HttpBody>> + Send + 'static,
    {
        let endpoint = self.endpoint;
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            let socket = match self.listener.accept().await {
                Ok((socket, _)) => socket,
                Err(error) => {
                    tracing::warn!("a client of {endpoint} could not be accepted: {error}");
                    tokio::time::sleep(crate::server::ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
            let answer = answer.clone();
            tokio::spawn(async move {
                if serve(socket, answer).await == ConnectionEnd::Cut {
                    tracing::debug!("a client of {endpoint} disconnected or was too slow");
                }
                drop(place);
            });
        }
    }
}

/// The way in which a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionEnd {
    /// The answer was sent.
    Answered,
    /// The client left, or the connection was closed before.
    Cut,
}

/// Answers one request.
pub(crate) async fn serve<S, A, F>(socket: S, answer: A) -> ConnectionEnd
where
    S: AsyncRead + AsyncWrite + Unpin,
    A: Fn(Request<Incoming>, Arc<HttpConnection>) -> F,
    F: Future<Output = Response<HttpBody>>,
{
    let connection = Arc::new(HttpConnection::default());
    let service = service_fn(|request: Request<Incoming>| {
        let allowed = [Method::GET, Method::HEAD].contains(request.method());
        let answered = allowed.then(|| answer(request, Arc::clone(&connection)));
        async move {
            Ok::<_, Infallible>(match answered {
                Some(answered) => answered.await,
                None => only_get(),
            })
        }
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new())
        .header_read_timeout(TIMEOUT)
        .max_buf_size(16 << 10)
        .keep_alive(false);
    tokio::select! {
        served = http.serve_connection(TokioIo::new(socket), service) => match served {
            Ok(()) => ConnectionEnd::Answered,
            Err(_) => ConnectionEnd::Cut,
        },
        () = connection.ended() => ConnectionEnd::Cut,
    }
}

/// An answer in plain text.
pub(crate) fn plain(status: StatusCode, text: String) -> Response<HttpBody> {
    let mut response = Response::new(Either::Left(Full::new(Bytes::from(text))));
    *response.status_mut() = status;
    response
}

fn only_get() -> Response<HttpBody> {
    let mut refused = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET\n".to_owned());
    refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    refused
}

fn system(endpoint: HttpEndpoint, address: &str, error: io::Error) -> HttpError {
    HttpError::System { endpoint, address: address.to_owned(), error }
}

impl Body for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|part| part.map(|part| Ok(Frame::data(part))))
    }
}
