//! A scripted NBD server in this process: keeps requests, fails them, hangs up, lies.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use bytes::Bytes;
use headtime_nbd::server::{Connection, ExportRefusal, Handle, ServerEvent};
use headtime_nbd::{Errno, ExportInfo, NbdCommand, ServerLimits};

/// The state that a test shares with its server.
pub(crate) struct Script {
    pub export: ExportInfo,
    pub bytes: Vec<u8>,
    /// Every request, in the order they were taken in: connection, name, first byte, bytes.
    pub log: Vec<(usize, &'static str, u64, u64)>,
    /// The treatment of a request, evaluated again and again as long as it is kept.
    pub rule: Box<dyn Fn(&NbdCommand) -> Rule + Send>,
    /// Connections that were made, and those of them on which the export was opened.
    pub accepted: usize,
    pub opened: usize,
    /// Connections are accepted.
    pub accepting: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Rule {
    Answer,
    Keep,
    Fail(Errno),
    HangUp,
    /// Sends this in place of an answer.
    Say(Vec<u8>),
}

pub(crate) struct Puppet {
    script: Arc<Mutex<Script>>,
    socket: PathBuf,
}

impl Puppet {
    /// A server of a drive of zeroes at `socket`; it lives as long as the test.
    pub(crate) fn start(socket: &Path, export: ExportInfo) -> Self {
        let script = Script {
            bytes: vec![0; export.size_bytes.min(1 << 24) as usize],
            export,
            log: Vec::new(),
            rule: Box::new(|_| Rule::Answer),
            accepted: 0,
            opened: 0,
            accepting: true,
        };
        let script = Arc::new(Mutex::new(script));
        let listener = UnixListener::bind(socket).expect("the socket's path is free");
        let shared = Arc::clone(&script);
        std::thread::spawn(move || {
            loop {
                while !lock(&shared).accepting {
                    std::thread::sleep(POLL);
                }
                let Ok((stream, _)) = listener.accept() else { return };
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || serve(stream, &shared));
            }
        });
        Self { script, socket: socket.to_owned() }
    }

    pub(crate) fn script(&self) -> MutexGuard<'_, Script> {
        lock(&self.script)
    }

    pub(crate) fn set_rule(&self, rule: impl Fn(&NbdCommand) -> Rule + Send + 'static) {
        self.script().rule = Box::new(rule);
    }

    /// Waits until the script looks so.
    pub(crate) fn wait_until(&self, what: &str, is_so: impl Fn(&Script) -> bool) {
        let enough = Instant::now() + Duration::from_secs(60);
        while !is_so(&self.script()) {
            assert!(
                Instant::now() < enough,
                "a minute has passed and not: {what}; seen: {:?}",
                self.script().log
            );
            std::thread::sleep(POLL);
        }
    }

    pub(crate) fn uri(&self) -> String {
        format!("nbd+unix:///?socket={}", self.socket.display())
    }

    /// Lets TCP in too; the port.
    pub(crate) fn listen_on_tcp(&self) -> u16 {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port is free");
        let port = listener.local_addr().expect("it is bound").port();
        let socket = self.socket.clone();
        std::thread::spawn(move || {
            while let Ok((mut near, _)) = listener.accept() {
                let mut far = UnixStream::connect(&socket).expect("the puppet listens");
                let (mut near_out, mut far_out) = (
                    near.try_clone().expect("a descriptor"),
                    far.try_clone().expect("a descriptor"),
                );
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut near, &mut far_out);
                    let _ = far_out.shutdown(std::net::Shutdown::Write);
                });
                std::thread::spawn(move || {
                    let _ = std::io::copy(&mut far, &mut near_out);
                    let _ = near_out.shutdown(std::net::Shutdown::Both);
                });
            }
        });
        port
    }
}

/// A server that is no NBD server: what it does with each connection is the test's.
pub(crate) fn serve_raw(socket: &Path, each: impl Fn(UnixStream) + Send + 'static) {
    let listener = UnixListener::bind(socket).expect("the socket's path is free");
    std::thread::spawn(move || {
        while let Ok((stream, _)) = listener.accept() {
            each(stream);
        }
    });
}

/// One connection. At the end of what the client sends, kept requests are waited for, as a server
/// does whose disk takes its time.
fn serve(mut stream: UnixStream, script: &Mutex<Script>) {
    let number = {
        let mut script = lock(script);
        script.accepted += 1;
        script.accepted
    };
    stream.set_read_timeout(Some(POLL)).expect("it is a socket");
    let mut machine =
        Connection::new(ServerLimits::default()).expect("the default limits go together");
    let mut kept: Vec<(Handle, NbdCommand)> = Vec::new();
    let mut input = [0; 65_536];
    let mut ended = false;
    loop {
        while let Some(event) = machine.poll_event() {
            match event {
                ServerEvent::ListExports => machine.answer_list(&[]).expect("it was requested"),
                ServerEvent::LookupExport { name, .. } => {
                    let found = name.is_empty().then(|| lock(script).export.clone());
                    machine
                        .answer_export(found.ok_or(ExportRefusal::Unknown))
                        .expect("a good export");
                }
                ServerEvent::StartTls => unreachable!("a machine without TLS refuses it"),
                ServerEvent::Opened(_) => lock(script).opened += 1,
                ServerEvent::Request { handle, command } => {
                    let (offset, length) = command.range();
                    lock(script).log.push((number, command.spec().name, offset, length));
                    kept.push((handle, command));
                }
                ServerEvent::Closed(_) => ended = true,
            }
        }
        let mut still_kept = Vec::new();
        for (handle, command) in kept {
            let mut script = lock(script);
            match (script.rule)(&command) {
                Rule::Keep => still_kept.push((handle, command)),
                Rule::HangUp => return,
                // A connection that is over takes no more replies; what it was requested still
                // happens.
                Rule::Fail(errno) => drop(machine.reply_error(handle, errno, "as the test said")),
                Rule::Say(bytes) => {
                    let _ = stream.write_all(&bytes);
                }
                Rule::Answer => match apply(&mut script.bytes, &command) {
                    Some(bytes) => drop(machine.reply_read(handle, bytes)),
                    None => drop(machine.reply_done(handle)),
                },
            }
        }
        kept = still_kept;
        while let Some(bytes) = machine.poll_output() {
            let _ = stream.write_all(&bytes);
        }
        if ended {
            if kept.is_empty() {
                return;
            }
            std::thread::sleep(POLL);
            continue;
        }
        let room = machine.read_hint().min(input.len());
        if room == 0 {
            continue;
        }
        match stream.read(&mut input[..room]) {
            // The machine would lose what it has; it receives the end after the kept requests are
            // answered.
            Ok(0) => ended = true,
            Ok(count) => drop(machine.receive(&input[..count])),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) => {}
            Err(_) => ended = true,
        }
    }
}

fn apply(drive: &mut [u8], command: &NbdCommand) -> Option<Bytes> {
    let (offset, length) = command.range();
    let range = offset as usize..(offset + length) as usize;
    match command {
        NbdCommand::Read { .. } => {
            return Some(
                drive
                    .get(range)
                    .map(Bytes::copy_from_slice)
                    .unwrap_or_else(|| vec![0; length as usize].into()),
            );
        }
        NbdCommand::Write { payload, .. } => drive[range].copy_from_slice(payload),
        NbdCommand::WriteZeroes { .. } => drive[range].fill(0),
        _ => {}
    }
    None
}

fn lock(script: &Mutex<Script>) -> MutexGuard<'_, Script> {
    script.lock().expect("no server thread panics while holding it")
}

/// The interval at which the server polls its script.
const POLL: Duration = Duration::from_millis(1);
