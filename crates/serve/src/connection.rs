//! One client's connection: a task that owns the socket and the protocol's state machine.
//!
//! ```text
//! socket ─► machine ─► request ─► job ─► [memory] ─► piece ─► [a place at the scheduler] ─► disk
//!    ▲         │                   ▲                                                         │ callback on the drive's thread
//!    └─ reply ◄┴────── answer ◄────┴───────────────── completions ◄──────────────────────────┘
//! ```
//! The task waits for whichever comes first of: bytes to read, room to write, a completion, memory, a place, the end. It never waits for one client
//! in a way that another could notice: what a client does not read stays in its own connection's memory, and what it does not
//! finish sending was granted before it was read ([`crate::memory`]).
//!
//! # When a client leaves with requests in flight
//!
//! Reads that are still queued are cancelled, and so is what was not handed to the scheduler yet of a CACHE request. Writes, zeroings and trims that
//! were taken from the socket are carried out wholly, as if the client had left a moment later: the protocol lets it expect nothing either way, and a write that
//! was cut in the middle would be a third state that neither the client nor a file system over it reckons with. A write whose payload had not
//! arrived wholly never happens. The task lives until everything it had at the drive is over, so its memory is accounted for until then.

use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use headtime_io::{Io, IoError};
use headtime_nbd::server::{Connection as Machine, Event, Handle, Refusal, Segment, TlsPolicy};
use headtime_nbd::{Command, Errno, Extent as StatusExtent, Limits};
use headtime_sched::{ClassId, Op, StreamId};
use headtime_units::{Nanos, Sectors};
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::arrivals::{Arrival, Arrivals};
use crate::config::ServeLimits;
use crate::disk::Disk;
use crate::export::{Export, Exports};
use crate::memory::{Allowance, StallMeter};
use crate::pieces::{Answer, Job, Piece, WINDOW};
use crate::socket::{Attempt, Socket};
use crate::stats::Kind;
use crate::stock::{Grant, Member, Stock};
use crate::tls::{Access, Channel, Permissions, Tls};
use crate::volumes::Pass;

/// What all connections of a server share.
pub(crate) struct Hub {
    pub(crate) exports: Arc<Exports>,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) permissions: Permissions,
    pub(crate) limits: ServeLimits,
    pub(crate) nbd_limits: Limits,
    /// Pages of memory ([`crate::memory`]).
    pub(crate) pool: Arc<Stock>,
    /// Places at the scheduler.
    pub(crate) places: Arc<Stock>,
    /// Connections that have an export open.
    pub(crate) doors: Arc<Stock>,
    /// Connections that have none open yet.
    pub(crate) arrivals: Arc<Arrivals>,
    pub(crate) phase: watch::Receiver<Phase>,
    /// Connections being served.
    pub(crate) connections: AtomicUsize,
}

/// What the server is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Serving.
    Running,
    /// Answering what is in flight, refusing what is new.
    Draining,
    /// Leaving at once.
    Leaving,
}

/// Why a connection is over.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum End {
    #[error("{0}")]
    Protocol(headtime_nbd::server::CloseReason),
    #[error("the client is gone")]
    Gone,
    #[error("no export was opened within {0}; raise handshake_timeout if the client is honest")]
    HandshakeTimeout(Nanos),
    #[error("no export was opened, and another client came when all places were taken; raise connections if the client is honest")]
    MadeRoom,
    #[error("the client held memory that others waited for, and moved next to nothing in {0}; raise stall_timeout or memory if the client is honest")]
    Stalled(Nanos),
    #[error("the server is shutting down")]
    ShutDown,
    #[error("the volume was removed")]
    Removed,
    #[error("TLS: {0}")]
    Tls(String),
}

/// A piece that is over.
struct PieceDone {
    handle: Handle,
    index: usize,
    result: Result<Bytes, IoError>,
    at: Instant,
}

/// A request and what has to be known to account for it.
struct Running {
    job: Job,
    /// Holds what the volume lets it have until it is over.
    pass: Pass,
    kind: Kind,
    caches: bool,
    started: Instant,
    last_completion: Instant,
}

impl Running {
    /// Bytes that are held for it only once it goes on; a payload is held from before it is read.
    fn held_bytes_of_reply(&self) -> u64 {
        if self.kind == Kind::Read { self.job.bytes() } else { 0 }
    }
}

type Granted = Pin<Box<dyn Future<Output = Grant> + Send>>;

struct Client {
    hub: Arc<Hub>,
    channel: Channel,
    /// What the client may see.
    access: Access,
    /// TLS is to begin as soon as everything before it has left.
    tls_wanted: bool,
    machine: Machine,
    stream: StreamId,
    /// What the client named last, with a place among the export's clients.
    named: Option<(Arc<Export>, Grant)>,
    /// The place, once the export is open.
    door: Option<Grant>,
    /// Until an export is open.
    arrival: Option<Arrival>,
    export: Option<Arc<Export>>,
    /// Where the export has its places at the scheduler.
    places: Option<Member>,
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

/// What the client hears that finds no place among an export's clients.
const CROWDED: &str = "the export has as many connections as may be open beside what is kept for other exports; close some, or raise connections";
/// How long a farewell may take.
const LINGER: Duration = Duration::from_secs(1);

impl Hub {
    /// Limits of a hub, as the protocol machine wants them.
    pub(crate) fn nbd_limits(limits: &ServeLimits) -> Limits {
        Limits {
            max_request_bytes: limits.request.get().min(1 << 30) as u32,
            max_in_flight: limits.connection_requests,
            // What no connection could ever be given memory for would wait in vain.
            max_in_flight_bytes: limits.connection_bytes.get().min(limits.grantable_bytes()),
            // One extent is all there ever is to say: everything is allocated.
            max_extents: 16,
            ..Limits::default()
        }
    }
}

/// Serves one client until it is over.
pub(crate) async fn serve(hub: Arc<Hub>, arrival: Arrival, socket: Socket, stream: StreamId, tls: TlsPolicy) -> End {
    hub.connections.fetch_add(1, Ordering::Relaxed);
    let (mut client, completions) = Client::new(Arc::clone(&hub), arrival, socket, stream, tls);
    let end = client.run(completions).await;
    if let Some(export) = &client.export {
        export.stats.closed();
    }
    let polite = !client.gone && matches!(end, End::Protocol(_) | End::ShutDown);
    let Client { channel, allowance, door, mut arrival, .. } = client;
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

impl Client {
    fn new(hub: Arc<Hub>, arrival: Arrival, socket: Socket, stream: StreamId, tls: TlsPolicy) -> (Self, mpsc::UnboundedReceiver<PieceDone>) {
        // Not bounded by itself: each message belongs to a place at the scheduler.
        let (done_sender, completions) = mpsc::unbounded_channel();
        let machine = Machine::with_tls(hub.nbd_limits.clone(), tls).expect("limits are checked when the server starts");
        // Who may open the file of a unix socket may see what is behind it; everybody else is who his certificate says.
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
        let mut memory: Option<Granted> = None;
        let mut place: Option<Granted> = None;
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
                memory = self.allowance.pool().map(|pool| Box::pin(pool.take(missing_pages)) as Granted);
            }
            let wants_place = !self.submit_ready();
            if wants_place && place.is_none() {
                place = self.places.as_ref().map(|places| Box::pin(places.take(1)) as Granted);
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
            let wants_write = !self.gone && (self.machine.output_bytes() > 0 || self.channel.has_unsent());
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
                        // Nothing more goes to or comes from this client; what it has at the drive ends by itself.
                        self.end = Some(End::Stalled(limits.stall_timeout));
                        self.client_gone();
                    }
                }
            }
        }
    }

    /// Bytes that are needed by what was admitted: requests that are being worked on, replies, the window of a CACHE request.
    fn served_bytes(&self) -> u64 {
        // The machine forgets requests when the client leaves, but what is at the drive still has its memory: then nothing is given back.
        if !self.hears() {
            return self.allowance.held_bytes();
        }
        let arrived: u64 = self.arrived.iter().map(|handle| self.jobs.get(handle).map_or(0, |running| running.held_bytes_of_reply())).sum();
        let caching = if self.caching.is_empty() { 0 } else { self.window_bytes() };
        self.machine.in_flight_bytes().saturating_sub(arrived + self.machine.receiving_bytes()) + caching
    }

    /// Bytes that are needed beyond those before whatever is next in line may go on: a request that has arrived, or a payload that is to.
    fn next_bytes(&self) -> u64 {
        match self.arrived.front().map(|handle| self.jobs.get(handle)) {
            Some(Some(running)) if running.caches && self.caching.is_empty() => self.window_bytes(),
            Some(Some(running)) => running.held_bytes_of_reply(),
            Some(None) => 0,
            None if self.hears() => self.machine.receiving_bytes(),
            None => 0,
        }
    }

    /// What a CACHE request has at the drive at once.
    fn window_bytes(&self) -> u64 {
        WINDOW as u64 * self.hub.limits.piece.get()
    }

    fn blocked_by_client(&self) -> bool {
        let unfinished_payload = self.machine.in_flight_bytes() > 0 && self.jobs.is_empty();
        self.machine.output_bytes() > 0 || unfinished_payload
    }

    /// Whether nothing of this client is left to be done.
    fn is_over(&self) -> bool {
        let told = self.gone || (self.machine.is_closed() && self.machine.output_bytes() == 0 && !self.channel.has_unsent());
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

    /// The client can be neither heard nor told anything. What it sent and the machine did not take yet, because too much was in flight, is dropped.
    fn client_gone(&mut self) {
        if self.hears() {
            self.gone = true;
            self.cancel_reads();
        }
        self.gone = true;
    }

    fn take_events(&mut self) {
        if self.gone {
            return;
        }
        while let Some(event) = self.machine.poll_event() {
            match event {
                Event::ListExports => {
                    let list = self.hub.exports.list(|export| self.access.sees(&export.name));
                    self.machine.answer_list(&list).expect("a list was asked for, and names were checked when the exports were made");
                }
                Event::LookupExport { name, .. } => self.look_up(&name),
                Event::Opened(_) => {
                    let (export, door) = self.named.take().expect("an export is opened that was looked up");
                    if !self.arrival.take().is_some_and(Arrival::stays) {
                        self.end = Some(End::MadeRoom);
                        return self.client_gone();
                    }
                    self.door = Some(door);
                    export.stats.opened();
                    self.removal = Some(export.volume.removal());
                    self.allowance.open(self.hub.pool.join(export.payer()));
                    self.places = Some(self.hub.places.join(export.payer()));
                    self.export = Some(export);
                }
                Event::StartTls => self.tls_wanted = true,
                Event::Request(request) => self.begin(request.handle, request.command),
                Event::Closed(reason) => self.closed(reason),
            }
        }
    }

    /// Begins TLS when it was asked for and everything before it has left, and goes on with its handshake.
    fn go_over_to_tls(&mut self) -> Result<(), End> {
        let wrong = |error: String| End::Tls(error);
        if self.tls_wanted && !self.gone && self.machine.output_bytes() == 0 {
            self.tls_wanted = false;
            let tls = self.hub.tls.as_ref().ok_or_else(|| wrong("there is no certificate".to_owned()))?;
            self.channel.start_tls(tls.in_force()).map_err(|error| wrong(error.to_string()))?;
        }
        if self.gone || !self.channel.is_shaking_hands() || !self.channel.shake_hands().map_err(wrong)? {
            return Ok(());
        }
        self.access = self.hub.permissions.of(self.channel.client_certificate());
        self.machine.tls_started().expect("TLS was asked for, and everything before it has left");
        Ok(())
    }

    fn look_up(&mut self, name: &str) {
        let draining = *self.hub.phase.borrow() != Phase::Running;
        let found = if draining { Err(Refusal::ShuttingDown) } else { self.hub.exports.find(name, |export| self.access.sees(&export.name)) };
        // What was named before and not opened has its place no more.
        self.named = None;
        let found = found.and_then(|export| {
            let door = self.hub.doors.join(export.payer()).try_take(1).ok_or_else(|| Refusal::Policy(CROWDED.to_owned()))?;
            self.named = Some((Arc::clone(&export), door));
            Ok(export)
        });
        let answer = found.map(|export| export.info());
        self.machine.answer_export(answer).expect("an export was asked for, and its description was checked when it was made");
    }

    fn closed(&mut self, reason: headtime_nbd::server::CloseReason) {
        self.end.get_or_insert(End::Protocol(reason));
        self.cancel_reads();
    }

    fn cancel_reads(&mut self) {
        let disk = Arc::clone(&self.hub.disk);
        let reads = self.jobs.values_mut().filter(|running| running.caches || running.kind == Kind::Read);
        for running in reads {
            running.job.stop().for_each(|id| disk.cancel(id));
        }
        let over: Vec<Handle> = self.jobs.iter().filter(|(_, running)| running.job.is_over()).map(|(handle, _)| *handle).collect();
        over.into_iter().for_each(|handle| self.finish(handle));
    }

    fn begin(&mut self, handle: Handle, command: Command) {
        let export = self.export.as_ref().expect("requests follow the opening of an export");
        let kind = match &command {
            Command::Read { .. } => Kind::Read,
            Command::Write { .. } => Kind::Write,
            _ => Kind::Other,
        };
        let caches = matches!(command, Command::Cache { .. });
        let (_, length) = command.range();
        let sector = export.volume.sector;
        let piece = Sectors::new(self.hub.limits.piece.get() / u64::from(sector.bytes()));
        let started = Instant::now();
        export.stats.begun();
        let pass = match export.volume.begin(export.class, &command) {
            Ok(pass) => pass,
            Err((errno, text)) => {
                self.machine.reply_error(handle, errno, text).expect("a request that just came is open");
                export.stats.ended(kind, length, started.elapsed(), true);
                return;
            }
        };
        let Some(job) = Job::new(command, export.volume.extent().start, sector, piece) else {
            // A raw disk has no holes to tell of: all of it is allocated.
            let status = [StatusExtent { length: length as u32, state: 0 }];
            let answered = self.machine.reply_extents(handle, &status);
            answered.expect("a status request of at least one byte is answered with all of it");
            export.stats.ended(kind, length, started.elapsed(), false);
            return;
        };
        self.jobs.insert(handle, Running { job, pass, kind, caches, started, last_completion: started });
        self.arrived.push_back(handle);
    }

    /// Lets requests that have arrived go on, in their order, as far as there is memory for them; says how many pages the next one lacks. While one lacks any, the
    /// connection holds no more than those before it need: what it has too little of to go on, others may use.
    fn admit(&mut self) -> u32 {
        loop {
            let served = self.served_bytes();
            let needed = served + self.next_bytes();
            let missing = self.allowance.missing_pages(needed);
            if missing > 0 && !self.take_at_once(missing) {
                self.allowance.keep(served);
                return self.allowance.missing_pages(needed);
            }
            let Some(handle) = self.arrived.pop_front() else {
                self.allowance.keep(needed);
                return 0;
            };
            if self.jobs.get(&handle).is_some_and(|running| running.caches) {
                self.caching.push_back(handle);
                if self.caching.len() > 1 {
                    continue;
                }
            }
            self.ready.push_back(handle);
        }
    }

    fn take_at_once(&mut self, pages: u32) -> bool {
        let granted = self.allowance.pool().and_then(|pool| pool.try_take(pages));
        let is_there = granted.is_some();
        granted.into_iter().for_each(|pages| self.allowance.add(pages));
        is_there
    }

    /// Hands pieces to the scheduler as long as there are places; says whether all went.
    fn submit_ready(&mut self) -> bool {
        while self.next_ready().is_some() {
            match self.places.as_ref().and_then(|places| places.try_take(1)) {
                Some(place) => self.submit_one(place),
                None => return false,
            }
        }
        true
    }

    /// The first request that has a piece for the scheduler; those before it that have none are dropped from the line.
    fn next_ready(&mut self) -> Option<Handle> {
        while let Some(handle) = self.ready.front() {
            if self.jobs.get(handle).is_some_and(|running| running.job.has_piece()) {
                return Some(*handle);
            }
            self.ready.pop_front();
        }
        None
    }

    fn submit_one(&mut self, place: Grant) {
        let Some(handle) = self.next_ready() else { return };
        let Some(running) = self.jobs.get_mut(&handle) else { return };
        let Some(Piece { index, op, extent, fua, data }) = running.job.next_piece() else { return };
        let export = self.export.as_ref().expect("requests follow the opening of an export");
        let timed = running.kind != Kind::Other && op != Op::Flush;
        let (deadline, priority) = (running.pass.deadline.filter(|_| timed), running.pass.priority.filter(|_| timed));
        let waited = Nanos::from_ns(u64::try_from(running.started.elapsed().as_nanos()).unwrap_or(u64::MAX));
        let io = Io {
            volume: export.volume.id,
            class: ClassId(export.class.number()),
            stream: self.stream,
            fua,
            data,
            priority,
            // The time is the request's, from its arrival; what was spent waiting for memory is gone.
            deadline: deadline.map(|deadline| deadline.saturating_sub(waited).max(Nanos::from_ns(1))),
            ..Io::new(op, extent)
        };
        let sender = self.done_sender.clone();
        let taken = self.hub.disk.submit(
            io,
            Box::new(move |done| {
                drop(place);
                // A connection that was torn down at once no longer listens.
                let _ = sender.send(PieceDone { handle, index, result: done.result, at: Instant::now() });
            }),
        );
        match taken {
            Ok(id) => running.job.submitted(index, id),
            Err(refused) => self.completed(PieceDone { handle, index, result: Err(IoError::NotTaken(refused)), at: Instant::now() }),
        }
    }

    fn completed(&mut self, done: PieceDone) {
        let Some(running) = self.jobs.get_mut(&done.handle) else { return };
        running.last_completion = running.last_completion.max(done.at);
        running.job.completed(done.index, done.result);
        if running.job.is_over() {
            self.finish(done.handle);
        } else if running.job.has_piece() && !self.ready.contains(&done.handle) {
            self.ready.push_back(done.handle);
        }
    }

    /// Answers a request that is over.
    fn finish(&mut self, handle: Handle) {
        let Some(Running { job, pass, kind, caches, started, last_completion, .. }) = self.jobs.remove(&handle) else { return };
        let export = self.export.as_ref().expect("requests follow the opening of an export");
        drop(pass);
        let bytes = job.bytes();
        let answer = job.into_answer();
        if kind == Kind::Read && !self.hears() {
            export.stats.dropped();
        } else {
            let failed = matches!(answer, Answer::Failed(..));
            export.stats.ended(kind, bytes, last_completion - started, failed);
        }
        if caches {
            self.caching.retain(|other| *other != handle);
            self.ready.extend(self.caching.front());
        }
        if self.gone {
            return;
        }
        let replied = match answer {
            Answer::Done => self.machine.reply_done(handle),
            Answer::Failed(errno, text) => self.machine.reply_error(handle, errno, &text),
            Answer::Data(read) => self.machine.reply_segments(handle, &read.into_iter().map(Segment::Data).collect::<Vec<_>>()),
        };
        if let Err(error) = replied {
            // A drive that gave less than was asked is the one way to come here.
            tracing::error!("{}: the drive's answer does not fit the request: {error}", export.name);
            let answered = self.machine.reply_error(handle, Errno::Io, "the drive gave less than was asked");
            answered.expect("a request that could not be answered is still open");
        }
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
async fn granted(waiting: &mut Option<Granted>) -> Grant {
    match waiting {
        Some(waiting) => waiting.await,
        None => std::future::pending().await,
    }
}

fn duration(span: Nanos) -> Duration {
    Duration::from_nanos(span.as_ns())
}

#[cfg(test)]
mod tests;
