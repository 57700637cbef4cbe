//! Connections without an open export, in order of arrival. The oldest makes room when the maximum
//! number of connections is reached.
//!
//! An honest client opens an export within milliseconds; a client that floods the server with
//! connections leaves them idle. So the connection that has been idle the longest is closed for a
//! new one. A flood that is faster than an honest client's handshake still locks that client out:
//! until an export is open, the two look alike.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

/// All connections without an open export.
#[derive(Debug, Default)]
pub(crate) struct Arrivals(Mutex<ArrivalList>);

#[derive(Debug, Default)]
struct ArrivalList {
    next: u64,
    waiting: BTreeMap<u64, oneshot::Sender<()>>,
}

/// One connection without an open export; removed from the list when dropped.
#[derive(Debug)]
pub(crate) struct Arrival {
    arrivals: Arc<Arrivals>,
    number: u64,
    evicted: oneshot::Receiver<()>,
}

impl Arrivals {
    /// Registers a new connection. Call it in the order of acceptance, before the next connection
    /// is accepted.
    pub(crate) fn begin(self: &Arc<Self>) -> Arrival {
        let (sender, evicted) = oneshot::channel();
        let mut list = self.0.lock();
        let number = list.next;
        list.next += 1;
        list.waiting.insert(number, sender);
        Arrival { arrivals: Arc::clone(self), number, evicted }
    }

    /// Closes the oldest connection, if there is one; it cannot open an export any more. Returns
    /// whether there was one.
    pub(crate) fn evict_oldest(&self) -> bool {
        let oldest = self.0.lock().waiting.pop_first();
        oldest.is_some_and(|(_, oldest)| {
            // A connection that is ending by itself makes room too.
            let _result = oldest.send(());
            true
        })
    }
}

impl Arrival {
    /// Marks the connection as open. Returns whether it may stay: not if it had to make room
    /// before.
    pub(crate) fn stays(self) -> bool {
        self.arrivals.0.lock().waiting.remove(&self.number).is_some()
    }

    /// Waits until the connection has to make room.
    pub(crate) async fn evicted(&mut self) {
        // A dropped list has no new connections to make room for.
        if (&mut self.evicted).await.is_err() {
            std::future::pending().await
        }
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        self.arrivals.0.lock().waiting.remove(&self.number);
    }
}
