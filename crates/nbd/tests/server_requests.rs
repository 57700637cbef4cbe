//! Every command with every error the protocol names for it, back-pressure, and replies that do not
//! fit.
#![allow(clippy::unwrap_used)] // Helpers of tests count as tests.

mod common;

use bytes::Bytes;
use common::{Mode, feed, msg, request, sent, serving, small_limits, vol0};
use headtime_nbd::server::{CloseReason, Connection, Handle, ReplyError, Segment, ServerEvent};
use headtime_nbd::{Errno, ExportFlags, ExportInfo, ServerLimits, StatusExtent};

const READ: u16 = 0;
const WRITE: u16 = 1;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const CACHE: u16 = 5;
const ZEROES: u16 = 6;
const STATUS: u16 = 7;
const FUA: u16 = 1;
const NO_HOLE: u16 = 2;
const DF: u16 = 4;
const REQ_ONE: u16 = 8;
const FAST: u16 = 16;

const SIZE: u64 = 1 << 20;

/// Sends a request, with its payload if it is a WRITE. Returns the error it is answered with: by
/// the connection, or by the caller if it reaches past the end. `None` if it may be carried out.
fn refused(
    server: &mut Connection,
    flags: u16,
    code: u16,
    offset: u64,
    length: u32,
) -> Option<Errno> {
    let mut bytes = request(flags, code, 0x1122, offset, length);
    if code == WRITE {
        bytes.resize(bytes.len() + length as usize, 0x77);
    }
    let events = feed(server, &bytes);
    let mut reply = sent(server);
    if let [ServerEvent::Request { handle, command }] = &events[..] {
        assert_eq!(reply, []);
        let past_end = command.check_end(SIZE);
        server.reply_error(*handle, past_end.err().unwrap_or(Errno::Io), "past the end").unwrap();
        reply = sent(server);
        if past_end.is_ok() {
            return None;
        }
    } else {
        assert_eq!(events, []);
    }
    assert_eq!(server.in_flight(), 0);
    let number = |at: usize| u32::from_be_bytes(reply[at..at + 4].try_into().unwrap());
    let code = match number(0) {
        0x6744_6698 => number(4),
        0x668e_33ef => {
            assert_eq!(&reply[4..8], msg("0001 8001"), "an error chunk, the last of its reply");
            assert!(number(16) > 6, "a text goes with it");
            number(20)
        }
        other => panic!("magic {other:#x}"),
    };
    Some(Errno::from_code(code))
}

/// Case, export flags, command flags, command, offset, length, expected error.
type Row = (&'static str, ExportFlags, u16, u16, u64, u32, Option<Errno>);

#[test]
fn requests_that_break_a_rule_get_the_error_of_the_document() {
    let all = ExportFlags::DISK | ExportFlags::SEND_FAST_ZERO;
    let bare = ExportFlags::NONE;
    let read_only = ExportFlags::DISK | ExportFlags::READ_ONLY;
    let (inval, nospc, perm) = (Some(Errno::Invalid), Some(Errno::NoSpace), Some(Errno::Perm));
    let last = SIZE - 512;
    let table: &[Row] = &[
        // what                     export     flags            code    offset  length  error
        ("plain read", all, 0, READ, 0, 512, None),
        ("read to the end", all, 0, READ, last, 512, None),
        ("read past the end", all, 0, READ, last, 1024, inval),
        ("read beyond the end", all, 0, READ, SIZE, 512, inval),
        ("read where the sum overflows", all, 0, READ, u64::MAX - 511, 1024, inval),
        ("read of nothing", all, 0, READ, 0, 0, inval),
        ("read off the grid", all, 0, READ, 1, 512, inval),
        ("read of half a block", all, 0, READ, 0, 100, inval),
        ("read at the maximum", all, 0, READ, 0, 64 << 10, None),
        ("read with FUA, which known clients send", all, FUA, READ, 0, 512, None),
        ("read with a flag of zeroing", all, NO_HOLE, READ, 0, 512, inval),
        ("read with a flag of status", all, REQ_ONE, READ, 0, 512, inval),
        ("read with an unknown flag", all, 1 << 5, READ, 0, 512, inval),
        ("plain write", all, 0, WRITE, 0, 512, None),
        ("write with FUA", all, FUA, WRITE, last, 512, None),
        ("write with FUA not offered", bare, FUA, WRITE, 0, 512, inval),
        ("write past the end", all, 0, WRITE, last, 1024, nospc),
        ("write where the sum overflows", all, 0, WRITE, u64::MAX - 511, 512, nospc),
        ("write of nothing", all, 0, WRITE, 0, 0, inval),
        ("write off the grid", all, 0, WRITE, 256, 512, inval),
        ("write longer than the maximum", all, 0, WRITE, 0, (64 << 10) + 512, inval),
        ("write with DF", all, DF, WRITE, 0, 512, inval),
        ("write to a read-only export", read_only, 0, WRITE, 0, 512, perm),
        ("plain flush", all, 0, FLUSH, 0, 0, None),
        ("flush of a read-only export", read_only, 0, FLUSH, 0, 0, None),
        ("flush with an offset", all, 0, FLUSH, 512, 0, inval),
        ("flush with a length", all, 0, FLUSH, 0, 512, inval),
        ("flush not offered", bare, 0, FLUSH, 0, 0, inval),
        ("plain trim", all, 0, TRIM, 0, 512, None),
        ("trim longer than the maximum payload", all, FUA, TRIM, 0, SIZE as u32, None),
        ("trim past the end", all, 0, TRIM, last, 1024, inval),
        ("trim of nothing", all, 0, TRIM, 0, 0, inval),
        ("trim off the grid", all, 0, TRIM, 0, 513, inval),
        ("trim of a read-only export", read_only, 0, TRIM, 0, 512, perm),
        ("trim not offered", bare, 0, TRIM, 0, 512, inval),
        ("plain cache", all, 0, CACHE, 0, SIZE as u32, None),
        ("cache past the end", all, 0, CACHE, last, 1024, inval),
        ("cache not offered", bare, 0, CACHE, 0, 512, inval),
        ("cache with a flag", all, FAST, CACHE, 0, 512, inval),
        ("plain zeroes", all, 0, ZEROES, 0, 512, None),
        ("zeroes with all flags", all, FUA | NO_HOLE | FAST, ZEROES, 0, SIZE as u32, None),
        ("zeroes past the end", all, 0, ZEROES, last, 1024, nospc),
        ("zeroes of nothing", all, 0, ZEROES, 0, 0, inval),
        ("zeroes off the grid", all, 0, ZEROES, 100, 512, inval),
        ("zeroes on a read-only export", read_only, 0, ZEROES, 0, 512, perm),
        ("zeroes not offered", bare, 0, ZEROES, 0, 512, inval),
        ("fast zeroes not offered", ExportFlags::DISK, FAST, ZEROES, 0, 512, inval),
        ("zeroes with DF", all, DF, ZEROES, 0, 512, inval),
        ("status past the end", all, 0, STATUS, last, 1024, inval),
        ("status of nothing", all, 0, STATUS, 0, 0, inval),
        ("status off the grid", all, 0, STATUS, 0, 5, inval),
        ("status with DF", all, DF, STATUS, 0, 512, inval),
        ("resize", all, 0, 8, 0, 512, inval),
        ("an unknown command", all, 0, 0xffff, 0, 0, inval),
    ];
    for mode in [Mode::Simple, Mode::Structured, Mode::WithContext] {
        for &(what, flags, command_flags, code, offset, length, expected) in table {
            let mut server = serving(small_limits(), ExportInfo { flags, ..vol0() }, mode);
            let got = refused(&mut server, command_flags, code, offset, length);
            assert_eq!(got, expected, "{what}, {mode:?}");
            assert_eq!(
                refused(&mut server, 0, READ, 0, 512),
                None,
                "still in step after {what}, {mode:?}"
            );
        }
    }
}

#[test]
fn what_depends_on_the_kind_of_replies() {
    let over = (64 << 10) + 512;
    for (mode, too_long, unfragmented, status) in [
        (Mode::Simple, Errno::Invalid, Some(Errno::Invalid), Some(Errno::Invalid)),
        (Mode::Structured, Errno::Overflow, None, Some(Errno::Invalid)),
        (Mode::WithContext, Errno::Overflow, None, None),
    ] {
        let mut server = serving(small_limits(), vol0(), mode);
        assert_eq!(refused(&mut server, 0, READ, 0, over), Some(too_long), "{mode:?}");
        assert_eq!(refused(&mut server, DF, READ, 0, 512), unfragmented, "{mode:?}");
        assert_eq!(refused(&mut server, REQ_ONE, STATUS, 0, 512), status, "{mode:?}");
    }
}

#[test]
fn a_write_up_to_32_mib_is_read_past_and_a_longer_one_ends_the_connection() {
    let mut server =
        serving(small_limits(), ExportInfo { size_bytes: 1 << 30, ..vol0() }, Mode::Simple);
    assert_eq!(refused(&mut server, 0, WRITE, 0, 32 << 20), Some(Errno::Invalid));
    let events = feed(&mut server, &request(0, WRITE, 1, 0, (32 << 20) + 1));
    let reason = CloseReason::PayloadTooLong { length: (32 << 20) + 1, allowed: 32 << 20 };
    assert_eq!(events, [ServerEvent::Closed(reason)]);
}

#[test]
fn a_request_out_of_step_ends_the_connection() {
    let mut server = serving(small_limits(), vol0(), Mode::Simple);
    let mut bytes = request(0, READ, 1, 0, 512);
    bytes[0] ^= 1;
    assert_eq!(
        feed(&mut server, &bytes),
        [ServerEvent::Closed(CloseReason::RequestMagic(0x2460_9513))]
    );
}

#[test]
fn a_server_going_down_refuses_requests_and_finishes_those_in_flight() {
    let mut server = serving(small_limits(), vol0(), Mode::Structured);
    let events = feed(&mut server, &request(0, READ, 1, 0, 512));
    let [ServerEvent::Request { handle, .. }] = events[..] else { panic!("{events:?}") };
    server.begin_shutdown();
    assert!(!server.is_idle());
    assert_eq!(feed(&mut server, &[request(0, WRITE, 2, 0, 512), vec![0; 512]].concat()), []);
    assert_eq!(sent(&mut server)[20..24], 108_u32.to_be_bytes());
    server.reply_read(handle, Bytes::from_static(&[1; 512])).unwrap();
    assert!(!server.is_idle(), "the reply has not left");
    sent(&mut server);
    assert!(server.is_idle());
    assert_eq!(
        feed(&mut server, &request(0, 2, 3, 0, 0)),
        [ServerEvent::Closed(CloseReason::Disconnected)]
    );
}

fn in_flight(server: &mut Connection, bytes: &[u8]) -> Handle {
    let events = feed(server, bytes);
    let [ServerEvent::Request { handle, .. }] = events[..] else { panic!("{events:?}") };
    handle
}

#[test]
fn replies_that_do_not_fit_are_errors_and_leave_the_request_open() {
    let mut server = serving(small_limits(), vol0(), Mode::WithContext);
    let read = in_flight(&mut server, &request(0, READ, 1, 0, 1024));
    let wrong = ReplyError::WrongKind { command: "READ", given: "success without data" };
    assert_eq!(server.reply_done(read), Err(wrong));
    let short = Err(ReplyError::WrongLength { expected: 1024, given: 1023 });
    assert_eq!(server.reply_read(read, vec![0; 1023].into()), short);
    let empty = [Segment::Hole(1024), Segment::Hole(0)];
    assert_eq!(
        server.reply_segments(read, &empty),
        Err(ReplyError::WrongLength { expected: 1024, given: 1024 })
    );
    let extents = [StatusExtent { length: 1024, state: 0 }];
    assert!(matches!(server.reply_extents(read, &extents), Err(ReplyError::WrongKind { .. })));
    assert_eq!(sent(&mut server), []);
    server.reply_read(read, vec![0; 1024].into()).unwrap();
    assert_eq!(server.reply_read(read, vec![0; 1024].into()), Err(ReplyError::UnknownHandle(read)));

    let status = in_flight(&mut server, &request(0, STATUS, 2, 0, 1024));
    assert_eq!(server.reply_extents(status, &[]), Err(ReplyError::NoExtent));
    assert_eq!(
        server.reply_extents(status, &[StatusExtent { length: 0, state: 0 }]),
        Err(ReplyError::NoExtent)
    );
    assert!(matches!(server.reply_done(status), Err(ReplyError::WrongKind { .. })));
    assert!(matches!(
        server.reply_read(status, vec![0; 1024].into()),
        Err(ReplyError::WrongKind { .. })
    ));
    server.reply_extents(status, &extents).unwrap();
}

#[test]
fn enotsup_is_kept_for_fast_zeroes_only() {
    let export = ExportInfo { flags: ExportFlags::DISK | ExportFlags::SEND_FAST_ZERO, ..vol0() };
    for (flags, code, expected) in [(FAST, ZEROES, 95), (0, ZEROES, 22), (0, TRIM, 22)] {
        let mut server = serving(small_limits(), export.clone(), Mode::Simple);
        let handle = in_flight(&mut server, &request(flags, code, 1, 0, 512));
        server.reply_error(handle, Errno::NotSupported, "").unwrap();
        assert_eq!(sent(&mut server)[4..8], u32::to_be_bytes(expected));
    }
}

#[test]
fn at_the_limit_of_requests_nothing_is_read_until_a_reply_has_left() {
    let mut server = serving(small_limits(), vol0(), Mode::Simple);
    let handles: Vec<_> =
        (0..8).map(|cookie| in_flight(&mut server, &request(0, FLUSH, cookie, 0, 0))).collect();
    assert_eq!((server.in_flight(), server.read_hint()), (8, 0));
    assert_eq!(server.receive(&[0; 100]), 0);
    server.reply_done(handles[3]).unwrap();
    assert_eq!((server.poll_event(), server.read_hint()), (None, 0), "the reply has not left");
    server.advance_output(15);
    assert_eq!(server.read_hint(), 0, "not quite");
    server.advance_output(1);
    assert_eq!(server.in_flight(), 7);
    in_flight(&mut server, &request(0, FLUSH, 9, 0, 0));
}

#[test]
fn refused_requests_count_until_their_error_has_left() {
    let mut server = serving(small_limits(), vol0(), Mode::Structured);
    let flood = request(0, 99, 1, 0, 0).repeat(100);
    let mut taken = 0;
    while server.read_hint() > 0 {
        assert!(taken < flood.len(), "the whole flood was taken and nothing sent");
        taken += server.receive(&flood[taken..]);
        assert_eq!(server.poll_event(), None);
    }
    assert_eq!(server.in_flight(), 8);
    let mut replies = 0;
    for _ in 0..100 {
        replies += sent(&mut server).chunks(20 + 6 + "unknown command".len()).count();
        server.poll_event();
        taken += server.receive(&flood[taken..]);
        server.poll_event();
        assert!(server.in_flight() <= 8);
    }
    assert_eq!((replies, taken), (100, flood.len()));
}

#[test]
fn at_the_limit_of_bytes_a_request_waits_and_the_order_is_kept() {
    let mut server = serving(small_limits(), vol0(), Mode::Simple);
    let max = 64 << 10;
    let first = in_flight(&mut server, &request(0, READ, 1, 0, max));
    let second = in_flight(&mut server, &request(0, READ, 2, 0, max));
    assert_eq!(server.in_flight_bytes(), 128 << 10);
    let third = [request(0, READ, 3, 0, 512), request(0, FLUSH, 4, 0, 0)].concat();
    assert_eq!(server.receive(&third), third.len());
    assert_eq!((server.poll_event(), server.read_hint()), (None, 0));
    server.reply_error(second, Errno::Io, "").unwrap();
    assert_eq!(server.poll_event(), None, "the bytes are free when the reply has left");
    sent(&mut server);
    let events: Vec<_> = std::iter::from_fn(|| server.poll_event()).collect();
    assert_eq!(events.len(), 2, "{events:?}");
    assert_eq!(server.in_flight_bytes(), (64 << 10) + 512);
    server.reply_read(first, vec![0; max as usize].into()).unwrap();
    assert_eq!(
        server.buffered_bytes() - server.output_bytes(),
        16 << 10,
        "only the head besides what is to be sent"
    );
}

#[test]
fn a_write_gives_its_bytes_back_with_its_answer() {
    let mut server = serving(small_limits(), vol0(), Mode::Simple);
    let write = [request(0, WRITE, 1, 0, 64 << 10), vec![5; 64 << 10]].concat();
    let first = in_flight(&mut server, &write);
    in_flight(&mut server, &write);
    server.reply_done(first).unwrap();
    assert_eq!(server.in_flight_bytes(), 64 << 10);
    in_flight(&mut server, &write);
}

#[test]
fn a_large_payload_is_read_in_place() {
    use bytes::BufMut;
    let mut server = serving(
        ServerLimits::default(),
        ExportInfo { size_bytes: 64 << 20, ..vol0() },
        Mode::Simple,
    );
    let length = 4 << 20;
    assert_eq!(feed(&mut server, &request(0, WRITE, 1, 0, length)), []);
    assert_eq!(server.read_hint(), length as usize);
    let mut place = None;
    while server.read_hint() > 0 && server.in_flight_bytes() > 0 {
        let mut buffer = server.read_buffer();
        let count = buffer.remaining_mut().min(100_000);
        buffer.put_bytes(0x42, count);
        let written = buffer.get_ref();
        place.get_or_insert(written[written.len() - count..].as_ptr());
        if let Some(ServerEvent::Request {
            command: headtime_nbd::NbdCommand::Write { payload, .. },
            ..
        }) = server.poll_event()
        {
            assert_eq!(
                Some(payload.as_ptr()),
                place,
                "the shell gets the allocation it has filled"
            );
            assert_eq!(payload, vec![0x42; length as usize]);
            return;
        }
    }
    panic!("no request came");
}
