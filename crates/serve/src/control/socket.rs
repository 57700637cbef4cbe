//! The server's side of the control channel.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use headtime_io::Locator;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::sync::Semaphore;

use super::verbs::answer;
use super::{
    ControlHandler, ControlRequest, ControlResponse, ErrorReply, ErrorReplyKind, MAX_CONNECTIONS,
    MAX_LINE,
};
use crate::listener::Listener;

/// Where the socket is unless somebody says otherwise: beside the file of the drive, in
/// `/run/headtime` for a block device, nowhere for a drive that is in no place.
pub(crate) fn default_path(locator: &Locator) -> Option<PathBuf> {
    crate::default_paths::beside(locator, "control", "/run/headtime")
}

/// Answers whoever connects, for ever.
pub(crate) async fn answer_clients(listener: Listener, handler: Arc<ControlHandler>) {
    let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
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
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            tracing::warn!("a control connection was turned away: {MAX_CONNECTIONS} are open");
            tokio::spawn(async move {
                let message = format!(
                    "{MAX_CONNECTIONS} control connections are open, as many as there may be; end \
                        one, or try again later"
                );
                say(&mut { socket }, &refusal(ErrorReplyKind::Failed, message)).await;
            });
            continue;
        };
        let handler = Arc::clone(&handler);
        tokio::spawn(async move {
            let (read, mut write) = socket.into_split();
            let mut lines = BufReader::new(read);
            loop {
                let answer = match next_line(&mut lines).await {
                    Line::Whole(line) => {
                        let handler = Arc::clone(&handler);
                        // Scans answer when their threads have seen to it, which may take a while.
                        tokio::task::spawn_blocking(move || answer_line(&handler, &line)).await
                    }
                    Line::TooLong => {
                        let message =
                            format!("the line is longer than {MAX_LINE} bytes; no request is");
                        say(&mut write, &refusal(ErrorReplyKind::BadRequest, message)).await;
                        break;
                    }
                    Line::None => break,
                };
                let Ok(answer) = answer else { break };
                if !say(&mut write, &answer).await {
                    break;
                }
            }
            drop(place);
        });
    }
}

/// What comes next from a client.
enum Line {
    /// A line, without its end.
    Whole(Vec<u8>),
    /// More than any request is.
    TooLong,
    /// Nothing: it is gone, went in the middle of a line, or has had nothing to say for too long.
    None,
}

/// The next line. Who says nothing for a while is taken for gone: there are few places, and one who
/// is there can come again.
async fn next_line(from: &mut (impl tokio::io::AsyncBufRead + Unpin)) -> Line {
    let mut line = Vec::new();
    let mut most = from.take(MAX_LINE as u64);
    let read = tokio::time::timeout(PATIENCE, most.read_until(b'\n', &mut line)).await;
    let whole = line.last() == Some(&b'\n');
    match read {
        Ok(Ok(_)) if whole => {
            line.pop();
            Line::Whole(line)
        }
        Ok(Ok(read)) if read == MAX_LINE => Line::TooLong,
        _ => Line::None,
    }
}

/// Writes an answer; whether it was taken.
async fn say(to: &mut (impl tokio::io::AsyncWrite + Unpin), answer: &ControlResponse) -> bool {
    let Ok(mut text) = serde_json::to_string(answer) else { return false };
    text.push('\n');
    matches!(tokio::time::timeout(PATIENCE, to.write_all(text.as_bytes())).await, Ok(Ok(())))
}

fn refusal(kind: ErrorReplyKind, message: String) -> ControlResponse {
    ControlResponse::of(0, Err(ErrorReply::new(kind, message)))
}

/// How long a client may leave a line unfinished, or an answer unread.
const PATIENCE: Duration = Duration::from_secs(30);

fn answer_line(handler: &ControlHandler, line: &[u8]) -> ControlResponse {
    match ControlRequest::read(line) {
        Ok(request) => ControlResponse::of(request.id, answer(handler, request)),
        Err(refused) => ControlResponse::of(0, Err(refused)),
    }
}
