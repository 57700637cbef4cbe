//! Common parts of the tests: messages written as text, connections brought to a phase, a disk in
//! memory.
#![allow(dead_code)] // Each test file uses its part.

use bytes::Bytes;
use headtime_nbd::server::{Connection, ExportRefusal, Handle, Segment, ServerEvent};
use headtime_nbd::{
    BlockSizes, Errno, ExportFlags, ExportInfo, ListedExport, NbdCommand, ServerLimits,
    StatusExtent,
};
use proptest::test_runner::{Config as ProptestConfig, FileFailurePersistence};

/// So many cases; a failing one is printed with its arguments, its seed is written beside the
/// test's source (`*.regressions`) and is run first by `cargo test -p headtime-nbd --test NAME`
/// from then on.
pub(crate) fn cases(cases: u32) -> ProptestConfig {
    let failure_persistence = FileFailurePersistence::WithSource("regressions");
    ProptestConfig {
        cases,
        failure_persistence: Some(Box::new(failure_persistence)),
        ..ProptestConfig::default()
    }
}

/// Bytes from text: hexadecimal words, `'literal text'` without spaces, `00*124` for repetition.
pub(crate) fn msg(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in text.split_whitespace() {
        if let Some(literal) = word.strip_prefix('\'') {
            bytes
                .extend_from_slice(literal.strip_suffix('\'').expect("a closing quote").as_bytes());
            continue;
        }
        let (digits, times) = word.split_once('*').unwrap_or((word, "1"));
        assert!(digits.len() % 2 == 0, "odd number of digits in {word}");
        for _ in 0..times.parse().expect("a count after *") {
            for at in (0..digits.len()).step_by(2) {
                bytes
                    .push(u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal digits"));
            }
        }
    }
    bytes
}

/// An option as a client sends it.
pub(crate) fn option(code: u32, data: &[u8]) -> Vec<u8> {
    [b"IHAVEOPT", &code.to_be_bytes()[..], &(data.len() as u32).to_be_bytes(), data].concat()
}

/// A request as a client sends it.
pub(crate) fn request(flags: u16, code: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let parts = [flags.to_be_bytes(), code.to_be_bytes()].concat();
    let rest = [cookie.to_be_bytes(), offset.to_be_bytes()].concat();
    [&0x2560_9513_u32.to_be_bytes()[..], &parts, &rest, &length.to_be_bytes()].concat()
}

/// Data of GO and INFO.
pub(crate) fn go_data(name: &str, infos: &[u16]) -> Vec<u8> {
    let mut data = [&(name.len() as u32).to_be_bytes()[..], name.as_bytes()].concat();
    data.extend_from_slice(&(infos.len() as u16).to_be_bytes());
    infos.iter().for_each(|info| data.extend_from_slice(&info.to_be_bytes()));
    data
}

/// Data of LIST_META_CONTEXT and SET_META_CONTEXT.
pub(crate) fn context_data(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = [&(name.len() as u32).to_be_bytes()[..], name.as_bytes()].concat();
    data.extend_from_slice(&(queries.len() as u32).to_be_bytes());
    for query in queries {
        data.extend_from_slice(&(query.len() as u32).to_be_bytes());
        data.extend_from_slice(query.as_bytes());
    }
    data
}

/// Everything a server has to send.
pub(crate) fn sent(server: &mut Connection) -> Vec<u8> {
    std::iter::from_fn(|| server.poll_output()).flatten().collect()
}

/// Feeds `input` to the server and returns the events, up to the first one that needs an answer or
/// the end of the input. Panics if the server stops reading before that.
pub(crate) fn feed(server: &mut Connection, mut input: &[u8]) -> Vec<ServerEvent> {
    let mut events = Vec::new();
    loop {
        events.extend(std::iter::from_fn(|| server.poll_event()));
        if input.is_empty() || server.is_closed() {
            return events;
        }
        let taken = server.receive(input);
        assert!(
            taken > 0,
            "the server takes no more input with {} bytes to go; events {events:?}",
            input.len()
        );
        input = &input[taken..];
    }
}

/// A one-mebibyte disk called `vol0` with 512-byte blocks.
pub(crate) fn vol0() -> ExportInfo {
    ExportInfo { description: "a disk".into(), ..ExportInfo::disk("vol0", 1 << 20) }
}

/// Limits that tests can reach.
pub(crate) fn small_limits() -> ServerLimits {
    ServerLimits {
        max_request_bytes: 64 << 10,
        max_in_flight: 8,
        max_in_flight_bytes: 128 << 10,
        max_option_bytes: 8 << 10,
        max_options: 32,
        max_extents: 16,
    }
}

/// The replies and contexts that a prepared server has negotiated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Simple,
    Structured,
    WithContext,
}

/// A server in the transmission phase, without its handshake output.
pub(crate) fn serving(limits: ServerLimits, export: ExportInfo, mode: Mode) -> Connection {
    let mut server = Connection::new(limits).unwrap();
    sent(&mut server);
    assert_eq!(feed(&mut server, &3_u32.to_be_bytes()), []);
    if mode != Mode::Simple {
        assert_eq!(feed(&mut server, &option(8, &[])), []);
        sent(&mut server);
    }
    if mode == Mode::WithContext {
        let events =
            feed(&mut server, &option(10, &context_data(&export.name, &["base:allocation"])));
        assert!(matches!(events[..], [ServerEvent::LookupExport { .. }]));
        server.answer_export(Ok(export.clone())).unwrap();
        sent(&mut server);
    }
    let events = feed(&mut server, &option(7, &go_data(&export.name, &[3])));
    assert!(matches!(events[..], [ServerEvent::LookupExport { .. }]), "{events:?}");
    server.answer_export(Ok(export)).unwrap();
    assert!(matches!(server.poll_event(), Some(ServerEvent::Opened(_))));
    sent(&mut server);
    server
}

/// A disk in memory with allocation by blocks of 512 bytes, and a list of exports: the caller of a
/// server.
#[derive(Debug, Clone)]
pub(crate) struct Shell {
    pub exports: Vec<ExportInfo>,
    pub disk: Vec<u8>,
    pub hole: Vec<bool>,
    pub flushes: u32,
}

pub(crate) const BLOCK: usize = 512;

impl Shell {
    pub(crate) fn new(size: usize) -> Shell {
        let mut export = ExportInfo::disk("vol0", size as u64);
        export.flags = export.flags | ExportFlags::SEND_FAST_ZERO;
        export.block_sizes = BlockSizes { minimum: BLOCK as u32, ..BlockSizes::default() };
        Shell {
            exports: vec![export],
            disk: vec![0; size],
            hole: vec![true; size / BLOCK],
            flushes: 0,
        }
    }

    /// Answers a lookup; carries out nothing.
    pub(crate) fn answer(&self, server: &mut Connection, event: &ServerEvent) {
        match event {
            ServerEvent::ListExports => {
                let entry = |export: &ExportInfo| ListedExport {
                    name: export.name.clone(),
                    description: export.description.clone(),
                };
                server.answer_list(&self.exports.iter().map(entry).collect::<Vec<_>>()).unwrap();
            }
            ServerEvent::LookupExport { name, .. } => {
                let found =
                    self.exports.iter().find(|export| name.is_empty() || export.name == *name);
                server.answer_export(found.cloned().ok_or(ExportRefusal::Unknown)).unwrap();
            }
            _ => {}
        }
    }

    /// Carries out a request; the answer can be given at any later time.
    pub(crate) fn carry_out(&mut self, handle: Handle, command: NbdCommand) -> Answer {
        if let Err(errno) = command.check_end(self.disk.len() as u64) {
            return Answer { handle, outcome: What::Error(errno) };
        }
        let (offset, length) = command.range();
        let range = offset as usize..(offset + length) as usize;
        let blocks = range.start / BLOCK..range.end.div_ceil(BLOCK);
        let outcome = match command {
            NbdCommand::Read { .. } => {
                let mut segments: Vec<Segment> = Vec::new();
                for block in blocks {
                    if self.hole[block] {
                        match segments.last_mut() {
                            Some(Segment::Hole(length)) => *length += BLOCK as u32,
                            _ => segments.push(Segment::Hole(BLOCK as u32)),
                        }
                    } else {
                        segments.push(Segment::Data(Bytes::copy_from_slice(
                            &self.disk[block * BLOCK..][..BLOCK],
                        )));
                    }
                }
                What::Segments(segments)
            }
            NbdCommand::Write { payload, .. } => {
                self.disk[range].copy_from_slice(&payload);
                self.hole[blocks].fill(false);
                What::Done
            }
            NbdCommand::Flush => {
                self.flushes += 1;
                What::Done
            }
            NbdCommand::WriteZeroes { fast: true, .. } => What::Error(Errno::NotSupported),
            NbdCommand::Trim { .. } | NbdCommand::WriteZeroes { .. } => {
                self.disk[range].fill(0);
                self.hole[blocks].fill(true);
                What::Done
            }
            NbdCommand::Cache { .. } => What::Done,
            NbdCommand::BlockStatus { .. } => {
                let state = |block: usize| if self.hole[block] { 3 } else { 0 };
                What::Extents(
                    blocks
                        .map(|block| StatusExtent { length: BLOCK as u32, state: state(block) })
                        .collect(),
                )
            }
        };
        Answer { handle, outcome }
    }
}

/// The answer to a request, to be given to the server.
#[derive(Debug)]
pub(crate) struct Answer {
    pub handle: Handle,
    pub outcome: What,
}

#[derive(Debug)]
pub(crate) enum What {
    Done,
    Segments(Vec<Segment>),
    Extents(Vec<StatusExtent>),
    Error(Errno),
}

impl Answer {
    pub(crate) fn give(self, server: &mut Connection) {
        match self.outcome {
            What::Done => server.reply_done(self.handle),
            What::Segments(segments) => server.reply_segments(self.handle, &segments),
            What::Extents(extents) => server.reply_extents(self.handle, &extents),
            What::Error(errno) => server.reply_error(self.handle, errno, "not today"),
        }
        .unwrap();
    }
}
