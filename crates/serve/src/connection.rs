//! One client's connection: a task that owns the socket and the protocol's state machine.
//!
//! ```text
//! socket ─► machine ─► request ─► job ─► [memory] ─► piece ─► [a place at the scheduler] ─► disk
//!    ▲         │                   ▲                                                         │ callback on the drive's thread
//!    └─ reply ◄┴────── answer ◄────┴───────────────── completions ◄──────────────────────────┘
//! ```
//! The task waits for whichever comes first of: bytes to read, room to write, a completion, memory,
//! a place, the end. It never waits for one client in a way that another could notice: what a
//! client does not read stays in its own connection's memory, and what it does not finish sending
//! was granted before it was read ([`crate::memory`]).
//!
//! # When a client leaves with requests in flight
//!
//! Reads that are still queued are cancelled, and so is what was not handed to the scheduler yet of
//! a CACHE request. Writes, zeroings and trims that were taken from the socket are carried out
//! wholly, as if the client had left a moment later: the protocol lets it expect nothing either
//! way, and a write that was cut in the middle would be a third state that neither the client nor a
//! file system over it computes with. A write whose payload had not arrived wholly never happens.
//! The task lives until everything it had at the drive is over, so its memory is accounted for
//! until then.

mod hub;
mod opening;
mod requests;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use headtime_nbd::server::{Connection as Machine, Handle, TlsPolicy};
use headtime_sched::StreamId;
use headtime_units::Nanos;
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::arrivals::Arrival;
use crate::export::Export;
use crate::fair_semaphore::{FairClient, Permit};
use crate::memory::{Allowance, StallMeter};
use crate::socket::{Attempt, Socket};
use crate::tls::{Access, Channel};
pub(crate) use hub::{Hub, Phase};
use requests::{PieceDone, Running};

/// Why a connection is over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum End {
    #[error("{0}")]
    Protocol(headtime_nbd::server::CloseReason),
    #[error("the client is gone")]
    Gone,
    #[error("no export was opened within {0}; raise handshake_timeout if the client is honest")]
    HandshakeTimeout(Nanos),
    #[error(
        "no export was opened, and another client came when all places were taken; raise \
            connections if the client is honest"
    )]
    MadeRoom,
    #[error(
        "the client held memory that others waited for, and moved next to nothing in {0}; raise \
            stall_timeout or memory if the client is honest"
    )]
    Stalled(Nanos),
    #[error("the server is shutting down")]
    ShutDown,
    #[error("the volume was removed")]
    Removed,
    #[error("TLS: {0}")]
    Tls(String),
}

type PendingPermit = Pin<Box<dyn Future<Output = Permit> + Send>>;

struct ConnectionTask {
    hub: Arc<Hub>,
    channel: Channel,
    /// What the client may see.
    access: Access,
    /// TLS is to begin as soon as everything before it has left.
    tls_wanted: bool,
    machine: Machine,
    stream: StreamId,
    /// What the client named last, with a place among the export's clients.
    named: Option<(Arc<Export>, Permit)>,
    /// The place, once the export is open.
    door: Option<Permit>,
    /// Until an export is open.
    arrival: Option<Arrival>,
    export: Option<Arc<Export>>,
    /// Where the export has its places at the scheduler.
    places: Option<FairClient>,
    /// Hears of the removal of the volume.
    removal: Option<watch::Receiver<bool>>,
    jobs: BTreeMap<Handle, Running>,
    /// Requests that wait for memory, in the order they came.
    arrived: VecDeque<Handle>,
    /// Requests with memory that have pieces for the scheduler.
    ready: VecDeque<Handle>,
    /// CACHE requests; only the first is worked on, so that what they read is bounded.
    caching: VecDeque<Handle>,
    done_sender: mpsc::UnboundedSender<PieceDone>,
    allowance: Allowance,
    /// Bytes through the socket, both ways.
    moved_bytes: u64,
    /// Nothing can be sent any more.
    gone: bool,
    end: Option<End>,
}

/// How long a farewell may take.
const LINGER: Duration = Duration::from_secs(1);

/// Serves one client until it is over.
pub(crate) async fn serve(
    hub: Arc<Hub>,
    arrival: Arrival,
    socket: Socket,
    stream: StreamId,
    tls: TlsPolicy,
) -> End {
    hub.connections.fetch_add(1, Ordering::Relaxed);
    let (mut client, completions) =
        ConnectionTask::new(Arc::clone(&hub), arrival, socket, stream, tls);
    let end = client.run(completions).await;
    if let Some(export) = &client.export {
        export.stats.closed();
    }
    let polite = !client.gone && matches!(end, End::Protocol(_) | End::ShutDown);
    let ConnectionTask { channel, allowance, door, mut arrival, .. } = client;
    drop((allowance, door));
    if polite {
        tokio::select! {
            _took_too_long = timeout(LINGER, channel.linger()) => {}
            () = shown_out(&mut arrival) => {}
        }
    }
    hub.connections.fetch_sub(1, Ordering::Relaxed);
    end
}

impl ConnectionTask {
    fn new(
        hub: Arc<Hub>,
        arrival: Arrival,
        socket: Socket,
        stream: StreamId,
        tls: TlsPolicy,
    ) -> (Self, mpsc::UnboundedReceiver<PieceDone>) {
        // Not bounded by itself: each message belongs to a place at the scheduler.
        let (done_sender, completions) = mpsc::unbounded_channel();
        let machine = Machine::with_tls(hub.nbd_limits.clone(), tls)
            .expect("limits are checked when the server starts");
        // Who may open the file of a unix socket may see what is behind it; everybody else is who
        // his certificate says.
        let trusted = matches!(socket, Socket::Unix(_)) && tls == TlsPolicy::Off;
        let access = if trusted { Access::All } else { hub.permissions.of(None) };
        let client = Self {
            access,
            tls_wanted: false,
            allowance: Allowance::new(hub.limits.connection_memory.get()),
            hub,
            channel: Channel::new(socket),
            machine,
            stream,
            named: None,
            door: None,
            arrival: Some(arrival),
            export: None,
            places: None,
            removal: None,
            jobs: BTreeMap::new(),
            arrived: VecDeque::new(),
            ready: VecDeque::new(),
            caching: VecDeque::new(),
            done_sender,
            moved_bytes: 0,
            gone: false,
            end: None,
        };
        (client, completions)
    }

    async fn run(&mut self, mut completions: mpsc::UnboundedReceiver<PieceDone>) -> End {
        let limits = self.hub.limits.clone();
        let mut phase = self.hub.phase.clone();
        let handshake = sleep(duration(limits.handshake_timeout));
        tokio::pin!(handshake);
        let mut stall = interval(duration(limits.stall_timeout));
        stall.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut meter = StallMeter::default();
        let mut memory: Option<PendingPermit> = None;
        let mut place: Option<PendingPermit> = None;
        loop {
            if *phase.borrow_and_update() == Phase::Leaving {
                return End::ShutDown;
            }
            if *phase.borrow() == Phase::Draining {
                self.machine.begin_shutdown();
                if self.machine.is_idle() && self.jobs.is_empty() {
                    return self.end.take().unwrap_or(End::ShutDown);
                }
            }
            while let Ok(done) = completions.try_recv() {
                self.completed(done);
            }
            self.take_events();
            if let Err(end) = self.go_over_to_tls() {
                self.end = Some(end);
                self.client_gone();
            }
            let missing_pages = self.admit();
            if missing_pages == 0 {
                memory = None;
            } else if memory.is_none() {
                memory = self
                    .allowance
                    .pool()
                    .map(|pool| Box::pin(pool.take(missing_pages)) as PendingPermit);
            }
            let wants_place = !self.submit_ready();
            if wants_place && place.is_none() {
                place =
                    self.places.as_ref().map(|places| Box::pin(places.take(1)) as PendingPermit);
            }
            if self.write() {
                continue; // Replies that have left make room for requests.
            }
            if self.is_over() {
                return self.end.take().unwrap_or(End::Gone);
            }

            let reads = missing_pages == 0 && self.machine.wants_input();
            if reads && !self.gone && self.channel.has_unread() {
                // What TLS has taken from the socket already makes no socket ready.
                self.read();
                continue;
            }
            let shaking_hands = self.channel.is_shaking_hands();
            let wants_read = !self.gone && (shaking_hands || reads);
            let wants_write =
                !self.gone && (self.machine.output_bytes() > 0 || self.channel.has_unsent());
            tokio::select! {
                ready = self.channel.ready(wants_read, wants_write), if wants_read || wants_write => {
                    match ready {
                        // Seen to above, where it was left.
                        Ok(_) if shaking_hands => {}
                        Ok(ready) if wants_read && (ready.is_readable() || ready.is_read_closed()) => self.read(),
                        Ok(_) => {}
                        Err(_) => self.client_gone(),
                    }
                }
                Some(done) = completions.recv() => self.completed(done),
                pages = granted(&mut memory) => {
                    memory = None;
                    self.allowance.add(pages);
                }
                taken = granted(&mut place) => {
                    place = None;
                    self.submit_one(taken);
                }
                _ = phase.changed() => {}
                () = told(&mut self.removal) => {
                    self.removal = None;
                    self.end = Some(End::Removed);
                    self.client_gone();
                }
                () = shown_out(&mut self.arrival) => return End::MadeRoom,
                () = &mut handshake, if self.export.is_none() && self.hears() => return End::HandshakeTimeout(limits.handshake_timeout),
                _ = stall.tick() => {
                    if meter.tick(self.moved_bytes, self.blocked_by_client(), self.allowance.is_wanted()) {
                        // Nothing more goes to or comes from this client; what it has at the drive
                        // ends by itself.
                        self.end = Some(End::Stalled(limits.stall_timeout));
                        self.client_gone();
                    }
                }
            }
        }
    }

    fn blocked_by_client(&self) -> bool {
        let unfinished_payload = self.machine.in_flight_bytes() > 0 && self.jobs.is_empty();
        self.machine.output_bytes() > 0 || unfinished_payload
    }

    /// Whether nothing of this client is left to be done.
    fn is_over(&self) -> bool {
        let told = self.gone
            || (self.machine.is_closed()
                && self.machine.output_bytes() == 0
                && !self.channel.has_unsent());
        told && self.jobs.is_empty()
    }

    /// Whether the client still hears answers.
    fn hears(&self) -> bool {
        !self.gone && !self.machine.is_closed()
    }

    fn read(&mut self) {
        match self.channel.try_read(&mut self.machine.read_buffer()) {
            Attempt::Moved(count) => self.moved_bytes += count as u64,
            Attempt::NotNow => {}
            Attempt::Gone => self.machine.end_of_input(),
        }
    }

    /// Sends what goes; says whether anything did.
    fn write(&mut self) -> bool {
        if self.gone {
            return false;
        }
        if self.channel.has_unsent() && self.channel.flush() == Attempt::Gone {
            self.client_gone();
            return true;
        }
        if self.machine.output_bytes() == 0 {
            return false;
        }
        match self.channel.try_write(self.machine.output_chunks()) {
            Attempt::Moved(count) => {
                self.moved_bytes += count as u64;
                self.machine.advance_output(count);
                count > 0
            }
            Attempt::NotNow => false,
            Attempt::Gone => {
                self.client_gone();
                true
            }
        }
    }

    /// The client can be neither heard nor told anything. What it sent and the machine did not take
    /// yet, because too much was in flight, is dropped.
    fn client_gone(&mut self) {
        if self.hears() {
            self.gone = true;
            self.cancel_reads();
        }
        self.gone = true;
    }
}

/// Waits until the volume is removed, for ever if there is none.
async fn told(removal: &mut Option<watch::Receiver<bool>>) {
    match removal {
        // A sender that is gone is a volume that is gone.
        Some(removal) => drop(removal.wait_for(|removed| *removed).await),
        None => std::future::pending().await,
    }
}

/// Waits until the connection is to make room for another, for ever if it has opened an export.
async fn shown_out(arrival: &mut Option<Arrival>) {
    match arrival {
        Some(arrival) => arrival.shown_out().await,
        None => std::future::pending().await,
    }
}

/// Waits for what was asked for, for ever if nothing was.
async fn granted(waiting: &mut Option<PendingPermit>) -> Permit {
    match waiting {
        Some(waiting) => waiting.await,
        None => std::future::pending().await,
    }
}

fn duration(span: Nanos) -> Duration {
    Duration::from_nanos(span.as_ns())
}
