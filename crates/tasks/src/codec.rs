//! Little-endian numbers and lengths, to and from bytes; every length is checked before it is used.

use headtime_units::{Extent, Lba, Sectors};

use crate::ranges::Ranges;

/// Passes bytes on as they are made, so that a large table is not copied.
pub(crate) struct Encoder<'a> {
    to: &'a mut dyn FnMut(&[u8]),
}

impl<'a> Encoder<'a> {
    pub(crate) fn new(to: &'a mut dyn FnMut(&[u8])) -> Self {
        Self { to }
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        (self.to)(bytes);
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.bytes(&[value]);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.bytes(&value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes(&value.to_le_bytes());
    }

    pub(crate) fn text(&mut self, text: &str) {
        self.u32(text.len() as u32);
        self.bytes(text.as_bytes());
    }

    pub(crate) fn ranges(&mut self, ranges: &Ranges) {
        self.u64(ranges.unlisted().get());
        self.u32(ranges.len() as u32);
        for run in ranges.iter() {
            self.u64(run.start.get());
            self.u64(run.len.get());
        }
    }
}

/// An error in bytes whose checksum is right: a fault of the program that wrote them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed(pub(crate) &'static str);

/// Reads values from bytes.
pub(crate) struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (bytes, rest) =
            self.rest.split_at_checked(len).ok_or(Malformed("it ends too early"))?;
        self.rest = rest;
        Ok(bytes)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let bytes = self.bytes(N)?;
        Ok(bytes.try_into().expect("as many as were asked for"))
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn flag(&mut self) -> Result<bool, Malformed> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed("a flag that is neither 0 nor 1")),
        }
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn text(&mut self) -> Result<String, Malformed> {
        let len = self.u32()? as usize;
        let text = std::str::from_utf8(self.bytes(len)?);
        text.map(str::to_owned).map_err(|_| Malformed("a text that is not UTF-8"))
    }

    /// Ranges within `extent`.
    pub(crate) fn ranges(&mut self, extent: Extent) -> Result<Ranges, Malformed> {
        let unlisted = self.u64()?;
        let count = self.u32()? as usize;
        if count > Ranges::MAX {
            return Err(Malformed("more ranges than are kept"));
        }
        let mut runs = Vec::with_capacity(count);
        for _ in 0..count {
            let run = Extent::new(Lba::new(self.u64()?), Sectors::new(self.u64()?));
            let inside = run.checked_end().is_some_and(|end| end <= extent.end())
                && run.start >= extent.start
                && !run.len.is_zero();
            runs.push(
                inside.then_some(run).ok_or(Malformed("a range outside of what is scanned"))?,
            );
        }
        if unlisted > extent.len.get() {
            return Err(Malformed("more sectors without a range than there are"));
        }
        Ok(Ranges::from_parts(runs.into_iter(), unlisted))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Everything that is left.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// True if so many bytes are left; checked before memory is allocated for them.
    pub(crate) fn must_hold(&self, bytes: u64) -> Result<(), Malformed> {
        if self.rest.len() as u64 >= bytes { Ok(()) } else { Err(Malformed("it ends too early")) }
    }
}
