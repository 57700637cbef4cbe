//! The common part of all text formats: lines in bytes, fields in lines, and numbers in fields.
//!
//! Lines end with LF or CR LF, the last one also with the end of the file. Empty lines and lines
//! that start with `#` are skipped, and so is a first line without any digit: the header of a
//! table. Bytes that are not UTF-8 are read as `�`.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::{self, Write as _};

use headtime_units::{Instant, Nanos};

use super::decoder::{Decoder, LONGEST_LINE, Step};
use super::{TraceError, TraceRecord};
use crate::source::Operation;

/// The content of a line.
pub(super) enum Content {
    /// A request.
    One(TraceRecord),
    /// Two requests, the second directly after the first.
    Two(TraceRecord, TraceRecord),
    /// A valid line without a request: another event, the opening of a file.
    Passed,
    /// A line that is neither of the format nor damaged: a summary.
    Blank,
}

/// A format of lines; a line may depend on the lines before it.
pub(super) trait LineFormat {
    /// Reads a line that is neither empty nor a comment.
    fn read(&mut self, line: &Line<'_>) -> Result<Content, TraceError>;
}

/// A format of lines that do not depend on each other.
impl<F: FnMut(&Line<'_>) -> Result<Content, TraceError>> LineFormat for F {
    fn read(&mut self, line: &Line<'_>) -> Result<Content, TraceError> {
        self(line)
    }
}

/// The decoder of a format of lines.
pub(super) struct Lines<F> {
    file: String,
    format: F,
    /// The number of complete lines.
    done: u64,
    /// True while the rest of a line that is too long is skipped.
    skipping: bool,
    /// The second record of the last line.
    pending: Option<TraceRecord>,
}

impl<F: LineFormat + Send + 'static> Lines<F> {
    pub(super) fn boxed(file: &str, format: F) -> Box<dyn Decoder + Send> {
        Box::new(Self { file: file.to_string(), format, done: 0, skipping: false, pending: None })
    }
}

impl<F: LineFormat> Decoder for Lines<F> {
    fn step(&mut self, bytes: &[u8], ends: bool) -> Step {
        if let Some(record) = self.pending.take() {
            return Step::Record { record, consumed: 0 };
        }
        let looked_at = &bytes[..bytes.len().min(LONGEST_LINE + 1)];
        let (line, consumed) = match looked_at.iter().position(|byte| *byte == b'\n') {
            Some(at) => (&bytes[..at], at + 1),
            None if bytes.len() > LONGEST_LINE => return self.too_long(looked_at.len()),
            None if ends && !bytes.is_empty() => (bytes, bytes.len()),
            None => return Step::NeedMore,
        };
        self.done += 1;
        if core::mem::take(&mut self.skipping) {
            return Step::Blank { consumed };
        }
        self.line(line, consumed)
    }
}

impl<F: LineFormat> Lines<F> {
    fn line(&mut self, bytes: &[u8], consumed: usize) -> Step {
        let text = String::from_utf8_lossy(bytes);
        let text =
            if self.done == 1 { text.strip_prefix('\u{feff}').unwrap_or(&text) } else { &text };
        let text = text.strip_suffix('\r').unwrap_or(text);
        let start = text.trim_start();
        if start.is_empty() || start.starts_with('#') {
            return Step::Blank { consumed };
        }
        let line = Line { file: &self.file, number: self.done, text };
        match self.format.read(&line) {
            Ok(Content::One(record)) => Step::Record { record, consumed },
            Ok(Content::Two(record, second)) => {
                self.pending = Some(second);
                Step::Record { record, consumed }
            }
            Ok(Content::Passed) => Step::Passed { consumed },
            Ok(Content::Blank) => Step::Blank { consumed },
            Err(_) if self.done == 1 && !text.bytes().any(|byte| byte.is_ascii_digit()) => {
                Step::Blank { consumed }
            }
            Err(error) => Step::Damaged { error, consumed },
        }
    }

    fn too_long(&mut self, consumed: usize) -> Step {
        if core::mem::replace(&mut self.skipping, true) {
            return Step::Blank { consumed };
        }
        let line = usize::try_from(self.done + 1).unwrap_or(usize::MAX);
        Step::Damaged {
            error: TraceError::LongLine { file: self.file.clone(), line, max: LONGEST_LINE },
            consumed,
        }
    }
}

/// A line and its position.
pub(super) struct Line<'a> {
    pub(super) file: &'a str,
    /// The number of the line, from 1.
    pub(super) number: u64,
    pub(super) text: &'a str,
}

/// A field of a line, without blanks around it.
#[derive(Clone, Copy)]
pub(super) struct Field<'a> {
    /// The byte of the line at which it starts.
    offset: usize,
    pub(super) text: &'a str,
}

/// The separator of fields.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Between {
    Blanks,
    Commas,
}

impl<'a> Line<'a> {
    /// The fields, from the left.
    pub(super) fn fields(&self, between: Between) -> impl Iterator<Item = Field<'a>> {
        let whole = self.text;
        let mut next = Some(0);
        core::iter::from_fn(move || {
            let from = next?;
            let rest = &whole[from..];
            match between {
                Between::Blanks => {
                    let start = from + (rest.len() - rest.trim_start().len());
                    let field = &whole[start..];
                    let end = field.find(char::is_whitespace).unwrap_or(field.len());
                    next = (end < field.len()).then_some(start + end);
                    (end > 0).then_some(Field { offset: start, text: &field[..end] })
                }
                Between::Commas => {
                    let end = rest.find(',').unwrap_or(rest.len());
                    next = (end < rest.len()).then_some(from + end + 1);
                    let field = &rest[..end];
                    let start = field.len() - field.trim_start().len();
                    Some(Field { offset: from + start, text: field.trim() })
                }
            }
        })
    }

    /// All fields; there must be exactly `N`.
    pub(super) fn exactly<const N: usize>(
        &self,
        between: Between,
        shape: &'static str,
    ) -> Result<[Field<'a>; N], TraceError> {
        let (fields, found) = self.first(between);
        if found == N { Ok(fields) } else { Err(self.wrong_count(found, N, shape)) }
    }

    /// The first `N` fields; there must be at least `N`.
    pub(super) fn at_least<const N: usize>(
        &self,
        between: Between,
        shape: &'static str,
    ) -> Result<[Field<'a>; N], TraceError> {
        let (fields, found) = self.first(between);
        if found >= N { Ok(fields) } else { Err(self.wrong_count(found, N, shape)) }
    }

    fn first<const N: usize>(&self, between: Between) -> ([Field<'a>; N], usize) {
        let mut fields = [Field { offset: 0, text: "" }; N];
        let mut found = 0;
        for field in self.fields(between) {
            if let Some(place) = fields.get_mut(found) {
                *place = field;
            }
            found += 1;
        }
        (fields, found)
    }

    fn wrong_count(&self, found: usize, expected: usize, shape: &'static str) -> TraceError {
        TraceError::Fields {
            file: self.file.to_string(),
            line: self.line(),
            found,
            expected,
            shape,
        }
    }

    /// A whole number.
    pub(super) fn number<T: core::str::FromStr>(
        &self,
        field: Field<'_>,
        name: &'static str,
    ) -> Result<T, TraceError> {
        let digits = !field.text.is_empty() && field.text.bytes().all(|byte| byte.is_ascii_digit());
        field
            .text
            .parse()
            .ok()
            .filter(|_| digits)
            .ok_or_else(|| self.refuse(field, name, "a whole number within range", "correct it"))
    }

    /// A number of `unit_ns` nanoseconds each, perhaps with a decimal part, to the nearest
    /// nanosecond.
    pub(super) fn span(
        &self,
        field: Field<'_>,
        name: &'static str,
        unit_ns: u64,
    ) -> Result<Nanos, TraceError> {
        decimal(field.text, unit_ns).map(Nanos::from_ns).ok_or_else(|| {
            self.refuse(field, name, expected_of(unit_ns), "write it such as 6657.0")
        })
    }

    /// As [`Line::span`], for a point in time.
    pub(super) fn instant(
        &self,
        field: Field<'_>,
        name: &'static str,
        unit_ns: u64,
    ) -> Result<Instant, TraceError> {
        Ok(Instant::ORIGIN + self.span(field, name, unit_ns)?)
    }

    /// A number of units of `unit_bytes`.
    pub(super) fn bytes(
        &self,
        field: Field<'_>,
        name: &'static str,
        unit_bytes: u64,
    ) -> Result<u64, TraceError> {
        let count: u64 = self.number(field, name)?;
        count
            .checked_mul(unit_bytes)
            .ok_or_else(|| self.refuse(field, name, "an address below 2^64 bytes", "correct it"))
    }

    /// The operation of a field with `[read, write]` as its words; `expected` names them.
    pub(super) fn read_or_write(
        &self,
        field: Field<'_>,
        words: [&str; 2],
        expected: &'static str,
    ) -> Result<Operation, TraceError> {
        match words.iter().position(|word| *word == field.text) {
            Some(0) => Ok(Operation::Read),
            Some(_) => Ok(Operation::Write),
            None => Err(self.refuse(field, "the operation", expected, "write one of the two")),
        }
    }

    /// The request of this line; `offset` is the field of its address.
    pub(super) fn request(
        &self,
        offset: Field<'_>,
        at: Instant,
        operation: Operation,
        offset_bytes: u64,
        len_bytes: u64,
    ) -> Result<TraceRecord, TraceError> {
        TraceRecord::new(self.number, at, operation, offset_bytes, len_bytes).ok_or_else(|| {
            self.refuse(offset, "the address", "one that ends below 2^64 bytes", "correct it")
        })
    }

    /// As [`Line::request`], from the fields: each with its name and the bytes of its unit, the
    /// time with the nanoseconds of its unit.
    pub(super) fn request_at(
        &self,
        (at, unit_ns): (Field<'_>, u64),
        operation: Operation,
        offset: (Field<'_>, &'static str, u64),
        len: (Field<'_>, &'static str, u64),
    ) -> Result<TraceRecord, TraceError> {
        let bytes = |(field, name, unit)| self.bytes(field, name, unit);
        let (offset_bytes, len_bytes) = (bytes(offset)?, bytes(len)?);
        let at = self.instant(at, "the time", unit_ns)?;
        self.request(offset.0, at, operation, offset_bytes, len_bytes)
    }

    pub(super) fn refuse(
        &self,
        field: Field<'_>,
        name: &'static str,
        expected: &'static str,
        remedy: &'static str,
    ) -> TraceError {
        TraceError::Field {
            file: self.file.to_string(),
            line: self.line(),
            column: self.text[..field.offset].chars().count() + 1,
            field: name,
            value: field.text.chars().take(MAX_SHOWN).collect(),
            expected,
            remedy,
        }
    }

    fn line(&self) -> usize {
        usize::try_from(self.number).unwrap_or(usize::MAX)
    }
}

/// The sector of formats that count in sectors, whatever the sector of the drive.
pub(super) const SECTOR_BYTES: u64 = 512;

/// Adds a line to `out`.
pub(super) fn line(out: &mut Vec<u8>, text: fmt::Arguments<'_>) {
    // Writing to memory does not fail.
    let _ = writeln!(Bytes(out), "{text}");
}

struct Bytes<'a>(&'a mut Vec<u8>);

impl fmt::Write for Bytes<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.extend_from_slice(text.as_bytes());
        Ok(())
    }
}

/// The maximum length of a wrong field in an error; the file may not be text at all.
const MAX_SHOWN: usize = 40;

fn expected_of(unit_ns: u64) -> &'static str {
    match unit_ns {
        1 => "nanoseconds, not negative",
        100 => "units of 100 ns, not negative",
        1_000 => "microseconds, not negative",
        1_000_000 => "milliseconds, not negative",
        _ => "seconds, not negative",
    }
}

/// A decimal number of `unit_ns` nanoseconds each, to the nearest nanosecond; `None` for signs,
/// exponents and what passes 2^64 ns.
fn decimal(text: &str, unit_ns: u64) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() + part.len() == 0 || !digits(whole) || !digits(part) {
        return None;
    }
    let whole: u64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    if part.is_empty() {
        return whole.checked_mul(unit_ns);
    }
    // Further decimals are below the resolution of times.
    let part = &part[..part.len().min(18)];
    let scale = 10_u64.pow(u32::try_from(part.len()).ok()?);
    let numerator: u64 = part.parse().ok()?;
    let part_ns = match numerator.checked_mul(unit_ns) {
        // The usual numbers of decimals; a division of 128 bits is slow.
        Some(product) if product <= u64::MAX - scale => (product + scale / 2) / scale,
        _ => u64::try_from(
            (u128::from(numerator) * u128::from(unit_ns) + u128::from(scale / 2))
                / u128::from(scale),
        )
        .ok()?,
    };
    whole.checked_mul(unit_ns)?.checked_add(part_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_read_exactly_or_not_at_all() {
        for (text, unit_ns, ns) in [
            ("0", 1_000, Some(0)),
            ("663.00000", 1_000, Some(663_000)),
            (".5", 1_000_000, Some(500_000)),
            ("5.", 1_000, Some(5_000)),
            ("0.0000000014", 1_000_000_000, Some(1)),
            ("0.0000000015", 1_000_000_000, Some(2)),
            ("0.999999999999999999", 1_000_000_000, Some(1_000_000_000)),
            ("3.000000004999999999", 1_000_000_000, Some(3_000_000_005)),
            ("128166372003061629", 100, Some(12_816_637_200_306_162_900)),
            ("1.0000000000000000000000000000009", 1, Some(1)),
            ("", 1, None),
            (".", 1, None),
            ("-1", 1, None),
            ("+1", 1, None),
            ("1e3", 1, None),
            ("nan", 1, None),
            ("1.2.3", 1, None),
            ("18446744073709551616", 1, None),
            ("18446744073709551615", 1, Some(u64::MAX)),
            ("18446744073709551615", 2, None),
        ] {
            assert_eq!(decimal(text, unit_ns), ns, "{text} units of {unit_ns} ns");
        }
    }

    #[test]
    fn fields_are_found_between_blanks_and_between_commas() {
        let found = |text: &'static str, between| -> alloc::vec::Vec<(usize, &'static str)> {
            Line { file: "x", number: 1, text }
                .fields(between)
                .map(|field| (field.offset, field.text))
                .collect()
        };
        assert_eq!(found("  a  bc\t", Between::Blanks), [(2, "a"), (5, "bc")]);
        assert_eq!(found("", Between::Blanks), []);
        assert_eq!(found(" a ,,ü", Between::Commas), [(1, "a"), (4, ""), (5, "ü")]);
        assert_eq!(found("1,", Between::Commas), [(0, "1"), (2, "")]);
    }
}
