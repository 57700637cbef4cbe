//! A client and a server joined by pipes that deliver in pieces, and a caller that answers late and
//! out of order.
#![allow(dead_code)] // Each test file uses its part.

use std::collections::VecDeque;

use headtime_nbd::client::{self, Completion};
use headtime_nbd::server::{self, ServerEvent};

use crate::common::{Answer, Shell};

/// A small generator (xorshift), so that a failing case is replayed by the seed that proptest
/// prints.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed | 1)
    }

    /// 0 to `below - 1`.
    pub(crate) fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % below
    }
}

/// Everything between two machines.
pub(crate) struct Pair {
    pub client: client::Connection,
    pub server: server::Connection,
    pub shell: Shell,
    pub to_server: VecDeque<u8>,
    pub to_client: VecDeque<u8>,
    pub answers: Vec<Answer>,
    pub client_events: Vec<client::ClientEvent>,
    pub closed: Option<server::CloseReason>,
    /// The output of the server so far.
    pub record: Vec<u8>,
    dice: Dice,
}

impl Pair {
    pub(crate) fn new(
        client: client::Connection,
        server: server::Connection,
        shell: Shell,
        seed: u64,
    ) -> Pair {
        Pair {
            client,
            server,
            shell,
            to_server: VecDeque::new(),
            to_client: VecDeque::new(),
            answers: Vec::new(),
            client_events: Vec::new(),
            closed: None,
            record: Vec::new(),
            dice: Dice::new(seed),
        }
    }

    /// Makes one random step; the bounds are checked after it.
    pub(crate) fn step(&mut self) {
        match self.dice.roll(6) {
            0 => self.client_sends(),
            1 => self.server_reads(),
            2 => self.server_works(),
            3 => self.shell_answers(),
            4 => self.server_sends(),
            _ => self.client_reads(),
        }
        let (held, bound) = (self.server.buffered_bytes(), self.server.limits().memory_bound());
        // The list of one export belongs to the caller.
        assert!(held <= bound + 64, "server holds {held} bytes, its bound is {bound}");
        assert!(self.server.in_flight() <= self.server.limits().max_in_flight as usize);
        assert!(self.server.in_flight_bytes() <= self.server.limits().max_in_flight_bytes);
    }

    /// Steps until `done`; panics if that is never reached.
    pub(crate) fn run(&mut self, mut done: impl FnMut(&mut Pair) -> bool) {
        for _ in 0..2_000_000 {
            if done(self) {
                return;
            }
            self.step();
        }
        panic!("the two machines got stuck: {:?} / {:?}", self.client, self.server);
    }

    /// Completions that have come since the last call.
    pub(crate) fn completions(&mut self) -> Vec<Completion> {
        let (done, rest) = std::mem::take(&mut self.client_events)
            .into_iter()
            .partition(|event| matches!(event, client::ClientEvent::Completed(_)));
        self.client_events = rest;
        let completion = |event| match event {
            client::ClientEvent::Completed(completion) => completion,
            _ => unreachable!("only completions were kept"),
        };
        Vec::into_iter(done).map(completion).collect()
    }

    fn client_sends(&mut self) {
        if self.dice.roll(2) == 0 {
            self.to_server.extend(self.client.poll_output().into_iter().flatten());
            return;
        }
        let bytes: Vec<u8> = self
            .client
            .output_chunks()
            .flatten()
            .copied()
            .take(1 + self.dice.roll(50_000))
            .collect();
        self.client.advance_output(bytes.len());
        self.to_server.extend(bytes);
    }

    fn server_reads(&mut self) {
        let count =
            self.to_server.len().min(1 + self.dice.roll(20_000)).min(self.server.read_hint());
        let bytes: Vec<u8> = self.to_server.drain(..count).collect();
        if self.dice.roll(2) == 0 {
            assert_eq!(self.server.receive(&bytes), count);
        } else {
            bytes::BufMut::put_slice(&mut self.server.read_buffer(), &bytes);
        }
    }

    fn server_works(&mut self) {
        while let Some(event) = self.server.poll_event() {
            self.shell.answer(&mut self.server, &event);
            match event {
                ServerEvent::Request { handle, command } => {
                    self.answers.push(self.shell.carry_out(handle, command));
                }
                ServerEvent::Closed(reason) => self.closed = Some(reason),
                _ => {}
            }
        }
    }

    fn shell_answers(&mut self) {
        if !self.answers.is_empty() {
            let which = self.dice.roll(self.answers.len());
            self.answers.swap_remove(which).give(&mut self.server);
        }
    }

    fn server_sends(&mut self) {
        let bytes: Vec<u8> = self
            .server
            .output_chunks()
            .flatten()
            .copied()
            .take(1 + self.dice.roll(50_000))
            .collect();
        self.server.advance_output(bytes.len());
        self.record.extend(&bytes);
        self.to_client.extend(bytes);
    }

    fn client_reads(&mut self) {
        let count =
            self.to_client.len().min(1 + self.dice.roll(20_000)).min(self.client.read_hint());
        let bytes: Vec<u8> = self.to_client.drain(..count).collect();
        if self.dice.roll(2) == 0 {
            assert_eq!(self.client.receive(&bytes), count);
        } else {
            bytes::BufMut::put_slice(&mut self.client.read_buffer(), &bytes);
        }
        self.client_events.extend(std::iter::from_fn(|| self.client.poll_event()));
    }
}
