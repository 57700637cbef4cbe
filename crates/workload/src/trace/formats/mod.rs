//! [`FORMATS`]: the trace formats, one module each.

mod alibaba;
mod blkparse;
mod blktrace;
mod disksim_ascii;
pub mod disksim_validate;
mod fio;
mod msr;
mod spc;
mod tencent;
mod vscsi;

use alloc::boxed::Box;

use super::decoder::{Decoder, Reading};
use super::encoder::{Encoder, Says};

/// A trace format.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// The name on the command line.
    pub name: &'static str,
    /// The description.
    pub about: &'static str,
    /// The form of a line or record.
    pub shape: &'static str,
    /// The usual file extension, before `.gz` or `.zst`; a hint for people, not used for detection.
    pub endings: &'static [&'static str],
    /// The origin of its times.
    pub origin: &'static str,
    /// The source of its device numbers.
    pub device: DeviceName,
    /// True for a text format.
    pub text: bool,
    /// The abilities of its encoder.
    pub says: Says,
    /// A decoder of one file.
    pub decoder: fn(&Reading) -> Box<dyn Decoder + Send>,
    /// An encoder of one file.
    pub encoder: fn() -> Box<dyn Encoder + Send>,
}

/// The source of device numbers, which also decides their form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceName {
    /// There is one device only, number 0.
    One,
    /// The format's own numbers.
    Number,
    /// Linux device numbers: major · 2²⁰ + minor.
    MajorMinor,
    /// Files in the order in which they are first named, from 0.
    Order,
    /// Hosts in the order in which they are first named, from 0, times 2¹⁶, plus the disk's number.
    HostAndDisk,
}

/// The format of this name.
#[must_use]
pub fn format(name: &str) -> Option<&'static Format> {
    FORMATS.iter().find(|format| format.name == name)
}

/// Every format, in the order in which they are listed.
pub const FORMATS: &[Format] = &[
    blkparse::FORMAT,
    blktrace::FORMAT,
    fio::FORMAT_2,
    fio::FORMAT_3,
    msr::FORMAT,
    spc::FORMAT,
    alibaba::FORMAT,
    tencent::FORMAT,
    vscsi::FORMAT_1,
    vscsi::FORMAT_2,
    disksim_ascii::FORMAT,
    disksim_validate::FORMAT,
];
