//! The server's handshake against byte exchanges written from the protocol document: every option,
//! every refusal.
#![allow(clippy::unwrap_used)] // Helpers of tests count as tests.

mod common;

use common::{context_data, feed, go_data, msg, option, sent, small_limits, vol0};
use headtime_nbd::server::{
    AnswerError, CloseReason, Connection, ExportRefusal, Purpose, ServerEvent,
};
use headtime_nbd::{ExportFlags, ExportInfo, ListedExport, ServerLimits};

const REPLY: &str = "0003e889045565a9";

fn greeted() -> Connection {
    let mut server = Connection::new(small_limits()).unwrap();
    assert_eq!(sent(&mut server), msg("'NBDMAGIC' 'IHAVEOPT' 0003"));
    assert_eq!(feed(&mut server, &msg("00000003")), []);
    server
}

/// Sends an option and expects exactly this reply.
#[track_caller]
fn exchange(server: &mut Connection, sent_option: &[u8], reply: &str) {
    assert_eq!(feed(server, sent_option), []);
    assert_eq!(sent(server), msg(reply));
}

/// Sends an option about an export, answers the lookup with it, and gives what was sent back.
fn looked_up(
    server: &mut Connection,
    sent_option: &[u8],
    answer: Result<ExportInfo, ExportRefusal>,
) -> Vec<u8> {
    let events = feed(server, sent_option);
    assert!(matches!(events[..], [ServerEvent::LookupExport { .. }]), "{events:?}");
    assert_eq!(server.read_hint(), 0, "nothing is read while an answer is awaited");
    server.answer_export(answer).unwrap();
    sent(server)
}

fn error_text(reply: &[u8]) -> (u32, &str) {
    let code = u32::from_be_bytes(reply[12..16].try_into().unwrap());
    assert_eq!(reply.len(), 20 + u32::from_be_bytes(reply[16..20].try_into().unwrap()) as usize);
    (code, std::str::from_utf8(&reply[20..]).unwrap())
}

#[test]
fn a_client_with_unknown_flags_is_left() {
    let mut server = Connection::new(ServerLimits::default()).unwrap();
    assert_eq!(
        feed(&mut server, &msg("00000004")),
        [ServerEvent::Closed(CloseReason::ClientFlags(4))]
    );
    assert_eq!(server.poll_event(), None);
    assert!(server.is_closed() && !server.wants_input());
}

#[test]
fn go_tells_size_flags_and_what_was_asked_for_then_opens() {
    let mut server = greeted();
    let reply = looked_up(&mut server, &option(7, &go_data("vol0", &[1, 2, 3, 9])), Ok(vol0()));
    let expected = [
        // INFO_EXPORT: 1 MiB; HAS_FLAGS, FLUSH, FUA, ROTATIONAL, TRIM, WRITE_ZEROES, MULTI_CONN,
        // CACHE.
        format!("{REPLY} 00000007 00000003 0000000c 0000 0000000000100000 057d"),
        format!("{REPLY} 00000007 00000003 00000006 0001 'vol0'"),
        format!("{REPLY} 00000007 00000003 00000008 0002 'a' 20 'disk'"),
        format!("{REPLY} 00000007 00000003 0000000e 0003 00000200 00001000 00010000"),
        format!("{REPLY} 00000007 00000001 00000000"),
    ];
    assert_eq!(reply, msg(&expected.join(" ")));
    let Some(ServerEvent::Opened(session)) = server.poll_event() else { panic!("not opened") };
    assert_eq!(session.export.block_sizes.maximum, 64 << 10, "what the limits allow");
    assert!(
        session.block_sizes_stated && !session.structured_replies && !session.allocation_context
    );
    assert!(session.export.flags.contains(ExportFlags::ROTATIONAL));
    assert_eq!(server.session(), Some(&session));
}

#[test]
fn info_describes_and_leaves_the_handshake_open() {
    let mut server = greeted();
    let events = feed(&mut server, &option(6, &go_data("", &[])));
    assert_eq!(
        events,
        [ServerEvent::LookupExport { name: String::new(), purpose: Purpose::Describe }]
    );
    server.answer_export(Ok(vol0())).unwrap();
    let expected = format!(
        "{REPLY} 00000006 00000003 0000000c 0000 0000000000100000 057d {REPLY} 00000006 00000001 \
            00000000"
    );
    assert_eq!(sent(&mut server), msg(&expected));
    let events = feed(&mut server, &option(7, &go_data("vol0", &[])));
    assert_eq!(events, [ServerEvent::LookupExport { name: "vol0".into(), purpose: Purpose::Open }]);
}

#[test]
fn an_export_that_is_not_given_is_refused_with_the_reason() {
    let mut server = greeted();
    for (refusal, code, text) in [
        (ExportRefusal::Unknown, 0x8000_0006, "no such export"),
        (
            ExportRefusal::Policy("not for you".into()),
            0x8000_0002,
            "refused by policy: not for you",
        ),
        (ExportRefusal::ShuttingDown, 0x8000_0007, "the server is shutting down"),
    ] {
        for code_of_option in [6, 7] {
            let reply = looked_up(
                &mut server,
                &option(code_of_option, &go_data("x", &[])),
                Err(refusal.clone()),
            );
            assert_eq!(error_text(&reply), (code, text));
        }
    }
}

#[test]
fn export_name_answers_with_padding_unless_both_sides_leave_it_out() {
    for (flags, padding) in [("00000003", ""), ("00000001", "00*124"), ("00000000", "00*124")] {
        let mut server = Connection::new(ServerLimits::default()).unwrap();
        sent(&mut server);
        feed(&mut server, &msg(flags));
        let reply = looked_up(&mut server, &option(1, b"vol0"), Ok(vol0()));
        assert_eq!(reply, msg(&format!("0000000000100000 057d {padding}")));
        assert!(matches!(server.poll_event(), Some(ServerEvent::Opened(_))));
    }
}

#[test]
fn export_name_for_nothing_ends_the_connection_because_it_cannot_fail() {
    let mut server = greeted();
    assert_eq!(looked_up(&mut server, &option(1, b"vol9"), Err(ExportRefusal::Unknown)), []);
    let refusal = ExportRefusal::Unknown;
    let reason = CloseReason::ExportRefused { name: "vol9".into(), refusal };
    assert_eq!(
        reason.to_string(),
        "EXPORT_NAME for \"vol9\": no such export; a client that sends GO gets an error reply"
    );
    assert_eq!(server.poll_event(), Some(ServerEvent::Closed(reason)));
    for data in [&b"\xff"[..], &[b'x'; 4097], b"a\0b"] {
        let events = feed(&mut greeted(), &option(1, data));
        assert_eq!(
            events,
            [ServerEvent::Closed(CloseReason::ExportName { bytes: data.len() as u32 })]
        );
    }
}

#[test]
fn list_names_every_export_with_its_description() {
    let mut server = greeted();
    assert_eq!(feed(&mut server, &option(3, &[])), [ServerEvent::ListExports]);
    let entry =
        |name: &str, text: &str| ListedExport { name: name.into(), description: text.into() };
    server.answer_list(&[entry("vol0", ""), entry("vol1", "second")]).unwrap();
    let expected = [
        format!("{REPLY} 00000003 00000002 00000008 00000004 'vol0'"),
        format!("{REPLY} 00000003 00000002 0000000e 00000004 'vol1' 'second'"),
        format!("{REPLY} 00000003 00000001 00000000"),
    ];
    assert_eq!(sent(&mut server), msg(&expected.join(" ")));
}

#[test]
fn abort_is_acknowledged_and_ends_the_connection_with_or_without_data() {
    for data in [&b""[..], b"goodbye"] {
        let mut server = greeted();
        assert_eq!(
            feed(&mut server, &option(2, data)),
            [ServerEvent::Closed(CloseReason::Aborted)]
        );
        assert_eq!(sent(&mut server), msg(&format!("{REPLY} 00000002 00000001 00000000")));
    }
}

#[test]
fn options_without_data_refuse_data_and_unknown_ones_are_passed_over() {
    let mut server = greeted();
    for (code, error) in [
        (3, 0x8000_0003),           // LIST with data
        (8, 0x8000_0003),           // STRUCTURED_REPLY with data
        (5, 0x8000_0003),           // STARTTLS with data
        (4, 0x8000_0001),           // PEEK_EXPORT, withdrawn
        (11, 0x8000_0001),          // EXTENDED_HEADERS
        (0, 0x8000_0001),           // no such option
        (0xffff_ffff, 0x8000_0001), // nor this
    ] {
        assert_eq!(feed(&mut server, &option(code, &[7; 20_000])), []);
        let reply = sent(&mut server);
        assert_eq!(u32::from_be_bytes(reply[8..12].try_into().unwrap()), code);
        assert_eq!(error_text(&reply).0, error, "option {code}");
    }
    assert_eq!(feed(&mut server, &option(5, &[])), []);
    assert_eq!(
        error_text(&sent(&mut server)),
        (0x8000_0002, "TLS is not available; connect without it")
    );
    exchange(&mut server, &option(8, &[]), &format!("{REPLY} 00000008 00000001 00000000"));
}

#[test]
fn malformed_and_oversized_option_data_is_refused_and_the_next_option_is_understood() {
    let mut server = greeted();
    feed(&mut server, &option(8, &[]));
    sent(&mut server);
    for code in [6, 7, 9, 10] {
        for (data, error) in
            [(vec![], 0x8000_0003), (vec![0xff; 6], 0x8000_0003), (vec![0; 9000], 0x8000_0009)]
        {
            assert_eq!(feed(&mut server, &option(code, &data)), []);
            assert_eq!(
                error_text(&sent(&mut server)).0,
                error,
                "option {code} with {} bytes",
                data.len()
            );
        }
    }
    assert_eq!(feed(&mut server, &option(3, &[])), [ServerEvent::ListExports]);
}

#[test]
fn metadata_contexts_need_structured_replies_and_follow_the_export_they_were_set_for() {
    let mut server = greeted();
    let set = option(10, &context_data("vol0", &["base:allocation", "qemu:dirty-bitmap:a"]));
    assert_eq!(feed(&mut server, &set), []);
    assert_eq!(error_text(&sent(&mut server)), (0x8000_0003, "negotiate structured replies first"));
    feed(&mut server, &option(8, &[]));
    sent(&mut server);
    let context = format!("{REPLY} 0000000a 00000004 00000013 00000001 'base:allocation'");
    let ack = format!("{REPLY} 0000000a 00000001 00000000");
    assert_eq!(looked_up(&mut server, &set, Ok(vol0())), msg(&format!("{context} {ack}")));
    // The wildcard selects nothing, and ends what was selected.
    let wildcard = option(10, &context_data("vol0", &["base:"]));
    assert_eq!(looked_up(&mut server, &wildcard, Ok(vol0())), msg(&ack));
    looked_up(&mut server, &option(7, &go_data("vol0", &[])), Ok(vol0()));
    let Some(ServerEvent::Opened(session)) = server.poll_event() else { panic!("not opened") };
    assert!(session.structured_replies && !session.allocation_context);
}

#[test]
fn a_context_set_for_another_export_or_by_a_failed_option_does_not_count() {
    let set = option(10, &context_data("vol0", &["base:allocation"]));
    for (between, name, expected) in [
        (None, "vol0", true),
        (None, "", false),
        (Some(option(10, &[1, 2, 3])), "vol0", false),
        (Some(option(9, &context_data("vol0", &[]))), "vol0", true),
    ] {
        let mut server = greeted();
        feed(&mut server, &option(8, &[]));
        sent(&mut server);
        looked_up(&mut server, &set, Ok(vol0()));
        if let Some(between) = between {
            if !feed(&mut server, &between).is_empty() {
                server.answer_export(Ok(vol0())).unwrap();
            }
            sent(&mut server);
        }
        looked_up(&mut server, &option(7, &go_data(name, &[])), Ok(vol0()));
        let Some(ServerEvent::Opened(session)) = server.poll_event() else { panic!("not opened") };
        assert_eq!(session.allocation_context, expected);
    }
}

#[test]
fn list_meta_context_answers_wildcards_and_no_query_with_id_zero() {
    let mut server = greeted();
    feed(&mut server, &option(8, &[]));
    sent(&mut server);
    let context = format!("{REPLY} 00000009 00000004 00000013 00000000 'base:allocation'");
    let ack = format!("{REPLY} 00000009 00000001 00000000");
    for (queries, found) in [
        (&[][..], true),
        (&["base:"], true),
        (&["base:allocation"], true),
        (&["qemu:", "x-mine:y", "base:other"], false),
    ] {
        let reply = looked_up(&mut server, &option(9, &context_data("vol0", queries)), Ok(vol0()));
        let expected = if found { format!("{context} {ack}") } else { ack.clone() };
        assert_eq!(reply, msg(&expected), "{queries:?}");
    }
    let reply =
        looked_up(&mut server, &option(9, &context_data("vol9", &[])), Err(ExportRefusal::Unknown));
    assert_eq!(error_text(&reply).0, 0x8000_0006);
}

#[test]
fn a_wrong_answer_is_an_error_and_the_question_stands() {
    let mut server = greeted();
    assert_eq!(server.answer_export(Ok(vol0())), Err(AnswerError::NotAsked("export")));
    assert_eq!(server.answer_list(&[]), Err(AnswerError::NotAsked("list of exports")));
    feed(&mut server, &option(7, &go_data("vol0", &[])));
    let crooked = ExportInfo { size_bytes: 1000, ..vol0() };
    assert!(matches!(server.answer_export(Ok(crooked)), Err(AnswerError::Export(_))));
    server.answer_export(Err(ExportRefusal::Unknown)).unwrap();
    assert_eq!(error_text(&sent(&mut server)).0, 0x8000_0006);
}

#[test]
fn a_server_going_down_refuses_options_but_lets_a_client_say_goodbye() {
    let mut server = greeted();
    server.begin_shutdown();
    for code in [3, 6, 7, 8, 9, 10, 11] {
        feed(&mut server, &option(code, &[]));
        assert_eq!(error_text(&sent(&mut server)).0, 0x8000_0007);
    }
    assert_eq!(feed(&mut server, &option(2, &[])), [ServerEvent::Closed(CloseReason::Aborted)]);
}
