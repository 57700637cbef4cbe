//! The built-in load generator: one NBD client per volume, each on its own thread.
//!
//! Closed loop: the load's number of requests is in flight at all times. Open loop: request n is
//! due at n × block / rate, and its response time counts from then, even if the bound on requests
//! in flight delayed its submission. Otherwise a stalling drive would get fewer requests and look
//! better than it is.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use bytes::{BufMut as _, Bytes};
use hdrhistogram::Histogram;
use headtime_nbd::client::{ClientEvent, Connection, Cookie, NbdClientConfig};
use headtime_nbd::uri::{Address, NbdUri};
use headtime_nbd::{ClientLimits, NbdCommand};
use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{Pattern, VolumeLoad};
use crate::report::ClientFigures;
use headtime_console::figures::Times;

/// A running generator.
pub struct BuiltIn {
    stop: Arc<AtomicBool>,
    clients: Vec<JoinHandle<anyhow::Result<ClientFigures>>>,
}

impl BuiltIn {
    pub(super) fn start(
        targets: &[(VolumeLoad, NbdUri)],
        duration: Duration,
        seed: u64,
    ) -> anyhow::Result<Self> {
        // All connect before any begins, so that none is measured while alone.
        let mut ready = Vec::new();
        for (load, uri) in targets {
            ready
                .push(Client::open(load.clone(), uri).with_context(|| {
                    format!("volume {} at {uri} cannot be loaded", load.volume)
                })?);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let mut running = Self { stop: Arc::clone(&stop), clients: Vec::new() };
        for (stream, mut client) in (0..).zip(ready) {
            let stop = Arc::clone(&stop);
            let name = format!("load-{}", client.load.volume);
            let work = move || {
                let volume = client.load.volume;
                let mut rng = ChaCha8Rng::seed_from_u64(seed);
                rng.set_stream(stream);
                client
                    .run(duration, &mut rng, &stop)
                    .with_context(|| format!("the client of volume {volume} failed"))
            };
            running.clients.push(
                std::thread::Builder::new()
                    .name(name)
                    .spawn(work)
                    .context("a thread for the load cannot be started")?,
            );
        }
        Ok(running)
    }

    pub(super) fn is_over(&self) -> bool {
        self.clients.iter().all(JoinHandle::is_finished)
    }

    pub(super) fn finish(mut self) -> anyhow::Result<Vec<Option<ClientFigures>>> {
        self.stop.store(true, Ordering::Relaxed);
        let clients = std::mem::take(&mut self.clients);
        clients
            .into_iter()
            .map(|client| {
                client.join().map_err(|_| anyhow!("a client of the load panicked"))?.map(Some)
            })
            .collect()
    }
}

impl Drop for BuiltIn {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for client in self.clients.drain(..) {
            let _ = client.join();
        }
    }
}

/// The connection of a client.
enum Socket {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Socket {
    fn connect(address: &Address) -> io::Result<Self> {
        let socket = match address {
            Address::Unix { socket } => Self::Unix(UnixStream::connect(socket)?),
            Address::Tcp { host, port } => {
                let stream = TcpStream::connect((host.as_str(), *port))?;
                stream.set_nodelay(true)?;
                Self::Tcp(stream)
            }
        };
        match &socket {
            Self::Unix(stream) => stream.set_nonblocking(true)?,
            Self::Tcp(stream) => stream.set_nonblocking(true)?,
        }
        Ok(socket)
    }

    /// Waits until bytes can be read, or written where `write`, or until `patience` is over.
    fn wait(&self, write: bool, patience: Duration) -> io::Result<()> {
        let fd = match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
        };
        let events = if write { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
        let timeout = Timespec {
            tv_sec: i64::try_from(patience.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: patience.subsec_nanos().into(),
        };
        match poll(&mut [PollFd::from_borrowed_fd(fd, events)], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(buffer),
            Self::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One volume's client.
struct Client {
    load: VolumeLoad,
    socket: Socket,
    connection: Connection,
    /// Blocks that the volume holds.
    blocks: u64,
    next_block: u64,
    payload: Bytes,
    /// The start of each request in flight.
    counted_from: BTreeMap<Cookie, Instant>,
    response_ns: Histogram<u64>,
    bytes: u64,
    errors: u64,
}

impl Client {
    /// Connects and opens the export.
    fn open(load: VolumeLoad, uri: &NbdUri) -> anyhow::Result<Self> {
        let block = u32::try_from(load.block.get())
            .context("a request of the load is longer than NBD allows")?;
        let limits = ClientLimits {
            max_in_flight: u32::try_from(load.in_flight)
                .context("the load asks for more requests at once than NBD allows")?,
            max_in_flight_bytes: (load.in_flight as u64 * load.block.get()).max(1 << 20),
            ..ClientLimits::default()
        };
        let connection = Connection::new(NbdClientConfig::open(uri.export.clone()), limits)
            .context("the client's limits do not fit the load")?;
        let socket = Socket::connect(&uri.address).context("cannot connect")?;
        let response_ns = Histogram::new_with_max(LONGEST_NS, 3)
            .map_err(|error| anyhow!("no histogram for response times: {error}"))?;
        let payload = Bytes::from(vec![0x5a; block as usize]);
        let mut client = Self {
            load,
            socket,
            connection,
            blocks: 0,
            next_block: 0,
            payload,
            counted_from: BTreeMap::new(),
            response_ns,
            bytes: 0,
            errors: 0,
        };
        let patience = Instant::now() + HANDSHAKE_PATIENCE;
        while client.blocks == 0 {
            if Instant::now() > patience {
                bail!(
                    "the server did not open the export within {} s",
                    HANDSHAKE_PATIENCE.as_secs()
                );
            }
            client.step(Duration::from_millis(100))?;
        }
        Ok(client)
    }

    /// Sends requests for `duration`, then waits for those in flight.
    fn run(
        &mut self,
        duration: Duration,
        rng: &mut ChaCha8Rng,
        stop: &AtomicBool,
    ) -> anyhow::Result<ClientFigures> {
        let began = Instant::now();
        let ends = began + duration;
        let mut issued: u64 = 0;
        loop {
            let now = Instant::now();
            let over = now >= ends || stop.load(Ordering::Relaxed);
            if over && self.counted_from.is_empty() {
                break;
            }
            if now > ends + DRAIN_PATIENCE {
                bail!(
                    "{} requests were not answered {} s after the end",
                    self.counted_from.len(),
                    DRAIN_PATIENCE.as_secs()
                );
            }
            let mut wake = now + TICK;
            while !over && self.counted_from.len() < self.load.in_flight {
                let due = self.due(began, issued, now);
                if due > now {
                    wake = wake.min(due);
                    break;
                }
                self.ask(rng, due)?;
                issued += 1;
            }
            self.step(wake.saturating_duration_since(Instant::now()))?;
        }
        let seconds = began.elapsed().as_secs_f64().max(1e-9);
        self.connection.disconnect();
        // If the disconnect request is lost, nothing changes.
        let _ = self.step(Duration::from_millis(10));
        Ok(self.figures(seconds))
    }

    /// The due time of request number `issued`.
    fn due(&self, began: Instant, issued: u64, now: Instant) -> Instant {
        match self.load.rate {
            Some(rate) => {
                began
                    + Duration::from_secs_f64(
                        issued as f64 * self.load.block.get() as f64 / rate.get() as f64,
                    )
            }
            None => now,
        }
    }

    /// Sends one request that counts from `due` on.
    fn ask(&mut self, rng: &mut ChaCha8Rng, due: Instant) -> anyhow::Result<()> {
        let block = match self.load.pattern {
            Pattern::Random => rng.random_range(0..self.blocks),
            Pattern::Sequential => {
                let block = self.next_block;
                self.next_block = (block + 1) % self.blocks;
                block
            }
        };
        let offset = block * self.load.block.get();
        let command = if rng.random::<f64>() < self.load.reads {
            NbdCommand::Read { offset, length: self.payload.len() as u32, unfragmented: false }
        } else {
            NbdCommand::Write { offset, payload: self.payload.clone(), fua: false }
        };
        let id = self
            .connection
            .submit(command)
            .context("a request of the load breaks the export's rules")?;
        self.counted_from.insert(id, due);
        Ok(())
    }

    /// Sends and receives bytes, at most until `patience` is over, and processes the replies.
    fn step(&mut self, patience: Duration) -> anyhow::Result<()> {
        self.send()?;
        self.socket
            .wait(self.connection.output_bytes() > 0, patience)
            .context("cannot wait for the server")?;
        self.send()?;
        self.receive()?;
        while let Some(event) = self.connection.poll_event() {
            match event {
                ClientEvent::Opened(session) => {
                    self.blocks = session.export.size_bytes / self.load.block.get();
                    if self.blocks == 0 {
                        bail!(
                            "the export has {} bytes, less than one request of the load",
                            session.export.size_bytes
                        );
                    }
                }
                ClientEvent::Completed(completion) => {
                    let from = self
                        .counted_from
                        .remove(&completion.id)
                        .context("the server answered a request twice")?;
                    if completion.result.is_ok() {
                        self.response_ns.saturating_record(
                            u64::try_from(from.elapsed().as_nanos()).unwrap_or(LONGEST_NS),
                        );
                        self.bytes += self.load.block.get();
                    } else {
                        self.errors += 1;
                    }
                }
                ClientEvent::Closed(reason)
                    if !self.counted_from.is_empty() || self.blocks == 0 =>
                {
                    bail!("the connection ended: {reason:?}")
                }
                ClientEvent::Closed(_) | ClientEvent::Described(_) | ClientEvent::Listed(_) => {}
            }
        }
        Ok(())
    }

    fn send(&mut self) -> anyhow::Result<()> {
        loop {
            let written = match self.connection.output_chunks().next() {
                None => return Ok(()),
                Some(chunk) => self.socket.write(chunk),
            };
            match written {
                Ok(count) => self.connection.advance_output(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("cannot send to the server"),
            }
        }
    }

    fn receive(&mut self) -> anyhow::Result<()> {
        let mut scratch = [0_u8; 64 << 10];
        while self.connection.wants_input() {
            let room = self.connection.read_hint().min(scratch.len());
            match self.socket.read(&mut scratch[..room]) {
                Ok(0) => {
                    self.connection.end_of_input();
                    return Ok(());
                }
                Ok(count) => self.connection.read_buffer().put_slice(&scratch[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("cannot receive from the server"),
            }
        }
        Ok(())
    }

    fn figures(&self, seconds: f64) -> ClientFigures {
        let times = &self.response_ns;
        let ms = |quantile| times.value_at_quantile(quantile) as f64 / 1e6;
        let response_ms = if times.is_empty() {
            Times::default()
        } else {
            let (mean, max) = (times.mean() / 1e6, times.max() as f64 / 1e6);
            Times {
                count: times.len(),
                mean,
                p50: ms(0.5),
                p95: ms(0.95),
                p99: ms(0.99),
                p999: ms(0.999),
                max,
            }
        };
        ClientFigures {
            requests: times.len(),
            iops: times.len() as f64 / seconds,
            mib_per_second: self.bytes as f64 / super::MIB / seconds,
            response_ms,
            errors: self.errors,
        }
    }
}

/// Ten minutes; what takes longer counts as ten minutes.
const LONGEST_NS: u64 = 600_000_000_000;
/// The time limit for opening an export.
const HANDSHAKE_PATIENCE: Duration = Duration::from_secs(10);
/// The time limit for requests in flight at the end.
const DRAIN_PATIENCE: Duration = Duration::from_secs(30);
/// The interval at which a client checks for a request to stop.
const TICK: Duration = Duration::from_millis(50);
