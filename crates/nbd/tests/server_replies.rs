//! The server's transmission phase against byte exchanges written from the protocol document: every
//! command, every form of reply, every way to end.
#![allow(clippy::unwrap_used)] // Helpers of tests count as tests.

mod common;

use bytes::Bytes;
use common::{Mode, feed, msg, request, sent, serving, small_limits, vol0};
use headtime_nbd::server::{CloseReason, Connection, Handle, Segment, ServerEvent};
use headtime_nbd::{Errno, ExportFlags, NbdCommand, StatusExtent};

/// The one request in these bytes.
#[track_caller]
fn requested(server: &mut Connection, bytes: &[u8]) -> (Handle, NbdCommand) {
    let mut events = feed(server, bytes);
    assert_eq!(events.len(), 1, "{events:?}");
    match events.pop() {
        Some(ServerEvent::Request { handle, command }) => (handle, command),
        other => panic!("{other:?} is no request"),
    }
}

const READ_1K: &str = "25609513 0000 0000 'cookie!!' 0000000000000200 00000400";

#[test]
fn every_command_is_understood_with_its_flags() {
    let mut export = vol0();
    export.flags = export.flags | ExportFlags::SEND_FAST_ZERO;
    let mut server = serving(small_limits(), export, Mode::WithContext);
    let (offset, length) = (512, 1024);
    let range = "'12345678' 0000000000000200 00000400";
    for (text, command) in [
        (
            format!("25609513 0000 0000 {range}"),
            NbdCommand::Read { offset, length, unfragmented: false },
        ),
        (
            format!("25609513 0005 0000 {range}"),
            NbdCommand::Read { offset, length, unfragmented: true },
        ),
        (
            format!("25609513 0001 0001 {range} 77*1024"),
            NbdCommand::Write { offset, payload: Bytes::from_static(&[0x77; 1024]), fua: true },
        ),
        ("25609513 0000 0003 'flushing' 00*12".into(), NbdCommand::Flush),
        ("25609513 0001 0003 'flushing' 00*12".into(), NbdCommand::Flush),
        (format!("25609513 0001 0004 {range}"), NbdCommand::Trim { offset, length, fua: true }),
        (format!("25609513 0000 0005 {range}"), NbdCommand::Cache { offset, length }),
        (
            format!("25609513 0013 0006 {range}"),
            NbdCommand::WriteZeroes { offset, length, fua: true, no_hole: true, fast: true },
        ),
        (
            format!("25609513 0000 0006 {range}"),
            NbdCommand::WriteZeroes { offset, length, fua: false, no_hole: false, fast: false },
        ),
        (
            format!("25609513 0008 0007 {range}"),
            NbdCommand::BlockStatus { offset, length, single: true },
        ),
    ] {
        let (request, requested) = requested(&mut server, &msg(&text));
        assert_eq!(requested, command, "{text}");
        server.reply_error(request, Errno::Io, "").unwrap();
        sent(&mut server);
    }
}

#[test]
fn simple_replies_carry_status_cookie_and_data() {
    let mut server = serving(small_limits(), vol0(), Mode::Simple);
    let (read, _) = requested(&mut server, &msg(READ_1K));
    let data = Bytes::from(vec![0x5a; 1024]);
    server.reply_read(read, data.clone()).unwrap();
    assert_eq!(server.poll_output().unwrap(), msg("67446698 00000000 'cookie!!'"));
    assert_eq!(server.poll_output().unwrap().as_ptr(), data.as_ptr(), "read data is not copied");
    let (read, _) = requested(&mut server, &msg(READ_1K));
    server.reply_segments(read, &[Segment::Hole(512), Segment::Data(data.slice(..512))]).unwrap();
    assert_eq!(sent(&mut server), msg("67446698 00000000 'cookie!!' 00*512 5a*512"));
    let (read, _) = requested(&mut server, &msg(READ_1K));
    server.reply_error(read, Errno::Io, "the text has no place here").unwrap();
    assert_eq!(sent(&mut server), msg("67446698 00000005 'cookie!!'"));
    let (flush, _) = requested(&mut server, &msg("25609513 0000 0003 'flushing' 00*12"));
    server.reply_done(flush).unwrap();
    assert_eq!(sent(&mut server), msg("67446698 00000000 'flushing'"));
}

#[test]
fn structured_replies_carry_offsets_holes_and_error_texts() {
    let mut server = serving(small_limits(), vol0(), Mode::Structured);
    let half = Bytes::from(vec![0x5a; 512]);
    let (read, _) = requested(&mut server, &msg(READ_1K));
    server.reply_segments(read, &[Segment::Hole(512), Segment::Data(half.clone())]).unwrap();
    let expected = "668e33ef 0000 0002 'cookie!!' 0000000c 0000000000000200 00000200 \
                    668e33ef 0001 0001 'cookie!!' 00000208 0000000000000400 5a*512";
    assert_eq!(sent(&mut server), msg(expected));
    // Unfragmented: one chunk, zeroes spelled out.
    let (read, _) = requested(&mut server, &msg(&READ_1K.replacen("0000", "0004", 1)));
    server.reply_segments(read, &[Segment::Hole(512), Segment::Data(half)]).unwrap();
    let expected = "668e33ef 0001 0001 'cookie!!' 00000408 0000000000000200 00*512 5a*512";
    assert_eq!(sent(&mut server), msg(expected));
    let (read, _) = requested(&mut server, &msg(READ_1K));
    server.reply_error(read, Errno::Io, "bad sector").unwrap();
    let expected = "668e33ef 0001 8001 'cookie!!' 00000010 00000005 000a 'bad' 20 'sector'";
    assert_eq!(sent(&mut server), msg(expected));
    let (flush, _) = requested(&mut server, &msg("25609513 0000 0003 'flushing' 00*12"));
    server.reply_error(flush, Errno::Io, &"é".repeat(200)).unwrap();
    let expected =
        format!("668e33ef 0001 8001 'flushing' 00000106 00000005 0100 '{}'", "é".repeat(128));
    assert_eq!(sent(&mut server), msg(&expected), "texts are cut to 256 bytes");
}

#[test]
fn block_status_answers_extents_of_the_context_within_the_request() {
    let mut server = serving(small_limits(), vol0(), Mode::WithContext);
    let status = "25609513 0000 0007 'extents?' 0000000000000000 00001000";
    let extents =
        [StatusExtent { length: 512, state: 0 }, StatusExtent { length: 99_999, state: 3 }];
    let (request, _) = requested(&mut server, &msg(status));
    server.reply_extents(request, &extents).unwrap();
    let expected =
        "668e33ef 0001 0005 'extents?' 00000014 00000001 00000200 00000000 00000e00 00000003";
    assert_eq!(sent(&mut server), msg(expected));
    let (request, _) = requested(&mut server, &msg(&status.replacen("0000", "0008", 1)));
    server.reply_extents(request, &extents).unwrap();
    assert_eq!(
        sent(&mut server),
        msg("668e33ef 0001 0005 'extents?' 0000000c 00000001 00000200 00000000")
    );
    let many: Vec<StatusExtent> =
        (0..100).map(|at| StatusExtent { length: 16, state: at % 2 }).collect();
    let (request, _) = requested(&mut server, &msg(status));
    server.reply_extents(request, &many).unwrap();
    assert_eq!(sent(&mut server).len(), 20 + 4 + 8 * small_limits().max_extents as usize);
}

#[test]
fn replies_leave_in_the_order_given_not_in_the_order_asked() {
    let mut server = serving(small_limits(), vol0(), Mode::Simple);
    let three = [request(0, 3, 1, 0, 0), request(0, 3, 2, 0, 0), request(0, 3, 3, 0, 0)].concat();
    let handles: Vec<_> = feed(&mut server, &three)
        .into_iter()
        .map(|event| match event {
            ServerEvent::Request { handle, .. } => handle,
            other => panic!("{other:?}"),
        })
        .collect();
    for at in [2, 0, 1] {
        server.reply_done(handles[at]).unwrap();
    }
    let reply = |cookie: u64| msg(&format!("67446698 00000000 {cookie:016x}"));
    assert_eq!(sent(&mut server), [reply(3), reply(1), reply(2)].concat());
}

#[test]
fn disc_waits_for_requests_in_flight_and_reads_nothing_more() {
    let mut server = serving(small_limits(), vol0(), Mode::Simple);
    let (flush, _) =
        requested(&mut server, &[request(0, 3, 1, 0, 0), request(0, 2, 2, 0, 0)].concat());
    assert_eq!((server.poll_event(), server.read_hint()), (None, 0));
    server.end_of_input();
    assert_eq!(server.poll_event(), None, "the client may close its side after DISC");
    server.reply_done(flush).unwrap();
    assert_eq!(server.poll_event(), Some(ServerEvent::Closed(CloseReason::Disconnected)));
    assert_eq!(sent(&mut server), msg("67446698 00000000 0000000000000001"));
    assert!(server.is_idle());
}

#[test]
fn the_end_of_the_stream_tells_what_was_left() {
    let mut server = serving(small_limits(), vol0(), Mode::Simple);
    let (flush, _) = requested(&mut server, &request(0, 3, 1, 0, 0));
    server.end_of_input();
    let reason = CloseReason::EndOfInput { in_flight: 1, mid_message: false };
    assert_eq!(server.poll_event(), Some(ServerEvent::Closed(reason)));
    assert_eq!(server.reply_done(flush), Ok(()), "a reply that comes too late goes nowhere");
    assert_eq!(sent(&mut server), []);
    let whole = [request(0, 1, 1, 0, 512), vec![1; 512]].concat();
    for end in 1..whole.len() {
        let mut server = serving(small_limits(), vol0(), Mode::Simple);
        assert_eq!(feed(&mut server, &whole[..end]), []);
        server.end_of_input();
        let reason = CloseReason::EndOfInput { in_flight: 0, mid_message: true };
        assert_eq!(server.poll_event(), Some(ServerEvent::Closed(reason)), "cut at {end}");
        assert_eq!((server.in_flight_bytes(), server.buffered_bytes()), (0, 0));
    }
}
