//! Clients fed with what a server would say, written as text.
#![allow(dead_code)] // Each test file uses its part.

use headtime_nbd::client::{ClientEvent, Connection, Cookie, NbdClientConfig, Reply, RequestError};
use headtime_nbd::{ClientLimits, Errno, ExportSession, NbdCommand};

use crate::common::msg;

pub(crate) const REPLY: &str = "0003e889045565a9";
pub(crate) const GREETING: &str = "'NBDMAGIC' 'IHAVEOPT' 0003";
/// 1 MiB; HAS_FLAGS, FLUSH, FUA, TRIM, WRITE_ZEROES, DF, CACHE, FAST_ZERO.
pub(crate) const EXPORT: &str = "0000000000100000 0ced";

pub(crate) fn client(config: NbdClientConfig) -> Connection {
    let limits = ClientLimits {
        max_fragments: 4,
        max_extents: 8,
        max_in_flight: 4,
        ..ClientLimits::default()
    };
    Connection::new(config, limits).unwrap()
}

pub(crate) fn events(client: &mut Connection, text: &str) -> Vec<ClientEvent> {
    let bytes = msg(text);
    let mut input = &bytes[..];
    let mut events = Vec::new();
    loop {
        events.extend(std::iter::from_fn(|| client.poll_event()));
        if input.is_empty() || client.is_closed() {
            return events;
        }
        let taken = client.receive(input);
        assert!(taken > 0, "the client takes nothing more; events {events:?}");
        input = &input[taken..];
    }
}

pub(crate) fn sent(client: &mut Connection) -> Vec<u8> {
    std::iter::from_fn(|| client.poll_output()).flatten().collect()
}

/// Feeds the bytes of a server and expects the client's output, without events.
#[track_caller]
pub(crate) fn exchange(client: &mut Connection, server_says: &str, client_says: &str) {
    assert_eq!(events(client, server_says), []);
    assert_eq!(sent(client), msg(client_says));
}

pub(crate) fn go(name: &str) -> String {
    let length = name.len();
    format!("'IHAVEOPT' 00000007 {:08x} {length:08x} '{name}' 0003 0001 0002 0003", length + 12)
}

pub(crate) fn opened(structured: bool) -> (Connection, ExportSession) {
    let mut client =
        client(NbdClientConfig { structured_replies: structured, ..NbdClientConfig::open("vol0") });
    if structured {
        exchange(&mut client, GREETING, "00000003 'IHAVEOPT' 00000008 00000000");
        let set =
            "'IHAVEOPT' 0000000a 0000001f 00000004 'vol0' 00000001 0000000f 'base:allocation'";
        exchange(&mut client, &format!("{REPLY} 00000008 00000001 00000000"), set);
        let context = format!("{REPLY} 0000000a 00000004 00000013 0000002a 'base:allocation'");
        exchange(&mut client, &context, "");
        exchange(&mut client, &format!("{REPLY} 0000000a 00000001 00000000"), &go("vol0"));
    } else {
        exchange(&mut client, GREETING, &format!("00000003 {}", go("vol0")));
    }
    let export = if structured { EXPORT.to_string() } else { EXPORT.replace("0ced", "0c6d") };
    exchange(&mut client, &format!("{REPLY} 00000007 00000003 0000000c 0000 {export}"), "");
    exchange(
        &mut client,
        &format!("{REPLY} 00000007 00000003 0000000e 0003 00000200 00001000 00010000"),
        "",
    );
    exchange(&mut client, &format!("{REPLY} 00000007 00000003 0000000a 0063 'whatever'"), "");
    let done = events(&mut client, &format!("{REPLY} 00000007 00000001 00000000"));
    let [ClientEvent::Opened(session)] = &done[..] else { panic!("{done:?}") };
    let session = session.clone();
    (client, session)
}

pub(crate) const OFFSET: u64 = 0x200;
pub(crate) const LENGTH: u32 = 0x400;

pub(crate) fn submit(client: &mut Connection, command: NbdCommand) -> (Cookie, String) {
    let id = client.submit(command).unwrap();
    let request = sent(client);
    (id, request[8..16].iter().map(|byte| format!("{byte:02x}")).collect())
}

pub(crate) fn read() -> NbdCommand {
    NbdCommand::Read { offset: OFFSET, length: LENGTH, unfragmented: false }
}

#[track_caller]
pub(crate) fn completed(
    client: &mut Connection,
    text: &str,
    id: Cookie,
) -> Result<Reply, RequestError> {
    let mut done = events(client, text);
    assert_eq!(done.len(), 1, "{done:?}");
    let Some(ClientEvent::Completed(completion)) = done.pop() else { panic!("not completed") };
    assert_eq!(completion.id, id);
    completion.result
}

pub(crate) fn failed(errno: Errno, text: &str, offset: Option<u64>) -> Result<Reply, RequestError> {
    Err(RequestError::Server { errno, text: text.into(), offset })
}
