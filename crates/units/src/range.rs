//! [`ByteRange`]: a range of bytes as people write it.

use alloc::string::{String, ToString};
use core::fmt;
use core::str::FromStr;

use crate::{ByteSize, ParseUnitError, parse_bytes};

/// A range of bytes: `10GiB..20GiB`, `10GiB..` to the end, or `10GiB+1GiB` by its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// The first byte.
    pub start: u64,
    /// The byte after the last; `None` for the end of the thing.
    pub end: Option<u64>,
}

/// The reason why a text is no range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the messages describe the fields")]
pub enum ParseRangeError {
    /// Neither form.
    #[error(
        "`{0}` is no range; write FROM..TO, FROM.. or FROM+LENGTH, such as `10GiB..20GiB` or \
            `10GiB+1GiB`"
    )]
    NoRange(String),
    #[error("range `{text}`: {error}")]
    Size { text: String, error: ParseUnitError },
    #[error("range `{0}` has no bytes; write an end after the start, such as `10GiB..20GiB`")]
    Empty(String),
}

impl FromStr for ByteRange {
    type Err = ParseRangeError;

    fn from_str(text: &str) -> Result<Self, ParseRangeError> {
        let size = |part: &str| {
            let error = |error| ParseRangeError::Size { text: text.to_string(), error };
            parse_bytes(part).map(ByteSize::get).map_err(error)
        };
        let range = if let Some((from, to)) = text.split_once("..") {
            let end = (!to.is_empty()).then(|| size(to)).transpose()?;
            Self { start: size(from)?, end }
        } else if let Some((from, length)) = text.split_once('+') {
            let start = size(from)?;
            let end = start.checked_add(size(length)?);
            Self { start, end: Some(end.unwrap_or(u64::MAX)) }
        } else {
            return Err(ParseRangeError::NoRange(text.to_string()));
        };
        match range.end {
            Some(end) if end <= range.start => Err(ParseRangeError::Empty(text.to_string())),
            _ => Ok(range),
        }
    }
}

impl fmt::Display for ByteRange {
    /// The exact range, as it is parsed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..", Exact(self.start))?;
        self.end.map_or(Ok(()), |end| Exact(end).fmt(f))
    }
}

/// A size in the largest binary unit that divides it.
struct Exact(u64);

impl fmt::Display for Exact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
        let unit = units.iter().find(|(_, bits)| self.0 > 0 && self.0.trailing_zeros() >= *bits);
        match unit {
            Some((unit, bits)) => write!(f, "{}{unit}", self.0 >> bits),
            None => write!(f, "{}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_written_in_three_forms_and_printed_as_they_are_parsed() {
        let gib = 1_u64 << 30;
        for (text, start, end, printed) in [
            ("10GiB..20GiB", 10 * gib, Some(20 * gib), "10GiB..20GiB"),
            ("10G+512", 10 * gib, Some(10 * gib + 512), "10GiB..10737418752"),
            ("0..1TB", 0, Some(1_000_000_000_000), "0..976562500KiB"),
            ("1.5MiB..", 3 << 19, None, "1536KiB.."),
        ] {
            let range: ByteRange = text.parse().expect(text);
            assert_eq!(range, ByteRange { start, end }, "{text}");
            assert_eq!(range.to_string(), printed);
            assert_eq!(printed.parse(), Ok(range));
        }
    }

    #[test]
    fn other_texts_are_refused_with_an_example() {
        for text in
            ["", "10GiB", "..", "1GiB..1GiB", "2GiB..1GiB", "5+0", "1x..2x", "..1GiB", "-1..2"]
        {
            let error = text.parse::<ByteRange>().expect_err(text).to_string();
            assert!(error.contains("such as") || error.contains("write"), "{error}");
        }
    }
}
