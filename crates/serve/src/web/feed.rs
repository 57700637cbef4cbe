//! The distribution of events to open pages.
//!
//! Each page has a queue of [`QUEUE`] events. A page that reads none of them for so many seconds is
//! disconnected: nothing waits for it, and it occupies no memory. While no page is open, no events
//! are made.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::time::{MissedTickBehavior, interval};

use super::event::WebSource;
use crate::http::HttpConnection;

/// The maximum number of open pages.
pub(super) const MAX_PAGES: usize = 8;
/// The maximum number of events that wait for one page.
const QUEUE: usize = 4;
/// The time between two events.
const EVERY: Duration = Duration::from_secs(1);
/// The last event: the server ends.
const END: &[u8] = b"event: end\ndata: {}\n\n";

/// The open pages.
#[derive(Debug, Default)]
pub(crate) struct Feed {
    pages: Mutex<Pages>,
    opened: Notify,
}

#[derive(Debug, Default)]
struct Pages {
    open: Vec<Page>,
    closed: bool,
}

#[derive(Debug)]
struct Page {
    events: Sender<Bytes>,
    connection: Arc<HttpConnection>,
}

impl Feed {
    /// The events for another page; `None` if too many are open or the server ends.
    pub(super) fn subscribe(&self, connection: &Arc<HttpConnection>) -> Option<Receiver<Bytes>> {
        let mut pages = self.pages.lock();
        pages.open.retain(|page| !page.events.is_closed());
        if pages.closed || pages.open.len() >= MAX_PAGES {
            return None;
        }
        let (events, received) = mpsc::channel(QUEUE);
        pages.open.push(Page { events, connection: Arc::clone(connection) });
        self.opened.notify_one();
        Some(received)
    }

    /// Sends an event to all pages, and disconnects those that do not read.
    fn publish(&self, event: &Bytes) {
        self.pages.lock().open.retain(|page| {
            let sent = page.events.try_send(event.clone()).is_ok();
            if !sent {
                page.connection.cut();
            }
            sent
        });
    }

    fn is_watched(&self) -> bool {
        !self.pages.lock().open.is_empty()
    }

    /// Makes and publishes events while pages are open. Does not return; when it is dropped, the
    /// pages are told that the server ends.
    pub(crate) async fn run(self: Arc<Self>, source: Arc<WebSource>) {
        let _end = EndOfFeed(&self);
        loop {
            self.opened.notified().await;
            let mut seconds = interval(EVERY);
            seconds.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut before = None;
            while self.is_watched() {
                seconds.tick().await;
                let source = Arc::clone(&source);
                // A snapshot may wait for the engine.
                let made = tokio::task::spawn_blocking(move || source.next(before)).await;
                let Ok((event, now)) = made else { break };
                self.publish(&event);
                before = Some(now);
            }
        }
    }
}

/// Ends the events of all pages when dropped.
struct EndOfFeed<'f>(&'f Feed);

impl Drop for EndOfFeed<'_> {
    fn drop(&mut self) {
        self.0.publish(&Bytes::from_static(END));
        let mut pages = self.0.pages.lock();
        pages.closed = true;
        pages.open.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{ConnectionEnd, EventBody, HttpBody, plain, serve};
    use http_body_util::Either;
    use hyper::{Response, StatusCode};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    /// A page whose connection takes `bytes` before the browser must read.
    async fn page(
        feed: &Arc<Feed>,
        bytes: usize,
    ) -> (tokio::io::DuplexStream, tokio::task::JoinHandle<ConnectionEnd>) {
        let (mut browser, socket) = tokio::io::duplex(bytes);
        let feed = Arc::clone(feed);
        let answer = move |_, connection: Arc<HttpConnection>| {
            let events = feed.subscribe(&connection);
            connection.keep_streaming();
            async move {
                let Some(events) = events else {
                    return plain(StatusCode::SERVICE_UNAVAILABLE, String::new());
                };
                Response::<HttpBody>::new(Either::Right(EventBody(events)))
            }
        };
        let served = tokio::spawn(serve(socket, answer));
        browser.write_all(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
        (browser, served)
    }

    #[tokio::test]
    async fn a_page_that_reads_nothing_is_disconnected_and_the_others_are_not() {
        let feed = Arc::new(Feed::default());
        let (_silent, silent_end) = page(&feed, 256).await;
        let (mut reader, _reader_end) = page(&feed, 256).await;
        while feed.pages.lock().open.len() < 2 {
            tokio::task::yield_now().await;
        }
        let event = Bytes::from("data: x\n\n".repeat(100));
        let mut read = vec![0; event.len()];
        // One event may be in the hands of the connection beside those that wait, and some more
        // bytes in the buffers of the connection.
        for _ in 0..64 {
            feed.publish(&event);
            reader.read_exact(&mut read).await.unwrap();
        }
        assert_eq!(silent_end.await.unwrap(), ConnectionEnd::Cut);
        assert_eq!(feed.pages.lock().open.len(), 1);
    }

    #[test]
    fn the_number_of_pages_is_bounded_and_none_opens_after_the_end() {
        let feed = Feed::default();
        let connection = Arc::default();
        let mut pages: Vec<_> = (0..MAX_PAGES).map(|_| feed.subscribe(&connection)).collect();
        assert!(pages.iter().all(Option::is_some) && feed.subscribe(&connection).is_none());
        pages.pop();
        let mut last = feed.subscribe(&connection).expect("one was closed");
        drop(EndOfFeed(&feed));
        assert_eq!(last.try_recv(), Ok(Bytes::from_static(END)));
        assert!(last.try_recv().is_err() && feed.subscribe(&connection).is_none());
        assert!(!feed.is_watched());
    }
}
