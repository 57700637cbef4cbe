//! The block traces of Microsoft Research Cambridge, 2007: one request a line, seven fields with
//! commas between them.
//!
//! ```text
//! 128166372003061629,src1,0,Read,8192,4096,1021
//! │                  │    │ │    │    │    └ response, units of 100 ns; 0 counts as not measured
//! │                  │    │ │    │    └ length, bytes
//! │                  │    │ │    └ offset, bytes
//! │                  │    │ └ Read or Write
//! │                  │    └ the disk of that host
//! │                  └ the host
//! └ when it was issued, units of 100 ns since 1601
//! ```
//!
//! A device is a host and a disk: hosts are numbered from 0 in the order of the file, and the
//! host's number times 65536 is added to the disk's. In a file of one host, as in the published
//! traces, the devices are its disks.
//!
//! Source: the README of the trace at SNIA's repository (IOTTA 388); Narayanan et al., "Write
//! Off-Loading", FAST 2008.

use alloc::boxed::Box;
use alloc::vec::Vec;

use headtime_units::Nanos;

use super::{DeviceName, Format};
use crate::source::Operation;
use crate::trace::encoder::Says;
use crate::trace::lines::{Between, Content, Line, LineFormat, Lines, line};
use crate::trace::names::Names;
use crate::trace::{TraceError, TraceRecord};

const SHAPE: &str = "time_100ns,host,disk,Read|Write,offset_bytes,len_bytes,response_100ns";

/// The unit of times.
const TICK_NS: u64 = 100;

/// The entry in the table.
pub(super) const FORMAT: Format = Format {
    name: "msr",
    about: "MSR Cambridge block traces (2007), CSV",
    shape: SHAPE,
    endings: &[".csv"],
    origin: "1601",
    device: DeviceName::HostAndDisk,
    text: true,
    says: Says {
        operations: &[Operation::Read, Operation::Write],
        // Written as disks of one host.
        max_device: u16::MAX as u32,
        response: true,
        time_unit_ns: TICK_NS,
        ..Says::LEAST
    },
    decoder: |reading| Lines::boxed(&reading.file, Msr { hosts: Names::default() }),
    encoder: || Box::new(write),
};

struct Msr {
    hosts: Names,
}

impl LineFormat for Msr {
    fn read(&mut self, line: &Line<'_>) -> Result<Content, TraceError> {
        let [at, host, disk, operation, offset, len, response] =
            line.exactly(Between::Commas, SHAPE)?;
        let parsed = line.read_or_write(operation, ["Read", "Write"], "Read or Write")?;
        let (offset, len) = ((offset, "the offset", 1), (len, "the length", 1));
        let record = line.request_at((at, TICK_NS), parsed, offset, len)?;
        let response = line.span(response, "the response time", TICK_NS)?;
        let disk: u16 = line.number(disk, "the disk")?;
        let host_number = self.hosts.number(host.text).ok_or_else(|| {
            line.refuse(host, "the host", Names::EXPECTED, "split the file by host")
        })?;
        let device = host_number << 16 | u32::from(disk);
        Ok(Content::One(TraceRecord {
            device,
            response: Some(response).filter(|response| !response.is_zero()),
            ..record
        }))
    }
}

fn write(record: &TraceRecord, out: &mut Vec<u8>) {
    let word = if record.operation == Operation::Read { "Read" } else { "Write" };
    let response = record.response.unwrap_or(Nanos::ZERO).as_ns() / TICK_NS;
    let TraceRecord { device, offset_bytes, len_bytes, .. } = record;
    line(
        out,
        format_args!(
            "{},host,{device},{word},{offset_bytes},{len_bytes},{response}",
            record.at.as_ns() / TICK_NS
        ),
    );
}
