//! STARTTLS on the server: what it discards, what it refuses before and inside TLS, and that no
//! plaintext counts inside.
#![allow(clippy::unwrap_used)] // Helpers of tests count as tests.

mod common;

use common::{context_data, feed, go_data, msg, option, sent, small_limits, vol0};
use headtime_nbd::server::{AnswerError, CloseReason, Connection, ServerEvent, TlsPolicy};

const REPLY: &str = "0003e889045565a9";
const STARTTLS: u32 = 5;

fn greeted(tls: TlsPolicy) -> Connection {
    let mut server = Connection::with_tls(small_limits(), tls).unwrap();
    sent(&mut server);
    assert_eq!(feed(&mut server, &msg("00000003")), []);
    server
}

/// The code of the only reply that waits.
fn reply(server: &mut Connection) -> u32 {
    let reply = sent(server);
    assert_eq!(
        reply.len(),
        20 + u32::from_be_bytes(reply[16..20].try_into().unwrap()) as usize,
        "one reply"
    );
    u32::from_be_bytes(reply[12..16].try_into().unwrap())
}

fn started(tls: TlsPolicy) -> Connection {
    let mut server = greeted(tls);
    assert_eq!(feed(&mut server, &option(STARTTLS, &[])), [ServerEvent::StartTls]);
    assert_eq!(server.read_hint(), 0, "what comes now is TLS and not for the machine");
    assert_eq!(
        server.tls_started(),
        Err(AnswerError::NotAsked("TLS")),
        "the acknowledgement has to leave in plaintext first"
    );
    assert_eq!(sent(&mut server), msg(&format!("{REPLY} 00000005 00000001 00000000")));
    server.tls_started().unwrap();
    server
}

#[test]
fn tls_begins_when_the_client_asks_and_the_policy_allows() {
    for tls in [TlsPolicy::Allow, TlsPolicy::Require] {
        let mut server = started(tls);
        assert!(matches!(
            feed(&mut server, &option(7, &go_data("vol0", &[])))[..],
            [ServerEvent::LookupExport { .. }]
        ));
        server.answer_export(Ok(vol0())).unwrap();
        assert!(matches!(server.poll_event(), Some(ServerEvent::Opened(_))));
    }
    let mut server = greeted(TlsPolicy::Off);
    assert_eq!(feed(&mut server, &option(STARTTLS, &[])), []);
    assert_eq!(reply(&mut server), 0x8000_0002);
    assert!(server.tls_started().is_err());
}

#[test]
fn what_was_agreed_before_tls_is_forgotten() {
    let mut server = greeted(TlsPolicy::Allow);
    feed(&mut server, &option(8, &[]));
    assert_eq!(reply(&mut server), 1);
    feed(&mut server, &option(10, &context_data("vol0", &["base:allocation"])));
    server.answer_export(Ok(vol0())).unwrap();
    sent(&mut server);
    assert_eq!(feed(&mut server, &option(STARTTLS, &[])), [ServerEvent::StartTls]);
    sent(&mut server);
    server.tls_started().unwrap();
    // Contexts need structured replies, which are not negotiated inside TLS.
    feed(&mut server, &option(10, &context_data("vol0", &["base:allocation"])));
    assert_eq!(reply(&mut server), 0x8000_0003);
    feed(&mut server, &option(7, &go_data("vol0", &[])));
    server.answer_export(Ok(vol0())).unwrap();
    let Some(ServerEvent::Opened(session)) = server.poll_event() else {
        panic!("the export was given")
    };
    assert!(!session.structured_replies && !session.allocation_context);
}

#[test]
fn plaintext_after_starttls_ends_the_connection() {
    let injected = [option(STARTTLS, &[]), option(7, &go_data("vol0", &[]))].concat();
    for split in 16..=injected.len() {
        let mut server = greeted(TlsPolicy::Require);
        assert_eq!(server.receive(&injected[..split]), split);
        let event = server.poll_event();
        if split == 16 {
            assert_eq!(
                event,
                Some(ServerEvent::StartTls),
                "nothing was injected yet, and nothing more is taken"
            );
            assert_eq!(server.receive(&injected[16..]), 0);
            continue;
        }
        assert_eq!(event, Some(ServerEvent::Closed(CloseReason::AfterStartTls)), "{split}");
        assert!(sent(&mut server).is_empty(), "STARTTLS is not acknowledged");
        assert!(server.is_closed());
    }
}

#[test]
fn without_required_tls_no_information_about_exports_is_sent() {
    let mut server = greeted(TlsPolicy::Require);
    let data = go_data("vol0", &[]);
    for (code, data) in
        [(3, &[][..]), (6, &data), (7, &data), (8, &[]), (9, &[]), (10, &[]), (77, &[1; 3000])]
    {
        assert_eq!(feed(&mut server, &option(code, data)), [], "option {code}");
        assert_eq!(reply(&mut server), 0x8000_0005, "option {code}");
    }
    assert_eq!(
        feed(&mut server, &option(1, b"vol0")),
        [ServerEvent::Closed(CloseReason::TlsRequired)]
    );
    let mut server = greeted(TlsPolicy::Require);
    assert_eq!(
        feed(&mut server, &option(2, &[])),
        [ServerEvent::Closed(CloseReason::Aborted)],
        "one may always leave"
    );
}

#[test]
fn tls_begins_once_and_takes_no_data() {
    let mut server = started(TlsPolicy::Allow);
    assert_eq!(feed(&mut server, &option(STARTTLS, &[])), []);
    assert_eq!(reply(&mut server), 0x8000_0003);
    let mut server = greeted(TlsPolicy::Allow);
    assert_eq!(feed(&mut server, &option(STARTTLS, &[1, 2, 3])), []);
    assert_eq!(reply(&mut server), 0x8000_0003);
    assert!(server.tls_started().is_err());
}

#[test]
fn a_client_that_leaves_instead_of_beginning_tls_is_gone() {
    let mut server = greeted(TlsPolicy::Allow);
    assert_eq!(feed(&mut server, &option(STARTTLS, &[])), [ServerEvent::StartTls]);
    server.end_of_input();
    sent(&mut server);
    server.tls_started().unwrap();
    assert!(matches!(
        server.poll_event(),
        Some(ServerEvent::Closed(CloseReason::EndOfInput { .. }))
    ));
}
