//! The client's handshake against byte exchanges written from the protocol document: new and old
//! servers, servers that refuse, servers that break the rules.
#![allow(clippy::unwrap_used)] // Helpers of tests count as tests.

mod common;
#[path = "common/client.rs"]
mod says;

use common::msg;
use headtime_nbd::client::{ClientEvent, CloseReason, Connection, NbdClientConfig};
use headtime_nbd::{ClientLimits, ExportFlags, ListedExport};
use says::{EXPORT, GREETING, REPLY, client, events, exchange, go, opened, sent};

#[test]
fn a_new_server_is_asked_for_everything() {
    let (client, session) = opened(true);
    assert_eq!((session.export.name.as_str(), session.export.size_bytes), ("vol0", 1 << 20));
    assert!(session.structured_replies && session.allocation_context && session.block_sizes_stated);
    assert_eq!(session.export.block_sizes.minimum, 512);
    assert!(session.export.flags.contains(ExportFlags::SEND_FAST_ZERO | ExportFlags::SEND_DF));
    assert_eq!(client.max_payload_bytes(), 65536);
    assert_eq!(client.session(), Some(&session));
}

#[test]
fn a_server_that_refuses_extras_is_used_without_them() {
    let mut client = client(NbdClientConfig::open("vol0"));
    exchange(&mut client, GREETING, "00000003 'IHAVEOPT' 00000008 00000000");
    exchange(&mut client, &format!("{REPLY} 00000008 80000001 00000000"), &go("vol0"));
    // GO unknown as well: EXPORT_NAME, without padding because both left it out.
    exchange(
        &mut client,
        &format!("{REPLY} 00000007 80000001 00000002 'no'"),
        "'IHAVEOPT' 00000001 00000004 'vol0'",
    );
    let done = events(&mut client, EXPORT);
    let [ClientEvent::Opened(session)] = &done[..] else { panic!("{done:?}") };
    assert!(
        !session.structured_replies && !session.allocation_context && !session.block_sizes_stated
    );
    assert_eq!(
        (session.export.block_sizes.minimum, session.export.block_sizes.maximum),
        (512, 32 << 20)
    );
}

#[test]
fn a_server_without_fixed_newstyle_gets_export_name_and_sends_padding() {
    let mut client = client(NbdClientConfig::open("vol0"));
    exchange(
        &mut client,
        "'NBDMAGIC' 'IHAVEOPT' 0000",
        "00000000 'IHAVEOPT' 00000001 00000004 'vol0'",
    );
    exchange(&mut client, "0000000000100001 0001 00*123", "");
    let done = events(&mut client, "00");
    let [ClientEvent::Opened(session)] = &done[..] else { panic!("{done:?}") };
    assert_eq!(
        session.export.block_sizes.minimum, 1,
        "otherwise the last byte could not be reached"
    );
}

#[test]
fn strangers_and_oldstyle_servers_are_recognized() {
    let first = |text: &str| events(&mut client(NbdClientConfig::open("")), text);
    let closed = |reason| vec![ClientEvent::Closed(reason)];
    assert_eq!(
        first("'SSH-2.0-OpenSSH_9.7'"),
        closed(CloseReason::NotNbd(u64::from_be_bytes(*b"SSH-2.0-")))
    );
    assert_eq!(first("'NBDMAGIC' 0000420281861253 0000"), closed(CloseReason::Oldstyle));
    let listing = events(&mut client(NbdClientConfig::list()), "'NBDMAGIC' 'IHAVEOPT' 0000");
    assert_eq!(listing, closed(CloseReason::NoOptions));
}

#[test]
fn a_list_is_reported_and_the_client_leaves() {
    let mut client = client(NbdClientConfig::list());
    exchange(&mut client, GREETING, "00000003 'IHAVEOPT' 00000003 00000000");
    exchange(&mut client, &format!("{REPLY} 00000003 00000002 00000004 00000000"), "");
    exchange(
        &mut client,
        &format!("{REPLY} 00000003 00000002 0000000e 00000004 'vol1' 'second'"),
        "",
    );
    let entry =
        |name: &str, text: &str| ListedExport { name: name.into(), description: text.into() };
    let list = vec![entry("", ""), entry("vol1", "second")];
    assert_eq!(
        events(&mut client, &format!("{REPLY} 00000003 00000001 00000000")),
        [ClientEvent::Listed(list)]
    );
    assert_eq!(sent(&mut client), msg("'IHAVEOPT' 00000002 00000000"));
    let farewell = format!("{REPLY} 00000002 00000001 00000000");
    assert_eq!(events(&mut client, &farewell), [ClientEvent::Closed(CloseReason::Finished)]);
}

#[test]
fn a_description_is_reported_and_a_server_may_close_after_abort() {
    let mut client =
        client(NbdClientConfig { structured_replies: false, ..NbdClientConfig::describe("vol0") });
    let info = go("vol0").replacen("00000007", "00000006", 1);
    exchange(&mut client, GREETING, &format!("00000003 {info}"));
    exchange(&mut client, &format!("{REPLY} 00000006 00000003 0000000c 0000 {EXPORT}"), "");
    exchange(&mut client, &format!("{REPLY} 00000006 00000003 00000006 0001 'main'"), "");
    exchange(&mut client, &format!("{REPLY} 00000006 00000003 00000006 0002 'text'"), "");
    let done = events(&mut client, &format!("{REPLY} 00000006 00000001 00000000"));
    let [ClientEvent::Described(session)] = &done[..] else { panic!("{done:?}") };
    assert_eq!(
        (session.export.name.as_str(), session.export.description.as_str()),
        ("main", "text")
    );
    assert_eq!(sent(&mut client), msg("'IHAVEOPT' 00000002 00000000"));
    client.end_of_input();
    assert_eq!(client.poll_event(), Some(ClientEvent::Closed(CloseReason::Finished)));
}

#[test]
fn a_refusal_is_reported_with_its_text_and_answered_with_abort() {
    for (error, part) in [("80000006", "list the server's exports"), ("80000005", "use a tunnel")] {
        let mut client =
            client(NbdClientConfig { structured_replies: false, ..NbdClientConfig::open("vol9") });
        exchange(&mut client, GREETING, &format!("00000003 {}", go("vol9")));
        let done = events(&mut client, &format!("{REPLY} 00000007 {error} 00000004 'nope'"));
        let [ClientEvent::Closed(reason @ CloseReason::Refused { option: "GO", text, .. })] =
            &done[..]
        else {
            panic!("{done:?}");
        };
        assert_eq!(text, "nope");
        assert!(reason.to_string().contains(part), "{reason}");
        assert_eq!(sent(&mut client), msg("'IHAVEOPT' 00000002 00000000"));
    }
    // TLS demanded at the first option: no use in trying others.
    let mut client = client(NbdClientConfig::open("vol0"));
    exchange(&mut client, GREETING, "00000003 'IHAVEOPT' 00000008 00000000");
    let done = events(&mut client, &format!("{REPLY} 00000008 80000005 00000000"));
    assert!(
        matches!(
            done[..],
            [ClientEvent::Closed(CloseReason::Refused { option: "STRUCTURED_REPLY", .. })]
        ),
        "{done:?}"
    );
}

#[test]
fn handshake_replies_that_break_the_rules_or_the_limits_are_left() {
    for (answer, expected) in [
        (format!("{REPLY} 00000008 00000001 00000000"), "option that was not sent"),
        (format!("{REPLY} 00000007 00000001 00000000"), "without its size"),
        (format!("{REPLY} 00000007 00000002 00000004 00000000"), "does not belong"),
        (format!("{REPLY} 00000007 00000003 0000000b 0000 00*9"), "wrong form"),
        (format!("{REPLY} 00000007 00000003 00000001 00"), "wrong form"),
        (
            format!("{REPLY} 00000007 00000003 0000000e 0003 00000003 00001000 00010000"),
            "block sizes",
        ),
        (format!("{REPLY} 00000007 00000003 7fffffff"), "max_option_reply_bytes"),
        (format!("{REPLY} 00000007 00000003 00000002 0063 ").repeat(65), "max_option_replies"),
        ("0003e889045565aa 00000007 00000001 00000000".to_string(), "magic"),
    ] {
        let mut client =
            client(NbdClientConfig { structured_replies: false, ..NbdClientConfig::open("vol0") });
        events(&mut client, GREETING);
        let done = events(&mut client, &answer);
        let [ClientEvent::Closed(reason)] = &done[..] else { panic!("{answer}: {done:?}") };
        assert!(reason.to_string().contains(expected), "{answer}: {reason}");
    }
    let limits = ClientLimits { max_list_bytes: 200, ..ClientLimits::default() };
    let mut client = Connection::new(NbdClientConfig::list(), limits).unwrap();
    events(&mut client, GREETING);
    let done = events(
        &mut client,
        &format!("{REPLY} 00000003 00000002 00000008 00000004 'vol0' ").repeat(3),
    );
    assert!(
        matches!(
            done[..],
            [ClientEvent::Closed(CloseReason::TooMuch { limit: "max_list_bytes", .. })]
        ),
        "{done:?}"
    );
}

#[test]
fn leaving_during_the_handshake_takes_the_place_of_the_next_option() {
    let mut client = client(NbdClientConfig::open("vol0"));
    exchange(&mut client, GREETING, "00000003 'IHAVEOPT' 00000008 00000000");
    client.disconnect();
    exchange(
        &mut client,
        &format!("{REPLY} 00000008 00000001 00000000"),
        "'IHAVEOPT' 00000002 00000000",
    );
    let farewell = format!("{REPLY} 00000002 00000001 00000000");
    assert_eq!(events(&mut client, &farewell), [ClientEvent::Closed(CloseReason::Finished)]);
}
