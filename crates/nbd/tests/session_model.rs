//! A client and a server against a model: random commands, many in flight, answered out of order,
//! over pipes that deliver in random pieces. Every reply must match a plain array.
#![allow(clippy::unwrap_used)] // Helpers of tests count as tests.

mod common;
#[path = "common/pair.rs"]
mod pair;

use std::collections::BTreeMap;

use common::{BLOCK, Shell, small_limits};
use headtime_nbd::client::{self, ClientSubmitError, NbdClientConfig, Reply, RequestError};
use headtime_nbd::{ClientLimits, Errno, NbdCommand, ServerLimits, StatusExtent, server};
use pair::Pair;
use proptest::prelude::*;

const SIZE: usize = 256 << 10;

fn command() -> impl Strategy<Value = NbdCommand> {
    let blocks = SIZE / BLOCK;
    (0..blocks, 1..=128_usize, any::<u8>(), any::<bool>(), 0..12_u8).prop_map(
        move |(start, count, fill, flag, kind)| {
            let count = count.min(blocks - start);
            let (offset, length) = ((start * BLOCK) as u64, (count * BLOCK) as u32);
            match kind {
                0..=3 => NbdCommand::Read { offset, length, unfragmented: false },
                4..=7 => {
                    let payload: Vec<u8> =
                        (0..length).map(|at| fill.wrapping_add(at as u8)).collect();
                    NbdCommand::Write { offset, payload: payload.into(), fua: flag }
                }
                8 => NbdCommand::Flush,
                9 => NbdCommand::Trim { offset, length, fua: flag },
                10 => NbdCommand::WriteZeroes {
                    offset,
                    length,
                    fua: false,
                    no_hole: false,
                    fast: flag,
                },
                _ => NbdCommand::Cache { offset, length },
            }
        },
    )
}

fn any_command() -> impl Strategy<Value = NbdCommand> {
    let status =
        (0..SIZE / BLOCK, any::<bool>()).prop_map(|(start, single)| NbdCommand::BlockStatus {
            offset: (start * BLOCK) as u64,
            length: (SIZE - start * BLOCK) as u32,
            single,
        });
    prop_oneof![9 => command(), 1 => status]
}

/// The expected reply, if the commands are carried out in the order of submission.
fn expected(model: &mut Shell, command: &NbdCommand, max_extents: usize) -> Result<Reply, Errno> {
    let (offset, length) = command.range();
    let range = offset as usize..(offset + length) as usize;
    match command {
        NbdCommand::Read { .. } => return Ok(Reply::Data(model.disk[range].to_vec().into())),
        NbdCommand::Write { payload, .. } => {
            model.disk[range.clone()].copy_from_slice(payload);
            model.hole[range.start / BLOCK..range.end / BLOCK].fill(false);
        }
        NbdCommand::WriteZeroes { fast: true, .. } => return Err(Errno::NotSupported),
        NbdCommand::Trim { .. } | NbdCommand::WriteZeroes { .. } => {
            model.disk[range.clone()].fill(0);
            model.hole[range.start / BLOCK..range.end / BLOCK].fill(true);
        }
        NbdCommand::BlockStatus { single, .. } => {
            let mut extents: Vec<StatusExtent> = Vec::new();
            for hole in &model.hole[range.start / BLOCK..range.end / BLOCK] {
                let state = if *hole { 3 } else { 0 };
                match extents.last_mut() {
                    Some(last) if last.state == state => last.length += BLOCK as u32,
                    _ => extents.push(StatusExtent { length: BLOCK as u32, state }),
                }
            }
            extents.truncate(if *single { 1 } else { max_extents });
            return Ok(Reply::Extents(extents));
        }
        NbdCommand::Flush | NbdCommand::Cache { .. } => {}
    }
    Ok(Reply::Done)
}

fn session(commands: Vec<NbdCommand>, structured: bool, limits: ServerLimits, seed: u64) {
    let config = NbdClientConfig { structured_replies: structured, ..NbdClientConfig::open("") };
    let client_limits = ClientLimits {
        max_in_flight: 20,
        max_in_flight_bytes: 600 << 10,
        ..ClientLimits::default()
    };
    let client = client::Connection::new(config, client_limits.clone()).unwrap();
    let max_extents = limits.max_extents as usize;
    let mut pair =
        Pair::new(client, server::Connection::new(limits).unwrap(), Shell::new(SIZE), seed);
    pair.run(|pair| matches!(pair.client_events[..], [client::ClientEvent::Opened(_)]));
    pair.client_events.clear();
    assert_eq!(pair.client.session(), pair.server.session());

    let mut model = Shell::new(SIZE);
    let mut awaited = BTreeMap::new();
    let mut commands = commands.into_iter().peekable();
    pair.run(|pair| {
        while let Some(command) = commands.peek() {
            match pair.client.submit(command.clone()) {
                Ok(id) => {
                    let answer = expected(&mut model, command, max_extents);
                    awaited.insert(id, answer);
                    commands.next();
                }
                Err(ClientSubmitError::TooMany { .. } | ClientSubmitError::TooManyBytes { .. }) => {
                    break;
                }
                Err(error) => panic!("{error}"),
            }
        }
        let held = pair.client.buffered_bytes();
        assert!(held <= client_limits.memory_bound(), "client holds {held} bytes");
        for completion in pair.completions() {
            let expected = awaited.remove(&completion.id).expect("each request completes once");
            let got = completion.result.map_err(|error| match error {
                RequestError::Server { errno, .. } => errno,
                RequestError::ConnectionLost => panic!("lost"),
            });
            assert_eq!(got, expected);
        }
        awaited.is_empty() && commands.peek().is_none()
    });
    assert_eq!(pair.shell.disk, model.disk);
    pair.client.disconnect();
    pair.run(|pair| {
        pair.client.is_closed()
            || pair.client.poll_event().map(|event| pair.client_events.push(event)).is_some()
    });
    pair.run(|pair| pair.closed.is_some());
    assert_eq!(pair.closed, Some(server::CloseReason::Disconnected));
    assert_eq!(
        pair.client_events,
        [client::ClientEvent::Closed(client::CloseReason::Disconnected)]
    );
}

proptest! {
    #![proptest_config(common::cases(48))]

    #[test]
    fn a_session_with_structured_replies_agrees_with_the_model(
        commands in prop::collection::vec(any_command(), 1..60), seed: u64,
    ) {
        session(commands, true, ServerLimits { max_extents: 64, ..small_limits() }, seed);
    }

    #[test]
    fn a_session_with_simple_replies_agrees_with_the_model(
        commands in prop::collection::vec(command(), 1..60), seed: u64,
    ) {
        session(commands, false, small_limits(), seed);
    }

    #[test]
    fn a_session_with_one_request_at_a_time_agrees_with_the_model(
        commands in prop::collection::vec(any_command(), 1..20), seed: u64,
    ) {
        session(commands, true, ServerLimits { max_in_flight: 1, ..small_limits() }, seed);
    }
}

#[test]
fn exports_are_listed_and_described_over_the_pair() {
    for goal in [
        NbdClientConfig::list(),
        NbdClientConfig::describe("vol0"),
        NbdClientConfig::describe("vol9"),
    ] {
        let client = client::Connection::new(goal.clone(), ClientLimits::default()).unwrap();
        let server = server::Connection::new(small_limits()).unwrap();
        let mut pair = Pair::new(client, server, Shell::new(SIZE), 7);
        pair.run(|pair| pair.client.is_closed() && pair.closed.is_some());
        assert_eq!(pair.closed, Some(server::CloseReason::Aborted));
        match &pair.client_events[..] {
            [
                client::ClientEvent::Listed(list),
                client::ClientEvent::Closed(client::CloseReason::Finished),
            ] => {
                assert_eq!(list.len(), 1);
                assert_eq!(list[0].name, "vol0");
            }
            [
                client::ClientEvent::Described(session),
                client::ClientEvent::Closed(client::CloseReason::Finished),
            ] => {
                assert_eq!(session.export.size_bytes, SIZE as u64);
                assert!(session.allocation_context);
            }
            [client::ClientEvent::Closed(reason @ client::CloseReason::Refused { .. })] => {
                assert_eq!(goal.export, "vol9");
                assert!(reason.to_string().contains("no such export"));
            }
            other => panic!("{other:?}"),
        }
    }
}
