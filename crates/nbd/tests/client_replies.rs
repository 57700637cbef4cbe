//! The client's transmission phase against byte exchanges written from the protocol document: every
//! request, every form of reply, every rule a server may break.
#![allow(clippy::unwrap_used)] // Helpers of tests count as tests.

mod common;
#[path = "common/client.rs"]
mod says;

use bytes::Bytes;
use common::msg;
use headtime_nbd::client::{
    ClientEvent, ClientSubmitError, CloseReason, Connection, NbdClientConfig, Reply, RequestError,
};
use headtime_nbd::{ClientLimits, Errno, NbdCommand, StatusExtent};
use says::{
    EXPORT, GREETING, LENGTH, OFFSET, REPLY, client, completed, events, failed, opened, read, sent,
    submit,
};

#[test]
fn every_request_is_written_as_the_document_says() {
    let (mut client, _) = opened(true);
    let range = "0000000000000200 00000400";
    for (command, expected) in [
        (
            NbdCommand::Read { offset: OFFSET, length: LENGTH, unfragmented: false },
            format!("0000 0000 # {range}"),
        ),
        (
            NbdCommand::Read { offset: OFFSET, length: LENGTH, unfragmented: true },
            format!("0004 0000 # {range}"),
        ),
        (
            NbdCommand::Write {
                offset: OFFSET,
                payload: Bytes::from_static(&[7; 1024]),
                fua: true,
            },
            format!("0001 0001 # {range} 07*1024"),
        ),
        (NbdCommand::Flush, "0000 0003 # 00*12".to_string()),
        (
            NbdCommand::Trim { offset: OFFSET, length: LENGTH, fua: false },
            format!("0000 0004 # {range}"),
        ),
        (NbdCommand::Cache { offset: OFFSET, length: LENGTH }, format!("0000 0005 # {range}")),
        (
            NbdCommand::WriteZeroes {
                offset: OFFSET,
                length: LENGTH,
                fua: true,
                no_hole: true,
                fast: true,
            },
            format!("0013 0006 # {range}"),
        ),
        (
            NbdCommand::BlockStatus { offset: OFFSET, length: LENGTH, single: true },
            format!("0008 0007 # {range}"),
        ),
    ] {
        let name = command.spec().name;
        client.submit(command).unwrap();
        let request = sent(&mut client);
        let cookie = request[8..16].iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(request, msg(&format!("25609513 {}", expected.replace('#', &cookie))), "{name}");
        let answer = format!("668e33ef 0001 8001 {cookie} 00000006 00000005 0000");
        assert!(matches!(events(&mut client, &answer)[..], [ClientEvent::Completed(_)]));
    }
}

#[test]
fn simple_replies_complete_requests_in_any_order() {
    let (mut client, _) = opened(false);
    let (first, one) = submit(&mut client, read());
    let (second, two) = submit(&mut client, NbdCommand::Flush);
    let (third, three) = submit(&mut client, read());
    assert_eq!(client.in_flight(), 3);
    assert_eq!(
        completed(&mut client, &format!("67446698 00000000 {two}"), second),
        Ok(Reply::Done)
    );
    let data = Reply::Data(vec![9; 1024].into());
    assert_eq!(
        completed(&mut client, &format!("67446698 00000000 {three} 09*1024"), third),
        Ok(data)
    );
    assert_eq!(
        completed(&mut client, &format!("67446698 00000005 {one}"), first),
        failed(Errno::Io, "", None)
    );
    let (fourth, four) = submit(&mut client, NbdCommand::Flush);
    let strange = completed(&mut client, &format!("67446698 00000002 {four}"), fourth);
    assert_eq!(strange, failed(Errno::Invalid, "", None), "an unexpected error counts as EINVAL");
    assert_eq!((client.in_flight(), client.in_flight_bytes()), (0, 0));
}

#[test]
fn structured_reads_come_in_one_piece_in_many_and_with_holes() {
    let (mut client, _) = opened(true);
    let (id, cookie) = submit(&mut client, read());
    let whole = format!("668e33ef 0001 0001 {cookie} 00000408 0000000000000200 09*1024");
    assert_eq!(completed(&mut client, &whole, id), Ok(Reply::Data(vec![9; 1024].into())));
    let (id, cookie) = submit(&mut client, read());
    let pieces = format!(
        "668e33ef 0000 0002 {cookie} 0000000c 0000000000000400 00000100 \
         668e33ef 0000 0001 {cookie} 00000108 0000000000000500 02*256 \
         668e33ef 0000 0001 {cookie} 00000208 0000000000000200 01*512 \
         668e33ef 0001 0000 {cookie} 00000000"
    );
    let data = [vec![1; 512], vec![0; 256], vec![2; 256]].concat();
    assert_eq!(completed(&mut client, &pieces, id), Ok(Reply::Data(data.into())));
    let (id, cookie) = submit(&mut client, read());
    let hole = format!("668e33ef 0001 0002 {cookie} 0000000c 0000000000000200 00000400");
    assert_eq!(completed(&mut client, &hole, id), Ok(Reply::Data(vec![0; 1024].into())));
    assert_eq!(client.buffered_bytes(), 16 << 10, "only the head is kept");
}

#[test]
fn structured_errors_carry_text_and_place_and_later_chunks_are_still_read() {
    let (mut client, _) = opened(true);
    let (id, cookie) = submit(&mut client, read());
    let answer = format!(
        "668e33ef 0000 0001 {cookie} 00000208 0000000000000200 01*512 \
         668e33ef 0000 8002 {cookie} 00000018 00000005 000a 'bad_sector' 0000000000000400 \
         668e33ef 0000 0001 {cookie} 00000108 0000000000000500 01*256 \
         668e33ef 0001 8001 {cookie} 00000006 00000016 0000"
    );
    assert_eq!(completed(&mut client, &answer, id), failed(Errno::Io, "bad_sector", Some(0x400)));
    let (id, cookie) = submit(&mut client, NbdCommand::Flush);
    let unknown = format!("668e33ef 0001 8fff {cookie} 0000000c 0000001c 0000 'future'");
    assert_eq!(completed(&mut client, &unknown, id), failed(Errno::NoSpace, "", None));
    let (id, cookie) = submit(&mut client, NbdCommand::Flush);
    assert_eq!(completed(&mut client, &format!("67446698 00000000 {cookie}"), id), Ok(Reply::Done));
    let (id, cookie) = submit(&mut client, NbdCommand::Flush);
    assert_eq!(
        completed(&mut client, &format!("668e33ef 0001 0000 {cookie} 00000000"), id),
        Ok(Reply::Done)
    );
}

#[test]
fn extents_are_reported_and_a_surplus_is_dropped() {
    let (mut client, _) = opened(true);
    let status = NbdCommand::BlockStatus { offset: 0, length: 4096, single: false };
    let (id, cookie) = submit(&mut client, status.clone());
    let answer = format!(
        "668e33ef 0001 0005 {cookie} 00000014 0000002a 00000200 00000000 00100000 00000003"
    );
    let extents =
        vec![StatusExtent { length: 512, state: 0 }, StatusExtent { length: 1 << 20, state: 3 }];
    assert_eq!(completed(&mut client, &answer, id), Ok(Reply::Extents(extents)));
    let (id, cookie) = submit(&mut client, status);
    let many = "00000200 00000000 00000200 00000001 ".repeat(1000);
    let answer = format!("668e33ef 0001 0005 {cookie} {:08x} 0000002a {many}", 4 + 16_000);
    let Ok(Reply::Extents(extents)) = completed(&mut client, &answer, id) else {
        panic!("no extents")
    };
    assert_eq!(extents.len(), 8, "as many as the limits allow");
    let (id, cookie) = submit(&mut client, NbdCommand::Flush);
    assert_eq!(completed(&mut client, &format!("67446698 00000000 {cookie}"), id), Ok(Reply::Done));
}

#[test]
fn a_server_that_breaks_the_rules_is_left_and_requests_are_completed_as_lost() {
    for answer in [
        "67446698 00000000 #", // simple reply to a read
        "668e33ef 0001 0001 # 00000408 0000000000000400 00*1024", // outside of the read
        "668e33ef 0001 0001 # 00000408 0000000000000000 00*1024", // in front of it
        "668e33ef 0001 0001 # 00000008 0000000000000200", // no data
        "668e33ef 0001 0001 # 00000409 0000000000000200 00*1025", // too much data
        "668e33ef 0001 0001 # 00000208 0000000000000200 00*512", // not all, but done
        "668e33ef 0001 0000 # 00000000", // nothing, but done
        "668e33ef 0000 0000 # 00000000", // NONE must be the last
        "668e33ef 0001 0000 # 00000001 00", // NONE has no payload
        "668e33ef 0001 0002 # 0000000c 0000000000000200 00000000", // an empty hole
        "668e33ef 0001 0002 # 0000000c ffffffffffffff00 00000400", // a hole that wraps around
        "668e33ef 0001 0002 # 0000000d 0000000000000200 00000400 00", // a hole of the wrong length
        "668e33ef 0001 0005 # 0000000c 0000002a 00000400 00000000", // extents for a read
        "668e33ef 0001 0003 # 00000000", // unknown chunk
        "668e33ef 0001 8001 # 00000005 00000005 00", // short error
        "668e33ef 0001 8001 # 00000008 00000005 0003 '12'", // error text too short
        "668e33ef 0001 8001 # 7fffffff", // endless error text
        "668e33ef 0001 0001 # ffffffff", // endless data
        "668e33ef 0001 0000 ffffffffffffffff 00000000", // no request's reply
        "67446698 00000000 ffffffffffffffff", // no request's reply, simple
        "deadbeef 00000000 #", // out of step
        "668e33ef 0000 0001 # 00000108 0000000000000200 00*256 668e33ef 0000 0002 # 0000000c \
            0000000000000280 00000100",
    ] {
        let (mut client, _) = opened(true);
        let (id, cookie) = submit(&mut client, read());
        let (other, _) = submit(&mut client, NbdCommand::Flush);
        let done = events(&mut client, &answer.replace('#', &cookie));
        let lost =
            |id| headtime_nbd::client::Completion { id, result: Err(RequestError::ConnectionLost) };
        assert_eq!(done.len(), 3, "{answer}: {done:?}");
        assert_eq!(
            done[..2],
            [ClientEvent::Completed(lost(id)), ClientEvent::Completed(lost(other))],
            "{answer}"
        );
        assert!(
            matches!(
                done[2],
                ClientEvent::Closed(CloseReason::Violation(_) | CloseReason::Magic(_))
            ),
            "{answer}: {done:?}"
        );
        assert_eq!((client.read_hint(), client.in_flight_bytes()), (0, 0));
    }
}

#[test]
fn block_status_answers_that_break_the_rules_are_left() {
    for (single, answer) in [
        (false, "668e33ef 0001 0005 # 0000000c 0000002b 00000400 00000000"), // another context
        (false, "668e33ef 0001 0005 # 0000000c 0000002a 00000000 00000000"), // an empty extent
        (false, "668e33ef 0001 0005 # 00000004 0000002a"),                   // none at all
        (false, "668e33ef 0001 0005 # 0000000d 0000002a 00000400 00000000 00"),
        (false, "668e33ef 0001 0000 # 00000000"), // done without extents
        (true, "668e33ef 0001 0005 # 0000000c 0000002a 00001000 00000000"), // longer than asked
        (true, "668e33ef 0001 0005 # 00000014 0000002a 00000200 00000000 00000200 00000003"),
        (
            false,
            "668e33ef 0000 0005 # 0000000c 0000002a 00000400 00000000 668e33ef 0000 0005 # \
                0000000c 0000002a 00000400 00000000",
        ),
    ] {
        let (mut client, _) = opened(true);
        let (_, cookie) =
            submit(&mut client, NbdCommand::BlockStatus { offset: 0, length: 1024, single });
        let done = events(&mut client, &answer.replace('#', &cookie));
        assert!(
            matches!(done[1], ClientEvent::Closed(CloseReason::Violation(_))),
            "{answer}: {done:?}"
        );
    }
}

#[test]
fn structured_chunks_that_were_not_agreed_are_out_of_step() {
    let (mut client, _) = opened(false);
    let (_, cookie) = submit(&mut client, NbdCommand::Flush);
    let done = events(&mut client, &format!("668e33ef 0001 0000 {cookie} 00000000"));
    assert_eq!(done[1], ClientEvent::Closed(CloseReason::Magic(0x668e_33ef)));
}

#[test]
fn a_request_that_breaks_the_constraints_is_not_sent() {
    let (mut client, _) = opened(true);
    let read_at = |offset, length| NbdCommand::Read { offset, length, unfragmented: false };
    let write = |length: usize| NbdCommand::Write {
        offset: 0,
        payload: vec![0; length].into(),
        fua: false,
    };
    let size = 1 << 20;
    for (command, error) in [
        (read_at(0, 0), ClientSubmitError::Empty { command: "READ" }),
        (
            read_at(size, 512),
            ClientSubmitError::BeyondEnd { command: "READ", offset: size, length: 512, size },
        ),
        (
            read_at(u64::MAX, 512),
            ClientSubmitError::BeyondEnd { command: "READ", offset: u64::MAX, length: 512, size },
        ),
        (
            read_at(1, 512),
            ClientSubmitError::Unaligned { command: "READ", offset: 1, length: 512, minimum: 512 },
        ),
        (
            read_at(0, 66_048),
            ClientSubmitError::TooLong { command: "READ", length: 66_048, max: 65_536 },
        ),
        (
            write(66_048),
            ClientSubmitError::TooLong { command: "WRITE", length: 66_048, max: 65_536 },
        ),
        (
            write(100),
            ClientSubmitError::Unaligned { command: "WRITE", offset: 0, length: 100, minimum: 512 },
        ),
    ] {
        assert_eq!(client.submit(command), Err(error));
    }
    assert_eq!(sent(&mut client), []);
    // Longer than the maximum payload is fine where there is no payload.
    client.submit(NbdCommand::Trim { offset: 0, length: 1 << 20, fua: false }).unwrap();
}

#[test]
fn what_the_server_does_not_offer_is_not_sent() {
    let mut bare =
        client(NbdClientConfig { structured_replies: false, ..NbdClientConfig::open("") });
    events(&mut bare, GREETING);
    let says = format!(
        "{REPLY} 00000007 00000003 0000000c 0000 0000000000100000 # {REPLY} 00000007 00000001 \
            00000000"
    );
    let (offset, length) = (0, 512);
    assert_eq!(bare.submit(NbdCommand::Flush), Err(ClientSubmitError::NotOpen));
    events(&mut bare, &says.replace('#', "0001"));
    for (command, error) in [
        (NbdCommand::Flush, ClientSubmitError::NotOffered { command: "FLUSH" }),
        (
            NbdCommand::Trim { offset, length, fua: false },
            ClientSubmitError::NotOffered { command: "TRIM" },
        ),
        (NbdCommand::Cache { offset, length }, ClientSubmitError::NotOffered { command: "CACHE" }),
        (NbdCommand::BlockStatus { offset, length, single: false }, ClientSubmitError::NoContext),
        (
            NbdCommand::Write { offset, payload: vec![0; 512].into(), fua: true },
            ClientSubmitError::FlagNotOffered { flag: "FUA" },
        ),
        (
            NbdCommand::Read { offset, length, unfragmented: true },
            ClientSubmitError::FlagNotOffered { flag: "DF" },
        ),
    ] {
        assert_eq!(bare.submit(command), Err(error));
    }
    let mut read_only =
        client(NbdClientConfig { structured_replies: false, ..NbdClientConfig::open("") });
    events(&mut read_only, GREETING);
    events(&mut read_only, &says.replace('#', "0063"));
    let zeroes =
        NbdCommand::WriteZeroes { offset, length, fua: false, no_hole: false, fast: false };
    assert_eq!(
        read_only.submit(zeroes),
        Err(ClientSubmitError::ReadOnly { command: "WRITE_ZEROES" })
    );
}

#[test]
fn limits_hold_until_requests_complete() {
    let (mut client, _) = opened(false);
    let ids: Vec<_> = (0..4).map(|_| submit(&mut client, NbdCommand::Flush)).collect();
    assert_eq!(client.submit(NbdCommand::Flush), Err(ClientSubmitError::TooMany { max: 4 }));
    completed(&mut client, &format!("67446698 00000000 {}", ids[2].1), ids[2].0).unwrap();
    client.submit(NbdCommand::Flush).unwrap();

    let limits =
        ClientLimits { max_in_flight_bytes: 65_536, max_extents: 1, ..ClientLimits::default() };
    let mut narrow = Connection::new(
        NbdClientConfig { structured_replies: false, ..NbdClientConfig::open("") },
        limits,
    )
    .unwrap();
    events(&mut narrow, GREETING);
    events(&mut narrow, &format!("{REPLY} 00000007 00000003 0000000c 0000 {EXPORT}"));
    events(&mut narrow, &format!("{REPLY} 00000007 00000001 00000000"));
    assert_eq!(narrow.max_payload_bytes(), 65_536);
    narrow
        .submit(NbdCommand::Write {
            offset: 0,
            payload: vec![1; 40_000 / 512 * 512].into(),
            fua: false,
        })
        .unwrap();
    let error = narrow
        .submit(NbdCommand::Read { offset: 0, length: 32_768, unfragmented: false })
        .unwrap_err();
    assert!(
        matches!(error, ClientSubmitError::TooManyBytes { additional: 32_768, max: 65_536, .. }),
        "{error:?}"
    );
}

#[test]
fn disconnecting_waits_for_answers_then_says_goodbye() {
    let (mut client, _) = opened(false);
    let (id, cookie) = submit(&mut client, NbdCommand::Flush);
    client.disconnect();
    assert_eq!(client.submit(NbdCommand::Flush), Err(ClientSubmitError::NotOpen));
    assert_eq!(client.poll_event(), None);
    assert_eq!(sent(&mut client), []);
    let done = events(&mut client, &format!("67446698 00000000 {cookie}"));
    assert!(
        matches!(&done[0], ClientEvent::Completed(completion) if completion.id == id),
        "{done:?}"
    );
    assert_eq!(done[1..], [ClientEvent::Closed(CloseReason::Disconnected)]);
    assert_eq!(sent(&mut client), msg("25609513 0000 0002 00*8 00*8 00*4"));
}

#[test]
fn a_server_that_shuts_down_is_left_properly() {
    let (mut client, _) = opened(true);
    let (id, cookie) = submit(&mut client, read());
    let done = events(&mut client, &format!("668e33ef 0001 8001 {cookie} 00000006 0000006c 0000"));
    let shutdown =
        headtime_nbd::client::Completion { id, result: failed(Errno::Shutdown, "", None) };
    assert_eq!(
        done,
        [ClientEvent::Completed(shutdown), ClientEvent::Closed(CloseReason::Disconnected)]
    );
    assert_eq!(sent(&mut client)[6..8], [0, 2], "DISC");
}

#[test]
fn the_end_of_the_stream_loses_requests_and_says_when() {
    let (mut client, _) = opened(false);
    let (id, cookie) = submit(&mut client, NbdCommand::Flush);
    let (answered, other) = submit(&mut client, NbdCommand::Flush);
    assert_eq!(client.receive(&msg(&format!("67446698 00000000 {other} 6744"))), 18);
    client.end_of_input();
    let done: Vec<_> = std::iter::from_fn(|| client.poll_event()).collect();
    assert!(
        matches!(&done[0], ClientEvent::Completed(completion) if completion.id == answered),
        "complete messages are still processed"
    );
    assert!(matches!(&done[1], ClientEvent::Completed(completion) if completion.id == id));
    assert_eq!(
        done[2],
        ClientEvent::Closed(CloseReason::EndOfInput { doing: "transmission", in_flight: 1 })
    );
    let _ = cookie;
    let mut early = Connection::new(NbdClientConfig::open(""), ClientLimits::default()).unwrap();
    early.end_of_input();
    let reason = CloseReason::EndOfInput { doing: "the greeting", in_flight: 0 };
    assert_eq!(early.poll_event(), Some(ClientEvent::Closed(reason)));
}
