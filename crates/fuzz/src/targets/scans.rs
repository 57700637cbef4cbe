//! Stored and received data of background work: the state of a scan and of a characterization, the
//! stream of a backup, commands over the control socket. If a checksum protects the data, the first
//! byte of the input selects whether it is corrected, so that the fields after it are reached.

use headtime_probe::Probe;
use headtime_serve::control::{
    ControlRequest, GetTunables, LoadMap, SaveMap, ScanArguments, VolumeArguments,
};
use headtime_serve::tuner::{SetOne, SetTunables, Values};
use headtime_serve::volumes::{DriveShape, DriveUuid, VolumeClass, VolumeSpec, VolumeTable, slot};
use headtime_tasks::record::{BackupRecord, RecordReader};
use headtime_tasks::{ReadSource, Scan, ScanStateError};
use headtime_units::{SectorSize, Sectors};

use crate::Memory;

/// A table of digests is kept in memory; notes, ranges and output have about the same size.
pub(super) const STATE_MEMORY: Memory = Memory { base: 4 << 20, per_byte: 64 };
/// An incomplete record, and the record.
pub(super) const STREAM_MEMORY: Memory = Memory { base: 1 << 20, per_byte: 8 };
/// A JSON tree and the values parsed from it.
pub(super) const PROBE_MEMORY: Memory = Memory { base: 4 << 20, per_byte: 200 };

/// The state of a scan: rejected, or a scan that works and encodes to the same state.
pub(super) fn state(input: &[u8]) {
    let Some((choice, rest)) = input.split_first() else { return };
    let mut bytes = rest.to_vec();
    if choice & 1 == 1 {
        bytes.extend_from_slice(&crc32c::crc32c(rest).to_le_bytes());
    }
    let mut loaded = match Scan::inspect(&bytes) {
        Ok(loaded) => loaded,
        Err(error) => return assert!(!error.to_string().is_empty(), "a refusal says why"),
    };
    let written = encoded(&loaded.scan, loaded.closed);
    let again = Scan::inspect(&written)
        .unwrap_or_else(|error| panic!("what was written out is read: {error}"));
    assert_eq!(encoded(&again.scan, again.closed), written, "and is the same");
    let (subject, kind) = (loaded.scan.subject().clone(), loaded.scan.kind());
    assert!(
        matches!(
            Scan::decode(&written, &subject, kind),
            Ok(_) | Err(ScanStateError::Foreign { .. })
        ),
        "it is of what it says"
    );
    let scan = &mut loaded.scan;
    assert!(
        scan.sectors_done() <= subject.extent.len
            && scan.is_complete() == scan.missing().next().is_none()
    );
    let missing: Vec<_> = scan.missing().take(4).collect();
    for run in missing {
        assert!(
            run.start >= subject.extent.start && run.end() <= subject.extent.end(),
            "{run} is missing outside of {}",
            subject.extent
        );
        let mut piece = run;
        piece.len = Sectors::new(piece.len.get().min(scan.grain()));
        let zeroes = vec![0; subject.sector_size.bytes_of(piece.len) as usize];
        scan.deliver(piece, Ok(&zeroes), false, ReadSource::Idle, &mut Vec::new());
        scan.keep();
    }
    let _ = (scan.digests(), scan.failed().sectors(), scan.passes());
    scan.again();
    assert!(scan.sectors_done().is_zero());
}

fn encoded(scan: &Scan, closed: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    scan.encode(closed, &mut |part| bytes.extend_from_slice(part));
    bytes
}

/// The stream of a backup, in pieces whose length the input selects: its data lies within the
/// volume and is no longer than the input.
pub(super) fn stream(input: &[u8]) {
    let Some((choice, rest)) = input.split_first() else { return };
    let mut bytes = rest.to_vec();
    if choice & 1 == 1 {
        put_checksums_right(&mut bytes);
    }
    let step = [1, 37, 4096, 1 << 20][usize::from(choice >> 1 & 3)];
    let mut reader = RecordReader::default();
    let (mut volume, mut held) = (0, 0);
    for piece in bytes.chunks(step) {
        reader.feed(piece);
        loop {
            match reader.next() {
                Ok(None) => break,
                Ok(Some(BackupRecord::Header { bytes, .. })) => volume = bytes,
                Ok(Some(BackupRecord::Data { offset, bytes })) => {
                    held += bytes.len();
                    assert!(offset + bytes.len() as u64 <= volume);
                }
                Ok(Some(
                    BackupRecord::Zeroes { offset, len } | BackupRecord::Unreadable { offset, len },
                )) => {
                    assert!(offset + len <= volume)
                }
                Ok(Some(BackupRecord::Index | BackupRecord::End)) => {}
                Err(error) => {
                    return assert!(
                        !error.to_string().is_empty() && !reader.is_complete(),
                        "a refusal says why, and is no end"
                    );
                }
            }
        }
    }
    assert!(held <= bytes.len() && reader.position().get() <= bytes.len() as u64);
    assert!(
        !reader.is_complete() || reader.position().get() == bytes.len() as u64,
        "a stream that is whole was read to its end"
    );
}

/// Corrects the checksum of every record: the last eight of its 32 bytes are the length of the
/// payload, and bytes 4 to 8 are the checksum of everything after them.
fn put_checksums_right(bytes: &mut [u8]) {
    const HEAD: usize = 32;
    let mut at = 0;
    while let Some(head) = bytes.get(at..at + HEAD) {
        let payload = u64::from_le_bytes(head[24..].try_into().expect("eight bytes"));
        let Some(end) = usize::try_from(payload)
            .ok()
            .and_then(|payload| (at + HEAD).checked_add(payload))
            .filter(|end| *end <= bytes.len())
        else {
            return;
        };
        let crc = crc32c::crc32c(&bytes[at + 8..end]);
        bytes[at + 4..at + 8].copy_from_slice(&crc.to_le_bytes());
        at = end;
    }
}

/// Lines to the control socket: each is rejected with a reason, or parsed with its arguments and
/// encoded unchanged. Commands for volumes are applied to a table, which stays valid and encodes to
/// itself.
pub(super) fn control(input: &[u8]) {
    let shape = DriveShape { sector: SectorSize::B512, capacity: Sectors::new(64 * 2048) };
    let mut table = VolumeTable::empty(DriveUuid([7; 16]), shape);
    for line in input.split(|byte| *byte == b'\n').take(64) {
        let request = match ControlRequest::read(line) {
            Ok(request) => request,
            Err(refused) => {
                assert!(!refused.message.is_empty(), "a refusal says why");
                continue;
            }
        };
        let line = serde_json::to_vec(&request).expect("what was JSON is JSON");
        assert_eq!(
            ControlRequest::read(&line).as_ref(),
            Ok(&request),
            "a request that was written reads back the same"
        );
        if request.verb.starts_with("volume.") {
            volume_order(&mut table, &request);
            continue;
        }
        server_order(&request.arguments);
        match ScanArguments::read(request.arguments) {
            Ok(arguments) => {
                let again = serde_json::to_value(&arguments).map(ScanArguments::read);
                assert_eq!(again.ok(), Some(Ok(arguments)), "so do its arguments");
            }
            Err(refused) => assert!(!refused.message.is_empty(), "a refusal says why"),
        }
    }
}

/// Arguments of server verbs are parsed and encoded unchanged; a tunable is set as given, or
/// rejected with a reason.
fn server_order(arguments: &serde_json::Value) {
    read_back::<GetTunables>(arguments);
    read_back::<SetTunables>(arguments);
    read_back::<SaveMap>(arguments);
    read_back::<LoadMap>(arguments);
    if let Ok(SetTunables { set, .. }) = serde_json::from_value(arguments.clone()) {
        let mut values = Values::default();
        for SetOne { name, value } in set {
            let before = values.get(&name);
            match values.set(&name, &value) {
                Ok(()) => {
                    let text = values.get(&name).expect("it was just set");
                    let mut again = Values::default();
                    again.set(&name, &text).expect("what is got can be set");
                    assert_eq!(again.get(&name), Ok(text), "and says the same");
                }
                Err(message) => assert!(
                    !message.is_empty() && values.get(&name) == before,
                    "a refusal says why and changes nothing"
                ),
            }
        }
    }
}

/// Applies a command to a table as a server does.
fn volume_order(table: &mut VolumeTable, request: &ControlRequest) {
    let arguments = match VolumeArguments::read(request.arguments.clone()) {
        Ok(arguments) => arguments,
        Err(refused) => return assert!(!refused.message.is_empty(), "a refusal says why"),
    };
    let again = serde_json::to_value(&arguments).map(VolumeArguments::read);
    assert_eq!(
        again.ok().as_ref(),
        Some(&Ok(arguments.clone())),
        "arguments that were written read back the same"
    );
    let order = match arguments.order() {
        Ok(order) => order,
        Err(refused) => return assert!(!refused.message.is_empty(), "a refusal says why"),
    };
    let before = table.clone();
    let (name, class) = VolumeClass::of_export(&order.name);
    let spec =
        VolumeSpec { name: order.name.clone(), size: order.size, settings: order.settings.clone() };
    let done = match (request.verb.as_str(), class) {
        (_, None) => return,
        ("volume.remove", Some(VolumeClass::Ordinary)) => table.remove(name).map(|_| ()),
        ("volume.remove", Some(class)) => table.change_class(name, class, None).map(|_| ()),
        ("volume.add", Some(VolumeClass::Ordinary)) => table.add(&spec).map(|_| ()),
        (_, Some(VolumeClass::Ordinary)) => table.change(&spec, order.cut_data).map(|_| ()),
        (_, Some(class)) => table.change_class(name, class, Some(&order.settings)).map(|_| ()),
    };
    match done {
        Ok(()) => table.check().expect("a change leaves a table that can be"),
        Err(error) => {
            assert!(!error.to_string().is_empty(), "a refusal says why");
            assert_eq!(*table, before, "and changes nothing");
        }
    }
    let mut bytes = slot::encode(table, 1);
    bytes.resize(slot::SLOT_BYTES, 0);
    assert_eq!(
        slot::decode(&bytes),
        slot::SlotContent::Table { generation: 1, table: table.clone() },
        "what is written reads back"
    );
}

/// Parsed arguments encode to the same value.
fn read_back<T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug>(
    arguments: &serde_json::Value,
) {
    if let Ok(read) = serde_json::from_value::<T>(arguments.clone()) {
        let again = serde_json::to_value(&read).and_then(serde_json::from_value::<T>);
        assert_eq!(again.ok(), Some(read), "so do the arguments of a server's verbs");
    }
}

/// The state of a characterization of a drive of 8 GiB called `fuzzed`: rejected, or restored and
/// encoded.
pub(super) fn probe(input: &[u8]) {
    let Some((choice, rest)) = input.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let mut text = text.to_owned();
    if choice & 1 == 1 {
        let checksum = crc32c::crc32c(text.as_bytes());
        text.push_str(&format!("crc32c {checksum:08x}\n"));
    }
    let load = |text: &str| Probe::load(text, "fuzzed", Sectors::new(1 << 24), 512);
    match load(&text) {
        Ok(probe) => {
            let saved = probe.save("fuzzed");
            let again = load(&saved).map(|again| again.save("fuzzed"));
            // A file whose other lines contradict its second line describes another drive.
            assert!(
                again.as_ref().is_ok_and(|again| *again == saved) || again.is_err(),
                "what was written is read, and is the same"
            );
        }
        Err(error) => assert!(!error.to_string().is_empty(), "a refusal says why"),
    }
}
