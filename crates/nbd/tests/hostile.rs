//! Peers that mean harm or are broken: random bytes, damaged sessions, huge lengths, floods, peers
//! that never read. Nothing panics, nothing hangs, and the memory stays within the stated bound.
#![allow(clippy::unwrap_used)] // Helpers of tests count as tests.

mod common;
#[path = "common/pair.rs"]
mod pair;

use common::{
    Mode, Shell, context_data, go_data, option, request, sent, serving, small_limits, vol0,
};
use headtime_nbd::client::{self, ClientEvent, NbdClientConfig};
use headtime_nbd::server::{CloseReason, Connection, Segment, ServerEvent};
use headtime_nbd::{ClientLimits, Errno, ExportInfo, NbdCommand, ServerLimits};
use pair::{Dice, Pair};
use proptest::prelude::*;

const SIZE: usize = 1 << 20;

/// The behavior of the server's caller.
#[derive(Debug, Clone, Copy)]
struct Manners {
    answers: bool,
    sends: bool,
}

/// Feeds `stream` and checks the bound after every step, including payloads that the caller has.
/// Returns the bytes received.
fn abuse(server: &mut Connection, stream: &[u8], manners: Manners, dice: &mut Dice) -> usize {
    let shell = Shell::new(SIZE);
    let bound = server.limits().memory_bound() + 1024; // plus the export list
    let mut kept = Vec::new();
    let mut input = stream;
    loop {
        let mut moved = false;
        while let Some(event) = server.poll_event() {
            moved = true;
            shell.answer(server, &event);
            if let ServerEvent::Request { handle, command } = event {
                kept.push((handle, command));
            }
            if manners.answers && !kept.is_empty() {
                let (handle, command) = kept.swap_remove(dice.roll(kept.len()));
                let answered = match command {
                    NbdCommand::Read { length, .. } => {
                        server.reply_read(handle, vec![1; length as usize].into())
                    }
                    _ => server.reply_error(handle, Errno::Io, "as you like"),
                };
                answered.unwrap();
            }
        }
        let payloads: usize =
            kept.iter()
                .map(|(_, command)| {
                    if let NbdCommand::Write { payload, .. } = command { payload.len() } else { 0 }
                })
                .sum();
        let held = server.buffered_bytes() + payloads as u64;
        assert!(held <= bound, "{held} bytes are held, {bound} is the bound");
        moved |= manners.sends && !sent(server).is_empty();
        let count = (1 + dice.roll(30_000)).min(input.len()).min(server.read_hint());
        if count == 0 && !moved {
            return stream.len() - input.len();
        }
        assert_eq!(server.receive(&input[..count]), count);
        input = &input[count..];
    }
}

fn manners() -> impl Strategy<Value = Manners> {
    (any::<bool>(), any::<bool>()).prop_map(|(answers, sends)| Manners { answers, sends })
}

/// A long well-formed session, to be damaged.
fn session() -> Vec<u8> {
    let mut stream = 3_u32.to_be_bytes().to_vec();
    stream.extend(option(8, &[]));
    stream.extend(option(3, &[]));
    stream.extend(option(10, &context_data("vol0", &["base:allocation"])));
    stream.extend(option(7, &go_data("vol0", &[1, 2, 3])));
    for cookie in 0..40 {
        stream.extend(request(0, 0, cookie, cookie * 512, 4096));
        stream.extend(request(1, 1, cookie, cookie * 512, 512));
        stream.extend([7; 512]);
        stream.extend(request(0, 7, cookie, 0, 65_536));
        stream.extend(request(0, 6, cookie, 0, 65_536));
    }
    stream
}

proptest! {
    #![proptest_config(common::cases(256))]

    #[test]
    fn random_bytes_do_no_harm_in_any_phase(
        noise in prop::collection::vec(any::<u8>(), 0..3000), phase in 0..4_u8,
        manners in manners(), seed: u64,
    ) {
        let mut dice = Dice::new(seed);
        let mut server = match phase {
            0 | 1 => Connection::new(small_limits()).unwrap(),
            2 => serving(small_limits(), vol0(), Mode::Simple),
            _ => serving(small_limits(), vol0(), Mode::WithContext),
        };
        let prefix = match phase {
            0 => vec![],
            1 => 3_u32.to_be_bytes().to_vec(),
            _ => 0x2560_9513_u32.to_be_bytes().to_vec(),
        };
        abuse(&mut server, &[prefix, noise].concat(), manners, &mut dice);
    }

    #[test]
    fn a_damaged_session_does_no_harm_to_a_server(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        manners in manners(), seed: u64,
    ) {
        let mut stream = session();
        for (at, byte) in damage {
            let at = at.index(stream.len());
            stream[at] = byte;
        }
        let mut server = Connection::new(small_limits()).unwrap();
        abuse(&mut server, &stream, manners, &mut Dice::new(seed));
    }

    #[test]
    fn a_damaged_session_does_no_harm_to_a_client(
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut: bool, seed: u64,
    ) {
        let mut stream = recorded(seed);
        for (at, byte) in damage {
            let at = at.index(stream.len());
            if cut {
                stream.truncate(at + 1);
            }
            let at = at.min(stream.len() - 1);
            stream[at] = byte;
        }
        let lost_or_done = suffer(&stream, &mut Dice::new(seed));
        prop_assert!(lost_or_done <= expected().len());
    }

    #[test]
    fn random_bytes_do_no_harm_to_a_client(
        noise in prop::collection::vec(any::<u8>(), 0..3000), greeted: bool, seed: u64,
    ) {
        let whole = b"NBDMAGICIHAVEOPT\0\x03\0\x03\xe8\x89\x04\x55\x65\xa9";
        let greeting = if greeted { &whole[..] } else { &[] };
        suffer(&[greeting, &noise].concat(), &mut Dice::new(seed));
    }
}

fn client_limits() -> ClientLimits {
    ClientLimits {
        max_in_flight: 16,
        max_in_flight_bytes: 256 << 10,
        max_option_reply_bytes: 8196,
        max_list_bytes: 4096,
        max_option_replies: 8,
        max_extents: 16,
        max_fragments: 4,
    }
}

fn expected() -> Vec<NbdCommand> {
    let read = |offset| NbdCommand::Read { offset, length: 8192, unfragmented: false };
    let write = NbdCommand::Write { offset: 1024, payload: vec![3; 2048].into(), fua: true };
    let status = NbdCommand::BlockStatus { offset: 0, length: 1 << 19, single: false };
    vec![write, read(0), read(512), read(1024), status, NbdCommand::Flush, read(4096)]
}

fn recorded(seed: u64) -> Vec<u8> {
    let client = client::Connection::new(NbdClientConfig::open("vol0"), client_limits()).unwrap();
    let mut pair =
        Pair::new(client, Connection::new(small_limits()).unwrap(), Shell::new(SIZE), seed);
    pair.run(|pair| matches!(pair.client_events[..], [ClientEvent::Opened(_)]));
    for command in expected() {
        pair.client.submit(command).unwrap();
    }
    pair.run(|pair| pair.client.in_flight() == 0);
    pair.record
}

/// Runs a client on the bytes of a faulty server. Every submitted request completes exactly once;
/// returns their number.
fn suffer(stream: &[u8], dice: &mut Dice) -> usize {
    let mut client =
        client::Connection::new(NbdClientConfig::open("vol0"), client_limits()).unwrap();
    let (mut submitted, mut completed) = (Vec::new(), Vec::new());
    let (mut input, mut ended) = (stream, false);
    loop {
        while let Some(event) = client.poll_event() {
            match event {
                ClientEvent::Opened(_) => {
                    submitted.extend(
                        expected().into_iter().filter_map(|command| client.submit(command).ok()),
                    );
                }
                ClientEvent::Completed(completion) => completed.push(completion.id),
                _ => {}
            }
        }
        let (held, bound) = (client.buffered_bytes(), client_limits().memory_bound());
        assert!(held <= bound, "{held} bytes are held, {bound} is the bound");
        if client.is_closed() {
            completed.sort();
            assert_eq!(completed, submitted, "each request completes once");
            return completed.len();
        }
        let count = (1 + dice.roll(5000)).min(input.len()).min(client.read_hint());
        assert_eq!(client.receive(&input[..count]), count);
        input = &input[count..];
        if input.is_empty() {
            assert!(!ended, "the client does not notice the end");
            client.end_of_input();
            ended = true;
        }
    }
}

#[test]
fn a_flood_of_options_is_cut_off() {
    for data in [0, 5000, 20_000] {
        let mut server = Connection::new(small_limits()).unwrap();
        let flood = [3_u32.to_be_bytes().to_vec(), option(99, &vec![0; data]).repeat(100)].concat();
        abuse(&mut server, &flood, Manners { answers: true, sends: true }, &mut Dice::new(1));
        assert!(server.is_closed(), "{data}");
    }
    let mut server = Connection::new(small_limits()).unwrap();
    common::sent(&mut server);
    server.receive(&3_u32.to_be_bytes());
    for _ in 0..32 {
        server.receive(&option(99, &[]));
        assert_eq!(server.poll_event(), None);
        sent(&mut server);
    }
    server.receive(&option(99, &[]));
    assert_eq!(
        server.poll_event(),
        Some(ServerEvent::Closed(CloseReason::TooManyOptions { limit: 32 }))
    );
}

#[test]
fn a_client_that_asks_and_never_reads_gets_one_answer_ahead() {
    let mut server = Connection::new(small_limits()).unwrap();
    let stream = [3_u32.to_be_bytes().to_vec(), option(3, &[]).repeat(30)].concat();
    abuse(&mut server, &stream, Manners { answers: true, sends: false }, &mut Dice::new(1));
    assert_eq!(server.output_bytes(), 18, "the greeting is still there, so no option was taken");
    assert_eq!(server.read_hint(), 0);
}

#[test]
fn lengths_of_four_gigabytes_are_announced_and_nothing_is_set_aside_for_them() {
    let mut server = Connection::new(small_limits()).unwrap();
    sent(&mut server);
    let mut header = option(7, &[]);
    header[12..].copy_from_slice(&u32::MAX.to_be_bytes());
    server.receive(&[3_u32.to_be_bytes().to_vec(), header].concat());
    assert_eq!(server.poll_event(), None);
    let noise = vec![0; 16 << 10];
    for _ in 0..1000 {
        assert!(server.receive(&noise) > 0, "the data is read past");
        assert_eq!(server.poll_event(), None);
        assert!(server.buffered_bytes() <= 16 << 10);
    }
    let mut server = serving(small_limits(), vol0(), Mode::Simple);
    server.receive(&request(0, 1, 1, 0, u32::MAX));
    assert!(matches!(
        server.poll_event(),
        Some(ServerEvent::Closed(CloseReason::PayloadTooLong { .. }))
    ));
    let mut server = serving(small_limits(), vol0(), Mode::Simple);
    server.receive(&request(0, 0, 1, 0, u32::MAX));
    assert_eq!(server.poll_event(), None);
    assert_eq!(sent(&mut server).len(), 16, "just an error");
}

#[test]
fn a_client_that_reads_without_receiving_stops_the_server_within_its_bound() {
    let limits =
        ServerLimits { max_in_flight: 1000, max_in_flight_bytes: 1 << 20, ..small_limits() };
    for length in [512, 4096, 65_536] {
        let mut server =
            serving(limits.clone(), ExportInfo { size_bytes: 1 << 30, ..vol0() }, Mode::Structured);
        let flood = request(0, 0, 1, 0, length).repeat(2000);
        let taken =
            abuse(&mut server, &flood, Manners { answers: true, sends: false }, &mut Dice::new(3));
        let most = (1 << 20) / length as usize + (16 << 10) / 28 + 1;
        assert!(taken / 28 <= most.min(1000 + 586), "{taken}");
        assert!(server.in_flight_bytes() <= 1 << 20);
        assert_eq!(server.read_hint(), 0);
        // When the client reads again, everything continues.
        sent(&mut server);
        let rest = abuse(
            &mut server,
            &flood[taken..],
            Manners { answers: true, sends: true },
            &mut Dice::new(4),
        );
        assert_eq!(taken + rest, flood.len());
    }
}

#[test]
fn a_client_that_writes_without_an_answer_stops_the_server_within_its_bound() {
    let mut server = serving(small_limits(), vol0(), Mode::Simple);
    let flood = [request(0, 1, 1, 0, 65_536), vec![9; 65_536]].concat().repeat(10);
    let taken =
        abuse(&mut server, &flood, Manners { answers: false, sends: true }, &mut Dice::new(5));
    assert_eq!(server.in_flight_bytes(), 128 << 10);
    assert!(taken <= 2 * (28 + 65_536) + (16 << 10), "{taken}");
}

#[test]
fn a_sparse_answer_costs_no_memory_even_to_a_client_without_structured_replies() {
    let mut server = serving(
        ServerLimits::default(),
        ExportInfo { size_bytes: 1 << 30, ..vol0() },
        Mode::Simple,
    );
    server.receive(&request(0, 0, 1, 0, 32 << 20));
    let Some(ServerEvent::Request { handle, .. }) = server.poll_event() else {
        panic!("no request")
    };
    server.reply_segments(handle, &[Segment::Hole(32 << 20)]).unwrap();
    assert_eq!(server.output_bytes(), 16 + (32 << 20));
    let first = server.output_chunks().nth(1).unwrap().as_ptr();
    assert!(
        server.output_chunks().skip(1).all(|chunk| chunk.as_ptr() == first),
        "all zeroes are the same zeroes"
    );
}

#[test]
fn a_server_that_scatters_a_read_is_left() {
    let mut client =
        client::Connection::new(NbdClientConfig::open("vol0"), client_limits()).unwrap();
    let stream = recorded(1);
    let mut input = &stream[..];
    let id = loop {
        let taken = client.receive(&input[..1]);
        input = &input[taken..];
        if let Some(ClientEvent::Opened(_)) = client.poll_event() {
            break client
                .submit(NbdCommand::Read { offset: 0, length: 8192, unfragmented: false })
                .unwrap();
        }
    };
    for at in 0..5_u64 {
        let mut chunk = 0x668e_33ef_u32.to_be_bytes().to_vec();
        chunk.extend([0, 0, 0, 2]);
        chunk.extend(0_u64.to_be_bytes());
        chunk.extend(12_u32.to_be_bytes());
        chunk.extend((at * 1024).to_be_bytes());
        chunk.extend(512_u32.to_be_bytes());
        assert_eq!(client.receive(&chunk), 32);
        let event = client.poll_event();
        match at {
            4 => assert!(matches!(event, Some(ClientEvent::Completed(done)) if done.id == id)),
            _ => assert_eq!(event, None),
        }
    }
    let Some(ClientEvent::Closed(reason)) = client.poll_event() else { panic!("not closed") };
    assert!(reason.to_string().contains("max_fragments = 4"), "{reason}");
}

#[test]
fn a_server_that_acknowledges_writes_it_has_not_taken_cannot_make_the_client_pile_them_up() {
    let mut client =
        client::Connection::new(NbdClientConfig::open("vol0"), client_limits()).unwrap();
    let stream = recorded(1);
    let mut input = &stream[..];
    while client.session().is_none() {
        let taken = client.receive(&input[..1]);
        input = &input[taken..];
        client.poll_event();
    }
    let mut refused = 0;
    for cookie in 0..100_u64 {
        let write = NbdCommand::Write { offset: 0, payload: vec![1; 32_768].into(), fua: false };
        if client.submit(write).is_err() {
            refused += 1;
            continue;
        }
        client.receive(
            &[&0x6744_6698_u32.to_be_bytes()[..], &[0; 4], &cookie.to_be_bytes()].concat(),
        );
        assert!(matches!(client.poll_event(), Some(ClientEvent::Completed(_))));
        assert!(client.buffered_bytes() <= client_limits().memory_bound());
    }
    assert!(refused >= 90, "{refused}");
}
