//! The division of a byte stream into pieces changes nothing: the events and the output are the
//! same for any division and either input method.
#![allow(clippy::unwrap_used)] // Helpers of tests count as tests.

mod common;
#[path = "common/pair.rs"]
mod pair;

use bytes::BufMut;
use common::{Shell, context_data, go_data, option, request, small_limits};
use headtime_nbd::client::{self, NbdClientConfig};
use headtime_nbd::{ClientLimits, NbdCommand, server};
use pair::{Dice, Pair};
use proptest::prelude::*;

const SIZE: usize = 64 << 10;

/// Runs a whole stream through a server that is answered at once; returns events and output as
/// text.
fn serve(stream: &[u8], mut piece: impl FnMut() -> usize) -> (Vec<String>, Vec<u8>) {
    let mut server = server::Connection::new(small_limits()).unwrap();
    let mut shell = Shell::new(SIZE);
    let (mut events, mut output) = (Vec::new(), Vec::new());
    let (mut input, mut ended) = (stream, false);
    loop {
        while let Some(event) = server.poll_event() {
            events.push(format!("{event:?}"));
            shell.answer(&mut server, &event);
            if let server::ServerEvent::Request { handle, command } = event {
                shell.carry_out(handle, command).give(&mut server);
            }
            output.extend(std::iter::from_fn(|| server.poll_output()).flatten());
        }
        let before = output.len();
        output.extend(std::iter::from_fn(|| server.poll_output()).flatten());
        if server.is_closed() {
            return (events, output);
        }
        let count = piece().min(input.len()).min(server.read_hint());
        if input.is_empty() {
            assert!(!ended || output.len() > before, "the server does not notice the end");
            server.end_of_input();
            ended = true;
        } else if count == 0 {
            assert!(output.len() > before, "the server neither sends nor takes anything");
        } else if count % 2 == 0 {
            assert_eq!(server.receive(&input[..count]), count);
        } else {
            server.read_buffer().put_slice(&input[..count]);
        }
        input = &input[count..];
    }
}

/// One message of a client, mostly well formed.
fn option_message() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(option(3, &[])),
        Just(option(8, &[])),
        Just(option(6, &go_data("vol0", &[1, 2, 3]))),
        Just(option(7, &go_data("nowhere", &[3]))),
        Just(option(10, &context_data("vol0", &["base:allocation"]))),
        Just(option(9, &context_data("vol0", &[]))),
        (0..20_u32, prop::collection::vec(any::<u8>(), 0..9000))
            .prop_filter("EXPORT_NAME and ABORT end the handshake", |(code, _)| !matches!(
                code,
                1 | 2
            ))
            .prop_map(|(code, data)| option(code, &data)),
    ]
}

fn request_message() -> impl Strategy<Value = Vec<u8>> {
    (0..9_u16, 0..32_u16, any::<u64>(), 0..140_u64, 0..40_u32, any::<u8>()).prop_map(
        |(code, flags, cookie, start, count, fill)| {
            let flags = if fill < 128 { 0 } else { flags };
            let code = if code == 2 { 1 } else { code };
            let length = if fill == 77 { 100 } else { count * 512 };
            let mut bytes =
                request(flags, code, cookie, if code == 3 { 0 } else { start * 512 }, length);
            if code == 1 {
                bytes.resize(bytes.len() + length as usize, fill);
            }
            bytes
        },
    )
}

fn server_stream() -> impl Strategy<Value = Vec<u8>> {
    let options = prop::collection::vec(option_message(), 0..6);
    let requests = prop::collection::vec(request_message(), 0..20);
    let end = prop_oneof![
        3 => Just(request(0, 2, 9, 0, 0)),
        1 => prop::collection::vec(any::<u8>(), 0..100),
    ];
    (options, requests, end).prop_map(|(options, requests, end)| {
        let go = option(7, &go_data("vol0", &[3]));
        [3_u32.to_be_bytes().to_vec(), options.concat(), go, requests.concat(), end].concat()
    })
}

/// Runs a recorded server through a client that submits `commands` when the export is open.
fn listen(
    stream: &[u8],
    commands: &[NbdCommand],
    mut piece: impl FnMut() -> usize,
) -> (Vec<String>, Vec<u8>) {
    let mut client =
        client::Connection::new(NbdClientConfig::open("vol0"), ClientLimits::default()).unwrap();
    let (mut events, mut output) = (Vec::new(), Vec::new());
    let (mut input, mut ended) = (stream, false);
    loop {
        while let Some(event) = client.poll_event() {
            events.push(format!("{event:?}"));
            if let client::ClientEvent::Opened(_) = event {
                for command in commands {
                    client.submit(command.clone()).unwrap();
                }
            }
        }
        output.extend(std::iter::from_fn(|| client.poll_output()).flatten());
        if client.is_closed() {
            return (events, output);
        }
        let count = piece().min(input.len()).min(client.read_hint());
        if input.is_empty() {
            assert!(!ended, "the client does not notice the end");
            client.end_of_input();
            ended = true;
        } else if count % 2 == 0 {
            assert!(count > 0, "the client takes nothing");
            assert_eq!(client.receive(&input[..count]), count);
        } else {
            client.read_buffer().put_slice(&input[..count]);
        }
        input = &input[count..];
    }
}

fn commands() -> Vec<NbdCommand> {
    let write = |offset, fill, length| NbdCommand::Write {
        offset,
        payload: vec![fill; length].into(),
        fua: false,
    };
    let read = |offset, length, unfragmented| NbdCommand::Read { offset, length, unfragmented };
    vec![
        write(512, 1, 1024),
        write(8192, 2, 512),
        read(0, 16_384, false),
        read(0, 16_384, true),
        NbdCommand::BlockStatus { offset: 0, length: SIZE as u32, single: false },
        NbdCommand::WriteZeroes { offset: 0, length: 1024, fua: true, no_hole: true, fast: true },
        NbdCommand::Flush,
        read(32_768, 32_768, false),
    ]
}

/// The bytes of a server for a client that submits `commands`, answered in an order drawn from
/// `seed`.
fn server_says(seed: u64) -> Vec<u8> {
    let client =
        client::Connection::new(NbdClientConfig::open("vol0"), ClientLimits::default()).unwrap();
    let server = server::Connection::new(small_limits()).unwrap();
    let mut pair = Pair::new(client, server, Shell::new(SIZE), seed);
    pair.run(|pair| matches!(pair.client_events[..], [client::ClientEvent::Opened(_)]));
    for command in commands() {
        pair.client.submit(command).unwrap();
    }
    pair.run(|pair| pair.client.in_flight() == 0);
    pair.record
}

proptest! {
    #![proptest_config(common::cases(128))]

    #[test]
    fn a_server_does_the_same_for_any_split(stream in server_stream(), seed: u64) {
        let whole = serve(&stream, || usize::MAX);
        let mut dice = Dice::new(seed);
        let most = [1, 3, 40, 20_000][dice.roll(4)];
        let pieces = serve(&stream, || 1 + dice.roll(most));
        prop_assert_eq!(&whole.0, &pieces.0);
        prop_assert_eq!(&whole.1, &pieces.1);
    }

    #[test]
    fn a_client_does_the_same_for_any_split(seed: u64) {
        let stream = server_says(seed);
        let whole = listen(&stream, &commands(), || usize::MAX);
        prop_assert_eq!(whole.0.len(), 2 + commands().len());
        let mut dice = Dice::new(seed);
        let most = [1, 3, 40, 20_000][dice.roll(4)];
        let pieces = listen(&stream, &commands(), || 1 + dice.roll(most));
        prop_assert_eq!(&whole.0, &pieces.0);
        prop_assert_eq!(&whole.1, &pieces.1);
    }
}
