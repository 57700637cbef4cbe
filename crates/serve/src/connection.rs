//! One client connection: a task that owns the socket and the state machine of the protocol.
//!
//! ```text
//! socket ─► machine ─► request ─► job ─► [memory] ─► piece ─► [scheduler permit] ─► disk
//!    ▲         │                   ▲                                               │ callback
//!    └─ reply ◄┴────── answer ◄────┴───────────────── completions ◄────────────────┘
//! ```
//! The task waits for the first of: readable bytes, room to write, a completion, memory, a permit,
//! shutdown. One client never delays another. Replies that a client does not read stay in the
//! memory of its own connection. A payload that it does not finish sending has its memory reserved
//! before it is read ([`crate::memory`]).
//!
//! # Disconnect with requests in flight
//!
//! Queued reads are cancelled, and so are the pieces of a CACHE request that the scheduler does not
//! have yet. Writes, WRITE_ZEROES and TRIM requests that were received completely are carried out
//! completely. The protocol promises the client neither outcome, but a partial write would be a
//! third state that no file system expects. A write with an incomplete payload never happens. The
//! task lives until its last request at the drive is complete, so that its memory is accounted for
//! until then.

mod completions;
mod opening;
mod polling;
mod requests;
mod shared;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use headtime_io::RealClock;
use headtime_nbd::NbdCommand;
use headtime_nbd::server::{Connection as Machine, Handle, TlsPolicy};
use headtime_sched::StreamId;
use headtime_units::{Instant, Nanos};
use tokio::sync::watch;
use tokio::task::yield_now;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::arrivals::Arrival;
use crate::export::Export;
use crate::fair_semaphore::{Permit, SemaphoreClient};
use crate::memory::{MemoryAllowance, StallMeter};
use crate::pieces::Job;
use crate::socket::{Attempt, Socket};
use crate::tls::{Access, Channel};
use completions::Completions;
use polling::Polling;
use requests::PieceDone;
pub(crate) use shared::{Phase, Shared};

/// The reason why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum End {
    #[error("{0}")]
    Protocol(headtime_nbd::server::CloseReason),
    #[error("the client is gone")]
    Gone,
    #[error("no export was opened within {0}; raise handshake_timeout if the client is honest")]
    HandshakeTimeout(Nanos),
    #[error(
        "no export was opened, and another client came when the maximum was reached; raise \
            connections if the client is honest"
    )]
    MadeRoom,
    #[error(
        "the client held memory that others waited for, and moved almost no data in {0}; raise \
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

type PermitFuture = Pin<Box<dyn Future<Output = Permit> + Send>>;

struct ConnectionTask {
    shared: Arc<Shared>,
    channel: Channel,
    /// The exports that the client may see.
    access: Access,
    /// TLS starts as soon as all earlier output has been sent.
    tls_requested: bool,
    machine: Machine,
    stream: StreamId,
    /// The export that the client named last, with a permit to open it.
    named: Option<(Arc<Export>, Permit)>,
    /// The permit of the open export.
    export_permit: Option<Permit>,
    /// Present until an export is open.
    arrival: Option<Arrival>,
    export: Option<Arc<Export>>,
    /// The export's client of the semaphore for pieces at the scheduler.
    piece_permits: Option<SemaphoreClient>,
    /// Signals the removal of the volume.
    removal: Option<watch::Receiver<bool>>,
    /// Requests that the volume holds, with the times of their arrival.
    held: Vec<(Handle, NbdCommand, Instant)>,
    /// Signals that the volume holds them no longer.
    releases: Option<watch::Receiver<()>>,
    jobs: BTreeMap<Handle, Job>,
    /// Requests that wait for memory, in order of arrival.
    arrived: VecDeque<Handle>,
    /// The bytes of their replies.
    arrived_bytes: u64,
    /// Requests with memory and with pieces for the scheduler.
    ready: VecDeque<Handle>,
    /// CACHE requests. Only the first is active, which bounds the data that they read.
    caching: VecDeque<Handle>,
    completions: Arc<Completions<PieceDone>>,
    /// Empty; keeps its memory for the next completions.
    done: Vec<PieceDone>,
    allowance: MemoryAllowance,
    /// Half of the bytes that were last received: the requests in them are answered first.
    first_half: usize,
    /// The time at which bytes were last received.
    received_at: Instant,
    polling: Polling,
    /// Bytes through the socket, in both directions.
    moved_bytes: u64,
    /// Nothing can be sent any more.
    gone: bool,
    end: Option<End>,
}

/// The longest time for an orderly shutdown of the socket.
const LINGER: Duration = Duration::from_secs(1);

/// Serves one client until its connection ends.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    arrival: Arrival,
    socket: Socket,
    stream: StreamId,
    tls: TlsPolicy,
) -> End {
    shared.connections.fetch_add(1, Ordering::Relaxed);
    let mut client = ConnectionTask::new(Arc::clone(&shared), arrival, socket, stream, tls);
    let end = client.run().await;
    if let Some(export) = &client.export {
        export.stats.closed();
        shared.disk.stream_ended(stream);
    }
    let polite = !client.gone && matches!(end, End::Protocol(_) | End::ShutDown);
    let ConnectionTask { channel, allowance, export_permit, mut arrival, .. } = client;
    drop((allowance, export_permit));
    if polite {
        tokio::select! {
            _took_too_long = timeout(LINGER, channel.linger()) => {}
            () = evicted(&mut arrival) => {}
        }
    }
    shared.connections.fetch_sub(1, Ordering::Relaxed);
    shared.ended.fetch_add(1, Ordering::Relaxed);
    end
}

impl ConnectionTask {
    fn new(
        shared: Arc<Shared>,
        arrival: Arrival,
        socket: Socket,
        stream: StreamId,
        tls: TlsPolicy,
    ) -> Self {
        let machine = Machine::with_tls(shared.nbd_limits.clone(), tls)
            .expect("limits are checked when the server starts");
        // File permissions protect a unix socket. Every other client is identified by its
        // certificate.
        let trusted = matches!(socket, Socket::Unix(_)) && tls == TlsPolicy::Off;
        let access = if trusted { Access::All } else { shared.permissions.of(None) };
        Self {
            access,
            tls_requested: false,
            allowance: MemoryAllowance::new(shared.limits.connection_memory.get()),
            shared,
            channel: Channel::new(socket),
            machine,
            stream,
            named: None,
            export_permit: None,
            arrival: Some(arrival),
            export: None,
            piece_permits: None,
            removal: None,
            held: Vec::new(),
            releases: None,
            jobs: BTreeMap::new(),
            arrived: VecDeque::new(),
            arrived_bytes: 0,
            ready: VecDeque::new(),
            caching: VecDeque::new(),
            completions: Arc::new(Completions::new()),
            done: Vec::new(),
            first_half: 0,
            received_at: Instant::ORIGIN,
            polling: Polling::default(),
            moved_bytes: 0,
            gone: false,
            end: None,
        }
    }

    async fn run(&mut self) -> End {
        let limits = self.shared.limits.clone();
        let mut phase = self.shared.phase.clone();
        let handshake = sleep(duration(limits.handshake_timeout));
        tokio::pin!(handshake);
        let mut stall = interval(duration(limits.stall_timeout));
        stall.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut meter = StallMeter::default();
        let mut memory: Option<PermitFuture> = None;
        let mut piece_permit: Option<PermitFuture> = None;
        let mut granted = None;
        loop {
            if *phase.borrow_and_update() == Phase::Leaving {
                return End::ShutDown;
            }
            if *phase.borrow() == Phase::Draining {
                self.machine.begin_shutdown();
                if self.machine.is_idle() && self.has_no_requests() {
                    return self.end.take().unwrap_or(End::ShutDown);
                }
            }
            self.take_completions();
            self.begin_held();
            let more_events = self.take_events();
            if let Err(end) = self.continue_tls() {
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
                    .map(|pool| Box::pin(pool.take(missing_pages)) as PermitFuture);
            }
            let wants_permit = !self.submit_ready(granted.take());
            if wants_permit && piece_permit.is_none() {
                piece_permit = self
                    .piece_permits
                    .as_ref()
                    .map(|piece_permits| Box::pin(piece_permits.take(1)) as PermitFuture);
            }
            // A fast drive has completed them by now.
            let completed = self.take_completions();
            let reads = missing_pages == 0 && self.machine.wants_input() && !self.gone;
            let sent = self.write();
            if sent || completed || more_events {
                continue; // Replies that have left make room for requests.
            }
            if self.is_complete() {
                return self.end.take().unwrap_or(End::Gone);
            }

            if reads && self.channel.has_unread() {
                // TLS has decrypted data already, so the socket may never become readable.
                self.read();
                continue;
            }
            let shaking_hands = self.channel.is_shaking_hands();
            let wants_read = reads || (!self.gone && shaking_hands);
            let wants_write =
                !self.gone && (self.machine.output_bytes() > 0 || self.channel.has_unsent());
            tokio::select! {
                ready = self.channel.ready(wants_read, wants_write),
                    if wants_read || wants_write =>
                {
                    match ready {
                        // The top of the loop continues the handshake.
                        Ok(_) if shaking_hands => {}
                        Ok(ready)
                            if wants_read && (ready.is_readable() || ready.is_read_closed()) =>
                        {
                            self.read()
                        }
                        Ok(_) => {}
                        Err(_) => self.client_gone(),
                    }
                }
                () = self.completions.arrive() => {}
                // Other tasks go on meanwhile, and the runtime looks for ready sockets.
                () = yield_now(), if wants_read && self.polling.is_on(RealClock.now()) => {}
                pages = wait_for_permit(&mut memory) => {
                    memory = None;
                    self.allowance.add(pages);
                }
                taken = wait_for_permit(&mut piece_permit) => {
                    piece_permit = None;
                    granted = Some(taken);
                }
                _ = phase.changed() => {}
                () = hold_ended(&mut self.releases), if !self.held.is_empty() => {}
                () = volume_removed(&mut self.removal) => {
                    self.removal = None;
                    self.end = Some(End::Removed);
                    self.client_gone();
                }
                () = evicted(&mut self.arrival) => return End::MadeRoom,
                () = &mut handshake, if self.export.is_none() && self.is_reachable() => {
                    return End::HandshakeTimeout(limits.handshake_timeout)
                }
                _ = stall.tick() => {
                    let contended = self.allowance.is_contended();
                    if meter.tick(self.moved_bytes, self.blocked_by_client(), contended) {
                        // Stop all traffic with this client; its requests at the drive end by
                        // themselves.
                        self.end = Some(End::Stalled(limits.stall_timeout));
                        self.client_gone();
                    }
                }
            }
        }
    }

    /// Processes the completed pieces; returns whether there were any.
    fn take_completions(&mut self) -> bool {
        let mut done = std::mem::take(&mut self.done);
        self.completions.take(&mut done);
        let any = !done.is_empty();
        // The permits are released together.
        let permits = done.drain(..).filter_map(|done| self.completed(done));
        drop(permits.reduce(Permit::merged));
        self.done = done;
        any
    }

    fn blocked_by_client(&self) -> bool {
        let unfinished_payload = self.machine.in_flight_bytes() > 0 && self.has_no_requests();
        self.machine.output_bytes() > 0 || unfinished_payload
    }

    /// Returns whether this connection has nothing left to do.
    fn is_complete(&self) -> bool {
        let volume_removed = self.gone
            || (self.machine.is_closed()
                && self.machine.output_bytes() == 0
                && !self.channel.has_unsent());
        volume_removed && self.has_no_requests()
    }

    /// Returns whether no request waits or is in progress.
    fn has_no_requests(&self) -> bool {
        self.jobs.is_empty() && self.held.is_empty()
    }

    /// Returns whether the client can still receive answers.
    fn is_reachable(&self) -> bool {
        !self.gone && !self.machine.is_closed()
    }

    fn read(&mut self) {
        let mut buffer = self.machine.read_buffer();
        match self.channel.try_read(&mut buffer) {
            Attempt::Moved(count) => {
                self.moved_bytes += count as u64;
                self.first_half = self.machine.unparsed_bytes() / 2;
                self.received_at = RealClock.now();
                self.polling.received(self.received_at);
            }
            Attempt::NotNow => {}
            Attempt::Gone => self.machine.end_of_input(),
        }
    }

    /// Sends as much as the socket accepts; returns whether anything was sent.
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
                self.polling.sent(RealClock.now());
                count > 0
            }
            Attempt::NotNow => false,
            Attempt::Gone => {
                self.client_gone();
                true
            }
        }
    }

    /// Stops all traffic with the client. Input that the machine has not processed yet is dropped.
    fn client_gone(&mut self) {
        if self.is_reachable() {
            self.gone = true;
            self.cancel_reads();
        }
        self.gone = true;
    }
}

/// Waits until the volume is removed. Without a volume, it never returns.
async fn volume_removed(removal: &mut Option<watch::Receiver<bool>>) {
    match removal {
        // A dropped sender means that the volume is gone.
        Some(removal) => drop(removal.wait_for(|removed| *removed).await),
        None => std::future::pending().await,
    }
}

/// Waits until a hold of the volume ends. Without a volume, it never returns.
async fn hold_ended(releases: &mut Option<watch::Receiver<()>>) {
    match releases {
        // A dropped sender means that the volume is gone.
        Some(releases) => drop(releases.changed().await),
        None => std::future::pending().await,
    }
}

/// Waits until this connection has to make room for another. After an export was opened, it never
/// returns.
async fn evicted(arrival: &mut Option<Arrival>) {
    match arrival {
        Some(arrival) => arrival.evicted().await,
        None => std::future::pending().await,
    }
}

/// Waits for the requested permit. Without a request, it never returns.
async fn wait_for_permit(waiting: &mut Option<PermitFuture>) -> Permit {
    match waiting {
        Some(waiting) => waiting.await,
        None => std::future::pending().await,
    }
}

fn duration(span: Nanos) -> Duration {
    Duration::from_nanos(span.as_ns())
}
