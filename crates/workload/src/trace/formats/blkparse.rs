//! The output of `blkparse` for a trace by `blktrace`: one event per line.
//!
//! ```text
//!   8,0    3        1     0.000000000   697  Q  WS 223490 + 8 [kjournald]
//!   │      │        │     │             │    │  │  │        │ └ the process's name
//!   │      │        │     │             │    │  │  │        └ sectors of 512 bytes
//!   │      │        │     │             │    │  │  └ first sector; absent with the length
//!   │      │        │     │             │    │  └ what: see below
//!   │      │        │     │             │    └ the event: Q queued, D issued to the drive, …
//!   │      │        │     │             └ the process
//!   │      │        │     └ when, s
//!   │      │        └ sequence number
//!   │      └ processor
//!   └ the device
//! ```
//!
//! *What* is a word of flag characters: a leading `F` for a flush before the request; then `R`
//! read, `W` write (`WZ` zeroes), `D` discard, `N` none, a second `F` flush; then `F` force unit
//! access, and `A`, `S`, `M` and others, which are ignored. A write with a flush before it and with
//! sectors becomes two requests. Only one kind of event counts ([`Action`]); the others, messages,
//! packet commands, zone commands and the summary are skipped.
//!
//! Source: blktrace's `blkparse_fmt.c` (`process_default`, `fill_rwbs`) and blkparse(1).

use alloc::boxed::Box;
use alloc::vec::Vec;

use headtime_units::Instant;

use super::{DeviceName, Format};
use crate::source::Operation;
use crate::trace::decoder::Action;
use crate::trace::encoder::{Encoder, Says};
use crate::trace::lines::{Between, Content, Field, Line, LineFormat, Lines, SECTOR_BYTES, line};
use crate::trace::{TraceError, TraceRecord};

const SHAPE: &str = "major,minor cpu sequence time_s pid event what [lba + sectors] [process]";

/// The entry in the table.
pub(super) const FORMAT: Format = Format {
    name: "blkparse",
    about: "blkparse's default output",
    shape: SHAPE,
    endings: &[".txt", ".blkparse"],
    origin: "its beginning",
    device: DeviceName::MajorMinor,
    text: true,
    says: Says {
        operations: &[Operation::Read, Operation::Write, Operation::Discard, Operation::Flush],
        fua: true,
        max_device: u32::MAX,
        process: true,
        address_unit_bytes: SECTOR_BYTES,
        ..Says::LEAST
    },
    decoder: |reading| {
        Lines::boxed(&reading.file, Blkparse { action: reading.action, in_summary: false })
    },
    encoder: || Box::new(Writer { sequence: 0 }),
};

struct Blkparse {
    action: Action,
    in_summary: bool,
}

impl LineFormat for Blkparse {
    fn read(&mut self, line: &Line<'_>) -> Result<Content, TraceError> {
        // Of the eight first fields, the last may be missing.
        let fields: [Field<'_>; 7] = match line.at_least(Between::Blanks, SHAPE) {
            Ok(fields) => fields,
            Err(error) => return self.no_event(line, error),
        };
        let [device, cpu, sequence, at, pid, event, what] = fields;
        let device = match device_of(line, device) {
            Ok(device) => device,
            Err(error) => return self.no_event(line, error),
        };
        line.number::<u32>(cpu, "the processor")?;
        line.number::<u64>(sequence, "the sequence number")?;
        let at = line.instant(at, "the time", 1_000_000_000)?;
        let process = line.number(pid, "the process")?;
        let selected = match self.action {
            Action::Queue => "Q",
            Action::Issue => "D",
        };
        if event.text != selected {
            let known =
                event.text.len() <= 2 && event.text.bytes().all(|byte| byte.is_ascii_alphabetic());
            return if known {
                Ok(Content::Passed)
            } else {
                Err(line.refuse(event, "the event", "an event such as Q, D or C", "correct it"))
            };
        }
        let Some(operation) = What::of(what.text) else {
            return Err(line.refuse(
                what,
                "the operation",
                "flags such as R, WS, FWFS or D",
                "correct it",
            ));
        };
        let own = |record: TraceRecord| TraceRecord { device, process, ..record };
        let flush = own(TraceRecord::flush(line.number, at));
        match (operation, address(line)?) {
            (What { flush_before: true, .. }, None) => Ok(Content::One(flush)),
            (What { operation: Some(Operation::Flush), .. }, _) => Ok(Content::One(flush)),
            (What { flush_before: true, .. }, Some((_, _, 0))) => Ok(Content::One(flush)),
            (
                What { operation: Some(operation), flush_before, fua },
                Some((lba, offset_bytes, len_bytes)),
            ) => {
                let record = own(line.request(lba, at, operation, offset_bytes, len_bytes)?);
                let record = TraceRecord { fua: fua && operation == Operation::Write, ..record };
                Ok(if flush_before { Content::Two(flush, record) } else { Content::One(record) })
            }
            // Packet commands, and marks of the scheduler.
            _ => Ok(Content::Passed),
        }
    }
}

impl Blkparse {
    /// A line that does not begin like an event: the summary after all events, or damage.
    fn no_event(&mut self, line: &Line<'_>, error: TraceError) -> Result<Content, TraceError> {
        let text = line.text.trim_start();
        let per_processor = text
            .strip_prefix("CPU")
            .is_some_and(|rest| rest.starts_with(|digit: char| digit.is_ascii_digit()));
        self.in_summary |= per_processor
            || ["Total (", "Throughput (", "Events (", "Skips: "]
                .iter()
                .any(|word| text.starts_with(word));
        if self.in_summary { Ok(Content::Blank) } else { Err(error) }
    }
}

fn device_of(line: &Line<'_>, field: Field<'_>) -> Result<u32, TraceError> {
    let parts = field
        .text
        .split_once(',')
        .and_then(|(major, minor)| major.parse::<u32>().ok().zip(minor.parse::<u32>().ok()));
    let parts = parts.filter(|(major, minor)| *major < 1 << 12 && *minor < 1 << 20);
    parts
        .map(|(major, minor)| major << 20 | minor)
        .ok_or_else(|| line.refuse(field, "the device", "major,minor such as 8,0", "correct it"))
}

/// `lba + sectors` after the first seven fields, as the field of the LBA, offset and length in
/// bytes; `None` where there is something else.
fn address<'a>(line: &Line<'a>) -> Result<Option<(Field<'a>, u64, u64)>, TraceError> {
    let mut fields = line.fields(Between::Blanks).skip(7);
    let (Some(lba), Some(plus), Some(sectors)) = (fields.next(), fields.next(), fields.next())
    else {
        return Ok(None);
    };
    if plus.text != "+" {
        return Ok(None);
    }
    Ok(Some((
        lba,
        line.bytes(lba, "the LBA", SECTOR_BYTES)?,
        line.bytes(sectors, "the number of sectors", SECTOR_BYTES)?,
    )))
}

/// The meaning of the flag characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct What {
    flush_before: bool,
    operation: Option<Operation>,
    fua: bool,
}

impl What {
    fn of(flags: &str) -> Option<Self> {
        if flags.is_empty() || !flags.bytes().all(|byte| byte.is_ascii_uppercase()) {
            return None;
        }
        let after_flush = flags.strip_prefix('F');
        let rest = after_flush.unwrap_or(flags);
        let operation = match rest.bytes().next() {
            Some(b'R') => Some(Operation::Read),
            Some(b'W') if rest.starts_with("WZ") => Some(Operation::Zero),
            Some(b'W') => Some(Operation::Write),
            Some(b'D') => Some(Operation::Discard),
            Some(b'F') => Some(Operation::Flush),
            _ => None,
        };
        let marks = rest.get(1..).unwrap_or("");
        // Kernels before 2.6.37 had barriers, which flushed before and after.
        Some(Self {
            flush_before: after_flush.is_some() || marks.contains('B'),
            operation,
            fua: marks.contains(['F', 'B']),
        })
    }
}

struct Writer {
    sequence: u64,
}

impl Encoder for Writer {
    fn record(&mut self, record: &TraceRecord, out: &mut Vec<u8>) {
        self.sequence += 1;
        let what = match record.operation {
            Operation::Read => "R",
            Operation::Write | Operation::Zero => ["W", "WF"][usize::from(record.fua)],
            Operation::Discard => "D",
            Operation::Flush => "FN",
        };
        let (major, minor) = (record.device >> 20, record.device & 0xf_ffff);
        let since = record.at.saturating_since(Instant::ORIGIN).as_ns();
        let (secs, ns) = (since / 1_000_000_000, since % 1_000_000_000);
        let (sequence, process) = (self.sequence, record.process);
        let head = format_args!(
            "{major:3},{minor:<3}  0 {sequence:8} {secs:5}.{ns:09} {process:5}  Q {what:>3}"
        );
        match record.operation {
            Operation::Flush => line(out, format_args!("{head} [{process}]")),
            _ => line(
                out,
                format_args!(
                    "{head} {} + {} [{process}]",
                    record.offset_bytes / SECTOR_BYTES,
                    record.len_bytes / SECTOR_BYTES
                ),
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flag_characters_give_the_operation() {
        let what = |flush_before, operation, fua| Some(What { flush_before, operation, fua });
        for (flags, expected) in [
            ("R", what(false, Some(Operation::Read), false)),
            ("RA", what(false, Some(Operation::Read), false)),
            ("RSM", what(false, Some(Operation::Read), false)),
            ("W", what(false, Some(Operation::Write), false)),
            ("WS", what(false, Some(Operation::Write), false)),
            ("WFS", what(false, Some(Operation::Write), true)),
            ("FWFSM", what(true, Some(Operation::Write), true)),
            ("FWS", what(true, Some(Operation::Write), false)),
            ("WZ", what(false, Some(Operation::Zero), false)),
            ("WB", what(true, Some(Operation::Write), true)),
            ("D", what(false, Some(Operation::Discard), false)),
            ("DE", what(false, Some(Operation::Discard), false)),
            ("DS", what(false, Some(Operation::Discard), false)),
            ("FN", what(true, None, false)),
            ("F", what(true, None, false)),
            ("FF", what(true, Some(Operation::Flush), false)),
            ("N", what(false, None, false)),
            ("ZR", what(false, None, false)),
            ("", None),
            ("w", None),
            ("+", None),
        ] {
            assert_eq!(What::of(flags), expected, "{flags}");
        }
    }
}
