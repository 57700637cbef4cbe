//! Connections that have not opened an export yet, in the order they came: the first of them makes
//! room when there is none.
//!
//! A client that means to use an export opens it within milliseconds; one that floods the server
//! with connections leaves them as they are. So whoever has been about it the longest goes when
//! another comes and all places are taken. Who floods faster than an honest client opens its export
//! still shuts it out: until it has, nobody can tell them apart.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Arrivals(Mutex<Line>);

#[derive(Debug, Default)]
struct Line {
    next: u64,
    waiting: BTreeMap<u64, oneshot::Sender<()>>,
}

/// One of them, until dropped.
#[derive(Debug)]
pub(crate) struct Arrival {
    arrivals: Arc<Arrivals>,
    number: u64,
    shown_out: oneshot::Receiver<()>,
}

impl Arrivals {
    /// A client has connected. To be called where connections are accepted, in their order: whoever
    /// comes after must find it in the line.
    pub(crate) fn begin(self: &Arc<Self>) -> Arrival {
        let (sender, shown_out) = oneshot::channel();
        let mut line = self.line();
        let number = line.next;
        line.next += 1;
        line.waiting.insert(number, sender);
        Arrival { arrivals: Arc::clone(self), number, shown_out }
    }

    /// Tells the oldest to leave, if there is one. Whoever is told leaves: it opens no export any
    /// more.
    pub(crate) fn show_out_oldest(&self) -> bool {
        let oldest = self.line().waiting.pop_first();
        oldest.is_some_and(|(_, oldest)| {
            // One that is just going by itself makes room, too.
            let _told = oldest.send(());
            true
        })
    }

    /// Every statement leaves a line that makes sense.
    fn line(&self) -> MutexGuard<'_, Line> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Arrival {
    /// It has opened an export and is to stay; whether it may: not if it was told to make room
    /// before.
    pub(crate) fn stays(self) -> bool {
        self.arrivals.line().waiting.remove(&self.number).is_some()
    }

    /// Waits until it is to make room.
    pub(crate) async fn shown_out(&mut self) {
        // A sender that is gone without a word belongs to a line that is gone: nobody comes any
        // more.
        if (&mut self.shown_out).await.is_err() {
            std::future::pending().await
        }
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        self.arrivals.line().waiting.remove(&self.number);
    }
}
