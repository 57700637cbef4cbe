//! Both sides of NBD, each against arbitrary input of the other.

use headtime_nbd::client::{self, NbdClientConfig};
use headtime_nbd::server::{Connection, ExportRefusal, ServerEvent, TlsPolicy};
use headtime_nbd::{ClientLimits, Errno, ExportInfo, ListedExport, NbdCommand, ServerLimits};

use crate::Memory;

/// Twice the limits below: held data, and an answer in progress.
pub(super) const SERVER_MEMORY: Memory = Memory { base: 4 << 20, per_byte: 64 };
/// The limits of the server.
pub(super) const CLIENT_MEMORY: Memory = Memory { base: 4 << 20, per_byte: 64 };

/// A server of one small disk that answers everything at once; every second read fails.
pub(super) fn server(input: &[u8]) {
    let limits = ServerLimits {
        max_request_bytes: 64 << 10,
        max_in_flight: 8,
        max_in_flight_bytes: 256 << 10,
        max_option_bytes: 8 << 10,
        max_options: 64,
        ..ServerLimits::default()
    };
    // TLS data arrives unencrypted, because the machine treats it the same.
    let mut server = Connection::with_tls(limits, TlsPolicy::Allow).expect("the limits make sense");
    let mut rest = input;
    let mut reads = 0_u32;
    loop {
        while let Some(event) = server.poll_event() {
            match event {
                ServerEvent::ListExports => server
                    .answer_list(&[ListedExport {
                        name: "vol0".into(),
                        description: String::new(),
                    }])
                    .expect("requested for"),
                ServerEvent::LookupExport { name, .. } => {
                    let found = if name == "vol0" {
                        Ok(ExportInfo::disk("vol0", 1 << 20))
                    } else {
                        Err(ExportRefusal::Unknown)
                    };
                    server.answer_export(found).expect("requested for");
                }
                ServerEvent::Request { handle, command } => {
                    reads += 1;
                    let answered = match (command.check_end(1 << 20), command) {
                        (Err(errno), _) => server.reply_error(handle, errno, "past the end"),
                        (_, NbdCommand::Read { length, .. }) if reads.is_multiple_of(2) => {
                            server.reply_read(handle, vec![1; length as usize].into())
                        }
                        (_, NbdCommand::Read { .. } | NbdCommand::BlockStatus { .. }) => {
                            server.reply_error(handle, Errno::Io, "no")
                        }
                        _ => server.reply_done(handle),
                    };
                    answered.expect("each request is answered once");
                }
                ServerEvent::StartTls => {
                    while server.poll_output().is_some() {}
                    server
                        .tls_started()
                        .expect("it was requested, and everything before it has left");
                }
                ServerEvent::Opened(_) | ServerEvent::Closed(_) => {}
            }
        }
        while server.poll_output().is_some() {}
        let taken = server.receive(rest);
        rest = &rest[taken..];
        if taken == 0 {
            break;
        }
    }
    server.end_of_input();
    while server.poll_event().is_some() {}
}

/// A client that opens an export and keeps a few commands of each kind in flight.
pub(super) fn client(input: &[u8]) {
    let (mode, mut rest) = input.split_first().unwrap_or((&0, &[]));
    let config = match mode % 3 {
        0 => NbdClientConfig::open("vol0"),
        1 => NbdClientConfig::list(),
        _ => NbdClientConfig::describe("vol0"),
    };
    let limits = ClientLimits {
        max_in_flight: 8,
        max_in_flight_bytes: 256 << 10,
        ..ClientLimits::default()
    };
    let mut client = client::Connection::new(config, limits).expect("the limits make sense");
    let mut requested = 0_u32;
    loop {
        while client.poll_event().is_some() {}
        while client.poll_output().is_some() {}
        if client.session().is_some() && requested < 6 {
            requested += 1;
            let (offset, length) = (u64::from(requested) * 4096, 4096);
            let _refused = match requested % 4 {
                0 => client.submit(NbdCommand::Flush),
                1 => client.submit(NbdCommand::Read { offset, length, unfragmented: false }),
                2 => client.submit(NbdCommand::Write {
                    offset,
                    payload: vec![5; 4096].into(),
                    fua: false,
                }),
                _ => client.submit(NbdCommand::BlockStatus { offset, length, single: false }),
            };
            continue;
        }
        let taken = client.receive(rest);
        rest = &rest[taken..];
        if taken == 0 {
            break;
        }
    }
    client.end_of_input();
    while client.poll_event().is_some() {}
    assert!(client.in_flight() <= 8, "never more in flight than allowed");
}
