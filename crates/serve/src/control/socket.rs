//! The server's side of the control channel.

use std::path::PathBuf;
use std::sync::Arc;

use headtime_io::Locator;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::sync::Semaphore;

use super::verbs::answer;
use super::{Answer, MOST_CONNECTIONS, MOST_LINE, Request};
use crate::listener::Listener;
use crate::scans::Scans;

/// Where the socket is unless somebody says otherwise: beside the file of the drive, in `/run/headtime` for a block device, nowhere for a drive that is in no place.
pub(crate) fn default_path(locator: &Locator) -> Option<PathBuf> {
    crate::scan_places::beside(locator, "control", "/run/headtime")
}

/// Answers whoever connects, for ever.
pub(crate) async fn answer_clients(listener: Listener, scans: Arc<Scans>) {
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    loop {
        let socket = match listener.accept_unix().await {
            Ok(socket) => socket,
            Err(error) => {
                tracing::warn!("{}: a control connection could not be accepted: {error}", listener.address());
                tokio::time::sleep(crate::server::ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            tracing::warn!("a control connection was turned away: {MOST_CONNECTIONS} are open");
            continue;
        };
        let scans = Arc::clone(&scans);
        tokio::spawn(async move {
            let (read, mut write) = socket.into_split();
            let mut lines = BufReader::new(read);
            while let Some(line) = next_line(&mut lines).await {
                let scans = Arc::clone(&scans);
                // Scans answer when their threads have seen to it, which may take a while.
                let answered = tokio::task::spawn_blocking(move || answer_line(&scans, &line)).await;
                let Ok(mut text) = answered.map(|answer| serde_json::to_string(&answer).unwrap_or_default()) else { break };
                text.push('\n');
                if write.write_all(text.as_bytes()).await.is_err() {
                    break;
                }
            }
            drop(place);
        });
    }
}

/// The next line, without its end; `None` when there is none, or it is too long for any request.
async fn next_line(from: &mut (impl tokio::io::AsyncBufRead + Unpin)) -> Option<Vec<u8>> {
    let mut line = Vec::new();
    let read = from.take(MOST_LINE as u64).read_until(b'\n', &mut line).await.ok()?;
    (read > 0 && line.pop() == Some(b'\n')).then_some(line)
}

fn answer_line(scans: &Scans, line: &[u8]) -> Answer {
    match Request::read(line) {
        Ok(request) => Answer::of(request.id, answer(scans, request)),
        Err(refused) => Answer::of(0, Err(refused)),
    }
}
