//! [`FORMATS`]: every trace format that is understood, one file each.

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

/// A trace format: all that the program, its documentation and its tests know of it.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// What it is called on the command line.
    pub name: &'static str,
    /// What it is.
    pub about: &'static str,
    /// What a line or record looks like.
    pub shape: &'static str,
    /// How its files often end, before `.gz` or `.zst`; a hint for people, never for detection.
    pub endings: &'static [&'static str],
    /// What its times count from.
    pub origin: &'static str,
    /// Where its device numbers come from.
    pub device: DeviceName,
    /// Whether it is text, line by line.
    pub text: bool,
    /// What it can say of a request.
    pub says: Says,
    /// A decoder of one file.
    pub decoder: fn(&Reading) -> Box<dyn Decoder + Send>,
    /// An encoder of one file.
    pub encoder: fn() -> Box<dyn Encoder + Send>,
}

/// Where device numbers of a format come from, and so how they are written.
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
