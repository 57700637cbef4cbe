//! The server side of the control channel.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use headtime_io::Locator;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::sync::Semaphore;

use super::log::Caller;
use super::verbs::answer;
use super::{
    ControlHandler, ControlRequest, ControlResponse, ErrorReply, ErrorReplyKind, MAX_CONNECTIONS,
    MAX_LINE,
};
use crate::listener::Listener;

/// The default path of the socket: next to the file of the drive, in `/run/headtime` for a block
/// device, `None` for a drive without a local path.
pub(crate) fn default_path(locator: &Locator) -> Option<PathBuf> {
    crate::default_paths::beside(locator, "control", "/run/headtime")
}

/// The requests that are being answered, at most one of each connection.
#[derive(Clone)]
pub(crate) struct Answering(Arc<Semaphore>);

impl Default for Answering {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(MAX_CONNECTIONS)))
    }
}

impl Answering {
    /// Waits until each of them has its answer, for at most `timeout`.
    pub(crate) async fn finish(&self, timeout: Duration) {
        let all = self.0.acquire_many(MAX_CONNECTIONS as u32);
        let _late = tokio::time::timeout(timeout, all).await;
    }
}

/// Accepts and answers clients. Does not return.
pub(crate) async fn answer_clients(
    listener: Listener,
    handler: Arc<ControlHandler>,
    answering: Answering,
) {
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let socket = match listener.accept_unix().await {
            Ok(socket) => socket,
            Err(error) => {
                tracing::warn!(
                    "{}: a control connection could not be accepted: {error}",
                    listener.address()
                );
                tokio::time::sleep(crate::server::ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(permit) = Arc::clone(&permits).try_acquire_owned() else {
            tracing::warn!(
                "a control connection was rejected: {MAX_CONNECTIONS} are open, the maximum"
            );
            tokio::spawn(async move {
                let message = format!(
                    "{MAX_CONNECTIONS} control connections are open, the maximum; close one, or \
                        try again later"
                );
                send(&mut { socket }, &error_response(ErrorReplyKind::Failed, message)).await;
            });
            continue;
        };
        let (handler, answering) = (Arc::clone(&handler), answering.clone());
        let caller = Arc::new(Caller::of(&socket));
        tokio::spawn(async move {
            let (read, mut write) = socket.into_split();
            let mut lines = BufReader::new(read);
            loop {
                let input = next_line(&mut lines).await;
                let Ok(_answering) = answering.0.acquire().await else { break };
                let answer = match input {
                    Input::Line(line) => {
                        let (handler, caller) = (Arc::clone(&handler), Arc::clone(&caller));
                        // A verb may wait for the thread of a scan.
                        tokio::task::spawn_blocking(move || answer_line(&handler, &line, &caller))
                            .await
                    }
                    Input::TooLong => {
                        let message =
                            format!("the line is longer than {MAX_LINE} bytes, the maximum");
                        send(&mut write, &error_response(ErrorReplyKind::BadRequest, message))
                            .await;
                        break;
                    }
                    Input::End => break,
                };
                let Ok(answer) = answer else { break };
                if !send(&mut write, &answer).await {
                    break;
                }
            }
            drop(permit);
        });
    }
}

/// The next input from a client.
enum Input {
    /// A line without its line feed.
    Line(Vec<u8>),
    /// A line of more than [`MAX_LINE`] bytes.
    TooLong,
    /// The client closed the connection, or sent no complete line in time.
    End,
}

/// Reads the next line. An idle client is disconnected, because connections are few; it can connect
/// again.
async fn next_line(from: &mut (impl tokio::io::AsyncBufRead + Unpin)) -> Input {
    let mut line = Vec::new();
    let mut limited = from.take(MAX_LINE as u64);
    let read = tokio::time::timeout(TIMEOUT, limited.read_until(b'\n', &mut line)).await;
    let whole = line.last() == Some(&b'\n');
    match read {
        Ok(Ok(_)) if whole => {
            line.pop();
            Input::Line(line)
        }
        Ok(Ok(read)) if read == MAX_LINE => Input::TooLong,
        _ => Input::End,
    }
}

/// Writes an answer and returns whether the client accepted it.
async fn send(to: &mut (impl tokio::io::AsyncWrite + Unpin), answer: &ControlResponse) -> bool {
    let Ok(mut text) = serde_json::to_string(answer) else { return false };
    text.push('\n');
    matches!(tokio::time::timeout(TIMEOUT, to.write_all(text.as_bytes())).await, Ok(Ok(())))
}

fn error_response(kind: ErrorReplyKind, message: String) -> ControlResponse {
    ControlResponse::of(0, Err(ErrorReply::new(kind, message)))
}

/// The longest time for a client to complete a line or read an answer.
const TIMEOUT: Duration = Duration::from_secs(30);

fn answer_line(handler: &ControlHandler, line: &[u8], caller: &Caller) -> ControlResponse {
    match ControlRequest::read(line) {
        Ok(request) => ControlResponse::of(request.id, answer(handler, request, caller)),
        Err(refused) => ControlResponse::of(0, Err(refused)),
    }
}
